"""Transformers as numerical solutions of ordinary differential equations, as a fairseq plugin.

Importing this package, whether fairseq does it (``--user-dir``) or a notebook, registers its architectures with
fairseq, lets old checkpoints load, and has PyTorch put cuDNN's attention last, unless the environment says otherwise.
"""

import os

from .requirements import check_requirements
from .version import __version__

check_requirements()

# PyTorch prefers cuDNN's attention on some GPUs, which plans anew for every shape; batches of text differ in theirs.
os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")

# The first allows the Namespace of stock fairseq's checkpoints to be loaded; the others register a loss, an optimiser.
from . import checkpoints, criterion, optim  # noqa: E402
from .families import classification, floater, language_model, macaron, ode, transevolve  # noqa: E402

__all__ = [
    "__version__",
    "checkpoints",
    "classification",
    "criterion",
    "floater",
    "language_model",
    "macaron",
    "ode",
    "optim",
    "transevolve",
]
