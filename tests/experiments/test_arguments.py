"""Types of command-line arguments, and the commands that have them."""

import argparse
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ode_transformer.experiments import arguments, cli
from tests.helpers import refused

TAKING = (".metrics.command", ".runs.command", ".tasks.command", ".text.command")
"""Where commands have the arguments of the functions that they call."""


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
        (
            ["dataset", "aeslc", "x", "--output-dir", "y", "--articles=8"],
            "--articles: must be one of .*, --output-dir$",
        ),
        # An old name, of grid.
        (["glue", "grid", "x", "--seedz", "1"], "--seedz: is unknown; the nearest is --seeds$"),
    ],
)
def test_a_typing_error_is_answered_with_what_is_nearest(words, message, capsys):
    refused(words, message, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid", "x", "--output", "{}"], "--output: {}: is a folder, must be a file$"),
        (["report", "{}", "--output", "{}"], "--output: {}: is a folder, must be a file$"),
        (["run", "x", "--record", "{}/text/record.json"], "--record: .*: cannot be written, {}/text is no folder to"),
        (["score", "--hyp", "{}/text", "--output", "{}/text"], "^error: --output {}/text: is read as well, must be"),
        (["compare", "x", "{}/text", "--ref", "y", "--output", "{}/text"], "--output {}/text: is read as well"),
        (["corpus", "{}"], "{}: is there already, must be a new or an empty folder$"),
        (["listops", "{}/text"], "{}/text: is there already, must be a new or an empty folder$"),
        (["documents", "x", "--output-dir", "{}"], "{}: is there already, must be a new or an empty folder$"),
        (["dataset", "reading", "race", "--output-dir", "{}"], "{}: is there already, must be a new or an empty"),
        (["average", "{}/none", "--best", "1", "--output", "{}/x"], "^error: {}/none: no such folder, must be the"),
        (["prepare", "--max-ratio", "nan"], "--max-ratio: nan: must be a number, 1 or more$"),
        (["text", "prepare", "x", "--ratio", "inf"], "--ratio: inf: must be a number, 1 or more$"),
    ],
)
def test_what_a_command_cannot_write_is_said_before_its_work(words, message, tmp_path, capsys):
    (tmp_path / "text").write_text("a\n")
    refused([word.format(tmp_path) for word in words], message.format(tmp_path), capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["text"] and (tmp_path / "text").read_text() == "a\n"


def test_the_users_folder_is_found_where_no_shell_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["prepare", "--train=~/x", "--langs", "de", "en", "--out", "~/data"]
    refused(words, f"^error: {tmp_path}/x.de: no such file", capsys)


def test_every_command_is_in_the_help_and_in_the_completion(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    described = [name for name in cli.COMMANDS if f"\n  {name} " in shown and cli.COMMANDS[name].help in shown]
    last = shown.partition("called by recipes and scripts")[2].replace(",", "").split()
    assert [*described, *last] == list(cli.COMMANDS) and last == list(cli.GROUPS["called by recipes and scripts"])
    assert cli.main(["completion"]) == 0
    script = capsys.readouterr().out
    assert f'words="{" ".join(cli.COMMANDS)}"' in script
    of_run = "ode-transformer() { echo '--cpu --fp16 --bf16'; }"  # instead of its help
    for words, found in (("ta", ["table"]), ("grid --f", ["--fp16"])):
        complete = f"{script}\n{of_run}\nCOMP_WORDS=(ode-transformer {words}); COMP_CWORD={len(words.split())}"
        complete += "; _ode_transformer; echo ${COMPREPLY[@]}"
        assert subprocess.run(["bash", "-c", complete], capture_output=True, text=True).stdout.split() == found


def measured(
    model: Path, folder: Path, sizes: Sequence[int], rate: float = 0.5, cpu: bool = False, more: str | None = None
) -> tuple:
    """Measure.

    Args:
        model: that of ``x``, 100%.
        folder, more: where it
            is.
        sizes: of all.

    Returns:
        rate: nothing.
    """
    return model, folder, sizes, rate, cpu, more


def test_a_command_has_the_arguments_of_its_function(capsys):
    parser = argparse.ArgumentParser()
    arguments.take_arguments(parser, measured, "model", sizes={"nargs": "+"})
    arguments.call(parser, measured, lambda args, found: print(found))
    args = parser.parse_args(["m", "--folder", "d", "--sizes", "2", "3", "--cpu"])
    args.run(args)
    assert capsys.readouterr().out == f"{(Path('m'), Path('d'), [2, 3], 0.5, True, None)}\n"
    said = " ".join(parser.format_help().split())
    assert "--folder DIR where it is" in said and "that of `x`, 100%" in said and "(default: 0.5)" in said
    for words in (["m", "--sizes", "2"], ["m", "--folder", "d", "--sizes", "0"]):
        with pytest.raises(SystemExit):
            parser.parse_args(words)


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)
        else:
            yield action


@pytest.mark.parametrize("name", [name for name, command in cli.COMMANDS.items() if command.module in TAKING])
def test_every_argument_is_explained(name):
    (command,) = (action for action in cli.parser(name)._actions if action.dest == "command")
    found = list(actions(command.choices[name]))
    assert found and all(action.help for action in found)
