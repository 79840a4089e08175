"""Scores of models that are no translators, from what ``fairseq-validate --log-format json`` logs of a subset."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError

TAKEN = ("perplexity",)  # metrics with a file here of that name


class ValidationError(OdeTransformerError):
    """A log without the score that is wanted; the message names the file and what it lacks."""


def score(path: str | Path, subset: str, metric: str) -> dict[str, Any]:
    """The score of a subset.

    Args:
        path: the log of ``fairseq-validate``; the last entry of the subset counts.
        subset: its name, such as ``test``.
        metric: one of ``TAKEN``.

    Returns:
        the metric's ``value`` and ``signature`` by its name, and ``loss``, in bits.

    Raises:
        ValidationError: no such file, no entry of the subset, or one without that metric.
    """
    from ..records import entries

    try:
        found = [values for _, values in entries(Path(path).read_text(encoding="utf-8", errors="replace"), subset)]
    except OSError as error:
        raise ValidationError(f"{path}: {error.strerror}") from error
    if not found:
        raise ValidationError(f"{path}: no entry of subset {subset}; was it cut short?")
    try:
        taken = import_module(f".{metric}", __package__).take(found[-1])
    except KeyError as error:
        raise ValidationError(f"{path}: no {metric} of subset {subset}: the criterion does not log it") from error
    return {metric: taken, "loss": float(found[-1]["loss"])}


def score_files(args: argparse.Namespace) -> dict[str, Any]:
    """The score that ``ode-transformer score`` is asked for."""
    return score(args.validation_log, args.subset, args.metric)


def report(result: dict[str, Any]) -> str:
    """What ``score`` returned as lines for people."""
    return "\n".join(f"{k:<12}{v['value']:g}   ({v['signature']})" for k, v in result.items() if isinstance(v, dict))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer score`` for models that are no translators."""
    parser.add_argument("--validation-log", metavar="FILE", help="what fairseq-validate --log-format json printed")
    parser.add_argument("--subset", default="test", help="with --validation-log (default: %(default)s)")
    parser.add_argument("--metric", choices=TAKEN, default="perplexity", help="with --validation-log")
