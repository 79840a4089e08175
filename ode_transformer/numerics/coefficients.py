"""Coefficients: how the stages F_1, ..., F_n of a step are weighed, y' = y + sum_i gamma_i F_i.

Source: Li et al. 2022, "ODE Transformer", section 3.2 and Table 10; ``ema`` is the predictor of Li et al. 2024,
"Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning" (arXiv 2411.03042).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Optional, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .table import Table

Combine = Callable[[Sequence[Tensor]], Tensor]
"""Turns the stages of a step into its increment: [F_1, ..., F_n] -> sum_i gamma_i F_i."""


def weighted_sum(
    weights: Iterable[Union[float, Tensor]], terms: Iterable[Tensor], total: Optional[Tensor] = None
) -> Tensor:
    """``total`` + sum_i weights[i] terms[i], in one pass over memory per term; a term whose weight is 0 costs nothing.

    Args:
        weights: numbers, or tensors that broadcast to the terms.
        terms: one tensor per weight, all of the same shape.
        total: where the sum begins; 0 if None.

    Returns:
        A tensor of the terms' shape.

    Raises:
        ValueError: there is nothing to sum: no total, and no term with a weight other than 0.
    """
    for weight, term in zip(weights, terms, strict=True):
        if isinstance(weight, Tensor):
            total = weight * term if total is None else torch.addcmul(total, term, weight)
        elif total is None and weight != 0:
            total = term if weight == 1 else weight * term
        elif weight != 0:
            total = torch.add(total, term, alpha=weight)
    if total is None:
        raise ValueError("a sum needs a total, or a term whose weight is not 0")
    return total


class Ones(nn.Module):
    """gamma_i = 1 (equation 23). With Heun's two stages this is the layer applied twice, that is, weight sharing."""

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        return weighted_sum([1.0] * len(stages), stages)


class Scalars(nn.Module):
    """gamma_i is learned, one number per stage.

    Args:
        initial: the initial values of gamma.
    """

    def __init__(self, initial: Sequence[float]):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(initial))

    def weights(self, _: Sequence[Tensor]) -> list[Tensor]:
        """gamma of each stage."""
        return list(self.weight)

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        return weighted_sum(self.weights(stages), stages)


class MovingAverage(nn.Module):
    """gamma_i = a (1 - a)^(n - i) for stage i of n, where a is learned and starts at 1/2: later stages count more.

    Args:
        shape: the shape of a: () for one number, (C,) for one number per channel.
    """

    def __init__(self, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.full(shape, 0.5))

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        """gamma of each stage, of the shape of a."""
        n = len(stages)
        return [self.weight * (1 - self.weight) ** (n - i) for i in range(1, n + 1)]

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        return weighted_sum(self.weights(stages), stages)


