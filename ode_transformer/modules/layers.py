"""Encoder and decoder layers: splitting x integrator x attention x feed-forward.

A layer is split into attention (F) and feed-forward (G). Euler sub-steps of the Lie-Trotter splitting are stock
fairseq's layer, with bitwise equal results in evaluation. The last F and the last G of a splitting are the stock
sub-layers under their stock names, so that checkpoints of the Transformer fit; an earlier one is an additional
sub-layer with its own weights (``macaron_*``). In a decoder layer F is self-attention; cross-attention (C) follows the
last F and takes a whole step. Sub-layers that are taken together, cross-attention included, all read the layer's input.

An integrator of higher order evaluates a layer, or its sub-layers, several times with the same weights; each evaluation
is a stage. The vector field of a layer is its increment f(y), the sum of what its sub-layers add to y.

Legend: T positions, S positions of the source, B sentences, C the width, H heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Optional

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm, MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..errors import OdeTransformerError
from ..numerics.coefficients import Coefficients, Velocity, weighted_sum
from ..numerics.integrators import EULER, Learned, Momentum, Norm
from .attention import RelativeAttention, StagedAttention
from .options import Options
from .positions import Biases
from .recomputation import recompute


@dataclass(frozen=True)
class Context:
    """What a stack passes to a layer in one forward pass, besides the state.

    Args:
        padding_mask: (B, T), true where there is no token; None if there is no padding.
        coefficients: what weights the stages, if the layers share it.
        biases: by the name of an attention, what positions add to its queries, keys and values.
        step_size: h; 1 in a network, other values for studies of the equation.
        carried: what the integrator carries from layer to layer besides the state, a velocity (T, B, C); None at first.
        norms: the norms of the state and of each stage of a Runge-Kutta step, which layers share; None for no norms.
        correct: a function that turns the result of the layer's step, (T, B, C), into the state, (T, B, C), from which
            the layer then takes an Euler step; None for no correction.
    """

    padding_mask: Optional[Tensor] = None
    coefficients: Optional[Coefficients] = None
    biases: Mapping[str, Biases] = field(default_factory=dict)
    step_size: float = 1.0
    carried: Optional[Tensor] = None
    norms: Optional[Sequence[Norm]] = None
    correct: Optional[Callable[[Tensor], Tensor]] = None


@dataclass
class SourceMemory:
    """What cross-attention keeps within one forward pass through a layer.

    Args:
        state: the cache of the source's keys and values, which are the same for every stage and every decoding step.
        weights: the attention weights of the last evaluation, (B, T, S), or (H, B, T, S) for separate heads.
    """

    state: Optional[dict]
    weights: Optional[Tensor] = None


@dataclass(frozen=True)
class DecoderContext(Context):
    """What a decoder passes to a layer in addition.

    Args:
        source: (S, B, C), the encoder's output; None in a language model.
        source_padding_mask: (B, S), true where the source is padding; None if there is none.
        incremental_state: the cache of incremental decoding.
        attn_mask: (T, T), the mask of self-attention, minus infinity where attention is forbidden.
        need_head_weights: whether the layer returns the weights of cross-attention for each head.
        memory: what cross-attention keeps; the layer sets it.
    """

    source: Optional[Tensor] = None
    source_padding_mask: Optional[Tensor] = None
    incremental_state: Optional[dict] = None
    attn_mask: Optional[Tensor] = None
    need_head_weights: bool = False
    memory: Optional[SourceMemory] = None


class Sublayer(NamedTuple):
    """A row of a layer's table. It names its modules and does not hold them, so that a layer can be copied and its
    modules replaced.

    Args:
        flow: F (self-attention), C (cross-attention) or G (feed-forward).
        modules: the name of the attention, or of each linear map.
        norm: the name of the norm.
        fraction: the fraction of the step.
    """

    flow: str
    modules: tuple[str, ...]
    norm: str
    fraction: float


_LAST = {"F": (("self_attn",), "self_attn_layer_norm"), "G": (("fc1", "fc2"), "final_layer_norm")}
_EARLIER = {
    "F": (("macaron_attn",), "macaron_attn_layer_norm"),
    "G": (("macaron_fc1", "macaron_fc2"), "macaron_layer_norm"),
}


class SplitLayer(nn.Module):
    """What encoder layers and decoder layers share: the sub-layers that the splitting names, and the step."""

    def _build_sublayers(self, cfg: TransformerConfig, side: str) -> None:
        ffn_embed_dim = getattr(cfg, side).ffn_embed_dim
        size, noise = self.embed_dim, (self.quant_noise, self.quant_noise_block_size)
        self.offloaded = cfg.offload_activations
        self.recomputed = cfg.checkpoint_activations or self.offloaded
        if self.options.ffn_hidden_layers == 2:
            self.fc_hidden = self.build_fc1(ffn_embed_dim, ffn_embed_dim, *noise)
        if self.options.splitting.feed_forwards == 2:
            self.macaron_fc1 = self.build_fc1(size, ffn_embed_dim, *noise)
            self.macaron_fc2 = self.build_fc2(ffn_embed_dim, size, *noise)
            self.macaron_layer_norm = LayerNorm(size, export=cfg.export)
        if self.options.splitting.flows.count("F") == 2:
            self.macaron_attn = self.build_self_attention(size, cfg)
            self.macaron_attn_layer_norm = LayerNorm(size, export=cfg.export)
        self._reset_parameters()
        self.coefficients = self.options.build_coefficients("per-layer", size)
        self.sublayers = self._table()
        self.velocities = nn.ModuleDict()  # of each field that is integrated, if the integrator has a velocity
        for rows, integrated in self._fields(self.sublayers):
            if integrated and isinstance(self.options.integrator, Momentum):
                self.velocities[_name(rows)] = Velocity(size, self.options.integrator.learns_nu)

    def _table(self) -> tuple[Sublayer, ...]:
        """The sub-layers in the order of the splitting."""
        rows, flows = [], self.options.splitting.flows
        for i, (flow, fraction) in enumerate(self.options.splitting):
            modules, norm = (_EARLIER if flow in flows[i + 1 :] else _LAST)[flow]
            if flow == "G" and self.options.ffn_hidden_layers == 2:
                modules = ("fc1", "fc_hidden", "fc2")
            rows.append(Sublayer(flow, modules, norm, fraction))
        return tuple(rows)

    def _build_attention(self, cfg: TransformerConfig, side: str, **more: Any) -> MultiheadAttention:
        heads = getattr(cfg, side).attention_heads
        if heads < 1 or self.embed_dim % heads:
            raise OdeTransformerError(f"--{side}-attention-heads {heads}: must divide the width {self.embed_dim}")
        more |= {
            "dropout": cfg.attention_dropout,
            "q_noise": self.quant_noise,
            "qn_block_size": self.quant_noise_block_size,
        }
        relative = self.options.relative_positions
        if relative == "none" or "encoder_decoder_attention" in more:
            return StagedAttention(self.embed_dim, heads, **more)
        length = self.options.max_relative_length
        return RelativeAttention(self.embed_dim, heads, length, relative == "keys-values", **more)

    def _reset_parameters(self) -> None:
        # As in the papers' code: biases are zero, feed-forward weights Xavier-uniform. fairseq's current layer leaves
        # both to nn.Linear, U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Attention weights are initialized alike in both.
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
                if "fc" in name:
                    nn.init.xavier_uniform_(module.weight)

    def _fields(self, sublayers: Sequence[Sublayer]) -> list[tuple[Sequence[Sublayer], bool]]:
        """The sub-layers of each field, in order, and whether the integrator solves it; otherwise Euler steps do."""
        integrated = self.options.integrated_flows
        if integrated is None:
            return [(sublayers, True)]
        return [((sublayer,), sublayer.flow in integrated) for sublayer in sublayers]

    def solve(self, y: Tensor, sublayers: Sequence[Sublayer], context: Context) -> tuple[Tensor, Optional[Tensor]]:
        """The layer's step from y; for a multistep scheme, which spans several layers, its increment f(y) alone.

        Args:
            y: the state, (T, B, C).
            sublayers: the rows of the table that take part.
            context: what the stack passes to the layer.

        Returns:
            The new state, (T, B, C), and what the integrator carries besides.
        """
        integrator, carried, h = self.options.integrator, context.carried, context.step_size
        combine = context.coefficients if self.coefficients is None else self.coefficients
        # Without weights, and with nothing taken together, each sub-layer takes an Euler step by itself, bitwise equal
        # to fairseq's.
        plain = integrator == EULER and combine is None and not self.options.splitting.together
        for rows, integrated in self._fields(sublayers):
            if integrated and not plain:
                velocity = self.velocities[_name(rows)] if self.velocities else None
                learned = Learned(combine, context.norms, velocity)
                y, carried = integrator.step(LayerField(self, rows, context), y, h, carried, learned)
            else:
                for row in rows:
                    y = self.euler(y, row, context)
        if context.correct is not None:
            y = context.correct(y)
            increment = LayerField(self, sublayers, context, stage=integrator.stages).increment(y)
            y = torch.add(y, increment, alpha=h)
        return y, carried

    def euler(self, y: Tensor, sublayer: Sublayer, context: Context) -> Tensor:
        """An Euler step of one sub-layer. Pre-norm: y + h Sub(LN(y)). Post-norm: LN(y + h Sub(y))."""
        norm, h = getattr(self, sublayer.norm), sublayer.fraction * context.step_size
        if self.normalize_before:
            return torch.add(y, self.sub(norm(y), sublayer, context, 0), alpha=h)
        return norm(torch.add(y, self.sub(y, sublayer, context, 0), alpha=h))

    def sub(self, x: Tensor, sublayer: Sublayer, context: Context, stage: int) -> Tensor:
        """Sub(x) of a sub-layer, (T, B, C) -> (T, B, C), in a stage of the step; stages count from 0."""
        raise NotImplementedError

    def feed_forward(self, x: Tensor, modules: Sequence[str]) -> Tensor:
        """Linear maps with activations between them: (T, B, C) -> (T, B, C)."""
        *inner, last = modules
        for name in inner:
            x = self.activation_dropout_module(self.activation_fn(getattr(self, name)(x)))
        return self.dropout_module(getattr(self, last)(x))


def _name(sublayers: Sequence[Sublayer]) -> str:
    """The name of a field among a layer's modules: the first module of its only sub-layer, or "layer" for several."""
    return sublayers[0].modules[0] if len(sublayers) == 1 else "layer"


