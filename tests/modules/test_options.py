"""Every rule of options refuses an example, with its sentence; the table of options says where each is from."""

import inspect
from dataclasses import fields

import pytest
from fairseq.models import build_model

from ode_transformer.config import PRESETS, FlatTransformerConfig, flag
from ode_transformer.models import transevolve
from ode_transformer.modules import rules
from ode_transformer.modules.options import NEEDS, Options, SplitTransformerConfig
from ode_transformer.modules.rules import ABSENT, LIMITS
from ode_transformer.numerics.splitting import SPLITTINGS, Splitting
from tests.helpers import ROOT, SMALL, configure, task

POST_NORM_ENCODER = {"no-encoder-normalize-before": True}
NO_HISTORY = {"encoder-history": "none", "decoder-history": "none"}
MOMENTUM = {**NO_HISTORY, "integrator": "nesterov"}


def build(arch, **flags):
    """The model, as far as it comes; of names such as ``encoder_layers``."""
    sizes = {k: v for k, v in SMALL.items() if "decoder" not in k or "roberta" not in arch}
    if "transevolve" in arch:
        sizes = {k: v for k, v in sizes.items() if "layers" not in k and "attention-dropout" not in k}
    return build_model(configure(arch, {**sizes, **flags}), task())


OF_NEEDS = [
    ("rk2_tiny", {"gate-sharing": "per-layer"}, "--gate-sharing per-layer: has no meaning with --coefficients fixed"),
    ("rk2_tiny", {"position-blocks": "input"}, "--position-blocks input: has no meaning with --position-encoder none"),
    ("rk2_tiny", {"flow-sharing": "stack", "position-encoder": "learned"}, "stack: .* --position-encoder learned"),
    ("rk2_tiny", {"flow-method": "midpoint", "position-encoder": "rnn-scalar-1"}, "midpoint: .* rnn-scalar-1"),
    ("floater_tiny", {"flow-step": 2, "position-encoder": "none"}, r"--flow-step 2\.0: has no meaning"),
    ("rk2_tiny", {"flow-horizon": 9}, "--flow-horizon 9: has no meaning with --position-encoder none"),
]
OF_MODEL = [
    OF_NEEDS,
    (
        "rk2_tiny",
        {"position-encoder": "sinusoidal", "decoder-learned-pos": True},
        "sinusoidal: contradicts --encoder-learned-pos or --decoder-learned-pos",
    ),
    (
        "rk2_tiny",
        {"position-encoder": "learned", "no-token-positional-embeddings": True},
        "--position-encoder learned: has no meaning with --no-token-positional-embeddings",
    ),
    (
        "ode_residual_tiny",
        {**MOMENTUM, "velocity-embedding": True, "word-dropout": 0.2},
        r"--word-dropout 0\.2: must be 0 with --velocity-embedding",
    ),
]
OF_SIDES = [
    ("macaron_tiny", {"max-relative-length": 4}, "--max-relative-length 4: has no meaning"),
    ("ode_residual_tiny", {**MOMENTUM, "coefficients": "ema"}, "ema: must be fixed with --integrator nesterov and"),
    (
        "ode_residual_tiny",
        {**NO_HISTORY, "integrator": "dlcl", "decoder-integrator": "triple", "ode-residual": "released"},
        "--ode-residual released: must be paper with --integrator dlcl and --decoder-integrator triple",
    ),
    ("ode_residual_tiny", {"rk-norm": True, "integrator": "polynet"}, "--rk-norm: has no meaning without a Runge"),
    ("rk2_tiny", {"velocity-embedding": True}, "--velocity-embedding: has no meaning without .* nesterov or triple"),
]
OF_SIDE = [
    ("macaron_tiny", {"splitting": "parallel"}, "--splitting parallel: must have at most two of each"),
    ("macaron_tiny", {"ffn-hidden-layers": 2}, "--ffn-hidden-layers 2: needs a splitting with one feed-forward, got s"),
    ("rk2_tiny", POST_NORM_ENCODER, "integrator heun and .* fixed: must be euler .* post-norm encoder, .*--encoder-n"),
    (
        "ode_residual_tiny",
        {"splitting": "parallel", "no-decoder-normalize-before": True},
        "--splitting parallel: must not .* post-norm decoder",
    ),
    ("rk2_tiny", {"splitting": "parallel", "ode-function": "san"}, "--ode-function san: must be both with --splitting"),
    ("rk2_tiny", {"integrator": "euler", "coefficients": "ema"}, "ema: must be fixed, ones or scalars with"),
    (
        "rk2_learnable_tiny",
        {"decoder-integrator": "rk4"},
        "sigmoid: must be one of fixed, .*scalars.* with --decoder-integrator rk4, which has 4 stages; .* heun",
    ),
    (
        "rk2_second_order_tiny",
        {"integrator": "ralston"},
        "second-order: needs .* heun, got --integrator ralston",
    ),
    ("rk2_second_order_tiny", {"rk-norm": True}, "second-order: cannot be combined with --rk-norm"),
    ("rk2_tiny", {"max-relative-length": 0}, "--max-relative-length 0: must be 1 or more"),
    ("rk2_tiny", {"decoder-integrator": "dlcl"}, "--decoder-history learnable_dense: must be none with .* dlcl"),
    (
        "ode_residual_tiny",
        {**POST_NORM_ENCODER, "encoder-history": "corrector"},
        "--encoder-history corrector: needs a pre-norm encoder",
    ),
    ("pcformer_tiny", {"ode-function": "ffn"}, "--ode-function ffn: must be both with --encoder-history corrector"),
    ("ode_residual_tiny", {**MOMENTUM, "encoder-history": "corrector"}, "corrector: .* nesterov, whose own parameters"),
]
FULL, RANDOM = "transevolve_fullff_1_tiny", "transevolve_randomff_1_tiny"
OF_TRANSEVOLVE = [
    [
        (FULL, {"encoder-layers": 3}, "--encoder-layers 3: has no .*use --evolution-blocks and"),
        (FULL, {"decoder-layers": 3}, "--decoder-layers 3: has no meaning in TransEvolve; use"),
        (FULL, {"attention-dropout": 0.1}, r"--attention-dropout 0\.1: has no meaning"),
        *(
            (FULL, {name: True}, f"--{name} True: has no meaning in TransEvolve$")
            for name in (
                *("encoder-normalize-before", "decoder-normalize-before", "no-decoder-final-norm"),
                *("encoder-learned-pos", "decoder-learned-pos"),
            )
        ),
    ],
    (FULL, {"decoder-embed-dim": 64}, "--decoder-embed-dim 64: must be the encoder's, 16"),
    (FULL, {"encoder-embed-dim": 15}, "--encoder-embed-dim 15: must be even in TransEvolve"),
    [
        (RANDOM, {f"{side}-ffn-embed-dim": 511}, f"--{side}-ffn-embed-dim 511: must be even with")
        for side in ("encoder", "decoder")
    ],
]
WITHOUT = "has no meaning in a model without"
LANGUAGE_MODEL, ROBERTA = "ode_transformer_lm_ptb_1l", "floater_roberta_tiny"
OF_ONE_SIDE = [
    *(
        (arch, {flag: value}, f"--{flag} {value}: {WITHOUT} {side}")
        for arch, side, flag, value in (
            (LANGUAGE_MODEL, "an encoder", "integrator", "heun"),
            (LANGUAGE_MODEL, "an encoder", "encoder-history", "dense"),
            (ROBERTA, "a decoder", "decoder-integrator", "rk4"),
            (ROBERTA, "a decoder", "decoder-history", "dense"),
            (ROBERTA, "a decoder", "decoder-relative-positions", "keys"),
            ("transformer_small", "a decoder", "decoder-integrator", "rk4"),
        )
    ),
    *(
        (arch, {flag: value}, f"--{flag}: {WITHOUT} a decoder")
        for flag, value in (("adaptive-softmax-cutoff", "10,20"), ("merge-src-tgt-embed", True))
        for arch in (ROBERTA, "transformer_small", "transevolve_small")
    ),
    # What their one side breaks.
    (LANGUAGE_MODEL, {"coefficients": "sigmoid"}, "sigmoid: must be fixed with --decoder-integrator euler$"),
    ("transformer_small", {"gate-sharing": "per-layer"}, "--gate-sharing per-layer: has no meaning"),
]
BEYOND = {
    "from 0 to 1": (1.5, -0.5),
    "below 1": (1.0, -0.1),
    "0 or more": (-1,),
    "numbers of words, each 1 or more": ("0,5", "9,5", "5,5"),
    "1 or more": (0,),
    "1 or 2": (0, 3),
    "above 0": (0.0,),
}
VALUES = {bool: True, "encoder_xformers_att_config": "{}", "decoder_xformers_att_config": "{}", "base_layers": 1}
OWNERS = ("rk2_tiny", "transevolve_fullff_1_tiny", "floater_roberta_tiny")


