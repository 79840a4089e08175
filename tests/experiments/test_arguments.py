"""Types of command-line arguments, and the commands that have them."""

import subprocess

import pytest

from ode_transformer.experiments import cli
from tests.helpers import refused


@pytest.mark.parametrize(
    ("words", "option", "value", "least"),
    [
        (["run", "quickstart/rk2-tiny"], "--devices", "0", 1),
        (["recipe", "show", "quickstart/rk2-tiny"], "--devices", "two", 1),
        (["translate", "x", "y"], "--buffer", "0", 1),
        (["report", "x"], "--sentences", "-1", 0),
    ],
)
def test_numbers_that_are_too_small_or_no_numbers_are_named(words, option, value, least, capsys):
    refused([*words, option, value], f"{option}.*: {value}: must be a whole number, {least} or more", capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tabel"], "COMMAND tabel: is unknown; the nearest is table$"),
        (["run", "x", "--devicse", "2"], "--devicse: is unknown; the nearest is --devices$"),
        (["run", "x", "--scale", "tiny"], "--scale tiny: must be one of full, small$"),
        (["recipe", "shwo"], "action shwo: is unknown; the nearest is show$"),
        # An old name, of grid.
        (["glue", "grid", "x", "--seedz", "1"], "--seedz: is unknown; the nearest is --seeds$"),
    ],
)
def test_a_typing_error_is_answered_with_what_is_nearest(words, message, capsys):
    refused(words, message, capsys)


def test_every_command_is_in_the_help_and_in_the_completion(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    described = [name for name in cli.COMMANDS if f"\n  {name} " in shown and cli.COMMANDS[name].help in shown]
    last = shown.partition("called by recipes and scripts")[2].replace(",", "").split()
    assert described == [name for name in cli.COMMANDS if cli.COMMANDS[name].group] and last == [
        name for name in cli.COMMANDS if not cli.COMMANDS[name].group
    ]
    assert cli.main(["completion"]) == 0
    script = capsys.readouterr().out
    assert f'words="{" ".join(cli.COMMANDS)}"' in script
    of_run = "ode-transformer() { echo '--cpu --fp16 --bf16'; }"  # instead of its help
    for words, found in (("ta", ["table"]), ("grid --f", ["--fp16"])):
        complete = f"{script}\n{of_run}\nCOMP_WORDS=(ode-transformer {words}); COMP_CWORD={len(words.split())}"
        complete += "; _ode_transformer; echo ${COMPREPLY[@]}"
        assert subprocess.run(["bash", "-c", complete], capture_output=True, text=True).stdout.split() == found
