"""Own text in, translations out: preparation, a run, raw text through ``translate`` and ``load``, bundles."""

import contextlib
import io
import itertools
import json
import logging
import shutil
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch
import yaml
from fairseq import options
from fairseq_cli import generate, train
from subword_nmt import apply_bpe

import ode_transformer
from ode_transformer import machine
from ode_transformer.checkpoints import bundles
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.runs import prepare, processes, runner
from ode_transformer.experiments.runs.training import TrainingPlace
from ode_transformer.experiments.serving import command, opening, translate
from ode_transformer.experiments.serving.backend import Search
from ode_transformer.experiments.serving.export import writing
from ode_transformer.experiments.serving.pytorch import Opened, PyTorch
from ode_transformer.experiments.serving.translator import LONGEST, Hypothesis
from ode_transformer.experiments.tasks.task import OURS
from ode_transformer.experiments.tasks.translation import check_units
from ode_transformer.experiments.text import binarised, dividing
from ode_transformer.experiments.text.corpus import Grammar
from ode_transformer.experiments.text.detokenisation import detokenise
from ode_transformer.experiments.text.fairseq_output import read_generate_output
from ode_transformer.experiments.text.lines import read_pair
from ode_transformer.experiments.text.pipeline import Pipeline
from ode_transformer.experiments.text.preparation import once
from ode_transformer.experiments.text.subwords import SEGMENTATIONS
from ode_transformer.experiments.text.tokenisation import Tokeniser, is_unspaced
from ode_transformer.files import sha256, write_json, write_lines
from tests.cli.data_scripts import lines, times
from tests.helpers import EVOLUTION, ROOT, SMALL, configuration, configure, model, output_of, raises
from tests.models.released import as_written, load

LANGS = ("de", "en")
HELD_OUT = 12
MOST = 14  # units of a translation: a model that was hardly trained ends few of its own


def write(path: Path, found) -> Path:
    write_lines(path, found)
    return path


def write_pairs(prefix: Path, pairs) -> Path:
    for lang, side in zip(LANGS, zip(*pairs, strict=True), strict=True):
        write(Path(f"{prefix}.{lang}"), side)
    return prefix


def write_raw(folder: Path, count: int) -> Path:
    """Raw parallel text, true-cased and not tokenised; the prefix."""
    grammar = Grammar(Random(1))
    sides = zip(*(grammar.sentence()[:2] for _ in range(count)), strict=True)
    return write_pairs(folder / "my", zip(*map(detokenise, sides, LANGS), strict=True))


def in_process(words, environment, log, lock):
    """``processes.launch``, without a process: what fairseq says goes to the log."""
    if words[:3] == list(OURS):
        return cli.main(words[3:])
    program, parser = {
        "fairseq-train": (train, options.get_training_parser),
        "fairseq-generate": (generate, options.get_generation_parser),
    }[words[0]]
    handlers, level = logging.root.handlers[:], logging.root.level
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(open(log, "a", encoding="utf-8")) if log else io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
        logging.root.handlers[:] = [handler]
        logging.root.setLevel(logging.INFO)  # which has loggers forget what they have found before
        try:
            program.main(configuration(parser(), words[1:]))
        finally:
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
    return 0


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Text of one's own, prepared, and a recipe of it for a few updates of a small model."""
    home = tmp_path_factory.mktemp("home")
    raw = write_raw(home / "raw", 300)
    words = ["--train", raw, "--langs", *LANGS, "--out", home / "mine", "--size", 300, "--hold-out", HELD_OUT]
    assert cli.main(["prepare", *map(str, words)]) == 0
    tree = yaml.safe_load((home / "mine.yaml").read_text())
    small = {**SMALL, "max-epoch": 6, "max-tokens": 1000, "lr": 0.02, "warmup-updates": 4, "num-workers": 0}
    tree["train"]["flags"] |= {**small, "max-source-positions": 90}
    tree["average"] = {"last_epochs": 2}
    flags = {"post-process": "subword_nmt", "max-len-b": MOST, "num-workers": 0}
    tree["generate"] |= {"beam": 3, "lenpen": 0.8, "flags": flags}
    (home / "mine.yaml").write_text(yaml.safe_dump(tree))
    return home


