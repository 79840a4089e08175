"""The rooms of the package: imports go one way, and in no circle."""

import ast
import functools
import re
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name

import pytest

from tests.helpers import ROOT

PACKAGE = ROOT / "ode_transformer"
ROOMS = (
    *("numerics", "modules", "training", "models", "checkpoints"),
    *("experiments.text", "experiments.metrics", "experiments.recipe", "experiments.tasks"),
    *("experiments.recipes", "experiments.records", "experiments.runs"),
    *("experiments.results", "experiments.serving", "experiments.bench", "experiments.lab", "experiments.cli"),
)
"""From the bottom up. What is in none of them is below all, but for the package's own entry points."""
ENTRY_POINTS = ("ode_transformer", "ode_transformer.__main__", "ode_transformer.models")  # the last registers all


@functools.cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """What each module imports of the package, at its top or in a function; not for types alone."""
    trees = modules()
    packages = {name for name in trees if (ROOT.joinpath(*name.split(".")) / "__init__.py").is_file()}
    found = {}
    for name, tree in trees.items():
        ifs = (node for node in ast.walk(tree) if isinstance(node, ast.If))
        types = {node for one in ifs if "TYPE_CHECKING" in ast.dump(one.test) for node in ast.walk(one)}
        package = name if name in packages else name.rpartition(".")[0]
        found[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level and node not in types:
                base = resolve_name("." * node.level + (node.module or ""), package)
                names = (f"{base}.{alias.name}" for alias in node.names)
                found[name] |= {full if full in trees else base for full in names} - {name}
    return found


def room(module: str) -> int:
    """The height of a module's room; the ground floor is -1."""
    inside = module.removeprefix("ode_transformer").lstrip(".")
    return next((i for i, name in enumerate(ROOMS) if inside == name or inside.startswith(f"{name}.")), -1)


def test_no_files_import_each_other_in_a_circle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_rooms_import_those_below_them(graph):
    pairs = ((name, other) for name, others in graph.items() if name not in ENTRY_POINTS for other in others)
    assert not [f"{name} -> {other}" for name, other in pairs if room(other) > room(name)]
    for name in ROOMS:
        path = PACKAGE.joinpath(*name.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_the_numerics_import_only_each_other_and_no_fairseq(graph):
    of = {name: tree for name, tree in modules().items() if name.startswith("ode_transformer.numerics")}
    assert of and not {other for name in of for other in graph[name]} - of.keys()
    for node in (node for tree in of.values() for node in ast.walk(tree)):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None)]
        assert not {str(name).split(".")[0] for name in names} & {"fairseq", "omegaconf", "hydra", "ode_transformer"}


WRITERS = {"experiments.runs.processes": "logs, which grow, and locks", "experiments.bench.turns": "Linux's counters"}


def writes(node: ast.AST) -> bool:
    """Whether a call opens a file to write to it."""
    if not isinstance(node, ast.Call):
        return False
    modes = [one.value for one in (*node.args, *(k.value for k in node.keywords)) if isinstance(one, ast.Constant)]
    opens = getattr(node.func, "id", getattr(node.func, "attr", "")) == "open"
    mode = next((mode for mode in modes if isinstance(mode, str) and re.fullmatch("[rwxabt+]+", mode)), "r")
    to_path = isinstance(node.func, ast.Attribute) and node.func.attr in ("write_text", "write_bytes")
    ours = to_path and getattr(node.func.value, "id", "") == "files"
    return (to_path and not ours) or (opens and mode.strip("rbt") != "")


def test_files_are_written_whole_or_not_at_all():
    """By the functions of ``files.py``; each of the others has its reason."""
    found = {name for name, tree in modules().items() if any(map(writes, ast.walk(tree)))}
    assert found == {f"ode_transformer.{name}" for name in WRITERS}
