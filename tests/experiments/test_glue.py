"""GLUE and plain text: tables of every task, what cuts text, scores as scikit-learn takes them, server files, grids."""

import json
import re
import shutil
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

from ode_transformer import paths
from ode_transformer.checkpoints import CheckpointError
from ode_transformer.checkpoints.standalone import pair_form
from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.metrics import glue as metric
from ode_transformer.experiments.metrics.glue import LOGGED
from ode_transformer.experiments.runs import OtherRunError, RunError, grid, runner
from ode_transformer.experiments.runs.training import Place
from ode_transformer.experiments.tasks import TASKS, classification, generated, glue
from ode_transformer.experiments.tasks.classification import Outputs
from ode_transformer.experiments.tasks.question_answering import published as squad
from ode_transformer.experiments.text import documents, segmentation, subwords
from tests.helpers import preprocess, refused
from tests.models.test_masked_lm import train, write

WORDS = ["good", "bad", "film", "plot", "dull", "great"]
TEXT = [f"The {a} {b} was {c}." for a in WORDS for b in WORDS for c in WORDS]


@pytest.fixture(scope="module")
def like(tmp_path_factory):
    """What cuts text, learned on some, and its dictionary."""
    folder = tmp_path_factory.mktemp("like")
    generated.write("glue-cola", folder, 40, 2)
    lines = [*TEXT, *(text for (text,), _ in glue.examples(glue.GLUE["cola"], folder / "CoLA", "train"))]
    segmentation.learn(lines, 120, 1, folder / segmentation.OWN[0])
    (folder / "text").write_text("".join(f"{segmentation.opened(folder)(line)}\n" for line in lines))
    preprocess(folder, train=folder / "text")
    return folder


