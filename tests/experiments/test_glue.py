"""GLUE: tables of every task, scores as scikit-learn takes them, what the server gets, and the rows of recipes."""

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

from ode_transformer.checkpoints.standalone import pair_form
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.metrics import METRICS
from ode_transformer.experiments.metrics.scoring import score_labels
from ode_transformer.experiments.tasks import TASKS, encoders, generated, glue
from ode_transformer.experiments.tasks.encoders import Outputs, outputs, predictions
from ode_transformer.files import write_lines
from tests.helpers import output_of, own_subwords, raises, refused
from tests.models.test_masked_lm import train


@pytest.fixture(scope="module")
def like(tmp_path_factory):
    """What cuts text, learned on some, and its dictionary."""
    folder = tmp_path_factory.mktemp("like")
    generated.write("glue-cola", folder, 40, 2)
    return own_subwords(folder, [text for text, _ in glue.examples(glue.GLUE["cola"], folder / "CoLA", "train")], 100)


def table(path, rows, heading=True):
    heads = [[f"h{i}" for i in range(len(rows[0]))]] if heading else []
    write_lines(path, map("\t".join, [*heads, *rows]))


def test_colas_own_archive_and_lines_of_qqp_that_are_broken(tmp_path, like):
    raw = tmp_path / "CoLA" / "raw"
    for name, count in (("in_domain_train", 5), ("in_domain_dev", 3), ("out_of_domain_dev", 2)):
        table(raw / f"{name}.tsv", [["gj04", str(i % 2), "", f"Text {i}."] for i in range(count)], heading=False)
    assert glue.prepare("cola", tmp_path, like, tmp_path / "out") == {"train": 5, "valid": 5}
    generated.write("glue-qqp", tmp_path, 12, 1)
    with (tmp_path / "QQP" / "train.tsv").open("a") as file:
        file.write("a\tb\n")
    assert glue.prepare("qqp", tmp_path, like, tmp_path / "qqp")["train"] == 12
    raises(r"train: .*RTE/train.tsv must be there", glue.prepare, "rte", tmp_path, like, tmp_path / "rte")
    table(tmp_path / "RTE" / "train.tsv", [["0", "x"]])
    raises(r"train.tsv: line 2 has 2 columns, too few", glue.prepare, "rte", tmp_path, like, tmp_path / "rte")
    table(tmp_path / "RTE" / "train.tsv", [["0", "entailment", "x", "y"]])
    said = "train.tsv: line 2 has the label 'y', must be not_entailment or entailment"
    raises(said, glue.prepare, "rte", tmp_path, like, tmp_path / "rte")
    table(tmp_path / "STS-B" / "train.tsv", [[*"0123456", "one", "two", "good"]])
    raises("STS-B: train: .*'good'; labels must be numbers", glue.prepare, "sts-b", tmp_path, like, tmp_path / "sts")


@pytest.mark.parametrize(
    ("name", "more", "metrics"),
    [
        ("cola", {"arch": "roberta", "report-mcc": True, "num-classes": 2}, ["matthews"]),  # fairseq's own
        # In the form of BERT: one end between the sentences.
        pytest.param("mrpc", {"report-acc-and-f1": True, "num-classes": 2, "separator-token": None,
                              "task": "sentence_prediction_of_pairs", "swap-pairs": True},
                     ["accuracy", "f1"], marks=pytest.mark.full),
        ("sts-b", {"report-pearson-and-spearman": True, "num-classes": 1, "regression-target": True,
                   "best-checkpoint-metric": "pearson_and_spearman"}, ["pearson", "spearman"]),
    ],
)  # fmt: skip
def test_from_tables_to_scores_and_server_files(tmp_path, like, capsys, name, more, metrics):
    generated.write(f"glue-{name}", tmp_path / "raw", 80, 1)
    assert glue.prepare(name, tmp_path / "raw", like, tmp_path / "symbols") == {"train": 80, "valid": 10, "test": 10}
    words = ["text", "binarise", str(data := tmp_path / "bin"), str(tmp_path / "symbols")]
    words += ["--dictionary", str(like / "dict.txt")]
    assert cli.main([*words, *["--copy-labels"] * (name == "sts-b")]) == 0  # as data-prep/prepare-glue.sh does
    values = {"task": "sentence_prediction", "criterion": "sentence_prediction", "save-dir": tmp_path / "run"}
    train(data, **values | {"init-token": 0, "separator-token": 2, "max-positions": 60} | more)
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"

    model = [str(checkpoint), "--data", str(data), "--batch-size", "7", "--cpu"]
    assert cli.main(["predict", *model, "--subset", "valid", "--output", str(tmp_path / "valid.tsv")]) == 0
    assert ("its outputs are taken for 0, 1, as in " in capsys.readouterr().err) == (name != "sts-b")
    words = ["score", "--predictions", str(tmp_path / "valid.tsv"), "--output", str(tmp_path / "score.json")]
    assert cli.main([*words, *(word for metric in metrics for word in ("--metric", metric))]) == 0
    scores = json.loads((tmp_path / "score.json").read_text())
    assert {"sentences", *metrics} == set(scores) and scores["sentences"] == 10
    golds = [line.split("\t")[0] for line in (tmp_path / "valid.tsv").read_text().splitlines()]
    assert golds == (tmp_path / "symbols" / "valid.label").read_text().split()

    assert cli.main(["glue", *model, "--task", name, "--output-dir", str(tmp_path / "server")]) == 0
    lines = (tmp_path / "server" / f"{glue.GLUE[name].folder}.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction" and [line.split("\t")[0] for line in lines[1:]] == list(map(str, range(10)))
    sent, found = [float(line.split("\t")[1]) for line in lines[1:]], outputs(checkpoint, data, "test", 5, True)
    predicted = [float(label) for label in found.taken()]
    if name == "sts-b":  # the server's are not divided, and clamped
        predicted = pytest.approx([min(max(5 * one, 0), 5) for one in predicted], abs=1e-5)
    assert sent == predicted and found.golds is None
    raises("subset test has no labels; try --subset valid", predictions, checkpoint, data, "test", 7, True)
    wrong = "is of another task: its labels must be contradiction, neutral, entailment, are (0, 1|numbers)$"
    raises(wrong, glue.submit, checkpoint, data, "mnli", 7, True, tmp_path)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("01"), st.sampled_from("01")), min_size=1, max_size=30))
