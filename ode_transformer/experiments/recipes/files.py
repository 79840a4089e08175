"""The files of recipes: their names, their contents merged with those of the files they extend, and rehearsals."""

import difflib
import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ...paths import ROOT, SHARE, folder_of
from ..recipe import Data, RecipeError, build

CONFIGS = SHARE / "configs"
ALTERNATIVES = ("average",)  # mappings with one of several keys, which are replaced, not merged

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Plain(_Loader):
    """PyYAML's safe loader, which runs no code; duplicate keys, of which PyYAML keeps the last, are refused."""

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        if "\0" in node.value:  # which no name of a file and no word of a command can hold
            raise yaml.MarkedYAMLError(problem="a text holds a NUL", problem_mark=node.start_mark)
        return super().construct_scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(problem=f"key {key} is there twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file. Callers must not change it, since it is kept."""
    try:
        state = path.stat()
        return _parsed(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or too many digits
        raise RecipeError(f"{path}: not YAML: {' '.join(str(error).split())}") from error


@functools.cache  # a table reads each file once per row, and those that it extends
def _parsed(path: Path, changed: int, size: int) -> Any:
    return yaml.load(path.read_bytes().decode("utf-8-sig"), Loader=_Plain)


def groups() -> list[str]:
    """Return the names of the files of recipes, such as ``multi30k-short``."""
    paths = sorted(p for p in CONFIGS.rglob("*.yaml") if not p.name.startswith("_"))
    return [p.relative_to(CONFIGS).with_suffix("").as_posix() for p in paths]


def group(name: str) -> dict[str, Any]:
    """Return the merged content of a file of recipes: one of ``groups``, or ``FILE.yaml``."""
    return read(Path(name).resolve() if name.endswith(".yaml") else CONFIGS / f"{name}.yaml")


def names(files: Sequence[str] = ()) -> list[str]:
    """Return the names of all recipes, such as ``quickstart/rk2-tiny``, or of those in some files.

    A file is one of ``groups``, the path of a YAML file, or the name of a recipe, which is returned as it is.
    """
    known, found = groups(), []
    for name in files or known:
        rows = group(name).get("rows", [""]) if name in known or name.endswith(".yaml") else [""]
        found += [f"{name}/{row}" if row else name for row in rows]
    return found


def listed(prefix: str = "", *, paper: bool = False) -> dict[str, str]:
    """Return the descriptions of the recipes whose names begin with ``prefix``, by name, or of rows of papers alone."""
    found = {}
    for name in groups():
        tree = group(name)
        for row, own in tree.get("rows", {"": {}}).items():
            title = f"{name}/{row}" if row else name
            if title.startswith(prefix) and (not paper or own.get("paper") or tree.get("paper")):
                found[title] = described(own, tree)
    if not found:
        near = difflib.get_close_matches(prefix, groups(), 5, 0.4)
        known = f"the nearest are {', '.join(near)}" if near else f"there are {', '.join(groups())}"
        raise RecipeError(f"no recipe begins with {prefix!r}; {known}")
    return found


def described(row: Mapping, tree: Mapping) -> str:
    """Return the descriptions of a row and its file, joined; empty if one of them is not a string."""
    parts = [part["description"] for part in (row, tree) if "description" in part]
    return ": ".join(parts) if all(isinstance(part, str) for part in parts) else ""


def is_there(name: str) -> bool:
    """Whether a recipe's name leads to a file; whether that has the row is not checked."""
    try:
        find(name)
    except RecipeError:
        return False
    return True


def find(name: str) -> tuple[Path, str, str]:
    """Return a recipe's file, its name, and its row in the file, or an empty string."""
    if found := re.fullmatch(r"(.+?\.yaml)(?:/([^/]*)/?)?", name):
        path, row = Path(found[1]).resolve(), found[2] or ""
        stem = path.relative_to(CONFIGS).with_suffix("").as_posix() if path.is_relative_to(CONFIGS) else path.stem
        if path.is_file() and not path.name.startswith("_"):
            return path, f"{stem}/{row}" if row else stem, row
        if not path.is_file():
            raise RecipeError(f"{path}: no such file")
    group, _, last = name.rpartition("/")
    if {"", ".", ".."} & set(name.split("/")):
        raise RecipeError(f"recipe {name!r}: must be a name below {CONFIGS.name}/ or a file that ends in .yaml")
    for path, row in ((CONFIGS / f"{name}.yaml", ""), (CONFIGS / f"{group}.yaml", last)):
        if path.is_file() and not path.name.startswith("_"):
            return path, name, row
    known = [*groups(), *names()]
    near = [other for other in groups() if other.startswith(name)] or difflib.get_close_matches(name, known, 5, 0.4)
    nearest = f"; the nearest are: {', '.join(near)}" if near else ""
    raise RecipeError(
        f"no recipe {name!r} in {CONFIGS.name}/{nearest}. `ode-transformer recipe list` prints all; a recipe of your "
        "own is named by its file, FILE.yaml or FILE.yaml/ROW"
    )


def small(tree: dict, own: dict, path: Path) -> dict:
    """Return a recipe's rehearsal: its tree merged with ``_small-TASK.yaml``, or ``_small.yaml`` for translation, and
    with its own key ``small``."""
    task = tree.get("task", "translation")
    file = CONFIGS / ("_small.yaml" if task == "translation" else f"_small-{task}.yaml")
    if not file.is_file() and not own:
        raise RecipeError(f"{path}: the task {task} has no rehearsal; give the recipe's own settings as small")
    small = read(file) if file.is_file() else {}
    if pairs := small.pop("pairs", {}):  # the data by languages
        data = build(Data, tree.get("data"), str(path), "data")
        pair = f"{data.source}-{data.target}"
        tree = merge(tree, {"data": pairs.get(pair, pairs["any"])})
        if tree["data"]["target"] != "de":
            tree = merge(tree, {"score": {"compound_split": False}})
    return merge(merge(tree, small), own)


def read(path: Path, before: tuple[Path, ...] = ()) -> dict:
    """Return the content of a file, merged with those that it and its rows extend; ``before`` are those that do."""
    if path in before:
        raise RecipeError(f"{path}: extends itself through {' -> '.join(map(str, before))}")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise RecipeError(f"{path}: must be a mapping, got {type(tree).__name__}")
    rows = tree.get("rows", {})
    if not isinstance(rows, dict) or not all(isinstance(k, str) and isinstance(v, dict) for k, v in rows.items()):
        raise RecipeError(f"{path}: rows must be a mapping of mappings")
    extended = {row: _extended(values, path, before) for row, values in rows.items()}
    return _extended(tree | ({"rows": extended} if "rows" in tree else {}), path, before)


def _extended(tree: dict, path: Path, before: tuple[Path, ...]) -> dict:
    bases = tree.get("extends", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise RecipeError(f"{path}: extends must be a file or a list of files, got {bases!r}")
    merged: dict = {}
    for base in bases:
        candidates = [(folder / base).resolve() for folder in (path.parent, CONFIGS)]
        file = next(filter(Path.is_file, candidates), None)
        if file is None:
            raise RecipeError(f"{path}: extends {base!r}: there is neither {' nor '.join(map(str, candidates))}")
        merged = merge(merged, _unpublished(read(file, (*before, path))))
    own = {key: value for key, value in tree.items() if key != "extends"}
    if isinstance(own.get("user_dir"), str):
        candidates = [Path(os.path.abspath(folder / own["user_dir"])) for folder in (path.parent, ROOT)]
        plugin = next(filter(Path.is_dir, candidates), None)
        if plugin is None:
            sought = " or ".join(map(str, dict.fromkeys(candidates)))  # one of an absolute path
            raise RecipeError(f"{path}: user_dir {own['user_dir']!r}: there is no folder {sought}")
        own["user_dir"] = folder_of(plugin)
    return merge(merged, own)


def _unpublished(tree: dict) -> dict:
    """Return the content of a file for one that extends it: without the numbers of papers, which are of that file."""
    rows = {row: {k: v for k, v in its.items() if k != "paper"} for row, its in tree.get("rows", {}).items()}
    return {k: v for k, v in tree.items() if k not in ("paper", "quoted")} | ({"rows": rows} if rows else {})


def merge(old: Mapping, new: Mapping) -> dict:
    """Merge two mappings, nested ones key by key; the values of ``new`` win."""

    def merged(key: str, value: Any) -> Any:
        both = isinstance(value, dict) and isinstance(old.get(key), dict) and key not in ALTERNATIVES
        return merge(old[key], value) if both else value

    return {**old, **{key: merged(key, value) for key, value in new.items()}}
