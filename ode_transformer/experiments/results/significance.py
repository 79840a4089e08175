"""``ode-transformer compare``: tests whether systems differ significantly from a baseline on the test sets."""

import argparse
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ... import machine
from ...errors import OdeTransformerError
from ...files import sha256
from .. import markdown, recipes, runs
from ..arguments import at_least
from ..metrics import METRICS, bleu, translations
from ..runs import records
from ..tasks import TASKS
from ..tasks.task import Scored
from ..tasks.translation import plain_text
from ..tasks.translation import translations as translated
from ..text.lines import read_all

TRANSLATIONS_BY = "sacrebleu"  # the metric of translations, and of comparisons that do not say theirs
TESTS = {"randomisation": "approximate randomization", "bootstrap": "paired bootstrap"}
LEVEL = 0.05  # of adjusted p-values: the expected share of differences by chance among those called significant


class System(NamedTuple):
    """A recipe and the folder of its run; and its record, beside which its outputs are, if the run is gone."""

    recipe: recipes.Recipe
    folder: Path
    record: Optional[Path] = None


def system(recipe: recipes.Recipe, precision: Optional[str] = None) -> System:
    """A recipe with the default folder of its run, or with its record in ``results`` if there is no such run.

    Args:
        recipe: whose default folder is ``runs/NAME``; its records are ``results/NAME.json`` and, by precision,
            ``results/NAME.bf16.json`` and the like.
        precision: in which the system was trained; None for that of the run, else of ``results/NAME.json``, else of
            the only record.

    Raises:
        OdeTransformerError: there is no run or record in this precision; or several records, none of them
            ``results/NAME.json``, and no precision is named.
    """
    name = Path(recipes.default_run_dir(recipe)).relative_to("runs")
    folder, record = recipes.ROOT / "runs" / name, recipes.ROOT / "results" / name
    run = runs.read(folder)
    if run is not None and precision in (None, run["precision"]):
        return System(recipe, folder)
    plain = record.with_name(f"{record.name}.json")
    others = (record.with_name(f"{record.name}.{kind}.json") for kind in recipes.PRECISIONS)
    found = {records.read_record(path)["precision"]: path for path in (*others, plain) if path.is_file()}
    if precision is not None:
        if precision not in found:
            raise OdeTransformerError(f"{recipe.name}: has no run or record in {precision}, --precision")
        return System(recipe, folder, found[precision])
    if plain.is_file():
        return System(recipe, folder, plain)
    if len(found) > 1:
        raise OdeTransformerError(f"{recipe.name}: has records in {' and '.join(found)}; choose one with --precision")
    return System(recipe, folder, next(iter(found.values()), None))


def comparable(*systems: System) -> bool:
    """Whether all have the same task, metric, target language, letter case and test sets."""
    kinds = {
        (
            *(s.recipe.task, TASKS[s.recipe.task].metrics(s.recipe)[-1], s.recipe.data.target),
            *(s.recipe.score.lowercase, *sorted(s.recipe.subsets.values())),
        )
        for s in systems
    }
    return len(kinds) == 1 and (
        systems[0].recipe.task == "translation" or TASKS[systems[0].recipe.task].scored is not None
    )


def compare(
    baseline: System,
    systems: Sequence[System],
    test: str = "randomisation",
    samples: int = 1000,
    metric: Optional[str] = None,
) -> dict[str, Any]:
    """Test whether systems differ from a baseline, on the translations of their runs.

    The test is approximate randomization (Riezler and Maxwell 2005) or paired bootstrap resampling (Koehn 2004), of
    sacreBLEU on detokenized translations, or of a metric of another task.

    Args:
        baseline: a finished run.
        systems: finished runs with the same test sets, whatever their training data.
        test: one of ``TESTS``.
        samples: the number of resamplings, or trials.
        metric: by default that by which the task compares its systems; of translations, no other.

    Returns:
        ``baseline``, its ``seed``, the ``precisions`` in which the systems were trained, ``test``, ``samples``,
        ``metric``, ``signature``, and for each test set and recipe the metric's value, under its key in ``METRICS``,
        and ``p_value``: None for the baseline, and for a system whose score, or the baseline's, is not a number. Of
        translations also ``endless``, the number of sentences whose translation is endless in the system or in the
        baseline, and ``difference_without``, by how much the system's BLEU is higher on all other sentences.

    Raises:
        OdeTransformerError: a test set has no outputs, in a run or beside the record of one that is gone; the scores of
            a run are older than its outputs; test sets or references differ; or there is no such test or metric.
    """
    if test not in TESTS:
        raise OdeTransformerError(f"--test {test}: must be one of {', '.join(TESTS)}")
    first, name = baseline.recipe, baseline.recipe.name
    if first.task != "translation" and TASKS[first.task].scored is None:
        raise OdeTransformerError(f"{name}: runs of the task {first.task} cannot be compared")
    metrics = TASKS[first.task].metrics(first)
    tested, metric = metrics if TASKS[first.task].scored else metrics[-1:], metric or metrics[-1]
    if metric not in tested:
        raise OdeTransformerError(f"--metric {metric}: must be one of {', '.join(tested)} for {name}")
    names = [one.recipe.name for one in (baseline, *systems)]
    if twice := [other for other in names if names.count(other) > 1]:
        raise OdeTransformerError(f"{twice[0]}: must be given once")
    for other in systems:
        if not comparable(baseline, other):
            raise OdeTransformerError(
                f"{other.recipe.name}: must have the task, metric, test sets and letter case of {name}"
            )
    for one in (baseline, *systems):
        if one.record is None:
            _check_run(one)
            records.check_scores(one.recipe, one.folder)
    trained_in = {one.recipe.name: _precision(one) for one in (baseline, *systems)}
    compared = _translated if first.task == "translation" else partial(_scored, metric)
    signature, found = compared((baseline, *systems), test, samples)
    return {
        "baseline": name,
        "seed": first.trained_seed,
        "precisions": trained_in,
        "test": test,
        "samples": samples,
        "metric": metric,
        "signature": signature,
        "test_sets": found,
        "versions": machine.versions(),
    }


