"""The view of a program's log on a terminal: warnings and errors, results of validation, and a progress bar."""

import contextlib
import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any

from ...errors import counted
from ..text.fairseq_output import entries

RECORD = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| )?(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: \| |:)([\w.]+)(?: \| |:)(.*)"
)
"""A log line of fairseq-train, or of fairseq-generate, which has Python's default format: level, logger and message.
fairseq names the logger of a result after the phase of training or the subset, and other loggers after modules, whose
names have a dot."""

BATCHES = re.compile(r"[^|{]*: +(\d+) / (\d+) ")
"""fairseq's progress message in ``--log-format simple``, with the numbers of finished and of all batches."""

SHOWN = {
    "loss": "loss", "ppl": "perplexity", "accuracy": "accuracy", "mcc": "Matthews", "f1": "F1", "pearson": "Pearson",
    "spearman": "Spearman", "wps": "words/s",
}  # fmt: skip
"""The labels of the values that are shown, by fairseq's names."""


class LogView:
    """A view of the growing log of a program of fairseq on standard error.

    Log records below a warning are left out, except an early stop and progress: on a terminal a bar, as long as the
    command's flags say, and a line for every epoch and validation; elsewhere a line each time. Everything else, such as
    a traceback, is shown, but the same warning only once.
    """

    def __init__(self, words: Sequence[str]):
        from tqdm import tqdm

        given = dict(itertools.pairwise(words))
        most = {unit: int(given.get(f"--max-{unit}") or 0) for unit in ("update", "epoch")}
        self.unit = "epoch" if most["epoch"] and not most["update"] else "update"
        total = most[self.unit] or None
        self.bar = tqdm(total=total, unit=f" {self.unit}s", disable=None, leave=False, dynamic_ncols=True)
        self.rest, self.showing = b"", True
        self.warned: set[str] = set()

    def __enter__(self) -> "LogView":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.rest:
            self._line(self.rest.decode(errors="replace"))
        self.bar.close()

    def feed(self, more: bytes) -> None:
        """Show the bytes that were appended to the log."""
        *lines, self.rest = (self.rest + more).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace"))

    def _line(self, line: str) -> None:
        found = RECORD.match(line)
        if found is None:
            # The further lines of a log record, such as a printed model, are indented, or close a parenthesis.
            self.showing = self.showing or (line != "" and line[0] not in " \t)")
        else:
            level, of, message = found.groups()
            self.showing = level not in ("DEBUG", "INFO") or message.startswith("early stop")
            if not self.showing:
                self._progress(of, message)
            elif level == "WARNING":
                self.showing = message not in self.warned
                self.warned.add(message)
        if self.showing:
            self._write(line)

    def _progress(self, of: str, message: str) -> None:
        if batches := BATCHES.match(message):
            self.bar.unit, self.bar.total = " batches", int(batches[2])
            self._move(int(batches[1]))
        elif "." not in of:
            for _, said in entries(f"| INFO | {of} | {message}", of):
                with contextlib.suppress(KeyError, TypeError, ValueError):  # another program has other values
                    self._result(of, said)

    def _result(self, of: str, said: dict[str, Any]) -> None:
        """Show progress within an epoch (``train_inner``), at its end (``train``), or the result of a subset."""
        trained = of.startswith("train")
        shown = {key: name for key, name in SHOWN.items() if key in said and (trained or key != "wps")}
        values = ", ".join(f"{name} {said[key]}" for key, name in shown.items())
        updates = int(said.get("num_updates", 0))
        if of == "train_inner" and not self.bar.disable:
            self.bar.set_postfix_str(values, refresh=False)
            self._move(updates if self.unit == "update" else float(said["update"]))
            return
        if of == "train" and "epoch" in said:  # an epoch may be shorter than the log interval
            self._move(updates if self.unit == "update" else int(said["epoch"]))
        if values:
            when = f"epoch {said['epoch']}, {counted(updates, 'update')}: " if "epoch" in said else ""
            what = "" if trained else "validation: " if of == "valid" else f"{of}: "
            self._write(f"{when}{what}{values}")

    def _move(self, to: float) -> None:
        self.bar.update(to - self.bar.n)
        self.bar.refresh()

    def _write(self, line: str) -> None:
        self.bar.write(line, file=sys.stderr)
