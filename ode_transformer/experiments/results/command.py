"""The arguments of the commands that show results: tables, comparisons, the report and plots."""

import argparse
import csv
import inspect
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

from ...errors import OdeTransformerError
from ...files import write_json
from .. import recipes
from ..arguments import add_function, add_parameters, add_text_arguments, at_least, output_file, texts_of
from ..metrics.resampling import TESTS


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer run``, whose runs end in a table if they are several."""
    from ..runs.command import SEEDS, add_runs_function
    from ..runs.runner import run
    from .tables import after

    step = {"metavar": "STEP"}
    more = {"first": step | {"option": ["--from"]}, "last": step | {"option": ["--until"]}}
    more |= {"names": {"nargs": "+", "metavar": "RECIPE"}, "seeds": SEEDS | {"option": ["--seeds", "--seed"]}}
    more |= {"record": {"type": output_file, "metavar": "FILE"}}
    add_runs_function(parser, partial(run, after=after), "names", **more)
    parser.epilog = "Words after -- are passed on to fairseq-train. Several recipes or seeds end in a table."


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer table``."""
    from .tables import RESULTS

    parser.add_argument("group", metavar="GROUP", nargs="*", help="recipe files, such as ode/wmt14-en-de, or your own "
        "FILE.yaml (default: all of this package)")  # fmt: skip
    parser.add_argument("--csv", action="store_true", help="print CSV, one line per row, test set and metric")
    parser.add_argument(
        "--results", metavar="DIR", type=Path, default=RESULTS, help="folder of records or of runs (default: results)"
    )
    parser.add_argument("--measured", action="store_true", help="only tables with measured results")
    parser.set_defaults(run=_table)


def _table(args: argparse.Namespace) -> None:
    from . import comparisons, tables
    from .files import read_records

    write = csv.writer(sys.stdout, lineterminator="\n")
    if args.csv:
        write.writerow(tables.COLUMNS)
    ours = args.results == tables.RESULTS and not args.results.is_dir()  # which an installed package has not
    records, compared, measured = {} if ours else read_records(args.results), comparisons.read(args.results), False
    for group in args.group or recipes.groups():
        found = tables.tables(group, records, compared)
        if args.measured:
            found = {title: rows for title, rows in found.items() if any(row.records for row in rows)}
        measured = measured or any(row.records for rows in found.values() for row in rows)
        for title, rows in found.items():
            if args.csv:
                write.writerows((group, title, *values) for values in tables.for_programs(rows))
            else:
                print(tables.section(title, rows, tables.baseline(group, compared)))
    if not measured and (args.measured or args.results != tables.RESULTS):
        group = ", ".join(args.group) or "any recipe"
        print(f"nothing of {group} is measured in {args.results}; rehearsals do not count", file=sys.stderr)


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer compare``."""
    from .significance import compare_files

    parser.add_argument(
        "baseline", metavar="BASELINE", help="a recipe, the folder of a finished run or, with --ref, a file of outputs"
    )
    parser.add_argument(
        "system", metavar="SYSTEM", nargs="+", help="what to test against BASELINE: likewise, with the same test sets"
    )
    ref = {"action": "append", "required": False, "metavar": "FILE"}
    # Records have the British spelling.
    test = {"type": lambda word: word.replace("randomiz", "randomis"), "choices": TESTS, "default": "randomization"}
    more = {"test": test | {"metavar": "{randomization,bootstrap}"}, "source": {"metavar": "FILE"}}
    add_parameters(parser, compare_files, files=None, ref=ref, **more)
    parser.add_argument(
        "--output", metavar="FILE", type=output_file, help="JSON file to write, such as results/significance/GROUP.json"
    )
    parser.add_argument(
        "--precision",
        choices=recipes.PRECISIONS,
        help="compare trainings in this precision (default: the run's or record's own)",
    )
    recipes.add_run_options(parser)
    parser.set_defaults(run=_compare)


def _compare(args: argparse.Namespace) -> None:
    from . import significance

    names, how = (args.baseline, *args.system), (args.test, args.samples, args.metric)
    of_files = args.source, args.target_lang, args.lowercase
    of_recipes = args.precision, args.scale != "full", args.seed is not None
    if any(of_recipes if args.ref else of_files):
        raise OdeTransformerError(
            "--precision, --scale and --seed go with recipes; --source, --target-lang and --lowercase with --ref FILE"
        )
    if args.ref:
        content = significance.compare_files(names, args.ref, *how, *of_files)
    else:
        if any(of_recipes) and all(Path(name, "run.json").is_file() for name in names):
            raise OdeTransformerError(
                f"{names[0]}: is the folder of a run; --scale, --seed and --precision choose among the runs of a recipe"
            )
        which = args.scale, args.seed, args.precision
        baseline, *others = (significance.named(name, *which) for name in names)
        content = significance.compare(baseline, others, *how)
    print(significance.report(content))
    if args.output:
        write_json(args.output, content)
        print(args.output)


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer report``."""
    from .report import write

    numbers = {"nargs": "+", "type": at_least(0), "metavar": "N", "default": []}
    more = {"directory": {"metavar": "DIR"}, "baseline": {"metavar": "RECIPE"}, "sentences": numbers}
    add_function(parser, write, "directory", **more)


