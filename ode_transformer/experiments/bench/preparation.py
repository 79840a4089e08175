"""The time and memory of preparing parallel text, step by step, on generated text of any size.

The steps are those of ``ode-transformer prepare``, each in a process of its own, with its worker processes. CPU seconds
are of all of them. Memory is the largest sum over them: of the proportional set size (PSS) where Linux has it, so that
memory that processes share counts once, and otherwise of the resident set size (RSS).
"""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OdeTransformerError
from .. import markdown
from ..runs.prepare import Preparation
from ..runs.processes import say

LANGS = ("de", "en")
MERGES = 32_000  # of BPE, for every number of pairs
FEWEST = 100  # pairs, of which some are held out
DISK = 2_400  # bytes per pair, at most: the text after each step, and the data
LEARNING = "learn-subword-nmt"  # the step whose time grows with the number of different words
CORPORA = {"WMT14 en-de": 4_500_000, "WMT14 en-fr": 36_000_000}
"""Corpora for which the table extrapolates, and their numbers of pairs."""

STEP = "import sys; from ode_transformer.experiments import prepare; prepare.run_step(sys.argv[1], sys.argv[2:])"
PAUSE = (0.1, 5.0)  # seconds between two looks at the memory, at least and at most
COMMON = 20_000  # words that follow Zipf's law; others are rarer than it says, as in natural text
RARE = 0.06  # the part of the running words that are not common
LONGEST = 300  # words of a sentence
BLOCK = 10_000  # pairs drawn at a time


class Lexicon:
    """The words of a generated language: one word for every number from 0 on, short words first.

    Words are syllables with an ending. Numbers that follow each other share their stem, and all words share syllables
    and endings.

    Args:
        onsets, vowels, codas: what syllables are made of.
        endings: of the words after the first hundred; those hundred have none.
        capital: every word whose number is a multiple of it is capitalized.
    """

    def __init__(self, onsets: str, vowels: str, codas: str, endings: str, capital: int):
        self.syllables = [o + v + c for o in onsets.split() for v in vowels.split() for c in ["", *codas.split()]]
        self.endings, self.capital = ["", *endings.split()], capital
        self.word = lru_cache(100_000)(self._word)

    def _word(self, number: int) -> str:
        if number >= 500 and number % 40 == 7:
            return f"{number * 7919 % 100_000:,}"
        stem, ending = (number, 0) if number < 100 else divmod(number, len(self.endings))
        word = ""
        while stem >= 0:
            stem, syllable = divmod(stem, len(self.syllables))
            word += self.syllables[syllable * 211 % len(self.syllables)]
            stem -= 1
        word += self.endings[ending]
        return word.capitalize() if number >= 100 and number % self.capital == 0 else word

    def sentence(self, numbers: Sequence[int], chances: Sequence[float]) -> str:
        """A sentence of words by their numbers; a number from 0 to 1 per word chooses punctuation marks."""
        words = [self._marked(self.word(n), chance) for n, chance in zip(numbers, chances, strict=True)]
        words[0] = words[0][0].upper() + words[0][1:]
        return " ".join(words) + ("?" if chances[0] > 0.95 else "!" if chances[0] > 0.93 else ".")

    @staticmethod
    def _marked(word: str, chance: float) -> str:
        if chance > 0.1:
            return word
        if chance > 0.02:
            return f"{word},"
        return f'"{word}"' if chance > 0.01 else f"({word})" if chance > 0.005 else f"{word}-{word}"


@cache
def lexicons() -> tuple[Lexicon, Lexicon]:
    """The two generated languages."""
    german = Lexicon("b d f g h k l m n r s t w sch", "a e i o u ä ei", "n r cht", "e en er es ung lich keit te st", 3)
    english = Lexicon("b c d f h l m n p r s t v th", "a e i o u ea oo", "n r ck", "s ed ing er ly tion ness al", 19)
    return german, english


