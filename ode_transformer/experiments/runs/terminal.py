"""The view of a program on a terminal, while all that it says goes to its log: warnings and errors, results of
validation, and a bar of progress.
"""

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from ..records import logs

RECORD = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| )?(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: \| |:)([\w.]+)(?: \| |:)(.*)"
)
"""A line of a log of fairseq-train, or of fairseq-generate, which has Python's own form: level, logger and message.
fairseq names the logger of a result after the part of training or the set that it is of, and other loggers after
modules, whose names have a dot."""

BATCHES = re.compile(r"[^|{]*: +(\d+) / (\d+) ")
"""The message of fairseq's progress in ``--log-format simple``: batches that are done, and all."""

REINIT = re.compile(r"wandb: (wandb\.init\(\) called while a run is active|WARNING Using a boolean value for 'reinit')")
"""The messages of Weights & Biases about the way in which fairseq calls it, for every epoch."""

SHOWN = {
    "loss": "loss",
    "ppl": "perplexity",
    "accuracy": "accuracy",
    "mcc": "Matthews",
    "f1": "F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "wps": "words/s",
}
"""The values that are shown of a training's progress, by fairseq's name, and what each is called."""


class LogView:
    """Shows the log of a program of fairseq's on standard error as it grows.

    What a record of the log says below a warning is left out, but for progress: on a terminal a bar, and a line for
    every validation; elsewhere a line each time. Everything else, such as a traceback, is shown, but the same warning
    only once, and not the traceback of a training that diverged, of which :func:`.logs.divergence` says enough.

    Args:
        words: the command, which says how long training is.
    """

    def __init__(self, words: Sequence[str]):
        from tqdm import tqdm

        given = dict(itertools.pairwise(words))
        most = {unit: given.get(f"--max-{unit}", "") for unit in ("update", "epoch")}
        units = [unit for unit, count in most.items() if count.isdecimal() and int(count)]
        self.unit = units[0] if units else "update"
        total = int(most[self.unit]) if units else None
        self.bar = tqdm(total=total, unit=f" {self.unit}s", disable=None, leave=False, dynamic_ncols=True)
        self.rest, self.showing = b"", True
        self.warned: set[str] = set()
        self.traceback: list[str] = []

    def __enter__(self) -> "LogView":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.rest:
            self._line(self.rest.decode(errors="replace"))
        if not any(map(logs.DIVERGED.match, self.traceback)):
            self._release()
        self.bar.close()

    def feed(self, more: bytes) -> None:
        """Show what was added to the log."""
        *lines, self.rest = (self.rest + more).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace"))

    def _line(self, line: str) -> None:
        found = RECORD.match(line)
        if found is None:
            # What belongs to a record of several lines, such as a printed model, is indented, or closes what it opened.
            self.showing = not REINIT.match(line) and (self.showing or (line != "" and line[0] not in " \t)"))
        else:
            self._release()
            level, of, message = found.groups()
            self.showing = level not in ("DEBUG", "INFO") or message.startswith("early stop")
            if not self.showing:
                self._progress(of, message)
            elif level == "WARNING":
                self.showing = message not in self.warned
                self.warned.add(message)
        if self.showing and (self.traceback or line.startswith("Traceback (")):
            self.traceback.append(line)  # until it is known how it ends
        elif self.showing:
            self._write(line)

    def _release(self) -> None:
        """Show the traceback that was kept back."""
        for line in self.traceback:
            self._write(line)
        self.traceback = []

    def _progress(self, of: str, message: str) -> None:
        if batches := BATCHES.match(message):
            self.bar.unit, self.bar.total = " batches", int(batches[2])
            self._move(int(batches[1]))
        elif "." not in of and message.startswith('{"'):
            with contextlib.suppress(ValueError, AttributeError):  # a line that a kill cut short, or another program's
                said = {key.removeprefix(f"{of}_"): value for key, value in json.loads(message).items()}
                self._result(of, said)

    def _result(self, of: str, said: dict[str, Any]) -> None:
        """Progress within an epoch (of ``train_inner``), at its end (``train``), or the result of a set."""
        trained = of.startswith("train")
        shown = {key: name for key, name in SHOWN.items() if key in said and (trained or key != "wps")}
        values = ", ".join(f"{name} {said[key]}" for key, name in shown.items())
        updates = int(said.get("num_updates", 0))
        if of == "train_inner" and not self.bar.disable:
            self.bar.set_postfix_str(values, refresh=False)
            self._move(updates if self.unit == "update" else float(said["update"]))
            return
        if of == "train" and "epoch" in said:  # an epoch may have fewer updates than two reports are apart
            self._move(updates if self.unit == "update" else int(said["epoch"]))
        if values:
            when = f"epoch {said['epoch']}, {updates:,} updates: " if "epoch" in said else ""
            what = "" if trained else "validation: " if of == "valid" else f"{of}: "
            self._write(f"{when}{what}{values}")

    def _move(self, to: float) -> None:
        if not self.bar.n:  # what was done before this program began does not count for its speed
            self.bar.unpause()
            self.bar.n = self.bar.last_print_n = self.bar.initial = to
        self.bar.update(to - self.bar.n)
        self.bar.refresh()

    def _write(self, line: str) -> None:
        self.bar.write(line, file=sys.stderr)
