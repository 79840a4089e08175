"""``fairseq-train``: its command for a recipe, and the place where it trains.

Words about the place are kept apart from those that say what is trained, since a training may resume elsewhere.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional

from ... import processors
from ...errors import counted
from ...paths import PACKAGE, USER_DIR
from .. import recipes
from ..recipes import RecipeError
from ..records import RunError
from ..tasks import TASKS
from ..tasks.task import Step, flags
from . import command_lines, processes

# The flags of fairseq-train with a value that say where and how it runs, and who else receives its progress.
PLACE_FLAGS = (
    "--ddp-backend",
    "--distributed-port",
    "--distributed-world-size",
    "--num-workers",
    "--tensorboard-logdir",
    "--wandb-project",
)
# Flags of fairseq-train for which ``run`` has options of its own, because records and tables depend on them.
BEFORE_FLAGS = {name: f"is set by --{name}, before the --" for name in ("seed", *recipes.PRECISIONS) if name != "fp32"}


@dataclass(frozen=True)
class TrainingPlace:
    """The place of a training, its precision and additional flags."""

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


def gpu_count() -> int:
    """Return the number of GPUs of this machine that this process can use."""
    import torch

    return torch.cuda.device_count()


def visible_gpus() -> list[str]:
    """Return the names by which ``CUDA_VISIBLE_DEVICES`` of another process can select the GPUs of this one."""
    return [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name] or [
        str(i) for i in range(gpu_count())
    ]


def _count(variable: str, least: int = 1) -> int:
    value = os.environ.get(variable) or str(least)
    if not value.isdecimal() or int(value) < least:
        raise RunError(f"{variable}={value}: must be a whole number, {least} or more")
    return int(value)


def place_here(
    recipe: recipes.Recipe,
    *,
    trains: bool = True,
    jobs: int = 1,
    devices: Optional[int] = None,
    cpu: bool = False,
    precision: Optional[str] = None,
    torchrun: bool = False,
    flags: Sequence[str] = (),
    dry_run: bool = False,
) -> TrainingPlace:
    """Return where a run takes place, by the arguments, the variables of the job and the machine.

    Args:
        recipe: the recipe of the run.
        trains: whether training is among the steps.
        jobs: the number of runs at a time, each with devices of its own.
        devices: number of GPUs that train together; the update frequency follows, so that an update sees the same
            amount of text on any number (default: the largest number of this machine's GPUs that divides the batches
            of an update; under Slurm or with NNODES, all GPUs of the job).
        cpu: do not use GPUs.
        precision: by default the recipe's on GPUs, fp32 on a CPU.
        torchrun: start the processes with torchrun instead of fairseq; for several machines, variables NNODES,
            NODE_RANK (or Slurm's), MASTER_ADDR and MASTER_PORT.
        flags: flags of fairseq-train, besides the recipe's.
        dry_run: whether commands are only printed, possibly for another machine.
    """
    check_names(command_lines.flag_values(flags), "--")
    nodes, tasks, rank = _job()
    alone = nodes == tasks == 1
    gpus = 0 if cpu else gpu_count()
    if cpu and (devices or 1) > 1:
        raise RunError(f"--devices {devices}: must be 1 with --cpu, which trains in one process")
    if not gpus and not cpu and not dry_run:
        cpu = True
        if trains:
            _check_cpu_serves(recipe, precision)
    if torchrun and not gpus:
        raise RunError("--torchrun: needs GPUs, because fairseq divides by their number")
    if jobs > 1 and (torchrun or not alone):
        raise RunError(f"--jobs {jobs}: must be 1 in a job of several tasks or nodes, and with --torchrun")
    if jobs > 1 and gpus and jobs * (devices or 1) > gpus and not dry_run:
        raise RunError(f"--jobs {jobs}: needs {jobs} x {devices or 1} GPUs; this machine has {gpus}")
    here = max(gpus // jobs, 1)
    if trains and (devices or 1) > here and alone and not dry_run:
        raise RunError(f"--devices {devices}: this machine has {counted(gpus, 'GPU')}; must be at most {here}")
    if devices is None and alone:
        devices = max(n for n in recipes.divisors(recipe) if n <= here)
    if devices is None:
        devices = tasks if tasks > nodes else nodes * here
    if devices % nodes:
        raise RunError(f"--devices {devices}: cannot be divided evenly among {nodes} nodes")
    # With one task per node, fairseq uses all GPUs of the job, whatever it is told.
    if not alone and not torchrun and tasks <= nodes and gpus and devices != nodes * gpus:
        raise RunError(
            f"--devices {devices}: the job has {nodes} x {gpus} GPUs, and all would train; ask Slurm for {devices}"
        )
    return TrainingPlace(
        devices=devices,
        precision=precision or ("fp32" if cpu else recipe.train.precision),
        cpu=cpu,
        torchrun=torchrun,
        nodes=nodes,
        rank=0 if alone else rank,
        alone=alone,
        flags=tuple(flags),
    )


def check_names(names: Iterable[str], given: str) -> None:
    """Check that none of some flags of ``fairseq-train``, given by an option of the user, is one that ``run`` sets."""
    for name in names:
        if why := (recipes.OWN_FLAGS | BEFORE_FLAGS).get(name.removeprefix("--")):
            raise RunError(f"{given} {name}: {why}")


def _job() -> tuple[int, int, int]:
    """Return the numbers of nodes and of tasks of the job, and the rank of this task, by variables of Slurm or ours."""
    if "SLURM_STEP_ID" in os.environ:  # started by srun; in a batch script or salloc's shell it is not
        return _count("SLURM_NNODES"), _count("SLURM_NTASKS"), _count("SLURM_PROCID", least=0)
    return _count("NNODES"), 1, _count("NODE_RANK", least=0)


def _check_cpu_serves(recipe: recipes.Recipe, precision: Optional[str]) -> None:
    """Warn that a CPU trains because there is no GPU, or raise a :class:`RunError` if the precision is not fp32."""
    wanted = precision or recipe.train.precision
    if wanted != "fp32":
        whose = f"--{wanted}" if precision else f"{recipe.name} trains in {wanted}"
        raise RunError(f"{whose}: no GPU is here; give --cpu to train on the CPU, in fp32 unless you say otherwise")
    processes.say("warning: NO GPU IS HERE: training on the CPU, as with --cpu")


def is_of_fairseq(arch: str) -> bool:
    """Whether an architecture is one of fairseq's own Transformers or RoBERTas, by its name unless it is ours."""
    config = sys.modules.get(f"{PACKAGE.name}.config")  # which a plugin with architectures has imported
    if config is not None and arch in config.PRESETS:
        return False
    ours = arch in ("transformer_encoder", "transformer_small") or "macaron" in arch
    return arch.startswith(("roberta", "transformer")) and not ours


def step(recipe: recipes.Recipe, place: TrainingPlace, run_dir: str, start: str = "") -> Step:
    """Return the step that trains a recipe, from the checkpoint ``start`` if there is one."""
    train, devices, precision = recipe.train, place.devices, place.precision
    if devices not in recipes.divisors(recipe):
        raise RecipeError(
            f"{recipe.name}: {devices} devices do not divide the batches of an update ({train.batches}); "
            f"take one of {recipes.divisors(recipe)}"
        )
    if precision == "bf16" and is_of_fairseq(train.arch):
        others = "fp32" if place.cpu else "fp32, fp16 or amp"
        raise RecipeError(f"bf16: with --arch {train.arch}, fairseq assumes a TPU; take {others}")
    placed, more = split(place.flags)
    if place.alone and "--distributed-port" in placed:  # of a job of several tasks; one alone would train on one GPU
        i = placed.index("--distributed-port")
        del placed[i : i + 2]
    if start and "--finetune-from-model" in command_lines.flag_values([*flags(train.flags), *more]):
        raise RecipeError(f"{recipe.name}: --finetune-from-model: is set by train.start")
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
    # With new batches in each epoch, fairseq starts a process per epoch to read them, and does not end it: on a CPU,
    # sixty such processes filled 24 GiB. There, the training process itself reads the text fast enough.
    workers = ["--num-workers", "0"] if place.cpu and "num-workers" not in train.flags else []
    where = [
        *(["--finetune-from-model", start] if start else []),
        *("--distributed-world-size", str(devices), "--update-freq", str(train.batches // devices)),
        *("--save-dir", run_dir, *workers, *placed, *["--cpu"] * place.cpu),
    ]
    return Step(
        "train",
        command,
        [recipe.data.directory, *([start] if start else [])],
        [f"{run_dir}/run.json", f"{run_dir}/checkpoint_last.pt"],
        where=where,
        launcher=_torchrun(place) if place.torchrun else _without_slurm() if place.alone and devices > 1 else [],
        environment=processors.KEEP_FREED_MEMORY if place.cpu else {},
        log=f"{run_dir}/train.log",
    )


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that say where a training runs, flags with their values, and the other words."""
    placed, others, rest = [], [], iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in PLACE_FLAGS:
            placed += [flag, value if equals else next(rest, "")]
        elif word == "--cpu":
            placed.append(word)
        else:
            others.append(word)
    return placed, others


def _without_slurm() -> list[str]:
    """Return a launcher that removes the variables of a Slurm job, by which fairseq would train on all of its GPUs,
    whatever it is told, and take one port for all trainings in it.
    """
    names = [n for n in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST") if n in os.environ]
    return ["env", *(word for name in names for word in ("-u", name))] if names else []


def _torchrun(place: TrainingPlace) -> list[str]:
    port = 29500 if place.nodes > 1 else 20000 + os.getpid() % 20000  # several on one machine need one each
    return [
        *("torchrun", "--nnodes", str(place.nodes)),
        *("--node_rank", os.environ.get("SLURM_NODEID") or str(place.rank)),
        *("--nproc_per_node", str(place.devices // place.nodes)),
        *("--master_addr", os.environ.get("MASTER_ADDR", "127.0.0.1")),
        *("--master_port", os.environ.get("MASTER_PORT", str(port)), "--no_python"),
    ]
