"""Training: a criterion, optimizers and tasks of encoders for fairseq, and the execution of training passes."""
