"""Which processors are free: training on a CPU beside other work.

PyTorch's threads meet after every operation. If one of them shares its processor with another process, all of them wait
for it: on two processors of which one is busy, two threads train at a third of the speed of one. A training therefore
begins with as many threads as there are free processors, unless the user sets ``OMP_NUM_THREADS``. Where the processors
do not say how busy they are, as outside Linux and in some containers, the number is PyTorch's.

Trainings that begin in the same second do not see each other; several at once need ``OMP_NUM_THREADS``.
"""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

VARIABLE = "OMP_NUM_THREADS"
_SECONDS = 0.3  # for which the processors are watched; Linux counts in hundredths
_NOISE = 0.15  # of one processor, which a machine without other work is busy for


def allowed() -> int:
    """The number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free(seconds: float = _SECONDS) -> Optional[int]:
    """The number of allowed processors that are free, at least 1 and at most a container's quota; None if unknown.

    Args:
        seconds: how long the processors are watched.
    """
    before = _times()
    time.sleep(seconds)
    passed = [(idle - before[name][0], ran - before[name][1]) for name, (idle, ran) in _times().items()]
    if len(passed) != allowed() or not all(ran for _, ran in passed):
        return None
    return max(1, min(_quota(), math.floor(sum(idle / ran for idle, ran in passed) + _NOISE)))


def _quota() -> int:
    """How many processors' time the container may take, by either version of Linux's control groups."""
    kept = _text("/sys/fs/cgroup/cpu.max").split() or [
        _text(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    ]
    return int(kept[0]) // int(kept[1]) if kept[0].isdecimal() else allowed()


def _times() -> dict[str, tuple[int, int]]:
    """How long each allowed processor was idle, and how long it has run, since the machine was started."""
    found: dict[str, tuple[int, int]] = {}
    allowed_here = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    for line in _text("/proc/stat").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in allowed_here:
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
    if found is None:
        return {}, f"no count of free processors: PyTorch chooses the number of threads; {VARIABLE} sets another"
    if found >= count:
        return {}, f"all {count} processors are free: PyTorch chooses the number of threads; {VARIABLE} sets another"
    plural = "s" * (found > 1)
    return {VARIABLE: str(found)}, (
        f"{found} of {count} processors {'are' if plural else 'is'} free: training with {found} thread{plural}; "
        f"set {VARIABLE} for another number"
    )
