"""Dropout that a CPU can afford.

PyTorch draws a number of double precision for every element on a CPU, which takes longer than a small matrix product:
a quarter of a tiny model's training step. Sixteen random bits an element serve as well. The probability is then a
multiple of 2^-16, and what is kept is scaled by exactly its inverse, so that the expectation stays.
"""

import torch
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn
from torch.nn import functional as F

_BITS = 16


def dropout(x: Tensor, p: float) -> Tensor:
    """Each element is zero with probability p, and divided by 1 - p else.

    Args:
        x: of any shape.
        p: from 0 to 1; on a CPU rounded to a multiple of 2^-16, unless that is 0 or 1. Under ``torch.compile``, which
            draws numbers of its own, it is PyTorch's dropout everywhere.
    """
    dropped = round(p * 2**_BITS)
    if x.device.type != "cpu" or dropped in (0, 2**_BITS) or torch.compiler.is_compiling():
        return F.dropout(x, p)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)  # four draws a word
    words.random_(-(2**63), None)
    kept = words.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2 ** (_BITS - 1)
    return x * kept.to(x.dtype).mul_(2**_BITS / (2**_BITS - dropped))


class Dropout(FairseqDropout):
    """fairseq's module, with ``dropout``."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """As of fairseq's; never in place."""
        if self.p > 0 and (self.training or self.apply_during_inference):
            return dropout(x, self.p)
        return x


def replace_dropout(model: nn.Module) -> None:
    """Make the dropouts that fairseq built ours."""
    for module in model.modules():
        if type(module) is FairseqDropout:
            module.__class__ = Dropout
