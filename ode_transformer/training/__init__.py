"""Training: a criterion, optimizers and tasks of encoders for fairseq, and CUDA graphs of training passes."""
