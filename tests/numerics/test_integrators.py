"""Integrators: consistency at construction, their orders, and what the schemes are by their equations."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ode_transformer.numerics.coefficients import Scalars, weighted_sum
from ode_transformer.numerics.integrators import EULER, HEUN, INTEGRATORS, POLYNET, RK4, ButcherTableau
from ode_transformer.numerics.momentum import NESTEROV, TRIPLE, Momentum, Velocity
from ode_transformer.numerics.protocol import Integrator, Learned
from ode_transformer.numerics.registry import Registry
from tests.helpers import rk_step


def logistic(y, stage=0):
    return y * (1 - y)


def test_the_orders_of_methods():
    """Whether they converge so is measured in the laboratory's tests."""
    assert {name: method.order for name, method in INTEGRATORS.items() if isinstance(method, ButcherTableau)} == {
        "euler": 1, "euler-4": 1, "heun": 2, "midpoint": 2, "ralston": 2, "kutta3": 3, "rk4": 4, "three-eighths": 4
    }  # fmt: skip


@pytest.mark.parametrize("method", [NESTEROV, TRIPLE])
def test_momentum_starts_at_rest_with_the_published_numbers(method):
    """beta = mu = 1/2, gamma = log 2, nu = 1."""
    velocity = Velocity(5, method.learns_nu).double()
    learned = Learned(own=velocity)
    y = torch.randn(3, 5, dtype=torch.float64)
    v1 = velocity.norm(math.log(2) * logistic(y))
    first = method.step(logistic, y, learned=learned)
    torch.testing.assert_close(first, (y + v1, v1))
    v2 = velocity.norm(v1 / 2 + math.log(2) * logistic(y + v1 + v1 / 2))
    torch.testing.assert_close(method.step(logistic, first[0], carried=first[1], learned=learned), (y + v1 + v2, v2))
    assert len(list(velocity.parameters())) == (4 if method.learns_nu else 3)


def test_rk2_and_rk4_are_the_papers_equations_and_euler_4_is_four_steps_of_eulers_method():
    y = torch.randn(5, dtype=torch.float64)
    f1 = logistic(y)
    f2 = logistic(y + f1)
    torch.testing.assert_close(rk_step(logistic, y, HEUN), y + (f1 + f2) / 2)  # 12 to 14
    f2 = logistic(y + f1 / 2)
    f3 = logistic(y + f2 / 2)
    f4 = logistic(y + f3)
    torch.testing.assert_close(rk_step(logistic, y, RK4), y + (f1 + 2 * f2 + 2 * f3 + f4) / 6)  # 15 to 19
    fourth = y
    for _ in range(4):
        fourth = rk_step(logistic, fourth, EULER, 1 / 4)
    torch.testing.assert_close(rk_step(logistic, y, INTEGRATORS["euler-4"]), fourth, atol=1e-14, rtol=0)


def test_a_step_with_norms():
    """PCformer's: only the first stage is of y itself; the norms are for what is summed."""
    torch.manual_seed(0)
    y = torch.randn(5, dtype=torch.float64)
    norms = [torch.nn.LayerNorm(5).double() for _ in range(5)]
    for p in torch.nn.ModuleList(norms).parameters():
        torch.nn.init.normal_(p)
    n0, n1, n2, n3, n4 = norms
    f1 = logistic(y)
    f2 = logistic(n0(y) + f1 / 2)
    f3 = logistic(n0(y) + f2 / 2)
    f4 = logistic(n0(y) + f3)
    expected = n0(y) + (n1(f1) + 2 * n2(f2) + 2 * n3(f3) + n4(f4)) / 6
    torch.testing.assert_close(RK4.step(logistic, y, learned=Learned(norms=norms))[0], expected)


def test_the_powers_of_polynet_have_coefficients():
    y, weights = torch.randn(5), (0.3, 0.7)
    found, _ = POLYNET.step(logistic, y, learned=Learned(combine=Scalars(torch.tensor(weights))))
    torch.testing.assert_close(found, y + 0.3 * logistic(y) + 0.7 * logistic(logistic(y)))


def test_a_method_of_ones_own_says_how_many_stages_it_has():
    @dataclass(frozen=True)
    class Repeated(Integrator):
        stages: int

    assert (Repeated(3).stages, Integrator().stages) == (3, 1)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (((), (1.0,)), (0.5, 0.6), "sum to 1"),
        ((), (), "sum to 1"),
        (((), (1.0, 0.0)), (0.5, 0.5), "a row of i weights"),
        (((), (1.0,)), (1.0,), "a row of i weights"),
    ],
)
def test_an_inconsistent_tableau_is_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        ButcherTableau(a, b)


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_a_weighted_sum_is_one(weights, tensors, begun):
    weights = [*weights, 1.0]
    terms = list(torch.randn(len(weights), 4, dtype=torch.float64).unbind())
    start = torch.randn(4, dtype=torch.float64) if begun else None
    given_ = list(torch.tensor(weights, dtype=torch.float64)) if tensors else weights
    expected = sum((w * t for w, t in zip(weights, terms, strict=True)), torch.zeros(4) if start is None else start)
    torch.testing.assert_close(weighted_sum(given_, terms, start), expected)


@pytest.mark.parametrize("name", INTEGRATORS)
def test_a_step_of_size_h_is_a_whole_step_of_h_times_the_field(name):
    torch.manual_seed(0)
    method, h, (y, v) = INTEGRATORS[name], 0.3, torch.randn(2, 4, 5, dtype=torch.float64)
    carried = v if isinstance(method, Momentum) else None
    learned = Learned(own=velocity.double() if (velocity := method.learns(5)) else None)
    found = method.step(lambda x, stage: torch.tanh(x), y, carried, h, learned)
    expected = method.step(lambda x, stage: h * torch.tanh(x), y, carried, 1.0, learned)
    torch.testing.assert_close(found, expected)


def test_a_table_of_methods_is_closed_when_the_models_have_listed_it():
    registry = Registry("integrator", {"euler": 1})
    registry["mine"] = 2
    assert dict(registry) == {"euler": 1, "mine": 2} and registry.named("mine") == 2
    with pytest.raises(ValueError, match=r"^integrator 'sparse': must be one of euler, mine$"):
        registry.named("sparse")
    with pytest.raises(ValueError, match=r"integrator 'euler': is taken"):
        registry["euler"] = 2
    assert registry.choices() == ["euler", "mine"]
    with pytest.raises(ValueError, match=r"'late': must be added before ode_transformer.models is imported"):
        registry["late"] = 3
