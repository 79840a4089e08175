"""Measurements of systems in turns: each in a process of its own, one after the other in every round.

While one system is measured the others wait, so that a slow minute slows all of them. The speed of a system is the
baseline's time divided by its own in the same round, with the median and quartiles over rounds.
"""

import contextlib
import ctypes
import gc
import logging
import math
import multiprocessing
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ... import plugins, processors
from ...errors import OdeTransformerError
from ...paths import ROOT


def keep_quota() -> None:
    """Take no more threads than a container's quota, as a training does."""
    quota = processors.threads().get(processors.VARIABLE)
    if quota and processors.VARIABLE not in os.environ:
        torch.set_num_threads(int(quota))


Build = Callable[[], tuple[Callable[[], Any], dict[str, Any]]]
"""A function that builds a system in its process, and returns the function to time and facts about the system. It must
be picklable: a module's function, or a ``partial`` of one."""

_ENVIRONMENT = {**processors.KEEP_FREED_MEMORY, "KINETO_LOG_LEVEL": "99", "TORCHINDUCTOR_COMPILE_THREADS": "2"}


class Process:
    """A process that calls functions, one after the other.

    The first argument of each function is the process's namespace, in which it keeps objects for later calls; a call
    that fails empties it. The process is forked from a server that has imported fairseq, which saves seconds, or
    spawned (``anew``), as a GPU requires, and a plugin, which is loaded before the models.
    """

    def __init__(self, name: str, anew: bool = False):
        self.name = name
        os.environ.update({**_ENVIRONMENT, **os.environ})
        context = multiprocessing.get_context("spawn" if anew or plugins.current() else "forkserver")
        # Imported before there are threads; the first keeps the import of fairseq quiet.
        context.set_forkserver_preload([f"{__package__}.hushed", f"{__package__}.systems"])
        self._connection, theirs = context.Pipe()
        args = theirs, torch.get_num_threads(), plugins.current()
        self._process = context.Process(target=_serve, args=args, daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, function: Callable, *args: Any) -> None:
        """Call a function in the process, without waiting for the result."""
        with contextlib.suppress(OSError):  # the process has died: answer() will raise
            self._connection.send((function, args))

    def answer(self, seconds_left: Callable[[], float] = lambda: math.inf) -> Any:
        """Wait for the result of the last call, and return it; ``seconds_left`` is called repeatedly.

        Raises:
            OdeTransformerError: the call failed, the process has died, or no time is left.
        """
        try:
            while not self._connection.poll(0.5):
                if seconds_left() <= 0:
                    self.close()
                    raise OdeTransformerError(f"{self.name}: was not ready in time")
            found, error = self._connection.recv()
        except (EOFError, OSError) as died:
            self.close()
            raise OdeTransformerError(f"{self.name}: its process has died; is there enough memory?") from died
        if error:
            raise OdeTransformerError(f"{self.name}: {error}")
        return found

    def __call__(self, function: Callable, *args: Any) -> Any:
        """Call a function in the process, and return its result."""
        self.begin(function, *args)
        return self.answer()

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(1)  # one that waits for a call ends by itself, and leaves nothing behind
        self._process.kill()
        self._process.join()


def _serve(connection: Any, threads: int, user_dir: str) -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    if user_dir:
        plugins.load(ROOT / user_dir)
    kept = SimpleNamespace()
    with contextlib.suppress(EOFError):  # the other end was closed
        while True:
            function, args = connection.recv()
            found, said = None, ""
            try:
                found = function(kept, *args)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"[-2000:]
            if said:  # here, because the error kept what its frames refer to
                with contextlib.suppress(RuntimeError):  # a GPU that has failed fails again
                    forget(kept)
            connection.send((found, said))


def forget(kept: SimpleNamespace) -> None:
    """Free the memory of what a process keeps, for its next system, and for those of other processes."""
    vars(kept).clear()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def back_and_forth(names: Iterable[str], rounds: int) -> Iterator[str]:
    """Yield the names in each round, every other time in reverse, so that a drift of the machine's speed concerns all
    alike."""
    for round_ in range(rounds):
        yield from [*names][:: (-1) ** round_]


def seconds(run: Callable[[], Any], device: str) -> float:
    """Return the time of a call, in seconds."""
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
    """Return the facts about each system, and its seconds in every round, by name.

    Before the timed rounds there are some of warm-up, because memory grows over several steps.
    """
    times: dict[str, list[float]] = {name: [] for name in builds}
    with contextlib.ExitStack() as stack:
        processes = {name: stack.enter_context(contextlib.closing(Process(name, device == "cuda"))) for name in builds}
        for name, build in builds.items():
            processes[name].begin(_begin, build)
        about = {name: process.answer() for name, process in processes.items()}
        for name in back_and_forth(builds, warm_up):
            processes[name](_turn, device)
        for name in back_and_forth(builds, rounds):
            times[name].append(processes[name](_turn, device))
    return about, times


def _resident(field: str) -> int:
    """Return the resident memory of this process in bytes: ``VmRSS``, the present one, or ``VmHWM``, its peak."""
    (kib,) = re.findall(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) * 1024


_SMALL = 2**16  # a threshold with which glibc returns freed memory at once


def _peak(_: SimpleNamespace, build: Build, device: str) -> tuple[int, int]:
    if device == "cuda":
        run, _ = build()
        run()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        peak = torch.cuda.max_memory_allocated()
        return peak, peak - held
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # from malloc.h
    for option in (trim_threshold, top_pad, mmap_threshold):  # so that resident memory is memory in use
        ctypes.CDLL(None).mallopt(option, _SMALL)
    before = _resident("VmRSS")
    run, _ = build()
    run()
    held = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    run()
    # The kernel counts pages in batches: the peak may read lower than an earlier value.
    peak = max(_resident("VmHWM"), held)
    return peak - before, peak - held


def peak(name: str, build: Build, device: str = "cpu") -> tuple[float, float]:
    """Return the peak memory of a system's second run in MiB: in total, and of the run alone.

    On a CPU it is the growth of a process that does nothing else; on a GPU, the memory that PyTorch allocates.
    """
    with contextlib.closing(Process(name, device == "cuda")) as process:
        total, of_the_run = (max(round(bytes_ / 2**20, 1), 0.1) for bytes_ in process(_peak, build, device))
    return total, of_the_run


def speed(baseline: Sequence[float], own: Sequence[float]) -> dict[str, Any]:
    """Return the baseline's seconds divided by the system's in the same rounds: median, quartiles, and all, sorted."""
    ratios = np.sort([theirs / its for theirs, its in zip(baseline, own, strict=True)])
    low, median, high = np.quantile(ratios, (0.25, 0.5, 0.75)).round(4).tolist()
    return {"median": median, "quartiles": [low, high], "all": ratios.round(4).tolist()}


def median_and_quartiles(speed: Mapping[str, Any]) -> str:
    """Format a speed for tables, such as ``1.02 [0.98, 1.10]``."""
    low, high = speed["quartiles"]
    return f"{speed['median']:.2f} [{low:.2f}, {high:.2f}]"


def describe_hardware(device: str, hardware: Mapping[str, Any]) -> str:
    """Describe the hardware of a record: the GPU, or the threads with processor, BLAS library and CPU instructions."""
    if device == "cuda":
        return hardware["gpus"][0]
    more = [hardware[key] for key in ("processor", "blas", "capability") if hardware.get(key)]
    threads = hardware["threads"]
    return f"{threads} CPU thread{'s' * (threads > 1)} ({', '.join(more)})"
