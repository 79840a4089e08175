"""The mathematics, in Python and PyTorch, without fairseq."""
