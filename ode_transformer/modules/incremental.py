"""Caches of step-by-step decoding, as a beam search needs them.

A search keeps n hypotheses a sentence, next to each other in the batch, and reorders them after every step. What grows
by a position a step is copied for that anyway: its order waits in the cache (``order``) until the next position comes,
and both are one copy. What is the source's is the same for all hypotheses of a sentence: it is kept once a sentence
(``hypotheses`` says for how many), and they are so many queries of it. With ``--cross-self-attention`` alone it is part
of what grows.
"""

from typing import Any, Optional

import torch
from torch import Tensor

Cache = dict[str, Any]


def once_a_sentence(key: Tensor, padding: Optional[Tensor], hypotheses: int) -> tuple[Tensor, Optional[Tensor], int]:
    """The source of a step, without the copies for the hypotheses of a sentence.

    Args:
        key: (S, B n, C).
        padding: (B n, S), true where a key is padding, or None.
        hypotheses: n, as a search has said; it may have been another search, so that this is looked at.

    Returns:
        key (S, B, C), padding (B, S) or None if there is none, and n; everything as it was, and 1, where not all
        hypotheses of a sentence have the same.
    """
    if padding is not None and not padding.any():
        padding = None
    if hypotheses == 1 or key.size(1) % hypotheses:
        return key, padding, 1
    for rows in (key.transpose(0, 1), padding):
        if rows is not None:
            rows = rows.unflatten(0, (-1, hypotheses))
            if not torch.equal(rows, rows[:, :1].expand_as(rows)):
                return key, padding, 1
    return key[:, ::hypotheses].contiguous(), None if padding is None else padding[::hypotheses], hypotheses


def as_queries(q: Tensor, sentences: int) -> Tensor:
    """Hypotheses as queries of their sentence, (B n, H, T, d) -> (B, H, n T, d); B is ``sentences``."""
    if q.size(0) == sentences:
        return q
    return q.unflatten(0, (sentences, -1)).transpose(1, 2).flatten(2, 3)


def as_hypotheses(x: Tensor, length: int) -> Tensor:
    """Back again, (B, H, n T, d) -> (B n, H, T, d); T is ``length``."""
    if x.size(2) == length:
        return x
    return x.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)


def append(old: Tensor, order: Optional[Tensor], new: Tensor) -> Tensor:
    """Rows of (B, H, S, d) in a new order if there is one, with (B, H, T, d) behind them; copied once."""
    if order is None or (torch.is_grad_enabled() and (old.requires_grad or new.requires_grad)):
        return torch.cat((old if order is None else old[order], new), dim=2)
    before = old.size(2)
    whole = new.new_empty(*new.shape[:2], before + new.size(2), new.size(3))
    torch.index_select(old, 0, order, out=whole[:, :, :before])
    whole[:, :, before:] = new
    return whole


def reorder(cache: Cache, new_order: Tensor) -> Cache:
    """The cache, to follow a beam: what grows follows any order, what is the source's follows sentences that leave.

    As fairseq does, it takes an order of as many hypotheses as before for one in which each stays with its sentence.
    """
    if "hypotheses" not in cache:
        order = cache["order"]
        return cache | {"order": new_order if order is None else order[new_order]}
    tensors, n = {name: x for name, x in cache.items() if isinstance(x, Tensor)}, cache["hypotheses"]
    if len(next(iter(tensors.values()))) * n == len(new_order):
        return cache
    sentences = new_order // n
    kept = sentences[::n]
    if len(sentences) % n or not torch.equal(kept.repeat_interleave(n), sentences):
        kept, n = sentences, 1  # the beam was of another size, and repeated sentences were taken for hypotheses
    return cache | {name: x[kept] for name, x in tensors.items()} | {"hypotheses": n}
