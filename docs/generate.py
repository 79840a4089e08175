"""What the documentation takes from the code and from the records: run by ``make docs`` and by ``make tables``.

``reference`` writes the pages on architectures, options, the command line and the Python API from the code, and the
report on all records, each time the documentation is built; they are not kept in git. ``fill`` writes tables of results
from the records into README.md and the pages, between markers; these are kept, so that a forge shows them, and a test
compares them with the records.
"""

import argparse
import base64
import functools
import itertools
import math
import os
import pkgutil
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from ode_transformer.experiments import recipes
from ode_transformer.experiments.metrics import METRICS
from ode_transformer.experiments.results import comparisons, tables
from ode_transformer.experiments.results.files import read_records, variant, variant_label
from ode_transformer.experiments.tasks import TASKS
from ode_transformer.files import read_json, write_text
from ode_transformer.markdown import table

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

# Pages written from the code.


def reference(folder: Path) -> None:
    """Write the pages that are made from the code into a folder, and the report on the records below ``extra``."""
    from ode_transformer.experiments.results import report

    write_text(folder / "extra" / "report.html", report.page(ROOT / "results"))  # before fairseq lets all loggers speak
    text, pictures = notebook()
    for name, picture in pictures.items():
        (folder / name).write_bytes(picture)
    pages = {
        "notebook": text,
        "architectures": architectures(),
        "options": options(),
        "rows": rows(),
        "runs": RUNS,
        "command-line": command_line(),
        "api": api(),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # Sphinx reads again what is newer
            write_text(path, text)


def notebook() -> tuple[str, dict[str, bytes]]:
    """Return the page of the notebook, with the outputs that it is kept with, and its pictures by file."""
    lines, pictures = [], {}
    for number, cell in enumerate(read_json(DOCS / "notebook.ipynb")["cells"]):
        source = "".join(cell["source"])
        lines.append(f"```python\n{source}\n```\n" if cell["cell_type"] == "code" else f"{source}\n")
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                pictures[f"notebook-{number}.png"] = base64.b64decode(output["data"]["image/png"])
                lines.append(f"![What the cell draws](notebook-{number}.png)\n")
            else:
                said = "".join(output.get("text") or output["data"]["text/plain"])
                lines.append(f"```text\n{said.rstrip()}\n```\n")
    return "\n".join(lines), pictures


def architectures() -> str:
    """The page on architectures: every name with its sizes, layers, dropout and other options."""
    from ode_transformer import models  # noqa: F401  registers them
    from ode_transformer.config import PRESETS, resolve

    by_model: dict[str, list[str]] = {}
    for name, (model, _, _) in PRESETS.items():
        by_model.setdefault(model, []).append(name)
    lines = [
        "# Architectures",
        "",
        "This page is generated from the tables of architectures in the code. Every name is a value of `--arch`; every "
        "option of an architecture can be changed by its flag. *Other options* lists the options in which the "
        "architecture differs from the defaults of its model, sizes and dropout apart. An encoder of *3 x 2* layers "
        "has two blocks of depth 3.",
    ]
    for model, names in by_model.items():
        rows = []
        for name in names:
            _, config_class, preset = PRESETS[name]
            values, default = resolve(preset, config_class), config_class()
            others = [
                f"`{k}={values[k]}`"
                for k in values
                if k in preset
                and values[k] != getattr(default, k, None)
                and not re.search("embed_dim|heads|_layers|dropout|^evolution_(blocks|depth)", k)
            ]
            sides = ["encoder"] * (model != "ode_transformer_lm") + ["decoder"] * (
                not model.endswith(("_encoder", "_masked_lm"))
            )
            size, dropout = _sizes(values, sides[0]), f"{values['dropout']:g}"
            rows.append((f"`{name}`", size, _layers(values, sides), dropout, ", ".join(others)))
        lines += ["", f"## Model `{model}`", ""]
        lines.append(table(("architecture", "d / heads / FFN", "layers", "dropout", "other options"), rows))
    return "\n".join(lines) + "\n"


def _sizes(values: dict[str, Any], side: str) -> str:
    return " / ".join(str(values[f"{side}_{k}"]) for k in ("embed_dim", "attention_heads", "ffn_embed_dim"))


def _layers(values: dict[str, Any], sides: Sequence[str]) -> str:
    if "evolution_depth" in values:
        return " + ".join([f"{values['evolution_depth']} x {values['evolution_blocks']}"] * len(sides))
    return " + ".join(str(values[f"{side}_layers"]) for side in sides)


def options() -> str:
    """The page on the options of our models, from the dataclasses that define them."""
    from enum import Enum

    from ode_transformer import models  # noqa: F401
    from ode_transformer.config import FlatTransformerConfig, flag
    from ode_transformer.models.classification import EncoderClassifierConfig
    from ode_transformer.models.floater import FloaterConfig
    from ode_transformer.models.language_model import LanguageModelConfig
    from ode_transformer.models.macaron import MacaronConfig
    from ode_transformer.models.masked_lm import MaskedLanguageModelConfig
    from ode_transformer.models.ode import OdeConfig
    from ode_transformer.models.transevolve import TransEvolveClassifierConfig, TransEvolveConfig
    from ode_transformer.models.transformer import SplitTransformerConfig

    def rows(config: type, base: type) -> list[tuple[str, ...]]:
        """The options that a configuration adds to another, or gives another default."""
        before = {f.name: f for f in fields(base)}
        found = []
        for f in fields(config):
            if f.name in ("_name", "arch") or (f.name in before and f.default == before[f.name].default):
                continue
            choices = ""
            if isinstance(f.type, type) and issubclass(f.type, Enum):
                choices = ", ".join(f"`{choice.value}`" for choice in f.type)
            if f.type is bool:
                choices = f"off: `{flag(f.name, False)}`"
            meaning = (f.metadata.get(key, "") for key in ("help", "source"))
            found.append((f"`{flag(f.name)}`", choices, f"`{f.default}`", *meaning))
        return found

    head = ("option", "values", "default", "meaning", "from")
    parts = [
        ("All families", rows(FlatTransformerConfig, FlatTransformerConfig.__base__)),
        ("All families but TransEvolve", rows(SplitTransformerConfig, FlatTransformerConfig)),
        ("TransEvolve", rows(TransEvolveConfig, FlatTransformerConfig)),
        ("TransEvolve for classification, in addition", rows(TransEvolveClassifierConfig, TransEvolveConfig)),
        ("Classification: other defaults, and what is new", rows(EncoderClassifierConfig, SplitTransformerConfig)),
        ("Language models: other defaults, and what is new", rows(LanguageModelConfig, SplitTransformerConfig)),
        ("Masked language models: other defaults, and more", rows(MaskedLanguageModelConfig, SplitTransformerConfig)),
        ("Macaron Net: other defaults", rows(MacaronConfig, SplitTransformerConfig)),
        ("ODE Transformer: other defaults", rows(OdeConfig, SplitTransformerConfig)),
        ("FLOATER: other defaults", rows(FloaterConfig, SplitTransformerConfig)),
    ]
    lines = [
        "# Options of the models",
        "",
        "This page is generated from the dataclasses that define the options. The models also take nearly every flag "
        "of fairseq's Transformer, such as `--encoder-layers` or `--share-all-embeddings`, and every switch has a twin "
        "that turns it off. [How the parts combine](../combining.md) explains what goes together, and what is refused.",
    ]
    for title, found in parts:
        lines += ["", f"## {title}", "", table(head, found)]
    return "\n".join(lines) + "\n"


def rows() -> str:
    """The page on the rows of the papers: every table with the recipe of each row and what the paper prints."""
    by_table: dict[str, list[tuple[str, str, str]]] = {}
    for name in recipes.names():
        for paper in recipes.load(name).paper:
            printed = [
                f"{value:g} {METRICS[metric].label} on {test_set}"
                for test_set, by_metric in paper.scores.items()
                for metric, value in by_metric.items()
            ]
            by_table.setdefault(paper.table, []).append((f"`{name}`", paper.row, ", ".join(printed)))
    lines = [
        "# Rows of the papers",
        "",
        "This page is generated from the recipes: the rows of papers that `ode-transformer run RECIPE` makes. Those "
        "that end in `-released` are the same rows in the form of the released code.",
    ]
    for title, found in by_table.items():
        lines += ["", f"## {title}", "", table(("recipe", "row", "printed"), found)]
    return "\n".join(lines) + "\n"


RUNS = """# All runs

The [results](../results.md) with curves, tests of significance, hardware, versions and the commands of every run are on
<a href="../report.html">one page of their own</a>, which `ode-transformer report results` writes.
"""
"""The page that leads to the report on all records."""


def command_line() -> str:
    """The page on the command line: the help of every command."""
    from ode_transformer.experiments import cli

    lines = [
        "# Command line",
        "",
        "This page is generated from the commands' own help. `python -m ode_transformer` is the same as "
        "`ode-transformer`. The shell scripts print their help with `--help`.",
    ]
    os.environ["COLUMNS"] = "100"  # of argparse, whatever the terminal
    for name in cli.COMMANDS:
        (command,) = (its for its in _parsers(cli.parser(name)) if its.prog == f"ode-transformer {name}")
        for its in _parsers(command):
            lines += ["", f"{'#' * len(its.prog.split())} {its.prog}", "", "```text", its.format_help().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, and those of its sub-commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for its in action.choices.values():
                yield from _parsers(its)


def api() -> str:
    """The page on the Python API: every module that a program would import, from its docstrings."""
    from ode_transformer import models, modules, numerics

    lines = [
        "# Python API",
        "",
        "This page is generated from the docstrings. Shapes: T or S positions, B sentences, C channels. "
        "`ode_transformer.numerics` is plain PyTorch and does not import fairseq.",
    ]
    names = ["checkpoints", "checkpoints.standalone", "checkpoints.warm_start", "training.criterion", "training.optim"]
    names += ["config", "errors", "files"]
    inner = [f"{p.__name__}.{m.name}" for p in (numerics, modules, models) for m in pkgutil.iter_modules(p.__path__)]
    serving = "ode_transformer.experiments.serving"
    translating = ["ode_transformer", f"{serving}.translator", f"{serving}.backend"]
    for name in [*translating, *inner, *(f"ode_transformer.{name}" for name in names)]:
        lines += ["", f"## `{name}`", "", "```{eval-rst}", f".. automodule:: {name}", "```"]
    return "\n".join(lines) + "\n"


# Tables written from the records.


def scores(*words: str) -> str:
    """Groups of translation recipes: sacreBLEU on the test sets of each, mean over seeds, and endless translations.

    Args:
        words: the groups, and the precisions of the trainings that are wanted; all by default.
    """
    groups = [word for word in words if word not in recipes.PRECISIONS]
    precisions = {*words} & {*recipes.PRECISIONS} or {*recipes.PRECISIONS}
    by_label: dict[str, dict[str, tables.Row]] = {}
    for group in groups:
        for row in _measured(group):
            if row.records[0]["precision"] in precisions:
                by_label.setdefault(row.label, {})[group] = row
    found, heads = [], {}
    for label, its in by_label.items():
        cells = []
        for group in groups:
            cells += ["", ""]
            if row := its.get(group):
                heads[group] = f"{_pair(group)}: {' / '.join(_test_sets(row))}", "endless"
                cells[-2:] = _scores(row), _endless(row)
        seeds, updates = ([what(row) for row in its.values()] for what in (_seeds, lambda row: row.numbers("updates")))
        found.append((label, *cells, *(" / ".join(dict.fromkeys(numbers)) for numbers in (seeds, updates))))
    signatures = _signatures(row for its in by_label.values() for row in its.values())
    stars = [text for group in groups if (text := tables.baseline(group, _comparisons()))]
    starred = f"The stars: sacreBLEU differs from {'; from '.join(stars)}." if stars else ""
    head = ("system", *itertools.chain(*heads.values()), "seeds", "updates")
    return f"{table(head, found)}\n\n{signatures} {starred}".rstrip()


def _measured(group: str) -> list[tables.Row]:
    return [row for rows in _tables(group).values() for row in rows if row.records]


def _test_sets(row: tables.Row) -> list[str]:
    return list(dict.fromkeys(test_set for test_set, _ in row.cells))


def _scores(row: tables.Row) -> str:
    """sacreBLEU on each test set, with the mark of its comparison with the group's baseline."""
    return " / ".join(row.cells[test_set, "sacrebleu"].text() for test_set in _test_sets(row))


def _signatures(rows: Iterable[tables.Row]) -> str:
    """A sentence on the signatures of sacreBLEU."""
    found = [f"`{text}`" for label, text in tables.signatures([*rows]) if label == METRICS["sacrebleu"].label]
    return f"sacreBLEU's signature: {', '.join(found)}."


def _seeds(row: tables.Row) -> str:
    return str(len(row.records))


def _pair(group: str) -> str:
    data = _first(group).data
    return "-".join(filter(None, (data.source, data.target)))


def _endless(row: tables.Row) -> str:
    """The number of endless translations on each test set, seed by seed, as far as they were counted."""
    counts = (METRICS["endless"].values(row.records, test_set) for test_set in _test_sets(row))
    cells = [", ".join(map(str, found)) for found in counts]
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def precisions(group: str) -> str:
    """The rows of a group of translation recipes that were trained in several precisions: sacreBLEU in each."""
    by_recipe: dict[str, dict[str, tables.Row]] = {}
    for row in _measured(group):
        if len(variant(row.records[0])) == 1:
            by_recipe.setdefault(row.recipe, {})[row.records[0]["precision"]] = row
    several = {name: its for name, its in by_recipe.items() if len(its) > 1}
    head = [one for one in recipes.PRECISIONS if any(one in its for its in several.values())]

    rows = [
        (f"`{name.rpartition('/')[2]}`", *(_means(its[one]) if one in its else "" for one in head))
        for name, its in several.items()
    ]
    return table(("row", *head), rows)


def _mean(records: Sequence[dict], test_set: str, metric: str) -> str:
    return tables.mean(METRICS[metric].values(records, test_set), len(records))


def measured(group: str) -> str:
    """A group that is in no paper, as ``ode-transformer table`` prints it."""
    (rows,) = _tables(group).values()
    if not any(row.records for row in rows):
        return "Nothing has been run yet."
    return tables.section("", rows, tables.baseline(group, _comparisons())).partition("\n\n")[2].strip()


def metric(group: str, papers: str, name: str) -> str:
    """A group of another task beside the papers' numbers, which rows of the same name of ``papers`` hold."""
    if not (rows := _measured(group)):
        return "Nothing has been run yet."
    test_sets = list(dict.fromkeys(t for row in rows for (t, _), cell in row.cells.items() if cell.measured))
    found = []
    for row in rows:
        recipe = recipes.load(f"{papers}/{row.recipe.rpartition('/')[2]}")
        label = variant_label(recipe.description.partition(":")[0], variant(row.records[0]))
        theirs = (value for paper in recipe.paper for scores in paper.scores.values() for value in scores.values())
        measured = (_mean(row.records, test_set, name) for test_set in test_sets)
        found.append((label, next(theirs, ""), *measured, row.numbers("parameters"), row.numbers("updates")))
    for label, values in _baselines(group).items():
        found.append((label, "", *(values.get(test_set, "") for test_set in test_sets), "", ""))
    measured = (f"measured, {test_set}" for test_set in test_sets)
    return table(("system", "paper, full protocol", *measured, "parameters", "updates"), found)


def _baselines(group: str) -> dict[str, dict[str, str]]:
    """The accuracies on each test set of a group's trivial baselines, and of a rule fitted to each of its models, by
    label."""
    labels = {
        "first-symbol": "baseline: the most frequent class by the first symbol",
        "bag-of-symbols": "baseline: a linear model of the bag of subwords",
    }
    subsets, found = _first(group).subsets, {}
    folder = ROOT / "results" / "baselines"
    for path in sorted(folder.glob(f"{group}.json")) + sorted(folder.glob(f"{group}.*.json")):
        record = read_json(path)
        scores = {name: f"{record['scores'][subset]['value']:.2f}" for subset, name in subsets.items()}
        found[labels[record["kind"]]] = scores
        if its := record.get("model"):
            model = recipes.load(f"{group}/{its['predictions'].partition('.')[0]}").description.partition(":")[0]
            followed = f"{model}'s most frequent answer by the first symbol, the same in "
            followed += f"{its['agreement']:.2f} percent of all examples"
            found[followed] = {subsets["test"]: f"{its['rule']:.2f}"}
    return found


def gap(group: str, baseline: str, *systems: str) -> str:
    """How far the perplexities of language models, rows of a group, are below that of another on the test set, and the
    paper's; with the numbers of trainings."""

    def perplexities(name: str) -> tuple[int, float, float]:
        recipe = recipes.load(f"{group}/{name}")
        ((test_set, theirs),) = recipe.paper[0].scores.items()
        values = METRICS["perplexity"].values(alike(recipe.name), test_set)
        return len(values), statistics.mean(values), theirs["perplexity"]

    found, (trainings, *first) = [], perplexities(baseline)
    for system in systems:
        count, *its = perplexities(system)
        gains = (f"{a - b:.2f} ({100 * (a - b) / a:.1f} percent)" for a, b in zip(first, its, strict=True))
        found.append((f"`{system}`", f"{count} and {trainings}", *gains))
    head = ("system", "trainings of it and of the baseline")
    head += f"perplexity below that of `{baseline}`", "the same in the paper"
    return table(head, found)


def flow(*names: str) -> str:
    """How far flows on the default's grid are from the released code's, from records in ``results/lab``."""
    found: dict[str, list[str]] = {}
    head = ["flow"]
    for record in (_results(f"lab/{name}") for name in names):
        head += [f"{record['positions']} positions: error of a bias", "relative", "largest bias", "gradient, percent"]
        for name, steps in record["flows"].items():
            one = steps[0]
            numbers = f"{one['error']:.1e}", f"{one['relative']:.1e}", f"{one['largest']:.3g}"
            label = re.sub(r".*_(\d+)\.pt$", r"after \1 updates", name)
            found.setdefault(label, []).extend((*numbers, f"{100 * one['gradient']:.2g}"))
    return table(head, [(name, *cells) for name, cells in found.items()])


HEADLINE = {
    "Transformer (fairseq's)": ("transformer-tiny", ("macaron/wmt14-en-de", "Transformer")),
    "Macaron Net": ("macaron-tiny", ("macaron/wmt14-en-de", "Macaron Net")),
    "ODE Transformer, residual baseline": ("ode-residual-tiny", ("ode/wmt14-en-de", "Residual 6-6")),
    "ODE Transformer, RK2": ("rk2-tiny", ("ode/wmt14-en-de", "RK2 6-6")),
    "ODE Transformer, RK2 learnable": ("rk2-learnable-tiny", ("ode/wmt14-en-de", "RK2 learnable 6-6")),
    "ODE Transformer, RK4": ("rk4-tiny", ("ode/wmt14-en-de", "RK4 6-6")),
    "TransEvolve fullFF-1": ("transevolve-fullff-1-tiny", None),  # its paper and FLOATER's print BLEU of other kinds
    "Transformer, trained as long as FLOATER": ("transformer-longer-tiny", None),
    "FLOATER, warm-started": ("floater-warm-tiny", None),
}
"""Systems of the README's table: the recipe's row, and the group and row of the paper's number."""


def headline() -> str:
    """The README's table: small systems that were measured, beside what the papers print for the base size."""
    measured = {group: _rows(group) for group in ("multi30k-short", "multi30k-short-en-fr")}
    found = []
    for label, (name, printed) in HEADLINE.items():
        cells = [
            " / ".join(_mean(rows[name].records, "test_2016_flickr", metric) for metric in ("tokenised", "sacrebleu"))
            for rows in measured.values()
        ]
        published = ""
        if printed:
            group, row = printed
            (cell, *_) = [r.cells for rows in _tables(group).values() for r in rows if r.label == row]
            published = f"{cell['newstest2014', 'compound_split'].paper:g}"
        found.append((label, *cells, published))
    head = ["system", *(f"Multi30k {pair}, test 2016" for pair in ("en-de", "en-fr"))]
    head.append("published: WMT14 en-de, base, compounds split")
    signatures = _signatures(rows[name] for rows in measured.values() for name, _ in HEADLINE.values())
    return f"{table(head, found)}\n\n{signatures} {spread(*measured)}"


def spread(*groups: str) -> str:
    """A sentence on how far the seeds of one system differ in groups of translation recipes."""
    found = []
    for group in groups:
        differences = []
        for row in (row for row in _measured(group) if len(row.records) > 1):
            for test_set in _test_sets(row):
                values = METRICS["sacrebleu"].values(row.records, test_set)
                name = f"`{row.recipe.rpartition('/')[2]}`, {row.records[0]['precision']}"
                differences.append((max(values) - min(values), statistics.variance(values), name, test_set))
        largest, _, name, test_set = max(differences)
        pooled = math.sqrt(statistics.mean(variance for _, variance, *_ in differences))
        deviation = f"pooled deviation {pooled:.2f}"
        found.append(f"up to {largest:.2f} sacreBLEU on {_pair(group)} ({name}, {test_set}; {deviation})")
    return f"Seeds of one system differ by {' and by '.join(found)}."


@functools.cache
def _first(group: str) -> recipes.Recipe:
    """The first recipe of a group."""
    return recipes.load(f"{group}/{next(iter(recipes.group(group)['rows']))}")


def alike(recipe: str) -> list[dict[str, Any]]:
    """Return the records of a recipe that have the precision and the flags of its first one."""
    found = _records()[recipe]
    return [record for record in found if variant(record) == variant(found[0])]


@functools.cache
def _rows(group: str, precision: str = "fp32") -> dict[str, Any]:
    """Rows of the systems of a group that were run in a precision, by the recipe's row."""
    found = [row for row in _measured(group) if variant(row.records[0]) == (precision,)]
    return {row.recipe.rpartition("/")[2]: row for row in found}


PROCESSORS = {
    "amd-epyc-5": "AMD EPYC, fifth generation",
    "amd-epyc": "AMD EPYC, fourth generation",
    ".": "Intel Xeon",
}
"""What the contests were measured on, by the folder of the records below ``results/bench``."""


SYSTEMS = {
    "tiny": ("stock, our criterion", "rk2_tiny", "transformer", "macaron_tiny", "floater_tiny"),
    "tiny-transevolve": ("transevolve_fullff_1_tiny 4-4",),
    "base-macaron": ("stock, our criterion", "macaron_wmt_en_de", "macaron_wmt_en_de, stock criterion"),
    "base-deep": ("rk2 6-6",),
    "base-recomputing": ("rk2, recomputing", "rk4, recomputing"),
    "base-transevolve": ("transevolve_fullff_2",),
    "base-floater": ("floater_base, stock criterion",),
    "decoding-tiny": ("transevolve_fullff_1_tiny 4-4",),
    "decoding-base": ("rk2", "rk4"),
    "decoding-base-floater": ("floater_base",),
}
"""The systems whose speed is shown on every processor, by contest."""


def processors() -> str:
    """The speed of systems on each processor, and the memory on the first."""
    from ode_transformer.experiments.bench.turns import median_and_quartiles

    found = []
    for name, systems in SYSTEMS.items():
        paths = (ROOT / "results" / "bench" / folder / f"{name}.json" for folder in PROCESSORS)
        records = [read_json(path)["systems"] if path.is_file() else {} for path in paths]
        baseline, first = next(iter(records[0].items()))
        for system in systems:
            speeds = [median_and_quartiles(its[system]["speed"]) if system in its else "" for its in records]
            memory = f"{records[0][system]['peak_mib'] / first['peak_mib']:.2f}" if "peak_mib" in first else ""
            found.append((f"`{name}`", f"{system} / {baseline}", *speeds, memory))
    return table(("contest", "system / baseline", *(f"speed, {name}" for name in PROCESSORS.values()), "memory"), found)


def contest(path: str) -> str:
    """The table of a contest, whose record is at this path below ``results/bench``."""
    from ode_transformer.experiments.bench.command import rendered

    return rendered(path.rpartition("/")[2], _results(f"bench/{path}"))


ENGINES = ("CTranslate2", "CTranslate2 int8", "ONNX", "ONNX int8")


def served(*paths: str) -> str:
    """The speed of exported models relative to fairseq's generator, and the BLEU that they lose, by engine.

    Args:
        paths: of records below ``results/bench``, in which an engine that cannot express a model has no speed.
    """
    models = {model: engines for path in paths for model, engines in _results(f"bench/{path}")["systems"].items()}
    rows, losses = [], {name: [] for name in ENGINES}
    for model, engines in models.items():
        speeds = dict.fromkeys(ENGINES, "")
        for name in ENGINES:
            if "speed" in (its := engines[name]):
                speeds[name] = f"{its['speed']['median']:.1f}"
                losses[name].append(engines["fairseq"]["bleu"] - its["bleu"])
        rows.append((f"`{model.removeprefix('runs/')}`", *speeds.values()))
    lost = ", ".join(f"{max(its):.2f} with {name}" for name, its in losses.items())
    return f"{table(('model', *ENGINES), rows)}\n\nThe largest loss of BLEU is {lost}."


def speed(path: str) -> str:
    """The speed of training with CUDA graphs on real batches, beside fairseq's own Transformer in its fastest round."""
    from ode_transformer.experiments.bench import gpu

    record = _results(f"bench/{path}")
    title = "batches of 4,096 tokens, fp16"
    found = {r["mode"]: r["systems"] for r in record["rounds"] if r["title"] == title}
    stock, names = gpu.of_stock(record, title), ("rk4", "macaron_wmt_en_de")
    rk4, macaron = (stock / found["graphs"][name]["milliseconds"] for name in names)
    contests = (_results(f"bench/{next(iter(PROCESSORS))}/{contest}") for contest in ("base-rk4", "base-macaron"))
    cpu = (its["systems"][name]["speed"]["median"] for its, name in zip(contests, names, strict=True))
    return textwrap.fill(
        f"- With `--cuda-graphs`, once its graphs are recorded, an ODE Transformer with RK4 trains {rk4:.1f} times as "
        f"fast as fairseq's own Transformer at its fastest, and Macaron Net {macaron:.1f} times ({record['device']}, "
        f"base size, {title}; [larger batches gain less](docs/gpus.md#what-was-measured)); on a CPU "
        f"{' and '.join(f'{x:.1f}' for x in cpu)} times ([Benchmarks](docs/benchmarks.md)).",
        120,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def launches(path: str) -> str:
    """The launches, kernels and memory of single steps of a contest on a GPU, at this path below ``results/bench``."""
    by_system: dict[str, dict[str, dict]] = {}
    for one in _results(f"bench/{path}")["rounds"]:
        for name, found in one["systems"].items():
            if "launches" in found and (not name.startswith("stock") or one["mode"] == "eager"):
                by_system.setdefault(name, {})[one["mode"]] = found
    modes = list(dict.fromkeys(mode for its in by_system.values() for mode in its))
    rows = [
        (
            name,
            f"{its['eager']['kernels_milliseconds']:.1f} ms" if "eager" in its else "",
            *(f"{its[m]['launches']:,}; {its[m]['reserved_mib']:,} MiB" if m in its else "" for m in modes),
        )
        for name, its in by_system.items()
    ]
    return table(("system", "kernels, eager", *(f"{m}: launches; memory" for m in modes)), rows)


def shapes(path: str) -> str:
    """The shapes of batches that CUDA graphs are recorded for, from a record below ``results/bench``."""
    rows = [
        (
            *(row["text"], f"{row['max_tokens']:,}", f"{row['batches']:,}", row["shapes"], row["recorded"]),
            *(f"{100 * row[what]:.0f} %" for what in ("eager", "padding_recorded")),
        )
        for row in _results(f"bench/{path}")["rows"]
    ]
    return table(("text", "`--max-tokens`", "batches an epoch", "their shapes", "recorded", "eager", "padding"), rows)


def preparation() -> str:
    """The cost of preparing text, and what it would be of WMT14 English-French."""
    record = _results("bench/preparation")
    small, large = record["sizes"]
    factor, measured = 36_000_000 / large["pairs"], math.log(large["pairs"] / small["pairs"])
    found = []
    for step, its in large["steps"].items():

        def growth(what: str, step: str = step) -> float:
            """How much more the larger text needs, by the growth between the two sizes that were measured."""
            return factor ** (math.log(large["steps"][step][what] / small["steps"][step][what]) / measured)

        seconds = its["cpu_seconds"] * (growth("cpu_seconds") if step.startswith("learn") else factor)
        cells = f"{its['cpu_seconds']:,.0f}", f"{its['lines_per_cpu_second']:,}", f"{its['peak_mib']:,.0f}"
        found.append(
            (
                re.sub("ise$", "ize", step),
                *cells,
                f"{seconds / 60:.0f}",
                f"{its['peak_mib'] * max(growth('peak_mib'), 1):,.0f}",
            )
        )
    head = ("step", "CPU seconds", "lines per CPU second", "MiB", "en-fr: CPU minutes", "en-fr: MiB")
    return table(head, found)


def arithmetic(*paths: str) -> str:
    """The measured speed of each system of contests beside the speed that the counted operations leave it.

    Args:
        paths: of contests below ``results/bench``, ``MEASURED:PROFILED``; the latter's operations are counted.
    """
    from ode_transformer.experiments.bench.turns import median_and_quartiles

    found = []
    for path in paths:
        its, _, counted = path.partition(":")
        title = f"`{its.rpartition('/')[2]}`"
        measured, profiled = (_results(f"bench/{one}")["systems"] for one in (its, f"{counted}.profile"))
        baseline, *others = measured
        for name in others:
            if name in profiled and "stock criterion" not in name:
                alone = profiled[baseline]["operations"] / profiled[name]["operations"]
                found.append((title, name, f"{alone:.2f}", median_and_quartiles(measured[name]["speed"])))
    return table(("contest", "system", "speed by arithmetic alone", "measured"), found)


CONTROLS = {
    **dict.fromkeys(("rk2", "rk2-learnable", "rk2-second-order", "rk2-ema"), ("residual-8",)),
    **dict.fromkeys(("pcformer", "pcformer-released"), ("residual-12",)),
    "pcformer-rk4": ("residual-20", "residual-16"),
    **dict.fromkeys(
        ("nesterov", "residual-unshared", "strang-plain", "denseformer", "attention-history"), ("residual-plain",)
    ),
    "nesterov-embedding": ("residual-plain", "residual-unshared"),
    "nesterov-strang": ("strang-plain",),
}
"""The systems of the comparison that have controls other than its baseline."""


def comparison(baseline: str, precision: str, groups: str, contests: str) -> str:
    """How far each system of the comparison is ahead of its baseline and of its controls, and what it costs.

    Args:
        baseline: the recipe's row, without ``-tiny``.
        precision: of the trainings.
        groups: of recipes, separated by commas.
        contests: the paths of their records below ``results/bench``, separated by commas, which have this baseline.
    """
    from ode_transformer.experiments.bench.systems import described

    records = [_results(f"bench/{path}") for path in contests.split(",")]
    costs_of = {system: record["systems"] for record in reversed(records) for system in record["systems"]}
    names = groups.split(",")
    wanted = {baseline, "parallel", *CONTROLS, *itertools.chain(*CONTROLS.values())}
    systems = [name.removeprefix(f"{names[0]}/").removesuffix("-tiny") for name in recipes.names()]
    found = []
    for system in (one for one in systems if one in wanted):
        what = recipes.load(f"{names[0]}/{system}-tiny").description.partition(":")[0].replace(" (tiny)", "")
        cost, its = costs_of[system][system], costs_of[system][baseline]
        numbers = (
            f"{cost['speed']['median'] if system != baseline else 1:.2f}",
            f"{cost['step_mib'] / its['step_mib']:.2f}",
            f"{cost['parameters'] / 1e6:.2f} M",
        )
        rows = [_rows(group, precision)[f"{system}-tiny"] for group in names]
        seeds = ", ".join(dict.fromkeys(map(_seeds, rows)))
        label = f"`{system}-tiny`: {what}"
        if system == baseline:
            found.append((label, "its sacreBLEU", seeds, *map(_means, rows), "", *numbers))
            continue
        for control in (baseline, *CONTROLS.get(system, ())):
            cells = [_differences(group, precision, f"{control}-tiny", f"{system}-tiny") for group in names]
            every = [d for cell in cells for d in cell]
            differences = [" / ".join(f"{d.mean:+.2f}" + "*" * (d.ahead + d.behind) for d in cell) for cell in cells]
            higher = f"{sum(d.mean > 0 for d in every)} of {len(every)}"
            found.append((label, f"`{control}-tiny`", seeds, *differences, higher, *numbers))
            label, numbers = "", ("", "", "")
    head = ["row", "over", "seeds", *map(_pair, names), "higher on", "speed", "memory", "parameters"]
    notes = [_signatures(row for group in names for row in _rows(group, precision).values())]
    families = {one.family: one.adjusted_for for one in _comparisons()}
    notes += [f"{_pair(group)}: p adjusted for {families[group, 'sacrebleu']} comparisons." for group in names]
    notes += [f"Speed and memory: {text}." for text in dict.fromkeys(map(described, records))]
    return f"{table(head, found)}\n\n{' '.join(notes)}"


def _means(row: tables.Row) -> str:
    return " / ".join(_mean(row.records, test_set, "sacrebleu") for test_set in _test_sets(row))


@functools.cache
def _records() -> dict[str, list[dict]]:
    return read_records(tables.RESULTS)


@functools.cache
def _tables(group: str) -> dict[str, list[tables.Row]]:
    return tables.tables(group, _records(), _comparisons())


@functools.cache
def _comparisons() -> list[comparisons.Compared]:
    return comparisons.read(tables.RESULTS)


@functools.cache
def _up_to_date() -> list[comparisons.Compared]:
    return comparisons.up_to_date(_comparisons(), _records())


@functools.cache
def _by_run(baseline: str, system: str) -> dict[tuple[int, str], dict[str, comparisons.Compared]]:
    """A recipe compared with another in the same precision by sacreBLEU: by seed and precision, then by test set."""
    found: dict[tuple[int, str], dict[str, comparisons.Compared]] = {}
    for one in _up_to_date():
        if (one.baseline, one.system, one.metric) == (baseline, system, "sacrebleu") and len({*one.precisions}) == 1:
            found.setdefault((one.seed, one.precisions[0]), {})[one.test_set] = one
    return found


def _chosen(group: str, which: Sequence[str]) -> list[comparisons.Compared]:
    """The recorded comparisons of a group.

    Args:
        group: of recipes.
        which: the baselines, as the recipes' rows without ``-tiny``, the precisions of the systems and the metrics that
            are wanted; all by default.
    """
    precisions, metrics = (
        {word for word in which if word in known} or {*known} for known in (recipes.PRECISIONS, METRICS)
    )
    baselines = {*which} - precisions - metrics
    return [
        one
        for one in _comparisons()
        if one.family[0] == group
        and one.metric in metrics
        and one.p_value is not None
        and one.precisions[1] in precisions
        and (not baselines or one.baseline.rpartition("/")[2].removesuffix("-tiny") in baselines)
    ]


def _notes(chosen: Iterable[comparisons.Compared]) -> str:
    """By which tests p was computed, and for how many comparisons it was adjusted."""
    return "; ".join(dict.fromkeys(f"{one.how}, adjusted for {one.adjusted_for} comparisons" for one in chosen))


def compared(group: str, *which: str) -> str:
    """The recorded comparisons of a group, of which the words choose some as for :func:`_chosen`."""
    chosen = _chosen(group, which)
    by_system: dict[tuple, list[comparisons.Compared]] = {}
    for one in chosen:
        by_system.setdefault((one.baseline, one.seed, one.system, one.precisions, one.metric), []).append(one)
    found = []
    for its in by_system.values():
        one = its[0]
        differences = " / ".join(f"{one.value - one.baseline_value:+.2f}" + "*" * one.differs() for one in its)
        adjusted = " / ".join(f"{one.adjusted:.3f}" for one in its)
        label = variant_label(f"`{one.system.rpartition('/')[2]}`", one.precisions[1:])
        found.append((label, f"`{one.baseline.rpartition('/')[2]}`", one.seed, differences, adjusted))
    test_sets = " / ".join(dict.fromkeys(one.test_set for one in chosen))
    head = ("system", "over", "seed", f"difference on {test_sets}", "adjusted p")
    return f"{table(head, found)}\n\np: {_notes(chosen)}."


def significant(group: str, *which: str) -> str:
    """A sentence on how many of the recorded comparisons, chosen as for :func:`_chosen`, are significant."""
    chosen = _chosen(group, which)
    differ = [f"`{one.system.rpartition('/')[2]}` on {one.test_set}" for one in chosen if one.differs()]
    baselines = " or ".join(dict.fromkeys(f"`{one.baseline.rpartition('/')[2]}`" for one in chosen))
    return (
        f"Differences from {baselines} that are significant: {', '.join(differ) or 'none'} of {len(chosen)}. The "
        f"smallest adjusted p: {min(one.adjusted for one in chosen):.3f} ({_notes(chosen)})."
    )


def endless(*groups: str) -> str:
    """Sentences on what endless translations do to the differences of systems, in all comparisons that measured it."""
    tested = [
        (one, one.value - one.baseline_value, one.values["difference_without"])
        for one in _comparisons()
        if one.family[0] in groups and "difference_without" in one.values
    ]
    having = sum(one.values["endless"] > 0 for one, *_ in tested)
    moved = max(abs(difference - without) for _, difference, without in tested)
    turned = [one for one, difference, without in tested if difference * without < 0]
    starred = sum(one.differs() for one in turned)
    return (
        f"Of {len(tested)} comparisons of two systems on a test set, {having} have sentences that one of the two "
        f"translates without end. Without these, the difference moves by up to {moved:.2f} sacreBLEU, and changes its "
        f"sign in {len(turned)} comparisons, {f'{starred} of which have' if starred else 'none of which has'} a star. "
        f"{sum(one.differs() for one, *_ in tested)} comparisons have a star."
    )


def beside(precision: str, *pairs: str) -> str:
    """Pairs of systems in one precision, and by how much the second is higher over their common seeds.

    Args:
        precision: of the trainings.
        pairs: ``GROUP/ROW:ROW``.
    """
    found = []
    for pair in pairs:
        group, _, names = pair.rpartition("/")
        its = {name: _rows(group, precision)[name] for name in names.split(":")}
        cells = [f"`{name}` {_means(row)}" for name, row in its.items()]
        differences = " / ".join(f"{d.mean:+.2f}" for d in _differences(group, precision, *its))
        updates = dict.fromkeys(row.numbers("updates") for row in its.values())
        found.append((f"`{group}`", *cells, differences, " and ".join(updates)))
    return table(("group", "without", "with", "difference", "updates"), found)


QUOTED = ("Wu et al. 2021", "41.02", "71.0/47.5/34.3/24.5", "0.999", "12,103")
"""What a paper prints of the parts of its BLEU."""


def parts(group: str, test_set: str) -> str:
    """The parts of tokenized BLEU of each system of a group on a test set, below those that a paper prints."""
    found = [QUOTED]
    for record in (record for rows in _tables(group).values() for row in rows for record in row.records):
        its = record["scores"][test_set]["tokenised"]
        label = f"`{record['recipe']}`, seed {', '.join(map(str, record['seeds']))}"
        precisions = "/".join(f"{value:.1f}" for value in its["precisions"])
        label = variant_label(label, variant(record))
        found.append((label, f"{its['bleu']:.2f}", precisions, f"{its['bp']:.3f}", f"{its['ref_len']:,}"))
    return table(("system", "BLEU", "precisions", "brevity penalty", "length of the reference"), found)


def resumed(*groups: str) -> str:
    """A sentence on the trainings that were interrupted and resumed, as far as the records say."""
    found = [
        f"`{record['recipe']}` ({record['precision']}, seed {', '.join(map(str, record['seeds']))})"
        for group in groups
        for row in _measured(group)
        for record in row.records
        if (its := record["training"]).get("interruptions") or len(its.get("trained_on", [])) > 1
    ]
    return f"Interrupted and resumed, as far as the records say: {', '.join(dict.fromkeys(found))}."


def leads(groups: str, baseline: str, *systems: str) -> str:
    """A sentence on which systems have a higher mean than their baseline on all test sets, in each precision.

    Args:
        groups: of recipes, separated by commas.
        baseline, systems: the recipes' rows, without ``-tiny``.
    """
    found = []
    for group, precision in itertools.product(groups.split(","), recipes.PRECISIONS):
        names = [f"{system}-tiny" for system in systems]
        its = {name: [d.mean for d in _differences(group, precision, f"{baseline}-tiny", name)] for name in names}
        its = {name: means for name, means in its.items() if means}
        ahead = [f"`{name}` (by {min(d):.2f} to {max(d):.2f})" for name, d in its.items() if min(d) > 0]
        if its:
            found.append(f"on {_pair(group)} in {precision} {' and '.join(ahead) or 'none'} of {len(its)}")
    named = ", ".join(f"`{system}-tiny`" for system in systems)
    return (
        f"Of {named}, these are higher than `{baseline}-tiny` on all test sets, by the mean over common seeds: "
        f"{'; '.join(found)}."
    )


class Difference(NamedTuple):
    """How far a system is from another on a test set by sacreBLEU: the mean over their common seeds, and whether it is
    significantly ahead or behind with every seed."""

    mean: float
    ahead: bool
    behind: bool


def _differences(group: str, precision: str, control: str, system: str) -> list[Difference]:
    """Of two systems of a group, on each test set; empty if one of them was not trained."""
    row, other = (_rows(group, precision).get(name) for name in (system, control))
    if not row or not other:
        return []
    its = _by_run(other.recipe, row.recipe)
    found = []
    for test_set in recipes.load(row.recipe).subsets.values():
        ours, theirs = _by_seed(row, test_set), _by_seed(other, test_set)
        by_seed = {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}
        signs = []
        for seed, difference in by_seed.items():
            one = its.get((seed, precision), {}).get(test_set)
            signs.append((1 if difference > 0 else -1) if one and one.differs() else 0)
        every = (all(s == sign for s in signs) for sign in (1, -1))
        found.append(Difference(statistics.mean(by_seed.values()), *every))
    return found


def _by_seed(row: Any, test_set: str) -> dict[int, float]:
    its = METRICS["sacrebleu"]
    return {seed: its.value(record["scores"][test_set]) for record in row.records for seed in record["seeds"]}


def intervals(group: str) -> str:
    """The runs of a group of GLUE: a row per system, and for each task and seed the score with its interval."""
    found: dict[str, dict[str, str]] = {}
    heads, signed, parameters = [], set(), {}
    for name, row in _rows(group).items():
        recipe = recipes.load(f"{group}/{name}")
        (test_set,) = recipe.subsets.values()
        metric = METRICS[TASKS[recipe.task].metrics(recipe)[-1]]
        system = recipe.description.replace(f" on {test_set.removesuffix('_dev')}", "").partition(":")[0]
        parameters[system] = row.numbers("parameters")
        for record in row.records:
            score = record["scores"][test_set][metric.name]
            low, high = score["interval"]
            head = f"{test_set}, {metric.label}, seed {record['seeds'][0]}"
            heads += [head] * (head not in heads)
            found.setdefault(system, {})[head] = f"{score['value']:.1f} [{low:.1f}, {high:.1f}]"
            signed.add(score["bootstrap"])
    rows = [(system, *(cells.get(h, "") for h in heads), parameters[system]) for system, cells in found.items()]
    return (
        table(("system", *heads, "parameters"), rows) + f"\n\nIn percent; in brackets, the {', '.join(sorted(signed))}."
    )


def orders() -> str:
    """Measured orders of convergence beside those of theory, and the schemes that have none."""
    from ode_transformer.experiments.lab import orders

    return orders.table(_results("lab/orders"))


def steps() -> str:
    """How far single steps inside trained models are from two half steps, over the layers of each model."""
    found = []
    for name, layers in _results("lab/orders")["layers"].items():
        differences, sizes = ([layer[what] for layer in layers] for what in ("difference", "increment"))
        cells = f"{100 * min(differences):.0f} to {100 * max(differences):.0f}", f"{min(sizes):.1f} to {max(sizes):.1f}"
        found.append((f"`{name}`", len(layers), *cells))
    return table(("model", "layers", "difference, percent", "size of a step"), found)


def gates(*names: str) -> str:
    """The mean weight of the first stage in each layer of trained models, from records in ``results/lab``."""
    rows = [
        (f"`{re.sub('^runs/|/average.pt$', '', model)}`", ", ".join(f"{layer['mean'][0]:.4f}" for layer in layers))
        for name in names
        for model, layers in _results(f"lab/{name}")["layers"].items()
    ]
    return table(("model", "weight of the first stage, layer by layer"), rows)


def _results(path: str) -> Any:
    """A record below ``results``, by its path without the suffix."""
    return read_json(ROOT / "results" / f"{path}.json")


KINDS: dict[str, Callable[..., str]] = {
    kind.__name__: kind
    for kind in (
        *(scores, precisions, measured, metric, headline, processors, contest, launches, speed, served, shapes),
        *(preparation, arithmetic, comparison, intervals, orders, gates, steps, leads, spread, compared),
        *(significant, beside, parts, resumed, gap, flow, endless),
    )
}


@functools.cache
def rehearsals() -> str:
    """How many of the papers' rows were rehearsed."""
    rows = recipes.listed(paper=True)
    rehearsed = _results("rehearsal")["rehearsed"]
    return f"{sum(name in rehearsed for name in rows)} of {len(rows)}"


def fill(text: str) -> str:
    """A page with every table between markers, and the number of rehearsed rows, written anew from the records."""
    text = re.sub(r"\d+ of \d+(?= (rows of the papers )?were\srehearsed\s)", rehearsals(), text)

    def written(match: re.Match) -> str:
        kind, *words = match[1].split()
        content = re.sub(r"(?<=\d)\*(?!\*)", r"\\*", KINDS[kind](*words))  # a bare star would begin emphasis
        return f"<!-- results: {match[1]} -->\n{content}\n<!-- end of results -->"

    return re.sub(r"<!-- results: (.+?) -->\n.*?<!-- end of results -->", written, text, flags=re.S)


def filled() -> list[Path]:
    """The pages that have such tables."""
    pages = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    return [path for path in pages if "<!-- results:" in path.read_text(encoding="utf-8")]


def main() -> None:
    """Write the tables of results into the pages."""
    argparse.ArgumentParser(description=main.__doc__).parse_args()  # no options but --help: any other word is an error
    for path in filled():
        before = path.read_text(encoding="utf-8")
        if (after := fill(before)) != before:
            write_text(path, after)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