@dataclass
class LayerField:
    """The vector field of some sub-layers of a pre-norm layer in one pass, f(y) = sum of h Sub(LN(y + the sum so far)).

    Sub-layers that are taken together all read y. The field is never computed as layer(y) - y, which loses bits in half
    precision. With ``--ode-residual released`` it is F(y) = y + f(y), as in the released code. The field counts its
    evaluations, the stages of a step, because an attention keeps the keys of each stage separately.
    """

    layer: SplitLayer
    sublayers: Sequence[Sublayer]
    context: Context
    stage: int = 0

    def __call__(self, y: Tensor) -> Tensor:
        """F(y), (T, B, C) -> (T, B, C)."""
        increment = self.increment(y)
        return y + increment if self.layer.options.released else increment

    def increment(self, y: Tensor) -> Tensor:
        """f(y), (T, B, C) -> (T, B, C)."""
        layer, total, together = self.layer, None, self.layer.options.splitting.together
        for sublayer in self.sublayers:
            x = getattr(layer, sublayer.norm)(y if total is None or together else y + total)
            slope = layer.sub(x, sublayer, self.context, self.stage)
            total = weighted_sum([sublayer.fraction], [slope], total)  # total + h Sub
        self.stage += 1
        return total


class EncoderLayer(SplitLayer, TransformerEncoderLayerBase):
    """An encoder layer. Its parameters have fairseq's names."""

    def __init__(self, cfg: TransformerConfig):
        self.options = Options.of(cfg, "encoder")
        super().__init__(cfg)
        self._build_sublayers(cfg, "encoder")

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig) -> MultiheadAttention:
        return self._build_attention(cfg, "encoder", self_attention=True)

    def forward(self, x: Tensor, context: Context) -> tuple[Tensor, Optional[Tensor]]:
        """One layer.

        Args:
            x: (T, B, C).
            context: what the encoder passes to the layer.

        Returns:
            The new state (T, B, C), or for a multistep scheme the increment alone; what the integrator carries
            besides the state, or None.
        """
        return recompute(self.recomputed, self.solve, x, self.sublayers, context, offload=self.offloaded)

    def sub(self, x: Tensor, sublayer: Sublayer, context: Context, stage: int) -> Tensor:
        if sublayer.flow == "G":
            return self.feed_forward(x, sublayer.modules)
        (name,) = sublayer.modules
        x, _ = getattr(self, name)(
            x, x, x, key_padding_mask=context.padding_mask, need_weights=False, biases=context.biases.get(name)
        )
        return self.dropout_module(x)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Rename the norms of old checkpoints; the released Macaron code stores that of FFN_a as ``layer_norms.2``."""
        super().upgrade_state_dict_named(state_dict, name)
        for part in ("weight", "bias"):
            if (old := f"{name}.layer_norms.2.{part}") in state_dict:
                state_dict[f"{name}.macaron_layer_norm.{part}"] = state_dict.pop(old)


class DecoderLayer(SplitLayer, TransformerDecoderLayerBase):
    """A decoder layer. Its parameters have fairseq's names; fairseq's ONNX states are not supported."""

    def __init__(self, cfg: TransformerConfig, no_encoder_attn: bool = False):
        self.options = Options.of(cfg, "decoder")
        super().__init__(cfg, no_encoder_attn)
        # The released Macaron code takes the encoder's feed-forward dimension here, which is wrong if the two differ.
        self._build_sublayers(cfg, "decoder")

    def _table(self) -> tuple[Sublayer, ...]:
        rows = super()._table()
        if self.encoder_attn is None:
            return rows
        after = self.options.splitting.flows.rindex("F") + 1
        return (*rows[:after], Sublayer("C", ("encoder_attn",), "encoder_attn_layer_norm", 1.0), *rows[after:])

    def build_self_attention(
        self, embed_dim: int, cfg: TransformerConfig, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> MultiheadAttention:
        return self._build_attention(cfg, "decoder", self_attention=not cfg.cross_self_attention)

    def build_encoder_attention(self, embed_dim: int, cfg: TransformerConfig) -> MultiheadAttention:
        width = cfg.encoder.embed_dim
        return self._build_attention(cfg, "decoder", kdim=width, vdim=width, encoder_decoder_attention=True)

    def forward(self, x: Tensor, context: DecoderContext) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """One layer.

        Args:
            x: (T, B, C); T is 1 in incremental decoding.
            context: what the decoder passes to the layer.

        Returns:
            The new state (T, B, C), or for a multistep scheme the increment alone; the weights of cross-attention,
            (B, T, S), or (H, B, T, S) for separate heads, or None; what the integrator carries besides the state, or
            None. With several evaluations the weights are those of the last one.
        """
        # With a cache there is nothing to recompute: a second pass would append to the cache again.
        recomputed = self.recomputed and context.incremental_state is None
        return recompute(recomputed, self._step, x, context, offload=self.offloaded)

    def _step(self, x: Tensor, context: DecoderContext) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        # The source's keys and values are the same for every stage, so they are computed once and cached, even if
        # nothing else is cached.
        memory = SourceMemory(context.incremental_state)
        if memory.state is None and (self.options.integrator.stages > 1 or context.correct is not None):
            memory.state = {}
        sublayers = [row for row in self.sublayers if row.flow != "C" or context.source is not None]
        x, carried = self.solve(x, sublayers, replace(context, memory=memory))
        return x, memory.weights, carried

    def sub(self, x: Tensor, sublayer: Sublayer, context: DecoderContext, stage: int) -> Tensor:
        if sublayer.flow == "F":
            return self.attend(x, *sublayer.modules, context, stage)
        if sublayer.flow == "C":
            return self.attend_to_source(x, context)
        return self.feed_forward(x, sublayer.modules)

    def attend(self, x: Tensor, name: str, context: DecoderContext, stage: int) -> Tensor:
        """The self-attention of that name, (T, B, C) -> (T, B, C); with --cross-self-attention over the source too."""
        attention, state = getattr(self, name), context.incremental_state
        y, mask, padding_mask = x, context.attn_mask, context.padding_mask
        # In incremental decoding the cache holds the source from the first step on.
        if self.cross_self_attention and "prev_key" not in attention._get_input_buffer(state, stage):
            y, mask, padding_mask = _with_source(context.source, context.source_padding_mask, x, mask, padding_mask)
        x, _ = attention(
            x,
            y,
            y,
            key_padding_mask=padding_mask,
            incremental_state=state,
            need_weights=False,
            attn_mask=mask,
            biases=context.biases.get(name),
            stage=stage,
        )
        return self.dropout_module(x)

    def attend_to_source(self, x: Tensor, context: DecoderContext) -> Tensor:
        """Cross-attention, (T, B, C) -> (T, B, C)."""
        x, context.memory.weights = self.encoder_attn(
            x,
            context.source,
            context.source,
            key_padding_mask=context.source_padding_mask,
            incremental_state=context.memory.state,
            static_kv=True,
            need_weights=context.need_head_weights or (not self.training and self.need_attn),
            need_head_weights=context.need_head_weights,
            biases=context.biases.get("encoder_attn"),
        )
        return self.dropout_module(x)


def _with_source(
    source: Tensor, source_padding: Optional[Tensor], x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]
) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Source and target in one attention (Peitz et al. 2019): keys (S + T, B, C), and both masks extended to them."""
    if mask is not None:
        mask = torch.cat((mask.new_zeros(x.size(0), source.size(0)), mask), dim=1)
    if padding is not None:
        if source_padding is None:
            source_padding = padding.new_zeros(source.size(1), source.size(0))
        padding = torch.cat((source_padding, padding), dim=1)
    return torch.cat((source, x)), mask, padding
