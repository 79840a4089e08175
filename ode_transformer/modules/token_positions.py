"""Where the tokens of a batch are: at their indices, or at explicit positions (FLOATER, appendix C).

Both are rows of a *grid*, the increasing positions for which the solvers of a position encoder are asked; each keeps
the solutions on its grid that have no gradients.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from ..numerics.flow import check_positions

Index = Union[slice, Tensor]
"""The rows of a table that the tokens take: the first rows, one per column, or a row number for each token, (T, B)."""

Tables = Mapping[str, Sequence[Tensor]]
"""The solution b(t) - b(0) at N positions: for each solver its pieces, each (N, 1 or 2, C)."""


class Solution(NamedTuple):
    """Tables for the first ``length`` positions of a grid, and the versions of the weights that they were solved with.

    Tables that are shared within one pass have no versions.
    """

    length: int
    tables: Tables
    versions: Any = None


class TokenPositions:
    """The positions of the tokens of one side, or of both."""

    def __init__(self) -> None:
        self.solutions: dict[bool, Solution] = {}  # for an interval of updates (True), and for the present weights

    def grid(self, length: int, spare: bool = False) -> Tensor:
        """The positions to solve for, (N,).

        Args:
            length: the number of tokens of the longest sentence, with its padding.
            spare: whether longer sentences are likely to follow.
        """
        raise NotImplementedError

    def least(self, length: int) -> int:
        """The number of positions of the grid, from the first on, that sentences of ``length`` tokens need."""
        return length

    def sentences(self, hypotheses: int) -> Optional[Tensor]:
        """The sentence that each hypothesis of a new batch belongs to, (B,); None where all have the same positions."""
        return None

    def index(self, padding: Tensor, columns: slice, sentences: Optional[Tensor] = None) -> Index:
        """The rows of the grid at which the tokens of some columns are.

        Args:
            padding: (B, T), true where there is no token.
            columns: the columns that are wanted.
            sentences: (B,), the sentence that each row of the batch belongs to, as ``sentences`` says at first.
        """
        raise NotImplementedError


class TokenIndices(TokenPositions):
    """Every token is at its index, not counting padding."""

    def grid(self, length: int, spare: bool = False) -> Tensor:
        return torch.arange(max(64, 2 ** (length - 1).bit_length()) if spare else length)

    def index(self, padding: Tensor, columns: slice, sentences: Optional[Tensor] = None) -> Index:
        if (padding[:, :-1] & ~padding[:, 1:]).any():  # with padding before a token, columns are not positions
            return ((~padding).cumsum(1) - 1).clamp(min=0)[:, columns].t()
        return columns


class GivenPositions(TokenPositions):
    """Explicit positions of the tokens of one side.

    Args:
        side: source or target, for error messages.
        positions: (T,) for all sentences or (B, T), increasing from the left.

    Raises:
        ValueError: the positions do not increase.
    """

    def __init__(self, side: str, positions: Tensor):
        super().__init__()
        for row in positions.reshape(-1, positions.size(-1)):
            check_positions(row)
        self.side = side
        self.values, rows = torch.unique(positions.to("cpu", torch.float64), return_inverse=True)  # (N,), sorted
        self.rows = rows.view(-1, rows.size(-1))  # (1 or B, T), where each position is in the grid

    def grid(self, length: int, spare: bool = False) -> Tensor:
        return self.values

    def least(self, length: int) -> int:
        return len(self.values)

    def sentences(self, hypotheses: int) -> Optional[Tensor]:
        given = len(self.rows)
        return None if given == 1 else torch.arange(given).repeat_interleave(max(hypotheses // given, 1))

    def index(self, padding: Tensor, columns: slice, sentences: Optional[Tensor] = None) -> Index:
        """As in ``TokenPositions``; the result is always a tensor.

        Raises:
            ValueError: the positions do not fit tokens with this padding.
        """
        rows, length = self.rows if sentences is None else self.rows[sentences], padding.size(1)
        fits = rows.size(1) == length if self.side == "source" else rows.size(1) >= length
        if not fits or len(rows) not in (1, len(padding)):
            shape = (len(rows), rows.size(1))
            raise ValueError(f"{self.side} positions of shape {shape}: do not fit tokens of {tuple(padding.shape)}")
        return rows[:, columns].t().to(padding.device)
