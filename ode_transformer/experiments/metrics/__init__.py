"""Metrics: the names of scores, where records hold them, and how they are printed.

One file per metric computes it, together with its signature; ``METRICS`` lists all of them. The scores of a test set
are a mapping by metric, which :func:`.translations.score` and the ``score_files`` of other modules return. Of summaries
and corrections, ``source`` in it holds the scores of the source alone in the same form, with their ``label``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Metric:
    """A metric: its label in tables, and the key of its value.

    Args:
        name: its name in recipes and tables.
        label: its label for readers.
        key: the key of the value in the metric's entry of a record.
        entry: the name of that entry, if several metrics share one; by default the metric's name.
    """

    name: str
    label: str
    key: str
    entry: str = ""

    def value(self, scores: Mapping[str, Any]) -> Optional[float]:
        """The value among the scores of a test set; None if there is none."""
        found = scores.get(self.entry or self.name)
        return found[self.key] if found else None

    def values(self, records: Sequence[Mapping[str, Any]], test_set: str) -> list[float]:
        """The values on a test set of those records that have one."""
        found = [self.value(record["scores"].get(test_set, {})) for record in records]
        return [value for value in found if value is not None]

    def signature(self, scores: Mapping[str, Any]) -> str:
        """The signature that the value is quoted with; empty if the label is enough."""
        return (scores.get(self.entry or self.name) or {}).get("signature", "")

    def signatures(self, records: Sequence[Mapping[str, Any]], test_set: str) -> set[str]:
        """The signatures of these values; none if the label is enough."""
        scores = [record["scores"].get(test_set, {}) for record in records]
        return {self.signature(one) for one in scores if self.value(one) is not None} - {""}


METRICS = {
    metric.name: metric
    for metric in (
        Metric("tokenised", "tokenised", "bleu"),
        Metric("compound_split", "compounds split", "bleu"),
        Metric("sacrebleu", "sacreBLEU", "bleu"),
        Metric("transevolve", "TransEvolve's BLEU", "bleu"),
        Metric("chrf", "chrF2", "score"),
        Metric("endless", "endless translations", "sentences"),
        Metric("perplexity", "perplexity", "value"),
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
        Metric("matthews", "Matthews", "value"),
        Metric("f1", "F1", "value"),
        Metric("pearson", "Pearson", "value"),
        Metric("spearman", "Spearman", "value"),
    )
}
