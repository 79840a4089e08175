"""PCformer: the released code's checkpoints, its layer by the equations, counts, and what is refused."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from ode_transformer.models.pcformer import RELEASED, ReleasedPCformerModel
from ode_transformer.modules.layers import Context
from ode_transformer.numerics.integrators import HEUN, RK4
from tests.helpers import batch, model, perturbed, small
from tests.models.released import built


def stored(**options):
    return built("pcformer_rk2_ema", **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"integrator": "heun", "coefficients": "ema", "gate_sharing": "shared", "relative_positions": "none"}),
        ({"alpha_type": "vector"}, {"coefficients": "ema-channels"}),
        ({"layer_wise": True}, {"gate_sharing": "per-layer"}),
        ({"enc_learnable_type": "gated"}, {"coefficients": "sigmoid"}),
        ({"enc_learnable_type": "gated", "alpha_type": "vector"}, {"coefficients": "sigmoid"}),
        ({"enc_learnable_type": "gated", "layer_wise": True}, {"coefficients": "sigmoid", "gate_sharing": "shared"}),
        *(
            ({"enc_learnable_type": kind, "enc_calculate_num": stages}, {"coefficients": "fixed", "integrator": name})
            for kind, stages, name in (("gated", 4, "rk4"), ("RK", 4, "rk4"), ("RK", 2, "heun"))
        ),
        *(
            (
                {"enc_calculate_num": 3, **ignored},
                {"integrator": "kutta3", "coefficients": "ema", "gate_sharing": "shared"},
            )
            for ignored in ({}, {"alpha_type": "vector"}, {"layer_wise": True}, {"enc_learnable_type": "gated"})
        ),
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
)
def test_options_of_the_released_code_are_translated(options, expected):
    m = stored(**options)
    assert {k: getattr(m.cfg, k) for k in expected} == expected
    assert str(m.cfg.ode_residual) == "released"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enc_calculate_num": 1}, r"enc_calculate_num 1.*2, 3, 4"),
        ({"enc_learnable_type": "learnable"}, r"enc_learnable_type 'learnable'.*ema, gated, RK"),
        ({"alpha_type": "matrix"}, r"alpha_type 'matrix'.*scalar, vector"),
        ({"alpha_type": "vector", "layer_wise": True}, r"alpha_type 'vector': must be scalar with layer_wise"),
        ({"enc_calculate_num": 3, "rk_norm": True}, r"enc_calculate_num 3: must be 2 or 4"),
        ({"encoder_history_type": "learnable_dense"}, r"encoder_history_type 'learnable_dense': must be"),
        ({"gate_sharing": "per-layer"}, "--gate-sharing per-layer: must be left at shared"),
        ({"decoder_history": "none"}, "--decoder-history none: must be left at"),
        ({"decoder_relative_positions": "keys"}, "--decoder-relative-positions keys: must be left at same"),
    ],
)
def test_options_of_the_released_code_without_a_counterpart_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        stored(**options)


def released_layout(state, depth):
    """Our encoder's parameters under the released names."""
    norms = {f"stage_norms.{i}.": f"RK_norm.{i - 1}." if i else "residual_norm." for i in range(5)}
    found = {}
    for name, x in state.items():
        for ours, theirs in {
            **norms,
            "prediction_norms": "rouge_predictions_norm",
            "coefficients.gate": "gate_linear",
        }.items():
            name = name.replace(f"encoder.{ours}", f"encoder.{theirs}").replace(f"history.{ours}", f"history.{theirs}")
        found[name] = x
    if "encoder.coefficients.weight" in found:
        found["encoder.alpha"] = found.pop("encoder.coefficients.weight").reshape(-1)
    if "encoder.layers.0.coefficients.weight" in found:
        rows = [found.pop(f"encoder.layers.{i}.coefficients.weight") for i in range(depth)]
        found["encoder.alpha"] = torch.stack(rows).reshape(depth, -1)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"rk_norm": True, "alpha_type": "vector"},
        {"layer_wise": True, "enc_calculate_num": 4},
        {"enc_calculate_num": 3, "layer_wise": True, "enc_learnable_type": "gated"},
        {"enc_learnable_type": "gated"},
    ],
)
def test_the_released_layout_of_other_options_is_loaded(options):
    before, after = perturbed(stored(**options)), stored(**options)
    layout = released_layout(before.state_dict(), depth=3)
    assert any(name.startswith(("encoder.alpha", "encoder.gate_linear")) for name in layout)
    after.load_state_dict(layout)
    ours, expected = after.state_dict(), before.state_dict()
    assert all(torch.equal(ours[name], x) for name, x in expected.items())


@pytest.mark.parametrize("name", RELEASED)
def test_the_released_names_say_their_sizes_and_relative_positions(name):
    assert ARCH_MODEL_REGISTRY[name] is ReleasedPCformerModel
    with torch.device("meta"):
        m = model(name)
    layer, cfg = m.encoder.layers[0], m.cfg
    size = (layer.embed_dim, layer.fc1.out_features, layer.self_attn.num_heads, cfg.dropout)
    assert size == ((1024, 4096, 16, 0.3) if "big" in name else (512, 2048, 8, 0.1))
    assert str(cfg.relative_positions) == ("keys" if "relative" in name else "none")
    assert (cfg.integrator, cfg.coefficients, cfg.gate_sharing) == ("heun", "ema", "shared")


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(("integrator", "tableau"), [("heun", HEUN), ("rk4", RK4)])
def test_the_encoder_by_its_equations(integrator, tableau, norm, released):
    """With a layer's increment read off the layer itself, by a step of Euler's from any state."""
    form = {"integrator": integrator, "rk-norm": norm or None, "ode-residual": "released" if released else "paper"}
    m, plain = perturbed(small("pcformer_tiny", **form).double(), 0.2), small("ode_residual_tiny").double()
    own = plain.state_dict()
    plain.load_state_dict(own | {k: v for k, v in m.state_dict().items() if k in own and "history" not in k})
    src, _, _ = batch(sizes=(6, 6, 6))
    h, a, norms = m.encoder.history, m.encoder.coefficients.weight, m.encoder.stage_norms
    n = tableau.stages
    weights = [a * (1 - a) ** (n - j) for j in range(1, n + 1)]
    x = m.encoder.forward_embedding(src)[0].transpose(0, 1)
    z = [x]
    for i, layer in enumerate(torch.nn.ModuleList.__iter__(plain.encoder.layers)):

        def f(y, layer=layer):
            return layer(y, Context())[0] - y

        def stage(y, f=f):
            return y + f(y) if released else f(y)

        start, stages = x if norms is None else norms[0](x), []
        for row in tableau.a:
            stages.append(stage(start + sum(w * s for w, s in zip(row, stages, strict=True)) if stages else x))
        normed = stages if norms is None else [norm(s) for norm, s in zip(norms[1:], stages, strict=True)]
        prediction = h.prediction_norms[i](start + sum(w * s for w, s in zip(weights, normed, strict=True)))
        c = sum(h.weight[i + 1, k] * s for k, s in enumerate([*z, prediction]))
        z.append(h.layer_norms[i](c + f(c)))
        x = sum(h.weight_c[i + 1, k] * s for k, s in enumerate(z))
    ours = m.encoder(src)["encoder_out"][0]
    torch.testing.assert_close(ours, m.encoder.layer_norm(x), atol=1e-6, rtol=1e-6)  # softmax is in single precision
