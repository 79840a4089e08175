"""GLEU of corrected sentences (Napoles et al. 2015, in the version of 2016), equal to JFLEG's own ``gleu.py``.

An n-gram counts if the reference has it, and counts against the correction if only the source has it. With several
references a corpus is scored 500 times, each time with one reference per sentence drawn at random, and the score is the
mean. The draws are those of ``gleu.py``, so that all digits agree.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .metric import Examples, Metric

if TYPE_CHECKING:
    import numpy as np

ORDER = 4
DRAWS = 500
SIGNATURE = (
    f"GLEU of 2016, n-grams up to {ORDER}, mean of {DRAWS} draws of a reference; tokens as they are, case counts"
)


def _ngrams(tokens: Sequence[str], n: int) -> Counter:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) + 1 - n))


def counts(corrections: Sequence[str], examples: Examples) -> "np.ndarray":
    """Return the counts of GLEU for each tokenized sentence and reference, (sentences, references, 2 + 2 * ORDER).

    They are the lengths of correction and reference, and for each order the matches and the n-grams of the correction.
    """
    import numpy as np

    rows = []
    for source, correction, *its in zip(examples.sources, corrections, *examples.references, strict=True):
        found, given = correction.split(), source.split()
        ours = [_ngrams(found, n) for n in range(1, ORDER + 1)]
        before = [_ngrams(given, n) for n in range(1, ORDER + 1)]
        row = []
        for reference in its:
            words = reference.split()
            values = [len(found), len(words)]
            for n, mine, old in zip(range(1, ORDER + 1), ours, before, strict=True):
                theirs = _ngrams(words, n)
                left = Counter({gram: count for gram, count in old.items() if gram not in theirs})
                values += [max((mine & theirs).total() - (mine & left).total(), 0), max(len(found) + 1 - n, 0)]
            row.append(values)
        rows.append(row)
    return np.array(rows)


def corpus_gleu(sums: "np.ndarray") -> float:
    """Return GLEU, from 0 to 1, from the sums of the counts over all sentences."""
    if not sums.all():
        return 0.0
    ours, theirs = float(sums[0]), float(sums[1])
    precision = sum(math.log(float(match) / total) for match, total in zip(sums[2::2], sums[3::2], strict=True)) / 4
    return math.exp(min(0.0, 1 - theirs / ours) + precision)


def entry(corrections: Sequence[str], examples: Examples) -> dict[str, Any]:
    """Return ``gleu`` in percent, and ``signature``."""
    import numpy as np

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
