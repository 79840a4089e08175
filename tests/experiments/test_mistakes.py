"""Common mistakes end in a sentence that names what was given, in every command, and never in a traceback."""

import os
from pathlib import Path

import pytest
import yaml

from ode_transformer import machine
from ode_transformer.experiments import cli
from ode_transformer.experiments.runs import processes, runner
from tests.helpers import SMALL, dictionary, refused

MISSING = {
    "average": ["average", "{}", "--last-epochs", "2", "--output", "out"],
    "check": ["check", "{}", "--data", "{}"],
    "warm-start": ["warm-start", "{}", "--arch", "floater_tiny", "--output", "out"],
    "predict": ["predict", "{}", "--data", "{}", "--output", "out"],
    "score": ["score", "--generate-output", "{}", "--target-lang", "de"],
    "export": ["export", "{}", "--format", "ctranslate2", "-o", "out"],
    "bundle": ["bundle", "{}", "-o", "out"],
    "translate": ["translate", "{}"],
    "plot positions": ["plot", "positions", "{}", "--output", "out.png"],
    "plot training": ["plot", "training", "{}", "--output", "out.png"],
    "plot costs": ["plot", "costs", "{}", "--output", "out.png"],
    "plot coefficients": ["plot", "coefficients", "{}", "--text", "{}", "--dictionary", "{}", "--output", "out.png"],
    "plot confusion": ["plot", "confusion", "{}", "--output", "out.png"],
    "record": ["record", "quickstart/macaron-tiny", "--run-dir", "{}", "--output", "out"],
    "report": ["report", "{}"],
    "dataset documents": ["dataset", "documents", "{}", "--valid", "{}", "--output-dir", "out"],
    "dataset glue": ["dataset", "glue", "cola", "{}", "--like", "{}", "--output-dir", "out"],
    "glue": ["glue", "{}", "--task", "cola", "--data", "{}", "--output-dir", "out"],
    "generate": ["generate", "quickstart/macaron-tiny", "--run-dir", "{}", "--output", "out"],
    "bench serving": ["bench", "serving", "{}", "--text", "{}"],
    "bench table": ["bench", "table", "{}"],
    "prepare": ["prepare", "--train", "{}", "--langs", "de", "en", "--out", "out"],
    "recipe": ["recipe", "show", "{}.yaml"],
    "text": ["text", "describe", "{}", "--langs", "de", "en"],
}


def said(capsys, words) -> str:
    """What a command says that fails."""
    capsys.readouterr()
    try:
        status = cli.main([str(word) for word in words])
    except SystemExit as ended:
        assert isinstance(ended.code, str) and ended.code.startswith("error: "), ended
        return ended.code
    assert status == 1
    return capsys.readouterr().err


def test_a_name_that_is_not_utf8_is_named_where_it_would_be_noted(tmp_path, capsys):
    name = os.fsdecode(os.fsencode(tmp_path / "Ger") + "ä".encode("latin-1"))
    for lang in ("de", "en"):
        Path(f"{name}.{lang}").write_text("a\n" * 9)
    message = said(capsys, ["prepare", "--train", name, "--langs", "de", "en", "--out", tmp_path / "out"])
    assert "Ger\\udce4" in message and "must be UTF-8" in message


@pytest.mark.parametrize("name", MISSING)
def test_a_file_or_folder_that_is_not_there_is_named(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    message = said(capsys, [word.format(tmp_path / "missing") for word in MISSING[name]])
    assert "error: " in message and "missing" in message and len(message) < 1_000
    out = tmp_path / "out"
    assert not any(path.is_file() for path in (out, out.with_suffix(".png"), *out.rglob("*"))), "nothing half-way"


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """A recipe whose data are not there, of programs that do nothing."""
    monkeypatch.setattr(processes, "launch", lambda *_: 0)
    monkeypatch.setattr(machine, "commit", lambda: "")
    flags = {**SMALL, "share-all-embeddings": True, "optimizer": "adam", "max-tokens": 99, "max-update": 2}
    tree = {
        "description": "a mistake",
        "data": {"prepare": "true", "directory": str(tmp_path / "data"), "source": "xx", "target": "yy"},
        "train": {"arch": "macaron_tiny", "batches": 1, "flags": flags},
        "average": {"best": 1},
        "generate": {"subsets": {"test": "tiny"}, "beam": 2, "lenpen": 1.0},
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tree))
    return tmp_path / "tiny.yaml"


def test_data_of_a_recipe_that_are_not_there(recipe, tmp_path, capsys):
    words = ["run", recipe, "--cpu", "--run-dir", tmp_path / "run"]
    assert f"{tmp_path / 'data'}: no such folder; this should have made it: true" in said(capsys, words)


def test_damaged_data_are_not_read(recipe, tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    for lang in ("xx", "yy"):
        dictionary(30).save(str(tmp_path / "data" / f"dict.{lang}.txt"))
        (tmp_path / "data" / f"train.xx-yy.{lang}.idx").write_bytes(b"x" * 40)
    message = said(capsys, ["run", recipe, "--cpu", "--run-dir", tmp_path / "run"])
    assert "train.xx-yy.xx.idx: is not an index of fairseq" in message
    assert not (tmp_path / "run" / "run.json").exists()
    (tmp_path / "run" / "average.pt").touch()
    monkeypatch.setattr(runner.checkpoints, "check", lambda *_: None)
    words = ["generate", recipe, "--cpu", "--run-dir", tmp_path / "run", "--output", tmp_path / "out"]
    assert "train.xx-yy.xx.idx: is not an index of fairseq" in said(capsys, words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "quickstart/macaron-tiny", "--cpu", "--seed", "-1"], "--seed -1: must be 0 or more"),
        (["run", "quickstart/macaron-tiny", "--cpu", "--seeds", "1", "1"], "--seeds: 1 is given twice"),
        (["run", "quickstart/macaron-tiny", "--cpu", "--", "--update-freq=2"], "--update-freq: is set by train.batch"),
        (["run", "quickstart/macaron-tiny", "--cpu", "--", "--seed=5"], "-- --seed: is set by --seed, before the --"),
        (["recipe", "show", "quickstart"], r"name one of its rows, as quickstart/ROW: transformer-tiny"),
        (["recipe", "show", "multi30k-short/macaron-tin"], "no row 'macaron-tin'; there are: transformer-tiny"),
        (["recipe", "show", "multi30k-shrot/macaron-tiny"], "; the nearest are: multi30k-short/macaron-tiny, "),
        (["recipe", "show", "multi30k"], "; the nearest are: multi30k-base, "),
        (["table", "quickstart", "--results", "none"], "--results none: no such folder"),
    ],
)
def test_what_is_asked_for_is_named(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refused(words, message, capsys)
