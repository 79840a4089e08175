"""Tokenization with Moses' rules, or without any."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import category

from .lines import TextError

QUOTES = str.maketrans("\u2019", "'")
LOWERCASE = ("no", "first", "last")
# As sacreBLEU and ``is_unspaced`` know them.
CODES = {**dict.fromkeys(("chi", "cmn", "lzh", "yue", "zho"), "zh"), "jpn": "ja", "kor": "ko"}


def languages() -> frozenset[str]:
    """Return the languages that sacremoses knows; sacremoses is imported only where it is needed."""
    from .moses import LANGUAGES

    return LANGUAGES


def written(lang: str) -> str:
    """Return the code of a language without country and script: ``zh`` for ``zh_CN``, ``zho_Hans`` and ``yue``."""
    code = re.split("[-_]", lang)[0].lower()
    return CODES.get(code, code)


def is_unspaced(lang: str) -> bool:
    """Whether a language, such as ``zh`` or ``zh_CN``, is written without spaces between words and sentences."""
    return written(lang) in ("ja", "zh")


@dataclass(frozen=True)
class Tokeniser:
    """The steps of tokenization, in this order.

    Args:
        straight_quotes: replace right single quotes by apostrophes.
        lowercase: lower-case the text ``first``, as usual for Multi30k; ``last``, as fairseq for IWSLT14; or ``no``.
        normalise: normalize punctuation with Moses' rules.
        printable: replace control characters by spaces, as Moses' ``remove-non-printing-char.perl`` does.
        aggressive: split ``a-b`` into ``a @-@ b``.
        old_full_stop: leave the full stop of an abbreviation at the end of a line, as earlier versions of Moses do.
        plain: do not tokenize, but replace each run of white space by a space; for any language.
    """

    straight_quotes: bool = False
    lowercase: str = "no"
    normalise: bool = False
    printable: bool = False
    aggressive: bool = False
    old_full_stop: bool = False
    plain: bool = False

    def tokenise(self, lines: Iterable[str], lang: str) -> list[str]:
        """Tokenize with sacremoses and the rules of Moses that it lacks (:mod:`.moses`), or collapse white space."""
        if not self.plain:
            from .moses import Normalizer, Tokenizer

            if lang not in languages():
                known = ", ".join(sorted(languages()))
                raise TextError(
                    f"language {lang}: must be one that sacremoses knows, {known}; any is taken without a "
                    "tokenizer (prepare --tokenizer none, text describe --plain)"
                )
            normaliser, tokeniser = Normalizer(lang), Tokenizer(lang, old_full_stop=self.old_full_stop)
        found = []
        for line in lines:
            line = line.translate(QUOTES) if self.straight_quotes else line
            line = line.lower() if self.lowercase == "first" else line
            if self.plain:
                line = " ".join(line.split())
            else:
                line = normaliser.normalize(line) if self.normalise else line
                if self.printable and not line.isprintable():
                    line = "".join(" " if category(c).startswith("C") else c for c in line)
                line = tokeniser.tokenize(line, aggressive_dash_splits=self.aggressive, return_str=True)
            found.append(line.lower() if self.lowercase == "last" else line)
        return found
