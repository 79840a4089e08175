"""Position encoders: how the blocks of a Transformer learn where tokens are, besides the encoding of the input.

For a pass through a stack of layers, a ``PositionEncoder`` gives each layer a ``Place``: an addition to the layer's
input (``BlockPositions``, the tables and sinusoids of FLOATER's equation 7), or to the queries, keys and values of its
attentions (``BiasPositions``, FLOATER's equation 13: a flow, or a recurrent network). The values of a flow at all
positions, its *solution*, are computed once per pass, for encoder and decoder.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import PositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import OdeTransformerError
from ..numerics.flow import RECURRENT_INPUTS, Flow, Recurrence
from ..numerics.registry import Registry

POSITION_BLOCKS = ("all", "input")
FLOW_SHARING = ("all", "stack")

Solution = Sequence[Tensor]
"""b(t) - b(0) of every piece of ``BiasPositions`` at the positions 0 to N - 1, each (N, 1 to 3, C)."""

Index = slice | Tensor
"""The positions of the tokens: a slice, if all sentences have the same; one per token, (T, B); or ``_as_factor``."""


def can_ask(x: Tensor) -> bool:
    """Whether the host may read a value of a tensor.

    On a GPU it would have to wait for the value, and a graph that is traced or captured has to serve every batch.
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def padding_or_none(padding: Tensor) -> Tensor | None:
    """Return a padding mask (B, T), true where there is no token; None if the host may read it and finds no padding."""
    return None if can_ask(padding) and not padding.any() else padding


def token_positions(padding: Tensor, columns: slice) -> Index:
    """Return the positions of the tokens of some columns of (B, T): their indices, not counting padding."""
    if can_ask(padding) and not (padding[:, :-1] & ~padding[:, 1:]).any():
        return columns  # without padding before a token, columns are positions
    return ((~padding).cumsum(1) - 1).clamp(min=0)[:, columns].t().contiguous()  # as a view, products would copy it


class SinusoidalPositions(SinusoidalPositionalEmbedding):
    """fairseq's sinusoids of the input; shapes stay numbers, which fairseq turns into tensors that the host reads."""

    def forward(self, input: Tensor, incremental_state: dict | None = None, **_: Any) -> Tensor:
        """Tokens (B, T) -> (B, T, C); in incremental decoding (B, 1, C), for the last token."""
        sentences, length = input.shape
        if (least := self.padding_idx + 1 + length) > self.weights.size(0):
            longer = self.get_embedding(least, self.embedding_dim, self.padding_idx)
            self.weights = longer.to(self.weights)
        if incremental_state is not None:
            return self.weights[self.padding_idx + length].expand(sentences, 1, -1)
        real = input.ne(self.padding_idx)
        return F.embedding(real.cumsum(1) * real + self.padding_idx, self.weights)


def _as_factor(index: Index, table: Tensor) -> Index:
    """Return an index of the rows of a table (N, ...), in training on a GPU as a one-hot factor (T, B, N).

    The gradient of a product is a product, in whose sums half precision keeps its digits; that of a look-up is a sort.
    """
    if isinstance(index, slice) or can_ask(index) or not torch.is_grad_enabled():
        return index
    return (index.unsqueeze(-1) == torch.arange(table.size(0), device=table.device)).type_as(table)


class Biases(NamedTuple):
    """The biases of n projections of the same tokens by position, as a table that is looked up when it is needed."""

    table: Tensor  # (N, n, C)
    index: Index

    def look_up(self) -> Tensor:
        """The biases side by side, (T, B, n C), or (T, 1, n C) if all sentences have the same."""
        table = self.table.flatten(1)
        if isinstance(self.index, slice):
            return table[self.index].unsqueeze(1)
        return self.index @ table if self.index.is_floating_point() else F.embedding(self.index, table)

    def every(self, n: int) -> "Biases":
        """The biases of every n-th sentence."""
        return self if isinstance(self.index, slice) else Biases(self.table, self.index[:, ::n])


@dataclass(frozen=True)
class Place:
    """The positions of a layer: an addition to its input (T, B, C), and the biases of its attentions by name: those of
    self-attention together, those of cross-attention for its queries, and for its keys and values.
    """

    addition: Tensor | None = None
    biases: Mapping[str, Sequence[Biases]] = field(default_factory=dict)

    def add(self, x: Tensor) -> Tensor:
        """The layer's input with the addition, (T, B, C)."""
        return x if self.addition is None else x + self.addition


