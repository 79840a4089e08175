"""How a layer runs in training: compiled (``--compile-layers``), or computed again in the backward pass."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from ..errors import OdeTransformerError

_VARIANTS = 64  # of the layers of a model: encoder's and decoder's, for some kinds of sizes each


def recompute(asked: bool, function: Callable, *args: Any) -> Any:
    """Return the result of a function; if asked, keep its arguments alone, and call it again in the backward pass.

    This must not be asked with a cache of incremental decoding, to which a second call would append again.

    fairseq's checkpointing runs a backward pass within the backward pass. There distributed training receives the
    gradient of a parameter that layers share, such as a gate, once per layer, and stops. PyTorch's non-reentrant
    checkpointing has no such inner pass.

    It calls the function again with the random numbers of the first call. In the CUDA graph of a backward pass their
    generator cannot be set back to where it was in that of the forward pass, so that masks of dropout and results of
    other random operations (PyTorch's attention, even without dropout) are kept.
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


class _Random(TorchDispatchMode):
    """Keeps what random operations draw, or has them draw it ``again``, in the same order."""

    def __init__(self, kept: deque, again: bool):
        super().__init__()
        self.kept, self.again = kept, again

    def __torch_dispatch__(self, operation: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in operation.tags:
            return operation(*args, **(kwargs or {}))
        if operation._schema.is_mutable:  # autograd would go on with its argument, not with what is kept
            raise OdeTransformerError(
                f"--cuda-graphs: with --checkpoint-activations, {operation} cannot draw in place; train without one of "
                "these options"
            )
        drops = operation is torch.ops.aten.native_dropout.default
        if self.again and drops:
            (x, p, _), mask = args, self.kept.popleft()
            return torch.ops.aten.native_dropout_backward(x, mask, 1 / (1 - p)), mask  # x mask / (1 - p)
        if self.again:
            return self.kept.popleft()
        found = operation(*args, **(kwargs or {}))
        if isinstance(found, Tensor):  # as of torch.rand, which may be changed in place
            self.kept.append(found.detach().clone())
        else:
            self.kept.append(found[1] if drops else tree_map_only(Tensor, Tensor.detach, found))
        return found


def _keep_random() -> tuple[_Random, _Random]:
    kept: deque = deque()
    return _Random(kept, again=False), _Random(kept, again=True)


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
