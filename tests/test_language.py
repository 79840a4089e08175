"""Phrases that readers stumbled over do not come back: in pages, scripts, comments, docstrings, help and errors."""

import ast
import re
import tokenize
from functools import cache

import pytest

from tests.helpers import ROOT

RATE = (
    "layer|step|stage|token|sentence|hypothesis|update|epoch|channel|head|side|block|row|line|log|file|key|language|"
    "checkpoint|contest|process|rank|machine|task|node|GPU|run|method|model|symbol|split|set|batch|system|column|term|"
    "record|recipe|element|page|paper|family|value|variant"
)
# The phrase, and what to say instead.
PHRASES = {
    rf"\b(?:an? [a-z-]+|one|once|twice) an? (?:{RATE})\b": "one X per Y",
    r"\bwhat (?:comes|came) (?:out )?of\b": "the outcome of",
    r"\bcomes? apart\b": "are not shared",
    r"\bgoes on where\b|\bfit to go on\b": "continues, resumes",
    r"\bwords behind --": "words after --",
    r"\bnobody (?:says|knows)\b": "by default, unknown",
    r"\bheed(?:s|ed|ing)?\b": "read, take effect",
    r"\bas one could type\b": "in a form that can be typed",
    r"\b[Aa]s of (?!\d|now\b|version\b)": "as in",
    r"\binner sizes?\b": "feed-forward dimension",
    r"\b[Ss]tep-by-step decoding\b|\bdecod(?:es?|ing) step by step\b": "incremental decoding",
    r"\bto the bit\b": "bitwise equal",
    r"\bwithout a word\b": "silently",
    r"\bof one's own\b": "the user's",
    r"\bwhatever the model's\b": "in any precision",
    r"\bso manyth\b": "every Nth",
    r"\blines for people\b": "lines to print",
    r"\bmatri(?:x|ces) of all pairs\b": "attention matrix",
    r"(?<!here )\b(?:is|are) no (?:plain|stock|number|tensor|record|recipe|text|option|file|model)\b": "is not a",
    r"\bdoes not go with\b|\bdo not go together\b": "cannot be combined with",
    # American spelling
    # (not in options, variables and names of arguments, such as --tokeniser; nor of binarise and tokenise, which are
    # commands, and stand in scripts and tables without quotes)
    r"(?<![-$_{|\"'=\w])(?!(?:binar|token)ise\b)(?:optim|summar|initial|recogn|binar|quant|(?:de)?token|normal|random)is"
    r"(?!t|m|\w*[-=_({|:'\")])": "-iz-",
    r"\b(?:behaviour|neighbour|colour|favour|labelled|modelling|centred|licence)": "behavior, color, ...",
}


def prose(source: str) -> str:
    """Comments, and string constants that hold a space: of code only what people read."""
    lines = iter(source.splitlines(keepends=True))
    comments = [
        token.string for token in tokenize.generate_tokens(lambda: next(lines, "")) if token.type == tokenize.COMMENT
    ]
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(comments) + "\n\n" + "\n\n".join(text for text in strings if " " in text)


@cache
def texts() -> dict[str, str]:
    """Pages, scripts and what people read of sources, as running text without quoted code."""
    pages = [ROOT / "README.md", ROOT / "Makefile", *ROOT.glob("docs/*.md"), *ROOT.glob("scripts/**/*.sh")]
    pages += ROOT.glob("data-prep/*.sh")
    found = {}
    for path in [*pages, *ROOT.glob("ode_transformer/**/*.py"), *ROOT.glob("docs/*.py")]:
        text = path.read_text(encoding="utf-8")
        text = prose(text) if path.suffix == ".py" else text
        text = re.sub(r"```.*?```|``[^`]*``|`[^`\n]*`|\bCOLOURS\b", "", text, flags=re.S)
        found[path.relative_to(ROOT).as_posix()] = re.sub(r"\s+(?:# )?", " ", text)
    return found


@pytest.mark.parametrize("pattern", PHRASES)
def test_phrases_that_must_not_come_back(pattern):
    found = [f"{name}: {match[0]}" for name, text in texts().items() for match in re.finditer(pattern, text)]
    assert not found, f"say instead: {PHRASES[pattern]}"


def test_the_check_finds_them():
    assert re.search(next(iter(PHRASES)), "with a cache a stage") and re.search(next(iter(PHRASES)), "once a sentence")
    assert not re.search(next(iter(PHRASES)), "one cache per stage, of a layer")


def test_of_sources_it_reads_what_people_read():
    text = prose('"""A rule a\nstage."""\ntokenised = {"tokenised": f"a {1} cache"}  # here\n')
    assert "A rule a\nstage." in text and " cache" in text and "# here" in text and "tokenised" not in text
