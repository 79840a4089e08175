"""The generated corpus: its splits, its files, and what is refused."""

import os
import subprocess
import sys

import pytest

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
    said = subprocess.check_output(words, text=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    splits = corpus.generate_sentences(train=600, valid=4, test=4)
    assert splits != corpus.generate_sentences(2, train=600, valid=4, test=4), "the seed decides"
    files = [(tmp_path / f"{name}.{lang}", side) for name in splits for side, lang in enumerate(("de", "en"))]
    assert said.split() == [str(path) for path, _ in files], "it lists them"
    for path, side in files:
        assert path.read_bytes() == "".join(f"{each[side]}\n" for each in splits[path.stem]).encode()


def test_a_set_that_cannot_be_made_is_named(tmp_path, capsys):
    words = ["dataset", "corpus", str(tmp_path / "x"), "--train", "9", "--valid", "1"]
    refused(words, "--valid 1: must be at most 0 with --train 9", capsys)
    assert not (tmp_path / "x").exists()