def table(path, rows, heading=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (["\t".join(f"h{i}" for i in range(len(rows[0])))] if heading else []) + ["\t".join(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))


def test_colas_own_archive_and_lines_of_qqp_that_are_broken(tmp_path, like):
    raw = tmp_path / "CoLA" / "raw"
    for name, count in (("in_domain_train", 5), ("in_domain_dev", 3), ("out_of_domain_dev", 2)):
        table(raw / f"{name}.tsv", [["gj04", str(i % 2), "", TEXT[i]] for i in range(count)], heading=False)
    assert glue.prepare("cola", tmp_path, like, tmp_path / "out") == {"train": 5, "valid": 5}
    generated.write("glue-qqp", tmp_path, 12, 1)
    with (tmp_path / "QQP" / "train.tsv").open("a") as file:
        file.write("a\tb\n")
    assert glue.prepare("qqp", tmp_path, like, tmp_path / "qqp")["train"] == 12
    with pytest.raises(OdeTransformerError, match=r"train: .*RTE/train.tsv must be there"):
        glue.prepare("rte", tmp_path, like, tmp_path / "rte")
    table(tmp_path / "RTE" / "train.tsv", [["0", "x"]])
    with pytest.raises(OdeTransformerError, match=r"train.tsv: line 2 has 2 columns, too few"):
        glue.prepare("rte", tmp_path, like, tmp_path / "rte")


def binarise(folder, like, name):
    """As data-prep/prepare-glue.sh does."""
    for part in ("input0", "input1", "label"):
        texts = {split: folder / f"{split}.{part}" for split in ("train", "valid", "test")}
        texts = {split: text for split, text in texts.items() if text.is_file()}
        if part == "label" and name == "sts-b":
            (folder / "bin" / "label").mkdir(parents=True)
            for split, text in texts.items():
                shutil.copy(text, folder / "bin" / "label" / f"{split}.label")
        elif texts:
            preprocess(folder / "bin" / part, None if part == "label" else like / "dict.txt", **texts)
    return folder / "bin"


@pytest.mark.parametrize(
    ("name", "more", "metrics"),
    [
        ("cola", {"arch": "roberta", "report-mcc": True, "num-classes": 2}, ["matthews"]),  # fairseq's own
        # In the form of BERT: one end between the sentences.
        (
            "mrpc",
            {"report-acc-and-f1": True, "num-classes": 2, "separator-token": None,
             "task": "sentence_prediction_of_pairs", "swap-pairs": True},
            ["accuracy", "f1"],
        ),
        ("sts-b", {"report-pearson-and-spearman": True, "num-classes": 1, "regression-target": True,
                   "best-checkpoint-metric": "pearson_and_spearman"}, ["pearson", "spearman"]),
    ],
)  # fmt: skip
def test_from_tables_to_scores_and_server_files(tmp_path, like, name, more, metrics):
    generated.write(f"glue-{name}", tmp_path / "raw", 80, 1)
    assert glue.prepare(name, tmp_path / "raw", like, tmp_path / "symbols") == {"train": 80, "valid": 10, "test": 10}
    data = binarise(tmp_path / "symbols", like, name)
    values = {"task": "sentence_prediction", "criterion": "sentence_prediction", "save-dir": tmp_path / "run"}
    train(data, **values | {"init-token": 0, "separator-token": 2, "max-positions": 60} | more)
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"

    model = [str(checkpoint), "--data", str(data), "--batch-size", "7", "--cpu"]
    assert cli.main(["glue", "validate", *model, "--output", str(tmp_path / "valid.tsv")]) == 0
    words = ["glue", "score", "--predictions", str(tmp_path / "valid.tsv"), "--metrics", *metrics]
    assert cli.main([*words, "--output", str(tmp_path / "score.json")]) == 0
    scores = json.loads((tmp_path / "score.json").read_text())
    assert {"examples", *metrics} == set(scores) and scores["examples"] == 10
    rows = [line.split("\t") for line in (tmp_path / "valid.tsv").read_text().splitlines()]
    golds, predicted = ([float(row[i]) for row in rows] for i in (0, 1))
    assert golds == [float(label) for label in (tmp_path / "symbols" / "valid.label").read_text().split()]

    assert cli.main(["glue", "predict", *model, "--task", name, "--output-dir", str(tmp_path / "server")]) == 0
    lines = (tmp_path / "server" / f"{glue.GLUE[name].folder}.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction" and [line.split("\t")[0] for line in lines[1:]] == list(map(str, range(10)))
    sent = [float(line.split("\t")[1]) for line in glue.predict(checkpoint, data, name, "valid", 7, True)[1:]]
    if name == "sts-b":  # the server's are not divided, and clamped
        predicted = pytest.approx([min(max(5 * one, 0), 5) for one in predicted], abs=1e-5)
    assert sent == predicted
    with pytest.raises(OdeTransformerError, match="subset test has no labels"):
        glue.validate(checkpoint, data, "test", 7, True)
    with pytest.raises(OdeTransformerError, match="is of another task: its labels must be"):
        glue.predict(checkpoint, data, "cola" if name == "sts-b" else "sts-b", "test", 7, True)


@given(st.lists(st.tuples(st.sampled_from("01"), st.sampled_from("01")), min_size=1, max_size=30))
def test_scores_of_classes_are_those_of_scikit_learn(pairs):
    golds, taken = zip(*pairs, strict=True)
    found = metric.score(golds, taken, ["accuracy", "matthews", "f1"])
    x, y = ([int(label) for label in labels] for labels in (golds, taken))
    assert found["matthews"]["value"] == pytest.approx(100 * matthews_corrcoef(x, y))
    assert found["f1"]["value"] == pytest.approx(100 * f1_score(x, y, zero_division=0))
    assert found["accuracy"]["value"] == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))


def test_correlations_are_those_of_scipy_and_an_interval_covers_as_often_as_it_says():
    random = np.random.default_rng(1)
    covered, widths = 0, []
    for _ in range(60):
        x = random.normal(size=200)
        y = 0.6 * x + 0.8 * random.normal(size=200)
        x, y = x.round(1), y.round(1)  # some are equal
        found = metric.score([str(v) for v in x], [str(v) for v in y], ["pearson", "spearman"])
        assert found["pearson"]["value"] == pytest.approx(100 * pearsonr(x, y)[0])
        assert found["spearman"]["value"] == pytest.approx(100 * spearmanr(x, y)[0])
        low, high = found["pearson"]["interval"]
        covered += low <= 60 <= high
        widths.append(high - low)
    assert covered >= 51  # expected: 57; fewer than 51 has a probability below 1 in 100
    # Fisher: the half width of atanh(r) is 1.96 / sqrt(197), of r times 1 - r^2.
    assert np.mean(widths) == pytest.approx(200 * 1.96 / 197**0.5 * 0.64, rel=0.1)


