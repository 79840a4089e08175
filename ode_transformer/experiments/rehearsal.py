"""Rehearsals: every step of a recipe on a CPU, from data to record, on little text and with a narrow architecture.

The result says that a recipe runs, and nothing about its quality.
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import processors
from ..errors import OdeTransformerError
from ..files import read_json
from . import processes, recipes, records, runner, runs
from .arguments import at_least
from .schema import lacks


def folder(name: str) -> Path:
    """Where a recipe is rehearsed."""
    return recipes.ROOT / recipes.default_run_dir(recipes.load(name, scale="small"))


def by_default() -> list[str]:
    """All recipes that reproduce a row of a paper, and all of tasks other than translation."""
    found = map(recipes.load, recipes.names())
    return [recipe.name for recipe in found if recipe.paper or recipe.task != "translation"]


def start(name: str) -> subprocess.Popen:
    """Start the rehearsal of a recipe in a process of its own; its output goes to ``rehearsal.log``."""
    environment = {"OMP_NUM_THREADS": "1", **processes.environment({})}
    words = [sys.executable, "-m", "ode_transformer", "run", name, "--scale", "small", "--cpu"]
    return processes.start(words, environment, folder(name) / "rehearsal.log")


def rehearse(names: Sequence[str], jobs: int) -> None:
    """Rehearse recipes, at most ``jobs`` of them at a time; the next call resumes those that have not ended."""

    def ended(name: str, status: int, seconds: float) -> None:
        print(f"{name}: " + (f"failed, see {folder(name) / 'rehearsal.log'}" if status else f"done in {seconds:.0f} s"))

    processes.side_by_side(names, jobs, lambda name, _: start(name), ended)


def outcome(names: Sequence[str]) -> dict[str, Any]:
    """The outcome of rehearsals.

    Returns:
        ``rehearsed``, by recipe: updates, parameters, the sets that were scored, seconds of training, commit;
        ``missing``, the names of those without a record; where.
    """
    rehearsed, missing = {}, []
    for name in names:
        path = folder(name) / "record.json"
        if not path.is_file():
            missing.append(name)
            continue
        found = records.read_record(path)
        rehearsed[name] = {
            "updates": found["training"]["curve"][-1]["num_updates"],
            "parameters": found["training"]["parameters"],
            "scored": list(found["scores"]),
            "seconds": round(found["training"]["seconds"]),
            "commit": found["versions"].get("commit", ""),
        }
    return {"rehearsed": rehearsed, "missing": missing, **runs.here_and_now()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer rehearsal``."""
    help_ = (
        "recipes to rehearse (default: all that reproduce a row of a paper, and all of tasks other than translation)"
    )
    parser.add_argument("recipe", metavar="RECIPE", nargs="*", help=help_)
    help_ = "how many recipes are rehearsed at the same time (default: half as many as there are processors)"
    parser.add_argument("--jobs", type=at_least(1), default=(processors.usable() + 1) // 2, metavar="N", help=help_)
    help_ = "the JSON file; entries of other recipes are kept (default: results/rehearsal.json of the clone)"
    parser.add_argument(
        "--output", metavar="FILE", default=str(recipes.ROOT / "results" / "rehearsal.json"), help=help_
    )


def _held(output: Path) -> dict[str, Any]:
    """The entries of an earlier rehearsal."""
    held = read_json(output) if output.is_file() else {}
    if wrong := lacks(held, {"rehearsed": (..., dict)}):
        raise OdeTransformerError(f"--output {output}: is not what a rehearsal writes: {wrong}")
    return held.get("rehearsed", {})


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer rehearsal``; the exit status is 1 if a recipe was not rehearsed to its end."""
    names = list(dict.fromkeys(recipes.load(name, scale="small").given for name in args.recipe or by_default()))
    output = Path(args.output).absolute()
    _held(output)  # fails now if it cannot be read, not at the end
    with contextlib.chdir(recipes.ROOT), processes.terminable():
        left = [name for name in names if not (folder(name) / "record.json").is_file()]
        runner.prepare([recipes.load(name, scale="small") for name in left], runner.Place(cpu=True))
        rehearse(left, args.jobs)
        content = outcome(names)
    print(f"{len(content['rehearsed'])} of {len(names)} recipes rehearsed to their end")
    kept = {name: row for name, row in _held(output).items() if name not in content["missing"]}
    records.write(output, {**content, "rehearsed": kept | content["rehearsed"]})
    if content["missing"]:
        print(f"error: not rehearsed to their end: {', '.join(content['missing'])}", file=sys.stderr)
    return 1 if content["missing"] else 0
