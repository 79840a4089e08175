"""Rehearsals: every step of a recipe on a CPU, from data to record, on little text and with a narrow architecture.

The result says that a recipe runs, and nothing about its quality.
"""

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .. import processors
from ..files import read_json
from . import recipes, records, runner, runs


def folder(name: str) -> Path:
    """Where a recipe is rehearsed."""
    return recipes.ROOT / recipes.default_run_dir(recipes.load(name, scale="small"))


def by_default() -> list[str]:
    """All recipes that reproduce a row of a paper, and all of tasks other than translation."""
    found = map(recipes.load, recipes.names())
    return [recipe.name for recipe in found if recipe.paper or recipe.task != "translation"]


def rehearse(name: str) -> None:
    """Rehearse a recipe in a process of its own, unless that was done; its output goes to ``rehearsal.log``."""
    place = folder(name)
    if (place / "record.json").is_file():
        return
    place.mkdir(parents=True, exist_ok=True)
    environment = {"OMP_NUM_THREADS": "1", **runner.environment({})}
    words = [sys.executable, "-m", "ode_transformer", "run", name, "--scale", "small", "--cpu"]
    began = time.monotonic()
    with open(place / "rehearsal.log", "ab") as log:
        done = subprocess.run(
            words, cwd=recipes.ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    seconds = round(time.monotonic() - began)
    print(f"{name}: done in {seconds} s" if not done.returncode else f"{name}: failed, see {place / 'rehearsal.log'}")


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
        found = read_json(path)
        rehearsed[name] = {
            "updates": found["training"]["curve"][-1]["num_updates"],
            "parameters": found["training"]["parameters"],
            "scored": list(found["scores"]),
            "seconds": round(found["training"]["seconds"]),
            "commit": found["versions"].get("commit", ""),
        }
    return {"rehearsed": rehearsed, "missing": missing, **runs.where()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer rehearsal``."""
    help_ = (
        "recipes to rehearse (default: all that reproduce a row of a paper, and all of tasks other than translation)"
    )
    parser.add_argument("recipe", nargs="*", help=help_)
    jobs = (processors.usable() + 1) // 2
    help_ = "how many recipes are rehearsed at the same time (default: %(default)s)"
    parser.add_argument("--jobs", type=int, default=jobs, metavar="N", help=help_)
    help_ = "the JSON file; entries of other recipes are kept (default: %(default)s)"
    parser.add_argument("--output", default="results/rehearsal.json", help=help_)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer rehearsal``; the exit status is 1 if a recipe was not rehearsed to its end."""
    if args.jobs < 1:
        raise runs.RunError(f"--jobs {args.jobs}: must be a positive number")
    names = args.recipe or by_default()
    output = Path(args.output).absolute()
    with contextlib.chdir(recipes.ROOT):
        # Each recipe's data is prepared once, before several want it at a time.
        place = runner.Place(cpu=True)
        prepare = {}
        for name in names:
            step = runner.steps(recipes.load(name, scale="small"), place)[0]
            prepare[tuple(step.command)] = step
        for step in prepare.values():
            runner.execute(step)
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(rehearse, names))
        content = outcome(names)
    print(f"{len(content['rehearsed'])} of {len(names)} recipes rehearsed to their end")
    before = read_json(output)["rehearsed"] if output.is_file() else {}
    rehearsed = {name: row for name, row in before.items() if name not in content["missing"]} | content["rehearsed"]
    records.write(output, {**content, "rehearsed": rehearsed})
    if content["missing"]:
        print(f"error: not rehearsed to their end: {', '.join(content['missing'])}", file=sys.stderr)
    return 1 if content["missing"] else 0
