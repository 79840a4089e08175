"""The runner: a recipe is a list of steps; each is printed as a line to copy, run, and stamped when it is done.

A run has a folder. ``run.json`` describes the run (:mod:`.runs`), ``steps.json`` holds a stamp for every finished step,
and ``.lock`` is locked while a process works there. An interrupted run continues where it was: stamped steps are not
done again, training resumes from its last checkpoint, and everything else writes files whole or not at all, or starts
again. Only the count of ``--patience`` starts anew, because fairseq's checkpoints do not hold it. A step is a process
of its own, or a command of this package, called in this process.
"""

import contextlib
import functools
import gc
import itertools
import math
import os
import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ... import plugins, processors
from ...errors import OdeTransformerError, counted
from ...files import atomic_folder, write_json
from ...paths import shipped
from .. import recipes, records, runs
from ..records import RunError, logs
from ..tasks import TASKS
from ..tasks.task import OURS, Step, check_classes, flags, step_of_ours
from ..tasks.translation import check_units
from ..text import binarised
from ..text.manifest import hashes_in, read_manifest
from . import checkpoint_commands, command_lines, plan, processes, recording, training
from .training import TrainingPlace

if TYPE_CHECKING:
    from omegaconf import DictConfig

BEFORE_TRAINING = ("prepare", "start")
EVALUATION = ("generate", "validate")  # steps that read average.pt, which is checked first

Prepared = dict[tuple[str, ...], float | Exception]
"""The seconds of preparations that the runs of one call share, or their errors, by their commands."""


def steps(recipe: recipes.Recipe, place: TrainingPlace, run_dir: str = "", record: str = "") -> list[Step]:
    """Return the steps of a recipe, to be run from the top of the repository, by default in its usual folder."""
    run_dir = run_dir or recipes.default_run_dir(recipe)
    # A record apart from its run has the outputs beside it, for comparisons when the run is gone.
    keeps = bool(record) and TASKS[recipe.task].outputs is not None
    model, record = f"{run_dir}/average.pt", record or f"{run_dir}/record.json"
    beside = [str(records.translations_beside(Path(record), one)) for one in recipe.subsets.values() if keeps]
    program, *words = shlex.split(recipe.data.prepare)
    starts = _start_steps(recipe, place, run_dir)
    evaluation = TASKS[recipe.task].evaluation(recipe, run_dir, ["--cpu"] if place.cpu else [])
    environment = processors.KEEP_FREED_MEMORY if place.cpu else {}
    average = {"": run_dir, **dict(recipe.average.wanted), "output": model, "fewer": recipe.average.fewer}
    which = {"scale": recipe.scale if recipe.scale != "full" else None, "seed": recipes.seed_option(recipe)}
    recorded = {"": recipe.given, **which, "run-dir": run_dir, "output": record, "translations": keeps}
    found = [
        Step("prepare", [shipped(program), *words], outputs=[recipe.data.directory]),
        *starts,
        training.step(recipe, place, run_dir, starts[-1].outputs[0] if starts else ""),
        step_of_ours("average", "", ["average"], checkpoint_commands.average, average,
                     inputs=[f"{run_dir}/checkpoint_last.pt"], outputs=[model]),
        *(replace(step, environment=environment if step.where else {}) for step in evaluation),
        step_of_ours("record", "", ["record"], recording.write_record, recorded,
                     inputs=[f"{run_dir}/run.json", f"{run_dir}/scores"], outputs=[record, *beside]),
    ]  # fmt: skip
    if not recipe.user_dir:
        return found
    apart = ("prepare", "start train")  # commands of a recipe's own, and of another recipe
    return [step if step.key in apart else step.using(recipe.user_dir) for step in found]


