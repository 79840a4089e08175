"""What needs a GPU, the most informative first: checks, the contest with stock fairseq, then trainings side by side.

Each part has its share of the time, and writes what it found at once. Checks that have passed are listed in a file and
not repeated. By default it trains Table 5 of the ODE Transformer on the Penn Treebank and the tiny systems at full
budget on Multi30k. It needs no network, but the data: prepared in ``data-bin``, or in the folder that
``ODE_TRANSFORMER_DATA`` names.
"""

import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import files, processors
from .. import recipes
from ..arguments import at_least
from ..runs import RunError, processes, runner, training
from ..tasks.task import OURS

TIMED_OUT = 124  # what timeout(1) and this module call a command whose time was over
NO_TESTS = 5  # pytest's exit status

CHECKS, CONTEST = 0.2, 0.4
"""The shares of checks and contest in the time; trainings have the rest."""


@dataclass(frozen=True)
class Job:
    """A run that the suite makes: a recipe with its seed, in a precision."""

    recipe: recipes.Recipe
    precision: str

    @property
    def name(self) -> str:
        """The name by which users refer to it."""
        seed = "" if self.recipe.seed is None else f" --seed {self.recipe.seed}"
        return f"{self.recipe.given}{seed} {self.precision}"

    def files(self, runs: Path, out: Path) -> tuple[Path, Path]:
        """Its folder, and its record: NAME.json, with seed and precision before the suffix where they are not usual."""
        seed = "" if self.recipe.seed is None else f".seed-{self.recipe.seed}"
        precision = "" if self.precision == "fp32" else f".{self.precision}"
        folder = f"{self.recipe.name.replace('/', '.')}{seed}.{self.precision}"
        return runs / folder, out / f"{self.recipe.name}{seed}{precision}.json"

    def fits(self) -> bool:
        """Whether it can be trained in this precision: fairseq takes ``--bf16`` with its own models for a TPU."""
        return self.precision != "bf16" or not training.is_of_fairseq(self.recipe.train.arch)

    def command(self, runs: Path, out: Path, args: argparse.Namespace) -> list[str]:
        """The command that makes it."""
        folder, record = self.files(runs, out)
        place = ["--cpu"] if args.cpu else ["--devices", "1"]
        words = [*OURS, "run", self.recipe.given, "--run-dir", str(folder), "--record", str(record)]
        return [*words, *recipes.variant(self.recipe), f"--{self.precision}", *place, "--", *args.flags]


def jobs_of(args: argparse.Namespace) -> list[Job]:
    """The runs to make."""
    names = args.systems
    if names is None:
        data = Path(os.environ.get("ODE_TRANSFORMER_DATA") or os.devnull)
        treebank = any(path.exists() for path in (recipes.ROOT / "data-bin" / "ptb", data / "ptb", data / "ptb.tar.xz"))
        groups = ("ptb", "multi30k-full") if treebank else ("multi30k-full",)
        names = [
            n for g in groups for n in recipes.names() if n.startswith(f"{g}/") and not recipes.load(n).train.start
        ]
    found = []
    for precision in args.precisions:
        for name in names:
            seeds = args.seeds if recipes.load(name).seeds else [None]
            found += [Job(recipes.load(name, seed=seed), precision) for seed in seeds]
    return [job for job in found if job.fits()]


