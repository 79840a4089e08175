"""``ode-transformer report``: one self-contained HTML page of all finished runs below a folder.

The page has, for each group of recipes: a table of scores with means and deviations over seeds, the scores of
classifiers by class, tests of significance, training curves, translations side by side, and what was run where and by
which command. It is made from the records (:mod:`.records`) and from the translations that runs leave beside theirs; it
loads nothing from elsewhere and runs no script.
"""

import argparse
import base64
import difflib
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ...errors import OdeTransformerError
from ...files import write_text
from .. import recipes, runs
from ..arguments import at_least
from ..fairseq_output import read_generate_output
from ..metrics import METRICS
from ..runs.records import check_scores, curve_points, read_record
from . import plots, significance, tables

GENERATED = "<!-- written by ode-transformer report, which writes over it -->"
CURVES = {
    "valid_ppl": "validation perplexity",
    "train_ppl": "training perplexity",
    "valid_accuracy": "validation accuracy",
    "train_gnorm": "gradient norm",
}
LOGARITHMIC = ("valid_ppl", "train_ppl", "train_gnorm")
OWN_KIND = "transevolve"  # a metric that is shown only where the paper prints it
LINES = 12  # of a picture at most

STYLE = """
:root { color-scheme: light dark; --line: #c9d1d9; --soft: #57606a; --mark: #ffe08a; --head: #f3f5f7; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #9aa4af; --mark: #6b5200; --head: #1c2128; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 76rem; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
.scroll { overflow-x: auto; margin-bottom: .75rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top; }
th { background: var(--head); }
td.number { text-align: right; white-space: nowrap; }
.soft { color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
mark { background: var(--mark); color: inherit; }
img { max-width: 100%; height: auto; background: #fff; }
figure { display: inline-block; margin: 0 1rem 1rem 0; width: min(100%, 24rem); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--line); padding: .5rem; }
code { overflow-wrap: anywhere; }
"""


class Translated(NamedTuple):
    """A run that left translations: its recipe, variant (see :func:`.tables.variant`), seed and folder."""

    recipe: str
    variant: tuple[str, ...]
    seed: int
    folder: Path

    def system(self) -> significance.System:
        """The run as it is compared; a recipe in a file of the user's is found where ``run.json`` says."""
        run = runs.read(self.folder)
        return significance.System(recipes.load(run["given"] if run else self.recipe, seed=self.seed), self.folder)


