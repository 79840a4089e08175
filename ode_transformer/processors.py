"""The processors of this machine that a process may keep busy, and the memory of trainings on them."""

import os
from pathlib import Path

VARIABLE = "OMP_NUM_THREADS"
# For training on a CPU: glibc returns every freed tensor to the system and faults it in again; keeping the memory makes
# training faster. Child processes inherit these variables.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
}


def usable() -> int:
    """Return the number of processors that this process may keep busy, which a container's quota can limit."""
    quota, *period = text("/sys/fs/cgroup/cpu.max").split() or ["max"]
    return max(1, min(_seen(), int(quota) // int(period[0]))) if period and quota.isdecimal() else _seen()


def threads() -> dict[str, str]:
    """Return the variable that keeps PyTorch within a container's quota, of which it takes no notice; else nothing."""
    return {VARIABLE: str(usable())} if usable() < _seen() else {}


def _seen() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def text(path: str) -> str:
    """Return the text of a system file; empty if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