@pytest.fixture(scope="module")
def run(home):
    """The recipe, from the prepared data to its record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "launch", in_process)
        patch.setattr(machine, "commit", lambda: "")  # which would ask git, in a process
        assert cli.main(["run", f"{home}/mine.yaml/macaron-tiny", "--run-dir", f"{home}/run", "--cpu"]) == 0
    return home / "run"


@pytest.fixture(scope="module")
def translator(run):
    return ode_transformer.load(run)


@pytest.fixture(scope="module")
def bundle(home, run):
    assert cli.main(["bundle", str(run), "-o", str(home / "bundle")]) == 0
    return home / "bundle"


@pytest.fixture(scope="module")
def file(home):
    """The raw source text of the test set."""
    return home / "mine" / "raw" / "test.de"


@pytest.fixture(scope="module")
def sentences(file):
    return lines(file)


def translated(capsys, *words) -> list[str]:
    capsys.readouterr()
    return output_of(["translate", *words, "--cpu"], capsys).out.split("\n")[:-1]


# Preparation.


def test_what_is_prepared_is_what_a_run_reads(home):
    data = home / "mine"
    manifest = json.loads((data / "manifest.json").read_text())
    assert manifest["counts"]["valid"]["lines"] == manifest["counts"]["test"]["lines"] == HELD_OUT
    assert len(lines(data / "raw" / "test.en")) == len(lines(data / "tok" / "test.en")) == HELD_OUT
    assert any(line[0].isupper() for line in lines(data / "raw" / "test.en"))
    assert manifest["tokenise"]["lowercase"] == "no" and "codes" in manifest["sha256"]
    assert sha256(data / "dict.de.txt") == sha256(data / "dict.en.txt")
    assert not list(home.glob(".mine.*"))


def test_every_row_of_the_recipe_is_sound(home):
    for row in yaml.safe_load((home / "mine.yaml").read_text())["rows"]:
        recipe = recipes.load(f"{home}/mine.yaml/{row}")
        assert (recipe.data.source, recipe.data.target) == LANGS and recipe.subsets == {"test": "held-out"}
        assert recipes.load(f"{home}/mine.yaml/{row}", scale="small").data == recipe.data, "it needs no network"
        (step,) = (step for step in runner.steps(recipe, TrainingPlace()) if step.name == "score")
        assert ["--data", f"{home}/mine", "--subset", "test"] == step.command[6:10], "where raw references are"


def test_names_may_have_combining_characters_and_leave_room_for_endings():
    for name in ("pru\u0308f", "\u0939\u093f\u0928\u094d\u0926\u0940"):  # u with two dots; Hindi
        own = prepare.OwnText(["my/train"], LANGS, f"data-bin/{name}", test=[f"my/{name}"])
        assert own.test_sets() == {"test": name} and recipes.is_name(own.recipe_file.stem)
    raises(r"its name must be .* at most 200 bytes", prepare.OwnText, ["my/train"], LANGS, "ä" * 101)
    for names, known in ((["news", "talks"], ["news", "talks"]), (["x/news", "y/news"], ["test", "test1"])):
        own = prepare.OwnText(["my/train"], LANGS, "a" * 200, test=names)
        assert list(own.test_sets().values()) == known, "of files, if they are different"


def divided(out: Path, train: Path, **options) -> Path:
    """The first steps of a preparation, which divide the text; the folder of raw text."""
    own = prepare.OwnText([str(train)], LANGS, str(out), **options)
    once(own.text / "raw", own._divide)
    return own.text / "raw"


def test_held_out_pairs_are_of_the_text_whatever_its_order(home, tmp_path):
    def found(folder):
        return {s: set(read_pair(folder / "raw" / s, LANGS)) for s in ("train", "valid", "test")}

    splits = found(home / "mine.text")
    pairs = list(read_pair(home / "raw" / "my", LANGS))
    assert set.union(*splits.values()) <= set(pairs)
    divided(tmp_path / "turned", write_pairs(tmp_path / "turned", pairs[::-1]), hold_out=HELD_OUT)
    assert {pair[0] for pair in found(tmp_path / "turned.text")["test"]} == {pair[0] for pair in splits["test"]}


def test_what_the_model_reads_alike_is_not_held_out_and_trained_on(tmp_path, capsys):
    pairs = [(f"Satz {i} hier", f"Sentence {i} here") for i in range(20)]
    alike = [(f"  SATZ {i}  hier ", f"another {i}") for i in range(20)]  # with each source
    alike += [(f"anders {i}", f"Sentence {i}\u00a0HERE") for i in range(20)]  # with each target
    long = [("q" * dividing.LONGEST, f"long {i}") for i in (1, 2)]  # whose hash is the smallest but for its length
    train = write_pairs(tmp_path / "x", [*pairs, *alike, *long])
    text = partial(divided, train=train, tokeniser="none", hold_out=10, lowercase=True)
    raw = text(tmp_path / "x")
    found = {s: list(read_pair(raw / s, LANGS)) for s in ("train", "valid", "test")}
    held = found["valid"] + found["test"]
    assert len(held) == 20
    for side in (0, 1):
        read = [" ".join(pair[side].lower().split()) for pair in held]
        trained = {" ".join(pair[side].lower().split()) for pair in found["train"]}
        assert not trained & set(read)
        assert all(len(pair[side]) < dividing.LONGEST for pair in held)
    assert len({" ".join(pair[0].lower().split()) for pair in held}) == len(held), "each source once"
    # Of sets that are given, pairs that are trained on, too, are counted.
    write_pairs(tmp_path / "dev", [map(str.upper, pair) for pair in found["train"][:3]])
    text(tmp_path / "y", valid=str(tmp_path / "dev"))
    assert "valid: also in the training text: 3 of its 3 different source sentences\n" in capsys.readouterr().err
    typographic = ("„gut“, sagt er.", "It isn\u2019t “bad” here.")
    plain = ('"gut" , sagt er .', 'It isn\'t "bad" here .')
    key = dividing.reader(LANGS, normalise=True)
    keys = [[key(pair[side], side) for side in (0, 1)] for pair in (typographic, plain)]
    assert keys[0] == keys[1], "other punctuation and spacing"


def test_text_that_cannot_be_prepared_is_named(tmp_path, fails):
    write_pairs(tmp_path / "x", [("Ja.", "Yes.")] * 40)
    (tmp_path / "dev.de").write_bytes("Ja.\nMöwe\n".encode("cp1252"))
    write(tmp_path / "dev.en", ["Yes."])
    words = ["--train", tmp_path / "x", "--langs", "de", "en", "--out", tmp_path / "y", "--valid", tmp_path / "dev"]
    assert "nofile.de: no such file, nor" in fails("prepare", *words[:-1], tmp_path / "nofile")
    assert not (tmp_path / "y.text").exists(), "no folder yet"
    message = "line 2 is not UTF-8 (byte 0xf6: invalid start byte); perhaps it is"
    assert message in fails("prepare", *words)
    for name in ("dev.de", "x.en"):  # read strictly, or so that odd training pairs can be dropped
        (tmp_path / name).write_bytes("Ja.\n".encode("utf-16") * 40)
        said = fails("prepare", *words)
        assert f"{name}: is UTF-16, must be UTF-8" in said and "parallel" not in said
    train = write_pairs(tmp_path / "long", [("wort " * 300, f"word {i}") for i in range(50)])
    for lang in ("de", "en"):
        (tmp_path / f"mac.{lang}").write_bytes(b"Ja.\r" * 40)
    said = fails("prepare", "--train", tmp_path / "mac", *words[2:-2])
    assert "mac.de: its lines end in carriage returns alone; tr" in said
    raises("--train: of its 50 pairs too few can be held out for valid and test", divided, tmp_path / "z", train)


def test_a_preparation_that_was_stopped_leaves_no_data_and_goes_on(tmp_path, monkeypatch, capsys, fails):
    raw = write_raw(tmp_path / "raw", 60)
    words = ["prepare", "--train", raw, "--langs", *LANGS, "--out", tmp_path / "x", "--size", 50, "--hold-out", 4]
    words = [str(word) for word in words]

    write(tmp_path / "x.text" / ".settings.json.0123456789abcdef", [])  # of a kill at the very beginning
    with monkeypatch.context() as patch:
        patch.setattr(binarised, "binarise_file", Mock(side_effect=KeyboardInterrupt))  # behind the first dictionary
        assert cli.main(words) == 130
    assert not (tmp_path / "x").exists() and not (tmp_path / "x.yaml").exists()
    before = times(tmp_path / "x.text")
    assert "hold_out: 4 then, 5 now" in fails(*words, "--hold-out", 5)
    assert cli.main(words) == 0
    assert times(tmp_path / "x.text") == before, "nothing was done twice"
    recipe = tmp_path / "x.yaml"
    recipe.write_text(recipe.read_text() + "# mine\n")
    (tmp_path / "x.text" / ".lock").unlink()
    (tmp_path / "x.text" / ".lock").mkdir()  # as if nothing could be written here
    before = times(tmp_path)
    capsys.readouterr()
    assert cli.main(words) == 0 and "is complete" in (said := capsys.readouterr().err)
    assert "x.yaml already exists, and is left" in said and times(tmp_path) == before, "the recipe is the user's"
    assert "tokenise: not given then, --lowercase first now" in fails(*words, "--lowercase")
    with raw.with_suffix(".de").open("a") as file:
        file.write("Noch ein Satz.\n")
    said = fails(*words, "--size", 60, "--valid", raw)
    differences = ("size: 50 then, 60 now", "valid: not given then, my now", "train.de: another file than then")
    assert all(difference in said for difference in differences)
    for path in raw.parent.iterdir():
        path.unlink()
    assert cli.main(words) == 0, "the text is not needed any more"


def test_other_languages_sets_of_their_own_and_another_system_of_lines(tmp_path, fails):
    """SentencePiece on text that is not tokenised, for languages that sacremoses does not know."""
    langs = ("qaa", "zh")
    sentences = {"qaa": "Mai\u00a0nu {} tala, na {}.", "zh": "\u732b\u306f{}\u3092\u98df\u3079\u3001{}\u3002"}
    for name, start in (("train", 0), ("dev", 100), ("a", 200), ("b", 210)):
        for lang in langs:
            found = [sentences[lang].format(i, i * i) for i in range(start, start + (60 if name == "train" else 6))]
            (tmp_path / f"{name}.{lang}").write_bytes("".join(f"{line}\r\n" for line in found).encode())
    assert is_unspaced("zh_CN") and is_unspaced("JA") and not is_unspaced("qaa-ZH")
    out = tmp_path / "out"
    words = ["--train", tmp_path / "train", "--valid", tmp_path / "dev", "--test", tmp_path / "a", tmp_path / "b"]
    words += ["--langs", *langs, "--out", out, "--separate-dictionaries", "--max-tokens", 30]
    assert cli.main(["prepare", *map(str, words), "--tokeniser", "none"]) == 0
    assert sha256(out / "dict.zh.txt") != sha256(out / "dict.qaa.txt")
    raw = lines(out / "raw" / "test1.zh")
    assert raw == [sentences["zh"].format(i, i * i) for i in range(210, 216)], "no carriage returns"
    recipe = recipes.load(f"{out}.yaml/macaron-tiny")
    assert {"max-len-a": 1.0, "max-len-b": 200}.items() <= recipe.generate.flags.items(), "long text is not cut"
    assert recipe.subsets == {"test": "a", "test1": "b"} and recipe.score.plain
    assert recipe.train.flags["share-decoder-input-output-embed"] and "share-all-embeddings" not in recipe.train.flags
    words = ["run", f"{out}.yaml/macaron-tiny", "--run-dir", tmp_path / "run", "--cpu"]
    assert "--share-all-embeddings requires a joined" in fails(*words, "--", "--share-all-embeddings")
    pipeline = Pipeline.of(out)
    assert pipeline.units(lines(out / "raw" / "test.qaa")) == lines(Path(f"{out}.text") / "bpe" / "test.qaa")
    assert pipeline.plain_text(SEGMENTATIONS["sentencepiece"].segment(raw, out / "sentencepiece.model")) == raw


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--langs", "de", "de"], "--langs de de"),
        (["--langs", "de", "xx"], "language xx: must be one that sacremoses knows"),
        (["--langs", "de", "zh"], "--langs de zh: sacremoses needs spaces between words"),
        (["--langs", "de", "en.tok"], "--langs en.tok: must be letters, digits, - and _"),
        (["--train", "more"], "--train: must be given once, with all its values, is given twice"),
        (["--tokeniser", "none", "--normalise"], "--normalize: cannot be combined with --tokenizer none"),
        (["--langs", "en", "ja", "--tokeniser", "none"], "language ja: needs another package of sacreBLEU: pip in"),
    ],
)
def test_what_cannot_be_prepared(tmp_path, monkeypatch, fails, words, message):
    monkeypatch.chdir(tmp_path)
    write_raw(tmp_path, 30)
    (tmp_path / "my.xx").write_bytes((tmp_path / "my.en").read_bytes())
    assert message in fails("prepare", "--train", "my", "--langs", *LANGS, "--out", "out", *words)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.yaml").exists()


def test_folders_of_others_are_left_alone(tmp_path, fails):
    raw = write_raw(tmp_path / "raw", 30)
    words = ["prepare", "--train", raw, "--langs", *LANGS, "--out", tmp_path / "x", "--size", 50]
    assert "of its 30 pairs too few can be held out" in fails(*words, "--hold-out", "20")
    said = "x.text/raw/test.de: line 31 has 1,400 units, must have at most 1,023"
    long = write_pairs(tmp_path / "long", [*read_pair(raw, LANGS), ("a b " * 700, "c d " * 700)])
    assert said in fails(*words, "--test", long, "--hold-out", "2")
    theirs = write(tmp_path / "y.text" / "novel", ["Call me Ishmael."])
    assert "y.text: already exists" in fails(*words, "--out", tmp_path / "y")
    write(tmp_path / "z.yaml", ["data: {prepare: another}"])
    assert "its data.prepare makes other data" in fails(*words, "--out", tmp_path / "z")
    (theirs.parent / "settings.json").write_text('{"text_version": "3", "tokenise": "moses"}')  # of data-prep/
    assert "y.text was made with other settings" in fails(*words, "--out", tmp_path / "y")
    assert lines(theirs) == ["Call me Ishmael."]


# Translation.


def test_raw_text_is_translated_as_the_recipe_translates_it(run, file, capsys):
    """The property: generate and detokenise, or translate raw text; the sentences are the same, in order."""
    expected = detokenise(read_generate_output(run / "generate" / "generate-test.txt").hypotheses, "en")
    assert len(set(expected)) > 1 and len(expected) == HELD_OUT
    assert translated(capsys, run, file) == expected
    assert translated(capsys, run, "--beam", "3", file) == expected, "options may stand anywhere"
    score = json.loads((run / "scores" / "test.json").read_text())
    assert score["reference"] == "raw" and "case:mixed" in score["sacrebleu"]["signature"]


def test_order_and_empty_lines_are_kept(translator, sentences):
    each = dict(zip(sentences, translator.translate(sentences), strict=True))
    mixed = [*sentences[::-1], "", "  ", *sentences[:3]]
    Random(1).shuffle(mixed)
    translator.batch_size = 3
    assert translator.translate(mixed) == [each.get(sentence, "") for sentence in mixed]
    translator.batch_size = 128
    assert translator.translate([]) == [] and translator.translate(iter([sentences[0]])) == [each[sentences[0]]]
    for bad, message in (("Gut.", "got one string"), ([b"x"], "sentence 1: must be text")):
        raises(message, translator.translate, bad)


def test_standard_input_line_by_line(run, translator, sentences, capsys, monkeypatch):
    expected = translator.translate(sentences[:4])
    # Of another system, without a last line feed.
    content = "\ufeff" + "\r\n".join([*sentences[:2], "", *sentences[2:4]])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert translated(capsys, run, "--buffer", "1") == [*expected[:2], "", *expected[2:]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"\xff", ": line 3 is not UTF-8 (byte 0xff"),
        (b"a" * (LONGEST + 1), f", line 3: has {LONGEST + 1:,} characters, must have {LONGEST:,} at most"),
    ],
    ids=["bytes", "long"],
)
def test_a_file_with_odd_lines_is_refused(run, translator, sentences, capsys, monkeypatch, tmp_path, bad, message):
    """Before its first line is translated; of a stream, the lines that were read before are translated."""
    (tmp_path / "bad").write_bytes(b"".join(f"{line}\n".encode() for line in sentences[:2]) + bad + b"\nGut.\n")
    capsys.readouterr()
    for file, expected in ((tmp_path / "bad", []), ("-", translator.translate(sentences[:2]))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "bad").read_bytes())))
        assert cli.main(["translate", str(run), str(file), "--cpu", "--buffer", "2"]) == 1
        said = capsys.readouterr()
        assert f"{'standard input' if file == '-' else file}{message}" in said.err
        assert said.out.split("\n")[:-1] == expected


def test_at_a_prompt_every_line_is_answered_at_once(run, translator, sentences, capsys, monkeypatch):
    class Prompt(io.TextIOWrapper):
        def isatty(self):
            return True

    def typed(*_):
        for sentence in sentences[:3]:
            yield sentence
            answered.append(capsys.readouterr().out)

    answered = []
    monkeypatch.setattr(sys, "stdin", Prompt(io.BytesIO()))
    monkeypatch.setattr(translate, "decode_lines", typed)
    assert cli.main(["translate", str(run), "--cpu"]) == 0
    assert [line.rstrip("\n") for line in answered] == translator.translate(sentences[:3])


def test_scores_and_several_hypotheses(run, sentences, tmp_path, capsys, fails):
    file = write(tmp_path / "two.de", [sentences[0], ""])
    best = translated(capsys, run, file)
    rows = [line.split("\t") for line in translated(capsys, run, file, "--nbest", "3", "--scores")]
    assert [row[0] for row in rows] == [*["1"] * 3, *["2"] * 3] and rows[0][2] == best[0]
    assert float(rows[0][1]) >= float(rows[1][1]) >= float(rows[2][1])
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    found = [json.loads(line) for line in translated(capsys, run, file, file, "--nbest", "3", "--json")]
    assert [(each["file"], each["line"]) for each in found] == [(str(file), 1), (str(file), 2)] * 2
    del found[2:]
    assert [each["source"] for each in found] == [sentences[0], ""]
    assert [[t["text"] for t in each["translations"]] for each in found] == [[row[2] for row in rows[:3]], [""] * 3]
    of_fairseq = [line for line in lines(run / "generate" / "generate-test.txt") if line.startswith("H-0\t")]
    assert float(rows[0][1]) == pytest.approx(float(of_fairseq[0].split("\t")[1]), abs=2e-4)
    assert "--nbest 4: must be at most --beam, 3" in fails("translate", run, file, "--nbest", "4", "--cpu")


def test_translations_go_to_a_file_that_is_whole_or_not_there(run, file, capsys, tmp_path, fails):
    output = tmp_path / "out.en"
    assert translated(capsys, run, file, "-o", output) == []
    assert lines(output) == translated(capsys, run, file)
    before = output.read_bytes()
    long = write(tmp_path / "long.de", ["ein Satz", "x" * 20_001])
    assert "20,001 characters" in fails("translate", run, long, "-o", output, "--cpu")
    assert output.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == ["long.de", "out.en"]


def test_samples_are_those_of_their_seed(run, file, sentences, translator, exported, capsys, fails):
    samples = [translated(capsys, run, file, "--sampling", "--seed", seed) for seed in ("1", "1", "2")]
    assert samples[0] == samples[1] != samples[2]
    assert samples[0] != translator.translate(sentences)
    torch.manual_seed(1)
    assert samples[0] == translator.translate(sentences, sampling=True)
    best = translator.translate(sentences, beam=1)
    assert translator.translate(sentences, sampling=True, sampling_topk=1) == best
    assert {len(found) for found in translator.hypotheses(sentences, sampling=True, nbest=2)} == {2}
    words = ("translate", run, file, "--cpu")
    assert "--seed: have no meaning without --sampling" in fails(*words, "--seed", "1")
    assert "search with beam 1" in fails(*words, "--sampling", "--sampling-topk", "9999")
    said = fails("translate", exported, file, "--sampling", "--cpu")
    assert "cannot search with --sampling, only with --beam, --lenpen, --nbest" in said


def test_an_ensemble_of_a_model_with_itself_is_that_model(run, home, bundle, sentences, translator):
    both = ode_transformer.load(run, run / "average.pt")
    assert len(both.backend.models) == 2 and both.translate(sentences) == translator.translate(sentences)
    mixed = ode_transformer.load(run / "average.pt", bundle, data=home / "mine")  # which is not for the bundle
    assert mixed.translate(sentences) == translator.translate(sentences)


def test_a_long_line_is_split_where_a_sentence_ends_and_a_word_never(translator, sentences, capsys, monkeypatch):
    (units,) = translator.pipeline.units([" ".join(s.rstrip("?") + "." * s.endswith("?") for s in sentences)])
    units = units.split()
    most = translator.backend.models[0].max_positions()[0] - 1
    pieces = translator._pieces(units, "x")
    assert len(units) > most and list(itertools.chain(*pieces)) == units and max(map(len, pieces)) <= most
    assert all(piece[-1] == "." for piece in pieces)
    assert f"x: has {len(units)} units, the model takes {most}" in capsys.readouterr().err
    word = ["a@@"] * most
    assert translator._pieces(["b", *word, "c"], "x") == [["b", *word[1:]], ["a@@", "c"]], "a word that is too long"
    halves = translator._pieces(["b"] * (most // 2 + 2) + word[1:] + ["c"], "x")
    assert not any(piece[-1].endswith("@@") for piece in halves)
    (long,) = translator.translate([" ".join(sentences)])
    assert long
    joined = translator._join([[Hypothesis(word, score, word)] for word, score in (("a", -1.0), ("b", -3.0))])
    assert joined == [Hypothesis("a b", -2.0, "a b")], "the mean of the pieces' scores"
    monkeypatch.setattr(translator, "pipeline", replace(translator.pipeline, segmentation="sentencepiece"))
    unspaced = ["\u2581a", *["b"] * (most // 2), "。", *["c"] * (most - 1)]  # no unit but the last ends a word
    assert translator._pieces(unspaced, "x")[0][-1] == "。"
    monkeypatch.setitem(vars(translator.backend), "finite", {"source": 1, "target": 1})
    raises("its attention overflows at the first positions", translator._pieces, ["a", "b"], "x")


def test_what_cannot_be_translated(run, tmp_path, fails):
    good = write(tmp_path / "good", ["Gut."])
    said = fails("translate", run, good, "--data", tmp_path / "none")
    assert "none: no such folder; name the folder of the data of" in said
    assert "was trained with a dictionary of that name" in fails("translate", run, good, "--data", tmp_path)
    assert "must be a run or a bundle" in fails("translate", tmp_path, good)
    assert "nofile: no such file" in fails("translate", run, tmp_path / "nofile")
    said = fails("translate", good, good)
    assert "manifest.json: no such file; it describes how the data of the model were prepared" in said
    (tmp_path / "begun").mkdir()
    shutil.copy(run / "run.json", tmp_path / "begun")
    assert "the run is not finished" in fails("translate", tmp_path / "begun")
    raises("device 'gpu': must be cpu", ode_transformer.load, run, device="gpu")


def change(data, to, **values):
    """A copy of data whose manifest says something else."""
    shutil.copytree(data, to)
    write_json(to / "manifest.json", json.loads((to / "manifest.json").read_text()) | values)
    return to


def test_other_dictionaries_and_manifests_are_refused(run, home, tmp_path, fails, monkeypatch):
    good = write(tmp_path / "good", ["Gut."])
    for name, values, message in (
        ("turned", {"source_lang": "en", "target_lang": "de"}, "translates de to en, but its data were prepared for"),
        ("old", {"tokenise": None}, "does not say how text was tokenized"),
        ("odd", {"tokenise": {"case": "upper"}}, "manifest.json: is not of this version: "),
    ):
        data = change(home / "mine", tmp_path / name, **values)
        assert message in fails("translate", run, good, "--data", data, "--cpu")
    # Data of text that was segmented elsewhere, which an export takes as it is.
    monkeypatch.setattr(writing, "write", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        command.export(run, tmp_path / "exported", "onnx", data=tmp_path / "old")
    other = change(home / "mine", tmp_path / "other")
    words = ["translate", run, good, "--data", other, "--cpu"]
    (other / "codes").unlink()
    assert "codes: is missing, must be the file that manifest.json names" in fails(*words)
    (other / "codes").write_text((home / "mine" / "codes").read_text() + "x y\n")
    assert "codes has changed since the data were binarized" in fails(*words)
    with (other / "dict.de.txt").open("a") as file:
        file.write("another 1\n")
    assert "dict.de.txt: is not the dictionary" in fails(*words)
    hashes = {name: sha256(other / name) for name in ("codes", "dict.de.txt")}
    data = change(other, tmp_path / "changed", sha256=hashes)
    shutil.copy(run / "average.pt", data / "model.pt")
    assert "they belong to another model" in fails("translate", data / "model.pt", good, "--cpu")
    words = ["translate", run, good, "--with", data / "model.pt", "--cpu"]
    assert f"must be the dictionary of {run}" in fails(*words)
    shutil.copy(home / "mine" / "dict.de.txt", data)
    write_json(data / "manifest.json", json.loads((home / "mine" / "manifest.json").read_text()) | {"sha256": {}})
    assert "its text must be prepared like that of" in fails(*words)


def test_data_of_fairseq_preprocess_are_described(run, home, file, sentences, translator, tmp_path, capsys, fails):
    data = tmp_path / "theirs"
    shutil.copytree(home / "mine", data)
    (data / "manifest.json").unlink()
    shutil.copy(run / "average.pt", data / "model.pt")
    assert "`ode-transformer text describe` writes it" in fails("translate", data / "model.pt", file, "--cpu")
    words = ["text", "describe", str(data), "--langs", *LANGS]
    assert "must be one that sacremoses knows" in fails(*words[:-1], "xx")
    shutil.copy(data / "codes", data / "sentencepiece.model")
    assert "holds codes and sentencepiece.model, must hold one of them" in fails(*words)
    (data / "sentencepiece.model").unlink()
    assert "units by subword-nmt" in output_of(words, capsys).out
    expected = translator.translate(sentences, beam=5, lenpen=1.0, max_len_b=MOST)
    assert translated(capsys, data / "model.pt", file, "--max-len-b", MOST) == expected
    assert "manifest.json: already exists" in fails(*words)


def test_data_that_are_segmented_otherwise_than_described_are_refused(home, tmp_path, fails):
    """With subword-nmt's vocabulary and threshold, as its documentation advises."""
    text, data = home / "mine.text", tmp_path / "theirs"
    counts = Counter(unit for line in lines(text / "bpe" / "train.de") for unit in line.split())
    with (home / "mine" / "codes").open(encoding="utf-8") as codes:
        rare = apply_bpe.BPE(codes, vocab={unit for unit, count in counts.items() if count > 40})
    for split, lang in itertools.product(("train", "valid", "test"), LANGS):
        write(tmp_path / "bpe" / f"{split}.{lang}", map(rare.process_line, lines(text / "clean" / f"{split}.{lang}")))
    binarised.binarise(tmp_path / "bpe", data, ("train", "valid", "test"), LANGS, joined=True)
    shutil.copy(home / "mine" / "codes", data)
    said = fails("text", "describe", data, "--langs", *LANGS)
    assert "sentences are segmented otherwise by codes beside them" in said and "vocabulary or glossaries" in said
    (data / "codes").unlink()
    assert "but no model of them is beside it" in fails("text", "describe", data, "--langs", *LANGS)
    assert not (data / "manifest.json").exists()


