"""Metrics: what a score is called, where a record holds it, and how it is to be printed.

One file per metric says how it is taken and what it has to be quoted with, its signature; ``METRICS`` names them all.
Scores of a test set are a mapping by metric, as :func:`.translations.score` and the ``score_files`` of other modules
make it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Metric:
    """A metric: its label in tables, and the key of its value.

    Args:
        name: in recipes and tables.
        label: for people.
        key: of the value among what a record holds of the metric.
        lower_is_better: unlike most.
        entry: what a record holds the metric under, where several share an entry; else its name.
    """

    name: str
    label: str
    key: str
    lower_is_better: bool = False
    entry: str = ""

    def value(self, scores: Mapping[str, Any]) -> Optional[float]:
        """The value among the scores of a test set; None if it was not taken."""
        found = scores.get(self.entry or self.name)
        return found[self.key] if found else None

    def signature(self, scores: Mapping[str, Any]) -> str:
        """What the value has to be quoted with; an empty string where the label says it all."""
        return (scores.get(self.entry or self.name) or {}).get("signature", "")


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
        Metric("exact_match", "exact match", "value"),
        Metric("rouge1", "ROUGE-1", "rouge1", entry="rouge"),
        Metric("rouge2", "ROUGE-2", "rouge2", entry="rouge"),
        Metric("rougeL", "ROUGE-L", "rougeLsum", entry="rouge"),
        Metric("gleu", "GLEU", "gleu"),
        Metric("m2_precision", "M2 precision", "precision", entry="m2"),
        Metric("m2_recall", "M2 recall", "recall", entry="m2"),
        Metric("m2", "M2 F0.5", "f"),
        Metric("errant", "ERRANT F0.5", "f"),
        *(Metric(name, label, "value") for name, label in (("matthews", "Matthews"), ("f1", "F1"))),
        *(Metric(name, label, "value") for name, label in (("pearson", "Pearson"), ("spearman", "Spearman"))),
    )
}
