"""Types of command-line arguments, and the commands that have them."""

import argparse
import subprocess
from collections.abc import Iterator

import pytest

from ode_transformer.experiments import cli
from tests.helpers import output_of, refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tabel"], "COMMAND tabel: is unknown; the nearest is table$"),
        (["run", "x", "--devicse", "2"], "--devicse: is unknown; the nearest is --devices; flags of fairseq"),
        (["run", "x", "--max-update", "9"], "--max-update: is unknown; flags of fairseq come after --$"),
        (["grid", "x", "y", "--output", "z"], "unrecognized arguments: y$"),
        (["translate", "x", "--zzz"], "--zzz: is unknown$"),
        (["run", "x", "--scale", "tiny"], "--scale tiny: must be one of full, small$"),
        (["recipe", "shwo"], "action shwo: is unknown; the nearest is show$"),
        (["dataset", "aeslc", "x", "--output-dir", "y", "--articles=8"], "--articles: must be .*, --output-dir$"),
        # Old names: of grid, predict and dataset glue.
        (["glue", "grid", "x", "--seedz", "1"], "--seedz: is unknown; the nearest is --seeds; flags"),
        (["choose", "x", "--data", "y", "--output", "z", "--bach-size", "2"], "--bach-size: .* is --batch-size$"),
        (["glue", "prepare", "cola", "x", "--like", "y", "--output-dir", "z", "--licke"], "--licke: .* --like"),
        # Numbers that are too small, or none, and arguments that need others.
        (["run", "quickstart/rk2-tiny", "--devices", "0"], "--devices.*: 0: must be a whole number, 1 or more"),
        (["run", "quickstart/rk2-tiny", "--jobs", "two"], "--jobs.*: two: must be a whole number, 1 or more"),
        (["dataset", "corpus", "x", "--seed", "-1"], "--seed.*: -1: must be a whole number, 0 or more"),
        (["lab", "orders", "x.pt"], "checkpoints need --text and --dictionary"),
    ],
)
def test_wrong_arguments_are_named_with_what_is_nearest_or_must_be(words, message, capsys):
    refused(words, message, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid", "x", "--output", "{}"], "--output: {}: is a folder, must be a file$"),
        (["run", "x", "--record", "{}/text/record.json"], "--record: .*: cannot be written, {}/text is no folder to"),
        (["score", "--hyp", "{}/text", "--output", "{}/text"], "^error: --output {}/text: is also an input; must be"),
        (["dataset", "corpus", "{}"], "{}: already exists, must be a new or an empty folder$"),
        (["dataset", "listops", "{}/text"], "{}/text: already exists, must be a new or an empty folder$"),
        (["prepare", "--max-ratio", "nan"], "--max-ratio: nan: must be a number, 1 or more$"),
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
        cli.main(["help"])
    shown = capsys.readouterr().out
    described = [name for name in cli.COMMANDS if f"\n  {name} " in shown and cli.COMMANDS[name].help in shown]
    last = shown.partition("called by recipes and scripts")[2].replace(",", "").split()
    assert [*described, *last] == list(cli.COMMANDS) and last == list(cli.GROUPS["called by recipes and scripts"])
    assert {"record", "gpu-suite"} < set(last)
    script = output_of(["completion"], capsys).out
    assert f'words="{" ".join(cli.COMMANDS)}"' in script
    helped = """ode-transformer() {
        echo "  --fp16        half"; echo "                as with --flags"; echo "    facts       an action"
        if [[ $2 == facts ]]; then echo "  -f, --from    its option"; fi
    }"""
    shell = [script, helped]
    given = {"ta": "table", "grid --f": "--fp16", "text fa": "facts", "text facts --fr": "--from"}
    for words in given:
        shell.append(f"COMP_WORDS=(ode-transformer {words}); COMP_CWORD={len(words.split())}; _ode_transformer")
        shell.append("echo ${COMPREPLY[@]}")
    done = subprocess.run(["bash", "-c", "\n".join(shell)], capture_output=True, text=True)
    assert done.stdout.splitlines() == list(given.values())


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)
        else:
            yield action


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_and_every_argument_has_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["help", name])
    assert ended.value.code == 0 and f"usage: ode-transformer {name}" in capsys.readouterr().out
    (command,) = (action for action in cli.parser(name)._actions if action.dest == "command")
    unsaid = [one.dest for one in actions(command.choices[name]) if not one.help or one.help.startswith("(")]
    assert not unsaid
