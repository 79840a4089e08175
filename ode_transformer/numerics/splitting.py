"""Splitting: how two sub-flows take turns within one step of dy/dt = F(y) + G(y).

F is the interaction of positions (attention), and G acts on each position by itself (feed-forward). A splitting is
data: the order of the flows, and the fraction of the step that each of them gets. ``split_step`` takes the step of any
splitting, that of a network layer included (``modules/layers.py``).

Orders of the local error: with exact sub-flows, 2 for Lie-Trotter and 3 for Strang-Marchuk; with Euler sub-steps, which
a network takes, 2 for both; with second-order sub-steps, 3 for Strang-Marchuk. Flows that are taken together, as the
single field F + G, have the solver's error alone.

Source: Lu et al. 2019, "Understanding and Improving Transformer From a Multi-Particle Dynamic System Point of
View", equations 6 and 7, 14 to 16, theorem 1. Unsplit layers: Wang and Komatsuzaki 2021, GPT-J; Zhong et al. 2022
(arXiv 2212.06011).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from .coefficients import weighted_sum
from .protocol import Field
from .registry import Registry

Solver = Callable[[Any, Any, Any, float], tuple[Any, Any]]
"""(field, state, carried, size of the step) -> the state after the step, and ``carried`` of the next one."""


class Substep(NamedTuple):
    """A part of a step: the solver, the field, and the fraction of the step."""

    solve: Solver
    field: Any
    fraction: float


@dataclass(frozen=True)
class Splitting:
    """The order in which the flows F and G act, and for which fraction of the step.

    Args:
        flows: one letter per sub-step, ``"F"`` or ``"G"``, e.g. ``"GFG"``; a layer can hold two of each.
        fractions: one fraction of the step per flow; those of F sum to 1, and so do those of G, or the scheme would
            solve another equation. A ``ValueError`` names what is wrong.
        together: whether all flows are evaluated from the state at the beginning of the step, and added.
    """

    flows: str
    fractions: tuple[float, ...]
    together: bool = False

    def __post_init__(self):
        if not set(self.flows) <= {"F", "G"}:
            raise ValueError(f"flows must be F and G, got {self.flows!r}; cross-attention follows the last F by itself")
        for flow in "FG":
            total = math.fsum(h for f, h in self if f == flow)
            if not math.isclose(total, 1.0):
                raise ValueError(f"the fractions of {flow} must sum to 1, got {total} from {self.fractions}")

    def __iter__(self):
        return iter(zip(self.flows, self.fractions, strict=True))

    @property
    def feed_forwards(self) -> int:
        """The number of times that G acts in a step, that is of feed-forward networks in a layer."""
        return self.flows.count("G")

    @property
    def order(self) -> float:
        """The order of convergence with exact sub-flows: 2 if F comes as much before G as after it, so that FG and GF
        have equal weights, as in exp(h(F + G)); otherwise 1. Flows that are taken together have no splitting error.
        """
        if self.together:
            return math.inf
        before = math.fsum(h * k for i, (f, h) in enumerate(self) for g, k in list(self)[i:] if (f, g) == ("F", "G"))
        return 2 if math.isclose(before, 0.5) else 1

    def substeps(self, fields: Mapping[str, Field], solve: Solver) -> list[Substep]:
        """Return the sub-steps for ``split_step``, made of one field per letter and one solver.

        Flows that are taken together are one sub-step.
        """
        flows = [(fields[flow], h) for flow, h in self]
        if self.together:
            return [Substep(solve, partial(increment, flows, True), 1.0)]
        return [Substep(solve, f, h) for f, h in flows]


LIE_TROTTER = Splitting("FG", (1.0, 1.0))  # the Transformer (Lu et al., equations 12, 13)
STRANG = Splitting("GFG", (0.5, 1.0, 0.5))  # Strang-Marchuk, the Macaron Net (14 to 19)
STRANG_SWAPPED = Splitting("FGF", (0.5, 1.0, 0.5))  # two attentions around one feed-forward (Table 3)
PARALLEL = Splitting("FG", (1.0, 1.0), together=True)  # not split, as in GPT-J's parallel layers

SPLITTINGS: Registry[Splitting] = Registry(
    "splitting", {"lie-trotter": LIE_TROTTER, "strang": STRANG, "strang-swapped": STRANG_SWAPPED, "parallel": PARALLEL}
)


def split_step(substeps: Iterable[Substep], y: Any, carried: Any = None, h: float = 1.0) -> tuple[Any, Any]:
    """Take a step of size h from y: solve the sub-flows one after the other, each from where the last one ended.

    ``carried`` is what each solver passes on to the next, besides the state.
    """
    for solve, f, fraction in substeps:
        y, carried = solve(f, y, carried, fraction * h)
    return y, carried


def increment(flows: Sequence[tuple[Field, float]], together: bool, y: Tensor, stage: int) -> Tensor:
    """Return what Euler steps of several flows add to y: the field of a whole layer.

    It is never computed as a difference of states, which loses bits in half precision. ``flows`` are pairs (f, fraction
    of the step); together, all are evaluated at y, otherwise each where the previous step ended.
    """
    total = None
    for f, h in flows:
        slope = f(y if total is None or together else y + total, stage)
        total = weighted_sum([h], [slope], total)
    return total
