"""Logs of ``fairseq-train``: curves, the time that was spent, and divergence."""

import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...schema import count
from ..text.fairseq_output import entries

DIVERGED = re.compile(r"FloatingPointError: (?:gradients are Nan/Inf|(?:AMP: )?Minimum loss scale reached)")
"""The end of the traceback, or of the first one, of a training whose gradients are not finite."""

OUT_OF_MEMORY = "attempting to recover from OOM in forward/backward pass"
"""What fairseq logs when the memory of a GPU does not suffice: it leaves out an update, or a process's part of it."""

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"  # at the beginning of each line that fairseq logs


def processes(text: str) -> list[str]:
    """Split a log by process: the first one and, after interruptions, those that resumed the training."""
    beginning = rf"(?={TIME} \| INFO \| fairseq_cli\.train \| \{{)"  # the configuration of a process
    return re.split(beginning, text)[1:] or [text]


def _seconds(lines: str) -> float:
    """Return the seconds from the configuration of a process to the last progress that it logged."""
    times = re.findall(rf"({TIME}) \| INFO \| (?:fairseq_cli\.train \| \{{|train_inner|train|valid)", lines)
    stamps = [datetime.fromisoformat(time) for time in times]
    # fairseq logs local time, which is set back at the end of daylight saving time.
    return sum(max(0.0, (later - stamp).total_seconds()) for stamp, later in pairwise(stamps))


def read_log(path: Path) -> dict[str, Any]:
    """Read fairseq's JSON lines of progress from a log of ``fairseq-train --log-format json``.

    Returns:
        ``curve``, a list with an entry per epoch (training and validation loss, perplexity or accuracy, gradient norm,
        words per second, updates); ``training`` and ``validation``, the same by updates, without words per second, for
        each time that it was logged; ``seconds``, the time of all processes; ``interruptions``, how often the training
        was resumed; ``out_of_memory``, how often the memory of a GPU did not suffice; ``ended``, the local time of the
        last line, as fairseq writes it, or an empty string.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    curve: dict[int, dict[str, Any]] = {}
    steps: dict[str, dict[int, dict[str, float]]] = {"train_inner": {}, "valid": {}}
    try:
        for kind, values in entries(text, "train_inner", "train", "valid"):
            updates, epoch = int(values["num_updates"]), int(values["epoch"])
            if wrong := count(updates):
                raise ValueError(f"num_updates {wrong}")
            kept = {k: float(values[k]) for k in ("loss", "ppl", "accuracy", "gnorm", "wps") if k in values}
            if kind in steps:
                steps[kind][updates] = {"num_updates": updates, **{k: v for k, v in kept.items() if k != "wps"}}
            if kind != "train_inner":
                entry = curve.setdefault(epoch, {"epoch": epoch})
                if kind == "train":
                    entry["num_updates"] = updates
                entry |= {f"{kind}_{k}": v for k, v in kept.items() if kind == "train" or k != "wps"}
        curve = {epoch: entry for epoch, entry in curve.items() if "num_updates" in entry}  # other epochs did not end
        parts = processes(text)
        seconds = sum(map(_seconds, parts))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise OdeTransformerError(f"{path}: is not a log of fairseq-train --log-format json: {error!r}") from error
    if not curve:
        raise OdeTransformerError(f"{path}: has no finished epoch in the form of fairseq-train --log-format json")
    return {
        "curve": [curve[epoch] for epoch in sorted(curve)],
        "training": [steps["train_inner"][n] for n in sorted(steps["train_inner"])],
        "validation": [steps["valid"][n] for n in sorted(steps["valid"])],
        # Not by fairseq's own clock, "wall", which stands at 0 in a training that was resumed within an epoch.
        "seconds": seconds,
        "interruptions": len(parts) - 1,
        "ended": (re.findall(f"^{TIME}", text, re.M) or [""])[-1],
        "out_of_memory": text.count(OUT_OF_MEMORY),
    }


def divergence(path: Path) -> str:
    """Return a description of how a training diverged, with the numbers of its last report; empty if it did not."""
    text = processes(path.read_text(encoding="utf-8", errors="replace"))[-1] if path.is_file() else ""
    if not DIVERGED.search(text):
        return ""
    reported = [values for _, values in entries(text, "train_inner", "train")]
    found = reported[-1] if reported else {}
    names = {"num_updates": "updates", "lr": "learning rate", "gnorm": "gradient norm"}
    numbers = ", ".join(f"{name} {found[key]}" for key, name in names.items() if key in found)
    last = f"last report: {numbers}" if numbers else "no report yet"
    return (
        f"the training diverged, its gradients are no longer finite numbers ({last}); take a lower --lr, more "
        "--warmup-updates, or a lower --clip-norm (0 does not clip)"
    )