@pytest.mark.parametrize(
    ("lines", "of", "message"),
    [
        ("0\t1\n0\n", "accuracy", "line 2: must be a label and the predicted label, separated by a tab"),
        ("0\t2\n", "f1", "label 2: must be 0 or 1 for Matthews' correlation and F1"),
        ("yes\t1\n", "pearson", "could not convert string to float: 'yes'; labels must be numbers for a correlation"),
    ],
)
def test_predictions_that_cannot_be_scored_are_named(tmp_path, capsys, lines, of, message):
    (tmp_path / "valid.tsv").write_text(lines)
    words = ["glue", "score", "--predictions", str(tmp_path / "valid.tsv"), "--metrics", of]
    assert cli.main([*words, "--output", str(tmp_path / "score.json")]) == 1
    assert message in capsys.readouterr().err and not (tmp_path / "score.json").exists()


def test_outputs_that_are_no_numbers_have_no_score():
    for of, golds, taken in (
        ("accuracy", "01", ["0", "not a number"]),
        ("f1", "01", ["not a number", "1"]),
        ("pearson", "013", ["not a number"] * 3),
    ):
        found = metric.score(list(golds), taken, [of])[of]
        assert np.isnan([found["value"], *found["interval"]]).all()


def test_rows_of_glue_are_as_their_papers_say():
    """The metric is the task's; RoBERTa's pairs have two ends in between, BERT's one; Macaron swaps the texts of three
    tasks, and its settings are of its search but for SST-2's batch and QNLI's seed, where the release is of two minds.
    """
    metrics = {"cola": "matthews", "mrpc": "f1", "qqp": "f1", "sts-b": "spearman"}
    for name in (name for name in recipes.names() if name.startswith(("glue/floater", "macaron/glue/"))):
        recipe, task = recipes.load(name), name.rpartition("/")[2].partition("-")[2]
        given, macaron = recipe.train.flags, name.startswith("macaron")
        assert TASKS["glue"].metrics(recipe)[-1] == metrics.get(task, "accuracy"), name
        assert set(TASKS["glue"].metrics(recipe)) <= set(LOGGED)
        assert given["num-classes"] == {"mnli": 3, "sts-b": 1}.get(task, 2)
        assert given["separator-token"] == (None if macaron else 2), name
        swaps = macaron and task in ("mrpc", "sts-b", "qqp")
        assert given.get("swap-pairs", False) == swaps, name
        assert TASKS["glue"].flags(recipe) == ["--task", "sentence_prediction" + "_of_pairs" * swaps]
        if macaron:
            odd = [flag for flag, values in recipe.search.values.items() if given[flag] not in values]
            assert odd == (["batch-size"] if task == "sst-2" else []), name
            assert (given["seed"] in recipe.search.seeds) == (task != "qnli"), name
            assert given["warmup-updates"] == (given["total-num-update"] + 5) // 10, name


def test_a_checkpoint_says_the_form_of_its_pairs():
    trained = {"_name": "sentence_prediction", "init_token": 0, "separator_token": None, "data": "x"}
    model = {f"{side}.embed_tokens.weight": torch.zeros(5, 2) for side in ("encoder", "decoder")}

    def form(**change):
        return pair_form({"cfg": {"task": trained | change}, "model": model}, "x.pt", "sentence_prediction", "other")

    assert form(_name="other") == form()
    assert form() == {"init_token": 0, "separator_token": None} and form(separator_token=4)["separator_token"] == 4
    with pytest.raises(
        CheckpointError, match="was trained with --task 'masked_lm', must be sentence_prediction or other"
    ):
        form(_name="masked_lm")
    for value in ("2", 5, -1, True, [2]):
        with pytest.raises(CheckpointError, match=r"its option separator_token is .*, must be the number of a symbol"):
            form(separator_token=value)


