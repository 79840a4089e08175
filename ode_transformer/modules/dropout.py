"""Dropout that is fast on a CPU.

On a CPU PyTorch draws a number in double precision for every element, which takes longer than a small matrix product: a
quarter of the training step of a tiny model. Sixteen random bits per element are enough. The probability is then a
multiple of 2^-16. Elements that are kept are divided by the probability of keeping one, in single precision exactly, so
that the expectation is the same.
"""

import torch
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn
from torch.nn import functional as F

_BITS = 16


def dropout(x: Tensor, p: float) -> Tensor:
    """x (any shape), each element set to zero with probability p, 0 to 1, and divided by 1 - p otherwise.

    On a CPU, p is rounded to a multiple of 2^-16, unless that is 0 or 1. On other devices, and under ``torch.compile``,
    which draws its own random numbers, this is PyTorch's dropout.
    """
    dropped = round(p * 2**_BITS)
    if x.device.type != "cpu" or not 0 < dropped < 2**_BITS or torch.compiler.is_compiling():
        return F.dropout(x, p)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)  # four draws per word
    words.random_(-(2**63), None)
    drawn = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = torch.ge(drawn, dropped - 2 ** (_BITS - 1), out=torch.empty_like(x))  # 0 or 1
    return x * (kept * (2**_BITS / (2**_BITS - dropped)))


class Dropout(FairseqDropout):
    """fairseq's dropout module, with ``dropout`` above."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """As in fairseq, but never in place."""
        if self.p > 0 and (self.training or self.apply_during_inference):
            return dropout(x, self.p)
        return x


_STOCK = {
    "Encoder": "TransformerEncoder",
    "EncoderLayer": "TransformerEncoderLayerBase",
    "Decoder": "TransformerDecoder",
    "DecoderLayer": "TransformerDecoderLayerBase",
    "StagedAttention": "MultiheadAttention",
}
"""Our classes, and the names of fairseq's by which ``--retain-dropout-modules`` selects them."""


def replace_dropout(model: nn.Module) -> None:
    """Turn fairseq's dropout modules in a model into ``Dropout``, under the module names of fairseq's Transformer."""
    for module in model.modules():
        if type(module) is FairseqDropout:
            module.__class__ = Dropout
            module.module_name = _STOCK.get(module.module_name, module.module_name)
