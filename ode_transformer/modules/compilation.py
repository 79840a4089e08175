"""Layers compiled by ``torch.compile``, for ``--compile-layers``."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_VARIANTS = 64  # of the layers of a model: of encoder and decoder, with and without weights that are returned


def compiled(layer: nn.Module, *args: Any) -> Any:
    """The result of a layer in its compiled form.

    Layers of one kind share the compiled code, which is compiled for all sizes of a batch at once.

    Args:
        layer: the layer.
        args: its arguments.
    """
    return _compiled()(layer, *args)


def _call(layer: nn.Module, *args: Any) -> Any:
    return layer(*args)


@functools.cache
def _compiled() -> Callable:
    torch._dynamo.config.recompile_limit = _VARIANTS  # beyond it the layers would silently be run in eager mode
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(_call, dynamic=True)
