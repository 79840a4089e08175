"""Attention computed once from the initial state and evolved over depth, on fused kernels.

Dutta et al. 2021, "Redesigning the Transformer Architecture with Insights from Multi-particle Dynamical Systems"
(TransEvolve), equations 6 to 9. Layer l of a block attends with the scores ::

    A0 + A1 T_l + T_l A2 + A3 (T_l o T_l),        A0 = (X0 Wq)(X0 Wk)^T (d/m)^-1/2,

where A1 T_l is constant along each row, and the A3 term everywhere, so that softmax cancels both. What remains, T_l A2,
is the product of one vector per layer, c_l = T_l W~q, with the keys. A layer's attention is therefore ordinary scaled
dot-product attention, and no (T, S) matrix is ever held:

- ``paper`` form, with heads split everywhere: the queries are shifted, q + (d/m)^1/2 c_l, because only A0 is scaled;
- ``released`` form, with c_h against the keys of all heads: one bias per key, which is one more column of the keys.

Legend: B sentences, T queries, S keys, m heads, d model width, D = d + d' width of queries and keys, e = D/m, l depth.
"""

import math
from typing import NamedTuple

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import fused_kernel, in_heads
from .dropout import Dropout
from .incremental import Cached, as_hypotheses, as_queries, grown, once_a_sentence

FORMS = ("paper", "released")

# The score of padding: far below all other scores and within the range of fp16, and its exp() is 0.
_HIDDEN = -3e4
_EPS = 1e-3  # of norms, as released


def fused_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, key_bias: Tensor | None, causal: bool) -> Tensor:
    """softmax(q k^T scale + key_bias) v with memory linear in T and S: q (B, m, T, e), k (B, m, S, e), v (B, m, S, d/m)
    and ``key_bias`` (B, m, S), which is not scaled, -> (B, m, T, d/m).

    The bias becomes a column of the keys, and values are padded to the width of the keys: with a mask, or with values
    of another width, PyTorch would silently not use its fused kernels. If ``causal``, a query sees no key after its own
    position, and T = S.
    """
    if key_bias is not None:
        k = torch.cat((k, key_bias.unsqueeze(-1).type_as(k)), dim=-1)
    k = _of_kernel_width(k)
    q = _widened(q, k.size(-1), value=1 / scale)  # times the bias, which is not to be scaled, or 0
    width = v.size(-1)
    v = _widened(v, k.size(-1))
    return fused_kernel(q, k, v, is_causal=causal, scale=scale)[..., :width]


def _widened(x: Tensor, width: int, value: float = 0.0) -> Tensor:
    """Pad x to this width with a value; return x itself if it has the width, because ``F.pad`` would copy it."""
    return x if x.size(-1) == width else F.pad(x, (0, width - x.size(-1)), value=value)


def _of_kernel_width(k: Tensor) -> Tensor:
    """Pad keys to a width that flash attention takes on a GPU, a multiple of 8."""
    return _widened(k, k.size(-1) + (-k.size(-1) % 8 if k.is_cuda else 0))


