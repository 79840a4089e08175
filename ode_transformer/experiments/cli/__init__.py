"""The command ``ode-transformer``. Each sub-command is a module that is imported when it is called, and not before."""

import argparse
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ...errors import OdeTransformerError
from ...version import __version__
from ..runs.terminal import tidy


class Command(NamedTuple):
    """A sub-command: where it is, and what it does."""

    module: str  # relative to ode_transformer.experiments
    help: str
    arguments: str = "add_arguments"  # a function of the module: parser -> None
    run: str = "main"  # a function of the module: namespace -> exit status
    takes_flags: bool = False  # words after -- are flags of fairseq's own: namespace.flags


COMMANDS = {
    "path": Command(".cli.doctor", "print the folder to give to fairseq's --user-dir", run="path_main"),
    "prepare": Command(".runs.prepare", "make data and a recipe from your own parallel text"),
    "recipe": Command(".runs.recipe_command", "list, check and show recipes"),
    "run": Command(".runs.runner", "run recipes from data to a record; compare several in a table", takes_flags=True),
    "generate": Command(
        ".runs.runner",
        "translate with other checkpoints or flags than a recipe's",
        "add_generate_arguments",
        "generate_main",
        takes_flags=True,
    ),
    "quickstart": Command(".cli.quickstart", "train a small system on a generated corpus and show what it translates"),
    "translate": Command(".serving.translate", "translate raw text with a trained model"),
    "bundle": Command(".serving.bundle", "put a trained model and all that it needs to translate into a folder"),
    "doctor": Command(".cli.doctor", "print what is installed and found here, and what each unavailable feature lacks"),
    "average": Command(".cli.checkpoints", "average checkpoints", "add_average_arguments", "average_main"),
    "resume": Command(
        ".cli.checkpoints",
        "prepare a training folder for resuming, and print how many updates were done",
        "add_resume_arguments",
        "resume_main",
    ),
    "check": Command(
        ".cli.checkpoints",
        "check that checkpoints are intact, of a known architecture, and match the dictionaries of some data",
        "add_check_arguments",
        "check_main",
    ),
    "warm-start": Command(
        ".cli.checkpoints",
        "turn a Transformer's checkpoint into one of our architectures",
        "add_warm_start_arguments",
        "warm_start_main",
        takes_flags=True,
    ),
    "classify": Command(".tasks.command", "predict the class of each example of a test set", "add_classify_arguments"),
    "baseline": Command(
        ".tasks.command",
        "classify a test set by its first symbols, or by a linear model of them",
        "add_baseline_arguments",
    ),
    "choose": Command(
        ".tasks.command", "choose an option for each question of a test set, as RACE's", "add_choose_arguments"
    ),
    "score": Command(".metrics.command", "score translations, summaries, corrections or predictions"),
    "export": Command(".serving.export", "write a trained model for serving with CTranslate2 or ONNX"),
    "text": Command(".text.command", "tokenize, clean, segment and check parallel text"),
    "corpus": Command(".text.corpus", "write the generated German-English corpus"),
    "dataset": Command(".tasks.command", "read a published data set", "add_dataset_arguments"),
    "listops": Command(".tasks.command", "write generated ListOps expressions", "add_listops_arguments"),
    "documents": Command(".text.documents", "write plain text as documents for masked language models"),
    "glue": Command(".tasks.command", "prepare, validate, score and predict GLUE's tasks", "add_glue_arguments"),
    "grid": Command(".runs.grid", "train over a search space, and print medians and the best run", takes_flags=True),
    "squad": Command(
        ".tasks.command", "answer the questions of SQuAD with a trained model, and score answers", "add_squad_arguments"
    ),
    "bench": Command(".bench.command", "measure speed and memory, several systems in one run", takes_flags=True),
    "lab": Command(".lab", "measure orders of convergence, the grid of a flow, and steps inside trained models"),
    "plot": Command(".results.plots", "draw pictures"),
    "record": Command(".runs.records", "write the record of a finished run"),
    "table": Command(".results.tables", "print tables of measured results beside the papers' numbers"),
    "report": Command(".results.report", "write an HTML page of finished runs"),
    "compare": Command(".results.significance", "test whether systems differ from a baseline"),
    "gpu-suite": Command(".bench.gpu_suite", "run checks, the benchmark and trainings on a GPU", takes_flags=True),
}


MOVED = {("glue", "grid"): ["grid"]}
"""Words of commands that have another name now, and that name."""


class Intermixed(argparse.ArgumentParser):
    """A parser to which ``MODEL --cpu FILE`` is what ``MODEL FILE --cpu`` is, as users expect.

    In Python 3.11, argparse takes a list of files to be empty if an option follows the model, and then rejects the
    files.
    """

    _intermixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        """As in ``argparse``."""
        if self._intermixing or self._subparsers:  # argparse itself calls this; and sub-commands have parsers
            return super().parse_known_args(args, namespace)
        self._intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixing = False


def parser(chosen: str | None) -> argparse.ArgumentParser:
    """The command line, with the arguments of the chosen sub-command and the names of the others."""
    top = argparse.ArgumentParser(
        prog="ode-transformer",
        description="Recipes, checkpoints, scores and records of the ode_transformer plugin for fairseq.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Intermixed)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        if name == chosen:
            module = import_module(command.module, __package__.rpartition(".")[0])
            getattr(module, command.arguments)(sub)
            sub.set_defaults(run=getattr(module, command.run))
    return top


def call(words: Sequence[str]) -> int:
    """Run a command in this process; its exit status. Errors are raised."""
    # The shell leaves ~ as it is in --option=~/FILE and in quotation marks; a folder of that name is ./~.
    words, flags = [re.sub(r"^(--[\w-]+=)?(~(?=/|$).*)", _at_home, word) for word in words], []
    words = MOVED.get(tuple(words[:2]), words[:2]) + words[2:]
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen in COMMANDS and COMMANDS[chosen].takes_flags and "--" in words:
        words, flags = words[: words.index("--")], words[words.index("--") + 1 :]
    args = parser(chosen).parse_args(words, argparse.Namespace(flags=flags))
    return args.run(args)


def _at_home(found: re.Match) -> str:
    """A word with the user's folder in place of ``~``."""
    return (found[1] or "") + os.path.expanduser(found[2])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 1 after an ``OdeTransformerError`` or an ``OSError``."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As every file that is read or written, whatever the locale; names of files may be of any bytes.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        with tidy():
            status = call(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OdeTransformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a file that is not there, a folder that is not the user's, a full disk
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        print(f"error: {f'{names}: {error.strerror}' if names else error}", file=sys.stderr)
        return 1
