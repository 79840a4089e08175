"""``ode-transformer report``: a self-contained HTML page of all finished runs in a folder.

The page is made from records and, where these are in the folders of their runs, the translations there; it loads
nothing from elsewhere and runs no script.
"""

import base64
import difflib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError, counted
from ...files import write_text
from .. import recipes
from ..metrics import METRICS, Examples, m2
from ..records import curve_points
from ..tasks.correction.corpora import corrected
from . import comparisons, plots, significance, tables
from .comparisons import LEVEL, Compared
from .files import read_records, readable, variant, variant_label

GENERATED = "<!-- written by ode-transformer report, which writes over it -->"
SENTENCES = 8  # of each kind that are shown by default
LINES = 12  # per picture, at most

Record = dict[str, Any]
Records = Mapping[str, Sequence[Record]]  # by recipe


@dataclass
class Table:
    """A table of the page. A cell is a string, or a list of words, each with whether it is marked."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | list[tuple[str, bool]]]]
    note: str = ""  # the text below the table
    text: bool = False  # whether all columns hold text; otherwise all but the first hold numbers


@dataclass
class Part:
    """A section about a group of recipes: title, tables, and pictures, each a caption and an SVG in base 64."""

    title: str
    tables: list[Table]
    pictures: list[tuple[str, str]] = field(default_factory=list)


def page(folder: Path, baseline: Optional[str] = None, sentences: Sequence[int] = ()) -> str:
    """Return the page of all finished runs in a folder; the arguments are those of :func:`write`."""
    from jinja2 import Environment, FileSystemLoader

    found = read_records(folder) if folder.is_dir() else {}
    if not found:
        raise OdeTransformerError(f"{folder}: no record of a finished run is there; rehearsals do not count")
    if baseline is not None and baseline not in found:
        raise OdeTransformerError(f"--baseline {baseline}: must be one of {', '.join(found)}")
    by_group: dict[str, dict[str, list[dict]]] = {}
    for name, its in found.items():
        by_group.setdefault(name.rpartition("/")[0] or name, {})[name] = its
    recorded = comparisons.up_to_date(comparisons.read(folder), found)
    groups: dict[str, tuple[list[Part], list[Record]]] = {}
    for name, by_recipe in by_group.items():
        first = baseline if baseline in by_recipe else _first(by_recipe)
        its = _translated(by_recipe)
        tested = [row for row in recorded if row.baseline in by_recipe]
        parts = [Part("", [_scores(by_recipe)]), _significance(tested, first, its), _curves(by_recipe)]
        parts += _translations(its, sentences)
        runs = [record for records in by_recipe.values() for record in records]
        groups[name] = [part for part in parts if part.tables or part.pictures], runs
    count = f"{counted(sum(map(len, found.values())), 'run')} of {counted(len(found), 'recipe')}"
    title = f"{count} in {folder.resolve().name}, {date.today():%d %B %Y}".replace(" 0", " ")
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"machine": _machine, "counted": counted, "name": _name}
    return environment.get_template("report.html.j2").render(title=title, groups=groups, generated=GENERATED).lstrip()


def _label(recipe: str, variant: tuple[str, ...], *seeds: int) -> str:
    """Return the name of a system on the page, or of its run with a seed."""
    label = variant_label(recipe.rpartition("/")[2], variant)
    return f"{label}, seed {', '.join(map(str, seeds))}" if seeds else label


def _scores(by_recipe: Records) -> Table:
    """Return the table of scores, a row per recipe and variant, with the papers' numbers, and signatures below it."""
    rows, notes = [], ["± is the standard deviation over seeds"]
    test_sets = dict.fromkeys(t for group in by_recipe.values() for record in group for t in record["scores"])
    for name, group in by_recipe.items():
        for kind, mine in tables.by_variant(group).items():
            row = tables.Row(_label(name, kind), name, {}, records=mine)
            for test_set, metric in itertools.product(test_sets, METRICS):
                papers = (paper["scores"].get(test_set, {}).get(metric) for paper in mine[0]["paper"])
                cell = tables.Cell(test_set, metric, mine, next((one for one in papers if one is not None), None))
                if cell.paper is not None or (cell.measured and metric != "transevolve"):  # which few tables have
                    row.cells[test_set, metric] = cell
            rows.append(row)
    rows += tables.source_row(rows)
    notes += [f"{label}: {signature}" for label, signature in tables.signatures(rows)]
    return Table(*tables.printable(rows), "; ".join(notes) + ".")


