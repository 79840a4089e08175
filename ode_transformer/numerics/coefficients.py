"""Coefficients: how the stages F_1, ..., F_n of a step are weighted, y' = y + sum_i gamma_i F_i.

Source: Li et al. 2022, "ODE Transformer", section 3.2 and Table 10; ``ema`` is the predictor of Li et al. 2024,
"Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning" (arXiv 2411.03042);
``second-order`` is ours.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .registry import Registry


def weighted_sum(weights: Iterable[float | Tensor], terms: Iterable[Tensor], total: Tensor | None = None) -> Tensor:
    """``total`` + sum_i weights[i] terms[i], in one pass over memory per term; the plain number 0 as a weight is free.

    Weights are numbers, or tensors that broadcast to the terms, which have one shape. Without a total, one weight at
    least is not the number 0.
    """
    for weight, term in zip(weights, terms, strict=True):
        if isinstance(weight, Tensor):
            total = weight * term if total is None else torch.addcmul(total, term, weight)
        elif total is None and weight != 0:
            total = term if weight == 1 else weight * term
        elif weight != 0:
            total = torch.add(total, term, alpha=weight)
    return total


class Coefficients(nn.Module):
    """The weights of the stages of a step, in place of the method's own weights b."""

    def before(self, row: Sequence[float], stages: Sequence[Tensor]) -> Sequence[float | Tensor]:
        """Return the weights of F_1 to F_(i - 1) in the argument of stage i; by default ``row``, the method's a_ij."""
        return row

    def weights(self, stages: Sequence[Tensor]) -> Sequence[float | Tensor]:
        """Return gamma_i of each stage: numbers, or tensors that broadcast to a stage."""
        raise NotImplementedError

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        """Return the increment: [F_1, ..., F_n] -> sum_i gamma_i F_i."""
        return weighted_sum(self.weights(stages), stages)


class Ones(Coefficients):
    """gamma_i = 1 (equation 23): with Heun's two stages and the paper's F, the layer is applied twice."""

    def weights(self, stages: Sequence[Tensor]) -> list[float]:
        return [1.0] * len(stages)


class Scalars(Coefficients):
    """gamma_i is a learned number per stage."""

    def __init__(self, initial: Sequence[float]):
        super().__init__()
        self.weight = nn.Parameter(torch.as_tensor(initial))

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        return list(self.weight)


class MovingAverage(Coefficients):
    """gamma_i = a (1 - a)^(n - i) for stage i of n, where a, () or (C,), is learned and starts at 1/2."""

    def __init__(self, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.full(shape, 0.5))

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        n = len(stages)
        return [self.weight * (1 - self.weight) ** (n - i) for i in range(1, n + 1)]


def _linear(width: int, count: int) -> nn.Linear:
    linear = nn.Linear(width, count)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


class Gates(Coefficients):
    """gamma_i is computed from the two stages, one number per token (equations 25 and 26; Table 10).

    ``count`` is 1 for gamma = (g, 1 - g), and 2 for two independent gates.
    """

    def __init__(self, embed_dim: int, count: int, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.gate, self.activation = _linear(2 * embed_dim, count), activation

    def gates(self, stages: Sequence[Tensor]) -> Tensor:
        """The gates, (..., 1 or 2)."""
        return self.activation(self.gate(torch.cat(list(stages), dim=-1)))  # [F_1; F_2] W + b

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        gates = self.gates(stages)
        return [gates, 1 - gates] if gates.size(-1) == 1 else list(gates.split(1, dim=-1))


class SecondOrderGate(Coefficients):
    """A gate that keeps a step of two stages at order 2, whatever it learns. It is ours and in no paper.

    The gate of equation 26 has order 2 only at g = 1/2, and training drives it away from there (docs/beyond.md). Here
    g, one number per token, selects one of the methods of two stages and order 2, from the midpoint method (0) by
    Ralston's (1/2) to Heun's (1)::

        g = sigmoid(F_1 W + b),   F_2 = f(y + F_1 / (2 - g)),   y' = y + g / 2 F_1 + (1 - g / 2) F_2
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.gate = _linear(embed_dim, 1)

    def gates(self, stages: Sequence[Tensor]) -> Tensor:
        """g, (..., 1)."""
        return torch.sigmoid(self.gate(stages[0]))

    def before(self, row: Sequence[float], stages: Sequence[Tensor]) -> list[Tensor]:
        return [1 / (2 - self.gates(stages))]

    def weights(self, stages: Sequence[Tensor]) -> list[Tensor]:
        half = self.gates(stages) / 2
        return [half, 1 - half]


@dataclass(frozen=True)
class Rule:
    """How the stages of a step are weighted."""

    # (number of stages; initial gamma, one number per stage; C) -> the coefficients; None for the method's own weights.
    build: Callable[[int, Sequence[float], int], Coefficients | None]
    stages: int | None = None  # how many the rule can weight; None for any number


def _gates(count: int, activation: Callable[[Tensor], Tensor]) -> Rule:
    return Rule(lambda stages, initial, embed_dim: Gates(embed_dim, count, activation), stages=2)


COEFFICIENTS: Registry[Rule] = Registry(
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
