"""Tables of the papers' numbers beside measured ones.

A table is made from recipes, which hold the papers' numbers, and from the records of finished runs in ``results``.
Numbers that were not measured are blank. Measured numbers are means over seeds, with the standard deviation if there
are several.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ... import markdown
from ...errors import OdeTransformerError, counted, visible
from .. import recipes
from ..arguments import nearest
from ..metrics import METRICS
from ..metrics.resampling import TESTS
from ..records import read_record
from ..tasks import TASKS
from ..tasks.task import further_metrics
from . import comparisons, significance
from .comparisons import LEVEL, Compared
from .files import variant, variant_label

if TYPE_CHECKING:
    from ..runs.runner import Run

RESULTS = recipes.ROOT / "results"
COLUMNS = (
    *("group", "table", "row", "recipe", "test_set", "metric"),
    *("paper", "measured", "deviation", "seeds", "p_value", "adjusted_p", "signature", "parameters", "updates"),
)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation; NaN if a value is not finite, such as that of a training that diverged."""
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def mean(values: Sequence[float], seeds: int, digits: int = 2, mark: str = "") -> str:
    """Format the mean of values, with the standard deviation of several; empty if there are none.

    ``seeds`` is the number of seeds, which is printed if some have no value; with 0 digits, a mean of several has 1.
    """
    digits = digits or int(len(values) > 1)  # a mean of counts is not whole
    spread = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
    some = f" ({len(values)} of {seeds} seeds)" if len(values) < seeds else ""
    return f"{statistics.mean(values):.{digits}f}{spread}{mark}{some}" if values else ""


@dataclass
class Cell:
    """A cell of a table: a metric on a test set, with the paper's value and the records, one per seed."""

    test_set: str
    metric: str
    records: Sequence[Mapping[str, Any]]
    paper: Optional[float] = None
    compared: Optional[Compared] = None  # the test against the baseline of the group
    left_out: bool = False  # whether the group's comparison lacks this cell

    @property
    def measured(self) -> list[float]:
        """The measured values; a seed may have none."""
        return METRICS[self.metric].values(self.records, self.test_set)

    def text(self) -> str:
        """Return the mean, the deviation over seeds, and a star if the difference from the baseline is significant."""
        mark = "*" if self.differs() else "†" if self.left_out else ""
        return mean(self.measured, len(self.records), METRICS[self.metric].digits, mark)

    def differs(self) -> bool:
        """Whether the difference from the baseline is significant."""
        return self.compared is not None and self.compared.differs()


@dataclass
class Row:
    """A row of a table."""

    label: str
    recipe: str  # empty for a row that the paper quotes from others
    cells: dict[tuple[str, str], Cell]
    paper: Optional[recipes.Paper] = None
    records: list[dict] = field(default_factory=list)

    def numbers(self, what: str) -> str:
        """Return the numbers of ``parameters`` or ``updates``, the paper's and ours."""
        theirs, trained = getattr(self.paper, what, ""), [record["training"] for record in self.records]
        if what == "parameters":
            found = {its["parameters"] for its in trained}
        else:
            found = {max(entry.get("num_updates", 0) for entry in its["curve"]) for its in trained}
        ours = " to ".join(f"{number:,}" for number in sorted({min(found), max(found)})) if found else ""
        return " / ".join(filter(None, (theirs, ours)))


def tables(group: str, records: Mapping[str, list[dict]], compared: Sequence[Compared]) -> dict[str, list[Row]]:
    """Return the tables of a group of recipes, in the order of its rows.

    The group is the name of a file of recipes, such as ``multi30k-short``, or a path, ``FILE.yaml``; records and
    comparisons are those in a folder of results. The rows come by title: the paper's tables, and one of the group for
    recipes in none of these.
    """
    if group not in recipes.groups() and not group.endswith(".yaml"):
        raise OdeTransformerError(
            f"the group of recipes {group!r} {nearest(group, recipes.groups())}; `ode-transformer recipe list` prints "
            "the recipes, and a file of your own is FILE.yaml"
        )
    tree = recipes.group(group)
    its = group_comparison(group, compared)
    current = {(row.system, row.precisions[1], row.test_set): row for row in comparisons.up_to_date(its, records)}
    # The baseline, in its precision, needs no comparison.
    known = {(row.baseline, row.precisions[0]) for row in current.values()}
    found: dict[str, list[Row]] = {}
    for paper in recipes.quoted(group):
        found.setdefault(paper.table, []).append(Row(paper.row, "", _cells(paper, [], None), paper))
    for name in tree.get("rows", [""]):
        recipe = recipes.load(f"{group}/{name}" if name else group)
        for paper in recipe.paper or [None]:
            title = paper.table if paper else tree.get("description", group)
            label = paper.row if paper else recipe.name.rpartition("/")[2]
            if paper and recipe.train.flags.get("ode-residual") == "released":
                label += ", released form"  # the paper does not distinguish the two forms
            for kind, mine in by_variant(records.get(recipe.name, [])).items():
                cells = _cells(paper, mine, recipe)
                for cell in cells.values():
                    if known and cell.metric == its[0].metric and (recipe.name, *kind) not in known:
                        cell.compared = current.get((recipe.name, *kind, cell.test_set))
                        cell.left_out = cell.compared is None
                found.setdefault(title, []).append(Row(variant_label(label, kind), recipe.name, cells, paper, mine))
    return {title: [*rows, *source_row(rows)] for title, rows in found.items()}


