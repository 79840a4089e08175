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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from ... import files, processors
from ...paths import ROOT
from .. import recipes
from ..arguments import at_least
from ..runs import RunError, processes, runner
from ..runs.training import Place, gpu_count, is_of_fairseq

TIMED_OUT = 124  # what timeout(1) and this module call a command whose time was over
NO_TESTS = 5  # pytest's exit status

CHECKS, CONTEST = 0.2, 0.4
"""The shares of checks and contest in the time; trainings have the rest."""

OURS = (sys.executable, "-m", "ode_transformer")


@dataclass(frozen=True)
class Training:
    """A training that the suite makes: a recipe with its seed, in a precision.

    Its record is NAME.json in the folder ``out``, with seed and precision before the suffix where they are not usual.
    """

    recipe: recipes.Recipe
    precision: str
    runs: Path
    out: Path

    @property
    def name(self) -> str:
        """The name by which users refer to it."""
        return " ".join([self.recipe.given, *recipes.variant(self.recipe), self.precision])

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.runs / f"{self.recipe.name.replace('/', '.')}{self._seed}.{self.precision}"

    @property
    def record(self) -> Path:
        """The record, which is there when the training is done."""
        precision = "" if self.precision == "fp32" else f".{self.precision}"
        return self.out / f"{self.recipe.name}{self._seed}{precision}.json"

    @property
    def _seed(self) -> str:
        return "" if self.recipe.seed is None else f".seed-{self.recipe.seed}"

    def words(self, cpu: bool, flags: Sequence[str]) -> list[str]:
        """The command that makes it, after ``ode-transformer``."""
        words = ["run", self.recipe.given, "--run-dir", str(self.folder), "--record", str(self.record)]
        place = ["--cpu"] if cpu else ["--devices", "1"]
        return [*words, *recipes.variant(self.recipe), f"--{self.precision}", *place, "--", *flags]


def usual() -> list[str]:
    """The recipes that are trained by default."""
    data = Path(os.environ.get("ODE_TRANSFORMER_DATA") or os.devnull)
    treebank = any(path.exists() for path in (ROOT / "data-bin" / "ptb", data / "ptb", data / "ptb.tar.xz"))
    groups = ("ptb", "multi30k-full") if treebank else ("multi30k-full",)
    return [n for g in groups for n in recipes.names() if n.startswith(f"{g}/") and not recipes.load(n).train.start]


def trainings(
    names: Sequence[str], precisions: Sequence[str], seeds: Sequence[int], runs: Path, out: Path
) -> list[Training]:
    """The trainings of recipes; fairseq takes ``--bf16`` with its own models for a TPU, so that these are left out."""
    found = []
    for precision in precisions:
        for name in names:
            recipe = recipes.load(name)
            if precision == "bf16" and is_of_fairseq(recipe.train.arch):
                continue
            of_seeds = [recipes.load(name, seed=seed) for seed in seeds] if recipe.seeds else [recipe]
            found += [Training(one, precision, runs.absolute(), out.absolute()) for one in of_seeds]
    return found


