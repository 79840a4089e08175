"""The arguments of the commands of this room: recipes, runs, their checkpoints and records."""

import argparse
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import recipes
from ..arguments import Once, at_least, call, output_file, take_arguments
from . import checkpoints, recording

NAMED = "a name that `ode-transformer recipe list` prints; or a YAML file, FILE.yaml or FILE.yaml/ROW"
PLACE = ("devices", "cpu", "precision", "torchrun")


def main(args: argparse.Namespace) -> Any:
    """Run a command; what its function returns."""
    return args.step(args)


def _call(parser: argparse.ArgumentParser, module: str, function: str, *more: str) -> None:
    """Let a command call a function of this room, imported when it is called, with the arguments of its parameters.

    Args:
        parser: of the command.
        module: where the function is.
        function: its name.
        more: arguments besides, which the function hands on.
    """

    def step(args: argparse.Namespace) -> Any:
        called = getattr(import_module(f".{module}", __package__), function)
        names = {*inspect.signature(called).parameters, *more}
        return called(**{name: value for name, value in vars(args).items() if name in names})

    parser.set_defaults(step=step)


def _take_recipe(parser: argparse.ArgumentParser, function: Callable, **more: Any) -> None:
    """Let a command call a function of a recipe's run, with the arguments that its docstring explains."""
    more |= {"name": {"metavar": "RECIPE"}, "scale": None, "seed": None, "flags": None}
    take_arguments(parser, function, "name", **more)
    recipes.add_variant(parser)
    call(parser, function)


