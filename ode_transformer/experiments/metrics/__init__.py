"""Metrics, one object each, registered by name.

A file per metric, or family of them, computes it and defines its :class:`.metric.Metric`: label, signature, its place
in records, and statistics of single sentences whose sums give the score, by which systems are compared. ``METRICS`` has
all of them, and :func:`register` adds others: ``score``, ``record``, ``table``, ``report`` and ``compare`` take any.
"""

from ...errors import OdeTransformerError
from . import accuracy, bleu, comet, errant, gleu, glue, m2, perplexity, rouge, squad
from .metric import Examples, Metric

__all__ = ["METRICS", "Examples", "Metric", "register"]

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(*bleu.METRICS, comet.METRIC),
        Metric("endless", "endless translations", "sentences", digits=0),
        *(perplexity.METRIC, accuracy.METRIC, squad.EXACT_MATCH, squad.BEST_EXACT, *rouge.METRICS),
        *(gleu.METRIC, *m2.METRICS, errant.METRIC, glue.MATTHEWS, squad.F1, squad.BEST_F1, *glue.CORRELATIONS),
    )
}


def register(metric: Metric) -> None:
    """Add the user's metric, in a plugin.

    Raises:
        OdeTransformerError: there is a metric or an entry of records of that name already.
    """
    if any(metric.name in (other.name, other.entry) and other != metric for other in METRICS.values()):
        raise OdeTransformerError(f"metric {metric.name}: there is one of that name already; give it another name")
    METRICS[metric.name] = metric
