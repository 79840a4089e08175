"""Encoder and decoder: embeddings, and our layers with histories and positions.

The forward passes are those of fairseq 0.12.3, with the contexts of our layers, histories and positions added.

Legend: T positions, S positions of the source, B sentences, C the width, H heads.
"""

from dataclasses import replace
from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import Embedding, TransformerConfig, TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import LearnedPositionalEmbedding, PositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..errors import OdeTransformerError
from ..numerics.protocol import Learned
from . import passes
from .attention import relative_distances
from .dropout import replace_dropout
from .layers import Context, DecoderLayer, EncoderLayer
from .options import Options
from .positions import Place, PositionEncoder, SinusoidalPositions, Solution, padding_or_none


class SplitStack(nn.Module):
    """The additions of our stacks to fairseq's: histories, modules that the layers share, positions and velocities."""

    side: str
    position_encoder: PositionEncoder | None = None

    def __init__(self, cfg: TransformerConfig, *args: Any, **more: Any):
        super().__init__(cfg, *args, **more)
        options = Options(cfg, self.side)
        self.word_dropout, self.compile_layers = cfg.word_dropout, cfg.compile_layers
        self.max_relative_length = options.max_relative_length
        if isinstance(self.embed_positions, SinusoidalPositionalEmbedding):
            self.embed_positions.__class__ = SinusoidalPositions
        self.history = options.build_history(len(self.layers))
        self.coefficients = options.build_coefficients("shared")
        self.stage_norms = options.build_norms()
        self.velocity_tokens = self.velocity_positions = None
        if options.velocity_embedding:
            # Learned positions get a velocity table as well; sinusoidal positions are added to the state only.
            tokens, positions = self.embed_tokens, self.embed_positions
            self.velocity_tokens = Embedding(tokens.num_embeddings, options.embed_dim, tokens.padding_idx)
            if isinstance(positions, LearnedPositionalEmbedding):
                size = (positions.num_embeddings - positions.padding_idx - 1, options.embed_dim, positions.padding_idx)
                self.velocity_positions = PositionalEmbedding(*size, learned=True)
        replace_dropout(self)

    def tell_positions(self, encoder: PositionEncoder | None) -> None:
        """Set the position encoder. The model registers it as a sub-module; the stack only refers to it."""
        self.__dict__["position_encoder"] = encoder

    def through(
        self,
        x: Tensor,
        tokens: Tensor,
        context: Context,
        alignment_layer: int | None = None,
        solution: Solution | None = None,
    ) -> tuple[list[Tensor], Tensor | None]:
        """As in ``PlainDecoder``; ``solution`` is the result of ``PositionEncoder.solve``, or None to solve here."""
        distances = None
        if self.max_relative_length is not None:
            distances = relative_distances(x.size(0), tokens.size(1), self.max_relative_length, x)
        learned = Learned(self.coefficients, self.stage_norms, self.history)
        context = replace(context, learned=learned, distances=distances)
        places = self._places(tokens, context, solution)
        if context.incremental_state is None:  # once for all layers and stages; a cache has masks of its own
            context = context.merged(x.dtype)
        states, kept, weights = [], [x], None
        carried = self._velocity(tokens, context.incremental_state)
        for i, (layer, place) in enumerate(zip(self.layers, places, strict=True)):
            need = i == alignment_layer
            told = replace(context, biases=place.biases, need_head_weights=need)
            states.append(place.add(self.history.mix(kept)))
            y, carried, of_layer = passes.run_layer(self, layer, states[-1], told, carried)
            kept.append(self.history.keep(kept, y))
            if need:
                weights = of_layer
        return [*states, self.history.mix(kept)], weights

    def _places(self, tokens: Tensor, context: Context, solution: Solution | None) -> list[Place]:
        """Return the positions of each layer."""
        if self.position_encoder is None:
            return [Place()] * len(self.layers)
        padding, source, source_padding = tokens.eq(self.padding_idx), context.source, context.source_padding_mask
        if source is not None and source_padding is None:
            source_padding = padding.new_zeros(source.size(1), source.size(0))  # (B, S)
        return self.position_encoder.places(
            self.side,
            tokens,
            padding,
            source_padding=source_padding,
            incremental_state=context.incremental_state,
            solution=solution,
        )

    def _velocity(self, tokens: Tensor, incremental_state: dict | None = None) -> Tensor | None:
        """Tokens (B, T) -> the velocity before the first layer (T, B, C), or None if the stack starts at rest."""
        if self.velocity_tokens is None:
            return None
        new = tokens if incremental_state is None else tokens[:, -1:]
        v = self.embed_scale * self.velocity_tokens(new)
        if self.velocity_positions is not None:
            v = v + self.velocity_positions(tokens, incremental_state=incremental_state)[:, -new.size(1) :]
        return self.dropout_module(v).transpose(0, 1).contiguous()

    def _drop_words(self, x: Tensor) -> Tensor:
        """In training, replace each token's embedding in (B, T, C) by zeros with probability ``--word-dropout``.

        The released code's ``word_dropout`` is the probability of keeping a token.
        """
        if not self.training or self.word_dropout == 0:
            return x
        kept = torch.rand(x.shape[:2], device=x.device) >= self.word_dropout  # half precision has too few numbers
        return x * kept.unsqueeze(-1)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        """Keep the final norm, which fairseq drops from old checkpoints."""
        # It does so for encoders before version 2 and for decoders before version 3. The released pre-norm models have
        # version 2 *and* a trained norm: stock fairseq loads them silently and decodes wrongly.
        if f"{name}.layer_norm.weight" in state_dict:
            state_dict[f"{name}.version"] = torch.tensor([3.0])
        return super().upgrade_state_dict_named(state_dict, name)


class PlainEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder, whose training pass never makes the host wait for the GPU.

    A subclass has the layers, and a method ``through`` as in ``PlainDecoder``.
    """

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        **more: Any,
    ) -> dict[str, list]:
        """Encode sources (B, S) into fairseq's dictionary; ``token_embeddings`` (B, S, C) replace those of the tokens.

        ``src_lengths`` is not read; further arguments are passed to ``through``.
        """
        padding = src_tokens.eq(self.padding_idx)
        hidden = padding_or_none(padding)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)
        if hidden is not None:
            x = x.masked_fill(hidden.unsqueeze(-1), 0.0)
        x = x.transpose(0, 1).contiguous()  # (S, B, C); as a view, it would be copied by every norm
        states, _ = self.through(x, src_tokens, Context(hidden), **more)
        x = states[-1] if self.layer_norm is None else self.layer_norm(states[-1])
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedding],
            "encoder_states": states if return_all_hiddens else [],
            "fc_results": [None] * (len(states) - 1) if return_all_hiddens else [],  # only fairseq's layers have them
            "src_tokens": [],
            "src_lengths": [(~padding).sum(dim=1, dtype=torch.int32).reshape(-1, 1)],
        }


class Encoder(SplitStack, PlainEncoder):
    """fairseq's Transformer encoder with our layers."""

    side = "encoder"

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return fsdp_wrap(EncoderLayer(cfg), min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As in fairseq, with ``--word-dropout``: tokens (B, S) -> the input of the first layer, and the scaled
        embeddings without positions, (B, S, C) each.
        """
        words = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
        return super().forward_embedding(src_tokens, self._drop_words(words))


class PlainDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder, whose training pass never makes the host wait for the GPU.

    A subclass has the layers, and the method ``through``.
    """

    def through(
        self, x: Tensor, tokens: Tensor, context: Context, alignment_layer: int, **more: Any
    ) -> tuple[list[Tensor], Tensor | None]:
        """Pass through the layers.

        Args:
            x: (T, B, C), the embedding; T is 1 in incremental decoding.
            tokens: (B, T'), all tokens so far.
            context: the context of all layers.
            alignment_layer: the layer whose weights of cross-attention are returned.

        Returns:
            (T, B, C): the input of each layer, and the output of the last. The weights of cross-attention (H, B, T, S),
            or None.
        """
        raise NotImplementedError

    def buffered_future_mask(self, tensor: Tensor) -> Tensor | None:
        """As in fairseq, but made anew: states (T, B, C) -> (T, T), minus infinity right of the diagonal."""
        return tensor.new_full((tensor.size(0), tensor.size(0)), float("-inf")).triu(1)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        **more: Any,
    ) -> tuple[Tensor, dict[str, list]]:
        """Decode previous outputs into scores (B, T, vocabulary size), or what ``extract_features`` returns.

        ``src_lengths`` and ``return_all_hiddens`` are not read.
        """
        x, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state, **more)
        return x if features_only else self.output_layer(x), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        **more: Any,
    ) -> tuple[Tensor, dict[str, list]]:
        """Decode previous outputs into features.

        Args:
            prev_output_tokens: (B, T), all tokens so far.
            encoder_out: the encoder's dictionary; None in a language model.
            incremental_state: the cache of incremental decoding; with it only the last token is processed.
            full_context_alignment: let every position attend to those after it.
            alignment_layer: the layer whose attention weights are returned; the last if None.
            alignment_heads: the number of heads that the weights are averaged over; all if None.

        Returns:
            The features (B, T, C), in incremental decoding of the last token; and a dictionary of ``attn``, a list of
            the weights of cross-attention (B, T, S) or None, and ``inner_states``, the states of ``through``.
        """
        source = source_padding = mask = None
        if encoder_out is not None:  # (S, B, C) and (B, S), each in a list, which may be empty
            source, source_padding = (next(iter(encoder_out[f"encoder_{x}"]), None) for x in ("out", "padding_mask"))
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1

        x = self.forward_embedding(prev_output_tokens, incremental_state).transpose(0, 1).contiguous()  # (T, B, C)
        if incremental_state is None and not full_context_alignment:
            mask = self.buffered_future_mask(x)
        new = prev_output_tokens[:, -x.size(0) :].eq(self.padding_idx)
        # A step of decoding asks, because caches would grow by their padding; a search never has any.
        asked = incremental_state is not None and not new.any()
        padding = None if asked else padding_or_none(new)
        context = Context(
            padding,
            source=source,
            source_padding_mask=source_padding,
            incremental_state=incremental_state,
            attn_mask=mask,
        )
        states, weights = self.through(x, prev_output_tokens, context, alignment_layer, **more)
        if weights is not None:
            weights = weights.float().to(x)[:alignment_heads].mean(dim=0)  # over heads
        x = states[-1] if self.layer_norm is None else self.layer_norm(states[-1])
        x = x.transpose(0, 1)  # (B, T, C)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [weights], "inner_states": states}

    def forward_embedding(self, tokens: Tensor, incremental_state: dict | None = None) -> Tensor:
        """Tokens (B, T) -> the input of the first layer (B, T, C), or with a cache the last token's (B, 1, C)."""
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens, positions = tokens[:, -1:], None if positions is None else positions[:, -1:]
        x = self.embed_scale * self.embed_words(tokens.contiguous())
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)

    def embed_words(self, tokens: Tensor) -> Tensor:
        """Tokens (B, T) -> their embeddings (B, T, C), not scaled."""
        return self.embed_tokens(tokens)

    def make_generation_fast_(self, need_attn: str | None = None, **_: Any) -> None:
        """Refuse to print alignments of a model that has no weights for them; fairseq calls this before generation."""
        if need_attn and all(getattr(layer, "encoder_attn", None) is None for layer in self.layers):
            raise OdeTransformerError("--print-alignment: the model keeps no weights of attention to a source")

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        """As in fairseq, which gives the output a shared embedding even if an adaptive softmax is in its place."""
        super().upgrade_state_dict_named(state_dict, name)
        if self.adaptive_softmax is not None:
            state_dict.pop(f"{name}.output_projection.weight", None)
        return state_dict


class Decoder(SplitStack, PlainDecoder):
    """fairseq's Transformer decoder with our layers."""

    side = "decoder"

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        layer = DecoderLayer(cfg, no_encoder_attn)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    def embed_words(self, tokens: Tensor) -> Tensor:
        """As in ``PlainDecoder``, with ``--word-dropout``."""
        return self._drop_words(self.embed_tokens(tokens))
