"""The preparation of what encoders read: whose folder is whose, and miniatures of the layouts."""

import json
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from ode_transformer.experiments.tasks import glue
from ode_transformer.experiments.text import subwords
from ode_transformer.files import write_text
from tests.cli.data_scripts import clean, command, members, numbers, run, sentences, tar, twice
from tests.helpers import ROOT, ask, own_subwords, raises


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "words", "nested", "variable"),
    [
        ("glue", ["cola", "--like", "roberta.base"], "prepare-roberta.sh --size base", "ROBERTA_DIR"),
        ("glue", ["rte", "--like", "text-bert"], "prepare-text.sh --size 32700 --split-sentences", ""),
        ("race", ["--like", "text-imdb"], "prepare-text.sh --imdb", "IMDB_DIR"),
    ],
)
def test_what_is_prepared_first_has_a_folder_of_its_own(tmp_path, name, words, nested, variable):
    """RAW_DIR is of the set that is asked for, and not of the model whose symbols it gets."""
    folders = {variable: tmp_path / "other"} if variable else {}
    words = [*words[:-1], tmp_path / words[-1], "--out", tmp_path / "out", "--dry-run"]
    done = run(command(name, *words, RAW_DIR=tmp_path, **folders))
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first.startswith(f"env RAW_DIR={folders.get(variable, '')} ") and nested in first
    assert any(f" {tmp_path}" in line for line in others if "ode_transformer" in line)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Generated SQuAD and RACE, CoLA, and text."""
    raw = tmp_path_factory.mktemp("raw")
    made = [["python", "-m", "ode_transformer", "dataset", "reading", like, "--articles", 8, "--output-dir", raw / like]
            for like in ("squad-2.0", "race")]  # fmt: skip
    for done in ask(tmp_path_factory.mktemp("answers"), made, clean()):
        assert done.returncode == 0, done.stderr
    tar(raw / "archive" / "RACE.tar.gz", members(raw / "race"))
    lines = "".join(f"{line}\n" for line in sentences("en", 60))
    (raw / "text").write_text(lines.replace("\n", "\n\n"))
    cola = "".join(f"x\t{i % 2}\t\t{line}\n" for i, line in enumerate(sentences("en", 12)))
    for name, text in (("train", cola), ("dev", cola), ("test", "index\tsentence\n0\tA man sits.\n")):
        write_text(raw / "CoLA" / f"{name}.tsv", text)
    return raw


@pytest.mark.full
def test_end_to_end_and_again(folders, tmp_path):
    like, other = tmp_path / "like", tmp_path / "other" / "like"
    words = ("--input", folders / "text", "--valid", folders / "text", "--size", 90, "--out", like)
    held = command("text", *words, "--held-out", 50)
    _, refused = twice(like, command("text", *words), held, answers=tmp_path / "answers" / "text")
    assert "(held_out: not given then, 50 now)" in refused.stderr
    write_text(other / "dict.txt", "a 1\n")
    kinds = {
        "glue": (["cola"], folders, {"train": 12, "valid": 12, "test": 1}),
        "squad": (["--version", "2.0", "--max-symbols", 60, "--stride", 20, "--longest-question", 20],
                  folders / "squad-2.0", {}),
        "race": ([], folders / "archive", {"train": 48, "valid": 6, "test": 6, "test1": 3, "test2": 3}),
    }  # fmt: skip
    for name, (words, raw, counts) in kinds.items():
        out = tmp_path / name
        both = (command(name, *words, "--like", one, "--out", out, RAW_DIR=raw) for one in (like, other))
        _, refused = twice(out, *both, answers=tmp_path / "answers" / name)
        assert refused.returncode == 1
        assert "other settings (dictionary: another file than then)" in refused.stderr
        assert numbers(out, counts) == counts
    tree = json.loads((tmp_path / "squad" / "valid.questions.json").read_text())
    assert numbers(tmp_path / "squad", {"valid": 0})["valid"] == len(tree["windows"]) > len(tree["questions"]) == 8
    assert len((tmp_path / "race" / "label" / "test2.label").read_text().split()) == 3


@pytest.mark.full
def test_what_is_downloaded_is_unpacked(tmp_path):
    """An archive of a task of GLUE, the files of MRPC, and WikiText-103, from a folder in place of the network."""
    web, like = tmp_path / "web", tmp_path / "like"
    for folder in (web, like):
        folder.mkdir()
    subwords.learn_sentencepiece(sentences("en", 60), 60, 1, like / subwords.OWN[0])
    (like / "dict.txt").write_text("a 1\n")
    with zipfile.ZipFile(web / "RTE.zip", "w") as archive:
        for split in ("train", "dev", "test"):
            rows = [f"{i}\tA man sits.\tA man.\t{'not_' * (i % 2)}entailment\n" for i in range(4)]
            archive.writestr(f"RTE/{split}.tsv", "".join(["index\tsentence1\tsentence2\tlabel\n", *rows]))
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    rows = [f"{i % 2}\t{i}\t{i + 9}\tA man sits.\tA man.\r\n" for i in range(6)]
    for split in ("train", "test"):
        (web / f"msr_paraphrase_{split}.txt").write_text("".join([head, *rows]), newline="")
    (web / "mrpc_dev_ids.tsv").write_text("#1 ID\t#2 ID\n2\t11\n5\t14\n")
    with zipfile.ZipFile(web / "wikitext-103-raw-v1.zip", "w") as archive:
        archive.writestr("wikitext-103-raw/wiki.train.raw", "A man sits.\n")
    addresses = {f"URL_{name}": f"file://{web}" for name in ("GLUE", "MRPC")}
    addresses["URL_WIKITEXT"] = f"file://{web}/wikitext-103-raw-v1.zip"
    for task, counts in (("rte", {"train": 4, "valid": 4, "test": 4}), ("mrpc", {"train": 4, "valid": 2, "test": 6})):
        done = run(command("glue", task, "--like", like, "--out", tmp_path / task, **addresses))
        assert done.returncode == 0, done.stderr
        assert numbers(tmp_path / task, counts) == counts
    done = run(command("glue", "rte", "--like", like, "--out", tmp_path / "again", RAW_DIR=web))
    assert done.returncode == 0 and numbers(tmp_path / "again", {"train": 4}) == {"train": 4}, done.stderr
    done = run(command("wikitext-103", "--out", tmp_path / "wiki", RAW_DIR=like, **addresses))
    # It was fetched, and lacks a file.
    assert "/wikitext-103-raw: must hold wiki.train.raw and wiki.valid.raw" in done.stderr


@pytest.mark.full
def test_wikitext_for_a_roberta_that_is_there(tmp_path):
    clone, raw = tmp_path / "clone", tmp_path / "raw"
    for folder in ("scripts", "data-prep", "ode_transformer"):
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (like := clone / "data-bin" / "roberta.base").mkdir(parents=True)
    own_subwords(like, sentences("en", 60), 60)
    (like / "floater.pt").touch()
    (like / "manifest.json").write_text('{"text_version": "3", "size": "base"}')
    for split in ("train", "valid"):
        write_text(raw / f"wiki.{split}.raw", " \n = Title = \n \n A man sits. \n")
    words = [clone / "data-prep" / "prepare-wikitext-103.sh", "--out", tmp_path / "wiki.roberta.base"]
    for said in ("train: 2 documents", "is complete"):
        done = subprocess.run(words, env=clean(WIKITEXT_DIR=raw), capture_output=True, text=True)
        assert done.returncode == 0 and said in done.stdout + done.stderr, done.stderr


@pytest.mark.full
def test_roberta_of_a_folder_and_a_download(tmp_path):
    """The model lies in RAW_DIR, its segmentation is downloaded."""
    names = ("model.pt", "dict.txt")
    tar(tmp_path / "raw" / "roberta.base.tar.gz", {f"roberta.base/{name}": name.encode() for name in names})
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_text(name)
    env = {"RAW_DIR": tmp_path / "raw", "URL_GPT2_BPE": f"file://{tmp_path}"}
    out = tmp_path / "out"
    twice(out, command("roberta", "--out", out, **env), answers=tmp_path / "answers")
    found, expected = members(out), {name: name.encode() for name in (*names, "encoder.json", "vocab.bpe")}
    assert found.pop("manifest.json") and found == expected


def test_an_archive_with_a_link_is_refused(tmp_path):
    """What is copied beside its files would replace the file that the link names."""
    mine = tmp_path / "mine"
    for path in (mine, tmp_path / "encoder.json", tmp_path / "vocab.bpe"):
        path.write_text(path.name)
    link = tarfile.TarInfo("roberta.base/encoder.json")
    link.type, link.linkname = tarfile.SYMTYPE, str(mine)
    with tarfile.open(tmp_path / "roberta.base.tar.gz", "w:gz") as archive:
        archive.addfile(link)
    done = run(command("roberta", "--out", tmp_path / "out", RAW_DIR=tmp_path))
    assert done.returncode == 1 and "roberta.base.tar.gz: holds links, pipes or devices" in done.stderr
    assert mine.read_text() == "mine" and not (tmp_path / "out.text" / "data").exists()


def test_the_published_mrpc_is_split_by_its_list(tmp_path):
    """GLUE's development set is those examples of the published training set that a list names."""
    head, folder = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", tmp_path / "MRPC"
    rows = [f"{i % 2}\t{i}\t{i + 9}\tA {i}.\tB {i}.\r\n" for i in range(6)]
    write_text(folder / "msr_paraphrase_train.txt", "".join([head, *rows]))
    task = glue.GLUE["mrpc"]
    message = r"train: .*train.tsv or .*msr_paraphrase_train.txt and .*mrpc_dev_ids.tsv"
    raises(message, list, glue.examples(task, folder, "train"))
    (folder / "mrpc_dev_ids.tsv").write_text("#1 ID\t#2 ID\r\n2\t11\r\n5\t14\r\n5\t9\r\n", newline="")
    found = {split: list(glue.examples(task, folder, split)) for split in ("train", "valid")}
    assert found["valid"] == [["A 2.", "B 2.", "0"], ["A 5.", "B 5.", "1"]]
    assert found["train"] == [[f"A {i}.", f"B {i}.", str(i % 2)] for i in (0, 1, 3, 4)]


def test_a_missing_raw_dir_is_refused_before_a_model_is_prepared(tmp_path):
    for words in (("glue", "cola", "--like", tmp_path / "roberta.base"), ("wikitext-103",)):
        done = run(command(*words, "--out", tmp_path / "out", "--dry-run", RAW_DIR=tmp_path / "no"))
        assert done.returncode == 1 and not done.stdout and "/no: no such folder" in done.stderr


def test_archives_of_a_complete_set_are_not_downloaded(tmp_path):
    for path in (tmp_path / "glue" / "MNLI.zip", tmp_path / "glue" / "AX.tsv", tmp_path / "like" / "dict.txt"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    words = ("mnli", "--like", tmp_path / "like", "--out", tmp_path / "out", "--dry-run")
    done = run(command("glue", *words, ODE_TRANSFORMER_DATA=tmp_path))
    assert done.returncode == 0 and "curl" not in done.stdout, done.stderr
