"""A metric of one's own, by the lines of docs/extending.md, is scored, recorded, shown and compared like any other."""

import json
import re
from dataclasses import replace

import pytest

from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.metrics import METRICS, Metric, register
from ode_transformer.experiments.results import significance
from ode_transformer.experiments.tasks import TASKS
from tests.helpers import ROOT, output_of, own_quickstart, raises, refused


@pytest.fixture(autouse=True)
def registered():
    before = dict(METRICS)
    METRICS.pop("length_ratio", None)  # of another test's plugin
    section = (ROOT / "docs" / "extending.md").read_text().partition("## A metric")[2]
    exec(re.search(r"```python\n(.*?)```", section, re.S)[1], {})
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.fixture()
def files(tmp_path):
    """Three translations of a hundred sentences, and the reference: the second has a word more, the third as many."""
    texts = {"ref": "a b c d", "first": "a b c x", "longer": "a b c x y", "other": "a b d d"}
    for name, line in texts.items():
        (tmp_path / name).write_text(f"{line}\n" * 100)
    return {name: str(tmp_path / name) for name in texts}


def test_it_is_scored_and_compared_in_files(files, capsys):
    words = ["score", "--hyp", files["longer"], "--ref", files["ref"], "--target-lang", "en"]
    words += ["--metric", "length_ratio"]
    assert "length ratio                 length ratio = 1.25\n  signature    " in output_of(words, capsys).out
    words = ["compare", *list(files.values())[1:], "--ref", files["ref"], "--metric", "length_ratio"]
    rows = [line.split(" | ") for line in output_of(words, capsys).out.splitlines() if line.startswith("| /")]
    assert rows[0][1:] == ["1.00", "[1.00, 1.00]", "", "baseline", " |"]
    assert rows[1][1:4] == ["1.25", "[1.25, 1.25]", "+0.25 [+0.25, +0.25]"] and float(rows[1][4]) < 0.01
    assert rows[2][1] == "1.00" and rows[2][4] == "1.0000"
    both = [files["first"], files["other"]]
    found = significance.compare_files(both, [files["ref"]], samples=9, target_lang="zh", lowercase=True)
    assert {"case:lc", "tok:zh"} <= set(found["signature"].split("|"))


def test_digits_are_those_of_the_metric_wherever_a_value_is_printed(files, capsys):
    METRICS["length_ratio"] = replace(METRICS["length_ratio"], digits=4)
    ref = ["--ref", files["ref"], "--metric", "length_ratio"]
    words = ["score", "--hyp", files["longer"], "--target-lang", "de", *ref]
    assert "length ratio = 1.2500" in output_of(words, capsys).out
    shown = output_of(["compare", files["first"], files["longer"], *ref], capsys).out
    assert "| 1.2500 | [1.2500, 1.2500] | +0.2500 [+0.2500, +0.2500] |" in shown


def test_it_is_a_column_of_tables_and_reports(tmp_path, capsys):
    own = own_quickstart(tmp_path / "own.yaml", "score: {metrics: [length_ratio, ter]}\n")
    recipe = recipes.load(f"{own}/rk2-tiny")
    (step,) = (step for step in TASKS["translation"].evaluation(recipe, "runs/x", []) if step.name == "score")
    assert "--metric ter --metric length_ratio" in " ".join(step.command)
    record = json.loads((ROOT / "results" / "quickstart" / "rk2-tiny.json").read_text())
    record["recipe"] = "own/rk2-tiny"
    record["scores"]["generated"]["length_ratio"] = {"value": 1.125, "signature": "words"}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "record.json").write_text(json.dumps(record))
    shown = output_of(["table", own, "--measured", "--results", tmp_path / "runs"], capsys).out
    assert "measured: generated, length ratio" in shown and "| 1.12 |" in shown and "length ratio: `words`" in shown
    assert cli.main(["report", str(tmp_path / "runs")]) == 0
    assert "generated, length ratio" in (tmp_path / "runs" / "report.html").read_text()


def test_names_that_are_taken_or_unknown(tmp_path, files, capsys):
    raises("metric rouge: there is one of that name already", register, Metric("rouge", "mine"))
    two, ref = ["compare", files["first"], files["other"]], ["--ref", files["ref"]]
    (tmp_path / "generated").write_text("S-0\ta\nH-0\t-0.1\tb\n")
    refused([*two, *ref, "--metric", "lengthratio"], "is length_ratio; one of a plugin needs --user-dir", capsys)
    refused([*two, *ref, "--metric", "comet"], "--metric comet: needs references and sources", capsys)
    refused([*two, *ref, "--seed", "3"], "--seed go with recipes; ", capsys)
    refused([*two, "--lowercase"], "--lowercase with --ref FILE", capsys)
    refused(["compare", str(tmp_path), two[-1]], "configs/ .*a folder needs run.json, and files of text need", capsys)
    refused(["compare", str(tmp_path / "generated"), two[-1], *ref], "ed: is of an output of fairseq-generate", capsys)
    for metric in ("lenght", "accuracy", "perplexity"):  # unknown, of labels, of a log
        own = own_quickstart(tmp_path / "own.yaml", f"score: {{metrics: [{metric}]}}\n")
        refused(["recipe", "show", f"{own}/rk2-tiny"], f"score.metrics '{metric}'", capsys)
