"""The mathematics: plain Python and PyTorch, no fairseq."""
