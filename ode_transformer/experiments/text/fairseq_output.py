"""The output of fairseq's commands, as far as scores and records read it."""

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import OdeTransformerError, counted
from .lines import read_all

SHOWN = 5  # sentences named in a message
_ID = r"\d{1,18}"  # the index of a sentence


def entries(text: str, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind and the values of some kinds of entries in a log of ``--log-format json``.

    Keys lose the prefix of their kind. Entries that were truncated when a process was killed are skipped.
    """
    for kind, body in re.findall(rf"\| INFO \| ({'|'.join(map(re.escape, kinds))}) \| (\{{[^{{}}\n]*\}})", text):
        with contextlib.suppress(ValueError, RecursionError):
            yield kind, {k.removeprefix(f"{kind}_"): v for k, v in json.loads(body).items()}


def check_text(lines: Iterable[str], path: str | Path) -> None:
    """Refuse lines that fairseq-generate printed, as ``grep ^H`` or ``grep ^D`` leaves them, in a file of text."""
    if any(re.match(rf"[HD]-{_ID}\t", line) for line in lines):
        raise OdeTransformerError(
            f"{path}: is of an output of fairseq-generate, must be text, a sentence in each line; `score` reads the "
            "whole output by --generate-output"
        )


class Generated(NamedTuple):
    """The sentences in an output of fairseq-generate, in the order of the test set; None for sides that it lacks."""

    hypotheses: list[str]
    references: list[str] | None
    sources: list[str] | None


def read_generate_output(path: str | Path) -> Generated:
    """Return the sentences in an output of ``fairseq-generate``.

    Of each id the first line ``H-id<tab>score<tab>tokens`` counts (the best of ``--nbest``). H, T and S lines hold
    words if ``--post-process`` was given, and subword units otherwise; D lines hold the same or, with ``--tokenizer``,
    plain text. The output of ``fairseq-interactive`` has no T lines.

    Raises:
        OdeTransformerError: there are no H lines, ids are missing or repeated, or the end of the file is missing.
    """
    found: dict[str, dict[int, str]] = {"H": {}, "T": {}, "S": {}}
    ended, translated = False, 1
    for line in read_all(path):
        if match := re.match(rf"(?:([TS])-({_ID})|(H)-({_ID})\t[^\t]*)\t(.*)", line):
            kind, number, text = match[1] or match[3], int(match[2] or match[4]), match[5]
            if kind != "H" and number in found[kind]:  # of --nbest, H occurs several times
                raise OdeTransformerError(f"{path}: {kind}-{number} occurs twice; must be a single output")
            found[kind].setdefault(number, text)
        elif match := re.search(r"\| Translated ([\d,]{1,20}) sentences ", line):
            translated = int(match[1].replace(",", ""))
        ended = ended or re.match(r"(.* )?Generate \S+ with beam=", line) is not None
    hyps, refs, sources = found.values()
    if not hyps:
        raise OdeTransformerError(f"{path}: no line H-<id>; is it an output of fairseq-generate without --quiet?")
    expected = range(max({*hyps, *refs, translated - 1}) + 1)
    for name, its in (("H", hyps), ("T", refs)):
        missing = len(expected) - len(its)
        if missing and its:
            # Name the first few; an id from a damaged line may be huge, so not all are listed.
            first = [f"{name}-{i}" for i in itertools.islice((i for i in expected if i not in its), SHOWN)]
            more = f" and {missing - SHOWN} more" if missing > SHOWN else ""
            raise OdeTransformerError(
                f"{path}: of {counted(len(expected), 'sentence')}, these are missing: {', '.join(first)}{more}; the "
                # By default, fairseq leaves out a last batch whose size is not a multiple of 8.
                "file is cut short or one shard of several, or fairseq-generate left sentences out: it needs "
                "--required-batch-size-multiple 1, and no --skip-invalid-size-inputs-valid-test"
            )
    if refs and not ended:
        raise OdeTransformerError(
            f"{path}: the last line, 'Generate ... with beam=...', is missing; the file is cut short"
        )
    return Generated(
        [hyps[i] for i in expected],
        [refs[i] for i in expected] if refs else None,
        [sources[i] for i in expected] if set(expected) <= set(sources) else None,
    )
