"""Tables of BLEU: what the paper prints beside what was measured, and whether two systems differ.

A table is made of the recipes, which hold the papers' numbers, and of the records of finished runs below ``results``.
What was not run is blank. Measured numbers are means over seeds, with their standard deviation where there are several.
"""

import argparse
import csv
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from ..errors import OdeTransformerError
from . import recipes, results, scoring

RESULTS = recipes.ROOT / "results"
TESTS = {"bootstrap": "bs", "randomisation": "ar"}
SIGNIFICANCE = "significance"  # the folder of comparisons below ``results``
COLUMNS = (
    *("group", "table", "row", "recipe", "test_set", "metric"),
    *("paper", "measured", "deviation", "seeds", "p_value", "signature", "parameters", "updates"),
)
_NAMES = {"tokenised": "tokenised", "compound_split": "compounds split", "sacrebleu": "sacreBLEU"}


class TableError(OdeTransformerError):
    """A record or a run that cannot be used; the message names it."""


@dataclass
class Cell:
    """A number of a table: of a test set by a metric, the paper's and ours, one a seed."""

    test_set: str
    metric: str
    paper: Optional[float] = None
    measured: list[float] = field(default_factory=list)
    p_value: Optional[float] = None  # against the baseline of the group
    left_out: bool = False  # of the comparison with it

    def text(self) -> str:
        """Mean, and deviation over several seeds; a star where the difference to the baseline is significant."""
        if not self.measured:
            return ""
        spread = f" ± {statistics.stdev(self.measured):.2f}" if len(self.measured) > 1 else ""
        return f"{statistics.mean(self.measured):.2f}{spread}{'*' if self.differs() else '†' if self.left_out else ''}"

    def differs(self) -> bool:
        """Whether the difference to the baseline is significant."""
        return self.p_value is not None and self.p_value < 0.05


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
        ours = f"{found[0]:,}" if found else ""
        return f"{theirs} / {ours}" if theirs and ours else theirs or ours


def read_records(folder: Path = RESULTS) -> dict[str, list[dict]]:
    """The records of whole runs below a folder, by recipe.

    Raises:
        TableError: a file that is no record.
    """
    found: dict[str, dict[tuple, dict]] = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TableError(f"{path}: {error}") from error
        if not isinstance(record, dict):
            raise TableError(f"{path}: must hold a mapping")
        if "recipe" in record and record.get("scale", "full") == "full":
            if missing := [
                key for key in ("scores", "training", "seeds", "precision", "versions") if key not in record
            ]:
                raise TableError(f"{path}: a record without {missing[0]}")
            runs = found.setdefault(record["recipe"], {})
            if (run := (record["precision"], *record["seeds"])) in runs:
                raise TableError(f"{path}: a second record of {record['recipe']}, {' '.join(map(str, run))}")
            runs[run] = record
    return {name: list(runs.values()) for name, runs in found.items()}


def tables(group: str, folder: Path = RESULTS) -> dict[str, list[Row]]:
    """The tables of a group of recipes, in the order of its rows.

    Args:
        group: a file of recipes, such as ``multi30k-short``.
        folder: of results.

    Returns:
        rows by title: the paper's tables, and for recipes that are in none the group's own.

    Raises:
        TableError: an unknown group, or a file of results that cannot be used.
        RecipeError: a recipe that cannot be used.
    """
    groups = recipes.groups()
    if group not in groups:
        raise TableError(f"no group of recipes {group!r}; there are: {', '.join(groups)}")
    records, comparison = read_records(folder), _significance(group, folder)
    compared = _p_values(comparison)
    title = groups[group].get("description", group)
    found: dict[str, list[Row]] = {}
    for paper in recipes.quoted(group):
        found.setdefault(paper.table, []).append(Row(paper.row, "", _cells(paper, [], {}, None), paper))
    for name in groups[group].get("rows", [""]):
        recipe = recipes.load(f"{group}/{name}" if name else group)
        for paper in recipe.paper or [None]:
            label = paper.row if paper else recipe.name.rpartition("/")[2]
            rows = found.setdefault(paper.table if paper else title, [])
            for precision, mine in _by_precision(records.get(recipe.name, [])).items():
                its = compared.get(recipe.name, {}) if precision == comparison.get("precision", "fp32") else {}
                cells = _cells(paper, mine, its, recipe)
                for cell in cells.values():
                    cell.left_out = bool(compared) and cell.metric == "sacrebleu" and cell.test_set not in its
                named = label if precision == "fp32" else f"{label}, {precision}"
                rows.append(Row(named, recipe.name, cells, paper, mine))
    return found


