"""The command ``ode-transformer``. The module of a sub-command is imported when that is called, and not before."""

import argparse
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, NoReturn

from ... import plugins
from ...errors import OdeTransformerError, visible
from ...quiet import tidy
from ...version import __version__
from ..arguments import check_outputs, short_message, subparser


class Command(NamedTuple):
    """A sub-command. The function ``add_NAME`` of its module adds its arguments, and ``main`` runs it unless those do.

    The latter returns the exit status, or None for success.
    """

    module: str  # relative to ode_transformer.experiments
    help: str
    takes_flags: bool = False  # words after -- are flags of fairseq's own: namespace.flags


GROUPS = {
    "use: train on your own text, translate, serve": {
        "quickstart": Command(".runs.command", "train a small system on a generated corpus and show its translations"),
        "prepare": Command(".runs.command", "make data and a recipe from your own parallel text"),
        "translate": Command(".serving.command", "translate raw text with a trained model"),
        "bundle": Command(".serving.command", "pack a trained model and all that translating needs into one folder"),
        "export": Command(".serving.command", "write a trained model for serving with CTranslate2 or ONNX"),
        "doctor": Command(".cli.doctor", "print what is installed, and what missing packages are for"),
    },
    "reproduce: recipes, from data to tables": {
        "recipe": Command(".runs.command", "list, check and show recipes"),
        "run": Command(".results.command", "carry out recipes, from data to a record; several end in a table", True),
        "grid": Command(".runs.command", "train a GLUE recipe at every point of a grid of hyperparameters", True),
        "generate": Command(".runs.command", "translate a recipe's test sets with another checkpoint or flags", True),
        "predict": Command(".tasks.command", "predict the label of each example: a class, number or option"),
        "glue": Command(".tasks.command", "write the files for GLUE's evaluation server"),
        "baseline": Command(".tasks.command", "classify by the first symbols, or by a linear model of them"),
        "score": Command(".metrics.command", "score translations, summaries, corrections or predictions"),
        "table": Command(".results.command", "print tables of measured results beside the papers' numbers"),
        "compare": Command(".results.command", "test whether systems differ from a baseline"),
        "report": Command(".results.command", "write a report on finished runs, one page of HTML"),
    },
    "data: text and published data sets": {
        "dataset": Command(".tasks.command", "write published and generated data sets as text files, for data-prep"),
        "text": Command(".text.command", "prepare parallel text, and describe data made by fairseq-preprocess"),
    },
    "study: measure and look inside": {
        "bench": Command(".bench.command", "measure speed and memory of several systems in turns", True),
        "lab": Command(".lab.command", "measure orders of convergence, and steps of trained models as solutions"),
        "plot": Command(".results.command", "draw figures from records, logs and models"),
    },
    "develop: checkpoints, shell": {
        "path": Command(".cli.doctor", "print the folder to give to fairseq's --user-dir"),
        "average": Command(".runs.command", "average the weights of checkpoints"),
        "resume": Command(".runs.command", "prepare a folder for resuming, and print how many updates were done"),
        "warm-start": Command(".runs.command", "turn a trained Transformer into one of our architectures", True),
        "completion": Command(".cli.completion", "print a script for tab completion in bash or zsh"),
    },
    "called by recipes and scripts": {  # which the help names and does not describe
        "check": Command(".runs.command", "check that checkpoints are intact and match the dictionaries of data"),
        "record": Command(".runs.command", "write the record of a finished run"),
        "squad": Command(".tasks.command", "answer SQuAD's questions with a trained model, and score answers"),
        "gpu-suite": Command(".bench.command", "run the GPU checks, the GPU benchmark and trainings"),
    },
}
"""The commands by the groups of the help."""
COMMANDS = {name: command for its in GROUPS.values() for name, command in its.items()}

MOVED = {
    "glue grid": "grid",
    "glue prepare": "dataset glue",
    "glue predict": "glue",
    "glue validate": "predict --subset valid",
    "glue score": "score",
    **dict.fromkeys(("classify", "choose"), "predict"),
    **{name: f"dataset {name}" for name in ("corpus", "listops", "documents")},
    **{f"text {name}ise": f"text {name}ize" for name in ("binar", "unbinar")},
}
"""The new names of commands, whose old names work for one more version."""


