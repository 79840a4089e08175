"""Export to CTranslate2, whose layers are those of the stock Transformer.

A layer of CTranslate2 is self-attention, in a decoder cross-attention, and feed-forward, each with its residual. Our
layers, and so whole stacks, are sequences of sub-layers that take Euler steps, and the sequence is cut into layers of
CTranslate2. A missing sub-layer is given zero weights, with which a pre-norm residual is the identity::

    Macaron            half FFN_a | attention, half FFN_b           (two layers; the halves are in the second matrix)
    strang-swapped     half attention, FFN | half attention

All other models are refused, with the option in the message.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

import numpy as np
from ctranslate2.converters import utils
from ctranslate2.specs import attention_spec, common_spec, model_spec, transformer_spec
from torch import Tensor, nn

from ....errors import OdeTransformerError
from ....modules.layers import Sublayer
from ....modules.stacks import SplitStack
from ....numerics.integrators import EULER
from ..pytorch import PyTorch
from .from_ctranslate2 import renamed

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_accurate": common_spec.Activation.GELUTanh,
    "gelu_fast": common_spec.Activation.GELUTanh,
    "tanh": common_spec.Activation.Tanh,
}


def _refuse(what: str) -> OdeTransformerError:
    return OdeTransformerError(f"--format ctranslate2: has no layer for {what}; --format onnx has")


def steps(stack: nn.Module, integrator: str) -> Iterator[Sublayer]:
    """Yield the sub-layers of an encoder or a decoder, each of which takes an Euler step, or refuse ``integrator``."""
    for layer in stack.layers:
        if layer.options.integrator != EULER:
            raise _refuse(integrator)
        if stack.coefficients is not None or layer.coefficients is not None:
            raise _refuse(f"--coefficients {layer.options.coefficients}")
        yield from layer.sublayers()


def layers(taken: Iterable[Sublayer], places: str) -> list[dict[str, Sublayer]]:
    """Cut a sequence of steps into layers of CTranslate2, mappings from flows to steps; ``places`` are the flows of a
    layer in order, FG or FCG.
    """
    found: list[dict[str, Sublayer]] = []
    last = len(places)
    for step in taken:
        place = places.index(step.flow)
        if place <= last:
            found.append({})
        found[-1][places[place]] = step
        last = place
    return found


def _check(model: nn.Module) -> None:
    """Refuse a model of which CTranslate2 lacks a part."""
    cfg = model.cfg
    for side in ("encoder", "decoder"):
        stack = getattr(model, side)
        if not isinstance(stack, SplitStack):
            raise _refuse(f"the blocks of {type(model).__name__}")
        if (history := stack.layers[0].options.history) != "none":
            raise _refuse(f"--{side}-history {history}")
    for wrong, what in (
        (getattr(model, "position_encoder", None) is not None, f"--position-encoder {cfg.position_encoder}"),
        (model.encoder.layers[0].options.splitting.together, f"--splitting {cfg.splitting}"),
        (cfg.ffn_hidden_layers != 1, f"--ffn-hidden-layers {cfg.ffn_hidden_layers}"),
        (model.decoder.project_in_dim is not None, f"--decoder-input-dim {cfg.decoder.input_dim}"),
        (model.decoder.project_out_dim is not None, f"--decoder-output-dim {cfg.decoder.output_dim}"),
        (cfg.adaptive_softmax_cutoff is not None, "--adaptive-softmax-cutoff"),
        (cfg.activation_fn not in ACTIVATIONS, f"--activation-fn {cfg.activation_fn}"),
    ):
        if wrong:
            raise _refuse(what)


def _stack(model: nn.Module, side: str) -> model_spec.LayerSpec:
    """Return the specification of an encoder or a decoder."""
    cfg, stack, decoder = model.cfg, getattr(model, side), side == "decoder"
    part, options, places = getattr(cfg, side), stack.layers[0].options, "FCG" if decoder else "FG"
    integrator = f"--decoder-integrator {cfg.decoder_integrator}" if decoder else f"--integrator {cfg.integrator}"
    cut = layers(steps(stack, integrator), places)
    relative = options.relative_positions != "none"
    # CTranslate2 adds positions to the input unless its first layer has relative ones.
    if relative and stack.embed_positions is not None:
        cut.insert(0, {})
    if not part.normalize_before and any(set(layer) != set(places) for layer in cut):
        what = "relative positions beside others" if relative else f"--splitting {cfg.splitting}"
        raise _refuse(f"{what} in a post-norm {side}, whose norms act on sums")
    kind = transformer_spec.TransformerDecoderSpec if decoder else transformer_spec.TransformerEncoderSpec
    spec = kind(
        len(cut),
        part.attention_heads,
        pre_norm=part.normalize_before,
        no_final_norm=stack.layer_norm is None,
        activation=ACTIVATIONS[cfg.activation_fn],
        layernorm_embedding=stack.layernorm_embedding is not None,
    )
    if decoder:
        _linear(spec.projection, stack.output_projection)
    embeddings = spec.embeddings if decoder else spec.embeddings[0]
    embeddings.weight = _numpy(stack.embed_tokens.weight)
    spec.scale_embeddings = stack.embed_scale
    spec.position_encodings.encodings = _positions(stack)
    for name in ("layer_norm", "layernorm_embedding"):
        if getattr(stack, name) is not None:
            _norm(getattr(spec, name), getattr(stack, name))
    names = {"F": "self_attention", "C": "attention", "G": "ffn"}
    for into, layer in zip(spec.layer, cut, strict=True):
        for flow in places:
            if flow == "F" and flow in layer and relative:
                into.self_attention = attention_spec.MultiHeadAttentionSpec(self_attention=True, relative_position=True)
            if flow in layer:
                _sublayer(getattr(into, names[flow]), layer[flow])
            else:
                _fill_with_zeros(getattr(into, names[flow]), part.embed_dim, cfg.encoder.embed_dim)
    return spec


def _positions(stack: nn.Module) -> np.ndarray:
    """Return the table of position embeddings, (T, C); zeros if the stack has none."""
    positions = stack.embed_positions
    if positions is None:
        return np.zeros((stack.max_positions(), stack.layers[0].embed_dim), np.float32)
    table = positions.weight if isinstance(positions, nn.Embedding) else positions.weights
    return _numpy(table)[positions.padding_idx + 1 :]


def _sublayer(spec: model_spec.LayerSpec, row: Sublayer) -> None:
    _norm(spec.layer_norm, row.norm)
    if row.flow == "G":
        _linear(spec.linear_0, row.modules[0])
        _linear(spec.linear_1, row.modules[1], row.fraction)
        return
    (attention,) = row.modules
    # Self-attention fuses its three projections into one matrix, cross-attention those of keys and values.
    groups = ["qkv"] if row.flow == "F" else ["q", "kv"]
    for into, group in zip(spec.linear, groups, strict=False):
        parts = [common_spec.LinearSpec() for _ in group]
        for part, name in zip(parts, group, strict=True):
            _linear(part, getattr(attention, f"{name}_proj"))
        utils.fuse_linear(into, parts)
    _linear(spec.linear[-1], attention.out_proj, row.fraction)
    if attention.max_relative_length is not None:
        spec.relative_position_keys = _numpy(attention.relative_position_keys)
        values = attention.relative_position_values
        spec.relative_position_values = model_spec.OPTIONAL if values is None else _numpy(values)


def _fill_with_zeros(spec: model_spec.LayerSpec, width: int, memory: int) -> None:
    """Fill the specification of an attention or a feed-forward with zero weights, so that it adds nothing.

    The stack is ``width`` wide, and ``memory`` is the width of the encoder.
    """
    spec.layer_norm.gamma, spec.layer_norm.beta = np.ones(width, np.float32), np.zeros(width, np.float32)
    if not isinstance(spec, attention_spec.MultiHeadAttentionSpec):
        inner = 8  # feed-forward dimension
        linears, sizes = (spec.linear_0, spec.linear_1), [(inner, width), (width, inner)]
    elif len(spec.linear) == 2:
        linears, sizes = spec.linear, [(3 * width, width), (width, width)]
    else:
        linears, sizes = spec.linear, [(width, width), (2 * width, memory), (width, width)]
    for linear, size in zip(linears, sizes, strict=True):
        linear.weight, linear.bias = np.zeros(size, np.float32), np.zeros(size[0], np.float32)


def _linear(spec: common_spec.LinearSpec, module: nn.Linear, scale: float = 1.0) -> None:
    spec.weight = _numpy(module.weight, scale)
    if module.bias is not None:
        spec.bias = _numpy(module.bias, scale)


def _norm(spec: common_spec.LayerNormSpec, module: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _numpy(module.weight), _numpy(module.bias)


def _numpy(tensor: Tensor, scale: float = 1.0) -> np.ndarray:
    return (tensor.detach().float() * scale).numpy()  # a copy, because CTranslate2 quantizes in place


def write(model: PyTorch, folder: Path, quantization: Optional[str] = None) -> None:
    """Write a model, in single precision by default."""
    (network,) = model.models
    _check(network)
    spec = transformer_spec.TransformerSpec(*(_stack(network, side) for side in ("encoder", "decoder")))
    source, target = (renamed(dictionary.symbols) for dictionary in model.dictionaries)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_eos, spec.config.decoder_start_token = True, spec.config.eos_token
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


def quantize(model: PyTorch, folder: Path) -> None:
    """Write the model again, with weights as 8-bit integers; activations are quantized at run time."""
    write(model, folder, "int8")
