"""Metrics, registered by name.

A file per metric, or family of metrics, computes it and defines its :class:`.metric.Metric`: the label, the signature,
the place in records, and the statistics of sentences, whose sums give the score and by which systems are compared.
``METRICS`` has all metrics, and :func:`register` adds one: ``score``, ``record``, ``table``, ``report`` and ``compare``
take any.
"""

from ...errors import OdeTransformerError
from . import bleu, comet, errant, gleu, labels, m2, perplexity, rouge, squad
from .metric import Examples, Metric

__all__ = ["METRICS", "Examples", "Metric", "register"]

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(*bleu.METRICS, comet.METRIC),
        Metric("endless", "endless translations", "sentences", digits=0),
        *(perplexity.METRIC, labels.ACCURACY, squad.EXACT_MATCH, squad.BEST_EXACT, *rouge.METRICS),
        *(gleu.METRIC, *m2.METRICS, errant.METRIC, labels.MATTHEWS, squad.F1, squad.BEST_F1, *labels.CORRELATIONS),
    )
}


def register(metric: Metric) -> None:
    """Add the metric of a plugin, whose name must not be that of another metric or of its entry in records."""
    if any(metric.name in (other.name, other.entry) and other != metric for other in METRICS.values()):
        raise OdeTransformerError(f"metric {metric.name}: there is one of that name already; give it another name")
    METRICS[metric.name] = metric
