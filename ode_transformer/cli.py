"""The command ``ode-transformer``: each sub-command is a function of another module."""

import argparse
import json
import sys
from pathlib import Path

from . import (
    __version__,
    bench,
    checkpoints,
    corpus,
    lab,
    listops,
    plots,
    recipes,
    results,
    scoring,
    tables,
    warm_start,
)


def _path(args: argparse.Namespace) -> int:
    print(Path(__file__).resolve().parent)
    return 0


def _average_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", help="the --save-dir of fairseq-train")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last-epochs", type=int, metavar="N", help="the newest N of checkpointE.pt")
    which.add_argument("--last-updates", type=int, metavar="N", help="the newest N of checkpoint_E_U.pt")
    which.add_argument(
        "--best", type=int, metavar="N", help="the best N of --keep-best-checkpoints; 1 is checkpoint_best.pt"
    )
    parser.add_argument("--output", required=True, help="the file to write")


def _average(args: argparse.Namespace) -> int:
    paths = checkpoints.select(
        args.directory, last_epochs=args.last_epochs, last_updates=args.last_updates, best=args.best
    )
    print(f"averaging {', '.join(p.name for p in paths)} -> {args.output}")
    checkpoints.average(paths, args.output)
    return 0


def _resume_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", help="the --save-dir of fairseq-train")
    parser.add_argument("--look", action="store_true", help="change nothing: another machine does")


def _resume(args: argparse.Namespace) -> int:
    print(checkpoints.resume_point(args.directory, mend=not args.look))
    return 0


def _where(args: argparse.Namespace) -> int:
    print(results.TRAINED_ON + json.dumps(results.where()))
    return 0


_ERRORS = (
    checkpoints.CheckpointError,
    recipes.RecipeError,
    results.RecordError,
    tables.TableError,
    scoring.ScoringError,
)


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 1 after a named error."""
    parser = argparse.ArgumentParser(
        prog="ode-transformer",
        description="Recipes, checkpoints, scores and records of the ode_transformer plugin for fairseq.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name, help_, arguments, run):
        command = commands.add_parser(name, help=help_, description=help_)
        arguments(command)
        command.set_defaults(run=run)

    add("path", "print the folder to give to fairseq's --user-dir", lambda parser: None, _path)
    add("recipe", "list, check and show recipes", recipes.add_arguments, recipes.main)
    add("average", "average checkpoints", _average_arguments, _average)
    add(
        "resume",
        "make a training folder fit to go on from and print how many updates it has behind it",
        _resume_arguments,
        _resume,
    )
    add(
        "warm-start",
        "turn a Transformer's checkpoint into one of ours that goes on from there",
        warm_start.add_arguments,
        warm_start.main,
    )
    add("score", "score translations", scoring.add_arguments, scoring.main)
    add("corpus", "write the generated German-English corpus", corpus.add_arguments, corpus.main)
    add("listops", "write generated ListOps expressions", listops.add_arguments, listops.main)
    add("bench", "measure speed and memory, several systems in one run", bench.add_arguments, bench.main)
    add("lab", "measure orders of convergence, and steps inside trained models; Table 5", lab.add_arguments, lab.main)
    add("plot", "draw pictures", plots.add_arguments, plots.main)
    add("record", "write the record of a finished run", results.add_arguments, results.main)
    add("where", "print hardware and versions, as the log of a training has them", lambda parser: None, _where)
    add("table", "set what was measured beside what the papers print", tables.add_arguments, tables.main)
    add("compare", "test whether systems differ from a baseline", tables.add_compare_arguments, tables.compare_main)
    add("rehearsal", "write what came of rehearsals", results.add_rehearsal_arguments, results.rehearsal_main)
    add("curve", "write the curve of a training without a recipe", results.add_curve_arguments, results.curve_main)
    words = sys.argv[1:] if argv is None else argv
    flags = []
    if words[:1] in (["warm-start"], ["bench"]) and "--" in words:  # fairseq's, after ours
        words, flags = words[: words.index("--")], words[words.index("--") + 1 :]
    args = parser.parse_args(words, argparse.Namespace(flags=flags))
    try:
        return args.run(args)
    except _ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
