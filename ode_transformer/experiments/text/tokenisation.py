"""Tokenization with Moses' rules, or without any."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import category

from .lines import TextError
from .parallel import process

QUOTES = str.maketrans("\u2019", "'")
LOWERCASE = ("no", "first", "last")
UNSPACED = frozenset({"ja", "yue", "zh"})


def languages() -> frozenset[str]:
    """The languages that sacremoses knows, which is imported only where it is needed."""
    from .moses import LANGUAGES

    return LANGUAGES


def is_unspaced(lang: str) -> bool:
    """Whether a language, such as ``zh`` or ``zh_CN``, is written without spaces between words and sentences."""
    return re.split("[-_]", lang)[0].lower() in UNSPACED


@dataclass(frozen=True)
class Tokeniser:
    """The steps of tokenization, in this order.

    Args:
        lang: the language.
        straight_quotes: replace right single quotes by apostrophes.
        lowercase: lower-case the text ``first``, as usual for Multi30k; ``last``, as fairseq for IWSLT14; or ``no``.
        normalise: normalize punctuation with Moses' rules.
        printable: replace control characters by spaces, as Moses' ``remove-non-printing-char.perl`` does.
        aggressive: split ``a-b`` into ``a @-@ b``.
        old_full_stop: leave the full stop of an abbreviation at the end of a line, as earlier versions of Moses do.
        plain: do not tokenize, but replace each run of white space by a space; for any language.
    """

    lang: str
    straight_quotes: bool = False
    lowercase: str = "no"
    normalise: bool = False
    printable: bool = False
    aggressive: bool = False
    old_full_stop: bool = False
    plain: bool = False

    def _before(self, line: str) -> str:
        """Return a line after the first steps, which need no library."""
        line = line.translate(QUOTES) if self.straight_quotes else line
        return line.lower() if self.lowercase == "first" else line

    def tokenise(self, lines: Iterable[str]) -> Iterator[str]:
        """Tokenize with sacremoses, or make spaces single; raises the errors of :meth:`sacremoses`."""
        if not self.plain:
            return self.sacremoses(lines)
        found = (" ".join(self._before(line).split()) for line in lines)
        return (line.lower() for line in found) if self.lowercase == "last" else found

    def sacremoses(self, lines: Iterable[str]) -> Iterator[str]:
        """Tokenize with sacremoses and the rules of Moses that it lacks (:mod:`.moses`).

        Raises:
            TextError: sacremoses does not know the language.
        """
        from .moses import Normalizer, Tokenizer

        if self.lang not in languages():
            raise TextError(f"language {self.lang}: must be one of {', '.join(sorted(languages()))}")
        normaliser, tokeniser = Normalizer(self.lang), Tokenizer(self.lang, old_full_stop=self.old_full_stop)
        for line in lines:
            line = self._before(line)
            line = normaliser.normalize(line) if self.normalise else line
            if self.printable and not line.isprintable():
                line = "".join(" " if category(c).startswith("C") else c for c in line)
            line = tokeniser.tokenize(line, aggressive_dash_splits=self.aggressive, return_str=True)
            yield line.lower() if self.lowercase == "last" else line


def options(**chosen: Any) -> dict[str, Any]:
    """Return the options of a ``Tokeniser``, all but its language, with those that are given and the defaults."""
    found = asdict(Tokeniser("", **chosen))
    del found["lang"]
    return found


def tokenise(folder: Path, output: Path, names: Iterable[str], tokeniser: Tokeniser, workers: int = 1) -> None:
    """Tokenize files of a folder into another folder, as :func:`process` does it."""
    process("tokenise", folder, output, names, partial(_tokenise_chunk, tokeniser), workers)


def _tokenise_chunk(tokeniser: Tokeniser, lines: list[str]) -> list[str]:
    return list(tokeniser.tokenise(lines))
