"""What runs will take, where records of the same recipes tell."""

from dataclasses import replace

import pytest

from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.runs import plan
from ode_transformer.files import write_json
from tests.helpers import run_record

NAME = "multi30k-full/macaron-tiny"  # 8,000 updates; the checkpoints of ten epochs are kept
GIB = (12 * 12 + 4) * 1e6 / 2**30  # of a model with a million parameters


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes records below the top of a repository, where there are no others."""
    monkeypatch.setattr(recipes, "ROOT", tmp_path)

    def write(name, parameters=10**6):
        training = {"parameters": parameters, "curve": [{"num_updates": 500}], "seconds": 900.0}
        write_json(tmp_path / name, run_record(training=training))

    return write


def test_a_record_tells_what_runs_take(write):
    recipe = recipes.load(NAME)
    assert plan.line([recipe]) == "1 run, 8,000 updates"
    write(f"results/{NAME}.bf16.json")
    assert plan.cost(recipe) == (8000, pytest.approx(GIB))
    assert plan.line([recipe] * 3) == f"3 runs, 24,000 updates, about {3 * GIB:.1f} GiB of checkpoints"
    assert plan.cost(recipes.load(NAME, scale="small")) == (30, 0.0), "no record of a rehearsal"
    assert plan.line([recipe, recipes.load("multi30k-full/rk2-tiny")]) == "2 runs, 16,000 updates"
    write(f"runs/{NAME}/record.json", parameters=2 * 10**6)
    assert plan.cost(recipe) == (8000, pytest.approx(2 * GIB)), "a run of one's own counts first"


def test_a_recipe_shows_the_plan_of_all_its_seeds(write, capsys):
    assert cli.main(["recipe", "show", "imdb/transformer"]) == 0
    updates = 5 * recipes.load("imdb/transformer").train.flags["max-update"]
    assert f"# plan: 5 runs, {updates:,} updates\n" in capsys.readouterr().out


def test_a_training_by_epochs_takes_the_updates_of_its_record(write):
    recipe = recipes.load(NAME)
    recipe = replace(recipe, train=replace(recipe.train, flags={"max-epoch": 3}))
    assert plan.cost(recipe) == (0, 0.0)
    write(f"results/{NAME}.json")
    assert plan.cost(recipe) == (500, 0.0), "all epochs are kept"
    flags = {"no-epoch-checkpoints": True, "save-interval-updates": 100, "keep-interval-updates": 5}
    recipe = replace(recipe, train=replace(recipe.train, flags=flags))
    assert plan.cost(recipe) == (500, pytest.approx((7 * 12 + 4) * 1e6 / 2**30))