def test_unknown_units_are_counted_where_text_is_read(home, run, bundle, exported, sentences, tmp_path, capsys):
    file = write(tmp_path / "other", ["Привет, мир.", sentences[0]])
    said = set()
    for one in (run, bundle, exported):
        capsys.readouterr()
        said.add(output_of(["translate", one, file, "--cpu"], capsys).err)
    (warning,) = said
    assert warning.startswith("warning: the text: ") and "unknown to the model's dictionary" in warning
    test = write_pairs(tmp_path / "test", [["Привет, мир."] * 2])
    words = ["--train", home / "raw" / "my", "--test", test, "--langs", *LANGS, "--out", tmp_path / "x", "--size", 300]
    shown = output_of(["prepare", *words], capsys)
    assert "(0.00% unknown)" in shown.out and "warning: test.de: " in shown.err and "train.de: " not in shown.err
    check_units(recipes.load(f"{tmp_path}/x.yaml/macaron-tiny"))  # as a run does
    assert f"warning: {tmp_path}/x/test.de-en.de: " in capsys.readouterr().err


# Text with characters and words of the machinery.


def test_a_recipe_that_leaves_units_is_refused_before_training(home, tmp_path, fails, monkeypatch):
    monkeypatch.setattr(runner.Run, "check_flags", lambda run: None)  # before it, and slow
    tree = yaml.safe_load((home / "mine.yaml").read_text())
    tree["generate"]["flags"]["post-process"] = "sentencepiece"
    write(tmp_path / "mine.yaml", [yaml.safe_dump(tree)])
    said = fails("run", f"{tmp_path}/mine.yaml/macaron-tiny", "--run-dir", tmp_path / "run", "--cpu")
    assert "generate.flags.post-process is sentencepiece, must be subword_nmt" in said


