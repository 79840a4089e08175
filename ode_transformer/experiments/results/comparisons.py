"""Recorded tests of significance, as ``ode-transformer compare`` writes them: a row for each system and test set."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from ...files import written_by
from ...schema import checked_json, count, must_be, one_of
from ..metrics import METRICS
from ..metrics.resampling import TESTS
from .files import readable, variant

SIGNIFICANCE = "significance"  # the folder of comparisons in ``results``
_P = must_be(lambda p: p is None or (type(p) in (int, float) and 0 <= p <= 1), "a number from 0 to 1, or null")
_VALUES = {metric.key: (..., float) for metric in METRICS.values()}
_VALUES |= {"p_value": _P, "interval": (..., [float, float]), "interval_of_difference": (..., None, [float, float])}
_FORM = {
    **dict.fromkeys(("baseline", "signature", "metric"), str),
    "seed": (None, int),
    "test": one_of(*TESTS),
    "samples": count,
    "precisions": {str: str},
    "test_sets": {str: {str: _VALUES}},
}
LEVEL = 0.05  # of adjusted p-values: the expected share of chance among the differences called significant


@dataclass(frozen=True)
class Compared:
    """The test of a system against a baseline, on one test set."""

    baseline: str  # its name, usually that of a recipe, as is the system's
    system: str
    seed: Optional[int]  # of the trainings
    precisions: tuple[str, str]  # of the training of the baseline and of the system
    test_set: str
    metric: str
    baseline_value: float
    value: float
    p_value: Optional[float]  # two-sided; None where a score is not a number
    test: str
    samples: int
    signature: str  # of the metric
    # Whether p is twice sacreBLEU's, which is about half of the two-sided one: its bootstrap, by which earlier versions
    # compared translations, counts abs(d) - mean abs(d) instead of abs(d - mean d).
    doubled: bool
    values: Mapping[str, Any] = field(repr=False)  # everything that the comparison has about the system
    file: str = ""  # the path of the record below ``significance``, without its suffix
    adjusted: Optional[float] = None  # p, adjusted for the number of comparisons in the family (:func:`adjust`)
    adjusted_for: int = 0  # that number

    @property
    def family(self) -> tuple[str, str]:
        """The group of recipes and the metric: p is adjusted for the comparisons that share both."""
        return self.baseline.rpartition("/")[0], self.metric

    @property
    def key(self) -> tuple:
        """What the test compared, and, last, the test itself."""
        return self.baseline, self.seed, self.system, self.precisions, self.test_set, self.metric, self.test

    @property
    def kind_of_p(self) -> str:
        """A description of the p-value."""
        return "twice sacreBLEU's p, which is about half of the two-sided one" if self.doubled else "two-sided p"

    @property
    def how(self) -> str:
        """A description of the p-value and its test."""
        return f"{self.kind_of_p}, by {TESTS[self.test]} of {METRICS[self.metric].label}"

    @property
    def difference(self) -> str:
        """The difference from the baseline, with its 95 percent interval if it is known."""
        its, interval = METRICS[self.metric], self.values.get("interval_of_difference") or ()
        return f"{its.shown(self.value - self.baseline_value, '+')} {its.shown_interval(interval, '+')}".rstrip()

    def differs(self) -> bool:
        """Whether the difference is significant."""
        return self.adjusted is not None and self.adjusted < LEVEL


def rows(comparison: Mapping[str, Any], file: str = "") -> list[Compared]:
    """Return the rows of a comparison by ``ode-transformer compare``."""
    first, its, precisions = comparison["baseline"], METRICS[comparison["metric"]], comparison["precisions"]
    of_all = {key: comparison[key] for key in ("baseline", "seed", "metric", "test", "samples", "signature")}
    doubled = its.name == "sacrebleu" and comparison["test"] == "bootstrap" and not comparison.get("two_sided")
    return [
        Compared(
            **of_all,
            system=name,
            precisions=(precisions.get(first, ""), precisions.get(name, "")),
            test_set=test_set,
            baseline_value=systems[first][its.key],
            value=values[its.key],
            p_value=min(1.0, 2 * values["p_value"]) if doubled and values["p_value"] is not None else values["p_value"],
            doubled=doubled,
            values=values,
            file=file,
        )
        for test_set, systems in comparison["test_sets"].items()
        for name, values in systems.items()
        if name != first
    ]


def adjust(compared: Iterable[Compared]) -> list[Compared]:
    """Adjust the p-values in each family for the number of its comparisons, by Benjamini and Hochberg (1995).

    Of the differences with an adjusted p-value below ``LEVEL``, at most that share is expected to be due to chance.
    """
    from scipy.stats import false_discovery_control

    compared, families = list(compared), defaultdict(dict)
    for row in compared:
        if row.p_value is not None:
            families[row.family][row.key] = row.p_value
    adjusted = {}
    for p_values in families.values():
        adjusted |= zip(p_values, false_discovery_control([*p_values.values()]).tolist(), strict=True)
    return [replace(row, adjusted=adjusted.get(row.key), adjusted_for=len(families[row.family])) for row in compared]


def read(folder: Path) -> list[Compared]:
    """Return the adjusted rows of all comparisons in a folder of results, without invalid files, which are reported."""
    home = folder / SIGNIFICANCE

    def read_rows(path: Path) -> list[Compared]:
        found = checked_json(path, _FORM, "is not what ode-transformer compare writes")
        if (name := found["metric"]) not in METRICS:
            raise OdeTransformerError(f"{path}: metric {name}: is unknown; one of a plugin needs --user-dir")
        with written_by("ode-transformer compare", path):  # a system may lack the metric
            return rows(found, path.relative_to(home).with_suffix("").as_posix())

    return adjust(row for _, found in readable(sorted(home.rglob("*.json")), read_rows) for row in found)


def up_to_date(compared: Iterable[Compared], records: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Compared]:
    """Return the rows whose baseline and system have records, by recipe, and have not been trained again since."""

    def known(row: Compared, name: str, precision: str, value: float) -> bool:
        runs = [run for run in records.get(name, []) if variant(run) == (precision,)]
        measured = METRICS[row.metric].values(runs, row.test_set)
        return any(math.isclose(value, one, rel_tol=1e-6) or (value != value and one != one) for one in measured)

    return [
        row
        for row in compared
        if known(row, row.baseline, row.precisions[0], row.baseline_value)
        and known(row, row.system, row.precisions[1], row.value)
    ]