def test_a_grid_gives_medians_and_the_best_and_names_what_diverged(monkeypatch, capsys, tmp_path):
    """A search space of four points and three seeds, with the runs' scores as given; two runs have none."""
    for place in (paths, recipes):
        monkeypatch.setattr(place, "ROOT", tmp_path)
    done = {}

    def go(run, first, last, trained):
        given = dict(zip(run.place.flags[::2], run.place.flags[1::2], strict=True))
        seed, rate, batch = run.recipe.trained_seed, given["--lr"], int(given["--batch-size"])
        done[rate, batch, seed] = (given.get("--total-num-update"), given.get("--warmup-updates"))
        assert run.place.cpu and last == "score" and run.recipe.given == "macaron/glue/macaron-cola"
        value = 50 + 1e6 * float(rate) + batch / 16 + seed
        (run.folder / "scores").mkdir(parents=True)
        if (rate, seed) == ("5e-05", 2):
            (run.folder / "train.log").write_text("FloatingPointError: Minimum loss scale reached")
            raise RunError("train: fairseq-train ended with status 1")
        if (rate, batch, seed) == ("3e-05", 32, 9):
            value = float("nan")
        (run.folder / "scores" / "valid.json").write_text(json.dumps({"matthews": {"value": value}, "loss": 1}))

    monkeypatch.setattr(runner.Run, "go", go)
    words = ["grid", "macaron/glue/macaron-cola", "--cpu", "--values", "lr", "3e-5", "5e-5"]
    words += ["--values", "batch-size", "16", "32", "--seeds", "1", "2", "9", "--output", str(tmp_path / "all.json")]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
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
    workers = "FloatingPointError: Fatal error: gradients are inconsistent between workers. Try\n"
    for log, diverged in (
        (began + minimum, True),
        (began + minimum + began + "out of memory\n", False),  # resumed, and ended by something else
        (began + workers, False),
        (began + workers + began + minimum, True),
    ):
        (tmp_path / "train.log").write_text(log)
        assert grid._diverged(tmp_path) == diverged, log

    search = recipes.load("macaron/glue/macaron-cola"), recipes.Search({"lr": ["1"]}, [7]), Place(cpu=True)
    diverged = grid.home_of(search[0], search[2]) / "lr=1" / "seed-7" / "train.log"
    for cause, log in ((RunError("another cause"), ""), (OtherRunError("it holds another run"), began + minimum)):
        diverged.parent.mkdir(parents=True, exist_ok=True)
        diverged.write_text(log)
        monkeypatch.setattr(runner.Run, "go", mock.Mock(side_effect=cause))
        with pytest.raises(OdeTransformerError, match=f"seed-7: {cause}"):
            grid.train(*search)


def test_without_words_a_grid_is_the_search_of_the_recipe(monkeypatch, capsys):
    """24 points of the released search of Macaron Net; three seeds and other batches for large tasks."""
    spaces = []
    monkeypatch.setattr(grid, "train", lambda recipe, space, *_: spaces.append(space) or [])
    monkeypatch.setattr(grid, "summary", lambda points, metrics: "")

    def searched(row, *words):
        assert cli.main(["glue", "grid", row, "--cpu", *words]) == 0
        return spaces[-1], capsys.readouterr().err

    space, said = searched("macaron/glue/macaron-mrpc")
    assert space.values == {
        "lr": [5e-5, 3e-5], "batch-size": [16, 32], "max-epoch": [3, 4, 5], "weight-decay": [0.0, 0.01],
    } and space.seeds == [100, 200, 300, 400, 500, 600]  # fmt: skip
    assert "macaron/glue/macaron-mrpc: 24 points, 6 seeds: 144 trainings" in said
    for row in ("bert-qqp", "macaron-mnli", "bert-qnli"):
        space, said = searched(f"macaron/glue/{row}")
        assert space.values["batch-size"] == [16, 24] and space.seeds == [100, 200, 300]
        assert "24 points, 3 seeds: 72 trainings" in said
    space, _ = searched("macaron/glue/macaron-mrpc", "--values", "lr", "1e-5", "--seeds", "7")
    assert space == recipes.Search({"lr": ["1e-5"]}, [7])
    assert searched("macaron/glue/macaron-mrpc", "--seeds", "7")[0].trainings == 24
    assert searched("glue/floater-base/floater-cola")[0] == recipes.Search({}, [1, 2, 3, 4, 5])
    assert searched("glue/floater-base/floater-cola", "--values", "lr", "1", "2")[0].trainings == 10


