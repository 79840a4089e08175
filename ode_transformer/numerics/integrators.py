"""Integrators: tables of numbers, and one loop for each kind of table, its ``step`` (``protocol.py``).

Source: Li et al. 2022, "ODE Transformer", equations 8 to 19 and Table 7; Butcher 2016 for the tableaux.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .coefficients import weighted_sum
from .momentum import NESTEROV, TRIPLE
from .protocol import NOTHING, Field, Integrator, Learned, scaled
from .registry import Registry


@dataclass(frozen=True)
class ButcherTableau(Integrator):
    """An explicit Runge-Kutta method for an autonomous equation (equations 8 to 11).

    Args:
        a: one row per stage; row i weights the i stages before it (beta in equation 10).
        b: the weight of each stage in the result (gamma in equation 8); they sum to 1, or the method would integrate
            another equation, and a ``ValueError`` is raised.
    """

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]

    def __post_init__(self):
        if [len(row) for row in self.a] != list(range(self.stages)):
            raise ValueError(f"a stage i from 0 must have a row of i weights and a weight b, got {self.a} and {self.b}")
        if not math.isclose(math.fsum(self.b), 1.0):
            raise ValueError(f"the weights b must sum to 1, got {math.fsum(self.b)} from {self.b}")

    @property
    def stages(self) -> int:
        return len(self.b)

    @property
    def weights(self) -> tuple[float, ...]:
        return self.b

    @property
    def nodes(self) -> list[float]:
        """The time of each stage, as a fraction of the step."""
        return [math.fsum(row) for row in self.a]

    @property
    def order(self) -> int:
        """The order of convergence, up to 4: the highest for which Butcher's conditions hold."""
        a = np.array([[*row, *[0.0] * (self.stages - len(row))] for row in self.a])
        b, c = np.array(self.b), np.array(self.nodes)
        errors = (
            [b.sum() - 1],
            [b @ c - 1 / 2],
            [b @ c**2 - 1 / 3, b @ a @ c - 1 / 6],
            [b @ c**3 - 1 / 4, (b * c) @ a @ c - 1 / 8, b @ a @ c**2 - 1 / 12, b @ a @ a @ c - 1 / 24],
        )
        holds = [np.allclose(each, 0, atol=1e-9) for each in errors]
        return [*holds, False].index(False)

    def step(
        self, f: Field, y: Tensor, carried: Any = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Any]:
        """Return y + sum_i b_i F_i, where F_i = h f(y + sum_j a_ij F_j), and ``carried`` unchanged.

        Coefficients replace the weights b, and may replace a row of a as well.
        With the norms N_0 to N_n of PCformer (Li et al. 2024), F_1 = h f(y) as before, but the later stages start from
        N_0(y), and the result is N_0(y) + sum_i b_i N_i(F_i).
        """
        combine, norms = learned.combine, learned.norms
        start, at, stages = y if norms is None else norms[0](y), y, []
        for i, row in enumerate(self.a):
            if stages:
                at = weighted_sum(row if combine is None else combine.before(row, stages), stages, start)
            stages.append(scaled(h, f(at, i)))
        if norms is not None:
            stages = [norm(stage) for norm, stage in zip(norms[1:], stages, strict=True)]
        if combine is not None:
            return start + combine(stages), carried
        return weighted_sum(self.b, stages, start), carried


@dataclass(frozen=True)
class Euler(ButcherTableau):
    """Euler's method, y + h f(y). The sum is one operation, as in fairseq's layer: results are equal bit by bit."""

    a: tuple[tuple[float, ...], ...] = ((),)
    b: tuple[float, ...] = (1.0,)

    def step(
        self, f: Field, y: Tensor, carried: Any = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Any]:
        """As in ``Integrator``."""
        if learned.combine is not None:
            return super().step(f, y, carried, h, learned)
        return torch.add(y, f(y, 0), alpha=h), carried


EULER = Euler()  # the residual layer
HEUN = ButcherTableau(((), (1.0,)), (1 / 2, 1 / 2))  # improved Euler, the paper's RK2 (equations 12 to 14)
MIDPOINT = ButcherTableau(((), (1 / 2,)), (0.0, 1.0))
RALSTON = ButcherTableau(((), (2 / 3,)), (1 / 4, 3 / 4))  # the smallest error bound of order 2
# The released code has F_2 in place of F_1 in the third stage, which lowers the order to 2.
KUTTA3 = ButcherTableau(((), (1 / 2,), (-1.0, 2.0)), (1 / 6, 4 / 6, 1 / 6))
RK4 = ButcherTableau(((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 2 / 6, 2 / 6, 1 / 6))  # (15 to 19)
# Four steps of Euler's method, the control of equal cost for RK4: up to the scale of F, four layers that share weights.
EULER_4 = ButcherTableau(tuple((1 / 4,) * i for i in range(4)), (1 / 4,) * 4)
THREE_EIGHTHS = ButcherTableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8))


@dataclass(frozen=True)
class Released(Integrator):
    """A method in the form of the released ODE Transformer, whose field is the layer itself, F(y) = y + h f(y)."""

    method: Integrator

    @property
    def stages(self) -> int:
        return self.method.stages

    def step(
        self, f: Field, y: Tensor, carried: Any = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Any]:
        """As in ``Integrator``."""
        return self.method.step(lambda y, stage: y + scaled(h, f(y, stage)), y, carried, 1.0, learned)

    def learns(self, embed_dim: int) -> nn.Module | None:
        """As the method."""
        return self.method.learns(embed_dim)