def waves(size: int, depth_index: int, depth: int, form: str) -> Tensor:
    """T_l / w (d',), the waves of the learned Fourier map of depth (equation 7), in double precision.

    Paper: ``sin(2 pi j l / (d' L))``, then cosines, with j and l from 1. Released code: ``sin(j l pi / 64)`` with j and
    l from 0, so that all sines are 0 in the first layer of a block. ``depth_index`` is l counted from 0.
    """
    j = torch.arange(size // 2, dtype=torch.float64)
    if form == "paper":
        angle = 2 * math.pi * (j + 1) * (depth_index + 1) / (size * depth)
    else:
        angle = j * depth_index * math.pi / 64
    return torch.cat((angle.sin(), angle.cos()))


class State(NamedTuple):
    """The part of the attention that a block computes once."""

    queries: Tensor  # (B, m, T, e)
    keys: Tensor  # (B, m, S, e)
    padding: Tensor | None  # (B, S), true where a key is padding; None if there is none
    time_query: Tensor  # W~q (D, d'), with as many rows per head as queries have columns
    # Of the source, (B, m, S, d/m), normalized without a norm's weights; None if each layer attends to its own input.
    values: Tensor | None = None

    def fitted(self) -> "State":
        """Return a state of the ``paper`` form, prepared once as ``fused_attention`` would at every depth.

        Padding becomes a column of the keys. Queries, their shifts W~q T_l, and values are padded to the width of the
        keys.
        """
        queries, keys, _, time_query, values = self
        width = keys.size(-1)
        if self.padding is not None:
            hidden = self.padding[:, None, :, None].type_as(keys) * _HIDDEN  # (B, 1, S, 1)
            keys = _of_kernel_width(torch.cat((keys, hidden.expand(-1, keys.size(1), -1, -1)), dim=-1))
            # Over the scale, which is (d/m)^-1/2 = (e/2)^-1/2.
            queries = _widened(queries, keys.size(-1), value=(width / 2) ** 0.5)
            of_heads = time_query.unflatten(0, (-1, width))  # (m, e, d')
            time_query = F.pad(of_heads, (0, 0, 0, keys.size(-1) - width)).flatten(0, 1)
        if values is not None:
            values = _widened(values, keys.size(-1))
        return State(queries, keys, None, time_query, values)


@with_incremental_state
class InitialState(Cached, nn.Module):
    """The queries and keys of a block, from its input (the initial state of the particles).

    Args:
        embed_dim: d, even; the temporal dimension d' is the same.
        heads: m, which divides d.
        dropout: the dropout of queries and keys, applied once per block in training.
    """

    beam_size = 1

    def __init__(self, embed_dim: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        width = 2 * embed_dim  # D = d + d'
        self.query = nn.Linear(embed_dim, width, bias=False)  # Wq
        self.key = nn.Linear(embed_dim, width, bias=False)  # Wk
        self.time_query = nn.Parameter(torch.empty(width, embed_dim))  # W~q
        # W~k occurs only in A1 and A3, which softmax cancels, so that its gradient is 0. It is kept so that the number
        # of parameters is the paper's.
        self.time_key = nn.Parameter(torch.empty(width, embed_dim), requires_grad=False)
        bound = math.sqrt(3 / width)  # Glorot's for the whole (D, D) matrix
        for weight in (self.query.weight, self.key.weight, self.time_query, self.time_key):
            nn.init.uniform_(weight, -bound, bound)
        self.dropout_module = Dropout(dropout, module_name=self.__class__.__name__)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
    ) -> State:
        """Project the block's input (T, B, d), and the states to attend to, ``source`` (S, B, d), or the input itself.

        ``padding_mask`` is (B, S), true where a key is padding; in incremental decoding of the new position, unless
        there is a source.
        """
        q = in_heads(self.dropout_module(self.query(x)), self.heads)
        cache = self.cached(incremental_state)
        if source is None:
            k = in_heads(self.dropout_module(self.key(x)), self.heads)
            cache = grown(cache, padding_mask, keys=k)
        elif not cache:
            hypotheses = 1
            if incremental_state is not None:
                source, padding_mask, hypotheses = once_a_sentence(source, padding_mask, self.beam_size)
            k = in_heads(self.dropout_module(self.key(source)), self.heads)
            values = in_heads(F.layer_norm(source, source.shape[-1:], eps=_EPS), self.heads)
            cache = {"keys": k, "values": values, "padding": padding_mask, "hypotheses": hypotheses}
        self.keep(incremental_state, cache)
        return State(q, cache["keys"], cache["padding"], self.time_query, cache.get("values"))

    def set_beam_size(self, beam_size: int) -> None:
        """Set the number of hypotheses per sentence."""
        self.beam_size = beam_size


@with_incremental_state
class EvolvingAttention(Cached, nn.Module):
    """Attention at depth l of a block, with the block's queries and keys (equation 9).

    ``depth_index``, ``depth`` and ``form`` are as in ``waves``.
    """

    def __init__(self, embed_dim: int, heads: int, depth_index: int, depth: int, form: str, dropout: float):
        super().__init__()
        self.heads, self.form = heads, form
        self.head_dim = embed_dim // heads  # d/m
        limit = math.sqrt(6 / embed_dim)
        self.time_weights = nn.Parameter(torch.empty(embed_dim).uniform_(-limit, limit))
        self.register_buffer("waves", waves(embed_dim, depth_index, depth, form), persistent=False)
        self.layer_norm = nn.LayerNorm(embed_dim, eps=_EPS)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)  # Wo
        nn.init.xavier_uniform_(self.out.weight)
        self.dropout_module = Dropout(dropout, module_name=self.__class__.__name__)

    def evolved(self, q: Tensor, k: Tensor, time_query: Tensor) -> tuple[Tensor, float, Tensor | None]:
        """Return queries (B, m, T, e), a scale and a bias of keys (B, m, S) or None, such that q k^T scale + bias are
        the scores at this depth, A0 + T_l A2 (equation 9).
        """
        t = self.time_weights * self.waves.type_as(self.time_weights)  # T_l (d',)
        if self.form == "paper":
            c = self.head_dim**0.5 * (time_query @ t)  # W~q T_l
            return q + c.view(self.heads, 1, -1), self.head_dim**-0.5, None
        c = torch.einsum("Dmt,mt->mD", time_query.unflatten(1, (self.heads, -1)), t.view(self.heads, -1))
        key_bias = torch.einsum("mhe,bhse->bms", c.unflatten(1, (self.heads, -1)), k)  # against whole keys
        return q, k.size(-1) ** -0.5, key_bias

    def forward(
        self, values: Tensor, state: State, causal: bool = False, incremental_state: dict | None = None
    ) -> Tensor:
        """Attend with the block's queries and keys to the values of this depth.

        The values of the source differ between depths only by a norm's weights. These commute with the weighted means
        that attention takes, and are applied after it.

        Args:
            values: (S, B, d), normalized here; in incremental decoding those of the new position, (1, B, d). Not
                read if the state has values.
            causal: whether a query sees no key after its own position.

        Returns:
            (T, B, d), to be added to the state.
        """
        q, k, v, length = state.queries, state.keys, state.values, state.queries.size(2)
        if v is None:
            v = in_heads(self.layer_norm(values), self.heads)  # no projection of values
            before = self.cached(incremental_state)
            causal = causal and not before  # in decoding, no key is ahead of the newest query
            cache = grown(before, None, values=v)
            self.keep(incremental_state, cache)
            v = cache["values"]
        q, scale, key_bias = self.evolved(as_queries(q, k.size(0)), k, state.time_query)
        if state.padding is not None:
            hidden = state.padding[:, None].type_as(k) * _HIDDEN  # (B, 1, S)
            key_bias = hidden.expand(-1, self.heads, -1) if key_bias is None else key_bias + hidden
        if length == 1 and q.dtype in (torch.float32, torch.float64):
            # For the few queries of a step of decoding two products are faster than a fused kernel, which only saves
            # memory for the scores. In half precision they would round the scores.
            scores = (q * scale) @ k.transpose(-2, -1)  # (B, m, T, S)
            x = (scores if key_bias is None else scores + key_bias.unsqueeze(2)).softmax(-1) @ v
        else:
            x = fused_attention(q, k, v, scale, key_bias, causal)
        x = as_hypotheses(x[..., : self.head_dim], length).permute(2, 0, 1, 3).flatten(2)
        if state.values is not None:
            x = torch.addcmul(self.layer_norm.bias, x, self.layer_norm.weight)
        return self.dropout_module(self.out(x))