def test_runs_of_a_grid_share_a_folder_only_with_their_like():
    """A rehearsal, another precision and the real search have folders of their own; so do all points and seeds."""
    name, grids = "glue/floater-base/floater-cola", recipes.ROOT / "runs" / "grids"  # in fp16
    for scale, precision, folder in (
        ("full", "fp16", name), ("full", "fp32", f"{name}.fp32"), ("small", "fp16", f"small/{name}"),
    ):  # fmt: skip
        assert grid.home_of(recipes.load(name, scale=scale), Place(precision=precision)) == grids / folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--values", "lr", "1", "--values", "lr", "2"], "--values lr: is given twice; must be given once, with all"),
        (["--dry-run"], "--dry-run: is unknown"),
        (["--", "--seed", "3"], "-- --seed: is set by --seed, before the --"),
    ],
)
def test_what_is_not_for_a_grid_is_refused(words, message, capsys):
    refused(["grid", "macaron/glue/macaron-cola", "--cpu", *words], message, capsys)


def test_a_recipe_without_a_search_has_to_be_given_one(tmp_path, capsys):
    path = tmp_path / "r.yaml"
    base = recipes.CONFIGS / "glue" / "_protocol.yaml"
    rest = "data: {prepare: x, directory: d}\ntrain: {arch: roberta}\nvalidate: {subsets: {valid: dev}}\n"
    path.write_text(f"extends: {base}\ndescription: x\n{rest}")
    assert cli.main(["grid", str(path)]) == 1
    assert "r: has no search; must be given --values FLAG VALUE ... or --seeds SEED ..." in capsys.readouterr().err
    for search, message in (
        ("{}", "search.values is missing"),
        ("{values: {}}", "search.values: must name one flag or more with its values"),
        ("{values: {--lr: [1]}}", "search.values '--lr': must be a flag of fairseq-train, without dashes before it"),
        ("{values: {lr: []}}", r"search.values.lr []: must be different numbers or words, at least one"),
        ("{values: {lr: [1, 1]}}", r"search.values.lr [1, 1]: must be different numbers or words, at least one"),
        ("{values: {lr: [true]}}", r"search.values.lr [True]: must be different"),
        ("{values: {lr: 1}}", "search.values.lr must be list, got 1"),
        ("{values: {lr: [1]}, seeds: [x]}", "search.seeds[0] must be int, got 'x'"),
        ("{values: {lr: [1]}, seeds: [1, 1]}", "search.seeds [1, 1]: must be different numbers"),
    ):
        path.write_text(f"extends: {base}\ndescription: x\n{rest}search: {search}\n")
        with pytest.raises(recipes.RecipeError) as caught:
            recipes.load(str(path))
        assert str(caught.value).startswith(f"{path}: {message}")
    path.write_text(f"extends: {base}\ndescription: x\n{rest}search: {{values: {{lr: [1, 2]}}}}\nseeds: [3, 4]\n")
    assert cli.main(["recipe", "show", str(path)]) == 0
    shown = capsys.readouterr().out.replace("\n#   ", " ")
    assert f"# search: lr 1, 2; seeds 3, 4 (4 trainings, `ode-transformer grid {path}`)" in shown


def test_runs_are_compared_as_their_recipe_chooses_checkpoints():
    expected = {"cola": ("matthews",), "sts-b": ("pearson", "spearman")}
    for task in ("cola", "sst-2", "mrpc", "qqp", "sts-b"):
        assert grid.selection(recipes.load(f"macaron/glue/macaron-{task}")) == expected.get(task, ("accuracy",))
    mrpc = recipes.load("macaron/glue/macaron-mrpc")
    by_loss = replace(mrpc, train=replace(mrpc.train, flags=mrpc.train.flags | {"best-checkpoint-metric": "loss"}))
    assert grid.selection(by_loss) == ("accuracy", "f1")
    points = [
        {"flags": {"lr": "1"}, "seeds": [1, 2], "scores": [{"pearson": 80.0, "spearman": 90.0}, {}]},
        {"flags": {"lr": "2"}, "seeds": [1, 2], "scores": [{"pearson": 84.0, "spearman": 85.0}, {"pearson": None}]},
    ]
    lines = grid.summary(points, ("pearson", "spearman")).splitlines()
    assert lines[0] == "lr=1: pearson and spearman median diverged of 85, diverged"
    assert lines[2] == "best: pearson and spearman 85 with lr=1 seed=1"
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
    with pytest.raises(OdeTransformerError, match="--values batch-size x: must be a positive number"):
        grid.schedule(row, {"batch-size": "x"})


# Plain text


