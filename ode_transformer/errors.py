"""Messages, and the base class of errors that a user's input causes; ``numerics`` raises a plain ``ValueError``."""

import re
import sys
from pathlib import Path
from types import TracebackType

from .paths import INSTALLED


class OdeTransformerError(ValueError):
    """An error that the user can correct: the message names the option or file, its value, and what is valid.

    The command ``ode-transformer`` prints such an error without its traceback, and so do fairseq's commands. The former
    prints the system's errors about files in the same way. Anything else is a defect and keeps its traceback.
    """

    def __str__(self) -> str:
        return visible(super().__str__())


def visible(text: str) -> str:
    """Return a text in which control characters, which a terminal would obey, are escape sequences of Python."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)


def print_sentence(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that ends one of fairseq's commands, an ``OdeTransformerError`` without its traceback.

    Where a checkpoint does not fit, fairseq replaces the error by a plain ``Exception`` that names the checkpoint. If
    fairseq trains in one process per GPU, PyTorch passes on only the text of one process's error.
    """
    spawned = re.search(r"^ode_transformer\.\S+: (.+)", str(error), re.M)
    if spawned and kind.__name__ == "ProcessRaisedException":
        error = OdeTransformerError(spawned[1])
    reason = error.__context__ if kind is Exception else None
    if isinstance(error, OdeTransformerError) or isinstance(reason, OdeTransformerError):
        print(f"{Path(sys.argv[0]).name}: error: {error}{f' {reason}' if reason else ''}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package, for a clone or for a wheel."""
    if INSTALLED:
        return f"pip install 'ode-transformer[{extra}]'"
    return f"in the clone, pip install -c constraints.txt --no-build-isolation -e '.[{extra}]'"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun as a part of a message, such as ``1 pair`` or ``2,000 pairs``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
