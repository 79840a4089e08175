"""The generated corpus: its German, its splits, and how far one comes without a model."""

import argparse
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
from ode_transformer.experiments.text import corpus
from tests.helpers import refused

NOUNS = {noun.singular: noun for noun in corpus.NOUN_LIST}
VERBS = {verb.infinitive: verb for verb in corpus.VERB_LIST}
STEMS = [row[0] for row in corpus.rows(corpus.ADJECTIVES)]
ADJECTIVE_FORMS = {stem + ending: stem for stem in STEMS for ending in ("e", "en", "er", "es", "em")}
GENDERS = defaultdict(set)  # of each form of a noun: "m", "f", "n" and "p" for plural
for each in corpus.NOUN_LIST:
    for letter in "NADG":
        GENDERS[each.form(letter)].add("mfn"[each.gender])
        GENDERS[each.form(letter, True)].add("p")


@pytest.fixture(scope="module")
def sentences():
    return corpus.generate_sentences()


@pytest.fixture(scope="module")
def sources(sentences):
    return [sentence.source.split() for split in sentences.values() for sentence in split]


@pytest.fixture(scope="module")
def large_sample():
    grammar = corpus.Grammar(Random(7))
    return [grammar.sentence() for _ in range(6_000)]


# --- The splits


def test_sizes_and_distinctness(sentences):
    assert {name: len(split) for name, split in sentences.items()} == {"train": 9000, "valid": 500, "test": 500}
    sources = [sentence.source for split in sentences.values() for sentence in split]
    assert len(set(sources)) == 10_000


def test_the_seed_decides():
    small = {"train": 400, "valid": 5, "test": 5}
    assert corpus.generate_sentences(seed=3, **small) == corpus.generate_sentences(seed=3, **small)
    assert corpus.generate_sentences(seed=3, **small)["train"] != corpus.generate_sentences(seed=4, **small)["train"]


def test_train_does_not_depend_on_the_size_of_the_other_splits():
    assert corpus.generate_sentences(2, 500, 3, 3)["train"] == corpus.generate_sentences(2, 500, 5, 1)["train"]


def test_word_types_and_lengths(sentences):
    for side in (0, 1):
        texts = [sentence[side].split() for split in sentences.values() for sentence in split]
        assert len({word.lower() for text in texts for word in text}) >= (1000 if side == 0 else 900)
        assert sum(map(len, texts)) / len(texts) >= 10


def test_every_test_sentence_holds_a_combination_unseen_in_training(sentences):
    for splits in (sentences, corpus.generate_sentences(2, train=3000, valid=50, test=50)):
        seen = set().union(*(sentence.combinations for sentence in splits["train"]))
        for sentence in splits["valid"] + splits["test"]:
            assert sentence.combinations - seen, sentence.source
        assert any(sentence.combinations & seen for sentence in splits["test"])


def test_combinations_are_those_of_the_text(sentences):
    """The generator's own account of adjectives with nouns agrees with the German text, read from outside."""
    forms = {}
    for noun in corpus.NOUN_LIST:
        for case in "NADG":
            forms[noun.form(case)] = forms[noun.form(case, True)] = noun.singular
    for sentence in sentences["train"][:3000] + sentences["test"]:
        tokens = sentence.source.split()
        lowered = [tokens[0].lower(), *tokens[1:]]  # "Jungen" within a sentence is a noun
        text = {
            (ADJECTIVE_FORMS[left], forms[right])
            for left, right in pairwise(lowered)
            if left in ADJECTIVE_FORMS and right in forms
        }
        assert text == {pair for pair in sentence.combinations if pair[0] in STEMS}, sentence.source
        for verb, noun in sentence.combinations:
            if verb in VERBS:
                v = VERBS[verb]
                shown = {v.infinitive, v.stem, v.third, v.prefix + v.third, v.participle, f"{v.prefix}zu{v.stem}"}
                assert shown & set(lowered), (verb, sentence.source)
            assert {token for token in tokens if forms.get(token) == noun}, (noun, sentence.source)


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


