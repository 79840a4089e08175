"""Histories: how a layer reads the outputs of all layers before it.

A *history* mixes y_0, the embedding, and the outputs y_1 to y_l of all earlier layers into the input of layer l + 1;
the last mixture is the stack's output. ``residual``, ``dense`` and ``learnable_dense`` come from Wang et al. 2019,
"Learning Deep Transformer Models for Machine Translation" (DLCL); the ODE Transformer has dense connections
(appendix B). They read z_0 = y_0 and z_l = LN_l(y_l); in a post-norm stack z_l is the output itself, and LN_l
normalizes the mixture. docs/beyond.md has the sources of the others.

Where the parameters of ``learnable_dense`` have a counterpart in the released codes, they have its name:
``history.weight`` (a square matrix whose upper triangle is never used) and ``history.layer_norms``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..errors import OdeTransformerError
from ..numerics.integrators import EULER, Multistep
from ..numerics.protocol import NOTHING, Field, Integrator, Learned
from ..numerics.registry import Registry


class History(nn.Module):
    """A layer's input as a mixture of tensors kept of earlier outputs; the first of them is y_0.

    This base class has no weights: each layer reads the previous output. Others are constructed from the number of
    layers L, the width C, and whether the layers are pre-norm.
    """

    def keep(self, kept: Sequence[Tensor], y: Tensor) -> Tensor:
        """Return the tensor to keep of layer l's output y, (T, B, C); ``kept`` holds those of layers 0 to l - 1."""
        return y

    def mix(self, kept: Sequence[Tensor]) -> Tensor:
        """Return the input of layer l + 1, (T, B, C), from layers 0 to l; after the last layer, the stack's output."""
        return kept[-1]


class SchemeWeights(History):
    """The learned weights of a multistep scheme in L layers, which a stack has in place of a history."""

    def __init__(self, depth: int, scheme: Multistep):
        super().__init__()
        initial = torch.tensor(scheme.initial(depth))
        self.weight = nn.Parameter(initial) if initial.numel() else None


class Corrector(History):
    """The parameters of ``PredictorCorrector``, which a stack has in place of a history.

    W and W_c start as means; their first rows are never used, because the first layer reads the embedding. The names
    are the released code's, but for ``prediction_norms``, which are renamed when a released checkpoint is loaded.
    """

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__()
        self.layer_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in range(depth))
        self.weight, self.weight_c = (nn.Parameter(means(depth)) for _ in range(2))
        self.prediction_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in range(depth))


@dataclass(frozen=True)
class PredictorCorrector(Integrator):
    """PCformer's step: a method predicts, which carries nothing by itself, and a mixture of all states before corrects.

    Li et al. 2024 (arXiv 2411.03042). Layer l + 1 reads x_l, where x_0 = z_0 is the embedding, and its step from there,
    with any method and coefficients, is the prediction P. With z' = LN'(P), the layer then takes an Euler step from a
    mixture of all states so far, and layer l + 2 reads a second mixture::

        c = sum_{k <= l} W[l + 1, k] z_k + W[l + 1, l + 1] z'
        z_{l+1} = LN(c + f(c))
        x_{l+1} = sum_{k <= l + 1} W_c[l + 1, k] z_k

    With ``--ode-residual released`` the prediction alone is in that form, as in the released code.
    """

    predictor: Integrator

    @property
    def stages(self) -> int:
        return self.predictor.stages + 1

    def step(
        self, f: Field, y: Tensor, carried: Sequence[Tensor] | None = None, h: float = 1.0, learned: Learned = NOTHING
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """As in ``Integrator``: from x_l, carrying z_0 to z_l, to x_(l + 1), carrying z_0 to z_(l + 1).

        ``learned.own`` is a ``Corrector``; the predictor reads the rest.
        """
        states, corrector = (y,) if carried is None else carried, learned.own
        before = len(states)
        prediction, more = self.predictor.step(f, y, None, h, learned)
        if more is not None:  # such as a plugin's method
            raise OdeTransformerError("history corrector: needs a method that carries nothing from layer to layer")
        guess = corrector.prediction_norms[before - 1](prediction)
        c = mixture(corrector.weight, before, (*states, guess))
        z, _ = EULER.step(lambda c, _: f(c, self.predictor.stages), c, None, h)
        states = (*states, corrector.layer_norms[before - 1](z))
        return mixture(corrector.weight_c, before, states), states


class DenseFormer(History):
    """sum_k W[l, k] y_k, where W starts as the identity: one row per layer; the upper triangle is unused."""

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(depth + 1)[1:])

    def mix(self, kept: Sequence[Tensor]) -> Tensor:
        return kept[0] if len(kept) == 1 else mixture(self.weight, len(kept) - 2, kept)


