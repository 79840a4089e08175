"""Processing of lines by several processes."""

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


def process_files(
    what: str,
    folder: Path,
    output: Path,
    names: Iterable[str],
    work: Callable[[list[str]], list[str]],
    workers: int = 1,
) -> None:
    """Process the lines of a folder's files in parallel, and write them to another folder.

    Existing files are left as they are, with a message, so that work that was interrupted can be resumed.

    Args:
        what: the name of the work, for progress bars.
        folder: the folder of the files.
        output: the folder for files of the same names.
        names: the names of the files.
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
    """Return an iterator over lists of ``CHUNK`` lines; the last may be shorter."""
    lines = iter(lines)
    return iter(lambda: list(itertools.islice(lines, CHUNK)), [])


def in_parallel(work: Callable[[Any], Any], chunks: Iterable[Any], workers: int) -> Iterator[Any]:
    """Yield the result of ``work`` for each chunk, in order; about two chunks per process are held in memory.

    No process is started for a single chunk, such as most validation sets, or a single worker.

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
