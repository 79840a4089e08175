"""The generated corpus: its German, its splits, and how far one comes without a model."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli
from ode_transformer.experiments.text import corpus
from tests.helpers import refused


@pytest.fixture(scope="module")
def sentences():
    return corpus.generate_sentences()


@pytest.fixture(scope="module")
def sources(sentences):
    return [sentence.source.split() for split in sentences.values() for sentence in split]


@pytest.fixture(scope="module")
def large_sample():
    grammar = corpus.Grammar(Random(7))
    return [grammar.sentence() for _ in range(4_000)]


# --- The splits


def test_sizes_and_distinctness(sentences):
    assert {name: len(split) for name, split in sentences.items()} == {"train": 9000, "valid": 500, "test": 500}
    sources = [sentence.source for split in sentences.values() for sentence in split]
    assert len(set(sources)) == 10_000


def test_the_seed_decides():
    small = {"train": 400, "valid": 5, "test": 5}
    assert corpus.generate_sentences(seed=3, **small) == corpus.generate_sentences(seed=3, **small)
    assert corpus.generate_sentences(seed=3, **small)["train"] != corpus.generate_sentences(seed=4, **small)["train"]


def test_every_test_sentence_holds_a_combination_unseen_in_training(sentences):
    for splits in (sentences, corpus.generate_sentences(2, train=3000, valid=50, test=50)):
        seen = set().union(*(sentence.combinations for sentence in splits["train"]))
        for sentence in splits["valid"] + splits["test"]:
            assert sentence.combinations - seen, sentence.source
        assert any(sentence.combinations & seen for sentence in splits["test"])


def test_every_word_of_valid_and_test_is_seen_in_training(sentences):
    counts = Counter(word for sentence in sentences["train"] for word in corpus.words(sentence))
    for name in ("valid", "test"):
        for sentence in sentences[name]:
            assert all(counts[word] >= 3 for word in corpus.words(sentence)), sentence.source


def test_one_translation_a_source(large_sample, sentences):
    targets = defaultdict(set)
    for sentence in large_sample + sentences["train"] + sentences["test"]:
        targets[sentence.source].add(sentence.target)
    assert all(len(found) == 1 for found in targets.values())


# --- How far one comes without a model


def bleu(hypotheses, references):
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)


def test_copying_scores_below_30(sentences):
    test = sentences["test"]
    assert bleu([s.source for s in test], [s.target for s in test]).score < 30


# --- German and English


PARADIGMS = {  # N A D
    ("d", 0): "der rote, den roten, dem roten",
    ("d", 1): "die rote, die rote, der roten",
    ("d", 2): "das rote, das rote, dem roten",
    ("d", 3): "die roten, die roten, den roten",
    ("ein", 0): "ein roter, einen roten, einem roten",
    ("ein", 1): "eine rote, eine rote, einer roten",
    ("ein", 2): "ein rotes, ein rotes, einem roten",
    ("dies", 2): "dieses rote, dieses rote, diesem roten",
    ("unser", 0): "unser roter, unseren roten, unserem roten",
    ("", 3): "rote, rote, roten",
}


@pytest.mark.parametrize(("stem", "column"), PARADIGMS)
def test_declension(stem, column):
    for case, expected in zip("NAD", PARADIGMS[stem, column].split(", "), strict=True):
        adjective = "rot" + corpus.adjective_ending(stem, case, column)
        assert f"{corpus.determiner(stem, case, column)} {adjective}".strip() == expected


def test_a_and_an(sentences):
    for sentence in sentences["train"]:
        tokens = sentence.target.lower().split()
        for article, word in pairwise(tokens):
            if article in ("a", "an"):
                assert (article == "an") == (word[0] in "aeiou"), sentence.target


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_text_is_well_formed_for_any_seed(seed):
    grammar = corpus.Grammar(Random(seed))
    for _ in range(20):
        source, target, combinations = grammar.sentence()
        for text in (source, target):
            assert text == " ".join(text.split())
            assert text[0].isupper() and text[-1] in ".?" and text.count(text[-1]) == 1
            assert ", ," not in text and ", ." not in text and "_" not in text and "|" not in text
        assert combinations <= set(corpus.all_combinations())


# --- Files, command and errors


def test_writing_again_leaves_the_same_six_files(tmp_path, monkeypatch):
    paths = corpus.write(tmp_path / "deep" / "corpus", train=400, valid=5, test=5)
    assert {p.name for p in paths} == {f"{s}.{side}" for s in ("train", "valid", "test") for side in ("de", "en")}
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)
    before = {path: path.read_bytes() for path in paths}
    corpus.write(tmp_path / "deep" / "corpus", train=400, valid=5, test=5)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        corpus.write(tmp_path / "deep" / "corpus", seed=2, train=400, valid=5, test=5)
    assert {path: path.read_bytes() for path in sorted(paths[0].parent.iterdir())} == before


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path):
    arguments = ["-m", "ode_transformer", "corpus", str(tmp_path), "--train", "600", "--valid", "4", "--test", "4"]
    subprocess.run([sys.executable, *arguments], check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    splits = corpus.generate_sentences(train=600, valid=4, test=4)
    for name, split in splits.items():
        for side, language in enumerate(("de", "en")):
            expected = "".join(f"{sentence[side]}\n" for sentence in split).encode()
            assert (tmp_path / f"{name}.{language}").read_bytes() == expected


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("train", 0), ("valid", -1), ("test", 0)])
def test_numbers_of_the_corpus_that_are_too_small_are_named(name, value):
    with pytest.raises(OdeTransformerError, match=f"--{name} {value}: must be"):
        corpus.generate_sentences(**{"train": 9, "valid": 1, "test": 1, name: value})


def test_the_command_lists_its_files_and_reports_errors(tmp_path, capsys):
    few = ["--train", "400", "--valid", "3", "--test", "2"]
    assert cli.main(["corpus", str(tmp_path), "--seed", "5", *few]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / f"{split}.{language}") for split in ("train", "valid", "test") for language in ("de", "en")
    ]
    assert len((tmp_path / "valid.en").read_text("utf-8").splitlines()) == 3
    for words, message in (
        (["--test", "0"], "--test: 0: must be a whole number, 1 or more"),
        (["--seed", "-1"], "--seed: -1: must be a whole number, 0 or more"),
        (["--train", "9", "--valid", "1"], "--valid 1: must be at most 0 with --train 9"),
    ):
        refused(["corpus", str(tmp_path / "x"), *words], message, capsys)
    (tmp_path / "file").touch()
    refused(["corpus", str(tmp_path / "file"), *few], "file", capsys)
    assert not (tmp_path / "x").exists()


def test_a_sentence_with_two_translations_is_a_fault_of_the_grammar(monkeypatch):
    drawn = (corpus.Sentence("Ja .", target, frozenset()) for target in ("Yes .", "No ."))
    monkeypatch.setattr(corpus.Grammar, "sentence", lambda self: next(drawn))
    with pytest.raises(AssertionError, match=r"'Ja \.' has two translations"):
        corpus.generate_sentences(train=2)
