"""What passes between the layers of a stack beside the state: dense connections and multistep schemes.

A *history* mixes the outputs of all earlier layers into the input of the next (Wang et al. 2019, "Learning Deep
Transformer Models for Machine Translation", DLCL; the ODE Transformer's appendix B has it in every system). With z_0
the embedding and z_l = LN_l(output of layer l), layer l + 1 reads

- ``residual``: x_l = x_{l-1} + z_l;
- ``dense``: the mean of z_0 to z_l;
- ``learnable_dense``: sum_k W[l, k] z_k, W starting as that mean.

The last mixture is the stack's output. In a post-norm stack z_l is the output itself, and LN_l normalises x_l.
The names of parameters are those of the released code: ``history.weight`` (all of a square, of which the upper triangle
is never used), ``history.layer_norms``.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import torch
from fairseq.modules import LayerDropModuleList, LayerNorm
from torch import Tensor, nn

from ..numerics.coefficients import weighted_sum
from ..numerics.integrators import Multistep, multistep_step
from .positions import Place

HISTORIES = ("none", "residual", "dense", "learnable_dense")


class Connection(nn.Module):
    """What a stack does between its layers; ``past`` holds what one pass through the stack has to remember.

    Args:
        depth: layers of the stack.
    """

    reads_increments = False
    """Whether a layer hands over its increment, or its output."""

    def __init__(self, depth: int):
        super().__init__()
        self.depth = depth

    def begin(self, past: list, x: Tensor) -> Tensor:
        """Embedding (T, B, C) -> input of the first layer."""
        raise NotImplementedError

    def follow(self, past: list, y: Tensor) -> Tensor:
        """What a layer handed over (T, B, C) -> input of the next, or output of the stack."""
        raise NotImplementedError


class History(Connection):
    """A history of the kind ``residual``, ``dense`` or ``learnable_dense``.

    Args:
        kind: which.
        depth: L, layers of the stack.
        embed_dim: C.
        pre_norm: whether the layers are.
    """

    def __init__(self, kind: str, depth: int, embed_dim: int, pre_norm: bool):
        super().__init__(depth)
        if kind not in HISTORIES[1:]:
            raise ValueError(f"history {kind!r}: must be one of {', '.join(HISTORIES)}")
        self.kind = kind
        self.pre_norm = pre_norm
        self.layer_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in range(depth))
        if kind == "learnable_dense":
            rows = torch.arange(1, depth + 2, dtype=torch.float)
            self.weight = nn.Parameter(torch.ones(depth + 1, depth + 1).tril() / rows[:, None])

    def begin(self, past: list, x: Tensor) -> Tensor:
        past.append(x)
        return self.weight[0, 0] * x if self.kind == "learnable_dense" else x

    def follow(self, past: list, y: Tensor) -> Tensor:
        norm = self.layer_norms[len(past) - 1]
        z = norm(y) if self.pre_norm else y
        if self.kind == "learnable_dense":
            past.append(z)
            x = weighted_sum(list(self.weight[len(past) - 1, : len(past)]), past)
        else:
            past.append(past[-1] + z)
            x = past[-1] / len(past) if self.kind == "dense" else past[-1]
        if not self.pre_norm:
            x = norm(x)
            if self.kind == "residual":
                past[-1] = x
        return x


class MultistepConnection(Connection):
    """A multistep scheme over the layers of a stack, with its learned weights if it has some.

    Args:
        scheme: the scheme.
        depth: layers of the stack.
    """

    reads_increments = True

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


class Stack(LayerDropModuleList):
    """The layers of an encoder or a decoder, for fairseq's loop ``for layer in self.layers: x = layer(x, ...)``.

    Iterating yields what stands in for each layer: it calls the layer, hands it what the layers share, and passes on
    what the connection makes of the result. A loop has its own past, so that passes do not disturb each other.

    Args:
        layers: they and nothing else are the stack's children, under their usual names.
        layerdrop: probability of leaving a layer out in training.
        connection: what happens between layers; the owner of the stack registers it. None: nothing.
        shared: keyword arguments for every layer.

    Raises:
        ValueError: a connection together with layer drop, or made for another depth.
    """

    def __init__(
        self, layers: Iterable[nn.Module], layerdrop: float, connection: Optional[Connection], shared: dict[str, Any]
    ):
        super().__init__(layerdrop, layers)
        if connection is not None and layerdrop > 0:
            raise ValueError(f"layer drop {layerdrop}: must be 0 with a history or a multistep scheme of fixed depth")
        if connection is not None and connection.depth != len(self):
            raise ValueError(f"a history of depth {connection.depth} does not fit {len(self)} layers")
        # References to what the owner registers; as attributes of a module they would become children here.
        self.__dict__.update(connection=connection, shared=shared)
        self.places: Optional[Sequence[Place]] = None

    @contextmanager
    def told(self, places: Sequence[Place]) -> Iterator[None]:
        """Within, a pass tells each layer its place, what a position encoder says of the tokens."""
        self.places = places
        try:
            yield
        finally:
            self.places = None

    def __getitem__(self, index: Any) -> Any:
        """A layer, or some of them, as of ``nn.ModuleList``."""
        return nn.ModuleList(nn.ModuleList.__iter__(self))[index]

    def __iter__(self) -> Iterator[Any]:
        # LayerDropModuleList draws random numbers even when it drops nothing.
        layers = super().__iter__() if self.p > 0 else nn.ModuleList.__iter__(self)
        if self.connection is None and not self.shared and self.places is None:
            return layers
        past: list = []
        places = {} if self.places is None else dict(zip(nn.ModuleList.__iter__(self), self.places, strict=True))
        return (Connected(layer, self.connection, self.shared, past, places.get(layer, Place())) for layer in layers)


class Connected:
    """A layer within one pass through its stack: call it as the layer; all else about it is the layer's."""

    def __init__(
        self, layer: nn.Module, connection: Optional[Connection], shared: dict[str, Any], past: list, place: Place
    ):
        self.layer, self.connection, self.shared, self.past, self.place = layer, connection, shared, past, place

    def __call__(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        connection, kwargs = self.connection, kwargs | self.shared
        if connection is not None:
            if not self.past:
                x = connection.begin(self.past, x)
            if connection.reads_increments:
                kwargs["increment"] = True
        if self.place.addition is not None:
            x = x + self.place.addition
        if self.place.biases:
            kwargs["biases"] = self.place.biases
        result = self.layer(x, *args, **kwargs)
        if connection is None:
            return result
        if isinstance(result, tuple):  # a decoder layer's state, attention weights, None
            return connection.follow(self.past, result[0]), *result[1:]
        return connection.follow(self.past, result)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.layer, name)

    def __repr__(self) -> str:
        return repr(self.layer)
