"""Rules that options must satisfy. The rules of all models are here; TransEvolve has some of its own.

A group of rules is a generator that yields a sentence per broken rule; ``refuse`` raises an error with the first.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from fairseq.models.transformer import TransformerConfig

from ..config import flag
from ..errors import OdeTransformerError
from ..numerics.coefficients import COEFFICIENTS
from ..numerics.integrators import EULER, HEUN
from ..numerics.protocol import Integrator
from .options import NEEDS, Options


def refuse(broken: Iterable[str]) -> None:
    """Raise ``OdeTransformerError`` with the first sentence of a broken rule, if there is one."""
    for sentence in broken:
        raise OdeTransformerError(sentence)


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
    """Yield the broken rules of all models, TransEvolve included, for a model with these sides."""
    for name, off in ABSENT.items():
        if (x := getattr(cfg, name)) != off:
            yield f"{flag(name)} {x}: is an option of fairseq that our models lack"
    if cfg.share_decoder_input_output_embed and cfg.adaptive_softmax_cutoff:
        yield "--share-decoder-input-output-embed: has no meaning with --adaptive-softmax-cutoff"
    if cfg.cuda_graphs and cfg.checkpoint_activations and cfg.compile_layers:
        yield "--cuda-graphs: cannot be combined with --checkpoint-activations and --compile-layers at once"
    # As in fairseq, the input of a language model alone has a width of its own.
    shared = cfg.encoder.embed_dim if cfg.merge_src_tgt_embed else cfg.decoder.embed_dim
    shared, out = shared if "encoder" in sides else cfg.decoder.input_dim, cfg.decoder.output_dim
    shares = cfg.share_all_embeddings or cfg.merge_src_tgt_embed or cfg.share_decoder_input_output_embed
    if "decoder" in sides and shares and not cfg.adaptive_softmax_cutoff and out != shared:
        yield f"--decoder-output-dim {out}: must be {shared}, the width of the embedding that the output shares"
    for side in sides:
        width, heads = getattr(cfg, side).embed_dim, getattr(cfg, side).attention_heads
        if heads < 1 or width % heads:
            yield f"--{side}-attention-heads {heads}: must divide the width {width}"


def check_options(cfg: TransformerConfig, sides: Sequence[str]) -> None:
    """Refuse options of a model with these sides, of another family than TransEvolve, that cannot be combined.

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
    if cfg.position_encoder == "sinusoidal" and (cfg.encoder.learned_pos or cfg.decoder.learned_pos):
        yield "--position-encoder sinusoidal: contradicts --encoder-learned-pos or --decoder-learned-pos"
    if not 0.01 <= cfg.flow_step < math.inf:
        yield f"--flow-step {cfg.flow_step}: must be a number of tokens, 0.01 or more"
    if not cfg.flow_horizon >= 0:
        yield f"--flow-horizon {cfg.flow_horizon}: must be a number of tokens, or 0 for the longest sentence"
    if cfg.ffn_hidden_layers not in (1, 2):
        yield f"--ffn-hidden-layers {cfg.ffn_hidden_layers}: must be 1 or 2"
    if not 0 <= cfg.word_dropout < 1:
        yield f"--word-dropout {cfg.word_dropout}: must be a probability, 0 or more and less than 1"
    if cfg.velocity_embedding and cfg.word_dropout > 0:
        yield f"--word-dropout {cfg.word_dropout}: must be 0 with --velocity-embedding, which would reveal the word"


def _of_sides(cfg: TransformerConfig, options: Sequence[Options]) -> Iterator[str]:
    """Yield the broken rules that at least one of the sides has to satisfy."""
    given = " and ".join(o.given for o in options)
    weightable = any(o.weightable for o in options)
    if cfg.max_relative_length not in (8, -1) and all(o.relative_positions == "none" for o in options):
        yield f"--max-relative-length {cfg.max_relative_length}: has no meaning with --relative-positions none"
    if cfg.coefficients != "fixed" and not weightable:
        yield f"--coefficients {cfg.coefficients}: must be fixed with {given}"
    # A plain step of Euler's is the same in both forms.
    if cfg.ode_residual != "paper" and not weightable and any(o.integrator != EULER for o in options):
        yield f"--ode-residual {cfg.ode_residual}: must be paper with {given}"
    if cfg.rk_norm and not any(o.rk_norm for o in options):
        yield f"--rk-norm: needs a Runge-Kutta method of several stages, got {given}"
    if cfg.velocity_embedding and not any(o.velocity_embedding for o in options):
        yield f"--velocity-embedding: needs a method with momentum, such as nesterov, got {given}"


