"""Data preparation: a tiny Multi30k through the script, its checks, its second runs; the real one where it is."""

import gzip
import itertools
import json
import os
import shlex
import signal
from functools import partial
from pathlib import Path

import pytest
from fairseq import options
from fairseq.data.indexed_dataset import best_fitting_int_dtype
from fairseq_cli import preprocess

from ode_transformer.experiments import cli
from ode_transformer.experiments.text import binarised, manifest, pairs, parallel
from ode_transformer.experiments.text.lines import TextError, read_pair
from ode_transformer.experiments.text.pipeline import Pipeline
from ode_transformer.experiments.text.preparation import prepare_examples
from ode_transformer.files import write_json, write_lines
from tests.cli.data_scripts import command, lines, members, run, sentences, twice
from tests.helpers import ROOT, raises

S2L = ROOT / "data-prep" / "prepare-short-to-long.sh"
multi30k = partial(command, "multi30k")
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
OWN = ("--pair", "en-de", "--segmentation", "own", "--merges", "60", "--workers", "1")


def write_raw(folder: Path, langs=("en", "de", "fr"), train: int = 48) -> Path:
    """A raw Multi30k, by default of a few dozen sentences."""
    counts = {"train": train, "val": 8, **dict(zip(TESTS, (9, 7, 5), strict=True)), "test_2018_flickr": 6}
    for split, count in counts.items():
        for lang in langs:
            write_lines(folder / f"{split}.{lang}", sentences(lang, count))
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Text of own segmentation, with an empty and an over-long pair in training and validation; and a dry run."""
    base = tmp_path_factory.mktemp("own")
    raw = write_raw(base / "download" / "raw", ("en", "de"))  # not the script's own downloads
    for split in ("train", "val"):
        with (raw / f"{split}.en").open("a") as en, (raw / f"{split}.de").open("a") as de:
            en.write("Nothing here.\n" + "word " * 300 + "\n")
            de.write(" \nWort\n")
    for path in raw.glob("test_2018_flickr.*"):  # a packed file is as good
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    dry_run = multi30k("--pair", "en-fr", "--segmentation", "own", "--dry-run", "--out", base / "dry")
    once = multi30k(*OWN, "--out", base / "out", RAW_DIR=raw)
    return base, *twice(base / "out", once, dry_run, answers=base / "answers")


def test_own_segmentation(own):
    base, *_ = own
    out, work = base / "out", base / "out.text"
    for i, split in enumerate((*TESTS, "test_2018_flickr")):
        name = f"test{i or ''}"
        assert (out / f"{name}.en-de.de.bin").stat().st_size > 0
        assert lines(out / "raw" / f"{name}.de") == sentences("de", (9, 7, 5, 6)[i])
        assert lines(out / "tok" / f"{name}.de") == lines(work / "tok" / f"{split}.de")
    assert (out / "dict.de.txt").read_bytes() == (out / "dict.en.txt").read_bytes()
    tokens = "two children &apos;s friends reads &quot; a book , &quot; slowly ."
    assert lines(work / "tok" / "test_2016_flickr.en")[2] == tokens
    segmented = lines(work / "bpe" / "train.de")
    assert any("@@ " in line for line in segmented)
    assert [line.replace("@@ ", "") for line in segmented] == lines(work / "tok" / "train.de")[:48]


def test_odd_lines_are_reported_and_dropped_from_training_only(own):
    base, done, _ = own
    work = base / "out.text"
    assert "tok/train.{en,de}: 1 pair with an empty side (line 49): dropped" in done.stderr
    assert "tok/train.{en,de}: 1 pair with more than 250 tokens on a side (line 50): dropped" in done.stderr
    assert "tok/val.{en,de}: 1 pair with an empty side (line 9): kept" in done.stderr
    assert len(lines(work / "bpe" / "train.en")) == 48 and len(lines(work / "bpe" / "val.en")) == 10
    assert "train.en is not the published file" in done.stderr


def test_manifest(own):
    base, *_ = own
    manifest = json.loads((base / "out" / "manifest.json").read_text())
    names = dict(zip(("test", "test1", "test2", "test3"), (*TESTS, "test_2018_flickr"), strict=True))
    assert manifest["splits"] == {"train": "train", "valid": "val", **names}
    assert (manifest["source_lang"], manifest["target_lang"], manifest["settings"]["cased"]) == ("en", "de", "no")
    assert manifest["settings"]["segmentation"] == "own" and manifest["source"] == "RAW_DIR"
    units = " ".join(lines(base / "out.text" / "bpe" / "test_2016_flickr.de")).split()
    assert manifest["counts"]["train"]["lines"] == 48 and manifest["counts"]["test"]["tokens"]["de"] == len(units)
    assert manifest["symbols"]["de"] == len(lines(base / "out" / "dict.de.txt")) + 4
    assert {"codes", "dict.de.txt", "raw/test.de", "segmented/train.en"} <= manifest["sha256"].keys()
    assert manifest["settings"]["merges"] == "60" and "subword-nmt" in manifest["versions"]
    assert str(base) not in json.dumps(manifest)
    raw = lines(base / "out" / "raw" / "test.en")
    assert Pipeline.of(base / "out").units(raw) == lines(base / "out.text" / "bpe" / "test_2016_flickr.en")


def test_dry_run_prints_the_commands_and_does_nothing(own):
    """Those of the downloads, too, without any text."""
    base, _, done = own
    assert done.returncode == 0, done.stderr
    for word in ("file:///nonexistent/train.fr.gz", "text prepare", "--lowercase", "test_2018_flickr"):
        assert word in done.stdout
    assert not list(base.glob("dry*"))


@pytest.mark.full
def test_published_segmentation(tmp_path):
    """Taken as it is, with raw references only where they fit."""
    raw = write_raw(tmp_path / "set" / "raw", ("en", "de"))
    (raw / "test_2017_flickr.de").unlink()
    folder = tmp_path / "set" / "bpe10k-en-de"
    write_lines(folder / "code", ["#version: 0.2"])
    names = {"train": 48, "valid": 8, "test.2016": 9, "test.2017": 7, "test.coco": 5}
    for split, count in names.items():
        for lang in ("en", "de"):
            write_lines(folder / f"{split}.{lang}", map(str.lower, sentences(lang, count)))
    options = ("--pair", "de-en", "--segmentation", "published", "--workers", "1")
    done = run(multi30k(*options, "--out", tmp_path / "out", RAW_DIR=folder.parent))
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert (out / "test2.de-en.en.bin").is_file() and (out / "codes").is_file()
    assert lines(out / "raw" / "test.de") == sentences("de", 9)
    assert lines(out / "tok" / "test.en") == [line.lower() for line in sentences("en", 9)]
    assert (out / "raw" / "test2.de").exists() and not (out / "raw" / "test1.de").exists()
    assert "no raw text of test_2017_flickr.de" in done.stderr


def die(lines):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_ends_the_work():
    raises("was killed", list, parallel.in_parallel(die, [""] * (parallel.CHUNK + 1), 2))


def test_work_in_parallel_keeps_its_order_and_draws_no_more_than_it_needs(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK", 1)
    drawn = []
    found = parallel.in_parallel(list, (drawn.append(i) or str(i) for i in range(50)), 2)
    assert [next(found) for _ in range(3)] == [["0"], ["1"], ["2"]] and 4 < len(drawn) < 10
    assert list(found) == [[str(i)] for i in range(3, 50)]


def binarised_by_fairseq(folder: Path, *words: str) -> None:
    """Call fairseq-preprocess on files of a folder, {} in words, for ``theirs`` in it."""
    words = [word.replace("{}", str(folder)) for word in words]
    preprocess.main(options.get_preprocessing_parser().parse_args(words))
    (folder / "theirs" / "preprocess.log").unlink()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"joined": True}, ["--joined-dictionary"]),
        pytest.param({"joined": True, "workers": 2}, ["--joined-dictionary"], marks=pytest.mark.full),
        ({"symbols": 12}, ["--nwordssrc", "12", "--nwordstgt", "12"]),
        ({"dictionaries": ["given.en", "given.de"]}, ["--srcdict", "{}/given.en", "--tgtdict", "{}/given.de"]),
    ],
    ids=["joined", "two processes", "cut off", "given"],
)
def test_binarised_text_is_that_of_fairseq(tmp_path, monkeypatch, ours, theirs):
    """Dictionaries and binarized text to the byte, with unknown words and strange spaces in the text. fairseq takes the
    words </s> and <pad> for its symbols."""
    monkeypatch.setattr(parallel, "CHUNK", 7)  # several chunks per file
    for split, count in (("train", 40), ("valid", 5), ("test", 9), ("test1", 3)):
        for lang in ("en", "de"):
            odd = ["<unk> a\u00a0b", "", "<unk> madeupword0001 \u3000 x", "newer"]
            write_lines(tmp_path / f"{split}.{lang}", sentences(lang, count) + odd[: 3 + (split != "train")])
    for lang in ("en", "de"):
        write_lines(tmp_path / f"given.{lang}", ["park. 9", "Park. 8", "a 1"])
    names = ["--source-lang", "en", "--target-lang", "de"]
    for name, given in (("train", "train"), ("valid", "valid"), ("test", "test,{}/test1")):
        names += [f"--{name}pref", f"{{}}/{given}"]
    binarised_by_fairseq(tmp_path, *names, *theirs, "--destdir", "{}/theirs")
    if "dictionaries" in ours:
        ours = {"dictionaries": [tmp_path / name for name in ours["dictionaries"]]}
    binarised.binarise(tmp_path, tmp_path / "ours", ("train", "valid", "test", "test1"), ("en", "de"), **ours)
    assert members(tmp_path / "ours") == members(tmp_path / "theirs") and len(members(tmp_path / "ours")) == 18


def test_text_of_one_language_is_that_of_fairseq(tmp_path, monkeypatch):
    """As ``fairseq-preprocess --only-source`` writes it, with several chunks and an empty file."""
    monkeypatch.setattr(parallel, "CHUNK", 7)
    texts = {"train": sentences("en", 40), "valid": sentences("fr", 9), "valid1": ["<unk> a\u00a0b", ""], "test": []}
    for split, found in texts.items():
        write_lines(tmp_path / split, found)
    words = ["--only-source", "--destdir", "{}/theirs", "--trainpref", "{}/train", "--testpref", "{}/test"]
    binarised_by_fairseq(tmp_path, *words, "--validpref", "{}/valid,{}/valid1")
    binarised.binarise_files({split: tmp_path / split for split in texts}, tmp_path / "ours")
    assert members(tmp_path / "ours") == members(tmp_path / "theirs") and len(members(tmp_path / "ours")) == 9
    for size in (65_495, 65_496):  # the most for the smaller type, and one more, without the special symbols
        write_lines(tmp_path / "dict.txt", (f"{i} 1" for i in range(size)))
        binarised.binarise_files({"valid": tmp_path / "valid"}, tmp_path / "large", tmp_path / "dict.txt")
        assert binarised.numbers_of(tmp_path / "large" / "valid")[0].dtype == best_fitting_int_dtype(size + 4)
    raises("none: No such file", binarised.binarise_files, {"train": tmp_path / "none"}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_classes_have_the_same_numbers_in_data_that_are_prepared_anew(tmp_path):
    """In the order of the alphabet, whichever is more frequent; fairseq has them by their counts."""
    for name, labels in (("first", ["pos", "pos", "neg"]), ("second", ["pos", "neg", "neg"])):
        write_lines(tmp_path / "examples" / "train.label", labels)
        prepare_examples(tmp_path / name, tmp_path / "examples")
        assert binarised.symbols_of(tmp_path / name / "label" / "dict.txt")[4:6] == ["neg", "pos"]
        numbers, _ = binarised.numbers_of(tmp_path / name / "label" / "train")
        assert numbers[::2].tolist() == [{"neg": 4, "pos": 5}[label] for label in labels]


def test_binarised_text_becomes_text_with_its_own_dictionary_alone(tmp_path):
    for lang in ("en", "fr"):
        write_lines(tmp_path / f"train.{lang}", ["a b", "", f"{lang} a"])
    binarised.binarise(tmp_path, tmp_path / "data", ["train"] * 3, ("en", "fr"))
    binarised.unbinarise(tmp_path / "data", tmp_path / "out", ["train"], ("en", "fr"))
    assert all(lines(tmp_path / "out" / f"train.{lang}") == ["a b", "", f"{lang} a"] for lang in ("en", "fr"))
    write_lines(tmp_path / "data" / "dict.en.txt", ["a 2", "b 1"])
    with pytest.raises(TextError, match=r"dict\.en\.txt: has 6 symbols, but .*train.en-fr.en.bin holds number 6"):
        binarised.unbinarise(tmp_path / "data", tmp_path / "new", ["train"], ("en", "fr"))
    assert not (tmp_path / "new").exists()


def test_text_of_one_language_replaces_nothing_of_the_users(tmp_path, fails):
    write_lines(tmp_path / "text" / "train", ["a b"])
    write_lines(tmp_path / "x.part" / "novel", ["Call me Ishmael."])
    words = ["text", "binarise", f"{tmp_path}/x"]
    assert "x.part: holds no parts of examples" in fails(*words, tmp_path / "x.part")
    assert not (tmp_path / "x").exists()
    assert cli.main([*words, str(tmp_path / "text")]) == 0
    assert lines(tmp_path / "x.part" / "novel") == ["Call me Ishmael."] and (tmp_path / "x" / "train.idx").exists()
    assert "x: already exists" in fails(*words, tmp_path / "text")
    more = ["--langs", "de", "en", "--splits", "train", "valid", "test", "--name", "x", "--source", "x"]
    assert "x: already exists" in fails("text", "prepare", tmp_path / "x", *more)


def test_what_text_prepare_refuses_before_any_work(tmp_path, fails):
    (tmp_path / "y.text" / "raw").mkdir(parents=True)
    for out, more, message in (
        ("x", ["--add", "tset", "a", "a"], "--add tset: must be one of --splits, train, valid, test"),
        ("x", ["--add", "valid", "a", "a", "--every", "9"], "--every 9: makes valid, which --add gives"),
        ("y", ["--add", "train", "a", "a"], "y.text: was left by an earlier call, of perhaps other files and options"),
        *(
            ("x", ["--start", "bpe", *more], f"{' '.join(more)}: --start bpe takes text as it is")
            for more in (["--every", "9"], ["--max-tokens", "80"], ["--ratio", "1.5"], ["--test-units", "9"])
        ),
        ("x", ["--langs", "de", "de"], "--langs de de: must be two different languages"),
        ("x", ["--langs", "de", "source", "--tokenise="], "language source: must be one that sacremoses knows, as, "),
    ):
        words = ["--langs", "de", "en", "--splits", "train", "valid", "test", "--name", "x", "--source", "x", *more]
        assert message in fails("text", "prepare", tmp_path / out, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["y.text"]


def test_text_of_another_version_is_not_taken_for_complete(tmp_path, monkeypatch):
    file = tmp_path / "settings.json"
    (tmp_path / "download").mkdir()  # which fits all settings
    for merges in ("8", "9"):
        manifest.check_settings(file, {"merges": merges})
    (tmp_path / "text").touch()
    monkeypatch.setattr(manifest, "VERSION", "next")
    raises(r"text_version: \d then, next now", manifest.check_settings, file, {"merges": "9"})


def prepare_real_data(segmentation: str, out: Path) -> Path:
    data = os.environ.get("ODE_TRANSFORMER_DATA")
    if not data:
        pytest.skip("ODE_TRANSFORMER_DATA is not set: a folder with multi30k/ or multi30k.tar.xz is needed")
    options = ("--pair", "en-de", "--segmentation", segmentation, "--workers", "2", "--out", out)
    done = run(multi30k(*options, ODE_TRANSFORMER_DATA=data))
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr  # all files are the published ones
    return out.parent / f"{out.name}.text" / "bpe"


@pytest.mark.full
def test_raw_text_becomes_the_published_text(tmp_path):
    """All 32,475 pairs, to the letter: sacremoses and our cleaning are what Moses was to Wu et al."""
    own, published = (prepare_real_data(name, tmp_path / name) for name in ("own", "published"))
    for split in ("train", "val", *TESTS):
        for lang in ("en", "de"):
            assert lines(own / f"{split}.{lang}") == lines(published / f"{split}.{lang}")


# Short to long (FLOATER, Figure 2)


def test_text_is_divided_by_the_length_of_its_sources(tmp_path):
    for lang in ("en", "de"):
        write_lines(tmp_path / "data.text" / "bpe" / f"train.{lang}", [" ".join("x" * n) for n in (2, 3, 4, 5)])
        write_lines(tmp_path / "data.text" / "bpe" / f"valid.{lang}", ["x x"])
    write_json(tmp_path / "data" / "manifest.json", {"splits": {"train": "train", "valid": "valid"}})
    divide = partial(pairs.short_to_long, tmp_path / "data", tmp_path / "cut", ("en", "de"), 3)
    for bins, message in (([10, 9], "must increase"), ([3, 900], "no pairs for test1"), ([2, 4], "from --limit on")):
        raises(message, divide, bins)
    divide([3, 5])
    write_json(tmp_path / "data" / "manifest.json", {"settings": {}})
    raises("data: must be of parallel text", divide, [3, 5])
    for name, lengths in {"train": [2], "valid": [2], "test": [3, 4], "test1": [5]}.items():
        found = list(read_pair(tmp_path / "cut" / name, ("en", "de")))
        assert found == [(" ".join("x" * n),) * 2 for n in lengths], "pairs stay pairs, none is lost or doubled"


def test_short_to_long(own, tmp_path):
    base, *_ = own
    words = [S2L, base / "out", "--out", tmp_path / "s2l"]
    once = [*words, "--limit", 8, "--bins", "8 10 13"]
    reverse = [*words, "--limit", 9, "--bins", "9 13", "--source", "de", "--target", "en"]
    # Our own scripts are named from the repository; paths may hold blanks.
    prepared_by = "data-prep/prepare-wmt16-en-ro.sh --delight 'de light'"
    by = [S2L, tmp_path / "new data", "--dry-run", "--prepared-by", prepared_by]
    _, reverse, made = twice(tmp_path / "s2l", once, reverse, by, answers=tmp_path / "answers")
    parts = [lines(tmp_path / f"s2l.text/bpe/{split}.en") for split in ("train", "test", "test1", "test2")]
    assert sorted(itertools.chain(*parts)) == sorted(lines(base / "out.text/bpe/train.en")) and all(parts)
    assert (tmp_path / "s2l/dict.en.txt").read_bytes() == (base / "out/dict.en.txt").read_bytes()
    assert (tmp_path / "s2l/test2.en-de.en.bin").is_file()
    assert "@@" not in (tmp_path / "s2l/tok/test.de").read_text()
    settings = "source: en then, de now; target: de then, en now; limit: 8 then, 9 now; bins: 8-10-13 then, 9-13 now"
    assert reverse.returncode != 0 and settings in reverse.stderr
    script = str(S2L.with_name("prepare-wmt16-en-ro.sh"))
    ours = [script, "--delight", "de light", "--out", str(tmp_path / "new data")]
    assert shlex.split(made.stdout.splitlines()[0]) == ours
