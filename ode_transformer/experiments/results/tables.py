"""Tables: what the papers print beside what was measured.

A table is made from the recipes, which hold the papers' numbers, and from the records of finished runs below
``results``. What was not run is blank. Measured numbers are means over seeds, with the standard deviation where there
are several.
"""

import argparse
import csv
import io
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ... import markdown
from ...errors import OdeTransformerError
from .. import recipes
from ..metrics import METRICS
from ..metrics.resampling import TESTS
from ..records import read_record
from ..tasks import TASKS
from ..tasks.task import further_metrics
from . import comparisons, significance
from .comparisons import LEVEL, SIGNIFICANCE, Compared
from .files import read_records, variant, variant_label

if TYPE_CHECKING:
    from ..runs.runner import Run

RESULTS = recipes.ROOT / "results"
COLUMNS = (
    *("group", "table", "row", "recipe", "test_set", "metric"),
    *("paper", "measured", "deviation", "seeds", "p_value", "signature", "parameters", "updates"),
)


def deviation(values: Sequence[float]) -> float:
    """The standard deviation; not a number where a value is not finite, as that of a training that diverged."""
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def mean(values: Sequence[float], seeds: int, digits: int = 2, mark: str = "") -> str:
    """The mean, and the standard deviation of several values; empty if there are none.

    Args:
        values: of the seeds that have one.
        seeds: how many there are; if not all of them have a value, the text says how many do.
        digits: after the decimal point.
        mark: what stands behind the numbers.
    """
    digits = digits or int(len(values) > 1)  # a mean of counts is no count
    spread = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
    some = f" ({len(values)} of {seeds} seeds)" if len(values) < seeds else ""
    return f"{statistics.mean(values):.{digits}f}{spread}{mark}{some}" if values else ""


@dataclass
class Cell:
    """A cell of a table: the value of a metric on a test set, the paper's and ours, one per seed."""

    test_set: str
    metric: str
    paper: Optional[float] = None
    measured: list[float] = field(default_factory=list)
    seeds: int = 0  # how many there are, of which some may lack a value
    signatures: set[str] = field(default_factory=set)  # of the measured values
    compared: Optional[Compared] = None  # with the baseline of the group
    left_out: bool = False  # of this comparison

    def text(self) -> str:
        """Mean, and deviation over several seeds; a star where the difference to the baseline is significant."""
        mark = "*" if self.differs() else "†" if self.left_out else ""
        return mean(self.measured, self.seeds, METRICS[self.metric].digits, mark)

    def differs(self) -> bool:
        """Whether the difference to the baseline is significant."""
        return self.compared is not None and self.compared.differs()


@dataclass
class Row:
    """A row of a table."""

    label: str
    recipe: str  # empty for a row that the paper took from others
    cells: dict[tuple[str, str], Cell]
    paper: Optional[recipes.Paper] = None
    records: list[dict] = field(default_factory=list)

    def numbers(self, what: str) -> str:
        """``parameters`` or ``updates``, the paper's and ours."""
        theirs = getattr(self.paper, what, "")
        found = {
            "parameters": [r["training"]["parameters"] for r in self.records],
            "updates": [max(e.get("num_updates", 0) for e in r["training"]["curve"]) for r in self.records],
        }[what]
        ours = " to ".join(f"{number:,}" for number in sorted({min(found), max(found)})) if found else ""
        return f"{theirs} / {ours}" if theirs and ours else theirs or ours


def tables(
    group: str,
    folder: Path = RESULTS,
    records: Optional[Mapping[str, list[dict]]] = None,
    compared: Optional[Sequence[Compared]] = None,
) -> dict[str, list[Row]]:
    """The tables of a group of recipes, in the order of its rows.

    Args:
        group: a file of recipes, such as ``multi30k-short``, or a path, ``FILE.yaml``.
        folder: of results.
        records, compared: the records and the comparisons below the folder, if they were read already.

    Returns:
        rows by title: the paper's tables, and for recipes that are in none the group's own.

    Raises:
        OdeTransformerError: an unknown group, or a file of results that cannot be used.
        RecipeError: a recipe that cannot be used.
    """
    if group not in recipes.groups() and not group.endswith(".yaml"):
        known = ", ".join(recipes.groups())
        raise OdeTransformerError(f"no group of recipes {group!r}; it must be a FILE.yaml, or one of {known}")
    tree = recipes.group(group)
    records = read_records(folder) if records is None else records
    its = of_group(group, folder, comparisons.read(folder) if compared is None else compared)
    today = {(row.system, row.precisions[1], row.test_set): row for row in comparisons.of_today(its, records)}
    # The baseline and its precision are compared with themselves, as it were.
    known = {(row.baseline, row.precisions[0]) for row in today.values()}
    title = tree.get("description", group)
    found: dict[str, list[Row]] = {}
    for paper in recipes.quoted(group):
        found.setdefault(paper.table, []).append(Row(paper.row, "", _cells(paper, [], None), paper))
    for name in tree.get("rows", [""]):
        recipe = recipes.load(f"{group}/{name}" if name else group)
        for paper in recipe.paper or [None]:
            label = paper.row if paper else recipe.name.rpartition("/")[2]
            if paper and recipe.train.flags.get("ode-residual") == "released" and "released" not in label:
                label += ", released form"  # the paper does not tell the two forms apart
            rows = found.setdefault(paper.table if paper else title, [])
            for kind, mine in by_variant(records.get(recipe.name, [])).items():
                cells = _cells(paper, mine, recipe)
                for (test_set, metric), cell in cells.items():
                    if known and metric == its[0].metric and (recipe.name, *kind) not in known:
                        one = today.get((recipe.name, *kind, test_set))
                        cell.compared = one if one and one.of(cell.measured) else None
                        cell.left_out = cell.compared is None
                rows.append(Row(variant_label(label, kind), recipe.name, cells, paper, mine))
    return {title: [*rows, *source_row(rows)] for title, rows in found.items()}