def test_two_translations_are_noticed(monkeypatch):
    drawn = iter(["a", "b"])
    monkeypatch.setattr(
        corpus.Grammar, "sentence", lambda self: corpus.Sentence("Ja .", next(drawn), frozenset([("x", "y")]))
    )
    with pytest.raises(AssertionError, match="two translations"):
        corpus.generate_sentences(train=2, valid=1, test=1)


# --- How far one comes without a model


def bleu(hypotheses, references):
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)


def test_copying_scores_below_30(sentences):
    test = sentences["test"]
    assert bleu([s.source for s in test], [s.target for s in test]).score < 30


def lookup_table(pairs, rounds=3):
    """IBM model 1: the English word that each German word becomes most often, learnt from the pairs."""
    probability = defaultdict(lambda: defaultdict(lambda: 1.0))  # of English words by German word
    for _ in range(rounds):
        counts = defaultdict(lambda: defaultdict(float))
        for german, english in pairs:
            columns = [(probability[source], counts[source]) for source in german]
            for target in english:
                shares = [column[target] for column, _ in columns]
                norm = sum(shares)
                for share, (_, count) in zip(shares, columns, strict=True):
                    count[target] += share / norm
        for source, count in counts.items():
            total = sum(count.values())
            probability[source] = {target: value / total for target, value in count.items()}
    aligned = defaultdict(Counter)
    for german, english in pairs:
        columns = [(probability[source], source) for source in german]
        for target in english:
            aligned[max((column[target], source) for column, source in columns)[1]][target] += 1
    return {source: targets.most_common(1)[0][0] for source, targets in aligned.items()}


def test_looking_up_word_by_word_scores_below_30(sentences):
    table = lookup_table([(s.source.split(), s.target.split()) for s in sentences["train"]])
    test = sentences["test"]
    score = bleu([" ".join(table.get(w, w) for w in s.source.split()) for s in test], [s.target for s in test])
    assert score.precisions[0] > 60, "a table that finds so few of the words is no baseline"
    assert score.score < 30


# --- German and English


PARADIGMS = {  # singular N A D, then plural N A D
    ("d", "Apfel"): "der rote Apfel, den roten Apfel, dem roten Apfel",
    ("d", "Birne"): "die rote Birne, die rote Birne, der roten Birne",
    ("d", "Boot"): "das rote Boot, das rote Boot, dem roten Boot",
    ("ein", "Apfel"): "ein roter Apfel, einen roten Apfel, einem roten Apfel",
    ("ein", "Birne"): "eine rote Birne, eine rote Birne, einer roten Birne",
    ("ein", "Boot"): "ein rotes Boot, ein rotes Boot, einem roten Boot",
    ("dies", "Boot"): "dieses rote Boot, dieses rote Boot, diesem roten Boot",
    ("unser", "Apfel"): "unser roter Apfel, unseren roten Apfel, unserem roten Apfel",
    ("d", "Äpfel"): "die roten Äpfel, die roten Äpfel, den roten Äpfeln",
    ("kein", "Boote"): "keine roten Boote, keine roten Boote, keinen roten Booten",
    ("", "Birnen"): "rote Birnen, rote Birnen, roten Birnen",
}


@pytest.mark.parametrize(("stem", "word"), PARADIGMS)
def test_declension(stem, word):
    noun = next(n for n in corpus.NOUN_LIST if word in (n.singular, n.plural))
    plural = word == noun.plural
    column = 3 if plural else noun.gender
    for case, expected in zip("NAD", PARADIGMS[stem, word].split(", "), strict=True):
        adjective = "rot" + corpus.adjective_ending(stem, case, column)
        phrase = f"{corpus.determiner(stem, case, column)} {adjective} {noun.form(case, plural)}"
        assert phrase.strip() == expected


@pytest.mark.parametrize(
    ("singular", "genitive"),
    [("Lehrer", "Lehrers"), ("Arzt", "Arztes"), ("Student", "Studenten"), ("Frau", "Frau"), ("Kind", "Kindes")],
)
def test_genitive(singular, genitive):
    assert NOUNS[singular].form("G") == genitive


