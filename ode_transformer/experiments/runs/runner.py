"""The runner: a recipe is a list of steps; each is printed as a line to copy, run, and stamped when it is done.

A run has a folder. ``run.json`` there says what it is (:mod:`.runs`), ``steps.json`` holds a stamp for every finished
step, and ``.lock`` is locked while anything works there. A run that was interrupted, in whatever way, continues where
it was: stamped steps are not done again, training resumes from its last checkpoint, and everything else writes files
whole or not at all, or starts again. Only the count of ``--patience`` starts anew, because fairseq's checkpoints do not
hold it. A step is a process of its own, or a command of this package, called in this process.
"""

import argparse
import contextlib
import itertools
import os
import shlex
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from ... import processors
from ...files import sha256, whole_folder, write_json
from ...paths import USER_DIR, shipped
from .. import recipes, runs
from ..arguments import at_least
from ..recipes import RecipeError
from ..tasks import TASKS
from ..tasks.task import OURS, Step, flags
from ..tasks.translation import check_units
from ..text import binarised
from . import OtherRunError, RunError, command_lines, processes, records, schedule

# Of fairseq-train, with a value: where it runs, and who else is told of its progress.
PLACE_FLAGS = (
    "--distributed-port",
    "--distributed-world-size",
    "--num-workers",
    "--tensorboard-logdir",
    "--wandb-project",
)
# Of fairseq-train, too: for these ``run`` has options of its own, which a record and a table know of.
BEFORE_FLAGS = {"seed": "--seed, before the --"}
BEFORE_FLAGS |= {name: f"--{name}, before the --" for name in recipes.PRECISIONS if name != "fp32"}
BEFORE_TRAINING = ("prepare", "start")
EVALUATION = ("generate", "validate")  # steps that read average.pt, which is checked first


@dataclass(frozen=True)
class Place:
    """Where a run trains, in which precision, and with which additional flags."""

    devices: int = 1
    precision: str = "fp32"
    cpu: bool = False
    torchrun: bool = False
    nodes: int = 1
    rank: int = 0
    alone: bool = True  # or one of several tasks of a job, which begin the same training
    flags: tuple[str, ...] = ()  # of fairseq-train

    @property
    def options(self) -> list[str]:
        """The options of ``ode-transformer run`` that put another run in the same place."""
        device = ["--cpu"] if self.cpu else ["--devices", str(self.devices)]
        return [*device, f"--{self.precision}", *["--torchrun"] * self.torchrun]


def steps(recipe: recipes.Recipe, place: Place, run_dir: str = "") -> list[Step]:
    """The steps of a recipe, to be run from the top of the repository.

    Args:
        recipe: what to do.
        place: where training goes on.
        run_dir: the folder of the run; by default ``recipes.default_run_dir``.

    Raises:
        RecipeError: an unknown precision; a number of devices that does not divide the recipe's batches.
    """
    run_dir = run_dir or recipes.default_run_dir(recipe)
    environment = processes.KEEP_FREED_MEMORY if place.cpu else {}
    ((kind, count),) = recipe.average.wanted
    averaged, record = f"{run_dir}/average.pt", f"{run_dir}/record.json"
    average = [*OURS, "average", run_dir, f"--{kind.replace('_', '-')}", str(count), "--output", averaged]
    average += ["--fewer"] * recipe.average.fewer
    write = [*OURS, "record", recipe.given, *recipes.variant(recipe), "--run-dir", run_dir, "--output", record]
    prepare, *words = shlex.split(recipe.data.prepare)
    evaluation = TASKS[recipe.task].evaluation(recipe, run_dir, ["--cpu"] if place.cpu else [])
    return [
        Step("prepare", [shipped(prepare), *words], outputs=[recipe.data.directory]),
        *_start_steps(recipe, place, run_dir),
        _train_step(recipe, place, run_dir, environment),
        Step("average", average, [f"{run_dir}/checkpoint_last.pt"], [averaged]),
        *(replace(step, environment=environment if step.where else {}) for step in evaluation),
        Step("record", write, [f"{run_dir}/run.json", f"{run_dir}/scores"], [record]),
    ]


