"""The quickstart: a recipe from data to BLEU, and ten of its translations."""

import time

from ...files import read_json
from ..metrics.scoring import report
from ..tasks.translation import translations
from ..text.fairseq_output import read_generate_output
from . import runner, training

RECIPE = "quickstart/macaron-tiny"


def quickstart() -> None:
    """Run the recipe, and print its score and some translations."""
    began = time.monotonic()
    (done,) = runner.run([RECIPE], cpu=not training.gpu_count())  # it is meant for CPUs, too
    ours, right, sources = read_generate_output(translations(str(done.folder), "test"))
    print("\nTen held-out sentences, their translations, and what is right:")
    for i in range(10):
        print(f"\nsource  {sources[i]}\nours    {ours[i]}\nright   {right[i]}")
    score = read_json(done.folder / "scores" / "test.json")
    seconds = round(time.monotonic() - began)
    print(f"\nOf {score['sentences']} held-out sentences, one training with seed {done.recipe.trained_seed}:")
    print(f"{report(score)}\nThis call took {seconds} seconds.")
