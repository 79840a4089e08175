"""CUDA graphs of training passes: a model's forward and backward pass is recorded once per shape, and then replayed.

In eager mode the host launches every kernel by itself, and at usual batch sizes a GPU waits for it most of the time; a
graph is one launch. It has fixed shapes, so batches are padded to few of them (``padded_shape``), with padding symbols
and with sentences that hold nothing but an end of sentence. Losses and gradients stay the same up to rounding; the
random numbers of dropout are others. Recording costs as much as a few updates: a shape is recorded when it comes for
the second time, as long as there are fewer than ``MOST_SHAPES``, and all other passes run in eager mode.

All graphs share one pool of memory, in which every pass overwrites the one before; outputs and gradients are copied out
of it. In a training step the backward pass comes before the next forward pass; one that comes later is refused.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._utils import _unflatten_dense_tensors
from torch.autograd.function import once_differentiable
from torch.nn.utils.stateless import _reparametrize_module

from ..errors import OdeTransformerError

logger = logging.getLogger(__name__)

MOST_SHAPES = 256
"""How many shapes are recorded; the driver keeps some megabytes for each."""

_WARM_UPS = 2  # passes before a recording, in which libraries load their kernels and allocate their workspaces


def padded_size(size: int, least: int) -> int:
    """Round a size, 1 or more, up to one of eight per power of two, and to a multiple of ``least``, a power of two."""
    step = max(least, 2 ** (size - 1).bit_length() // 16)
    return -(-size // step) * step


def padded_shape(sentences: int, *lengths: int) -> tuple[int, ...]:
    """Return a batch's padded shape, (sentences, length, ...): 1, 2, 4 or multiples of 8 sentences, and of 2 tokens."""
    least = min(8, 2 ** (sentences - 1).bit_length())  # few sentences are long ones
    return padded_size(sentences, least), *(padded_size(length, 2) for length in lengths)


def fill(place: Tensor, tokens: Tensor, pad: int, eos: int, left: bool) -> None:
    """Copy tokens (B, T) into a larger batch, with padding on one side, and empty sentences after them."""
    batch, length = tokens.shape
    place.fill_(pad)
    place[batch:, -1 if left else 0] = eos
    place[:batch, place.size(1) - length if left else 0 :][:, :length] = tokens


class RecordedPass:
    """A forward pass and its backward pass at one shape, as two CUDA graphs.

    Args:
        run: tokens, (B, S) or (B, T) each -> the output, a tensor.
        inputs: memory with the tokens of the first pass, into which every later one brings its own.
        parameters: the parameters that receive gradients, of one type.
        gradients: one tensor per parameter, into which every backward pass copies its gradient.
        place: an output -> a tensor of its shape, into which every forward pass copies its output, and from which every
            backward pass takes the gradient of the output.
        pool: the pool of memory of earlier recordings, or None.
    """

    def __init__(
        self,
        run: Callable[..., Tensor],
        inputs: Sequence[Tensor],
        parameters: Sequence[nn.Parameter],
        gradients: Sequence[Tensor],
        place: Callable[[Tensor], Tensor],
        pool: tuple | None,
    ):
        self.inputs = inputs
        # Casts of parameters that autocast keeps from one operation to the next would be those of the recording.
        cast, uncast = nullcontext(), torch.autocast("cuda", enabled=False)  # a backward pass is never under autocast
        if torch.is_autocast_enabled("cuda"):
            cast = torch.autocast("cuda", torch.get_autocast_dtype("cuda"), cache_enabled=False)
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        # Other threads go on meanwhile: the one that pins the memory of batches may allocate.
        mode = {"capture_error_mode": "thread_local"}
        recording = torch.cuda.graph(self.forward, pool, **mode)
        stream = recording.capture_stream  # always the same, because cuBLAS keeps memory for every stream
        stream.wait_stream(torch.cuda.current_stream())
        torch.cuda.empty_cache()  # memory that eager passes have left on their stream is of no use to this one
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                with cast:
                    output = run(*self.inputs)
                with uncast:
                    torch.autograd.grad(output, parameters, torch.zeros_like(output), allow_unused=True)
        torch.cuda.current_stream().wait_stream(stream)
        self.output = place(output.detach())
        del output
        with recording, cast:
            output = run(*self.inputs)
            self.output.copy_(output.detach())
        with torch.cuda.graph(self.backward, self.forward.pool(), **mode), uncast:
            found = torch.autograd.grad(output, parameters, self.output, allow_unused=True)
            self.used = [gradient is not None for gradient in found]
            into = [gradient for gradient, used in zip(gradients, self.used, strict=True) if used]
            torch._foreach_copy_(into, [gradient for gradient in found if gradient is not None])


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, graphs: "TrainingGraphs", recorded: RecordedPass, *parameters: Tensor) -> Tensor:
        graphs.passes += 1
        ctx.graphs, ctx.recorded, ctx.number = graphs, recorded, graphs.passes
        recorded.forward.replay()
        return recorded.output.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple:
        graphs, recorded = ctx.graphs, ctx.recorded
        if ctx.number != graphs.passes:
            raise OdeTransformerError(
                "--cuda-graphs: another pass, forward or backward, has overwritten what this backward pass needs; "
                "train without this option if the criterion makes several passes"
            )
        graphs.passes += 1  # a second backward pass would read what this one overwrites
        recorded.output.copy_(grad_output)
        recorded.backward.replay()
        found = _unflatten_dense_tensors(graphs.flat.clone(), graphs.gradients)
        return None, None, *(g if used else None for g, used in zip(found, recorded.used, strict=True))