def owner(name):
    """An architecture that has the field."""
    return next(arch for arch in OWNERS if name in {f.name for f in fields(PRESETS[arch][1])})


def of_limits():
    for names, _, words in LIMITS:
        for name in names:
            beyond = next((values for end, values in BEYOND.items() if words.endswith(end)), (-1,))
            yield from ((owner(name), {flag(name)[2:]: x}, f"{flag(name)} .*: must be {words}") for x in beyond)


def of_absent():
    for i, (name, off) in enumerate(ABSENT.items()):
        value = True if off is False else VALUES.get(name, "0" if off is None else 0.5)
        yield OWNERS[i == 0], {flag(name)[2:]: value}, f"{flag(name)} .*: is an option of fairseq"


OF_ALL_MODELS = [
    list(of_limits()),
    list(of_absent()),
    (
        "macaron_tiny",
        {"share-decoder-input-output-embed": True, "adaptive-softmax-cutoff": "10,20"},
        "--share-decoder-input-output-embed: has no meaning with --adaptive-softmax-cutoff",
    ),
    [
        (arch, {flag: True, "decoder-output-dim": 8}, "--decoder-output-dim 8: must be 16, the width")
        for arch, flag in (
            ("macaron_tiny", "share-decoder-input-output-embed"),
            ("rk2_tiny", "merge-src-tgt-embed"),
            ("transevolve_fullff_1_tiny", "share-all-embeddings"),
        )
    ],
    ("macaron_tiny", {"cuda-graphs": True, "checkpoint-activations": True}, "--cuda-graphs: cannot be"),
    [
        (arch, {f"{side}-attention-heads": 3}, f"--{side}-attention-heads 3: must divide the width 16")
        for arch in OWNERS[:2]
        for side in ("encoder", "decoder")
    ],
]
EXAMPLES = {
    rules.of_all_models: OF_ALL_MODELS,
    rules._of_model: OF_MODEL,
    rules._of_sides: OF_SIDES,
    rules._of_side: OF_SIDE,
    transevolve.rules: OF_TRANSEVOLVE,
}
"""Of each sentence of a group of rules an example, or of a sentence about several options a list."""