def test_nouns_of_the_weak_declension_keep_their_n():
    assert [NOUNS["Junge"].form(case) for case in "NAD"] == ["Junge", "Jungen", "Jungen"]
    assert NOUNS["Lehrer"].form("D", plural=True) == "Lehrern"
    assert NOUNS["Frau"].form("D", plural=True) == "Frauen"


def phrase(german, english, person=2):
    return corpus.Phrase({"N": german.split()}, english.split(), english.split(), person)


def clause(infinitive, mode, person=2, negated=False, **parts):
    subject = phrase("die Köche" if person == 4 else "der Koch", "the cooks" if person == 4 else "the cook", person)
    parts = {role: tuple(side.split() for side in text.split(" = ")) for role, text in parts.items()}
    if negated:
        parts["not"] = (["nicht"], [])
    return corpus.Clause(subject, VERBS[infinitive], mode, negated, parts)


@pytest.mark.parametrize(
    ("infinitive", "mode", "person", "german", "english"),
    [
        ("anrufen", "present", 2, "gestern ruft der Koch sie an", "the cook calls her yesterday"),
        ("anrufen", "present", 4, "gestern rufen die Köche sie an", "the cooks call her yesterday"),
        ("anrufen", "perfect", 2, "gestern hat der Koch sie angerufen", "the cook called her yesterday"),
        ("finden", "werden", 2, "gestern wird der Koch sie finden", "the cook will find her yesterday"),
        ("finden", "müssen", 2, "gestern muss der Koch sie finden", "the cook has to find her yesterday"),
        ("finden", "dürfen", 4, "gestern dürfen die Köche sie finden", "the cooks are allowed to find her yesterday"),
    ],
)
def test_main_clauses(infinitive, mode, person, german, english):
    built = clause(infinitive, mode, person, accusative="sie = her", time="gestern = yesterday")
    assert " ".join(built.german("second", "time")) == german
    assert " ".join(built.english()) == english


def test_verb_final_infinitive_question_and_negation():
    built = clause("anrufen", "present", accusative="den Gast = the guest")
    assert " ".join(built.german("final")) == "der Koch den Gast anruft"
    assert " ".join(built.german("zu")) == "den Gast anzurufen"
    assert " ".join(built.english("to")) == "to call the guest"
    built = clause("warten", "perfect", negated=True, prepositional="auf den Gast = the guest")
    assert " ".join(built.german("final")) == "der Koch nicht auf den Gast gewartet hat"
    assert " ".join(built.english()) == "the cook did not wait for the guest"
    built.negated = False
    assert " ".join(built.english("question")) == "did the cook wait for the guest"
    built = clause("finden", "können", negated=True, accusative="den Gast = the guest")
    assert " ".join(built.german("second", "subject")) == "der Koch kann den Gast nicht finden"
    assert " ".join(built.english()) == "the cook cannot find the guest"


def test_verbs_of_movement_take_sein():
    built = clause("gehen", "perfect", 4, place="zum Markt = to the market")
    assert " ".join(built.german("second", "subject")) == "die Köche sind zum Markt gegangen"
    assert " ".join(built.english()) == "the cooks went to the market"


def test_an_object_pronoun_goes_before_the_particle():
    built = clause("abholen", "present", accusative="ihn = him")
    assert " ".join(built.english()) == "the cook picks up him"
    built.pronoun = "accusative"
    assert " ".join(built.english()) == "the cook picks him up"


@pytest.mark.parametrize(
    ("n", "german", "english"),
    [
        (2, "zwei", "two"),
        (12, "zwölf", "twelve"),
        (16, "sechzehn", "sixteen"),
        (17, "siebzehn", "seventeen"),
        (21, "einundzwanzig", "twenty-one"),
        (30, "dreißig", "thirty"),
        (47, "siebenundvierzig", "forty-seven"),
        (66, "sechsundsechzig", "sixty-six"),
        (77, "siebenundsiebzig", "seventy-seven"),
    ],
)
def test_numbers(n, german, english):
    assert corpus.number(n) == (german, english)


