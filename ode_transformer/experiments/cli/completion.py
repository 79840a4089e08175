"""``ode-transformer completion``: a script that completes commands, sub-commands, options and names of recipes."""

import argparse
from pathlib import Path


def add_completion(parser: argparse.ArgumentParser) -> None:
    """``ode-transformer completion`` has no arguments."""
    parser.epilog = 'To be put into ~/.bashrc: eval "$(ode-transformer completion)"'


def main(args: argparse.Namespace) -> None:
    """Run ``ode-transformer completion``."""
    from . import COMMANDS

    script = Path(__file__).with_name("completion.bash").read_text(encoding="utf-8")
    print(script.replace("@COMMANDS@", " ".join(COMMANDS)), end="")
