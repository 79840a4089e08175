"""The quickstart: a recipe from data to BLEU, and ten of its translations."""

import time
from typing import Optional

from ...files import read_json
from ..metrics.scoring import report
from ..tasks.translation import translations
from ..text.fairseq_output import read_generate_output
from . import runner, training

RECIPE = "quickstart/macaron-tiny"


def quickstart(run_dir: Optional[str] = None, seed: Optional[int] = None) -> None:
    """Run the recipe, and print its score and some translations.

    Args:
        run_dir: where the files go (default: runs/quickstart/macaron-tiny).
        seed: seed of training (default: 1).
    """
    began = time.monotonic()
    seeds, cpu = [] if seed is None else [seed], not training.gpu_count()  # it is meant for CPUs, too
    (done,) = runner.run([RECIPE], seeds=seeds, run_dir=run_dir, cpu=cpu)
    ours, right, sources = read_generate_output(translations(str(done.folder), "test"))
    print("\nTen held-out sentences, their translations, and what is right:")
    for i in range(10):
        print(f"\nsource  {sources[i]}\nours    {ours[i]}\nright   {right[i]}")
    score = read_json(done.folder / "scores" / "test.json")
    seconds = round(time.monotonic() - began)
    print(f"\nOf {score['sentences']} held-out sentences, one training with seed {done.recipe.trained_seed}:")
    print(f"{report(score)}\nThis call took {seconds} seconds.")