class PositionEncoder(nn.Module):
    """An encoding of positions for the layers of an encoder and of a decoder."""

    def solve(self, length: int) -> Solution | None:
        """Return the solution for a pass over at most ``length`` tokens; None without one."""
        return None

    def places(
        self,
        side: str,
        tokens: Tensor,
        padding: Tensor,
        source_padding: Tensor | None = None,
        incremental_state: dict | None = None,
        solution: Solution | None = None,
    ) -> list[Place]:
        """Return one place per layer, for a pass through the encoder or the decoder.

        Args:
            side: ``encoder`` or ``decoder``.
            tokens, padding: (B, T), all tokens so far, and true where there is none.
            source_padding: (B, S), true where a decoder's source has no token; None without a source.
            incremental_state: the cache of incremental decoding; with it only the last token is processed.
            solution: the result of ``solve``; None to solve here.
        """
        raise NotImplementedError

    def reach(self, length: int) -> int:
        """Return how many of the first ``length`` positions the model can read."""
        return length


class BlockPositions(PositionEncoder):
    """An encoding of positions that is added to the input of every block; the first block has it from stock fairseq.

    One sinusoidal encoding for all blocks, or one learned table per block (FLOATER's equation 7 and Table 2). The
    addition becomes part of the layer's output, as in the Universal Transformer, and so of what histories keep; with
    multistep schemes, which keep their own states, only the layer itself sees it.
    """

    def __init__(self, cfg: TransformerConfig, sides: Mapping[str, Any]):
        super().__init__()
        longest = {"encoder": cfg.max_source_positions, "decoder": cfg.max_target_positions}
        self.depths = {side: len(stack.layers) for side, stack in sides.items()}
        self.learned = nn.ModuleDict()
        self._sinusoids = {}  # not sub-modules: they belong to the stacks
        for side, stack in sides.items():
            if cfg.position_encoder == "learned":
                size = (longest[side], getattr(cfg, side).embed_dim, stack.padding_idx)
                tables = (PositionalEmbedding(*size, learned=True) for _ in range(self.depths[side] - 1))
                self.learned[side] = nn.ModuleList(tables)
            else:
                self._sinusoids[side] = [stack.embed_positions]

    def places(
        self, side: str, tokens: Tensor, padding: Tensor, incremental_state: dict | None = None, **_: Any
    ) -> list[Place]:
        tables = self.learned[side] if self.learned else self._sinusoids[side]
        found = (table(tokens, incremental_state=incremental_state) for table in tables)  # (B, T, C)
        places = [Place(x.transpose(0, 1).contiguous()) for x in found]
        places = places if self.learned else places * (self.depths[side] - 1)
        return [Place(), *places][: self.depths[side]]


class Piece(NamedTuple):
    """The projections of an attention whose biases move with the same tokens, the encoder's or the decoder's own, or
    those of the source: all of self-attention; in cross-attention that of queries, or those of keys and values.
    """

    solver: str
    tokens: str
    side: str
    layer: int
    name: str  # of the attention in its layer
    attention: nn.Module
    projections: Sequence[str]

    def initial(self) -> list[nn.Parameter]:
        """Return b(0) of the projections, each (C,): the biases that they have anyway."""
        return [getattr(self.attention, projection).bias for projection in self.projections]


def _pieces(sides: Mapping[str, Any], sharing: str) -> Iterator[Piece]:
    """Yield the pieces of all attentions of the stacks, in order."""
    for side, stack in sides.items():
        for i, layer in enumerate(stack.layers):
            for name in ("macaron_attn", "self_attn", "encoder_attn"):
                if (attention := getattr(layer, name, None)) is None:
                    continue
                parts = {side: ("q_proj", "k_proj", "v_proj")}
                if name == "encoder_attn":
                    parts = {side: ("q_proj",), "source": ("k_proj", "v_proj")}
                for tokens, projections in parts.items():
                    solver = tokens if sharing == "stack" else "all"
                    yield Piece(solver, tokens, side, i, name, attention, projections)


