"""Paths of the package, of the recipes and scripts that come with it, and of the user's files."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
"""The folder of the package, which fairseq takes as ``--user-dir``."""

INSTALLED = (PACKAGE / "_share").is_dir()
"""Whether the package was installed from a wheel, and is not in a clone of the repository."""

SHARE = PACKAGE / "_share" if INSTALLED else PACKAGE.parent
"""The folder of ``configs``, ``data-prep`` and ``scripts``: the top of the clone or, when installed, in the package."""

ROOT = Path.cwd() if INSTALLED else PACKAGE.parent
"""The folder in which commands of recipes run, with ``runs``, ``data-bin`` and ``results``: the top of the clone or,
when installed, the current folder."""

USER_DIR = str(PACKAGE) if INSTALLED else PACKAGE.name
"""The value of fairseq's ``--user-dir`` in commands that are run in ``ROOT``."""


def folder_of(path: str | Path) -> str:
    """Return a path as commands that are run in ``ROOT`` name it: relative to it if inside, else absolute."""
    absolute = Path(os.path.abspath(path))  # without .., which would depend on further folders
    return str(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else absolute)


def shipped(program: str) -> str:
    """Return a recipe's program as it is called from ``ROOT``; scripts of this package may be elsewhere."""
    path = SHARE / program
    return str(path) if SHARE != ROOT and program.startswith("data-prep/") and path.is_file() else program