def page(folder: Path, baseline: Optional[str] = None, sentences: Sequence[int] = ()) -> str:
    """The page of all finished runs below a folder.

    Args:
        folder: with records of runs: ``runs``, a part of it, or ``results``.
        baseline: the recipe that the others of its group are tested against; by default the group's first Transformer,
            or its first recipe.
        sentences: the numbers of those that are shown of each test set; by default those that differ most, and others.

    Raises:
        OdeTransformerError: there is no record of a finished run, or none of the baseline.
    """
    found = tables.read_records(folder) if folder.is_dir() else {}
    if not found:
        raise OdeTransformerError(f"{folder}: no record of a finished run is there")
    if baseline is not None and baseline not in found:
        raise OdeTransformerError(f"--baseline {baseline}: must be one of {', '.join(found)}")
    groups: dict[str, dict[str, list[dict]]] = {}
    for name, its in found.items():
        groups.setdefault(name.rpartition("/")[0] or name, {})[name] = its
    translated = _translated(folder)
    body = [f"<h1>{_count(sum(map(len, found.values())), 'run')} of {_count(len(found), 'recipe')}</h1>"]
    links = [f'<li><a href="#{_anchor(group)}">{escape(group)}</a></li>' for group in groups]
    body += ["<nav><ul>", *links, "</ul></nav>"]
    for group, by_recipe in groups.items():
        body += [f'<h2 id="{_anchor(group)}">{escape(group)}</h2>', _scores(by_recipe)]
        first = baseline if baseline in by_recipe else _first(by_recipe)
        its = [run for run in translated if run.recipe in by_recipe]
        body += [*_classes(by_recipe), *_recorded(folder, by_recipe, found), *_compared(first, its)]
        body += [*_curves(by_recipe), *_translations(its, sentences)]
        body += ["<h3>Runs</h3>", *(_run(record) for records in by_recipe.values() for record in records)]
    head = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">'
    return (
        f'<!DOCTYPE html>\n{GENERATED}\n<html lang="en">\n<head>\n{head}\n'
        f"<title>Runs of {escape(folder.name)}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _anchor(group: str) -> str:
    return "group-" + "".join(c if c.isalnum() else "-" for c in group)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """A table of cells that are HTML already; all columns but the first hold numbers, or text."""
    kind = ' class="number"' if numbers else ""
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    for first, *rest in rows:
        lines.append(f"<tr><td>{first}</td>" + "".join(f"<td{kind}>{cell}</td>" for cell in rest) + "</tr>")
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _scores(by_recipe: dict[str, list[dict]]) -> str:
    """A row per recipe and precision, a column per test set and metric, below it the signatures."""
    records = [record for group in by_recipe.values() for record in group]
    papers = [paper for record in records for paper in record["paper"]]
    printed = {metric for paper in papers for scores in paper["scores"].values() for metric in scores}
    columns = [
        (test_set, metric)
        for test_set in dict.fromkeys(test_set for record in records for test_set in record["scores"])
        for metric in METRICS.values()
        if (metric.name != OWN_KIND or OWN_KIND in printed) and metric.values(records, test_set)
    ]
    rows = []
    for name, group in by_recipe.items():
        for variant, mine in tables.by_variant(group).items():
            label = escape(tables.variant_label(name.rpartition("/")[2], variant))
            cells = [_cell(mine, test_set, metric.name) for test_set, metric in columns]
            row = tables.Row("", name, {}, records=mine)
            sizes = [str(len(mine)), row.numbers("parameters"), row.numbers("updates")]
            rows.append([label, *cells, *sizes])
    label, scores = tables.of_source(records)
    if label:
        cells = [_cell([{"scores": scores, "paper": []}], test_set, metric.name) for test_set, metric in columns]
        rows.append([escape(label), *cells, "", "", ""])
    head = ["system", *(f"{escape(test_set)}<br>{escape(metric.label)}" for test_set, metric in columns)]
    signed = {(metric.label, text) for test_set, metric in columns for text in metric.signatures(records, test_set)}
    notes = [f"{escape(label)}: <code>{escape(text)}</code>" for label, text in sorted(signed)]
    note = '<p class="soft">± is the standard deviation over seeds. ' + "; ".join(notes) + "</p>"
    return _table([*head, "seeds", "parameters", "updates"], rows) + note


def _cell(records: Sequence[dict], test_set: str, metric: str) -> str:
    """Mean and deviation of a metric over seeds, and the paper's value below it."""
    text = tables.mean(METRICS[metric].values(records, test_set), len(records))
    papers = {paper["scores"].get(test_set, {}).get(metric) for paper in records[0]["paper"]} - {None}
    return text + "".join(f'<br><span class="soft">paper {value:g}</span>' for value in sorted(papers))


def _classes(by_recipe: dict[str, list[dict]]) -> list[str]:
    """Of each classifier and test set the scores by class, and the confusion matrix."""
    found = []
    for name, records in by_recipe.items():
        for record in records:
            system = tables.variant_label(name.rpartition("/")[2], tables.variant(record))
            seeds = ", ".join(map(str, record["seeds"]))
            for test_set, scores in record["scores"].items():
                accuracy = scores.get("accuracy") or {}
                if "report" in accuracy:
                    summary = escape(f"{system}, seed {seeds}: {test_set}")
                    found.append(f"<details><summary>{summary}</summary>{_by_class(accuracy)}</details>")
    return ["<h3>Classes</h3>", *found] if found else []


def _by_class(accuracy: dict[str, Any]) -> str:
    """What :func:`.accuracy.take` returned, as two tables."""
    rows = [
        [escape(name), *(f"{its[key]:.2f}" for key in ("precision", "recall", "f1")), f"{its['examples']:,}"]
        for name, its in accuracy["report"].items()
    ]
    classes = [escape(name) for name in accuracy["classes"]]
    counts = [[f"{count:,}" for count in row] for row in accuracy["confusion"]]
    matrix = [[name, *row] for name, row in zip(classes, counts, strict=True)]
    return _table(["class", "precision", "recall", "F1", "examples"], rows) + _table(
        ["class", *(f"taken for {name}" for name in classes)], matrix
    )


def _recorded(folder: Path, by_recipe: dict[str, list[dict]], all_: dict[str, list[dict]]) -> list[str]:
    """Comparisons that ``ode-transformer compare`` wrote below the folder, of systems of this group."""
    found = []
    files = sorted((folder / tables.SIGNIFICANCE).rglob("*.json"))
    for _, comparison in tables.readable(files, tables.read_comparison):
        comparison = _current(comparison, all_)
        if comparison["baseline"] in by_recipe and comparison["test_sets"]:
            found.append(_comparison(comparison))
    return ["<h3>Significance</h3>", *found] if found else []


def _current(comparison: dict[str, Any], by_recipe: dict[str, list[dict]]) -> dict[str, Any]:
    """A comparison without the systems that were trained anew since, and without test sets that are then left alone."""
    metric = METRICS[comparison["metric"]]

    def of_today(name: str, test_set: str, values: dict[str, Any]) -> bool:
        measured = metric.values(by_recipe.get(name, []), test_set)
        return tables.Compared(values[metric.key], None, None).among(measured)

    test_sets = {
        test_set: {name: values for name, values in systems.items() if of_today(name, test_set, values)}
        for test_set, systems in comparison["test_sets"].items()
    }
    kept = {name: its for name, its in test_sets.items() if comparison["baseline"] in its and len(its) > 1}
    names = {name for its in kept.values() for name in its}
    return {
        **comparison,
        "test_sets": kept,
        "precisions": {name: precision for name, precision in comparison["precisions"].items() if name in names},
    }


def _compared(baseline: str, translated: Sequence[Translated]) -> list[str]:
    """Comparisons of the translations that lie beside the records, of equal variants and seed by seed."""
    found = []
    for variant, seed in sorted({(run.variant, run.seed) for run in translated}, key=str):
        systems = {run.recipe: run for run in translated if (run.variant, run.seed) == (variant, seed)}
        if baseline not in systems or len(systems) < 2:
            continue
        which, fit = tables.variant_label(f"Seed {seed}", variant), []
        for name in (baseline, *(name for name in systems if name != baseline)):
            try:
                one = systems[name].system()
                if fit and not significance.comparable(fit[0], one):
                    raise OdeTransformerError("has other test sets or another metric than the baseline")
                check_scores(one.recipe, one.folder)
                fit.append(one)
            except OdeTransformerError as error:
                found.append(_left_out(f"{which}, {name}", error))
                if name == baseline:
                    break
        try:
            found += [_comparison(significance.compare(fit[0], fit[1:]))] if len(fit) > 1 else []
        except OdeTransformerError as error:
            found.append(_left_out(which, error))
    return ["<h3>Significance of these translations</h3>", *found] if found else []


def _left_out(what: str, error: OdeTransformerError) -> str:
    return f'<p class="soft">{escape(what)} was not compared: {escape(str(error))}</p>'


def _comparison(comparison: dict[str, Any]) -> str:
    test_sets, metric = comparison["test_sets"], METRICS[comparison["metric"]]
    systems = list(dict.fromkeys(name for found in test_sets.values() for name in found))
    tested = [found.get(name) for name in systems for found in test_sets.values()]
    p_values = [significance.two_sided(comparison, values and values["p_value"]) for values in tested]
    rows, together = [], zip(tested, p_values, significance.adjusted(p_values), strict=True)
    for name in systems:
        cells = []
        for values, p_value, adjusted in itertools.islice(together, len(test_sets)):
            text = "" if values is None else f"{values[metric.key]:.2f}"
            text += f", p = {p_value:.3f}{' *' if adjusted < significance.LEVEL else ''}" if p_value is not None else ""
            cells.append(text)
        rows.append([escape(name.rpartition("/")[2]), *cells])
    note = (
        "{label}, and p of the difference from {baseline}, seed {seed}; a star where p, adjusted for the number of "
        "comparisons in this table, is below {level:g}. Test: {named}, {samples:,} samples, {kind}, signature "
        "{signature}"
    ).format(
        **comparison,
        label=metric.label,
        level=significance.LEVEL,
        named=significance.TESTS[comparison["test"]],
        kind=significance.kind_of_p(comparison),
    )
    if differ := significance.precisions(comparison):
        note += f"; {differ}"
    return _table(["system", *map(escape, test_sets)], rows) + f'<p class="soft">{escape(note)}</p>'


def _first(by_recipe: dict[str, list[dict]]) -> str:
    """The baseline if nobody names one: fairseq's own Transformer where it is among them."""
    return next(
        (name for name in by_recipe if name.rpartition("/")[2].startswith("transformer")), next(iter(by_recipe))
    )


def _curves(by_recipe: dict[str, list[dict]]) -> Iterator[str]:
    """A picture per kind of curve, with a line per recipe: its first seed."""
    lines = {
        key: {name.rpartition("/")[2]: curve_points(group[0]["training"], key) for name, group in by_recipe.items()}
        for key in CURVES
    }
    if not any(points for by_name in lines.values() for points in by_name.values()):
        return
    pyplot = plots.without_display()
    yield "<h3>Training</h3>"
    for key, by_name in lines.items():
        drawn = [(name, points) for name, points in by_name.items() if points]
        for start in range(0, len(drawn), LINES):
            figure, axis = pyplot.subplots(figsize=(6.4, 4.6), layout="constrained")
            plots.draw_curves(axis, dict(drawn[start : start + LINES]), CURVES[key], key in LOGARITHMIC)
            axis.legend(fontsize=8)
            file = io.BytesIO()
            with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}):  # small, and the same each time
                figure.savefig(file, format="svg", metadata={"Date": None})
            pyplot.close(figure)
            data = base64.b64encode(file.getvalue()).decode()
            caption = escape(f"{CURVES[key]} against updates")
            yield f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{caption}"></figure>'