@dataclass
class Suite:
    """The suite, with a limit on its time: so many ``minutes`` from now on."""

    trainings: Sequence[Training]
    out: Path
    minutes: float
    at_once: int = 1
    cpu: bool = False
    flags: Sequence[str] = ()
    failed: bool = False
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """The seconds that are left."""
        return self.began + 60 * self.minutes - time.monotonic()

    def timed(self, words: Sequence[str], seconds: float, output: Optional[Path] = None) -> int:
        """Run a command for so many seconds at most, or until the time is over; its exit status."""
        process = None
        with contextlib.ExitStack() as stack:
            where = stack.enter_context(open(output, "wb")) if output else None
            try:
                with processes.signals_wait():  # until it is known which process to end
                    process = subprocess.Popen(
                        words,
                        cwd=ROOT,
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
        listed, log = self.out / "gpu-checks.txt", self.out / "gpu-checks.log"
        passed = set(listed.read_text().split("\n")) - {""} if listed.is_file() else set()
        words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb", "short", "tests/gpu"]
        words += [word for name in sorted(passed) for word in ("--deselect", name)]
        status = self.timed(words, CHECKS * self.minutes * 60, log)
        said = log.read_text(errors="replace")
        found = re.findall(r"^(tests/\S.*?) PASSED", said, re.MULTILINE)
        files.write_text(listed, "\n".join(sorted(passed | set(found))) + "\n")
        failed = re.findall(r"^FAILED .*", said, re.MULTILINE)
        processes.say("\n".join([f"{len(found)} passed, {len(failed)} failed", *failed]))
        self.failed |= bool(failed) or status not in (0, NO_TESTS, TIMED_OUT)

    def contest(self) -> None:
        """Training in every mode beside stock fairseq, unless there is a record."""
        record, data = self.out / "contest.json", ROOT / "data-bin" / "multi30k-own.en-de"
        if record.is_file():
            return
        processes.say("== contest")
        minutes = CONTEST * self.minutes
        words = [*OURS, "bench", "gpu", "--output", str(record), "--minutes", f"{minutes:.2f}"]
        words += ["--device", "cpu" if self.cpu else "cuda", *(["--data", str(data)] if data.is_dir() else [])]
        self.failed |= self.timed(words, 60 * minutes + 90) not in (0, TIMED_OUT)

    def train(self) -> None:
        """All trainings, some at a time, spread over the GPUs; the next call resumes those that have not ended."""
        waiting = [training for training in self.trainings if not training.record.is_file()]
        runner.prepare([training.recipe for training in waiting], Place(cpu=self.cpu))
        count = max(gpu_count(), 1)
        devices = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))).split(",")

        def start(training: Training, slot: int) -> subprocess.Popen:
            return self.start(training, devices[slot % len(devices)])

        processes.side_by_side(waiting, self.at_once, start, self.ended, self.left)

    def start(self, training: Training, device: str) -> subprocess.Popen:
        """Start a training on a device; its output goes to ``suite.log`` in its folder."""
        processes.say(f"== {training.name}")
        more = {"CUDA_VISIBLE_DEVICES": device}
        if self.cpu and not os.environ.get(processors.VARIABLE):
            more[processors.VARIABLE] = str(max(1, processors.usable() // self.at_once))
        words = [*OURS, *training.words(self.cpu, self.flags)]
        return processes.start(words, processes.environment(more), training.folder / "suite.log")

    def ended(self, training: Training, status: int, seconds: float) -> None:
        """Note and say that a training failed, if it did."""
        if status:
            self.failed = True
            log = (training.folder / "suite.log").read_text(errors="replace")
            processes.say(f"failed: {training.name}, after {seconds:.0f} s")
            processes.say("\n".join(log.splitlines()[-20:]))

    def run(self) -> int:
        """Run all parts, and print what is done and what is left; the exit status is 1 if something failed."""
        self.out.mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(ROOT), processes.terminable():
            self.check()
            self.contest()
            self.train()
        left = [training for training in self.trainings if not training.record.is_file()]
        for training in self.trainings:
            log = f" (log: {training.folder / 'suite.log'})" if training in left else ""
            print(f"{'left' if training in left else 'done'}: {training.name}{log}")
        if not left:
            print("all done")
        elif not self.failed:
            print(f"{len(left)} left; call again")
        return int(self.failed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer gpu-suite``."""
    add = parser.add_argument
    help_ = "stop after N minutes; call again to continue (default: %(default)s)"
    add("--minutes", type=at_least(1), default=9, metavar="N", help=help_)
    add("--jobs", type=at_least(1), default=4, metavar="N", help="trainings at the same time (default: %(default)s)")
    add("--runs", type=Path, metavar="DIR", help="folder for checkpoints (default: runs/gpu)")
    help_ = "folder for the small files of results (default: results/gpu, apart from records of runs on CPUs)"
    add("--out", type=Path, metavar="DIR", help=help_)
    help_ = "recipes to train (default: all of multi30k-full that start from no checkpoint, and ptb)"
    add("--systems", nargs="+", metavar="RECIPE", help=help_)
    help_ = "precisions to train in (default: bf16)"
    add("--precisions", nargs="+", choices=recipes.PRECISIONS, default=["bf16"], help=help_)
    add("--seeds", nargs="+", type=at_least(1), default=[1], metavar="N", help="seeds to train with (default: 1)")
    add("--cpu", action="store_true", help="rehearse the suite without a GPU")
    add("--dry-run", action="store_true", help="print the commands of the trainings")
    parser.epilog = (
        "Words after -- are passed on to fairseq-train, such as `-- --max-update 20`; they and --cpu need --runs and "
        "--out, because such a run is a rehearsal. --out gets gpu-checks.txt, contest.json and a record of every "
        "finished training; what is there is not done again."
    )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer gpu-suite``; the exit status."""
    if (args.flags or (args.cpu and not args.dry_run)) and not (args.runs and args.out):
        raise RunError("--cpu and flags after -- need --runs and --out: a rehearsal is not a result")
    if not args.cpu and not args.dry_run and gpu_count() == 0:
        raise RunError("no GPU is there; rehearse with --cpu")
    runs, out = args.runs or ROOT / "runs" / "gpu", args.out or ROOT / "results" / "gpu"
    wanted = trainings(args.systems or usual(), args.precisions, args.seeds, runs, out)
    if args.dry_run:
        for training in wanted:
            if not training.record.is_file():
                print(shlex.join(["python", *OURS[1:], *training.words(args.cpu, args.flags)]))
        return 0
    return Suite(wanted, out.absolute(), args.minutes, args.jobs, args.cpu, args.flags).run()
