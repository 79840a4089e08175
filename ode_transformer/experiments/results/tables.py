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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ...errors import OdeTransformerError
from ...files import read_json
from .. import markdown, recipes
from ..metrics import METRICS
from ..runs.records import check_record, read_record
from ..schema import count, lacks, one_of
from ..tasks import TASKS
from . import significance

RESULTS = recipes.ROOT / "results"
SIGNIFICANCE = "significance"  # the folder of comparisons below ``results``
_COMPARISON = {
    **dict.fromkeys(("baseline", "signature"), str),
    "seed": int,
    "samples": count,
    "precisions": {str: one_of(*recipes.PRECISIONS)},
    "test": one_of(*significance.TESTS),
    "metric": one_of(*METRICS),
    "test_sets": dict,
}
COLUMNS = (
    *("group", "table", "row", "recipe", "test_set", "metric"),
    *("paper", "measured", "deviation", "seeds", "p_value", "signature", "parameters", "updates"),
)


class Compared(NamedTuple):
    """A system in a test of significance.

    Args:
        value: of its metric.
        p_value: two-sided; None for the baseline.
        adjusted: the same, adjusted for the number of comparisons of the group.
    """

    value: float
    p_value: Optional[float]
    adjusted: Optional[float]

    def among(self, measured: Sequence[float]) -> bool:
        """Whether the run that was compared is among those with these values, and was not trained anew since."""
        return any(
            math.isclose(value, self.value, rel_tol=1e-6) or (math.isnan(value) and math.isnan(self.value))
            for value in measured
        )

    def differs(self) -> bool:
        """Whether the difference to the baseline is significant."""
        return self.adjusted is not None and self.adjusted < significance.LEVEL


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
        return mean(self.measured, self.seeds, mark="*" if self.differs() else "†" if self.left_out else "")

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


def json_files(folder: Path, pattern: str = "*.json") -> list[Path]:
    """The files below a folder, those in the fewest folders first. Links to folders are followed, each folder once."""
    found, visited, level = [], {folder.resolve()}, [folder]
    while level:
        paths = [path for home in level for path in sorted(home.iterdir()) if path.name[0] != "."]
        found += [path for path in paths if path.match(pattern) and path.is_file()]
        level = []
        for path in paths:
            if path.is_dir() and (real := path.resolve()) not in visited:
                visited.add(real)
                level.append(path)
    return found


def readable(paths: Iterable[Path], read: Callable[[Path], Any]) -> Iterator[tuple[Path, Any]]:
    """Files with what a function reads from them; one that it refuses is left out, and named on standard error."""
    for path in paths:
        try:
            found = read(path)
        except (OdeTransformerError, OSError) as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        yield path, found


def _record(path: Path) -> Optional[dict]:
    """The record in a file; None where it is another file, such as one of translations."""
    found = read_json(path)
    return check_record(found, path) if isinstance(found, dict) and "recipe" in found else None


def read_records(folder: Path = RESULTS) -> dict[str, list[dict]]:
    """The records of finished runs below a folder, by recipe.

    JSON files that are not records, such as translations, are left out; those that look like records and are none, such
    as a bundle's or a damaged one, are named on standard error.

    A second record of the same precision, seed and flags, such as that of a run with another ``--run-dir``, becomes a
    variant of its own, named after its file. The first is the one in the fewest folders: one in ``results/gpu`` comes
    after that of the same run on a CPU.

    Raises:
        OdeTransformerError: no such folder.
    """
    found: dict[str, dict[tuple, dict]] = {}
    if not folder.is_dir():
        raise OdeTransformerError(f"--results {folder}: no such folder")
    files = [path for path in json_files(folder) if path.name not in ("run.json", "steps.json")]
    for path, record in readable(files, _record):
        if record and record["scale"] == "full":
            runs = found.setdefault(record["recipe"], {})
            if (*record["seeds"], *variant(record)) in runs:
                record["file"] = str(path.relative_to(folder))
            runs[*record["seeds"], *variant(record)] = record
    return {name: list(runs.values()) for name, runs in found.items()}


