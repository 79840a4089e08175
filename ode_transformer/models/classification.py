"""Encoders with classification heads, for fairseq's task ``sentence_prediction``.

A head reads the mean over real tokens, as in the classification experiments of TransEvolve (whose released code
includes padding in the mean). ``transformer_small`` is a pre-norm Transformer of the same width, heads and layers (the
one in the paper's table is wider, and was taken from other work). All options of splitting, integrator, attention and
history can be used.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.models import FairseqEncoderModel, register_model
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from ..config import option, register_architectures
from ..modules.options import SplitTransformerConfig
from ..modules.stacks import Encoder, SplitStack
from .transformer import Configured, add_positions_and_freeze, build_graphs

LONGEST = "longest sentence in tokens, for the task as well"


class ClassificationHead(nn.Module):
    """The mean over real tokens, layer norm, and a linear map: (B, T, C) -> (B, classes)."""

    def __init__(self, embed_dim: int, classes: int):
        super().__init__()
        self.layer_norm = nn.LayerNorm(embed_dim, eps=1e-3)  # as everywhere in TransEvolve
        self.out_proj = nn.Linear(embed_dim, classes)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """States (B, T, C) and a padding mask (B, T) -> scores (B, classes)."""
        real = (~padding_mask).unsqueeze(-1).float()  # half precision cannot count the tokens
        mean = (x.float() * real).sum(1) / real.sum(1)
        return self.out_proj(self.layer_norm(mean.type_as(x)))


@dataclass
class EncoderClassifierConfig(SplitTransformerConfig):
    """The options of an encoder."""

    encoder_normalize_before: bool = True
    max_positions: int = option(512, LONGEST)


@register_model("transformer_encoder", dataclass=EncoderClassifierConfig)
class EncoderClassifier(Configured, FairseqEncoderModel):
    """A Transformer encoder with classification heads (``--arch transformer_small``); TransEvolve has a subclass."""

    config_class, encoder_class = EncoderClassifierConfig, Encoder

    def __init__(self, cfg: TransformerConfig, encoder: nn.Module):
        super().__init__(encoder)
        self.cfg = cfg
        self.classification_heads = nn.ModuleDict()
        self.graphs = build_graphs(cfg, encoder)
        if isinstance(encoder, SplitStack):
            add_positions_and_freeze(self, cfg, encoder=encoder)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "EncoderClassifier":
        """Return the model of a flat configuration, which is checked, for up to ``--max-positions`` tokens."""
        cfg = cls.nested_config(cfg, alone="encoder")
        cfg.max_source_positions = cfg.max_target_positions = cfg.max_positions
        embedding = TransformerModelBase.build_embedding(
            cfg, task.source_dictionary, cfg.encoder.embed_dim, cfg.encoder.embed_path
        )
        return cls(cfg, cls.encoder_class(cfg, task.source_dictionary, embedding))

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Add a classification head; fairseq's task calls this."""
        self.classification_heads[name] = ClassificationHead(self.cfg.encoder.embed_dim, num_classes)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        features_only: bool = True,
        classification_head_name: str | None = None,
    ) -> tuple[Tensor, dict]:
        """Tokens (B, T) -> the scores (B, classes) of the named head, or the states (B, T, C) if none is named; and the
        encoder's dictionary.
        """
        x, out = self.graphs(self, self._states, {"src_tokens": src_tokens})
        if classification_head_name is None:
            return x, out
        return self.classification_heads[classification_head_name](x, src_tokens.eq(self.encoder.padding_idx)), out

    def _states(self, src_tokens: Tensor) -> tuple[Tensor, dict]:
        out = self.encoder(src_tokens, None)  # which counts the padding itself
        return out["encoder_out"][0].transpose(0, 1), out

    def max_positions(self) -> int:
        """Return the maximum length of a sentence in tokens."""
        return self.cfg.max_source_positions


ARCHITECTURES = {
    "transformer_small": {
        "encoder_embed_dim": 256, "encoder_ffn_embed_dim": 1024, "encoder_attention_heads": 8, "encoder_layers": 6,
    },
}  # fmt: skip

register_architectures("transformer_encoder", EncoderClassifierConfig, ARCHITECTURES)
