"""Sinusoids of positions, as in the papers' code: sines, then cosines."""

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, dim: int) -> Tensor:
    """sin(t w_j) for all j, then cos(t w_j), with w_j = 10000^(-j / (dim / 2 - 1)): t (...) -> (..., dim), dim even.

    They are computed in single precision, because bfloat16 does not tell neighboring positions near 1,000 apart.
    """
    half = dim // 2
    j = torch.arange(half, device=positions.device, dtype=torch.float32)
    angle = positions.float().unsqueeze(-1) * torch.exp(j * (-math.log(10000) / max(half - 1, 1)))
    return torch.cat((angle.sin(), angle.cos()), dim=-1)
