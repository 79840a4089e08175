"""Write a model as two ONNX graphs; ``from_onnx.py`` describes their inputs and outputs, and runs them.

The modules keep their caches of incremental decoding in a dictionary, ``incremental_state``. A step on an example shows
its content. The caches of the source, which have an entry ``hypotheses``, are returned by the first graph; the growing
caches pass through the second. Nothing here depends on what a module keeps, or how many stages its layer has.

The modules check batches for padding, but a graph has to work for every batch: in it, sources may have padding and
hypotheses never do. Positions, which fairseq looks up with the lengths of the batch, come from tables as long as the
model's longest sentence.
"""

import contextlib
import copy
import logging
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

import onnx
import onnxscript  # noqa: F401  of which PyTorch's exporter is made
import torch
from fairseq.modules import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from onnx import TensorProto, helper
from onnxruntime import quantization
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ....errors import OdeTransformerError
from ..pytorch import PyTorch
from . import ExportError
from .from_onnx import NEXT

OPSET = 18
"""The version of ONNX's operators in the graphs."""


class _ForEveryBatch(TorchFunctionMode):
    """Replaces ``any``, which the modules call only on padding: true, except for the single column of a step."""

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.any, Tensor.any):
            columns = args[0].size(-1)
            return torch.tensor(not (isinstance(columns, int) and columns < 2))
        return func(*args, **(kwargs or {}))


def _by_table(self: nn.Module, tokens: Tensor, incremental_state: Optional[dict] = None, **_: Any) -> Tensor:
    """The position embeddings of fairseq, (B, T) -> (B, T, C), or (B, 1, C) in incremental decoding."""
    table = self.weights if isinstance(self, SinusoidalPositionalEmbedding) else self.weight
    real = tokens.ne(self.padding_idx)
    positions = F.embedding(real.cumsum(1) * real + self.padding_idx, table)
    return positions if incremental_state is None else positions[:, -1:]


@contextlib.contextmanager
def _traceable(model: nn.Module) -> Iterator[None]:
    """A context in which the operations of the model do not depend on the batch."""
    for module in model.modules():
        if isinstance(module, (SinusoidalPositionalEmbedding, LearnedPositionalEmbedding)):
            module.forward = types.MethodType(_by_table, module)
    with torch.no_grad(), _ForEveryBatch():
        yield


def told_of_positions(model: nn.Module, longest: int) -> dict[str, Any]:
    """What encoder and decoder are told of all positions below ``longest``: arguments of both."""
    if (encoder := getattr(model, "position_encoder", None)) is None:
        return {}
    return {"solution": encoder.solve(longest)}


class Caches:
    """The tensors of an ``incremental_state``, by name and in order.

    Args:
        model: the model whose modules keep the state.
        state: the state after a step on an example.
    """

    def __init__(self, model: nn.Module, state: dict[str, dict[str, Any]]):
        modules = {
            module._incremental_state_id: name.removeprefix("decoder.")
            for name, module in model.named_modules()
            if hasattr(module, "_incremental_state_id")
        }
        self.state = state
        self.names: dict[str, tuple[str, str]] = {}  # the name of a tensor -> its place in the state
        for key, cache in state.items():
            module, _, kind = key.partition(".")
            for part, value in cache.items():
                if isinstance(value, Tensor):
                    self.names[f"{modules[module]}.{kind}.{part}"] = key, part
        self.of_source = [name for name, (key, _) in self.names.items() if "hypotheses" in state[key]]
        self.growing = [name for name in self.names if name not in self.of_source]

    def example(self, name: str) -> Tensor:
        """A tensor of the example."""
        key, part = self.names[name]
        return self.state[key][part]

    def axis(self, name: str) -> int:
        """The axis of the positions: the third of (B, H, S, d), the second of (B, S)."""
        return 2 if self.example(name).dim() == 4 else 1

    def take(self, state: dict[str, dict[str, Any]], names: list[str]) -> list[Tensor]:
        """The tensors with these names in a state."""
        return [state[key][part] for key, part in map(self.names.get, names)]

    def make(self, tensors: dict[str, Tensor]) -> dict[str, dict[str, Any]]:
        """A state with these tensors; everything else in it is as in the example."""
        state = {key: dict(cache) for key, cache in self.state.items()}
        for name, tensor in tensors.items():
            key, part = self.names[name]
            state[key][part] = tensor
        return state


class EncoderGraph(nn.Module):
    """Sources (B, S) -> the caches of the source.

    Args:
        model: the model.
        end: the symbol that ends a sentence, and begins a translation.
        told: as ``told_of_positions`` says.
    """

    def __init__(self, model: nn.Module, end: int, told: dict[str, Any]):
        super().__init__()
        self.model, self.end, self.told = model, end, told
        self.caches: Optional[Caches] = None

    def first_step(self, source: Tensor) -> dict[str, dict[str, Any]]:
        """The state after the first decoding step."""
        state: dict[str, dict[str, Any]] = {}
        out = self.model.encoder(source, None, **self.told)
        begin = source.new_full((source.size(0), 1), self.end)
        self.model.decoder(begin, out, incremental_state=state, **self.told)
        return state

    def forward(self, source: Tensor) -> list[Tensor]:
        return self.caches.take(self.first_step(source), self.caches.of_source)


