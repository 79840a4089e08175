"""Exact match and F1 of answers to SQuAD's questions, equal to the official scripts of versions 1.1 and 2.0.

Answers are compared without case, punctuation, articles and surplus white space; F1 is that of their bags of words. Of
several gold answers the best counts. In version 2.0, an empty answer means that there is none. ``best_exact`` and
``best_f1`` leave questions unanswered whose no-answer score is above a threshold, the best one for each metric.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import OdeTransformerError
from . import labels
from .metric import Examples, Metric, percent

BEST = {"best_exact": "exact_match", "best_f1": "f1"}
"""The metrics at the best threshold, and the plain metrics that they maximize."""


def normalised(text: str) -> str:
    """Return an answer in the form in which answers are compared."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(gold: str, answer: str, version: str) -> float:
    """Return F1 of the words of two answers; in version 2.0 it is 1 if both have none."""
    golds, words = normalised(gold).split(), normalised(answer).split()
    if version == "2.0" and not (golds and words):
        return float(golds == words)
    same = sum((Counter(golds) & Counter(words)).values())
    return 2 * same / (len(golds) + len(words)) if same else 0.0


def exact_match(gold: str, answer: str, version: str) -> float:
    """Return whether two answers are equal."""
    return float(normalised(gold) == normalised(answer))


PLAIN = {"exact_match": exact_match, "f1": f1}


def compare(
    metric: str, golds: Mapping[str, Sequence[str]], answers: Mapping[str, str], version: str
) -> dict[str, float]:
    """Return the score of each answer, from 0 to 1, by one of ``PLAIN``; a question without an answer has no golds.

    Every question must have an answer, perhaps an empty one; for a missing one, the official script of 1.1 counts 0,
    and that of 2.0 leaves the question out.
    """
    found = {}
    for name, gold in golds.items():
        if name not in answers:
            raise OdeTransformerError(f"question {name}: has no answer, empty or not")
        if version == "2.0":
            gold = [text for text in gold if normalised(text)] or [""]
        found[name] = max((PLAIN[metric](text, answers[name], version) for text in gold), default=0.0)
    return found


def question_scores(
    metric: str,
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    version: str,
    no_answer: Mapping[str, float] | None = None,
) -> tuple[list[float], float | None, str]:
    """Return the score of each question; for ``BEST``, questions above the best no-answer threshold are unanswered.

    The best threshold is sought in the order of no-answer scores; equal ones have the order of ``no_answer``. As in the
    official script, the threshold is 0 if it is best to answer no question, and an answer to a question that has none
    counts 0 then even if it is only an article.

    ``metric`` is ``exact_match``, ``f1`` or one of ``BEST``, which alone needs the no-answer score of each question.
    Returns the scores from 0 to 1, in the order of ``golds``; the threshold, or None; and the signature.
    """
    compared = compare(BEST.get(metric, metric), golds, answers, version)
    signature = f"percent; SQuAD {version}, {len(compared)} questions"
    if metric not in BEST:
        return [*compared.values()], None, signature
    if version != "2.0" or no_answer is None:
        raise OdeTransformerError(f"metric {metric}: needs the no-answer scores of SQuAD 2.0")
    if missing := [name for name in compared if name not in no_answer]:
        raise OdeTransformerError(f"question {missing[0]}: has no no-answer score")
    order = sorted((name for name in no_answer if name in compared), key=lambda name: no_answer[name])
    left = {name: float(not gold) for name, gold in golds.items()}
    taken = {name: score if golds[name] else float(not answers[name]) for name, score in compared.items()}
    score = best = sum(left.values())
    count, threshold = 0, 0.0
    for i, name in enumerate(order, 1):
        score += taken[name] - left[name]
        if score > best:
            best, count, threshold = score, i, no_answer[name]
    values = left | {name: taken[name] for name in order[:count]}
    return [*values.values()], threshold, f"{signature}, best threshold"


def entry(
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    version: str,
    no_answer: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the entries in a record of answers; arguments are those of :func:`question_scores`.

    They are ``exact_match`` and ``f1`` of the answers as they are and, in version 2.0 with ``no_answer``, those of
    ``BEST``, each with ``value``, in percent, and ``signature``, the latter also with ``threshold``; and the number of
    ``questions``.
    """
    found: dict[str, Any] = {"questions": len(golds)}
    for name in (*BEST.values(), *(BEST if version == "2.0" and no_answer is not None else ())):
        values, threshold, signature = question_scores(name, golds, answers, version, no_answer)
        found[name] = {"value": 100 * sum(values) / len(values), "signature": signature}
        if threshold is not None:
            found[name]["threshold"] = threshold
    return found


def _read(metric: str, outputs: Sequence[str], examples: Examples) -> tuple[list[float], float | None, str]:
    """Return the scores of outputs that are JSON arrays ``[question, answer, no-answer score or null]``."""
    version, golds = examples.questions
    rows = [json.loads(line) for line in outputs]
    no_answer = {name: score for name, _, score in rows if score is not None} or None
    return question_scores(metric, golds, {name: answer for name, answer, _ in rows}, version, no_answer)


def _statistics(metric: str, outputs: Sequence[str], examples: Examples) -> Any:
    """Return the statistics of answers to questions, or those of binary F1 for labels."""
    if examples.questions is None:
        return labels.cells(outputs, examples)
    return [(value, 1) for value in _read(metric, outputs, examples)[0]]


def _signature(metric: str, outputs: Sequence[str], examples: Examples) -> str:
    return _read(metric, outputs, examples)[2] if examples.questions else labels.PERCENT


def _metric(name: str, label: str, needs: str = "questions", label_kind: str = "") -> Metric:
    return Metric(
        name,
        label,
        needs=(needs,),
        statistics=partial(_statistics, name),
        score=lambda sums: percent(sums) if len(sums) == 2 else labels.f1(sums),
        signature=partial(_signature, name),
        label_kind=label_kind,
    )


EXACT_MATCH = _metric("exact_match", "exact match")
BEST_EXACT = _metric("best_exact", "best exact match")
F1 = _metric("f1", "F1", needs="labels|questions", label_kind="binary")
BEST_F1 = _metric("best_f1", "best F1")
