"""Processing of lines by several processes."""

import itertools
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from .lines import TextError

CHUNK = 10_000  # lines that a process works on at a time

T = TypeVar("T")


def in_parallel(work: Callable[[list[str]], T], lines: Iterable[str], workers: int) -> Iterator[T]:
    """Yield the result of ``work`` for each chunk of lines, in order; about two chunks per process are held in memory.

    No process is started for a single chunk, such as most validation sets, or a single worker.
    """
    lines = iter(lines)
    chunks = iter(lambda: list(itertools.islice(lines, CHUNK)), [])
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
