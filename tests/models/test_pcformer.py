"""PCformer: the released code's names, and its encoder by the equations."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from ode_transformer.models import ode
from ode_transformer.models.pcformer import RELEASED, ReleasedPCformerModel
from ode_transformer.modules.layers import Context
from ode_transformer.numerics.integrators import HEUN, RK4
from tests.helpers import batch, model, perturbed, small


@pytest.mark.parametrize("name", [*RELEASED, *ode.RELEASED])
def test_the_released_names_say_their_sizes_and_relative_positions(name):
    """Also those of the ODE Transformer."""
    assert ARCH_MODEL_REGISTRY[name] is (ReleasedPCformerModel if "PC" in name else ode.ReleasedOdeModel)
    with torch.device("meta"):
        m = model(name)
    layer, cfg = m.encoder.layers[0], m.cfg
    size = (layer.embed_dim, layer.fc1.out_features, layer.self_attn.num_heads, cfg.dropout)
    expected = {"Gemma": (1536, 6144, 24, 0.3), "big": (1024, 4096, 16, 0.3), "iwslt": (512, 1024, 4, 0.3)}
    expected |= {"small": (256, 1024, 4, 0.1), "tiny": (128, 512, 4, 0.1)}
    assert size == next((its for word, its in expected.items() if word in name), (512, 2048, 8, 0.1))
    assert str(cfg.relative_positions) == ("keys" if "relative" in name else "none")
    assert cfg.attention_dropout == cfg.activation_dropout == 0.1
    coefficients = "ema" if "PC" in name else "sigmoid"
    assert (cfg.integrator, cfg.coefficients, cfg.gate_sharing) == ("heun", coefficients, "shared")


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
