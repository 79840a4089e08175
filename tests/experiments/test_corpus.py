"""The generated corpus: its splits, its files, and what is refused."""

import os
import subprocess
import sys

import pytest

from ode_transformer.experiments import cli
from ode_transformer.experiments.text import corpus
from tests.helpers import refused


@pytest.fixture(scope="module")
def sentences():
    return corpus.generate_sentences()


def test_sentences_are_distinct_and_those_of_tests_hold_combinations_unseen_in_training(sentences):
    assert {name: len(split) for name, split in sentences.items()} == {"train": 9000, "valid": 500, "test": 500}
    sources = [sentence.source for split in sentences.values() for sentence in split]
    assert len(set(sources)) == 10_000
    for splits in (sentences, corpus.generate_sentences(2, train=900, valid=50, test=50)):
        seen = set().union(*(sentence.combinations for sentence in splits["train"]))
        for sentence in splits["valid"] + splits["test"]:
            assert sentence.combinations - seen, sentence.source
        assert any(sentence.combinations & seen for sentence in splits["test"])


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path):
    words = [sys.executable, "-m", "ode_transformer", "dataset", "corpus", str(tmp_path), "--train", "600"]
    words += ["--valid", "4", "--test", "4"]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    splits = corpus.generate_sentences(train=600, valid=4, test=4)
    assert splits != corpus.generate_sentences(2, train=600, valid=4, test=4), "the seed decides"
    for name, split in splits.items():
        for side, language in enumerate(("de", "en")):
            expected = "".join(f"{sentence[side]}\n" for sentence in split).encode()
            assert (tmp_path / f"{name}.{language}").read_bytes() == expected


def test_the_command_lists_its_files_and_reports_errors(tmp_path, capsys):
    few = ["--train", "400", "--valid", "3", "--test", "2"]
    assert cli.main(["dataset", "corpus", str(tmp_path), *few]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / f"{split}.{language}") for split in ("train", "valid", "test") for language in ("de", "en")
    ]
    words = ["dataset", "corpus", str(tmp_path / "x"), "--train", "9", "--valid", "1"]
    refused(words, "--valid 1: must be at most 0 with --train 9", capsys)
    assert not (tmp_path / "x").exists()
