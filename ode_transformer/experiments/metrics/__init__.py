"""Metrics: what a score is called, where a record holds it, and how it is to be printed.

One file per metric says how it is taken and what it has to be quoted with, its signature; ``METRICS`` names them all.
Scores of a test set are a mapping by metric, as :func:`.translations.score` and :func:`.validation.score` make it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Metric:
    """A metric: its label in tables, and the key of its value."""

    name: str
    label: str
    key: str  # of the value among what a record holds of the metric
    lower_is_better: bool = False

    def value(self, scores: Mapping[str, Any]) -> Optional[float]:
        """The value among the scores of a test set; None if it was not taken."""
        return scores[self.name][self.key] if scores.get(self.name) else None

    def signature(self, scores: Mapping[str, Any]) -> str:
        """What the value has to be quoted with; an empty string where the label says it all."""
        return (scores.get(self.name) or {}).get("signature", "")


METRICS = {
    metric.name: metric
    for metric in (
        Metric("tokenised", "tokenised", "bleu"),
        Metric("compound_split", "compounds split", "bleu"),
        Metric("sacrebleu", "sacreBLEU", "bleu"),
        Metric("transevolve", "TransEvolve's BLEU", "bleu"),
        Metric("chrf", "chrF2", "score"),
        Metric("perplexity", "perplexity", "value", lower_is_better=True),
        Metric("accuracy", "accuracy", "value"),
        *(Metric(name, label, "value") for name, label in (("matthews", "Matthews"), ("f1", "F1"))),
        *(Metric(name, label, "value") for name, label in (("pearson", "Pearson"), ("spearman", "Spearman"))),
    )
}
