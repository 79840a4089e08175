"""Types, actions and errors of command-line arguments."""

import argparse
import difflib
import inspect
import math
import os
import re
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from ..errors import OdeTransformerError


class Once(argparse.Action):
    """An option that may be given once only; argparse would silently read the last value."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Optional[str] = None
    ) -> None:
        """Store the value, or refuse a second one."""
        if getattr(namespace, self.dest) is not self.default:
            all_ = ", with all its values" if self.nargs == "+" else ""
            raise OdeTransformerError(f"{option}: must be given once{all_}, is given twice")
        setattr(namespace, self.dest, values)


def at_least(least: float, kind: type = int) -> Callable[[str], Any]:
    """Return the argument type of whole numbers, or finite ones, of ``least`` or more; argparse names the option."""

    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            name = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text}: must be {name}, {least} or more")
        return value

    return number


def add_text_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the arguments of commands whose models read text; :func:`texts_of` reads them."""
    parser.add_argument(
        "--text", metavar="FILE", required=required,
        help="tokenized and segmented text that the models read, one sentence per line (translation: the source)",
    )  # fmt: skip
    parser.add_argument(
        "--dictionary", metavar="FILE", required=required,
        help="dictionary of --text, such as data-bin/NAME/dict.en.txt",
    )  # fmt: skip
    parser.add_argument(
        "--target", nargs=2, metavar=("TEXT", "DICTIONARY"),
        help="for translation models: the target text, tokenized and segmented, and its dictionary; without it only "
        "the encoder is measured",
    )  # fmt: skip
    more = {"metavar": "N", "type": at_least(1), "default": 64}
    parser.add_argument("--sentences", help="number of sentences to read (default: %(default)s)", **more)