def group_comparison(group: str, compared: Sequence[Compared]) -> list[Compared]:
    """Return the rows of the group's own comparison, in the file of its name, which gives its tables their stars."""
    name = Path(group).stem if group.endswith(".yaml") else group
    return [row for row in compared if row.file == name]


def source_row(rows: Sequence[Row]) -> list[Row]:
    """Return a row of the scores of the sources as outputs, uncorrected or their first sentences; none if not measured.

    The scores are the same for all systems, and are those of the first record that has them.
    """
    found: dict[str, dict] = {}
    for test_set, scores in ((t, s) for row in rows for r in row.records for t, s in r["scores"].items()):
        if "source" in scores:
            found.setdefault(test_set, scores["source"])
    cells = {key: Cell(*key, [{"scores": found}]) for row in rows for key in row.cells}
    label = next((scores["label"] for scores in found.values()), "")
    return [Row(label, "", cells)] if any(cell.measured for cell in cells.values()) else []


def by_variant(records: Sequence[dict]) -> dict[tuple[str, ...], list[dict]]:
    """Group the records of a recipe by variant, fp32 without flags first; without records, that variant is empty."""
    found: dict[tuple[str, ...], list[dict]] = {}
    for record in records:
        found.setdefault(variant(record), []).append(record)
    names = sorted(found, key=lambda variant: (len(variant), recipes.PRECISIONS.index(variant[0]), variant))
    return {name: found[name] for name in names} or {("fp32",): []}


def _cells(
    paper: Optional[recipes.Paper], records: list[dict], recipe: Optional[recipes.Recipe]
) -> dict[tuple[str, str], Cell]:
    wanted = [(t, metric) for t, scores in (paper.scores if paper else {}).items() for metric in scores]
    if recipe:
        metrics = [*TASKS[recipe.task].metrics(recipe), *further_metrics(recipe)]
        metrics += ["endless"] * (recipe.task == "translation")
        wanted += [(t, metric) for t in recipe.subsets.values() for metric in metrics]
    theirs = paper.scores if paper else {}
    return {(t, metric): Cell(t, metric, records, theirs.get(t, {}).get(metric)) for t, metric in wanted}


def section(title: str, rows: Sequence[Row], baseline: str = "") -> str:
    """Return a table as Markdown, with signatures and notes below it; ``baseline`` explains the stars."""
    cells = [cell for row in rows for cell in row.cells.values()]
    lines = [f"### {title}", "", markdown.table(*printable(rows)), ""]
    lines += [f"{label}: `{signature}`" for label, signature in signatures(rows)]
    if baseline and (starred := {METRICS[cell.metric].label for cell in cells if cell.differs()}):
        lines.append(f"\\* {', '.join(starred)} differs from {baseline}")
    if baseline and any(cell.left_out and cell.measured for cell in cells):
        lines.append("† not compared")
    return visible("\n".join(lines)).rstrip() + "\n"


