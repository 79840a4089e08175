"""Splitting: how two sub-flows take turns within one step of dy/dt = F(y) + G(y).

F is the interaction of positions (attention), G acts on each position alone (feed-forward). A splitting is data:
the order of the flows and the fraction of the step that each of them gets. ``split_step`` runs any of them; a network
layer walks the same data with its norms and dropout in between (``modules/layers.py``).

Orders, local error (measured in the tests): with exact sub-flows Lie-Trotter 2 and Strang-Marchuk 3; with Euler
sub-steps, which is what a network takes, both 2; Strang-Marchuk with second-order sub-steps 3. Flows that are taken
together, as the one field F + G, are not split at all: the error is the solver's alone.

Source: Lu et al. 2019, "Understanding and Improving Transformer From a Multi-Particle Dynamic System Point of
View", equations 6 and 7, 14 to 16, theorem 1. Unsplit layers: Wang and Komatsuzaki 2021, GPT-J; Zhong et al. 2022
(arXiv 2212.06011).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .table import Table

Field = Callable[[Any], Any]
"""A vector field f: y -> f(y)."""


@dataclass(frozen=True)
class Splitting:
    """The order in which the flows F and G act, and for which fraction of the step.

    Args:
        flows: one letter a sub-step, ``"F"`` or ``"G"``, e.g. ``"GFG"``; a layer can hold two of each.
        fractions: as many fractions of the step, each positive; those of each flow sum to 1, else the scheme
            solves another equation.
        together: whether all flows are evaluated from the state at the beginning of the step, and added.

    Raises:
        ValueError: if the two do not describe a consistent splitting.
    """

    flows: str
    fractions: tuple[float, ...]
    together: bool = False

    def __post_init__(self):
        if set(self.flows) != {"F", "G"}:
            raise ValueError(f"flows must hold the letters F and G, both and no others, got {self.flows!r}")
        if len(self.flows) != len(self.fractions):
            raise ValueError(f"{len(self.flows)} flows {self.flows!r} but fractions {self.fractions}")
        if not all(fraction > 0 for fraction in self.fractions):
            raise ValueError(f"fractions must be positive, got {self.fractions}")
        for flow in "FG":
            total = math.fsum(h for f, h in self if f == flow)
            if not math.isclose(total, 1.0):
                raise ValueError(f"the fractions of {flow} must sum to 1, got {total} from {self.fractions}")

    def __iter__(self):
        return iter(zip(self.flows, self.fractions, strict=True))

    @property
    def order(self) -> float:
        """Of convergence with exact sub-flows: 2 where F is before G as much as after it, else 1.

        The second order is exp(h(F + G)) to h^2, half of FG and half of GF; fractions that are positive have no third.
        Flows that are taken together have no error: infinity.
        """
        if self.together:
            return math.inf
        before = math.fsum(h * k for i, (f, h) in enumerate(self) for g, k in list(self)[i:] if (f, g) == ("F", "G"))
        return 2 if math.isclose(before, 0.5) else 1

    def substeps(self, fields: Mapping[str, Field]) -> list[tuple[Field, float]]:
        """What ``split_step`` solves in turn.

        Args:
            fields: the vector field of each flow, by its letter.

        Returns:
            pairs (f, fraction of the step); of flows that are taken together one, their sum.
        """
        if self.together:
            return [(lambda y: sum(h * fields[flow](y) for flow, h in self), 1.0)]
        return [(fields[flow], h) for flow, h in self]


LIE_TROTTER = Splitting("FG", (1.0, 1.0))
"""Lie-Trotter, the Transformer: a step of F, then a step of G (equations 12, 13)."""

STRANG = Splitting("GFG", (0.5, 1.0, 0.5))
"""Strang-Marchuk, the Macaron Net: half a step of G, a step of F, half a step of G (equations 14 to 19)."""

STRANG_SWAPPED = Splitting("FGF", (0.5, 1.0, 0.5))
"""Strang-Marchuk with the roles of F and G exchanged: two attentions around one feed-forward (Table 3)."""

PARALLEL = Splitting("FG", (1.0, 1.0), together=True)
"""Not split: F and G from one state, as in GPT-J's parallel layers; no error of splitting."""

SPLITTINGS: Table[Splitting] = Table(
    "splitting",
    {"lie-trotter": LIE_TROTTER, "strang": STRANG, "strang-swapped": STRANG_SWAPPED, "parallel": PARALLEL},
)


def get_splitting(name: str) -> Splitting:
    """The splitting of that name.

    Raises:
        ValueError: there is none; names the ones that there are.
    """
    if name not in SPLITTINGS:
        raise ValueError(f"splitting {name!r}: must be one of {', '.join(SPLITTINGS)}")
    return SPLITTINGS[name]


def euler(f: Field, y: Any, h: float) -> Any:
    """One explicit Euler step, y + h f(y)."""
    return y + h * f(y)


def split_step(
    substeps: Iterable[tuple[Field, float]],
    y: Any,
    h: float = 1.0,
    step: Callable[[Field, Any, float], Any] = euler,
) -> Any:
    """Solve the sub-flows one after the other, each from where the last one ended.

    Args:
        substeps: pairs (f, fraction of the step), e.g. ``STRANG.substeps(fields)``; a network has its own f in every
            place.
        y: the state at the beginning of the step.
        h: the step.
        step: the solver of a sub-flow, ``(f, y, h) -> y``.

    Returns:
        The state at the end of the step.
    """
    for f, fraction in substeps:
        y = step(f, y, fraction * h)
    return y
