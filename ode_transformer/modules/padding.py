"""Padding, and when the host may ask whether a batch has any."""

from typing import Optional

import torch
from torch import Tensor


def can_ask(x: Tensor) -> bool:
    """Whether the host may ask for a value of a tensor.

    On a GPU it would have to wait for the answer, and a graph that is traced or captured has to serve every batch.
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def padding_or_none(padding: Tensor) -> Optional[Tensor]:
    """The padding, (B, T), true where there is no token; None if there is none, and the host may ask that."""
    return None if can_ask(padding) and not padding.any() else padding
