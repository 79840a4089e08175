"""The command ``ode-transformer``. Each sub-command is a module that is imported when it is called, and not before."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from ..errors import OdeTransformerError
from ..version import __version__


class Command(NamedTuple):
    """A sub-command: where it is, and what it does."""

    module: str  # relative to this package
    help: str
    arguments: str = "add_arguments"  # a function of the module: parser -> None
    run: str = "main"  # a function of the module: namespace -> exit status
    takes_flags: bool = False  # words after -- are flags of fairseq's own: namespace.flags


COMMANDS = {
    "path": Command(".locate", "print the folder to give to fairseq's --user-dir"),
    "recipe": Command(".recipes", "list, check and show recipes"),
    "run": Command(".runner", "run recipes, from data to a record; several end in a table", takes_flags=True),
    "generate": Command(
        ".runner",
        "translate with other checkpoints or flags than a recipe's",
        "add_generate_arguments",
        "generate_main",
        takes_flags=True,
    ),
    "quickstart": Command(".quickstart", "train a small system on a generated corpus and show what it translates"),
    "average": Command(".folders", "average checkpoints", "add_average_arguments", "average_main"),
    "resume": Command(
        ".folders",
        "make a training folder fit to go on from and print how many updates it has behind it",
        "add_resume_arguments",
        "resume_main",
    ),
    "check": Command(
        ".folders",
        "check that checkpoints are whole, of a known architecture, and of the dictionaries of some data",
        "add_check_arguments",
        "check_main",
    ),
    "warm-start": Command(
        "..warm_start", "turn a Transformer's checkpoint into one of ours that goes on from there", takes_flags=True
    ),
    "score": Command(".metrics.translations", "score translations, or read the score of a validation"),
    "export": Command(".export.command", "write a trained model for serving with CTranslate2 or ONNX"),
    "text": Command(".text", "tokenise, clean, segment and check parallel text"),
    "corpus": Command(".corpus", "write the generated German-English corpus"),
    "listops": Command(".listops", "write generated ListOps expressions"),
    "bench": Command(".bench", "measure speed and memory, several systems in one run", takes_flags=True),
    "lab": Command(".lab", "measure orders of convergence, and steps inside trained models"),
    "plot": Command(".plots", "draw pictures"),
    "record": Command(".records", "write the record of a finished run"),
    "where": Command(".records", "print hardware and versions", "add_where_arguments", "where_main"),
    "table": Command(".tables", "set what was measured beside what the papers print"),
    "compare": Command(".significance", "test whether systems differ from a baseline"),
    "rehearsal": Command(".rehearsal", "rehearse recipes on a CPU, and summarise what came of it"),
    "gpu-suite": Command(
        ".gpu_suite", "what only a GPU can show: checks, the benchmark, real training", takes_flags=True
    ),
    "hydra": Command(".hydra_presets", "write the architectures as presets for fairseq-hydra-train"),
    "curve": Command(".records", "write the curve of a training without a recipe", "add_curve_arguments", "curve_main"),
}


def parser(chosen: str | None) -> argparse.ArgumentParser:
    """The command line, with the arguments of the chosen sub-command and the names of the others."""
    top = argparse.ArgumentParser(
        prog="ode-transformer",
        description="Recipes, checkpoints, scores and records of the ode_transformer plugin for fairseq.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        if name == chosen:
            module = import_module(command.module, __package__)
            getattr(module, command.arguments)(sub)
            sub.set_defaults(run=getattr(module, command.run))
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 1 after a named error."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    flags: list[str] = []
    if chosen in COMMANDS and COMMANDS[chosen].takes_flags and "--" in words:
        words, flags = words[: words.index("--")], words[words.index("--") + 1 :]
    try:
        args = parser(chosen).parse_args(words, argparse.Namespace(flags=flags))
        status = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OdeTransformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
