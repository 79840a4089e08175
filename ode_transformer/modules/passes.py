"""How a layer runs in training: compiled (``--compile-layers``), or computed again in the backward pass."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..errors import OdeTransformerError

_VARIANTS = 64  # of the layers of a model: encoder's and decoder's, for some kinds of sizes each


def recompute(asked: bool, function: Callable, *args: Any) -> Any:
    """Return the result of a function; if asked, keep its arguments alone, and call it again in the backward pass.

    This must not be asked with a cache of incremental decoding, to which a second call would append again.

    fairseq's checkpointing runs a backward pass within the backward pass. There distributed training receives the
    gradient of a parameter that layers share, such as a gate, once per layer, and stops. PyTorch's non-reentrant
    checkpointing has no such inner pass.

    It calls the function again with the random numbers of the first call. In the CUDA graph of a backward pass their
    generator cannot be set back to where it was in that of the forward pass, so that the results of random operations
    (dropout, and PyTorch's attention even without dropout) are kept.
    """
    if not (asked and torch.is_grad_enabled()):
        return function(*args)
    if _is_recording():
        keeps = {"context_fn": _keep_random, "preserve_rng_state": False}
        return checkpoint(function, *args, use_reentrant=False, **keeps)
    return checkpoint(function, *args, use_reentrant=False)


def _is_recording() -> bool:
    may = not torch.compiler.is_compiling() and torch.cuda.is_available()
    return may and torch.cuda.is_current_stream_capturing()


def _keep_random() -> tuple:
    def policy(context: Any, operation: Any, *args: Any, **more: Any) -> CheckpointPolicy:
        random = torch.Tag.nondeterministic_seeded in operation.tags
        return CheckpointPolicy.MUST_SAVE if random else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def run_layer(stack: nn.Module, layer: nn.Module, x: Tensor, context: Any, *more: Any) -> Any:
    """Return the result of a layer, in training of its compiled form if its stack has ``--compile-layers``.

    Layers of one kind, or TransEvolve's blocks, share the compiled code, which is compiled once for all sizes of a
    batch. Evaluation and decoding stay in eager mode.
    """
    if stack.compile_layers and stack.training and context.incremental_state is None:
        return _compiled()(layer, x, context, *more)
    return layer(x, context, *more)


def _call(layer: nn.Module, *args: Any) -> Any:
    return layer(*args)


@functools.cache
def _compiled() -> Callable:
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except RuntimeError as error:
        sentence = "--compile-layers: needs a C++ compiler; install one, or train without this option"
        raise OdeTransformerError(sentence) from error
    torch._dynamo.config.optimize_ddp = False  # which would divide layers: each is a graph of its own already
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _VARIANTS)
    return torch.compile(_call, dynamic=True)
