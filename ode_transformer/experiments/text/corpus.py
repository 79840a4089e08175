"""A small German-English corpus made by a grammar, for a quickstart that downloads nothing.

One synchronous grammar writes every German sentence together with its only English translation. German articles and
adjectives agree in gender, case and number; verbs stand second, first or last, and separable prefixes, participles and
infinitives where German puts them, so that neither copying nor word-by-word translation is enough. The text is cased as
in print and tokenized.

A twelfth of all (adjective, noun) and (verb, noun) combinations, drawn with the seed, never occurs in training, and
every validation and test sentence holds at least one of these. All of its words occur in training three times or more.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import yaml

from ...files import write_lines

SIZES = {"train": 9000, "valid": 500, "test": 500}
MIN_COUNT = 3  # times that a word of valid or test must occur in train
HELD_OUT = 12  # one combination in this many is kept out of training

T = TypeVar("T")
Combination = tuple[str, str]  # German lemmas: (adjective, noun) or (verb, noun)


def _rows(table: str) -> list[list[str]]:
    """Return the lines of a table, each split into its columns; "_" joins words."""
    return [[column.replace("_", " ") for column in line.split()] for line in table.splitlines()]


_LEXICON = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_bytes())
NOUNS, ADJECTIVES, VERBS = (_rows(_LEXICON[name]) for name in ("nouns", "adjectives", "verbs"))
PLACES, CONJUNCTIONS, DETERMINERS = (_rows(_LEXICON[name]) for name in ("places", "conjunctions", "determiners"))
MODALS = _LEXICON["modals"]
TIMES = {tense: _rows(table) for tense, table in _LEXICON["times"].items()}
TENSES = ("present", "present", "perfect", "perfect", "perfect", *MODALS)
QUESTIONS = (("", ""), ("wann", "when"), ("warum", "why"))
# Endings by case; the columns are masculine, feminine, neuter and plural.
ARTICLES = ("der", "die", "das")
STRONG = {"N": ("er", "e", "es", "e"), "A": ("en", "e", "es", "e"), "D": ("em", "er", "em", "en")}
DEFINITE = {"N": ("er", "ie", "as", "ie"), "A": ("en", "ie", "as", "ie"), "D": STRONG["D"]}
WEAK = {"N": ("e", "e", "e", "en"), "A": ("en", "e", "e", "en"), "D": ("en",) * 4}


class Phrase(NamedTuple):
    """A noun phrase: German by case, English, whether it is plural, and its noun in the singular."""

    german: dict[str, str]
    english: str
    plural: bool
    noun: str


class Sentence(NamedTuple):
    """A sentence pair, with tokens joined by spaces, and the combinations of German lemmas that it holds."""

    source: str
    target: str
    combinations: frozenset[Combination]


class Grammar:
    """A generator of sentence pairs. It uses only ``Random.random()``, which is the same in every version of Python."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.combinations: set[Combination] = set()

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items, all equally likely."""
        return items[int(self.random.random() * len(items))]

    def phrase(self, kinds: str, but: str = "") -> Phrase:
        """Draw a noun phrase of one of these kinds, often with an adjective, whose noun is not ``but``."""
        kind = self.pick(kinds)
        article, singular, plural, english, _ = self.pick([n for n in NOUNS if n[4] == kind and n[1] != but])
        english, _, english_plural = english.partition("/")
        many = self.chance(0.35)
        column = 3 if many else ARTICLES.index(article)
        stem, *translations = self.pick(DETERMINERS)
        adjective, translated, _ = self.pick([row for row in ADJECTIVES if kind in row[2]])
        if self.chance(0.6):
            adjective = translated = ""
        else:
            self.combinations.add((adjective, singular))
        german = {}
        for case in "NAD":
            if many and stem == "ein":
                determiner, endings = "zwei", STRONG
            elif stem in ("ein", "mein", "unser") and f"{case}{column}" in ("N0", "N2", "A2"):
                determiner, endings = stem, STRONG
            else:
                determiner, endings = stem + (DEFINITE if stem == "d" else STRONG)[case][column], WEAK
            noun = plural + "n" * (case == "D" and plural[-1] not in "ns") if many else singular
            german[case] = " ".join([determiner, *([adjective + endings[case][column]] if adjective else []), noun])
        head = (english_plural or f"{english}s") if many else english
        words = f"{translations[many]} {translated} {head}".split()
        if words[0] == "a" and words[1][0] in "aeiou":
            words[0] = "an"
        return Phrase(german, " ".join(words), many, singular)

    def clause(self, order: str, adverbials: bool = True) -> tuple[str, str]:
        """Draw a clause, German and English.

        Args:
            order: where the German verb stands: ``second``; first in a ``question``, and, ``inverted``, after another
                clause; or ``final``.
            adverbials: add a time and a place, at times.
        """
        infinitive, third, participle, base, past, kinds, cases = self.pick(VERBS)
        tense, subject = self.pick(TENSES), self.phrase("P")
        phrases, german, english = [subject], {"subject": subject.german["N"]}, {}
        if adverbials and self.chance(0.5):
            german["time"], english["time"] = self.pick(TIMES.get(tense, TIMES["future"]))
        for case in cases:
            receives = cases == "DA" and case == "D"
            phrases.append(self.phrase("P" if receives else kinds, subject.noun))
            german[case], english[case] = phrases[-1].german[case], "to " * receives + phrases[-1].english
        if adverbials and self.chance(0.3):
            german["place"], english["place"] = self.pick(PLACES)
        self.combinations |= {(infinitive, phrase.noun) for phrase in phrases}

        prefix, _, stem = infinitive.rpartition("|")
        if tense == "present":
            finite, rest = stem if subject.plural else third, prefix
            operator, verb = "do" if subject.plural else "does", base
            statement = base if subject.plural else " ".join([f"{base.split()[0]}s", *base.split()[1:]])
        elif tense == "perfect":
            finite, rest = "haben" if subject.plural else "hat", prefix + participle
            operator, verb, statement = "did", base, past
        else:
            singular, plural, operator, more = MODALS[tense]
            finite, rest = plural if subject.plural else singular, prefix + stem
            verb, statement = f"{more} {base}", f"{operator} {more} {base}"
        if order == "final":
            words = [*german.values(), prefix + finite if tense == "present" else f"{rest} {finite}"]
        else:
            # A person as object would be taken for the subject.
            fronts = [role for role in german if role in ("subject", "time") or (role == "A" and "P" not in kinds)]
            first = german.pop(self.pick(fronts)) if order == "second" else ""
            words = [first, finite, *german.values(), rest]
        said = [operator, subject.english, verb] if order == "question" else [subject.english, statement]
        said += [english[role] for role in ("A", "D", "place", "time") if role in english]
        return " ".join(" ".join(words).split()), " ".join(" ".join(said).split())

    def sentence(self) -> Sentence:
        """Draw a sentence pair: a main clause, a question, or two clauses with a conjunction in either order."""
        self.combinations = set()
        kind = self.pick(("simple",) * 4 + ("question",) + ("conjunction",) * 3)
        if kind == "simple":
            pair = [f"{side} ." for side in self.clause("second")]
        elif kind == "question":
            asked = self.pick(QUESTIONS)
            pair = [f"{word} {side} ?".strip() for word, side in zip(asked, self.clause("question"), strict=True)]
        else:
            (german, english), (other, translated) = self.pick(CONJUNCTIONS), self.clause("final", adverbials=False)
            if self.chance(0.5):
                main, its = self.clause("inverted")
                pair = [f"{german} {other} , {main} .", f"{english} {translated} , {its} ."]
            else:
                main, its = self.clause("second")
                pair = [f"{main} , {german} {other} .", f"{its} {english} {translated} ."]
        return Sentence(*(text[0].upper() + text[1:] for text in pair), frozenset(self.combinations))


def generate_sentences(seed: int = 1) -> dict[str, list[Sentence]]:
    """Draw the splits, without duplicates; the same seed gives the same sentences in every version of Python."""
    random = Random(seed)
    combinations = [(stem, noun[1]) for stem, _, kinds in ADJECTIVES for noun in NOUNS if noun[4] in kinds]
    combinations += [(verb[0], noun[1]) for verb in VERBS for noun in NOUNS if noun[4] in f"P{verb[5]}"]
    held_out = {pair for pair in combinations if random.random() * HELD_OUT < 1}
    grammar, drawn, known = Grammar(random), set(), set()
    splits: dict[str, list[Sentence]] = {}
    for name, size in SIZES.items():
        split = splits[name] = []
        while len(split) < size:
            sentence = grammar.sentence()
            words = {*sentence.source.split(), *sentence.target.split()}
            novel = not sentence.combinations.isdisjoint(held_out)
            if sentence.source not in drawn and (not novel if name == "train" else novel and words <= known):
                drawn.add(sentence.source)
                split.append(sentence)
        if name == "train":
            counts = Counter(word for sentence in split for side in sentence[:2] for word in side.split())
            known = {word for word, count in counts.items() if count >= MIN_COUNT}
    return splits


def write(directory: Path, seed: int = 1) -> list[Path]:
    """Write ``train.de``, ``train.en``, ``valid.de`` ... ``test.en``, one sentence per line, and return their paths.

    Args:
        directory: the folder for the files, which must be new or empty.
        seed: random seed, 0 or more.
    """
    paths = []
    for name, sentences in generate_sentences(seed).items():
        for side, language in enumerate(("de", "en")):
            paths.append(directory / f"{name}.{language}")
            write_lines(paths[-1], (sentence[side] for sentence in sentences))
    return paths