@dataclass(frozen=True)
class Polynomial(Integrator):
    """Powers of the residual function, y + w_1 F(y) + w_2 F(F(y)) + ..., with F = h f.

    For a linear f, two powers of weight 1 are the first terms of backward Euler's expansion 1 / (1 - hf) = 1 + hf +
    (hf)^2 + ..., and the order is 1. Where f(0) is not 0, the second power is an error of the size of the step, and the
    method is not consistent.
    """

    weights: tuple[float, ...]
    order = 1  # where f(0) is 0

    def __post_init__(self):
        if self.weights[:1] != (1.0,):
            raise ValueError(f"the first weight must be 1, or the method would solve another equation: {self.weights}")

    @property
    def stages(self) -> int:
        return len(self.weights)

    def step(
        self, f: Field, y: Tensor, carried: Any = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Any]:
        """Return y + sum_i w_i (h f)^i (y), or the sum with learned weights, and ``carried`` unchanged."""
        powers = [y]
        for i in range(self.stages):
            powers.append(scaled(h, f(powers[-1], i)))
        if learned.combine is not None:
            return y + learned.combine(powers[1:]), carried
        return weighted_sum(self.weights, powers[1:], y), carried


POLYNET = Polynomial((1.0, 1.0))
"""PolyNet (Zhang et al. 2017), as in Table 7."""


Weights = Callable[[int, Sequence | None], Mapping[int, float | Tensor]]


# The weights of schemes are functions with a name, because lambdas would keep a model from being pickled.
def _nothing(depth: int) -> list:
    return []


@dataclass(frozen=True)
class Multistep(Integrator):
    """A scheme that reads earlier steps; in a network, earlier layers, each with its own f_l::

        y_{t+1} = sum_k states(t)[k] y_k + sum_l increments(t)[l] F_l,     F_l = h f_l(y_l).

    Args:
        states: (t, learned) -> the weight of each y_k, k <= t, that the step uses; they sum to 1, so that f = 0 gives
            the identity.
        increments: (t, learned) -> the weight of each F_l, l <= t, that the step uses.
        initial: depth -> the learned weights at the start of training, as nested lists; empty if none are learned.
            ``states`` and ``increments`` receive their current values as ``learned``.
        order: the order of convergence with the initial weights.
    """

    states: Weights
    increments: Weights
    initial: Callable[[int], list] = _nothing
    order: int = 1
    spans_layers = True

    def step(
        self,
        f: Field,
        y: Tensor,
        carried: tuple[Sequence[Tensor], Sequence[Tensor]] | None = None,
        h: float = 1.0,
        learned: Learned = NOTHING,
    ) -> tuple[Tensor, tuple[Sequence[Tensor], Sequence[Tensor]]]:
        """As in ``Integrator``: ``carried`` holds y_0 to y_t and F_0 to F_(t - 1); the result has one more of each.

        The learned weights are ``learned.own.weight``; if ``learned.own`` is None, the initial ones are used.
        """
        states, increments = ((y,), ()) if carried is None else carried
        increments = (*increments, scaled(h, f(y, 0)))
        t = len(increments) - 1
        weights = self.initial(t + 2) if learned.own is None else learned.own.weight
        of_states, of_increments = self.states(t, weights), self.increments(t, weights)
        terms = [states[k] for k in of_states] + [increments[i] for i in of_increments]
        y = weighted_sum([*of_states.values(), *of_increments.values()], terms)
        return y, ((*states, y), increments)


def _before(t: int, _: Any) -> dict:
    return {max(t - 1, 0): 1.0}


def _twice_the_newest(t: int, _: Any) -> dict:
    return {t: 2.0 if t else 1.0}


LEAPFROG = Multistep(_before, _twice_the_newest, order=2)
"""y_{t+1} = y_{t-1} + 2 F_t (He et al. 2019); the first step is Euler's. Order 2."""


def _last_two(t: int, k: Sequence) -> dict:
    return {t: k[t - 1], t - 1: 1.0 - k[t - 1]} if t else {0: 1.0}


def _newest(t: int, _: Any) -> dict:
    return {t: 1.0}


def _one_for_each_but_the_first(depth: int) -> list:
    return [1.0] * (depth - 1)


LINEAR_MULTISTEP = Multistep(_last_two, _newest, _one_for_each_but_the_first)
"""y_{t+1} = k_t y_t + (1 - k_t) y_{t-1} + F_t (Lu et al. 2018), with one learned k per layer. Order 1, for an equation
whose time runs 1 / (2 - k) times as fast. We start at k = 1, the residual network; the released code has one k per
channel, starting between 1 and 2, and normalizes the identity."""


def _first(t: int, _: Any) -> dict:
    return {0: 1.0}


def _all(t: int, w: Sequence) -> dict:
    return {i: w[t][i] for i in range(t + 1)}


def _triangle_of_ones(depth: int) -> list:
    return [[float(i <= t) for i in range(depth)] for t in range(depth)]


DLCL = Multistep(_first, _all, _triangle_of_ones)
"""y_{t+1} = y_0 + sum_{l <= t} W_tl F_l, where W is learned and starts at 1, the residual network. Wang et al. 2019 in
the form of Table 7. The released code gives this name to a weighted sum of normalized layer outputs, which is our
``learnable_dense`` (``modules/history.py``)."""


INTEGRATORS: Registry[Integrator] = Registry(
    "integrator",
    {
        "euler": EULER,
        "euler-4": EULER_4,
        "heun": HEUN,
        "midpoint": MIDPOINT,
        "ralston": RALSTON,
        "kutta3": KUTTA3,
        "rk4": RK4,
        "three-eighths": THREE_EIGHTHS,
        "polynet": POLYNET,
        "leapfrog": LEAPFROG,
        "multistep": LINEAR_MULTISTEP,
        "dlcl": DLCL,
        "nesterov": NESTEROV,
        "triple": TRIPLE,
    },
)
