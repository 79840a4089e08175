"""The steps of runs, and the tasks, which define how a model is evaluated and scored."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from ...paths import USER_DIR
from ...schema import at_least_one
from ..metrics import METRICS, Examples, scoring
from ..recipe import Recipe
from ..text.lines import read_all
from .encoders import write_predictions

OURS = ("python", "-m", "ode_transformer")
"""The first words of a command of this package."""


@dataclass(frozen=True)
class Step:
    """A command of a run, its inputs, and the outputs that exist when it is done.

    For a command of this package, a function is called in its place. The words that say where a command runs are kept
    apart, in ``launcher`` and ``where``, so that a step that was done elsewhere counts as done.
    """

    name: str
    command: Sequence[str]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    part: str = ""  # distinguishes steps with the same name
    where: Sequence[str] = ()  # the last words of the command
    launcher: Sequence[str] = ()  # the first words of the command
    environment: Mapping[str, str] = field(default_factory=dict)
    log: str = ""  # the file for the output of the command; empty for the terminal
    moves: Sequence[tuple[str, str]] = ()  # files to rename after the command has succeeded, (from, to)
    call: Optional[Callable[[], Any]] = None  # the function that a command of this package calls

    @property
    def key(self) -> str:
        """The name of the step, unique in its run."""
        return f"{self.name} {self.part}".strip()

    @property
    def words(self) -> list[str]:
        """The whole command."""
        return [*self.launcher, *self.command, *self.where]

    def using(self, user_dir: str) -> "Step":
        """Return the step with the folder of a plugin as ``--user-dir``, for fairseq's commands and our own."""
        command = list(self.command)
        if self.call is not None:
            command[len(OURS) + 1 : len(OURS) + 1] = ["--user-dir", user_dir]
        elif "--user-dir" in command:
            command[command.index("--user-dir") + 1] = user_dir
        return replace(self, command=command)

    def line(self) -> str:
        """The shell command to type at the top of the repository."""
        folders = sorted({str(Path(path).parent) for path in (self.log, *(to for _, to in self.moves)) if path})
        begin = [f"mkdir -p {shlex.join(folders)} &&"] if folders else []
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        end = f" >>{shlex.quote(self.log)} 2>&1" if self.log else ""
        moves = "".join(f" && {shlex.join(['mv', *pair])}" for pair in self.moves)
        return " ".join([*begin, *variables, shlex.join(self.words)]) + end + moves


OF_TEXT = Examples(references=[[""]], sources=[""])
"""The fields of the examples of tasks that generate text."""


@dataclass(frozen=True)
class Task:
    """A task: its flags, its steps after averaging, and its metrics. Most are functions of a recipe."""

    name: str  # in recipes
    flags: Callable[[Recipe], list[str]]  # of fairseq's task
    # (recipe, folder of the run, subset, words such as ``--cpu``) -> the step that runs the averaged model, and
    # (recipe, folder of the run, subset) -> the step that scores its output.
    evaluate: Callable[[Recipe, str, str, Sequence[str]], Step]
    score: Callable[[Recipe, str, str], Step]
    # The names of metrics, without those of ``further_metrics``; systems are compared by the last one by default.
    metrics: Callable[[Recipe], list[str]]
    # (recipe, folder of the run, subset) -> a line of output for each example, which ``ode-transformer record
    # --translations`` keeps; and (recipe, these lines, subset, folder of the run or None) -> outputs and examples from
    # which metrics are computed, for tests of significance. None for both if the task has no outputs.
    outputs: Optional[Callable[[Recipe, Path, str], list[str]]] = None
    examples: Optional[Callable[[Recipe, Sequence[str], str, Optional[Path]], tuple[Sequence[str], Examples]]] = None
    section: str = "validate"  # of recipes, which defines the evaluation; ``generate`` for text
    # The form of ``validate.flags``, as in ode_transformer.schema; None if fairseq-validate checks them.
    options: Optional[Mapping[str, Any]] = None
    provides: Examples = OF_TEXT  # examples with the fields of the task's, to which metrics in recipes must fit

    def evaluation(self, recipe: Recipe, run_dir: str, where: Sequence[str]) -> list[Step]:
        """Return the steps after averaging: the evaluation of every subset, then the scoring of every subset."""
        evaluations = [self.evaluate(recipe, run_dir, subset, where) for subset in recipe.subsets]
        return evaluations + [self.score(recipe, run_dir, subset) for subset in recipe.subsets]


def further_metrics(recipe: Recipe) -> list[str]:
    """Return the names of a recipe's additional metrics: ``score.metrics``, and TransEvolve's BLEU if the paper's row
    has it."""
    printed = [name for paper in recipe.paper for scores in paper.scores.values() for name in scores]
    asked = [*recipe.score.metrics, *(name for name in printed if name == "transevolve")]
    return [name for name in METRICS if name in asked]


def check_classes(recipe: Recipe, data: Path) -> None:
    """Check that metrics of two classes are of data whose classes are 0 and 1."""
    binary = [name for name in recipe.score.metrics if METRICS[name].label_kind == "binary"]
    if binary and (path := data / "label" / "dict.txt").is_file():
        named = {line.split()[0] for line in read_all(path)}
        if odd := sorted(name for name in named - {"0", "1"} if not name.startswith("madeupword")):
            raise OdeTransformerError(f"score.metrics {binary[0]}: is of classes 0 and 1; {data} has {', '.join(odd)}")


