"""Encoder and decoder layers: splitting x integrator x attention x feed-forward.

A layer splits into attention (F) and feed-forward (G); Euler sub-steps of the Lie-Trotter splitting are stock fairseq's
layer, and compute the same, in evaluation to the bit. The last F and the last G of a splitting are the stock sub-layers
under their stock names, so that checkpoints of the Transformer fit; an earlier one is an extra sub-layer with weights
of its own (``macaron_*``). In a decoder layer F is self-attention; cross-attention (C) follows the last of it, for a
whole step.

An integrator of higher order evaluates a layer, or its sub-layers, several times with the same weights. The vector
field of a layer is its increment f(y), the sum of what its sub-layers add to y.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, NamedTuple, Optional

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import LayerNorm, MultiheadAttention
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..numerics.coefficients import Combine, build_coefficients, weighted_sum
from ..numerics.integrators import (
    EULER,
    Multistep,
    Polynomial,
    get_integrator,
    initial_scalars,
    polynomial_step,
    rk_step,
)
from ..numerics.splitting import euler, get_splitting, split_step
from .attention import RelativeAttention, StagedAttention
from .dropout import replace_dropout
from .history import History, MultistepConnection, Stack
from .positions import NO_BIASES, Biases, PositionEncoder

ODE_FUNCTIONS = {"both": None, "san": "F", "ffn": "G", "substeps": "FCG"}
"""What is integrated: the increment of the whole layer, or the sub-flows of these letters, each by itself."""

ODE_RESIDUALS = ("paper", "released")


class Sublayer(NamedTuple):
    """A sub-layer: which flow it is, F (self-attention), C (cross-attention) or G; its function, and its norm."""

    flow: str
    function: Callable[[Tensor], Tensor]
    norm: nn.Module

    def field(self, y: Tensor) -> Tensor:
        """Sub(LN(y))."""
        return self.function(self.norm(y))


def _integrator(cfg: TransformerConfig, side: str) -> str:
    return str(cfg.integrator if side == "encoder" else cfg.decoder_integrator)


def _build_coefficients(cfg: TransformerConfig, side: str, sharing: str) -> Optional[nn.Module]:
    """What weighs the stages on a side, where it is shared as named; None where the method does it itself."""
    method, name = get_integrator(_integrator(cfg, side)), str(cfg.coefficients)
    # A decoder of Euler steps has nothing to weigh: the coefficients are the encoder's.
    if str(cfg.gate_sharing) != sharing or (side == "decoder" and method == EULER):
        return None
    if isinstance(method, Multistep):
        if name != "fixed":
            raise ValueError(f"--coefficients {name}: must be fixed with the integrator {_integrator(cfg, side)}")
        return None
    try:
        return build_coefficients(name, method.stages, initial_scalars(method), getattr(cfg, side).embed_dim)
    except ValueError as error:
        raise ValueError(f"{side} with the integrator {_integrator(cfg, side)}: {error}") from error


class SplitLayer:
    """What the encoder's and the decoder's layer share: sub-layers as a splitting asks for, and the step."""

    step_size = 1.0
    """h, for whoever studies the equation; a network's is 1."""

    def _build_sublayers(self, cfg: TransformerConfig, side: str) -> None:
        ffn_embed_dim = getattr(cfg, side).ffn_embed_dim
        self.splitting = get_splitting(str(cfg.splitting))
        if max(map(self.splitting.flows.count, "FG")) > 2:  # of one's own
            raise ValueError(f"splitting {cfg.splitting!r}: a layer has at most two of each sub-layer")
        size, noise = self.embed_dim, (self.quant_noise, self.quant_noise_block_size)
        if cfg.ffn_hidden_layers == 2:
            self.fc_hidden = self.build_fc1(ffn_embed_dim, ffn_embed_dim, *noise)
        elif cfg.ffn_hidden_layers != 1:
            raise ValueError(f"--ffn-hidden-layers {cfg.ffn_hidden_layers}: must be 1 or 2")
        if self.splitting.flows.count("G") == 2:
            if cfg.ffn_hidden_layers == 2:
                raise ValueError(f"--ffn-hidden-layers 2 needs a splitting with one feed-forward, got {cfg.splitting}")
            self.macaron_fc1 = self.build_fc1(size, ffn_embed_dim, *noise)
            self.macaron_fc2 = self.build_fc2(ffn_embed_dim, size, *noise)
            self.macaron_layer_norm = LayerNorm(size, export=cfg.export)
        if self.splitting.flows.count("F") == 2:
            self.macaron_attn = self.build_self_attention(size, cfg)
            self.macaron_attn_layer_norm = LayerNorm(size, export=cfg.export)
        self._reset_parameters()
        self._configure_step(cfg, side)

    def _configure_step(self, cfg: TransformerConfig, side: str) -> None:
        name = _integrator(cfg, side)
        self.integrator = get_integrator(name)
        self.flows = ODE_FUNCTIONS[str(cfg.ode_function)]
        self.released = str(cfg.ode_residual) == "released"
        self.coefficients = _build_coefficients(cfg, side, "per-layer")
        weighed = side == "encoder" and str(cfg.coefficients) not in ("fixed", "ones")
        if not self.normalize_before and (self.integrator != EULER or weighed):
            raise ValueError(
                f"integrator {name}, coefficients {cfg.coefficients}: must be euler and fixed in a post-norm {side}, "
                f"whose norms act on sums; or make it pre-norm, --{side}-normalize-before"
            )
        if isinstance(self.integrator, Multistep):
            if self.flows is not None:
                raise ValueError(f"--ode-function {cfg.ode_function}: must be both with the integrator {name}")
            if self.released:
                raise ValueError(f"--ode-residual released: must be paper with the integrator {name}")

    def _build_attention(self, cfg: TransformerConfig, side: str, **more: Any) -> MultiheadAttention:
        heads = getattr(cfg, side).attention_heads
        more |= {
            "dropout": cfg.attention_dropout,
            "q_noise": self.quant_noise,
            "qn_block_size": self.quant_noise_block_size,
            "xformers_att_config": getattr(cfg, side).xformers_att_config,
        }
        if str(cfg.relative_positions) == "none" or "encoder_decoder_attention" in more:
            return StagedAttention(self.embed_dim, heads, **more)
        values = str(cfg.relative_positions) == "keys-values"
        return RelativeAttention(self.embed_dim, heads, cfg.max_relative_length, values, **more)

    def _reset_parameters(self) -> None:
        # As the papers' code: zero biases, Xavier feed-forward. fairseq's current layer leaves both to nn.Linear,
        # U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Attention weights are the same in both.
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
                if "fc" in name:
                    nn.init.xavier_uniform_(module.weight)

    def _feed_forward(self, x: Tensor, *linears: nn.Linear) -> Tensor:
        for linear in linears[:-1]:
            x = self.activation_dropout_module(self.activation_fn(linear(x)))
        return self.dropout_module(linears[-1](x))

    def _substeps(self, attentions: list, cross_attention: Optional[tuple] = None) -> list[tuple[Sublayer, float]]:
        """The sub-layers, each with its fraction of the step, in their order.

        Args:
            attentions: (function, norm) of every F of the splitting.
            cross_attention: (function, norm) of the decoder's attention over the source, solved after the last F.
        """
        hidden = [self.fc_hidden] if hasattr(self, "fc_hidden") else []
        feed_forwards = [(lambda x: self._feed_forward(x, self.fc1, *hidden, self.fc2), self.final_layer_norm)]
        if hasattr(self, "macaron_fc1"):
            first = (
                lambda x: self._feed_forward(x, self.macaron_fc1, self.macaron_fc2),
                self.macaron_layer_norm,
            )
            feed_forwards.insert(0, first)
        sublayers = {"F": iter(attentions), "G": iter(feed_forwards)}
        substeps = [(Sublayer(flow, *next(sublayers[flow])), fraction) for flow, fraction in self.splitting]
        if cross_attention is not None:
            substeps.insert(self.splitting.flows.rindex("F") + 1, (Sublayer("C", *cross_attention), 1.0))
        return substeps

    def _solve(
        self, substeps: list[tuple[Sublayer, float]], y: Tensor, shared: Optional[Combine], increment: bool
    ) -> Tensor:
        """The layer's step from y, (T, B, C); only its increment f(y) if asked for (multistep schemes do)."""
        if increment:
            return self._increment(substeps, y)
        combine = shared if self.coefficients is None else self.coefficients
        if self.integrator == EULER and combine is None:
            return split_step(substeps, y, self.step_size, self._euler)
        step = polynomial_step if isinstance(self.integrator, Polynomial) else rk_step

        def integrate(f: Callable[[Tensor], Tensor], y: Tensor, h: float) -> Tensor:
            if self.released:  # F is the layer with its residual
                return step(lambda x: euler(f, x, h), y, self.integrator, combine=combine)
            return step(f, y, self.integrator, h, combine)

        if self.flows is None:
            return integrate(lambda x: self._increment(substeps, x), y, self.step_size)

        def substep(sublayer: Sublayer, y: Tensor, h: float) -> Tensor:
            return integrate(sublayer.field, y, h) if sublayer.flow in self.flows else self._euler(sublayer, y, h)

        return split_step(substeps, y, self.step_size, substep)

    def _increment(self, substeps: list[tuple[Sublayer, float]], y: Tensor) -> Tensor:
        """f(y) = sum of h Sub(LN(y + what came before)); never layer(y) - y, which loses bits in half precision."""
        total = None
        for sublayer, h in substeps:
            slope = sublayer.field(y if total is None else y + total)
            total = weighted_sum([h], [slope], total)  # total + h Sub
        return total

    def _euler(self, sublayer: Sublayer, y: Tensor, h: float) -> Tensor:
        """Pre-norm: y + h Sub(LN(y)). Post-norm: LN(y + h Sub(y))."""
        if self.normalize_before:
            return torch.add(y, sublayer.field(y), alpha=h)
        return sublayer.norm(torch.add(y, sublayer.function(y), alpha=h))


