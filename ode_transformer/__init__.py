"""Transformers as numerical solutions of ordinary differential equations, as a fairseq plugin.

Importing this package registers its architectures with fairseq and does nothing else, whether fairseq imports
it (``--user-dir``) or a notebook does.
"""

from .requirements import check_requirements
from .version import __version__

check_requirements()

from . import checkpoints  # noqa: E402  allows the Namespace of stock fairseq's checkpoints to be loaded
from .families import classification, floater, macaron, ode, transevolve  # noqa: E402

__all__ = ["__version__", "checkpoints", "classification", "floater", "macaron", "ode", "transevolve"]
