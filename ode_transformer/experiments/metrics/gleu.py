"""GLEU of corrected sentences (Napoles et al. 2015, in the version of 2016), equal to JFLEG's own ``gleu.py``.

An n-gram counts if the reference has it, and counts against the correction if only the source has it. With several
references a corpus is scored 500 times, each time with one reference per sentence drawn at random, and the score is the
mean. The draws are those of ``gleu.py``, so that all digits agree.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .metric import Examples, Metric

ORDER = 4
DRAWS = 500
SIGNATURE = (
    f"GLEU of 2016, n-grams up to {ORDER}, mean of {DRAWS} draws of a reference; tokens as they are, case counts"
)


def _ngrams(tokens: Sequence[str]) -> list[Counter]:
    """Return the counts of the n-grams of each order."""
    return [Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) + 1 - n)) for n in range(1, ORDER + 1)]


def counts(corrections: Sequence[str], examples: Examples) -> np.ndarray:
    """Return the counts of GLEU for each tokenized sentence and reference, (sentences, references, 2 + 2 * ORDER).

    They are the lengths of correction and reference, and for each order the matches and the n-grams of the correction.
    """
    rows = []
    for source, correction, *its in zip(examples.sources, corrections, *examples.references, strict=True):
        found, row = correction.split(), []
        ours, before = _ngrams(found), _ngrams(source.split())
        for reference in its:
            words = reference.split()
            values = [len(found), len(words)]
            for mine, old, theirs in zip(ours, before, _ngrams(words), strict=True):
                left = Counter({gram: count for gram, count in old.items() if gram not in theirs})
                values += [max((mine & theirs).total() - (mine & left).total(), 0), mine.total()]
            row.append(values)
        rows.append(row)
    return np.array(rows)


def corpus_gleu(sums: np.ndarray) -> float:
    """Return GLEU, from 0 to 1, from the sums of the counts over all sentences."""
    if not sums.all():
        return 0.0
    ours, theirs = float(sums[0]), float(sums[1])
    precision = sum(math.log(float(match) / total) for match, total in zip(sums[2::2], sums[3::2], strict=True)) / 4
    return math.exp(min(0.0, 1 - theirs / ours) + precision)


def entry(corrections: Sequence[str], examples: Examples) -> dict[str, Any]:
    """Return ``gleu`` in percent, and ``signature``."""
    found = counts(corrections, examples)
    scores = []
    for draw in range(DRAWS):
        generator = random.Random(draw * 101)
        chosen = [generator.randint(0, len(examples.references) - 1) for _ in corrections]
        scores.append(corpus_gleu(found[np.arange(len(found)), chosen].sum(0)))
    return {"gleu": 100 * float(np.mean(scores)), "signature": SIGNATURE}


METRIC = Metric(
    "gleu",
    "GLEU",
    "gleu",
    needs=("references", "sources"),
    # The mean over the references stands for references drawn at random.
    statistics=lambda outputs, examples: counts(outputs, examples).mean(1),
    score=lambda sums: 100 * corpus_gleu(sums),
    signature=SIGNATURE,
    whole=entry,
)
