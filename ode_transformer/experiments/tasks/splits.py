"""The text files of a data set: for every split one file per column, with a line for each example."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...files import write_lines


def write_splits(
    splits: Mapping[str, Iterable[Sequence[str]]], columns: Sequence[str], output_dir: Path
) -> dict[str, int]:
    """Write ``SPLIT.COLUMN`` of all splits and columns; return the number of examples by split.

    Args:
        splits: the examples by split, each with a text for every column.
        columns: the names of the columns, such as ``input0`` and ``label``.
        output_dir: the folder for the files.
    """
    counts = {}
    for name, examples in splits.items():
        rows = list(examples)
        for i, column in enumerate(columns):
            write_lines(output_dir / f"{name}.{column}", (row[i] for row in rows))
        counts[name] = len(rows)
    return counts
