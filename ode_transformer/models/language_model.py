"""A language model of our layers: a decoder without an encoder, for fairseq's task ``language_modeling``.

It is for the ODE Transformer's truncation-error experiment (Li et al. 2022, section 5, Table 5), in which the
perplexity of a model with one layer stands for the error of one step of its integrator, because no earlier layer adds
an error to it. The step is a decoder layer, with ``--decoder-integrator`` and ``--coefficients`` as in all models:

    residual  euler;   RK2  heun;   RK2, gamma = 1  heun, ones;   RK2, learnable  heun, sigmoid;   RK4  rk4

Where the paper does not describe the architecture, it is that of the only version of its code that could run: width
512, feed-forward dimension 2048, 8 heads, 1 or 2 layers, relative positions (keys, 8) beside sinusoidal ones, each
layer reading the mean of the embedding and all earlier, normalized outputs (``dense``), pre-norm without a final norm,
and separate embeddings of input and output. That code had no gate, and its F was the layer with its residual, as with
``--ode-residual released``; the default is the paper's form.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.models import FairseqLanguageModel, register_model
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor

from ..config import option, register_architectures
from ..errors import OdeTransformerError
from ..modules.options import HistoryName, RelativePositionsName, SplitTransformerConfig
from ..modules.stacks import Decoder
from .transformer import Configured, add_positions_and_freeze, build_graphs


@dataclass
class LanguageModelConfig(SplitTransformerConfig):
    """The options of a decoder without an encoder."""

    decoder_embed_dim: int = 512
    decoder_ffn_embed_dim: int = 2048
    decoder_attention_heads: int = 8
    decoder_normalize_before: bool = True
    no_decoder_final_norm: bool = True
    relative_positions: RelativePositionsName = "keys"
    decoder_history: HistoryName = "dense"
    attention_dropout: float = 0.1
    activation_dropout: float = 0.1
    tokens_per_sample: int = option(1024, "longest sample in tokens, for the task as well")


@register_model("ode_transformer_lm", dataclass=LanguageModelConfig)
class OdeLanguageModel(Configured, FairseqLanguageModel):
    """A language model (``--arch ode_transformer_lm`` and others)."""

    config_class = LanguageModelConfig

    def __init__(self, cfg: TransformerConfig, decoder: Decoder):
        super().__init__(decoder)
        add_positions_and_freeze(self, cfg, decoder=decoder)
        self.graphs = build_graphs(cfg, decoder)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **more: Any) -> tuple[Tensor, dict]:
        """As in fairseq: tokens (B, T) -> scores (B, T, vocabulary size), and the decoder's dictionary."""
        return self.graphs(self, super().forward, {"src_tokens": src_tokens}, **more)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "OdeLanguageModel":
        """Return the model of a flat configuration, checked by ``nested_config``, for samples as long as the task's."""
        cfg = cls.nested_config(cfg, alone="decoder")
        cfg.max_target_positions = max(cfg.tokens_per_sample, cfg.max_target_positions)
        cfg.max_source_positions = cfg.max_target_positions  # a flow reads both
        longest = getattr(getattr(task, "args", None), "tokens_per_sample", 0)
        if longest > cfg.max_target_positions:  # fairseq would leave such samples out
            raise OdeTransformerError(
                f"--tokens-per-sample {longest}: must be at most the model's, {cfg.max_target_positions}; to train "
                f"under hydra, add +model.tokens_per_sample={longest}"
            )
        embedding = TransformerModelBase.build_embedding(
            cfg, task.source_dictionary, cfg.decoder.input_dim, cfg.decoder.embed_path
        )
        return cls(cfg, Decoder(cfg, task.target_dictionary, embedding, no_encoder_attn=True))


_SIZE = {"decoder_embed_dim": 512, "decoder_ffn_embed_dim": 2048, "decoder_attention_heads": 8}
ARCHITECTURES = {f"ode_transformer_lm_ptb_{layers}l": _SIZE | {"decoder_layers": layers} for layers in (1, 2)}

register_architectures("ode_transformer_lm", LanguageModelConfig, ARCHITECTURES)
