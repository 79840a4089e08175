"""CUDA graphs of training passes: a model's forward and backward pass is recorded once per shape, and then replayed.

In eager mode the host launches every kernel by itself, and at usual batch sizes a GPU waits for it most of the time; a
graph is one launch. It has fixed shapes, so batches are padded to few of them (``padded_size``), with padding symbols
and with sentences that hold nothing but an end of sentence. Losses and gradients stay the same up to rounding; the
random numbers of dropout are others. Recording costs as much as a few updates: a shape is recorded when it comes for
the second time, as long as there are fewer than ``MOST_SHAPES``, and all other passes run in eager mode.

All graphs share one pool of memory, in which every pass overwrites the one before. In a training step the backward pass
comes before the next forward pass; a backward pass that comes later is refused.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch._utils import _unflatten_dense_tensors
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..errors import OdeTransformerError

logger = logging.getLogger(__name__)

MOST_SHAPES = 256
"""How many shapes are recorded; the driver keeps some megabytes for each."""

_WARM_UPS = 2  # passes before a recording, in which libraries load their kernels and allocate their workspaces


def padded_size(size: int, least: int) -> int:
    """The size that a dimension of a batch is padded to; there are eight sizes from one power of two to the next.

    Args:
        size: the size as it is, 1 or more.
        least: a power of two, of which the result is a multiple.
    """
    step = max(least, 2 ** (size - 1).bit_length() // 16)
    return -(-size // step) * step


def padded(tokens: Tensor, rows: int, columns: int, pad: int, eos: int, left: bool) -> Tensor:
    """Tokens (B, T) -> (rows, columns), with padding on one side, and further sentences that are empty.

    Args:
        tokens: (B, T).
        rows, columns: at least B and T.
        pad, eos: the indices of padding and of the end of sentence.
        left: whether padding is added on the left.
    """
    batch, length = tokens.shape
    wide = F.pad(tokens, (columns - length, 0) if left else (0, columns - length), value=pad)
    empty = wide.new_full((rows - batch, columns), pad)
    empty[:, -1 if left else 0] = eos
    return torch.cat((wide, empty))


class RecordedPass:
    """A forward pass and its backward pass at one shape, as two CUDA graphs.

    Args:
        run: tokens, (B, S) or (B, T) each -> the output, a tensor.
        inputs: the tokens of the first pass.
        parameters: the parameters that receive gradients, of one type.
        gradients: one tensor per parameter, into which every backward pass copies what it finds.
        pool: the pool of memory.
    """

    def __init__(
        self,
        run: Callable[..., Tensor],
        inputs: Sequence[Tensor],
        parameters: Sequence[nn.Parameter],
        gradients: Sequence[Tensor],
        pool: tuple,
    ):
        self.inputs = [x.clone() for x in inputs]
        # Casts of parameters that autocast keeps from one operation to the next would be those of the recording.
        cast = nullcontext()
        if torch.is_autocast_enabled("cuda"):
            cast = torch.autocast("cuda", torch.get_autocast_dtype("cuda"), cache_enabled=False)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), cast:
            for _ in range(_WARM_UPS):
                output = run(*self.inputs)
                torch.autograd.grad(output, parameters, torch.zeros_like(output), allow_unused=True)
            del output
        torch.cuda.current_stream().wait_stream(stream)
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        # Other threads go on meanwhile: the one that pins the memory of batches may allocate.
        more = {"pool": pool, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(self.forward, **more), cast:
            output = run(*self.inputs)
        self.output, self.grad_output = output.detach(), torch.empty_like(output)
        with torch.cuda.graph(self.backward, **more):
            found = torch.autograd.grad(output, parameters, self.grad_output, allow_unused=True)
            self.used = [gradient is not None for gradient in found]
            into = [gradient for gradient, used in zip(gradients, self.used, strict=True) if used]
            torch._foreach_copy_(into, [gradient for gradient in found if gradient is not None])


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, graphs: "TrainingGraphs", recorded: RecordedPass, *parameters: Tensor) -> Tensor:
        graphs.passes += 1
        ctx.graphs, ctx.recorded, ctx.number = graphs, recorded, graphs.passes
        recorded.forward.replay()
        return recorded.output.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple:
        graphs, recorded = ctx.graphs, ctx.recorded
        if ctx.number != graphs.passes:
            raise OdeTransformerError(
                "--cuda-graphs: a backward pass came after another forward pass, which overwrote what it needs; train "
                "without this option if the criterion makes several passes"
            )
        recorded.grad_output.copy_(grad_output)
        recorded.backward.replay()
        found = _unflatten_dense_tensors(graphs.flat.clone(), graphs.gradients)
        return None, None, *(g if used else None for g, used in zip(found, recorded.used, strict=True))


class TrainingGraphs:
    """The recorded training passes of a model, by shape.

    Args:
        pad, eos: the indices of padding and of the end of sentence.
    """

    def __init__(self, pad: int, eos: int):
        self.pad, self.eos = pad, eos
        self.seen: Counter[tuple] = Counter()
        self.recorded: dict[tuple, RecordedPass] = {}
        self.passes = 0  # the number of forward passes so far
        self.parameters: list[nn.Parameter] = []
        self.places: Optional[list[tuple[int, torch.dtype]]] = None  # of the parameters, when passes were recorded
        self._pool: Optional[tuple] = None
        self._said = False

    def __reduce__(self) -> tuple:
        """A copy of a model has no recorded passes."""
        return type(self), (self.pad, self.eos)

    def __call__(
        self, model: nn.Module, run: Callable[..., tuple[Tensor, Any]], tokens: dict[str, Tensor], **more: Any
    ) -> tuple[Tensor, Any]:
        """The output of a model's pass, (B, T, ...), and what the model says besides, which is empty after a replay.

        Args:
            model: the model, whose parameters have to stay where they are; when they have moved, all is forgotten.
            run: the model's pass in eager mode, which receives the tokens and everything else by name.
            tokens: by name, (B, S) or (B, T); the last are those whose positions the output has.
            more: what else the model is given.
        """
        if not (model.training and torch.is_grad_enabled()):
            return run(**tokens, **more)
        if not self._can_record(next(iter(tokens.values()))):
            return run(**tokens, **more)
        batch = len(next(iter(tokens.values())))
        rows, columns = padded_size(batch, 8), [padded_size(t.size(1), 2) for t in tokens.values()]
        key = (rows, *columns, *more.items(), torch.is_autocast_enabled("cuda"))
        self._forget_if_moved(model)
        self.seen[key] += 1
        if key not in self.recorded and (self.seen[key] == 1 or len(self.recorded) == MOST_SHAPES):
            return run(**tokens, **more)
        last = list(tokens)[-1]
        inputs = [
            padded(t, rows, length, self.pad, self.eos, left=name != last)
            for (name, t), length in zip(tokens.items(), columns, strict=True)
        ]
        if key not in self.recorded:
            names = list(tokens)
            self.recorded[key] = self._record(
                lambda *inputs: run(**dict(zip(names, inputs, strict=True)), **more)[0], inputs
            )
            self._report()
        recorded = self.recorded[key]
        torch._foreach_copy_(recorded.inputs, inputs)
        output = _Replay.apply(self, recorded, *self.parameters)
        return output[:batch, : tokens[last].size(1)], {"attn": [None], "inner_states": None}

    def _forget_if_moved(self, model: nn.Module) -> None:
        parameters = [p for p in model.parameters() if p.requires_grad]
        places = [(p.data_ptr(), p.dtype) for p in parameters]
        if places == self.places:
            return
        if len({kind for _, kind in places}) > 1:
            raise OdeTransformerError("--cuda-graphs: needs parameters of one type")
        self.recorded.clear()
        self.parameters, self.places = parameters, places
        # Gradients leave the pool's memory, which the next pass overwrites, as one tensor.
        self.flat = torch.empty(
            sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device
        )
        self.gradients = _unflatten_dense_tensors(self.flat, parameters)

    def _record(self, run: Callable[..., Tensor], inputs: Sequence[Tensor]) -> RecordedPass:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return RecordedPass(run, inputs, self.parameters, self.gradients, self._pool)

    def _report(self) -> None:
        """Say how many shapes there are: of the first, of every power of two, and of the last."""
        count = len(self.recorded)
        if count & (count - 1) == 0 or count == MOST_SHAPES:
            passes = sum(self.seen.values())
            logger.info(f"--cuda-graphs: recorded {count} of {len(self.seen)} shapes in {passes} passes")

    def _can_record(self, tokens: Tensor) -> bool:
        if tokens.device.type != "cuda" and not self._said:
            self._said = True
            logger.warning("--cuda-graphs: has no effect on a CPU")
        return tokens.device.type == "cuda"
