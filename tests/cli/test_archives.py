"""Corpora that are published as archives: each script on a miniature of the real layout, and what can go wrong."""

import gzip
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from ode_transformer.experiments.metrics.bleu import split_compounds
from ode_transformer.experiments.text import binarised, pairs, parallel, subwords
from ode_transformer.experiments.text.lines import read_lines, read_pair, watched
from ode_transformer.experiments.text.pairs import Limits
from ode_transformer.experiments.text.tokenisation import Tokeniser
from ode_transformer.files import sha256, write_lines
from tests.cli import data_scripts
from tests.cli.data_scripts import clean, joined, lines, refusals, run, sentences, tar, twice
from tests.helpers import ROOT, Terminal, raises

ROMANIAN = [
    "Un bărbat stă în parc.",
    "O femeie citeşte „o carte”.",
    "Copiii aleargă pe stradă!",
    "Câinele poartă ţoale.",
]


def side(lang: str, count: int, start: int = 0) -> list[str]:
    if lang == "ro":
        return [ROMANIAN[i % 4] for i in range(start, start + count)]
    return sentences(lang, start + count)[start:]


def segments(found: list[str]) -> bytes:
    """A test set as WMT and TED wrap it."""
    rows = [f'<seg id="{i}"> {line} </seg>' for i, line in enumerate(found, 1)]
    return joined(['<?xml version="1.0"?>', '<doc docid="x">', "<title>None of it</title>", *rows, "</doc>"])


def two(prefix: str, langs: tuple[str, str], count: int, start: int = 0, suffix: str = "") -> dict[str, bytes]:
    pack = gzip.compress if suffix else bytes
    return {f"{prefix}.{lang}{suffix}": pack(joined(side(lang, count, start))) for lang in langs}


def wrapped_set(count: int, pair: str, source: str, target: str, name: str) -> dict[str, bytes]:
    return {
        f"{name}-{pair}-src.{source}.sgm": segments(side(source, count)),
        f"{name}-{pair}-ref.{target}.sgm": segments(side(target, count)),
    }


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Path:
    """All archives in one folder, each with the members that the real one has, and one more."""
    folder = tmp_path_factory.mktemp("archives")
    ted = {}
    for lang, quote in (("de", "’"), ("en", "’")):
        wrapped = ["<url>http://x</url>", f"<title>{side(lang, 1)[0]}</title>", "<talkid>1</talkid>", *side(lang, 60)]
        ted[f"de-en/train.tags.de-en.{lang}"] = joined(wrapped)
        for i, part in enumerate(("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")):
            body = segments([*side(lang, 2, i), f"It{quote}s {i}."])
            ted[f"de-en/IWSLT14.{part}.de-en.{lang}.xml"] = body
    tar(folder / "de-en.tgz", ted)
    de, fr, ro = ("de", "en"), ("fr", "en"), ("ro", "en")
    europarl = two("training/europarl-v7.de-en", de, 90) | two("training/europarl-v7.fr-en", fr, 1400)
    tar(folder / "training-parallel-europarl-v7.tgz", europarl)
    crawl = two("commoncrawl.de-en", de, 30, 3) | two("commoncrawl.fr-en", fr, 30, 3)
    tar(folder / "training-parallel-commoncrawl.tgz", crawl)
    nine = two("training/news-commentary-v9.de-en", de, 20) | two("training/news-commentary-v9.fr-en", fr, 20)
    tar(folder / "training-parallel-nc-v9.tgz", nine)
    tar(folder / "training-parallel-nc-v11.tgz", two("training-parallel-nc-v11/news-commentary-v11.de-en", de, 40))
    tar(folder / "training-parallel-nc-v12.tgz", two("training/news-commentary-v12.de-en", de, 40))
    tar(folder / "training-parallel-un.tgz", two("un/undoc.2000.fr-en", fr, 20))
    tar(folder / "training-giga-fren.tar", two("giga-fren.release2.fixed", fr, 20, suffix=".gz"))
    full = wrapped_set(9, "deen", "en", "de", "test-full/newstest2014")
    tar(folder / "test-full.tgz", full | wrapped_set(7, "fren", "en", "fr", "test-full/newstest2014"))
    tar(folder / "dev.tgz", two("dev/newstest2013", de, 6))
    units = {}
    for split, count in (("train.tok.clean", 48), ("newstest2013.tok", 6), ("newstest2014.tok", 9)):
        units |= two(f"{split}.bpe.32000", de, count)
    tar(folder / "wmt16_en_de.tar.gz", units | {"bpe.32000": b"#version: 0.2\n"})
    tar(folder / "training-parallel-ep-v8.tgz", two("training-parallel-ep-v8/europarl-v8.ro-en", ro, 48))
    with zipfile.ZipFile(folder / "en-ro.txt.zip", "w") as archive:
        for name, content in two("SETIMES.en-ro", ro, 20).items():
            archive.writestr(name, content)
    tar(folder / "dev-romanian-updated.tgz", wrapped_set(5, "enro", "en", "ro", "dev/newsdev2016"))
    tar(folder / "test.tgz", wrapped_set(6, "enro", "en", "ro", "test/newstest2016"))
    return folder


