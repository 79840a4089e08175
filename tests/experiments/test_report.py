"""The report is one page that needs nothing else: scores, significance, curves, translations, commands."""

import base64
import json
import math
import re
import shutil
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

from ode_transformer import machine
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.metrics import Examples
from ode_transformer.experiments.records import RecordError, check_record, read_record
from ode_transformer.experiments.results import report
from ode_transformer.experiments.results.report import _chosen
from ode_transformer.experiments.serving import bundle
from ode_transformer.files import write_json, write_text
from tests.helpers import ROOT, output_of, own_quickstart, refused, sentences, write_translated


def tags(page: str) -> Counter:
    """How often a page has each element, all of them closed."""
    found, closed = (Counter(re.findall(rf"<{slash}(\w+)", page)) for slash in ("", "/"))
    assert found - closed == Counter({"meta": 2, "img": found["img"]})
    return found


def shown(page: str) -> str:
    """The text of a page."""
    return unescape(re.sub("<[^>]*>", "", page))


@pytest.fixture()
def folder(elsewhere, monkeypatch):
    """Finished runs of two systems on one test set: the second has fewer errors with one seed, more with another."""
    monkeypatch.setattr(machine, "commit", lambda: "")
    for name, errors, seed in (("transformer-tiny", 0.4, 1), ("rk2-tiny", 0.1, 1), ("rk2-tiny", 0.6, 2)):
        place = elsewhere / "runs" / "quickstart" / (name if seed == 1 else f"{name}.seed-{seed}")
        write_translated(place, recipes.load(f"quickstart/{name}"), errors, seed, sentences(80), "quelle")
        record = json.loads((ROOT / "results" / "quickstart" / f"{name}.json").read_text())
        record |= {"seeds": [seed], "description": "<script>alert(1)</script>"}
        record["scores"]["generated"]["tokenised"]["bleu"] += seed
        record["paper"] = [{"scores": {"generated": {"tokenised": 27.5}}}]
        (place / "record.json").write_text(json.dumps(record))
    return elsewhere / "runs"


@pytest.fixture()
def unpictured(monkeypatch):
    """Pages without pictures, most of whose time those take."""
    monkeypatch.setattr(report.plots, "CURVES", {})


def written(folder, capsys) -> str:
    assert output_of(["report", folder], capsys).out.strip() == str(folder / "report.html")
    return (folder / "report.html").read_text()


def test_the_page_has_everything_and_needs_nothing(folder, capsys, monkeypatch):
    page = written(folder, capsys)
    found, text, sources = tags(page), shown(page), re.findall(r'(?:src|href)="([^"]*)"', page)
    assert found["img"] >= 2 and found["table"] > 10 and found["details"] == 3
    assert all(source.startswith(("data:image/svg+xml;base64,", "#")) for source in sources)
    assert not {"script", "link", "iframe"} & set(found)  # also not the one of the record's description
    bleu = json.loads((ROOT / "results" / "quickstart" / "rk2-tiny.json").read_text())["scores"]["generated"]
    assert f"{bleu['tokenised']['bleu'] + 1.5:.2f} ± 0.71" in text
    assert re.search(r"\+\d\d\.\d\d \[\+.*\], p = 0\.00\d \*", text) and "approximate randomization" in text
    assert "quelle" in text and "<mark>" in page and "fairseq-train data-bin/" in text
    assert "version:2" in text and "<h1>3 runs of 2 recipes in runs, " in page
    for source in sources:
        if source.startswith("data:"):  # the legend of a picture says which run a line is
            assert b"rk2-tiny, seed 1" in base64.b64decode(source.partition(",")[2])
    assert "rk2-tiny, seed 1" in text.split("Translations: ")[1], "whose translations they are"
    assert "paper: generated, tokenized" in text and "27.5" in text
    monkeypatch.setattr(report, "LINES", 1)  # of a picture
    svgs = [base64.b64decode(svg) for svg in re.findall(r"svg\+xml;base64,([^\"]*)", written(folder, capsys))]
    for name in (b"rk2-tiny, seed 1", b"transformer-tiny, seed 1"):
        assert 2 * sum(name in svg for svg in svgs) == len(svgs) == 2 * found["img"]


