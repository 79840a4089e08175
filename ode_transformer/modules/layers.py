"""Encoder and decoder layers: a splitting of attention (F) and feed-forward (G), solved with Euler sub-steps.

Stock fairseq's layer is the Lie-Trotter splitting; with it these layers compute the same bits. The last F and the
last G of a splitting are the stock sub-layers under their stock names, so that checkpoints of the Transformer fit;
an earlier one is an extra sub-layer with weights of its own (``macaron_*``).

In a decoder layer F is self-attention; cross-attention follows the last of it, for a whole step.
"""

from typing import Optional

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import LayerNorm
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..numerics.splitting import get_splitting, split_step


class SplitLayer:
    """What the encoder's and the decoder's layer share: the sub-layers that a splitting asks for, and one substep."""

    def _build_sublayers(self, cfg: TransformerConfig, ffn_embed_dim: int) -> None:
        self.splitting = get_splitting(str(cfg.splitting))
        if max(map(self.splitting.flows.count, "FG")) > 2:
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

    def _substeps(self, attentions: list, cross_attention: Optional[tuple] = None) -> list:
        """Pairs ((Sub, norm), fraction of the step), in their order.

        Args:
            attentions: (Sub, norm) of every F of the splitting.
            cross_attention: (Sub, norm) of the decoder's attention over the source, solved after the last F.
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
        substeps = [(next(sublayers[flow]), fraction) for flow, fraction in self.splitting]
        if cross_attention is not None:
            substeps.insert(self.splitting.flows.rindex("F") + 1, (cross_attention, 1.0))
        return substeps

    def _euler(self, sublayer: tuple, y: Tensor, h: float) -> Tensor:
        """Pre-norm: y + h Sub(LN(y)). Post-norm: LN(y + h Sub(y))."""
        f, norm = sublayer
        if self.normalize_before:
            return torch.add(y, f(norm(y)), alpha=h)
        return norm(torch.add(y, f(y), alpha=h))


class EncoderLayer(SplitLayer, TransformerEncoderLayerBase):
    """An encoder layer; interface and names as fairseq's."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__(cfg)
        self._build_sublayers(cfg, cfg.encoder.ffn_embed_dim)

    def forward(self, x: Tensor, encoder_padding_mask: Optional[Tensor]) -> Tensor:
        """One layer.

        Args:
            x: (T, B, C).
            encoder_padding_mask: (B, T), true where the source is padding, or None.

        Returns:
            (T, B, C).
        """

        def attend(attention):
            def f(x):
                x, _ = attention(x, x, x, key_padding_mask=encoder_padding_mask, need_weights=False)
                return self.dropout_module(x)

            return f

        attentions = [(attend(self.self_attn), self.self_attn_layer_norm)]
        if hasattr(self, "macaron_attn"):
            attentions.insert(0, (attend(self.macaron_attn), self.macaron_attn_layer_norm))
        return split_step(self._substeps(attentions), x, step=self._euler)

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
        # The released Macaron code takes the encoder's inner size here, wrong where the two differ (spec M7).
        self._build_sublayers(cfg, cfg.decoder.ffn_embed_dim)

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

        Returns:
            (T, B, C); the weights (B, T, S), or (H, B, T, S) for every head, or None; None.
        """
        weights = None

        def attend(attention):
            def f(x):
                y, mask, padding_mask = x, self_attn_mask, self_attn_padding_mask
                cached = attention._get_input_buffer(incremental_state)
                if self.cross_self_attention and "prev_key" not in cached:
                    # Peitz et al. 2019: the keys are the source's states and the target's, in one attention.
                    y = torch.cat((encoder_out, x))
                    if mask is not None:
                        mask = torch.cat((x.new_zeros(len(x), len(encoder_out)), mask), dim=1)
                    if padding_mask is not None:
                        source = encoder_padding_mask
                        if source is None:
                            source = padding_mask.new_zeros(encoder_out.size(1), len(encoder_out))
                        padding_mask = torch.cat((source, padding_mask), dim=1)
                x, _ = attention(
                    x,
                    y,
                    y,
                    key_padding_mask=padding_mask,
                    incremental_state=incremental_state,
                    need_weights=False,
                    attn_mask=mask,
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
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn or need_head_weights or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
            )
            return self.dropout_module(x)

        attentions = [(attend(self.self_attn), self.self_attn_layer_norm)]
        if hasattr(self, "macaron_attn"):
            attentions.insert(0, (attend(self.macaron_attn), self.macaron_attn_layer_norm))
        cross = None
        if self.encoder_attn is not None and encoder_out is not None:
            cross = (attend_source, self.encoder_attn_layer_norm)
        return split_step(self._substeps(attentions, cross), x, step=self._euler), weights, None


def _wrap(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Activation checkpointing and FSDP around a layer, where asked for, as around fairseq's own."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


def _keep_final_norm(state_dict: dict, name: str) -> None:
    # fairseq drops the final norm of encoders before version 2 and of decoders before version 3. The released
    # pre-norm models have version 2 *and* a trained norm: stock fairseq loads them without a word, decodes wrongly.
    state_dict[f"{name}.version"] = torch.tensor([3.0])


class Encoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with our layers."""

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return _wrap(EncoderLayer(cfg), cfg)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        _keep_final_norm(state_dict, name)
        return super().upgrade_state_dict_named(state_dict, name)


class Decoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with our layers."""

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return _wrap(DecoderLayer(cfg, no_encoder_attn), cfg)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        _keep_final_norm(state_dict, name)
        return super().upgrade_state_dict_named(state_dict, name)
