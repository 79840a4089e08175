"""Significance and intervals of scores that are functions of sums over sentences.

Approximate randomization (Riezler and Maxwell 2005) exchanges the sentences of two systems, the bootstrap (Koehn 2004)
draws test sets with replacement. Statistics are the numbers of each sentence, (sentences, columns); a score is a
function of their sums, (columns,).
"""

import math
from collections.abc import Callable
from typing import Optional

import numpy as np

Score = Callable[[np.ndarray], float]

TESTS = {"randomisation": "approximate randomization", "bootstrap": "paired bootstrap"}
SAMPLES, SEED = 1000, 12345
INTERVAL = f"2.5th and 97.5th percentiles over {SAMPLES} bootstrap samples of the examples, seed {SEED}"


def p_value(
    baseline: np.ndarray, system: np.ndarray, score: Score, test: str, samples: int = SAMPLES
) -> Optional[float]:
    """Return the two-sided p-value of two systems' difference: the probability of one at least as large by chance.

    ``baseline`` and ``system`` are statistics on the same sentences; differences of the bootstrap are centered. None
    if a score is not finite, because a model diverged.
    """
    observed = abs(score(system.sum(0)) - score(baseline.sum(0)))
    if not math.isfinite(observed):
        return None
    if not observed:
        return 1.0
    if test == "bootstrap":
        found = bootstrap(system, score, samples) - bootstrap(baseline, score, samples)
        found = found - found.mean()
    else:
        total, excess = baseline.sum(0) + system.sum(0), system - baseline
        exchanged = _sums(excess, samples, lambda random, count: random.integers(2, size=count))
        found = np.array([score(b) - score(total - b) for b in baseline.sum(0) + exchanged])
    # The tolerance covers the rounding of sums in another order.
    return float((1 + (np.abs(found) > observed - 1e-9 * max(1.0, observed)).sum()) / (1 + samples))


def bootstrap(statistics: np.ndarray, score: Score, samples: int = SAMPLES) -> np.ndarray:
    """Return the scores of random test sets, (samples,); the same test sets for two systems."""

    def times(random: np.random.Generator, count: int) -> np.ndarray:
        return np.bincount(random.integers(count, size=count), minlength=count)

    return np.array([score(sums) for sums in _sums(statistics, samples, times)])


def interval(scores: np.ndarray) -> list[float]:
    """Return the 95 percent interval of scores of :func:`bootstrap`, or of their differences."""
    return np.percentile(scores, [2.5, 97.5]).tolist()


def _sums(statistics: np.ndarray, samples: int, times: Callable) -> np.ndarray:
    """Return sums of statistics over sentences that are chosen at random, (samples, columns).

    ``times`` is a function of a generator and the number of sentences that returns how often each sentence counts.
    """
    random = np.random.default_rng(SEED)
    return np.stack([times(random, len(statistics)) @ statistics for _ in range(samples)])
