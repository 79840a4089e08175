"""Tables in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any

from .errors import visible


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of rows below the titles of its columns, without a trailing newline."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = (str(cell).replace("|", r"\|") for cell in row)  # a bare pipe ends a cell
        lines.append(f"| {' | '.join(cells)} |")
    return visible("\n".join(lines))