def _check_run(one: System) -> None:
    """Check that a run is of the recipe's file, and was decoded as the recipe says now."""
    run = runs.read(one.folder)
    if run is None:
        return
    runs.check_file(run, one.folder, one.recipe)
    if run["generate"] != runs.search(one.recipe):
        raise OdeTransformerError(
            f"{one.folder}: was decoded with other settings than {one.recipe.given} has now; decode again with "
            f"ode-transformer run {one.recipe.given} and the same options"
        )


def halved(comparison: dict[str, Any]) -> bool:
    """Whether the p of a comparison is sacreBLEU's, about half of the two-sided one.

    Its bootstrap counts |d| - mean |d| instead of |d - mean d|.
    """
    return comparison["metric"] == TRANSLATIONS_BY and comparison["test"] == "bootstrap"


def two_sided(comparison: dict[str, Any], p: Optional[float]) -> Optional[float]:
    """The two-sided p-value for a p-value of a comparison: itself, or its double where it is :func:`halved`."""
    return min(1.0, 2 * p) if p is not None and halved(comparison) else p


def kind_of_p(comparison: dict[str, Any]) -> str:
    """What :func:`two_sided` p-values of a comparison are."""
    return "twice sacreBLEU's p, which is about half of the two-sided one" if halved(comparison) else "two-sided p"


def adjusted(p_values: Sequence[Optional[float]]) -> list[Optional[float]]:
    """The p-values of a table, adjusted for their number as Benjamini and Hochberg (1995) do; None remains None.

    If the differences with an adjusted p-value below ``LEVEL`` are called significant, at most that share of them is
    expected to be due to chance.
    """
    from scipy.stats import false_discovery_control

    known = [p for p in p_values if p is not None]
    found = iter(false_discovery_control(known).tolist() if known else [])
    return [None if p is None else next(found) for p in p_values]


def precisions(comparison: dict[str, Any]) -> str:
    """A comparison's systems with the precisions of their training if these differ; otherwise empty."""
    by_system = comparison["precisions"]
    if len(set(by_system.values())) == 1:
        return ""
    trained = ", ".join(f"{name} {precision}" for name, precision in by_system.items())
    return f"the precisions of training differ: {trained}"


Found = tuple[str, dict[str, dict[str, Any]]]  # the metric's signature, and the results by test set and recipe


def _translated(systems: Sequence[System], test: str, samples: int) -> Found:
    """Compare by sacreBLEU."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    first = systems[0].recipe
    bleu.check_language(first.data.target)
    found: dict[str, dict[str, Any]] = {}
    for test_set in first.subsets.values():
        texts = [_outputs(one, test_set) for one in systems]
        references, *others = (_references(one, test_set, len(its)) for one, its in zip(systems, texts, strict=True))
        _same_references(systems, [references, *others], test_set)
        metric = BLEU(lowercase=first.score.lowercase, trg_lang=first.data.target, references=[references])
        named = [(s.recipe.name, hyps) for s, hyps in zip(systems, texts, strict=True)]
        differ = [_differing(metric, texts[0], hyps, references) for hyps in texts]
        done = PairedTest(
            named, {"BLEU": metric}, None, test_type={"randomisation": "ar", "bootstrap": "bs"}[test], n_samples=samples
        )
        signatures, scores = done()
        ((key, signature),) = signatures.items()
        found[test_set] = {
            name: {"bleu": result.score, "p_value": _with_ties(result.p_value, test, n) if i else None}
            for i, ((name, _), n, result) in enumerate(zip(named, differ, scores[key], strict=True))
        }
        for name, hyps in named[1:]:
            found[test_set][name] |= _without_endless(metric, texts[0], hyps, references)
    return str(signature), found


def _without_endless(
    metric: Any, baseline: Sequence[str], system: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    """How far two systems' BLEU differ on the sentences that neither of them translates without end."""
    kept = [
        (ours, theirs, reference)
        for ours, theirs, reference in zip(baseline, system, references, strict=True)
        if not (translations.is_endless(ours, reference) or translations.is_endless(theirs, reference))
    ]
    before, after = (metric.corpus_score([k[i] for k in kept], [[k[2] for k in kept]]).score for i in (0, 1))
    return {"endless": len(references) - len(kept), "difference_without": after - before}


