"""Calls of scorers that others wrote and that are no part of this package."""

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence

from ...errors import OdeTransformerError

TIMEOUT = 3600  # seconds; MaxMatch takes very long over a sentence with little in common with its source


def run(words: Sequence[str]) -> str:
    """The output of a program. Whatever interrupts the wait for it also ends the program and all that it has
    started."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        process = subprocess.Popen(words, encoding="utf-8", errors="replace", process_group=0, **pipes)
    except OSError as error:
        raise OdeTransformerError(f"{words[0]}: {error.strerror}") from error
    with process:
        try:
            out, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise OdeTransformerError(
                f"{shlex.join(words)}: did not end within {TIMEOUT} seconds, and was stopped"
            ) from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = errors.strip().split("\n")[-1]
        raise OdeTransformerError(f"{shlex.join(words)}: ended with status {process.returncode}: {last}")
    return out
