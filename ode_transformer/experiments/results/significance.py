"""``ode-transformer compare``: tests whether systems differ significantly from a baseline on the test sets.

Systems are runs, given by recipes or folders, or plain files. The tests are those of :mod:`~.metrics.resampling`, with
any metric that has statistics per example.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ... import machine, markdown
from ...errors import OdeTransformerError
from ...files import sha256
from .. import recipes, records
from ..metrics import METRICS, Examples, Metric
from ..metrics.resampling import bootstrap, interval, p_value
from ..metrics.scoring import is_endless, unknown_metric
from ..runs import check_file
from ..tasks import TASKS
from ..text.fairseq_output import check_text
from ..text.lines import lines_of, read_all
from . import comparisons

Outputs = tuple[Sequence[str], Examples]  # of a system on a test set, and the examples of the test set


class System(NamedTuple):
    """A run: its recipe and folder; if the folder is gone, the record of the run, with the outputs beside it."""

    recipe: recipes.Recipe
    folder: Path
    record: Optional[Path] = None
    given: str = ""  # the folder, if the user gave it instead of a recipe

    @property
    def name(self) -> str:
        """The name of the system in a comparison."""
        return self.given or self.recipe.name

    @property
    def command(self) -> str:
        """The command that makes the run or, where its folder is gone, the record with the outputs beside it."""
        words = ["ode-transformer", "run", self.recipe.given, *recipes.run_options(self.recipe)]
        if self.record:
            held = records.read_record(self.record)
            words += [f"--{held['precision']}", "--record", str(self.record)]
            words += ["--", *held["flags"]] if held["flags"] else []
        return shlex.join(words)

    def subset(self, test_set: str) -> str:
        """Return the subset of the system's data that is a test set."""
        return next(subset for subset, name in self.recipe.subsets.items() if name == test_set)

    def outputs(self, test_set: str) -> Sequence[str]:
        """Return the outputs of a test set, from the folder of the run or from beside its record."""
        if self.record is None:
            return TASKS[self.recipe.task].outputs(self.recipe, self.folder, self.subset(test_set))
        path = records.translations_beside(self.record, test_set)
        if not path.is_file():
            raise OdeTransformerError(f"{path}: no such file; {self.command} makes it again")
        if records.read_record(self.record).get("translations", {}).get(test_set) != sha256(path):
            raise OdeTransformerError(
                f"{path}: must have the SHA-256 in {self.record.name}; restore it, or make both again by {self.command}"
            )
        return read_all(path)

    def read(self, test_set: str) -> Outputs:
        """Return the outputs of a test set, and its examples."""
        examples, folder = TASKS[self.recipe.task].examples, None if self.record else self.folder
        assert examples is not None
        return examples(self.recipe, self.outputs(test_set), self.subset(test_set), folder)

    def precision(self) -> str:
        """Return the precision of the training, after checking that the run is of the recipe in its present form."""
        if self.record:
            return records.read_record(self.record)["precision"]
        records.check_scores(self.recipe, self.folder)
        run, given = records.read_run(self.folder), self.recipe.given
        if run is None:
            raise OdeTransformerError(f"{self.folder}: must hold a run; {self.command} makes it")
        check_file(run, self.folder, self.recipe)
        if run["generate"] != records.decoding_flags(self.recipe):
            raise OdeTransformerError(
                f"{self.folder}: was decoded with other settings than {given} has now; decode again with "
                f"ode-transformer run {given} and the same options"
            )
        return run["precision"]

    def scores(self, test_set: str) -> Mapping[str, Any]:
        """Return the scores of a test set from the run or its record; empty if there are none."""
        if self.record:
            return records.read_record(self.record)["scores"].get(test_set, {})
        path = self.folder / "scores" / f"{self.subset(test_set)}.json"
        return records.read_scores(path) if path.is_file() else {}


def of_folder(folder: str) -> System:
    """Return the run in a folder."""
    run = records.read_run(folder)
    if run is None:
        raise OdeTransformerError(f"{folder}: must hold a run, with run.json")
    try:
        recipe = recipes.load(run["given"], scale=run["scale"], seed=run["seed"])
    except recipes.RecipeError as error:
        raise OdeTransformerError(f"{error}; if the recipe was moved, name it instead of {folder}") from error
    return System(recipe, Path(folder), given=folder)


