"""The files of recipes: what they are called, what a file holds with all that it extends, and their rehearsals."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ...files import regular
from ...paths import ROOT, SHARE
from .schema import RecipeError

CONFIGS = SHARE / "configs"
ALTERNATIVES = ("average",)  # mappings of which one key is said, so that another cannot be added to it
LONGEST = 2**20  # bytes of a file

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Plain(_Loader):
    """PyYAML's safe loader, which runs no code, but keeps the last of several equal keys; here they are refused."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        found = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key.start_mark)
            if key.value in found:
                raise yaml.MarkedYAMLError(problem=f"key {key.value} is there twice", problem_mark=key.start_mark)
            found.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        RecipeError: there is no such file; or it is not YAML, not UTF-8, too long, or has equal keys.
    """
    try:
        if (size := regular(path).stat().st_size) > LONGEST:
            raise RecipeError(f"{path}: has {size} bytes, must be at most {LONGEST}")
        return yaml.load(path.read_bytes().decode("utf-8-sig"), Loader=_Plain)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a number of many digits
        raise RecipeError(f"{path}: not YAML: {' '.join(str(error).split())}") from error


def groups() -> list[str]:
    """The names of the files of recipes, e.g. ``multi30k-short``."""
    paths = sorted(p for p in CONFIGS.rglob("*.yaml") if not p.name.startswith("_"))
    return [p.relative_to(CONFIGS).with_suffix("").as_posix() for p in paths]


def group(name: str) -> dict[str, Any]:
    """Return what a file of recipes holds, with what it extends: one of ``groups``, or ``FILE.yaml``."""
    return read(Path(name).resolve() if name.endswith(".yaml") else CONFIGS / f"{name}.yaml")


def names(files: Sequence[str] = ()) -> list[str]:
    """The names of all recipes, such as ``quickstart/rk2-tiny``, or of those in some files, as ``load`` takes them.

    Raises:
        RecipeError: a file cannot be read.
    """
    known, found = groups(), []
    for name in files or known:
        rows = group(name).get("rows", [""]) if name in known or name.endswith(".yaml") else [""]
        found += [f"{name}/{row}" if row else name for row in rows]
    return found


def listed(prefix: str = "", *, paper: bool = False) -> dict[str, str]:
    """The names of all recipes that begin with ``prefix``, and their descriptions.

    Args:
        prefix: the beginning of a name, such as ``ode/wmt14-en-de``.
        paper: only those that reproduce a row of a paper.

    Raises:
        RecipeError: no name begins like this.
    """
    found = {}
    for name in groups():
        tree = group(name)
        for row, own in tree.get("rows", {"": {}}).items():
            title = f"{name}/{row}" if row else name
            if title.startswith(prefix) and (not paper or own.get("paper") or tree.get("paper")):
                found[title] = described(own, tree)
    if not found:
        near = difflib.get_close_matches(prefix, groups(), 5, 0.4)
        raise RecipeError(f"no recipe begins with {prefix!r}; there are {', '.join(near or groups())}")
    return found


def described(row: Mapping, tree: Mapping) -> str:
    """The description of a row and that of its file; empty if one is not a string, which another check names."""
    parts = [part["description"] for part in (row, tree) if "description" in part]
    return ": ".join(parts) if all(isinstance(part, str) for part in parts) else ""


def is_there(name: str) -> bool:
    """Whether there is a file for a recipe of this name."""
    try:
        find(name)
    except RecipeError:
        return False
    return True


def find(name: str) -> tuple[Path, str, str]:
    """The file of a recipe, the recipe's name, and its row of the file, or an empty string."""
    if found := re.fullmatch(r"(.+?\.yaml)(?:/([^/]*)/?)?", name):
        path, row = Path(found[1]).resolve(), found[2] or ""
        stem = path.relative_to(CONFIGS).with_suffix("").as_posix() if path.is_relative_to(CONFIGS) else path.stem
        if path.is_file() and not path.name.startswith("_"):
            return path, f"{stem}/{row}" if row else stem, row
        if not path.is_file():
            raise RecipeError(f"{path}: no such file")
    group, _, last = name.rpartition("/")
    if "\0" in name or {"", ".", ".."} & set(name.split("/")):
        raise RecipeError(f"recipe {name!r}: must be a name below {CONFIGS.name}/ or a file that ends in .yaml")
    for path, row in ((CONFIGS / f"{name}.yaml", ""), (CONFIGS / f"{group}.yaml", last)):
        if path.is_file() and not path.name.startswith("_"):
            return path, name, row
    near = [other for other in groups() if other.startswith(name)] or difflib.get_close_matches(name, names(), 5, 0.4)
    nearest = f"; the nearest are: {', '.join(near)}" if near else ""
    raise RecipeError(
        f"no recipe {name!r} in {CONFIGS.name}/{nearest}. `ode-transformer recipe list` prints all; a recipe of your "
        "own is named by its file, FILE.yaml or FILE.yaml/ROW"
    )


