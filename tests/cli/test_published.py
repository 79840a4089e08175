"""The papers' other tasks: each preparation on a miniature of the real layout, twice, and on what is damaged."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from ode_transformer.experiments import recipes
from ode_transformer.files import write_lines, write_text
from tests.cli import data_scripts
from tests.cli.data_scripts import clean, lines, members, numbers, refusals, sentences, tar, twice
from tests.experiments.test_datasets import M2, email, write_reviews, write_stories
from tests.helpers import ROOT, ask

pytestmark = pytest.mark.full


def write_imdb(folder: Path) -> None:
    write_reviews(folder / "x" / "aclImdb", train=20)
    more = {f"aclImdb/train/{name}": b"neither\n" for name in ("unsup/0_0.txt", "urls_unsup.txt")}
    tar(folder / "aclImdb_v1.tar.gz", members(folder / "x") | more)
    shutil.rmtree(folder / "x")


def write_agnews(folder: Path) -> None:
    texts = [line.replace('"', '""') for line in sentences("en", 24)]
    rows = [f'"{i % 4 + 1}","Title {i}","{text}"\n' for i, text in enumerate(texts)]
    files = {"train.csv": rows, "test.csv": rows[:5], "classes.txt": ["World\n"]}
    tar(folder / "ag_news_csv.tgz", {f"ag_news_csv/{name}": "".join(part).encode() for name, part in files.items()})


def write_aeslc(folder: Path) -> None:
    """The archive of the set's repository, with a folder around all."""
    files = {}
    for part, count in (("train", 30), ("dev", 4), ("test", 6)):
        for i, line in enumerate(sentences("en", count)):
            content = email(f"{line}\nIt is the {i}th.\nSee you.", line)
            files[f"AESLC-master/enron_subject_line/{part}/{i}.subject"] = content.encode()
    tar(folder / "AESLC.tar.gz", files)


def write_cnndm(folder: Path) -> None:
    write_stories(folder / "x")
    for name in ("cnn", "dailymail"):
        inside = {f"{name}/{path}": content for path, content in members(folder / "x" / name).items()}
        tar(folder / f"{name}_stories.tgz", inside)
    for path in (folder / "x").glob("*.txt"):
        shutil.copyfile(path, folder / path.name)
    shutil.rmtree(folder / "x")


def write_learners(folder: Path) -> None:
    for name in ("nucle.train.m2", "lang8.train.m2"):
        rows = [f"S {line}\nA 0 1|||Det|||That|||REQUIRED|||-NONE-|||0\n\n" for line in sentences("en", 12)]
        (folder / name).write_text("".join([*rows, "S fine .\n\n"]))


def write_tests(folder: Path) -> Path:
    """What ODE_TRANSFORMER_DATA holds: JFLEG, CoNLL-2014, and correct English."""
    for split, count in (("dev", 3), ("test", 4)):
        for name in ("src", *(f"ref{i}" for i in range(4))):
            path = folder / "gec" / "jfleg" / split / f"{split}.{name}"
            write_lines(path, (f"{line} {name}" for line in sentences("en", count)))
    write_text(folder / "gec" / "conll14" / "official-2014.combined.m2", M2)
    write_lines(folder / "deen_mix" / "train.en", sentences("en", 60))
    return folder


WRITE = {"imdb": write_imdb, "agnews": write_agnews, "aeslc": write_aeslc, "cnndm": write_cnndm, "gec": write_learners}
WORDS = {
    "imdb": ["--size", 40, "--valid", 4],
    "agnews": ["--size", 60, "--valid", 6],
    "aeslc": ["--merges", 40, "--words", 6],
    "cnndm": ["--merges", 40],
    "gec": ["--errors", "published", "--merges", 40],
}
COUNTS = {
    "imdb": {"train": 36, "valid": 4, "test": 8},
    "agnews": {"train": 18, "valid": 6, "test": 5},
    "aeslc": {"train": 30, "valid": 4, "test": 6},
    "cnndm": {"train": 1, "valid": 1, "test": 1},
    "gec": {"train": 18, "valid": 6, "test": 3, "test1": 4, "test2": 3},
}


def command(name: str, *more, **variables) -> list:
    return data_scripts.command(name, "--workers", 1, *WORDS[name], *more, **variables)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    found = {name: tmp_path_factory.mktemp(name) for name in WRITE}
    for name, write in WRITE.items():
        write(found[name])
    found["tests"] = write_tests(tmp_path_factory.mktemp("tests"))
    return found


@pytest.mark.parametrize("name", WRITE)
def test_end_to_end_and_again(folders, tmp_path, name):
    out, data = tmp_path / "out", {"RAW_DIR": folders[name], "ODE_TRANSFORMER_DATA": folders["tests"]}
    once = command(name, "--out", out, **data)
    other = command(name, "--size" if "--size" in WORDS[name] else "--merges", 41, "--out", out, **data)
    done, other = twice(out, once, other, answers=tmp_path / "a")
    assert numbers(out, COUNTS[name]) == COUNTS[name]
    assert other.returncode == 1 and re.search("(size|merges): (40|60) then, 41 now", other.stderr)
    assert "published" in done.stderr, "how many examples are published is said"
    if name in ("imdb", "agnews"):  # what is held out counts, however many that are
        total = COUNTS[name]["train"] + COUNTS[name]["valid"]
        assert re.search(f"training and validation .*: {total} lines, published", done.stderr)
    if name == "aeslc":
        train = lines(tmp_path / "out.text" / "bpe" / "train.source")
        assert max(len(line.replace("@@ ", "").split()) for line in train) == 6
        assert len(lines(out / "tok" / "test.source")[0].split()) > 6, "the lead is that of the whole e-mail"
    if name == "cnndm":
        assert "training stories: 1 lines, published 287227" in done.stderr
        assert lines(out / "tok" / "test.target") == ['rain at http : / / dm / 1 . " wet "'.replace('"', "&quot;")]
        assert lines(out / "raw" / "test.target") == ['Rain at http://dm/1 .\t"Wet"']
    if name == "gec":
        assert "training pairs: 18; the paper has 827 thousand" in done.stderr
        assert lines(out / "raw" / "test1.ref2") == [f"{line} ref2" for line in sentences("en", 4)]
        assert (out / "raw" / "test.m2").read_text() == M2 and not (out / "raw" / "test2.m2").exists()


