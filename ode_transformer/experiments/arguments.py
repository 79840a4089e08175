"""Types and actions of command-line arguments."""

import argparse
from collections.abc import Callable
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
