"""Metrics of the papers' other tasks are those of official programs, and systems are compared by them."""

import importlib.metadata
import json
import math
import random
import re
import shutil
import struct
import sys
import types
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from sacrebleu.metrics import BLEU, CHRF, TER

from ode_transformer import checkpoints
from ode_transformer.checkpoints import standalone
from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli, recipes, records
from ode_transformer.experiments.metrics import METRICS, Examples, errant, gleu, labels, m2, resampling, rouge
from ode_transformer.experiments.metrics.metric import mean
from ode_transformer.experiments.records import decoding_flags
from ode_transformer.experiments.results import significance
from ode_transformer.experiments.runs import recording
from ode_transformer.experiments.tasks import TASKS
from ode_transformer.experiments.tasks.encoders import predictions
from ode_transformer.experiments.text.binarised import check_data
from ode_transformer.files import sha256, write_json, write_lines, write_text
from tests.helpers import FIXTURES, configure, output_of, raises, refused, run_record, write_generated, write_run

SOURCES = ["He go to school .", "They has a dog", "It is fine .", "a b c d e f"]
REFERENCES = [
    ["He goes to school .", "They have a dog .", "It is fine .", "a b c d e f g"],
    ["He went to school .", "They have dogs .", "It is fine .", "a b c d e g"],
]

OFFICIAL = json.loads((FIXTURES / "gleu.json").read_text(encoding="utf-8"))
"""Sentences of our own, and what JFLEG's ``gleu.py`` prints of them, by the number of references."""


@pytest.mark.parametrize("references", ["4", "1"])
@pytest.mark.parametrize("system", OFFICIAL["systems"])
def test_gleu_is_what_jflegs_own_script_said_of_sentences_of_ours(system, references):
    its = OFFICIAL["systems"][system]
    found = gleu.entry(its["corrections"], Examples(OFFICIAL["references"][: int(references)], OFFICIAL["sources"]))
    printed = its["printed"][references].lstrip("['")  # with several references, deviation and interval follow
    assert printed.startswith(f"{found['gleu'] / 100:f}")


def test_comet_reads_a_model_that_is_there(tmp_path, monkeypatch):
    """A stand-in for the package: the words that a translation has in common with source and reference."""
    read = []

    class Model:
        def predict(self, rows, **options):
            read.extend(rows)
            return types.SimpleNamespace(scores=[len({*row["mt"].split()} & {*row["ref"].split()}) / 4 for row in rows])

    path = tmp_path / "wmt22-comet-da" / "checkpoints" / "model.ckpt"
    write_text(path, "weights")
    monkeypatch.delenv("COMET_MODEL", raising=False)
    metric, examples = METRICS["comet"], Examples([["a b c d"] * 2, ["a b x x"] * 2], ["ein", "zwei"])
    raises("cannot be computed; it needs references and sources", metric.compute, ["a", "b"], Examples([["a", "b"]]))
    raises(r"COMET_MODEL=.*: must be the checkpoint", metric.compute, ["a", "b"], examples)
    monkeypatch.setenv("COMET_MODEL", str(path))
    module = types.SimpleNamespace(load_from_checkpoint=lambda path, local_files_only: Model())
    monkeypatch.setitem(sys.modules, "comet", module)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.2.7")
    found = metric.compute(["a b c d", "a b"], examples)
    assert found["value"] == pytest.approx(((1 + 0.5) / 2 + (0.5 + 0.5) / 2) / 2)
    assert found["signature"] == f"unbabel-comet 2.2.7, wmt22-comet-da, SHA-256 {sha256(path)[:8]}"
    assert read[1] == {"src": "zwei", "mt": "a b", "ref": "a b c d"}


# MaxMatch and ERRANT

M2_SAYS = "Precision   : 0.6667\nRecall      : 0.4000\nF_0.5       : 0.5882\n"

