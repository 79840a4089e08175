"""fairseq components besides models: a criterion, optimizers, and tasks of encoders. One file each."""
