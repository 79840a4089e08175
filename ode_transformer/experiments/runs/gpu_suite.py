"""All that needs a GPU, the most informative first: checks, the contest with stock fairseq, then several trainings.

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
from itertools import product
from pathlib import Path
from typing import Optional

from ... import files
from ...paths import ROOT
from .. import recipes
from ..arguments import call, take_arguments
from ..records import RunError
from . import processes, runner, training
from .runner import Run
from .training import Place

TIMED_OUT = 124  # what timeout(1) and this module call a command whose time was over
NO_TESTS = 5  # pytest's exit status

CHECKS, CONTEST = 0.2, 0.4
"""The shares of checks and contest in the time; trainings have the rest."""


def usual() -> list[str]:
    """Return the recipes that are trained by default."""
    data = Path(os.environ.get("ODE_TRANSFORMER_DATA") or os.devnull)
    treebank = any(path.exists() for path in (ROOT / "data-bin" / "ptb", data / "ptb", data / "ptb.tar.xz"))
    groups = ("ptb", "multi30k-full") if treebank else ("multi30k-full",)
    return [n for g in groups for n in recipes.names() if n.startswith(f"{g}/") and not recipes.load(n).train.start]


@dataclass
class Suite:
    """The suite, whose time begins now.

    Args:
        minutes: stop after N minutes; the same command continues.
        jobs: number of trainings at a time.
        runs: folder for checkpoints (default: runs/gpu).
        out: folder for the small files of results (default: results/gpu, apart from records of runs on CPUs).
        systems: recipes to train (default: all of multi30k-full that start from no checkpoint, and ptb).
        precisions: precisions to train in (default: bf16).
        seeds: seeds to train with (default: 1).
        cpu: rehearse the suite without a GPU.
        dry_run: print the commands of the trainings.
        flags: of fairseq-train, for all trainings.
    """

    minutes: int = 9
    jobs: int = 4
    runs: Optional[Path] = None
    out: Optional[Path] = None
    systems: Sequence[str] = ()
    precisions: Sequence[str] = ("bf16",)
    seeds: Sequence[int] = (1,)
    cpu: bool = False
    dry_run: bool = False
    flags: Sequence[str] = ()

    def __post_init__(self):
        """Begin; all recipes are read now, so that an unknown one is named before anything else is done."""
        self.ends, self.failed = time.monotonic() + 60 * self.minutes, False
        self.results = (self.out or ROOT / "results" / "gpu").absolute()
        self.trainings = self._trainings()

    def _trainings(self) -> list[Run]:
        """Return the runs of all systems, with a folder and a record each.

        A record is NAME.json, with seed and precision before the suffix where they are not usual. fairseq takes
        ``--bf16`` with its own models for a TPU, so that these are left out.
        """
        folder, found = (self.runs or ROOT / "runs" / "gpu").absolute(), []
        for precision, name in product(self.precisions, self.systems or usual()):
            recipe = recipes.load(name)
            if precision == "bf16" and training.is_of_fairseq(recipe.train.arch):
                continue
            for one in [recipes.load(name, seed=seed) for seed in self.seeds] if recipe.seeds else [recipe]:
                title = one.name if one.seed is None else f"{one.name}.seed-{one.seed}"
                run_dir = folder / f"{title.replace('/', '.')}.{precision}"
                record = self.results / f"{title}{'' if precision == 'fp32' else f'.{precision}'}.json"
                place = Place(precision=precision, cpu=self.cpu, flags=tuple(self.flags))
                found.append(Run(one, place, str(run_dir), str(record)))
        return found

    def waiting(self) -> list[Run]:
        """Return the trainings that have no record."""
        return [one for one in self.trainings if not Path(one.record).is_file()]

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.ends - time.monotonic()

    def timed(self, words: Sequence[str], seconds: float, output: Optional[Path] = None) -> int:
        """Run a command for so many seconds at most, or until the time is over; its exit status."""
        process = None
        with open(output, "wb") if output else contextlib.nullcontext() as file:
            options = {"cwd": ROOT, "env": processes.environment({}), "stdout": file, "start_new_session": True}
            try:
                with processes.signals_wait():  # until it is known which process to end
                    process = subprocess.Popen(words, stderr=file and subprocess.STDOUT, **options)
                return process.wait(timeout=max(min(self.left(), seconds), 1))
            except subprocess.TimeoutExpired:
                return TIMED_OUT
            finally:  # with the processes that it started
                if process:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)

    def check(self) -> None:
        """Run the tests that need a GPU and have not passed yet; those that pass are listed, by name."""
        processes.say("== checks")
        listed, log = self.results / "gpu-checks.txt", self.results / "gpu-checks.log"
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
        """Train in every mode beside stock fairseq, unless there is a record."""
        record, data = self.results / "contest.json", ROOT / "data-bin" / "multi30k-own.en-de"
        if record.is_file():
            return
        processes.say("== contest")
        minutes = CONTEST * self.minutes
        words = [sys.executable, "-m", "ode_transformer", "bench", "gpu", "--output", str(record)]
        words += ["--minutes", f"{minutes:.2f}", "--device", "cpu" if self.cpu else "cuda"]
        words += ["--data", str(data)] if data.is_dir() else []
        self.failed |= self.timed(words, 60 * minutes + 90) not in (0, TIMED_OUT)

    def train(self) -> None:
        """Train all, some at a time, spread over the GPUs; the next call resumes those that have not ended."""
        failed = runner.several(self.waiting(), self.jobs, self.left)
        for folder, error in failed.items():
            processes.say(f"failed: {folder}: {error}")
        self.failed |= bool(failed)

    def run(self) -> int:
        """Run all parts, and print what is done and what is left; the exit status is 1 if something failed.

        Raises:
            RunError: there is no GPU, or a rehearsal would be written among results.
        """
        if (self.flags or (self.cpu and not self.dry_run)) and not (self.runs and self.out):
            raise RunError("--cpu and flags after -- need --runs and --out: a rehearsal is not a result")
        if self.dry_run:
            for one in self.waiting():
                print(shlex.join(one.words()))
            return 0
        if not self.cpu and training.gpu_count() == 0:
            raise RunError("no GPU is there; rehearse with --cpu")
        self.results.mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(ROOT), processes.terminable(resumable=True):
            self.check()
            self.contest()
            self.train()
        left = self.waiting()
        for one in self.trainings:
            name = f"{one.title}, {one.place.precision}"
            print(f"left: {name} (log: {one.folder / 'run.log'})" if one in left else f"done: {name}")
        if not left:
            print("all done")
        elif not self.failed:
            print(f"{len(left)} left; call again")
        return int(self.failed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer gpu-suite``."""
    several = {"nargs": "+"}
    more = {"systems": several | {"metavar": "RECIPE"}, "precisions": several | {"choices": recipes.PRECISIONS}}
    take_arguments(parser, Suite, seeds=several, flags=None, **more)
    parser.epilog = (
        "Words after -- are passed on to fairseq-train, such as `-- --max-update 20`; they and --cpu need --runs and "
        "--out, because such a run is a rehearsal. --out gets gpu-checks.txt, contest.json and a record of every "
        "finished training; what is there is not done again."
    )
    call(parser, Suite, lambda args, suite: suite.run())