def system(recipe: recipes.Recipe, precision: Optional[str] = None) -> System:
    """Return a recipe with the default folder of its run, or with its record in ``results`` if there is no such run.

    The folder is ``runs/NAME``, the records are ``results/NAME.json`` and, by precision, ``results/NAME.bf16.json`` and
    the like. Without ``precision``, that of the run counts, else that of ``results/NAME.json``, else that of the only
    record.
    """
    name = Path(recipes.default_run_dir(recipe)).relative_to("runs")
    folder, record = recipes.ROOT / "runs" / name, recipes.ROOT / "results" / name
    run = records.read_run(folder)
    if run is not None and precision in (None, run["precision"]):
        return System(recipe, folder)
    usual = record.with_name(f"{record.name}.json")
    others = (record.with_name(f"{record.name}.{kind}.json") for kind in recipes.PRECISIONS)
    found = {records.read_record(path)["precision"]: path for path in (*others, usual) if path.is_file()}
    if precision is not None and precision not in found:
        raise OdeTransformerError(f"{recipe.name}: has no run or record in {precision}, --precision")
    if precision is None and usual.is_file():
        return System(recipe, folder, usual)
    if precision is None and len(found) > 1:
        raise OdeTransformerError(f"{recipe.name}: has records in {' and '.join(found)}; choose one with --precision")
    return System(recipe, folder, found.get(precision or next(iter(found), "")))


def comparable(*systems: System) -> bool:
    """Whether systems share task, metric, target language, letter case and test sets, and the task keeps outputs."""
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
    """Test whether systems differ from a baseline, on the outputs of their runs, by default by the task's main metric.

    Their training data may differ. The result is that of :func:`tested`, with the name of the ``baseline``, its
    ``seed``, and the ``precisions`` of the trainings.
    """
    everyone, recipe = (baseline, *systems), baseline.recipe
    if TASKS[recipe.task].examples is None:
        raise OdeTransformerError(f"{baseline.name}: runs of the task {recipe.task} cannot be compared")
    its = _metric(metric or TASKS[recipe.task].metrics(recipe)[-1], [one.name for one in everyone])
    for other in systems:
        if not comparable(baseline, other):
            raise OdeTransformerError(
                f"{other.name}: must have the task, metric, target language, test sets and letter case of "
                f"{baseline.name}"
            )
    about = {"baseline": baseline.name, "seed": recipe.trained_seed}
    about["precisions"] = {one.name: one.precision() for one in everyone}
    sets = {test_set: [(one.name, one.read(test_set)) for one in everyone] for test_set in recipe.subsets.values()}
    found = tested(sets, its, test, samples, recipe.task == "translation")
    for test_set, values in found["test_sets"].items():
        for one in everyone:  # prefer the run's own value of these references: GLEU draws some of them at random
            scores, raw = one.scores(test_set), (recipes.ROOT / one.recipe.data.directory / "raw").is_dir()
            same = its.recorded_signature(scores) == found["signature"] and (raw or scores.get("reference") != "raw")
            if same and its.value(scores) is not None:
                values[one.name][its.key] = its.value(scores)
    return about | found


def compare_files(
    files: Sequence[str],
    ref: Sequence[str],
    test: str = "randomisation",
    samples: int = 1000,
    metric: Optional[str] = None,
    source: Optional[str] = None,
    target_lang: str = "",
    lowercase: bool = False,
) -> dict[str, Any]:
    """Test whether outputs in files differ from those in the first, as :func:`compare` does.

    Args:
        files: of plain text, or of labels, an output in each line.
        ref: references, one per line, where the systems are files of plain text or of labels; may be repeated.
        test: the test of significance, approximate randomization or paired bootstrap.
        samples: number of trials of the randomization, or of bootstrap samples.
        metric: the metric to compare by (default: the task's main one; sacrebleu for translations and files).
        source: with --ref, the source sentences, for --metric comet or gleu.
        target_lang: with --ref, the target language, by which sacreBLEU tokenizes zh, ja and ko.
        lowercase: with --ref, ignore case.
    """
    its, first = _metric(metric or "sacrebleu", files), read_all(files[0])
    for path in files:
        check_text(read_all(path), path)
    right = [lines_of(path, len(first), files[0]) for path in ref]
    if not (metric or target_lang) and not any(" " in line.strip() for lines in right for line in lines):
        raise OdeTransformerError(
            f"--ref {ref[0]}: has one word in each line; give --metric, such as accuracy, or "
            "--target-lang of text without blanks"
        )
    sources = lines_of(source, len(first), files[0]) if source else ()
    examples = Examples(right, sources, labels=right[0], lang=target_lang, lowercase=lowercase)
    outputs = [(path, (lines_of(path, len(first), files[0]), examples)) for path in files]
    if not its.fits(examples):
        helps = its.fits(replace(examples, sources=first))
        remedy = "give --source" if helps else "compare recipes or folders of runs"
        raise OdeTransformerError(f"--metric {its.name}: needs {its.needed}; {remedy}")
    about = {"baseline": files[0], "seed": None, "precisions": {}}
    return about | tested({", ".join(ref): outputs}, its, test, samples)