class DecoderGraph(nn.Module):
    """A step: symbols (B, n, T), order (B, n) and caches -> log-probabilities (B, n, V), and the growing caches."""

    def __init__(self, model: nn.Module, caches: Caches, told: dict[str, Any]):
        super().__init__()
        self.model, self.caches, self.told = model, caches, told

    def forward(self, tokens: Tensor, order: Tensor, of_source: list[Tensor], growing: list[Tensor]) -> list[Tensor]:
        caches, order = self.caches, order.flatten()
        tensors = dict(zip(caches.of_source, of_source, strict=True))
        tensors |= {name: x.index_select(0, order) for name, x in zip(caches.growing, growing, strict=True)}
        state = caches.make(tensors)
        tokens, shape = tokens.flatten(0, 1), tokens.shape[:2]
        # Without a source cross-attention would be left out; its keys and values are in the state.
        source = self.model.encoder.embed_tokens.weight.new_zeros(1, tokens.size(0), self.model.cfg.encoder.embed_dim)
        encoder_out = {"encoder_out": [source], "encoder_padding_mask": []}
        out = self.model.decoder(tokens, encoder_out, incremental_state=state, **self.told)
        log_probs = self.model.get_normalized_probs((out[0][:, -1:], None), log_probs=True)
        return [log_probs.unflatten(0, shape)[:, :, 0], *caches.take(state, caches.growing)]


class Graph(NamedTuple):
    """The arguments of PyTorch's exporter for a graph.

    Args:
        module: the module that computes it.
        inputs: the inputs of an example.
        axes: for each input, the axes whose sizes may vary.
        names: the names of the inputs and of the outputs.
    """

    module: nn.Module
    inputs: tuple
    axes: tuple
    names: tuple[list[str], list[str]]

    def trace(self) -> torch.export.ExportedProgram:
        """The graph in PyTorch's form, traced by running the Python code once, so that it contains no dictionaries."""
        return torch.export.export(self.module, self.inputs, dynamic_shapes=self.axes, strict=False)

    def write(self, program: torch.export.ExportedProgram, path: Path) -> None:
        """Write the graph as ONNX, in one file."""
        torch.onnx.export(
            program,
            f=str(path),
            input_names=self.names[0],
            output_names=self.names[1],
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _free(*axes: int) -> dict[int, Any]:
    return dict.fromkeys(axes, Dim.DYNAMIC)


def encoder_graph(module: EncoderGraph, source: Tensor) -> Graph:
    """The graph of the encoder, from an example (B, S)."""
    return Graph(module, (source,), (_free(0, 1),), (["source"], module.caches.of_source))


def decoder_graph(module: DecoderGraph, tokens: Tensor, rows: int) -> Graph:
    """The graph of the decoder, from an example (B, n, T) whose previous step had ``rows`` rows."""
    caches = module.caches
    sentences, hypotheses, columns = tokens.shape
    order = torch.arange(sentences * hypotheses).view(sentences, hypotheses) % rows
    growing = [
        x.new_zeros([rows, *x.shape[1:]]).repeat_interleave(columns - 1, caches.axis(name))
        for name, x in zip(caches.growing, caches.take(caches.state, caches.growing), strict=True)
    ]
    return Graph(
        module,
        (tokens, order, caches.take(caches.state, caches.of_source), growing),
        (_free(0, 1, 2), _free(0, 1), *([_free(0, caches.axis(name)) for name in names]
                                        for names in (caches.of_source, caches.growing))),
        (
            ["tokens", "order", *caches.of_source, *caches.growing],
            ["log_probs", *(name + NEXT for name in caches.growing)],
        ),
    )  # fmt: skip


def write(model: PyTorch, folder: Path) -> None:
    """Write ``encoder.onnx`` and ``decoder.onnx``, in single precision.

    Raises:
        ExportError: PyTorch's exporter cannot make graphs of the model.
    """
    (network,), dictionary = copy.deepcopy(model.models), model.dictionaries[1]
    # The sizes differ from each other and from 0 and 1, or PyTorch would take them for constants.
    source, tokens = (torch.full(size, dictionary.unk()) for size in ((3, 6), (3, 4, 5)))
    source[:, -1] = dictionary.eos()
    try:
        with _traceable(network):
            told = told_of_positions(network, max(model.finite.values()))
            encoder = EncoderGraph(network, dictionary.eos(), told)
            encoder.caches = caches = Caches(network, encoder.first_step(source))
            decoder = DecoderGraph(network, caches, told)
            graphs = {"encoder": encoder_graph(encoder, source), "decoder": decoder_graph(decoder, tokens, 7)}
            programs = {name: graph.trace() for name, graph in graphs.items()}
        with _quiet():
            for name, graph in graphs.items():
                graph.write(programs[name], folder / f"{name}.onnx")
    except (OSError, OdeTransformerError):
        raise
    except Exception as error:  # the exporter raises errors of many kinds
        first = str(error).split("\n")[0]
        raise ExportError(
            f"--format onnx: PyTorch cannot export {model.name}: {type(error).__name__}: {first}"
        ) from error
    _add_candidates(folder / "decoder.onnx")


def _add_candidates(path: Path) -> None:
    """Make the step also return the ``count`` best next symbols of each hypothesis, (B, n, count), for the search."""
    model = onnx.load(path)
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("count", TensorProto.INT64, [1]))
    graph.node.append(helper.make_node("TopK", ["log_probs", "count"], ["values", "symbols"], axis=-1))
    for name, kind in (("values", TensorProto.FLOAT), ("symbols", TensorProto.INT64)):
        graph.output.append(helper.make_tensor_value_info(name, kind, ["sentences", "hypotheses", "candidates"]))
    onnx.checker.check_model(model)
    onnx.save(model, path)


def quantize(model: PyTorch, folder: Path) -> None:
    """Turn the matrices of both graphs into 8-bit integers, with one scale per column; vectors have no columns.

    Activations are quantized at run time.
    """
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
                weight_type=quantization.QuantType.QInt8,
                nodes_to_exclude=[n.name for n in graph.node if n.op_type == "MatMul" and vectors & set(n.input)],
            )
            whole.unlink()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context without the library's warnings, which concern image models."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