class Parser(argparse.ArgumentParser):
    """A parser of options and positional arguments in any order, whose errors name the nearest valid values.

    Users expect ``MODEL --cpu FILE`` to be the same as ``MODEL FILE --cpu``. In Python 3.11, argparse takes a list of
    files to be empty if an option follows the model, and then rejects the files.
    """

    _intermixing = False
    words: Sequence[str] = ()  # the words to parse
    takes_flags = False  # words after -- are flags of fairseq's own

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        """Parse words as ``argparse`` does, in any order."""
        self.words = args or ()
        if self._intermixing or self._subparsers:  # a call by argparse itself; sub-commands have parsers
            return super().parse_known_args(args, namespace)
        self._intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixing = False

    def error(self, message: str) -> NoReturn:
        """Print an error message of argparse, with the nearest valid values instead of all of them, and exit."""
        its = subparser(self, self.words)
        said = short_message(message, its)
        if its.takes_flags and re.match("unrecognized arguments: .*--", message):
            said += "; flags of fairseq come after --"
        super(Parser, its).error(said)


def parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with arguments for the chosen sub-command only."""
    top = Parser(
        prog="ode-transformer",
        description="Recipes, checkpoints, scores and records of the ode_transformer plugin for fairseq.",
        epilog=_grouped(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=__version__)
    _add_user_dir(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", help="one of the commands below")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, description=command.help)
        sub.takes_flags = command.takes_flags
        _add_user_dir(sub, default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # ``call`` has read it
        if name == chosen:
            module = import_module(command.module, __package__.rpartition(".")[0])
            getattr(module, f"add_{name.replace('-', '_')}")(sub)
            if not sub.get_default("run"):
                sub.set_defaults(run=getattr(module, "main", None))
    return top


def _grouped() -> str:
    """Return the commands by group, as the help shows them."""
    lines = []
    for title, its in GROUPS.items():
        if ":" in title:
            lines += [title, *(f"  {name:<12}{command.help}" for name, command in its.items()), ""]
        else:
            lines += [title, *textwrap.wrap(", ".join(its), 76, initial_indent="  ", subsequent_indent="  ")]
    return "\n".join(lines)


def call(words: Sequence[str]) -> int:
    """Run a command in this process and return its exit status. Errors are raised."""
    home, flags = os.path.expanduser("~"), []
    # The shell leaves ~ as it is in --option=~/FILE and in quotation marks; a folder of that name is ./~.
    words = [re.sub(r"^(--[\w-]+=)?~(?=/|$)", lambda found: (found[1] or "") + home, word) for word in words]
    user_dir, words = _user_dir(words)
    words = [*words[1:], "--help"] if words[:1] == ["help"] else words
    for old, new in MOVED.items():
        if words[: len(old.split())] == old.split():
            words = [*new.split(), *words[len(old.split()) :]]
            break
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen in COMMANDS and COMMANDS[chosen].takes_flags and "--" in words:
        words, flags = words[: words.index("--")], words[words.index("--") + 1 :]
    with plugins.using(user_dir):
        plugins.load_installed()
        its = parser(chosen)
        args = its.parse_args(words, argparse.Namespace(flags=flags))
        check_outputs(subparser(its, words), args)
        return args.run(args) or 0


def _user_dir(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the value of ``--user-dir``, wherever it stands, and the other words."""
    end = words.index("--") if "--" in words else len(words)
    reader = argparse.ArgumentParser(prog="ode-transformer", add_help=False, allow_abbrev=False)
    _add_user_dir(reader)
    given, rest = reader.parse_known_args(words[:end])
    return given.user_dir, [*rest, *words[end:]]


def _add_user_dir(parser: argparse.ArgumentParser, **more: Any) -> None:
    about = {"help": "folder of your own plugin, which is imported before the command runs"}
    parser.add_argument("--user-dir", metavar="DIR", **about | more)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    It is 1 after an ``OdeTransformerError`` or an ``OSError``, and 128 plus the signal's number after an interrupt or a
    broken pipe.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # UTF-8, as in all files, whatever the locale; file names may hold any bytes.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        if argv is None:  # emptied, for fairseq's parsers look for --user-dir there, relative to another folder
            argv, sys.argv[1:] = sys.argv[1:], []
        with tidy():
            status = call(argv)
        if sys.stdout is not None:  # None if the caller has closed it
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OdeTransformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except UnicodeEncodeError as error:  # a file name that is to be written to a file
        shown = error.object[max(0, error.start - 20) : error.end + 20]
        print(f"error: {shown!r}: the name of a file must be UTF-8; rename the file", file=sys.stderr)
        return 1
    except OSError as error:  # a missing file, a folder of another user, a full disk
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"error: {visible(said)}", file=sys.stderr)
        return 1
    except (ImportError, ValueError) as failed:  # as fairseq raises where it is missing or too old
        from ...requirements import check_requirements

        # A machine that only serves needs neither; None is the name in check_requirements' own error.
        if find_spec("fairseq") is None and getattr(failed, "name", "") not in (None, "torch", "fairseq"):
            raise
        try:
            check_requirements()
        except ImportError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        raise