ERRANT_SAYS_OF_EACH = """----------------------------------------
Original sentence 0: ^^ HYP 0, REF 0 chosen for sentence 0
----------------------------------------
SENTENCE 0 - HYP 0 - REF 0
HYPOTHESIS EDITS : [(1, 2, 'eats', 'R:VERB')]
REFERENCE EDITS  : [(1, 2, 'likes', 'R:VERB:SVA'), (2, 3, 'apples', 'R:NOUN:NUM')]
Local TP/FP/FN   : 0 1 2
----------------------------------------
SENTENCE 0 - HYP 0 - REF 1
HYPOTHESIS EDITS : [(1, 2, 'eats', 'R:VERB')]
REFERENCE EDITS  : [(1, 2, 'eats', 'R:VERB'), (2, 3, 'pears', 'R:NOUN')]
Local TP/FP/FN   : 1 0 1
Global TP/FP/FN  : 1 0 1
----------------------------------------
^^ HYP 0, REF 1 chosen for sentence 0
----------------------------------------
SENTENCE 1 - HYP 0 - REF 0
HYPOTHESIS EDITS : []
REFERENCE EDITS  : []
Local TP/FP/FN   : 0 0 0
Global TP/FP/FN  : 1 0 1
----------------------------------------
^^ HYP 0, REF 0 chosen for sentence 1
"""


def test_programs_that_are_not_installed_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(errant, "installed", lambda: False)
    with pytest.raises(OdeTransformerError, match=r"were not found; .* python -m spacy download"):
        METRICS["errant"].statistics_of_each(["a"], Examples(sources=["b"], edits="gold.m2"))
    monkeypatch.delenv("M2SCORER", raising=False)
    raises("needs M2SCORER", m2.entry, ["fine"], Examples(edits="gold.m2"))


def test_errant_counts_each_sentence_with_the_annotator_that_it_chose():
    found = errant.parse_sentences(ERRANT_SAYS_OF_EACH)
    assert found == [(1, 0, 1), (0, 0, 0)]
    assert errant.f05(np.array(found).sum(0)) == pytest.approx(83.33, abs=0.01)
    assert errant.f05(np.array([1050, 1000, 2000])) == pytest.approx(46.67, abs=0.01)  # as ERRANT prints it
    assert errant.f05(np.zeros(3)) == 100 and errant.f05(np.array([0, 1, 1])) == 0


def test_the_official_scorer_is_called(tmp_path, monkeypatch):
    """It is given the corrections and the gold file, in this order, and no more."""
    gold, scorer = tmp_path / "gold.m2", tmp_path / "m2scorer"
    said = f'[ "$#" = 2 ] && [ "$2" = {gold} ] && grep -qx fine "$1" && printf "{M2_SAYS}"'.replace("\n", "\\n")
    write_text(scorer, f"#!/bin/sh\n{said}\n")
    scorer.chmod(0o755)
    monkeypatch.setenv("M2SCORER", str(scorer))
    found = m2.entry(["fine"], Examples(edits=str(gold)))
    assert found == {"precision": 66.67, "recall": 40.0, "f": 58.82, "signature": found["signature"]}
    assert f"m2scorer of SHA-256 {sha256(scorer)[:8]}," in found["signature"]
    raises("ended with status 1", m2.entry, ["wrong"], Examples(edits=str(gold)))
    raises("must print Precision", m2.parse, f"warning\n{M2_SAYS}")


def test_errant_where_it_is(tmp_path):
    """One of the two edits is right, of the three that are to be made: 1.25 PR / (.25 P + R)."""
    for name in ("errant", errant.MODEL):
        pytest.importorskip(name, reason="pip install 'ode-transformer[errant]', and its model of spaCy")
    if not errant.installed():
        pytest.skip("ERRANT's programs are not on PATH")
    edits = {
        "He go to school .": ["goes"],
        "They has a dog .": ["have"],
        "She like apple .": ["likes"],
        "It is fine .": [],
    }
    lines = [f"S {line}\n" + "".join(f"A 1 2|||R:VERB:SVA|||{word}|||REQUIRED|||-NONE-|||0\n" for word in its)
             for line, its in edits.items()]  # fmt: skip
    write_text(tmp_path / "gold.m2", "\n".join(lines) + "\n")
    corrected = ["He goes to school .", "They has a cat .", "She like apple .", "It is fine ."]
    found = errant.entry(corrected, Examples(sources=list(edits), edits=str(tmp_path / "gold.m2")))
    assert [found[name] for name in ("precision", "recall", "f")] == pytest.approx([50.0, 33.33, 45.45], abs=0.01)
    assert re.match(rf"ERRANT [\d.]+, spaCy [\d.]+, {errant.MODEL} [\d.]+, ", found["signature"])


