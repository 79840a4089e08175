"""Which processors are free: training on a CPU beside other work.

PyTorch's threads meet after every operation. If one of them shares its processor with another process, all of them wait
for it: on two processors of which one is busy, two threads train at a third of the speed of one. A training therefore
begins with as many threads as there are free processors, unless the user sets ``OMP_NUM_THREADS``.
"""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "OMP_NUM_THREADS"
_SECONDS = 0.3  # for which the processors are watched; Linux counts in hundredths
_NOISE = 0.15  # of one processor, which a machine without other work is busy for


def allowed() -> int:
    """The number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free(seconds: float = _SECONDS) -> int:
    """The number of allowed processors that are free, at least 1, and no more than a container's quota.

    Args:
        seconds: how long the processors are watched.
    """
    before = _times()
    if before:
        time.sleep(seconds)
        after = _times()
        idle = sum((after[name][0] - was[0]) / max(after[name][1] - was[1], 1) for name, was in before.items())
    else:  # not Linux: the mean of the last minute
        idle = allowed() - os.getloadavg()[0]
    quota, _, period = _text("/sys/fs/cgroup/cpu.max").partition(" ")
    most = int(quota) // int(period) if quota.isdecimal() else allowed()
    return max(1, min(most, math.floor(idle + _NOISE)))


def _times() -> dict[str, tuple[int, int]]:
    """How long each processor of the affinity was idle, and how long it has run, since the machine was started."""
    found = {}
    for line in _text("/proc/stat").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in os.sched_getaffinity(0):
            idle, waiting = map(int, ticks[3:5])
            found[name] = idle + waiting, sum(map(int, ticks[:8]))  # what follows is counted twice
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def threads(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The variables with which a training on a CPU begins, and what the user is told about its threads.

    A user's ``OMP_NUM_THREADS`` stays. Where all processors are free nothing is set either: PyTorch takes one thread
    per core, however many processors a core has.

    Args:
        environment: of this process.
    """
    if environment.get(VARIABLE):
        return {}, f"training with as many threads as {VARIABLE} says, {environment[VARIABLE]}"
    count, found = allowed(), free()
    if found >= count:
        return {}, f"all {count} processors are free: PyTorch chooses the number of threads; {VARIABLE} sets another"
    plural = "s" * (found > 1)
    return {VARIABLE: str(found)}, (
        f"{found} of {count} processors {'are' if plural else 'is'} free: training with {found} thread{plural}; "
        f"set {VARIABLE} for another number"
    )