def tables(group: str, folder: Path = RESULTS, records: Optional[dict[str, list[dict]]] = None) -> dict[str, list[Row]]:
    """The tables of a group of recipes, in the order of its rows.

    Args:
        group: a file of recipes, such as ``multi30k-short``, or a path, ``FILE.yaml``.
        folder: of results.
        records: those below the folder, if they were read already.

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
    comparison = _significance(group, folder)
    precisions = comparison["precisions"]
    compared, by = _by_system(comparison, records, adjusted(folder)), comparison["metric"]
    title = tree.get("description", group)
    found: dict[str, list[Row]] = {}
    for paper in recipes.quoted(group):
        found.setdefault(paper.table, []).append(Row(paper.row, "", _cells(paper, [], {}, None), paper))
    for name in tree.get("rows", [""]):
        recipe = recipes.load(f"{group}/{name}" if name else group)
        for paper in recipe.paper or [None]:
            label = paper.row if paper else recipe.name.rpartition("/")[2]
            if paper and recipe.train.flags.get("ode-residual") == "released" and "released" not in label:
                label += ", released form"  # the paper does not tell the two forms apart
            rows = found.setdefault(paper.table if paper else title, [])
            for variant, mine in by_variant(records.get(recipe.name, [])).items():
                its = compared.get(recipe.name, {}) if variant == (precisions.get(recipe.name),) else {}
                cells = _cells(paper, mine, its, recipe)
                for cell in cells.values():
                    cell.left_out = bool(compared) and cell.metric == by and cell.compared is None
                rows.append(Row(variant_label(label, variant), recipe.name, cells, paper, mine))
    return {title: [*rows, *_source_row(rows)] for title, rows in found.items()}


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


def _source_row(rows: Sequence[Row]) -> list[Row]:
    """The row of :func:`of_source` for a table with these rows, if anything of it was measured."""
    label, scores = of_source([record for row in rows for record in row.records])
    cells = {key: _cell(*key, [{"scores": scores}]) for key in dict.fromkeys(key for row in rows for key in row.cells)}
    return [Row(label, "", cells)] if any(cell.measured for cell in cells.values()) else []


def variant(record: dict[str, Any]) -> tuple[str, ...]:
    """What tells runs of one recipe and seed apart: the precision and the flags that the user added to the recipe's."""
    return (record["precision"], *record["flags"], *([f"in {record['file']}"] if "file" in record else []))


def by_variant(records: Sequence[dict]) -> dict[tuple[str, ...], list[dict]]:
    """Records of one recipe by their variant.

    Those in fp32 and without flags come first; without any record they are an empty list.
    """
    found: dict[tuple[str, ...], list[dict]] = {}
    for record in records:
        found.setdefault(variant(record), []).append(record)
    names = sorted(found, key=lambda variant: (len(variant), recipes.PRECISIONS.index(variant[0]), variant))
    return {name: found[name] for name in names} or {("fp32",): []}


def variant_label(label: str, variant: tuple[str, ...]) -> str:
    """The label of a row, with the precision if it is not fp32 and with the user's flags."""
    precision, *flags = variant
    return ", ".join([label, *([precision] if precision != "fp32" else []), *([" ".join(flags)] if flags else [])])


def _cells(
    paper: Optional[recipes.Paper],
    records: list[dict],
    comparison: dict[tuple[str, str], Compared],
    recipe: Optional[recipes.Recipe],
) -> dict[tuple[str, str], Cell]:
    wanted = [(t, metric) for t, scores in (paper.scores if paper else {}).items() for metric in scores]
    if recipe:
        wanted += [(t, metric) for t in recipe.subsets.values() for metric in TASKS[recipe.task].metrics(recipe)]
    cells = {}
    for test_set, metric in wanted:
        cell = cells[test_set, metric] = _cell(test_set, metric, records)
        cell.paper = paper.scores.get(test_set, {}).get(metric) if paper else None
        compared = comparison.get((test_set, metric))
        if compared and compared.among(cell.measured):
            cell.compared = compared
    return cells


def _cell(test_set: str, metric: str, records: Sequence[dict[str, Any]]) -> Cell:
    """What several runs measured."""
    its = METRICS[metric]
    measured, signatures = its.values(records, test_set), its.signatures(records, test_set)
    return Cell(test_set, metric, measured=measured, seeds=len(records), signatures=signatures)


