"""Tables of methods are open to others until the models have read them."""

import pytest

import ode_transformer.models  # noqa: F401  closes the tables
from ode_transformer.numerics.integrators import EULER, INTEGRATORS
from ode_transformer.numerics.registry import Registry


def test_an_unknown_name_is_refused_with_the_known_ones():
    registry = Registry("history", {"none": None, "dense": 1})
    assert registry.named("none") is None and registry.named("dense") == 1
    with pytest.raises(ValueError, match=r"^history 'sparse': must be one of none, dense$"):
        registry.named("sparse")


def test_an_entry_is_added_whose_name_is_not_taken():
    registry = Registry("integrator", {"euler": 1})
    registry["mine"] = 2
    with pytest.raises(ValueError, match=r"integrator 'euler': is taken"):
        registry["euler"] = 2
    assert dict(registry) == {"euler": 1, "mine": 2} and registry.choices() == ["euler", "mine"]


def test_after_the_import_of_the_models_it_is_too_late():
    with pytest.raises(ValueError, match=r"integrator 'mine': must be added before ode_transformer.models is imported"):
        INTEGRATORS["mine"] = EULER
    with pytest.raises(ValueError, match=r"'mine': must be one of"):
        INTEGRATORS.named("mine")
