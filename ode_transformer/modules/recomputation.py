"""Activation checkpointing: what a layer computes is not kept for the backward pass, but computed again there."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def recompute(asked: bool, function: Callable, *args: Any) -> Any:
    """Call a function; if asked, keep only its arguments for the backward pass, and call it again there.

    fairseq's checkpointing runs a backward pass within the backward pass. There distributed training receives the
    gradient of a parameter that layers share, such as a gate, once per layer, and stops. PyTorch's non-reentrant
    checkpointing has no such inner pass.

    Args:
        asked: whether to compute again in the backward pass; otherwise the function is only called.
        function: what a layer computes.
        args: its arguments.

    Returns:
        What the function returns.
    """
    if not (asked and torch.is_grad_enabled()):
        return function(*args)
    return checkpoint(function, *args, use_reentrant=False)
