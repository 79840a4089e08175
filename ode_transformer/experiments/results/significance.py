"""``ode-transformer compare``: tests whether systems differ significantly from a baseline on the test sets.

Systems are runs, by their recipes or folders, or plain files; the test is that of :mod:`~.metrics.resampling`, by the
statistics of any metric.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ... import machine, markdown
from ...errors import OdeTransformerError
from ...files import sha256, write_json
from .. import recipes, records
from ..arguments import at_least, output_file
from ..metrics import METRICS, Examples, Metric
from ..metrics.resampling import TESTS, bootstrap, interval, p_value
from ..metrics.scoring import is_endless
from ..records import matching
from ..tasks import TASKS
from ..text.lines import lines_of, read_all
from . import comparisons

if TYPE_CHECKING:
    import numpy as np

TRANSLATIONS_BY = "sacrebleu"  # the metric of comparisons that do not say theirs


class System(NamedTuple):
    """A run: its recipe and folder; and its record, beside which its outputs are, if the run is gone."""

    recipe: recipes.Recipe
    folder: Path
    record: Optional[Path] = None
    given: str = ""  # the folder, where that is what the user named

    @property
    def name(self) -> str:
        """The name in a comparison."""
        return self.given or self.recipe.name


def of_folder(folder: str) -> System:
    """The run in a folder.

    Raises:
        OdeTransformerError: there is none, or its recipe is not there.
    """
    run = records.read_run(folder)
    if run is None:
        raise OdeTransformerError(f"{folder}: must hold a run, with run.json")
    recipe = recipes.load(run["given"], scale=run["scale"] or "full", seed=run["seed"])
    return System(recipe, Path(folder), given=folder)


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
    run = records.read_run(folder)
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
    return len(kinds) == 1 and TASKS[systems[0].recipe.task].examples is not None


def compare(
    baseline: System,
    systems: Sequence[System],
    test: str = "randomisation",
    samples: int = 1000,
    metric: Optional[str] = None,
) -> dict[str, Any]:
    """Test whether systems differ from a baseline, on the outputs of their runs.

    Args:
        baseline: a finished run.
        systems: finished runs with the same test sets, whatever their training data.
        test: one of ``TESTS``.
        samples: the number of resamplings, or trials.
        metric: by default that by which the task compares its systems.

    Returns:
        ``baseline``, its ``seed``, the ``precisions`` in which the systems were trained, ``test``, ``samples``,
        ``metric``, ``signature``, ``two_sided``, true, and for each test set and system what :func:`tested` returns. Of
        translations also ``endless``, the number of sentences whose translation is endless in the system or in the
        baseline, and ``difference_without``, by how much the system's score is higher on all other sentences.

    Raises:
        OdeTransformerError: a test set has no outputs, in a run or beside the record of one that is gone; the scores of
            a run are older than its outputs; test sets or references differ; or there is no such test or metric.
    """
    everyone, name, task = (baseline, *systems), baseline.name, TASKS[baseline.recipe.task]
    if task.examples is None:
        raise OdeTransformerError(f"{name}: runs of the task {baseline.recipe.task} cannot be compared")
    its = _metric(metric or task.metrics(baseline.recipe)[-1], test)
    names = [one.name for one in everyone]
    if twice := [other for other in names if names.count(other) > 1]:
        raise OdeTransformerError(f"{twice[0]}: must be given once")
    for other in systems:
        if not comparable(baseline, other):
            raise OdeTransformerError(f"{other.name}: must have the task, metric, test sets and letter case of {name}")
    for one in everyone:
        if one.record is None:
            _check_run(one)
            records.check_scores(one.recipe, one.folder)
    trained_in = {one.name: _precision(one) for one in everyone}
    found, signature = {}, ""
    for test_set in baseline.recipe.subsets.values():
        both = {one.name: read(one, test_set) for one in everyone}
        outputs, examples = both[name]
        if not its.fits(examples):
            continue
        for other, (_, others) in both.items():
            if _compared_with(others) != _compared_with(examples):
                raise OdeTransformerError(f"{other}: must have the references of {name} for {test_set}")
        signature = its.quoted(outputs, examples)
        statistics = {other: its.of_each(*one) for other, one in both.items()}
        values = tested(its, statistics, test, samples)
        for one in everyone:
            values[one.name][its.key] = _recorded(one, test_set, its, signature, values[one.name][its.key])
            if one is not baseline and baseline.recipe.task == "translation":
                texts = outputs, both[one.name][0], examples.references[0]
                values[one.name] |= _without_endless(its, statistics[name], statistics[one.name], *texts)
        found[test_set] = values
    if not found:
        raise OdeTransformerError(
            f"--metric {its.name}: {name} has no test set ({', '.join(baseline.recipe.subsets.values())}) with "
            f"{its.needed}, which it needs"
        )
    about = {"baseline": name, "seed": baseline.recipe.trained_seed, "precisions": trained_in}
    return about | _described(its, test, samples, signature) | {"test_sets": found}


def compare_files(
    files: Sequence[str],
    references: Sequence[str],
    test: str = "randomisation",
    samples: int = 1000,
    metric: str = TRANSLATIONS_BY,
    source: Optional[str] = None,
    lang: str = "",
    lowercase: bool = False,
) -> dict[str, Any]:
    """Test whether outputs in files differ from those in the first, as :func:`compare` does.

    Args:
        files: of plain text, or of labels, an output in each line.
        references: files of what is right, as many as there are references.
        test, samples, metric: as those of :func:`compare`.
        source: a file of what was translated, for metrics that read it.
        lang: the language of translations, for metrics that tokenize by it.
        lowercase: whether letter case is ignored.

    Raises:
        OdeTransformerError: a file cannot be read, or has another number of lines; or there is no such test or metric.
    """
    its, first = _metric(metric, test), read_all(files[0])
    if any(re.match(r"H-\d+\t", line) for line in first):
        raise OdeTransformerError(
            f"{files[0]}: is an output of fairseq-generate, must be text, a sentence in each line"
        )
    right = [lines_of(path, len(first), files[0]) for path in references]
    sources = lines_of(source, len(first), files[0]) if source else ()
    examples = Examples(right, sources, labels=right[0], lang=lang, lowercase=lowercase)
    if not its.fits(examples):
        raise OdeTransformerError(f"--metric {metric}: needs {its.needed}")
    texts = {path: lines_of(path, len(first), files[0]) for path in files}
    if len(texts) < len(files):
        raise OdeTransformerError("every file must be given once")
    values = tested(its, {path: its.of_each(lines, examples) for path, lines in texts.items()}, test, samples)
    about = {"baseline": files[0], "seed": None, "precisions": {}}
    about |= _described(its, test, samples, its.quoted(first, examples))
    return about | {"test_sets": {", ".join(references): values}}


def tested(
    metric: Metric, statistics: Mapping[str, "np.ndarray"], test: str, samples: int
) -> dict[str, dict[str, Any]]:
    """Test whether systems differ from the first one.

    Args:
        metric: what they are compared by.
        statistics: :meth:`.Metric.of_each` of each system, of the same examples.
        test, samples: as those of :func:`compare`.

    Returns:
        of each system the metric's value, under its key; its 95 percent ``interval``; ``p_value``, two-sided, and the
        ``interval_of_difference`` from the first; both are None for the first. A score that is not a number has no p.
    """
    baseline = next(iter(statistics.values()))
    base, found = bootstrap(baseline, metric.score), {}
    for name, its in statistics.items():
        scores, first = bootstrap(its, metric.score), its is baseline
        found[name] = {
            metric.key: float(metric.score(its.sum(0))),
            "interval": interval(scores),
            "p_value": None if first else p_value(baseline, its, metric.score, test, samples),
            "interval_of_difference": None if first else interval(scores - base),
        }
    return found


def _metric(name: str, test: str) -> Metric:
    if test not in TESTS:
        raise OdeTransformerError(f"--test {test}: must be one of {', '.join(TESTS)}")
    if name not in METRICS or METRICS[name].statistics is None:
        known = ", ".join(metric.name for metric in METRICS.values() if metric.statistics)
        raise OdeTransformerError(f"--metric {name}: must be one of {known}")
    return METRICS[name]


def _described(metric: Metric, test: str, samples: int, signature: str) -> dict[str, Any]:
    about = {"test": test, "samples": samples, "metric": metric.name, "signature": signature, "two_sided": True}
    return about | {"versions": machine.versions()}


def _compared_with(examples: Examples) -> tuple:
    """What must be equal for systems that are compared."""
    return examples.references, examples.labels, examples.questions, examples.edits and read_all(examples.edits)


def read(one: System, test_set: str) -> tuple[Sequence[str], Examples]:
    """The outputs of a system, and the examples that they are of."""
    examples = TASKS[one.recipe.task].examples
    if examples is None:
        raise OdeTransformerError(f"{one.name}: the task {one.recipe.task} keeps no outputs")
    return examples(one.recipe, _outputs(one, test_set), _subset(one, test_set), None if one.record else one.folder)


def _without_endless(
    metric: Metric,
    baseline: "np.ndarray",
    system: "np.ndarray",
    ours: Sequence[str],
    theirs: Sequence[str],
    references: Sequence[str],
) -> dict[str, Any]:
    """How far two systems differ on the sentences that neither of them translates without end."""
    import numpy as np

    texts = zip(ours, theirs, references, strict=True)
    kept = np.array([not (is_endless(a, reference) or is_endless(b, reference)) for a, b, reference in texts])
    before, after = (metric.score(its[kept].sum(0)) for its in (baseline, system))
    return {"endless": int((~kept).sum()), "difference_without": float(after - before)}


def _recorded(one: System, test_set: str, metric: Metric, signature: str, otherwise: float) -> float:
    """The value that the run reports with this signature, as GLEU's, which is drawn at random; or ``otherwise``."""
    path = one.folder / "scores" / f"{_subset(one, test_set)}.json"
    if one.record:
        scores = records.read_record(one.record)["scores"].get(test_set, {})
    else:
        scores = records.read_scores(path) if path.is_file() else {}
    value = metric.value(scores)
    return value if value is not None and metric.recorded_signature(scores) == signature else otherwise