def texts_of(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the texts that the models read, each with its dictionary."""
    return [(args.text, args.dictionary), *([tuple(args.target)] if args.target else [])]


def output_file(text: str) -> Path:
    """The argument type of an output file, which checks before the work whether it can be written."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: is a folder, must be a file")
    if not path.exists() or path.is_file():
        above = next(folder for folder in Path(os.path.realpath(path)).parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise argparse.ArgumentTypeError(f"{text}: cannot be written, {above} is no folder to write in")
    return path


def new_folder(text: str) -> Path:
    """The argument type of an output folder, which must be new or empty, so that no file is overwritten."""
    path = Path(text)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise argparse.ArgumentTypeError(f"{text}: already exists, must be a new or an empty folder")
    return path


def check_outputs(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse an output file of a command that is also one of its inputs, by an ``OdeTransformerError``."""
    given = {action: getattr(args, action.dest, None) for action in parser._actions}
    read = [value for action, value in given.items() if action.type is not output_file]
    for action, value in given.items():
        if action.type is output_file and value is not None and value.is_file() and _names(value, read):
            raise OdeTransformerError(f"{action.option_strings[-1]} {value}: is also an input; must be another file")


def _names(file: Path, values: Any) -> bool:
    """Whether a value, or one within nested lists, is a path to the file."""
    if isinstance(values, (list, tuple)):
        return any(_names(file, value) for value in values)
    return isinstance(values, (str, Path)) and os.path.isfile(values) and file.samefile(values)


def subparser(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the sub-command that words name, or the given parser if they name none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            first = next((i for i, word in enumerate(words) if not word.startswith("-")), -1)
            its = action.choices.get(words[first]) if first >= 0 else None
            return subparser(its, words[first + 1 :]) if its else parser
    return parser


def short_message(message: str, parser: argparse.ArgumentParser) -> str:
    """Return an error message of argparse, and of a sub-command's parser, with the nearest valid values only."""
    if found := re.match(r"argument (\S+?)(?:/\S+)?: invalid choice: '(.*?)'", message):
        option, value = found.groups()
        of_option = (a for a in parser._actions if option in (*a.option_strings, a.metavar, a.dest))
        return f"{option} {value}: {nearest(value, [str(v) for a in of_option for v in a.choices or ()])}"
    if found := re.match("unrecognized arguments: (.*)", message):
        unknown = [word.partition("=")[0] for word in found[1].split() if word.startswith("-")]
        known = [option for a in parser._actions for option in a.option_strings if option not in unknown]
        return "; ".join(f"{flag}: {nearest(flag, known)}" for flag in unknown) or message
    return message


def nearest(value: str, valid: Sequence[str], few: int = 12) -> str:
    """Return the end of an error message about an unknown value: the nearest valid ones, or all if they are few."""
    near = list(dict.fromkeys(difflib.get_close_matches(value, valid, 6)))[:3]
    if near:
        return f"is unknown; the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}"
    return f"must be one of {', '.join(valid)}" if 0 < len(valid) <= few else "is unknown"


METAVARS = {"output": "FILE", "output_dir": "DIR", "run_dir": "DIR", "data": "DIR", "target_lang": "LANG"}
"""The metavars of parameters that several commands have."""


def add_parameters(parser: argparse.ArgumentParser, function: Callable[..., Any], *first: str, **more: Any) -> None:
    """Add the parameters of a function to a parser: names, types, defaults, and help from the Args of its docstring.

    Whole numbers must be 1 or more. ``output`` must be a file that can be written, ``output_dir`` new or empty.

    Args:
        parser, function: the parser, and the function or class.
        first: the names of positional parameters.
        more: by parameter, further options of ``add_argument``, with the flags under ``option`` if they differ from the
            parameter's name; or None, for no argument.
    """
    about = _described(getattr(function, "func", function))
    for name, parameter in inspect.signature(function).parameters.items():
        if (own := more.get(name, {})) is None:
            continue
        kinds, default = {parameter.annotation, *typing.get_args(parameter.annotation)}, parameter.default
        options: dict[str, Any] = {"help": about.get(name, "").replace("%", "%%")} | own
        names = options.pop("option", [f"--{name.replace('_', '-')}"])
        if bool in kinds:
            options["action"] = "store_true"
        else:
            kind = next((one for one in (Path, float, int) if one in kinds), str)
            metavar = METAVARS.get(name) or {Path: "PATH", float: "X", int: "N"}.get(kind, "NAME")
            its = {"output": output_file, "output_dir": new_folder}.get(name, at_least(1) if kind is int else kind)
            options = {"type": its} | options
            options |= {} if "choices" in options or "metavar" in options else {"metavar": metavar}
            if default not in (parameter.empty, None) and "default" not in options:
                options["default"] = default
            if (shown := options.get("default")) and isinstance(shown, (str, int, float)):
                options["help"] += " (default: %(default)s)"
        if name not in first:
            required = default is parameter.empty and "default" not in options and bool not in kinds
            options = {"required": required, "dest": name} | options
        parser.add_argument(*([name] if name in first else names), **options)


def _described(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions in the Args section of a function's docstring, by parameter."""
    found: dict[str, str] = {}
    block = re.search(r"^Args:\n((?: .*\n|\n(?= ))*)", f"{inspect.getdoc(function)}\n", re.M)
    for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", block[1] if block else "", re.M):
        found |= dict.fromkeys(names.split(", "), " ".join(text.replace("``", "`").rstrip(".").split()))
    return found


def add_function(
    parser: argparse.ArgumentParser,
    function: Callable[..., Any],
    *first: str,
    show: Callable[[argparse.Namespace, Any], Any] = lambda args, found: None,
    passed: Sequence[str] = (),
    **more: Any,
) -> None:
    """Let a command call a function with arguments for its parameters, as :func:`add_parameters` makes them.

    ``show`` takes all arguments and the result, and returns the command's exit status; ``passed`` are the names of
    further arguments that the function takes.
    """
    add_parameters(parser, function, *first, **more)
    names = {*inspect.signature(function).parameters, *passed}
    parser.set_defaults(
        run=lambda args: show(args, function(**{name: value for name, value in vars(args).items() if name in names}))
    )


def add_command(
    commands: Any, name: str, function: Callable[..., Any], *first: str, about: str = "", **more: Any
) -> argparse.ArgumentParser:
    """Add a sub-command that calls a function, as :func:`add_function` does, and return its parser.

    Its help is ``about``, by default the first paragraph of the function's docstring.
    """
    about = about or (inspect.getdoc(function) or "").partition("\n\n")[0]
    parser = commands.add_parser(name, help=about, description=about)
    add_function(parser, function, *first, **more)
    return parser