def section(title: str, rows: Sequence[Row], baseline: str = "") -> str:
    """A table for people, with what its numbers need to be comparable below it; ``baseline`` explains a star."""
    by = ", ".join({METRICS[cell.metric].label for row in rows for cell in row.cells.values() if cell.differs()})
    columns = list(dict.fromkeys(key for row in rows for key in row.cells))
    printed = [key for key in columns if any(row.cells.get(key) and row.cells[key].paper is not None for row in rows)]
    ran = [key for key in columns if any(row.cells.get(key) and row.cells[key].measured for row in rows)]
    head = ["system", *(f"paper: {t}, {METRICS[m].label}" for t, m in printed)]
    head += [*(f"measured: {t}, {METRICS[m].label}" for t, m in ran), "seeds", "parameters", "updates"]
    printable = []
    for row in rows:
        theirs = [row.cells[k].paper if k in row.cells else None for k in printed]
        values = [row.label, *("" if value is None else f"{value:g}" for value in theirs)]
        values += [row.cells[k].text() if k in row.cells else "" for k in ran]
        values += [str(len(row.records) or ""), row.numbers("parameters"), row.numbers("updates")]
        printable.append(values)
    measured = [cell for row in rows for cell in row.cells.values() if cell.measured]
    signed = {(METRICS[cell.metric].label, signature) for cell in measured for signature in cell.signatures}
    lines = [f"### {title}", "", markdown.table(head, printable), ""]
    lines += [f"{label}: `{signature}`" for label, signature in sorted(signed)]
    if baseline and any(cell.differs() for cell in measured):
        lines.append(f"\\* {by} differs from {baseline}")
    if baseline and any(cell.left_out for cell in measured):
        lines.append("† not compared")
    return "\n".join(lines).rstrip() + "\n"


def baseline(group: str, folder: Path = RESULTS) -> str:
    """What the stars of a group's tables are about; empty if nothing was compared."""
    compared = _significance(group, folder)
    if "test" not in compared:
        return ""
    return "{baseline} at p < {level:g}, adjusted for {number} comparisons ({named}, seed {seed}; {kind})".format(
        **compared,
        named=significance.TESTS[compared["test"]],
        level=significance.LEVEL,
        number=len(adjusted(folder)[family(compared)]),
        kind=significance.kind_of_p(compared),
    )


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
        row.cells = _cells(row.paper, row.records, {}, recipe)
        (seed,) = record["seeds"]
        systems.setdefault(recipe.name, {})[seed] = significance.System(recipe, folder)
    lines = [section("Runs", [*rows.values(), *_source_row(list(rows.values()))])]
    (baseline, first), *others = systems.items()
    for name, its in others:
        for seed, system in its.items():
            if seed not in first or not significance.comparable(first[seed], system):
                continue
            try:
                found = significance.compare(first[seed], [system])
            except OdeTransformerError as error:  # the table of trainings must not be lost by it
                lines.append(f"{name} against {baseline}, seed {seed}: not compared: {error}")
                continue
            if (differ := significance.precisions(found)) and differ not in lines:
                lines.append(differ)
            for test_set, values in found["test_sets"].items():
                p_value = values[name]["p_value"]
                p = "no p" if p_value is None else f"p = {p_value:.4f}"
                test, label = significance.TESTS[found["test"]], METRICS[found["metric"]].label
                how = f"{test} of {label}; {significance.kind_of_p(found)}"
                lines.append(f"{name} against {baseline}, seed {seed}, {test_set}: {p} ({how})")
    return "\n".join(lines)


def _blank(value: Optional[float]) -> Any:
    return "" if value is None else value


def _significance(group: str, folder: Path) -> dict[str, Any]:
    """The recorded comparison of a group, if there is one."""
    path = folder / SIGNIFICANCE / f"{Path(group).stem if group.endswith('.yaml') else group}.json"
    for _, comparison in readable([path] if path.is_file() else [], read_comparison):
        return comparison
    return {"precisions": {}, "test_sets": {}, "metric": significance.TRANSLATIONS_BY, "baseline": ""}