@pytest.mark.parametrize("segmentation", ["subword-nmt", "sentencepiece"])
def test_units_of_any_words_are_no_symbols_and_make_the_same_words_again(tmp_path, segmentation):
    odd = ("</s>", "<s>", "<pad>", "<unk>", "foo@@", "@@", "a</s>", "<blank>")
    model, text = tmp_path / "model", [f"{word} bar x{word}" for word in odd]
    write(tmp_path / "words", text * 50)  # so often that each is a unit of its own
    SEGMENTATIONS[segmentation].learn([tmp_path / "words"], 90, model)
    units = SEGMENTATIONS[segmentation].segment(text, model)
    assert not set(binarised.SPECIAL) & set(" ".join(units).split())
    assert list(map(SEGMENTATIONS[segmentation].join, units)) == text
    assert SEGMENTATIONS["none"].segment(["bar </s>"], model) == ["bar <unk>"]


def test_words_that_are_symbols_are_words_for_every_kind_of_model(tmp_path, capsys):
    pytest.importorskip("ctranslate2")
    odd = [f"<blank> foo@@ bar {i} " + "</s> x <pad>" * (i == 7) for i in range(60)]
    train = write_pairs(tmp_path / "my", [(f"de {line}", f"en {line}") for line in odd])
    words = ["--train", train, "--langs", *LANGS, "--hold-out", 2, "--out", tmp_path / "x"]
    assert cli.main([str(word) for word in ("prepare", *words, "--tokeniser", "none", "--bpe", "none")]) == 0
    assert "x.text/bpe/train.de: 1 line with <s>, <pad>, </s> as words" in capsys.readouterr().err
    numbers, sizes = binarised.numbers_of(tmp_path / "x" / "train.de-en.de")
    assert (numbers == 2).sum() == len(sizes) and not (numbers == 1).any() and (numbers == 3).sum() == 2
    model = saved(tmp_path / "x", tmp_path / "model", "macaron_tiny")
    assert cli.main(["bundle", str(model), "-o", str(tmp_path / "bundle")]) == 0
    assert cli.main(["export", f"{tmp_path}/bundle", "--format", "ctranslate2", "-o", f"{tmp_path}/out"]) == 0
    expected = None
    for path in (model, tmp_path / "bundle", tmp_path / "out"):
        loaded = ode_transformer.load(path)

        def found(word, loaded=loaded):
            sentences = [sentence.format(word) for sentence in ("de {} bar 3", "{}", "de {}")]
            return [best.units for best, *_ in loaded.hypotheses(sentences, beam=1, min_len=0, max_len_b=8)]

        unknown = found("none-such")
        assert all(found(word) == unknown for word in ("</s>", "<s>", "<pad>", "<unk>")), path
        units = [unknown, found("<blank>"), found("foo@@")]  # two that the dictionary has
        assert (expected := expected or units) == units, path