class _Kept(NamedTuple):
    solution: Solution
    reach: int  # how many positions can be read
    versions: list  # of the tensors that it depends on


class BiasPositions(PositionEncoder):
    """Biases of queries, keys and values that move with the position, q_i = W_q x_i + b_q(t_i) (FLOATER, equation 13).

    b(0) is the bias that the projection has anyway. Only b(t) - b(0) is added, so that the parameters of a Transformer
    are those of a FLOATER, and with a flow of zero dynamics the two compute the same.

    All rows, three per attention, are solved at once. With gradients that is done in every pass; without, a solution is
    kept for later passes. It is dropped where weights may have changed: when a tensor's address or version has, in a
    pass with gradients, and between training and evaluation. Code that writes to ``parameter.data`` otherwise must call
    ``forget``.

    With ``--flow-sharing stack``, as in the released code, there is one solver for the encoder's attention, one for the
    decoder's self-attention and the queries of cross-attention, and one for its keys and values.
    """

    def __init__(self, cfg: TransformerConfig, sides: Mapping[str, Any]):
        super().__init__()
        self._kept: _Kept | None = None
        self.depths = {side: len(stack.layers) for side, stack in sides.items()}
        pieces = list(_pieces(sides, cfg.flow_sharing))
        for piece in pieces:
            for bias in piece.initial():  # Xavier's bound for the released code's tensor of all b(0)
                bound = math.sqrt(6 / ((_KINDS[piece.tokens] + self.depths[piece.side]) * bias.numel()))
                nn.init.uniform_(bias, -bound, bound)
        # A plain list, because the attentions belong to the stacks.
        self.pieces = [piece for piece in pieces if cfg.position_blocks == "all" or piece.layer == 0]
        names = dict.fromkeys(piece.solver for piece in self.pieces)
        widths = {name: sorted({bias.numel() for bias in self.initial(name)}) for name in names}
        for several in widths.values():
            if len(several) > 1:
                raise OdeTransformerError(
                    f"--flow-sharing {cfg.flow_sharing}: needs one width of encoder and decoder, got {several}; choose "
                    "stack"
                )
        self.solvers = nn.ModuleDict({name: self.build_solver(cfg, width) for name, (width,) in widths.items()})
        for p in self.solvers.parameters():
            p.param_group = "flow"  # for an optimizer that treats the flow separately

    @staticmethod
    def build_solver(cfg: TransformerConfig, embed_dim: int) -> nn.Module:
        """Return what solves biases of width C: a flow, or a recurrent network in its place."""
        if cfg.position_encoder == "floater":
            horizon = cfg.flow_horizon or max(cfg.max_source_positions, cfg.max_target_positions)
            return Flow(embed_dim, cfg.flow_method, cfg.flow_step, horizon)
        _, input_, layers = cfg.position_encoder.split("-")
        return Recurrence(embed_dim, int(layers), input_)

    def initial(self, solver: str) -> list[nn.Parameter]:
        """Return b(0) of every row that a solver moves, each (C,)."""
        return [bias for piece in self.pieces if piece.solver == solver for bias in piece.initial()]

    def places(
        self,
        side: str,
        tokens: Tensor,
        padding: Tensor,
        source_padding: Tensor | None = None,
        incremental_state: dict | None = None,
        solution: Solution | None = None,
    ) -> list[Place]:
        length, source_length, source = tokens.size(1), 0, None
        if source_padding is not None:
            source_length = source_padding.size(1)
            source = token_positions(source_padding, slice(0, source_length))
        solution = solution or self.solve(max(length, source_length))
        own = token_positions(padding, slice(0 if incremental_state is None else length - 1, length))
        own, source = (None if index is None else _as_factor(index, solution[0]) for index in (own, source))
        biases: list[dict[str, list[Biases]]] = [{} for _ in range(self.depths[side])]
        for piece, table in zip(self.pieces, solution, strict=True):
            index = source if piece.tokens == "source" else own
            if piece.side == side and index is not None:
                biases[piece.layer].setdefault(piece.name, []).append(Biases(table, index))
        return [Place(biases=of_layer) for of_layer in biases]

    def solve(self, length: int) -> Solution:
        """Return the solution for ``length`` positions or more; without gradients, an overflow is an error."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            self.forget()  # the update of a fused optimizer may follow, which changes no version
            return self._solve(length)
        versions = self._versions()
        kept = self._kept
        if kept is None or kept.reach < length or kept.versions != versions:
            solution = self._solve(max(64, 2 ** (length - 1).bit_length()))  # longer sentences may follow
            kept = self._kept = _Kept(solution, self._reach(solution), versions)
        if kept.reach < length:
            kind = self._kind()
            raise OdeTransformerError(
                f"the position biases are too large for attention in {kind} from position {kept.reach} on. Set "
                "--flow-horizon to the length of the longest training sentence"
                + ("" if kind == torch.float32 else ", or use float32")
            )
        return kept.solution

    def _kind(self) -> torch.dtype:
        """Return the data type of attention scores."""
        weight = next(self.solvers.parameters())
        device = weight.device.type
        mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        return torch.get_autocast_dtype(device) if mixed else weight.dtype

    def _versions(self) -> list[Any]:
        """Return the address and the version of every tensor that a solution depends on, and the type of scores."""
        parameters = (*self.solvers.parameters(), *(bias for piece in self.pieces for bias in piece.initial()))
        return [self._kind(), *((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)]

    @torch.no_grad()
    def reach(self, length: int) -> int:
        return self._reach(self._solve(length))

    def _reach(self, solution: Solution) -> int:
        """Return the number of positions of a solution, from the first on, at which attention is finite."""
        # A score contains the product of two biases. Where it overflows, attention is NaN although the biases are not.
        most = torch.finfo(self._kind()).max
        scores = [_largest_score(b, piece.attention.num_heads) for piece, b in zip(self.pieces, solution, strict=True)]
        fits = torch.stack([(score < most).flatten(1).all(1) for score in scores]).all(0)
        return len(fits) if fits.all() else int(fits.long().argmin())

    def _solve(self, length: int) -> Solution:
        moved = {}
        for name, solver in self.solvers.items():
            initial = torch.stack(self.initial(name))
            sizes = [len(piece.projections) for piece in self.pieces if piece.solver == name]
            moved[name] = iter(solver(initial, length).to(initial.dtype).split(sizes, dim=1))
        return [next(moved[piece.solver]) for piece in self.pieces]

    def biases(self, length: int) -> dict[str, Tensor]:
        """Return b(t) of every projection at positions 0 to ``length`` - 1: ``encoder.0.self_attn.q`` -> (N, C)."""
        found = {}
        for piece, moved in zip(self.pieces, self._solve(length), strict=True):
            for projection, b, initial in zip(piece.projections, moved.unbind(1), piece.initial(), strict=True):
                found[f"{piece.side}.{piece.layer}.{piece.name}.{projection[0]}"] = b + initial
        return found

    def forget(self) -> None:
        """Discard the solution that is kept; the next pass solves again."""
        self._kept = None

    def train(self, mode: bool = True) -> "BiasPositions":
        if mode != self.training:  # fairseq calls this for every batch
            self.forget()
        return super().train(mode)


def _largest_score(biases: Tensor, heads: int) -> Tensor:
    """Return the score of a query and a key equal to these biases, (N, n, C) -> (N, n, heads), in fp32."""
    squares = biases.float().unflatten(-1, (heads, -1)).square()
    return squares.sum(-1) * squares.size(-1) ** -0.5


_KINDS = {"encoder": 3, "decoder": 4, "source": 2}
"""The number of kinds of projections in each tensor of b(0) in the released code, (kinds, L, C)."""


def _block_positions(cfg: TransformerConfig, sides: Mapping[str, Any]) -> PositionEncoder | None:
    return BlockPositions(cfg, sides) if cfg.position_blocks == "all" else None


POSITION_ENCODERS: Registry[Callable[[TransformerConfig, Mapping[str, Any]], PositionEncoder | None]] = Registry(
    "position encoder",
    {
        "none": lambda cfg, sides: None,
        "sinusoidal": _block_positions,
        "learned": _block_positions,
        "floater": BiasPositions,
        **{f"rnn-{input_}-{layers}": BiasPositions for input_ in RECURRENT_INPUTS for layers in (1, 2)},
    },
)
"""(configuration, stacks by name) -> the position encoder; None if there is only the stock encoding of the input."""
