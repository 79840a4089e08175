"""Detokenization by Moses' rules, and by rules for typographic characters, which Moses does not join again.

A mark is joined where its language and its line leave no doubt where it belongs: an apostrophe in elisions and
contractions, closing quotation marks after the opening ones, the danda, a slash between words. A colon between digits
is nearly always of a time or a result. Marks that stand apart in good French, such as guillemets, stay apart.
"""

import re
from collections.abc import Sequence

MARKS = frozenset("\u2018\u2019\u201a\u201d\u00ab\u00bb\u0964\u0965/")
ELISION = frozenset(("ca", "fr", "ga", "it", "uk"))
"""Languages with apostrophes between the letters of two words, or within one."""

CONTRACTED = {"en": r"(s|t|re|ve|ll|m|d)\b", "de": r"s\b"}
"""Endings that follow an apostrophe without a blank, by language."""

_AMOUNT = re.compile(r"(?<=\d )([$\u00a3\u00a5\u20ac\u20b9])(?=[^\W\d_])")  # joined to the word after it
_COLON = re.compile(r"(?<=\d) ?: (?=\d)")  # of a time or a result: 12:30, 3:2


def detokenise(lines: Sequence[str], lang: str) -> list[str]:
    """Detokenize lines, typographic characters included, and undo escapes (``&apos;``, ``@-@``, ``##AT##``)."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang)
    found = []
    for line in lines:
        line = " ".join(line.split())  # the patterns below would be slow on a row of blanks
        line = re.sub(" ?##AT##-##AT## ?", "-", line)
        line = re.sub(" ?@([-/])@ ?", r"\1", line)
        found.append(rejoin(moses.detokenize(line.split()), lang))
    return found


def rejoin(text: str, lang: str) -> str:
    """Join the typographic characters in detokenized text to their words."""
    text = _COLON.sub(":", _AMOUNT.sub(r"\1 ", text))
    if lang == "de":  # geht's; in English sacremoses joins it
        text = re.sub(r"(?<=[^\W\d_]) 's\b", "'s", text)
    if MARKS.isdisjoint(text):
        return text
    tokens = text.split(" ")
    found, joined, opened = "", True, ""
    for i, token in enumerate(tokens):
        before, after = tokens[i - 1] if i else "", tokens[i + 1] if i + 1 < len(tokens) else ""
        left, right, opened = _sides(token, before, after, lang, opened)
        found += token if joined or left else f" {token}"
        joined = right
    return found


def _sides(token: str, before: str, after: str, lang: str, opened: str) -> tuple[bool, bool, str]:
    """Return whether a token, between those ``before`` and ``after``, joins the text before it and the text after it,
    and the quotation marks that are open. A mark may be joined to brackets and full stops already."""
    first, last = token[:1], token[-1:]
    between = before[-1:].isalnum() and after[:1].isalnum()
    if first in ("\u0964", "\u0965"):
        return True, False, opened
    if last == "/":
        return token == "/" and between, between or (token != "/" and after[:1].isalnum()), opened
    if token == "\u2019" and before[-1:].isalpha():
        contracted = re.match(CONTRACTED.get(lang, "$^"), after, re.IGNORECASE)
        if contracted or (lang in ELISION and after[:1].isalpha() and "\u2018" not in opened):
            return True, True, opened
    if first == "\u2019":
        closes = "\u2018" in opened
        return closes or (lang == "en" and before.endswith("s")), False, opened.replace("\u2018", "")
    if first == "\u2018" and "\u201a" in opened:
        return True, False, opened.replace("\u201a", "")
    if last in ("\u2018", "\u201a"):
        return False, True, opened + last
    if first == "\u201d":
        return bool({"\u201c", "\u201e"} & {*opened}), False, opened
    if lang != "fr" and (quoted := {"\u00ab", "\u00bb"} & {first, last}):
        if not {"\u00ab", "\u00bb"} & {*opened}:
            return False, True, opened + quoted.pop()
        if first in quoted:
            return True, False, opened.replace("\u00ab", "").replace("\u00bb", "")
    return False, False, opened + "".join({"\u201c", "\u201e"} & {*token})