class EncoderLayer(SplitLayer, TransformerEncoderLayerBase):
    """An encoder layer; interface and names as fairseq's."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__(cfg)
        self._build_sublayers(cfg, "encoder")

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig) -> MultiheadAttention:
        return self._build_attention(cfg, "encoder", self_attention=True)

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Optional[Tensor],
        coefficients: Optional[Combine] = None,
        increment: bool = False,
        biases: Mapping[str, Biases] = NO_BIASES,
    ) -> Tensor:
        """One layer.

        Args:
            x: (T, B, C).
            encoder_padding_mask: (B, T), true where the source is padding, or None.
            coefficients: what weighs the stages, if the layers share it.
            increment: return f(x), not the state after the step.
            biases: what positions add to queries, keys and values of an attention, by its name.

        Returns:
            (T, B, C).
        """

        def attend(name):
            def f(x):
                x, _ = getattr(self, name)(
                    x, x, x, key_padding_mask=encoder_padding_mask, need_weights=False, biases=biases.get(name)
                )
                return self.dropout_module(x)

            return f

        attentions = [(attend("self_attn"), self.self_attn_layer_norm)]
        if hasattr(self, "macaron_attn"):
            attentions.insert(0, (attend("macaron_attn"), self.macaron_attn_layer_norm))
        return self._solve(self._substeps(attentions), x, coefficients, increment)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Rename the norms of old checkpoints; the released Macaron keeps FFN_a's as ``layer_norms.2``."""
        super().upgrade_state_dict_named(state_dict, name)
        for part in ("weight", "bias"):
            if (old := f"{name}.layer_norms.2.{part}") in state_dict:
                state_dict[f"{name}.macaron_layer_norm.{part}"] = state_dict.pop(old)


