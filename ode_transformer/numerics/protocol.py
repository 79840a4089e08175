"""The protocol of integrators: how one layer, or several, step along dy/dt = f(y).

An integrator turns a state into the next one. Whatever else it carries from step to step, a velocity or earlier states,
is its own: callers pass it on unread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from .coefficients import Coefficients

Field = Callable[[Tensor, int], Tensor]
"""A vector field f: (y, the stage of the step in which it is evaluated, from 0) -> f(y), of the shape of y."""


@dataclass(frozen=True)
class Learned:
    """The learned parameters of a network's steps; each method reads its own."""

    combine: Coefficients | None = None  # in place of the weights of a Runge-Kutta method or of a polynomial
    norms: Sequence[Callable[[Tensor], Tensor]] | None = None  # of the state and of each stage of Runge-Kutta steps
    own: Any = None  # of one kind of method: a ``Velocity``, the weights of earlier layers, or a corrector


NOTHING = Learned()


class Integrator:
    """A method of solving dy/dt = f(y), one step at a time."""

    stages: int = 1
    """Evaluations of f per step."""

    weights: tuple[float, ...] = ()
    """The weights of its stages, if coefficients can take their place."""

    spans_layers: bool = False
    """Whether it is a ``Multistep`` scheme, of whole layers only; other methods that carry something leave it false."""

    order: float | None = None
    """The order of convergence, for ``ode-transformer lab orders``, which leaves out methods that do not name it."""

    def learns(self, embed_dim: int) -> nn.Module | None:
        """Return the module that is learned for each field of width C, for ``Learned.own``; None for nothing."""
        return None

    def step(
        self, f: Field, y: Tensor, carried: Any = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Any]:
        """Take a step of size h from the state y in the field f.

        Returns:
            The state after the step, and what the next step receives as ``carried``. In the first step that is None,
            or for ``Momentum`` perhaps an embedding of the velocity.
        """
        raise NotImplementedError


def scaled(h: float, slope: Tensor) -> Tensor:
    """h times a slope; the slope itself for a whole step."""
    return slope if h == 1.0 else h * slope