def _check_run(one: System) -> None:
    """Check that a run is of the recipe's file, and was decoded as the recipe says now."""
    run = records.read_run(one.folder)
    if run is None:
        return
    matching.check_file(run, one.folder, one.recipe)
    if run["generate"] != matching.decoding(one.recipe):
        raise OdeTransformerError(
            f"{one.folder}: was decoded with other settings than {one.recipe.given} has now; decode again with "
            f"ode-transformer run {one.recipe.given} and the same options"
        )


def _precision(one: System) -> str:
    """The precision of a run, from its ``run.json`` or its record."""
    run = records.read_record(one.record) if one.record else records.read_run(one.folder)
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer compare``."""
    parser.add_argument("baseline", metavar="BASELINE", help="the recipe or the folder of a finished run; or a file")
    parser.add_argument("system", metavar="SYSTEM", nargs="+", help="others with the same test sets; or files")
    parser.add_argument(
        "--test", choices=TESTS, default="randomisation", help="approximate randomization, or paired bootstrap"
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="what to compare by (default: the task's main one; translations: sacrebleu)"
    )
    parser.add_argument(
        "--samples", metavar="N", type=at_least(1), default=1000, help="resamplings, or trials (default: 1000)"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=output_file, help="JSON file to write, such as results/significance/GROUP.json"
    )
    parser.add_argument(
        "--precision", choices=recipes.PRECISIONS, help="of all trainings (default: that of the run, or of its record)"
    )
    files = parser.add_argument_group("files of plain text, a translation in each line")
    files.add_argument("--ref", metavar="FILE", action="append", help="their references; may be repeated")
    files.add_argument("--source", metavar="FILE", help="what was translated, for --metric comet")
    files.add_argument("--target-lang", metavar="LANG", default="", help="for the tokenization of zh, ja and ko")
    files.add_argument("--lowercase", action="store_true", help="ignore case")
    recipes.add_variant(parser)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer compare``; the exit status."""
    names = (args.baseline, *args.system)
    if args.ref:
        if args.precision or args.scale != "full" or args.seed is not None:
            raise OdeTransformerError("--precision, --scale and --seed go with recipes; not with --ref FILE")
        how = args.source, args.target_lang, args.lowercase
        metric = args.metric or TRANSLATIONS_BY
        content = compare_files(names, args.ref, args.test, args.samples, metric, *how)
    elif args.source or args.target_lang or args.lowercase:
        raise OdeTransformerError("--source, --target-lang and --lowercase go with --ref FILE; a recipe says them")
    else:
        systems = []
        for name in names:
            if Path(name, "run.json").is_file():
                systems.append(of_folder(name))
                continue
            try:
                recipe = recipes.load(name, scale=args.scale, seed=args.seed)
            except recipes.RecipeError as error:
                if recipes.is_there(name) or "/" not in name:
                    raise
                kind = "holds no run.json, so it is no run" if Path(name).is_dir() else "is no run and no recipe"
                raise OdeTransformerError(
                    f"{name}: {kind}; give the folder of a run, a recipe, or files of text with --ref FILE"
                ) from error
            systems.append(system(recipe, args.precision))
        content = compare(systems[0], systems[1:], args.test, args.samples, args.metric)
    print(report(content))
    if args.output:
        write_json(args.output, content)
        print(args.output)
    return 0


