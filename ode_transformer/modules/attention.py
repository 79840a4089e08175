"""Attention for layers that are evaluated more than once, with relative positions, or with biases by position."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.nn import functional as F

from .incremental import Cached, as_hypotheses, as_queries, grown, once_a_sentence
from .positions import Biases

RELATIVE_POSITIONS = ("none", "keys", "keys-values")

Joint = tuple[Tensor, Tensor]
"""The weight and the bias of several linear maps of the same input, concatenated."""


class StagedAttention(Cached, MultiheadAttention):
    """fairseq's attention, with one cache per stage, and one of the source per sentence (``incremental.py``).

    A Runge-Kutta layer attends several times per step, each time to the states of that stage. fairseq keeps one cache
    per module and would append the stages to each other; here each call names its stage.

    Self-attention can have relative positions (Shaw et al. 2018, equations 3 to 5). With r(i, j) = clip(j - i, -m, m),
    and d the width of a head::

        score_ij = q_i . (k_j + a_K[r(i, j)]) / sqrt(d)
        out_i    = sum_j softmax(score_i)_j (v_j + a_V[r(i, j)])

    Each layer has its own tables, which its heads share. Products of queries and the 2m + 1 vectors of a_K are looked
    up, and weights are summed by distance before they are multiplied with a_V: both are products with one-hot
    distances, T S (2m + 1) numbers that layers, heads and sentences share. The gradient of a gather would be summed in
    half precision, and on a GPU in an order that varies.

    m is ``max_relative_length``, None without relative positions; ``values`` says whether values have them, too.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, max_relative_length: int | None = None, values: bool = False, **more: Any
    ):
        super().__init__(embed_dim, num_heads, **more)
        self.max_relative_length = max_relative_length
        self.relative_position_keys = self.relative_position_values = None
        if max_relative_length is not None:
            size = (2 * max_relative_length + 1, self.head_dim)
            self.relative_position_keys = nn.Parameter(nn.init.xavier_uniform_(torch.empty(size)))
            if values:
                self.relative_position_values = nn.Parameter(nn.init.xavier_uniform_(torch.empty(size)))

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        need_head_weights: bool = False,
        biases: Sequence[Biases] | None = None,
        distances: Tensor | None = None,
        joint: Joint | None = None,
        stage: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend as fairseq's attention does: bitwise equal in evaluation in single precision; in beam search, equal
        up to rounding.

        Args:
            query: (T, B, C).
            key, value: (S, B, C); with ``static_kv`` the same tensor, whose projections are kept from step to step.
            key_padding_mask: (B, S), true where a key is padding.
            need_weights, need_head_weights: return the weights, averaged over heads or of each head.
            attn_mask: (T, S) or (B, 1, T or 1, S), minus infinity where attention is forbidden.
            biases: by position, those of queries, keys and values together; in cross-attention those of queries, and
                those of keys and values.
            distances: with relative positions, the one-hot distances of ``relative_distances``, (T, S, 2m + 1);
                computed here if None.
            joint: the weights of ``joint_projection`` for self-attention, which stages share; computed here if None.
            stage: the evaluation within the step, from 0; each stage has its own cache.

        Returns:
            The output (T, B, C); the weights (B, T, S), or (H, B, T, S) for separate heads, or None.
        """
        length = query.size(0)
        if incremental_state is not None and static_kv:
            q, k, v, mask = self._meet_source(query, key, attn_mask, key_padding_mask, incremental_state, biases, stage)
        else:
            q, k, v = self._project(query, key, value, biases, joint)
            if incremental_state is not None:
                cache = grown(self.cached(incremental_state, stage), key_padding_mask, keys=k, values=v)
                self.keep(incremental_state, cache, stage)
                k, v, key_padding_mask = cache["keys"], cache["values"], cache["padding"]
            mask = merged_mask(attn_mask, key_padding_mask, q.dtype)
        q = as_queries(q, k.size(0))
        if distances is None and self.max_relative_length is not None:
            distances = relative_distances(length, k.size(2), self.max_relative_length, q)
        dropout = self.dropout_module.p if self.training or self.dropout_module.apply_during_inference else 0.0
        # Two separate products are faster than PyTorch's fused kernel for a single query, where there is no (T, S)
        # matrix to avoid, and on a CPU for dropout and with relative positions, where the kernel holds that matrix too.
        held = query.device.type == "cpu" and (dropout > 0 or distances is not None)
        if length > 1 and not (held or need_weights or need_head_weights or self.relative_position_values is not None):
            out, weights = self._fused(q, k, v, mask, distances, dropout), None
        else:
            out, weights = self._by_two_products(q, k, v, mask, distances)
            weights = as_hypotheses(weights, length)  # (B n, H, T, S)
            weights = weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1) if need_weights else None
        # The fused kernel of a GPU has another layout, in which a linear map would add its bias apart.
        out = as_hypotheses(out, length).permute(2, 0, 1, 3).flatten(2).contiguous()
        return self.out_proj(out), weights

    def _fused(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, distances: Tensor | None, dropout: float
    ) -> Tensor:
        """softmax(q k^T / sqrt(d) + mask) v by PyTorch's kernel: (B, H, T, d)."""
        if distances is not None:
            bias = self.score_bias(q, distances)
            mask = bias if mask is None else bias + mask
        return fused_kernel(q, k, v, mask, dropout_p=dropout)

    def _by_two_products(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, distances: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As ``_fused``, but in the order of fairseq's attention, bitwise equal; and the weights (B, H, n T, S)."""
        bias = None if distances is None else self.score_bias(q, distances).flatten(0, 1)  # (N, T, S)
        q, k, v = (q * self.scaling).flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)  # (N, T, d), N = B H
        keys = k.transpose(1, 2)
        scores = torch.bmm(q, keys) if bias is None else torch.baddbmm(bias, q, keys)
        scores = scores.unflatten(0, (-1, self.num_heads))
        if mask is not None:
            scores = scores + mask
        # PyTorch computes it in single precision and rounds the result to the type of the scores, as fairseq does. In
        # half precision, unless under autocast, only the rounded weights are kept for the backward pass.
        weights = scores.softmax(-1)
        p = self.dropout_module(weights.type_as(v)).flatten(0, 1)
        out = torch.bmm(p, v)
        if self.relative_position_values is not None:
            # sum_j p_ij a_V[r(i, j)], (N, T, d)
            out = out + torch.matmul(torch.einsum("nts,tsr->ntr", p, distances), self.relative_position_values)
        return out.unflatten(0, (-1, self.num_heads)), weights

    def _meet_source(
        self,
        query: Tensor,
        source: Tensor,
        mask: Tensor | None,
        padding: Tensor | None,
        incremental_state: dict,
        biases: Sequence[Biases] | None,
        stage: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return queries, and the keys, values and mask of the source, which are computed once."""
        if kept := self.cached(incremental_state, stage):
            q = self.q_proj(query)
            q = in_heads(q if biases is None else _add(q, biases[0].look_up()), self.num_heads)
            return q, kept["keys"], kept["values"], kept["mask"]
        hypotheses = 1
        # A search has one query at a time, and no mask but the padding; a Runge-Kutta layer keeps keys from stage to
        # stage in training too.
        if query.size(0) == 1 and mask is None:
            source, padding, hypotheses = once_a_sentence(source, padding, self.beam_size)
        if biases is not None:
            biases = biases[0], biases[1].every(hypotheses)
        q, k, v = self._project(query, source, source, biases)
        mask = merged_mask(mask, padding, q.dtype)
        self.keep(incremental_state, {"keys": k, "values": v, "mask": mask, "hypotheses": hypotheses}, stage)
        return q, k, v, mask

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor, biases: Sequence[Biases] | None, joint: Joint | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, d), keys and values (B, H, S, d); projections of the same input take one product."""
        # With hooks on the backward pass of this module, each argument is another tensor.
        joint = (joint or self.joint_projection(own=query is key)) if value is key else None
        if joint is None:
            projected = [self.q_proj(query), self.k_proj(key), self.v_proj(value)]
        elif query is key:
            projected = [F.linear(key, *joint)]
        else:
            projected = [self.q_proj(query), F.linear(key, *joint)]
        if biases is not None:
            moved = [of_tokens.look_up() for of_tokens in biases]
            moved = self._separate(moved) if joint is None else moved
            projected = [_add(x, bias) for x, bias in zip(projected, moved, strict=True)]
        q, k, v = (in_heads(x, self.num_heads) for x in self._separate(projected))
        return q, k, v

    def _separate(self, projected: Iterable[Tensor]) -> list[Tensor]:
        """Return projections that are side by side, (T, B, n C) each, one by one, (T, B, C)."""
        size, parts = self.embed_dim, []
        for x in projected:  # of one part, a split would copy the gradient
            parts.extend([x] if x.size(-1) == size else x.split(size, dim=-1))
        return parts

    def joint_projection(self, own: bool = True) -> Joint | None:
        """Return the projections of keys, values and, if they are of the same input (``own``), queries as one map.

        None where separate maps are better: without gradients, concatenating the weights costs more than it saves;
        maps of another class may compute something else; hooks, such as those of pruning, would not be called.
        """
        linears = [self.q_proj, self.k_proj, self.v_proj][not own :]
        hooked = any(type(m) is not nn.Linear or m._forward_pre_hooks or m._forward_hooks for m in linears)
        if hooked or not torch.is_grad_enabled():
            return None
        return torch.cat([m.weight for m in linears]), torch.cat([m.bias for m in linears])

    def score_bias(self, q: Tensor, distances: Tensor) -> Tensor:
        """q_i . a_K[r(i, j)] / sqrt(d) of queries (..., T, d) -> (..., T, S)."""
        keys = self.scaling * self.relative_position_keys  # fewer numbers than the queries
        products = q.movedim(-2, 0) @ keys.t()  # (T, ..., 2m + 1), in the layout of the projection
        return torch.einsum("t...r,tsr->...ts", products, distances)


def in_heads(x: Tensor, heads: int) -> Tensor:
    """(T, B, C) -> (B, H, T, C/H); H is ``heads``."""
    return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)


