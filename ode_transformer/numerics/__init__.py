"""The mathematics, in Python, PyTorch and torchdiffeq, without fairseq."""