def report(comparison: Mapping[str, Any]) -> str:
    """A comparison as tables to print, one for each test set."""
    found, its = comparisons.adjust(comparisons.rows(comparison)), METRICS[comparison["metric"]]
    parts = [found[0].how]
    if len(set(comparison["precisions"].values())) > 1:
        trained = ", ".join(f"{name} {precision}" for name, precision in comparison["precisions"].items())
        parts.append(f"the precisions of training differ: {trained}")
    head = ("system", its.label, "95 percent interval", "difference", "p", "p, adjusted for all comparisons")
    for test_set, systems in comparison["test_sets"].items():
        first = systems[comparison["baseline"]]
        cells = [(comparison["baseline"], f"{first[its.key]:.2f}", _range(first["interval"]), "", "baseline", "")]
        for row in (row for row in found if row.test_set == test_set):
            difference = f"{row.value - row.baseline_value:+.2f} {_range(row.values['interval_of_difference'], '+')}"
            said = ["not compared" if p is None else f"{p:.4f}" for p in (row.p_value, row.adjusted)]
            cells.append((row.system, f"{row.value:.2f}", _range(row.values["interval"]), difference, *said))
        parts.append(f"\n{test_set} ({comparison['signature']})\n\n{markdown.table(head, cells)}")
    return "\n".join(parts)


def _range(interval: Sequence[float], sign: str = "") -> str:
    low, high = interval
    return f"[{low:{sign}.2f}, {high:{sign}.2f}]"