def is_of_fairseq(arch: str) -> bool:
    """Whether an architecture is one of fairseq's own Transformers or RoBERTas, judged by its name."""
    ours = arch in ("transformer_encoder", "transformer_small") or "macaron" in arch
    return arch.startswith(("roberta", "transformer")) and not ours


def _start_steps(recipe: recipes.Recipe, place: Place, run_dir: str) -> list[Step]:
    """Train the recipe that this one starts from, in its usual place; turn its checkpoint into this architecture."""
    start = recipe.train.start
    if start is None:
        return []
    source, output = _start_files(recipe, run_dir)
    other = recipes.load(start.recipe, scale=recipe.scale, seed=recipe.start_seed)
    train = [*OURS, "run", start.recipe, *recipes.variant(other), "--until", "train"]
    folder = recipes.ROOT / Path(source).parent
    if "train" in runs.read_stamps(folder) and (finished := runs.read(folder)):
        place = replace(place, precision=finished["precision"])  # a finished training serves, whatever its precision
    elif place.precision == "bf16" and is_of_fairseq(other.train.arch):
        place = replace(place, precision="fp32")  # fairseq would take bf16 for a TPU
    found = [Step("start", train, outputs=[source], part="train", where=place.options)]
    if start.warm_start:
        command = [*OURS, "warm-start", source, "--arch", recipe.train.arch, *["--approximate"] * start.approximate]
        command += ["--output", output, "--data", recipe.data.directory, "--"]
        command += [*TASKS[recipe.task].flags(recipe), *flags(recipe.train.flags)]
        found.append(Step("start", command, [source], [output], part="warm-start"))
    return found


def _start_files(recipe: recipes.Recipe, run_dir: str) -> tuple[str, str]:
    """The checkpoint of the other recipe, and the one that training begins from."""
    start = recipe.train.start
    other = recipes.load(start.recipe, scale=recipe.scale, seed=recipe.start_seed)
    source = f"{recipes.default_run_dir(other)}/{start.checkpoint}"
    return source, f"{run_dir}/start.pt" if start.warm_start else source


