"""Integrators: consistency at construction, their orders, and what the schemes are by their equations."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ode_transformer.numerics.coefficients import Scalars, weighted_sum
from ode_transformer.numerics.integrators import (
    DLCL,
    EULER,
    HEUN,
    INTEGRATORS,
    LEAPFROG,
    LINEAR_MULTISTEP,
    POLYNET,
    RK4,
    ButcherTableau,
    Multistep,
    Polynomial,
)
from ode_transformer.numerics.momentum import NESTEROV, TRIPLE, Momentum, Velocity
from ode_transformer.numerics.protocol import Learned
from tests.helpers import rk_step


def logistic(y, stage=0):
    return y * (1 - y)


def test_the_orders_of_methods():
    """Whether they converge so is measured in the laboratory's tests."""
    assert {name: method.order for name, method in INTEGRATORS.items() if isinstance(method, ButcherTableau)} == {
        "euler": 1, "euler-4": 1, "heun": 2, "midpoint": 2, "ralston": 2, "kutta3": 3, "rk4": 4, "three-eighths": 4
    }  # fmt: skip
    assert (LEAPFROG.order, LINEAR_MULTISTEP.order, DLCL.order) == (2, 1, 1)


def test_euler_4_is_four_steps_of_eulers_method():
    y = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
    expected = y
    for _ in range(4):
        expected, _ = INTEGRATORS["euler"].step(logistic, expected, None, 1 / 4)
    torch.testing.assert_close(INTEGRATORS["euler-4"].step(logistic, y)[0], expected, atol=1e-14, rtol=0)


def run_multistep(scheme, f, y, steps, weights=None):
    carried, learned = None, Learned(own=SimpleNamespace(weight=weights))
    for _ in range(steps):
        y, carried = scheme.step(f, y, carried, 1 / steps, learned)
    return y


def momentum_step(f, y, v, beta, mu, gamma, nu=1.0, h=1.0, norm=None):
    numbers = SimpleNamespace(numbers=lambda: (beta, mu, gamma, nu), norm=norm)
    return NESTEROV.step(f, y, v, h, Learned(own=numbers))


def test_a_step_with_momentum_is_its_equation():
    torch.manual_seed(0)
    y, v = torch.randn(2, 5, dtype=torch.float64)
    norm = torch.nn.LayerNorm(5).double()
    v1 = norm(0.4 * v + 0.7 * 0.5 * logistic(y + 0.3 * v))
    ours = momentum_step(logistic, y, v, 0.4, 0.3, 0.7, 1.5, h=0.5, norm=norm)
    for mine, expected in zip(ours, (y + 1.5 * v1, v1), strict=True):
        torch.testing.assert_close(mine, expected)


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
    with pytest.raises(ValueError, match="needs its numbers"):
        method.step(logistic, y)


# What the methods are


def test_rk2_and_rk4_are_the_papers_equations():
    y = torch.randn(5, dtype=torch.float64)
    f1 = logistic(y)
    f2 = logistic(y + f1)
    torch.testing.assert_close(rk_step(logistic, y, HEUN), y + (f1 + f2) / 2)  # 12 to 14
    f2 = logistic(y + f1 / 2)
    f3 = logistic(y + f2 / 2)
    f4 = logistic(y + f3)
    torch.testing.assert_close(rk_step(logistic, y, RK4), y + (f1 + 2 * f2 + 2 * f3 + f4) / 6)  # 15 to 19


@pytest.mark.parametrize("gated", [False, True])
def test_a_step_with_norms(gated):
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
    stages = n1(f1), n2(f2), n3(f3), n4(f4)
    b = (0.4, 0.3, 0.2, 0.1) if gated else RK4.b
    expected = n0(y) + sum(w * stage for w, stage in zip(b, stages, strict=True))
    combine = Scalars(torch.tensor(b, dtype=torch.float64)) if gated else None
    torch.testing.assert_close(RK4.step(logistic, y, learned=Learned(combine, norms))[0], expected)


@pytest.mark.parametrize("scheme", [LINEAR_MULTISTEP, DLCL])
def test_learned_multistep_schemes_start_as_the_residual_network(scheme):
    y = torch.tensor([0.3], dtype=torch.float64)
    euler = y
    for _ in range(6):
        euler = rk_step(logistic, euler, EULER, 1 / 6)
    torch.testing.assert_close(run_multistep(scheme, logistic, y, 6, scheme.initial(6)), euler)


def test_polynet_is_table_7():
    """And with coefficients, the sum of its powers with them."""
    y, weights = torch.randn(5), (0.3, 0.7)
    torch.testing.assert_close(POLYNET.step(logistic, y)[0], y + logistic(y) + logistic(logistic(y)))
    found, _ = POLYNET.step(logistic, y, learned=Learned(combine=Scalars(torch.tensor(weights))))
    torch.testing.assert_close(found, y + 0.3 * logistic(y) + 0.7 * logistic(logistic(y)))


# Bad input


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (((), (1.0,)), (0.5, 0.6), "sum to 1"),
        (((), (1.0,)), (1.0, 1.0), "sum to 1"),
        (((), (1.0, 0.0)), (0.5, 0.5), "row 1"),
        (((1.0,),), (1.0,), "row 0"),
        (((), (1.0,)), (1.0,), "2 rows"),
        ((), (), "one row and one weight"),
        (((), (math.nan,)), (0.5, 0.5), "finite"),
    ],
)
def test_an_inconsistent_tableau_is_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        ButcherTableau(a, b)


def test_a_multistep_scheme_whose_states_do_not_sum_to_1_and_a_polynomial_without_powers_are_refused():
    with pytest.raises(ValueError, match=r"sum to 1, got 2\.0 at step 1"):
        Multistep(lambda t, _: dict.fromkeys(range(t + 1), 1.0), lambda t, _: {t: 1.0})
    with pytest.raises(ValueError, match="weight"):
        Polynomial(())


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_a_weighted_sum_is_one(weights, tensors, begun):
    terms = list(torch.randn(len(weights), 4, dtype=torch.float64).unbind())
    start = torch.randn(4, dtype=torch.float64) if begun else None
    given_ = list(torch.tensor(weights, dtype=torch.float64)) if tensors else weights
    expected = sum((w * t for w, t in zip(weights, terms, strict=True)), torch.zeros(4) if start is None else start)
    if not tensors and start is None and not any(weights):
        with pytest.raises(ValueError, match="not 0"):
            weighted_sum(given_, terms, start)
    else:
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


@pytest.mark.parametrize("name", INTEGRATORS)
def test_a_field_is_told_the_stage_in_which_it_is_evaluated(name):
    method, stages = INTEGRATORS[name], []
    learned = Learned(own=method.learns(5))
    method.step(lambda x, stage: stages.append(stage) or x, torch.ones(5), None, 1.0, learned)
    assert stages == list(range(method.stages))
