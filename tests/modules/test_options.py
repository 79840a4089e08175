"""Every rule of options refuses an example, with its sentence; the table of options says where each is from."""

import inspect
from dataclasses import fields

import pytest
from fairseq.models import build_model

from ode_transformer.config import FlatTransformerConfig, flag
from ode_transformer.models import transevolve
from ode_transformer.modules import rules
from ode_transformer.modules.options import NEEDS, Options, SplitTransformerConfig
from ode_transformer.modules.rules import ABSENT
from ode_transformer.numerics.splitting import SPLITTINGS, Splitting
from tests.helpers import ROOT, SMALL, configure, raises, task

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
    ("macaron_tiny", {"no-token-positional-embeddings": True, "position-encoder": "learned"}, "True: .* learned"),
    ("rk2_tiny", {"position-blocks": "input"}, "--position-blocks input: has no meaning with --position-encoder none"),
    ("rk2_tiny", {"flow-sharing": "stack", "position-encoder": "learned"}, "stack: .* --position-encoder learned"),
    ("rk2_tiny", {"flow-method": "midpoint", "position-encoder": "rnn-scalar-1"}, "midpoint: .* rnn-scalar-1"),
    ("floater_tiny", {"flow-step": 2, "position-encoder": "none"}, r"--flow-step 2\.0: has no meaning"),
    ("rk2_tiny", {"flow-horizon": 9}, "--flow-horizon 9: has no meaning with --position-encoder none"),
]
OF_MODEL = [
    OF_NEEDS,
    [
        ("rk2_tiny", {"decoder-learned-pos": True, "position-encoder": "sinusoidal"}, "contradicts --encoder-learned"),
        ("floater_roberta_tiny", {"position-encoder": "sinusoidal"}, "contradicts --encoder-learned-pos"),
    ],
    ("floater_tiny", {"flow-step": 0.0}, r"--flow-step 0\.0: must be a number of tokens"),
    ("floater_tiny", {"flow-horizon": -5}, r"--flow-horizon -5.*: must be a number of tokens, or 0 for the longest"),
    ("macaron_tiny", {"ffn-hidden-layers": 3}, "--ffn-hidden-layers 3: must be 1 or 2"),
    ("rk2_tiny", {"word-dropout": 1.0}, r"--word-dropout 1\.0: must be a probability, 0 or more and less than 1"),
    (
        "ode_residual_tiny",
        {**MOMENTUM, "velocity-embedding": True, "word-dropout": 0.2},
        "must be 0 with --velocity-em",
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
    ("ode_residual_tiny", {"rk-norm": True, "integrator": "polynet"}, "--rk-norm: needs a Runge"),
    ("rk2_tiny", {"velocity-embedding": True}, "--velocity-embedding: needs a method with momentum"),
]
PARALLEL, CORRECTOR = {"splitting": "parallel"}, {"encoder-history": "corrector"}
OF_SIDE = [
    [
        ("ode_residual_tiny", {**PARALLEL, "no-decoder-normalize-before": True}, "parallel: needs a pre-norm decoder"),
        ("ode_residual_tiny", {**CORRECTOR, **POST_NORM_ENCODER}, "corrector: needs a pre-norm encoder, --encoder-n"),
    ],
    [
        ("rk2_tiny", {**PARALLEL, "ode-function": "san"}, "--ode-function san: must be both with --splitting parallel"),
        ("pcformer_tiny", {"ode-function": "ffn"}, "ffn: must be both with --encoder-history corrector"),
    ],
    [
        ("ode_residual_tiny", {**another, **POST_NORM_ENCODER}, f"{given}: need a pre-norm encoder, --encoder-n")
        for another, given in (
            ({"integrator": "heun"}, "--integrator heun and --coefficients fixed"),
            (MOMENTUM, "--integrator nesterov and --coefficients fixed"),
            ({"coefficients": "scalars"}, "--integrator euler and --coefficients scalars"),
        )
    ],
    ("macaron_tiny", {"splitting": "parallel"}, "--splitting parallel: must have at most two of each"),
    ("macaron_tiny", {"ffn-hidden-layers": 2}, "--ffn-hidden-layers 2: needs a splitting with one feed-forward, got s"),
    ("rk2_tiny", {"integrator": "euler", "coefficients": "ema"}, "ema: has no meaning with --integrator euler"),
    ("rk2_learnable_tiny", {"decoder-integrator": "rk4"}, "sigmoid: needs .* 2 stages, got --decoder-integrator rk4"),
    [
        ("rk2_second_order_tiny", another, "second-order: needs heun and")
        for another in ({"integrator": "ralston"}, {"ode-residual": "released"}, {"rk-norm": True})
    ],
    ("rk2_tiny", {"max-relative-length": 0}, "--max-relative-length 0: must be 1 or more"),
    ("rk2_tiny", {"decoder-integrator": "dlcl"}, "--decoder-history learnable_dense: must be none with .* dlcl"),
    ("ode_residual_tiny", {**MOMENTUM, **CORRECTOR}, "corrector: .* nesterov, whose own parameters"),
]
FULL = "transevolve_fullff_1_tiny"
OF_TRANSEVOLVE = [
    [
        (FULL, {"encoder-layers": 3}, "--encoder-layers 3: has no meaning in TransEvolve; use --evolution-blocks and"),
        (FULL, {"attention-dropout": 0.1}, r"--attention-dropout 0\.1: has no meaning in TransEvolve$"),
        (FULL, {"encoder-normalize-before": True}, "--encoder-normalize-before True: has no meaning"),
    ],
    [(FULL, {flag: 0}, f"--{flag} 0: must be 1 or more") for flag in ("evolution-blocks", "evolution-depth")],
    [
        (FULL, {"encoder-embed-dim": 15}, "--encoder-embed-dim 15: must be even"),
        ("transevolve_randomff_1_tiny", {"encoder-ffn-embed-dim": 25}, "--encoder-ffn-embed-dim 25: must be even"),
    ],
    (FULL, {"decoder-embed-dim": 64}, "--decoder-embed-dim 64: must be the encoder's, 16"),
]
WITHOUT = "has no meaning in a model that has no"
LANGUAGE_MODEL, ROBERTA = "ode_transformer_lm_ptb_1l", "floater_roberta_tiny"
OF_ONE_SIDE = [
    [
        (LANGUAGE_MODEL, {"integrator": "heun"}, f"--integrator heun: {WITHOUT} encoder; use --decoder-integrator"),
        (ROBERTA, {"decoder-history": "dense"}, f"--decoder-history dense: {WITHOUT} decoder; use --encoder-history"),
        ("transformer_small", {"decoder-integrator": "rk4"}, f"rk4: {WITHOUT} decoder; use --integrator"),
    ],
    [
        (arch, {flag: value}, f"--{flag}: {WITHOUT} decoder")
        for flag, value in (("adaptive-softmax-cutoff", "10,20"), ("merge-src-tgt-embed", True))
        for arch in (ROBERTA, "transformer_small", "transevolve_small")
    ],
]
VALUES = {bool: True, "encoder_xformers_att_config": "{}", "decoder_xformers_att_config": "{}", "base_layers": 1}


def of_absent():
    for i, (name, off) in enumerate(ABSENT.items()):
        value = True if off is False else VALUES.get(name, "0" if off is None else 0.5)
        arch = ("rk2_tiny", FULL)[i == 0]
        yield arch, {flag(name)[2:]: value}, f"{flag(name)} .*: is an option of fairseq"


OF_ALL_MODELS = [
    list(of_absent()),
    ("macaron_tiny", {"share-decoder-input-output-embed": True, "adaptive-softmax-cutoff": "9,20"}, "has no meaning"),
    ("macaron_tiny", dict.fromkeys(("cuda-graphs", "checkpoint-activations", "compile-layers"), True), "cuda-graphs: "),
    [
        (FULL, {"decoder-output-dim": 32}, "--decoder-output-dim 32: must be 16, the width of the embedding"),
        (LANGUAGE_MODEL, {"decoder-input-dim": 8, "share-decoder-input-output-embed": True}, " 512: must be 8"),
    ],
    [
        (arch, {"decoder-attention-heads": n}, f"heads {n}: must divide the width 16")
        for arch, n in (("macaron_tiny", 3), (FULL, 3), (FULL, 0))
    ],
]
EXAMPLES = {
    rules.of_all_models: OF_ALL_MODELS,
    rules._of_model: OF_MODEL,
    rules._of_sides: OF_SIDES,
    rules._of_side: OF_SIDE,
    rules.of_one_side: OF_ONE_SIDE,
    transevolve.rules: OF_TRANSEVOLVE,
}
"""Of each sentence of a group of rules an example, or of a sentence about several options a list."""


def test_every_sentence_has_an_example():
    for group, examples in EXAMPLES.items():
        assert inspect.getsource(group).count("yield") == len(examples), group.__name__
    assert len(OF_NEEDS) == len(NEEDS)


CASES = [case for examples in EXAMPLES.values() for one in examples for case in (one if type(one) is list else [one])]


@pytest.mark.parametrize(("arch", "flags", "message"), CASES)
def test_what_a_rule_refuses(arch, flags, message, monkeypatch):
    if "at most two" in message:  # as a plugin might add it
        monkeypatch.setitem(SPLITTINGS.data, "parallel", Splitting("FGFGF", (0.2, 0.5, 0.6, 0.5, 0.2)))
    raises(message, build, arch, **flags)


# The width of a decoder's input has an effect in language models only.
@pytest.mark.parametrize(
    "flags",
    [
        {"share-all-embeddings": True, "adaptive-softmax-cutoff": "9,20", "decoder-output-dim": 8},
        {"share-decoder-input-output-embed": True, "decoder-input-dim": 8},
    ],
)
def test_other_widths_than_that_of_a_shared_embedding(flags):
    build("rk2_tiny", **flags)


def test_the_position_encoder_of_a_plugin_may_have_a_flow():
    assert "flow_step" not in SplitTransformerConfig.idle_options({"position_encoder": "mine"})


def test_every_option_says_where_it_is_from_and_stands_in_the_documentation():
    ours = {f.name: f for f in fields(SplitTransformerConfig)}
    for name in ours.keys() - {f.name for f in fields(FlatTransformerConfig)}:
        assert ours[name].metadata["source"], name
        rows = [row for page in ("combining", "floater") for row in (ROOT / f"docs/{page}.md").open(encoding="utf-8")]
        assert any(row.startswith("|") and f"`{flag(name)}" in row for row in rows), name


def test_a_plain_step_is_the_layer_in_both_forms():
    m = build("ode_residual_tiny", **{"ode-residual": "released"})
    options = Options(m.cfg, "encoder")
    assert options.unweighted_euler and not options.released and options.integrated_flows == "FCG"