def _start_steps(recipe: recipes.Recipe, place: TrainingPlace, run_dir: str) -> list[Step]:
    """Return the steps that train the recipe this one starts from, in its usual folder, and convert its checkpoint.

    The output of the last step is the checkpoint that training starts from.
    """
    start = recipe.train.start
    if start is None:
        return []
    other = recipes.load(start.recipe, scale=recipe.scale, seed=recipe.start_seed)
    if place.alone:  # its batches may be others, which not so many devices divide
        place = replace(place, devices=max(n for n in recipes.divisors(other) if n <= place.devices))
    if place.precision == recipe.train.precision and not place.cpu:  # the user asks for no other: each has its own
        place = replace(place, precision=other.train.precision)
    folder = recipes.default_run_dir(other)
    source, output = f"{folder}/{start.checkpoint}", f"{run_dir}/start.pt"
    finished = records.read_run(recipes.ROOT / folder)
    if finished and "train" in records.read_stamps(recipes.ROOT / folder):
        place = replace(place, precision=finished["precision"])  # a finished training serves, whatever its precision
    elif place.precision == "bf16" and training.is_of_fairseq(other.train.arch):
        place = replace(place, precision="fp32")  # fairseq would take bf16 for a TPU
    last = "average" if start.checkpoint == "average.pt" else "train"
    words = [*OURS, "run", start.recipe, *recipes.run_options(other), "--until", last]
    words += ["--user-dir", plugins.current()] if plugins.current() else []
    seeds = [seed for seed in [recipes.seed_option(other)] if seed is not None]
    its = {"cpu": place.cpu, "devices": None if place.cpu else place.devices}
    its |= {"precision": place.precision, "torchrun": place.torchrun}
    call = partial(run, [start.recipe], scale=other.scale, seeds=seeds, last=last, **its)
    found = [Step("start", words, outputs=[source], part="train", where=place.options, call=call)]
    if start.warm_start:
        more = [*TASKS[recipe.task].flags(recipe), *flags(recipe.train.flags)]
        about = {"": source, "arch": recipe.train.arch, "approximate": start.approximate, "output": output}
        about["data"] = recipe.data.directory
        function = partial(checkpoint_commands.warm_start, flags=more)
        step = step_of_ours("start", "warm-start", ["warm-start"], function, about, inputs=[source], outputs=[output])
        found.append(replace(step, command=[*step.command, "--", *more]))
    return found


