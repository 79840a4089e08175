"""Tables of methods are open to others until the models have read them."""

import pytest

import ode_transformer.models  # noqa: F401  closes the tables
from ode_transformer.numerics.integrators import EULER, INTEGRATORS
from ode_transformer.numerics.table import Table


def test_an_entry_is_added():
    table = Table("integrator", {"euler": 1})
    table["mine"] = 2
    assert dict(table) == {"euler": 1, "mine": 2} and table.choices() == ["euler", "mine"]


def test_an_unknown_name_is_refused_with_the_known_ones():
    table = Table("history", {"none": None, "dense": 1})
    assert table.named("none") is None and table.named("dense") == 1
    with pytest.raises(ValueError, match=r"^history 'sparse': must be one of none, dense$"):
        table.named("sparse")


def test_a_name_that_is_taken_is_refused():
    table = Table("integrator", {"euler": 1})
    with pytest.raises(ValueError, match=r"integrator 'euler': is taken"):
        table["euler"] = 2
    assert table["euler"] == 1


def test_after_the_import_of_the_models_it_is_too_late():
    with pytest.raises(ValueError, match=r"integrator 'mine': must be added before ode_transformer.models is imported"):
        INTEGRATORS["mine"] = EULER
    with pytest.raises(ValueError, match=r"'mine': must be one of"):
        INTEGRATORS.named("mine")
