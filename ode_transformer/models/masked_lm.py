"""Masked language models of our layers, inside fairseq's RoBERTa.

fairseq's tasks ``masked_lm``, ``sentence_prediction`` and ``sentence_ranking`` train them, fairseq's classification
heads work with them, and checkpoints of fairseq's RoBERTa have the same parameter names: with ``--splitting lie-trotter
--integrator euler`` and without a position encoder the model *is* RoBERTa. All options of splitting, integrator,
coefficients, history and positions can be used.

``macaron_bert_*`` is the BERT of Lu et al. 2019 (``models/macaron.py``; appendix B.2, Table 2): layers of half
feed-forward, attention, half feed-forward with half the feed-forward dimension, so that the number of parameters is
BERT's up to one norm and one bias per layer; and BERT's objective, in which a second sentence follows the first or does
not (``--sentence-pairs``, ``next_sentence.py``). ``docs/encoders.md`` lists where it differs from the released code.

``floater_roberta_*`` is FLOATER on RoBERTa (Liu et al. 2020, section 4.2, appendix B.3): RoBERTa with the biases of a
flow, to which ``ode-transformer warm-start`` converts a trained RoBERTa. Solver and gradients are those that the paper
names for these tasks, midpoint steps and back-propagation (appendix B.1). The step size is missing in the paper's text
that we have; here it is one token.

``ode_roberta_*`` are in no paper: they are a pre-norm RoBERTa whose layers are Heun steps of their increment, the RK2
of Li et al. 2022 (``models/ode.py``).
"""

import argparse
from dataclasses import dataclass, fields
from typing import Any, Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ..config import as_dict, option, register_architectures
from ..errors import OdeTransformerError
from ..modules.options import SplitTransformerConfig
from ..modules.positions import BlockPositions
from ..modules.stacks import Encoder
from .transformer import Configured, add_positions_and_freeze, build_graphs, row

ActivationName = ChoiceEnum(utils.get_available_activation_fns())


@dataclass
class MaskedLanguageModelConfig(SplitTransformerConfig):
    """The options of an encoder and its heads. The defaults are RoBERTa base."""

    activation_fn: ActivationName = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    encoder_embed_dim: int = 768
    encoder_ffn_embed_dim: int = 3072
    encoder_layers: int = 12
    encoder_attention_heads: int = 12
    encoder_learned_pos: bool = True
    layernorm_embedding: bool = True
    no_scale_embedding: bool = True
    max_positions: Optional[int] = option(
        None, "longest sample in tokens, and rows of the table of positions (default: the task's, or 512)"
    )
    sentence_pairs: bool = option(
        False,
        "samples are pairs of sentences, which end-of-sentence symbols separate: adds embeddings of the first and the "
        "second sentence, and a logit for whether the second follows the first",
    )
    untie_weights_roberta: bool = option(False, "predict tokens with a separate matrix, not with the input embedding")
    pooler_activation_fn: ActivationName = option("tanh", "activation function of classification heads")
    pooler_dropout: float = option(0.0, "dropout of classification heads")
    spectral_norm_classification_head: bool = option(False, "spectral normalization of classification heads")
    load_checkpoint_heads: bool = option(False, "register the classification heads of a checkpoint, and load them")


