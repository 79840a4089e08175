"""A language model of our layers: the decoder alone, for fairseq's task ``language_modeling``.

The ODE Transformer's truncation-error experiment (Li et al. 2022, section 5, Table 5): the perplexity of a model of one
layer stands for the error of one step of its integrator, since no error of layers before adds to it. A layer of the
decoder is the step, ``--decoder-integrator`` and ``--coefficients`` as everywhere:

    residual  euler;   RK2  heun;   RK2, gamma = 1  heun, ones;   RK2, learnable  heun, sigmoid;   RK4  rk4

What the paper does not say of its architecture is as in the one state of its code that could run: width 512, inner
size 2048, 8 heads, 1 or 2 layers, relative positions (keys, 8) beside sinusoids, each layer reading the mean of all
before it (``dense``, not learned), pre-norm without a norm at the end, embeddings of input and output apart. That code
had no gate and took F for the layer with its residual: ``--ode-residual released`` is that form; the default is the
paper's.
"""

import argparse
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.models import FairseqLanguageModel, register_model
from fairseq.models.transformer import TransformerConfig
from torch import Tensor

from ..config import add_flags, option, register_architectures
from ..modules.options import check_decoder_alone
from ..modules.positions import build_position_encoder
from ..modules.stacks import Decoder
from .transformer import (
    HistoryName,
    RelativePositionsName,
    SplitTransformerConfig,
    SplitTransformerModel,
    freeze,
    nested,
)


@dataclass
class LanguageModelConfig(SplitTransformerConfig):
    """The options of a decoder alone; those of encoders have no effect, or are refused."""

    decoder_embed_dim: int = 512
    decoder_ffn_embed_dim: int = 2048
    decoder_attention_heads: int = 8
    decoder_normalize_before: bool = True
    no_decoder_final_norm: bool = True
    relative_positions: RelativePositionsName = "keys"
    decoder_history: HistoryName = "dense"
    attention_dropout: float = 0.1
    activation_dropout: float = 0.1
    tokens_per_sample: int = option(1024, "most tokens of a sample, of the task as well")


@register_model("ode_transformer_lm", dataclass=LanguageModelConfig)
class OdeLanguageModel(FairseqLanguageModel):
    """A language model (``--arch ode_transformer_lm`` and others)."""

    config_class = LanguageModelConfig

    def __init__(self, cfg: TransformerConfig, decoder: Decoder):
        super().__init__(decoder)
        self.position_encoder = build_position_encoder(cfg, {"decoder": decoder})
        decoder.tell_positions(self.position_encoder)
        freeze(self, cfg.freeze)

    @classmethod
    def add_args(cls, parser: argparse._ActionsContainer) -> None:
        """Add the family's flags."""
        add_flags(parser, cls.config_class())

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "OdeLanguageModel":
        """Build the model; its samples may be as long as the task's.

        Raises:
            ValueError: for an option that is unknown, missing or out of its set, does not go with another, or is an
                encoder's.
        """
        cfg = nested(cfg, cls.config_class)
        check_decoder_alone(cfg)
        cfg.max_target_positions = max(cfg.tokens_per_sample, cfg.max_target_positions)
        embedding = SplitTransformerModel.build_embedding(
            cfg, task.source_dictionary, cfg.decoder.input_dim, cfg.decoder.embed_path
        )
        return cls(cfg, Decoder(cfg, task.target_dictionary, embedding, no_encoder_attn=True))

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **more: Any) -> Any:
        """(B, T) -> (B, T, symbols), and what else there is."""
        if self.position_encoder is None:
            return self.decoder(src_tokens, **more)
        with self.position_encoder.one_pass(src_tokens.size(1)):
            return self.decoder(src_tokens, **more)

    @property
    def supported_targets(self) -> set[str]:
        """What fairseq's task may ask for: the next token."""
        return {"future"}


def _size(width: int, inner: int, heads: int, layers: int) -> dict[str, int]:
    return {
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": inner,
        "decoder_attention_heads": heads,
        "decoder_layers": layers,
    }


ARCHITECTURES = {
    "ode_transformer_lm_ptb_1l": _size(512, 2048, 8, 1),
    "ode_transformer_lm_ptb_2l": _size(512, 2048, 8, 2),
}

register_architectures("ode_transformer_lm", LanguageModelConfig, ARCHITECTURES)
