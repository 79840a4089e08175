"""What runs will take, where records of the same recipe tell."""

from dataclasses import replace

import pytest

from ode_transformer import machine
from ode_transformer.experiments import recipes
from ode_transformer.experiments.runs import plan
from ode_transformer.files import write_json
from tests.helpers import output_of, run_record

HERE = {"processor": "P", "cores": 2, "memory_gib": 9, "gpus": []}
NAME = "multi30k-full/macaron-tiny"  # 8,000 updates; the checkpoints of ten epochs are kept, the best and the last


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes records below the top of a repository, where there are no others."""
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(machine, "hardware", lambda: HERE | {"memory_gib": 7})

    def write(name, command="fairseq-train", **training):
        training = {"parameters": 10**6, "curve": [{"num_updates": 500}], "seconds": 900.0, **training}
        write_json(tmp_path / name, run_record(devices=1, hardware=HERE, training=training, command=command))

    return write


def test_a_record_tells_what_runs_take(write, monkeypatch):
    recipe = recipes.load(NAME)
    assert plan.line([recipe]) == "1 run, 8,000 updates"
    write(f"results/{NAME}.json")
    gib = 12 * 12 * 1e6 / 2**30
    more = f"about {3 * gib:.1f} GiB of checkpoints, about 12.0 hours by records of this hardware"
    assert plan.line([recipe] * 3) == f"3 runs, 24,000 updates, {more}"
    assert "about 6.0 hours" in plan.line([recipe] * 3, jobs=2)
    assert "about 4.0 hours" in plan.line([recipe], jobs=2), "a run is not shorter for that"
    assert plan.line([recipe, recipes.load("multi30k-full/rk2-tiny")]) == "2 runs, 16,000 updates"
    # Of another machine, in part or all of it, the size alone is known; a run of one's own counts first.
    write(f"results/{NAME}.json", trained_on=[{"hardware": HERE}, {"hardware": HERE | {"gpus": ["G"]}}])
    assert plan.cost(recipe) == (8000, gib, 0)
    write(f"results/{NAME}.seed-2.json", seconds=1800.0)
    assert plan.cost(recipe) == (8000, gib, 8.0)
    write(f"runs/{NAME}/record.json", trained_on=[{"hardware": HERE}], seconds=450.0)
    assert plan.cost(recipe) == (8000, gib, 2.0)
    monkeypatch.setattr(machine, "hardware", lambda: HERE | {"gpus": ["G"]})
    write(f"results/{NAME}.json", trained_on=[{"hardware": HERE | {"gpus": ["G"]}}], command="fairseq-train data --cpu")
    assert plan.cost(recipe) == (8000, gib, 0), "what a CPU took beside a GPU is no speed of that"


def test_a_recipe_shows_the_plan_of_all_its_seeds(write, capsys):
    updates = 5 * recipes.load("imdb/transformer").train.flags["max-update"]
    shown = output_of(["recipe", "show", "imdb/transformer"], capsys).out
    assert f"# plan: 5 runs, {updates:,} updates\n" in shown


def test_a_training_by_epochs_takes_the_updates_of_its_record(write):
    recipe = recipes.load(NAME)
    recipe = replace(recipe, train=replace(recipe.train, flags={"max-epoch": 3}))
    assert plan.cost(recipe) == (0, 0, 0)
    write(f"results/{NAME}.json")
    assert plan.cost(recipe) == (500, 0, 0.25), "which keeps the checkpoints of all epochs"
