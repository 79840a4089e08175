"""The arguments of the commands for recipes, runs, their checkpoints and records."""

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import recipes
from ..arguments import Once, add_function, add_parameters, at_least
from . import checkpoint_commands, recording, training

RUN_DIR = {"type": str}  # not Path, for which an empty one, the default, would be the current folder
SEEDS = {"type": int, "nargs": "+", "default": [], "action": Once, "metavar": "N"}


def _add_recipe_function(parser: argparse.ArgumentParser, function: Callable, **more: Any) -> None:
    """Let a command call a function of one recipe, with arguments for its parameters."""
    more = {"name": {"metavar": "RECIPE"}, "scale": None, "seed": None, "flags": None, "run_dir": RUN_DIR} | more
    add_function(parser, function, "name", **more)
    recipes.add_run_options(parser)


def add_runs_function(parser: argparse.ArgumentParser, function: Callable, first: str, /, **more: Any) -> None:
    """Let a command call a function that trains runs, with the options of :func:`.training.place_here`."""
    scale = {"type": str.lower, "choices": recipes.SCALES}
    usual = {"scale": scale, "seeds": SEEDS, "flags": None, "place": None, "after": None, "run_dir": RUN_DIR}
    passed = ("devices", "cpu", "precision", "torchrun")
    add_function(parser, function, first, passed=passed, **usual | more)
    others = dict.fromkeys(("recipe", "trains", "jobs", "precision", "flags", "dry_run"))
    add_parameters(parser, training.place_here, **others)
    precisions = parser.add_mutually_exclusive_group()
    for name in recipes.PRECISIONS:
        help_ = f"train in {name}" + " (default: the recipe's precision on GPUs, fp32 on a CPU)" * (name == "fp32")
        precisions.add_argument(f"--{name}", dest="precision", action="store_const", const=name, help=help_)


def add_quickstart(parser: argparse.ArgumentParser) -> None:
    """``ode-transformer quickstart`` has no arguments."""
    from .quickstart import quickstart

    add_function(parser, quickstart)


def add_prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer prepare``."""
    from ..text.dividing import HELD_OUT, PART
    from ..text.preparation import SIZES
    from ..text.subwords import SEGMENTATIONS
    from .prepare import TOKENISERS, OwnText

    several = {"nargs": "+", "action": Once, "metavar": "PREFIX"}
    held = f"pairs to hold out for each set that is not given (default: 1 in {PART}, at most {HELD_OUT:,})"
    most = ", ".join(f"{size:,}" for _, size in SIZES)
    add_function(
        parser, OwnText, show=lambda args, text: text.prepare(), train=several, test=several | {"default": []},
        valid={"metavar": "PREFIX"}, langs={"nargs": 2, "metavar": ("SOURCE", "TARGET")}, out={"metavar": "DIR"},
        recipe={"metavar": "FILE"}, hold_out={"help": held},
        tokeniser={"option": ["--tokenizer", "--tokeniser"], "choices": TOKENISERS},
        normalise={"option": ["--normalize", "--normalise"]}, bpe={"choices": SEGMENTATIONS},
        size={"help": f"merges of BPE, or vocabulary size of SentencePiece (default: {most}, by the size of the text)"},
        max_ratio={"type": at_least(1, float), "metavar": "R"},
    )  # fmt: skip


def add_grid(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer grid``."""
    from .grid import search

    values = {"nargs": "+", "action": "append", "default": [], "metavar": ("FLAG", "VALUE")}
    add_runs_function(parser, search, "name", name={"metavar": "RECIPE"}, values=values)
    parser.epilog = "Words after -- are passed on to fairseq-train, in every run."


def add_generate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer generate``."""
    from .runner import generate

    _add_recipe_function(
        parser, generate, checkpoint={"metavar": "CHECKPOINT"}, output={"type": Path, "metavar": "DIR"}
    )
    parser.epilog = "Words after -- are passed on to fairseq-generate."


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer recipe``."""
    from . import show

    actions = parser.add_subparsers(dest="action", required=True)
    listed = actions.add_parser("list", help="print the names and descriptions of recipes")
    add_function(listed, show.list_recipes, "prefix", prefix={"nargs": "?", "metavar": "PREFIX"})
    checked = actions.add_parser("check", help="check recipes and their flags; exit status 1 if one is not valid")
    add_function(checked, show.check, "files", files={"nargs": "*", "metavar": "FILE"})
    shown = actions.add_parser("show", help="print a recipe's description, its paper's numbers and its commands")
    _add_recipe_function(shown, show.show)


def add_average(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer average``."""
    which = dict.fromkeys(("last_epochs", "last_updates", "best"))
    others = dict.fromkeys(inspect.signature(checkpoint_commands.average).parameters.keys() - which.keys())
    add_parameters(parser.add_mutually_exclusive_group(required=True), checkpoint_commands.average, **others)
    add_function(parser, checkpoint_commands.average, "folder", **which)


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer resume``."""
    add_function(parser, checkpoint_commands.resume, "folder")


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer check``."""
    add_function(parser, checkpoint_commands.check, "paths", paths={"nargs": "+", "metavar": "CHECKPOINT"})


def add_warm_start(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer warm-start``; the words after ``--`` are ``flags``."""
    parser.usage = "%(prog)s CHECKPOINT --arch ARCH --output FILE [options] [-- flags of fairseq-train]"
    more = {"checkpoint": {"metavar": "CHECKPOINT"}, "arch": {"metavar": "ARCH"}, "flags": None}
    add_function(parser, checkpoint_commands.warm_start, "checkpoint", **more)


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer record``."""
    _add_recipe_function(parser, recording.write_record)
