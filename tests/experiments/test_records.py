"""Logs are read into curves; what is no log, or a run without its scores, is named."""

import json
from dataclasses import replace

import pytest

from ode_transformer.experiments import cli, recipes, records, runs
from ode_transformer.experiments.metrics import METRICS
from ode_transformer.experiments.records import RunError, logs
from ode_transformer.experiments.results import comparisons, significance, tables
from ode_transformer.experiments.results.files import read_records
from ode_transformer.experiments.runs import command_lines, recording
from ode_transformer.experiments.tasks import TASKS
from ode_transformer.experiments.text.lines import read_all
from ode_transformer.files import read_json, sha256, write_json
from tests.helpers import ROOT, own_quickstart, raises, refused, write_generated, write_run

HEAD = "2026-01-01 00:00:00 | INFO | fairseq_cli.train | task: TranslationTask\n"
# The first line of a process.
CONFIG = "2026-01-01 00:00:00 | INFO | fairseq_cli.train | {'_name': None, 'common': {'seed': 1}}\n"


def line(kind, at="00:00:00", **values):
    prefix = "" if kind == "train_inner" else f"{kind}_"
    body = {"epoch": values.pop("epoch"), **{prefix + k: str(v) for k, v in values.items()}}
    return f"2026-01-01 {at} | INFO | {kind} | {json.dumps(body)}\n"


def test_a_log_becomes_a_curve(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        CONFIG
        + HEAD
        + line("train_inner", epoch=1, loss=9.5, num_updates=5)
        + line("valid", epoch=1, loss=8.0, ppl=100.5, num_updates=7, wps=9)
        + line("train", epoch=1, loss=9.0, ppl=200, gnorm=1.5, wps=1000, num_updates=7)
        + "noise\n"
        + f"2026-01-01 00:00:15 | WARNING | fairseq.trainer | {logs.OUT_OF_MEMORY}\n"
        + line("train", "00:00:20", epoch=2, loss=7.0, ppl=90, gnorm=1.0, wps=1000, wall=20, num_updates=14)
        # stopped, and resumed within an epoch a minute later: fairseq's clock stands still
        + "2026-01-01 00:01:20 | INFO | fairseq.tasks.text_to_speech | a line before the configuration\n"
        + CONFIG
        + HEAD
        + line("train", "00:00:26", epoch=3, loss=6.0, ppl=80, gnorm=1.0, wps=1000, wall=0, num_updates=21)
        # stopped within an epoch, after a validation there
        + line("valid", "00:00:28", epoch=4, loss=5.5, ppl=70, num_updates=24)
        # and after the clock was set back
        + line("train_inner", "00:00:08", epoch=4, loss=5.25, num_updates=25)
    )
    log = logs.read_log(path)
    assert (
        log["seconds"] == 20 + 28
        and log["interruptions"] == 1
        and log["out_of_memory"] == 1
        and log["ended"] == "2026-01-01 00:00:08"
    )
    assert [e["epoch"] for e in log["curve"]] == [1, 2, 3]
    assert log["training"] == [{"num_updates": 5, "loss": 9.5}, {"num_updates": 25, "loss": 5.25}]
    assert [tuple(e.values()) for e in log["validation"]] == [(7, 8.0, 100.5), (24, 5.5, 70.0)], "no wps"
    assert log["curve"][0] == {
        "epoch": 1, "num_updates": 7, "train_loss": 9.0, "train_ppl": 200.0, "train_gnorm": 1.5, "train_wps": 1000.0,
        "valid_loss": 8.0, "valid_ppl": 100.5,
    }  # fmt: skip


def test_an_entry_that_a_kill_cut_short_is_left_out(tmp_path):
    """The next process appends to the line."""
    path = tmp_path / "train.log"
    first, second = (line("train", epoch=i, loss=1.0 / i, num_updates=i) for i in (1, 2))
    cut = line("valid", epoch=2, loss=7.0, num_updates=2)[:-20]
    path.write_text(HEAD + first + cut + CONFIG + HEAD + second + line("valid", epoch=2, loss=5.0, num_updates=2))
    assert [entry.get("valid_loss") for entry in logs.read_log(path)["curve"]] == [None, 5.0]