def of_group(group: str, folder: Path, compared: Sequence[Compared]) -> list[Compared]:
    """The rows of a group's own comparison, whose stars its tables have; the file is named after the group."""
    name = Path(group).stem if group.endswith(".yaml") else group
    return [row for row in compared if row.file == folder / SIGNIFICANCE / f"{name}.json"]


def of_source(records: Sequence[dict]) -> tuple[str, dict[str, dict]]:
    """What the source of each test set scores without a system: its first sentences, or itself uncorrected.

    It is the same for all systems, and is taken from the first of the records that has it.

    Returns:
        its label and its scores by test set; both are empty for other tasks.
    """
    found: dict[str, dict] = {}
    for record in records:
        for test_set, scores in record["scores"].items():
            if "source" in scores:
                found.setdefault(test_set, scores["source"])
    return next((scores["label"] for scores in found.values()), ""), found


def source_row(rows: Sequence[Row]) -> list[Row]:
    """The row of :func:`of_source` for a table with these rows, if anything of it was measured."""
    label, scores = of_source([record for row in rows for record in row.records])
    cells = {key: cell(*key, [{"scores": scores}]) for key in dict.fromkeys(key for row in rows for key in row.cells)}
    return [Row(label, "", cells)] if any(cell.measured for cell in cells.values()) else []


def by_variant(records: Sequence[dict]) -> dict[tuple[str, ...], list[dict]]:
    """Records of one recipe by their variant.

    Those in fp32 and without flags come first; without any record they are an empty list.
    """
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
        wanted += [(t, metric) for t in recipe.subsets.values() for metric in metrics]
    cells = {}
    for test_set, metric in wanted:
        found = cells[test_set, metric] = cell(test_set, metric, records)
        found.paper = paper.scores.get(test_set, {}).get(metric) if paper else None
    return cells


def cell(test_set: str, metric: str, records: Sequence[dict[str, Any]]) -> Cell:
    """What several runs measured."""
    its = METRICS[metric]
    measured, signatures = its.values(records, test_set), its.signatures(records, test_set)
    return Cell(test_set, metric, measured=measured, seeds=len(records), signatures=signatures)


def section(title: str, rows: Sequence[Row], baseline: str = "") -> str:
    """A table for people, with what its numbers need to be comparable below it; ``baseline`` explains a star."""
    by = ", ".join({METRICS[cell.metric].label for row in rows for cell in row.cells.values() if cell.differs()})
    measured = [cell for row in rows for cell in row.cells.values() if cell.measured]
    lines = [f"### {title}", "", markdown.table(*printable(rows)), ""]
    lines += [f"{label}: `{signature}`" for label, signature in signatures(rows)]
    if baseline and any(cell.differs() for cell in measured):
        lines.append(f"\\* {by} differs from {baseline}")
    if baseline and any(cell.left_out for cell in measured):
        lines.append("† not compared")
    return "\n".join(lines).rstrip() + "\n"