@pytest.mark.parametrize(
    ("n", "german", "english"),
    [
        (1, "ersten", "first"),
        (3, "dritten", "third"),
        (4, "vierten", "fourth"),
        (7, "siebten", "seventh"),
        (12, "zwölften", "twelfth"),
        (16, "sechzehnten", "sixteenth"),
        (20, "zwanzigsten", "twentieth"),
        (21, "einundzwanzigsten", "twenty-first"),
        (30, "dreißigsten", "thirtieth"),
    ],
)
def test_ordinals(n, german, english):
    assert corpus.ordinal(n) == (german, english)


@given(st.integers(0, 99), st.integers(0, 99))
def test_no_two_numbers_share_a_word(m, n):
    for side in (0, 1):
        assert (corpus.number(m)[side] == corpus.number(n)[side]) == (m == n)


def test_half_an_hour_counts_towards_the_next(sentences):
    after = {
        "halb": ("half", "past", -1),
        "nach": ("quarter", "past", 0),
        "vor": ("quarter", "to", 0),
    }
    words = {corpus.number(n)[0]: n for n in range(1, 13)}
    seen = Counter()
    for sentence in sentences["train"]:
        german, english = sentence.source.split(), sentence.target.split()
        for i, token in enumerate(german[:-1]):
            if token in after and german[i - 1] in ("um", "Um", "Viertel"):
                unit, direction, shift = after[token]
                expected = f"{unit} {direction} {corpus.number(words[german[i + 1]] + shift)[1]}"
                assert expected in " ".join(english), sentence
                seen[token] += 1
    assert set(seen) == set(after)


def test_articles_agree_with_their_nouns(sources):
    """In running text: the article before an (adjective and) noun admits its gender or its plural."""
    admits = {"das": "n", "dem": "mn", "im": "mn", "zum": "mn", "des": "mn", "den": "mp", "die": "fp", "der": "mf"}
    admits |= {"einen": "m", "einem": "mn", "eine": "f", "einer": "f", "ein": "mn", "keinen": "mp", "jede": "f"}
    admits |= {"jeder": "mf", "jedes": "n", "zur": "f", "mein": "mn", "meinem": "mn", "dieses": "n", "keine": "fp"}
    checked = Counter()
    for tokens in sources:
        tokens = [tokens[0][0].lower() + tokens[0][1:], *tokens[1:]]
        for i, article in enumerate(tokens):
            rest = tokens[i + 1 : i + 3]
            adjective = rest[0] if len(rest) == 2 and rest[0] in ADJECTIVE_FORMS else ""
            noun = rest[1] if adjective else rest[0] if rest else ""
            relative = article.startswith("d") and tokens[i - 1] == ","  # ", der Tagebücher ausgeliehen hat"
            if article in admits and noun in GENDERS and not relative:
                assert set(admits[article]) & GENDERS[noun], " ".join(tokens)
                checked[article] += 1
                if adjective and article in ("dem", "den", "des", "einen", "einem", "keinen", "meinem"):
                    assert adjective.endswith("en"), " ".join(tokens)
                if adjective and article in ("das", "eine", "jede", "dieses"):
                    assert adjective.endswith("e"), " ".join(tokens)
    assert {"das", "dem", "den", "einen", "eine", "jede"} <= set(checked)


def test_subordinate_clauses_end_in_a_finite_verb(sources):
    finite = {form for verb in corpus.VERB_LIST for form in (verb.prefix + verb.third, verb.infinitive)}
    finite |= {*corpus.HABEN, *corpus.SEIN} | {form for forms in corpus.MODALS.values() for form in forms[0].split()}
    checked = 0
    for tokens in sources:
        for word in ("weil", "obwohl", "dass", "ob", "damit", "falls"):
            if f", {word} " in " ".join(tokens):
                checked += 1
                assert tokens[-2] in finite, " ".join(tokens)
    assert checked > 500


def test_a_and_an(sentences):
    for sentence in sentences["train"]:
        tokens = sentence.target.lower().split()
        for article, word in pairwise(tokens):
            if article in ("a", "an"):
                assert (article == "an") == (word[0] in "aeiou"), sentence.target