def test_edits_of_people_and_systems_are_kept_in_the_same_types(tmp_path, monkeypatch):
    said = []

    def run(words):
        said.append(words)
        if "-out" in words:
            Path(words[words.index("-out") + 1]).write_text(words[0])
        return ERRANT_SAYS_OF_EACH

    monkeypatch.setattr(errant, "installed", lambda: True)
    monkeypatch.setattr(errant.importlib.metadata, "version", lambda name: "3")
    monkeypatch.setattr(m2, "run", run)
    examples = Examples(sources=["a", "b"], edits="conll14.m2")
    found = errant.entry(["a", "b"], examples, str(tmp_path / "test.m2"))
    assert (found["precision"], found["recall"], found["f"]) == (100, 50, 83.33)
    assert found["signature"].startswith("ERRANT 3, spaCy 3, en_core_web_sm 3, ")
    assert (tmp_path / "test.m2").read_text() == "errant_parallel"
    assert (tmp_path / "test.gold.m2").read_text() == "errant_m2" and said[1][1:3] == ["-auto", "conll14.m2"]
    raises("printed counts of 2 of 3 sentences", errant.counts, ["a", "b", "c"], examples)


def test_scores_of_corrections(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("M2SCORER", raising=False)
    monkeypatch.setattr(m2.shutil, "which", lambda name: None)
    out, scores = write_generated(tmp_path / "out.txt", REFERENCES[0]), tmp_path / "s.json"
    names = {"source": [f"{line} " for line in SOURCES], "ref0": REFERENCES[0], "ref1": REFERENCES[1]}
    for name, texts in names.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in texts))
    words = ["score", "--corrections", str(out), "--source", str(tmp_path / "source")]
    both = ["--references", str(tmp_path / "ref0"), str(tmp_path / "ref1")]
    assert "uncorrected" in output_of([*words, *both, "--output", scores], capsys).out
    found = json.loads(scores.read_text())
    assert found["sentences"] == 4 and found["changed"] == 3
    assert found["gleu"] == gleu.entry(REFERENCES[0], Examples(REFERENCES, SOURCES))
    assert METRICS["gleu"].value(found) > METRICS["gleu"].value(found["source"])
    for more in ([], [*both, "--own-edits", "x.m2"]):
        refused([*words, *more], "either --references FILE... or --edits FILE", capsys)
    for people, ours in (("gold.m2", "x/../gold.m2"), ("x.gold.m2", "x.m2")):
        files = ["--edits", str(tmp_path / people), "--own-edits", str(tmp_path / ours)]
        refused([*words, *files], rf"--own-edits .*{ours}: would replace --edits", capsys)
    words += ["--edits", str(tmp_path / "gold.m2"), "--output", str(scores)]
    refused(words, r"--edits .*gold\.m2: no such file", capsys)
    (tmp_path / "gold.m2").touch()
    assert "TER is left out: it needs references" in output_of([*words, "--metric", "ter"], capsys).err
    raises("comes with the scores of a task", METRICS["tokenised"].compute, ["a"], Examples([["a"]]))
    said = output_of(words, capsys)
    assert "M2SCORER is not set" in said.err and "errant_parallel" in said.err and "F0.5" not in said.out
    kept = []

    def entry(after, its, own):
        kept.append(own)
        return {"signature": "x", "precision": 50.0, "recall": 40.0, "f": 0.0 if its.sources == after else 48.0}

    monkeypatch.setattr(errant, "installed", lambda: True)
    monkeypatch.setattr(errant, "entry", entry)
    said = output_of([*words, "--own-edits", "own.m2"], capsys).out
    assert list(map(str, kept)) == ["own.m2", "None"], "not those of the sentences as they were"
    found = json.loads(scores.read_text())
    assert METRICS["errant"].value(found) == 48.0 and METRICS["errant"].value(found["source"]) == 0.0
    assert re.search(r"^uncorrected: ERRANT F0.5 +ERRANT F0.5 = 0.00", said, re.M)


