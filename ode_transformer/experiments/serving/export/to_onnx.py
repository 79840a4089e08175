"""Export to two ONNX graphs; ``from_onnx.py`` describes their inputs and outputs, and runs them.

The modules keep their caches of incremental decoding in a dictionary, ``incremental_state``, whose content a step on an
example shows. The caches of the source, which have an entry ``hypotheses``, are outputs of the first graph; the growing
caches pass through the second. Nothing here depends on what a module caches, or how many stages its layer has.

The modules check batches for padding, but a graph has to work for every batch: in it, sources may have padding and
hypotheses never do. Positions, which fairseq computes for the lengths of the batch, come from tables as long as the
model's longest sentence.
"""

import contextlib
import copy
import logging
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import onnx
import onnxscript  # noqa: F401  PyTorch's exporter needs it
import torch
from fairseq.data import Dictionary
from fairseq.modules import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from onnx import TensorProto, helper
from onnxruntime import quantization
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ..pytorch import PyTorch
from .from_onnx import NEXT

OPSET = 18
"""The version of ONNX's operator set."""


class _ForEveryBatch(TorchFunctionMode):
    """A mode in which ``any``, which modules call on padding masks only, is true unless the mask has one column."""

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.any, Tensor.any):
            columns = args[0].size(-1)
            return torch.tensor(not (isinstance(columns, int) and columns < 2))
        return func(*args, **(kwargs or {}))


def _by_table(self: nn.Module, tokens: Tensor, incremental_state: Optional[dict] = None, **_: Any) -> Tensor:
    """Return fairseq's position embeddings, (B, T) -> (B, T, C), or (B, 1, C) in incremental decoding."""
    table = self.weights if isinstance(self, SinusoidalPositionalEmbedding) else self.weight
    real = tokens.ne(self.padding_idx)
    positions = F.embedding(real.cumsum(1) * real + self.padding_idx, table)
    return positions if incremental_state is None else positions[:, -1:]


@contextlib.contextmanager
def _traceable(model: nn.Module) -> Iterator[None]:
    """A context in which the operations of a model do not depend on the batch."""
    for module in model.modules():
        if isinstance(module, (SinusoidalPositionalEmbedding, LearnedPositionalEmbedding)):
            module.forward = types.MethodType(_by_table, module)
    with torch.no_grad(), _ForEveryBatch():
        yield