def _significance(recorded: Sequence[Compared], baseline: str, translated: Sequence[Record]) -> Part:
    """Return the part with all comparisons: recorded ones, and tests on the translations in the folders of runs.

    The latter compare systems of the same variant and seed.
    """
    found, notes = list(recorded), []
    by_kind: dict[tuple, dict[str, Record]] = {}
    for record in translated:
        by_kind.setdefault((*record["seeds"], *variant(record)), {})[record["recipe"]] = record
    for systems in by_kind.values():
        first = systems.pop(baseline, None)
        for record in systems.values() if first else ():
            try:
                found += comparisons.rows(significance.compare(_system(first), [_system(record)]))
            except OdeTransformerError as error:
                notes.append(f"{_name(record)} was not compared: {error}.")
    found = comparisons.adjust({row.key[:-1]: row for row in reversed(found)}.values())[::-1]
    by_run: dict[tuple, dict[tuple[str, str], Compared]] = {}
    for row in found:
        by_run.setdefault((row.system, row.baseline, row.seed, row.precisions), {})[row.test_set, row.metric] = row
    columns = list(dict.fromkeys(column for its in by_run.values() for column in its))
    cells = []
    for (system, first, seed, precisions), its in by_run.items():
        named = [_label(system, precisions[1:]), _label(first, precisions[:1]), str(seed)]
        cells.append([*named, *(_difference(its.get(column)) for column in columns)])
    head = ["system", "compared with", "seed"]
    head += [f"{test_set}, {METRICS[metric].label}" for test_set, metric in columns]
    if found:
        how = "; ".join(dict.fromkeys(f"{row.how}, {counted(row.samples, 'sample')}, {row.signature}" for row in found))
        notes.insert(
            0,
            "Differences, their 95 percent intervals where they are known, and p; a star where p, adjusted for the "
            f"number of comparisons in this table by one metric, is below {LEVEL:g}. {how}.",
        )
    return Part("Significance", [Table(head, cells, " ".join(notes))] if notes else [])


def _difference(row: Optional[Compared]) -> str:
    if row is None:
        return ""
    p = "" if row.p_value is None else f", p = {row.p_value:.3f}{' *' if row.differs() else ''}"
    return row.difference + p


def _first(by_recipe: Records) -> str:
    """Return the default baseline: the first row of the group's file that is called a Transformer, else the first."""
    group = next(iter(by_recipe)).rpartition("/")[0]
    rows = recipes.group(group).get("rows", ()) if group in recipes.groups() else ()
    names = [*(name for name in (f"{group}/{row}" for row in rows) if name in by_recipe), *by_recipe]
    return next((name for name in names if name.rpartition("/")[2].startswith("transformer")), names[0])


def _curves(by_recipe: Records) -> Part:
    """Draw each kind of curve, with a line per recipe, of its first run, and at most ``LINES`` lines per picture."""
    firsts = {_name(its[0]): its[0]["training"] for its in by_recipe.values()}
    drawings = []
    for key, label in plots.CURVES.items():
        drawn = [(name, points) for name, training in firsts.items() if (points := curve_points(training, key))]
        for start in range(0, len(drawn), LINES):
            picture = plots.curve_picture(dict(drawn[start : start + LINES]), label)
            drawings.append((f"{label} against updates", base64.b64encode(picture).decode()))
    return Part("Training", [], drawings)


def _translated(by_recipe: Records) -> list[Record]:
    """Return the records that are in the folder of their run, with its translations."""
    found = [record for its in by_recipe.values() for record in its if record["path"].name == "record.json"]
    return [record for record in found if any(record["path"].parent.glob("generate/generate-*.txt"))]


def _system(record: Record) -> significance.System:
    """Return the run of a record, named by its recipe."""
    return significance.of_folder(str(record["path"].parent))._replace(given="")


def _name(record: Record) -> str:
    return _label(record["recipe"], variant(record), *record["seeds"])


