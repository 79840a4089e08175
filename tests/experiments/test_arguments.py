"""Types of command-line arguments, and the commands that have them."""

import pytest

from tests.helpers import refused


@pytest.mark.parametrize(
    ("words", "option", "value", "least"),
    [
        (["run", "quickstart/rk2-tiny"], "--devices", "0", 1),
        (["recipe", "show", "quickstart/rk2-tiny"], "--devices", "two", 1),
        (["translate", "x", "y"], "--buffer", "0", 1),
        (["compare", "a", "b"], "--samples", "0", 1),
        (["report", "x"], "--sentences", "-1", 0),
        (["score", "--summaries", "x", "--ref", "y", "--source", "z"], "--lead", "-1", 1),
        (["listops", "x"], "--train", "0.5", 1),
        (["prepare", "--train", "x", "--langs", "de", "en", "--out", "y"], "--size", "0", 1),
    ],
)
def test_numbers_that_are_too_small_or_no_numbers_are_named(words, option, value, least, capsys):
    refused([*words, option, value], f"{option}.*: {value}: must be a whole number, {least} or more", capsys)
