"""``ode-transformer recipe``: list, check and show recipes, and print the commands of their steps."""

import argparse
import re
import sys
import textwrap
from dataclasses import replace
from typing import Optional

from .. import recipes
from ..arguments import at_least
from . import command_lines, estimates, runner

WIDTH = 120  # of lines that are printed
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")  # of a shell


def show(recipe: recipes.Recipe, devices: Optional[int], precision: Optional[str], run_dir: str = "") -> str:
    """The recipe as a person reads it: what it is, the paper's numbers, what a run takes if a record says it, and the
    commands of every step."""
    place = _place(recipe, devices, precision)
    lines = [f"# {recipe.name}: {recipe.description}"]
    if recipe.scale == "small":
        lines.append(
            "# A rehearsal on little text, of the same architecture and depth but narrow: no result of the paper."
        )
    else:
        lines += _about(recipe, place.devices, place.precision) + estimates.lines(recipe)
    lines += [f"# row: {recipe.added_to}"] * bool(recipe.added_to)
    lines += runner.printed(runner.steps(recipe, place, run_dir)).splitlines()
    return "\n".join(map(_wrapped, lines))


def _wrapped(line: str) -> str:
    """A comment or a command in lines of at most ``WIDTH`` characters, as far as its words allow; the shell reads the
    lines of a command as one.
    """
    if line.startswith("#"):
        return textwrap.fill(line, WIDTH, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False)
    words = _WORD.findall(line)
    if " ".join(words) != line:  # of several lines, or with blanks that mean something
        return line
    parts = words[:1]
    for word in words[1:]:  # a flag stays with its values
        parts = [*parts, word] if word.startswith(("-", "&&", ">>")) else [*parts[:-1], f"{parts[-1]} {word}"]
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return " \\\n".join(lines)


def _place(recipe: recipes.Recipe, devices: Optional[int], precision: Optional[str]) -> runner.Place:
    """On the paper's GPUs, unless others are asked for."""
    devices = devices or (recipe.devices if recipe.scale == "full" else None) or 1
    return runner.Place(devices=devices, precision=precision or recipe.train.precision)


def _about(recipe: recipes.Recipe, devices: int, precision: str) -> list[str]:
    """The paper's numbers and hardware, the size of an update, and what we chose."""
    lines = []
    for paper in recipe.paper:
        scores = [f"{value} {metric} on {t}" for t, found in paper.scores.items() for metric, value in found.items()]
        details = [
            paper.parameters and f"{paper.parameters} parameters",
            paper.updates and f"trained for {paper.updates}",
        ]
        lines.append(f"# paper: {', '.join(filter(None, [*scores, *details]))} ({paper.table}, {paper.row})")
    if recipe.hardware:
        lines.append(f"# hardware: {recipe.hardware}")
    size = [f"up to {recipe.train.flags[k]:,} {unit}" for k, unit in
            (("max-tokens", "tokens"), ("batch-size", "examples")) if recipe.train.flags.get(k)]  # fmt: skip
    lines.append(
        f"# an update: {recipe.train.batches} batch{'es' * (recipe.train.batches > 1)} of {' and '.join(size)}; "
        f"on {devices} GPU{'s' * (devices > 1)} each takes {recipe.train.batches / devices:g}, in {precision}"
    )
    if recipe.seeds:
        lines.append(f"# seeds: {', '.join(map(str, recipe.seeds))}")
    if recipe.search:
        space = replace(recipe.search, seeds=recipe.search.seeds or recipe.seeds or [recipe.own_seed])
        parts = {**space.values, "seeds": space.seeds}
        said = "; ".join(f"{name} {', '.join(map(str, values))}" for name, values in parts.items())
        lines.append(f"# search: {said} ({space.trainings} trainings, `ode-transformer grid {recipe.given}`)")
    return lines + [f"# note: {line}" for line in recipe.note.splitlines()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer recipe``."""
    actions = parser.add_subparsers(dest="action", required=True)
    listed = actions.add_parser("list", help="print the names of recipes, and what they are")
    listed.add_argument("prefix", nargs="?", default="", metavar="PREFIX", help="how their names begin (default: all)")
    listed.add_argument("--paper", action="store_true", help="only those that reproduce a row of a paper")
    checked = actions.add_parser(
        "check", help="read every recipe and its flags; the exit status says whether all are sound"
    )
    checked.add_argument(
        "files", nargs="*", metavar="FILE", help="files of recipes of your own, instead of this package's"
    )
    shown = actions.add_parser("show", help="print what a recipe is and the commands of its steps")
    command = actions.add_parser("command", help="print the commands of one step, one per line")
    for sub in (shown, command):
        sub.add_argument("name", metavar="RECIPE", help="its name, or a file of recipes of your own: FILE.yaml/ROW")
        if sub is command:
            sub.add_argument("step", metavar="STEP", help="prepare, start, train, average, generate or validate, score")
        recipes.add_variant(sub)
        sub.add_argument(
            "--run-dir", metavar="DIR", default="", help="where the run's files go (default: runs/<recipe>)"
        )
        sub.add_argument(
            "--devices",
            metavar="N",
            type=at_least(1),
            help="devices that train together (default: as many as the paper's)",
        )
        sub.add_argument("--precision", choices=recipes.PRECISIONS, help="(default: the paper's)")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer recipe``; the exit status."""
    if args.action == "list":
        found = recipes.listed(args.prefix, paper=args.paper)
        width = max(map(len, found))
        print("\n".join(f"{name:{width}}  {description}" for name, description in found.items()))
        return 0
    if args.action == "check":
        for name in recipes.names(args.files):
            recipe = recipes.load(name)
            try:
                command_lines.check(runner.steps(recipe, runner.Place()))
            except command_lines.FlagError as error:
                raise recipes.RecipeError(f"{name}: {error}") from error
            print(recipe.name)
            if recipe.added_to:
                print(f"warning: {recipe.added_to}", file=sys.stderr)
        return 0
    recipe = recipes.load(args.name, scale=args.scale, seed=args.seed)
    if args.action == "show":
        print(show(recipe, args.devices, args.precision, args.run_dir))
        return 0
    found = runner.steps(recipe, _place(recipe, args.devices, args.precision), args.run_dir)
    chosen = [step for step in found if step.name == args.step]
    if not chosen and args.step != "start":  # most recipes start from nothing
        raise recipes.RecipeError(
            f"step {args.step!r}: must be one of {', '.join(dict.fromkeys(s.name for s in found))}"
        )
    print("\n".join(step.line() for step in chosen), end="\n" if chosen else "")
    return 0
