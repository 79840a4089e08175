"""Plugins: user packages whose import registers methods, architectures, metrics or tasks.

The user names the folder of a plugin (``--user-dir``, the key ``user_dir`` of a recipe, ``load(..., user_dir=...)``),
or installs packages with an entry point in the group ``GROUP``. Checkpoints, bundles, runs and records name the folder
that they were made with, and never load it; runs and records have installed packages among their versions.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import OdeTransformerError
from .paths import PACKAGE, folder_of

GROUP = "ode_transformer.plugins"

_folders: list[Path] = []  # loaded in this process
_current = ""
_installed: dict[str, str] = {}  # distributions by the modules of their entry points
_points: Iterator[importlib.metadata.EntryPoint] | None = None  # those that are not loaded yet


class PluginError(OdeTransformerError):
    """A plugin that cannot be loaded; the message names it."""


def load(folder: str | Path) -> None:
    """Import the package in a folder as ``fairseq-train --user-dir`` does, once, before ``models`` is imported."""
    path = Path(os.path.abspath(folder))
    if path.resolve() in [one.resolve() for one in (PACKAGE, *_folders)]:  # also through a link
        return
    if not (path / "__init__.py").is_file():
        raise PluginError(f"--user-dir {folder}: must be the folder of a package, but holds no __init__.py")
    from fairseq import utils

    if (there := sys.modules.get(path.name)) and not hasattr(there, "__path__"):  # fairseq looks for it
        raise PluginError(f"--user-dir {folder}: has the name of a module of Python that is in use; rename the folder")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a plugin prints is no part of a command's output
            utils.import_user_module(argparse.Namespace(user_dir=str(path)))
    except Exception as error:  # fairseq refuses the name of another package
        utils.import_user_module.memo.discard(str(path))  # so that the user can correct it and load it again
        if isinstance(error, (ImportError, ValueError)):
            raise PluginError(f"--user-dir {folder}: cannot be loaded: {error}") from error
        raise  # a defect of the plugin, which keeps its traceback
    _folders.append(path)


@contextlib.contextmanager
def using(folder: str | Path | None) -> Iterator[None]:
    """Load a plugin, if given, and make it the default of recipes within the context."""
    global _current
    before = _current
    if folder and Path(folder).resolve() != PACKAGE:  # which fairseq's users name
        load(folder)
        _current = folder_of(folder)
    try:
        yield
    finally:
        _current = before


def current() -> str:
    """Return the folder of the current command's plugin, relative to ``ROOT`` if inside it; empty if there is none."""
    return _current


def load_installed() -> None:
    """Import the modules that installed packages declare as entry points, once.

    A module that imports the models calls this again: the other modules then add their methods before the models.
    """
    global _points
    if _points is None:
        _points = iter(importlib.metadata.entry_points(group=GROUP))
    for point in _points:
        package = point.dist.name if point.dist else point.module
        _installed[point.module] = package
        try:
            with contextlib.redirect_stdout(sys.stderr):
                point.load()
        except (ImportError, ValueError) as error:
            raise PluginError(f"plugin {point.name} of the package {package}: cannot be loaded: {error}") from error


def installed() -> list[str]:
    """Return the names of the distributions whose entry points were loaded."""
    return sorted(set(_installed.values()))


def registered(class_: type | None) -> bool:
    """Whether a class belongs to this package or to a loaded plugin."""
    module = getattr(class_, "__module__", "")
    return module.partition(".")[0] in (PACKAGE.name, *_loaded())


def _loaded() -> set[str]:
    """Return the names of the packages of loaded plugins."""
    return {*(path.name for path in _folders), *(module.partition(".")[0] for module in _installed)}


def name_and_hash(folder: str | Path) -> dict[str, str]:
    """Return the name of a plugin and the SHA-256 of its Python files, for ``run.json``."""
    path, digest = Path(os.path.abspath(folder)), hashlib.sha256()
    for file in sorted(filter(Path.is_file, path.rglob("*.py"))):  # an editor may keep a link to nowhere beside a file
        digest.update(b"%s\0%s\0" % (file.relative_to(path).as_posix().encode(), file.read_bytes()))
    return {"name": path.name, "sha256": digest.hexdigest()}


def name_of(user_dir: Any) -> str:
    """Return the name of the plugin in a stored ``--user-dir``; empty for this package, or if there is none."""
    found = re.search(r"([\w-]+)/*$", user_dir) if isinstance(user_dir, str) and len(user_dir) < 5000 else None
    return found[1] if found and found[1] != PACKAGE.name else ""


def missing(user_dir: Any) -> str:
    """Return the name of the plugin in a stored ``--user-dir`` unless it is loaded; else an empty string."""
    name = name_of(user_dir)
    return "" if name in _loaded() else name
