"""Coefficients: how the stages F_1, ..., F_n of a step are weighed, y' = y + sum_i gamma_i F_i.

Source: Li et al. 2022, "ODE Transformer", section 3.2 and Table 10; ``ema`` is the predictor of Li et al. 2024,
"Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning" (arXiv 2411.03042);
``second-order`` is ours.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Optional, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .table import Table


def weighted_sum(
    weights: Iterable[Union[float, Tensor]], terms: Iterable[Tensor], total: Optional[Tensor] = None
) -> Tensor:
    """``total`` + sum_i weights[i] terms[i], one pass over memory a term; numbers that are 0 cost none.

    Args:
        weights: numbers, or tensors that broadcast to the terms.
        terms: as many tensors of one shape.
        total: where the sum begins; 0 if None.

    Returns:
        A tensor of the terms' shape.
    """
    for weight, term in zip(weights, terms, strict=True):
        if isinstance(weight, Tensor):
            total = weight * term if total is None else torch.addcmul(total, term, weight)
        elif total is None and weight != 0:
            total = term if weight == 1 else weight * term
        elif weight != 0:
            total = torch.add(total, term, alpha=weight)
    if total is None:
        raise ValueError("a sum needs a term of weight other than 0")
    return total


class Coefficients(nn.Module):
    """Weighs the stages of a step, in place of the method's own weights b."""

    def before(self, row: Sequence[float], stages: Sequence[Tensor]) -> Sequence[Union[float, Tensor]]:
        """With which weights the stages so far lead to where the next one is evaluated: the method's own.

        Args:
            row: the method's weights a_ij, one for each of ``stages``.
            stages: F_1, ..., F_(i - 1).
        """
        return row

    def weights(self, stages: Sequence[Tensor]) -> Sequence[Union[float, Tensor]]:
        """gamma of every stage: numbers, or tensors that broadcast to a stage."""
        raise NotImplementedError

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        """The increment: [F_1, ..., F_n] -> sum_i gamma_i F_i."""
        return weighted_sum(self.weights(stages), stages)


class Ones(Coefficients):
    """gamma_i = 1 (equation 23). With two of Heun's stages this is the layer applied twice: weight sharing."""

    def weights(self, stages: Sequence[Tensor]) -> list[float]:
        return [1.0] * len(stages)


class Scalars(Coefficients):
    """gamma_i learned, one number per stage.

    Args:
        initial: gamma at the start.
    """

    def __init__(self, initial: Sequence[float]):
        super().__init__()
        self.weight = nn.Parameter(torch.as_tensor(initial))

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        return list(self.weight)


class MovingAverage(Coefficients):
    """gamma_i = a (1 - a)^(n - i) for stage i of n, with a learned a, at first 1/2: later stages count more.

    Args:
        shape: of a: () for one number, (C,) for one per channel.
    """

    def __init__(self, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.full(shape, 0.5))

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        n = len(stages)
        return [self.weight * (1 - self.weight) ** (n - i) for i in range(1, n + 1)]


class Gates(Coefficients):
    """gamma computed from the two stages, one number per token (equations 25 and 26; Table 10).

    Args:
        embed_dim: C, the width of a stage.
        gates: 1 for gamma = (g, 1 - g), 2 for two gates by themselves.
        activation: of a gate.
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
        gates = self.gates(stages)
        return [gates, 1 - gates] if self.gate.out_features == 1 else list(gates.split(1, dim=-1))

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        f1, f2 = stages
        if self.gate.out_features == 1:
            return torch.addcmul(f2, self.gates(stages), f1 - f2)  # g F_1 + (1 - g) F_2
        return super().forward(stages)


class SecondOrderGate(Coefficients):
    """A gate that keeps a step of two stages at order 2, whatever it learns. Ours; in no paper.

    Of the gate of equation 26 only g = 1/2 has order 2, and what is trained goes to g = 1, Euler's step at twice the
    price: f learns to be right where it counts, at y, the second stage gets worse for it, and the less it weighs, the
    less gradient there is to mend it. Here g chooses among the methods of order 2, b = (1 - 1 / (2 alpha),
    1 / (2 alpha)) with F_2 = f(y + alpha F_1), from the midpoint's at alpha = 1/2 (g = 0) to Heun's at alpha = 1
    (g = 1)::

        g = sigmoid(F_1 W + b),   F_2 = f(y + F_1 / (2 - g)),   y' = y + g / 2 F_1 + (1 - g / 2) F_2

    The weight of F_2 is never below a half. The start, g near 1/2, is near Ralston's, of least error bound. F_2 must
    be where g says, so g, one number per token, reads F_1 alone.

    Args:
        embed_dim: C, the width of a stage.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.gate = nn.Linear(embed_dim, 1)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def gates(self, stages: Sequence[Tensor]) -> Tensor:
        """g, (..., 1)."""
        return torch.sigmoid(self.gate(stages[0]))

    def before(self, row: Sequence[float], stages: Sequence[Tensor]) -> list[Tensor]:
        return [1 / (2 - self.gates(stages))]

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        half = self.gates(stages) / 2
        return [half, 1 - half]


