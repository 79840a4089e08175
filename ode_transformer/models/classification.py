"""Encoders alone, with heads for classification: what fairseq's task ``sentence_prediction`` trains.

A head reads the mean over real tokens, as the classification work of TransEvolve does (whose released code takes
padding into the mean). ``transformer_small`` is a Transformer of the same width, heads and layers, pre-norm (the one in
the paper's table is wider, and from elsewhere); all options of splitting, integrator, attention and history are there
too.
"""

import argparse
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.models import FairseqEncoderModel, register_model
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from ..config import add_flags, option, register_architectures, to_transformer_config
from ..errors import OdeTransformerError
from ..modules.positions import build_position_encoder
from ..modules.stacks import Encoder
from .transformer import SplitTransformerConfig, SplitTransformerModel, freeze, nested

LONGEST = "longest sentence, of the task as well"


def refuse_decoders(cfg: TransformerConfig) -> None:
    """Refuse options of decoders, which an encoder alone cannot heed.

    Raises:
        OdeTransformerError: there is one.
    """
    for name, idle in (("decoder_integrator", "euler"), ("decoder_history", "none")):
        if (value := str(getattr(cfg, name))) != idle:
            raise OdeTransformerError(f"--{name.replace('_', '-')} {value}: must be {idle} for an encoder alone")


class ClassificationHead(nn.Module):
    """Mean over real tokens, LN, linear: (T, B, C) -> (B, classes)."""

    def __init__(self, embed_dim: int, classes: int):
        super().__init__()
        self.layer_norm = nn.LayerNorm(embed_dim, eps=1e-3)  # as everywhere in TransEvolve
        self.out_proj = nn.Linear(embed_dim, classes)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """States (T, B, C) and where they are padding, (B, T) -> scores (B, classes)."""
        real = (~padding_mask).t().unsqueeze(-1).float()  # half precision cannot count the tokens
        mean = (x.float() * real).sum(0) / real.sum(0)
        return self.out_proj(self.layer_norm(mean.type_as(x)))


class EncoderClassifier(FairseqEncoderModel):
    """An encoder and its heads; a family registers a subclass with its configuration and its encoder."""

    config_class: type
    embedded_by: type = TransformerModelBase

    def __init__(self, cfg: TransformerConfig, encoder: nn.Module):
        super().__init__(encoder)
        self.cfg = cfg
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def add_args(cls, parser: argparse._ActionsContainer) -> None:
        """Add the family's flags."""
        add_flags(parser, cls.config_class())

    @classmethod
    def nested(cls, cfg: Any) -> TransformerConfig:
        """What fairseq's encoder is built from."""
        return to_transformer_config(cfg, cls.config_class)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, dictionary: Any, embedding: nn.Embedding) -> nn.Module:
        """The encoder."""
        raise NotImplementedError

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "EncoderClassifier":
        """Build the model; its sentences may be as long as the task's.

        Raises:
            ValueError: for an option that is unknown, missing or out of its set.
        """
        nested = cls.nested(cfg)
        nested.max_source_positions = nested.max_target_positions = nested.max_positions
        embedding = cls.embedded_by.build_embedding(nested, task.source_dictionary, nested.encoder.embed_dim)
        return cls(nested, cls.build_encoder(nested, task.source_dictionary, embedding))

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Add a head, as fairseq's task asks for it."""
        self.classification_heads[name] = ClassificationHead(self.cfg.encoder.embed_dim, num_classes)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        features_only: bool = True,
        classification_head_name: Optional[str] = None,
    ) -> tuple[Tensor, dict]:
        """(B, T) tokens -> scores (B, classes) of the head named, or without one states (B, T, C)."""
        out = self.encoder(src_tokens, src_lengths)
        x = out["encoder_out"][0]
        if classification_head_name is None:
            return x.transpose(0, 1), out
        return self.classification_heads[classification_head_name](x, out["encoder_padding_mask"][0]), out

    def max_positions(self) -> int:
        """Longest sentence."""
        return self.cfg.max_source_positions


@dataclass
class TransformerClassifierConfig(SplitTransformerConfig):
    """The options of an encoder alone; those of decoders have no effect, or are refused."""

    encoder_normalize_before: bool = True
    max_positions: int = option(512, LONGEST)


@register_model("transformer_encoder", dataclass=TransformerClassifierConfig)
class TransformerClassifier(EncoderClassifier):
    """A Transformer's encoder alone, and heads for classification (``--arch transformer_small``)."""

    config_class = TransformerClassifierConfig
    embedded_by = SplitTransformerModel

    def __init__(self, cfg: TransformerConfig, encoder: Encoder):
        super().__init__(cfg, encoder)
        self.position_encoder = build_position_encoder(cfg, {"encoder": encoder})
        encoder.tell_positions(self.position_encoder)
        freeze(self, cfg.freeze)

    @classmethod
    def nested(cls, cfg: Any) -> TransformerConfig:
        """What fairseq's encoder is built from.

        Raises:
            ValueError: for an option that is unknown, missing or out of its set, or has no meaning here.
        """
        cfg = nested(cfg, cls.config_class)
        refuse_decoders(cfg)
        return cfg

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, dictionary: Any, embedding: nn.Embedding) -> Encoder:
        return Encoder(cfg, dictionary, embedding)


ARCHITECTURES = {
    "transformer_small": {
        "encoder_embed_dim": 256, "encoder_ffn_embed_dim": 1024, "encoder_attention_heads": 8, "encoder_layers": 6,
    },
}  # fmt: skip

register_architectures("transformer_encoder", TransformerClassifierConfig, ARCHITECTURES)