def _translated(folder: Path) -> list[Translated]:
    """Runs that left translations beside their records: the first of each recipe, variant and seed."""
    found: dict[tuple, Translated] = {}
    for path in tables.json_files(folder, "record.json"):
        try:
            record = read_record(path)
        except OdeTransformerError:  # it was named when the records were read
            continue
        if record["scale"] == "full" and any((path.parent / "generate").glob("generate-*.txt")):
            run = Translated(record["recipe"], tables.variant(record), record["seeds"][0], path.parent)
            found.setdefault(run[:-1], run)
    return list(found.values())


def _translations(translated: Sequence[Translated], sentences: Sequence[int], each: int = 8) -> Iterator[str]:
    """Sentences of every test set with all systems' outputs: the given ones, or those that differ most and others."""
    systems: dict[str, Path] = {}
    for run in translated:
        systems.setdefault(tables.variant_label(run.recipe.rpartition("/")[2], run.variant), run.folder)
    subsets = dict.fromkeys(
        path.name for run_dir in systems.values() for path in sorted(run_dir.glob("generate/*.txt"))
    )
    for subset in subsets:
        sources, references, by_system = [], None, {}
        files = {run_dir / "generate" / subset: name for name, run_dir in systems.items()}
        there = [path for path in files if path.is_file()]
        for path, (hypotheses, its, found) in tables.readable(there, read_generate_output):
            if its and references in (None, its):
                sources, references = found or [""] * len(its), its
                by_system[files[path]] = [line.split() for line in hypotheses]
        if not references:
            continue
        chosen = [i for i in sentences if i < len(references)]
        how = ""
        if not sentences:
            chosen = _chosen([line.split() for line in references], by_system, each)
            how = (
                "First the sentences on which the systems differ most in their words (a single system: from the "
                "reference), then others at equal distances. "
            )
        yield f"<h3>Translations: {escape(subset.removeprefix('generate-').removesuffix('.txt'))}</h3>"
        yield (f'<p class="soft">{how}Words that the reference does not have in that place are marked.</p>')
        for i in chosen:
            reference = references[i].split()
            rows = [["source", escape(sources[i])], ["reference", escape(references[i])]]
            rows += [[escape(name), _marked(words[i], reference)] for name, words in by_system.items()]
            yield _table([f"sentence {i}", ""], rows, numbers=False)


