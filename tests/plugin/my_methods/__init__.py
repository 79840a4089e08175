"""A user's plugin: an integrator of third order, an architecture and a metric (docs/extending.md)."""

from ode_transformer.experiments.metrics import Metric, register
from ode_transformer.numerics.integrators import INTEGRATORS, ButcherTableau

# Strong-stability-preserving, of three stages (Shu and Osher 1988).
INTEGRATORS["ssp3"] = ButcherTableau(((), (1.0,), (1 / 4, 1 / 4)), (1 / 6, 1 / 6, 2 / 3))

# The models come after the methods: what --integrator may be is fixed when they are imported.
from ode_transformer.config import register_architectures  # noqa: E402
from ode_transformer.models.ode import SIZES, OdeConfig  # noqa: E402

register_architectures("ode", OdeConfig, {"ssp3_tiny": {**SIZES["_tiny"].fields, "integrator": "ssp3"}})


def _words(outputs, examples):
    """The words of each output and of its reference; of their sums, the score is the quotient."""
    return [(len(o.split()), len(r.split())) for o, r in zip(outputs, examples.references[0], strict=True)]


register(Metric("length_ratio", "length ratio", statistics=_words))