def test_every_sentence_has_an_example():
    for group, examples in EXAMPLES.items():
        assert inspect.getsource(group).count("yield") == len(examples), group.__name__
    assert len(OF_NEEDS) == len(NEEDS)


@pytest.mark.parametrize(
    ("arch", "flags", "message"),
    [
        case
        for examples in (*EXAMPLES.values(), OF_ONE_SIDE)
        for of_one in examples
        for case in (of_one if isinstance(of_one, list) else [of_one])
    ],
)
def test_what_a_rule_refuses(arch, flags, message, monkeypatch):
    if "at most two" in message:  # as a plugin might add it
        monkeypatch.setitem(SPLITTINGS.data, "parallel", Splitting("FGFGF", (0.2, 0.5, 0.6, 0.5, 0.2)))
    with pytest.raises(ValueError, match=message):
        build(arch, **flags)


def test_a_function_that_nothing_integrates_is_named(caplog):
    build("rk2_tiny", **{**NO_HISTORY, "integrator": "leapfrog", "ode-function": "san"})
    assert "--ode-function san: has no meaning with --integrator leapfrog and --decoder-int" in caplog.text


@pytest.mark.parametrize("arch", ["macaron_rk2_tiny", "rk2_tiny"])
def test_a_function_that_something_integrates_has_a_meaning(arch, caplog):
    build(arch, **{"ode-function": "san", "decoder-integrator": "leapfrog", "decoder-history": "none"})
    assert "has no meaning" not in caplog.text


def test_every_option_says_where_it_is_from_and_stands_in_the_documentation():
    ours = {f.name: f for f in fields(SplitTransformerConfig)}
    for name in ours.keys() - {f.name for f in fields(FlatTransformerConfig)}:
        assert ours[name].metadata["source"], name
        rows = [row for page in ("combining", "floater") for row in (ROOT / f"docs/{page}.md").open(encoding="utf-8")]
        assert any(row.startswith("|") and f"`{flag(name)}" in row for row in rows), name


def test_a_plain_step_is_the_layer_in_both_forms():
    m = build("ode_residual_tiny", **{"ode-residual": "released"})
    options = Options(m.cfg, "encoder")
    assert options.unweighted and not options.released and options.integrated_flows == "FCG"
