"""Errors generated in correct English, like those of learners; a seed gives the same errors on every machine.

A sentence is tokenized as in the Penn Treebank. With some probability, a word gets an error of one of the kinds that
are possible there: an article, a preposition, the number of a noun, the form of a verb, or the spelling. Most words can
only be misspelt, which is therefore done less often. Irregular forms are in ``errors.yaml``; regular ones are looked up
in the text itself, so that no tagger or lexicon is needed: ``walks`` is a form of ``walk`` where both occur often.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml

ARTICLES = ("a", "an", "the")
PREPOSITIONS = ("about", "at", "by", "during", "for", "from", "in", "into", "of", "on", "over", "through", "to", "with")
SUBJECTS = ("i", "you", "he", "she", "it", "we", "they", "who", "that", "which", "there", "this")
MISSPELT = 0.5  # the probability of a misspelling that was drawn; errors of other kinds are always made
FREQUENT = 3  # the least number of occurrences of a regular form in the text

_QUOTES = re.compile("[\u201c\u201d\u201e\u00ab\u00bb]|``|''")
_TOKEN = re.compile(
    r"(?:Mr|Mrs|Ms|Dr|St|Prof)\.|(?:[A-Za-z]\.){2,}"  # abbreviations keep their full stops
    r"|[A-Za-z]+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b"  # do n't, it 's
    r"|\d+(?:[.,:/]\d+)*|\w+(?:[-/]\w+|'(?!(?:s|re|ve|ll|d|m|t)\b)\w+)*|\.\.\.|--|\S",
    re.IGNORECASE,
)


def straight(line: str) -> str:
    """Replace other quotation marks, such as the Treebank's, by ``"`` and ``'``."""
    return _QUOTES.sub('"', line).translate(str.maketrans("\u2019\u2018", "''"))


def tokenise(line: str) -> list[str]:
    """Return the Penn Treebank tokens of a sentence, with straight quotation marks."""
    return _TOKEN.findall(straight(line))


def _join(table: dict[str, set[str]], words: Sequence[str]) -> None:
    for word in words:
        table.setdefault(word, set()).update(set(words) - {word})


def plural(word: str) -> str:
    """Return the regular plural of a noun, which is also the third person of a verb."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search("[^aeiou]y$", word) else f"{word}s"


def inflections(word: str) -> list[str]:
    """Return the possible past forms and participles of a regular verb."""
    if word.endswith("e"):
        return [f"{word}d", f"{word[:-1]}ing"]
    if re.search("[^aeiou]y$", word):
        return [f"{word[:-1]}ied", f"{word}ing"]
    double = word + word[-1] if re.search("[^aeiou][aeiou][bdgmnprt]$", word) else word
    return [f"{double}ed", f"{double}ing", *([f"{word}ed", f"{word}ing"] if double != word else [])]


class Corrupter:
    """A generator of errors.

    Args:
        words: the counts of the lower-cased words of the text, among which regular forms are looked up.
        seed: the random seed.
        rate: the probability of drawing an error at a word; a misspelling that is drawn is made with ``MISSPELT``.
    """

    def __init__(self, words: Counter[str], seed: int, rate: float):
        self.random, self.rate = random.Random(seed), rate
        self.made: Counter[str] = Counter()
        self.verbs: dict[str, set[str]] = {}
        self.nouns: dict[str, set[str]] = {}
        tables = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_bytes())
        for table, rows in ((self.verbs, tables["verbs"]), (self.nouns, tables["nouns"])):
            for row in rows.splitlines():
                _join(table, row.split())
        known = {word for word, count in words.items() if count >= FREQUENT and word.isalpha()}
        for word in known:
            many, verbs = {plural(word)} & known, {*inflections(word)} & known
            if many and len(word) > 2:
                _join(self.nouns, (word, *many))
            if verbs and len(word) > 2:
                _join(self.verbs, (word, *verbs, *many))
        self.neighbours = tables["neighbours"]
        rows = [row.split() for row in tables["confused"].splitlines()]
        self.confused = dict(rows) | {b: a for a, b in rows if b in known}

    def corrupt(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens of a sentence with errors, or unchanged by chance; an initial capital letter is kept."""
        out: list[str] = []
        for i, token in enumerate(tokens):
            found = [token]
            if self.random.random() < self.rate:
                kind = self.random.choice(self._possible(tokens, i))
                if kind and (kind != "spelling" or self.random.random() < MISSPELT):
                    found = getattr(self, f"_{kind}")(tokens, i)
                    if len(found) == 1:  # not an article inserted before the word
                        found = [_cased(found[0], token)]
                    self.made[kind] += found != [token]
            out += found
        if out and tokens[0][:1].isupper():
            out[0] = out[0][:1].upper() + out[0][1:]
        return out

    def _possible(self, tokens: Sequence[str], i: int) -> list[str]:
        word, before = tokens[i].lower(), tokens[i - 1].lower() if i else ""
        if word in ARTICLES:
            return ["article"]
        if word in PREPOSITIONS:
            return ["preposition"]
        kinds = []
        if word in self.verbs and (word not in self.nouns or before in SUBJECTS or before == "to"):
            kinds.append("verb")
        if word in self.nouns and before not in SUBJECTS and before != "to":
            kinds += ["number", *(["article"] if before not in ARTICLES else [])]  # an article may be inserted
        if (word.isalpha() and len(word) > 3) or word in self.confused:
            kinds.append("spelling")
        return kinds or [""]

    def _article(self, tokens: Sequence[str], i: int) -> list[str]:
        word = tokens[i].lower()
        if word not in ARTICLES:
            first_word = i == 0 and not tokens[i].isupper()  # its capital letter moves to the article
            return [self.random.choice(("the", "a")), word if first_word else tokens[i]]
        other = self.random.choice([*(article for article in ARTICLES if article != word), "", ""])
        return [other] if other else []

    def _preposition(self, tokens: Sequence[str], i: int) -> list[str]:
        if self.random.random() < 0.2:
            return []
        return [self.random.choice([other for other in PREPOSITIONS if other != tokens[i].lower()])]

    def _number(self, tokens: Sequence[str], i: int) -> list[str]:
        return [self.random.choice(sorted(self.nouns[tokens[i].lower()]))]

    def _verb(self, tokens: Sequence[str], i: int) -> list[str]:
        return [self.random.choice(sorted(self.verbs[tokens[i].lower()]))]

    def _spelling(self, tokens: Sequence[str], i: int) -> list[str]:
        word = tokens[i].lower()
        if word in self.confused and self.random.random() < 0.5:
            return [self.confused[word]]
        if len(word) < 4:
            return [tokens[i]]
        at = self.random.randrange(1, len(word) - 1)
        letter = self.random.choice(self.neighbours.get(word[at], "e"))
        return [self.random.choice((
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + letter + word[at + 1 :],
        ))]  # fmt: skip


def _cased(word: str, like: str) -> str:
    """Return a word capitalized like another."""
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() and word.islower() else word
