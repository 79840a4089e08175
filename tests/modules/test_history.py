"""Histories, multistep schemes and PCformer's corrector against their equations."""

import pytest
import torch
from torch import nn

from ode_transformer.errors import OdeTransformerError
from ode_transformer.modules.history import HISTORIES, History, PredictorCorrector, SchemeWeights, mixture
from ode_transformer.numerics.integrators import DLCL, EULER, LEAPFROG, LINEAR_MULTISTEP
from ode_transformer.numerics.protocol import Learned

DEPTH, SIZE = 3, 8


@pytest.fixture
def fields():
    """f_l of every layer."""
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()).double() for _ in range(DEPTH)]


def history(kind, pre_norm=True):
    h = HISTORIES[kind](DEPTH, SIZE, pre_norm).double()
    for p in h.parameters():
        nn.init.normal_(p)
    return h


def run(history, layers, x):
    kept = [x]
    for layer in layers:
        kept.append(history.keep(kept, layer(history.mix(kept))))
    return history.mix(kept)


def solve(method, own, fields, x):
    """Steps of a method that carries earlier states, one in each field."""
    carried = None
    for f in fields:
        x, carried = method.step(lambda y, stage, f=f: f(y), x, carried, 1.0, Learned(own=own))
    return x


def residual(fields):
    return [lambda y, f=f: y + f(y) for f in fields]


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("kind", ["residual", "dense", "learnable_dense", "denseformer", "attention"])
def test_histories_are_their_equations(kind, pre_norm, fields):
    """The last two have no norms."""
    h, layers = history(kind, pre_norm), residual(fields)
    norms = getattr(h, "layer_norms", [nn.Identity()] * DEPTH)
    x = torch.randn(5, 2, SIZE, dtype=torch.float64)
    z, mixed = [x], h.weight[0, 0] * x if kind == "learnable_dense" else x
    for l in range(DEPTH):  # noqa: E741
        out = layers[l](mixed)
        z.append(norms[l](out) if pre_norm else out)
        past = torch.stack(z)  # (l + 2, T, B, C)
        if kind == "residual":
            mixed = mixed + z[-1]
        elif kind == "dense":
            mixed = past.mean(0)
        elif kind == "attention":
            normed = past / (past.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
            mixed = ((normed @ h.weight[l]).softmax(0).unsqueeze(-1) * past).sum(0)
        else:
            row = h.weight[l + 1] if kind == "learnable_dense" else h.weight[l]
            mixed = torch.einsum("k,k...->...", row[: l + 2], past)
        if not pre_norm:
            mixed = norms[l](mixed)
    torch.testing.assert_close(run(h, layers, x), mixed)


def started(kind, layers, x):
    return run(HISTORIES[kind](DEPTH, SIZE, True).double(), layers, x)


def test_learned_histories_start_as_the_transformer_or_as_the_mean(fields):
    x, layers = torch.randn(5, 2, SIZE, dtype=torch.float64), residual(fields)
    assert torch.equal(started("denseformer", layers, x), run(History(), layers, x))
    torch.testing.assert_close(started("learnable_dense", layers, x), started("dense", layers, x))
    mixed, y = x, [x]
    for layer in layers:
        y.append(layer(mixed))
        mixed = sum(y) / len(y)
    torch.testing.assert_close(started("attention", layers, x), mixed)


def test_attention_over_layers_in_half_precision_outlives_large_states():
    """A product of states and weights before the norm would leave fp16's range."""
    h = history("attention").half()
    nn.init.ones_(h.weight)
    x = torch.full((2, 1, SIZE), 3e4).half()
    assert run(h, [lambda x: x], x).isfinite().all()


def test_a_corrector_starts_with_means():
    """Of all states so far; here without norms, in a field of ones."""
    h, x = HISTORIES["corrector"](DEPTH, SIZE, True).double(), torch.randn(3, 2, SIZE, dtype=torch.float64)
    for norms in (h.layer_norms, h.prediction_norms):
        for i in range(DEPTH):
            norms[i] = nn.Identity()
    y, z = x, [x]
    for _ in range(DEPTH):
        z.append(torch.stack([*z, y + 1]).mean(0) + 1)
        y = torch.stack(z).mean(0)
    torch.testing.assert_close(solve(PredictorCorrector(EULER), h, [torch.ones_like] * DEPTH, x), y)


@pytest.mark.parametrize("first", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("others", [torch.float64, torch.bfloat16])
def test_a_mixture_is_its_sum_and_so_are_its_gradients(first, others):
    """Under autocast on a GPU, norms are in another precision than a projected embedding without positions."""
    torch.manual_seed(0)
    inputs = [torch.randn(3, 5), *torch.randn(3, 4, 2, SIZE)]
    inputs = [x.to(kind).requires_grad_() for x, kind in zip(inputs, [others, first, others, others], strict=True)]
    found = []
    for sum_ in (lambda w, y: mixture(w, 1, y), lambda w, y: sum(w[1, k] * y[k] for k in range(3))):
        out = sum_(inputs[0], inputs[1:])
        found.append((out, *torch.autograd.grad(out.float().pow(2).sum(), inputs)))
    tolerance = 1e-12 if first == others == torch.float64 else 0.15
    torch.testing.assert_close(*found, atol=tolerance, rtol=tolerance)


def test_multistep_schemes_over_a_stack(fields):
    x = torch.randn(5, 2, SIZE, dtype=torch.float64)
    f = fields
    y1 = x + f[0](x)
    y2 = x + 2 * f[1](y1)
    torch.testing.assert_close(solve(LEAPFROG, SchemeWeights(DEPTH, LEAPFROG), f, x), y1 + 2 * f[2](y2))

    own = SchemeWeights(DEPTH, LINEAR_MULTISTEP).double()
    k = own.weight.data = torch.tensor([0.8, 1.4], dtype=torch.float64)
    y2 = k[0] * y1 + (1 - k[0]) * x + f[1](y1)
    y3 = k[1] * y2 + (1 - k[1]) * y1 + f[2](y2)
    torch.testing.assert_close(solve(LINEAR_MULTISTEP, own, f, x), y3)

    own = SchemeWeights(DEPTH, DLCL).double()
    w = own.weight.data = torch.randn(DEPTH, DEPTH, dtype=torch.float64)
    y1 = x + w[0, 0] * f[0](x)
    y2 = x + w[1, 0] * f[0](x) + w[1, 1] * f[1](y1)
    y3 = x + w[2, 0] * f[0](x) + w[2, 1] * f[1](y1) + w[2, 2] * f[2](y2)
    torch.testing.assert_close(solve(DLCL, own, f, x), y3)


def test_the_corrector_refuses_a_predictor_that_carries_something():
    y = torch.zeros(2, SIZE)
    with pytest.raises(OdeTransformerError, match="needs a method that carries nothing"):
        PredictorCorrector(LEAPFROG).step(
            lambda y, stage: y, y, learned=Learned(own=HISTORIES["corrector"](2, SIZE, True))
        )