def test_every_construction_occurs(sentences):
    text = "\n".join(sentence.source for sentence in sentences["train"])
    for piece in (" , weil ", " , dass ", " , um ", " nicht ", " kein", " als ", " Uhr", " halb ", " ist ", " hat "):
        assert piece in text, piece
    for start in ("Wann ", "Gestern ", "Den ", "Dem ", "Am ", "Im ", "Vor "):
        assert f"\n{start}" in text, start


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


def test_write_is_idempotent_and_leaves_six_files(tmp_path):
    paths = corpus.write(tmp_path / "deep" / "corpus", train=400, valid=5, test=5)
    assert {p.name for p in paths} == {f"{s}.{side}" for s in ("train", "valid", "test") for side in ("de", "en")}
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)
    before = {path: path.read_bytes() for path in paths}
    corpus.write(tmp_path / "deep" / "corpus", train=400, valid=5, test=5)
    assert {path: path.read_bytes() for path in sorted(paths[0].parent.iterdir())} == before
    sentences = corpus.generate_sentences(train=400, valid=5, test=5)["test"]
    assert paths[4].read_text("utf-8").splitlines() == [sentence.source for sentence in sentences]
    assert paths[5].read_text("utf-8").splitlines() == [sentence.target for sentence in sentences]


def test_a_failed_write_leaves_the_old_files(tmp_path, monkeypatch):
    corpus.write(tmp_path, train=400, valid=5, test=5)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        corpus.write(tmp_path, seed=2, train=400, valid=5, test=5)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("hash_seed", [pytest.param("0", marks=pytest.mark.full), "1"])
def test_bytes_do_not_depend_on_the_hash_seed(tmp_path, hash_seed):
    arguments = ["-m", "ode_transformer", "corpus", str(tmp_path), "--train", "600", "--valid", "4", "--test", "4"]
    subprocess.run([sys.executable, *arguments], check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
    splits = corpus.generate_sentences(train=600, valid=4, test=4)
    for name, split in splits.items():
        for side, language in enumerate(("de", "en")):
            expected = "".join(f"{sentence[side]}\n" for sentence in split).encode()
            assert (tmp_path / f"{name}.{language}").read_bytes() == expected


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ({"train": 0}, "train", "0"),
        ({"valid": -5}, "valid", "-5"),
        ({"test": corpus.MAX_SENTENCES + 1}, "test", str(corpus.MAX_SENTENCES + 1)),
        ({"seed": -1}, "seed", "-1"),
    ],
)
def test_errors_name_option_value_and_range(arguments, name, value):
    with pytest.raises(OdeTransformerError, match=rf"^--{name} {value}: must be (from 1 to \d+|0 or more)$"):
        corpus.generate_sentences(**arguments)


def test_too_small_a_training_set_is_named():
    with pytest.raises(OdeTransformerError, match=r"^--valid 20: must be at most \d+ with --train 15"):
        corpus.generate_sentences(train=15, valid=20)


def command(*arguments):
    parser = argparse.ArgumentParser()
    corpus.add_arguments(parser)
    return corpus.main(parser.parse_args(list(map(str, arguments))))


def test_command_writes_and_lists_the_files(tmp_path, capsys):
    assert command(tmp_path, "--seed", 5, "--train", 400, "--valid", 3, "--test", 2) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / f"{split}.{language}") for split in ("train", "valid", "test") for language in ("de", "en")
    ]
    assert len((tmp_path / "valid.en").read_text("utf-8").splitlines()) == 3


def test_command_reports_errors(tmp_path, capsys):
    refused(["corpus", str(tmp_path), "--test", "0"], f"--test 0: must be from 1 to {corpus.MAX_SENTENCES}", capsys)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    refused(["corpus", str(tmp_path / "file"), "--train", "400", "--valid", "3", "--test", "2"], "file", capsys)


def test_default_sizes_of_the_command():
    parser = argparse.ArgumentParser()
    corpus.add_arguments(parser)
    args = parser.parse_args(["x"])
    assert (args.seed, args.train, args.valid, args.test) == (1, 9000, 500, 500)
