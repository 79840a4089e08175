"""``ode-transformer gpu-suite``: the checks, the contest with stock fairseq and the trainings that need a GPU.

Trainings begin at once and go on until the time is over; they pause only while the contest times a step. What is done
is not done again. By default the suite trains the tiny systems at full budget on Multi30k and Table 5 of the ODE
Transformer on the Penn Treebank.
"""

import contextlib
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Optional

from ... import files, processors
from ...errors import OdeTransformerError, counted
from ...paths import ROOT
from .. import recipes
from ..records import RunError, logs
from ..runs import processes, runner, training
from ..runs.runner import Run
from ..runs.training import TrainingPlace

TIMED_OUT = 124  # the exit status of a command whose time was over, as of timeout(1)
NO_TESTS = 5  # pytest's exit status if it collected no test

CHECKS, CONTEST = 0.25, 0.5
"""The shares of the time after which no check begins, and which the contest may use before its last round."""

TO_END = 60  # seconds that checks which have begun may take longer
TO_TELL = 15  # seconds after that in which pytest may tell what has failed

MOST_JOBS = 8  # each keeps a core busy, and more of them fill the GPU


def usual() -> list[str]:
    """Return the recipes that are trained by default: long and short ones in turns, those without a record first."""
    data = Path(os.environ.get("ODE_TRANSFORMER_DATA") or os.devnull)
    treebank = any(path.exists() for path in (ROOT / "data-bin" / "ptb", data / "ptb", data / "ptb.tar.xz"))

    def of(group: str) -> list[str]:
        names = [n for n in recipes.names() if n.startswith(f"{group}/") and not recipes.load(n).train.start]
        return sorted(names, key=lambda name: any((ROOT / "results").glob(f"{name}.*")))

    groups = [of("multi30k-full"), of("ptb") if treebank else []]
    return [name for names in zip_longest(*groups) for name in names if name]


def tests(log: str, status: str) -> list[str]:
    """Return the names of the tests with a status in a verbose log of pytest, with or without workers."""
    found = re.findall(rf"^(tests/\S.*?) {status}|^\[gw\d+\].*? {status} (tests/\S.*?) *$", log, re.MULTILINE)
    return ["".join(names) for names in found]


