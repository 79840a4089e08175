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
        self.half = embed_dim // 2
        self.padding_idx = padding_idx
        self.register_buffer("dtype_of", torch.empty(0), persistent=False)  # follows the model's precision

    def forward(self, tokens: Tensor, incremental_state: Optional[Any] = None) -> Tensor:
        """(B, T) tokens -> (B, T, C); all of them when decoding step by step too, the caller takes the last."""
        real = tokens.ne(self.padding_idx)
        index = (real.cumsum(1) - 1).unsqueeze(-1)
        # In single precision whatever the model's: at position 1,000 bfloat16 could not tell one from the next.
        j = torch.arange(self.half, device=tokens.device, dtype=torch.float32)
        angle = index * torch.exp(j * (-math.log(10000) / (self.half - 1)))
        return (torch.cat((angle.sin(), angle.cos()), dim=-1) * real.unsqueeze(-1)).type_as(self.dtype_of)
