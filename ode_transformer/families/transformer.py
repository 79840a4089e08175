"""The encoder-decoder that all families build on: fairseq's Transformer around our layers."""

import argparse
from typing import Any

from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import nn

from ..config import add_flags, to_transformer_config
from ..modules.layers import Decoder, Encoder


class SplitTransformerModel(TransformerModelBase):
    """A Transformer whose layers follow a splitting; a family registers a subclass with its configuration."""

    config_class: type

    @classmethod
    def add_args(cls, parser: argparse._ActionsContainer) -> None:
        """Add the family's flags and all of the stock Transformer's."""
        add_flags(parser, cls.config_class())

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SplitTransformerModel":
        """Build the model from the family's flat configuration (or what fairseq or hydra made of it).

        Raises:
            ValueError: for a field that is unknown, missing or out of its set.
        """
        return super().build_model(to_transformer_config(cfg, cls.config_class), task)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> Encoder:
        return Encoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> Decoder:
        return Decoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