def test_documents_of_files_and_folders(tmp_path):
    write(tmp_path / "a", x_txt=["One.  Two! three", "Four"], y_txt=["", " "], z_txt=["<br />Five.<br/>Six?"])
    (tmp_path / "b").write_text("A b.\nC d.\n\n\nE f.\n")
    assert list(documents.documents(tmp_path / "a")) == [["One.  Two! three", "Four"], ["<br />Five.<br/>Six?"]]
    assert list(documents.documents(tmp_path / "b")) == [["A b.", "C d."], ["E f."]]
    lines = ['He said "No." Then left. i.e. not', "At 3.5 p.m. It <br />ended"]
    assert documents.sentences(lines, True) == ['He said "No."', "Then left. i.e. not", "At 3.5 p.m.", "It", "ended"]
    assert documents.sentences(lines, False) == ['He said "No." Then left. i.e. not', "At 3.5 p.m. It", "ended"]


@pytest.mark.parametrize(
    "use",
    [
        segmentation.opened,
        squad.cutter,
        lambda folder: subwords.segmented(["a"], "sentencepiece", folder / segmentation.OWN[0]),
    ],
    ids=["plain text", "SQuAD", "parallel text"],
)
def test_what_is_no_sentencepiece_model_is_named(tmp_path, use):
    (tmp_path / segmentation.OWN[0]).write_text("x")
    with pytest.raises(segmentation.SegmentationError, match=r"sentencepiece\.model: is not a SentencePiece model"):
        use(tmp_path)


def test_a_line_of_invisible_characters_does_not_end_a_document(tmp_path):
    documents_ = [[TEXT[i], "\u200b", TEXT[i + 1], ""] for i in range(0, 40, 2)]
    (tmp_path / "text").write_text("".join(f"{line}\n" for document in documents_ for line in document))
    words = ["documents", str(tmp_path / "text"), "--held-out", "5", "--size", "60", "--output-dir", str(tmp_path)]
    assert cli.main(words) == 0
    assert (tmp_path / "train").read_text().splitlines().count("") == 16
    assert (tmp_path / "valid").read_text().splitlines().count("") == 4


def test_text_is_cut_as_a_pretrained_model_says(tmp_path, like, capsys):
    lines = [line for i in range(20) for line in (*TEXT[3 * i : 3 * i + 3], "")]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    words = ["documents", str(tmp_path / "text"), "--held-out", "5"]
    assert cli.main([*words, "--like", str(like), "--output-dir", str(tmp_path / "out")]) == 0
    cut = segmentation.opened(like)
    train_lines = (tmp_path / "out" / "train").read_text().splitlines()
    assert train_lines[:4] == [*map(cut, TEXT[:3]), ""] and train_lines.count("") == 16
    assert (tmp_path / "out" / "valid").read_text().splitlines()[0] == cut(TEXT[12])
    assert not (tmp_path / "out" / "sentencepiece.model").exists()
    assert cli.main([*words, "--size", "60", "--output-dir", str(tmp_path / "own")]) == 0
    assert segmentation.files(tmp_path / "own") == segmentation.OWN
    assert segmentation.opened(tmp_path / "own")("GOOD") == segmentation.opened(tmp_path / "own")("good")
    for bad, message in (
        (
            ["documents", str(tmp_path / "absent"), "--output-dir", str(tmp_path / "x")],
            "absent: no such file or folder",
        ),
        ([*words, "--like", str(tmp_path), "--output-dir", str(tmp_path / "x")], "must hold sentencepiece.model, or"),
        (["documents", str(tmp_path / "text"), "--output-dir", str(tmp_path / "x")], "valid: must have a document"),
        (["documents", str(tmp_path / "own" / "train"), "--output-dir", str(tmp_path / "own")], "its train is an in"),
        (
            [*words, "--workers", "0", "--output-dir", str(tmp_path / "x")],
            "--workers: 0: must be a whole",
        ),
    ):
        refused(bad, message, capsys)