def test_a_comparison_that_is_recorded_counts_first(unpictured, folder, capsys):
    names = [f"quickstart/{name}-tiny" for name in ("transformer", "rk2")]
    about = {"baseline": names[0], "seed": 1, "metric": "sacrebleu", "test": "randomisation", "signature": ""}
    about |= {"samples": 9, "precisions": dict.fromkeys(names, "fp32"), "test_sets": {"generated": {}}}
    for name, p in zip(names, (None, 0.123), strict=True):
        bleu = read_record(folder / name / "record.json")["scores"]["generated"]["sacrebleu"]["bleu"]
        about["test_sets"]["generated"][name] = {"bleu": bleu, "p_value": p}
    write_json(folder / "significance" / "x.json", about)
    assert re.findall(r"p = [\d.]+", written(folder, capsys)) == ["p = 0.123"]


def test_chosen_sentences_are_shown_of_every_system(unpictured, folder):
    """As in a case study: source, reference and what each system made of it, detokenized."""
    for path in folder.rglob("generate-test.txt"):
        path.write_text(path.read_text().replace("T-7\t", "T-7\tit &apos;s "))
    rehearsal = shutil.copytree(folder / "quickstart" / "rk2-tiny", folder / "rehearsal")  # which is found first
    write_json(rehearsal / "record.json", read_record(rehearsal / "record.json") | {"scale": "small"})
    output = rehearsal / "generate" / "generate-test.txt"
    output.write_text(output.read_text().replace("H-7\t-0.1\t", "H-7\t-0.1\trehearsed "))
    assert cli.main(["report", str(folder), "--sentences", "7", "79", "80"]) == 0
    text = shown((folder / "report.html").read_text())
    assert re.findall(r"sentence (\d+)", text) == ["7", "79"], "there are 80"
    for i in (7, 79):
        rows = re.sub("\n+", "\n", text.split(f"sentence {i}")[1]).split("\n")[1:5]
        assert rows[0] == f"sourcequelle {i}"
        assert rows[1].startswith("reference") and {row.split("-tiny")[0] for row in rows[2:]} == {"rk2", "transformer"}
    assert "referenceit's " in text and "rehearsed" not in text


def test_it_is_written_again_but_over_nothing_else(unpictured, folder, capsys):
    assert written(folder, capsys) == written(folder, capsys)
    (folder / "report.html").write_text("mine")
    refused(["report", str(folder)], "was not written by ode-transformer report", capsys)
    assert (folder / "report.html").read_text() == "mine"


