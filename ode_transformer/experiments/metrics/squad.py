"""Exact match and F1 of answers to SQuAD's questions, equal to the official scripts of versions 1.1 and 2.0.

Answers are compared without case, punctuation, articles and surplus white space; F1 is that of their bags of words. Of
several gold answers the best counts. In version 2.0 no answer is the empty one, and a question is taken to have none
where its no-answer score is above a threshold: the value is that of the best threshold, as the official ``best_exact``
and ``best_f1``.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import OdeTransformerError
from . import glue
from .metric import Examples, Metric, percent

if TYPE_CHECKING:
    import numpy as np


class Compared(NamedTuple):
    """A question's exact match and F1, from 0 to 1, and whether it has an answer."""

    exact_match: float
    f1: float
    answerable: bool


def normalised(text: str) -> str:
    """An answer as it is compared."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(gold: str, answer: str, version: str) -> float:
    """F1 of the words of two answers; in version 2.0 it is 1 where both have none."""
    golds, words = normalised(gold).split(), normalised(answer).split()
    if version == "2.0" and not (golds and words):
        return float(golds == words)
    same = sum((Counter(golds) & Counter(words)).values())
    return 2 * same / (len(golds) + len(words)) if same else 0.0


def compare(golds: Mapping[str, Sequence[str]], answers: Mapping[str, str], version: str) -> dict[str, Compared]:
    """Compare the answers with the gold ones, question by question.

    Every question must have one; where it is missing, the official script of 1.1 counts 0, and that of 2.0 leaves the
    question out.

    Args:
        golds: the answers of each question; none where it has no answer.
        answers: one of each question, which is empty for no answer.
        version: ``1.1`` or ``2.0``.

    Raises:
        OdeTransformerError: a question is not answered.
    """
    found = {}
    for name, gold in golds.items():
        if name not in answers:
            raise OdeTransformerError(f"question {name}: has no answer, empty or not")
        if version == "2.0":
            gold = [text for text in gold if normalised(text)] or [""]
        answer = answers[name]
        exact = max(float(normalised(text) == normalised(answer)) for text in gold)
        found[name] = Compared(exact, max(f1(text, answer, version) for text in gold), bool(golds[name]))
    return found


def counted(
    compared: Mapping[str, Compared], answers: Mapping[str, str], no_answer: Mapping[str, float] | None, metric: str
) -> tuple[dict[str, float], float | None]:
    """The score of each question, and the no-answer score above which questions are left unanswered to give the best
    sum.

    Questions are taken in the order of their no-answer scores, those of one score in that of ``no_answer``. As in the
    official script, the threshold is 0 where it is best to leave all of them, and an answer to a question that has none
    counts 0 there even if it is only an article.

    Args:
        compared, answers: of :func:`compare`.
        no_answer: of version 2.0, as in :func:`take`; without it all answers count as they are.
        metric: ``exact_match`` or ``f1``.

    Returns:
        values from 0 to 1, in the order of ``compared``; and the threshold, if there is one.

    Raises:
        OdeTransformerError: a question has no no-answer score.
    """
    if no_answer is None:
        return {name: getattr(one, metric) for name, one in compared.items()}, None
    if missing := [name for name in compared if name not in no_answer]:
        raise OdeTransformerError(f"question {missing[0]}: has no no-answer score")
    order = sorted((name for name in no_answer if name in compared), key=lambda name: no_answer[name])
    left = {name: float(not one.answerable) for name, one in compared.items()}
    taken = {n: getattr(one, metric) if one.answerable else float(not answers[n]) for n, one in compared.items()}
    score = best = sum(left.values())
    count, where = 0, 0.0
    for i, name in enumerate(order, 1):
        score += taken[name] - left[name]
        if score > best:
            best, count, where = score, i, no_answer[name]
    return left | {name: taken[name] for name in order[:count]}, where


def signature(version: str, questions: int, threshold: float | None) -> str:
    """The signature of a value; ``threshold`` is that of :func:`counted`."""
    best = "" if threshold is None else ", best threshold"
    return f"percent; SQuAD {version}, {questions} questions{best}"


def take(
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    version: str,
    no_answer: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Score answers.

    Args:
        golds, answers, version: as in :func:`compare`.
        no_answer: of version 2.0, how much each question looks as if it had no answer; without it the answers count as
            they are.

    Returns:
        ``exact_match`` and ``f1``, each with ``value``, in percent, and ``signature``, with a threshold also
        ``threshold``; and ``questions``, how many there are.

    Raises:
        OdeTransformerError: a question is not answered, or has no no-answer score.
    """
    compared = compare(golds, answers, version)
    found: dict[str, Any] = {"questions": len(compared)}
    for name in ("exact_match", "f1"):
        values, where = counted(compared, answers, no_answer if version == "2.0" else None, name)
        value = 100 * sum(values.values()) / len(compared)
        found[name] = {"value": value, "signature": signature(version, len(compared), where)}
        if where is not None:
            found[name]["threshold"] = where
    return found


def _counted(outputs: Sequence[str], examples: Examples, metric: str) -> tuple[list[float], str]:
    """The scores of the questions, and their signature; outputs are ``[question, answer, no-answer score or null]``."""
    version, golds = examples.questions
    rows = [json.loads(line) for line in outputs]
    answers = {name: answer for name, answer, _ in rows}
    no_answer = {name: score for name, _, score in rows if score is not None} or None
    compared = compare(golds, answers, version)
    values, threshold = counted(compared, answers, no_answer if version == "2.0" else None, metric)
    return list(values.values()), signature(version, len(golds), threshold)


def _exact_matches(outputs: Sequence[str], examples: Examples) -> list[tuple[float, int]]:
    return [(value, 1) for value in _counted(outputs, examples, "exact_match")[0]]


def _f1s(outputs: Sequence[str], examples: Examples) -> Any:
    """Those of the answers to questions; of labels what :mod:`.glue` has."""
    if examples.questions is None:
        return glue.cells(outputs, examples)
    return [(value, 1) for value in _counted(outputs, examples, "f1")[0]]


def _f1_score(sums: "np.ndarray") -> float:
    return percent(sums) if len(sums) == 2 else glue.f1(sums)


EXACT_MATCH = Metric(
    "exact_match",
    "exact match",
    needs=("questions",),
    statistics=_exact_matches,
    score=percent,
    signature=lambda outputs, examples: _counted(outputs, examples, "exact_match")[1],
)
F1 = Metric(
    "f1",
    "F1",
    needs=("labels|questions",),
    statistics=_f1s,
    score=_f1_score,
    signature=lambda outputs, examples: _counted(outputs, examples, "f1")[1] if examples.questions else glue.SIGNATURE,
)
