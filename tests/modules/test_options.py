"""Every rule of options refuses an example, with its sentence; the table of options says where each is from."""

import re
from dataclasses import fields

import pytest
from fairseq.models import build_model

from ode_transformer.config import PRESETS, FlatTransformerConfig
from ode_transformer.models import transevolve
from ode_transformer.modules.options import (
    ALL_SIDES_RULES,
    MODEL_RULES,
    NEEDS,
    SIDE_RULES,
    Options,
    SplitTransformerConfig,
)
from ode_transformer.modules.rules import ABSENT, LIMITS, STOCK_RULES, flag
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


def rules(*which):
    """Rules with an example of each, in their order."""
    pairs = [pair for group, cases in which for pair in zip(group, cases, strict=True)]
    return [pytest.param(*case, id=rule.says[:40]) for rule, case in pairs]


OF_NEEDS = [
    ("rk2_tiny", {"gate-sharing": "per-layer"}, "--gate-sharing per-layer: has no meaning with --coefficients fixed"),
    ("rk2_tiny", {"position-blocks": "input"}, "--position-blocks input: has no meaning with --position-encoder none"),
    ("rk2_tiny", {"flow-sharing": "stack", "position-encoder": "learned"}, "stack: .* --position-encoder learned"),
    ("rk2_tiny", {"flow-method": "midpoint", "position-encoder": "rnn-scalar-1"}, "midpoint: .* rnn-scalar-1"),
    ("floater_tiny", {"flow-step": 2, "position-encoder": "none"}, r"--flow-step 2\.0: has no meaning"),
    ("rk2_tiny", {"flow-horizon": 9}, "--flow-horizon 9: has no meaning with --position-encoder none"),
]
OF_MODELS = [
    *OF_NEEDS,
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
OF_ALL_SIDES = [
    ("macaron_tiny", {"max-relative-length": 4}, "--max-relative-length 4: has no meaning"),
    ("ode_residual_tiny", {**MOMENTUM, "coefficients": "ema"}, "ema: must be fixed with --integrator nesterov and"),
    (
        "ode_residual_tiny",
        {**NO_HISTORY, "integrator": "dlcl", "decoder-integrator": "triple", "ode-residual": "released"},
        "--ode-residual released: must be paper with --integrator dlcl and --decoder-integrator triple",
    ),
    ("ode_residual_tiny", {"rk-norm": True, "integrator": "polynet"}, "--rk-norm: has no meaning without a Runge"),
    ("rk2_tiny", {"velocity-embedding": True}, "--velocity-embedding: has no meaning without .* nesterov or triple"),
    (
        "rk2_tiny",
        {**NO_HISTORY, "integrator": "leapfrog", "ode-function": "san"},
        "--ode-function san: has no meaning with --integrator leapfrog and --decoder-integrator euler",
    ),
]
OF_SIDES = [
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
    ("rk2_second_order_tiny", {"integrator": "ralston"}, "second-order: needs the integrator heun, got ralston"),
    ("rk2_second_order_tiny", {"rk-norm": True}, "second-order: cannot be combined with --rk-norm"),
    ("rk2_tiny", {"max-relative-length": 0}, "--max-relative-length 0: must be 1 or more"),
    ("rk2_tiny", {"decoder-integrator": "dlcl"}, "--decoder-history learnable_dense: must be none with .* dlcl"),
    (
        "ode_residual_tiny",
        {**POST_NORM_ENCODER, "encoder-history": "corrector"},
        "--encoder-history corrector: needs a pre-norm encoder",
    ),
    ("pcformer_tiny", {"ode-function": "ffn"}, "--ode-function ffn: must be both with --encoder-history corrector"),
    ("ode_residual_tiny", {**MOMENTUM, "encoder-history": "corrector"}, "corrector: .* nesterov, whose velocity"),
]
OF_TRANSEVOLVE = [
    ("transevolve_fullff_1_tiny", {"encoder-layers": 3}, "--encoder-layers 3: has no .*use --evolution-blocks and"),
    ("transevolve_fullff_1_tiny", {"decoder-layers": 3}, "--decoder-layers 3: has no meaning in TransEvolve; use"),
    ("transevolve_fullff_1_tiny", {"attention-dropout": 0.1}, r"--attention-dropout 0\.1: has no meaning"),
    *(
        ("transevolve_fullff_1_tiny", {name: True}, f"--{name} True: has no meaning in TransEvolve$")
        for name in (
            *("encoder-normalize-before", "decoder-normalize-before", "no-decoder-final-norm"),
            *("encoder-learned-pos", "decoder-learned-pos"),
        )
    ),
    ("transevolve_fullff_1_tiny", {"decoder-embed-dim": 64}, "--decoder-embed-dim 64: must be the encoder's, 16"),
    ("transevolve_fullff_1_tiny", {"encoder-embed-dim": 15}, "--encoder-embed-dim 15: must be even in TransEvolve"),
    ("transevolve_randomff_1_tiny", {"encoder-ffn-embed-dim": 511}, "--encoder-ffn-embed-dim 511: must be even with"),
    ("transevolve_randomff_1_tiny", {"decoder-ffn-embed-dim": 511}, "--decoder-ffn-embed-dim 511: must be even with"),
    ("transevolve_fullff_1_tiny", {"evolution-seed": 2}, "--evolution-seed 2: has no meaning with .* full"),
]
ADAPTIVE = ("transevolve_fullff_1_tiny", {"adaptive-input": True}, "--adaptive-input True: is an option of fairseq's")
BEYOND = {"from 0 to 1": (1.5, -0.5), "below 1": (1.0, -0.1), "0 or more": (-1,), "1 or more": (0,), "1 or 2": (0, 3)}
VALUES = {bool: True, "encoder_xformers_att_config": "{}", "decoder_xformers_att_config": "{}", "base_layers": 1}
OWNERS = ("rk2_tiny", "transevolve_fullff_1_tiny", "floater_roberta_tiny")


def owner(name):
    """An architecture that has the field."""
    return next(arch for arch in OWNERS if name in {f.name for f in fields(PRESETS[arch][1])})


def of_limits():
    for names, _, words in LIMITS:
        for name in names:
            beyond = next((values for end, values in BEYOND.items() if words.endswith(end)), (-1,))
            yield [(owner(name), {flag(name)[2:]: value}, f"{flag(name)} {value}: must be {words}") for value in beyond]


def of_absent():
    for name, off in ABSENT.items():
        value = True if off is False else VALUES.get(name, "0" if off is None else 0.5)
        yield [(OWNERS[0], {flag(name)[2:]: value}, f"{flag(name)} .*: is an option of fairseq's")]


STOCK = [case for cases in (*of_limits(), *of_absent()) for case in cases]
CUDA_GRAPHS = ("macaron_tiny", {"cuda-graphs": True, "checkpoint-activations": True}, "--cuda-graphs: cannot be")
HEADS = [
    (arch, {f"{side}-attention-heads": 3}, f"--{side}-attention-heads 3: must divide the width 16")
    for arch in OWNERS[:2]
    for side in ("encoder", "decoder")
]


def test_every_stock_rule_has_an_example():
    assert len([*of_limits(), *of_absent(), CUDA_GRAPHS]) == len(STOCK_RULES) and len(OF_NEEDS) == len(NEEDS)


@pytest.mark.parametrize(
    ("arch", "flags", "message"),
    [
        *rules((MODEL_RULES, OF_MODELS), (ALL_SIDES_RULES, OF_ALL_SIDES), (SIDE_RULES, OF_SIDES)),
        *rules((transevolve.RULES, OF_TRANSEVOLVE)),
        *(*STOCK, CUDA_GRAPHS, ADAPTIVE, *HEADS),
    ],
)
def test_what_a_rule_refuses(arch, flags, message, caplog, monkeypatch):
    if "at most two" in message:  # as a plugin might add it
        monkeypatch.setitem(SPLITTINGS._methods, "parallel", Splitting("FGFGF", (0.2, 0.5, 0.6, 0.5, 0.2)))
    if "seed" in message or "--ode-function san: has" in message:
        build(arch, **flags)
        assert re.search(message, caplog.text)
        return
    with pytest.raises(ValueError, match=message):
        build(arch, **flags)


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
    options = Options.of(m.cfg, "encoder")
    assert options.unweighted and not options.released and options.integrated_flows == "FCG"
