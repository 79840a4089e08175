"""Plugins: packages of a user's own, whose import adds methods, architectures, metrics or tasks to the tables here.

The user names the folder of one (``--user-dir``, the key ``user_dir`` of a recipe, ``load(..., user_dir=...)``), or
installs packages with an entry point of the group ``GROUP``. A checkpoint, a bundle, a run and a record say
which plugin they were made with, and never load it.
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
from .paths import PACKAGE, ROOT

GROUP = "ode_transformer.plugins"

_folders: list[Path] = []  # that were loaded in this process
_current = ""
_installed: dict[str, str] = {}  # modules of entry points, and the packages that they belong to
_searched = False


class PluginError(OdeTransformerError):
    """A plugin that cannot be loaded; the message names it."""


def load(folder: str | Path) -> None:
    """Import the package in a folder as ``fairseq-train --user-dir`` does, once; it must come before the models.

    Raises:
        PluginError: it is no package, has the name of another, or adds what cannot be added.
    """
    path = Path(os.path.abspath(folder))
    if path.resolve() in [one.resolve() for one in (PACKAGE, *_folders)]:  # under whatever name
        return
    if not (path / "__init__.py").is_file():
        raise PluginError(f"--user-dir {folder}: must be the folder of a package, but holds no __init__.py")
    if not re.fullmatch(r"[\w-]+", path.name):  # Python takes a dot apart, and ``of`` finds no other
        raise PluginError(f"--user-dir {folder}: its name must be letters, digits, - and _; rename the folder")
    if path.name in sys.modules:
        raise PluginError(f"--user-dir {folder}: must not have the name of another package; rename the folder")
    from fairseq import utils

    _folders.append(path)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a command's output is not a plugin's
            utils.import_user_module(argparse.Namespace(user_dir=str(path)))
    except BaseException as error:
        _folders.remove(path)  # so that it is loaded again when the user has mended it
        utils.import_user_module.memo.discard(str(path))
        if isinstance(error, (ImportError, ValueError)):
            raise PluginError(f"--user-dir {folder}: cannot be loaded: {error}") from error
        raise  # a defect of the plugin, which keeps its traceback


@contextlib.contextmanager
def using(folder: str | Path | None) -> Iterator[None]:
    """Load a plugin, if there is one, and let recipes that name none be run with it in the meantime.

    Raises:
        PluginError: as :func:`load`.
    """
    global _current
    before = _current
    if folder:
        load(folder)
        path = Path(os.path.abspath(folder))
        _current = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    try:
        yield
    finally:
        _current = before


def current() -> str:
    """Return the folder of the plugin that the user named for a command, from ``ROOT`` if it lies there; or empty."""
    return _current


def load_installed() -> None:
    """Import the modules that installed packages name as entry points, once.

    Raises:
        PluginError: one cannot be imported, or adds what cannot be added.
    """
    global _searched
    if _searched:
        return
    _searched = True
    for point in importlib.metadata.entry_points(group=GROUP):
        package = point.dist.name if point.dist else point.module
        _installed[point.module] = package
        try:
            with contextlib.redirect_stdout(sys.stderr):
                point.load()
        except (ImportError, ValueError) as error:
            raise PluginError(f"plugin {point.name} of the package {package}: cannot be loaded: {error}") from error


def installed() -> list[str]:
    """Return the packages whose plugins were loaded."""
    return sorted(set(_installed.values()))


def registered(class_: type | None) -> bool:
    """Return whether a class is of this package or of a plugin that was loaded."""
    module = getattr(class_, "__module__", "")
    names = [PACKAGE.name, *(path.name for path in _folders), *_installed]
    return any(module == name or module.startswith(f"{name}.") for name in names)


def described(folder: str | Path) -> dict[str, str]:
    """Return the name of a plugin and the SHA-256 of its Python files, for ``run.json``."""
    path, digest = Path(os.path.abspath(folder)), hashlib.sha256()
    for file in sorted(path.rglob("*.py")):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file.read_text(encoding='utf-8')}\0".encode())
    return {"name": path.name, "sha256": digest.hexdigest()}


def of(user_dir: Any) -> str:
    """Return the name of the plugin that a stored ``--user-dir`` is of; empty for this package, and for no name."""
    found = re.search(r"([\w-]+)/*$", user_dir) if isinstance(user_dir, str) and len(user_dir) < 5000 else None
    return found[1] if found and found[1] != PACKAGE.name else ""


def missing(user_dir: Any) -> str:
    """Return the name of the plugin that a stored ``--user-dir`` is of, unless it was loaded here; else empty."""
    name = of(user_dir)
    return "" if name in (path.name for path in _folders) else name