class Caches:
    """The tensors of a model's ``incremental_state``, after a step on an example, by name and in order."""

    def __init__(self, model: nn.Module, state: dict[str, dict[str, Any]]):
        modules = {
            module._incremental_state_id: name.removeprefix("decoder.")
            for name, module in model.named_modules()
            if hasattr(module, "_incremental_state_id")
        }
        self.state = state
        self.names: dict[str, tuple[str, str]] = {}  # the keys of each tensor in the state, by its name
        for key, cache in state.items():
            module, _, kind = key.partition(".")
            for part, value in cache.items():
                if isinstance(value, Tensor):
                    self.names[f"{modules[module]}.{kind}.{part}"] = key, part
        self.of_source = [name for name, (key, _) in self.names.items() if "hypotheses" in state[key]]
        self.growing = [name for name in self.names if name not in self.of_source]

    def take(self, names: list[str], state: Optional[dict[str, dict[str, Any]]] = None) -> list[Tensor]:
        """Return the named tensors of a state, by default that of the example."""
        state = self.state if state is None else state
        return [state[key][part] for key, part in map(self.names.get, names)]

    def axes(self, names: list[str]) -> list[int]:
        """Return the axis of positions of each named tensor: 2 of (B, H, S, d), 1 of (B, S), 3 of (B, 1, 1, S)."""
        return [3 if name.endswith(".mask") else x.dim() // 2 for name, x in zip(names, self.take(names), strict=True)]

    def make(self, names: list[str], tensors: list[Tensor]) -> dict[str, dict[str, Any]]:
        """Return a copy of the example's state with the named tensors replaced."""
        state = {key: dict(cache) for key, cache in self.state.items()}
        for name, tensor in zip(names, tensors, strict=True):
            key, part = self.names[name]
            state[key][part] = tensor
        return state


class Graph(nn.Module):
    """A function to export, with its inputs of an example, their free axes, and the names of inputs and outputs."""

    def __init__(self, model: nn.Module, compute: Callable, inputs: tuple, axes: tuple, names: tuple[list, list]):
        super().__init__()
        self.model, self.compute, self.inputs, self.axes, self.names = model, compute, inputs, axes, names

    def forward(self, *inputs: Any) -> list[Tensor]:
        return self.compute(*inputs)


def _free(*axes: int) -> dict[int, Any]:
    return dict.fromkeys(axes, Dim.DYNAMIC)


def graphs(model: nn.Module, dictionary: Dictionary, longest: int) -> tuple[dict[str, Graph], Caches]:
    """Return the graphs of a model by name, and their caches.

    - ``encoder``: sources (B, S) -> the caches of the source.
    - ``decoder``, a step: symbols (B, n, T), order (B, n) and caches -> log-probabilities (B, n, V), and the growing
      caches.

    The model is in a context of :func:`_traceable`, and has at most ``longest`` positions.
    """
    positions = getattr(model, "position_encoder", None)
    solution = None if positions is None else positions.solve(longest)
    # It may reach further, even to where attention overflows; the tables end with the model.
    told = {} if solution is None else {"solution": [table[:longest] for table in solution]}

    def first_step(source: Tensor) -> dict[str, dict[str, Any]]:
        state: dict[str, dict[str, Any]] = {}
        out = model.encoder(source, None, **told)
        begin = source.new_full((source.size(0), 1), dictionary.eos())
        model.decoder(begin, out, incremental_state=state, **told)
        return state

    def step(tokens: Tensor, order: Tensor, of_source: list[Tensor], growing: list[Tensor]) -> list[Tensor]:
        order = order.flatten()
        kept = [x.index_select(0, order) for x in growing]
        state = caches.make([*caches.of_source, *caches.growing], [*of_source, *kept])
        tokens, shape = tokens.flatten(0, 1), tokens.shape[:2]
        # Without an encoder output, cross-attention would be skipped; its keys and values are in the state.
        source = model.encoder.embed_tokens.weight.new_zeros(1, tokens.size(0), model.cfg.encoder.embed_dim)
        encoder_out = {"encoder_out": [source], "encoder_padding_mask": []}
        out = model.decoder(tokens, encoder_out, incremental_state=state, **told)
        log_probs = model.get_normalized_probs((out[0][:, -1:], None), log_probs=True)
        return [log_probs.unflatten(0, shape)[:, :, 0], *caches.take(caches.growing, state)]

    # B, n, T and S are different and above 1, or PyTorch would take them for constants.
    source, tokens, rows = *(torch.full(size, dictionary.unk()) for size in ((3, 6), (3, 4, 5))), 7
    source[:, -1] = dictionary.eos()
    caches = Caches(model, first_step(source))
    of_source, growing = caches.of_source, caches.growing
    grown = [  # the caches of a previous step with that many rows
        x.new_zeros([rows, *x.shape[1:]]).repeat_interleave(tokens.size(2) - 1, axis)
        for x, axis in zip(caches.take(growing), caches.axes(growing), strict=True)
    ]
    free = ([_free(0, axis) for axis in caches.axes(names)] for names in (of_source, growing))
    return {
        "encoder": Graph(
            model,
            lambda source: caches.take(of_source, first_step(source)),
            (source,),
            (_free(0, 1),),
            (["source"], of_source),
        ),
        "decoder": Graph(
            model,
            step,
            (tokens, torch.arange(12).view(3, 4) % rows, caches.take(of_source), grown),
            (_free(0, 1, 2), _free(0, 1), *free),
            (["tokens", "order", *of_source, *growing], ["log_probs", *(name + NEXT for name in growing)]),
        ),
    }, caches


def write(model: PyTorch, folder: Path) -> None:
    """Write ``encoder.onnx`` and ``decoder.onnx``, in single precision."""
    (network,) = copy.deepcopy(model.models)
    with _traceable(network):
        found, _ = graphs(network, model.dictionaries[1], max(model.finite.values()))
        # Not strict: the Python code is run once, so that the graphs contain no dictionaries.
        programs = {
            name: torch.export.export(graph, graph.inputs, dynamic_shapes=(graph.axes,), strict=False)
            for name, graph in found.items()
        }
    with _quiet():
        for name, graph in found.items():
            torch.onnx.export(
                programs[name],
                f=str(folder / f"{name}.onnx"),
                input_names=graph.names[0],
                output_names=graph.names[1],
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    _add_candidates(folder / "decoder.onnx")


def _add_candidates(path: Path) -> None:
    """Add the ``count`` best next symbols of each hypothesis, (B, n, count), to the outputs of the decoder's graph."""
    model = onnx.load(path)
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("count", TensorProto.INT64, [1]))
    graph.node.append(helper.make_node("TopK", ["log_probs", "count"], ["values", "symbols"], axis=-1))
    for name, kind in (("values", TensorProto.FLOAT), ("symbols", TensorProto.INT64)):
        graph.output.append(helper.make_tensor_value_info(name, kind, ["sentences", "hypotheses", "candidates"]))
    onnx.checker.check_model(model)
    onnx.save(model, path)


def quantize(model: PyTorch, folder: Path) -> None:
    """Quantize the matrices of both graphs to 8-bit integers, with one scale per column; vectors have no columns."""
    with _quiet():
        for name in ("encoder.onnx", "decoder.onnx"):
            whole = folder / f"fp32-{name}"
            (folder / name).rename(whole)
            graph = onnx.load(whole).graph
            vectors = {weight.name for weight in graph.initializer if len(weight.dims) < 2}
            quantization.quantize_dynamic(
                whole,
                folder / name,
                per_channel=True,
                reduce_range=True,  # weights of 7 bits: with 8, sums overflow on processors without VNNI
                weight_type=quantization.QuantType.QInt8,
                nodes_to_exclude=[n.name for n in graph.node if n.op_type == "MatMul" and vectors & set(n.input)],
            )
            whole.unlink()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context without warnings of the exporter and the quantizer, which concern image models."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
