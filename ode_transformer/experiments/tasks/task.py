"""A step of a run, and what a task adds to the steps that all tasks have."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Step:
    """A command of a run, what it reads, and what is there when it is done.

    Words that say where a command runs, and not what it does, are kept apart, in ``launcher`` and ``where``: a step
    that was done on other devices, or in another folder, is done.
    """

    name: str
    command: Sequence[str]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    part: str = ""  # tells steps of one name apart
    where: Sequence[str] = ()  # the last words of the command
    launcher: Sequence[str] = ()  # and the first ones
    environment: Mapping[str, str] = field(default_factory=dict)
    log: str = ""  # the file that takes what the command prints; else that goes to the terminal
    moves: Sequence[tuple[str, str]] = ()  # files that are renamed when the command has ended well, (from, to)

    @property
    def key(self) -> str:
        """What tells it from the other steps of a run."""
        return f"{self.name} {self.part}".strip()

    @property
    def words(self) -> list[str]:
        """The whole command."""
        return [*self.launcher, *self.command, *self.where]

    def line(self) -> str:
        """The command as one could type it, from the top of the repository."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        end = f" >>{shlex.quote(self.log)} 2>&1" if self.log else ""
        moves = "".join(f" && {shlex.join(['mv', *pair])}" for pair in self.moves)
        return " ".join([*variables, shlex.join(self.words)]) + end + moves


@dataclass(frozen=True)
class Scored:
    """What a run made of a test set, sentence by sentence, for tests of significance.

    Args:
        metric: its name in ``METRICS``.
        signature: what it has to be quoted with.
        units: numbers of each sentence, (sentences, columns); the score is a function of their sums.
        score: from the sums, (columns,), to the score.
        reference: what tells whether two systems were scored on the same.
    """

    metric: str
    signature: str
    units: "np.ndarray"
    score: Callable[["np.ndarray"], float]
    reference: Any


@dataclass(frozen=True)
class Task:
    """What is particular to a task.

    Args:
        name: in recipes.
        section: of recipes, that says how it is evaluated: ``generate`` or ``validate``.
        flags: those of fairseq's task, of a recipe.
        evaluation: the steps after averaging, of a recipe, its folder, and words such as ``--cpu``.
        metrics: those of its own, of a recipe, the one that systems are compared by last.
        scored: what systems are compared on, of a recipe, the folder of its run and a subset, None for a subset that
            they are not; translations are compared by sacreBLEU.
    """

    name: str
    section: str
    flags: Callable[[Any], list[str]]
    evaluation: Callable[[Any, str, Sequence[str]], list[Step]]
    metrics: Callable[[Any], list[str]]
    scored: Optional[Callable[[Any, Path, str], Optional[Scored]]] = None


def flags(values: Mapping[str, Any]) -> list[str]:
    """Flags of a recipe as words of a command: true stands alone, false and null are left out."""
    out = []
    for key, value in values.items():
        if value is True:
            out.append(f"--{key}")
        elif value is not False and value is not None:
            out += [f"--{key}", str(value)]
    return out


def validation(metric: str, fairseq_task: str, *more: str) -> Callable[[Any, str, Sequence[str]], list[Step]]:
    """The steps of a task that ``fairseq-validate`` evaluates, with more flags: a metric for every subset."""

    def steps(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
        model, found = f"{run_dir}/average.pt", []
        for subset in recipe.subsets:
            log = f"{run_dir}/validate/{subset}.log"
            command = ["fairseq-validate", recipe.data.directory, "--user-dir", "ode_transformer"]
            command += ["--task", fairseq_task, *more, "--path", model, "--valid-subset", subset]
            command += [*flags(recipe.validate.flags), "--required-batch-size-multiple", "1"]
            command += ["--log-format", "json", "--no-progress-bar"]
            found.append(Step("validate", command, [model], [log], subset, where, log=log))
        for subset in recipe.subsets:
            log, output = f"{run_dir}/validate/{subset}.log", f"{run_dir}/scores/{subset}.json"
            command = ["python", "-m", "ode_transformer", "score", "--validation-log", log, "--subset", subset]
            found.append(Step("score", [*command, "--metric", metric, "--output", output], [log], [output], subset))
        return found

    return steps
