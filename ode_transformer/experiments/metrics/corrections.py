"""Scores of corrected sentences: GLEU where there are references, M2's F0.5 and ERRANT's where there are edits."""

import argparse
import sys
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ..text.joining import words
from ..text.lines import lines_of
from . import errant, gleu, m2

UNCORRECTED = "uncorrected"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer score`` for corrections; ``--source`` is that of summaries."""
    parser.add_argument("--corrections", metavar="FILE", help="output of fairseq-generate; with --source")
    parser.add_argument("--references", nargs="+", metavar="FILE", help="corrections by people, for GLEU")
    parser.add_argument("--edits", metavar="FILE", help="edits by people, an M2 file, for M2's F0.5 and ERRANT's")
    parser.add_argument(
        "--own-edits",
        metavar="FILE",
        help="NAME.m2, where ERRANT's edits of the corrections go, for `plot edits`; those of people: NAME.gold.m2",
    )


def score_files(args: argparse.Namespace) -> dict[str, Any]:
    """The scores that ``ode-transformer score`` is asked for, of the corrections and, as ``source``, of doing nothing.

    Each F0.5 whose program is not installed is left out, with a message.

    Raises:
        OdeTransformerError: an option is missing, or a file has another number of lines; a program failed; corrections
            hold subword units.
    """
    from .translations import read_generate_output

    if not args.source or bool(args.references) == bool(args.edits):
        raise OdeTransformerError(
            "--corrections FILE needs --source FILE, and either --references FILE... or --edits FILE"
        )
    if args.references and args.own_edits:
        raise OdeTransformerError(
            "--own-edits: goes with --edits, against which ERRANT compares; not with --references"
        )
    if args.own_edits and Path(args.edits).resolve() in {path.resolve() for path in errant.files(args.own_edits)}:
        raise OdeTransformerError(
            f"--own-edits {args.own_edits}: would replace --edits {args.edits}; give another name"
        )
    corrections = words(read_generate_output(args.corrections).hypotheses, args.corrections, args.remove_bpe)
    paths = (args.source, *(args.references or []))
    sources, *references = (lines_of(path, len(corrections), args.corrections) for path in paths)
    result: dict[str, Any] = {"sentences": len(corrections)}
    result["changed"] = sum(a.split() != b.split() for a, b in zip(sources, corrections, strict=True))
    if args.references:
        result["gleu"] = gleu.take(sources, corrections, references)
        result["source"] = {"label": UNCORRECTED, "gleu": gleu.take(sources, sources, references)}
        return result
    result["source"] = {"label": UNCORRECTED}
    if m2.scorer():
        result["m2"] = m2.take(corrections, args.edits)
        result["source"]["m2"] = m2.take(sources, args.edits)
    else:
        print("the M2 score is left out: M2SCORER is not set", file=sys.stderr)
    if errant.installed():
        result["errant"] = errant.take(sources, corrections, args.edits, args.own_edits)
        result["source"]["errant"] = errant.take(sources, sources, args.edits)
    else:
        print(f"ERRANT's score is not taken: {errant.PROGRAMS[0]} and others are not installed", file=sys.stderr)
    return result


def report(result: dict[str, Any]) -> str:
    """What :func:`score_files` returned as lines to print."""
    lines = [f"sentences: {result['sentences']}, of which {result['changed']} were changed"]
    for name, found in (("", result), (UNCORRECTED, result["source"])):
        if "gleu" in found:
            lines.append(f"{name:<14}GLEU = {found['gleu']['gleu']:.2f}   ({found['gleu']['signature']})")
        for kind in ("m2", "errant"):
            if kind in found:
                numbers = "/".join(f"{found[kind][key]:.2f}" for key in ("precision", "recall", "f"))
                lines.append(f"{name:<14}P/R/F0.5 = {numbers}   ({found[kind]['signature']})")
    return "\n".join(lines)
