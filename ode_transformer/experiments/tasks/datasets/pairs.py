"""Pairs of texts, one of which is made from the other: the output of the readers of summaries and corrections."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ....files import write_lines

SIDES = ("source", "target")


class Pair(NamedTuple):
    """A text and what it is to become, each on one line; the latter's sentences, if known, with tabs between them."""

    source: str
    target: str


def write(splits: Mapping[str, Iterable[Pair]], folder: Path) -> dict[str, int]:
    """Write ``SPLIT.source`` and ``SPLIT.target``; the number of pairs by split.

    Args:
        splits: pairs by the name of the split.
        folder: where they go.
    """
    counts = {}
    for name, pairs in splits.items():
        found = list(pairs)
        counts[name] = len(found)
        for i, side in enumerate(SIDES):
            write_lines(folder / f"{name}.{side}", (pair[i] for pair in found))
    return counts
