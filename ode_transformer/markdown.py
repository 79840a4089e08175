"""Tables in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table, without a newline at its end.

    Args:
        head: the titles of the columns.
        rows: for each row, its cells.
    """
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(head)} columns: {row}")
        cells = (str(cell).replace("|", r"\|") for cell in row)  # a bare one ends a cell
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
