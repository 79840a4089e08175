"""The encoder-decoder that all families build on: fairseq's Transformer with our layers.

A family is a configuration with its own defaults and a table of named architectures. Macaron Net, the ODE Transformer
and FLOATER share every option below; TransEvolve has blocks of another kind, and its own options.
"""

import re
from collections.abc import Mapping
from typing import Any, Optional

from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from ..config import HasFlags, to_transformer_config
from ..errors import OdeTransformerError
from ..modules.graphs import TrainingGraphs
from ..modules.options import SplitTransformerConfig
from ..modules.positions import build_position_encoder
from ..modules.rules import check, check_alone
from ..modules.stacks import Decoder, Encoder, PlainDecoder, PlainEncoder, SplitStack
from ..numerics.splitting import SPLITTINGS


def size(embed_dim: int, ffn_embed_dim: int, heads: int, layers: int = 6, **more: Any) -> dict[str, Any]:
    """The fields of a size. The decoder has the encoder's number of layers and its widths."""
    return {
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": ffn_embed_dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_layers": layers,
        "decoder_layers": layers,
        **more,
    }


def row(system: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table of architectures: a system in a size.

    Args:
        system: the options in which the system differs from its family's defaults.
        fields: the size. The feed-forward dimension is that of the layer; two feed-forward networks halve it.
    """
    if SPLITTINGS.named(system.get("splitting", "lie-trotter")).feed_forwards == 2:
        fields = {**fields, "encoder_ffn_embed_dim": fields["encoder_ffn_embed_dim"] // 2}
    return {**fields, **system}


def nested(flat: Any, config_class: type, alone: Optional[str] = None) -> TransformerConfig:
    """The nested configuration that fairseq's Transformer is built from.

    Args:
        flat: the flat configuration, or fairseq's or hydra's version of it.
        config_class: its class.
        alone: the only side of the model, ``encoder`` or ``decoder``; None if it has both.

    Raises:
        OdeTransformerError: a field is unknown or missing, its value is invalid, it cannot be combined with another, or
            it chooses a method for a side that is not there.
    """
    cfg = to_transformer_config(flat, config_class)
    if cfg.position_encoder == "learned":
        cfg.encoder.learned_pos = cfg.decoder.learned_pos = True
    if alone:
        check_alone(cfg, alone, flat, config_class)
    check(cfg, (alone,) if alone else ("encoder", "decoder"))
    return cfg


def add_positions_and_freeze(model: nn.Module, cfg: TransformerConfig, sides: Mapping[str, SplitStack]) -> None:
    """Give a model its position encoder, which its stacks refer to, and turn off gradients as ``--freeze`` asks.

    Args:
        model: without a position encoder.
        cfg: its configuration.
        sides: its stacks by name, encoder and decoder.
    """
    model.position_encoder = build_position_encoder(cfg, sides)
    for stack in sides.values():
        stack.tell_positions(model.position_encoder)
    freeze(model, cfg.freeze)


def build_graphs(cfg: TransformerConfig, decoder: nn.Module) -> Optional[TrainingGraphs]:
    """The recorded training passes of a model with this decoder, if they are asked for."""
    return TrainingGraphs(decoder.dictionary.pad(), decoder.dictionary.eos()) if cfg.cuda_graphs else None


def freeze(model: nn.Module, pattern: Optional[str]) -> None:
    """Turn off gradients for the parameters whose names contain a match of a regular expression.

    Raises:
        OdeTransformerError: the pattern is not a regular expression, or matches no name.
    """
    if pattern is None:
        return
    try:
        found = [p for name, p in model.named_parameters() if re.search(pattern, name)]
    except re.error as error:
        raise OdeTransformerError(f"--freeze {pattern!r}: must be a regular expression: {error}") from error
    if not found:
        names = [name for name, _ in model.named_parameters()]
        raise OdeTransformerError(
            f"--freeze {pattern!r}: must match the name of a parameter, such as {names[0]} or {names[-1]}"
        )
    for p in found:
        p.requires_grad_(False)


class EncoderDecoder(HasFlags, TransformerModelBase):
    """fairseq's encoder-decoder, whose training passes can be recorded."""

    def __init__(self, args: Any, encoder: PlainEncoder, decoder: PlainDecoder):
        super().__init__(args, encoder, decoder)
        self.graphs = build_graphs(self.cfg, decoder)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor], prev_output_tokens: Tensor, **more: Any
    ) -> tuple[Tensor, dict]:
        """As in fairseq's Transformer.

        Args:
            src_tokens: (B, S).
            src_lengths: (B,).
            prev_output_tokens: (B, T).
            more: further arguments of fairseq's Transformer.

        Returns:
            Scores (B, T, vocabulary size), and the decoder's dictionary.
        """
        tokens = {"src_tokens": src_tokens, "prev_output_tokens": prev_output_tokens}
        if self.graphs is None:
            return self._pass(**tokens, **more)
        return self.graphs(self, self._pass, tokens, **more)

    def _pass(self, src_tokens: Tensor, prev_output_tokens: Tensor, **more: Any) -> tuple[Tensor, dict]:
        return super().forward(src_tokens, None, prev_output_tokens, **more)  # our encoders count the padding

    def set_beam_size(self, beam_size: int) -> None:
        """Set the number of hypotheses per sentence; fairseq's generator calls this if there are several."""
        self.decoder.set_beam_size(beam_size)


class SplitTransformerModel(EncoderDecoder):
    """A Transformer with our layers; a family registers a subclass with its configuration."""

    config_class = SplitTransformerConfig

    def __init__(self, args: Any, encoder: Encoder, decoder: Decoder):
        super().__init__(args, encoder, decoder)
        add_positions_and_freeze(self, self.cfg, {"encoder": encoder, "decoder": decoder})

    def _pass(
        self, src_tokens: Tensor, prev_output_tokens: Tensor, return_all_hiddens: bool = True, **more: Any
    ) -> tuple[Tensor, dict]:
        solution = None
        if self.position_encoder is not None:
            solution = self.position_encoder.solve(max(src_tokens.size(1), prev_output_tokens.size(1)))
        encoder_out = self.encoder(src_tokens, None, return_all_hiddens, solution=solution)
        return self.decoder(prev_output_tokens, encoder_out, solution=solution, **more)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SplitTransformerModel":
        """Build the model from the family's flat configuration, or from fairseq's or hydra's version of it.

        Raises:
            OdeTransformerError: a field is unknown or missing, its value is invalid, or it cannot be combined with
                another.
        """
        cfg = nested(cfg, cls.config_class)
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> Encoder:
        return Encoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> Decoder:
        return Decoder(cfg, tgt_dict, embed_tokens)