def _differing(metric: Any, ours: Sequence[str], theirs: Sequence[str], references: Sequence[str]) -> int:
    """The number of sentences of two systems that are not the same to BLEU."""

    def counts(hypothesis: str, reference: str) -> tuple:
        score = metric.corpus_score([hypothesis], [[reference]])
        return score.counts, score.totals, score.sys_len

    pairs = ((a, b, reference) for a, b, reference in zip(ours, theirs, references, strict=True) if a != b)
    return sum(counts(a, reference) != counts(b, reference) for a, b, reference in pairs)


def _with_ties(p: float, test: str, differing: int) -> float:
    """sacreBLEU's p, with the trials that it leaves out: those whose difference equals that of the systems.

    Randomization exchanges none or all of the n sentences that differ with probability 2^(1 - n). If none differ, all
    samples are such trials.
    """
    return min(1.0, p + 2.0 ** (1 - differing)) if test == "randomisation" or differing == 0 else p


def _scored(metric: str, systems: Sequence[System], test: str, samples: int) -> Found:
    """Compare by a metric of the task's own, with sacreBLEU's seed, but with a two-sided p-value."""
    found: dict[str, dict[str, Any]] = {}
    signature = ""
    for test_set in systems[0].recipe.subsets.values():
        scored = [
            TASKS[s.recipe.task].scored(s.recipe, _outputs(s, test_set), _subset(s, test_set), metric) for s in systems
        ]
        if scored[0] is None:
            continue
        _same_references(systems, [one.reference for one in scored], test_set)
        baseline, signature, key = scored[0], scored[0].signature, METRICS[metric].key
        found[test_set] = {
            s.recipe.name: {
                key: _recorded(s, test_set, metric, signature, one.score(one.units.sum(0))),
                "p_value": p_value(baseline, one, test, samples) if i else None,
            }
            for i, (s, one) in enumerate(zip(systems, scored, strict=True))
        }
    if not found:
        names = ", ".join(systems[0].recipe.subsets.values())
        raise OdeTransformerError(
            f"--metric {metric}: {systems[0].recipe.name} has no test set ({names}) that can be compared by it"
        )
    return signature, found


def _recorded(one: System, test_set: str, metric: str, signature: str, otherwise: float) -> float:
    """The value that the run reports with this signature, as GLEU's, which is drawn at random; or ``otherwise``."""
    path = one.folder / "scores" / f"{_subset(one, test_set)}.json"
    if one.record:
        scores = records.read_record(one.record)["scores"][test_set]
    else:
        scores = records.read_scores(path) if path.is_file() else {}
    value = METRICS[metric].value(scores)
    return value if value is not None and METRICS[metric].signature(scores) == signature else otherwise


def p_value(baseline: Scored, system: Scored, test: str, samples: int, seed: int = 12345) -> Optional[float]:
    """The p-value of the difference of two systems; None where a score is not a number because a model diverged.

    It is the probability of a difference at least as large under the hypothesis that the systems do not differ.

    Args:
        baseline: the scores of a system.
        system: the scores of another system on the same sentences.
        test: ``bootstrap`` draws sentences with replacement, and the differences are centered; ``randomisation``
            exchanges the systems' sentences with probability 1/2.
        samples: the number of resamplings, or trials.
        seed: the seed of the random numbers.
    """
    import numpy as np

    a, b = baseline.units, system.units
    sentences, random = len(a), np.random.default_rng(seed)
    observed = abs(system.score(b.sum(0)) - baseline.score(a.sum(0)))
    if not math.isfinite(observed):
        return None
    differences = []
    for _ in range(samples):
        if test == "bootstrap":
            times = np.bincount(random.integers(sentences, size=sentences), minlength=sentences)
            sums = times @ a, times @ b
        else:
            swap = random.integers(2, size=(sentences, 1))
            sums = np.where(swap, b, a).sum(0), np.where(swap, a, b).sum(0)
        differences.append(system.score(sums[1]) - baseline.score(sums[0]))
    found = np.array(differences)
    if test == "bootstrap":
        found = found - found.mean()
    # The tolerance covers the rounding of sums in another order.
    return float((1 + (np.abs(found) > observed - 1e-12).sum()) / (1 + samples)) if observed else 1.0