class AttentionOverLayers(History):
    """sum_k softmax_k(w_l . RMSNorm(y_k)) y_k, where w_l starts at 0, which gives the mean.

    The norm has no gain, because w_l would absorb it.
    """

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(depth, embed_dim))  # w_1 to w_L

    def mix(self, kept: Sequence[Tensor]) -> Tensor:
        if len(kept) == 1:
            return kept[0]
        past = torch.stack(list(kept), dim=-2)  # (T, B, l + 1, C)
        scores = F.rms_norm(past, past.shape[-1:], eps=1e-5) @ self.weight[len(kept) - 2]  # (T, B, l + 1)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).type_as(past)
        return (weights.unsqueeze(-2) @ past).squeeze(-2)


class _Mixture(torch.autograd.Function):
    """sum_k W[l, k] y_k as one contraction; the stacked tensor is not kept for the backward pass, but stacked again.

    It takes all of W, not its row: the gradients of indexing would be several more operations.
    """

    @staticmethod
    def forward(ctx, weight: Tensor, row: int, *states: Tensor) -> Tensor:
        ctx.save_for_backward(weight, *states)
        ctx.row = row
        with torch.autocast(weight.device.type, enabled=False):
            rows = torch.stack(states).flatten(1)  # an embedding may be in half precision, and the others not
            return (weight[row, : len(states)].type_as(rows) @ rows).view_as(states[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, *states = ctx.saved_tensors
        used = ctx.row, slice(len(states))
        flat = gradient.flatten()
        rows = torch.stack(states).flatten(1)
        # On a CPU PyTorch's product with a vector is slow in half precision.
        slow = weight.device.type == "cpu" and weight.element_size() == 2
        product, of_weight = torch.linalg.vecdot if slow else torch.mv, torch.zeros_like(weight)
        product(rows.type_as(weight), flat.type_as(weight), out=of_weight[used])
        of_states = torch.outer(weight[used].type_as(flat), flat).unflatten(1, gradient.shape)
        return of_weight, None, *of_states


def mixture(weight: Tensor, row: int, states: Sequence[Tensor]) -> Tensor:
    """sum_k weight[row, k] states[k] over states (T, B, C); further weights of the row are ignored."""
    return _Mixture.apply(weight, row, *states)


def means(depth: int) -> Tensor:
    """Return the weights of means, (L + 1, L + 1): row l averages the states 0 to l."""
    rows = torch.arange(1, depth + 2, dtype=torch.float)
    return torch.ones(depth + 1, depth + 1).tril() / rows[:, None]


class NormedHistory(History):
    """A history of normalized layer outputs, z_l = LN_l(y_l); in a post-norm stack the mixtures are normalized."""

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__()
        self.pre_norm = pre_norm
        self.layer_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in range(depth))

    def keep(self, kept: Sequence[Tensor], y: Tensor) -> Tensor:
        return self.layer_norms[len(kept) - 1](y) if self.pre_norm else y

    def mix(self, kept: Sequence[Tensor]) -> Tensor:
        mixed = self.unnormed(kept)
        return mixed if self.pre_norm or len(kept) == 1 else self.layer_norms[len(kept) - 2](mixed)

    def unnormed(self, kept: Sequence[Tensor]) -> Tensor:
        """Return the mixture before its norm, if it has one, (T, B, C)."""
        raise NotImplementedError


class Residual(NormedHistory):
    """x_l = x_{l-1} + z_l; x_l itself is kept, in a post-norm stack normalized."""

    def keep(self, kept: Sequence[Tensor], y: Tensor) -> Tensor:
        norm = self.layer_norms[len(kept) - 1]
        return kept[-1] + norm(y) if self.pre_norm else norm(kept[-1] + y)

    def mix(self, kept: Sequence[Tensor]) -> Tensor:
        return kept[-1]


class Dense(NormedHistory):
    """The mean of z_0 to z_l; their sums are kept."""

    def keep(self, kept: Sequence[Tensor], y: Tensor) -> Tensor:
        return kept[-1] + super().keep(kept, y)

    def unnormed(self, kept: Sequence[Tensor]) -> Tensor:
        return kept[-1] / len(kept)


class LearnableDense(NormedHistory):
    """sum_k W[l, k] z_k, where W starts as the mean."""

    def __init__(self, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth, embed_dim, pre_norm)
        self.weight = nn.Parameter(means(depth))

    def unnormed(self, kept: Sequence[Tensor]) -> Tensor:
        return mixture(self.weight, len(kept) - 1, kept)


HISTORIES: Registry[Callable[[int, int, bool], History]] = Registry(
    "history",
    {
        "none": lambda depth, embed_dim, pre_norm: History(),
        "residual": Residual,
        "dense": Dense,
        "learnable_dense": LearnableDense,
        "denseformer": DenseFormer,
        "attention": AttentionOverLayers,
        "corrector": Corrector,
    },
)
"""(number of layers, C, pre-norm) -> the history."""