class Gates(nn.Module):
    """gamma is computed from the two stages, one number per token (equations 25 and 26; Table 10).

    Args:
        embed_dim: C, the width of a stage.
        gates: 1 for gamma = (g, 1 - g), 2 for two independent gates.
        activation: the activation function of a gate.
    """

    def __init__(self, embed_dim: int, gates: int, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.gate = nn.Linear(2 * embed_dim, gates)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.activation = activation

    def gates(self, stages: Sequence[Tensor]) -> Tensor:
        """The gates, (..., 1 or 2)."""
        f1, f2 = stages
        # [F_1; F_2] W + b, without the concatenation.
        w1, w2 = self.gate.weight.chunk(2, dim=1)
        return self.activation(F.linear(f1, w1, self.gate.bias) + F.linear(f2, w2))

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        """gamma of each of the two stages, (..., 1)."""
        gates = self.gates(stages)
        return [gates, 1 - gates] if self.gate.out_features == 1 else list(gates.split(1, dim=-1))

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        f1, f2 = stages
        if self.gate.out_features == 1:
            return torch.addcmul(f2, self.gates(stages), f1 - f2)  # g F_1 + (1 - g) F_2
        return weighted_sum(self.weights(stages), stages)


class Velocity(nn.Module):
    """What a step with momentum learns: beta, mu, gamma and perhaps nu, and the norm of the velocity.

    In the first field of a stack that starts at rest, beta and mu multiply a velocity of 0, so that their gradient
    is 0. There the norm also removes the size of gamma f(y), so that the gradient of gamma is 0 up to the norm's eps.

    Args:
        embed_dim: C, the width of a velocity.
        learns_nu: whether nu is learned; otherwise it is 1.
    """

    def __init__(self, embed_dim: int, learns_nu: bool):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(3))  # of beta, mu and gamma
        self.nu = nn.Parameter(torch.ones(())) if learns_nu else None
        self.norm = nn.LayerNorm(embed_dim)

    def numbers(self) -> tuple[Tensor, Tensor, Tensor, Union[float, Tensor]]:
        """beta and mu, between 0 and 1, initially 1/2; gamma, positive, initially log 2; nu, initially 1."""
        beta, mu, gamma = self.raw
        return beta.sigmoid(), mu.sigmoid(), F.softplus(gamma), 1.0 if self.nu is None else self.nu


@dataclass(frozen=True)
class Rule:
    """How the stages of a step are weighed.

    Args:
        build: (number of stages; initial gamma, one number per stage; C) -> a ``Combine``, with parameters if something
            is learned; None for the method's own weights.
        stages: how many stages the rule can weigh; None for any number.
    """

    build: Callable[[int, Sequence[float], int], Optional[nn.Module]]
    stages: Optional[int] = None


def _gates(gates: int, activation: Callable[[Tensor], Tensor]) -> Rule:
    return Rule(lambda stages, initial, embed_dim: Gates(embed_dim, gates, activation), stages=2)


COEFFICIENTS: Table[Rule] = Table(
    "coefficients",
    {
        "fixed": Rule(lambda stages, initial, embed_dim: None),
        "ones": Rule(lambda stages, initial, embed_dim: Ones() if stages > 1 else None),
        "scalars": Rule(lambda stages, initial, embed_dim: Scalars(initial)),
        "sigmoid": _gates(1, torch.sigmoid),
        "two-sigmoids": _gates(2, torch.sigmoid),
        "two-tanh": _gates(2, torch.tanh),
        "ema": Rule(lambda stages, initial, embed_dim: MovingAverage()),
        "ema-channels": Rule(lambda stages, initial, embed_dim: MovingAverage(embed_dim)),
    },
)


def check_coefficients(name: str, stages: int) -> None:
    """Check that the coefficients with this name can weigh so many stages.

    Raises:
        ValueError: there is no such name, or the rule is for another number of stages.
    """
    if name not in COEFFICIENTS:
        raise ValueError(f"coefficients {name!r}: must be one of {', '.join(COEFFICIENTS)}")
    if (needed := COEFFICIENTS[name].stages) not in (None, stages):
        others = ", ".join(other for other, rule in COEFFICIENTS.items() if rule.stages in (None, stages))
        raise ValueError(
            f"coefficients {name!r} weigh {needed} stages, and the integrator has {stages}: must be one of {others}; "
            f"or the integrator one of {needed} stages{', such as heun' if needed == 2 else ''}"
        )


def build_coefficients(name: str, stages: int, initial: Sequence[float], embed_dim: int) -> Optional[nn.Module]:
    """What weighs the stages of a method.

    Args:
        name: one of ``COEFFICIENTS``.
        stages: the method's number of stages.
        initial: the initial values of ``scalars``.
        embed_dim: C, the width of a stage.

    Returns:
        A ``Combine``, with parameters if something is learned; None for the method's own weights.

    Raises:
        ValueError: as in ``check_coefficients``.
    """
    check_coefficients(name, stages)
    return COEFFICIENTS[name].build(stages, initial, embed_dim)