def _add_folder(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--run-dir", metavar="DIR", help=f"{what} (default: runs/RECIPE)")


def _add_place(parser: argparse.ArgumentParser) -> None:
    """The options that say where runs train, and how many at a time."""
    parser.add_argument("--scale", type=str.lower, choices=recipes.SCALES, default="full", help="small: a rehearsal")
    parser.add_argument(
        "--jobs",
        type=at_least(1),
        default=1,
        metavar="N",
        help="runs that go on at a time, each with GPUs of its own (--devices, by default its share), or with a share "
        "of the cores (default: 1)",
    )
    parser.add_argument(
        "--devices",
        type=at_least(1),
        metavar="N",
        help="GPUs that train together; the update frequency follows from it, so that an update sees as much text on "
        "any number of GPUs (default: as many of this machine's as divide the batches; under Slurm or with NNODES all "
        "of the job's)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use GPUs")
    precisions = parser.add_mutually_exclusive_group()
    for name in recipes.PRECISIONS:
        help_ = {
            "fp32": "train in fp32 (the default on a CPU; on GPUs the default is the paper's precision)",
            "amp": "train with PyTorch's automatic mixed precision",
        }.get(name, f"train in {name}")
        precisions.add_argument(f"--{name}", dest="precision", action="store_const", const=name, help=help_)
    parser.add_argument(
        "--torchrun",
        action="store_true",
        help="start the processes with torchrun instead of fairseq; for several machines, variables NNODES, NODE_RANK "
        "(or Slurm's), MASTER_ADDR and MASTER_PORT",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer run``."""
    parser.add_argument("names", metavar="RECIPE", nargs="+", help=NAMED)
    parser.add_argument(
        "--from",
        dest="first",
        metavar="STEP",
        help="begin with this step; it and the steps after it are done again, except a training",
    )
    parser.add_argument(
        "--until",
        dest="last",
        metavar="STEP",
        help="end with this step: prepare, start, train, average, generate or validate, score, record",
    )
    parser.add_argument(
        "--trained",
        action="store_true",
        help="keep the finished training in the folder, even if it was trained with other flags than those given now",
    )
    parser.add_argument(
        "--seeds", "--seed", nargs="+", type=int, default=[], action=Once, metavar="N",
        help="seeds of the training, one run for each (default: the recipe's)",
    )  # fmt: skip
    _add_folder(parser, "where the files of a single run go")
    parser.add_argument(
        "--record",
        type=output_file,
        metavar="FILE",
        help="where the record of a single run goes (default: record.json in its folder)",
    )
    parser.add_argument("--dry-run", action="store_true", help="check the flags, and print the commands only")
    _add_place(parser)
    parser.epilog = "Words after -- are passed on to fairseq-train. Several recipes or seeds end in a table."
    _call(parser, "runner", "run", *PLACE)


def add_grid(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer grid``."""
    parser.add_argument("name", metavar="RECIPE", help="of the task glue")
    parser.add_argument(
        "--values", nargs="+", action="append", default=[], metavar=("FLAG", "VALUE"),
        help="a flag of fairseq-train, without dashes, and its values; repeat for a grid (default: the recipe's)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", metavar="N", nargs="+", type=int, default=[], action=Once,
        help="the seeds of every point (default: the recipe's)",
    )  # fmt: skip
    parser.add_argument("--output", type=output_file, metavar="FILE", help="a JSON file for all scores")
    _add_place(parser)
    parser.epilog = "Words after -- are passed on to fairseq-train, in every run."
    _call(parser, "grid", "search", *PLACE)


def add_generate(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer generate``."""
    from .runner import generate

    _take_recipe(parser, generate, checkpoint={"metavar": "CHECKPOINT"}, output={"type": Path, "metavar": "DIR"})
    parser.epilog = "Words after -- are passed on to fairseq-generate."


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer recipe``."""
    actions = parser.add_subparsers(dest="action", required=True)
    listed = actions.add_parser("list", help="print the names of recipes, and what they are")
    listed.add_argument("prefix", nargs="?", default="", metavar="PREFIX", help="how their names begin (default: all)")
    listed.add_argument("--paper", action="store_true", help="only those that reproduce a row of a paper")
    checked = actions.add_parser(
        "check", help="read every recipe and its flags; the exit status says whether all are sound"
    )
    checked.add_argument(
        "files", nargs="*", metavar="FILE", help="files of recipes of your own, instead of this package's"
    )
    shown = actions.add_parser("show", help="print what a recipe is and the commands of its steps")
    shown.add_argument("name", metavar="RECIPE", help=NAMED)
    recipes.add_variant(shown)
    _add_folder(shown, "where the run's files go")
    shown.add_argument(
        "--devices", metavar="N", type=at_least(1), help="devices that train together (default: as many as the paper's)"
    )
    shown.add_argument("--precision", choices=recipes.PRECISIONS, help="(default: the paper's)")
    for sub, function in ((listed, "list_recipes"), (checked, "check"), (shown, "show")):
        _call(sub, "show", function)


def add_average(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer average``."""
    which = dict.fromkeys(("last_epochs", "last_updates", "best"))
    others = dict.fromkeys(inspect.signature(checkpoints.average).parameters.keys() - which.keys())
    take_arguments(parser.add_mutually_exclusive_group(required=True), checkpoints.average, **others)
    take_arguments(parser, checkpoints.average, "folder", **which)
    call(parser, checkpoints.average)


def add_resume(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer resume``."""
    take_arguments(parser, checkpoints.resume, "folder")
    call(parser, checkpoints.resume)


def add_check(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer check``."""
    take_arguments(parser, checkpoints.check, "paths", paths={"nargs": "+", "metavar": "CHECKPOINT"})
    call(parser, checkpoints.check)


def add_warm_start(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer warm-start``; what follows ``--`` are ``flags``."""
    parser.usage = "%(prog)s CHECKPOINT --arch ARCH --output FILE [options] [-- flags of fairseq-train]"
    more = {"checkpoint": {"metavar": "CHECKPOINT"}, "arch": {"metavar": "ARCH"}, "flags": None}
    take_arguments(parser, checkpoints.warm_start, "checkpoint", **more)
    call(parser, checkpoints.warm_start)


def add_record(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer record``."""
    _take_recipe(parser, recording.write_record)
