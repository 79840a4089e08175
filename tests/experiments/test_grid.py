"""Searches over settings: their space, the runs of a grid, medians, and what diverged."""

import json
from dataclasses import replace
from unittest import mock

import pytest

from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.records import RunError
from ode_transformer.experiments.runs import grid, runner
from ode_transformer.experiments.runs.training import TrainingPlace
from ode_transformer.files import write_json, write_text
from tests.helpers import output_of, raises, refused


def test_a_grid_gives_medians_and_the_best_and_names_what_diverged(monkeypatch, capsys, tmp_path, elsewhere):
    """A search space of four points and three seeds, with the runs' scores as given; two runs have none."""
    done = {}

    def go(run, prepared):
        given = dict(zip(run.place.flags[::2], run.place.flags[1::2], strict=True))
        seed, rate, batch = run.recipe.trained_seed, given["--lr"], int(given["--batch-size"])
        done[rate, batch, seed] = (given.get("--total-num-update"), given.get("--warmup-updates"))
        its = (run.place.cpu, given["--dropout"], run.last, run.recipe.given)
        assert its == (True, "0.2", "score", "macaron/glue/macaron-cola")
        value = 50 + 1e6 * float(rate) + batch / 16 + seed
        if (rate, seed) == ("5e-05", 2):
            write_text(run.folder / "train.log", "FloatingPointError: Minimum loss scale reached")
            raise RunError("train: fairseq-train ended with status 1")
        if (rate, batch, seed) == ("3e-05", 32, 9):
            value = float("nan")
        write_json(run.folder / "scores" / "valid.json", {"matthews": {"value": value}, "loss": 1})

    monkeypatch.setattr(runner.Run, "go", go)
    words = ["grid", "macaron/glue/macaron-cola", "--cpu", "--values", "lr", "3e-5", "5e-5"]
    words += ["--values", "batch-size", "16", "32", "--seeds", "1", "2", "9", "--output", str(tmp_path / "all.json")]
    words += ["--", "--dropout", "0.2"]
    out = output_of(words, capsys).out
    assert len(done) == 12
    # The row's schedule is of batches of 32; a half makes twice as many updates.
    assert {batch: schedule for (_, batch, _), schedule in done.items()} == {16: ("2680", "268"), 32: (None, None)}
    assert "lr=3e-05 batch-size=16: matthews median 83 of 82, 83, 90" in out
    assert "lr=3e-05 batch-size=32: matthews median 83 of 83, 84, diverged" in out
    assert "lr=5e-05 batch-size=16: matthews median 102 of 102, diverged, 110" in out
    assert "best: matthews 111 with lr=5e-05 batch-size=32 seed=9" in out
    points = json.loads((tmp_path / "all.json").read_text(), parse_constant=pytest.fail)
    assert len(points) == 4 and points[2]["scores"][1] == {} and points[1]["scores"][2] == {"matthews": None}

    began = "2026-01-01 00:00:00 | INFO | fairseq_cli.train | {'_name': None}\n"
    minimum = "FloatingPointError: Minimum loss scale reached\n"
    for log, diverged in ((began + minimum, True), (began + minimum + began + "out of memory\n", False)):
        (tmp_path / "train.log").write_text(log)  # the latter was resumed, and ended by something else
        assert grid._diverged(tmp_path) == diverged, log
    for name, diverged in (("last", True), ("best", False)):  # no score was a number, so that none was the best
        (tmp_path / f"checkpoint_{name}.pt").touch()
        assert grid._diverged(tmp_path) == diverged, name

    search = recipes.load("macaron/glue/macaron-cola"), recipes.SearchSpace({"lr": ["1"]}, [7]), TrainingPlace(cpu=True)
    monkeypatch.setattr(runner.Run, "go", mock.Mock(side_effect=RunError("another cause")))
    raises("seed-7: another cause", grid.train, *search)
    monkeypatch.setattr(grid, "_diverged", lambda folder: True)  # an earlier run with other flags behind --
    monkeypatch.setattr(runner.Run, "check_own", mock.Mock(side_effect=RunError("it holds another run")))
    raises("it holds another run", grid.train, *search)


def test_without_words_a_grid_is_the_search_of_the_recipe(monkeypatch, capsys):
    """24 points of the released search of Macaron Net; three seeds and other batches for large tasks."""
    spaces = []
    monkeypatch.setattr(grid, "train", lambda recipe, space, *_: spaces.append(space) or [])
    monkeypatch.setattr(grid, "summary", lambda points, metrics: "")

    def searched(row, *words):
        said = output_of(["grid", row, "--cpu", *words], capsys).err
        return spaces[-1], said

    space, said = searched("macaron/glue/macaron-mrpc")
    assert space.values == {
        "lr": [5e-5, 3e-5], "batch-size": [16, 32], "max-epoch": [3, 4, 5], "weight-decay": [0.0, 0.01],
    } and space.seeds == [100, 200, 300, 400, 500, 600]  # fmt: skip
    assert "macaron/glue/macaron-mrpc: 24 points, 6 seeds: 144 trainings" in said
    for row in ("bert-qqp", "macaron-mnli", "bert-qnli"):
        space, _ = searched(f"macaron/glue/{row}")
        assert space.values["batch-size"] == [16, 24] and space.seeds == [100, 200, 300]
    space, _ = searched("macaron/glue/macaron-mrpc", "--values", "lr", "1e-5", "--seeds", "7")
    assert space == recipes.SearchSpace({"lr": ["1e-05"]}, [7])
    assert searched("macaron/glue/macaron-mrpc", "--seeds", "7")[0].trainings == 24
    assert searched("glue/floater-base/floater-cola")[0] == recipes.SearchSpace({}, [1, 2, 3, 4, 5])
    assert searched("glue/floater-base/floater-cola", "--values", "lr", "1", "2")[0].trainings == 10