@dataclass
class Suite:
    """The suite, whose time begins now.

    Args:
        minutes: stop after N minutes; the same command continues.
        jobs: number of trainings at a time (default: one per two cores, at most 8).
        runs: folder for checkpoints (default: runs/gpu).
        out: folder for the small files of results (default: results/gpu, apart from records of runs on CPUs).
        systems: recipes to train, but for fairseq's own models (default: all of multi30k-full that start from no
            checkpoint, and of ptb if the Penn Treebank is there).
        cpu: rehearse the suite without a GPU.
        dry_run: print the commands of the trainings.
    """

    minutes: int = 9
    jobs: Optional[int] = None
    runs: Optional[Path] = None
    out: Optional[Path] = None
    systems: Sequence[str] = ()
    cpu: bool = False
    dry_run: bool = False

    def __post_init__(self):
        """Start the clock and load all recipes, so that an unknown one is refused before anything else is done."""
        self.ends, self.failed = time.monotonic() + 60 * self.minutes, False
        self.jobs = self.jobs or min(MOST_JOBS, max(1, processors.usable() // 2))
        self.results = (self.out or ROOT / "results" / "gpu").absolute()
        self.trainings = self._trainings()
        self.begun: list[subprocess.Popen] = []  # of the trainings
        self.turn, self.waits = threading.Lock(), False  # to begin or stop them, and whether they are stopped

    def _trainings(self) -> list[Run]:
        """Return the runs of all systems but fairseq's own models, which cannot be trained in bf16, each with a folder
        and a record."""
        folder, found = (self.runs or ROOT / "runs" / "gpu").absolute(), []
        # No worker processes: fairseq leaves one per epoch, and they would fill the memory.
        place = TrainingPlace(precision="bf16", cpu=self.cpu, flags=("--num-workers", "0", "--cuda-graphs"))
        for recipe in map(recipes.load, self.systems or usual()):
            if not training.is_of_fairseq(recipe.train.arch):
                stem = f"{recipe.name.replace('/', '.')}.bf16"
                found.append(Run(recipe, place, str(folder / stem), str(self.results / f"{recipe.name}.bf16.json")))
        return found

    def waiting(self) -> list[Run]:
        """Return the trainings without a record."""
        return [one for one in self.trainings if not Path(one.record).is_file()]

    def left(self) -> float:
        """Return the remaining seconds."""
        return self.ends - time.monotonic()

    def timed(self, words: Sequence[str], seconds: float, output: Path) -> int:
        """Run a command for at most ``seconds``, or until the time is over, and return its exit status.

        A command whose time is over is interrupted, whereupon pytest says why tests failed; later it is killed.
        """
        ends = time.monotonic() + seconds
        output.unlink(missing_ok=True)
        process = processes.start(words, processes.environment({}), output, process_group=0)
        while process.poll() is None and self.left() > 0 and time.monotonic() < ends:
            time.sleep(0.2)
        if (status := process.poll()) is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TO_TELL)
        with contextlib.suppress(ProcessLookupError):  # including the processes that it started
            os.killpg(process.pid, signal.SIGKILL)
        return TIMED_OUT if status is None else status

    def check(self) -> None:
        """Run the tests that need a GPU and have not passed yet, and list the names of those that pass."""
        processes.say("== checks")
        listed, log = self.results / "gpu-checks.txt", self.results / "gpu-checks.log"
        passed = set(listed.read_text().split("\n")) - {""} if listed.is_file() else set()
        seconds = 60 * CHECKS * self.minutes
        words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb", "short", "-m", "not full"]
        words += ["--minutes", f"{seconds / 60:.2f}"]
        if importlib.util.find_spec("xdist"):
            words += ["-n", "2", "--dist", "worksteal"]  # each imports fairseq for 10 to 20 s beside the trainings
        words += ["tests/gpu/test_graphs.py", "tests/gpu/test_gpu.py"]  # last, because it starts many processes
        words += [word for name in sorted(passed) for word in ("--deselect", name)]
        status = self.timed(words, seconds + TO_END, log)
        said = log.read_text(errors="replace")
        found, failed = tests(said, "PASSED"), tests(said, "(?:FAILED|ERROR)")
        files.write_text(listed, "\n".join(sorted(passed | set(found))) + "\n")
        wrong = status not in (0, NO_TESTS, TIMED_OUT)
        more = f"; pytest ended with status {status}, its output is in {log}" if wrong else ""
        processes.say("\n".join([f"{len(found)} passed, {len(failed)} failed{more}", *failed]))
        self.failed |= bool(failed) or wrong

    def contest(self) -> None:
        """Measure every mode beside stock fairseq, as far as the record does not have it."""
        from . import gpu, turns

        turns.keep_quota()
        record, data = self.results / "contest.json", ROOT / "data-bin" / "multi30k-own.en-de"
        processes.say("== contest")
        ends, device = time.monotonic() + 60 * CONTEST * self.minutes, "cpu" if self.cpu else "cuda"
        found = str(data) if data.is_dir() else ""
        if not found and not self.cpu:
            processes.say(f"{data}: is not there yet; call again to measure its batches, too")
        gpu.measure(record, lambda: min(self.left(), ends - time.monotonic()), found, device, self.alone)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which the trainings are stopped, also those that begin meanwhile."""
        try:
            self._wait(True)
            time.sleep(1)  # until the GPU has done the work they have queued
            yield
        finally:
            self._wait(False)

    def _wait(self, waits: bool) -> None:
        with self.turn:
            self.waits = waits
            for process in self.begun:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    if process.poll() is None or not waits:  # its children may still be stopped
                        os.killpg(process.pid, signal.SIGSTOP if waits else signal.SIGCONT)

    def _begin(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen:
        with self.turn:
            process = processes.start(words, environment, log, process_group=0)
            self.begun.append(process)
            if self.waits:
                os.killpg(process.pid, signal.SIGSTOP)
        return process

    def train(self) -> None:
        """Train, ``jobs`` at a time, spread over the GPUs; the next call resumes trainings that have not ended."""
        failed = runner.run_all(self.waiting(), self.jobs, self.left, self._begin)
        for folder, error in failed.items():
            processes.say(f"failed: {runner.message(str(folder), error)}")
        self.failed |= bool(failed)

    def measure(self) -> None:
        """Run the checks, then the contest; print an error at once, and go on."""
        for part in (self.check, self.contest):
            try:
                if self.left() > 0:
                    part()
            except Exception as error:
                self.failed = True
                processes.say(f"error: {error}" if isinstance(error, OdeTransformerError) else traceback.format_exc())

    def note_unfinished(self, left: Sequence[Run]) -> None:
        """Write the losses so far of trainings that are not done, of those with a finished epoch."""
        found = {}
        for one in left:
            with contextlib.suppress(OdeTransformerError, OSError):
                log = logs.read_log(one.folder / "train.log")
                found[f"{one.title}, bf16"] = {"curve": log["curve"], "seconds": log["seconds"]}
        files.write_json(self.results / "unfinished.json", found)

    def run(self) -> int:
        """Run all parts, print the trainings that are done or left, and return the exit status, 1 if a part failed."""
        if self.cpu and not self.dry_run and not (self.runs and self.out):
            raise RunError("--cpu needs --runs and --out: a rehearsal is not a result")
        if self.dry_run:
            for one in self.waiting():
                print(shlex.join(one.words()))
            return 0
        if not self.cpu and training.gpu_count() == 0:
            raise RunError("no GPU is there; rehearse with --cpu")
        self.results.mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(ROOT), processes.terminable(resumable=True), ThreadPoolExecutor(1) as other:
            measured = other.submit(self.measure)
            try:
                self.train()
                measured.result()
            except BaseException:
                self.ends = 0  # which ends the thread, too
                raise
        left = self.waiting()
        self.note_unfinished(left)
        for one in self.trainings:
            print(f"left: {one.title} (log: {one.folder / 'run.log'})" if one in left else f"done: {one.title}")
        print(f"{counted(len(left), 'training')} left; call again" if left else "all trainings done")
        return int(self.failed)