# ROUGE


def test_sentences_end_at_their_tokens():
    found = rouge.sentences("it rained . he said &quot; no . &quot; then left !")
    assert found == ["it rained .", 'he said " no . "', "then left !"]
    assert rouge.sentences("Mr . Brown left\tIt rained . Again .") == ["Mr . Brown left", "It rained . Again ."]
    assert rouge.lead("one . two . three .", 2) == "one . two ." and rouge.sentences("") == []


def test_rouge_is_the_packages():
    """The sentences of a reference are its highlights, whatever full stops they hold; the package makes tokens."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="pip install 'ode-transformer[rouge]'")
    ours, theirs = "louis isn &apos;t well a man of st . rain fell .", "A man, of St . Louis, isn't well .\tRain fell ."
    lines = "A man, of St . Louis, isn't well .\nRain fell .", "louis isn 't well a man of st .\nrain fell ."
    found = rouge.entry([ours, theirs], Examples([[theirs, theirs]]))
    expected = scorer.RougeScorer(list(rouge.KINDS), use_stemmer=True).score(*lines)
    for kind in rouge.KINDS:
        assert found[kind] == pytest.approx((100 * expected[kind].fmeasure + 100) / 2)


def test_scores_of_summaries(tmp_path, capsys):
    pytest.importorskip("rouge_score", reason="pip install 'ode-transformer[rouge]'")
    out = write_generated(tmp_path / "out.txt", ["a dog barks .", "rain"])
    (tmp_path / "ref").write_text("a dog barks .\nsnow\n")
    (tmp_path / "source").write_text("a dog barks . more of it .\nrain . snow .\n")
    words = ["score", "--summaries", str(out), "--ref", str(tmp_path / "ref")]
    more = ["--source", str(tmp_path / "source"), "--output", str(tmp_path / "s.json"), "--lead", "1"]
    assert cli.main([*words, *more]) == 0
    found = json.loads((tmp_path / "s.json").read_text())
    assert METRICS["rouge1"].value(found) == METRICS["rougeL"].value(found) == 50.0
    assert METRICS["rouge2"].value(found["source"]) == 50.0 and found["source"]["label"] == "first sentence"
    assert found["sentences"] == 2 and "first sentence: ROUGE  " in capsys.readouterr().out
    refused([*words, "--lead", "1"], "--lead N needs --source", capsys)
    write_generated(out, ["a d@@ og barks .", "rain"])
    refused(words, r"out\.txt: subword units, not words, in 1 of 2 lines; give --remove-bpe subword_nmt\|", capsys)
    assert cli.main([*words, *more, "--remove-bpe"]) == 0
    assert json.loads((tmp_path / "s.json").read_text()) == found
    (tmp_path / "ref").write_text("one\n")
    refused([*words, "--remove-bpe"], "must have 2, one per sentence", capsys)


# Accuracy


def test_accuracy_and_what_becomes_of_each_class():
    golds, taken = list("aaabbbbc"), list("aabbbbcb")
    found = labels.entry(golds, taken)
    assert found["value"] == 100 * 5 / 8 and found["classes"] == ["a", "b", "c"]
    assert found["confusion"] == [[2, 1, 0], [0, 3, 1], [0, 1, 0]]
    report = found["report"]
    assert report["b"] == {"precision": 60.0, "recall": 75.0, "f1": pytest.approx(200 / 3), "examples": 4}
    assert report["c"]["precision"] == 0.0
    assert labels.entry(["x", "nan"], ["x", "nan"])["value"] == 100, "a class may be called so"
    counts = [row["examples"] for row in labels.entry(["x", "x"], ["y", "y"])["report"].values()]
    assert counts == [2, 0] and all(type(count) is int for count in counts), "a record takes whole numbers alone"


LENGTHS = (3, 9, 5, 2, 7, 4)


def write_index(prefix: Path, rows: Iterable[Iterable[int]]) -> None:
    """Binarised sentences, as fairseq-preprocess leaves them."""
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for row in rows:
        builder.add_item(torch.IntTensor([*row, 2]))
    builder.finalize(f"{prefix}.idx")


def write_labelled(folder: Path) -> Path:
    """Binarised data of two classes."""
    rng = np.random.default_rng(0)
    for part, symbols in (("input0", [f"w{i}" for i in range(12)]), ("label", ["neg", "pos"])):
        write_lines(folder / part / "dict.txt", [f"{symbol} 1" for symbol in symbols])
    write_index(folder / "input0" / "test", (rng.integers(4, 16, length) for length in LENGTHS))
    write_index(folder / "label" / "test", ([4 + i % 2] for i in range(len(LENGTHS))))
    return folder


OTHER = pytest.param("transformer_small", marks=pytest.mark.full)


@pytest.fixture(scope="module", params=["transevolve_small_randomff_2", OTHER])
def trained(tmp_path_factory, request):
    """A classifier's checkpoint, and data for it."""
    folder = tmp_path_factory.mktemp("classifier")
    values = {"encoder-embed-dim": 16, "encoder-ffn-embed-dim": 32, "encoder-attention-heads": 2}
    cfg = configure(request.param, {**values, "max-positions": 6})
    torch.manual_seed(0)
    model = standalone.MODEL_REGISTRY[ARCH_MODEL_NAME_REGISTRY[request.param]].build_model(cfg, standalone.task(17))
    model.register_classification_head(standalone.HEAD, 2)
    cfg = {"model": dict(cfg), "task": {"_name": "sentence_prediction_by_length"}}
    checkpoints.save({"cfg": cfg, "args": None, "model": model.state_dict()}, folder / "average.pt")
    return folder / "average.pt", write_labelled(folder / "data"), model.eval()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_examples_are_classified_in_their_order_and_cut_at_the_longest(trained, batch_size):
    path, data, model = trained
    found = predictions(path, data, "test", batch_size, True)
    assert [gold for gold, _, _ in found] == ["neg", "pos"] * 3
    rng = np.random.default_rng(0)
    for length, (_, taken, probability) in zip(LENGTHS, found, strict=True):
        tokens = torch.tensor([[*rng.integers(4, 16, length), 2][:6]])
        scores = model(tokens, torch.tensor([tokens.size(1)]), classification_head_name=standalone.HEAD)[0].softmax(-1)
        assert float(probability) == pytest.approx(float(scores.max()), abs=1e-5)
        assert taken == ("neg", "pos")[int(scores.argmax())]


