"""sacremoses with the rules of Moses that it lacks, so that its output is that of the perl programs.

Compared with Moses' programs, whole pipelines of the preparation scripts, in lines that differ (sacremoses 0.2.0 as it
is; and by this module):

    ==============  =======================  ======  ==========  =====
    text            pipeline                 lines   sacremoses  here
    ==============  =======================  ======  ==========  =====
    IWSLT14 test    tokenised, en            6,750   15          0
    IWSLT14 test    tokenised, de            6,750   16          0
    newstest2014    tokenised -a, en         3,003   15          0
    newstest2014    tokenised -a, de         3,003   8           0
    newstest2014    tokenised -a, fr         3,003   6           0
    newstest2016    tokenised -a, ro         1,999   9           0
    newstest2014    normalised, -a, de       3,003   12          0
    newstest2016    normalised, -a, ro       1,999   37          0
    ==============  =======================  ======  ==========  =====

Earlier versions of Moses lacked the rule of the last word's full stop, too. They made Multi30k as Wu et al. (2021) have
it, and the text of Ott et al. (2018): ``old_full_stop``.
"""

import re

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

LANGUAGES = frozenset(NonbreakingPrefixes().available_langs.values())
"""The languages whose abbreviations sacremoses knows; of others it would take English rules."""


class Tokenizer(MosesTokenizer):
    """sacremoses' tokenizer with one more rule of ``tokenizer.perl``.

    Args:
        lang: the language.
        old_full_stop: without that rule, as earlier versions of Moses.
    """

    # sacremoses makes sets of these strings of 100,000 characters for every word that a full stop follows.
    _alphabetic = frozenset(MosesTokenizer.IsAlpha)
    _lower = frozenset(MosesTokenizer.IsLower)

    def __init__(self, lang: str, *, old_full_stop: bool = False):
        super().__init__(lang)
        self.old_full_stop = old_full_stop

    def islower(self, text: str) -> bool:
        """Whether all characters are lower-case letters."""
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        """Whether any character is a letter."""
        return not self._alphabetic.isdisjoint(text)

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        """Split full stops off words but abbreviations; off the last word of the line whatever it is, as Moses does."""
        text = super().handles_nonbreaking_prefixes(text)
        return text if self.old_full_stop else re.sub(r"(\S)\.$", r"\1 .", text)


class Normalizer(MosesPunctNormalizer):
    """sacremoses' normaliser with three more rules of ``normalize-punctuation.perl``.

    Single quotation marks become double ones, and in every language but English and Czech the comma and full stop of
    a quotation go behind its mark, where sacremoses has German, Spanish and French alone.
    """

    def __init__(self, lang: str):
        super().__init__(lang, perl_parity=True)
        *rules, numbers = self.substitutions
        rules = [(mark, '"' if mark in ("‘", "‚") else text) for mark, text in rules]
        if lang not in ("cs", "de", "en", "es", "fr"):
            rules += self.DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA
        self.substitutions = [*rules, numbers]

    def normalize(self, text: str) -> str:
        """Normalise a line without its line feed; Moses sees one, which moves the mark at the end of a German line."""
        return super().normalize(f"{text}\n")