class _OutputAlone(dict):
    """The further outputs of a model after a replay: none."""

    def __missing__(self, name: str) -> Any:
        raise OdeTransformerError(
            f"--cuda-graphs: a recorded pass has no {name!r}; train without this option if the criterion reads it"
        )


class TrainingGraphs:
    """The recorded training passes of a model, by shape; ``pad`` and ``eos`` are the symbols that fill a batch."""

    def __init__(self, pad: int, eos: int):
        self.pad, self.eos = pad, eos
        self.seen: Counter[tuple] = Counter()
        self.recorded: dict[tuple, RecordedPass] = {}
        self.passes = 0  # the number of replays so far, forward and backward
        self.parameters: list[nn.Parameter] = []
        self.owned: list[dict[str, Tensor | None]] = []  # the parameters and buffers of every module, by name
        self.places: list[tuple] | None = None  # of these, when passes were recorded
        self.hooks: list[dict] = []  # of every module
        self.waited = 0  # the number of passes in eager mode
        self.eager: set[tuple] = set()  # shapes for whose recording there was too little memory
        self.seconds = 0.0  # that recordings have taken
        self.flat = self.output = torch.empty(0)  # memory of the gradients, and of outputs
        self.gradients: Sequence[Tensor] = ()
        self._said: set[str] = set()

    def __reduce__(self) -> tuple:
        """A copy of a model has no recorded passes."""
        return type(self), (self.pad, self.eos)

    def __call__(
        self, model: nn.Module, run: Callable[..., tuple[Tensor, Any]], tokens: dict[str, Tensor], **more: Any
    ) -> tuple[Tensor, Any]:
        """Return the output of a model's pass, (B, T, ...), and its further outputs, which a replay lacks.

        Args:
            model: the model, always the same, and of the same modules; all recordings are discarded when its
                parameters or buffers have moved.
            run: the model's pass in eager mode, which receives the tokens and further arguments by name.
            tokens: by name, (B, S) or (B, T); the output has the positions of the last.
            more: further arguments of the model; if any is not a number, a string or None, the pass is in eager mode,
                as it is while a module has hooks.
        """
        first = next(iter(tokens.values()))
        fixed = all(value is None or isinstance(value, (int, float, str)) for value in more.values())
        trains = model.training and torch.is_grad_enabled()
        if not (trains and fixed and self._can_record(model, first)):
            return run(**tokens, **more)
        batch = len(first)
        rows, *columns = padded_shape(batch, *(t.size(1) for t in tokens.values()))
        cast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        key = (rows, *columns, *more.items(), cast)
        self._forget_if_moved(model)
        if self.waits(key):
            return run(**tokens, **more)
        last, recorded = list(tokens)[-1], self.recorded.get(key)
        inputs = recorded.inputs if recorded else [first.new_empty(rows, length) for length in columns]
        for place, (name, its) in zip(inputs, tokens.items(), strict=True):
            fill(place, its, self.pad, self.eos, left=name != last)
        if not recorded:
            self._record(key, model, lambda *its: run(**dict(zip(tokens, its, strict=True)), **more)[0], inputs)
        if key in self.eager:
            return run(**tokens, **more)
        output = _Replay.apply(self, self.recorded[key], *self.parameters)
        return output[:batch, : tokens[last].size(1)], _OutputAlone()

    def waits(self, key: tuple) -> bool:
        """Count a pass of a shape, and return whether it is in eager mode: the shape is new, or there are too many, or
        there was too little memory.
        """
        self.seen[key] += 1
        too_much = key in self.eager or len(self.recorded) == MOST_SHAPES
        waits = key not in self.recorded and (self.seen[key] == 1 or too_much)
        self.waited += waits
        return waits

    def _forget_if_moved(self, model: nn.Module) -> None:
        # A table of sinusoids moves when it grows, and gradients may be turned off after some updates.
        if not self.owned:  # walking through the modules in every pass would take longer than all else here
            self.owned = [its for module in model.modules() for its in (module._parameters, module._buffers)]
        tensors = (t for its in self.owned for t in its.values() if t is not None)
        places = [(t.data_ptr(), t.dtype, t.requires_grad) for t in tensors]
        if places == self.places:
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        if len({p.dtype for p in parameters}) > 1:
            raise OdeTransformerError("--cuda-graphs: needs parameters of one type")
        self.recorded.clear()
        self.parameters, self.places = parameters, places
        # Gradients leave the pool's memory, which the next pass overwrites, as one tensor.
        self.flat = torch.empty(
            sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device
        )
        self.gradients = _unflatten_dense_tensors(self.flat, parameters)

    def _record(self, key: tuple, model: nn.Module, run: Callable[..., Tensor], inputs: Sequence[Tensor]) -> None:
        """Record a pass of a shape, or note that there is too little memory for it."""
        # Parameters by themselves, in the same memory. DistributedDataParallel keeps the nodes that accumulate the
        # model's gradients; those run on the stream on which they were made, which a recording must not touch.
        own = {name: nn.Parameter(p.detach()) for name, p in model.named_parameters() if p.requires_grad}
        with_own = _reparametrize_module(model, own, tie_weights=True, stack_weights=True)
        pool = next((one.forward.pool() for one in self.recorded.values()), None)  # lives as long as one of its graphs
        parameters, began, its = list(own.values()), time.monotonic(), None
        try:
            # The backward pass, too, may run layers. A recording that fails may not return to its stream by itself.
            with with_own, torch.cuda.stream(torch.cuda.current_stream()):
                its = RecordedPass(run, inputs, parameters, self.gradients, self._place, pool)
        except RuntimeError as error:
            if isinstance(error.__context__, torch.cuda.OutOfMemoryError):  # PyTorch still takes this for a recording
                raise OdeTransformerError(
                    "--cuda-graphs: memory did not suffice to record a pass; train with fewer --max-tokens, or without "
                    "this option"
                ) from error
            if "out of memory" not in str(error):  # which CUDA says outside of PyTorch's allocator, too
                raise
        if its is None:  # and the traceback that held the memory of the recording is gone
            self.recorded.clear()  # the pool would keep that memory as long as another graph uses it
            torch.cuda.empty_cache()
            self.eager.add(key)
            self.waited += 1
            shape = " x ".join(str(size) for size in key[: 1 + len(inputs)])
            logger.warning(f"--cuda-graphs: too little memory to record batches of {shape}; they stay in eager mode")
            return
        self.recorded[key] = its
        self.seconds += time.monotonic() - began
        # After the first recording, at every power of two, and at the last one.
        count = len(self.recorded)
        if count & (count - 1) == 0 or count == MOST_SHAPES:
            passes = sum(self.seen.values())
            logger.info(
                f"--cuda-graphs: recorded {count} of {len(self.seen)} shapes, in {self.seconds:.1f} s; of {passes} "
                f"passes, {self.waited} were in eager mode"
            )

    def _warn(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            logger.warning(f"--cuda-graphs: {why}")

    def _place(self, output: Tensor) -> Tensor:
        """Return memory for an output and its gradient, in the output's shape, which all recorded passes share."""
        if self.output.numel() < output.numel() or self.output.dtype != output.dtype:
            self.output = output.new_empty(2 ** (output.numel() - 1).bit_length())
        return self.output[: output.numel()].view(output.shape)

    def _can_record(self, model: nn.Module, tokens: Tensor) -> bool:
        if not self.hooks:
            names = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"
            self.hooks = [getattr(module, name) for module in model.modules() for name in names]
        if hooked := any(self.hooks):
            self._warn("modules have hooks, which a replay would not call, so that passes are in eager mode")
        return not hooked and self._is_on_gpu(tokens)

    def _is_on_gpu(self, tokens: Tensor) -> bool:
        if tokens.device.type != "cuda":
            self._warn("has no effect on a CPU")
        return tokens.device.type == "cuda"