def command(script: str, *arguments, **variables) -> list:
    merges = [] if "wmt16" in arguments else ["--merges", 60]
    return data_scripts.command(script, "--workers", 1, *merges, *arguments, **variables)


def counted(out: Path, said: str) -> dict[str, int]:
    """How many pairs each split has, those included that were dropped from training."""
    found = json.loads((out / "manifest.json").read_text())["counts"]
    dropped = sum(map(int, re.findall(r"/train\.\{.*: (\d+) pairs .* dropped", said)))
    return {split: its["lines"] + dropped * (split == "train") for split, its in found.items()}


HELD_OUT = ["--version", "news-commentary-v12", "--validation", "held-out", "--clean", "tokens"]
TWO_TESTS = {"valid": 6, "test": 9, "test1": 6}


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "options", "counts"),
    [
        ("wmt14-en-de", [], {"train": 140, **TWO_TESTS}),
        ("wmt14-en-de", HELD_OUT, {"train": 159, **TWO_TESTS, "valid": 1}),
        ("wmt14-en-de", ["--version", "wmt16"], {"train": 48, **TWO_TESTS}),
        ("wmt14-en-fr", [], {"train": 1489, "valid": 1, "test": 7}),
        ("wmt16-en-ro", ["--romanian", "stripped"], {"train": 68, "valid": 5, "test": 6}),
        ("iwslt14-de-en", [], {"train": 59, "valid": 2, "test": 15}),
    ],
    ids=["v9", "v12", "wmt16", "en-fr", "en-ro", "iwslt14"],
)
def test_end_to_end_and_again(archives, tmp_path, script, options, counts):
    out = tmp_path / "out"
    words = [script, *options, "--out", out]
    once, other = (command(*words, *more, RAW_DIR=archives) for more in ([], ["--merges", 61]))
    without = command(*words, "--dry-run", "--out", tmp_path / "without")
    done, other, without = twice(out, once, other, without, answers=tmp_path / "answers")
    assert counted(out, done.stderr) == counts
    manifest = json.loads((out / "manifest.json").read_text())
    source, target = manifest["source_lang"], manifest["target_lang"]
    for split in counts:
        assert (out / f"{split}.{source}-{target}.{target}.bin").stat().st_size > 0
    same = (out / f"dict.{source}.txt").read_bytes() == (out / f"dict.{target}.txt").read_bytes()
    assert same == (target != "ro")
    # Raw references are raw: what the archive holds, wrapped or not.
    if script.startswith("wmt14"):
        assert lines(out / "raw" / f"test.{target}") == side(target, counts["test"])
    if script == "wmt14-en-de" and "wmt16" not in options:
        assert "T @-@ Shirt" in (out / "tok" / "test.de").read_text()
    if target == "ro":  # sacreBLEU's references are of the same text
        assert "citeste" in (out / "raw" / "test.ro").read_text() and "Cainele" in (out / "tok" / "test.ro").read_text()
    if script == "iwslt14-de-en":  # TED's tags are gone; quotes are straight for the model alone
        assert lines(tmp_path / "out.text" / "raw" / "train.en") == [*side("en", 1), *side("en", 60)]
        quoted = [line for line in lines(out / "tok" / "test.en") if line.startswith("it")]
        assert quoted == [f"it &apos;s {i} ." for i in range(5)]
        assert lines(out / "raw" / "test.en")[2] == "It’s 0."
        held, clean = (lines(tmp_path / "out.text" / name) for name in ("held/valid.en", "clean/train.en"))
        assert held == clean[22::23] and len(clean) == 61
        # Nothing is learned from the test set, which alone has the word "it".
        assert "i t</w>" not in (out / "codes").read_text() and "it@@" not in (out / "dict.en.txt").read_text()
    assert len(lines(out / "tok" / f"test.{target}")) == counts["test"]
    assert "published" in done.stderr
    names = {line.split("  ")[1] for line in lines(out / "archives.sha256")}
    assert names and all((archives / name).is_file() for name in names)
    published = "wmt16" in options
    assert other.returncode == 1
    assert ("--merges: have no meaning for --version wmt16" if published else "merges: 60 then, 61 now") in other.stderr
    assert manifest["settings"]["merges"] == ("32000" if published else "60")
    assert without.returncode == 0 and "file:///nonexistent" in without.stdout
    if published:  # without the archive of Scaling NMT its text is made again, of the corpora
        assert "nc-v11" in without.stdout and "wmt16_en_de.tar.gz" not in without.stdout