class SentenceEncoder(RobertaEncoder):
    """RoBERTa's encoder and its head for masked tokens, with our layers."""

    def __init__(self, cfg: TransformerConfig, args: argparse.Namespace, dictionary: Any):
        self.cfg = cfg  # for the layers; RoBERTa's own parts read the flat options
        super().__init__(args, dictionary)
        self.segments = self.next_sentence = None
        if args.sentence_pairs:
            self.segments = nn.Embedding(2, cfg.encoder.embed_dim)
            self.next_sentence = nn.Linear(cfg.encoder.embed_dim, 1)

    def build_encoder(self, args: argparse.Namespace, dictionary: Any, embed_tokens: nn.Embedding) -> Encoder:
        return Encoder(self.cfg, dictionary, embed_tokens)

    def extract_features(
        self, src_tokens: Tensor, return_all_hiddens: bool = False, **unused: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """Tokens (B, T) -> states (B, T, C), and a dictionary with ``inner_states`` if they are wanted."""
        embeddings = None
        if self.segments is not None:
            ends = src_tokens.eq(self.dictionary.eos())
            second = (ends.cumsum(1) - ends.long()).clamp(max=1)  # after the first end of a sentence
            # Those of tokens alone are scaled, as in the released code.
            segments = self.segments(second) / self.sentence_encoder.embed_scale
            embeddings = self.sentence_encoder.embed_tokens(src_tokens) + segments
        return super().extract_features(src_tokens, return_all_hiddens, token_embeddings=embeddings)


def _draw(module: nn.Module) -> None:
    # BERT's initialization, as in RoBERTa.
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


@register_model("ode_masked_lm", dataclass=MaskedLanguageModelConfig)
class MaskedLanguageModel(Configured, RobertaModel):
    """A masked language model (``--arch floater_roberta_base`` and others)."""

    config_class = MaskedLanguageModelConfig

    def __init__(self, cfg: TransformerConfig, args: argparse.Namespace, encoder: SentenceEncoder):
        super(RobertaModel, self).__init__(encoder)  # RobertaModel's would draw the weights in its own way
        self.cfg, self.args = cfg, args
        self.classification_heads = nn.ModuleDict()
        self.span_head = None
        self.graphs = build_graphs(cfg, encoder)
        encoder.apply(_draw)
        add_positions_and_freeze(self, cfg, encoder=encoder.sentence_encoder)
        if isinstance(self.position_encoder, BlockPositions):  # a flow, and its b(0), start as its own paper says
            self.position_encoder.apply(_draw)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "MaskedLanguageModel":
        """Return the model of a flat configuration, which ``nested_config`` checks.

        Without ``max_positions``, samples may be as long as the task's.
        """
        args = argparse.Namespace(**{f.name: f.default for f in fields(cls.config_class)} | as_dict(cfg))
        if args.max_positions is None:
            longest = task.max_positions()
            args.max_positions = longest if isinstance(longest, int) else 512
        cfg = cls.nested_config(cfg, alone="encoder")
        if cfg.encoder.embed_path:
            raise OdeTransformerError(
                f"--encoder-embed-path {cfg.encoder.embed_path}: a masked language model learns its own embeddings"
            )
        cfg.max_source_positions = cfg.max_target_positions = args.max_positions
        return cls(cfg, args, SentenceEncoder(cfg, args, task.source_dictionary))

    def register_span_head(self) -> None:
        """Add a head for the first and the last token of an answer (``span_prediction.py``)."""
        self.span_head = nn.Linear(self.args.encoder_embed_dim, 2)
        _draw(self.span_head)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        spans: bool = False,
        **more: Any,
    ) -> tuple[Tensor, dict]:
        """As in RoBERTa: tokens (B, T) -> scores, and a dictionary with, for pairs, the logit ``next_sentence`` (B,).

        The scores are those of tokens, (B, T, vocabulary size), or of the tokens in ``masked_tokens`` alone, (masked,
        vocabulary size); of the named head, (B, classes); with ``spans`` of the first and the last token of an answer,
        (B, T, 2). With ``features_only`` they are the states, (B, T, C).
        """
        states, tokens = self.encoder.extract_features, {"src_tokens": src_tokens}
        x, out = self.graphs(self, states, tokens, return_all_hiddens=return_all_hiddens)
        if self.encoder.next_sentence is not None:
            out["next_sentence"] = self.encoder.next_sentence(x[:, 0]).squeeze(-1)
        if spans:
            return self.span_head(x), out
        if classification_head_name is not None:
            return self.classification_heads[classification_head_name](x), out
        return x if features_only else self.encoder.output_layer(x, **more), out

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """As in RoBERTa: bring the names of old checkpoints up to date, and handle the heads of classes and spans."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." * bool(name)
        stored = f"{prefix}span_head.weight" in state_dict
        if self.span_head is None and stored and self.args.load_checkpoint_heads:
            self.register_span_head()
        for part in ("weight", "bias"):
            key = f"{prefix}span_head.{part}"
            if self.span_head is None:
                state_dict.pop(key, None)
            else:  # a new one stays as it is
                state_dict.setdefault(key, getattr(self.span_head, part))
        key = f"{prefix}encoder.sentence_encoder.embed_positions.weight"
        own = getattr(self.encoder.sentence_encoder.embed_positions, "weight", None)
        if own is not None and key in state_dict and len(state_dict[key]) != len(own):
            special = len(own) - self.args.max_positions
            raise OdeTransformerError(
                f"--max-positions {self.args.max_positions}: must be {len(state_dict[key]) - special}, the number of "
                "positions in the checkpoint"
            )


def _size(embed_dim: int, heads: int, layers: int) -> dict[str, int]:
    return {
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": 4 * embed_dim,
        "encoder_attention_heads": heads,
        "encoder_layers": layers,
    }


SIZES = {"tiny": _size(128, 4, 4), "base": _size(768, 12, 12), "large": _size(1024, 16, 24)}
SYSTEMS = {
    "macaron_bert": (
        ("tiny", "base"),
        {
            "splitting": "strang",
            "encoder_normalize_before": True,
            "encoder_learned_pos": False,
            "layernorm_embedding": False,
            "no_scale_embedding": False,
            "sentence_pairs": True,
        },
    ),
    "floater_roberta": (
        ("tiny", "base", "large"),
        {"position_encoder": "floater", "flow_method": "midpoint", "flow_step": 1.0},
    ),
    "ode_roberta": (
        ("tiny", "base"),
        {"integrator": "heun", "encoder_normalize_before": True, "layernorm_embedding": False},
    ),
}


ARCHITECTURES = {
    f"{name}_{size}": row(system, SIZES[size]) for name, (sizes, system) in SYSTEMS.items() for size in sizes
}

register_architectures("ode_masked_lm", MaskedLanguageModelConfig, ARCHITECTURES)