def added_to(name: str) -> str:
    """Return what a row of a user's file inherits from the row of that name in a file that it extends, or nothing.

    Args:
        name: of the recipe, as ``load`` takes it.
    """
    path, _, row = find(name)
    tree = read_yaml(path)
    if path.is_relative_to(CONFIGS) or row not in tree.get("rows", {}):
        return ""
    theirs = _extended({"extends": tree.get("extends", [])}, path, ()).get("rows", {}).get(row, {})
    own = _leaves(_extended(tree["rows"][row], path, ()))
    rest = {key: value for key, value in _leaves(theirs).items() if key not in own}
    found = [key if isinstance(value, list) else f"{key} {value}" for key, value in rest.items()]
    said = f"{path}: row {row} is added to the row of that name that the file extends, and has from it "
    return said + ", ".join(found) if found else ""


def _leaves(tree: Mapping, prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by their keys, joined by points."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def small(tree: dict, path: Path) -> dict:
    """The rehearsal of a recipe, as the file ``_small-TASK.yaml`` describes it, or ``_small.yaml`` for translation."""
    task = tree.get("task", "translation")
    if task != "translation":
        return merge(tree, read(CONFIGS / f"_small-{task}.yaml"))
    small = read(CONFIGS / "_small.yaml")
    data = tree.get("data", {})
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: data must be a mapping, got {data!r}")
    pair = f"{data.get('source', '')}-{data.get('target', '')}"
    pairs = small.pop("pairs")
    tree = merge(tree, {"data": pairs.get(pair, pairs["any"])})
    if tree["data"]["target"] != "de":
        tree = merge(tree, {"score": {"compound_split": False}})
    return merge(tree, small)


def read(path: Path, before: tuple[Path, ...] = ()) -> dict:
    """Return what a file holds, with all that it and its rows extend.

    Args:
        path: the file.
        before: the files that extend it.

    Raises:
        RecipeError: it cannot be read, is no mapping, or extends itself.
    """
    if path in before:
        raise RecipeError(f"{path}: extends itself through {' -> '.join(map(str, before))}")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise RecipeError(f"{path}: must be a mapping, got {type(tree).__name__}")
    rows = tree.get("rows", {})
    if not isinstance(rows, dict) or not all(isinstance(k, str) and isinstance(v, dict) for k, v in rows.items()):
        raise RecipeError(f"{path}: rows must be a mapping of mappings")
    for row, values in rows.items():
        tree["rows"][row] = _extended(values, path, before)
    return _extended(tree, path, before)


def _extended(tree: dict, path: Path, before: tuple[Path, ...]) -> dict:
    bases = tree.get("extends", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) and "\0" not in base for base in bases):
        raise RecipeError(f"{path}: extends must be a file or a list of files, got {bases!r}")
    merged: dict = {}
    for base in bases:
        candidates = [(folder / base).resolve() for folder in (path.parent, CONFIGS)]
        file = next(filter(os.path.isfile, candidates), None)  # unlike the method, false for names that are too long
        if file is None:
            raise RecipeError(f"{path}: extends {base!r}: there is neither {' nor '.join(map(str, candidates))}")
        merged = merge(merged, read(file, (*before, path)))
    own = {key: value for key, value in tree.items() if key != "extends"}
    if isinstance(own.get("user_dir"), str):
        beside = (path.parent / own["user_dir"]).resolve()
        folder = beside if beside.is_dir() else (ROOT / own["user_dir"]).resolve()
        own["user_dir"] = str(folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder)
    return merge(merged, own)


def merge(old: Mapping, new: Mapping) -> dict:
    """Return a mapping with what another says besides, key by key."""

    def merged(key: str, value: Any) -> Any:
        both = isinstance(value, dict) and isinstance(old.get(key), dict) and key not in ALTERNATIVES
        return merge(old[key], value) if both else value

    return {**old, **{key: merged(key, value) for key, value in new.items()}}