def test_what_is_no_log_is_named(tmp_path):
    number = line("train", epoch=1, num_updates="None")
    for text in ("", "a poem", HEAD, number, line("train", epoch=1)):
        (tmp_path / "x.log").write_text(text)
        said = r"is not a log .*: \w+Error" if "epoch" in text else "has no finished epoch in the form of fairseq-train"
        raises(rf"x\.log: {said}", logs.read_log, tmp_path / "x.log")


def test_a_score_that_is_older_than_the_model_is_not_recorded(tmp_path):
    recipe = recipes.load("quickstart/macaron-tiny")
    done = {"command": [], "line": "", "seconds": 1}
    write_run(tmp_path, recipe=recipe.name, scale="full")
    write_json(tmp_path / "steps.json", {"average": done, "score x": done})
    message = r"the score of test is missing, or older .*with ode-transformer run quickstart/macaron-tiny"
    raises(message, recording.record, recipe, tmp_path)
    rows = (recipe, recipes.load("quickstart/transformer-tiny"))
    one, other = (significance.System(row, tmp_path) for row in rows)
    raises(message, significance.compare, one, [other])


def test_a_run_of_another_file_of_the_same_name_is_not_taken_for_this_one(tmp_path):
    own = (own_quickstart(tmp_path / folder / "exp.yaml") for folder in ("one", "two"))
    one, two = (recipes.load(f"{path}/macaron-tiny") for path in own)
    with pytest.raises(RunError, match=r"a run of .*/one/exp\.yaml/mac.*, not of .*/two/exp.*the same name"):
        runs.check_file({"given": one.given}, recipes.default_run_dir(two), two)
    (tmp_path / "one" / "exp.yaml").unlink()  # as if it had been moved
    runs.check_file({"given": one.given}, recipes.default_run_dir(two), two)


def test_a_run_that_was_not_begun_or_is_of_another_recipe_is_not_recorded(tmp_path):
    recipe = recipes.load("quickstart/macaron-tiny")
    raises(r"run\.json: no such file; ode-transformer run writes it", recording.record, recipe, tmp_path)
    raises(r"scores/test\.json: cannot be read", records.read_scores, tmp_path / "scores" / "test.json")
    write_run(tmp_path, recipe="quickstart/rk2-tiny", scale="small")
    raises("a run of quickstart/rk2-tiny --scale small, not of quickstart/mac", recording.record, recipe, tmp_path)


OTHERS = {"lab", "bench", "baselines", comparisons.SIGNIFICANCE, "rehearsal.json", "contest.json", "unfinished.json"}
FILES = sorted((ROOT / "results").rglob("*.json"))
RECORDS = [path for path in FILES if not OTHERS & set(path.relative_to(ROOT / "results").parts)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda p: p.stem)
def test_a_committed_record_says_what_was_run(path):
    """And lies where its recipe says, by seed and precision, so that none is there twice or is of another run."""
    record = records.read_record(path)
    recipe = recipes.load(record["recipe"])
    place = path.relative_to(ROOT / "results").as_posix().removeprefix("gpu/")  # where gpu-suite has its own
    precision = "" if record["precision"] == "fp32" else f".{record['precision']}"
    assert place in (f"{record['recipe']}{seed}{precision}.json" for seed in ("", f".seed-{record['seeds'][0]}"))
    assert record["scale"] == "full"
    assert set(record["scores"]) <= set(recipe.subsets.values())
    for score in record["scores"].values():
        if "accuracy" in score:  # earlier versions had another for GLUE
            assert METRICS["accuracy"].recorded_signature(score) == "percent of examples"
        for metric in TASKS[recipe.task].metrics(recipe) if recipe.task != "correction" else ():
            assert METRICS[metric].value(score) is not None
        assert recipe.task != "translation" or "version:" in METRICS["sacrebleu"].recorded_signature(score)
    if recipe.task == "correction":  # F0.5 needs programs that are not everywhere, and GLEU is of JFLEG alone
        assert METRICS["gleu"].value(record["scores"]["jfleg_test"]) is not None
    assert record["hardware"]
    assert {"torch", "fairseq-fixed", "commit"} <= set(record["versions"])
    assert "/tmp" not in path.read_text() and "/home" not in path.read_text()
    for test_set, score in record["scores"].items():
        beside, known = records.translations_beside(path, test_set), record.get("translations", {}).get(test_set)
        assert (sha256(beside) if beside.is_file() else None) == known
        assert known is None or len(read_all(beside)) == score["sentences"]


