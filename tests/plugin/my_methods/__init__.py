"""A user's plugin: an integrator of third order and an architecture, for ``--user-dir`` (docs/extending.md)."""

from ode_transformer.numerics.integrators import INTEGRATORS, ButcherTableau

# Strong-stability-preserving, of three stages (Shu and Osher 1988).
INTEGRATORS["ssp3"] = ButcherTableau(((), (1.0,), (1 / 4, 1 / 4)), (1 / 6, 1 / 6, 2 / 3))

# The models come after the methods: what --integrator may be is fixed when they are imported.
from ode_transformer.config import register_architectures  # noqa: E402
from ode_transformer.models.ode import SIZES, OdeConfig  # noqa: E402

register_architectures("ode", OdeConfig, {"ssp3_tiny": {**SIZES["_tiny"].fields, "integrator": "ssp3"}})