def _by_precision(records: Sequence[dict]) -> dict[str, list[dict]]:
    """Records in fp32 first; without any record, an empty list of those."""
    names = sorted({record["precision"] for record in records}, key=recipes.PRECISIONS.index) or ["fp32"]
    return {name: [record for record in records if record["precision"] == name] for name in names}


def _cells(
    paper: Optional[recipes.Paper], records: list[dict], p_values: dict[str, float], recipe: Optional[recipes.Recipe]
) -> dict[tuple[str, str], Cell]:
    wanted = [(t, metric) for t, scores in (paper.scores if paper else {}).items() for metric in scores]
    if recipe:
        own = "compound_split" if recipe.score.compound_split else "tokenised"
        wanted += [(t, metric) for t in recipe.generate.subsets.values() for metric in (own, "sacrebleu")]
    cells = {}
    for test_set, metric in wanted:
        theirs = paper.scores.get(test_set, {}).get(metric) if paper else None
        found = [record["scores"][test_set][metric] for record in records if test_set in record["scores"]]
        measured = [score["bleu"] for score in found if score]
        p_value = p_values.get(test_set) if metric == "sacrebleu" else None
        cells[test_set, metric] = Cell(test_set, metric, theirs, measured, p_value)
    return cells


def markdown(title: str, rows: Sequence[Row], baseline: str = "") -> str:
    """A table for people, with what its numbers need to be comparable below it; ``baseline`` explains a star."""
    columns = list(dict.fromkeys(key for row in rows for key in row.cells))
    printed = [key for key in columns if any(row.cells.get(key) and row.cells[key].paper is not None for row in rows)]
    ran = [key for key in columns if any(row.cells.get(key) and row.cells[key].measured for row in rows)]
    name = "{0}, {1}".format
    head = ["system", *(f"paper: {name(t, _NAMES[m])}" for t, m in printed)]
    head += [*(f"measured: {name(t, _NAMES[m])}" for t, m in ran), "seeds", "parameters", "updates"]
    lines = [f"### {title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        theirs = [row.cells[k].paper if k in row.cells else None for k in printed]
        values = [row.label, *("" if bleu is None else f"{bleu:g}" for bleu in theirs)]
        values += [row.cells[k].text() if k in row.cells else "" for k in ran]
        values += [str(len(row.records) or ""), row.numbers("parameters"), row.numbers("updates")]
        lines.append(f"| {' | '.join(values)} |")
    records = [record for row in rows for record in row.records]
    signatures = {s["sacrebleu"]["signature"] for record in records for s in record["scores"].values()}
    lines += [""] + [f"sacreBLEU: `{signature}`" for signature in sorted(signatures)]
    measured = [cell for row in rows for cell in row.cells.values() if cell.measured]
    if baseline and any(cell.differs() for cell in measured):
        lines.append(f"\\* sacreBLEU differs from {baseline}")
    if baseline and any(cell.left_out for cell in measured):
        lines.append("† not compared")
    return "\n".join(lines).rstrip() + "\n"


def comma_separated(group: str, found: dict[str, list[Row]]) -> str:
    """The same for programs, a line a number; without the header, ``COLUMNS``."""
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    for table, rows in found.items():
        for row in rows:
            for cell in row.cells.values():
                mean = f"{statistics.mean(cell.measured):.4f}" if cell.measured else ""
                deviation = f"{statistics.stdev(cell.measured):.4f}" if len(cell.measured) > 1 else ""
                scores = [r["scores"][cell.test_set] for r in row.records if cell.test_set in r["scores"]]
                signature = scores[0]["sacrebleu"]["signature"] if scores and cell.metric == "sacrebleu" else ""
                write(
                    [
                        *(group, table, row.label, row.recipe, cell.test_set, cell.metric, _blank(cell.paper)),
                        *(mean, deviation, len(cell.measured) or "", _blank(cell.p_value), signature),
                        *(row.numbers("parameters"), row.numbers("updates")),
                    ]
                )
    return text.getvalue()


def _blank(value: Optional[float]) -> Any:
    return "" if value is None else value


def _significance(group: str, folder: Path) -> dict[str, Any]:
    """The comparison that was made of a group, if any."""
    path = folder / SIGNIFICANCE / f"{group}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"test_sets": {}}


def _p_values(comparison: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By recipe and test set."""
    found: dict[str, dict[str, float]] = {}
    for test_set, systems in comparison["test_sets"].items():
        for name, values in systems.items():
            found.setdefault(name, {})[test_set] = values["p_value"]
    return found


def compare(
    baseline: recipes.Recipe, systems: Sequence[recipes.Recipe], test: str = "bootstrap", samples: int = 1000
) -> dict[str, Any]:
    """Test whether systems differ from a baseline, on the translations that their runs left.

    Paired bootstrap resampling (Koehn 2004) or approximate randomisation (Riezler and Maxwell 2005), both of sacreBLEU,
    on detokenised text.

    Args:
        baseline: the recipe of a finished run.
        systems: recipes of finished runs on the same test sets, whatever they were trained on.
        test: one of ``TESTS``.
        samples: resamplings, or trials.

    Returns:
        ``baseline``, its ``seed``, ``precision``, ``test``, ``samples``, ``signature``, and by test set and recipe
        ``bleu`` and ``p_value`` (None for the baseline).

    Raises:
        TableError: a run without translations, other test sets or references, several precisions, an unknown test.
    """
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    if test not in TESTS:
        raise TableError(f"--test {test}: must be one of {', '.join(TESTS)}")
    test_sets = list(baseline.generate.subsets.values())
    for system in systems:
        theirs = (system.data.target, system.score.lowercase, *sorted(system.generate.subsets.values()))
        if theirs != (baseline.data.target, baseline.score.lowercase, *sorted(test_sets)):
            raise TableError(f"{system.name}: has other test sets, or another case, than {baseline.name}")
    precisions = {_precision(recipe) for recipe in (baseline, *systems)}
    if len(precisions) > 1:
        raise TableError(f"{baseline.name} and others: were run in several precisions, {', '.join(sorted(precisions))}")
    found: dict[str, dict[str, Any]] = {}
    for test_set in test_sets:
        texts = [_translations(recipe, test_set) for recipe in (baseline, *systems)]
        references = texts[0][1]
        if others := [
            recipe.name for recipe, (_, theirs) in zip(systems, texts[1:], strict=True) if theirs != references
        ]:
            raise TableError(f"{others[0]}: has other references of {test_set} than {baseline.name}")
        metric = BLEU(lowercase=baseline.score.lowercase, trg_lang=baseline.data.target, references=[references])
        named = [(r.name, hyps) for r, (hyps, _) in zip((baseline, *systems), texts, strict=True)]
        done = PairedTest(named, {"BLEU": metric}, None, test_type=TESTS[test], n_samples=samples)
        signatures, scores = done()
        ((key, signature),) = signatures.items()
        found[test_set] = {
            # sacreBLEU counts trials that differ by more than the systems do: of the same translations, none.
            name: {"bleu": result.score, "p_value": 1.0 if i and hyps == named[0][1] else result.p_value}
            for i, ((name, hyps), result) in enumerate(zip(named, scores[key], strict=True))
        }
    return {
        "baseline": baseline.name,
        "seed": baseline.train.flags.get("seed", 1) if baseline.seed is None else baseline.seed,
        "precision": precisions.pop(),
        "test": test,
        "samples": samples,
        "signature": str(signature),
        "test_sets": found,
        "versions": results.versions(),
    }


def _precision(recipe: recipes.Recipe) -> str:
    """That of a run, as its command has it."""
    path = recipes.ROOT / recipes.default_run_dir(recipe) / "train.command"
    words = path.read_text(encoding="utf-8").split() if path.is_file() else []
    return next((name for name in recipes.PRECISIONS if f"--{name}" in words), "fp32")


def _translations(recipe: recipes.Recipe, test_set: str) -> tuple[list[str], list[str]]:
    """Detokenised translations, and references: raw ones where they are."""
    subset = next(subset for subset, name in recipe.generate.subsets.items() if name == test_set)
    path = recipes.ROOT / recipes.default_run_dir(recipe) / "generate" / f"generate-{subset}.txt"
    if not path.is_file():
        raise TableError(f"{path}: not there; scripts/reproduce.sh {recipe.name} makes it")
    hyps, refs = scoring.read_generate_output(path)
    lang = recipe.data.target
    # As the score was taken: raw references where they are, else the tokenised ones beside the data.
    data, name = recipes.ROOT / recipe.data.directory, f"{subset}.{lang}"
    if (data / "raw" / name).is_file():
        plain = scoring.read_lines(data / "raw" / name)
    else:
        tokenised = scoring.read_lines(data / "tok" / name) if (data / "tok" / name).is_file() else refs or []
        plain = scoring.detokenise(tokenised, lang)
    if len(plain) != len(hyps):
        raise TableError(f"{path} has {len(hyps)} sentences, the references in {data} {len(plain)}")
    return scoring.detokenise(hyps, lang), plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer table``."""
    parser.add_argument("group", nargs="*", help="files of recipes, such as ode/wmt14-en-de (default: all)")
    parser.add_argument("--csv", action="store_true", help="for programs, a line a number")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of records (default: results)")
    parser.add_argument("--measured", action="store_true", help="only tables of which something was run")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer table``; the exit status."""
    if args.csv:
        print(",".join(COLUMNS))
    for group in args.group or recipes.groups():
        found = tables(group, args.results)
        if args.measured:
            found = {title: rows for title, rows in found.items() if any(row.records for row in rows)}
        if args.csv:
            print(comma_separated(group, found), end="")
            continue
        compared = _significance(group, args.results)
        baseline = "{baseline} at p < .05 (paired {test}, seed {seed})".format(**compared) if "test" in compared else ""
        for title, rows in found.items():
            print(markdown(title, rows, baseline))
    return 0


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer compare``."""
    parser.add_argument("baseline", help="a recipe that was run")
    parser.add_argument("system", nargs="+", help="recipes that were run on the same data")
    parser.add_argument(
        "--test", choices=TESTS, default="bootstrap", help="paired bootstrap, or approximate randomisation"
    )
    parser.add_argument("--samples", type=int, default=1000, help="resamplings, or trials (default: 1000)")
    parser.add_argument("--output", type=Path, help="a JSON file, such as results/significance/GROUP.json")
    recipes.add_variant(parser)


def compare_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer compare``; the exit status."""
    if args.samples < 1:
        raise TableError(f"--samples {args.samples}: must be 1 or more")
    named = [recipes.load(name, scale=args.scale, seed=args.seed) for name in (args.baseline, *args.system)]
    content = compare(named[0], named[1:], args.test, args.samples)
    for test_set, systems in content["test_sets"].items():
        print(f"{test_set}   {content['signature']}")
        for name, values in systems.items():
            p_value = "baseline" if values["p_value"] is None else f"p = {values['p_value']:.4f}"
            print(f"  {name:<44} {values['bleu']:6.2f}   {p_value}")
    if args.output:
        results.write(args.output, content)
    return 0
