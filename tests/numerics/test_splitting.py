"""Splittings: orders measured on a problem whose sub-flows are known; invariants."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from ode_transformer.numerics.integrators import EULER
from ode_transformer.numerics.splitting import PARALLEL, SPLITTINGS, Splitting, split_step

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 4, 4))
Y0 = RNG.normal(size=4)
STEPS = 0.1 * 0.5 ** np.arange(5)


def exact(matrix, y, carried, h):
    return scipy.linalg.expm(h * matrix) @ y, carried


@pytest.mark.parametrize(
    "splitting",
    [
        *(splitting for splitting in SPLITTINGS.values() if not splitting.together),
        Splitting("FGFG", (0.5,) * 4),
        Splitting("FGFG", (1 / 4, 2 / 3, 3 / 4, 1 / 3)),
    ],
    ids=lambda splitting: splitting.flows,
)
def test_the_order_that_the_fractions_promise(splitting):
    """The slope of log error against log step, after one step of dy/dt = Ay + By."""
    substeps = [(exact, {"F": A, "G": B}[flow], part) for flow, part in splitting]
    errors = [np.linalg.norm(split_step(substeps, Y0, None, h)[0] - exact(A + B, Y0, None, h)[0]) for h in STEPS]
    assert np.polyfit(np.log(STEPS), np.log(errors), 1)[0] == pytest.approx(splitting.order + 1, abs=0.2)
    names = ("lie-trotter", "strang", "strang-swapped", "parallel")
    assert [SPLITTINGS[name].order for name in names] == [1, 2, 2, math.inf]


def test_flows_that_are_taken_together_have_their_fractions():
    """Two halves of G are one G, and unequal parts of F one F, however many fields there are."""
    y, (a, b) = torch.tensor(Y0), torch.tensor(np.stack((A, B)))
    fields = {"F": lambda y, stage: a @ y, "G": lambda y, stage: b @ y}
    others = [Splitting(*each, together=True) for each in (("GFG", (0.5, 1, 0.5)), ("FGFG", (0.25, 0.5, 0.75, 0.5)))]
    for splitting in (PARALLEL, *others):
        ((_, together, part),) = splitting.substeps(fields, EULER.step)
        assert part == 1.0 and torch.allclose(together(y, 0), (a + b) @ y)


@pytest.mark.parametrize(
    ("flows", "fractions", "message"),
    [
        ("FF", (0.5, 0.5), "of G must sum to 1"),
        ("FGF", (0.5, 1, 0.25), "of F must sum to 1"),
        ("FCG", (1, 1, 1), "flows must be F and G, got 'FCG'"),
    ],
)
def test_a_splitting_of_another_equation_is_refused(flows, fractions, message):
    with pytest.raises(ValueError, match=message):
        Splitting(flows, fractions)
