"""The protocol of metrics, and what they are computed from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

from ...errors import OdeTransformerError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Examples:
    """The examples of a test set, which outputs of a system are scored against; each task fills what it has.

    Args:
        references: one text or more, of a line per example.
        sources: what was translated, summarized or corrected, a line per example.
        labels: the label of each example.
        edits: the M2 file of people's corrections.
        questions: of SQuAD, the version and the gold answers of each question.
        lang: the language of the outputs, for metrics that tokenize by it.
        lowercase: whether letter case is to be ignored.
    """

    references: Sequence[Sequence[str]] = ()
    sources: Sequence[str] = ()
    labels: Sequence[str] = ()
    edits: str = ""
    questions: Optional[tuple[str, Mapping[str, Sequence[str]]]] = None
    lang: str = ""
    lowercase: bool = False


def mean(sums: "np.ndarray") -> float:
    """The mean, from sums whose two columns are values and ones."""
    return float(sums[0] / sums[1])


def percent(sums: "np.ndarray") -> float:
    """The mean in percent."""
    return 100 * mean(sums)


@dataclass(frozen=True)
class Metric:
    """A metric.

    Args:
        name: its name in recipes, records and commands.
        label: its label for readers.
        key: the key of its value in its entry of a record.
        entry: the name of that entry, if several metrics share one; by default the metric's name.
        needs: the fields of :class:`Examples` that it is computed from; ``labels|questions`` is either of two.
        statistics: (outputs, examples) -> numbers of each output, (examples, columns), whose sums give the score; None
            if it has none, so that systems cannot be compared by it.
        score: the sums, (columns,) -> the value.
        signature: what a value is quoted with, or (outputs, examples) -> that; empty if the label is enough.
        whole: (outputs, examples) -> the entry of a record, where that is more than the value and the signature.
        digits: of its value after the decimal point, for readers.
    """

    name: str
    label: str
    key: str = "value"
    entry: str = ""
    needs: Sequence[str] = ("references",)
    statistics: Optional[Callable[[Sequence[str], Examples], Any]] = field(default=None, repr=False)
    score: Callable[["np.ndarray"], float] = mean
    signature: str | Callable[[Sequence[str], Examples], str] = ""
    whole: Optional[Callable[[Sequence[str], Examples], dict[str, Any]]] = field(default=None, repr=False)
    digits: int = 2

    def fits(self, examples: Examples) -> bool:
        """Whether it can be computed, and the examples have what it is computed from."""
        there = all(any(getattr(examples, one) for one in need.split("|")) for need in self.needs)
        return there and bool(self.whole or self.statistics)

    @property
    def needed(self) -> str:
        """The examples that it needs, for messages."""
        return " and ".join(self.needs).replace("|", " or ")

    def compute(self, outputs: Sequence[str], examples: Examples) -> dict[str, Any]:
        """Score outputs; the metric's entry in a record.

        Raises:
            OdeTransformerError: the examples lack what the metric needs, or it cannot be computed alone.
        """
        if not self.fits(examples):
            raise OdeTransformerError(f"--metric {self.name}: cannot be computed; it needs {self.needed}")
        if self.whole:
            return self.whole(outputs, examples)
        value = self.score(self.of_each(outputs, examples).sum(0))
        return {self.key: float(value), "signature": self.quoted(outputs, examples)}

    def of_each(self, outputs: Sequence[str], examples: Examples) -> "np.ndarray":
        """The statistics of each output, (examples, columns)."""
        import numpy as np

        assert self.statistics is not None
        return np.asarray(self.statistics(outputs, examples), float)

    def quoted(self, outputs: Sequence[str], examples: Examples) -> str:
        """The signature of a value that is computed from these."""
        return self.signature if isinstance(self.signature, str) else self.signature(outputs, examples)

    def value(self, scores: Mapping[str, Any]) -> Optional[float]:
        """The value among the recorded scores of a test set; None if there is none."""
        found = scores.get(self.entry or self.name)
        return found.get(self.key) if found else None

    def values(self, records: Sequence[Mapping[str, Any]], test_set: str) -> list[float]:
        """The values on a test set of those records that have one."""
        found = [self.value(record["scores"].get(test_set, {})) for record in records]
        return [value for value in found if value is not None]

    def recorded_signature(self, scores: Mapping[str, Any]) -> str:
        """The signature among the recorded scores of a test set; empty if the label is enough."""
        return (scores.get(self.entry or self.name) or {}).get("signature", "")

    def shown(self, value: float, sign: str = "") -> str:
        """A value as readers see it; a difference of values with the sign ``+``."""
        return f"{value:{sign}.{self.digits}f}"

    def shown_interval(self, interval: Sequence[float], sign: str = "") -> str:
        """An interval of values as readers see it; empty if there is none."""
        return f"[{', '.join(self.shown(end, sign) for end in interval)}]" if interval else ""

    def signatures(self, records: Sequence[Mapping[str, Any]], test_set: str) -> set[str]:
        """The signatures of the values on a test set; none if the label is enough."""
        scores = [record["scores"].get(test_set, {}) for record in records]
        return {self.recorded_signature(one) for one in scores if self.value(one) is not None} - {""}
