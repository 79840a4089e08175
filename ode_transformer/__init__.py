"""Transformers as numerical solutions of ordinary differential equations, as a fairseq plugin.

Importing this package registers its architectures with fairseq and does nothing else, whether fairseq imports
it (``--user-dir``) or a notebook does.
"""

from .requirements import check_requirements
from .version import __version__

check_requirements()

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