def test_the_bpe_of_gpt2(tmp_path):
    """Its two files, of one merge."""
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

    symbols = [*bytes_to_unicode().values(), "lo"]
    (tmp_path / "encoder.json").write_text(json.dumps({s: i for i, s in enumerate(symbols)}))
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\nl o\n")
    assert segmentation.files(tmp_path) == segmentation.GPT2
    numbers = segmentation.opened(tmp_path)("low")
    assert numbers.split() == [str(symbols.index("lo")), str(symbols.index("w"))]
    numbered = {s: i for i, s in enumerate(symbols)}
    for encoder, merges, message in (
        ([], "l o", "encoder.json: it must be a mapping"),
        (numbered | {"l": "x"}, "l o", "encoder.json: l must be a whole number"),
        (numbered | {"l": 0}, "l o", "two symbols have the same number"),
        ({"lo": 1}, "l o", "encoder.json: has no number for the symbol '!'"),
        (numbered, "l ow", "encoder.json: has no number for the symbol 'low'"),
        (numbered, "l o w", "vocab.bpe: line 2 is 'l o w', must be two symbols"),
    ):
        (tmp_path / "encoder.json").write_text(json.dumps(encoder))
        (tmp_path / "vocab.bpe").write_text(f"#version: 0.2\n{merges}\n")
        with pytest.raises(segmentation.SegmentationError, match=message):
            segmentation.opened(tmp_path)


def test_the_server_gets_a_file_of_every_test_set_that_is_there(tmp_path, monkeypatch, capsys):
    """MNLI's model predicts the diagnostic set, too; of WNLI the more frequent class is sent."""
    (tmp_path / "data" / "input0").mkdir(parents=True)
    monkeypatch.setattr(glue, "predict", lambda checkpoint, data, name, subset, *_: [f"{name} {subset}"])
    words = ["glue", "predict", "m.pt", "--task", "mnli", "--data", str(tmp_path / "data")]
    (tmp_path / "data" / "input0" / "test1.idx").touch()
    assert cli.main([*words, "--output-dir", str(tmp_path / "two")]) == 0
    assert "data: has no test2, of which no file is written" in capsys.readouterr().out
    (tmp_path / "data" / "input0" / "test2.idx").touch()
    assert cli.main([*words, "--output-dir", str(tmp_path / "three")]) == 0
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    files = {path.name: path.read_text() for path in (tmp_path / "three").iterdir()}
    assert files == {"MNLI-m.tsv": "mnli test\n", "MNLI-mm.tsv": "mnli test1\n", "AX.tsv": "mnli test2\n"}
    assert cli.main(["glue", "wnli", "--output-dir", str(tmp_path)]) == 0
    lines = (tmp_path / "WNLI.tsv").read_text().splitlines()
    assert lines[:2] == ["index\tprediction", "0\t0"] and lines[-1] == "145\t0" and len(lines) == 147


def test_a_diverged_model_predicts_nothing(tmp_path, monkeypatch):
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / "dict.txt").touch()
    scores = torch.tensor([[0.0, 1.0], [float("nan"), 0.0]])
    for module in (classification, glue):
        monkeypatch.setattr(module, "outputs", lambda *_: Outputs(scores, ["0", "1"], ["0", "1"]))
    assert glue.validate(tmp_path / "m.pt", tmp_path, "valid", 1, True) == [("0", "1"), ("1", "not a number")]
    with pytest.raises(OdeTransformerError, match=r"m.pt: its outputs on test are not all numbers"):
        glue.predict(tmp_path / "m.pt", tmp_path, "cola", "test", 1, True)


MNLI = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
MNLI += " sentence1 sentence2"
HEADERS = {
    ("mnli", "train"): f"{MNLI} label1 gold_label",
    ("mnli", "valid"): f"{MNLI} label1 label2 label3 label4 label5 gold_label",
    ("mnli", "test"): MNLI,
    ("mnli", "test2"): "index sentence1 sentence2",
    ("qqp", "train"): "id qid1 qid2 question1 question2 is_duplicate",
    ("qqp", "test"): "id question1 question2",
    ("qnli", "train"): "index question sentence label",
    ("rte", "train"): "index sentence1 sentence2 label",
    ("sst-2", "train"): "sentence label",
    ("sst-2", "test"): "index sentence",
    ("sts-b", "train"): "index genre filename year old_index source1 source2 sentence1 sentence2 score",
    ("mrpc", "train"): "Quality ID1 ID2 String1 String2",
}


def test_columns_are_those_of_the_published_archive():
    """The miniatures are written from the same table that the code reads."""
    for (name, split), header in HEADERS.items():
        its, columns = glue.GLUE[name].splits[split], header.split()
        assert all(re.fullmatch("(sentence|question|String)[12]?", columns[i]) for i in its.inputs), (name, split)
        assert (its.label is None) == split.startswith("test")
        if its.label is not None:
            assert columns[its.label] in ("gold_label", "is_duplicate", "label", "score", "Quality")
