"""FLOATER's flow: its solvers, gradients, interpolation; and the recurrent networks."""

import copy
import math
from functools import partial

import pytest
import torch
from torchdiffeq import odeint

from ode_transformer.numerics.flow import FLOW_METHODS, TIME_STEP, TOLERANCE, Flow, Recurrence


def flow(dim=16, **more):
    torch.manual_seed(0)
    built = Flow(dim, **more).double()
    with torch.no_grad():
        for p in built.parameters():
            if p.dim() == 1:
                p.copy_(0.3 * torch.randn_like(p))
    return built


def rows(count=5, dim=16):
    return 0.3 * torch.randn(count, dim, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def field(built, t, b):
    """h(t, b) of a flow, as the equation has it."""
    hidden = torch.relu(b @ built.weight1.t() + t * built.time1 + built.bias1)
    return hidden @ built.weight2.t() + t * built.time2 + built.bias2


def test_a_field_of_the_time_alone_is_integrated_exactly():
    """h(t, b) = u t + c: b(t) - b(0) = u t^2 / 2 + c t, a polynomial that RK4 and cubic interpolation reproduce."""
    built = flow()
    with torch.no_grad():
        built.weight2.zero_()
    t = torch.arange(300, dtype=torch.double) * TIME_STEP
    expected = built.time2 * t[:, None] ** 2 / 2 + built.bias2 * t[:, None]
    moved = built(rows(), 300)
    torch.testing.assert_close(moved, expected[:, None].expand_as(moved), atol=1e-12, rtol=0)


@pytest.fixture(scope="module")
def trained():
    """A flow that has become faster in training, with its b(0)."""
    torch.manual_seed(0)
    built, initial = Flow(32), torch.nn.Parameter(torch.empty(4, 32).uniform_(-0.1, 0.1))
    target = 0.1 * torch.randn(48, 4, 32).cumsum(0)
    optimizer = torch.optim.Adam([*built.parameters(), initial], lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        (built(initial, 48) - target).square().mean().backward()
        optimizer.step()
    return built, initial


def steps_of(built):
    """The steps with which a flow is solved from now on, as they come."""
    steps, stock = [], built.solved
    built.solved = lambda initial, length, step: steps.append(step) or stock(initial, length, step)
    return steps


def error_of(found, initial, expected):
    """The largest error, as the flow measures it: at every position relative to max(1, the largest b)."""
    size = (initial + expected).abs().amax((1, 2)).clamp(min=1)
    return ((found - expected).abs().amax((1, 2)) / size).max().item()


def test_evaluation_finds_the_step_that_a_trained_flow_needs(trained, caplog):
    """That of training stays, and a training pass solves once; of what evaluation found the user is told once."""
    built, initial = copy.deepcopy(trained[0]), trained[1].detach()
    exact = copy.deepcopy(built).double().solved(initial.double(), 100, 1 / 16).detach()
    steps = steps_of(built)
    assert error_of(built.train()(initial, 100), initial, exact) > 2 * TOLERANCE and steps == [4.0]
    with torch.no_grad(), caplog.at_level("INFO"):
        found = [built.eval()(initial, 100) for _ in range(2)]
    assert error_of(found[0], initial, exact) < 1.4 * TOLERANCE, "what a further half changes, and all after it"
    assert torch.equal(*found) and steps[1:4] == [4.0, 2.0, 1.0]
    (said,) = caplog.records
    assert f"--flow-step {steps[-1] * 2:g} trains as it evaluates" in said.message and said.levelname == "INFO"


def test_gradients_in_evaluation_are_those_of_the_step_that_is_found(trained):
    built, initial = copy.deepcopy(trained[0]).eval(), trained[1].detach()
    steps = steps_of(built)
    moved = built(initial, 48)
    assert moved.requires_grad and steps[-1] == 2 * min(steps) < 4
    with torch.no_grad():
        assert torch.equal(built(initial, 48), moved)


@pytest.mark.parametrize(("step", "steps"), [(4.0, [4.0, 2.0]), (0.2, [0.2])])
def test_a_flow_that_needs_no_smaller_step_keeps_it_to_the_bit(step, steps):
    """And that of the released code is never measured."""
    torch.manual_seed(0)
    built, b = Flow(128, step=step).eval(), 0.03 * torch.randn(5, 128)
    taken = steps_of(built)
    with torch.no_grad():
        assert torch.equal(built(b, 100), built.train()(b, 100)) and taken == [*steps, step]


def test_a_flow_that_no_step_is_small_enough_for_is_solved_nevertheless(caplog):
    """It explodes; evaluation ends at the finest step with a warning, and where all is infinite it asks no more."""
    built, b = Flow(16).eval(), rows().float()
    with torch.no_grad():
        built.weight2.mul_(300)
        steps = steps_of(built)
        moved = built(b, 60)
    assert steps == [4.0, 2.0, 1.0, 0.5, 0.25, 0.125] and len(moved) == 60
    (said,) = caplog.records
    assert said.levelname == "WARNING" and "with 0.125 tokens per step" in said.message


@pytest.mark.parametrize("step", [0.3, 1.0, 3.0, 4.0])
def test_positions_between_steps_lie_on_the_same_curve(step):
    """Whatever the step, positions take the values that a fine grid gives there."""
    torch.testing.assert_close(flow(step=step)(rows(), 50), flow(step=0.2)(rows(), 50), atol=5e-5, rtol=0)


@pytest.mark.parametrize("method", FLOW_METHODS)
def test_the_solvers_are_those_of_torchdiffeq(method):
    built, b = flow(method=method, step=2.0), rows()
    nodes = torch.arange(33, dtype=torch.double) * 2 * TIME_STEP
    expected = odeint(partial(field, built), b, nodes, method=method) - b
    torch.testing.assert_close(built(b, 65)[::2], expected, atol=1e-13, rtol=0)


@pytest.mark.parametrize(
    "build",
    [lambda: flow(4, step=3.0), lambda: flow(4, step=3.0, horizon=5), lambda: Recurrence(4, 2, "vector").double()],
)
def test_gradients(build):
    built = build()
    b = rows(2, 4).requires_grad_()
    names = [n for n, _ in built.named_parameters()]

    def f(b, *values):
        return torch.func.functional_call(built, dict(zip(names, values, strict=True)), (b, 9))

    assert torch.autograd.gradcheck(f, (b, *(p.detach().clone().requires_grad_() for p in built.parameters())))


@pytest.mark.parametrize("build", [Flow, Recurrence])
@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_single_precision_within_half(build, dtype):
    built, b = build(16).to(dtype), rows().to(dtype)
    moved = built(b, 100)
    assert moved.dtype == torch.float32
    reference = build(16)
    reference.load_state_dict(built.state_dict())
    torch.testing.assert_close(moved, reference(b.float(), 100), atol=1e-6, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(reference(b.float(), 100), moved)


def test_initial_values():
    """Xavier's normal ones of a whole matrix, the column of the time included; of both systems."""
    dynamics = Flow(128)
    for i in (1, 2):
        whole = torch.cat((getattr(dynamics, f"weight{i}"), getattr(dynamics, f"time{i}")[:, None]), 1)
        assert whole.shape == (128, 129) and whole.std().item() == pytest.approx((2 / 257) ** 0.5, rel=0.05)
        assert getattr(dynamics, f"time{i}").std().item() == pytest.approx((2 / 257) ** 0.5, rel=0.4)
        assert not getattr(dynamics, f"bias{i}").any()
    (layer,) = Recurrence(128).layers
    assert layer.weight.std().item() == pytest.approx((2 / 257) ** 0.5, rel=0.05) and not layer.bias.any()


@pytest.mark.parametrize("input_", ["scalar", "vector"])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrence_is_its_equation(layers, input_):
    torch.manual_seed(0)
    network, b = Recurrence(8, layers, input_).double(), rows(3, 8)
    moved = network(b, 5)
    state, expected = b, [b]
    for i in range(4):
        angles = [i * 10000 ** (-j / 3) for j in range(4)]  # as fairseq's sinusoids have them
        sinusoid = [*map(math.sin, angles), *map(math.cos, angles)]
        z = torch.tensor([i * TIME_STEP] if input_ == "scalar" else sinusoid).double().expand(3, -1)
        for layer in network.layers:
            state = torch.tanh(layer(torch.cat((state, z), dim=-1)))
        expected.append(state)
    torch.testing.assert_close(moved, torch.stack(expected) - b, atol=1e-7, rtol=0)


def test_beyond_the_horizon_the_solution_goes_on_along_its_tangent():
    torch.manual_seed(0)
    free = Flow(8)
    bound = Flow(8, horizon=30)
    bound.load_state_dict(free.state_dict())
    initial = torch.randn(3, 8)
    with torch.no_grad():
        there, here = free(initial, 2001), bound(initial, 2001)
        assert torch.equal(here[:31], there[:31]), "up to the horizon nothing changes, to the bit"
        assert torch.equal(here[:31], bound(initial, 31))
        steps = here[30:].diff(dim=0)
        torch.testing.assert_close(steps, steps[:1].expand_as(steps), atol=1e-5, rtol=1e-3)
        slope = 0.01 * field(free, 0.30, initial + here[30])
        torch.testing.assert_close(steps[0], slope, atol=1e-6, rtol=1e-3)
        assert there[-1].abs().max() > 100 * here[-1].abs().max(), "where integration grows exponentially"


def test_a_horizon_between_steps_is_where_the_tangent_begins():
    built, initial = flow(horizon=30), rows()
    torch.testing.assert_close(built(initial, 32), built(initial, 61)[:32], atol=1e-12, rtol=0)


def test_few_evaluations(monkeypatch):
    """Four a step, and one of all nodes for the slopes: 257 for 255 tokens, where the released code has 5,080."""
    built, calls = Flow(8), []
    stock = built._dynamics

    def counted(*args):
        contributions, h = stock(*args)
        return contributions, lambda *args: calls.append(args[-1].dim()) or h(*args)

    monkeypatch.setattr(built, "_dynamics", counted)
    built(torch.zeros(3, 8), 255)
    assert calls == [2] * 4 * 64 + [3]