def read_comparison(path: Path) -> dict[str, Any]:
    """A comparison that ``ode-transformer compare`` wrote.

    Raises:
        OdeTransformerError: it is of another form, as those of earlier versions are.
    """
    comparison = read_json(path)
    wrong = lacks(comparison, _COMPARISON)
    if not wrong:
        values = {METRICS[comparison["metric"]].key: float, "p_value": (None, float)}
        systems = dict.fromkeys((comparison["baseline"], *comparison["precisions"]), (..., values))
        its = {**systems, comparison["baseline"]: values, str: lambda _: "has no precision"}
        wrong = lacks(comparison["test_sets"], {str: its}, "test_sets")
    if not wrong and comparison["baseline"] not in comparison["precisions"]:
        wrong = f"precisions.{comparison['baseline']} is missing"
    if wrong:
        raise OdeTransformerError(f"{path}: {wrong}; ode-transformer compare writes it again")
    return comparison


def comparisons(
    folder: Path = RESULTS, records: Optional[dict[str, list[dict]]] = None
) -> dict[str, dict[str, dict[tuple[int, str], dict[tuple[str, str], Compared]]]]:
    """Recorded comparisons of systems that were trained in the precision of their baseline: by baseline, by recipe, and
    by seed and precision; then by test set and metric. The arguments are those of :func:`tables`."""
    records, by_family, found = records or read_records(folder), adjusted(folder), {}
    for _, comparison in readable(sorted((folder / SIGNIFICANCE).rglob("*.json")), read_comparison):
        precisions = comparison["precisions"]
        for name, compared in _by_system(comparison, records, by_family).items():
            if precisions[name] != precisions[comparison["baseline"]]:
                continue
            by_run = found.setdefault(comparison["baseline"], {}).setdefault(name, {})
            by_run.setdefault((comparison["seed"], precisions[name]), {}).update(compared)
    return found


def adjusted(folder: Path = RESULTS) -> dict[str, dict[tuple, float]]:
    """The two-sided p-values of all recorded comparisons, adjusted for their number in each group of recipes.

    Returns:
        by group and metric; then by baseline, seed, system, its precision and test set.
    """
    families: dict[str, dict[tuple, float]] = {}
    for _, comparison in readable(sorted((folder / SIGNIFICANCE).rglob("*.json")), read_comparison):
        its = families.setdefault(family(comparison), {})
        for test_set, systems in comparison["test_sets"].items():
            for name, values in systems.items():
                if (p_value := significance.two_sided(comparison, values["p_value"])) is not None:
                    its[key(comparison, name, test_set)] = p_value
    return {
        name: dict(zip(its, significance.adjusted(list(its.values())), strict=True)) for name, its in families.items()
    }


def family(comparison: dict[str, Any]) -> str:
    """The comparisons among which a comparison is adjusted: those of its group by its metric."""
    return f"{comparison['baseline'].rpartition('/')[0]} by {comparison['metric']}"


def key(comparison: dict[str, Any], name: str, test_set: str) -> tuple:
    """What identifies a test among those of its family."""
    return comparison["baseline"], comparison["seed"], name, comparison["precisions"].get(name), test_set


def _by_system(
    comparison: dict[str, Any], records: dict[str, list[dict]], by_family: dict[str, dict[tuple, float]]
) -> dict[str, dict[tuple[str, str], Compared]]:
    """The results of a comparison by recipe, and by test set and metric; those whose baseline there still is."""
    by = comparison["metric"]
    found: dict[str, dict[tuple[str, str], Compared]] = {}
    for test_set, systems in comparison["test_sets"].items():
        its = {
            name: Compared(
                values[METRICS[by].key],
                significance.two_sided(comparison, values["p_value"]),
                by_family.get(family(comparison), {}).get(key(comparison, name, test_set)),
            )
            for name, values in systems.items()
        }
        baseline = comparison["baseline"]
        if its[baseline].among(METRICS[by].values(records.get(baseline, []), test_set)):
            for name, compared in its.items():
                found.setdefault(name, {})[test_set, by] = compared
    return found


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
    records, measured = read_records(args.results), False
    for group in args.group or recipes.groups():
        found, against = tables(group, args.results, records), baseline(group, args.results)
        if args.measured:
            found = {title: rows for title, rows in found.items() if any(row.records for row in rows)}
        measured = measured or bool(found)
        if args.csv:
            print(comma_separated(group, found), end="")
            continue
        for title, rows in found.items():
            print(section(title, rows, against))
    if not measured:
        others = f"; its records are of {', '.join(records)}" if records else ""
        print(
            f"nothing of {', '.join(args.group) or 'any recipe'} is measured in {args.results}{others}", file=sys.stderr
        )
    return 0
