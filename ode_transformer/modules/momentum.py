"""Velocities in a stack: where those of ``nesterov`` and ``triple`` start."""

from typing import Any, Optional

from fairseq.models.transformer import Embedding
from fairseq.modules import LearnedPositionalEmbedding, PositionalEmbedding
from torch import Tensor


class Velocities:
    """The part of a stack that momentum adds: an embedding of velocities, or a start at rest."""

    def _embed_velocities(self, embedded: bool, embed_dim: int) -> None:
        self.velocity_tokens = self.velocity_positions = None
        if embedded:
            # Learned positions get a velocity table as well; sinusoidal positions are added to the state only.
            tokens, positions = self.embed_tokens, self.embed_positions
            self.velocity_tokens = Embedding(tokens.num_embeddings, embed_dim, tokens.padding_idx)
            if isinstance(positions, LearnedPositionalEmbedding):
                size = (positions.num_embeddings - positions.padding_idx - 1, embed_dim, positions.padding_idx)
                self.velocity_positions = PositionalEmbedding(*size, learned=True)

    def _velocity(self, tokens: Tensor, incremental_state: Optional[dict] = None) -> Any:
        """Tokens (B, T) -> the initial velocity (T, B, C), or None if the stack starts at rest."""
        if self.velocity_tokens is None:
            return None
        new = tokens if incremental_state is None else tokens[:, -1:]
        v = self.embed_scale * self.velocity_tokens(new)
        if self.velocity_positions is not None:
            v = v + self.velocity_positions(tokens, incremental_state=incremental_state)[:, -new.size(1) :]
        return self.dropout_module(v).transpose(0, 1).contiguous()
