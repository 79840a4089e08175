"""TransEvolve's feed-forward: the Transformer's, or one with random rotations and learned singular values.

Dutta et al. 2021, equations 10 and 11: a matrix W (in, out) is U S V, where U and V are random and fixed, and S is the
rectangular diagonal matrix of learned singular values. Only r = min(in, out) of them meet both U and V, so that ::

    h W = ((h U[:, :r]) * s[:r]) V[:r].

For inference the three are folded into one matrix.
"""

import math
from typing import Any

import torch
from fairseq import utils
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from .dropout import Dropout

FEED_FORWARDS = ("full", "random")


def rotation(w: Tensor, depth_index: int, depth: int, form: str, out_features: int) -> Tensor:
    """The random matrix of equation 10 at depth l, (n, n), from w (n, n / 2), which is drawn from N(0, n^2).

    Paper: sin(w_ij 2 pi j l / (n L)) / sqrt(n), then cosines, with j and l from 1. Released code: sin(w_ij j l pi / n)
    / sqrt(out), with j and l from 0. ``depth_index`` is l counted from 0, ``depth`` is L.
    """
    n = len(w)
    j = torch.arange(n // 2, dtype=w.dtype)
    if form == "paper":
        angle = w * (2 * math.pi * (j + 1) * (depth_index + 1) / (n * depth))
        scale = n**-0.5
    else:
        angle = w * (math.pi * j * depth_index / n)
        scale = out_features**-0.5
    return torch.cat((angle.sin(), angle.cos()), dim=1) * scale


class RandomProjection(nn.Module):
    """h -> h U S V + b with random U and V, which are drawn from ``seed`` and saved in checkpoints as buffers.

    ``depth_index``, ``depth`` and ``form`` are as in ``rotation``.
    """

    def __init__(self, in_features: int, out_features: int, depth_index: int, depth: int, form: str, seed: int):
        super().__init__()
        r = min(in_features, out_features)
        g = torch.Generator().manual_seed(seed)
        w = [n * torch.randn(n, n // 2, generator=g, dtype=torch.float64) for n in (in_features, out_features)]
        u, v = (rotation(of, depth_index, depth, form, out_features) for of in w)
        self.register_buffer("left", u[:, :r].float().contiguous())
        self.register_buffer("right", v[:r].float().contiguous())
        limit = math.sqrt(6 / r)
        self.singular_values = nn.Parameter(torch.empty(r).uniform_(-limit, limit))
        # The paper has one singular value per input. Those beyond r meet no row of V; they are kept so that the number
        # of parameters is the paper's.
        self.unused = nn.Parameter(torch.zeros(in_features - r), requires_grad=False) if in_features > r else None
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, h: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return ((h @ self.left) * self.singular_values) @ self.right + self.bias

    @torch.no_grad()
    def folded(self) -> nn.Linear:
        """Return the same map with one matrix, U S V."""
        whole = (self.left.float() * self.singular_values.float()) @ self.right.float()
        linear = nn.Linear(*whole.shape, device="meta")
        linear.weight, linear.bias = nn.Parameter(whole.t().contiguous().type_as(self.bias)), self.bias
        return linear


class FeedForward(nn.Module):
    """Layer norm, then two linear maps with an activation between them, and dropout.

    ``depth_index`` is as in ``rotation``; ``seed`` is the seed of random matrices.
    """

    def __init__(self, cfg: TransformerConfig, side: str, depth_index: int, seed: int):
        super().__init__()
        width, inner = getattr(cfg, side).embed_dim, getattr(cfg, side).ffn_embed_dim
        self.layer_norm = nn.LayerNorm(width, eps=1e-3)
        self.activation_fn = utils.get_activation_fn(cfg.activation_fn)
        if cfg.evolution_feed_forward == "full":
            self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
            for linear in (self.fc1, self.fc2):
                nn.init.xavier_uniform_(linear.weight)
                nn.init.zeros_(linear.bias)
        else:
            where = (depth_index, cfg.evolution_depth, cfg.transevolve_form)
            self.fc1 = RandomProjection(width, inner, *where, seed=2 * seed)
            self.fc2 = RandomProjection(inner, width, *where, seed=2 * seed + 1)
        self.activation_dropout_module = Dropout(cfg.activation_dropout, module_name=self.__class__.__name__)
        self.dropout_module = Dropout(cfg.dropout, module_name=self.__class__.__name__)

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, d) -> (T, B, d), to be added to the state."""
        x = self.activation_dropout_module(self.activation_fn(self.fc1(self.layer_norm(x))))
        return self.dropout_module(self.fc2(x))

    def make_generation_fast_(self, **_: Any) -> None:
        """Fold random projections; fairseq's commands call this before generation, for good."""
        if isinstance(self.fc1, RandomProjection):
            self.fc1, self.fc2 = self.fc1.folded(), self.fc2.folded()