TYPOGRAPHY = {
    "fr": "L’homme d’un âge qu’il dit « bonjour » à 5 € ou 20 km/h : aujourd’hui, c’est “bien” !",
    "en": "It’s the dogs’ ‘bones’; don’t say (“yes”) for €5, 5 € or and/or at 12:30.",
    "de": "»Ja«, „gut“ – ‚so‘ geht’s. 5 € kosten 100 km/h (»so«). Geht's um 9:05?",
    "hi": "यह अच्छा है। वह गया।",
    "it": "L’amico dell’uomo dice: c’è.",
    "ru": "Он сказал: «Да», — и ушёл.",
}


@pytest.mark.parametrize("lang", TYPOGRAPHY)
def test_typographic_characters_are_joined_to_their_words(lang):
    (tokens,) = Tokeniser().tokenise([TYPOGRAPHY[lang]], lang)
    assert detokenise([tokens], lang) == [TYPOGRAPHY[lang]]
    assert detokenise(["a ’ ’ / ‹ b ›"], lang)[0].endswith("/ ‹ b ›"), "which may stand apart"
    assert detokenise(["as ’ 5"], lang) == ["as’ 5" if lang == "en" else "as ’ 5"]


def test_preparation_says_what_a_perfect_system_scores(tmp_path, capsys):
    for lang in ("fr", "en"):
        write(tmp_path / f"my.{lang}", [f"{lang} {i} {i * i}" for i in range(40)])
    write(tmp_path / "good.en", [TYPOGRAPHY["fr"], "oui."])
    write(tmp_path / "good.fr", [TYPOGRAPHY["fr"], "oui."])
    write(tmp_path / "bad.en", ["a", "b"])
    write(tmp_path / "bad.fr", ["oui.", "Les mots d ’ un homme sont là"])
    words = ["--train", tmp_path / "my", "--test", tmp_path / "good", tmp_path / "bad", "--langs", "en", "fr"]
    words += ["--hold-out", 2, "--size", 50]
    said = output_of(["prepare", *words, "--out", tmp_path / "x"], capsys).err
    assert "test.fr: the references themselves, prepared and detokenized, score 100.0 sacreBLEU" in said
    assert "warning: test.fr: no system" not in said and "warning: test1.fr: no system can score more than" in said
    assert "'Les mots d ’ un homme" in said and "becomes 'Les mots d’un homme" in said
    write(tmp_path / "bad.fr", ["oui.", "fr \u2581\u2581 1"])  # the mark of SentencePiece's units
    said = output_of(["prepare", *words, "--tokenizer", "none", "--out", tmp_path / "y"], capsys).err
    assert f"{tmp_path}/y.text/tok/test1.fr: 1 line with \u2581, with which SentencePiece marks" in said
    assert "'fr \u2581\u2581 1' becomes 'fr    1'. --bpe subword-nmt loses nothing" in said