@pytest.mark.full
def test_the_text_of_scaling_nmt_without_its_archive(archives, tmp_path):
    """Made again of WMT16's corpora, which are tokenized alone."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    for path in archives.iterdir():
        if path.name != "wmt16_en_de.tar.gz":
            (raw / path.name).symlink_to(path)
    done = run(command("wmt14-en-de", "--version", "wmt16", "--out", out, RAW_DIR=raw))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["settings"]["tokeniser"], manifest["counts"]["train"]["lines"]) == ("sacremoses", 90 + 30 + 40)
    assert "T-Shirt" in (out / "tok" / "test.de").read_text()


def test_two_preparations_take_turns(tmp_path):
    begin = f"source {ROOT}/data-prep/lib.sh; alone {tmp_path}/x; "
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen(["bash", "-c", f"{begin} echo begun; read -r; touch {tmp_path}/x"], env=clean(), **pipes)
    assert first.stdout.readline() == "begun\n"
    words = ["bash", "-c", f"{begin} ls {tmp_path}/x"]
    other = subprocess.Popen(words, env=clean(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert "waiting for another process" in other.stderr.readline()
    first.communicate("\n")
    assert first.returncode == other.wait() == 0


@pytest.mark.full
def test_the_text_of_delight(tmp_path):
    """Binarised text becomes text, and the same binarised text, with the dictionaries that it came with."""
    published, out = tmp_path / "wmt16_en_ro", tmp_path / "out"
    for split, count in (("train", 12), ("valid", 3), ("test", 4)):
        for lang in ("en", "ro"):
            (tmp_path / f"{split}.{lang}").write_bytes(joined([f"{line} x@@ y" for line in side(lang, count)]))
    binarised.binarise(tmp_path, published, ("train", "valid", "test"), ("en", "ro"))
    twice(out, command("wmt16-en-ro", "--delight", published, "--out", out), answers=tmp_path / "answers")
    for path in published.iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes(), path.name
    assert lines(out / "tok" / "test.ro") == [f"{line} xy" for line in side("ro", 4)]
    assert json.loads((out / "manifest.json").read_text())["settings"]["romanian"] == "published"


@pytest.mark.parametrize(
    ("kind", "text"),
    [("raw", "Câinele poartă ţoale"), ("normalised", "Câinele poartă țoale"), ("stripped", "Cainele poarta toale")],
)
def test_romanian(kind, text):
    assert pairs.romanian("Câinele poartă ţoale", kind) == text


def test_what_is_missing_or_wrong_is_said(tmp_path):
    for name in ("empty", "mine"):
        (tmp_path / name).mkdir()
    multi30k = partial(data_scripts.command, "multi30k", "--pair", "en-de", "--segmentation")
    asked = {
        "mine was not made, or not finished, by this command": multi30k("own", "--out", tmp_path / "mine"),
        f"neither {tmp_path}/empty/multi30k nor {tmp_path}/empty/multi30k.tar.xz is there, and the download from "
        "file:///nonexistent/train.en.gz failed": multi30k("own", ODE_TRANSFORMER_DATA=tmp_path / "empty"),
        "ODE_TRANSFORMER_DATA is not set; the published": multi30k("published"),
        "holds no training-parallel-ep-v8.tgz, so it is downloaded from file:///none": command(
            "wmt16-en-ro", RAW_DIR=tmp_path / "empty", URL_EUROPARL="file:///none"
        ),
        "have no meaning for --version wmt16": command("wmt14-en-de", "--version", "wmt16", "--validation", "held-out"),
        "unknown option x": command("wmt16-en-ro", "x"),
        "RAW_DIR is not set": data_scripts.command("ptb"),
        "none: holds no dict.ro.txt": command("wmt16-en-ro", "--delight", "none"),
        "--romanian x: must be one of raw normalised stripped": command("wmt16-en-ro", "--romanian", "x"),
        "--merges 0: must be a positive number": command("iwslt14-de-en", "--merges", "0"),
        "must hold no comma": command("wmt14-en-fr", "--out", "a,b"),
    }
    refusals(asked, tmp_path / "out", tmp_path / "answers")


def test_the_steps_of_scripts(tmp_path):
    """What is missing is downloaded; what was cut off goes on, or begins anew if that cannot be; half is not done."""
    x = tmp_path / "x"
    x.write_text("a\nb\nc\n")
    (tmp_path / "here").write_text("of the folder\n")
    (tmp_path / "sums").write_text(f"{'0' * 64}  x\n{sha256(x)}  x\n-  x\n")
    script = f"""
        source {ROOT}/data-prep/lib.sh
        RAW_DIR={tmp_path} text={tmp_path}
        compare x {x} 3
        compare x {x} 4
        ARCHIVES_SHA256={tmp_path}/sums known_archive {x}
        known_archive() {{ :; }}
        for file in here there; do fetch URL_X $file file://{x} 2>&1; cat $archive; done
        (fetch URL_X gone file:///nonexistent 2>&1) || true
        (PATH=/nonexistent; download file:///x {tmp_path}/y 2>&1) || true
        cat {x} {x} >{tmp_path}/more.part
        printf A >{tmp_path}/less.part
        for file in more less; do download file://{x} {tmp_path}/$file 2>/dev/null; done
        f() {{ mkdir $1; false; }}
        once {tmp_path}/words f {tmp_path}/words.part || echo stopped
    """
    done = subprocess.run(["bash", "-c", script], env=clean(), capture_output=True, text=True)
    assert re.search(r"\Ax: 3 lines, as published\nwarning: x: 3 lines, published 4\n\+ f ", done.stderr), done.stderr
    assert done.stdout.startswith(f"of the folder\n{tmp_path}: holds") and done.stdout.endswith("\nstopped\n")
    assert "\na\nb\nc\n" in done.stdout and "holds no there, so it is downloaded" in done.stdout
    assert not (tmp_path / "words").exists()
    assert "gone: the download from file:///nonexistent failed" in done.stdout
    assert "URL_X names another address" in done.stdout
    assert "curl is not installed, which downloads file:///x" in done.stdout
    assert (tmp_path / "more").read_bytes() == x.read_bytes() and (tmp_path / "less").read_text() == "A\nb\nc\n"


def test_scripts_in_odd_places(tmp_path):
    """Beside the environment of another project; without locks; below a comma; data by a link; in the C locale."""
    share, here, programs = tmp_path / "site" / "_share", tmp_path / "a,b", tmp_path / "programs"
    for name in ("scripts", "data-prep"):
        shutil.copytree(ROOT / name, share / name)
    for path, words in ((here / ".venv/bin/python", "echo of another project"), (programs / "flock", "exit 65")):
        write_lines(path, ["#!/bin/sh", words])
        path.chmod(0o755)
    (here / "data").symlink_to(tmp_path)
    (here / "words").write_text("„ a – b ♪\n")
    script = f"""
        source {share}/data-prep/lib.sh
        set -euo pipefail
        python -c 'print("ours")'
        name=x
        begin a=b
        options -- --out data
        echo "$out"
        compare words words 5 words
    """
    variables = {"PATH": f"{programs}:{clean()['PATH']}", "VIRTUAL_ENV": "", "PYTHONPATH": ROOT, "LC_ALL": "C"}
    words = ["bash", "-c", script]
    done = subprocess.run(words, env=clean(**variables), cwd=here, capture_output=True, text=True)
    assert done.stdout == f"ours\n{here}/data\n", done.stderr
    assert "this file system has no locks" in done.stderr and "words: 5 words, as published" in done.stderr


def data(name: str, tmp_path: Path) -> Path:
    """The folder of a real set, unpacked if need be."""
    folder = Path(os.environ.get("ODE_TRANSFORMER_DATA", "nowhere"))
    if (folder / name).is_dir():
        return folder / name
    if not (folder / f"{name}.tar.xz").is_file():
        pytest.skip(f"ODE_TRANSFORMER_DATA names no folder with {name} or {name}.tar.xz")
    with tarfile.open(folder / f"{name}.tar.xz") as file:
        file.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # Python 3.11.4
    return tmp_path / name


def differing(found, expected) -> int:
    return sum(a != b for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("lang", ["en", "de"])
def test_iwslt14_is_the_published_text(tmp_path, lang):
    """Letter for letter what Moses made of it, and its units: 131,156 English tokens, which scores call ref_len."""
    published = data("iwslt14_published", tmp_path)
    raw = data("iwslt14", tmp_path) / f"test.raw.{lang}"
    wrapped = tmp_path / f"IWSLT14.test.{lang}.xml"  # the sentences as TED's files have them
    wrapped.write_bytes(segments([escape(line) for line in read_lines(raw)]))
    tokeniser = Tokeniser(straight_quotes=True, lowercase="last")
    found = tokeniser.tokenise(pairs._text(wrapped), lang)
    assert len(found) == 6750 and differing(found, read_lines(published / "tok" / f"test.{lang}")) == 0
    if lang == "en":
        assert sum(len(line.split()) for line in found) == 131_156
    units = subwords.SEGMENTATIONS["subword-nmt"].segment(found, published / "code")
    assert differing(units, read_lines(published / "bpe10k" / f"test.{lang}")) == 0


@pytest.mark.parametrize(("old", "tokens"), [(True, (63_078, 64_496)), (False, (63_086, 64_504))])
def test_newstest2014_reference_length(tmp_path, old, tokens):
    """As in the archive of Scaling NMT, which an earlier Moses made; and as Moses makes it now."""
    raw = read_lines(data("newstest", tmp_path) / "en-de" / "newstest2014.de")
    found = Tokeniser(old_full_stop=old).tokenise(raw, "de")
    assert len(found) == 3003
    assert tuple(sum(len(line.split()) for line in its) for its in (found, split_compounds(found))) == tokens


@pytest.mark.parametrize(
    ("lang", "options", "line", "tokens"),
    [
        # The full stop of the last word, whatever it is, but in earlier versions of Moses.
        ("en", {}, "In the u.s.", "In the u.s ."),
        ("en", {}, "In the u.s. there is Mr. X.", "In the u.s. there is Mr. X ."),
        ("de", {}, "Am 26. Mai, auf Seite 24.", "Am 26. Mai , auf Seite 24 ."),
        ("en", {}, "And so on...", "And so on ..."),
        ("en", {}, ".", "."),
        ("en", {"old_full_stop": True}, "In the u.s.", "In the u.s."),
        ("en", {"old_full_stop": True}, "It is so.", "It is so ."),
        # What cannot be printed, and what some tools take for the end of a line or token, is a plain space.
        ("en", {"printable": True}, "a\u200bb \x07c", "a b c"),
        (
            "de",
            {"lowercase": "first", "normalise": True},
            "Ein\u2028Satz\x85mit\xa0allem\u3000, \x1cwas\tes  gibt.\r",
            "ein satz mit allem , was es gibt .",
        ),
    ],
)
def test_tokens(lang, options, line, tokens):
    assert Tokeniser(**options).tokenise([line], lang) == [tokens]


def test_lines_that_are_not_utf8_are_dropped_from_training_text_alone(tmp_path, capsys):
    """One in 36 million stops nothing; the pairs around it stay pairs. More than one in ten is another encoding."""
    for lang, bad in (("en", 1), ("fr", 3)):
        found = [f"{lang} {i}".encode() + (b" \xe9t\xe9" if i == bad else b"") for i in range(20)]
        (tmp_path / f"a.{lang}").write_bytes(b"".join(line + b"\n" for line in found))
    sides = [str(tmp_path / "a.en"), str(tmp_path / "a.fr")]

    def gather(split: str) -> str:
        pairs.gather([(split, *sides)], tmp_path / "raw", ("en", "fr"))
        return capsys.readouterr().err

    said = f"{sides[0]}, {sides[1]}: 2 pairs with bytes that are not UTF-8, or with a NUL (lines 2, 4): dropped"
    assert said in gather("train")
    for lang in ("en", "fr"):
        assert lines(tmp_path / "raw" / f"train.{lang}") == [f"{lang} {i}" for i in range(20) if i not in (1, 3)]
    raises(r"a\.en: line 2 is not UTF-8 \(byte 0xe9", gather, "test")
    (tmp_path / "a.fr").write_bytes(b"\xe9t\xe9\n" * 3 + b"a\n" * 17)
    raises(r"must be UTF-8 .* in nine of ten pairs; in 3 of 20 they are not; .* iconv -f", gather, "train")
    capsys.readouterr()
    for lang in ("en", "fr"):
        (tmp_path / f"a.{lang}").write_bytes(b"a\n\0b\n" + b"c\n" * 18)
    assert "1 pair with bytes that are not UTF-8, or with a NUL (line 2): dropped" in gather("train")
    raises("line 2 holds a NUL", gather, "test")
    capsys.readouterr()
    for count, more in ((5, ""), (6, ", ...")):
        list(watched(["?"] * count, bool, tmp_path, "line of odd text", "kept"))
        assert f": {count} lines of odd text (lines 1, 2, 3, 4, 5{more}): kept" in capsys.readouterr().err


def test_dictionaries_are_read_as_fairseq_reads_them(tmp_path):
    """A line can say that its symbol takes the place of a special one; a line that is none is refused."""
    from fairseq.data import Dictionary

    (tmp_path / "dict.txt").write_text("a 3\n<s> 5 #fairseq:overwrite\nb c 1\n")
    symbols = binarised.symbols_of(tmp_path / "dict.txt")
    assert symbols == Dictionary.load(str(tmp_path / "dict.txt")).symbols
    for line in ("", "alone", "a b"):
        (tmp_path / "dict.txt").write_text(f"a 3\n{line}\nb 1\n")
        raises(r"line 2 is .*must be a symbol and its count", binarised.symbols_of, tmp_path / "dict.txt")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_bpe_is_that_of_subword_nmt(tmp_path, monkeypatch, workers):
    """The same codes from counts of words as from the text, and the same units, whatever the number of processes."""
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    monkeypatch.setattr(parallel, "CHUNK", 7)
    monkeypatch.setattr(sys, "stderr", Terminal())  # with progress bars
    text = [*side("en", 40), "", "  two  blanks ", *side("de", 42)]
    write_lines(tmp_path / "train", text)
    subword_nmt = subwords.SEGMENTATIONS["subword-nmt"]
    subword_nmt.learn([tmp_path / "train"], 70, tmp_path / "codes", workers)
    expected = io.StringIO()
    learn_bpe(text, expected, 70)
    assert (tmp_path / "codes").read_text() == expected.getvalue()
    work = partial(subword_nmt.segment, model=tmp_path / "codes")
    found = itertools.chain(*parallel.in_parallel(work, text, workers))
    assert list(found) == list(map(BPE(io.StringIO(expected.getvalue())).process_line, text))
    assert "100%" in sys.stderr.getvalue()


@pytest.mark.full
def test_a_mixture_of_sets(tmp_path):
    for name, count in {"deen_mix/train": 120, "iwslt14/test.raw": 7, "newstest/en-de/newstest2014": 5}.items():
        for lang in ("de", "en"):
            write_lines(tmp_path / "data" / f"{name}.{lang}", side(lang, count))
    out = tmp_path / "out"
    done = run(command("deen-mix", "--out", out, ODE_TRANSFORMER_DATA=tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    assert counted(out, done.stderr) == {"train": 119, "valid": 1, "test": 7, "test1": 5}
    assert lines(out / "raw" / "test.en") == side("en", 7) and len(lines(out / "tok" / "test1.en")) == 5


@pytest.mark.parametrize(
    ("pair", "fault"),
    [
        (("a " * 80, "b " * 80), None),
        (("a " * 81, "b " * 80), "pair with more than 80 tokens on a side"),
        (("a b c", "d e"), None),
        (("a b c d", "e f"), "pair with a side more than 1.5 times as long as the other"),
        (("e f", "a b c d"), "pair with a side more than 1.5 times as long as the other"),
        (("a", " "), "pair with an empty side"),
    ],
)
def test_what_cleaning_drops(pair, fault):
    assert Limits(80, 1.5).fault(pair) == fault


def test_every_reader(tmp_path):
    """Segments of one line, text, and TED's talks; what is cut off or of another length is named."""
    (tmp_path / "x.sgm").write_text('<doc>\n<seg id="1"> A. </seg>\n<seg id="12">B &amp; C</seg>\n</doc>\n')
    (tmp_path / "x.xml.gz").write_bytes(gzip.compress((tmp_path / "x.sgm").read_bytes()))
    for name in ("x.sgm", "x.xml.gz"):
        assert list(pairs._text(tmp_path / name)) == ["A.", "B &amp; C"]
    talk = '<doc docid="1">\n<url>u</url>\n<talkid>1</talkid>\n<speaker>S</speaker>\n<title>T</title>\n One\n</doc>\n'
    (tmp_path / "train.tags.x").write_text(talk)
    assert list(pairs._text(tmp_path / "train.tags.x")) == ["T", " One"]
    (tmp_path / "y.gz").write_bytes(gzip.compress(b"a\nb\n" * 500)[:-9])
    damaged = bytearray(gzip.compress(bytes(range(256)) * 50))
    damaged[20:40] = b"\xff" * 20
    (tmp_path / "z.gz").write_bytes(damaged)
    for name in ("y.gz", "z.gz"):
        raises(name, list, read_lines(tmp_path / name))
    for name, count in (("a", 3), ("b", 5)):
        (tmp_path / f"p.{name}").write_text("x\n" * count)
    for langs in (("a", "b"), ("b", "a")):
        raises(r"p\.a has 3 lines, .*p\.b has 5|p\.b has 5 lines, .*p\.a has 3", list, read_pair(tmp_path / "p", langs))