def test_classification_from_a_checkpoint_to_scores(trained, tmp_path, capsys):
    path, data, _ = trained
    predictions, scores = tmp_path / "test.tsv", tmp_path / "test.json"
    words = ["predict", str(path), "--data", str(data), "--output", str(predictions), "--cpu"]
    assert cli.main(words) == 0
    assert "precision" in output_of(["score", "--predictions", predictions, "--output", scores], capsys).out
    found = json.loads(scores.read_text())["accuracy"]
    assert found["classes"] == ["neg", "pos"] and [sum(row) for row in found["confusion"]] == [3, 3]


def test_a_translator_is_no_classifier(trained, tmp_path):
    path, data, _ = trained
    state = checkpoints.load(path)
    state["model"] = {name: tensor for name, tensor in state["model"].items() if "heads" not in name}
    checkpoints.save(state, tmp_path / "x.pt")
    raises("has no sentence_classification_head, which --task", predictions, tmp_path / "x.pt", data, "test", 1, True)
    raises("holds no encoder-decoder: it has no decoder", standalone.open_model, path)


def test_data_of_another_model_are_not_classified(trained, tmp_path):
    path, data, _ = trained
    shutil.copytree(data, tmp_path / "data")
    labels, symbols = (tmp_path / "data" / part / "dict.txt" for part in ("label", "input0"))
    labels.write_text("neg 1\npos 1\nmadeupword0000 0\n")
    assert predictions(path, tmp_path / "data", "test", 2, True) == predictions(path, data, "test", 2, True)
    write_index(tmp_path / "data" / "label" / "test", [[label] for label in (4, 5, 6, 4, 5, 4)])
    raises("a label of test is not one of neg, pos", predictions, path, tmp_path / "data", "test", 1, True)
    labels.write_text("neg 1\nmadeupword0000 0\n")
    write_index(tmp_path / "data" / "label" / "test", [[4]] * len(LENGTHS))
    raises("has 2 outputs, must have one for each class", predictions, path, tmp_path / "data", "test", 1, True)
    labels.write_text("neg 1\npos 1\n")
    with open(symbols, "a") as file:
        file.write("more 1\n")
    raises("its dictionary has 18 symbols, the model 17", predictions, path, tmp_path / "data", "test", 1, True)
    symbols.write_text("w0 1\n" * 12)
    raises("data: cannot be read: ", predictions, path, tmp_path / "data", "test", 1, True)