def test_generated_errors_and_characters(folders, tmp_path):
    """The other kinds of data of these scripts; a seed makes other errors."""
    folder = tmp_path / "test0"  # as the first test set is not called
    words = ("--errors", "generated", "--merges", 40, "--workers", 1, "--sentences", 50)
    for seed in (1, 2):
        more = (*words, "--seed", seed, "--out", folder / f"g{seed}")
        generated = data_scripts.command("gec", *more, ODE_TRANSFORMER_DATA=folders["tests"])
        twice(folder / f"g{seed}", generated, answers=tmp_path / f"a{seed}")
    characters = command("imdb", "--level", "characters", "--out", tmp_path / "c", RAW_DIR=folders["imdb"])
    twice(tmp_path / "c", characters, answers=tmp_path / "a")
    first, second = (lines(folder / f"g{i}.text" / "tok" / "train.source") for i in (1, 2))
    assert len(first) == len(second) == 50 and first != second
    assert first != lines(folder / "g1.text" / "tok" / "train.target")
    assert numbers(folder / "g1", COUNTS["gec"]) == {**COUNTS["gec"], "train": 50, "valid": 12}
    assert lines(folder / "g1" / "raw" / "test.source")[1] == "Fine ."
    assert len((tmp_path / "c" / "input0" / "dict.txt").read_text().split("\n")) < 40


def test_the_text_of_imdb_is_downloaded(folders, tmp_path):
    words = ["--imdb", "--size", 60, "--valid", folders["tests"] / "deen_mix" / "train.en", "--out", tmp_path / "out"]
    address = f"file://{folders['imdb']}/aclImdb_v1.tar.gz"
    twice(tmp_path / "out", data_scripts.command("text", *words, URL_IMDB=address), answers=tmp_path / "a")
    expected = {f"{split}.{kind}" for split in ("train", "valid") for kind in ("bin", "idx")}
    expected |= {"dict.txt", "manifest.json", "sentencepiece.model"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected
    assert lines(tmp_path / "out.text" / "symbols" / "train").count("") == 40, "reviews that have a class"


def test_what_is_missing_or_damaged_is_named(folders, tmp_path):
    cut = tmp_path / "cut"
    home = shutil.copytree(folders["imdb"], cut / "aclImdb_v1.tar.gz")
    content = (home / "aclImdb_v1.tar.gz").read_bytes()
    (home / "aclImdb_v1.tar.gz").write_bytes(content[: len(content) // 2])
    (shutil.copytree(folders["cnndm"], cut / "list") / "all_val.txt").unlink()
    tar(cut / "other" / "ag_news_csv.tgz", {"else/train.csv": b"x"})
    for name in ("dict.txt", "train-v1.1.json"):
        (cut / name).touch()
    tests = {"ODE_TRANSFORMER_DATA": folders["tests"]}
    asked = {
        "aclImdb_v1.tar.gz: could not be unpacked": command("imdb", RAW_DIR=cut / "aclImdb_v1.tar.gz"),
        "the published train-v1.1.json 3527663986b8295a": data_scripts.command(
            "squad", "--like", cut, URL_SQUAD=f"file://{cut}", ARCHIVES_SHA256=""
        ),
        "has SHA-256 e3b0c44298fc1c14": data_scripts.command("squad", "--like", cut, RAW_DIR=cut, ARCHIVES_SHA256=""),
        "ag_news_csv.tgz: holds no ag_news_csv": command("agnews", RAW_DIR=cut / "other"),
        "holds no all_val.txt": command("cnndm", RAW_DIR=cut / "list"),
        "NUCLE and Lang-8 cannot be downloaded": command("gec", **tests),
        "--errors is needed": data_scripts.command("gec"),
        "deen_mix: ODE_TRANSFORMER_DATA is not set": data_scripts.command("gec", "--errors", "generated"),
    }
    refusals(asked, tmp_path / "out", tmp_path / "answers")


def test_scripts_take_what_recipes_give_them(tmp_path):
    """Whole and rehearsed; what would be run is printed."""
    every = (recipes.load(name, scale=scale).data.prepare for name in recipes.names() for scale in recipes.SCALES)
    asked = [shlex.split(words) for words in dict.fromkeys(every)]
    asked = [[ROOT / name, *words, "--dry-run", "--out", tmp_path / "out"] for name, *words in asked]
    for words, done in zip(asked, ask(tmp_path / "a", asked, clean(ODE_TRANSFORMER_DATA=tmp_path)), strict=True):
        assert done.returncode == 0 or "neither" in done.stderr, (words, done.stderr)


def test_a_folder_of_sets_may_hold_all_of_a_set(tmp_path):
    write_cnndm(tmp_path / "cnndm")
    done = data_scripts.run(command("cnndm", "--dry-run", "--out", tmp_path / "out", ODE_TRANSFORMER_DATA=tmp_path))
    assert done.returncode == 0 and "curl" not in done.stdout