class Velocity(nn.Module):
    """What a step with momentum learns: four numbers, and the norm of the velocity.

    In the first field of a stack that starts at rest, beta and mu multiply a velocity of 0: their gradient is 0. The
    norm takes the size of gamma f(y) away: the gradient of that gamma is 0 but for the norm's eps.

    Args:
        embed_dim: C, the width of a velocity.
        learns_nu: whether nu is learned, or 1.
    """

    def __init__(self, embed_dim: int, learns_nu: bool):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(3))  # of beta, mu and gamma
        self.nu = nn.Parameter(torch.ones(())) if learns_nu else None
        self.norm = nn.LayerNorm(embed_dim)

    def numbers(self) -> tuple[Tensor, Tensor, Tensor, Union[float, Tensor]]:
        """beta and mu, between 0 and 1, at first 1/2; gamma, positive, at first log 2; nu, at first 1."""
        beta, mu, gamma = self.raw
        return beta.sigmoid(), mu.sigmoid(), F.softplus(gamma), 1.0 if self.nu is None else self.nu


@dataclass(frozen=True)
class Rule:
    """How the stages of a step are weighed.

    Args:
        build: (stages; gamma at the start, one number per stage; C) -> coefficients; None for the method's own weights.
        stages: how many stages the rule can weigh; None for any number.
    """

    build: Callable[[int, Sequence[float], int], Optional[Coefficients]]
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
        "second-order": Rule(lambda stages, initial, embed_dim: SecondOrderGate(embed_dim), stages=2),
        "ema": Rule(lambda stages, initial, embed_dim: MovingAverage()),
        "ema-channels": Rule(lambda stages, initial, embed_dim: MovingAverage(embed_dim)),
    },
)


def check_coefficients(name: str, stages: int) -> None:
    """Whether coefficients of that name can weigh so many stages.

    Raises:
        ValueError: no such name, or a rule for another number of stages.
    """
    if name not in COEFFICIENTS:
        raise ValueError(f"coefficients {name!r}: must be one of {', '.join(COEFFICIENTS)}")
    if (needed := COEFFICIENTS[name].stages) not in (None, stages):
        others = ", ".join(other for other, rule in COEFFICIENTS.items() if rule.stages in (None, stages))
        raise ValueError(
            f"coefficients {name!r} weigh {needed} stages, and the integrator has {stages}: must be one of {others}; "
            f"or the integrator one of {needed} stages{', such as heun' if needed == 2 else ''}"
        )


def build_coefficients(name: str, stages: int, initial: Sequence[float], embed_dim: int) -> Optional[Coefficients]:
    """What weighs the stages of a method.

    Args:
        name: one of ``COEFFICIENTS``.
        stages: of the method.
        initial: where ``scalars`` start.
        embed_dim: C.

    Returns:
        Coefficients; None for the method's own weights.

    Raises:
        ValueError: as of ``check_coefficients``.
    """
    check_coefficients(name, stages)
    return COEFFICIENTS[name].build(stages, initial, embed_dim)