def _chosen(references: list[list[str]], by_system: dict[str, list[list[str]]], each: int) -> list[int]:
    """Indices of the sentences with the largest spread of unigram F1 between systems, then of some others.

    Of a single system, those that are farthest from the reference.
    """

    def f1(words: list[str], reference: list[str]) -> float:
        return 2 * sum((Counter(words) & Counter(reference)).values()) / max(len(words) + len(reference), 1)

    spread = []
    for i, reference in enumerate(references):
        values = [f1(words[i], reference) for words in by_system.values()]
        spread.append((max(values) if len(values) > 1 else 1.0) - min(values))
    most = sorted((i for i in range(len(spread)) if spread[i] > 0), key=lambda i: -spread[i])[:each]
    others = range(0, len(references), max(len(references) // each, 1))
    return [*most, *(i for i in others if i not in most)][: 2 * each]


def _marked(words: list[str], reference: list[str]) -> str:
    """A translation as HTML, with the words marked that do not match the reference."""
    kept: set[int] = set()
    for block in difflib.SequenceMatcher(None, words, reference, autojunk=False).get_matching_blocks():
        kept.update(range(block.a, block.a + block.size))
    return " ".join(escape(word) if i in kept else f"<mark>{escape(word)}</mark>" for i, word in enumerate(words))


def _run(record: dict[str, Any]) -> str:
    """What was run, where, with which versions and by which commands."""
    seeds, training = ", ".join(map(str, record["seeds"])), record["training"]
    places = [_machine(place["hardware"]) for place in training.get("trained_on") or [record]]
    where = f"{'; '.join(places)}; {record['precision']}, {_count(record['devices'], 'device')}"
    rows = [
        ["description", escape(record["description"])],
        ["trained on", escape(where)],
        ["time of training", f"{training['seconds'] / 60:,.0f} minutes"],
        ["averaged", escape(", ".join(map(str, record["averaged"])))],
        ["versions", escape(", ".join(f"{name} {version}" for name, version in record["versions"].items()))],
    ]
    commands = [record["command"], *(step["command"] for step in record.get("commands", []))]
    shown = "\n".join(map(escape, commands))
    return (
        f"<details><summary>{escape(record['recipe'])}, seed {escape(seeds)}</summary>"
        f"{_table(['', ''], rows, numbers=False)}<pre>{shown}</pre></details>"
    )


def _machine(hardware: dict[str, Any]) -> str:
    gpus = Counter(hardware.get("gpus") or [])
    found = [f"{n} x {name}" for name, n in gpus.items()]
    return ", ".join([*found, f"{hardware.get('cores')} cores of {hardware.get('processor')}"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer report``."""
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="a folder with finished runs or records, such as runs or results"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the HTML file to write (default: DIRECTORY/report.html)"
    )
    parser.add_argument(
        "--baseline",
        metavar="RECIPE",
        help="what the other systems of its group are tested against (default: the group's first Transformer)",
    )
    parser.add_argument(
        "--sentences",
        nargs="+",
        type=at_least(0),
        default=[],
        metavar="N",
        help="the numbers, from 0, of the sentences that are shown of each test set with every system's translation, "
        "summary or correction (default: those that differ most, and others)",
    )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer report``; the exit status."""
    output = args.output or args.directory / "report.html"
    if output.exists() and GENERATED not in output.read_text(encoding="utf-8", errors="replace")[:200]:
        raise OdeTransformerError(f"--output {output}: was not written by ode-transformer report; must be another file")
    write_text(output, page(args.directory, args.baseline, args.sentences))
    print(output)
    return 0