def test_what_cannot_be_reported_is_named(folder, capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        refused(["report", str(tmp_path / name)], "no record of a finished run is there; rehearsals do not", capsys)
    refused(["report", str(folder), "--baseline", "x"], "--baseline x: must be one of quickstart/", capsys)


def of_training(**entry):
    """A training whose curve has this entry alone."""
    return {"training": {"curve": [entry], "seconds": 1, "parameters": 1}}


@pytest.mark.parametrize(
    ("damage", "lacking"),
    [
        (of_training(num_updates=math.inf), "training.curve[0]."),
        (of_training(train_loss=1.0), "it has no seed, or no number of updates"),
        ({"scores": {"test": {"tokenised": {"bleu": "1"}}}}, "scores.test.tokenised.bleu must be a number"),
        ({"devices": 10**30}, "devices must be a whole number, 0 or more"),
        ({"paper": [{}]}, "paper[0].scores is missing"),
    ],
)
def test_a_damaged_record_is_named(damage, lacking):
    record = json.loads((ROOT / "results" / "quickstart" / "rk2-tiny.json").read_text())
    with pytest.raises(RecordError, match=re.escape(f"x.json: is not what ode-transformer record writes: {lacking}")):
        check_record(record | damage, Path("x.json"))


def test_odd_files_among_the_runs_are_named_and_left_out(unpictured, folder, capsys):
    """They were damaged. A bundle has a record without the commands, and is passed over."""
    path = next(folder.rglob("record.json"))
    record, generated = json.loads(path.read_text()), path.parent / "generate" / "generate-test.txt"
    kept = {key: value for key, value in record.items() if key in bundle.RECORD}
    for name, content in {"bundle": kept, "odd": record | {"seeds": []}}.items():
        write_json(folder / name / "record.json", content)
    write_json(folder / "bundle" / "bundle.json", {})
    write_text(folder / "significance" / "x.json", "[")
    generated.write_text(generated.read_text()[:200])
    said = output_of(["report", folder], capsys).err
    named = ("odd/record.json: is not what", "significance/x.json: cannot be read")
    assert all(f"left out: {folder}/{name}" in said for name in named) and "bundle" not in said
    assert f"left out of the translations: {generated}" in said
    assert "<h1>3 runs of 2 recipes in " in (folder / "report.html").read_text()


def test_runs_that_cannot_be_compared_are_reported_all_the_same(unpictured, folder, capsys):
    output = folder / "quickstart" / "transformer-tiny" / "generate" / "generate-test.txt"
    whole = output.read_text()
    output.write_text(whole.replace("T-7\t", "T-7\tother "))
    page, side_by_side = shown(written(folder, capsys)).split("Translations: ")
    side_by_side = side_by_side.partition("description")[0]  # of the runs
    assert "must have the references of quickstart/" in page
    assert ("rk2-tiny, seed 1" in side_by_side) != ("transformer-tiny, seed 1" in side_by_side)
    output.write_text(whole)
    for path in folder.rglob("run.json"):
        path.unlink()
    assert "was not compared: " in written(folder, capsys)


@pytest.mark.usefixtures("unpictured")
def test_runs_of_the_users_own_recipe_are_compared_but_not_with_those_in_another_precision(folder, capsys, tmp_path):
    own = own_quickstart(tmp_path / "own.yaml")
    for path in folder.rglob("run.json"):
        record = json.loads((path.parent / "record.json").read_text())
        name = record["recipe"].replace("quickstart/", "own/")
        if record["seeds"] == [2]:  # of the second system, and in another precision
            record |= {"seeds": [1], "precision": "bf16"}
        (path.parent / "record.json").write_text(json.dumps({**record, "recipe": name}))
        content = json.loads(path.read_text()) | {"precision": record["precision"]}
        path.write_text(json.dumps({**content, "given": str(own / name.partition("/")[2])}))
    text = shown(written(folder, capsys))
    assert re.search(r"p = 0\.00\d \*", text) and "was not compared" not in text
    assert "rk2-tiny, bf16" in text.split("quelle")[-1]


def test_sentences_that_differ_most_come_first():
    references = [["a", "b"]] * 6
    systems = {"one": [["a", "b"]] * 6, "two": [["a", "b"], ["x", "y"], ["a", "x"], ["a", "b"], ["a", "b"], ["a", "b"]]}
    assert _chosen(references, systems, 2) == [1, 2, 0, 3]
    assert _chosen(references, {"two": systems["two"]}, 2) == [0, 3]


def test_the_baseline_is_the_first_of_the_groups_file():
    for group, names, first in (("quickstart", ("transformer-longer-tiny", "transformer-tiny"), "transformer-tiny"),
                                ("ptb", ("euler-4-1", "residual-1"), "residual-1")):  # fmt: skip
        assert report._first({f"{group}/{name}": [] for name in names}) == f"{group}/{first}"


def test_the_first_annotator_stands_for_a_reference(tmp_path):
    edits = [f"A 1 2|||X|||{word}|||REQUIRED|||-NONE-|||{i}\n" for i, word in enumerate("cd")]
    write_text(tmp_path / "test.m2", "".join(["S a b\n", *edits]))
    assert report._right(Examples(edits=str(tmp_path / "test.m2"))) == ["a c"]
    assert report._right(Examples([["x"], ["y"]])) == ["x"]
