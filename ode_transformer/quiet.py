"""Suppression of what fairseq and hydra print at every start."""

import contextlib
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def tidy() -> Iterator[None]:
    """Suppress log messages below warnings, and Python's warnings, which fairseq, hydra and PyTorch give of each other.

    Where logging is not configured, importing fairseq makes all loggers of the process print from INFO on, such as the
    hint at tensorboardX. Configuring it for warnings before that import prevents this.
    """
    root, handlers = logging.getLogger(), []
    if not root.handlers:
        handlers.append(logging.StreamHandler())
        handlers[0].setLevel(logging.WARNING)
        handlers[0].setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        root.addHandler(handlers[0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