# In Python.


def saved(data: Path, to: Path, arch: str, **sizes) -> Path:
    """A model with random weights beside a copy of the data."""
    shutil.copytree(data, to)
    values = {name: v for name, v in {**SMALL, "share-all-embeddings": True, **sizes}.items() if v is not None}
    torch.manual_seed(1)
    weights = model(arch, values, len(lines(data / "dict.en.txt")) + 4).state_dict()
    torch.save({"cfg": {"model": dict(configure(arch, values))}, "args": None, "model": weights}, to / "model.pt")
    return to / "model.pt"


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"beam": 2.5}, "beam 2.5: must be a whole number"),
        ({"score_reference": True}, "score_reference: is no flag of a search"),
        ({"diverse_beam_groups": 2}, "search with beam 3.*diverse_beam_groups 2: "),
        ({"temperature": 0}, "temperature 0: --temperature must be greater than 0"),
    ],
)
def test_searches_that_there_are_not(translator, search, message):
    raises(message, translator.translate, ["Gut."], **search)


def test_a_translation_that_is_cut_is_named(translator, sentences, capsys):
    ends = {"beam": 30, "lenpen": -5.0}  # a model that was hardly trained ends sentences only so
    (whole, *_), *_ = translator.hypotheses(sentences[:1], max_len_b=50, **ends)
    capsys.readouterr()
    assert (length := len(whole.units.split())) < 50
    assert translator.hypotheses(sentences[:1], max_len_b=length + 1, **ends)
    assert "warning" not in capsys.readouterr().err
    (cut, *_), _ = translator.hypotheses(sentences[:2], names=["x, line 1", "x, line 2"], max_len_b=3)
    assert len(cut.units.split()) == 3
    assert "positions cut off 2 translations (x, line 1; x, line 2)" in capsys.readouterr().err


