"""Encoder and decoder layers: splitting x integrator x attention x feed-forward.

A layer is a step of dy/dt = F(y) + G(y), where F is attention and G feed-forward. Its sub-layers are solved in turn, as
the splitting says, each by itself or all as one: the vector field of a layer is its increment f(y), the sum of what its
sub-layers add to y. Euler steps of the sub-layers of the Lie-Trotter splitting are stock fairseq's layer, with bitwise
equal results in evaluation.

The last F and the last G of a splitting are the stock sub-layers under their stock names, so that checkpoints of the
Transformer fit; an earlier one is an additional sub-layer with its own weights (``macaron_*``). In a decoder layer F is
self-attention; cross-attention (C) follows the last F and takes a whole step.

Legend: T positions, S positions of the source, B sentences, C the width, H heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm, MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..numerics.integrators import EULER
from ..numerics.protocol import NOTHING, Field, Learned
from ..numerics.splitting import Solver, Substep, increment, split_step
from .attention import Joint, StagedAttention, merged_mask
from .incremental import StepCache
from .options import Options
from .passes import recompute
from .positions import Biases


@dataclass
class StepMemory:
    """What the evaluations of one step share."""

    joint: Mapping[str, Joint | None]  # by the name of a self-attention, its ``joint_projection``
    state: dict | None  # holds the source's keys and values, for every stage; in decoding, the cache of the whole model
    weights: Tensor | None = None  # of cross-attention, in the last evaluation


@dataclass(frozen=True)
class Context:
    """The arguments of a layer in one forward pass, besides the state."""

    padding_mask: Tensor | None = None  # (B, T), true where there is no token; None if ``attn_mask`` has it
    # The learned parameters that the steps of all layers share; None, because torch.compile cannot trace NOTHING here.
    learned: Learned | None = None
    biases: Mapping[str, Sequence[Biases]] | None = None  # of the projections of each attention, by position
    distances: Tensor | None = None  # with relative positions, ``relative_distances``, (T, S, 2m + 1)
    source: Tensor | None = None  # the encoder's output, (S, B, C)
    source_padding_mask: Tensor | None = None  # (B, S), true where it is padding; None if ``source_mask`` has it
    incremental_state: dict | None = None  # the cache of incremental decoding
    attn_mask: Tensor | None = None  # (T, T) or (B, 1, T or 1, T), minus infinity where attention is forbidden
    source_mask: Tensor | None = None  # (B, 1, 1, S), the mask of cross-attention
    need_head_weights: bool = False  # whether the layer returns the weights of cross-attention for each head
    memory: StepMemory | None = None  # of the step, which the layer sets

    def merged(self, kind: torch.dtype) -> "Context":
        """Return the context in which the masks added to scores, of that type, have the padding."""
        return replace(
            self,
            padding_mask=None,
            source_padding_mask=None,
            attn_mask=merged_mask(self.attn_mask, self.padding_mask, kind),
            source_mask=merged_mask(self.source_mask, self.source_padding_mask, kind),
        )


class Sublayer(NamedTuple):
    """A sub-layer of a layer."""

    flow: str  # F (self-attention), C (cross-attention) or G (feed-forward)
    name: str  # of its first module in the layer
    modules: tuple[nn.Module, ...]  # the attention, or the linear maps in order
    norm: nn.Module
    fraction: float  # of the step


SUBLAYERS = {
    ("F", False): (("macaron_attn",), "macaron_attn_layer_norm"),
    ("F", True): (("self_attn",), "self_attn_layer_norm"),
    ("C", True): (("encoder_attn",), "encoder_attn_layer_norm"),
    ("G", False): (("macaron_fc1", "macaron_fc2"), "macaron_layer_norm"),
    ("G", True): (("fc1", "fc_hidden", "fc2"), "final_layer_norm"),
}
"""A flow, and whether it is the last of its kind in a layer -> the names of its modules, of which a layer may lack
some, and of its norm."""


class SplitLayer(nn.Module):
    """The common part of encoder and decoder layers: the sub-layers that the splitting asks for, and the step."""

    side: str

    def __init__(self, cfg: TransformerConfig, *args: Any, **more: Any):
        self.options = Options(cfg, self.side)
        super().__init__(cfg, *args, **more)
        # The released Macaron code takes the encoder's feed-forward dimension in decoders too, a fault if they differ.
        size, inner = self.embed_dim, getattr(cfg, self.side).ffn_embed_dim
        self.recomputed = cfg.checkpoint_activations
        if self.options.ffn_hidden_layers == 2:
            self.fc_hidden = nn.Linear(inner, inner)
        if self.options.splitting.feed_forwards == 2:
            self.macaron_fc1, self.macaron_fc2 = nn.Linear(size, inner), nn.Linear(inner, size)
            self.macaron_layer_norm = LayerNorm(size, export=cfg.export)
        if self.options.splitting.flows.count("F") == 2:
            self.macaron_attn = self.build_self_attention(size, cfg)
            self.macaron_attn_layer_norm = LayerNorm(size, export=cfg.export)
        self._reset_parameters()
        self.coefficients = self.options.build_coefficients("per-layer")
        self.integrator, integrated = self.options.solver, self.options.integrated_flows
        names = ["layer"] if integrated is None else [s.name for s in self.sublayers() if s.flow in integrated]
        learned = {name: self.integrator.learns(size) for name in names}
        # The learned parameters of each field that is integrated; only methods with momentum have any.
        self.velocities = nn.ModuleDict({name: module for name, module in learned.items() if module is not None})

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig, **unused: bool) -> MultiheadAttention:
        return StagedAttention(
            embed_dim,
            getattr(cfg, self.side).attention_heads,
            self.options.max_relative_length,
            values=self.options.relative_positions == "keys-values",
            dropout=cfg.attention_dropout,
            self_attention=True,
        )

    def _reset_parameters(self) -> None:
        # As in the papers' code: biases are zero, feed-forward weights Xavier-uniform. fairseq's current layer leaves
        # both to nn.Linear, U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Attention weights are initialized alike in both.
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
                if "fc" in name:
                    nn.init.xavier_uniform_(module.weight)

    def sublayers(self) -> list[Sublayer]:
        """Return the sub-layers in the order of the splitting, with the modules that the layer has now."""
        flows, found = self.options.splitting.flows, []
        for i, (flow, fraction) in enumerate(self.options.splitting):
            last = flow not in flows[i + 1 :]
            found.append(self._sublayer(flow, last, fraction))
            if flow == "F" and last and getattr(self, "encoder_attn", None) is not None:
                found.append(self._sublayer("C", True, 1.0))
        return found

    def _sublayer(self, flow: str, last: bool, fraction: float) -> Sublayer:
        names, norm = SUBLAYERS[flow, last]
        modules = tuple(getattr(self, name) for name in names if hasattr(self, name))
        return Sublayer(flow, names[0], modules, getattr(self, norm), fraction)

    def forward(
        self, x: Tensor, context: Context, carried: Any = None, h: float = 1.0
    ) -> tuple[Tensor, Any, Tensor | None]:
        """Take the step of the layer from x (T, B, C), where T is 1 in incremental decoding.

        Args:
            carried: the second result of the previous layer; in the first, None or a velocity embedding.
            h: the size of the step; 1 in a network, 1/2 where ``lab orders`` measures its error.

        Returns:
            The new state (T, B, C); what the integrator carries to the next layer, or None; the weights of
            cross-attention in its last evaluation, (B, T, S), or (H, B, T, S) for separate heads, or None.
        """
        recomputed = self.recomputed and context.incremental_state is None
        return recompute(recomputed, self.step, x, context, carried, h)

    def step(self, y: Tensor, context: Context, carried: Any, h: float) -> tuple[Tensor, Any, Tensor | None]:
        """As ``forward``, which may recompute this in the backward pass.

        Macaron Net's equations 17 to 19 are the sub-steps in turn. The ODE Transformer's equations 12 to 19 are the
        integrator's step, where F is the increment of the whole layer; its gate, 25 and 26, is a ``Coefficients``.
        """
        joint = {s.name: s.modules[0].joint_projection() for s in self.sublayers() if s.flow == "F"}
        memory = StepMemory(joint, context.incremental_state)
        # The source's keys and values are the same for every stage: one cache has them, even if nothing else is cached.
        if memory.state is None and self.integrator.stages > 1:
            memory.state = StepCache()
        y, carried = split_step(self.substeps(replace(context, memory=memory)), y, carried, h)
        return y, carried, memory.weights

    def substeps(self, context: Context) -> list[Substep]:
        """Return the sub-steps in turn: each sub-layer, or the whole layer as one field, its increment f(y)."""
        sublayers = [s for s in self.sublayers() if s.flow != "C" or context.source is not None]
        fields = [(partial(self.field, sublayer, context), sublayer.fraction) for sublayer in sublayers]
        if self.options.integrated_flows is None:
            f = partial(increment, fields, self.options.splitting.together)
            return [Substep(self.solver("layer", context), f, 1.0)]
        return [
            Substep(self._solver_of(sublayer, context), f, fraction)
            for sublayer, (f, fraction) in zip(sublayers, fields, strict=True)
        ]

    def solver(self, name: str, context: Context) -> Solver:
        """Return the integrator's step with its learned parameters for the field of that name."""
        learned = context.learned or NOTHING
        if self.coefficients is not None:
            learned = replace(learned, combine=self.coefficients)
        if name in self.velocities:
            learned = replace(learned, own=self.velocities[name])
        return partial(self.integrator.step, learned=learned)

    def _solver_of(self, sublayer: Sublayer, context: Context) -> Solver:
        if not self.normalize_before:
            return partial(_euler_then_norm, sublayer.norm)
        if sublayer.flow in self.options.integrated_flows:
            return self.solver(sublayer.name, context)
        return EULER.step

    def field(self, sublayer: Sublayer, context: Context, y: Tensor, stage: int) -> Tensor:
        """The vector field of a sub-layer, Sub(LN(y)), or in a post-norm layer Sub(y): (T, B, C) -> (T, B, C)."""
        x = sublayer.norm(y) if self.normalize_before else y
        if sublayer.flow != "G":
            return self.dropout_module(self.attend(x, sublayer, context, stage))
        *inner, last = sublayer.modules
        for linear in inner:
            x = self.activation_dropout_module(self.activation_fn(linear(x)))
        return self.dropout_module(last(x))

    def attend(self, x: Tensor, sublayer: Sublayer, context: Context, stage: int) -> Tensor:
        """Self-attention from x, (T, B, C) -> (T, B, C), in a stage of the step, or cross-attention."""
        (attention,), biases = sublayer.modules, (context.biases or {}).get(sublayer.name)
        if sublayer.flow == "F":
            return attention(
                x,
                x,
                x,
                key_padding_mask=context.padding_mask,
                incremental_state=context.incremental_state,
                need_weights=False,
                attn_mask=context.attn_mask,
                biases=biases,
                distances=context.distances,
                joint=context.memory.joint[sublayer.name],
                stage=stage,
            )[0]
        x, context.memory.weights = attention(
            x,
            context.source,
            context.source,
            key_padding_mask=context.source_padding_mask,
            incremental_state=context.memory.state,
            static_kv=True,
            attn_mask=context.source_mask,
            need_weights=context.need_head_weights or (not self.training and self.need_attn),
            need_head_weights=context.need_head_weights,
            biases=biases,
        )
        return x


def _euler_then_norm(norm: nn.Module, f: Field, y: Tensor, carried: Any, h: float) -> tuple[Tensor, Any]:
    """The step of a post-norm layer, LN(y + h Sub(y))."""
    y, carried = EULER.step(f, y, carried, h)
    return norm(y), carried


class EncoderLayer(SplitLayer, TransformerEncoderLayerBase):
    """An encoder layer. Its parameters have fairseq's names."""

    side = "encoder"


class DecoderLayer(SplitLayer, TransformerDecoderLayerBase):
    """A decoder layer. Its parameters have fairseq's names; fairseq's ONNX states are not supported."""

    side = "decoder"

    def build_encoder_attention(self, embed_dim: int, cfg: TransformerConfig) -> MultiheadAttention:
        return StagedAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
        )