def draw(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Pairs of generated sentences; the same arguments give the same pairs. Few are held at a time.

    Lengths are log-normal with 22 words on average. Words follow Zipf's law, and beyond the ``COMMON`` ones a steeper
    power law without an end, so that longer texts have more different words, about as many as news and Europarl.
    """
    random = np.random.default_rng(seed)
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        lengths = np.clip(random.lognormal(2.9, 0.6, size), 1, LONGEST).astype(int)
        others = np.clip(np.rint(lengths * random.normal(1.05, 0.15, size)), 1, LONGEST).astype(int)
        total = int(np.maximum(lengths, others).sum())
        common = COMMON ** random.random(total)
        rare = COMMON * (1 - random.random(total)) ** (-1 / 0.7)
        numbers = np.where(random.random(total) < RARE, np.minimum(rare, 1e12), common).astype(np.int64).tolist()
        chances = random.random((2, total)).tolist()
        at = 0
        for length, other in zip(lengths.tolist(), others.tolist(), strict=True):
            yield tuple(
                lexicon.sentence(numbers[at : at + n], its[at : at + n])
                for lexicon, its, n in zip(lexicons(), chances, (length, other), strict=True)
            )
            at += max(length, other)


def write(prefix: Path, count: int, seed: int = 1) -> None:
    """Write generated parallel text to ``PREFIX.LANG``."""
    files = [Path(f"{prefix}.{lang}") for lang in LANGS]
    with files[0].open("w", encoding="utf-8") as first, files[1].open("w", encoding="utf-8") as second:
        for source, target in draw(count, seed):
            first.write(f"{source}\n")
            second.write(f"{target}\n")


def memory(pid: int) -> int:
    """The bytes of a process and of all that it started, as the module says; 0 outside Linux."""
    folder, found = Path(f"/proc/{pid}"), 0
    try:
        for task in (folder / "task").iterdir():
            found += sum(memory(int(child)) for child in (task / "children").read_text().split())
        try:
            rollup = (folder / "smaps_rollup").read_text()
            found += 1024 * sum(map(int, re.findall(r"^Pss:\s+(\d+)", rollup, re.M)))
        except OSError:
            found += os.sysconf("SC_PAGE_SIZE") * int((folder / "statm").read_text().split()[1])
    except OSError:  # it has ended
        pass
    return found


def run(words: Sequence[str]) -> dict[str, float]:
    """Run a command: its wall and CPU seconds, and the peak of its memory in MiB, with all that it started.

    Raises:
        OdeTransformerError: it failed; what it says is on standard error.
    """
    begin, peak = time.monotonic(), 0
    process = subprocess.Popen(words, stdout=2)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        looked = time.monotonic()
        peak = max(peak, memory(process.pid))
        # A look halts the process, the longer the larger it is.
        time.sleep(float(np.clip(20 * (time.monotonic() - looked), *PAUSE)))
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise OdeTransformerError(f"step {words[3]}: ended with status {process.returncode}, see above")
    return {
        "seconds": round(time.monotonic() - begin, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": round(peak / 2**20, 1),
    }


def measure(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Prepare generated text of each of ``args.pairs`` sizes with ``args.workers`` processes, and remove it.

    Yields what is measured so far after every size.

    Raises:
        OdeTransformerError: there is too little space on the disk, or a step fails.
    """
    place = Path(args.output or ".").absolute()
    place = place.parent if args.output else place
    place.mkdir(parents=True, exist_ok=True)
    need, free = max(args.pairs) * DISK, shutil.disk_usage(place).free
    say(
        f"{max(args.pairs):,} pairs take up to {need / 2**30:.1f} GiB for a while in {place}, where "
        f"{free / 2**30:.1f} are free"
    )
    if need > free:
        raise OdeTransformerError(
            f"--pairs {max(args.pairs)}: needs more than is free; take another --output or fewer pairs"
        )
    sizes = []
    for pairs in sorted(set(args.pairs)):
        with tempfile.TemporaryDirectory(dir=place, prefix=".preparation.") as folder:
            sizes.append({"pairs": pairs, **_measure(Path(folder), pairs, args.workers)})
        yield {"setting": {"workers": args.workers, "merges": MERGES}, "sizes": sizes}


def _measure(folder: Path, pairs: int, workers: int) -> dict[str, Any]:
    say(f"generating {pairs:,} pairs")
    write(folder / "raw", pairs)
    words = ["--train", str(folder / "raw"), "--langs", *LANGS, "--out", str(folder / "data"), "--size", str(MERGES)]
    words += ["--workers", str(workers)]
    steps = {}
    for name in Preparation.of(words).steps():
        found = run([sys.executable, "-c", STEP, name, *words])
        steps[name] = {**found, "lines_per_cpu_second": round(2 * pairs / max(found["cpu_seconds"], 0.01))}
        say(f"{pairs:,} pairs, {name}: {steps[name]}")
    files = [path for path in folder.rglob("*") if path.is_file()]
    raw = sum((folder / f"raw.{lang}").stat().st_size for lang in LANGS)
    return {"raw_bytes": raw, "disk_bytes": sum(path.stat().st_size for path in files), "steps": steps}


def extrapolated(name: str, sizes: Sequence[dict[str, Any]], what: str, pairs: int) -> float | None:
    """CPU seconds or MiB of a step for a corpus of another size.

    Time grows with the lines, except that of learning BPE, which grows with the different words. That and the memory
    follow the power law through the last two sizes; None with one size.

    Args:
        name: of the step.
        sizes: of the record.
        what: ``cpu_seconds`` or ``peak_mib``.
        pairs: of the other corpus.
    """
    last, times = sizes[-1], pairs / sizes[-1]["pairs"]
    value = last["steps"][name][what]
    if what == "cpu_seconds" and name != LEARNING:
        return value * times
    if len(sizes) == 1:
        return None
    before = sizes[-2]
    if not value or not before["steps"][name][what]:
        return None
    growth = math.log(value / before["steps"][name][what]) / math.log(last["pairs"] / before["pairs"])
    return value * times ** max(0.0, growth)


def table(record: dict[str, Any]) -> str:
    """A record as Markdown."""
    sizes, setting = record["sizes"], record["setting"]
    last = sizes[-1]
    head = ["step", "seconds", "CPU seconds", "lines per CPU second", *(f"MiB, {s['pairs']:,} pairs" for s in sizes)]
    head += [f"{name}: {what}" for name in CORPORA for what in ("CPU minutes", "MiB")]
    title = (
        f"**preparation**: {last['pairs']:,} generated pairs, {setting['workers']} processes, {setting['merges']:,} "
        f"merges, {record['hardware']['processor']}; extrapolated to the pairs of "
        + " and ".join(f"{name} ({pairs:,})" for name, pairs in CORPORA.items())
    )
    rows = []
    for name, step in last["steps"].items():
        cells = [name, f"{step['seconds']:,.0f}", f"{step['cpu_seconds']:,.0f}", f"{step['lines_per_cpu_second']:,}"]
        cells += [f"{size['steps'][name]['peak_mib']:,.0f}" for size in sizes]
        for pairs in CORPORA.values():
            seconds, mib = (extrapolated(name, sizes, what, pairs) for what in ("cpu_seconds", "peak_mib"))
            cells += ["" if seconds is None else f"{seconds / 60:,.0f}", "" if mib is None else f"{mib:,.0f}"]
        rows.append(cells)
    return f"{title}\n\n{markdown.table(head, rows)}"
