"""What the documentation takes from the code and from the records: run by ``make docs`` and by ``make tables``.

``reference`` writes the pages on architectures, options, the command line and the Python API from the code, and the
report on all records, each time the documentation is built; they are not kept in git. ``fill`` writes tables of results
from the records into README.md and the pages, between markers; these are kept, so that a forge shows them, and a test
compares them with the records.
"""

import argparse
import contextlib
import functools
import io
import itertools
import math
import os
import pkgutil
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
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

    write_text(folder / "extra" / "report.html", report.page(ROOT / "results"))  # before fairseq turns on all loggers
    pages = {
        "architectures": architectures(),
        "options": options(),
        "rows": rows(),
        "runs": runs(),
        "command-line": command_line(),
        "api": api(),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # Sphinx reads again what is newer
            write_text(path, text)


def architectures() -> str:
    """The page on architectures: every name with its sizes, parameters and what it stands for."""
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
    from ode_transformer.config import FlatTransformerConfig, switch
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
            flag = switch(f.name, True) if f.type is bool else "--" + f.name.replace("_", "-")
            if f.type is bool:
                choices = f"off: `{switch(f.name, False)}`"
            meaning = (f.metadata.get(key, "") for key in ("help", "source"))
            found.append((f"`{flag}`", choices, f"`{f.default}`", *meaning))
        return found

    head = ("option", "values", "default", "meaning", "from")
    parts = [
        ("All families but TransEvolve", rows(SplitTransformerConfig, FlatTransformerConfig)),
        ("TransEvolve", rows(TransEvolveConfig, FlatTransformerConfig)),
        ("TransEvolve for classification, in addition", rows(TransEvolveClassifierConfig, TransEvolveConfig)),
        ("Language models: other defaults, and what is new", rows(LanguageModelConfig, SplitTransformerConfig)),
        ("Masked language models: other defaults, and more", rows(MaskedLanguageModelConfig, SplitTransformerConfig)),
        ("Macaron Net: other defaults", rows(MacaronConfig, SplitTransformerConfig)),
        ("ODE Transformer: other defaults", rows(OdeConfig, SplitTransformerConfig)),
        ("FLOATER: other defaults", rows(FloaterConfig, SplitTransformerConfig)),
    ]
    lines = [
        "# Options of the models",
        "",
        "This page is generated from the dataclasses that define the options. The models know every flag of fairseq's "
        "Transformer besides, such as `--encoder-layers` or `--share-all-embeddings`, and every switch has a twin that "
        "turns it off. [How the parts combine](../combining.md) explains what goes together.",
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


def runs() -> str:
    """The page that leads to the report on all records."""
    return (
        "# All runs\n\nThe [results](../results.md) with curves, tests of significance, hardware, versions and the "
        'commands of every run are on\n<a href="../report.html">one page of their own</a>, which `ode-transformer '
        "report results` writes.\n"
    )


def command_line() -> str:
    """The page on the command line: the help of every command."""
    from ode_transformer.experiments import cli

    lines = [
        "# Command line",
        "",
        "This page is generated from the commands' own help. `python -m ode_transformer` is the same as "
        "`ode-transformer`. The shell scripts print their help with `--help`.",
    ]
    for name in cli.COMMANDS:
        lines += ["", f"## ode-transformer {name}", "", "```text", _help([name]).rstrip(), "```"]
        for action in _actions(name):
            lines += ["", f"### ode-transformer {name} {action}", "", "```text", _help([name, action]).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _help(words: Sequence[str]) -> str:
    from ode_transformer.experiments import cli

    said, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # of argparse, whatever the terminal
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            cli.main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return said.getvalue()


def _actions(name: str) -> list[str]:
    """The sub-commands of a command."""
    from ode_transformer.experiments import cli

    top = cli.parser(name)
    (commands,) = (a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    inner = [a for a in commands.choices[name]._actions if isinstance(a, argparse._SubParsersAction)]
    return [choice for action in inner for choice in action.choices]


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
    names += ["experiments.serving.translator", "experiments.serving.backend", "config", "errors", "files"]
    inner = [f"{p.__name__}.{m.name}" for p in (numerics, modules, models) for m in pkgutil.iter_modules(p.__path__)]
    for name in [*inner, *(f"ode_transformer.{name}" for name in names)]:
        lines += ["", f"## `{name}`", "", "```{eval-rst}", f".. automodule:: {name}", "```"]
    return "\n".join(lines) + "\n"


# Tables written from the records.


def scores(group: str) -> str:
    """A group of translation recipes: tokenized BLEU, sacreBLEU and chrF2 of each test set, mean over seeds."""
    rows = [row for rows in _tables(group).values() for row in rows if row.records]
    if not rows:
        return "Nothing has been run yet."
    test_sets = list(dict.fromkeys(test_set for row in rows for test_set, _ in row.cells))
    metrics = [*dict.fromkeys(metric for row in rows for _, metric in row.cells), "chrf"]
    found = []
    for row in rows:
        cells = []
        for test_set in test_sets:
            compared = row.cells[test_set, "sacrebleu"]
            marks = {"sacrebleu": r"\*" if compared.differs() else "†" if compared.left_out else ""}
            cells.append(" / ".join(_mean(row.records, test_set, m, marks.get(m, "")) for m in metrics))
        sizes = len(row.records), row.numbers("parameters"), row.numbers("updates")
        found.append((row.label, *cells, _endless(row.records, test_sets), *sizes))
    lines = [table(("system", *test_sets, "endless", "seeds", "parameters", "updates"), found), ""]
    records = [record for row in rows for record in row.records]
    signed = {
        (METRICS[metric].label, text)
        for metric in metrics
        for test_set in test_sets
        for text in METRICS[metric].signatures(records, test_set)
    }
    lines.append("Signatures: " + "; ".join(f"{label} `{text}`" for label, text in sorted(signed)) + ".")
    if against := tables.baseline(group, compared=_comparisons()):
        lines.append(f"The stars: sacreBLEU differs from {against}.")
    return "\n".join(lines)


def _endless(records: Sequence[dict], test_sets: Iterable[str]) -> str:
    """The number of endless translations on each test set, seed by seed, as far as they were counted."""
    counts = (METRICS["endless"].values(records, test_set) for test_set in test_sets)
    cells = [", ".join(map(str, found)) for found in counts]
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def _mean(records: Sequence[dict], test_set: str, metric: str, mark: str = "") -> str:
    return tables.mean(METRICS[metric].values(records, test_set), len(records), 1 if metric == "chrf" else 2, mark)


def measured(group: str) -> str:
    """A group that is in no paper, as ``ode-transformer table`` prints it."""
    (rows,) = _tables(group).values()
    if not any(row.records for row in rows):
        return "Nothing has been run yet."
    text = tables.section("", rows, tables.baseline(group, compared=_comparisons())).partition("\n\n")[2].strip()
    return re.sub(r"(?<=\d)\*", r"\\*", text)


def metric(group: str, papers: str, name: str) -> str:
    """A group of another task beside the papers' numbers, which rows of the same name of ``papers`` hold."""
    rows = [row for rows in _tables(group).values() for row in rows if row.records]
    if not rows:
        return "Nothing has been run yet."
    test_sets = list(
        dict.fromkeys(test_set for row in rows for (test_set, _), cell in row.cells.items() if cell.measured)
    )
    found = []
    for row in rows:
        papers_row = recipes.load(f"{papers}/{row.recipe.rpartition('/')[2]}")
        theirs = [
            value for paper in papers_row.paper for by_metric in paper.scores.values() for value in by_metric.values()
        ]
        measured = [_mean(row.records, test_set, name) for test_set in test_sets]
        found.append(
            (
                variant_label(papers_row.description.partition(":")[0], variant(row.records[0])),
                theirs[0] if theirs else "",
                *measured,
                row.numbers("parameters"),
                row.numbers("updates"),
            )
        )
    for label, values in _baselines(group).items():
        found.append((label, "", *(values.get(test_set, "") for test_set in test_sets), "", ""))
    head = (
        "system",
        "paper, full protocol",
        *(f"measured, {test_set}" for test_set in test_sets),
        "parameters",
        "updates",
    )
    return table(head, found)


def _baselines(group: str) -> dict[str, dict[str, str]]:
    """The accuracies on each test set of a group's trivial baselines, by the baseline's label."""
    path = ROOT / "results" / "baselines" / f"{group}.json"
    if not path.is_file():
        return {}
    record = read_json(path)
    label = {
        "first-symbol": "baseline: the most frequent class by the first symbol",
        "bag-of-symbols": "baseline: a linear model of the bag of subwords",
    }[record["kind"]]
    subsets = recipes.load(next(name for name in recipes.names() if name.rpartition("/")[0] == group)).subsets
    found = {label: {name: f"{record['scores'][subset]['value']:.2f}" for subset, name in subsets.items()}}
    if "model" in record:
        followed = "the Transformer's most frequent answer by the first symbol, the same in "
        followed += f"{record['model']['agreement']:.2f} percent of all examples"
        found[followed] = {subsets["test"]: f"{record['model']['rule']:.2f}"}
    return found


def gap(group: str, baseline: str, *systems: str) -> str:
    """Sentences on how far language models are ahead of a baseline by the test set's perplexity, and the paper's.

    Args:
        group: of recipes, whose rows have the paper's numbers.
        baseline: a row of it.
        systems: other rows.
    """

    def perplexities(name: str) -> tuple[float, float, int]:
        recipe = recipes.load(f"{group}/{name}")
        (paper,) = recipe.paper
        ((test_set, theirs),) = paper.scores.items()
        mine = [record for record in _records().get(recipe.name, []) if record["scores"].get(test_set)]
        values = METRICS["perplexity"].values(mine, test_set)
        return theirs["perplexity"], statistics.mean(values), len(values)

    found, (of_paper, ours, _) = [], perplexities(baseline)
    for system in systems:
        theirs, value, seeds = perplexities(system)
        gained, printed = ours - value, of_paper - theirs
        said = f"{abs(gained):.2f} points ({100 * abs(gained) / ours:.1f} percent) {'below' if gained > 0 else 'above'}"
        found.append(
            f"- The perplexity of `{system}` is {said} that of `{baseline}` (runs: {seeds}); in the paper it is "
            f"{printed:.2f} points ({100 * printed / of_paper:.1f} percent) below."
        )
    return "\n".join(found)


def flow(name: str) -> str:
    """How far a flow on a coarser grid is from the released code's, from a record in ``results/lab``."""
    from ode_transformer.experiments.lab import flow

    return flow.table(_results(f"lab/{name}"))


HEADLINE = {
    "Transformer (fairseq's)": ("transformer-tiny", ("macaron/wmt14-en-de", "Transformer")),
    "Macaron Net": ("macaron-tiny", ("macaron/wmt14-en-de", "Macaron Net")),
    "ODE Transformer, residual baseline": ("ode-residual-tiny", ("ode/wmt14-en-de", "Residual 6-6")),
    "ODE Transformer, RK2": ("rk2-tiny", ("ode/wmt14-en-de", "RK2 6-6")),
    "ODE Transformer, RK2 learnable": ("rk2-learnable-tiny", ("ode/wmt14-en-de", "RK2 learnable 6-6")),
    "ODE Transformer, RK4": ("rk4-tiny", ("ode/wmt14-en-de", "RK4 6-6")),
    "TransEvolve fullFF-1": ("transevolve-fullff-1-tiny", None),  # whose paper prints a BLEU of another kind
    "Transformer, trained as long as FLOATER": ("transformer-longer-tiny", None),
    "FLOATER, warm-started": ("floater-warm-tiny", ("floater/wmt14-en-de", "FLOATER, all blocks")),
}
"""Systems of the README's table: the recipe's row, and the group and row of the paper's number."""


def headline() -> str:
    """The README's table: small systems that were measured, beside what the papers print for the base size."""
    measured = {group: _rows(group) for group in ("multi30k-short", "multi30k-short-en-fr")}
    found, signed = [], set()
    for label, (name, printed) in HEADLINE.items():
        cells = []
        for rows in measured.values():
            row = rows[name]
            cells.append(" / ".join(_mean(row.records, "test_2016_flickr", m) for m in ("tokenised", "sacrebleu")))
            signed |= METRICS["sacrebleu"].signatures(row.records, "test_2016_flickr")
        published = ""
        if printed:
            group, row = printed
            (cell, *_) = [r.cells for rows in _tables(group).values() for r in rows if r.label == row]
            published = f"{cell['newstest2014', 'compound_split'].paper:g}"
        found.append((label, *cells, published))
    head = ["system", *(f"Multi30k {pair}, test 2016" for pair in ("en-de", "en-fr"))]
    head.append("published: WMT14 en-de, base, compounds split")
    signatures = ", ".join(f"`{text}`" for text in sorted(signed))
    return table(head, found) + f"\n\nsacreBLEU's signature: {signatures}. {spread(*measured)}"


def spread(*groups: str) -> str:
    """A sentence on how far the seeds of one system differ in groups of translation recipes."""
    found = []
    for group in groups:
        pair = "-".join(filter(None, (_data(group).source, _data(group).target)))
        differences = []
        for row in (row for rows in _tables(group).values() for row in rows if len(row.records) > 1):
            for test_set in dict.fromkeys(test_set for test_set, _ in row.cells):
                values = METRICS["sacrebleu"].values(row.records, test_set)
                name = f"`{row.recipe.rpartition('/')[2]}`, {row.records[0]['precision']}"
                differences.append((max(values) - min(values), statistics.variance(values), name, test_set))
        largest, _, name, test_set = max(differences)
        pooled = math.sqrt(statistics.mean(variance for _, variance, *_ in differences))
        found.append(f"up to {largest:.2f} sacreBLEU on {pair} ({name}, {test_set}; pooled deviation {pooled:.2f})")
    return f"Seeds of one system differ by {' and by '.join(found)}."


def _data(group: str) -> recipes.schema.Data:
    """The data of a group's first recipe."""
    return recipes.load(next(name for name in recipes.names() if name.rpartition("/")[0] == group)).data


@functools.cache
def _rows(group: str, precision: str = "fp32") -> dict[str, Any]:
    """Rows of the systems of a group that were run in a precision, by the recipe's row."""
    rows = [row for rows in _tables(group).values() for row in rows if row.records]
    found = [row for row in rows if variant(row.records[0]) == (precision,)]
    return {row.recipe.rpartition("/")[2]: row for row in found}


def thresholds(processor: str = "") -> str:
    """Every contest's system that has a threshold, with what was measured on a CPU.

    ``processor`` is the folder of its records below ``results/bench``; empty for the records that lie there.
    """
    from ode_transformer.experiments.bench import suite
    from ode_transformer.experiments.bench.turns import median_and_quartiles

    found = []
    for name, entry in suite.SUITE.items():
        path = ROOT / "results" / "bench" / processor / f"{name}.json"
        record = read_json(path) if path.is_file() else {"systems": {}, "baseline": ""}
        systems, baseline = record["systems"], record["baseline"]
        for system, bar in entry.bars.items():
            speed, memory = "not measured", ""
            if got := systems.get(system):
                speed = median_and_quartiles(got["speed"])
                memory = f"{got['peak_mib'] / systems[baseline]['peak_mib']:.2f}" if "peak_mib" in got else ""
            wanted = [
                f"{bar.speed:.2f}" if bar.speed is not None else "",
                f"{bar.memory:.2f}" if bar.memory is not None else "",
            ]
            found.append((f"`{name}`: {entry.title}", system, baseline, wanted[0], speed, wanted[1], memory))
    head = ("contest", "system", "baseline", "least speed", "speed", "most memory", "memory")
    return table(head, found)


def contest(path: str) -> str:
    """The table of a contest, whose record is at this path below ``results/bench``."""
    from ode_transformer.experiments.bench.command import rendered

    return rendered(path.rpartition("/")[2], _results(f"bench/{path}"))


def speed(path: str) -> str:
    """The speed of training with CUDA graphs on real batches, beside fairseq's own Transformer in its fastest round."""
    record = _results(f"bench/{path}")
    title = "batches of 4,096 tokens, fp16"
    found = {r["mode"]: r["systems"] for r in record["rounds"] if r["title"] == title}
    stock = min(its["stock"]["milliseconds"] for its in found.values() if "stock" in its)
    rk4, macaron = (stock / found["graphs"][name]["milliseconds"] for name in ("rk4", "macaron_wmt_en_de"))
    return textwrap.fill(
        f"- With `--cuda-graphs` an ODE Transformer with RK4 trains {rk4:.1f} times as fast as fairseq's own "
        f"Transformer in its fastest round, and Macaron Net {macaron:.1f} times ({record['device']}, base size, "
        f"{title}: [GPUs](docs/gpus.md#what-was-measured)). On a CPU they keep pace with it "
        "([Benchmarks](docs/benchmarks.md)).",
        120,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def launches(path: str) -> str:
    """The launches, kernels and memory of single steps of a contest on a GPU, at this path below ``results/bench``."""
    from ode_transformer.experiments.bench import gpu

    return gpu.launches(_results(f"bench/{path}"))


def before(path: str) -> str:
    """Training steps on a GPU before there were CUDA graphs, in eager mode, at this path below ``results/bench``."""
    rows = []
    for row in _results(f"bench/{path}")["rows"]:
        what = " ".join((row["architecture"], *row["flags"])) if row["system"] == "ours" else row["system"]
        if row["system"] != "ours":
            what += f" ({row['architecture']})"
        numbers = (f"{row['milliseconds']:.1f}", f"{row['kernels_milliseconds']:.1f}", f"{row['launches']:,}")
        rows.append((what, f"{row['tokens']:,}", row["precision"], *numbers, f"{row['peak_mib']:,}"))
    return table(("system", "tokens", "precision", "ms a step", "of it kernels", "launches", "peak MiB"), rows)


def arithmetic(*paths: str) -> str:
    """The measured speed of each system of contests beside the speed that the counted operations leave it.

    Each path, below ``results/bench``, has a record of the contest and, with ``.profile``, one of its operations.
    """
    from ode_transformer.experiments.bench.turns import median_and_quartiles

    found = []
    for path in paths:
        title = f"`{path.rpartition('/')[2]}`"
        measured, profiled = (_results(f"bench/{path}{kind}")["systems"] for kind in ("", ".profile"))
        baseline, *others = measured
        for name in others:
            alone = profiled[baseline]["operations"] / profiled[name]["operations"]
            found.append((title, name, baseline, f"{alone:.2f}", median_and_quartiles(measured[name]["speed"])))
    return table(("contest", "system", "baseline", "by arithmetic alone", "measured"), found)


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


def comparison(group: str, precision: str, *paths: str) -> str:
    """The systems of contests and their controls: what the recipes' rows of their names score, and the cost of a
    training step.

    Args:
        group: of recipes, whose rows have the systems' names with ``-tiny``; without a score if they were not trained.
        precision: of the trainings.
        paths: of the contests' records below ``results/bench``, which have one baseline; the costs of a system are
            relative to that baseline in the contest of its own.
    """
    from ode_transformer.experiments.bench import suite
    from ode_transformer.experiments.bench.turns import median_and_quartiles

    contests = [_results(f"bench/{path}") for path in paths]
    if len({contest["baseline"] for contest in contests}) > 1:
        raise ValueError(f"{', '.join(paths)}: must have one baseline")
    costs_of = {system: contest["systems"] for contest in reversed(contests) for system in contest["systems"]}
    baseline = contests[0]["baseline"]
    rows = _rows(group, precision)
    test_sets = recipes.load(f"{group}/{baseline}-tiny").subsets.values()
    compared = {*costs_of, *CONTROLS, *itertools.chain(*CONTROLS.values())}
    found, signed = [], set()
    names = (name.removeprefix(f"{group}/").removesuffix("-tiny") for name in recipes.names())
    for system in (name for name in names if name in compared):
        cells, against, controls = [""] * len(test_sets), "", {f"{name}-tiny": "" for name in CONTROLS.get(system, ())}
        if row := rows.get(f"{system}-tiny"):
            cells = [", ".join(f"{value:.2f}" for value in row.cells[t, "sacrebleu"].measured) for t in test_sets]
            signed |= {text for t in test_sets for text in METRICS["sacrebleu"].signatures(row.records, t)}
            if system != baseline:
                against = _p_values(row, f"{group}/{baseline}-tiny", test_sets)
            for control in controls:
                controls[control] = ", " + _p_values(row, f"{group}/{control}", test_sets)
        costs = "", "", ""
        if systems := costs_of.get(system):
            cost = systems[system]
            speed = "1" if system == baseline else median_and_quartiles(cost["speed"])
            memory = f"{cost['step_mib']:,.0f} ({cost['step_mib'] / systems[baseline]['step_mib']:.2f})"
            costs = f"{cost['seconds']:.2f} ({speed})", memory, f"{cost['parameters']:,}"
        controlled = "; ".join(f"`{name}`{p_values}" for name, p_values in controls.items())
        endless = _endless(row.records, test_sets) if row else ""
        found.append((f"`{system}-tiny`", *cells, endless, against, controlled, *costs))
    head = ["row", *test_sets, "endless", f"p, against `{baseline}-tiny`", "p, against the control"]
    head += ["seconds per update", "memory of a step, MiB", "parameters"]
    signatures = ", ".join(f"`{text}`" for text in sorted(signed))
    notes = [
        f"sacreBLEU, seed by seed, {signatures}.",
        "Endless translations and p on the test sets in their order; p is two-sided, by approximate randomization;",
        rf"\* marks a p that is below {comparisons.LEVEL:g} after adjustment for {_family(group)} comparisons.",
        f"In parentheses, speed and memory relative to `{baseline}-tiny` in the same contest. Costs and parameters:",
        "; ".join(dict.fromkeys(map(suite.described, contests))) + ".",
    ]
    return f"{table(head, found)}\n\n{' '.join(notes)}"


@functools.cache
def _records() -> dict[str, list[dict]]:
    return read_records(tables.RESULTS)


@functools.cache
def _tables(group: str) -> dict[str, list[tables.Row]]:
    return tables.tables(group, records=_records(), compared=_comparisons())


@functools.cache
def _comparisons() -> list[comparisons.Compared]:
    return comparisons.read(tables.RESULTS)


@functools.cache
def _by_run(baseline: str, system: str) -> dict[tuple[int, str], dict[str, comparisons.Compared]]:
    """A recipe compared with another in the same precision by sacreBLEU: by seed and precision, then by test set."""
    found: dict[tuple[int, str], dict[str, comparisons.Compared]] = {}
    for one in comparisons.of_today(_comparisons(), _records()):
        if (one.baseline, one.system, one.metric) == (baseline, system, "sacrebleu") and len({*one.precisions}) == 1:
            found.setdefault((one.seed, one.precisions[0]), {})[one.test_set] = one
    return found


def _family(group: str, metric: str = "sacrebleu") -> int:
    """How many comparisons of a group by a metric there are."""
    return len({one.key for one in _comparisons() if one.family == (group, metric) and one.p_value is not None})


def compared(group: str, *which: str) -> str:
    """The recorded comparisons of a group.

    Args:
        group: of recipes.
        which: the baselines, as the recipes' rows without ``-tiny``, the precisions of the systems and the metrics that
            are wanted; all by default.
    """
    precisions, metrics = (
        {word for word in which if word in known} or {*known} for known in (recipes.PRECISIONS, METRICS)
    )
    baselines = set(which) - precisions - metrics
    by_system: dict[tuple, list[comparisons.Compared]] = {}
    for one in _comparisons():
        baseline = one.baseline.rpartition("/")[2].removesuffix("-tiny")
        if one.family[0] == group and one.metric in metrics and (not baselines or baseline in baselines):
            by_system.setdefault((one.file, one.system), []).append(one)
    found, notes, heads = [], {}, dict.fromkeys(one.test_set for its in by_system.values() for one in its)
    for its in by_system.values():
        its = [one for one in its if one.p_value is not None and one.precisions[1] in precisions]
        if not its:
            continue
        one = its[0]
        differences = [f"{one.value - one.baseline_value:+.2f}" for one in its]
        p_values = [f"{one.p_value:.4f} ({one.adjusted:.3f})" + r"\*" * one.differs() for one in its]
        values = [one.values for one in its if "difference_without" in one.values]
        without = [f"{each['difference_without']:+.2f} ({each['endless']})" for each in values]
        notes[one.how] = _family(group, one.metric)
        label = variant_label(f"`{one.system.rpartition('/')[2]}`", one.precisions[1:])
        cells = [" / ".join(cells) for cells in (differences, p_values, without)]
        found.append((label, f"`{one.baseline.rpartition('/')[2]}`", one.seed, *cells))
    head = ["system", "compared with", "seed", f"difference on {' / '.join(heads)}", "p (adjusted)"]
    head.append("difference without endless translations (their number)")
    if not any(row[-1] for row in found):
        head, found = head[:-1], [row[:-1] for row in found]
    said = "; ".join(f"{note}, adjusted for {number} comparisons" for note, number in notes.items())
    return table(head, found) + f"\n\np: {said}."


def endless(*groups: str) -> str:
    """Sentences on what endless translations do to the differences of systems, in all comparisons that measured it."""
    tested = [
        (one.value - one.baseline_value, one.values["difference_without"], one.differs(), one.values["endless"] > 0)
        for one in _comparisons()
        if one.family[0] in groups and "difference_without" in one.values
    ]
    moved = max(abs(difference - without) for difference, without, *_ in tested)
    turned = [starred for difference, without, starred, _ in tested if difference * without < 0]
    return (
        f"Of {len(tested)} comparisons of two systems on a test set, {sum(one[-1] for one in tested)} have sentences "
        f"that one of the two translates without end. Without these, the difference moves by up to {moved:.2f} "
        f"sacreBLEU and changes its sign in {len(turned)} comparisons, of which {sum(turned)} have a star. "
        f"{sum(one[2] for one in tested)} comparisons have a star."
    )


def gains(baseline: str, precision: str, *groups: str) -> str:
    """How far each system of the comparison is ahead of its baseline and of its controls, by sacreBLEU.

    Args:
        baseline: the recipe's row, without ``-tiny``.
        precision: of the trainings.
        groups: of recipes, two columns each.
    """

    by_group = {group: _rows(group, precision) for group in groups}

    def over(control: str, system: str) -> list[str]:
        cells = (_differences(group, precision, control, system) for group in groups)
        return [" / ".join(f"{d.mean:+.2f}" + r"\*" * (d.ahead + d.behind) for d in cell) for cell in cells]

    found = []
    for system in _compared_systems(groups[0]):
        for control in CONTROLS.get(system, ("",)):
            of_control = f"`{control}-tiny`" * bool(control)
            rows = (by_group[group].get(f"{system}-tiny") for group in groups)
            seeds = ", ".join(str(len(row.records)) if row else "0" for row in rows)
            found.append((f"`{system}-tiny`", seeds, *over(baseline, system), of_control, *over(control, system)))
    pairs = ["-".join((data.source, data.target)) for data in map(_data, groups)]
    head = ["row", "seeds", *(f"over `{baseline}-tiny`, {pair}" for pair in pairs)]
    head += ["control", *(f"over the control, {pair}" for pair in pairs)]
    return table(head, found)


def verdicts(baseline: str, precision: str, *groups: str) -> str:
    """On how many test sets each system of :func:`gains`, with the same arguments, is higher, ahead or behind."""
    found = []
    for system in _compared_systems(groups[0]):
        for control in (baseline, *CONTROLS.get(system, ())):
            its = [d for group in groups for d in _differences(group, precision, control, system)]
            if control == system or not its:
                continue
            means = [d.mean for d in its]
            seeds = ", ".join(map(str, sorted({d.seeds for d in its})))
            higher = f"{sum(mean > 0 for mean in means)} of {len(its)}"
            extent = f"{min(means):+.2f} to {max(means):+.2f}"
            counts = [sum(getattr(d, what) for d in its) for what in ("ahead", "behind", "some_ahead", "some_behind")]
            found.append((f"`{system}-tiny`", f"`{control}-tiny`", seeds, extent, higher, *counts))
    head = (
        "row",
        "over",
        "seeds",
        "by",
        "higher on",
        "ahead on",
        "behind on",
        "ahead with one seed",
        "behind with one",
    )
    return table(head, found)


def beside(precision: str, *pairs: str) -> str:
    """Pairs of systems in one precision, and by how much the second is higher over their common seeds.

    Args:
        precision: of the trainings.
        pairs: ``GROUP/ROW:ROW``.
    """
    found = []
    for pair in pairs:
        group, _, names = pair.rpartition("/")
        control, system = (_rows(group, precision)[name] for name in names.split(":"))
        its = METRICS["sacrebleu"]
        test_sets = [t for t in recipes.load(system.recipe).subsets.values() if its.values(system.records, t)]
        differences = []
        for test_set in test_sets:
            ours, theirs = _by_seed(system, test_set), _by_seed(control, test_set)
            differences.append(statistics.mean(ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()))
        scores = [" / ".join(_mean(row.records, t, "sacrebleu") for t in test_sets) for row in (control, system)]
        named = (f"`{row.recipe.rpartition('/')[2]}`" for row in (control, system))
        cells = [f"{name} {score}" for name, score in zip(named, scores, strict=True)]
        found.append((f"`{group}`", *cells, " / ".join(f"{d:+.2f}" for d in differences), system.numbers("updates")))
    return table(("group", "without", "with", "difference", "updates"), found)


QUOTED = {"multi30k-full": ("Wu et al. 2021", "41.02", "71.0/47.5/34.3/24.5", "0.999", "12,103")}
"""What papers print of the parts of a BLEU."""


def parts(group: str, test_set: str) -> str:
    """The parts of tokenized BLEU of each system of a group on a test set, below those that a paper prints."""
    found = [QUOTED[group]] if group in QUOTED else []
    for record in (record for rows in _tables(group).values() for row in rows for record in row.records):
        its = record["scores"][test_set]["tokenised"]
        label = f"`{record['recipe']}`, seed {', '.join(map(str, record['seeds']))}"
        precisions = "/".join(f"{value:.1f}" for value in its["precisions"])
        label = variant_label(label, variant(record))
        found.append((label, f"{its['bleu']:.2f}", precisions, f"{its['bp']:.3f}", f"{its['ref_len']:,}"))
    return table(("system", "BLEU", "precisions", "brevity penalty", "length of the reference"), found)


def trainings(group: str) -> str:
    """How long the systems of a group were trained, and when their validation loss was best."""
    found = []
    for record in (record for rows in _tables(group).values() for row in rows for record in row.records):
        curve = [entry for entry in record["training"]["curve"] if "valid_loss" in entry]
        best = min(curve, key=lambda entry: entry["valid_loss"])
        label = variant_label(f"`{record['recipe'].rpartition('/')[2]}`", variant(record))
        updates = max(entry["num_updates"] for entry in record["training"]["curve"])
        resumed = "yes" if len(record["training"].get("trained_on", [])) > 1 else ""
        seed = ", ".join(map(str, record["seeds"]))
        loss = f"{best['valid_loss']:.3f} ({best['epoch']})"
        found.append((label, seed, record["training"]["curve"][-1]["epoch"], f"{updates:,}", loss, resumed))
    head = (
        "system",
        "seed",
        "epochs",
        "updates",
        "best validation loss (its epoch)",
        "resumed, as far as the record says",
    )
    return table(head, found)


def leads(group: str, baseline: str, *systems: str) -> str:
    """A sentence on which systems have a higher mean than their baseline on all test sets, in each precision."""
    found = []
    for precision in recipes.PRECISIONS:
        its = {system: [d.mean for d in _differences(group, precision, baseline, system)] for system in systems}
        its = {system: means for system, means in its.items() if means}
        ahead = [f"`{s}-tiny` (by {min(d):.2f} to {max(d):.2f})" for s, d in its.items() if min(d) > 0]
        if its:
            found.append(f"in {precision} {' and '.join(ahead) or 'none'} of {len(its)}")
    named = ", ".join(f"`{system}-tiny`" for system in systems)
    return (
        f"Of {named}, these are higher than `{baseline}-tiny` on all test sets, by the mean over common seeds: "
        f"{'; '.join(found)}."
    )


def _compared_systems(group: str) -> list[str]:
    """The systems of the comparison, without ``-tiny``, in the order of the recipes."""
    wanted = {*CONTROLS, *itertools.chain(*CONTROLS.values()), "parallel"}
    names = (name.removeprefix(f"{group}/").removesuffix("-tiny") for name in recipes.names())
    return [name for name in names if name in wanted]


class Difference(NamedTuple):
    """How far a system is from another on a test set by sacreBLEU: the mean over their common seeds, and whether it is
    significantly ahead or behind with every seed, or with some only."""

    mean: float
    seeds: int
    ahead: bool
    behind: bool
    some_ahead: bool
    some_behind: bool


def _differences(group: str, precision: str, control: str, system: str) -> list[Difference]:
    """Of two systems of a group, without ``-tiny``, on each test set; empty if one of them was not trained."""
    rows = _rows(group, precision)
    row, other = (rows.get(f"{name}-tiny") for name in (system, control))
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
            known = one and one.of(list(ours.values())) and one.differs()
            signs.append((1 if difference > 0 else -1) if known else 0)
        every, some = [all(s == sign for s in signs) for sign in (1, -1)], [sign in signs for sign in (1, -1)]
        alone = [found and not whole for found, whole in zip(some, every, strict=True)]
        found.append(Difference(statistics.mean(by_seed.values()), len(by_seed), *every, *alone))
    return found


def _by_seed(row: Any, test_set: str) -> dict[int, float]:
    its = METRICS["sacrebleu"]
    return {seed: its.value(record["scores"][test_set]) for record in row.records for seed in record["seeds"]}


def _p_values(row: Any, baseline: str, test_sets: Iterable[str]) -> str:
    """What came of comparing the runs of a row with another recipe."""
    found = []
    for (seed, precision), compared in sorted(_by_run(baseline, row.recipe).items()):
        if precision != row.records[0]["precision"]:
            continue
        its = {test_set: compared.get(test_set) for test_set in test_sets}
        # Those that were trained anew since do not count.
        if all(one and one.of(row.cells[t, "sacrebleu"].measured) for t, one in its.items()):
            marked = (
                "-" if one.p_value is None else f"{one.p_value:.3f}" + r"\*" * one.differs() for one in its.values()
            )
            found.append(f"seed {seed}: {' / '.join(marked)}")
    return "; ".join(found) or "not compared"


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


def _results(path: str) -> Any:
    """A record below ``results``, by its path without the suffix."""
    return read_json(ROOT / "results" / f"{path}.json")


KINDS: dict[str, Callable[..., str]] = {
    "scores": scores,
    "measured": measured,
    "metric": metric,
    "headline": headline,
    "thresholds": thresholds,
    "contest": contest,
    "launches": launches,
    "speed": speed,
    "before": before,
    "arithmetic": arithmetic,
    "comparison": comparison,
    "intervals": intervals,
    "orders": orders,
    "steps": steps,
    "gains": gains,
    "verdicts": verdicts,
    "leads": leads,
    "spread": spread,
    "compared": compared,
    "beside": beside,
    "parts": parts,
    "trainings": trainings,
    "gap": gap,
    "flow": flow,
    "endless": endless,
}


@functools.cache
def rehearsals() -> str:
    """How many of the papers' rows were rehearsed."""
    rows = [name for name in recipes.names() if recipes.load(name).paper]
    rehearsed = _results("rehearsal")["rehearsed"]
    return f"{sum(name in rehearsed for name in rows)} of {len(rows)}"


def fill(text: str) -> str:
    """A page with every table between markers, and the number of rehearsed rows, written anew from the records."""
    text = re.sub(r"\d+ of \d+(?= were (run|rehearsed) )", rehearsals(), text)

    def written(match: re.Match) -> str:
        kind, *words = match[1].split()
        return f"<!-- results: {match[1]} -->\n{KINDS[kind](*words)}\n<!-- end of results -->"

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
