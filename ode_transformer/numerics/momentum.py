"""Methods with momentum, which carry a velocity from step to step.

Source: "YuriiFormer: A Suite of Nesterov-Accelerated Transformers" (arXiv 2601.23236), in the form of a reproduction's
code.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .coefficients import weighted_sum
from .protocol import NOTHING, Field, Integrator, Learned, scaled


class Velocity(nn.Module):
    """The learned parameters of a step with momentum: beta, mu, gamma and perhaps nu, and the norm of the velocity.

    A reproduction's code keeps nu positive, as the softplus of a number that starts at 0.5413; here nu is any number.
    There the norm of the velocity has no bias; here it has one. In the first field of a stack that starts at rest the
    gradients of beta and mu are 0, and up to the norm's eps that of gamma.
    """

    def __init__(self, embed_dim: int, learns_nu: bool):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(3))  # of beta, mu and gamma
        self.nu = nn.Parameter(torch.ones(())) if learns_nu else None
        self.norm = nn.LayerNorm(embed_dim)

    def numbers(self) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
        """beta and mu, between 0 and 1, initially 1/2; gamma, positive, initially log 2; nu, initially 1."""
        beta, mu, gamma = self.raw
        return beta.sigmoid(), mu.sigmoid(), F.softplus(gamma), 1.0 if self.nu is None else self.nu


@dataclass(frozen=True)
class Momentum(Integrator):
    """A method that carries a velocity v besides the state. The norm N is a layer norm in a network::

        v' = N(beta v + gamma h f(y + mu v)),     y' = y + nu v'

    beta damps the velocity, mu is how far ahead f is evaluated, gamma is the size of the step, and nu is how far the
    velocity moves the state. docs/beyond.md has the equation that this solves without the norm.

    Args:
        learns_nu: whether nu is learned, starting at 1 (triple momentum); otherwise it is 1.
    """

    learns_nu: bool = False

    def learns(self, embed_dim: int) -> Velocity:
        """As in ``Integrator``."""
        return Velocity(embed_dim, self.learns_nu)

    def step(
        self, f: Field, y: Tensor, carried: Tensor | None = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Tensor]:
        """As in ``Integrator``: ``carried`` is v, 0 if None; ``learned.own`` has a ``Velocity``'s numbers and norm."""
        v = torch.zeros_like(y) if carried is None else carried
        beta, mu, gamma, nu = learned.own.numbers()
        slope = scaled(h, f(weighted_sum([mu], [v], y), 0))
        v = weighted_sum([beta, gamma], [v, slope])
        v = v if learned.own.norm is None else learned.own.norm(v)
        return weighted_sum([nu], [v], y), v


NESTEROV = Momentum()
"""Nesterov's method: the field is evaluated ahead of the state. A layer of two sub-layers learns six numbers."""

TRIPLE = Momentum(learns_nu=True)
"""Triple momentum: Nesterov's method with a learned nu."""
