"""``ode-transformer path``: the folder of the plugin, for ``--user-dir``."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``ode-transformer path`` has no arguments."""


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer path``; the exit status."""
    print(Path(__file__).resolve().parents[1])
    return 0