class DecoderLayer(SplitLayer, TransformerDecoderLayerBase):
    """A decoder layer; interface and names as fairseq's, without its ONNX states."""

    def __init__(self, cfg: TransformerConfig, no_encoder_attn: bool = False):
        super().__init__(cfg, no_encoder_attn)
        # The released Macaron code takes the encoder's inner size here, wrong where the two differ.
        self._build_sublayers(cfg, "decoder")

    def build_self_attention(
        self, embed_dim: int, cfg: TransformerConfig, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> MultiheadAttention:
        return self._build_attention(cfg, "decoder", self_attention=not cfg.cross_self_attention)

    def build_encoder_attention(self, embed_dim: int, cfg: TransformerConfig) -> MultiheadAttention:
        width = cfg.encoder.embed_dim
        return self._build_attention(cfg, "decoder", kdim=width, vdim=width, encoder_decoder_attention=True)

    def forward(
        self,
        x: Tensor,
        encoder_out: Optional[Tensor] = None,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[dict] = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        coefficients: Optional[Combine] = None,
        increment: bool = False,
        biases: Mapping[str, Biases] = NO_BIASES,
    ) -> tuple[Tensor, Optional[Tensor], None]:
        """One layer.

        Args:
            x: (T, B, C); T is 1 when decoding step by step.
            encoder_out: (S, B, C), S the source's length.
            encoder_padding_mask: (B, S), true where the source is padding.
            incremental_state: the cache of step-by-step decoding.
            self_attn_mask: (T, T), minus infinity where attention is forbidden.
            self_attn_padding_mask: (B, T).
            need_attn: return the weights of cross-attention, averaged over heads.
            need_head_weights: return them for every head.
            coefficients: what weighs the stages, if the layers share it.
            increment: return f(x), not the state after the step.
            biases: what positions add to queries, keys and values of an attention, by its name.

        Returns:
            (T, B, C); the weights (B, T, S), or (H, B, T, S) for every head, or None; None. With several evaluations
            the weights are the last one's.
        """
        weights = None
        # Keys and values of the source are the same for every stage: computed once, also where nothing else is cached.
        source_state = incremental_state
        if source_state is None and self.integrator.stages > 1:
            source_state = {}

        def attend(name):
            attention, stages = getattr(self, name), count()

            def f(x):
                attention.stage = next(stages)
                y, mask, padding_mask = x, self_attn_mask, self_attn_padding_mask
                if self.cross_self_attention and "prev_key" not in attention._get_input_buffer(incremental_state):
                    y, mask, padding_mask = _with_source(encoder_out, encoder_padding_mask, x, mask, padding_mask)
                x, _ = attention(
                    x,
                    y,
                    y,
                    key_padding_mask=padding_mask,
                    incremental_state=incremental_state,
                    need_weights=False,
                    attn_mask=mask,
                    biases=biases.get(name),
                )
                return self.dropout_module(x)

            return f

        def attend_source(x):
            nonlocal weights
            x, weights = self.encoder_attn(
                x,
                encoder_out,
                encoder_out,
                key_padding_mask=encoder_padding_mask,
                incremental_state=source_state,
                static_kv=True,
                need_weights=need_attn or need_head_weights or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
                biases=biases.get("encoder_attn"),
            )
            return self.dropout_module(x)

        attentions = [(attend("self_attn"), self.self_attn_layer_norm)]
        if hasattr(self, "macaron_attn"):
            attentions.insert(0, (attend("macaron_attn"), self.macaron_attn_layer_norm))
        cross = None
        if self.encoder_attn is not None and encoder_out is not None:
            cross = (attend_source, self.encoder_attn_layer_norm)
        return self._solve(self._substeps(attentions, cross), x, coefficients, increment), weights, None


def _with_source(
    source: Tensor, source_padding: Optional[Tensor], x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]
) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Source and target in one attention (Peitz et al. 2019): keys (S + T, B, C), and both masks for them."""
    if mask is not None:
        mask = torch.cat((mask.new_zeros(len(x), len(source)), mask), dim=1)
    if padding is not None:
        if source_padding is None:
            source_padding = padding.new_zeros(source.size(1), len(source))
        padding = torch.cat((source_padding, padding), dim=1)
    return torch.cat((source, x)), mask, padding


def recompute(forward: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call ``forward``; where gradients are taken, keep its inputs alone and run it again in the backward pass."""
    if torch.is_grad_enabled():
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    return forward(*args, **kwargs)