class Suite:
    """The suite, with a limit on its time."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.runs, self.out = Path(args.runs).absolute(), Path(args.out).absolute()
        self.deadline = time.monotonic() + 60 * args.minutes
        self.jobs = jobs_of(args)
        self.failed = False
        self.checks, self.record = self.out / "gpu-checks.txt", self.out / "contest.json"

    def left(self) -> float:
        """The seconds that are left."""
        return self.deadline - time.monotonic()

    def done(self, job: Job) -> bool:
        """Whether there is a record of a job."""
        return job.files(self.runs, self.out)[1].is_file()

    def timed(self, words: Sequence[str], seconds: float, output: Path | None = None) -> int:
        """Run a command for so many seconds at most, or until the time is over; its exit status."""
        process = None
        with contextlib.ExitStack() as stack:
            where = stack.enter_context(open(output, "wb")) if output else None
            try:
                with processes.signals_wait():  # until it is known which process to end
                    process = subprocess.Popen(
                        words,
                        cwd=recipes.ROOT,
                        env=processes.environment({}),
                        stdout=where,
                        stderr=where and subprocess.STDOUT,
                        start_new_session=True,
                    )
                return process.wait(timeout=max(min(self.left(), seconds), 1))
            except subprocess.TimeoutExpired:
                return TIMED_OUT
            finally:  # with the processes that it started
                if process:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)

    def check(self) -> None:
        """The tests that need a GPU and have not passed yet; those that pass are listed, by name."""
        processes.say("== checks")
        passed = self.checks.read_text().split("\n") if self.checks.is_file() else []
        log = self.out / "gpu-checks.log"
        words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb", "short", "tests/gpu"]
        words += [word for name in passed if name for word in ("--deselect", name)]
        status = self.timed(words, CHECKS * self.args.minutes * 60, log)
        found = re.findall(r"^(tests/\S.*?) PASSED", log.read_text(errors="replace"), re.MULTILINE)
        files.write_text(self.checks, "\n".join(sorted({*passed, *found} - {""})) + "\n")
        failed = re.findall(r"^FAILED .*", log.read_text(errors="replace"), re.MULTILINE)
        processes.say("\n".join([f"{len(found)} passed, {len(failed)} failed", *failed]))
        self.failed |= bool(failed) or status not in (0, NO_TESTS, TIMED_OUT)

    def contest(self) -> None:
        """Training in every mode beside stock fairseq, unless there is a record."""
        if self.record.is_file():
            return
        processes.say("== contest")
        minutes = CONTEST * self.args.minutes
        words = [sys.executable, "-m", "ode_transformer", "bench", "gpu", "--output", str(self.record)]
        words += ["--minutes", f"{minutes:.2f}", "--device", "cpu" if self.args.cpu else "cuda"]
        data = recipes.ROOT / "data-bin" / "multi30k-own.en-de"
        words += ["--data", str(data)] if data.is_dir() else []
        self.failed |= self.timed(words, 60 * minutes + 90) not in (0, TIMED_OUT)

    def train(self) -> None:
        """All runs, some at a time, spread over the GPUs; the next call resumes those that have not ended."""
        place = training.Place(cpu=self.args.cpu)
        waiting = [job for job in self.jobs if not self.done(job)]
        runner.prepare([job.recipe for job in waiting], place)
        count = max(training.gpu_count(), 1)
        devices = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))).split(",")

        def start(job: Job, slot: int) -> subprocess.Popen:
            return self.start(job, devices[slot % len(devices)])

        processes.side_by_side(waiting, self.args.jobs, start, self.ended, self.left)

    def ended(self, job: Job, status: int, seconds: float) -> None:
        """Note and say that a run failed, if it did."""
        if status:
            self.failed = True
            log = job.files(self.runs, self.out)[0] / "suite.log"
            processes.say(f"failed: {job.name}, after {seconds:.0f} s")
            processes.say("\n".join(log.read_text(errors="replace").splitlines()[-20:]))

    def start(self, job: Job, device: str) -> subprocess.Popen:
        """Start a run on a device; its output goes to ``suite.log`` in its folder."""
        processes.say(f"== {job.name}")
        folder = job.files(self.runs, self.out)[0]
        words = [sys.executable, *job.command(self.runs, self.out, self.args)[1:]]
        more = {"CUDA_VISIBLE_DEVICES": device}
        if self.args.cpu and not os.environ.get(processors.VARIABLE):
            more[processors.VARIABLE] = str(max(1, processors.usable() // self.args.jobs))
        return processes.start(words, processes.environment(more), folder / "suite.log")

    def report(self) -> int:
        """Print what is done and what is left; return how many are left."""
        left = 0
        for job in self.jobs:
            if self.done(job):
                print(f"done: {job.name}")
            else:
                left += 1
                print(f"left: {job.name} (log: {job.files(self.runs, self.out)[0] / 'suite.log'})")
        return left


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer gpu-suite``."""
    precisions = recipes.PRECISIONS
    add = parser.add_argument
    help_ = "stop after N minutes; call again to continue (default: %(default)s)"
    add("--minutes", type=at_least(1), default=9, metavar="N", help=help_)
    help_ = "number of systems to train at the same time (default: %(default)s)"
    add("--jobs", type=at_least(1), default=4, metavar="N", help=help_)
    add("--runs", metavar="DIR", help="where checkpoints go (default: runs/gpu)")
    add(
        "--out",
        metavar="DIR",
        help="where the small result files go (default: results/gpu, apart from records of runs on CPUs)",
    )
    add(
        "--systems",
        nargs="+",
        metavar="RECIPE",
        help="what to train (default: all of multi30k-full that start from no checkpoint, and ptb)",
    )
    add("--precisions", nargs="+", choices=precisions, default=["bf16"], help="precisions to train in (default: bf16)")
    add("--seeds", nargs="+", type=at_least(1), default=[1], metavar="N", help="seeds to train with (default: 1)")
    add("--cpu", action="store_true", help="rehearse the suite without a GPU")
    add("--dry-run", action="store_true", help="print what would be run")
    parser.epilog = (
        "Words after -- are passed on to fairseq-train, such as `-- --max-update 20`; they and --cpu need --runs and "
        "--out, because such a run is a rehearsal. --out gets gpu-checks.txt, contest.json and a record of every "
        "finished run; what is there is not done again."
    )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer gpu-suite``; the exit status is 1 if something failed."""
    if (args.flags or (args.cpu and not args.dry_run)) and not (args.runs and args.out):
        raise RunError("--cpu and flags after -- need --runs and --out: a rehearsal is not a result")
    args.runs, args.out = args.runs or recipes.ROOT / "runs" / "gpu", args.out or recipes.ROOT / "results" / "gpu"
    if not args.cpu and not args.dry_run and training.gpu_count() == 0:
        raise RunError("no GPU is there; rehearse with --cpu")
    suite = Suite(args)
    if args.dry_run:
        for job in suite.jobs:
            if not suite.done(job):
                print(shlex.join(job.command(suite.runs, suite.out, args)))
        return 0
    suite.out.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(recipes.ROOT), processes.terminable():
        suite.check()
        suite.contest()
        suite.train()
        left = suite.report()
    if not left:
        print("all done")
    elif not suite.failed:
        print(f"{left} left; call again")
    return int(suite.failed)
