"""The protocol of metrics, and the examples that they read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ...errors import OdeTransformerError


@dataclass(frozen=True)
class Examples:
    """The examples of a test set, against which outputs are scored; a task fills the fields for which it has data."""

    references: Sequence[Sequence[str]] = ()  # one or more reference texts, with a line per example
    sources: Sequence[str] = ()  # the text that was translated, summarized or corrected, with a line per example
    labels: Sequence[str] = ()  # the label of each example
    edits: str = ""  # the M2 file of human corrections
    questions: Optional[tuple[str, Mapping[str, Sequence[str]]]] = None  # SQuAD's version, and gold answers by question
    lang: str = ""  # the language of the outputs, for metrics that tokenize by language
    lowercase: bool = False


def mean(sums: np.ndarray) -> float:
    """Return the mean, from the sums of values and of ones."""
    return float(sums[0] / sums[1])


def percent(sums: np.ndarray) -> float:
    """Return the mean in percent."""
    return 100 * mean(sums)


@dataclass(frozen=True)
class Metric:
    """A metric: what it computes of outputs and examples, and how records and readers name it."""

    name: str  # in recipes, records and commands
    label: str  # for readers
    key: str = "value"  # of the value in the metric's entry in a record
    entry: str = ""  # the name of that entry, if several metrics share one; by default the metric's name
    needs: Sequence[str] = ("references",)  # the fields of the examples; ``labels|questions`` is either of two
    # (outputs, examples) -> statistics of each output, (examples, columns), whose sums give the score; None for a
    # metric by which systems cannot be compared.
    statistics: Optional[Callable[[Sequence[str], Examples], Any]] = field(default=None, repr=False)
    score: Callable[[np.ndarray], float] = mean  # sums, (columns,) -> value
    # The text with which values are quoted, or (outputs, examples) -> text; empty if the label is enough.
    signature: str | Callable[[Sequence[str], Examples], str] = ""
    # (outputs, examples) -> entry in a record; None if this is the value and the signature.
    whole: Optional[Callable[[Sequence[str], Examples], dict[str, Any]]] = field(default=None, repr=False)
    digits: int = 2  # decimals for readers
    label_kind: str = ""  # the labels that it is of: ``binary``, which are 0 and 1, or ``numbers``; empty for any

    @property
    def alone(self) -> bool:
        """Whether it can be asked for; the others come with the scores of a task."""
        return bool(self.whole or self.statistics)

    def fits(self, examples: Examples) -> bool:
        """Whether the metric can be computed from these examples."""
        there = all(any(getattr(examples, one) for one in need.split("|")) for need in self.needs)
        return there and self.alone

    @property
    def needed(self) -> str:
        """The fields of examples that the metric needs, for messages."""
        return " and ".join(self.needs).replace("|", " or ")

    def compute(self, outputs: Sequence[str], examples: Examples) -> dict[str, Any]:
        """Score outputs, and return the metric's entry in a record."""
        if not self.alone:
            raise OdeTransformerError(f"--metric {self.name}: comes with the scores of a task; leave it out")
        if not self.fits(examples):
            raise OdeTransformerError(f"--metric {self.name}: cannot be computed; it needs {self.needed}")
        if self.whole:
            return self.whole(outputs, examples)
        value = self.score(self.statistics_of_each(outputs, examples).sum(0))
        return {self.key: float(value), "signature": self.signature_of(outputs, examples)}

    def statistics_of_each(self, outputs: Sequence[str], examples: Examples) -> np.ndarray:
        """Return the statistics of each output, (examples, columns)."""
        assert self.statistics is not None
        return np.asarray(self.statistics(outputs, examples), float)

    def signature_of(self, outputs: Sequence[str], examples: Examples) -> str:
        """Return the signature of the value for outputs and examples."""
        return self.signature if isinstance(self.signature, str) else self.signature(outputs, examples)

    def value(self, scores: Mapping[str, Any]) -> Optional[float]:
        """Return the value among the recorded scores of a test set, or None."""
        found = scores.get(self.entry or self.name)
        return found.get(self.key) if found else None

    def values(self, records: Sequence[Mapping[str, Any]], test_set: str) -> list[float]:
        """Return the values on a test set, from the records that have one."""
        found = [self.value(record["scores"].get(test_set, {})) for record in records]
        return [value for value in found if value is not None]

    def recorded_signature(self, scores: Mapping[str, Any]) -> str:
        """Return the signature among the recorded scores of a test set; empty if there is none."""
        return (scores.get(self.entry or self.name) or {}).get("signature", "")

    def shown(self, value: float, sign: str = "") -> str:
        """Return a value as text for readers; ``sign`` is ``+`` for a difference of values."""
        return f"{value:{sign}.{self.digits}f}"

    def shown_interval(self, interval: Sequence[float], sign: str = "") -> str:
        """Return an interval of values as text for readers; empty if there is none."""
        return f"[{', '.join(self.shown(end, sign) for end in interval)}]" if interval else ""

    def signatures(self, records: Sequence[Mapping[str, Any]], test_set: str) -> set[str]:
        """Return the different signatures of the values on a test set, without empty ones."""
        scores = [record["scores"].get(test_set, {}) for record in records]
        return {self.recorded_signature(one) for one in scores if self.value(one) is not None} - {""}