@dataclass(frozen=True)
class Run:
    """A run of a recipe in a folder, and which of its steps are to be done."""

    recipe: recipes.Recipe
    place: TrainingPlace
    run_dir: str  # the folder, absolute or relative to the top of the repository
    record: str = ""  # the record's file, if it is not ``record.json`` in the folder
    # The step to begin with; it and the later ones are done again, the earlier ones are ignored. A finished training is
    # kept, since another one belongs in another folder.
    first: Optional[str] = None
    last: Optional[str] = None  # the step to end with
    trained: bool = False  # whether to keep the finished training in the folder, even if its flags differ

    @property
    def folder(self) -> Path:
        """The folder as a path."""
        return recipes.ROOT / self.run_dir

    @property
    def title(self) -> str:
        """The recipe and the seed, for headings."""
        return f"{self.recipe.name}, seed {self.recipe.trained_seed}"

    @property
    def begun(self) -> bool:
        """Whether the folder holds files of a training that must not be mixed with another's."""
        return any(self.folder.glob("checkpoint*.pt")) or "train" in records.read_stamps(self.folder)

    def words(self) -> list[str]:
        """Return the command that does this run."""
        # The child loads the plugin that the recipe names, too, but only for this recipe, not for one it starts from.
        options = {"--run-dir": self.run_dir, "--record": self.record, "--user-dir": plugins.current()}
        options |= {"--from": self.first, "--until": self.last}
        words = [*OURS, "run", self.recipe.given, *recipes.run_options(self.recipe)]
        words += [word for option, value in options.items() if value for word in (option, value)]
        words += [*["--trained"] * self.trained, *self.place.options]
        return [*words, "--", *self.place.flags] if self.place.flags else words

    def steps(self) -> list[Step]:
        """Return all steps, in order."""
        return steps(self.recipe, self.place, self.run_dir, self.record)

    @functools.cached_property
    def chosen(self) -> list[str]:
        """The names of the steps from ``first`` to ``last``."""
        names = list(dict.fromkeys(step.name for step in self.steps()))
        for option, name in (("--from", self.first), ("--until", self.last)):
            if name is not None and name not in names:
                raise RunError(f"{option} {name}: must be one of {', '.join(names)}")
        found = names[names.index(self.first or names[0]) : names.index(self.last or names[-1]) + 1]
        if not found:
            raise RunError(f"--from {self.first} --until {self.last}: the first step must not come after the last")
        return found

    def go(self, prepared: Optional[Prepared] = None) -> None:
        """Do the chosen steps that are not done yet, but none of those in ``prepared``, to which its own are added."""
        if not self.place.alone and ("average" in self.chosen or "train" not in self.chosen):
            raise RunError(
                "several tasks of one job can only train: give them --until train, then run once, alone, with --trained"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        # Among the tasks of one job, the first holds the lock.
        with processes.alone_in(self.folder) if self.place.rank == 0 else contextlib.nullcontext(-1) as lock:
            self._go(lock, {} if prepared is None else prepared)

    def _go(self, lock: int, prepared: Prepared) -> None:
        self.check_own()
        if self.begun and runs.plugin_changed(records.read_run(self.folder) or {}, self.recipe.user_dir):
            processes.say(
                f"warning: {self.run_dir}: the plugin {self.recipe.user_dir} has changed since training began"
            )
        stamps = records.read_stamps(self.folder)
        wanted = [step for step in self.steps() if step.name in self.chosen]
        if self.first:
            again = [step.key for step in wanted if step.name != "train"]
            stamps = {key: stamp for key, stamp in stamps.items() if key not in again}
            self._write(stamps)
        if not self.begun:  # otherwise they are those that it began with
            self.check_flags()
        for step in wanted:
            if step.name == "train":
                self._train(step, stamps, lock)
            elif self.place.alone and not self._is_done(step, stamps):
                if step.name in EVALUATION and (self.folder / "average.pt").is_file():
                    check([self.folder / "average.pt"], self.recipe, step.part)
                seconds = self._execute(step, lock, prepared if step.name in BEFORE_TRAINING else {})
                if step.name == "generate":  # later translations with this model decode as its scores did
                    runs.note_decoding(self.folder, self.recipe)
                self._stamp(step, stamps, seconds)

    def _execute(self, step: Step, lock: int, shared: Prepared, more: str = "") -> float:
        """Do a step below a heading, which ends with ``more``, unless ``shared`` has its command; return the seconds,
        or raise the error."""
        command = tuple(step.command)
        if command not in shared:
            processes.say(f"\n== {self.title}: {step.key}{more}")
            try:
                shared[command] = execute(step, lock)
            except (OdeTransformerError, OSError) as error:
                shared[command] = error
        if isinstance(found := shared[command], Exception):
            raise found
        return found

    def _is_done(self, step: Step, stamps: Mapping[str, Any]) -> bool:
        if step.name == "start":  # until training begins, from the checkpoint that is there now
            return self.begun
        stamp = stamps.get(step.key)
        if stamp is None or not all((recipes.ROOT / path).exists() for path in step.outputs):
            return False
        stamp = {**stamp, "command": command_lines.portable(stamp["command"])}  # of an earlier version, with a path
        return all(stamp.get(k) == v for k, v in self._identity(step).items())

    def _identity(self, step: Step) -> dict[str, Any]:
        """Return a step's command, without the name of the folder, and the hashes of the test set that it reads."""
        command = command_lines.portable([word.replace(self.run_dir, "RUN") for word in step.command])
        identity: dict[str, Any] = {"command": command}
        if step.part in self.recipe.subsets:
            identity["data"] = hashes_in(recipes.ROOT / self.recipe.data.directory, f"**/{step.part}.*")
        return identity

    def _stamp(self, step: Step, stamps: dict[str, Any], seconds: float) -> None:
        """Stamp a finished step; from training on, the stamps of later steps are removed."""
        keys = [other.key for other in self.steps()]
        stale = [step.key] if step.name in BEFORE_TRAINING else keys[keys.index(step.key) :]
        for key in stale:
            stamps.pop(key, None)
        stamps[step.key] = {**self._identity(step), "line": step.line(), "seconds": round(seconds, 1)}
        self._write(stamps)

    def _write(self, stamps: Mapping[str, Any]) -> None:
        if self.place.rank == 0:  # the one that holds the lock
            write_json(self.folder / "steps.json", stamps)

    def check_flags(self) -> None:
        """Check the flags of the chosen steps, if they train, and that checkpoints to average would be kept."""
        if "train" not in self.chosen or self.trained:
            return
        found = {step.name: step for step in self.steps() if step.name in self.chosen}
        command_lines.check(found.values())
        if self.begun:  # its checkpoints are there, and averaging counts them
            return
        config = command_lines.configuration([*found["train"].command[1:], *found["train"].where])
        try:
            self.check_average(config)
        except RunError as error:
            if "average" in self.chosen:
                raise
            processes.say(f"warning: {error}")  # a later call averages, as under Slurm

    def check_own(self) -> None:
        """Check that the content of the folder belongs to this run.

        Checkpoints without ``run.json``, such as those of a plain ``fairseq-train``, may be averaged and evaluated, but
        not trained.
        """
        name, run, trains = self.run_dir, records.read_run(self.folder), "train" in self.chosen
        another = self.begun or (self.place.rank == 0 and (self.folder / "train.log").exists())
        if run is None and trains and another:
            raise RunError(f"{name} holds another run, without run.json; {records.ANOTHER}")
        if run is None or not self.begun:
            return
        records.check_recipe(run, name, self.recipe)
        if name == recipes.default_run_dir(self.recipe):
            runs.check_file(run, name, self.recipe)
        (step,) = (step for step in self.steps() if step.name == "train")
        command, source, start = step.command, self._source(), run["start"]
        theirs, ours = (training.split(words)[1] for words in (run["command"], command))
        if trains and not self.trained and (others := command_lines.differing(theirs, ours)):
            line = shlex.join(run["command"])
            raise RunError(f"{name} holds another run, {others}; {records.ANOTHER}. It was made by:\n{line}")
        # The entry of an earlier version has no source, only the file in this folder that was made of it.
        if trains and not self.trained and (start and start.get("source", source)) != source:
            began = f"began from {start.get('source', start['file'])}" if start else "began from no checkpoint"
            raise RunError(f"{name} {began}, not from {source or 'none'}, as train.start says; {records.ANOTHER}")

    def _source(self) -> Optional[str]:
        """Return the checkpoint of the other recipe from which training starts, as it is before a conversion."""
        return next((step.outputs[0] for step in self.steps() if step.key == "start train"), None)

    def _train(self, step: Step, stamps: dict[str, Any], lock: int) -> None:
        """Train once, or resume an interrupted training."""
        from ... import checkpoints

        name, data, writes = self.run_dir, recipes.ROOT / self.recipe.data.directory, self.place.rank == 0
        run, begun, done = records.read_run(self.folder), self.begun, "train" in stamps
        if self.trained and not done:
            raise RunError(f"--trained: {name} holds no finished training")
        if writes and (data / "manifest.json").is_file():
            read_manifest(data)
        if writes and self.recipe.generate:
            check_units(self.recipe)
        if writes and not done:
            binarised.check_data(data)
            check_classes(self.recipe, data)
        if begun and data.is_dir():
            runs.check_same_data(run, name, data, text=writes and not done)
        if done:
            processes.say(f"{name} is trained")
            return
        for start in step.inputs[1:]:
            if not begun and not (recipes.ROOT / start).is_file():
                raise RunError(f"{start}: no such file; on several nodes, make it first on one, by --until start")
        if not data.is_dir():
            raise RunError(f"{data}: no such folder; this should have made it: {self.recipe.data.prepare}")
        config = command_lines.configuration([*step.command[1:], *step.where])
        updates = checkpoints.resume_point(self.folder, mend=writes)
        if config.optimization.max_update and updates >= config.optimization.max_update:
            processes.say(f"{name} has its {counted(updates, 'update')}")
            self._stamp(step, stamps, 0)
            return
        if writes:
            if not begun:
                (self.folder / "train.log").unlink(missing_ok=True)  # its checkpoints are gone
                start, more = next(iter(step.inputs[1:]), None), training.split(self.place.flags)[1]
                run = runs.describe(self.recipe, step.command, config, start, self._source(), more)
            elif updates and run["devices"] != self.place.devices:
                checkpoints.divide_anew(self.folder / "checkpoint_last.pt", self.place.devices)
            runs.begin(self.folder, run, self.place.devices, step.where, self.recipe.user_dir)
        resumed = f", resumed after {counted(updates, 'update')}" if updates else ""
        # The checkpoint to start from, looked for above, is not read again when a training resumes.
        self._stamp(step, stamps, self._execute(replace(step, inputs=()), lock, {}, resumed))

    def check_average(self, config: "DictConfig") -> None:
        """Check that training keeps the checkpoints to be averaged; how many updates an epoch has is not known yet."""
        ((kind, count),) = self.recipe.average.wanted
        needed, its = 1 if self.recipe.average.fewer else count, config.checkpoint
        epochs, updates = config.optimization.max_epoch, config.optimization.max_update
        too_few = {
            "last_epochs": {
                "--no-epoch-checkpoints": its.no_epoch_checkpoints,
                "--keep-last-epochs": 0 < its.keep_last_epochs < needed,
                "--max-epoch or --save-interval": 0 < epochs < needed * its.save_interval,
            },
            "last_updates": {
                "--save-interval-updates": its.save_interval_updates <= 0,
                "--keep-interval-updates": 0 < its.keep_interval_updates < needed,
                "--max-update or --save-interval-updates": 0 < updates < needed * its.save_interval_updates,
            },
            "best": {
                "--keep-best-checkpoints": count > 1 and its.keep_best_checkpoints < needed,  # 1: always kept
                "--disable-validation": config.dataset.disable_validation,
            },
        }
        if its.no_last_checkpoints:
            raise RunError("--no-last-checkpoints: must be left out, since a run resumes from checkpoint_last.pt")
        for flag, refused in ({"--no-save": its.no_save} | too_few[kind]).items():
            if refused:
                raise RunError(f"average.{kind} {count}: training would keep fewer of these checkpoints; change {flag}")


def execute(step: Step, lock: int = -1) -> float:
    """Print the line of a step, run it, and return the seconds that it took."""
    for path in step.inputs:
        if not (recipes.ROOT / path).exists():
            raise RunError(f"{step.key}: needs {path}, which does not exist")
    processes.say(f"+ {step.line()}")
    for path in step.outputs:
        (recipes.ROOT / path).parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    if step.call:
        step.call()
        if torch := sys.modules.get("torch"):  # what a model left on a GPU, which the next program needs
            gc.collect()
            torch.cuda.empty_cache()
    else:
        path = recipes.ROOT / step.log if step.log else None
        if status := processes.launch(step.words, processes.environment(step.environment), path, lock):
            if path and (diverged := logs.divergence(path)):
                raise RunError(f"{step.key}: {diverged}. Its output is in {step.log}")
            more = f"; what it said is in {step.log}" if step.log else ""
            raise RunError(f"{step.key}: {step.command[0]} {processes.ending(status)}{more}")
    for source, target in step.moves:
        (recipes.ROOT / source).replace(recipes.ROOT / target)
        with contextlib.suppress(OSError):  # it holds other files
            (recipes.ROOT / source).parent.rmdir()
    return time.monotonic() - began


def check(models: Sequence[Path], recipe: recipes.Recipe, subset: str = "") -> None:
    """Check models as ``ode-transformer check``, and that the recipe's data, or one subset of them, are intact."""
    data = recipes.ROOT / recipe.data.directory
    checkpoint_commands.check(models, data)
    binarised.check_data(data, subset)


def run(
    names: Sequence[str],
    *,
    first: Optional[str] = None,
    last: Optional[str] = None,
    trained: bool = False,
    seeds: Sequence[int] = (),
    run_dir: Optional[str | Path] = None,
    record: Optional[str | Path] = None,
    dry_run: bool = False,
    scale: str = "full",
    jobs: int = 1,
    flags: Sequence[str] = (),
    after: Callable[[list[Run]], Any] = lambda done: None,
    **place: Any,
) -> list[Run]:
    """Run recipes from data to a record.

    Args:
        names: a name from ``ode-transformer recipe list``, or a YAML file, FILE.yaml or FILE.yaml/ROW.
        first: start at this step, and repeat it and all later ones, except a training that has begun, which goes on.
        last: stop after this step: prepare, start, train, average, generate or validate, score, record.
        trained: keep the finished training in the folder, even if its flags differ from those given now.
        seeds: seeds of the training, one run per seed (default: the recipe's; of a rehearsal, one).
        run_dir: the folder of the run, if there is only one (default: runs/RECIPE).
        record: the record's file, if there is only one run (default: record.json in its folder); beside it go the
            outputs of each test set.
        dry_run: check the flags and print the commands, without running them.
        scale: small: a rehearsal, narrow and with few updates.
        jobs: number of runs at a time, each with its own GPUs (--devices; by default, an equal share) or its share of
            the cores.
        flags: of fairseq-train, besides the recipes'.
        after: called with those of several runs that have a record now, even if others failed.
        place: arguments of :func:`.training.place_here`: ``devices``, ``cpu``, ``precision`` and ``torchrun``.

    Returns:
        the runs that have a record now.
    """
    wanted = _wanted(names, scale, seeds)
    if len(wanted) > 1 and (run_dir or record):
        raise RunError(
            f"--run-dir and --record: must be given for a single run, not for {len(wanted)}; give one recipe and one "
            "--seed"
        )
    file, found = str(Path(record).absolute()) if record else "", []
    for recipe in wanted:
        folder = runs.run_dir_of(recipe, run_dir)
        if folder in (other.run_dir for other in found):
            raise RunError(
                f"{recipe.given}: would share {folder} with another run of this command; name each recipe and seed "
                "once, or run it by itself, with --run-dir"
            )
        one = Run(recipe, TrainingPlace(), folder, file, first, last, trained)
        trains = "train" in one.chosen and not trained
        if flags and not trains:
            raise RunError(
                f"-- {shlex.join(flags)}: are flags of fairseq-train, and this trains nothing; to translate with "
                "other flags, use ode-transformer generate"
            )
        its = training.place_here(recipe, trains=trains, jobs=jobs, flags=flags, dry_run=dry_run, **place)
        found.append(replace(one, place=its))
    with contextlib.chdir(recipes.ROOT), processes.terminable(resumable=not first):
        if dry_run:
            for one in found:
                one.check_flags()
                one.check_own()
                print(listing((step for step in one.steps() if step.name in one.chosen), f"{one.title}: "))
            return []
        if len(found) == 1:
            found[0].go()
        else:
            _go_together(found, jobs, after)
        if not all("record" in one.chosen for one in found):
            return []
        _say_how_to_translate(found)
    return found


def _wanted(names: Sequence[str], scale: str, seeds: Sequence[int]) -> list[recipes.Recipe]:
    """Return the recipes, one for each seed."""
    load_plugins(names)
    found = []
    for name in names:
        recipe = recipes.load(name, scale=scale)
        its_seeds = seeds or (recipe.seeds if scale == "full" else []) or [None]
        found += [recipes.load(name, scale=scale, seed=seed) for seed in its_seeds]
    return found


def _go_together(found: Sequence[Run], jobs: int, after: Callable[[list[Run]], Any]) -> None:
    """Do several runs, then what comes after them; the arguments and errors are those of :func:`run`."""
    usual = not any(one.place.flags for one in found)  # of others, the records tell nothing
    processes.say(plan.line([one.recipe for one in found], jobs) if usual else counted(len(found), "run"))
    failed = run_all(found, jobs)
    after([one for one in found if "record" in one.chosen and one.run_dir not in failed])
    if failed:
        each = [message(folder, error) for folder, error in failed.items()]
        raise RunError("\n".join([f"{len(failed)} of {len(found)} runs failed:", *each]))


def _say_how_to_translate(found: Sequence[Run]) -> None:
    """Print the commands that translate raw text by finished runs, of those whose data were prepared from raw text."""
    for one in found:
        if one.recipe.generate and "ode_transformer prepare " in one.recipe.data.prepare:
            plugin = ["--user-dir", one.recipe.user_dir] if one.recipe.user_dir else []
            processes.say(f"next: {shlex.join(['ode-transformer', 'translate', *plugin, one.run_dir])} FILE")


def run_all(
    found: Sequence[Run],
    jobs: int = 1,
    seconds_left: Optional[Callable[[], float]] = None,
    begin: Optional[Callable[..., subprocess.Popen]] = None,
) -> dict[str, Exception]:
    """Do runs, one after another in this process or some at a time, each in a process with GPUs or cores of its own.

    A run that fails does not keep the others from being done. Runs share GPUs where there are too few. If time is
    limited, ``seconds_left`` returns what is left; then every run has a process of its own, started by ``begin`` as
    :func:`.processes.start` does, which is terminated when the time is over.

    Returns:
        the error of each run that failed, by its folder.
    """
    failed: dict[str, Exception] = {}
    here, prepared, able = jobs == 1 and seconds_left is None, {}, []
    for one in found:
        try:
            if here:
                one.go(prepared)
                continue
            one.check_own()
            if "prepare" in one.chosen:  # in this process, because theirs could not share it
                replace(one, last="prepare").go(prepared)
                if not one.chosen[1:]:
                    continue
                one = replace(one, first=one.chosen[1]) if one.first == "prepare" else one
            able.append(one)
        except BrokenPipeError:  # an error of the output, not of the run
            raise
        except Exception as error:
            if not isinstance(error, (OdeTransformerError, OSError)):  # a defect, of a plugin perhaps
                traceback.print_exc()
            failed[one.run_dir] = error
    if here:
        return failed
    share, gpus = max((one.place.devices for one in able), default=1), training.visible_gpus()

    def start(one: Run, place: int) -> subprocess.Popen:
        if one.place.cpu or not gpus:
            its_share = str(max(1, processors.usable() // jobs))
            variables = {processors.VARIABLE: os.environ.get(processors.VARIABLE) or its_share}
        else:
            chosen = (gpus[(place * share + i) % len(gpus)] for i in range(one.place.devices))
            variables = {"CUDA_VISIBLE_DEVICES": ",".join(chosen)}
        words, log = one.words(), one.folder / "run.log"
        processes.say(f"+ {shlex.join(words)} >>{shlex.quote(str(log))}")
        return (begin or processes.start)(words, processes.environment(variables), log)

    def ended(one: Run, status: int, seconds: float) -> None:
        log, how = one.folder / "run.log", processes.ending(status) if status else "is done"
        processes.say(f"{one.run_dir} {how} after {seconds:,.0f} s; its output is in {log}")
        if status:
            said = log.read_text(encoding="utf-8", errors="replace").splitlines() if status > 0 else []
            failed[one.run_dir] = RunError(said[-1].removeprefix("error: ") if said else how)

    processes.side_by_side(able, jobs, start, ended, seconds_left or (lambda: math.inf))
    return failed


def message(folder: str, error: Exception) -> str:
    """Return the message of a run's error, which begins with the run's folder."""
    said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return said if said.startswith(folder) else f"{folder}: {said}"


def load_plugins(names: Iterable[str]) -> None:
    """Load the plugins of recipes, which are code like the recipes themselves, before the models are imported."""
    for user_dir in dict.fromkeys(filter(None, map(recipes.user_dir, names))):
        plugins.load(recipes.ROOT / user_dir)


def listing(found: Iterable[Step], title: str = "") -> str:
    """Return the commands of steps, below a heading for each kind of step."""
    lines = []
    for name, its in itertools.groupby(found, key=lambda step: step.name):
        lines += [f"\n# {title}{name}", *(step.line() for step in its)]
    return "\n".join(lines)


def generate(
    name: str,
    output: str | Path,
    *,
    run_dir: Optional[str | Path] = None,
    checkpoint: Optional[str] = None,
    cpu: bool = False,
    scale: str = "full",
    seed: Optional[int] = None,
    flags: Sequence[str] = (),
) -> None:
    """Translate a recipe's test sets with other checkpoints or flags than its own, and print the files.

    Args:
        name: a translation recipe.
        output: the folder for the translations, which must not exist yet.
        run_dir: the folder of the run (default: runs/RECIPE).
        checkpoint: the checkpoint, or an ensemble ``a.pt:b.pt`` (default: ``average.pt`` of the run).
        cpu: do not use a GPU.
        scale: of the recipe.
        seed: of the recipe.
        flags: of fairseq-generate, besides the recipe's.
    """
    load_plugins([name])
    recipe = recipes.load(name, scale=scale, seed=seed)
    if recipe.generate is None:
        raise RunError(f"{name}: is of task {recipe.task}, and has nothing to translate")
    folder = runs.run_dir_of(recipe, run_dir)
    if Path(output).exists():
        raise RunError(f"--output {output}: already exists")
    paths = [Path(path).absolute() for path in (checkpoint or "").split(":") if path]
    read = paths or [recipes.ROOT / folder / "average.pt"]
    for path in read:
        if not path.is_file():
            raise RunError(f"--checkpoint {checkpoint}: no file {path}" if paths else f"{path}: no such file")
    check(read, recipe)
    more = ["--path", ":".join(map(str, paths))] if paths else []
    place, output = TrainingPlace(cpu=cpu or not training.gpu_count()), Path(output).absolute()
    with processes.terminable(), atomic_folder(output) as part:  # fairseq writes as it goes
        for step in steps(recipe, place, folder):
            if step.name == "generate":
                where = [*step.where, *more, "--results-path", str(part), *flags]
                log = part / "generate.log"
                try:
                    execute(replace(step, where=where, inputs=[], outputs=[], moves=[], log=str(log)))
                except RunError as error:  # the folder is removed, and the log with it
                    raise RunError(f"{error}:\n{log.read_text(encoding='utf-8', errors='replace')[-1000:]}") from error
    print("\n".join(str(path) for path in sorted(output.iterdir())))