def test_runs_of_a_grid_share_a_folder_only_with_their_like():
    """A rehearsal, another precision and the real search have folders of their own; so do all points and seeds."""
    name, grids = "glue/floater-base/floater-cola", recipes.ROOT / "runs" / "grids"  # in fp16
    for scale, precision, folder in (
        ("full", "fp16", name), ("full", "fp32", f"{name}.fp32"), ("small", "fp16", f"small/{name}"),
    ):  # fmt: skip
        assert grid.home_of(recipes.load(name, scale=scale), TrainingPlace(precision=precision)) == grids / folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--values", "lr", "1", "--values", "lr", "2"], "--values: every flag must be given once, with all its"),
        (["--values", "lr", "5e-5", "0.00005"], r"search.values.lr \['5e-05', '5e-05'\]: must be different"),
        (["--seeds", "1", "1"], r"search.seeds \[1, 1\]: must be different numbers"),
        (["--", "--seed", "3"], "-- --seed: is set by --seed, before the --"),
        (["--values", "update-freq", "1", "2"], "--values update-freq: is set by train.batches and --devices"),
        (["--values", "batch-size", "x"], "schedule follows from {'batch-size': 'x'}: could not convert .*'x'"),
    ],
)
def test_what_is_not_for_a_grid_is_refused(words, message, capsys):
    refused(["grid", "macaron/glue/macaron-cola", "--cpu", *words], message, capsys)


def test_a_recipe_without_a_search_has_to_be_given_one(tmp_path, capsys, monkeypatch):
    path = tmp_path / "r.yaml"
    base = recipes.CONFIGS / "glue" / "_protocol.yaml"
    rest = "data: {prepare: x, directory: d}\ntrain: {arch: roberta}\nvalidate: {subsets: {valid: dev}}\n"
    path.write_text(f"extends: {base}\ndescription: x\n{rest}")
    refused(["grid", str(path)], "r.yaml: has no search; must be given --values FLAG VALUE ... or --seeds SEED", capsys)
    spaces = []
    monkeypatch.setattr(grid, "train", lambda recipe, space, *_: spaces.append(space) or [])
    path.write_text(path.read_text().replace("roberta}", "roberta, flags: {seed: 7}}"))
    assert cli.main(["grid", str(path), "--cpu", "--values", "lr", "1"]) == 0
    assert spaces == [recipes.SearchSpace({"lr": ["1"]}, [7])], "the seed of its flags"
    path.write_text(f"extends: {base}\ndescription: x\n{rest}search: {{values: {{lr: [1, 2]}}}}\nseeds: [3, 4]\n")
    shown = output_of(["recipe", "show", path], capsys).out.replace("\n#   ", " ")
    assert f"# search: lr 1, 2; seeds 3, 4 (4 trainings, `ode-transformer grid {path}`)" in shown


def test_runs_are_compared_as_their_recipe_chooses_checkpoints():
    expected = {"cola": ("matthews",), "sts-b": ("pearson", "spearman")}
    for task in ("cola", "mrpc", "qqp", "sts-b"):
        assert grid.selection(recipes.load(f"macaron/glue/macaron-{task}")) == expected.get(task, ("accuracy",))
    mrpc = recipes.load("macaron/glue/macaron-mrpc")
    by_loss = replace(mrpc, train=replace(mrpc.train, flags=mrpc.train.flags | {"best-checkpoint-metric": "loss"}))
    assert grid.selection(by_loss) == ("accuracy", "f1")
    points = [{"flags": {"lr": "1"}, "seeds": [1], "scores": [{"pearson": 80.0, "spearman": 90.0}]}]
    assert grid.summary(points, ("pearson", "spearman")).endswith("best: pearson and spearman 85 with lr=1 seed=1")
    diverged = [{"flags": {}, "seeds": [1], "scores": [{}]}]
    assert grid.summary(diverged, ["f1"]).endswith("best: none, every run diverged")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"lr": "1"}, {}),
        ({"batch-size": "32"}, {}),
        ({"batch-size": "64"}, {"total-num-update": "500", "warmup-updates": "50"}),
        ({"batch-size": "16", "max-epoch": "3"}, {"total-num-update": "1200", "warmup-updates": "120"}),
        ({"max-epoch": "10", "warmup-updates": "7"}, {"total-num-update": "2000"}),
        ({"batch-size": "64", "total-num-update": "3000"}, {"warmup-updates": "300"}),
    ],
)
def test_the_schedule_follows_the_batch_and_the_epochs(chosen, expected):
    row = {"batch-size": 32, "max-epoch": 5, "total-num-update": 1000, "warmup-updates": 100}
    assert grid.schedule(row, chosen) == expected
    assert grid.schedule(row | {"max-epoch": None}, {"batch-size": "64"}) == {}  # so many updates, whatever the batch
