"""Rules that options must satisfy. The rules of all models are here; TransEvolve has some of its own.

A group of rules is a generator that yields a sentence per broken rule; ``refuse`` raises an error with the first.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fairseq.models.transformer import TransformerConfig

from ..config import as_dict, flag
from ..errors import OdeTransformerError
from ..numerics.coefficients import COEFFICIENTS
from ..numerics.integrators import EULER, HEUN, INTEGRATORS
from ..numerics.momentum import Momentum
from ..numerics.protocol import Integrator
from .options import NEEDS, UNWEIGHTED, Options

logger = logging.getLogger(__name__)


def refuse(broken: Iterable[str]) -> None:
    """Raise ``OdeTransformerError`` with the first sentence of a broken rule, if there is one."""
    for sentence in broken:
        raise OdeTransformerError(sentence)


# All models, TransEvolve included

_COUNTS = (
    *(f"{side}_{of}" for side in ("encoder", "decoder") for of in ("embed_dim", "ffn_embed_dim", "attention_heads")),
    *(f"max_{of}positions" for of in ("source_", "target_", "")),
    "evolution_blocks",
    "evolution_depth",
)
LIMITS: tuple[tuple[Sequence[str], Callable[[Any], bool], str], ...] = (
    (
        ("dropout", "attention_dropout", "activation_dropout", "adaptive_softmax_dropout", "pooler_dropout"),
        lambda x: 0 <= x <= 1,
        "a probability, from 0 to 1",
    ),
    (("word_dropout",), lambda x: 0 <= x < 1, "a probability, 0 or more and below 1"),
    (("encoder_layers", "decoder_layers"), lambda x: x >= 0, "0 or more"),
    (_COUNTS, lambda x: x >= 1, "1 or more"),
    (("adaptive_softmax_factor",), lambda x: x > 0, "above 0"),
    (
        ("adaptive_softmax_cutoff",),
        lambda x: x and all(isinstance(n, int) for n in x) and x[0] > 0 and sorted(set(x)) == list(x),
        "rising numbers of words, each 1 or more",
    ),
    (("ffn_hidden_layers",), lambda x: x in (1, 2), "1 or 2"),
    (("flow_horizon",), lambda x: x >= 0, "a positive number of tokens, or 0 for the longest sentence"),
)
"""Names of numeric options, a test of their values, and the valid values in words. Not every model has all options."""

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
"""fairseq's options that our models do not support, with the value that turns each off."""


def of_all_models(cfg: TransformerConfig, sides: Sequence[str]) -> Iterator[str]:
    """Yield the broken rules of all models, for a model with these sides."""
    for names, holds, words in LIMITS:
        for name in names:
            if (x := getattr(cfg, name, None)) is not None and not holds(x):
                yield f"{flag(name)} {x}: must be {words}"
    for name, off in ABSENT.items():
        if (x := getattr(cfg, name)) != off:
            yield f"{flag(name)} {x}: is an option of fairseq that our models lack"
    if cfg.share_decoder_input_output_embed and cfg.adaptive_softmax_cutoff:
        yield "--share-decoder-input-output-embed: has no meaning with --adaptive-softmax-cutoff"
    if "decoder" in sides:
        shared = cfg.share_all_embeddings or cfg.merge_src_tgt_embed
        width = (cfg.encoder if shared else cfg.decoder).embed_dim if "encoder" in sides else cfg.decoder.input_dim
        if cfg.decoder.input_dim != width:  # in checkpoints that were trained with it
            logger.warning(f"--decoder-input-dim {cfg.decoder.input_dim}: has no meaning in a model with an encoder")
        tied = (shared or cfg.share_decoder_input_output_embed) and not cfg.adaptive_softmax_cutoff
        if tied and cfg.decoder.output_dim != width:
            yield f"--decoder-output-dim {cfg.decoder.output_dim}: must be {width}, the width of the shared embedding"
    if cfg.cuda_graphs and cfg.checkpoint_activations:
        yield "--cuda-graphs: cannot be combined with --checkpoint-activations"
    for side in sides:
        width, heads = getattr(cfg, side).embed_dim, getattr(cfg, side).attention_heads
        if width % heads:
            yield f"--{side}-attention-heads {heads}: must divide the width {width}"


# All models but TransEvolve


def check_options(cfg: TransformerConfig, sides: Sequence[str] = ("encoder", "decoder")) -> None:
    """Refuse options of a model with these sides that are out of their limits or cannot be combined.

    Raises ``OdeTransformerError``, and ``ValueError`` for an unknown name.
    """
    refuse(of_all_models(cfg, sides))
    refuse(_of_model(cfg))
    options = [Options(cfg, side) for side in sides]
    refuse(_of_sides(cfg, options))
    for o in options:
        refuse(_of_side(cfg, o))


def _of_model(cfg: TransformerConfig) -> Iterator[str]:
    """Yield the broken rules between options of the whole model."""
    for name, idle, of, without in NEEDS:
        if getattr(cfg, name) != idle and getattr(cfg, of) in without:
            yield f"{flag(name)} {getattr(cfg, name)}: has no meaning with {flag(of)} {getattr(cfg, of)}"
    encoder = cfg.position_encoder
    if encoder == "sinusoidal" and (cfg.encoder.learned_pos or cfg.decoder.learned_pos):
        yield "--position-encoder sinusoidal: contradicts --encoder-learned-pos or --decoder-learned-pos"
    if encoder in ("sinusoidal", "learned") and cfg.no_token_positional_embeddings:
        yield f"--position-encoder {encoder}: has no meaning with --no-token-positional-embeddings"
    if cfg.velocity_embedding and cfg.word_dropout > 0:
        yield f"--word-dropout {cfg.word_dropout}: must be 0 with --velocity-embedding, which would reveal the word"


