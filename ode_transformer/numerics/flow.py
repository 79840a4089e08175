"""FLOATER's flow: position-dependent vectors as the solution of a learned differential equation.

Liu et al. 2020, "Learning to Encode Position for Transformer with Continuous Dynamical Model", equations 8 and 13:
a vector b starts at b(0) and moves with the position; many such vectors, the rows, share the same dynamics::

    b(t) = b(0) + int_0^t h(tau, b(tau)) dtau
    h(t, b) = W2 [relu(W1 [b; t] + c1); t] + c2
    t_i = i / 100                                   the time of position i

All functions here return the *displacement* b(t) - b(0), which for a flow is exactly zero if h is zero.

The solution is computed at the nodes of a uniform grid, and between two nodes by the cubic Hermite polynomial of their
values and slopes. One step spans four tokens in training; in evaluation it is halved until that changes nothing by more
than ``TOLERANCE``, or down to ``FINEST_STEP``; in training that would make the host wait for the GPU in every pass
(docs/floater.md). The solvers are torchdiffeq's methods in our own loop, because torchdiffeq's reads the time of every
step back from the GPU, and in the backward pass copies the whole solution once per node.

b grows exponentially, and the dynamics is fitted only to positions that occur in training. So the equation is solved up
to a ``horizon`` T, beyond which b continues along its tangent, b(t) = b(T) + (t - T) h(T, b(T)).

``Recurrence`` is the paper's alternative to the flow (equation 14, Table 6): b(t_{i+1}) = RNN(b(t_i), z_i).
"""

import logging
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .coefficients import weighted_sum
from .integrators import MIDPOINT, THREE_EIGHTHS
from .sinusoids import sinusoids

logger = logging.getLogger(__name__)

TIME_STEP = 0.01
"""The time from one token to the next, from the released code; the number is missing in the paper's text."""

FLOW_METHODS = {"rk4": THREE_EIGHTHS, "midpoint": MIDPOINT}
"""Solvers with a fixed step, under torchdiffeq's names."""

# How far halving the step may move a solution, relative to max(1, max |b|) at each position, before evaluation halves
# the step, and how far the solution of training may be from that of evaluation without a warning.
TOLERANCE, COARSE = 1e-5, 1e-3
# Evaluation halves the step no further than to this, in tokens: rounding errors of more steps would exceed the gain.
FINEST_STEP = 0.125


class Flow(nn.Module):
    """The dynamics h of vectors of width ``dim``, and its solution by one of ``FLOW_METHODS``.

    ``step``, the upper limit in evaluation, and ``horizon`` are in tokens, whole or not.
    """

    def __init__(self, dim: int, method: str = "rk4", step: float = 4.0, horizon: float = math.inf):
        super().__init__()
        self.method, self.step, self.horizon = method, step, horizon
        self._reported = step  # the smallest step that was logged
        for layer in (1, 2):  # W and c of the equation; W's last column, which multiplies the time, is separate
            weight = nn.init.xavier_normal_(torch.empty(dim, dim + 1))
            self.register_parameter(f"weight{layer}", nn.Parameter(weight[:, :-1].clone()))
            self.register_parameter(f"time{layer}", nn.Parameter(weight[:, -1].clone()))
            self.register_parameter(f"bias{layer}", nn.Parameter(torch.zeros(dim)))

    def _dynamics(self, dtype: torch.dtype, span: float) -> tuple[Callable, Callable]:
        """Return ``span`` h(t, b) as two functions: t -> its terms in both layers; these terms, b -> the increment."""
        w1, u1, c1, w2, u2, c2 = (
            p.to(dtype) for p in (self.weight1, self.time1, self.bias1, self.weight2, self.time2, self.bias2)
        )
        w2, u2, c2 = span * w2, span * u2, span * c2

        def contributions(t: Tensor) -> tuple[Tensor, Tensor]:
            return t * u1 + c1, t * u2 + c2

        def increment(inner: Tensor, outer: Tensor, b: Tensor) -> Tensor:
            return _affine(torch.relu(_affine(b, w1, inner)), w2, outer)

        return contributions, increment

    def forward(self, initial: Tensor, length: int) -> Tensor:
        """b(0) (R, C) -> b(t) - b(0) at the first N positions, (N, R, C), in single precision or better even if the
        model is not; N is ``length``.
        """
        if self.training or torch.compiler.is_compiling():
            return self.solved(initial, length, self.step)
        step, moved = self._refined(initial, length)
        return self.solved(initial, length, step) if torch.is_grad_enabled() else moved

    @torch.no_grad()
    def _refined(self, initial: Tensor, length: int) -> tuple[float, Tensor]:
        """Return the step, halved until it is small enough, and the solution with it."""
        step, coarse = self.step, self.solved(initial, length, self.step)
        moved = coarse
        while step / 2 >= FINEST_STEP:
            finer = self.solved(initial, length, step / 2)
            if _change(initial, moved, finer) <= TOLERANCE:
                break
            step, moved = step / 2, finer
        if step < self._reported:
            self._reported, change = step, _change(initial, coarse, moved)
            logger.log(
                logging.WARNING if change > COARSE else logging.INFO,
                f"evaluation solves the flow with {step:g} tokens per step; the {self.step:g} of training change its "
                f"biases by up to {change:.1e} of max(1, the largest). --flow-step {step:g} trains as it evaluates",
            )
        return step, moved

    def solved(self, initial: Tensor, length: int, step: float) -> Tensor:
        """Return what ``forward`` does, with the given step."""
        dtype = torch.promote_types(initial.dtype, torch.float32)
        # Everything is computed where the parameters are, from numbers that the host knows: it never has to wait.
        positions = torch.arange(length, device=initial.device, dtype=torch.float64)
        inside = length if length <= self.horizon else math.floor(self.horizon) + 1
        with torch.autocast(initial.device.type, enabled=False):
            initial = initial.to(dtype)
            moved = self._solve(initial, positions.clamp(max=self.horizon), min(length - 1, self.horizon), step)
            if inside < length:
                contributions, increment = self._dynamics(dtype, TIME_STEP)
                slope = increment(*contributions(initial.new_full((1,), self.horizon * TIME_STEP)), initial + moved[-1])
                beyond = (positions[inside:] - self.horizon).to(dtype)[:, None, None]
                moved = torch.cat((moved[:inside], moved[inside:] + beyond * slope))
            return moved

    def _solve(self, initial: Tensor, positions: Tensor, last: float, step: float) -> Tensor:
        steps = max(1, math.ceil(last / step - 1e-9))
        span = step * TIME_STEP
        contributions, increment = self._dynamics(initial.dtype, span)  # so that the size of a step is 1
        nodes = torch.arange(steps + 1, device=initial.device, dtype=initial.dtype)[:, None] * span
        method, states = FLOW_METHODS[self.method], [initial]
        # What times contribute is computed for all steps at once, (steps, C) for each stage and layer.
        stages = [[x.unbind() for x in contributions(nodes[:-1] + node * span)] for node in method.nodes]
        for i in range(steps):
            times = [[x[i] for x in stage] for stage in stages]
            states.append(method.step(lambda b, stage, t=times: increment(*t[stage], b), states[-1])[0])
        values = torch.stack(states)
        slopes = increment(*(x[:, None] for x in contributions(nodes)), values)
        return _interpolate(values - initial, slopes, positions / step)


