"""What may be unpickled from a checkpoint besides tensors and plain data; importing this module allows it.

It is allowed for the whole process and not in a scope, because fairseq-generate, resuming and
``--finetune-from-model`` load checkpoints by fairseq's own code.
"""

import argparse
import pickle
from typing import Any

import numpy as np
import torch
from fairseq.logging import meters

# Checkpoints of stock fairseq's architectures contain an argparse.Namespace, and those of versions before 0.10 also the
# trainer's meters, under the names that these had then. torch's weights-only loading refuses both until they are
# allowed; loading either of them runs no code.
_METERS = (meters.AverageMeter, meters.StopwatchMeter, meters.TimeMeter)
torch.serialization.add_safe_globals([argparse.Namespace, *((m, f"fairseq.meters.{m.__name__}") for m in _METERS)])


class _NumberKind:
    """The stand-in for ``numpy.dtype`` in a checkpoint."""

    def __init__(self, kind: str, *_: bool):
        self.kind = kind

    def __setstate__(self, state: tuple) -> None:
        self.order = state[1]


_KINDS = ("f8", "f4", "f2", "i8", "i4", "b1")


class _Array(np.ndarray):
    """The stand-in for ``numpy.ndarray`` in a checkpoint: an array of numbers, which is saved as one of NumPy's.

    It begins empty, whatever a file gives: NumPy's own constructor would take bytes for the addresses of objects.
    """

    def __new__(cls, *_: Any) -> "_Array":
        return super().__new__(cls, 0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, by_columns, content = state
        if kind.kind not in _KINDS or kind.order not in ("<", ">", "=", "|"):
            raise pickle.UnpicklingError(f"GLOBAL numpy.dtype({kind.kind!r}) is none of {', '.join(_KINDS)}")
        if any(size < 0 for size in shape):
            raise ValueError(f"an array has the shape {shape}")
        super().__setstate__((1, shape, np.dtype(kind.order.replace("|", "=") + kind.kind), by_columns, content))

    def __reduce__(self) -> tuple:
        return np.asarray(self).__reduce__()


def _number(kind: _NumberKind, content: bytes) -> float:
    number = _Array()
    number.__setstate__((1, (), kind, False, content))
    return number.item()


# fairseq stores the best score, which is one of NumPy's numbers where SciPy has computed it, as STS-B's correlations,
# and with --eval-bleu arrays of counts. Numbers are read as Python's. NumPy's own functions would take any type that
# the file names.
_CORES = [f"numpy.{core}.multiarray" for core in ("core", "_core")]
_NUMBERS = [(_number, f"{core}.scalar") for core in _CORES] + [(_Array, f"{core}._reconstruct") for core in _CORES]
torch.serialization.add_safe_globals([(_NumberKind, "numpy.dtype"), (_Array, "numpy.ndarray"), *_NUMBERS])