def signatures(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the labels of the measured metrics, each with a signature."""
    cells = ((METRICS[cell.metric], cell) for row in rows for cell in row.cells.values())
    return sorted({(its.label, text) for its, cell in cells for text in its.signatures(cell.records, cell.test_set)})


def printable(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table as strings: the papers' numbers, the measured ones, and sizes."""
    cells = [(key, cell) for row in rows for key, cell in row.cells.items()]
    there = {key for key, cell in cells if cell.paper is not None}, {key for key, cell in cells if cell.measured}
    printed, ran = ([key for key in dict.fromkeys(key for key, _ in cells) if key in keys] for keys in there)
    head = ["system", *(f"paper: {t}, {METRICS[m].label}" for t, m in printed)]
    head += [*(f"measured: {t}, {METRICS[m].label}" for t, m in ran), "seeds", "parameters", "updates"]
    found = []
    for row in rows:
        theirs = [row.cells[key].paper if key in row.cells else None for key in printed]
        values = [row.label, *("" if value is None else f"{value:g}" for value in theirs)]
        values += [row.cells[key].text() if key in row.cells else "" for key in ran]
        found.append([*values, str(len(row.records) or ""), row.numbers("parameters"), row.numbers("updates")])
    return head, found


def baseline(group: str, compared: Sequence[Compared]) -> str:
    """Return the explanation of the stars in a group's tables; empty if nothing was compared."""
    if not (its := group_comparison(group, compared)):
        return ""
    one = its[0]
    how = f"{TESTS[one.test]}, seed {one.seed}; {one.kind_of_p}"
    return f"{one.baseline} at p < {LEVEL:g}, adjusted for {counted(one.adjusted_for, 'comparison')} ({how})"


def for_programs(rows: Sequence[Row]) -> Iterator[tuple]:
    """Yield the cells of a table as rows of ``COLUMNS``, without the first two; missing values are None or empty."""
    for row in rows:
        for cell in row.cells.values():
            measured, signatures = cell.measured, METRICS[cell.metric].signatures(cell.records, cell.test_set)
            yield (
                *(row.label, row.recipe, cell.test_set, cell.metric, cell.paper),
                f"{statistics.mean(measured):.4f}" if measured else "",
                f"{deviation(measured):.4f}" if len(measured) > 1 else "",
                len(measured) if measured and row.recipe else "",
                *((cell.compared.p_value, cell.compared.adjusted) if cell.compared else (None, None)),
                "; ".join(sorted(signatures)),
                *(row.numbers("parameters"), row.numbers("updates")),
            )


def after(found: Sequence["Run"]) -> None:
    """Print the table of runs that were made together."""
    if found:
        print(sweep([(one.recipe, one.folder) for one in found]))


def sweep(runs: Sequence[tuple[recipes.Recipe, Path]]) -> str:
    """Return the table of runs that were made together: a row per system, with mean and deviation over seeds, and tests
    of each system against the first, seed by seed, of recipes with their seeds and the folders of their runs.
    """
    rows: dict[str, Row] = {}
    systems: dict[str, dict[int, significance.System]] = {}
    for recipe, folder in runs:
        record = read_record(folder / "record.json")
        name, papers = recipe.name, recipe.paper
        if record["scale"] != "full":  # which must not stand beside a paper's number
            name, papers = f"{name}, rehearsal", []
        row = Row(variant_label(name, variant(record)), recipe.name, {}, papers[0] if papers else None)
        row = rows.setdefault(recipe.name, row)
        row.records.append(record)
        row.cells = _cells(row.paper, row.records, recipe)
        (seed,) = record["seeds"]
        systems.setdefault(recipe.name, {})[seed] = significance.System(recipe, folder)
    lines = [section("Runs", [*rows.values(), *source_row(list(rows.values()))])]
    (first, its_first), *others = systems.items()
    found: list[comparisons.Compared] = []
    for name, its in others:
        for seed, system in its.items():
            if seed in its_first and significance.comparable(its_first[seed], system):
                try:
                    found += comparisons.rows(significance.compare(its_first[seed], [system]))
                except OdeTransformerError as error:  # it must not cost the table of the runs
                    lines.append(f"{name} against {first}, seed {seed}: not compared: {error}")
    for one in comparisons.adjust(found):
        p = "no p" if one.p_value is None else f"p = {one.p_value:.4f}"
        p += f", adjusted {one.adjusted:.4f}" if one.p_value is not None and len(found) > 1 else ""
        differ = "" if len(set(one.precisions)) == 1 else f"; trained in {' and '.join(one.precisions)}"
        lines.append(f"{one.system} against {first}, seed {one.seed}, {one.test_set}: {p} ({one.how}{differ})")
    if len(found) > 1:
        lines.append("(adjusted for all comparisons of a group by one metric, by Benjamini and Hochberg)")
    return "\n".join(lines)
