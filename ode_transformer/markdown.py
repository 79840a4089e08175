"""Tables in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table without a trailing newline.

    Args:
        head: the titles of the columns.
        rows: the cells of each row.
    """
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(head)} columns: {row}")
        cells = (str(cell).replace("|", r"\|") for cell in row)  # a bare pipe ends a cell
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
