"""Work on the lines of a file with several processes."""

import itertools
import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ...files import write_lines
from .lines import TextError, read_lines

CHUNK = 10_000  # lines that a process works on at a time


def process(
    what: str,
    folder: Path,
    output: Path,
    names: Iterable[str],
    work: Callable[[list[str]], list[str]],
    workers: int = 1,
) -> None:
    """Process the lines of a folder's files in parallel, and write them to another folder.

    Files that are there already are left as they are, so that work that was stopped goes on; each is named.

    Args:
        what: the name of the work, for progress bars.
        folder: holds the files.
        output: the folder for files of the same names.
        names: of the files.
        work: the function from lines to as many lines.
        workers: the number of processes.
    """
    for name in names:
        source, target = folder / name, output / name
        if target.exists():
            print(f"{target} already exists, and is left as it is", file=sys.stderr)
            continue
        chunks = in_chunks(read_lines(source, bar=f"{what} {name}"))
        write_lines(target, itertools.chain.from_iterable(in_parallel(work, chunks, workers)))


def in_chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines in lists of ``CHUNK``; the last may be shorter."""
    lines = iter(lines)
    return iter(lambda: list(itertools.islice(lines, CHUNK)), [])


def in_parallel(work: Callable[[Any], Any], chunks: Iterable[Any], workers: int) -> Iterator[Any]:
    """The results of ``work`` for each chunk, in order; few more chunks than processes are held at a time.

    No process is started for a single chunk, as a validation set usually is.

    Raises:
        TextError: a process was killed.
    """
    chunks = iter(chunks)
    first = list(itertools.islice(chunks, 2))
    chunks = itertools.chain(first, chunks)
    if workers == 1 or len(first) < 2:
        yield from map(work, chunks)
        return
    waiting: deque[Future] = deque()
    try:
        with ProcessPoolExecutor(workers, initializer=_end_with_parent) as pool:
            for chunk in chunks:
                waiting.append(pool.submit(work, chunk))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise TextError("a process was killed, perhaps for lack of memory; use fewer --workers") from error


def _end_with_parent() -> None:
    """End a worker when its parent is killed; otherwise it would hold the parent's lock forever."""

    def wait():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