def _of_side(cfg: TransformerConfig, o: Options) -> Iterator[str]:
    """Yield the broken rules within a side."""
    splitting, coefficients = f"--splitting {cfg.splitting}", f"--coefficients {o.coefficients}"
    history, corrector, stages = f"--{o.side}-history {o.history}", o.history == "corrector", o.integrator.stages
    # A post-norm layer normalizes sums with residuals: it has no increment to integrate, and would undo a correction.
    for of_whole_layers in [splitting] * o.splitting.together + [history] * corrector:
        if not o.pre_norm:
            yield f"{of_whole_layers}: needs a pre-norm {o.side}, --{o.side}-normalize-before"
        if cfg.ode_function != "both":
            yield f"--ode-function {cfg.ode_function}: must be both with {of_whole_layers}, which is of whole layers"
    if not o.pre_norm and not o.unweighted_euler:
        yield f"{o.given} and {coefficients}: need a pre-norm {o.side}, --{o.side}-normalize-before"
    if max(map(o.splitting.flows.count, "FG")) > 2:  # a plugin can add others
        yield f"{splitting}: must have at most two of each sub-layer"
    if o.ffn_hidden_layers == 2 and o.splitting.feed_forwards == 2:
        yield f"--ffn-hidden-layers 2: needs a splitting with one feed-forward, got {cfg.splitting}"
    if o.integrator == EULER and o.coefficients in ("ema", "ema-channels"):
        yield f"{coefficients}: has no meaning with {o.given}, whose step has one stage"
    if (needed := COEFFICIENTS.named(o.coefficients).stages) not in (None, stages):
        yield f"{coefficients}: needs a method of {needed} stages, got {o.given} of {stages}; heun has 2"
    if o.coefficients == "second-order" and (o.integrator != HEUN or o.released or o.rk_norm):
        yield f"{coefficients}: needs heun and --ode-residual paper, without --rk-norm, or its order is lost"
    if o.relative_positions != "none" and o.max_relative_length < 1:
        yield f"--max-relative-length {o.max_relative_length}: must be 1 or more"
    if o.integrator.spans_layers and o.history != "none":
        yield f"{history}: must be none with {o.given}, which already combines earlier layers"
    if corrector and type(o.integrator).learns is not Integrator.learns:
        yield f"{history}: cannot be combined with {o.given}, whose own parameters it does not correct"


_INSTEAD = {
    "decoder": {
        "decoder_integrator": "integrator",
        "decoder_history": "encoder_history",
        "decoder_relative_positions": "relative_positions",
    },
    "encoder": {"integrator": "decoder_integrator", "encoder_history": "decoder_history"},
}
"""By the side that a model lacks: the options of that side that choose a method, each with the one to use instead."""


def of_one_side(cfg: TransformerConfig, side: str, config_class: type) -> Iterator[str]:
    """Yield the broken rules of a model that has this side only: methods and embeddings of the other side.

    fairseq's own options of the other side, such as its number of layers, have no effect.
    """
    other, usual = "decoder" if side == "encoder" else "encoder", config_class()
    no_meaning = f"has no meaning in a model that has no {other}"
    for name, instead in _INSTEAD[other].items():
        if (x := getattr(cfg, name, None)) != getattr(usual, name, None):
            yield f"{flag(name)} {x}: {no_meaning}; use {flag(instead)}"
    for name in ["share_all_embeddings", "merge_src_tgt_embed"] + ["adaptive_softmax_cutoff"] * (other == "decoder"):
        if getattr(cfg, name) and not getattr(usual, name):
            yield f"{flag(name)}: {no_meaning}"