def test_the_same_weights_with_another_integrator(home, sentences, tmp_path):
    sentence = sentences[0]
    residual = ode_transformer.load(saved(home / "mine", tmp_path / "residual", "ode_residual_tiny"))
    residual.search = residual.search.but(max_len_b=4)
    heun = residual.with_integrator("heun")
    for name, p in residual.backend.models[0].state_dict().items():
        assert torch.equal(p, heun.backend.models[0].state_dict()[name])
    assert "integrator heun" in repr(heun) and "integrator euler" in repr(residual)
    assert "decoder integrator heun" in repr(residual.with_integrator(decoder="heun"))
    euler, second = (m.layer_states(sentence).encoder for m in (residual, heun))
    again = heun.with_integrator("euler").layer_states(sentence).encoder
    assert torch.equal(euler[0], second[0]) and torch.equal(euler, again)
    built = ode_transformer.load(saved(home / "mine", tmp_path / "heun", "ode_residual_tiny", integrator="heun"))
    built.search = residual.search
    assert torch.equal(second, built.layer_states(sentence).encoder)

    gated = ode_transformer.load(saved(home / "mine", tmp_path / "gated", "rk2_learnable_tiny"))
    assert "integrator midpoint" in repr(gated.with_integrator("midpoint")), "two stages, too"
    for name in ("euler", "rk4"):
        raises(rf"{name}.*sigmoid.*lost: encoder\.coefficients\.gate\.weight", gated.with_integrator, name)
    raises("'rk5': must be one of euler", gated.with_integrator, "rk5")
    evolved = ode_transformer.load(saved(home / "mine", tmp_path / "evolved", "transevolve_fullff_1_tiny", **EVOLUTION))
    raises("transevolve model, whose blocks have no integrator", evolved.with_integrator, "euler")
    assert "encoder 1 block of width 16; decoder 1 block of width 16" in repr(evolved)


def test_a_released_checkpoint_is_described_as_the_model_that_it_is():
    opened = Opened.of(as_written(load("ode_rk2_learnable")), "x")
    assert "integrator heun, coefficients sigmoid" in str(opened) and "ode residual released" in str(opened)
    assert "relative positions" not in str(opened)
    raises("x: must not be of ode_released, whose own options", opened.stepping, {"integrator": "heun"})


def test_layer_states_are_those_that_the_translation_came_from(translator, sentences, monkeypatch):
    net, (_, target) = translator.backend.models[0], translator.backend.dictionaries
    monkeypatch.setattr(translator, "search", translator.search.but(beam=1))
    states = translator.layer_states(sentences[0])
    (greedy,) = translator.translate(sentences[:1])
    assert states.encoder.shape == (3, len(states.source), 16) and states.decoder.shape == (3, len(states.target), 16)
    assert states.source[-1] == states.target[-1] == "</s>"
    assert translator.pipeline.plain_text([" ".join(states.target[:-1])]) == [greedy]
    with torch.no_grad():
        logits = net.decoder.output_layer(net.decoder.layer_norm(states.decoder[-1]))
    logits[:, target.pad()] = -torch.inf
    kept = slice(MOST)  # fairseq adds the end to one that is cut
    assert [target.symbols[i] for i in logits.argmax(-1)][kept] == states.target[kept]


@pytest.mark.parametrize("arch", ["floater_tiny", pytest.param("ode_dlcl_tiny", marks=pytest.mark.full)])
def test_every_family_translates_as_fairseq_builds_it(home, sentences, tmp_path, arch):
    """A checkpoint's model, and a bundle's, give the translations of the model that fairseq-train would build."""
    path = saved(home / "mine", tmp_path / "model", arch)
    ours = ode_transformer.load(path)
    built = model(arch, {**SMALL, "share-all-embeddings": True}, len(ours.backend.symbols[1])).eval()
    built.load_state_dict(torch.load(path, weights_only=True)["model"])

    def found(translator):
        best = [best for best, *_ in translator.hypotheses(sentences[:4], max_len_b=20)]
        return [h.units for h in best], [h.score for h in best]

    units, scores = found(ours)
    assert cli.main(["bundle", str(path), "-o", str(tmp_path / "bundle")]) == 0
    assert found(ode_transformer.load(tmp_path / "bundle")) == (units, scores)
    ours.backend = PyTorch([replace(ours.backend.opened[0], model=built)], ours.backend.task, "cpu")
    assert found(ours)[0] == units and found(ours)[1] == pytest.approx(scores, abs=1e-5) and len(set(scores)) == 4


# Bundles.