def _translations(translated: Sequence[Record], sentences: Sequence[int]) -> Iterator[Part]:
    """Yield, for each test set, sentences with the outputs of all systems, of the first seed each.

    The sentences are the given ones, or those on which the outputs differ most, and others. Translations are
    detokenized.
    """
    firsts = {(record["recipe"], variant(record)): record for record in reversed(translated)}
    where = " of the translations"
    systems = [(_name(record), its) for record, its in readable([*firsts.values()][::-1], _system, where)]
    for test_set in dict.fromkeys(name for _, one in systems for name in one.recipe.subsets.values()):
        there = [one for one in systems if test_set in one[1].recipe.subsets.values()]

        def outputs_of(one: Any, name: str = test_set) -> tuple:
            lines, its = one[1].read(name)
            return lines, its, _right(its)

        read = [(label, *its) for (label, _), its in readable(there, outputs_of, where)]
        if not read or not (right := read[0][3]):
            continue
        examples = read[0][2]
        outputs = {label: lines for label, lines, _, its in read if its == right}
        references = [line.split() for line in right]
        words = {label: [line.split() for line in lines] for label, lines in outputs.items()}
        chosen = [i for i in sentences if i < len(references)] if sentences else _chosen(references, words, SENTENCES)
        note = "Words that the reference does not have in that place are marked."
        if not sentences:
            note = f"First the sentences on which the systems differ most, then others at equal distances. {note}"
        shown = [Table([f"{test_set}, {counted(len(chosen), 'sentence')}"], [], note)]
        for i in chosen:
            rows = [["source", examples.sources[i]]] if examples.sources else []
            rows.append(["reference", right[i]])
            rows += [[label, marked(its[i], references[i])] for label, its in words.items()]
            shown.append(Table([f"sentence {i}", ""], rows, text=True))
        yield Part(f"Translations: {test_set}", shown)


def _right(examples: Examples) -> Sequence[str]:
    """Return the first reference of each example; of human edits, the correction of the first annotator."""
    if examples.edits and Path(examples.edits).is_file():
        return [corrected(sentence)[0] for sentence in m2.read(Path(examples.edits))]
    return next(iter(examples.references), [])


def _chosen(references: list[list[str]], by_system: dict[str, list[list[str]]], each: int) -> list[int]:
    """Return the sentences with the largest range between systems of the words that are right, then some others."""

    def right(words: list[str], reference: list[str]) -> float:
        return (Counter(words) & Counter(reference)).total() / max(len(words), len(reference), 1)

    spread = {}
    for i, reference in enumerate(references):
        values = [right(words[i], reference) for words in by_system.values()]
        spread[i] = max(values) - min(values)
    most = sorted((i for i in spread if spread[i] > 0), key=lambda i: -spread[i])[:each]
    others = range(0, len(references), max(len(references) // each, 1))
    return [*most, *(i for i in others if i not in most)][: 2 * each]


def marked(words: list[str], reference: list[str]) -> list[tuple[str, bool]]:
    """Return the words of a translation, each with whether it is marked: it does not match the reference."""
    blocks = difflib.SequenceMatcher(None, words, reference, autojunk=False).get_matching_blocks()
    kept = {i for block in blocks for i in range(block.a, block.a + block.size)}
    return [(word, i not in kept) for i, word in enumerate(words)]


def _machine(hardware: dict[str, Any]) -> str:
    """Return a description of the hardware that a run was trained on."""
    gpus = Counter(hardware.get("gpus") or [])
    found = [f"{n} x {name}" for name, n in gpus.items()]
    return ", ".join([*found, f"{hardware.get('cores')} cores of {hardware.get('processor')}"])


def write(
    directory: Path, output: Optional[Path] = None, baseline: Optional[str] = None, sentences: Sequence[int] = ()
) -> None:
    """Write the page of all finished runs below a folder.

    Args:
        directory: a folder with finished runs or records, such as runs or results.
        output: the HTML file (default: DIR/report.html).
        baseline: the recipe that others of its group are tested against (default: the group's first Transformer, else
            its first row).
        sentences: show these sentences of each test set, counted from 0, with the translation of every run that DIR
            holds (default: those whose translations differ most, and some others).
    """
    output = output or directory / "report.html"
    if output.suffix == ".md":
        raise OdeTransformerError(f"--output {output}: a report is HTML; `table` and `compare` print Markdown")
    if output.exists() and GENERATED not in output.read_text(encoding="utf-8", errors="replace")[:200]:
        raise OdeTransformerError(f"--output {output}: was not written by ode-transformer report; must be another file")
    write_text(output, page(directory, baseline, sentences))
    print(output)