def signatures(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The labels of the metrics that were measured, each with a signature of it."""
    cells = [cell for row in rows for cell in row.cells.values() if cell.measured]
    return sorted({(METRICS[cell.metric].label, signature) for cell in cells for signature in cell.signatures})


def printable(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """The head of a table and its cells as texts: the papers' numbers, what was measured, and sizes."""
    columns = list(dict.fromkeys(key for row in rows for key in row.cells))
    printed = [key for key in columns if any(row.cells.get(key) and row.cells[key].paper is not None for row in rows)]
    ran = [key for key in columns if any(row.cells.get(key) and row.cells[key].measured for row in rows)]
    head = ["system", *(f"paper: {t}, {METRICS[m].label}" for t, m in printed)]
    head += [*(f"measured: {t}, {METRICS[m].label}" for t, m in ran), "seeds", "parameters", "updates"]
    found = []
    for row in rows:
        theirs = [row.cells[k].paper if k in row.cells else None for k in printed]
        values = [row.label, *("" if value is None else f"{value:g}" for value in theirs)]
        values += [row.cells[k].text() if k in row.cells else "" for k in ran]
        values += [str(len(row.records) or ""), row.numbers("parameters"), row.numbers("updates")]
        found.append(values)
    return head, found


def baseline(group: str, folder: Path = RESULTS, compared: Optional[Sequence[Compared]] = None) -> str:
    """What the stars of a group's tables are about; empty if nothing was compared."""
    compared = comparisons.read(folder) if compared is None else compared
    its = of_group(group, folder, compared)
    if not its:
        return ""
    one = its[0]
    number = len({row.key for row in compared if row.family == one.family and row.p_value is not None})
    how = f"{TESTS[one.test]}, seed {one.seed}; {one.kind_of_p}"
    return f"{one.baseline} at p < {LEVEL:g}, adjusted for {number} comparisons ({how})"


def comma_separated(group: str, found: dict[str, list[Row]]) -> str:
    """The same for programs, one line per number, without the header ``COLUMNS``."""
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    for table, rows in found.items():
        for row in rows:
            for cell in row.cells.values():
                average = f"{statistics.mean(cell.measured):.4f}" if cell.measured else ""
                p_value = cell.compared.p_value if cell.compared else None
                spread = f"{deviation(cell.measured):.4f}" if len(cell.measured) > 1 else ""
                seeds = len(cell.measured) if row.recipe else 0
                write(
                    [
                        *(group, table, row.label, row.recipe, cell.test_set, cell.metric, _blank(cell.paper)),
                        *(average, spread, seeds or "", _blank(p_value), "; ".join(sorted(cell.signatures))),
                        *(row.numbers("parameters"), row.numbers("updates")),
                    ]
                )
    return text.getvalue()


def after(found: Sequence["Run"]) -> int:
    """Print the table of runs that were made together, if they were several; the exit status of ``run``."""
    if len(found) > 1:
        print(sweep([(one.recipe, one.folder) for one in found]))
    return 0


def sweep(runs: Sequence[tuple[recipes.Recipe, Path]]) -> str:
    """The table of runs that were made together: a row per system, its mean and deviation over seeds, and whether the
    translations of a system differ from the first one's, seed by seed.

    Args:
        runs: recipes, each with its seed, and the folders that they were run in.
    """
    rows: dict[str, Row] = {}
    systems: dict[str, dict[int, significance.System]] = {}
    for recipe, folder in runs:
        record = read_record(folder / "record.json")
        name, papers = recipe.name, recipe.paper
        if record["scale"] != "full":  # which a paper's number must not stand beside
            name, papers = f"{name}, rehearsal", []
        row = Row(variant_label(name, variant(record)), recipe.name, {}, papers[0] if papers else None)
        row = rows.setdefault(recipe.name, row)
        row.records.append(record)
        row.cells = _cells(row.paper, row.records, recipe)
        (seed,) = record["seeds"]
        systems.setdefault(recipe.name, {})[seed] = significance.System(recipe, folder)
    lines = [section("Runs", [*rows.values(), *source_row(list(rows.values()))])]
    (first, its_first), *others = systems.items()
    for name, its in others:
        for seed, system in its.items():
            if seed not in its_first or not significance.comparable(its_first[seed], system):
                continue
            which = f"{name} against {first}, seed {seed}"
            try:
                found = comparisons.rows(significance.compare(its_first[seed], [system]))
            except OdeTransformerError as error:  # the table of trainings must not be lost by it
                lines.append(f"{which}: not compared: {error}")
                continue
            for one in found:
                p = "no p" if one.p_value is None else f"p = {one.p_value:.4f}"
                differ = "" if len(set(one.precisions)) == 1 else f"; trained in {' and '.join(one.precisions)}"
                lines.append(f"{which}, {one.test_set}: {p} ({one.how}{differ})")
    return "\n".join(lines)


def _blank(value: Optional[float]) -> Any:
    return "" if value is None else value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer table``."""
    parser.add_argument("group", metavar="GROUP", nargs="*", help="files of recipes, such as ode/wmt14-en-de, or "
        "FILE.yaml of your own (default: all of this package)")  # fmt: skip
    parser.add_argument("--csv", action="store_true", help="for programs, one line per number")
    parser.add_argument(
        "--results", metavar="DIR", type=Path, default=RESULTS, help="the folder of records (default: results)"
    )
    parser.add_argument("--measured", action="store_true", help="only tables in which something was run")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer table``; the exit status."""
    if args.csv:
        print(",".join(COLUMNS))
    records, compared, measured = read_records(args.results), comparisons.read(args.results), False
    for group in args.group or recipes.groups():
        found = tables(group, args.results, records, compared)
        if args.measured:
            found = {title: rows for title, rows in found.items() if any(row.records for row in rows)}
        measured = measured or bool(found)
        if args.csv:
            print(comma_separated(group, found), end="")
            continue
        for title, rows in found.items():
            print(section(title, rows, baseline(group, args.results, compared)))
    if not measured:
        others = f"; its records are of {', '.join(records)}" if records else ""
        print(
            f"nothing of {', '.join(args.group) or 'any recipe'} is measured in {args.results}{others}", file=sys.stderr
        )
    return 0