def flags(values: Mapping[str, Any]) -> list[str]:
    """Return a recipe's flags as words of a command; true is a flag without a value, false and null are left out."""
    out = []
    for key, value in values.items():
        if value is True:
            out.append(f"--{key}")
        elif value is not False and value is not None:
            out += [f"--{key}", str(value)]
    return out


def step_of_ours(
    name: str, subset: str, words: Sequence[str], function: Callable[..., None], about: Mapping[str, Any], **files: Any
) -> Step:
    """Return the step that calls a function of this package, with the command for users to copy.

    ``about`` has the function's arguments by option of the command: true is an option without a value, a list has
    several values, a tuple repeats the option; False, None and an empty tuple are left out. The key of the positional
    argument is empty. ``files`` are ``inputs``, ``outputs`` and ``where`` of the step.
    """
    given = {key: value for key, value in about.items() if value not in (None, ()) and value is not False}
    command = [*OURS, *words]
    for key, value in given.items():
        for one in value if isinstance(value, tuple) else [value]:
            values = one if isinstance(one, list) else [] if one is True else [one]
            command += [*([f"--{key.replace('_', '-')}"] if key else []), *map(str, values)]
    named = {key.replace("-", "_"): value for key, value in given.items() if key}
    cpu = {"cpu": True} if "--cpu" in files.get("where", ()) else {}
    call = partial(function, *([given[""]] if "" in given else []), **(named | cpu))
    return Step(name, command, part=subset, call=call, **files)


def scoring_step(run_dir: str, subset: str, options: Mapping[str, Any]) -> Step:
    """Return the step that scores a subset, with options of :func:`.scoring.score_file`; the first names the file."""
    read, output = next(iter(options.values())), f"{run_dir}/scores/{subset}.json"
    about = {**options, "output": output}
    return step_of_ours("score", subset, ["score"], scoring.score_file, about, inputs=[read], outputs=[output])


PREDICTION = {"batch-size": (..., at_least_one), "cpu": (..., bool)}
"""The form of ``validate.flags`` of tasks that a function of ours predicts."""


def by_predictions(name: str, flags: Callable[[Recipe], list[str]], metrics: Callable[[Recipe], list[str]]) -> Task:
    """Return a task whose labels ``ode-transformer predict`` predicts and ``ode-transformer score`` scores."""

    def predictions(run_dir: str, subset: str) -> str:
        return f"{run_dir}/validate/{subset}.tsv"

    def evaluates(recipe: Recipe, run_dir: str, subset: str, where: Sequence[str]) -> Step:
        model, output = f"{run_dir}/average.pt", predictions(run_dir, subset)
        about = {"": model, "data": recipe.data.directory, "subset": subset, "output": output, **recipe.validate.flags}
        files = {"inputs": [model], "outputs": [output], "where": where}
        return step_of_ours("validate", subset, ["predict"], write_predictions, about, **files)

    def scores(recipe: Recipe, run_dir: str, subset: str) -> Step:
        asked = (*metrics(recipe), *further_metrics(recipe))
        return scoring_step(run_dir, subset, {"predictions": predictions(run_dir, subset), "metric": asked})

    def outputs(recipe: Recipe, folder: Path, subset: str) -> list[str]:
        return read_all(predictions(str(folder), subset))

    def examples(
        recipe: Recipe, lines: Sequence[str], subset: str, folder: Optional[Path]
    ) -> tuple[Sequence[str], Examples]:
        golds, taken, *_ = map(list, zip(*(line.split("\t") for line in lines), strict=True))
        return taken, Examples(labels=golds)

    provides = Examples(labels=[""])
    return Task(name, flags, evaluates, scores, metrics, outputs, examples, options=PREDICTION, provides=provides)


def by_perplexity(name: str, fairseq_task: str) -> Task:
    """Return a task of fairseq that is evaluated by the perplexity that ``fairseq-validate`` computes."""

    def validates(recipe: Recipe, run_dir: str, subset: str, where: Sequence[str]) -> Step:
        model, log = f"{run_dir}/average.pt", f"{run_dir}/validate/{subset}.log"
        command = ["fairseq-validate", recipe.data.directory, "--user-dir", USER_DIR]
        command += ["--task", fairseq_task, "--path", model, "--valid-subset", subset]
        command += [*flags(recipe.validate.flags), "--required-batch-size-multiple", "1"]
        command += ["--log-format", "json", "--no-progress-bar"]
        where = [*where, "--distributed-world-size", "1"]  # or fairseq takes all GPUs, in a Slurm job by its variables
        return Step("validate", command, [model], [log], subset, where, log=log)

    def scores(recipe: Recipe, run_dir: str, subset: str) -> Step:
        return scoring_step(run_dir, subset, {"validation_log": f"{run_dir}/validate/{subset}.log", "subset": subset})

    return Task(name, lambda recipe: ["--task", fairseq_task], validates, scores, lambda recipe: ["perplexity"])
