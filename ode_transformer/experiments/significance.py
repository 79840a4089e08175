"""Tests of whether systems differ from a baseline, on the translations that their runs left."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import OdeTransformerError
from . import recipes, records, runs
from .metrics import translations
from .tasks.translation import translations as translated

TESTS = {"bootstrap": "bs", "randomisation": "ar"}


class SignificanceError(OdeTransformerError):
    """Systems that cannot be compared; the message names them and the reason."""


class System(NamedTuple):
    """A recipe of translation and the folder of its run."""

    recipe: recipes.Recipe
    folder: Path


def system(recipe: recipes.Recipe) -> System:
    """A recipe with the folder that its run goes to by default."""
    return System(recipe, recipes.ROOT / recipes.default_run_dir(recipe))


def comparable(*systems: System) -> bool:
    """Whether all translate to one language, are scored alike, and were tested on the same test sets."""
    kinds = {
        (s.recipe.task, s.recipe.data.target, s.recipe.score.lowercase, *sorted(s.recipe.subsets.values()))
        for s in systems
    }
    return len(kinds) == 1 and systems[0].recipe.task == "translation"


def compare(
    baseline: System, systems: Sequence[System], test: str = "bootstrap", samples: int = 1000
) -> dict[str, Any]:
    """Test whether systems differ from a baseline, on the translations that their runs left.

    Paired bootstrap resampling (Koehn 2004) or approximate randomization (Riezler and Maxwell 2005), both of sacreBLEU,
    on detokenized text.

    Args:
        baseline: a finished run.
        systems: finished runs on the same test sets, whatever they were trained on.
        test: one of ``TESTS``.
        samples: resamplings, or trials.

    Returns:
        ``baseline``, its ``seed``, ``precision``, ``test``, ``samples``, ``signature``, and by test set and recipe
        ``bleu`` and ``p_value`` (None for the baseline).

    Raises:
        SignificanceError: no translations, other test sets or references, several precisions, an unknown test.
    """
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    if test not in TESTS:
        raise SignificanceError(f"--test {test}: must be one of {', '.join(TESTS)}")
    first, name = baseline.recipe, baseline.recipe.name
    for other in systems:
        if not comparable(baseline, other):
            raise SignificanceError(f"{other.recipe.name}: has other test sets, or another case, than {name}")
    precisions = {_precision(one) for one in (baseline, *systems)}
    if len(precisions) > 1:
        raise SignificanceError(f"{name} and others: were run in several precisions, {', '.join(sorted(precisions))}")
    found: dict[str, dict[str, Any]] = {}
    for test_set in first.subsets.values():
        texts = [_translations(one, test_set) for one in (baseline, *systems)]
        references = texts[0][1]
        if others := [s.recipe.name for s, (_, theirs) in zip(systems, texts[1:], strict=True) if theirs != references]:
            raise SignificanceError(f"{others[0]}: has other references of {test_set} than {name}")
        metric = BLEU(lowercase=first.score.lowercase, trg_lang=first.data.target, references=[references])
        named = [(s.recipe.name, hyps) for s, (hyps, _) in zip((baseline, *systems), texts, strict=True)]
        done = PairedTest(named, {"BLEU": metric}, None, test_type=TESTS[test], n_samples=samples)
        signatures, scores = done()
        ((key, signature),) = signatures.items()
        found[test_set] = {
            # sacreBLEU counts trials that differ by more than the systems do: of the same translations, none.
            system_: {"bleu": result.score, "p_value": 1.0 if i and hyps == named[0][1] else result.p_value}
            for i, ((system_, hyps), result) in enumerate(zip(named, scores[key], strict=True))
        }
    return {
        "baseline": name,
        "seed": first.own_seed if first.seed is None else first.seed,
        "precision": precisions.pop(),
        "test": test,
        "samples": samples,
        "signature": str(signature),
        "test_sets": found,
        "versions": runs.versions(),
    }


def _precision(one: System) -> str:
    """The precision of a run, which its ``run.json`` says."""
    run = runs.read(one.folder)
    if run is None:
        raise SignificanceError(f"{one.folder}: no run is there; ode-transformer run {one.recipe.given} makes it")
    return run["precision"]


def _translations(one: System, test_set: str) -> tuple[list[str], list[str]]:
    """Detokenized translations and references; the raw references where they exist."""
    recipe = one.recipe
    subset = next(subset for subset, name in recipe.subsets.items() if name == test_set)
    path = Path(translated(str(one.folder), subset))
    if not path.is_file():
        raise SignificanceError(f"{path}: not there; ode-transformer run {recipe.name} makes it")
    hyps, refs = translations.read_generate_output(path)
    lang = recipe.data.target
    # As for the score: raw references where they exist, otherwise the tokenized ones beside the data.
    data, name = recipes.ROOT / recipe.data.directory, f"{subset}.{lang}"
    if (data / "raw" / name).is_file():
        plain = translations.read_lines(data / "raw" / name)
    else:
        tokenised = translations.read_lines(data / "tok" / name) if (data / "tok" / name).is_file() else refs or []
        plain = translations.detokenise(tokenised, lang)
    if len(plain) != len(hyps):
        raise SignificanceError(f"{path} has {len(hyps)} sentences, the references in {data} {len(plain)}")
    return translations.detokenise(hyps, lang), plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer compare``."""
    parser.add_argument("baseline", help="a recipe that was run")
    parser.add_argument("system", nargs="+", help="recipes that were run on the same data")
    parser.add_argument(
        "--test", choices=TESTS, default="bootstrap", help="paired bootstrap, or approximate randomization"
    )
    parser.add_argument("--samples", type=int, default=1000, help="resamplings, or trials (default: 1000)")
    parser.add_argument("--output", type=Path, help="a JSON file, such as results/significance/GROUP.json")
    recipes.add_variant(parser)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer compare``; the exit status."""
    if args.samples < 1:
        raise SignificanceError(f"--samples {args.samples}: must be 1 or more")
    named = [system(recipes.load(name, scale=args.scale, seed=args.seed)) for name in (args.baseline, *args.system)]
    content = compare(named[0], named[1:], args.test, args.samples)
    for test_set, found in content["test_sets"].items():
        print(f"{test_set}   {content['signature']}")
        for name, values in found.items():
            p_value = "baseline" if values["p_value"] is None else f"p = {values['p_value']:.4f}"
            print(f"  {name:<44} {values['bleu']:6.2f}   {p_value}")
    if args.output:
        records.write(args.output, content)
    return 0