def _add(projected: Tensor, bias: Tensor) -> Tensor:
    return projected + bias.type_as(projected)


def fused_kernel(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **more: Any) -> Tensor:
    """PyTorch's ``scaled_dot_product_attention``, with its arguments.

    On a CPU its backward pass is several times slower in half precision than in single precision, for short sentences
    above all. With gradients enabled, single precision is taken there; but not under autocast, which would cast back.
    """
    kind, half = q.dtype, q.dtype in (torch.float16, torch.bfloat16)
    if half and q.device.type == "cpu" and torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu"):
        q, k, v = q.float(), k.float(), v.float()
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            attn_mask = attn_mask.float()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, **more).to(kind)


def merged_mask(attn_mask: Tensor | None, key_padding_mask: Tensor | None, kind: torch.dtype) -> Tensor | None:
    """Merge two masks into one that is added to scores, (T, S) or (B, 1, T or 1, S); None if both are None."""
    if key_padding_mask is None:
        return attn_mask
    # On a CPU, adding is much faster than filling.
    hidden = torch.zeros_like(key_padding_mask, dtype=kind)
    hidden = hidden.masked_fill_(key_padding_mask.to(torch.bool), float("-inf"))[:, None, None]  # (B, 1, 1, S)
    hidden = hidden if attn_mask is None else attn_mask + hidden
    # The softmax of rows that hide all keys, such as the rows of padding on the left, would be NaN: they are opened.
    return hidden.masked_fill(hidden.isneginf().all(-1, keepdim=True), 0.0)


def relative_distances(length: int, keys: int, m: int, like: Tensor) -> Tensor:
    """One-hot distances r(i, j) = clip(j - (i + S - T), -m, m), (T, S, 2m + 1): 1 at m + r(i, j), 0 elsewhere.

    T queries, ``length``, are at the last positions of S keys, ``keys``. Type and device are those of ``like``.
    """
    i = torch.arange(keys - length, keys, device=like.device)
    j = torch.arange(keys, device=like.device)
    return torch.eye(2 * m + 1, dtype=like.dtype, device=like.device)[(j - i[:, None]).clamp(-m, m) + m]
