"""Suppression of what fairseq and hydra print at every start."""

import contextlib
import logging
import warnings
from collections.abc import Iterator

NOISE = (
    r"hydra\.experimental\.(initialize|compose)\(\) is no longer experimental",
    r"\s*The strict flag in the compose API is deprecated",
    r"\s*The version_base parameter is not specified",
    r"In '.*': (Defaults list is missing `_self_`|Usage of deprecated keyword in package header)",
    r"\s*'.*' is validated against ConfigStore schema with the same name",
    r"`torch\.cuda\.amp\.(autocast|GradScaler)\(args\.\.\.\)` is deprecated",
    r"`torch\.jit\.script` is deprecated",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
"""Patterns of the warnings of fairseq, hydra and PyTorch's exporter about each other, which no user can fix."""


@contextlib.contextmanager
def tidy() -> Iterator[None]:
    """Suppress what fairseq and hydra print at every start: log messages below warnings, and ``NOISE``.

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
            for message in NOISE:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
