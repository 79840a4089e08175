"""ListOps: nested lists of digits under MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10).

Nangia and Bowman 2018; the default sizes are those of the Long Range Arena (Tay et al. 2021): lists of 2 to 10
elements, up to 10 levels deep, 500 to 2,000 symbols. An element is a list with probability 1/4, and otherwise, or at
the greatest depth, a digit. A seed gives the same sets on every machine. An example is ::

    [MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]      of class 5

An opening bracket and its operator are one symbol. The class is the value, one of ten.
"""

import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...errors import OdeTransformerError
from ..text.lines import write_splits

VALUE_PROBABILITY = 0.75
MAX_ELEMENTS = 10
MAX_DEPTH = 10
TRIES = 100_000  # expressions drawn in search of a new one before giving up

OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: int(statistics.median(values)),
    "SM": lambda values: sum(values) % 10,
}


def sample(rng: random.Random, limit: int, depth: int = 1) -> tuple[list[str], int]:
    """Draw an expression and return its symbols and its value; one of more than ``limit`` symbols is left incomplete.

    The outermost expression has depth 1.
    """
    if depth >= MAX_DEPTH or rng.random() < VALUE_PROBABILITY:
        value = rng.randrange(10)
        return [str(value)], value
    operator = rng.choice(list(OPERATORS))
    symbols, values = [f"[{operator}"], []
    for _ in range(rng.randint(2, MAX_ELEMENTS)):
        inner, value = sample(rng, limit, depth + 1)
        symbols += inner
        values.append(value)
        if len(symbols) > limit:
            break
    symbols.append("]")
    return symbols, OPERATORS[operator](values)


def generate(seed: int, shortest: int, longest: int) -> Iterator[tuple[str, str]]:
    """Yield distinct expressions of ``shortest`` to ``longest`` symbols with their values, until no new one is found.

    The search for a new one ends after ``TRIES`` draws.
    """
    rng = random.Random(seed)
    seen, since = set(), 0
    while (since := since + 1) <= TRIES:
        symbols, value = sample(rng, longest)
        if shortest <= len(symbols) <= longest:
            text = " ".join(symbols)
            if text not in seen:
                seen.add(text)
                since = 0
                yield text, str(value)


def write(
    folder: Path,
    train: int = 96000,
    valid: int = 2000,
    test: int = 2000,
    shortest: int = 500,
    longest: int = 2000,
    seed: int = 1,
) -> dict[str, int]:
    """Write ``SPLIT.input0`` and ``SPLIT.label`` of three splits; return the number of expressions of each.

    Args:
        folder: the folder for the files, which must be new or empty.
        train, valid, test: number of expressions in this split.
        shortest: minimum length of an expression in symbols.
        longest: maximum length of an expression in symbols.
        seed: random seed.
    """
    expressions = generate(seed, shortest, longest)
    sizes = {"test": test, "valid": valid, "train": train}
    splits = {split: list(itertools.islice(expressions, size)) for split, size in sizes.items()}
    for split, rows in splits.items():
        if len(rows) < sizes[split]:
            wanted = f"--shortest {shortest} to --longest {longest}"
            raise OdeTransformerError(f"--{split} {sizes[split]}: there are too few expressions of {wanted}")
    return write_splits(splits, ("input0", "label"), folder)