def _train_step(recipe: recipes.Recipe, place: Place, run_dir: str, environment: Mapping[str, str]) -> Step:
    train, devices, precision = recipe.train, place.devices, place.precision
    if precision not in recipes.PRECISIONS:
        raise RecipeError(f"precision {precision!r}: must be one of {', '.join(recipes.PRECISIONS)}")
    if devices not in recipes.divisors(recipe):
        raise RecipeError(
            f"{recipe.name}: {devices} devices do not divide the {train.batches} batches of an update; "
            f"take one of {recipes.divisors(recipe)}"
        )
    if precision == "bf16" and is_of_fairseq(train.arch):
        raise RecipeError(f"bf16: with --arch {train.arch}, fairseq assumes a TPU; take fp32, fp16 or amp")
    placed, more = _split(place.flags)
    command = [
        *("fairseq-train", recipe.data.directory, "--user-dir", USER_DIR),
        *(*TASKS[recipe.task].flags(recipe), "--arch", train.arch),
        *flags({**train.flags, **({} if recipe.seed is None else {"seed": recipe.seed})}),
        # New batches in each epoch: otherwise they depend on the epoch in which the process began, and a run that was
        # interrupted learns from other batches than one that was not.
        *("--update-epoch-batch-itr", "True"),
        *("--log-format", "json", "--log-interval", "50", "--no-progress-bar"),
        *([f"--{precision}"] if precision != "fp32" else []),
        *more,
    ]
    start = _start_files(recipe, run_dir)[1] if train.start else ""
    # With new batches in each epoch, fairseq starts a process per epoch to read them, and does not end it: on a CPU,
    # sixty such processes filled 24 GiB. There, the training process itself reads the text fast enough.
    workers = ["--num-workers", "0"] if place.cpu and "num-workers" not in train.flags else []
    where = [
        *(["--finetune-from-model", start] if start else []),
        *("--distributed-world-size", str(devices), "--update-freq", str(train.batches // devices)),
        *("--save-dir", run_dir, *workers, *placed, *["--cpu"] * place.cpu),
    ]
    outputs = [f"{run_dir}/run.json", f"{run_dir}/checkpoint_last.pt"]
    return Step(
        "train",
        command,
        [recipe.data.directory, *([start] if start else [])],
        outputs,
        where=where,
        launcher=_torchrun(place) if place.torchrun else [],
        environment=environment,
        log=f"{run_dir}/train.log",
    )


def _split(words: Sequence[str], apart: Collection[str] = PLACE_FLAGS) -> tuple[list[str], list[str]]:
    """The flags ``apart`` (by default those that say where a training runs) with their values, and the others."""
    placed, others, rest = [], [], iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in apart:
            placed += [flag, value if equals else next(rest, "")]
        elif word == "--cpu":
            placed.append(word)
        else:
            others.append(word)
    return placed, others


def _names(words: Sequence[str]) -> list[str]:
    """The names of flags among words, also of those whose value follows an equals sign."""
    return [word.partition("=")[0] for word in words if word.startswith("--")]


def same_training(words: Sequence[str]) -> list[str]:
    """The flags of fairseq-train without those that say where a training runs."""
    return _split(words, PLACE_FLAGS)[1]


def _torchrun(place: Place) -> list[str]:
    return [
        *("torchrun", "--nnodes", str(place.nodes)),
        *("--node_rank", os.environ.get("SLURM_NODEID") or str(place.rank)),
        *("--nproc_per_node", str(place.devices // place.nodes)),
        *("--master_addr", os.environ.get("MASTER_ADDR", "127.0.0.1")),
        *("--master_port", os.environ.get("MASTER_PORT", "29500"), "--no_python"),
    ]


@dataclass
class Run:
    """A run of a recipe in a folder.

    Args:
        recipe: what to do.
        place: where training goes on.
        run_dir: the folder, absolute or from the top of the repository.
        record: the record's file, if it is not ``record.json`` in the folder.
    """

    recipe: recipes.Recipe
    place: Place
    run_dir: str
    record: str = ""

    @property
    def folder(self) -> Path:
        """The folder as a path."""
        return recipes.ROOT / self.run_dir

    @property
    def title(self) -> str:
        """The recipe and the seed, for headings."""
        return f"{self.recipe.name}, seed {self.recipe.trained_seed}"

    def steps(self) -> list[Step]:
        """The steps, in order."""
        found = steps(self.recipe, self.place, self.run_dir)
        if self.record:
            command = [*found[-1].command[:-1], self.record]
            found[-1] = replace(found[-1], command=command, outputs=[self.record])
        return found

    def chosen(self, first: Optional[str], last: Optional[str]) -> set[str]:
        """The names of steps from one to another.

        Raises:
            RunError: there is no such step, or the last is before the first.
        """
        names = list(dict.fromkeys(step.name for step in self.steps()))
        for option, name in (("--from", first), ("--until", last)):
            if name is not None and name not in names:
                raise RunError(f"{option} {name}: must be one of {', '.join(names)}")
        found = names[names.index(first or names[0]) : names.index(last or names[-1]) + 1]
        if not found:
            raise RunError(f"--from {first} --until {last}: the first step must not come after the last")
        return set(found)

    def go(self, first: Optional[str] = None, last: Optional[str] = None, trained: bool = False) -> None:
        """Do the steps that are not done yet.

        Args:
            first: the step to begin with; it and the later ones are done again, the earlier ones are not looked at. A
                finished training is kept, since another one belongs in another folder.
            last: the step to end with.
            trained: keep the training that is there, even if its flags were others.

        Raises:
            RunError: a step failed, or the folder holds another run.
        """
        chosen = self.chosen(first, last)
        if not self.place.alone and ("average" in chosen or "train" not in chosen):
            raise RunError(
                "several tasks of one job can only train: give them --until train, then run once, alone, with --trained"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        # Of the tasks of one job the first holds the lock.
        with processes.alone_in(self.folder) if self.place.rank == 0 else contextlib.nullcontext(-1) as lock:
            stamps = runs.read_stamps(self.folder)
            if first:
                keys = [step.key for step in self.steps() if step.name in chosen and step.name != "train"]
                stamps = {key: stamp for key, stamp in stamps.items() if key not in keys}
                write_json(self.folder / "steps.json", stamps)
            if "train" in chosen and not trained and not _begun(self.folder):  # before the data are prepared, too
                command_lines.check(step for step in self.steps() if step.name in chosen)
            for step in self.steps():
                if step.name not in chosen or (not self.place.alone and step.name != "train"):
                    continue
                if step.name == "train":
                    self._train(step, stamps, trained, "average" in chosen, lock)
                elif not self._is_done(step, stamps):
                    if step.name in EVALUATION and (self.folder / "average.pt").is_file():
                        _check([self.folder / "average.pt"], self.recipe, step.part)
                    processes.say(f"\n== {self.title}: {step.key}")
                    do = {"average": self._average, **dict.fromkeys(EVALUATION, self._compute)}.get(step.name, execute)
                    seconds = do(step, lock)
                    if step.name == "generate":  # what translates with this model later searches as its scores did
                        runs.note_search(self.folder, self.recipe)
                    self._stamp(step, stamps, seconds)

    def _is_done(self, step: Step, stamps: Mapping[str, Any]) -> bool:
        if step.name == "start" and _begun(self.folder):
            return True
        stamp = stamps.get(step.key)
        there = all((recipes.ROOT / path).exists() for path in step.outputs)
        return stamp is not None and there and all(stamp.get(k) == v for k, v in self._identity(step).items())

    def _identity(self, step: Step) -> dict[str, Any]:
        """What a step does: its command, without the name of the folder, and hashes of the test set that it reads."""
        identity: dict[str, Any] = {"command": [word.replace(self.run_dir, "RUN") for word in step.command]}
        if step.part in self.recipe.subsets:
            data = recipes.ROOT / self.recipe.data.directory
            files = sorted(path for path in data.rglob(f"{step.part}.*") if path.is_file())
            identity["data"] = {path.relative_to(data).as_posix(): sha256(path) for path in files}
        return identity

    def _stamp(self, step: Step, stamps: dict[str, Any], seconds: float) -> None:
        """Note that a step is done; the steps after it have to be done again."""
        keys = [other.key for other in self.steps()]
        stale = [step.key] if step.name in BEFORE_TRAINING else keys[keys.index(step.key) :]
        for key in stale:
            stamps.pop(key, None)
        stamps[step.key] = {**self._identity(step), "line": step.line(), "seconds": round(seconds, 1)}
        if self.place.rank == 0:
            write_json(self.folder / "steps.json", stamps)

    def _train(self, step: Step, stamps: dict[str, Any], trained: bool, average: bool, lock: int) -> None:
        """Train once, or resume an interrupted training."""
        name, data = self.run_dir, recipes.ROOT / self.recipe.data.directory
        run, begun = runs.read(self.folder), _begun(self.folder)
        if trained and "train" not in stamps:
            raise RunError(f"--trained: {name} holds no finished training")
        if begun and run is None:
            raise OtherRunError(
                f"{name} holds checkpoints and no run.json, so they belong to another run; take another --run-dir"
            )
        if run is None and self.place.rank == 0 and (self.folder / "train.log").exists():
            raise OtherRunError(f"{name} holds another run's train.log, without run.json; take another --run-dir")
        if begun:
            runs.check_recipe(run, name, self.recipe)
            if name == recipes.default_run_dir(self.recipe):
                runs.check_file(run, name, self.recipe)
        if begun and not trained and (others := command_lines.differing(run["command"], step.command)):
            line = shlex.join(run["command"])
            raise OtherRunError(f"{name} holds another run, {others}; take another --run-dir. It was made by:\n{line}")
        if (data / "manifest.json").is_file() and self.place.rank == 0:
            _call(["text", "intact", str(data)])
        if self.place.rank == 0 and TASKS[self.recipe.task].section == "generate":
            check_units(self.recipe)
        if self.place.rank == 0 and "train" not in stamps:
            binarised.check_data(data)
        if begun and data.is_dir() and runs.dictionaries(data) != run["dictionaries"]:
            raise OtherRunError(
                f"{name} was trained with other dictionaries than {data} holds now; take another --run-dir"
            )
        if "train" in stamps:
            processes.say(f"{name} is trained")
            return
        for start in step.inputs[1:]:
            if not begun and not (recipes.ROOT / start).is_file():
                lines = "\n".join(s.line() for s in self.steps() if s.name == "start")
                raise RunError(f"{start}: not there; on several nodes it has to be made before, by:\n{lines}")
        if not data.is_dir():
            raise RunError(f"{data}: no such folder; this should have made it: {self.recipe.data.prepare}")
        updates, enough = self._begin(step, run if begun else None, average)
        if enough:
            processes.say(f"{name} has its {updates} updates")
            self._stamp(step, stamps, 0)
            return
        processes.say(f"\n== {self.title}: train")
        self._stamp(step, stamps, self._compute(step, lock))

    def _compute(self, step: Step, lock: int) -> float:
        """Execute a step that trains, translates or validates; on a CPU, a program gets as many threads as are free."""
        alone = self.place.cpu and not step.ours  # a command of ours runs in this process, which has its threads
        return execute(on_free_cores(step) if alone else step, lock)

    def _begin(self, step: Step, run: Optional[dict[str, Any]], average: bool) -> tuple[int, bool]:
        """Check that training can begin or resume, and note it; the updates that are done, and whether they are all."""
        from ... import checkpoints

        config = command_lines.configuration([*step.command[1:], *step.where])
        updates = checkpoints.resume_point(self.folder, mend=self.place.rank == 0)
        if config.optimization.max_update and updates >= config.optimization.max_update:
            return updates, True
        if self.place.rank == 0:
            if run is None:
                self._check_average(config, average)
                (self.folder / "train.log").unlink(missing_ok=True)  # of nothing that is left
                start = next(iter(step.inputs[1:]), None)
                more = same_training(self.place.flags)
                run = runs.describe(self.recipe, step.command, config, start, more)
            runs.begin(self.folder, run, self.place.devices, step.where)
        return updates, False

    def _check_average(self, config: Any, average: bool) -> None:
        try:
            if doubt := schedule.check_average(self.recipe, config):
                processes.say(f"warning: {doubt}")
        except RunError as error:
            if average:
                raise
            processes.say(f"warning: {error}")

    def _average(self, step: Step, lock: int) -> float:
        """Average; a training that left fewer checkpoints than that takes is kept, and the user told what to change."""
        from ... import checkpoints

        try:
            return execute(step, lock)
        except checkpoints.TooFewError as error:
            ((kind, _),) = self.recipe.average.wanted
            other = f"average.fewer to true, or average.{kind} to {error.found}" if error.found else "another average"
            raise RunError(
                f"{error}. The training is finished and kept: in the recipe {self.recipe.given}, set {other}, and give "
                "this command again; it will not train again"
            ) from error


def _begun(folder: Path) -> bool:
    """Whether the folder holds files of a training that must not be mixed with another's."""
    return any(folder.glob("checkpoint*.pt")) or "train" in runs.read_stamps(folder)


def on_free_cores(step: Step) -> Step:
    """A step that computes on a CPU, with as many threads as there are free cores; the user is told how many."""
    variables, chosen = processors.threads(os.environ)
    processes.say(chosen)
    return replace(step, environment={**step.environment, **variables})


def execute(step: Step, lock: int = -1) -> float:
    """Print the line of a step, run it, and return the seconds that it took.

    Raises:
        RunError: what it reads is not there, or it failed.
    """
    for path in step.inputs:
        if not (recipes.ROOT / path).exists():
            raise RunError(f"{step.key}: needs {path}, which is not there")
    processes.say(f"+ {step.line()}")
    for path in step.outputs:
        (recipes.ROOT / path).parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    if step.ours:
        _call(step.words[len(OURS) :])
    else:
        path = recipes.ROOT / step.log if step.log else None
        status = processes.launch(step.words, processes.environment(step.environment), path, lock)
        if status:
            if path and (diverged := records.divergence(path)):
                raise RunError(f"{step.key}: {diverged}. What it said is in {step.log}")
            more = f"; what it said is in {step.log}" if step.log else ""
            raise RunError(f"{step.key}: {step.words[0]} ended with status {status}{more}")
    for source, target in step.moves:
        (recipes.ROOT / source).replace(recipes.ROOT / target)
        with contextlib.suppress(OSError):  # there are others
            (recipes.ROOT / source).parent.rmdir()
    return time.monotonic() - began


def prepare(wanted: Sequence[recipes.Recipe], place: Place) -> None:
    """Prepare the data of recipes, those of several once, before several runs need them at a time."""
    found = [steps(recipe, place)[0] for recipe in wanted]
    for step in {tuple(step.command): step for step in found}.values():
        execute(step)


def _call(words: Sequence[str]) -> None:
    """Run a command of this package in this process, which has imported most of what it needs."""
    from .. import cli

    if cli.call(words):
        raise RunError(f"ode-transformer {words[0]} failed")


def _check(models: Sequence[Path], recipe: recipes.Recipe, subset: str = "") -> None:
    """Check that models are intact, of a known architecture and trained with the dictionaries of a recipe's data, and
    that the data, of one subset or all, are whole."""
    data = recipes.ROOT / recipe.data.directory
    _call(["check", *map(str, models), "--data", str(data)])
    binarised.check_data(data, subset)


# The command.


def gpu_count() -> int:
    """How many GPUs are here."""
    import torch

    return torch.cuda.device_count()


def _count(variable: str, least: int = 1) -> int:
    value = os.environ.get(variable) or str(least)
    if not value.isdecimal() or int(value) < least:
        raise RunError(f"{variable}={value}: must be a whole number, {least} or more")
    return int(value)


def place_of(args: argparse.Namespace, recipe: recipes.Recipe, trains: bool) -> Place:
    """Where a run is to continue, from the command line, the job's variables and the machine.

    Args:
        args: of ``ode-transformer run``.
        recipe: what is run.
        trains: whether training is among the steps.

    Raises:
        RunError: a number of devices that is not here, half precision without a GPU.
    """
    slurm = "SLURM_STEP_ID" in os.environ  # started by srun; in a batch script or salloc's shell it is not
    nodes = _count("SLURM_NNODES" if slurm else "NNODES")
    tasks = _count("SLURM_NTASKS") if slurm else 1
    gpus, cpu = 0 if args.cpu else gpu_count(), args.cpu
    if not gpus and not cpu and not args.dry_run:
        cpu = True
        wanted = args.precision or recipe.train.precision
        if trains and wanted != "fp32":
            whose = f"--{wanted}" if args.precision else f"{recipe.name} trains in {wanted}"
            raise RunError(f"{whose}: no GPU is here; give --cpu to train on the CPU, in fp32 unless you say otherwise")
        if trains:
            processes.say("warning: NO GPU IS HERE: training on the CPU, as with --cpu")
    if args.torchrun and not gpus:
        raise RunError("--torchrun: needs GPUs, because fairseq divides by their number")
    if args.cpu and (args.devices or 1) > 1:
        raise RunError(f"--devices {args.devices}: must be 1 with --cpu, which trains in one process")
    devices, here = args.devices, max(gpus, 1)
    if trains and (devices or 1) > here and nodes == tasks == 1 and not args.dry_run:
        raise RunError(
            f"--devices {devices}: this machine has {gpus or 'no'} GPU{'s' * (gpus != 1)}; must be at most {here}"
        )
    if devices is None and (nodes > 1 or tasks > 1):
        devices = tasks if tasks > nodes else nodes * here
    if devices is None:
        devices = max(n for n in recipes.divisors(recipe) if n <= here)
    if devices % nodes:
        raise RunError(f"--devices {devices}: cannot be dealt evenly to {nodes} nodes")
    # With a port and one task per node, fairseq uses all GPUs of the job, whatever it is told.
    if "--distributed-port" in _names(args.flags) and tasks <= nodes and gpus and devices != nodes * gpus:
        raise RunError(
            f"--devices {devices}: the job has {nodes} x {gpus} GPUs, and all would train; ask Slurm for {devices}"
        )
    rank = _count("SLURM_PROCID" if slurm else "NODE_RANK", least=0)
    alone = nodes == tasks == 1
    return Place(
        devices=devices,
        precision=args.precision or ("fp32" if cpu else recipe.train.precision),
        cpu=cpu,
        torchrun=args.torchrun,
        nodes=nodes,
        rank=0 if alone else rank,
        alone=alone,
        flags=tuple(args.flags),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer run``."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs="+",
        help="a name that `ode-transformer recipe list` prints; or a YAML file, FILE.yaml or FILE.yaml/ROW",
    )
    parser.add_argument(
        "--from",
        dest="first",
        metavar="STEP",
        help="begin with this step; it and the steps after it are done again, except a training",
    )
    parser.add_argument(
        "--until",
        dest="last",
        metavar="STEP",
        help="end with this step: prepare, start, train, average, generate or validate, score, record",
    )
    parser.add_argument(
        "--trained",
        action="store_true",
        help="keep the finished training in the folder, even if it was trained with other flags than those given now",
    )
    parser.add_argument("--scale", type=str.lower, choices=recipes.SCALES, default="full", help="small: a rehearsal")
    parser.add_argument(
        "--seeds",
        "--seed",
        nargs="+",
        type=int,
        metavar="N",
        help="seeds of the training, one run for each (default: the recipe's)",
    )
    parser.add_argument("--run-dir", metavar="DIR", help="where the files of a single run go (default: runs/RECIPE)")
    parser.add_argument(
        "--record", metavar="FILE", help="where the record of a single run goes (default: record.json in its folder)"
    )
    parser.add_argument(
        "--devices",
        type=at_least(1),
        metavar="N",
        help="GPUs that train together; the update frequency follows from it, so that an update sees as much text on "
        "any number of GPUs (default: as many of this machine's as divide the batches; under Slurm or with NNODES all "
        "of the job's)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use GPUs")
    precisions = parser.add_mutually_exclusive_group()
    for name in recipes.PRECISIONS:
        help_ = {
            "fp32": "train in fp32 (the default on a CPU; on GPUs the default is the paper's precision)",
            "amp": "train with PyTorch's automatic mixed precision",
        }.get(name, f"train in {name}")
        precisions.add_argument(f"--{name}", dest="precision", action="store_const", const=name, help=help_)
    parser.add_argument(
        "--torchrun",
        action="store_true",
        help="start the processes with torchrun instead of fairseq; for several machines, variables NNODES, NODE_RANK "
        "(or Slurm's), MASTER_ADDR and MASTER_PORT",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    parser.epilog = "Words after -- are passed on to fairseq-train. Several recipes or seeds end in a table."


def check_folder(path: str | Path) -> None:
    """Refuse a folder whose path fairseq takes apart or interprets.

    Raises:
        RunError: the path holds such a character.
    """
    if {":", "\\", "$"} & set(str(path)):
        raise RunError(f"{path}: a run's folder must hold no colon, backslash or $, which fairseq interprets")


def folder_of(path: str) -> str:
    """A folder as the commands of a run name it: from the top of the repository if it lies there, else absolute."""
    absolute = Path(os.path.abspath(path))  # without .., so that it does not depend on a folder beside the way
    return str(absolute.relative_to(recipes.ROOT)) if absolute.is_relative_to(recipes.ROOT) else str(absolute)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer run``; the exit status."""
    for seed in args.seeds or []:
        if not 0 <= seed < 2**32:
            raise RunError(f"--seed {seed}: must be 0 or more and less than 2^32")
        if args.seeds.count(seed) > 1:
            raise RunError(f"--seeds: {seed} is given twice")
    for flag, instead in (recipes.OWN_FLAGS | BEFORE_FLAGS).items():
        if f"--{flag}" in _names(args.flags):
            raise RunError(f"-- --{flag}: is set by {instead}")
    chosen = []
    for name in args.recipe:
        recipe = recipes.load(name, scale=args.scale)
        if recipe.added_to:
            processes.say(f"warning: {recipe.added_to}")
        seeds = args.seeds or (recipe.seeds if args.scale == "full" else []) or [None]
        chosen += [recipes.load(name, scale=args.scale, seed=seed) for seed in seeds]
    if len(chosen) > 1 and (args.run_dir or args.record):
        raise RunError(
            f"--run-dir and --record: must be given for a single run, not for {len(chosen)}; give one recipe and one "
            "--seed"
        )
    record = str(Path(args.record).absolute()) if args.record else ""
    found: list[Run] = []
    for recipe in chosen:
        run_dir = folder_of(args.run_dir) if args.run_dir else recipes.default_run_dir(recipe)
        check_folder(run_dir)
        if run_dir in (other.run_dir for other in found):
            raise RunError(f"{recipe.given}: would share {run_dir} with another run; run it by itself, with --run-dir")
        run = Run(recipe, Place(), run_dir, record)
        trains = "train" in run.chosen(args.first, args.last) and not args.trained
        if args.flags and not trains:
            raise RunError(
                f"-- {shlex.join(args.flags)}: are flags of fairseq-train, and this trains nothing; to translate with "
                "other flags, use ode-transformer generate"
            )
        run.place = place_of(args, recipe, trains)
        found.append(run)
    with contextlib.chdir(recipes.ROOT), processes.terminable():
        for run in found:
            if args.dry_run:
                chosen = run.chosen(args.first, args.last)
                print(printed((step for step in run.steps() if step.name in chosen), f"{run.title}: "))
                continue
            try:
                run.go(args.first, args.last, args.trained)
            except OSError as error:  # a full disk, a folder that is not the user's
                raise RunError(f"{run.run_dir}: {error}") from error
            if own_text(run.recipe) and "record" in run.chosen(args.first, args.last):
                processes.say(f"Next:\node-transformer translate {shlex.quote(run.run_dir)} FILE")
        if len(found) > 1 and not args.dry_run and all("record" in run.chosen(args.first, args.last) for run in found):
            from ..results import tables

            print(tables.sweep([(run.recipe, run.folder) for run in found]))
    return 0


def own_text(recipe: recipes.Recipe) -> bool:
    """Whether ``ode-transformer prepare`` makes the data of a recipe, so that raw text can be translated."""
    return recipe.generate is not None and "ode_transformer prepare " in recipe.data.prepare


def printed(found: Iterable[Step], title: str = "") -> str:
    """The commands of steps, below a heading for each kind of step."""
    lines = []
    for name, its in itertools.groupby(found, key=lambda step: step.name):
        lines += [f"\n# {title}{name}", *(step.line() for step in its)]
    return "\n".join(lines)


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer generate``."""
    parser.add_argument("recipe", metavar="RECIPE", help="a translation recipe")
    recipes.add_variant(parser)
    parser.add_argument("--run-dir", metavar="DIR", help="where average.pt is (default: runs/RECIPE)")
    parser.add_argument("--checkpoint", metavar="CHECKPOINT", help="another checkpoint, or an ensemble a.pt:b.pt")
    parser.add_argument(
        "--output", metavar="DIR", required=True, help="the folder for the translations; it must not exist yet"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.epilog = "Words after -- are passed on to fairseq-generate."


def generate_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer generate``: translate with other checkpoints or flags than the recipe's own."""
    recipe = recipes.load(args.recipe, scale=args.scale, seed=args.seed)
    if recipe.generate is None:
        raise RunError(f"{args.recipe}: is of task {recipe.task}, and has nothing to translate")
    run_dir = folder_of(args.run_dir) if args.run_dir else recipes.default_run_dir(recipe)
    check_folder(run_dir)
    output = Path(args.output).absolute()
    if output.exists():
        raise RunError(f"--output {args.output}: is there already")
    paths = [Path(path).absolute() for path in (args.checkpoint or "").split(":") if path]
    read = paths or [recipes.ROOT / run_dir / "average.pt"]
    for path in read:
        if not path.is_file():
            raise RunError(f"--checkpoint {args.checkpoint}: no file {path}" if paths else f"{path}: not there")
    _check(read, recipe)
    more = ["--path", ":".join(map(str, paths))] if paths else []
    cpu = args.cpu or not gpu_count()
    with processes.terminable(), whole_folder(output) as part:  # fairseq writes as it goes
        for step in steps(recipe, Place(cpu=cpu), run_dir):
            if step.name == "generate":
                where = [*step.where, *more, "--results-path", str(part), *args.flags]
                log = part / "generate.log"
                step = replace(step, where=where, inputs=[], outputs=[], moves=[], log=str(log))
                try:
                    execute(on_free_cores(step) if cpu else step)
                except RunError as error:  # the folder goes, and the log with it
                    said = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
                    raise RunError(f"fairseq-generate failed: {said[-1]}" if said else str(error)) from error
    print("\n".join(str(path) for path in sorted(output.iterdir())))
    return 0
