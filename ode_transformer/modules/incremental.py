"""Caches of incremental decoding for beam search.

A search keeps n hypotheses per sentence, next to each other in the batch, and reorders them after every step. A cache
that grows by one position per step has to be copied for that position anyway, so the new order is stored in it
(``order``) and applied in the same copy. A cache of the source is the same for all hypotheses of a sentence, so it is
kept once per sentence (``hypotheses`` is their number, by ``set_beam_size``), and the hypotheses are queries of it.
"""

from typing import Any

import torch
from torch import Tensor


class StepCache(dict):
    """The cache of one module for the stages of one step, by stage."""


class Cached:
    """The caches of incremental decoding of a module, one per stage; a mixin for fairseq's incremental modules.

    Outside of decoding fairseq's methods, which read the number of a module, are not called: modules of one kind would
    each be compiled for themselves. There a ``StepCache`` may take the place of fairseq's state.
    """

    def cached(self, incremental_state: dict | None, stage: int = 0) -> dict[str, Any]:
        """The cache of a stage; empty before the first step, and without a state."""
        if incremental_state is None:
            return {}
        if isinstance(incremental_state, StepCache):
            return incremental_state.get(stage, {})
        return self.get_incremental_state(incremental_state, f"cache.{stage}") or {}

    def keep(self, incremental_state: dict | None, cache: dict[str, Any], stage: int = 0) -> None:
        """Set the cache of a stage, if there is a state."""
        if isinstance(incremental_state, StepCache):
            incremental_state[stage] = cache
        elif incremental_state is not None:
            self.set_incremental_state(incremental_state, f"cache.{stage}", cache)

    def reorder_incremental_state(self, incremental_state: dict | None, new_order: Tensor) -> None:
        """Reorder the cache of every stage with the hypotheses of a beam."""
        stage = 0
        while cache := self.cached(incremental_state, stage):
            self.keep(incremental_state, reorder(cache, new_order), stage)
            stage += 1


def once_a_sentence(key: Tensor, padding: Tensor | None, hypotheses: int) -> tuple[Tensor, Tensor | None, int]:
    """Return a source without the copies for the n hypotheses of a sentence, and n: the key (S, B n, C) -> (S, B, C),
    and the padding (B n, S), true where a key is padding, -> (B, S), or None if there is none.

    n is what a search has set; it may have been another one. If the hypotheses of a sentence do not have the same
    source, key and padding are returned as they are, with 1 for n.
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
    """Turn hypotheses into queries of their sentence, (B n, H, T, d) -> (B, H, n T, d); B is ``sentences``."""
    if q.size(0) == sentences:
        return q
    return q.unflatten(0, (sentences, -1)).transpose(1, 2).flatten(2, 3)


def as_hypotheses(x: Tensor, length: int) -> Tensor:
    """The inverse of ``as_queries``, (B, H, n T, d) -> (B n, H, T, d); T is ``length``."""
    if x.size(2) == length:
        return x
    return x.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)


def append(old: Tensor, order: Tensor | None, new: Tensor) -> Tensor:
    """Concatenate ``old`` (B, H, S, d), in a new order of the batch if given, and ``new`` (B, H, T, d), in one copy."""
    if order is None or (torch.is_grad_enabled() and (old.requires_grad or new.requires_grad)):
        return torch.cat((old if order is None else old[order], new), dim=2)
    before = old.size(2)
    whole = new.new_empty(*new.shape[:2], before + new.size(2), new.size(3))
    torch.index_select(old, 0, order, out=whole[:, :, :before])
    whole[:, :, before:] = new
    return whole


def grown(cache: dict[str, Any], padding: Tensor | None, **new: Tensor) -> dict[str, Any]:
    """Return a cache with new positions appended, after its hypotheses are brought into their new order.

    ``new`` are the keys and values of the new positions by name, (B, H, T, d), and ``padding`` (B, T) is true where one
    of them is padding. The result has those of all positions, (B, H, S, d), their ``padding``, and ``order``.
    """
    if not cache:
        return {**new, "padding": padding, "order": None}
    old, order = cache["padding"], cache["order"]
    whole = {name: append(cache[name], order, x) for name, x in new.items()}
    if old is not None or padding is not None:
        name, x = next(iter(whole.items()))
        before, none = cache[name].size(2), x.new_zeros(x.size(0), x.size(2), dtype=torch.bool)
        if old is None:
            old = none[:, :before]
        elif order is not None:
            old = old[order]
        padding = torch.cat((old, none[:, before:] if padding is None else padding), dim=1)
    return {**whole, "padding": padding, "order": None}


def reorder(cache: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
    """Return the cache, reordered with the hypotheses of a beam.

    A growing cache follows any order. A cache of the source changes only when sentences leave the batch: like fairseq,
    it assumes that an order of as many hypotheses as before leaves each hypothesis with its sentence.
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
        kept, n = sentences, 1  # the beam has another size: repeated sentences had been taken for hypotheses
    return cache | {name: x[kept] for name, x in tensors.items()} | {"hypotheses": n}
