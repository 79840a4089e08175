"""Common mistakes end in a sentence that names what was given, in every command, and never in a traceback."""

import pytest
import yaml

from ode_transformer import machine
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
    "plot coefficients": ["plot", "coefficients", "{}", "--text", "{}", "--dictionary", "{}", "--output", "out.png"],
    "record": ["record", "quickstart/macaron-tiny", "--run-dir", "{}", "--output", "out"],
    "report": ["report", "{}"],
    "dataset documents": ["dataset", "documents", "{}", "--valid", "{}", "--output-dir", "out"],
    "dataset glue": ["dataset", "glue", "cola", "{}", "--like", "{}", "--output-dir", "out"],
    "glue": ["glue", "{}", "--task", "cola", "--data", "{}", "--output-dir", "out"],
    "generate": ["generate", "quickstart/macaron-tiny", "--run-dir", "{}", "--output", "out"],
    "bench table": ["bench", "table", "{}"],
    "prepare": ["prepare", "--train", "{}", "--langs", "de", "en", "--out", "out"],
    "recipe": ["recipe", "show", "{}.yaml"],
    "text": ["text", "describe", "{}", "--langs", "de", "en"],
}


@pytest.mark.parametrize("name", MISSING)
def test_a_file_or_folder_that_is_not_there_is_named(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refused([word.format(tmp_path / "missing") for word in MISSING[name]], f"{tmp_path}/missing", capsys)
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


def test_data_that_are_not_there_or_damaged_are_not_read(recipe, tmp_path, monkeypatch, capsys):
    words, data = [str(recipe), "--cpu", "--run-dir", str(tmp_path / "run")], tmp_path / "data"
    refused(["run", *words], f"{data}: no such folder; this should have made it: true", capsys)
    data.mkdir()
    for lang in ("xx", "yy"):
        dictionary(30).save(str(data / f"dict.{lang}.txt"))
        (data / f"train.xx-yy.{lang}.idx").write_bytes(b"x" * 40)
    refused(["run", *words], "train.xx-yy.xx.idx: is not an index of fairseq", capsys)
    assert not (tmp_path / "run" / "run.json").exists()
    (tmp_path / "run" / "average.pt").touch()
    monkeypatch.setattr(runner.checkpoint_commands, "check", lambda *_: None)
    words += ["--output", str(tmp_path / "out")]
    refused(["generate", *words], "train.xx-yy.xx.idx: is not an index of fairseq", capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "quickstart/macaron-tiny", "--cpu", "--seed", "-1"], "seed -1: must be 0 or more"),
        (["run", "quickstart/macaron-tiny", "--cpu", "--", "--update-freq=2"], "--update-freq: is set by train.batch"),
        (["recipe", "show", "quickstart"], r"name one of its rows, as quickstart/ROW: transformer-tiny"),
        (["recipe", "show", "multi30k-short/macaron-tin"], "row macaron-tin is unknown; the nearest are macaron-tiny"),
        (["recipe", "show", "multi30k-short/zzz"], "row zzz must be one of transformer-tiny, "),
        (["recipe", "show", "multi30k-shrot/macaron-tiny"], "; the nearest are: multi30k-short/macaron-tiny, "),
        (["recipe", "show", "multi30k"], "; the nearest are: multi30k-base, "),
        (["table", "quickstart", "--results", "none"], "--results none: no such folder"),
    ],
)
def test_what_is_asked_for_is_named(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refused(words, message, capsys)