FORMATS = (".png", ".svg", ".pdf")
PLOTS = {
    "positions": ("heat map of a model's position vectors, position by dimension", "checkpoints, one panel each"),
    "training": ("perplexity or accuracy, and gradient norm", "folders of runs, records, or logs in JSON"),
    "coefficients": ("weights of the stages of each layer, from learned coefficients", "checkpoints, one panel each"),
    "orders": (
        "local errors against the step size, and errors of the steps of trained models",
        "a record of `lab orders`",
    ),
    "edits": ("corrections by type, of annotators and systems", "M2 files: the human edits, then one file per system"),
}
"""By kind of plot, what it shows, and what files it is drawn from."""


def add_plot(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer plot``."""
    kinds, by_kind = parser.add_subparsers(dest="kind", required=True), {}
    for kind, (shows, read) in PLOTS.items():
        drawn = by_kind[kind] = kinds.add_parser(kind, help=shows)
        name, nargs = ("file", None) if kind == "orders" else ("files", "+")
        drawn.add_argument(name, nargs=nargs, metavar="FILE", help=read)
        help_ = f"picture to write: {', '.join(FORMATS)}"
        drawn.add_argument("--output", type=output_file, metavar="FILE", required=True, help=help_)
    by_kind["positions"].add_argument(
        "--length", metavar="N", type=at_least(2), default=100, help="number of positions (default: %(default)s)"
    )
    by_kind["positions"].add_argument(
        "--of", metavar="NAME",
        help="which vectors: encoder.input, encoder.0.self_attn.q, decoder.2.encoder_attn.k and the like (default: the "
        "queries of the first block if they depend on the position, else the input; of the encoder if there is one)",
    )  # fmt: skip
    add_text_arguments(by_kind["coefficients"])
    by_kind["coefficients"].add_argument("--record", type=output_file, metavar="FILE", help="JSON file for the numbers")
    parser.set_defaults(run=_plot)


def _plot(args: argparse.Namespace) -> None:
    if args.output.suffix not in FORMATS:
        raise OdeTransformerError(f"--output {args.output}: must end in one of {', '.join(FORMATS)}")
    of_models = args.kind in ("positions", "coefficients")  # which need torch and fairseq
    draw = getattr(import_module(".model_plots" if of_models else ".plots", __package__), args.kind)
    if args.kind == "coefficients":
        args.read = texts_of(args)
    draw(**{name: getattr(args, name) for name in inspect.signature(draw).parameters})
    print(args.output)
