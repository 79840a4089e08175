"""Rules of options: what is refused, in which words. Those of all models are here; each family has more."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fairseq.models.transformer import TransformerConfig

from ..config import plain
from ..errors import OdeTransformerError

logger = logging.getLogger(__name__)


class Rule(NamedTuple):
    """What is refused, and why.

    Args:
        says: the sentence of the error, a format string of the configuration ``cfg`` and, where a rule is about one
            side, its ``Options`` ``o``.
        broken: (cfg), or (cfg, o) -> whether the options break the rule.
        warns: only log the sentence.
    """

    says: str
    broken: Callable[..., bool]
    warns: bool = False


def apply(rules: Iterable[Rule], cfg: TransformerConfig, *o: Any) -> None:
    """Check a configuration, and perhaps the options of one side, by rules.

    Raises:
        OdeTransformerError: a rule is broken.
    """
    for rule in rules:
        if rule.broken(cfg, *o):
            sentence = rule.says.format(cfg=cfg, o=next(iter(o), None))
            if not rule.warns:
                raise OdeTransformerError(sentence)
            logger.warning(sentence)


def flag(field: str) -> str:
    """The flag of a field."""
    return f"--{field.replace('_', '-')}"


LIMITS = (
    (
        ("dropout", "attention_dropout", "activation_dropout", "adaptive_softmax_dropout", "pooler_dropout"),
        lambda x: 0 <= x <= 1,
        "a probability, from 0 to 1",
    ),
    (("word_dropout",), lambda x: 0 <= x < 1, "a probability, 0 or more and below 1"),
    (("encoder_layers", "decoder_layers"), lambda x: x >= 0, "0 or more"),
    (
        (
            *(f"{side}_{size}" for side in ("encoder", "decoder") for size in ("embed_dim", "ffn_embed_dim")),
            *("encoder_attention_heads", "decoder_attention_heads", "max_source_positions", "max_target_positions"),
            *("max_positions", "evolution_blocks", "evolution_depth"),
        ),
        lambda x: x >= 1,
        "1 or more",
    ),
    (("ffn_hidden_layers",), lambda x: x in (1, 2), "1 or 2"),
    (("flow_horizon",), lambda x: x >= 0, "a positive number of tokens, or 0 for the longest sentence"),
)
"""Names of numbers, which values they may have, and those in words. Not every model has all of them."""

ABSENT = {
    "adaptive_input": False,
    "tie_adaptive_weights": False,
    "tie_adaptive_proj": False,
    "base_layers": 0,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
    "cross_self_attention": False,
    "no_cross_attention": False,
    "quant_noise_pq": 0,
    "quant_noise_scalar": 0,
    "offload_activations": False,
    # fairseq would attend with another pattern in training than in decoding.
    "encoder_xformers_att_config": None,
    "decoder_xformers_att_config": None,
}
"""Options of fairseq's that our models do not have, with the value that turns each off."""

STOCK_RULES = (
    *(
        Rule(
            f"{flag(name)} {{cfg.{name}}}: must be {words}",
            lambda cfg, name=name, holds=holds: (x := getattr(cfg, name, None)) is not None and not holds(x),
        )
        for names, holds, words in LIMITS
        for name in names
    ),
    *(
        Rule(
            f"{flag(name)} {{cfg.{name}}}: is an option of fairseq's that our models do not have",
            lambda cfg, name=name, off=off: getattr(cfg, name) != off,
        )
        for name, off in ABSENT.items()
    ),
    Rule(
        "--cuda-graphs: cannot be combined with --checkpoint-activations",
        lambda cfg: cfg.cuda_graphs and cfg.checkpoint_activations,
    ),
)
"""What holds in all models, TransEvolve included."""


def check_stock(cfg: TransformerConfig, sides: Sequence[str]) -> None:
    """Check the options that all models have.

    Raises:
        OdeTransformerError: a value is out of its limits, or our models do not have the option.
    """
    apply(STOCK_RULES, cfg)
    for side in sides:
        part = getattr(cfg, side)
        if part.embed_dim % part.attention_heads:
            raise OdeTransformerError(
                f"--{side}-attention-heads {part.attention_heads}: must divide the width {part.embed_dim}"
            )


_INSTEAD = {
    "decoder": {
        "decoder_integrator": "integrator",
        "decoder_history": "encoder_history",
        "decoder_relative_positions": "relative_positions",
    },
    "encoder": {"integrator": "decoder_integrator", "encoder_history": "decoder_history"},
}
"""By the side that a model lacks: the options of that side that choose a method, each with the one to use instead."""

_FOLLOWED = {
    "decoder_embed_dim": "encoder_embed_dim",
    "decoder_input_dim": "encoder_embed_dim",
    "decoder_output_dim": "encoder_embed_dim",
    "decoder_ffn_embed_dim": "encoder_ffn_embed_dim",
}
"""The widths of a decoder that the command line sets to those of the encoder, and the latter."""


def check_alone(cfg: TransformerConfig, side: str, flat: Any, config_class: type) -> None:
    """Check the options of an encoder without a decoder, or of a decoder without an encoder.

    The other side's options that choose a method are refused. fairseq's own options, such as the number of layers, only
    cause a warning, since checkpoints may have been trained with them.

    Args:
        cfg: the configuration.
        side: the side that the model has, ``encoder`` or ``decoder``.
        flat: the flat configuration that ``cfg`` was made of.
        config_class: its class.

    Raises:
        OdeTransformerError: an option that chooses a method has no effect.
    """
    other = "decoder" if side == "encoder" else "encoder"
    values, usual = plain(flat), plain(config_class())
    no_meaning = f"has no meaning in a model without {'a' if other == 'decoder' else 'an'} {other}"
    for name, default in usual.items():
        value, instead = values.get(name, default), _INSTEAD[other].get(name)
        if value == default or (name in _FOLLOWED and value == values.get(_FOLLOWED[name])):
            continue
        if instead:
            raise OdeTransformerError(f"{flag(name)} {value}: {no_meaning}; use {flag(instead)}")
        if f"{other}_" in name:
            logger.warning(f"{flag(name)} {value}: {no_meaning}")
    both = ["share_all_embeddings", "merge_src_tgt_embed"]
    for name in both + ["adaptive_softmax_cutoff", "cuda_graphs"] * (other == "decoder"):
        if getattr(cfg, name) and not usual[name]:
            raise OdeTransformerError(f"{flag(name)}: {no_meaning}")
