"""Files as the released code writes them: fairseq by itself loads each, and the model gives the released numbers."""

import math
import re

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from ode_transformer.config import PRESETS, resolve
from ode_transformer.models import floater, macaron, ode
from tests.helpers import perturbed, raises, task
from tests.models.released import as_written, assert_logits, built, load

ODE, PCFORMER = "ode_rk2_learnable", "pcformer_rk2_ema"
MODELS = {
    "macaron_prenorm": macaron.MacaronModel,
    **dict.fromkeys((ODE, "ode_rk2_standard", PCFORMER, "pcformer_rk4_ema_rpr"), ode.OdeModel),
    "floater": floater.ReleasedFloaterModel,
}
RENAMED = {
    **{
        rf"(layers\.\d+)\.layer_norms\.{i}": rf"\1.{name}"
        for i, name in enumerate(("self_attn_layer_norm", "final_layer_norm", "macaron_layer_norm"))
    },
    "gate_linear": "coefficients.gate",
    r"encoder\.alpha": "encoder.coefficients.weight",
    "rouge_predictions_norm": "prediction_norms",
}


def names(name, fixture):
    """Our names of a released parameter, which may be several in one tensor."""
    if fixture["name"] == "floater":
        return floater._renamed(name, fixture["model"][name]) or [name]
    for old, new in RENAMED.items():
        name = re.sub(old, new, name)
    return [name.replace("in_proj_", f"{x}_proj.") for x in "qkv"] if "in_proj_" in name else [name]


def loaded(state, folder):
    torch.save(state, folder / "file.pt")
    (m,), cfg = checkpoint_utils.load_model_ensemble([str(folder / "file.pt")], task=task())
    return m.eval(), cfg


@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_the_released_code_gives_its_numbers(name, tmp_path):
    """Logits, encoder states, and norms of the gradients of all parameters; and again when it is saved in our form."""
    released = load(name)
    state = as_written(released)
    m, cfg = loaded(state, tmp_path)
    assert type(m) is MODELS[name]
    prev, logits = released["prev_output_tokens"], assert_logits(m, released)
    weights = torch.linspace(-1, 1, logits.numel()).view_as(logits) * (prev != 1)[..., None]
    (logits.log_softmax(-1) * weights).sum().backward()
    norms = {name: float(p.grad.norm()) for name, p in m.named_parameters()}
    for theirs, expected in released["grad_norms"].items():
        ours = math.hypot(*(norms.pop(part) for part in names(theirs, released)))
        assert ours == pytest.approx(float(expected), rel=1e-4, abs=1e-5), theirs  # those of keys' biases are noise
    assert not norms, f"parameters without a counterpart: {list(norms)}"

    out = m.encoder(released["src_tokens"], return_all_hiddens=True)
    ours, theirs = out["encoder_out"], [released["encoder_out"]]
    if "encoder_states" in released:
        ours, theirs = [*ours, *out["encoder_states"][1:]], [*theirs, *released["encoder_states"]]
    real = released["src_tokens"].t() != 1
    torch.testing.assert_close([x[real] for x in ours], [x[real] for x in theirs], atol=1e-5, rtol=0)

    today = {**state, "args": None, "cfg": OmegaConf.to_container(cfg), "model": m.state_dict()}
    assert torch.equal(assert_logits(loaded(today, tmp_path)[0], released), logits)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("macaron_prenorm", "macaron_tiny"),
        ("ode_rk2_learnable", "rk2_learnable"),
        ("ode_rk2_standard", "rk2"),
        ("pcformer_rk2_ema", "pcformer"),
        ("floater", "floater_base"),
    ],
)
def test_our_architectures_choose_the_methods_of_the_released_code(name, arch):
    theirs, (_, config_class, preset) = built(name).cfg, PRESETS[arch]
    ours = resolve(preset, config_class)
    for choice in ("splitting", "integrator", "coefficients", "gate_sharing", "encoder_history", "decoder_history"):
        assert getattr(theirs, choice) == ours[choice], choice


