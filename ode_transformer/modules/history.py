"""What passes between the layers of a stack besides the state: dense connections and multistep schemes.

A *history* mixes the outputs of all earlier layers into the input of the next. With y_0 the embedding and y_l the
output of layer l, layer l + 1 reads

- ``denseformer``: sum_k W[l, k] y_k, where W starts as the identity, which is the Transformer itself (Pagliardini et
  al. 2024, "DenseFormer: Enhancing Information Flow in Transformers via Depth Weighted Averaging"; without dilation);
- ``attention``: sum_k softmax_k(w_l . RMSNorm(y_k)) y_k, where w_l starts at 0, which gives the mean. This is our
  variant of "Attention Residuals" (arXiv 2603.15031), which we know only from descriptions: there the mixture is of
  v_0, the embedding, and of the increments v_k = f_k(x_k), and replaces the residual connection; here y_k = x_k +
  f_k(x_k) is the output of layer k, its residual included.

The others come from Wang et al. 2019, "Learning Deep Transformer Models for Machine Translation" (DLCL); all systems of
the ODE Transformer have them (appendix B). With z_0 = y_0 and z_l = LN_l(y_l), layer l + 1 reads

- ``residual``: x_l = x_{l-1} + z_l;
- ``dense``: the mean of z_0 to z_l;
- ``learnable_dense``: sum_k W[l, k] z_k, where W starts as that mean.

The last mixture is the stack's output. In a post-norm stack z_l is the output itself, and LN_l normalizes x_l.

A *corrector* is a history that evaluates a layer once more: ``corrector`` is that of PCformer (Li et al. 2024,
"Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning", arXiv 2411.03042).
Layer l + 1 reads x_l, and its step from there, with any integrator and coefficients, is the prediction P. With z' =
LN'(P), the layer then takes an Euler step from a mixture of all states so far, and layer l + 2 reads a second mixture::

    c = sum_{k <= l} W[l + 1, k] z_k + W[l + 1, l + 1] z'
    z_{l+1} = LN(c + f(c))
    x_{l+1} = sum_{k <= l + 1} W_c[l + 1, k] z_k

Where the parameters of ``learnable_dense`` and ``corrector`` have a counterpart in the released codes, they have its
name: ``history.weight`` and ``history.weight_c`` (square matrices whose upper triangles are never used), and
``history.layer_norms``. The corrector's ``prediction_norms`` are renamed when a released checkpoint is loaded.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Optional

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn
from torch.nn import functional as F

from ..numerics.coefficients import weighted_sum
from ..numerics.integrators import Multistep, multistep_step
from ..numerics.table import Table
from .options import Options


class Connection(nn.Module):
    """What a stack does between its layers. This base class does nothing: each layer reads the output of the previous.

    The methods receive ``past``, initially an empty list, in which one pass through the stack keeps what it needs.

    Args:
        depth: L, the number of layers.
    """

    def __init__(self, depth: int):
        super().__init__()
        self.depth = depth

    def begin(self, past: list, x: Tensor) -> Tensor:
        """Embedding (T, B, C) -> the input of the first layer."""
        return x

    def follow(self, past: list, y: Tensor) -> Tensor:
        """The output of a layer (T, B, C) -> the input of the next layer, or the output of the stack."""
        return y

    def corrector(self, past: list) -> Optional[Callable[[Tensor], Tensor]]:
        """A function that turns the result of the next layer's step, (T, B, C), into the state, (T, B, C), from which
        that layer then takes an Euler step; None for no correction. The function keeps its own copy of ``past``, so
        that recomputation in the backward pass can call it again.
        """
        return None


class History(Connection):
    """A history of layer outputs; a subclass defines how it mixes them.

    Args:
        depth: L, the number of layers.
        embed_dim: C, the width.
        pre_norm: whether the layers are pre-norm.
    """

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth)
        self.pre_norm = pre_norm

    def begin(self, past: list, x: Tensor) -> Tensor:
        past.append(x)
        return x

    def follow(self, past: list, y: Tensor) -> Tensor:
        return self.mix(past, y)

    def mix(self, past: list, z: Tensor) -> Tensor:
        """z_l (T, B, C) -> the input of layer l + 1; ``past`` has an entry for z_0 and for every earlier layer."""
        raise NotImplementedError


class DenseFormer(History):
    """sum_k W[l, k] y_k, where W starts as the identity: one row per layer; the upper triangle is unused."""

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth, embed_dim, pre_norm)
        self.weight = nn.Parameter(torch.eye(depth + 1)[1:])

    def mix(self, past: list, z: Tensor) -> Tensor:
        past.append(z)
        return _mixture(self.weight[len(past) - 2], past)


class AttentionOverLayers(History):
    """sum_k softmax_k(w_l . RMSNorm(y_k)) y_k, where w_l starts at 0; our variant of arXiv 2603.15031.

    y_k is the output of layer k, its residual included, while the paper mixes the embedding and the increments of the
    layers. The norm has no gain, because w_l would absorb it.
    """

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth, embed_dim, pre_norm)
        self.weight = nn.Parameter(torch.zeros(depth, embed_dim))  # w_1 to w_L

    def begin(self, past: list, x: Tensor) -> Tensor:
        past.append((x, self._scores(x)))
        return x

    def mix(self, past: list, z: Tensor) -> Tensor:
        layer = len(past) - 1
        past.append((z, self._scores(z)))
        scores = torch.stack([scores[..., layer] for _, scores in past], dim=-1)  # (T, B, l + 1)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).type_as(z)
        return weighted_sum(weights.split(1, dim=-1), [z for z, _ in past])

    def _scores(self, z: Tensor) -> Tensor:
        # For all layers at once, (T, B, L), although earlier layers do not need them: one product in place of l.
        return F.linear(F.rms_norm(z, z.shape[-1:], eps=1e-5), self.weight)


def _mixture(weights: Tensor, past: Sequence[Tensor]) -> Tensor:
    """sum_k weights[k] past[k] over the states past[k], (T, B, C); further weights are ignored."""
    return weighted_sum(list(weights[: len(past)]), past)


def _means(depth: int) -> Tensor:
    """The weights of means, (L + 1, L + 1): row l has those of the mean of the states 0 to l."""
    rows = torch.arange(1, depth + 2, dtype=torch.float)
    return torch.ones(depth + 1, depth + 1).tril() / rows[:, None]


class NormedHistory(History):
    """A history of normalized layer outputs, z_l = LN_l(y_l); in a post-norm stack the mixtures are normalized instead.

    Args:
        depth, embed_dim, pre_norm: as in ``History``.
    """

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth, embed_dim, pre_norm)
        self.layer_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in range(depth))

    def follow(self, past: list, y: Tensor) -> Tensor:
        norm = self.layer_norms[len(past) - 1]
        if self.pre_norm:
            return self.mix(past, norm(y))
        return norm(self.mix(past, y))


class Residual(NormedHistory):
    """x_l = x_{l-1} + z_l."""

    def follow(self, past: list, y: Tensor) -> Tensor:
        norm = self.layer_norms[len(past) - 1]
        # In a post-norm stack the sum continues from the normalized state.
        past.append(past[-1] + norm(y) if self.pre_norm else norm(past[-1] + y))
        return past[-1]


class Dense(NormedHistory):
    """The mean of z_0 to z_l."""

    def mix(self, past: list, z: Tensor) -> Tensor:
        past.append(past[-1] + z)  # the sum so far
        return past[-1] / len(past)


class LearnableDense(NormedHistory):
    """sum_k W[l, k] z_k, where W starts as the mean."""

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth, embed_dim, pre_norm)
        self.weight = nn.Parameter(_means(depth))

    def begin(self, past: list, x: Tensor) -> Tensor:
        past.append(x)
        return self.weight[0, 0] * x

    def mix(self, past: list, z: Tensor) -> Tensor:
        past.append(z)
        return _mixture(self.weight[len(past) - 1], past)


class Corrector(NormedHistory):
    """PCformer's corrector: two matrices W and W_c over the states, both starting as means.

    Their first rows are never used, because the first layer reads the embedding.

    Args:
        depth, embed_dim, pre_norm: as in ``History``; ``pre_norm`` must be true.
    """

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth, embed_dim, pre_norm)
        self.weight, self.weight_c = (nn.Parameter(_means(depth)) for _ in range(2))
        self.prediction_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in range(depth))

    def corrector(self, past: list) -> Callable[[Tensor], Tensor]:
        return partial(self._correct, tuple(past))

    def _correct(self, past: tuple[Tensor, ...], prediction: Tensor) -> Tensor:
        z = self.prediction_norms[len(past) - 1](prediction)
        return _mixture(self.weight[len(past)], (*past, z))

    def mix(self, past: list, z: Tensor) -> Tensor:
        past.append(z)
        return _mixture(self.weight_c[len(past) - 1], past)


HISTORIES: Table[Optional[Callable[[int, int, bool], Connection]]] = Table(
    "history",
    {
        "none": None,
        "residual": Residual,
        "dense": Dense,
        "learnable_dense": LearnableDense,
        "denseformer": DenseFormer,
        "attention": AttentionOverLayers,
        "corrector": Corrector,
    },
)
"""(number of layers, C, pre-norm) -> what stands between the layers."""


class MultistepConnection(Connection):
    """A multistep scheme over the layers of a stack, with its learned weights. The layers return their increments.

    Args:
        scheme: the scheme.
        depth: the number of layers.
    """

    def __init__(self, scheme: Multistep, depth: int):
        super().__init__(depth)
        self.scheme = scheme
        initial = torch.tensor(scheme.initial(depth) if scheme.initial else [])
        self.weight = nn.Parameter(initial) if initial.numel() else None

    def begin(self, past: list, x: Tensor) -> Tensor:
        past.append(([x], []))
        return x

    def follow(self, past: list, y: Tensor) -> Tensor:
        states, increments = past[0]
        increments.append(y)
        states.append(multistep_step(self.scheme, states, increments, self.weight))
        return states[-1]


def build_connection(options: Options, depth: int, embed_dim: int, pre_norm: bool) -> Connection:
    """What stands between the layers of a stack: a history, a multistep scheme, or nothing."""
    if isinstance(options.integrator, Multistep):
        return MultistepConnection(options.integrator, depth)
    history = HISTORIES.named(options.history)
    return Connection(depth) if history is None else history(depth, embed_dim, pre_norm)
