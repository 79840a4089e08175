"""The hardware and software versions of this machine, as records note them.

torch is imported by the function that needs it.
"""

import functools
import platform
import re
import subprocess
from typing import Any

from . import plugins, processors
from .paths import INSTALLED, PACKAGE
from .version import __version__, installed_versions

PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "sentencepiece")


def hardware() -> dict[str, Any]:
    """Return this machine's processor, usable cores, memory in GiB, and GPUs."""
    import torch

    model = re.search(r"model name\s*: (.*)", processors.text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", processors.text("/proc/meminfo"))
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "cores": processors.usable(),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


@functools.cache
def commit() -> str:
    """Return the commit of this code, followed by ``+`` if files were changed since; empty if unknown."""
    if INSTALLED or not (PACKAGE.parent / ".git").exists():
        return ""
    words = ["git", "-C", PACKAGE.parent, "describe", "--always", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:  # no git here
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def versions() -> dict[str, str]:
    """Return the versions of Python, this package with its commit, and the packages that results depend on."""
    found = {"python": platform.python_version(), "ode_transformer": __version__}
    if commit():
        found["commit"] = commit()
    return found | installed_versions([*PACKAGES, *plugins.installed()])


def here_and_now() -> dict[str, Any]:
    """Return :func:`hardware` and :func:`versions`."""
    return {"hardware": hardware(), "versions": versions()}