KUTTA3 = {"integrator": "kutta3", "coefficients": "ema", "gate_sharing": "shared"}
TRANSLATED = {
    ODE: [
        ({"max_relative_length": 8}, {"relative_positions": "keys", "max_relative_length": 8}),
        ({"max_relative_length": -1}, {"relative_positions": "none"}),
        ({"rk_type": "initialization"}, {"coefficients": "scalars", "integrator": "heun"}),
        ({"rk_type": "standard", "enc_calculate_num": 4}, {"coefficients": "fixed", "integrator": "rk4"}),
        ({"encoder_history_type": None}, {"encoder_history": "none", "decoder_history": "learnable_dense"}),
        ({"use_word_dropout": True, "word_dropout": 0.8}, {"word_dropout": pytest.approx(0.2)}),
        ({"word_dropout": 0.8}, {"word_dropout": 0.0}),
        ({"encoder_history_type": "dense", "decoder_integration_type": "sum"}, {"encoder_history": "dense"}),
    ],
    PCFORMER: [
        ({}, {"integrator": "heun", "coefficients": "ema", "gate_sharing": "shared", "relative_positions": "none"}),
        ({"alpha_type": "vector"}, {"coefficients": "ema-channels"}),
        ({"layer_wise": True}, {"gate_sharing": "per-layer"}),
        ({"enc_learnable_type": "gated"}, {"coefficients": "sigmoid"}),
        ({"enc_learnable_type": "gated", "alpha_type": "vector"}, {"coefficients": "sigmoid"}),
        ({"enc_learnable_type": "gated", "layer_wise": True}, {"coefficients": "sigmoid", "gate_sharing": "shared"}),
        ({"enc_learnable_type": "gated", "enc_calculate_num": 4}, {"coefficients": "fixed", "integrator": "rk4"}),
        ({"enc_learnable_type": "RK", "enc_calculate_num": 4}, {"coefficients": "fixed", "integrator": "rk4"}),
        ({"enc_learnable_type": "RK", "enc_calculate_num": 2}, {"coefficients": "fixed", "integrator": "heun"}),
        ({"enc_calculate_num": 3}, KUTTA3),  # whatever these say
        ({"enc_calculate_num": 3, "alpha_type": "vector"}, KUTTA3),
        ({"enc_calculate_num": 3, "layer_wise": True}, KUTTA3),
        ({"enc_calculate_num": 3, "enc_learnable_type": "gated"}, KUTTA3),
        ({"max_relative_length": 8}, {"relative_positions": "keys-values", "max_relative_length": 8}),
        ({"max_relative_length": 8, "k_only": True}, {"relative_positions": "keys"}),
        ({"max_relative_length": 0, "k_only": True}, {"relative_positions": "none"}),
        ({"decoder_history_type": None}, {"decoder_history": "none", "encoder_history": "corrector"}),
        ({"decoder_history_type": "dense"}, {"decoder_history": "dense"}),
        (
            {"encoder_integration_type": "sum", "decoder_integration_type": "sum"},  # of no dense history
            {"decoder_history": "learnable_dense", "encoder_history": "corrector"},
        ),
    ],
}


@pytest.mark.parametrize(("name", "options", "expected"), [(k, *row) for k, rows in TRANSLATED.items() for row in rows])
def test_options_of_the_released_code_are_translated(name, options, expected):
    m = built(name, **options)
    assert {k: getattr(m.cfg, k) for k in expected} == expected
    assert str(m.cfg.ode_residual) == "released"


REFUSED = {
    ODE: [
        ({"enc_calculate_num": 3}, r"enc_calculate_num 3.*1, 2, 4"),  # it trains none of three stages
        ({"enc_calculate_num": 1}, r"rk_type 'learnable'.*initialization, standard"),
        ({"encoder_history_type": "corrector"}, r"encoder_history_type 'corrector'.*none, residual, dense"),
        *(
            (
                {f"{side}_history_type": "dense", f"{side}_integration_type": "sum"},  # read for this history alone
                f"{side}_integration_type 'sum': must be 'avg' with {side}_history_type 'dense'",
            )
            for side in ("encoder", "decoder")
        ),
    ],
    PCFORMER: [
        ({"enc_calculate_num": 1}, r"enc_calculate_num 1.*2, 3, 4"),
        ({"enc_learnable_type": "learnable"}, r"enc_learnable_type 'learnable'.*ema, gated, RK"),
        ({"alpha_type": "matrix"}, r"alpha_type 'matrix'.*scalar, vector"),
        ({"alpha_type": "vector", "layer_wise": True}, r"alpha_type 'vector': must be scalar with layer_wise"),
        ({"enc_calculate_num": 3, "rk_norm": True}, r"enc_calculate_num 3: must be 2 or 4"),
        ({"encoder_history_type": "learnable_dense"}, r"encoder_history_type 'learnable_dense': must be"),
        ({"gate_sharing": "per-layer"}, "--gate-sharing per-layer: use the released code's option"),
        ({"decoder_history": "none"}, "--decoder-history none: use the released code's option"),
    ],
}


@pytest.mark.parametrize(("name", "options", "message"), [(k, *row) for k, rows in REFUSED.items() for row in rows])
def test_options_of_the_released_code_without_a_counterpart_are_refused(name, options, message):
    raises(message, built, name, **options)


def released_layout(state):
    """The parameters of a model of ours under the released names of its encoder's."""
    renamed = {f"stage_norms.{i + 1}.": f"RK_norm.{i}." for i in range(4)} | {"stage_norms.0.": "residual_norm."}
    renamed |= {"history.prediction_norms.": "history.rouge_predictions_norm.", "coefficients.gate.": "gate_linear."}
    found = {name: x for name, x in state.items() if not name.endswith("coefficients.weight")}
    for ours, theirs in renamed.items():
        found = {name.replace(f"encoder.{ours}", f"encoder.{theirs}"): x for name, x in found.items()}
    if alphas := [x.reshape(-1) for name, x in state.items() if name.endswith("coefficients.weight")]:
        found["encoder.alpha"] = torch.stack(alphas) if len(alphas) > 1 else alphas[0]  # a row for each layer
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (ODE, {"rk_type": "initialization"}),
        (PCFORMER, {"rk_norm": True, "alpha_type": "vector"}),
        (PCFORMER, {"layer_wise": True, "enc_calculate_num": 4}),
        (PCFORMER, {"enc_calculate_num": 3, "layer_wise": True, "enc_learnable_type": "gated"}),
        (PCFORMER, {"enc_learnable_type": "gated"}),
    ],
)
def test_the_released_layout_of_other_options_is_loaded(name, options):
    expected, m = perturbed(built(name, **options)).state_dict(), built(name, **options)
    layout = released_layout(expected)
    assert any(name.startswith(("encoder.alpha", "encoder.gate_linear")) for name in layout)
    m.load_state_dict(layout)
    assert all(torch.equal(m.state_dict()[name], x) for name, x in expected.items())
