"""Systems measured in turns: each in a process of its own, one after the other in every round.

While one is measured the others wait, so that a slow minute slows all of them. What is reported of a system is the
baseline's time over its own in the same round, the median over rounds and the quartiles, and its peak of memory.
"""

import contextlib
import ctypes
import logging
import math
import multiprocessing
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ...errors import OdeTransformerError
from ...processors import KEEP_FREED_MEMORY

Build = Callable[[], tuple[Callable[[], Any], dict[str, Any]]]
"""Builds a system within its process, and returns what is to be timed, and what is to be noted about the system. It is
sent to the process: a module's function, or a ``partial`` of one."""

_ENVIRONMENT = {**KEEP_FREED_MEMORY, "KINETO_LOG_LEVEL": "99", "TORCHINDUCTOR_COMPILE_THREADS": "2"}


class Process:
    """A process of its own that calls functions, one after the other.

    Each function's first argument is the process's namespace, in which it keeps what the next ones need. A process
    starts as a fork of a server that has imported fairseq already, or anew, as it must to use a GPU. ``lost`` says that
    it has died or was too late, so that it is of no more use.
    """

    def __init__(self, name: str, anew: bool = False):
        self.name, self.lost = name, False
        os.environ.update({key: value for key, value in _ENVIRONMENT.items() if key not in os.environ})
        context = multiprocessing.get_context("spawn" if anew else "forkserver")
        if not anew:  # imported without any threads yet; the first keeps the import of fairseq quiet
            context.set_forkserver_preload([f"{__package__}.hushed", f"{__package__}.systems"])
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, torch.get_num_threads()), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, function: Callable, *args: Any) -> None:
        """Have a function called, without waiting for what it returns."""
        with contextlib.suppress(OSError):  # it has died, as the answer will say
            self._connection.send((function, args))

    def answer(self, seconds_left: Callable[[], float] = lambda: math.inf) -> Any:
        """Return the result of the function that was begun.

        Args:
            seconds_left: how much time is left, asked again and again.

        Raises:
            OdeTransformerError: it failed, the process has died, or no time is left.
        """
        try:
            while not self._connection.poll(0.5):
                if seconds_left() <= 0:
                    self.lost = True
                    raise OdeTransformerError(f"{self.name}: was not ready in time")
            found, error = self._connection.recv()
        except (EOFError, OSError) as died:
            self.lost = True
            raise OdeTransformerError(
                f"{self.name}: its process has died; is there enough memory for all at once?"
            ) from died
        if error:
            raise OdeTransformerError(f"{self.name}: {error}")
        return found

    def __call__(self, function: Callable, *args: Any) -> Any:
        """Call a function, and wait for what it returns."""
        self.begin(function, *args)
        return self.answer()

    def end(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.kill()
        self._process.join()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()


def _serve(connection: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    kept = SimpleNamespace()
    while True:
        try:
            function, args = connection.recv()
        except EOFError:
            return
        try:
            answer = function(kept, *args), ""
        except Exception as error:  # those of torch and fairseq say what to change
            name = "" if isinstance(error, (ValueError, RuntimeError)) else f"{type(error).__name__}: "
            answer = None, f"{name}{error}"[-2000:]
        connection.send(answer)


def seconds(run: Callable[[], Any], device: str) -> float:
    """The time of a call, in seconds."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def _begin(kept: SimpleNamespace, build: Build) -> dict[str, Any]:
    kept.run, about = build()
    return about


def _turn(kept: SimpleNamespace, device: str) -> float:
    return seconds(kept.run, device)


def in_turns(
    builds: Mapping[str, Build], rounds: int, device: str = "cpu", warm_up: int = 3
) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    """Return what systems note about themselves, and the seconds of each in every round.

    Args:
        builds: what builds each system, by name.
        rounds: that are timed.
        device: ``cpu`` or ``cuda``.
        warm_up: rounds before those, because memory grows over several steps.
    """
    times: dict[str, list[float]] = {name: [] for name in builds}
    with contextlib.ExitStack() as stack:
        processes = {name: stack.enter_context(Process(name, device == "cuda")) for name in builds}
        about = {name: processes[name](_begin, build) for name, build in builds.items()}
        for round_ in range(-warm_up, rounds):
            for name in list(builds)[:: -1 if round_ % 2 else 1]:
                elapsed = processes[name](_turn, device)
                if round_ >= 0:
                    times[name].append(elapsed)
    return about, times


def _resident(field: str) -> int:
    """The memory of this process in bytes, now (VmRSS) or at its peak (VmHWM)."""
    (kib,) = re.findall(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) * 1024


_SMALL = 2**16  # with it glibc returns freed memory at once


def _peak(_: SimpleNamespace, build: Build, device: str) -> tuple[int, int]:
    if device == "cuda":
        run, _ = build()
        run()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        peak = torch.cuda.max_memory_allocated()
        return peak, peak - held
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # names of malloc.h
    for option in (trim_threshold, top_pad, mmap_threshold):  # so that the size of the process is what it uses
        ctypes.CDLL(None).mallopt(option, _SMALL)
    before = _resident("VmRSS")
    run, _ = build()
    run()
    held = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    run()
    # The kernel counts pages in batches, and may show less than it did before.
    peak = max(_resident("VmHWM"), held)
    return peak - before, peak - held


def peak(name: str, build: Build, device: str = "cpu") -> tuple[float, float]:
    """The peak memory of a system's second run in MiB: in total, and that of the run alone.

    On a CPU this is the growth of a process that does nothing else; on a GPU, what PyTorch allocates.
    """
    with Process(name, device == "cuda") as process:
        total, of_the_run = (max(round(bytes_ / 2**20, 1), 0.1) for bytes_ in process(_peak, build, device))
    return total, of_the_run


def speed(baseline: Sequence[float], own: Sequence[float]) -> dict[str, Any]:
    """A system's speed against the baseline's, from the seconds of both in the same rounds.

    Returns:
        The baseline's seconds divided by its own: ``median``, lower and upper ``quartiles``, and ``all``, sorted.
    """
    ratios = np.sort([theirs / its for theirs, its in zip(baseline, own, strict=True)])
    low, median, high = np.quantile(ratios, (0.25, 0.5, 0.75)).round(4).tolist()
    return {"median": median, "quartiles": [low, high], "all": ratios.round(4).tolist()}


def median_and_quartiles(speed: Mapping[str, Any]) -> str:
    """A speed as the tables print it, such as ``1.02 [0.98, 1.10]``."""
    low, high = speed["quartiles"]
    return f"{speed['median']:.2f} [{low:.2f}, {high:.2f}]"


def on(device: str, hardware: Mapping[str, Any]) -> str:
    """The hardware of a record: its GPU, or its threads with processor, library of matrix products and instructions."""
    if device == "cuda":
        return hardware["gpus"][0]
    more = [hardware[key] for key in ("processor", "blas", "capability") if hardware.get(key)]
    threads = hardware["threads"]
    return f"{threads} CPU thread{'s' * (threads > 1)} ({', '.join(more)})"