@pytest.mark.parametrize(("plain", "line"), [(False, "a well-known man's"), (True, "a well @-@ known man &apos;s")])
def test_translations_are_kept_beside_a_record(tmp_path, monkeypatch, plain, line):
    recipe = replace(recipes.load("quickstart/rk2-tiny"), score=recipes.Score(plain=plain))
    write_generated(tmp_path / "generate" / "generate-test.txt", ["a well @-@ known man &apos;s"])
    monkeypatch.setattr(recipes, "load", lambda *args, **kwargs: recipe)
    monkeypatch.setattr(recording, "record", lambda *args: {})
    output = tmp_path / "rk2.json"
    assert cli.main(["record", "any", "--run-dir", str(tmp_path), "--output", str(output), "--translations"]) == 0
    beside = tmp_path / "rk2.generated.txt"
    assert read_all(beside) == [line]
    assert json.loads(output.read_text()) == {"translations": {"generated": sha256(beside)}}


MEASURED = [f for f in FILES if {"lab", "bench"} & set(f.parts[-3:-1]) and f.parent.name != "nvidia-h200"]
"""The records of the laboratory and of contests; those of a GPU have another form."""


@pytest.mark.parametrize("path", MEASURED, ids=str)
def test_a_committed_measurement_says_what_was_run(path):
    record = read_json(path)
    assert {"torch", "fairseq-fixed", "commit"} <= set(record["versions"])
    assert "lab" in path.relative_to(ROOT).parts or record["hardware"]["threads"]
    assert "/tmp" not in path.read_text() and "/home" not in path.read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "bench").rglob("tables.md")), ids=lambda p: p.parent.name)
def test_tables_of_the_benchmark_are_those_of_the_records(path, capsys):
    gone = ("preparation", "serving", ".profile")  # measurements of earlier versions, which have no table any more
    measured = sorted(str(p) for p in path.parent.glob("*.json") if not any(name in p.name for name in gone))
    assert cli.main(["bench", "table", *measured]) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8"), "`ode-transformer bench table` prints it"


def test_a_file_that_is_no_record_of_a_benchmark_has_no_table(tmp_path, capsys):
    for content, wrong in (({"what": ["training"]}, "what must be one of training, "), ([1], "it must be a mapping")):
        write_json(tmp_path / "x.json", content)
        refused(["bench", "table", str(tmp_path / "x.json")], f"of a benchmark that has a table: {wrong}", capsys)


def test_no_comparison_without_the_records_it_compares():
    compared = comparisons.read(tables.RESULTS)
    files = (tables.RESULTS / comparisons.SIGNIFICANCE).rglob("*.json")
    assert {row.file for row in compared} == {path.name.removesuffix(".json") for path in files}
    assert comparisons.up_to_date(compared, read_records(tables.RESULTS)) == compared


def test_a_run_says_the_model_of_stock_architectures_too():
    words = "data --task translation --source-lang a --target-lang b --arch transformer --encoder-embed-dim 24"
    options = runs.model_options(command_lines.configuration(words.split()))
    assert options["encoder_embed_dim"] == 24 and options["encoder_layers"]
    assert not {"save_dir", "data", "lr", "max_update"} & set(options)
