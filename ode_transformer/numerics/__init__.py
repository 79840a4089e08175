"""The mathematics, in plain Python and PyTorch, without fairseq."""
