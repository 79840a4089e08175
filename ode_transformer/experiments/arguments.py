"""Types, actions and errors of command-line arguments."""

import argparse
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Optional

from ..errors import OdeTransformerError


class Once(argparse.Action):
    """An option with a value that is refused where it is given twice, of which argparse would read the last alone."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Optional[str] = None
    ) -> None:
        """Store the value.

        Raises:
            OdeTransformerError: there is one already.
        """
        if getattr(namespace, self.dest) is not self.default:
            all_ = ", with all its values" if self.nargs == "+" else ""
            raise OdeTransformerError(f"{option}: must be given once{all_}, is given twice")
        setattr(namespace, self.dest, values)


def at_least(least: int) -> Callable[[str], int]:
    """The type of a whole number that must not be less than ``least``; argparse names the option in the error."""
    return partial(_whole_number, least)


def _whole_number(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, {least} or more")
    return value


def add_text_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The arguments of commands whose models read text, which ``texts_of`` reads."""
    parser.add_argument(
        "--text", metavar="FILE", required=required,
        help="what the models read: prepared sentences, one per line, for an encoder-decoder those of the source",
    )  # fmt: skip
    parser.add_argument(
        "--dictionary", metavar="FILE", required=required, help="its dictionary, such as data-bin/NAME/dict.en.txt"
    )
    parser.add_argument(
        "--target", nargs=2, metavar=("TEXT", "DICTIONARY"),
        help="for encoder-decoders: the translations, prepared, and their dictionary; without them only the encoder is "
        "observed",
    )  # fmt: skip
    parser.add_argument(
        "--sentences",
        metavar="N",
        type=at_least(1),
        default=64,
        help="number of sentences to read (default: %(default)s)",
    )


def texts_of(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The texts that the models read, each with its dictionary."""
    return [(args.text, args.dictionary), *([tuple(args.target)] if args.target else [])]


def plain_message(message: str, parser: argparse.ArgumentParser) -> str:
    """Return an error of argparse's with the nearest of what is valid in place of all of it.

    Args:
        message: what argparse says.
        parser: of the command, with the parsers of its sub-commands.
    """
    actions = list(_actions(parser))
    if found := re.match(r"argument (\S+?)(?:/\S+)?: invalid choice: '(.*?)'", message):
        option, value = found.groups()
        valid = [str(v) for a in actions if option in (*a.option_strings, a.metavar, a.dest) for v in a.choices or ()]
        return f"{option} {value}: {_nearest(value, valid)}"
    if found := re.match("unrecognized arguments: (.*)", message):
        unknown = [word.partition("=")[0] for word in found[1].split() if word.startswith("-")]
        known = [option for action in actions for option in action.option_strings if option not in unknown]
        return "; ".join(f"{flag}: {_nearest(flag, known)}" for flag in unknown) or message
    return message


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _nearest(value: str, valid: Sequence[str]) -> str:
    near = list(dict.fromkeys(difflib.get_close_matches(value, valid, 6)))[:3]
    if near:
        return f"is unknown; the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}"
    return f"must be one of {', '.join(valid)}" if 0 < len(valid) <= 12 else "is unknown"