def test_a_bundle_translates_anywhere(run, home, bundle, sentences, translator, tmp_path, monkeypatch):
    moved = shutil.copytree(bundle, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    loaded = ode_transformer.load("moved")
    assert loaded.search == translator.search and loaded.translate(sentences) == translator.translate(sentences)
    both = (one.backend.models[0].parameters() for one in (loaded, translator))
    assert all(map(torch.equal, *both))
    names = {path.name for path in moved.iterdir()}
    assert names == {"model.safetensors", "config.json", "dict.de.txt", "dict.en.txt", "codes", "manifest.json",
                     "record.json", "README.md", "bundle.json"}  # fmt: skip
    assert not any(str(home) in path.read_text() for path in moved.glob("*.json")), "no folder of this machine"
    card = (moved / "README.md").read_text()
    bleu = json.loads((run / "scores" / "test.json").read_text())["sacrebleu"]["bleu"]
    about = yaml.safe_load(card.split("---\n")[1])  # what the Hub reads
    assert (about["language"], about["pipeline_tag"]) == (["de", "en"], "translation") and "license" not in about
    assert f"| {bleu:.2f} | `nrefs:1" in card
    (moved / "README.md").write_text("Mine.\n")
    bundles.check(moved)  # a card may be changed


def test_half_precision_takes_half_the_space(run, bundle, tmp_path, fails):
    assert cli.main(["bundle", str(run), "-o", str(tmp_path / "half"), "--fp16"]) == 0
    size = [(folder / "model.safetensors").stat().st_size for folder in (tmp_path / "half", bundle)]
    assert size[0] < 0.7 * size[1]
    assert "these are scores of its fp32 weights" in (tmp_path / "half" / "README.md").read_text()
    assert cli.main(["bundle", str(run / "checkpoint_last.pt"), "-o", str(tmp_path / "last")]) == 0
    assert not (tmp_path / "last" / "record.json").exists(), "the scores are of another checkpoint"
    loaded = ode_transformer.load(tmp_path / "half")
    reference = ode_transformer.load(bundle)
    for one, other in zip(loaded.backend.models[0].parameters(), reference.backend.models[0].parameters(), strict=True):
        assert one.dtype == torch.float32 and torch.equal(one, other.half().float())
    assert "already exists; a bundle takes a new folder" in fails("bundle", run, "-o", tmp_path / "half")
    assert "is a bundle already" in fails("bundle", bundle, "-o", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_bundle_may_hold_a_license_and_what_is_missing_changed_or_odd_is_named(bundle, tmp_path, fails):
    folder = shutil.copytree(bundle, tmp_path / "bundle")
    write(folder / "LICENSE", ["MIT"])
    bundles.check(folder)
    for name in ("codes", bundles.WEIGHTS):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        said = fails("translate", folder)
        assert f"{folder / name}: has changed since its SHA-256 was noted; make or copy the bundle again" in said
        (folder / name).unlink()
        assert f"{folder / name}: is missing, or not a file of its folder" in fails("translate", folder)
        (folder / name).write_bytes(content)
    write(folder / "sentencepiece.model", ["x"])
    raises(r"sentencepiece\.model: is not a file of the bundle", bundles.check, folder)


def test_a_bundle_of_a_stranger_runs_no_code_and_reaches_no_other_file(bundle, tmp_path, fails):
    def forged(name, change):
        folder = shutil.copytree(bundle, tmp_path / name)
        index = json.loads((folder / "bundle.json").read_text())
        config = json.loads((folder / "config.json").read_text())
        change(index, config)
        (folder / "config.json").write_text(json.dumps(config))
        index["sha256"]["config.json"] = index["sha256"].get("config.json") and sha256(folder / "config.json")
        write_json(folder / "bundle.json", index)
        return fails("translate", folder)

    marker = tmp_path / "executed"
    code = f"__import__('os').system('touch {marker}')"
    assert "adaptive_softmax_cutoff" in forged("a", lambda _, c: c["options"].update(adaptive_softmax_cutoff=code))
    assert not marker.exists()
    assert "architectures 'fconv'" in forged("b", lambda _, c: c.update(model="fconv"))
    assert "x: is missing, or not a file of its folder" in forged("c", lambda i, _: i["sha256"].update({"../x": "0"}))
    assert "is damaged, or not of this version: format must be 1" in forged("d", lambda i, _: i.update(format=2))
    assert "tied.y must be a text" in forged("i", lambda _, c: c["tied"].update(y=[]))
    assert "codes: is not a file of the bundle" in forged("j", lambda i, _: i["sha256"].pop("codes"))
    assert "tied to 'x'" in forged("e", lambda _, c: c["tied"].update(y="x"))
    assert "--beam 1000000: must be from 1 to 1000" in forged("g", lambda _, c: c["generate"].update(beam=10**6))
    assert "max_len_b [1]: must be a whole number" in forged("h", lambda _, c: c["generate"].update({"max-len-b": [1]}))
    assert "options must be a mapping" in forged("f", lambda _, c: c.update(options=[1]))


def test_views_of_one_tensor_are_bundled_as_tensors_of_their_own(tmp_path):
    """safetensors takes no two that share memory; those that are the same view are tied instead."""
    w = torch.arange(6.0)
    state = {"a": w, "b": w[:2], "c": w, "d": w.view(2, 3)}
    bundles.write(tmp_path / "x", "macaron", {}, state, generate={}, files={}, texts={})
    assert bundles.config(tmp_path / "x")["tied"] == {"c": "a"}
    held = safetensors.torch.load_file(tmp_path / "x" / bundles.WEIGHTS)
    assert held.keys() == {"a", "b", "d"} and all(torch.equal(held[name], state[name]) for name in held)
    bundles.write(tmp_path / "z", "macaron", {}, {"a": w.half()}, generate={}, files={}, texts={})
    (full,) = safetensors.torch.load_file(tmp_path / "z" / bundles.WEIGHTS).values()
    assert full.dtype == torch.float32, "also of a training in fp16"
    with pytest.raises(bundles.CheckpointError, match="a has values that are not finite in fp16"):
        bundles.write(tmp_path / "y", "macaron", {}, {"a": 1e5 * w}, generate={}, files={}, texts={}, half=True)


# Exported models.


@pytest.fixture(scope="module")
def exported(home, run):
    """The run as a model of CTranslate2."""
    pytest.importorskip("ctranslate2")
    assert cli.main(["export", str(run), "--format", "ctranslate2", "-o", str(home / "exported")]) == 0
    return home / "exported"


def test_an_exported_model_translates_as_its_run(exported, translator, sentences, tmp_path, capsys, monkeypatch):
    """CTranslate2's search differs where the end is forbidden and where a translation is cut: not here."""
    loaded = ode_transformer.load(exported)
    assert loaded.search == translator.search == Search(3, 0.8, max_len_b=MOST)
    sentences = [*sentences, ""]
    same = {"min_len": 0, "max_len_b": 20, "beam": 1}
    whole = [ours for (ours, *_) in translator.hypotheses(sentences, **same)]
    theirs = [best for (best, *_) in loaded.hypotheses(sentences, **same)]
    assert [found.text for found in theirs] == [ours.text for ours in whole] and len(set(theirs)) > 2
    for ours, found in zip(whole, theirs, strict=True):
        if len(ours.units.split()) < 20:  # of one that is cut, fairseq's score has the end that it adds
            assert found.score == pytest.approx(ours.score, abs=1e-4)
    file = write(tmp_path / "three.de", ["", *sentences[:2]])
    best = translated(capsys, exported, file)
    assert best == ["", *(found.text for found, *_ in loaded.hypotheses(sentences[:2]))]
    assert "ctranslate2, fp32" in repr(loaded) and "de to en" in repr(loaded)
    monkeypatch.setattr(opening, "ROOT", exported.parent)
    assert translated(capsys, exported.name, file) == best, "as a run's folder is found in the repository"


def test_what_an_exported_model_cannot_do_is_named(exported, run, home, tmp_path, fails):
    loaded = ode_transformer.load(exported)
    for ask in (lambda: loaded.with_integrator("heun"), lambda: loaded.layer_states("Gut.")):
        raises("is an exported model, whose layers are fixed", ask)
    good = write(tmp_path / "good", ["Gut."])
    for words in ([run, good, "--with", exported], [exported, good, "--data", home / "mine"]):
        assert "an exported model, which takes no --data and no --with" in fails("translate", *words)
    assert "--fp16: " in fails("translate", exported, good, "--fp16")
    assert "is an exported model already; must be a run" in fails("bundle", exported, "-o", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_notebook(run, monkeypatch, capsys):
    """Its code cells, one after the other, on the model of these tests; it is kept with the outputs of the demo's."""
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in cells)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names: dict = {}
    for cell in cells:
        exec("".join(cell["source"]).replace('"runs/quickstart/macaron-tiny"', repr(str(run))), names)
    assert "quickstart" not in str(names["model"]) and len(names["translations"]) == len(names["sentences"])
    said = capsys.readouterr().out
    assert "integrator multistep" in said and "model.safetensors\n" in said and said.endswith("\nTrue\n")