def test_scores_of_classes_are_those_of_scikit_learn(pairs):
    golds, taken = zip(*pairs, strict=True)
    found = score_labels(golds, taken, ["accuracy", "matthews", "f1"])
    x, y = ([int(label) for label in labels] for labels in (golds, taken))
    assert found["matthews"]["value"] == pytest.approx(100 * matthews_corrcoef(x, y))
    assert found["f1"]["value"] == pytest.approx(100 * f1_score(x, y, zero_division=0))
    assert found["accuracy"]["value"] == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))


def test_correlations_and_their_interval():
    """The values are scipy's; by Fisher, the half width of atanh(r) is 1.96 / sqrt(997), of r times 1 - r^2."""
    random = np.random.default_rng(1)
    x = random.normal(size=1000)
    y = 0.6 * x + 0.8 * random.normal(size=1000)
    x, y = x.round(1), y.round(1)  # some are equal
    found = score_labels([str(v) for v in x], [str(v) for v in y], ["pearson", "spearman"])
    assert found["pearson"]["value"] == pytest.approx(100 * pearsonr(x, y)[0])
    assert found["spearman"]["value"] == pytest.approx(100 * spearmanr(x, y)[0])
    low, high = found["pearson"]["interval"]
    assert low < 60 < high and high - low == pytest.approx(200 * 1.96 / 997**0.5 * 0.64, rel=0.15)


@pytest.mark.parametrize("name", ["accuracy", "f1", "pearson"])
def test_outputs_that_are_no_numbers_have_no_score(name):
    found = score_labels(["0", "1", "0"], ["1", "not a number", "0"], [name])[name]
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
        assert set(TASKS["glue"].metrics(recipe)) <= set(METRICS)
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
    model = {"encoder.embed_tokens.weight": torch.zeros(5, 2)}

    def form(task="sentence_prediction", separator=None):
        options = {"_name": task, "init_token": 0, "separator_token": separator, "data": "x"}
        return pair_form({"cfg": {"task": options}, "model": model}, "x.pt", "sentence_prediction", "other")

    assert form() == form("other") == {"init_token": 0, "separator_token": None} and form(separator=4) != form()
    raises("was trained with --task 'masked_lm', must be sentence_prediction or other", form, "masked_lm")
    for value in ("2", 5, -1, True, [2]):
        raises(r"its option separator_token is .*, must be the number of a symbol", form, separator=value)


def test_the_server_gets_a_file_of_every_test_set_that_is_there(tmp_path, monkeypatch):
    """MNLI's model predicts the diagnostic set, too."""
    (tmp_path / "data" / "input0").mkdir(parents=True)
    classes = list(glue.GLUE["mnli"].labels)
    scores = {name: torch.eye(3)[i : i + 1] for i, name in enumerate(("test", "test1", "test2"))}
    monkeypatch.setattr(glue, "outputs", lambda checkpoint, data, subset, *_: Outputs(scores[subset], None, classes))
    words, files = ["glue", "m.pt", "--task", "mnli", "--data", str(tmp_path / "data"), "--output-dir"], {}
    for folder, more in (("two", "test1"), ("three", "test2")):
        (tmp_path / "data" / "input0" / f"{more}.idx").touch()
        assert cli.main([*words, str(tmp_path / folder)]) == 0
        files[folder] = {path.name: path.read_text().splitlines()[1:] for path in (tmp_path / folder).iterdir()}
    expected = {"MNLI-m.tsv": ["0\tcontradiction"], "MNLI-mm.tsv": ["0\tneutral"]}
    assert files == {"two": expected, "three": expected | {"AX.tsv": ["0\tentailment"]}}


def test_predictions_of_a_development_set_are_scored_and_taken_for_nothing_else(tmp_path, capsys):
    file, golds = tmp_path / "rte.tsv", tmp_path / "golds"
    file.write_text("1\t1\n0\t1\n")
    golds.write_text("1\n0\n")
    assert "accuracy = 50.00 [0.00, 100.00]" in output_of(["score", "--predictions", file], capsys).out
    refused(["score", "--predictions", str(golds)], "line 1: must be a label, the predicted label", capsys)


def test_a_diverged_model_predicts_nothing(tmp_path, monkeypatch):
    scores = torch.tensor([[0.0, 1.0], [float("nan"), 0.0]])
    monkeypatch.setattr(encoders, "outputs", lambda *_: Outputs(scores, ["0", "1"], ["0", "1"]))
    found = predictions(tmp_path / "m.pt", tmp_path, "valid", 1, True)
    assert found == [("0", "1", "0.731059"), ("1", "not a number", "nan")]


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
        label = None if its.label is None else columns[its.label]
        assert label in ([None] if "test" in split else ["gold_label", "is_duplicate", "label", "score", "Quality"])


def test_double_blanks_remain(tmp_path):
    table(tmp_path / "train.tsv", [["0", " a  b ", "c", "entailment"]])
    assert list(glue.examples(glue.GLUE["rte"], tmp_path, "train")) == [["a  b", "c", "entailment"]]
