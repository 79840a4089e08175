"""The generated corpus: its splits, and its files."""

import os
import subprocess
import sys
from collections import Counter

import pytest
import sacrebleu

from ode_transformer.experiments.text import corpus


@pytest.fixture(scope="module")
def sentences():
    return corpus.generate_sentences()


def test_sentences_have_one_translation_and_those_of_tests_hold_combinations_unseen_in_training(sentences):
    assert {name: len(split) for name, split in sentences.items()} == corpus.SIZES
    sources = [sentence.source for split in sentences.values() for sentence in split]
    assert len(set(sources)) == sum(corpus.SIZES.values())
    seen = set().union(*(sentence.combinations for sentence in sentences["train"]))
    for sentence in sentences["valid"] + sentences["test"]:
        assert sentence.combinations - seen, sentence.source
    assert any(sentence.combinations & seen for sentence in sentences["test"])
    grammar, translations = corpus.Grammar(corpus.Random(3)), {}
    for source, target, _ in (grammar.sentence() for _ in range(5000)):
        assert translations.setdefault(source, target) == target


def test_neither_copying_nor_word_by_word_translation_is_enough(sentences):
    """Each German word is translated by the English word that it occurs with most exclusively in training."""
    german, english, together = Counter(), Counter(), Counter()
    for source, target, _ in sentences["train"]:
        words, others = set(source.split()), set(target.split())
        german.update(words)
        english.update(others)
        together.update((word, other) for word in words for other in others)
    shares = {pair: count / (german[pair[0]] + english[pair[1]]) for pair, count in together.items()}
    lexicon = {word: other for (word, other), _ in sorted(shares.items(), key=lambda item: item[1])}
    sources = [sentence.source for sentence in sentences["test"]]
    references = [[sentence.target for sentence in sentences["test"]]]
    for outputs in (sources, [" ".join(lexicon[word] for word in source.split()) for source in sources]):
        assert sacrebleu.corpus_bleu(outputs, references, tokenize="none", force=True).score < 30


@pytest.mark.parametrize(
    ("row", "many", "case", "phrase"),
    [
        (["ein", "a", "two"], 0, "N", "ein alter Mann"),
        (["ein", "a", "two"], 1, "D", "zwei alten Männern"),
        (["d", "the", "the"], 0, "D", "dem alten Mann"),
        (["dies", "this", "these"], 1, "A", "diese alten Männer"),
    ],
)
def test_words_agree(monkeypatch, row, many, case, phrase):
    """Determiner, adjective and noun, in gender, case and number."""
    noun = next(noun for noun in corpus.NOUNS if noun[1] == "Mann")
    for name, rows in (("NOUNS", [noun]), ("DETERMINERS", [row]), ("ADJECTIVES", [["alt", "old", "P"]])):
        monkeypatch.setattr(corpus, name, rows)
    grammar = corpus.Grammar(corpus.Random(1))
    monkeypatch.setattr(grammar, "chance", lambda probability: many if probability == 0.35 else False)
    assert grammar.phrase("P").german[case] == phrase


def test_bytes_do_not_depend_on_the_hash_seed(sentences, tmp_path):
    words = [sys.executable, "-m", "ode_transformer", "dataset", "corpus", str(tmp_path)]
    said = subprocess.check_output(words, text=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    files = [(tmp_path / f"{name}.{lang}", side) for name in sentences for side, lang in enumerate(("de", "en"))]
    assert said.split() == [str(path) for path, _ in files], "it lists them"
    for path, side in files:
        assert path.read_bytes() == "".join(f"{each[side]}\n" for each in sentences[path.stem]).encode()
