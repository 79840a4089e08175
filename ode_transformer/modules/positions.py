"""Position encodings."""

import math
from typing import Any, Optional

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Sines, then cosines, of a token's own index from 0 (fairseq's begin at 2); padding has none.

    Args:
        embed_dim: C.
        padding_idx: the padding symbol.
    """

    max_positions = 10**9
    """Any length."""

    def __init__(self, embed_dim: int, padding_idx: int):
        super().__init__()
        half = embed_dim // 2
        frequency = torch.exp(torch.arange(half) * (-math.log(10000) / (half - 1)))
        self.register_buffer("frequency", frequency, persistent=False)
        self.padding_idx = padding_idx

    def forward(self, tokens: Tensor, incremental_state: Optional[Any] = None) -> Tensor:
        """(B, T) tokens -> (B, T, C); all of them when decoding step by step too, the caller takes the last."""
        real = tokens.ne(self.padding_idx)
        index = (real.cumsum(1) - 1).unsqueeze(-1)
        angle = index * self.frequency.float()
        return (torch.cat((angle.sin(), angle.cos()), dim=-1) * real.unsqueeze(-1)).type_as(self.frequency)