def _same_references(systems: Sequence[System], references: Sequence[Any], test_set: str) -> None:
    name = systems[0].recipe.name
    if others := [s.recipe.name for s, theirs in zip(systems, references, strict=True) if theirs != references[0]]:
        raise OdeTransformerError(f"{others[0]}: must have the references of {name} for {test_set}")


def _precision(one: System) -> str:
    """The precision of a run, from its ``run.json`` or its record."""
    run = records.read_record(one.record) if one.record else runs.read(one.folder)
    if run is None:
        raise OdeTransformerError(f"{one.folder}: must hold a run; ode-transformer run {one.recipe.given} makes it")
    return run["precision"]


def _subset(one: System, test_set: str) -> str:
    """The name of a test set in the system's data."""
    return next(subset for subset, name in one.recipe.subsets.items() if name == test_set)


def _outputs(one: System, test_set: str) -> list[str]:
    """What a system made of a test set: translations, or what its task has for them."""
    if one.record is None:
        return TASKS[one.recipe.task].outputs(one.recipe, one.folder, _subset(one, test_set))
    path = records.translations_beside(one.record, test_set)
    if not path.is_file():
        raise OdeTransformerError(f"{path}: no such file; ode-transformer run {one.recipe.name} makes it again")
    known = records.read_record(one.record).get("translations", {}).get(test_set)
    if known is None:
        raise OdeTransformerError(
            f"{one.record}: has no SHA-256 of {path.name}; ode-transformer record --translations writes both"
        )
    if known != sha256(path):
        raise OdeTransformerError(f"{path}: must have the SHA-256 in {one.record.name}, {known}")
    return read_all(path)


def _references(one: System, test_set: str, count: int) -> list[str]:
    """The references of translations: raw where they exist, otherwise the tokenized ones, as for the score."""
    recipe, subset = one.recipe, _subset(one, test_set)
    data = recipes.ROOT / recipe.data.directory
    beside = translations.references_in(data, subset, recipe.data.target)
    if "raw" in beside:
        found = read_all(beside["raw"])
    elif "tok" in beside:
        found = plain_text(recipe, read_all(beside["tok"]))
    elif one.record:
        raise OdeTransformerError(f"{data}: must have the references of {test_set}; made by: {recipe.data.prepare}")
    else:
        path = translated(str(one.folder), subset)
        found = plain_text(recipe, translations.read_generate_output(path).references or [])
    if len(found) != count:
        raise OdeTransformerError(
            f"{recipe.name} has {count} sentences of {test_set}, the references in {data} are {len(found)}"
        )
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer compare``."""
    parser.add_argument("baseline", metavar="BASELINE", help="the recipe of a finished run")
    parser.add_argument("system", metavar="SYSTEM", nargs="+", help="recipes of finished runs with the same test sets")
    parser.add_argument(
        "--test", choices=TESTS, default="randomisation", help="approximate randomization, or paired bootstrap"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="the task's metric to compare by (default: its main one; translations: sacrebleu)",
    )
    parser.add_argument(
        "--samples", metavar="N", type=at_least(1), default=1000, help="resamplings, or trials (default: 1000)"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="JSON file to write, such as results/significance/GROUP.json"
    )
    parser.add_argument(
        "--precision", choices=recipes.PRECISIONS, help="of all trainings (default: that of the run, or of its record)"
    )
    recipes.add_variant(parser)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer compare``; the exit status."""
    loaded = [recipes.load(name, scale=args.scale, seed=args.seed) for name in (args.baseline, *args.system)]
    named = [system(recipe, args.precision) for recipe in loaded]
    content = compare(named[0], named[1:], args.test, args.samples, args.metric)
    metric = METRICS[content["metric"]]
    print(kind_of_p(content))
    if differ := precisions(content):
        print(differ)
    by_test_set = content["test_sets"]
    p_values = [two_sided(content, values["p_value"]) for found in by_test_set.values() for values in found.values()]
    both = zip(p_values, adjusted(p_values), strict=True)
    for test_set, found in by_test_set.items():
        cells = []
        for name, values in found.items():
            said = ["not compared" if p is None else f"{p:.4f}" for p in next(both)]
            cells.append(
                (name, f"{values[metric.key]:.2f}", *(said if name != content["baseline"] else ["baseline", ""]))
            )
        print(f"\n{test_set} ({content['signature']})\n")
        print(markdown.table(("system", metric.label, "p", "p, adjusted for the number of comparisons"), cells))
    if args.output:
        records.write(args.output, content)
    return 0
