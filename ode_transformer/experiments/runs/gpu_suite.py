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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from ... import files
from ...paths import ROOT
from .. import recipes
from ..arguments import at_least
from ..records import RunError
from . import processes, runner
from .runner import Run
from .training import Place, gpu_count, is_of_fairseq

TIMED_OUT = 124  # what timeout(1) and this module call a command whose time was over
NO_TESTS = 5  # pytest's exit status

CHECKS, CONTEST = 0.2, 0.4
"""The shares of checks and contest in the time; trainings have the rest."""

OURS = (sys.executable, "-m", "ode_transformer")


def usual() -> list[str]:
    """The recipes that are trained by default."""
    data = Path(os.environ.get("ODE_TRANSFORMER_DATA") or os.devnull)
    treebank = any(path.exists() for path in (ROOT / "data-bin" / "ptb", data / "ptb", data / "ptb.tar.xz"))
    groups = ("ptb", "multi30k-full") if treebank else ("multi30k-full",)
    return [n for g in groups for n in recipes.names() if n.startswith(f"{g}/") and not recipes.load(n).train.start]


def trainings(
    names: Sequence[str],
    precisions: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    out: Path,
    *,
    cpu: bool = False,
    flags: Sequence[str] = (),
) -> list[Run]:
    """The runs of recipes, with their folders below ``folder`` and their records below ``out``.

    A record is NAME.json, with seed and precision before the suffix where they are not usual. fairseq takes ``--bf16``
    with its own models for a TPU, so that these are left out.
    """
    found = []
    for precision in precisions:
        for name in names:
            recipe = recipes.load(name)
            if precision == "bf16" and is_of_fairseq(recipe.train.arch):
                continue
            for one in [recipes.load(name, seed=seed) for seed in seeds] if recipe.seeds else [recipe]:
                place = Place(precision=precision, cpu=cpu, flags=tuple(flags))
                seed = "" if one.seed is None else f".seed-{one.seed}"
                run_dir = folder.absolute() / f"{one.name.replace('/', '.')}{seed}.{precision}"
                suffix = "" if precision == "fp32" else f".{precision}"
                record = out.absolute() / f"{one.name}{seed}{suffix}.json"
                found.append(Run(one, place, str(run_dir), str(record)))
    return found


@dataclass
class Suite:
    """The suite, with a limit on its time: so many ``minutes`` from now on."""

    trainings: Sequence[Run]
    out: Path
    minutes: float
    at_once: int = 1
    cpu: bool = False
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
        failed = runner.several(self.waiting(), self.at_once, seconds_left=self.left)
        for folder, error in failed.items():
            processes.say(f"failed: {folder}: {error}")
        self.failed |= bool(failed)

    def waiting(self) -> list[Run]:
        """The trainings that have no record."""
        return [one for one in self.trainings if not Path(one.record).is_file()]

    def run(self) -> int:
        """Run all parts, and print what is done and what is left; the exit status is 1 if something failed."""
        self.out.mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(ROOT), processes.terminable():
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
    where = {"folder": runs, "out": out, "cpu": args.cpu, "flags": args.flags}
    suite = Suite(
        trainings(args.systems or usual(), args.precisions, args.seeds, **where),
        out.absolute(),
        args.minutes,
        args.jobs,
        args.cpu,
    )
    if args.dry_run:
        for one in suite.waiting():
            print(shlex.join(one.words()))
        return 0
    return suite.run()
