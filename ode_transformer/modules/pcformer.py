"""PCformer's step: a Runge-Kutta method predicts, and a mixture of all states before corrects.

Li et al. 2024, "Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning" (arXiv
2411.03042). Layer l + 1 reads x_l, where x_0 = z_0 is the embedding, and its step from there, with any method and
coefficients, is the prediction P. With z' = LN'(P), the layer then takes an Euler step from a mixture of all states so
far, and layer l + 2 reads a second mixture::

    c = sum_{k <= l} W[l + 1, k] z_k + W[l + 1, l + 1] z'
    z_{l+1} = LN(c + f(c))
    x_{l+1} = sum_{k <= l + 1} W_c[l + 1, k] z_k

The method carries the states z_k from layer to layer; its parameters are a ``Corrector`` (``history.py``). With
``--ode-residual released`` the prediction alone is in that form, as in the released code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from torch import Tensor

from ..numerics.integrators import EULER
from ..numerics.protocol import NOTHING, Field, Integrator, Learned
from .history import mixture


@dataclass(frozen=True)
class PredictorCorrector(Integrator):
    """A method whose result is corrected: the predictor, which by itself carries nothing from step to step."""

    predictor: Integrator

    @property
    def stages(self) -> int:
        return self.predictor.stages + 1

    def step(
        self,
        f: Field,
        y: Tensor,
        carried: Optional[Sequence[Tensor]] = None,
        h: float = 1.0,
        learned: Learned = NOTHING,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """As in ``Integrator``: from x_l, carrying z_0 to z_l, to x_(l + 1), carrying z_0 to z_(l + 1).

        ``learned.own`` is a ``Corrector``; the predictor reads the rest.
        """
        states, corrector = (y,) if carried is None else carried, learned.own
        before = len(states)
        prediction, _ = self.predictor.step(f, y, None, h, learned)
        guess = corrector.prediction_norms[before - 1](prediction)
        c = mixture(corrector.weight, before, (*states, guess))
        z, _ = EULER.step(lambda c, _: f(c, self.predictor.stages), c, None, h)
        states = (*states, corrector.layer_norms[before - 1](z))
        return mixture(corrector.weight_c, before, states), states