def wrap(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Activation checkpointing and FSDP around a layer, where asked for, as around fairseq's own.

    fairseq's checkpointing runs a backward pass within the backward pass, in which distributed training counts the
    gradient of what layers share, a gate, once a layer, and stops. PyTorch's newer kind has no such pass.
    """
    if cfg.offload_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=True)
    elif cfg.checkpoint_activations:
        layer.forward = partial(recompute, layer.forward)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


def _keep_final_norm(state_dict: dict, name: str) -> None:
    # fairseq drops the final norm of encoders before version 2 and of decoders before version 3. The released
    # pre-norm models have version 2 *and* a trained norm: stock fairseq loads them without a word, decodes wrongly.
    state_dict[f"{name}.version"] = torch.tensor([3.0])


def _connect(stack: nn.Module, side: str, cfg: TransformerConfig, layerdrop: float) -> None:
    """Give an encoder or a decoder what stands between its layers, what they share, and our dropout."""
    part, history, name = getattr(cfg, side), str(getattr(cfg, f"{side}_history")), _integrator(cfg, side)
    depth, method = len(stack.layers), get_integrator(name)
    stack.history = None
    if isinstance(method, Multistep):
        if history != "none":
            raise ValueError(f"--{side}-history {history}: must be none with the integrator {name}, itself a history")
        stack.history = MultistepConnection(method, depth)
    elif history != "none":
        stack.history = History(history, depth, part.embed_dim, part.normalize_before)
    if stack.history is not None and part.layers_to_keep:
        raise ValueError(f"--{side}-layers-to-keep {part.layers_to_keep}: a history of all layers does not fit a part")
    stack.coefficients = _build_coefficients(cfg, side, "shared")
    shared = {} if stack.coefficients is None else {"coefficients": stack.coefficients}
    stack.layers = Stack(nn.ModuleList.__iter__(stack.layers), layerdrop, stack.history, shared)
    replace_dropout(stack)


def _check_history(stack: nn.Module, state_dict: dict, name: str) -> None:
    weight = state_dict.get(f"{name}.history.weight")
    own = getattr(stack.history, "weight", None)
    if weight is not None and own is not None and weight.shape != own.shape:
        raise ValueError(
            f"{name}.history.weight is {tuple(weight.shape)} in the checkpoint, for another number of layers: must be "
            f"{tuple(own.shape)} with {stack.history.depth} of them"
        )


class Encoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with our layers."""

    position_encoder: Optional[PositionEncoder] = None

    def __init__(self, cfg: TransformerConfig, *args: Any, **more: Any):
        super().__init__(cfg, *args, **more)
        _connect(self, "encoder", cfg, self.encoder_layerdrop)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return wrap(EncoderLayer(cfg), cfg)

    def forward_scriptable(self, src_tokens: Tensor, *args: Any, **more: Any) -> dict:
        """As of fairseq's encoder, whose layers are told the positions of the tokens (B, S)."""
        if self.position_encoder is None:
            return super().forward_scriptable(src_tokens, *args, **more)
        padding = src_tokens.eq(self.padding_idx)
        with self.layers.told(self.position_encoder.encoder(src_tokens, padding)):
            return super().forward_scriptable(src_tokens, *args, **more)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        """Bring names up to date; those of the released ODE Transformer's coefficients among them."""
        _keep_final_norm(state_dict, name)
        _check_history(self, state_dict, name)
        for old, new in (
            ("gate_linear.weight", "gate.weight"),
            ("gate_linear.bias", "gate.bias"),
            ("alpha", "weight"),
        ):
            if f"{name}.{old}" in state_dict:
                state_dict[f"{name}.coefficients.{new}"] = state_dict.pop(f"{name}.{old}")
        return super().upgrade_state_dict_named(state_dict, name)


class Decoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with our layers."""

    position_encoder: Optional[PositionEncoder] = None

    def __init__(self, cfg: TransformerConfig, *args: Any, **more: Any):
        super().__init__(cfg, *args, **more)
        _connect(self, "decoder", cfg, self.decoder_layerdrop)

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return wrap(DecoderLayer(cfg, no_encoder_attn), cfg)

    def extract_features_scriptable(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[dict],
        incremental_state: Optional[dict] = None,
        *args: Any,
        **more: Any,
    ) -> tuple[Tensor, dict]:
        """As of fairseq's decoder, whose layers are told the positions of the tokens (B, T), and of the source's."""
        stock = super().extract_features_scriptable
        if self.position_encoder is None:
            return stock(prev_output_tokens, encoder_out, incremental_state, *args, **more)
        padding, source_padding = prev_output_tokens.eq(self.padding_idx), None
        if encoder_out is not None and encoder_out["encoder_out"]:
            masks, states = encoder_out["encoder_padding_mask"], encoder_out["encoder_out"][0]  # (S, B, C)
            source_padding = masks[0] if masks else padding.new_zeros(states.size(1), states.size(0))
        places = self.position_encoder.decoder(prev_output_tokens, padding, source_padding, incremental_state)
        with self.layers.told(places):
            return stock(prev_output_tokens, encoder_out, incremental_state, *args, **more)

    def reorder_incremental_state_scripting(self, incremental_state: dict, new_order: Tensor) -> None:
        """As of fairseq's decoder, whose position encoder, no child of it, follows too."""
        super().reorder_incremental_state_scripting(incremental_state, new_order)
        if self.position_encoder is not None:
            self.position_encoder.reorder_incremental_state(incremental_state, new_order)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        _keep_final_norm(state_dict, name)
        _check_history(self, state_dict, name)
        return super().upgrade_state_dict_named(state_dict, name)
