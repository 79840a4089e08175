"""How stages are weighted: Table 10's rows, the learned average, and which fit which method."""

import pytest
import torch

from ode_transformer.numerics.coefficients import COEFFICIENTS
from ode_transformer.numerics.integrators import HEUN, MIDPOINT, RALSTON, RK4, ButcherTableau
from tests.helpers import rk_step


@pytest.fixture
def stages():
    torch.manual_seed(0)
    return list(torch.randn(2, 7, 3, 8, dtype=torch.float64).unbind())


def build(name, stages=2, initial=(1.0, 1.0), size=8):
    torch.manual_seed(1)
    module = COEFFICIENTS[name].build(stages, initial, size)
    return module.double() if module is not None else None


def f(y):
    return torch.tanh(y.roll(1, -1)) - 0.3 * y


def test_ones_are_the_step_taken_twice():
    """Weight sharing: y + f(y) + f(y + f(y))."""
    y = torch.randn(7, 3, 8, dtype=torch.float64)
    once = y + f(y)
    torch.testing.assert_close(rk_step(f, y, HEUN, combine=build("ones")), once + f(once))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("sigmoid", lambda x: (x[..., :1].sigmoid(), 1 - x[..., :1].sigmoid())),
        ("two-sigmoids", lambda x: x.sigmoid().split(1, -1)),
        ("two-tanh", lambda x: x.tanh().split(1, -1)),
    ],
)
def test_gates_are_equation_26(name, weights, stages):
    module = build(name)
    torch.nn.init.normal_(module.gate.bias)
    f1, f2 = stages
    x = torch.cat((f1, f2), -1) @ module.gate.weight.t() + module.gate.bias
    g1, g2 = weights(x)
    torch.testing.assert_close(module(stages), g1 * f1 + g2 * f2)


def test_a_gate_starts_with_xaviers_weights():
    gate = COEFFICIENTS["sigmoid"].build(2, (1.0, 1.0), 256).gate
    bound = (6 / (2 * 256 + 1)) ** 0.5
    assert 0.9 * bound < gate.weight.abs().max() <= bound and not gate.bias.any()


def second_order(g):
    """A gate whose value is g for every token."""
    gate = build("second-order")
    torch.nn.init.zeros_(gate.gate.weight)
    torch.nn.init.constant_(gate.gate.bias, torch.logit(torch.tensor(g, dtype=torch.float64)).item())
    return gate


@pytest.mark.parametrize("g", [0.0, 0.1, 0.5, 0.93, 1.0])
def test_the_second_order_gate_is_a_method_of_order_2_wherever_it_stands(g):
    """It goes from the midpoint method by Ralston's to Heun's."""
    y = torch.randn(7, 3, 8, dtype=torch.float64)
    method = {0.0: MIDPOINT, 0.5: RALSTON, 1.0: HEUN}.get(g, ButcherTableau(((), (1 / (2 - g),)), (g / 2, 1 - g / 2)))
    assert method.order == 2
    torch.testing.assert_close(rk_step(f, y, HEUN, combine=second_order(g)), rk_step(f, y, method))


def test_gradients_of_a_step_of_the_second_order_gate():
    """It weights the second stage both where it is evaluated and in the sum."""
    gate, y = build("second-order"), torch.randn(2, 1, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y, *_: rk_step(f, y, HEUN, combine=gate), (y, *gate.parameters()))


def test_scalars_start_where_they_are_told_to_and_the_methods_own_weights_need_no_module(stages):
    torch.testing.assert_close(build("scalars", 2, RK4.b[:2])(stages), stages[0] / 6 + stages[1] / 3)
    assert build("fixed", 4) is None and build("ones", 1) is None


@pytest.mark.parametrize(("name", "shape"), [("ema", ()), ("ema-channels", (8,))])
def test_a_moving_average_counts_the_last_stage_most(name, shape):
    stages, module = list(torch.randn(3, 5, 8, dtype=torch.float64).unbind()), build(name, 3)
    assert torch.equal(module.weight, torch.full(shape, 0.5, dtype=torch.float64))
    a = torch.nn.init.uniform_(module.weight).detach()
    expected = a * (1 - a) ** 2 * stages[0] + a * (1 - a) * stages[1] + a * stages[2]
    torch.testing.assert_close(module(stages), expected)
