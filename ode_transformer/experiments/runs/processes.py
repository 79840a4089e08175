"""Child processes, and their signals and locks: one program with its log, or several side by side.

An interrupt, and within ``terminable`` a scheduler's SIGTERM, ends the programs that were started; where this process
is killed, they go on.
"""

import contextlib
import errno
import fcntl
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, TypeVar

from ... import paths, processors
from .. import recipes
from .terminal import LogView

LEAST = 20  # seconds before the end in which nothing is started any more

Job = TypeVar("Job")


def say(text: str) -> None:
    """Print a line for the user on standard error, apart from the output of commands."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[int]:
    """Make a folder, wait until no other process works in it, then keep it locked; yield the lock's file descriptor.

    Child processes inherit the descriptor, so that the training of a runner that was killed keeps the folder locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process in {folder}")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
            say(f"warning: {folder}: this file system has no locks; start no second command there")
        yield file.fileno()


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process, with this Python's programs first and a clone's package importable.

    It counts as active, or the scripts of a clone would take ``.venv``, and with it another Python, instead.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    clone = "" if paths.INSTALLED else str(paths.ROOT)
    python_path = os.pathsep.join(filter(None, [clone, os.environ.get("PYTHONPATH", "")]))
    # fairseq and hydra warn about each other at every start.
    warnings = os.environ.get("PYTHONWARNINGS", "ignore")
    found = {**processors.threads(), **os.environ, "PATH": path, "PYTHONPATH": python_path}
    found |= {"VIRTUAL_ENV": sys.prefix, "PYTHONWARNINGS": warnings, **more}
    # Kubernetes jobs set them, and fairseq would train as that one process instead of one per GPU.
    return {name: value for name, value in found.items() if name not in ("RANK", "WORLD_SIZE")}


def start(words: Sequence[str], environment: Mapping[str, str], log: Optional[Path], **more: Any) -> subprocess.Popen:
    """Start a program from the top of the repository, and append its output to the log, if there is one."""
    options = {"cwd": recipes.ROOT, "env": environment, "stdin": subprocess.DEVNULL, **more}
    if log is None:
        return subprocess.Popen(words, **options)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        return subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, **options)


def launch(words: Sequence[str], environment: Mapping[str, str], log: Optional[Path], lock: int) -> int:
    """Run a program from the top of the repository, and return its exit status.

    The program writes to its log itself, so that both go on if this process is killed; the log's important lines are
    shown as it grows.
    """
    before = log.stat().st_size if log and log.is_file() else 0
    process = start(words, environment, log, pass_fds=(lock,) if lock >= 0 else ())
    try:
        if log is None:
            return process.wait()
        with open(log, "rb") as shown, LogView(words) as view:
            shown.seek(before)
            ended = False
            while not ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                ended = process.returncode is not None
                view.feed(shown.read())
        return process.returncode
    finally:  # unless it has ended: an interrupt, or the end of the time that a scheduler gave
        if process.returncode is None:
            _tell_to_end(process)
            process.wait()


def ending(status: int) -> str:
    """Return how a program failed, by its exit status, as the end of a sentence."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}" + " (out of memory?)" * (status == -signal.SIGKILL)
    return f"failed with status {status}"


def _tell_to_end(process: subprocess.Popen) -> None:
    """End a program and those that it started, which a shell would leave running."""
    others = _started_by(process.pid)
    process.terminate()
    process.send_signal(signal.SIGCONT)  # a stopped process would not end
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)


def _started_by(pid: int) -> list[int]:
    its = map(int, processors.text(f"/proc/{pid}/task/{pid}/children").split())
    return [one for child in its for one in (child, *_started_by(child))]


def side_by_side(
    jobs: Sequence[Job],
    count: int,
    start: Callable[[Job, int], subprocess.Popen],
    ended: Callable[[Job, int, float], None],
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> None:
    """Run several programs, some at a time, until all have ended or the time is over.

    ``start`` starts the program of a job in the lowest free of ``count`` places, and ``ended`` receives the job, its
    exit status, and its duration in seconds. Programs that still run at the end, or when this process is interrupted,
    are terminated and waited for. In the last ``LEAST`` of the ``seconds_left`` nothing is started.
    """
    waiting = list(jobs)
    running: dict[int, tuple[Job, float, subprocess.Popen]] = {}
    try:
        while running or (waiting and seconds_left() > LEAST):
            while waiting and len(running) < count and seconds_left() > LEAST:
                place = min(set(range(count)) - set(running))
                job = waiting.pop(0)
                running[place] = job, time.monotonic(), start(job, place)
            time.sleep(0.2)
            for place, (job, began, process) in list(running.items()):
                if process.poll() is not None:
                    del running[place]
                    ended(job, process.returncode, time.monotonic() - began)
            if seconds_left() <= 0:
                break
    finally:
        for *_, process in running.values():
            _tell_to_end(process)
        for *_, process in running.values():
            process.wait()


def _terminate(*_: Any) -> None:
    sys.exit(128 + signal.SIGTERM)


@contextlib.contextmanager
def terminable(resumable: bool = False) -> Iterator[None]:
    """Let SIGTERM, which schedulers send, end the programs that were started as well.

    If it is ``resumable``, the user is told that the same command continues, unless within another ``terminable``.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if resumable and before is not _terminate:
            say("stopped: what is finished is kept, and the same command does the rest")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