def _of_sides(cfg: TransformerConfig, options: Sequence[Options]) -> Iterator[str]:
    """Yield the broken rules that at least one of the sides has to satisfy."""
    given = " and ".join(o.given for o in options)
    weighted = any(o.weighted for o in options)
    if cfg.max_relative_length not in (8, -1) and all(o.relative_positions == "none" for o in options):
        yield f"--max-relative-length {cfg.max_relative_length}: has no meaning with --relative-positions none"
    if cfg.coefficients != "fixed" and not weighted:
        yield f"--coefficients {cfg.coefficients}: must be fixed with {given}"
    # A plain step of Euler's is the same in both forms.
    if cfg.ode_residual != "paper" and not weighted and any(o.integrator != EULER for o in options):
        yield f"--ode-residual {cfg.ode_residual}: must be paper with {given}"
    if cfg.rk_norm and not any(o.rk_norm for o in options):
        yield (
            "--rk-norm: has no meaning without a Runge-Kutta method of several stages as --integrator or "
            "--decoder-integrator"
        )
    if cfg.velocity_embedding and not any(o.velocity_embedding for o in options):
        names = " or ".join(name for name, method in INTEGRATORS.items() if isinstance(method, Momentum))
        yield f"--velocity-embedding: has no meaning without --integrator or --decoder-integrator {names}"
    # Multistep schemes take the increments of whole layers; architectures have it whose integrator is exchanged.
    if cfg.ode_function != "both" and all(o.unweighted or o.integrator.spans_layers for o in options):
        logger.warning(f"--ode-function {cfg.ode_function}: has no meaning with {given}")


def _of_side(cfg: TransformerConfig, o: Options) -> Iterator[str]:
    """Yield the broken rules within a side."""
    splitting, coefficients = f"--splitting {cfg.splitting}", f"--coefficients {o.coefficients}"
    function, history = f"--ode-function {cfg.ode_function}", f"--{o.side}-history {o.history}"
    together, corrector = o.splitting.together, o.history == "corrector"
    post_norm = (
        f"post-norm {o.side}, which normalizes sums with residuals; or make it pre-norm, --{o.side}-normalize-before"
    )
    if max(map(o.splitting.flows.count, "FG")) > 2:  # a plugin can add others
        yield f"{splitting}: must have at most two of each sub-layer"
    if o.ffn_hidden_layers == 2 and o.splitting.feed_forwards == 2:
        yield f"--ffn-hidden-layers 2: needs a splitting with one feed-forward, got {cfg.splitting}"
    if not o.pre_norm and not o.unweighted:
        yield f"{o.given} and {coefficients}: must be euler and fixed or ones in a {post_norm}"
    if not o.pre_norm and together:
        yield f"{splitting}: must not take the sub-layers together in a {post_norm}"
    if together and cfg.ode_function != "both":
        yield f"{function}: must be both with {splitting}, which takes the sub-layers together"
    if o.integrator == EULER and o.coefficients not in (*UNWEIGHTED, "scalars"):
        yield f"{coefficients}: must be fixed, ones or scalars with {o.given}, whose step has one stage"
    if COEFFICIENTS[o.coefficients].stages not in (stages := (None, o.integrator.stages)):
        fitting = ", ".join(name for name, rule in COEFFICIENTS.items() if rule.stages in stages)
        yield (
            f"{coefficients}: must be one of {fitting} with {o.given}, which has {o.integrator.stages} stages; or take "
            "a method of two stages, such as heun"
        )
    if o.coefficients == "second-order" and (o.integrator != HEUN or o.released):
        yield (
            f"{coefficients}: needs the integrator heun, got {o.given}, and --ode-residual paper: its gate selects a "
            "method of order 2 for the layer's increment"
        )
    if o.coefficients == "second-order" and o.rk_norm:
        yield f"{coefficients}: cannot be combined with --rk-norm, with which no weights give order 2"
    if o.relative_positions != "none" and o.max_relative_length < 1:
        yield f"--max-relative-length {o.max_relative_length}: must be 1 or more"
    if o.integrator.spans_layers and o.history != "none":
        yield f"{history}: must be none with {o.given}, which already combines earlier layers"
    if corrector and not o.pre_norm:
        yield (
            f"{history}: needs a pre-norm {o.side}, --{o.side}-normalize-before: the norm of a post-norm layer would "
            "undo the correction"
        )
    if corrector and cfg.ode_function != "both":
        yield f"{function}: must be both with {history}, which corrects whole layers"
    if corrector and type(o.integrator).learns is not Integrator.learns:
        yield f"{history}: cannot be combined with {o.given}, whose own parameters it does not correct"


# Models of one side

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
"""The decoder's widths that the command line sets to the encoder's, each with the latter."""


def check_alone(cfg: TransformerConfig, side: str, flat: Any, config_class: type) -> None:
    """Check the options of an encoder without a decoder, or of a decoder without an encoder.

    The other side's options that choose a method are refused with an ``OdeTransformerError``. fairseq's own options,
    such as the number of layers, only cause a warning, since checkpoints may have been trained with them. ``flat`` is
    the configuration of class ``config_class`` that ``cfg`` was made of.
    """
    other = "decoder" if side == "encoder" else "encoder"
    values, usual = as_dict(flat), as_dict(config_class())
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
    for name in both + ["adaptive_softmax_cutoff"] * (other == "decoder"):
        if getattr(cfg, name) and not usual[name]:
            raise OdeTransformerError(f"{flag(name)}: {no_meaning}")
