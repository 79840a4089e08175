"""The quickstart: a recipe from data to BLEU, and ten of its translations."""

import argparse
import time
from pathlib import Path

from ...files import read_json
from .. import cli, recipes
from ..fairseq_output import read_generate_output
from ..metrics.scoring import report_of_translations
from ..runs import runner
from ..tasks.translation import translations

RECIPE = "quickstart/macaron-tiny"
SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer quickstart``."""
    parser.add_argument("--run-dir", metavar="DIR", help=f"where the files go (default: runs/{RECIPE})")
    parser.add_argument("--seed", metavar="N", type=int, help="seed of training (default: 1)")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer quickstart``; the exit status."""
    began = time.monotonic()
    recipe = recipes.load(RECIPE, seed=args.seed)
    folder = Path(args.run_dir).absolute() if args.run_dir else recipes.ROOT / recipes.default_run_dir(recipe)
    seed = ["--seed", str(args.seed)] if args.seed is not None else []
    cpu = [] if runner.gpu_count() else ["--cpu"]  # where it is meant to run, too
    if status := cli.main(["run", RECIPE, "--run-dir", str(folder), *seed, *cpu]):
        return status
    ours, right, sources = read_generate_output(translations(str(folder), "test"))
    print("\nTen held-out sentences, their translations, and what is right:")
    for i in range(SHOWN):
        print(f"\nsource  {sources[i]}\nours    {ours[i]}\nright   {right[i]}")
    score = read_json(folder / "scores" / "test.json")
    seconds = round(time.monotonic() - began)
    print(f"\nOf {score['sentences']} held-out sentences, one training with seed {recipe.trained_seed}:")
    print(f"{report_of_translations(score)}\nThis call took {seconds} seconds.")
    return 0