def _metric(name: str, systems: Sequence[str]) -> Metric:
    """Return a metric by name; check it and the systems before anything is read or scored."""
    if name not in METRICS:
        raise unknown_metric(name, [one.name for one in METRICS.values() if one.statistics])
    if METRICS[name].statistics is None:
        raise OdeTransformerError(f"--metric {name}: has no statistics of each output, so no test of significance")
    if twice := [system for system in systems if systems.count(system) > 1]:
        raise OdeTransformerError(f"{twice[0]}: must be given once")
    return METRICS[name]


def tested(
    sets: Mapping[str, Sequence[tuple[str, Outputs]]], metric: Metric, test: str, samples: int, ends: bool = False
) -> dict[str, Any]:
    """Test whether systems differ from the first one.

    ``sets`` has the names of the systems and their outputs by test set; ``ends`` asks for endless outputs.

    Returns:
        ``test``, ``samples``, ``metric``, ``signature``, ``two_sided`` (true), ``versions``, and ``test_sets``. For
        each test set that has what the metric needs, and each system, these hold the metric's value, under its key;
        its 95 percent ``interval``; the two-sided ``p_value`` and the ``interval_of_difference`` from the first system,
        both None for the first. ``p_value`` is None if a score is not a number. With ``ends``, all but the first also
        have ``endless``, the number of sentences whose translation is endless in the system or in the first, and
        ``difference_without``, by how much the system's score is higher on all other sentences.
    """
    import numpy as np

    signature, found = "", {}
    for test_set, systems in sets.items():
        (first, (lines, examples)), *_ = systems
        if not metric.fits(examples):
            continue
        for name, (_, others) in systems:
            if _right(others) != _right(examples):
                raise OdeTransformerError(f"{name}: must have the references of {first} for {test_set}")
        values = found[test_set] = {}
        for name, (outputs, others) in systems:
            ours = metric.statistics_of_each(outputs, others)
            scores = bootstrap(ours, metric.score)
            values[name] = {metric.key: float(metric.score(ours.sum(0))), "interval": interval(scores)}
            if name == first:
                theirs, before, signature = ours, scores, metric.signature_of(lines, examples)
                values[name] |= {"p_value": None, "interval_of_difference": None}
                continue
            values[name]["p_value"] = p_value(theirs, ours, metric.score, test, samples)
            values[name]["interval_of_difference"] = interval(scores - before)
            if ends:
                texts = zip(lines, outputs, examples.references[0], strict=True)
                kept = np.array([not (is_endless(a, right) or is_endless(b, right)) for a, b, right in texts])
                without = metric.score(ours[kept].sum(0)) - metric.score(theirs[kept].sum(0))
                values[name] |= {"endless": int((~kept).sum()), "difference_without": float(without)}
    if not found:
        raise OdeTransformerError(
            f"--metric {metric.name}: needs {metric.needed}, which no test set has: {', '.join(sets)}"
        )
    about = {"test": test, "samples": samples, "metric": metric.name, "signature": signature, "two_sided": True}
    return about | {"versions": machine.versions(), "test_sets": found}


def _right(examples: Examples) -> tuple:
    """Return the parts of examples that must agree between compared systems."""
    return examples.references, examples.labels, examples.questions, examples.edits and read_all(examples.edits)


def named(name: str, scale: str = "full", seed: Optional[int] = None, precision: Optional[str] = None) -> System:
    """Return the system of a recipe, or of the folder of a finished run."""
    if Path(name, "run.json").is_file():
        return of_folder(name)
    try:
        return system(recipes.load(name, scale=scale, seed=seed), precision)
    except recipes.RecipeError as error:
        if recipes.is_there(name):
            raise
        raise OdeTransformerError(f"{error}; a folder needs run.json, and files of text need --ref FILE") from error


def report(comparison: Mapping[str, Any]) -> str:
    """Return a comparison as Markdown tables, one for each test set."""
    found, its = comparisons.adjust(comparisons.rows(comparison)), METRICS[comparison["metric"]]
    parts = [found[0].how]
    if len(set(comparison["precisions"].values())) > 1:
        trained = ", ".join(f"{name} {precision}" for name, precision in comparison["precisions"].items())
        parts.append(f"the precisions of training differ: {trained}")
    head = ("system", its.label, "95 percent interval", "difference", "p", "p, adjusted for all comparisons")
    for test_set, systems in comparison["test_sets"].items():
        first = systems[comparison["baseline"]]
        scored = its.shown(first[its.key]), its.shown_interval(first["interval"])
        cells = [(comparison["baseline"], *scored, "", "baseline", "")]
        for row in (row for row in found if row.test_set == test_set):
            said = ["not compared" if p is None else f"{p:.4f}" for p in (row.p_value, row.adjusted)]
            scored = its.shown(row.value), its.shown_interval(row.values["interval"])
            cells.append((row.system, *scored, row.difference, *said))
        quoted = f" ({comparison['signature']})" * bool(comparison["signature"])
        parts.append(f"\n{test_set}{quoted}\n\n{markdown.table(head, cells)}")
    return "\n".join(parts)