def put(file, at, form, *values):
    """Write numbers into a file in place."""
    content = bytearray(file.read_bytes())
    struct.pack_into(form, content, at, *values)
    file.write_bytes(content)


SIZES, BEGINS = 26, 26 + 4 * len(LENGTHS)  # of an index: where they begin in the file
DAMAGES = [
    ("input0/test.idx", lambda file: put(file, SIZES, "<i", -1), "idx: is cut off or damaged"),
    ("input0/test.idx", lambda file: put(file, BEGINS + 8, "<q", 2**42), "idx: is cut off or damaged"),
    ("input0/test.bin", lambda file: put(file, 8, "<i", 16), "holds number 16, must be below 16"),
    ("label/test.bin", lambda file: put(file, 4, "<i", 4), "each sentence must be a label and the end"),
    ("label/test", lambda prefix: write_index(prefix, [[4]] * 5), "has 5 sentences, .*input0/test.idx has 6"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_damaged_data_are_named(trained, tmp_path, name, damage, message):
    path, data, _ = trained
    shutil.copytree(data, tmp_path / "data")
    check_data(tmp_path / "data", "another"), check_data(tmp_path / "data")
    damage(tmp_path / "data" / name)
    raises(message, predictions, path, tmp_path / "data", "test", 2, True)


def test_edits_by_type_as_a_picture(tmp_path, capsys):
    edits = "A 0 1|||Nn|||c|||d|||R|||-|||0\nA 0 1|||Vt|||c|||R|||-|||1\nA -1 -1|||noop|||-|||R|||-|||0\n"
    files = [tmp_path / f"{name}.m2" for name in ("gold", "ours")]
    for path in files:
        path.write_text(f"S a b\n{edits}")
    assert m2.types(files[0]) == {"Nn": 1}
    words = ["plot", "edits", *map(str, files), "--output", str(tmp_path / "x.svg")]
    assert cli.main(words) == 0
    assert all(f"<!-- {path.name} -->" in (tmp_path / "x.svg").read_text() for path in files), "of what is drawn"
    files[1].write_text("\n")
    refused(words, "must be an M2 file", capsys)


# Comparisons


def test_the_source_of_summaries_is_read_where_it_is_even_if_no_metric_of_the_recipe_reads_it(elsewhere):
    recipe = recipes.load("aeslc/transformer-tiny")
    recipe = replace(recipe, score=replace(recipe.score, lead=0))
    data = elsewhere / recipe.data.directory
    write_lines(data / "raw" / "test.target", ["a summary"])
    for sources in ((), ["a text"]):
        if sources:
            write_lines(data / "tok" / "test.source", sources)
        _, examples = TASKS["summarisation"].examples(recipe, ["a word"], "test", None)
        assert examples == Examples([["a summary"]], sources)


def test_corrections_are_compared_by_gleu_or_by_errant(elsewhere, monkeypatch):
    """Each on the test sets that have what it needs; and by the official scorer on none."""
    rows = [recipes.load(f"gec-generated/{row}-tiny") for row in ("transformer", "rk2")]
    monkeypatch.setattr(significance.System, "precision", lambda one: "fp32")
    raw = elsewhere / rows[0].data.directory / "raw"
    for subset in rows[0].subsets:
        others = ["m2"] if subset in rows[0].score.edits else [f"ref{i}" for i in range(4)]
        for name in ("source", *others):
            write_lines(raw / f"{subset}.{name}", [f"a {name} ."] * 200)
    taken = {row.name: [f"a {'ref0' if i % (2 + k) else 'source'} ." for i in range(200)] for k, row in enumerate(rows)}
    monkeypatch.setattr(significance.System, "outputs", lambda one, test_set: taken[one.recipe.name])
    counts = {"statistics": lambda found, _: [(one == "a ref0 .", 0, 1) for one in found]}
    monkeypatch.setitem(METRICS, "errant", replace(METRICS["errant"], **counts, signature="stand-in"))
    systems = [significance.System(row, elsewhere) for row in rows]
    both = systems[0], systems[1:]
    found = {metric: significance.compare(*both, metric=metric) for metric in (None, "gleu", "errant")}
    assert found[None] == found["gleu"] and set(found["gleu"]["test_sets"]) == {"jfleg_dev", "jfleg_test"}
    assert found["errant"]["signature"] == "stand-in" and list(found["errant"]["test_sets"]) == ["conll14"]
    first, second = (found["errant"]["test_sets"]["conll14"][row.name] for row in rows)
    assert first["f"] == pytest.approx(125 * 100 / (1.25 * 100 + 0.25 * 200)) and second["f"] > first["f"]
    assert first["p_value"] is None and second["p_value"] < 0.05
    raises("accuracy: needs labels, which no test set has: conll14", significance.compare, *both, metric="accuracy")


def units(values) -> np.ndarray:
    return np.array([[value, 1.0] for value in values])


def test_the_p_of_a_few_sentences_is_that_of_all_exchanges_and_an_interval_that_of_the_mean():
    """Randomization of four sentences: 2 of 16 exchanges differ as much as the systems do; of one sentence, all do.

    The mean of 0 and 1 in equal shares: 1.96 standard errors to both sides.
    """
    found = resampling.p_value(units([0, 0, 0, 0]), units([1, 1, 1, 1]), mean, "randomisation", 4000)
    assert found == pytest.approx(2 / 16, abs=0.02)
    assert resampling.p_value(units([0, 1, 1]), units([1, 1, 1]), mean, "randomisation", 99) == 1.0
    assert resampling.p_value(units([0] * 9), units([1] * 9), mean, "bootstrap", 99) == 1 / 100
    assert resampling.p_value(units([0, 1]), units([math.nan, 1]), mean, "bootstrap", 9) is None
    low, high = resampling.interval(found := resampling.bootstrap(units([0, 1] * 200), mean, 3999))
    assert len(found) == 3999 and (low, high) == pytest.approx((0.5 - 1.96 * 0.025, 0.5 + 1.96 * 0.025), abs=0.004)


OF_TEXT = [name for name, metric in METRICS.items() if metric.needs == ("references",) and metric.statistics]


@pytest.mark.parametrize("name", OF_TEXT)
def test_the_sums_of_a_metrics_statistics_give_its_score(name):
    """Whatever the metric of text; those of sacreBLEU as of its own scorer."""
    metric, rng = METRICS[name], random.Random(0)
    if metric.entry == "rouge":
        pytest.importorskip("rouge_score", reason="pip install 'ode-transformer[rouge]'")
    references = [" ".join(rng.choices("abcdefgh", k=9)) for _ in range(30)]
    outputs = [line.replace("d", rng.choice("dx")) for line in references]
    examples = Examples([references])
    sums = metric.statistics_of_each(outputs, examples).sum(0)
    entry = metric.compute(outputs, examples)
    assert metric.score(sums) == pytest.approx(entry[metric.key]) and 0 < metric.score(sums) < 100
    others = {"chrf": CHRF, "ter": TER, "sacrebleu": BLEU}
    if name in others:
        scorer = others[name]()
        assert entry[metric.key] == pytest.approx(scorer.corpus_score(outputs, [references]).score)
        assert entry["signature"] == str(scorer.get_signature())


def test_an_exchange_of_one_prediction_exchanges_two_systems():
    """The correlation's terms are taken from one mean for both."""
    metric, golds = METRICS["pearson"], [str(i) for i in range(30)]
    both = (golds[::-1], [*golds[:0:-1], "7"])
    one, other = (metric.statistics_of_each(taken, Examples(labels=golds)) for taken in both)
    assert resampling.p_value(one, other, metric.score, "randomisation", 200) == 1.0


def kept(folder: Path, task: str, recipe: recipes.Recipe, share: float) -> None:
    """A finished run with ``share`` of its outputs right, and what its data hold of the references."""
    raw, rng = recipes.ROOT / recipe.data.directory / "raw", np.random.default_rng(0)
    for subset in recipe.subsets:
        if task == "classification":
            rows = [f"pos\t{'pos' if rng.random() < share else 'neg'}\t0.900000\n" for _ in range(60)]
            write_text(folder / "validate" / f"{subset}.tsv", "".join(rows))
            continue
        right = [f"a b c d e f g {i}" for i in range(60)]
        outputs = [line if rng.random() < share else line.replace("d", "x") for line in right]
        write_generated(folder / "generate" / f"generate-{subset}.txt", outputs)
        for name, lines in (("target", right), ("source", ["a"] * 60), *((f"ref{i}", right) for i in range(4))):
            write_lines(raw / f"{subset}.{name}", lines)
        write_lines(raw.with_name("tok") / f"{subset}.{recipe.data.target}", right)
    write_run(folder, given=recipe.given, precision="fp32", generate=decoding_flags(recipe))


@pytest.mark.parametrize("group", ["quickstart", "imdb-short", "aeslc", "gec-generated"])
def test_systems_whose_runs_are_gone_are_compared_by_what_lies_beside_their_records(group, elsewhere, monkeypatch):
    if group == "aeslc":
        pytest.importorskip("rouge_score", reason="pip install 'ode-transformer[rouge]'")
    first, second = list(recipes.group(group)["rows"])[:2]
    loaded = {f"{group}/{name}": recipes.load(f"{group}/{name}") for name in (first, second)}
    monkeypatch.setattr(recipes, "load", lambda name, **_: loaded[name])
    for share, (name, recipe) in zip((0.5, 0.9), loaded.items(), strict=True):
        kept(elsewhere / "runs" / name, recipe.task, recipe, share)
    systems = [significance.system(recipe) for recipe in loaded.values()]
    found = significance.compare(systems[0], systems[1:], samples=50)
    assert found["test_sets"], "some test set is compared"
    monkeypatch.setattr(recording, "record", lambda recipe, folder: run_record())
    for one, kind in zip(systems, ("", ".bf16"), strict=True):
        record = elsewhere / "results" / f"{one.recipe.name}{kind}.json"
        words = ["record", one.recipe.name, "--run-dir", str(one.folder), "--output", str(record)]
        assert cli.main([*words, "--translations"]) == 0
        shutil.rmtree(one.folder)
    systems = [significance.system(recipe) for recipe in loaded.values()]
    assert significance.compare(systems[0], systems[1:], samples=50) == found
    its = METRICS[found["metric"]]
    recorded = {its.entry or its.name: {its.key: 77.0, "signature": found["signature"]}}
    with monkeypatch.context() as patch:  # GLEU's own value is a mean of draws, not the one of the sums
        patch.setattr(significance.System, "scores", lambda *_: recorded)
        again = significance.compare(systems[0], systems[1:], samples=1)["test_sets"]
    assert {values[its.key] for by_system in again.values() for values in by_system.values()} == {77.0}
    recipe, plain = systems[1].recipe, record.with_name(record.name.replace(".bf16", ""))
    write_json(record.with_name(plain.name.replace(".json", ".amp.json")), run_record(precision="amp"))
    raises("has records in fp32 and amp; choose one with --precision", significance.system, recipe)
    write_json(plain, run_record(precision="fp16"))
    assert significance.system(recipe).record == plain and significance.system(recipe, "fp32") == systems[1]
    write_run(elsewhere / "runs" / recipe.name, precision="fp16")
    assert significance.system(recipe).record is None
    raises("has no run or record in bf16", significance.system, recipe, "bf16")
    beside = records.translations_beside(systems[1].record, next(iter(found["test_sets"])))
    beside.write_text(beside.read_text() + "one more\n")
    raises(r"\.txt: must have the SHA-256 in ", significance.compare, systems[0], systems[1:])
    beside.unlink()
    raises("no such file; ode-transformer run", significance.compare, systems[0], systems[1:])
