"""Types of command-line arguments."""

import argparse
from collections.abc import Callable
from functools import partial


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