def _change(initial: Tensor, moved: Tensor, finer: Tensor) -> float:
    """Return how far two solutions are apart, relative to max(1, max |b|) at each position."""
    size = (initial + finer).abs().amax((1, 2)).clamp(min=1)
    # Where the finer one is infinite, the quotient is not a number, and no step helps.
    return float(((finer - moved).abs().amax((1, 2)) / size).nan_to_num(0.0, posinf=math.inf).max())


def _affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + c; if c is (C,), the product adds it."""
    return F.linear(x, weight, bias) if bias.dim() == 1 else F.linear(x, weight) + bias


def _interpolate(values: Tensor, slopes: Tensor, x: Tensor) -> Tensor:
    """The cubic Hermite polynomials of values and slopes (nodes, R, C) at nodes 0, 1, 2, ..., evaluated at x (N,)."""
    left = x.floor().clamp(max=len(values) - 2)
    s, left = (x - left).to(values)[:, None, None], left.long()
    weights = (1 + 2 * s) * (1 - s) ** 2, s**2 * (3 - 2 * s), s * (1 - s) ** 2, s**2 * (s - 1)
    return weighted_sum(weights, (nodes.index_select(0, i) for nodes in (values, slopes) for i in (left, left + 1)))


RECURRENT_INPUTS = ("scalar", "vector")


class Recurrence(nn.Module):
    """A recurrent network in place of the flow: b_{i+1} = tanh(W [b_i; z_i] + c), with one or two layers.

    z_i is the time i / 100 (``scalar``) or the sinusoidal encoding of i (``vector``). The numbers of parameters are the
    paper's (Table 6), except that its "1-layer RNN + vector" has those of two layers here. The released code has a GRU
    of two layers with scalar input.
    """

    def __init__(self, dim: int, layers: int = 1, input: str = "scalar"):
        super().__init__()
        self.dim, self.input = dim, input
        self.layers = nn.ModuleList(nn.Linear(dim + (1 if input == "scalar" else dim), dim) for _ in range(layers))
        for layer in self.layers:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, initial: Tensor, length: int) -> Tensor:
        """b(t) - b(0), with the arguments and result of ``Flow.forward``."""
        dtype = torch.promote_types(initial.dtype, torch.float32)
        with torch.autocast(initial.device.type, enabled=False):
            b = initial = initial.to(dtype)
            weights = [
                layer.weight.to(dtype).split((self.dim, layer.in_features - self.dim), 1) for layer in self.layers
            ]
            # What the inputs contribute, for all tokens at once: (N, C) per layer.
            positions = torch.arange(length, device=initial.device, dtype=torch.float32)
            scalar = self.input == "scalar"
            inputs = (positions[:, None] * TIME_STEP if scalar else sinusoids(positions, self.dim)).to(dtype)
            inputs = [inputs @ w.t() + layer.bias.to(dtype) for (_, w), layer in zip(weights, self.layers, strict=True)]
            states = [b]
            for i in range(length - 1):
                for (w, _), z in zip(weights, inputs, strict=True):
                    b = torch.tanh(b @ w.t() + z[i])
                states.append(b)
            return torch.stack(states) - initial
