"""The processors of this machine: free cores, and the size of the cache.

PyTorch's threads synchronize after every operation. If one of them shares its core with another process, all of them
wait for it: on two cores of which one is busy, two threads train at about half the speed of one. A training therefore
begins with as many threads as there are free cores, unless the user sets ``OMP_NUM_THREADS``. Where the load of
processors is unknown, as outside Linux and in some containers, PyTorch chooses the number.

Trainings that begin in the same second do not see each other; several at once need ``OMP_NUM_THREADS``.
"""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

VARIABLE = "OMP_NUM_THREADS"
# For training on a CPU: glibc returns every freed tensor to the system and faults it in again; keeping the memory makes
# training faster. Child processes inherit these variables.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
}
_CACHES = 8  # an upper bound; Linux lists data and instruction caches separately
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_SECONDS = 0.3  # of observation; Linux counts in hundredths
_NOISE = 0.15  # the load of a machine without other work, in cores


def allowed() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable() -> int:
    """Return the number of processors that this process may keep busy, which a container's quota can limit further."""
    return max(1, min(allowed(), _quota()))


def cache() -> int:
    """Return the size of the first processor's last-level cache in bytes; 0 if unknown, as outside Linux."""
    sizes = [text(f"/sys/devices/system/cpu/cpu0/cache/index{i}/size").strip() for i in range(_CACHES)]
    return max(int(size[:-1]) * _UNITS.get(size[-1], 0) if size[:-1].isdecimal() else 0 for size in sizes)


def free() -> Optional[tuple[int, int]]:
    """Return the number of free cores, at least 1 and at most a container's quota, and of all cores; None if unknown.

    Only processors that this process may run on count. Those of one core (simultaneous multithreading) share its
    arithmetic units, so a core is as free as the busiest of them.
    """
    before = _times()
    time.sleep(_SECONDS)
    passed = {name: (idle - before[name][0], ran - before[name][1]) for name, (idle, ran) in _times().items()}
    if len(passed) != allowed() or not all(ran for _, ran in passed.values()):
        return None
    cores: dict[str, float] = {}
    for name, (idle, ran) in passed.items():
        core = text(f"/sys/devices/system/cpu/{name}/topology/thread_siblings_list").strip() or name
        cores[core] = min(cores.get(core, 1.0), idle / ran)
    return max(1, min(_quota(), math.floor(sum(cores.values()) + _NOISE))), len(cores)


def _quota() -> int:
    """Return the container's quota in whole processors, from either version of Linux's control groups."""
    kept = text("/sys/fs/cgroup/cpu.max").split() or [
        text(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    ]
    return int(kept[0]) // int(kept[1]) if kept[0].isdecimal() else allowed()


def _times() -> dict[str, tuple[int, int]]:
    """Return the idle time and the total time of each allowed processor since boot, in ticks."""
    found: dict[str, tuple[int, int]] = {}
    allowed_here = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    for line in text("/proc/stat").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in allowed_here:
            idle, waiting = map(int, ticks[3:5])
            found[name] = idle + waiting, sum(map(int, ticks[:8]))  # the guest times that follow are in these already
    return found


def text(path: str) -> str:
    """Return the text of a system file; empty if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def threads(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return environment variables for a process that computes on a CPU, and a message about its number of threads.

    A user's ``OMP_NUM_THREADS`` stays. Where all cores are free it is not set either: PyTorch takes a thread per core.

    Args:
        environment: the variables of this process.
    """
    if environment.get(VARIABLE):
        return {}, f"as many threads as {VARIABLE} says, {environment[VARIABLE]}"
    found = free()
    if found is None:
        return {}, f"no count of free cores: PyTorch chooses the number of threads; {VARIABLE} sets another"
    idle, count = found
    if idle >= count:
        return {}, f"all {count} cores are free: PyTorch chooses the number of threads; {VARIABLE} sets another"
    plural = "s" * (idle > 1)
    return {VARIABLE: str(idle)}, (
        f"{idle} of {count} cores {'are' if plural else 'is'} free: {idle} thread{plural}; set {VARIABLE} for another "
        "number"
    )
