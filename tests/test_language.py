"""Phrases that readers stumbled over do not come back. The files of numerics, modules and tasks are to follow."""

import re

import pytest

from tests.helpers import ROOT

RATE = (
    "layer|step|stage|token|sentence|hypothesis|update|epoch|channel|head|side|block|row|line|log|file|key|language|"
    "checkpoint|contest|process|rank|machine|task|node|GPU|run"
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
    # American spelling
    r"\b(?:optimis|summaris|initialis|recognis)": "-iz-",
    r"\b(?:behaviour|neighbour|colour|labelled|licence)": "behavior, neighbor, color, labeled, license",
}
FILES = {
    "ode_transformer": "checkpoints config criterion errors files optim standalone warm_start",
    "ode_transformer/experiments": "cli gpu_suite plots quickstart recipes records rehearsal report runner runs tables",
}


def texts() -> dict[str, str]:
    """Pages, scripts and sources as running text, without quoted code."""
    paths = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*.py"), *ROOT.glob("scripts/**/*.sh")]
    paths += [ROOT / folder / f"{name}.py" for folder, names in FILES.items() for name in names.split()]
    paths += [ROOT / "data-prep" / "lib.sh"]
    found = {}
    for path in paths:
        text = re.sub(r"```.*?```|`[^`\n]*`|\bCOLOURS\b", "", path.read_text(encoding="utf-8"), flags=re.S)
        found[path.relative_to(ROOT).as_posix()] = re.sub(r"\s+(?:# )?", " ", text)
    return found


@pytest.mark.parametrize("pattern", PHRASES)
def test_phrases_that_must_not_come_back(pattern):
    found = [f"{name}: {match[0]}" for name, text in texts().items() for match in re.finditer(pattern, text)]
    assert not found, f"say instead: {PHRASES[pattern]}"


def test_the_check_finds_them():
    assert re.search(next(iter(PHRASES)), "with a cache a stage") and re.search(next(iter(PHRASES)), "once a sentence")
    assert not re.search(next(iter(PHRASES)), "one cache per stage, of a layer")
