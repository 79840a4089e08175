"""Position encoders: how the blocks of a Transformer learn where tokens are, besides the encoding of the input.

There is one interface, ``PositionEncoder``. For a pass through a stack of layers it gives each layer a ``Place``: an
addition to the layer's input (``BlockPositions``, the tables and sinusoids of FLOATER's equation 7), or to the queries,
keys and values of its attentions (``BiasPositions``, FLOATER's equation 13: a flow, or a recurrent network).

Where the tokens are, at their indices or at explicit positions, is in ``token_positions.py``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import PositionalEmbedding
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import OdeTransformerError
from ..numerics.flow import RECURRENT_INPUTS, Flow, Recurrence
from ..numerics.table import Table
from .token_positions import GivenPositions, Index, Solution, Tables, TokenIndices, TokenPositions

POSITION_BLOCKS = ("all", "input")
FLOW_SHARING = ("all", "stack")


def _look_up(table: Tensor, index: Index) -> Tensor:
    """(N, C) and an index -> (T, B, C), or (T, 1, C) if all sentences have the same rows."""
    return table[index].unsqueeze(1) if isinstance(index, slice) else F.embedding(index, table)


class Biases(NamedTuple):
    """What an attention adds to its projections, as tables by position, which are looked up when they are needed."""

    queries: Tensor  # (N, 1, C)
    keys_values: Tensor  # (N, 2, C)
    query_index: Index
    key_index: Index

    def query(self) -> Tensor:
        """The biases of queries, (T, B, C) or (T, 1, C)."""
        return _look_up(self.queries.flatten(1), self.query_index)

    def key_value(self) -> Sequence[Tensor]:
        """The biases of keys and of values, each (S, B, C) or (S, 1, C)."""
        return _look_up(self.keys_values.flatten(1), self.key_index).chunk(2, dim=-1)


@dataclass(frozen=True)
class Place:
    """What a layer reads of positions: an addition to its input (T, B, C), and the biases of its attentions by name."""

    addition: Optional[Tensor] = None
    biases: Mapping[str, Biases] = field(default_factory=dict)

    def add(self, x: Tensor) -> Tensor:
        """The layer's input with the addition, (T, B, C)."""
        return x if self.addition is None else x + self.addition


class PositionEncoder(nn.Module):
    """Tells the layers of an encoder and of a decoder where the tokens are."""

    def source_places(self, tokens: Tensor, padding: Tensor) -> list[Place]:
        """One place per layer, for a pass over sources.

        Args:
            tokens: (B, S).
            padding: (B, S), true where there is no token.
        """
        raise NotImplementedError

    def target_places(
        self, tokens: Tensor, padding: Tensor, source_padding: Optional[Tensor], incremental_state: Optional[dict]
    ) -> list[Place]:
        """One place per layer, for a pass over previous outputs.

        Args:
            tokens: (B, T), all tokens so far.
            padding: (B, T), true where there is no token.
            source_padding: (B, S), true where the source has no token; None without a source.
            incremental_state: the cache of incremental decoding; with it only the last token is processed.
        """
        raise NotImplementedError

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the hypotheses of a beam; the decoder calls this."""

    def reach(self, length: int) -> int:
        """How many of the first ``length`` positions the model can read."""
        return length

    @contextmanager
    def one_pass(self, length: int) -> Iterator[None]:
        """A context in which encoder and decoder share one pass, with sentences of at most ``length`` tokens."""
        yield


class BlockPositions(PositionEncoder):
    """An encoding of positions that is added to the input of every block; the first block has it from stock fairseq.

    These are FLOATER's equation 7 and the baselines "at all blocks" of its Table 2: one sinusoidal encoding for all
    blocks, or one learned table per block. The addition becomes part of the state, as in the Universal Transformer;
    with histories or multistep schemes between layers, only the layer itself sees it.

    Args:
        cfg: the configuration.
        learned: whether the encoding is a learned table; otherwise it is sinusoidal.
        sides: the stacks by name, encoder and decoder.
    """

    def __init__(self, cfg: TransformerConfig, learned: bool, sides: Mapping[str, Any]):
        super().__init__()
        longest = {"encoder": cfg.max_source_positions, "decoder": cfg.max_target_positions}
        self.depths = {side: len(stack.layers) for side, stack in sides.items()}
        self.learned = nn.ModuleDict()
        self._sinusoids = {}  # not sub-modules: they belong to the stacks
        for side, stack in sides.items():
            if learned:
                size = (longest[side], getattr(cfg, side).embed_dim, stack.padding_idx)
                tables = (PositionalEmbedding(*size, learned=True) for _ in range(self.depths[side] - 1))
                self.learned[side] = nn.ModuleList(tables)
            else:
                self._sinusoids[side] = [stack.embed_positions]

    def source_places(self, tokens: Tensor, padding: Tensor) -> list[Place]:
        return self._places("encoder", tokens, None)

    def target_places(
        self, tokens: Tensor, padding: Tensor, source_padding: Optional[Tensor], incremental_state: Optional[dict]
    ) -> list[Place]:
        return self._places("decoder", tokens, incremental_state)

    def _places(self, side: str, tokens: Tensor, incremental_state: Optional[dict]) -> list[Place]:
        tables = self.learned[side] if self.learned else self._sinusoids[side]
        places = [Place(table(tokens, incremental_state=incremental_state).transpose(0, 1)) for table in tables]
        places = places if self.learned else places * (self.depths[side] - 1)
        return [Place(), *places][: self.depths[side]]


class Layout:
    """Which projections of a model's attentions move with the position, and which solver moves them.

    A *piece* is the projections of an attention that move together: that of its queries, or those of its keys and
    values. It holds the attentions, and names their projections, whose biases it reads. This class is not a module, or
    the attentions would be its sub-modules as well.

    Args:
        sides: the stacks by name, encoder and decoder.
        sharing: ``all``, one solver; ``stack``, as in the released code, one solver for the encoder's attention, one
            for the decoder's self-attention and the queries of cross-attention, and one for its keys and values.
        blocks: ``all``, or the ``input`` block alone.
    """

    def __init__(self, sides: Mapping[str, Any], sharing: str, blocks: str):
        self.sharing = sharing
        self.pieces: dict[str, list[list[tuple[nn.Module, str]]]] = {}  # by solver
        self.layers: dict[str, list[dict[str, tuple]]] = {}  # of each layer, two (solver, piece) per attention
        for side, stack in sides.items():
            layers = self.layers[side] = []
            for i, layer in enumerate(nn.ModuleList.__iter__(stack.layers)):
                layers.append({})
                for name in ("macaron_attn", "self_attn", "encoder_attn"):
                    attention = getattr(layer, name, None)
                    if attention is None or (blocks == "input" and i > 0):
                        continue
                    memory = "source" if name == "encoder_attn" else side
                    q, *kv = ((attention, f"{x}_proj") for x in "qkv")
                    layers[i][name] = (self._add(side, q), self._add(memory, *kv))

    def _add(self, solver: str, *projections: tuple[nn.Module, str]) -> tuple[str, int]:
        solver = solver if self.sharing == "stack" else "all"
        pieces = self.pieces.setdefault(solver, [])
        pieces.append(list(projections))
        return solver, len(pieces) - 1

    def widths(self) -> dict[str, int]:
        """The width C of every solver.

        Raises:
            OdeTransformerError: the projections of one solver have several widths.
        """
        found = {}
        for name in self.pieces:
            widths = sorted({bias.numel() for bias in self.initial(name)})
            if len(widths) > 1:
                raise OdeTransformerError(
                    f"--flow-sharing {self.sharing}: needs one width of encoder and decoder, got {widths}"
                )
            (found[name],) = widths
        return found

    def initial(self, solver: str) -> list[nn.Parameter]:
        """b(0) of every row that a solver moves, each (C,): the biases that the projections have anyway."""
        return [getattr(attention, name).bias for piece in self.pieces[solver] for attention, name in piece]

    def heads(self, solver: str) -> list[int]:
        """The number of heads of the attention that each of a solver's pieces belongs to."""
        return [piece[0][0].num_heads for piece in self.pieces[solver]]

    def split(self, solver: str, moved: Tensor) -> Sequence[Tensor]:
        """The rows that a solver moved, (N, R, C) -> those of each piece, (N, 1 or 2, C)."""
        return moved.split([len(piece) for piece in self.pieces[solver]], dim=1)

    def places(self, side: str, own: "Located", source: Optional["Located"]) -> list[Place]:
        """The places of the layers of one side, from its own tokens and, in a decoder, those of the source."""
        places = []
        for layer in self.layers[side]:
            biases = {}
            for name, ((q_solver, q), (kv_solver, kv)) in layer.items():
                memory = source if name == "encoder_attn" else own
                if memory is not None:
                    q_table, kv_table = own.tables[q_solver][q], memory.tables[kv_solver][kv]
                    biases[name] = Biases(q_table, kv_table, own.index, memory.index)
            places.append(Place(biases=biases))
        return places


_PASS: ContextVar[tuple[Any, dict[TokenPositions, Solution]]] = ContextVar("pass", default=(None, {}))
"""Whose pass it is, and the solutions that it shares: what ``one_pass`` sets, for each thread by itself."""

_GIVEN: ContextVar[Mapping[int, Mapping[str, GivenPositions]]] = ContextVar("given", default=MappingProxyType({}))
"""The explicit positions of each side, by the ``id`` of the position encoder: what ``at`` says, for each thread."""


class Located(NamedTuple):
    """Tables, and the rows of them that the tokens of some columns take."""

    tables: Tables
    index: Index


@with_incremental_state
class BiasPositions(PositionEncoder):
    """Biases of queries, keys and values that move with the position, q_i = W_q x_i + b_q(t_i) (FLOATER, equation 13).

    b(0) is the bias that the projection has anyway. Only b(t) - b(0) is added, so that the parameters of a Transformer
    are those of a FLOATER, and with zero dynamics the two compute the same. Queries, keys and values move with their
    own positions; in cross-attention those of keys and values are the source's.

    All rows, three per attention, are solved at once, for each grid of positions: in training once per pass; without
    gradients once per set of weights, and again when a longer sentence comes. The solution is not saved in checkpoints.
    It is discarded when weights change in place or are loaded, and between training and evaluation. Code that writes to
    ``parameter.data`` must call ``forget``, and so must code that makes passes without gradients between a backward
    pass and the update of a fused optimizer, which PyTorch does not count as a change.

    With an update interval of n, the dynamics receives gradients only at every n-th update of the optimizer, and the
    solution computed after that is held until the next (paper, section 4.4), unless a longer sentence comes or the
    training is resumed, when it is solved again from the present b(0); b(0) is trained in all updates.

    Args:
        build: makes a solver (``numerics/flow.py``) from C.
        sides, sharing, blocks: as in ``Layout``.
        interval: updates of the optimizer from one solution to the next, 1 or more.

    Raises:
        OdeTransformerError: the projections of one solver have several widths, or there is no attention.
    """

    def __init__(
        self,
        build: Callable[[int], nn.Module],
        sides: Mapping[str, Any],
        sharing: str = "all",
        blocks: str = "all",
        interval: int = 1,
    ):
        super().__init__()
        self.interval, self.updates = interval, 0
        for side, stack in sides.items():
            _reset_biases(side, stack.layers)
        self.layout = Layout(sides, sharing, blocks)
        if not self.layout.pieces:
            raise OdeTransformerError("--position-encoder: must be none in a model without layers, which has no biases")
        self.solvers = nn.ModuleDict({name: build(width) for name, width in self.layout.widths().items()})
        for p in self.solvers.parameters():
            p.param_group = "flow"  # for an optimizer that treats the flow separately
        self.indices = TokenIndices()

    def source_places(self, tokens: Tensor, padding: Tensor) -> list[Place]:
        source = self._place("source", padding, slice(0, tokens.size(1)))
        return self.layout.places("encoder", source, source)

    def target_places(
        self, tokens: Tensor, padding: Tensor, source_padding: Optional[Tensor], incremental_state: Optional[dict]
    ) -> list[Place]:
        length = tokens.size(1)
        columns, source = slice(0 if incremental_state is None else length - 1, length), None
        source_length = 0 if source_padding is None else source_padding.size(1)
        with self.one_pass(max(length, source_length)):
            target = self._place("target", padding, columns, incremental_state)
            if source_padding is not None:
                source = self._place("source", source_padding, slice(0, source_length), incremental_state)
        return self.layout.places("decoder", target, source)

    def _place(self, side: str, padding: Tensor, columns: slice, incremental_state: Optional[dict] = None) -> Located:
        where = self._given.get(side, self.indices)
        # size(0), because len() would make the batch size of an exported graph a constant.
        index = where.index(padding, columns, self._sentences(side, where, padding.size(0), incremental_state))
        return Located(self._tables(where, padding.size(1)), index)

    def _sentences(
        self, side: str, where: TokenPositions, hypotheses: int, incremental_state: Optional[dict]
    ) -> Optional[Tensor]:
        """The sentence that each hypothesis belongs to: a search reorders them, and drops sentences that have ended."""
        first = where.sentences(hypotheses)
        if first is None or incremental_state is None:
            return first
        kept = self.get_incremental_state(incremental_state, side)
        if kept is None:
            kept = {"sentences": first}
            self.set_incremental_state(incremental_state, side, kept)
        return kept["sentences"]

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the hypotheses of a beam."""
        for side in self._given:
            if (kept := self.get_incremental_state(incremental_state, side)) is not None:
                sentences = kept["sentences"][new_order.to("cpu")]
                self.set_incremental_state(incremental_state, side, {"sentences": sentences})

    @property
    def _given(self) -> Mapping[str, GivenPositions]:
        """By side, the explicit positions of the context that this is called in."""
        return _GIVEN.get().get(id(self), {})

    def _tables(self, where: TokenPositions, length: int) -> Tables:
        """The tables of a grid for ``length`` tokens, or for more: those of this pass, if they are long enough."""
        (owner, shared), least = _PASS.get(), where.least(length)
        if owner is not self:
            return self._solved(where, length)
        if where not in shared or shared[where].length < least:
            shared[where] = Solution(least, self._solved(where, length))
        return shared[where].tables

    def _solved(self, where: TokenPositions, length: int) -> Tables:
        """As ``_tables``, whatever the pass: solved now, or remembered if it needs no gradients."""
        least = where.least(length)
        held = self.training and self.updates % self.interval != 0
        if torch.is_grad_enabled() and not held:
            self._forget(held=self.training)  # a fused optimizer's update may follow, which changes no version
            return self._solve(where.grid(length))
        versions = None if held else self._versions()
        kept = where.solutions.get(held)
        if kept is None or kept.length < least or kept.versions != versions:
            kept = where.solutions[held] = self._remembered(where.grid(length, spare=True), least, versions)
        if not torch.is_grad_enabled():
            return kept.tables
        # Gradients are zero rather than None, because distributed training waits for those of all parameters.
        zero = sum((p * 0.0).sum() for p in self.solvers.parameters())
        return {name: [piece + zero for piece in pieces] for name, pieces in kept.tables.items()}

    def _kind(self) -> torch.dtype:
        """The number format of attention's scores."""
        weight = next(self.solvers.parameters())
        device = weight.device.type
        mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        return torch.get_autocast_dtype(device) if mixed else weight.dtype

    def _versions(self) -> list[Any]:
        """What a solution depends on: the address and the version of every tensor, and where scores overflow."""
        biases = [bias for name in self.solvers for bias in self.layout.initial(name)]
        parameters = (*self.solvers.parameters(), *biases)
        return [self._kind(), *((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)]

    @torch.no_grad()
    def _remembered(self, grid: Tensor, length: int, versions: Any) -> Solution:
        tables = self._solve(grid)
        reach, kind = self._reach(tables), self._kind()
        if reach < length:
            raise OdeTransformerError(
                f"the position biases are too large for attention in {kind} from position {grid[reach]:g} on. "
                "Set --flow-horizon to the length of the longest training sentence"
                + ("" if kind == torch.float32 else ", or use float32")
            )
        return Solution(reach, tables, versions)

    @torch.no_grad()
    def reach(self, length: int) -> int:
        return self._reach(self._solve(torch.arange(length)))

    def _reach(self, tables: Tables) -> int:
        """How many of the positions of the tables, from the first on, have biases with which attention is finite."""
        # A score contains the product of two biases. Where it overflows, attention is NaN although the biases are not.
        most = torch.finfo(self._kind()).max
        fits = torch.stack(
            [
                (_largest_score(piece, heads) < most).flatten(1).all(1)
                for name, pieces in tables.items()
                for piece, heads in zip(pieces, self.layout.heads(name), strict=True)
            ]
        ).all(0)
        return len(fits) if fits.all() else int(fits.long().argmin())

    def _solve(self, positions: Tensor) -> Tables:
        tables = {}
        for name, solver in self.solvers.items():
            initial = torch.stack(self.layout.initial(name))
            tables[name] = self.layout.split(name, solver(initial, positions).to(initial.dtype))
        return tables

    def biases(self, length: int) -> dict[str, Tensor]:
        """b(t) of every projection at the positions 0 to ``length`` - 1: ``encoder.0.self_attn.q`` -> (N, C)."""
        tables, found = self._solve(torch.arange(length)), {}
        for side, layers in self.layout.layers.items():
            for i, layer in enumerate(layers):
                for name, pieces in layer.items():
                    moved = [row for solver, piece in pieces for row in tables[solver][piece].unbind(1)]
                    projections = [p for solver, piece in pieces for p in self.layout.pieces[solver][piece]]
                    for x, row, (attention, projection) in zip("qkv", moved, projections, strict=True):
                        found[f"{side}.{i}.{name}.{x}"] = row + getattr(attention, projection).bias
        return found

    @contextmanager
    def one_pass(self, length: int) -> Iterator[None]:
        """As in ``PositionEncoder``: each grid is solved once, and one of both sides for the longer of them."""
        if _PASS.get()[0] is self:
            yield
            return
        shared = {}
        if not self._given:
            shared[self.indices] = Solution(length, self._solved(self.indices, length))
        before = _PASS.set((self, shared))
        try:
            yield
        finally:
            _PASS.reset(before)

    @contextmanager
    def at(self, source: Optional[Tensor] = None, target: Optional[Tensor] = None) -> Iterator[None]:
        """A context in which tokens are at these positions, not at their indices (paper, appendix C).

        It applies to the thread that enters it. With an update interval, solutions are held within the context alone.

        Args:
            source, target: (S,) for all sentences or (B, S), one position per column: real numbers, 0 or more, that
                increase from the left, also where there is padding. The target may have more columns than tokens so
                far.

        Raises:
            ValueError: the positions do not increase, or, during a pass, they do not fit the tokens.
        """
        sides = {"source": source, "target": target}
        given = {side: GivenPositions(side, positions) for side, positions in sides.items() if positions is not None}
        before = _GIVEN.set({**_GIVEN.get(), id(self): {**self._given, **given}})
        try:
            yield
        finally:
            _GIVEN.reset(before)

    def set_num_updates(self, updates: int) -> None:
        """Set the number of updates that the optimizer has made; fairseq's trainer calls this."""
        self.updates = updates

    def forget(self) -> None:
        """Discard all solutions; the next pass solves again."""
        self._forget(held=True)

    def _forget(self, held: bool) -> None:
        """Discard the solutions for the present weights and, if asked, that for an interval of updates."""
        for where in (self.indices, *self._given.values()):
            where.solutions.pop(False, None)
            if held:
                where.solutions.pop(True, None)

    def train(self, mode: bool = True) -> "BiasPositions":
        # fairseq calls this once per batch. Optimizers change weights without a change of their version.
        if mode != self.training:
            self._forget(held=False)
        return super().train(mode)

    def _apply(self, *args: Any, **more: Any) -> "BiasPositions":
        self.forget()
        return super()._apply(*args, **more)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.forget()
        super()._load_from_state_dict(*args)


def _largest_score(biases: Tensor, heads: int) -> Tensor:
    """The score of a query and a key that are these biases, (N, 1 or 2, C) -> (N, 1 or 2, heads), in fp32."""
    squares = biases.float().unflatten(-1, (heads, -1)).square()
    return squares.sum(-1) * squares.size(-1) ** -0.5


def _reset_biases(side: str, layers: nn.ModuleList) -> None:
    # As in the released code: Xavier's bound for one tensor of all b(0), (kinds, L, C).
    kinds = {"encoder": 3, "decoder": 4, "source": 2}
    for layer in nn.ModuleList.__iter__(layers):
        for name in ("macaron_attn", "self_attn", "encoder_attn"):
            if (attention := getattr(layer, name, None)) is None:
                continue
            memory = "source" if name == "encoder_attn" else side
            for projection, group in (("q_proj", side), ("k_proj", memory), ("v_proj", memory)):
                bias = getattr(attention, projection).bias
                bound = math.sqrt(6 / ((len(layers) + kinds[group]) * bias.numel()))
                nn.init.uniform_(bias, -bound, bound)


def _block_positions(learned: bool, cfg: TransformerConfig, sides: Mapping[str, Any]) -> Optional[PositionEncoder]:
    return BlockPositions(cfg, learned, sides) if str(cfg.position_blocks) == "all" else None


def _bias_positions(
    solver: Callable[[TransformerConfig, int], nn.Module], cfg: TransformerConfig, sides: Mapping[str, Any]
) -> PositionEncoder:
    sharing, blocks = str(cfg.flow_sharing), str(cfg.position_blocks)
    return BiasPositions(partial(solver, cfg), sides, sharing, blocks, cfg.flow_update_interval)


def _flow(cfg: TransformerConfig, embed_dim: int) -> nn.Module:
    if not cfg.flow_horizon >= 0:
        raise OdeTransformerError(
            f"--flow-horizon {cfg.flow_horizon}: must be a positive number of tokens, or 0 for the longest sentence"
        )
    horizon = cfg.flow_horizon or max(cfg.max_source_positions, cfg.max_target_positions)
    try:
        return Flow(embed_dim, str(cfg.flow_method), cfg.flow_step, str(cfg.flow_gradient), horizon)
    except ValueError as error:  # it names its arguments, which are options without their prefix
        raise OdeTransformerError(f"--flow-{error}") from error


def _recurrence(input_: str, layers: int, cfg: TransformerConfig, embed_dim: int) -> nn.Module:
    try:
        return Recurrence(embed_dim, layers, input_)
    except ValueError as error:
        raise OdeTransformerError(f"--position-encoder {cfg.position_encoder}: {error}") from error


POSITION_ENCODERS: Table[Callable[[TransformerConfig, Mapping[str, Any]], Optional[PositionEncoder]]] = Table(
    "position encoder",
    {
        "none": lambda cfg, sides: None,
        "sinusoidal": partial(_block_positions, False),
        "learned": partial(_block_positions, True),
        "floater": partial(_bias_positions, _flow),
        **{
            f"rnn-{kind}-{layers}": partial(_bias_positions, partial(_recurrence, kind, layers))
            for kind in RECURRENT_INPUTS
            for layers in (1, 2)
        },
    },
)
"""(configuration, stacks by name) -> the position encoder; None if there is only the stock encoding of the input."""


def build_position_encoder(cfg: TransformerConfig, sides: Mapping[str, Any]) -> Optional[PositionEncoder]:
    """The position encoder that a configuration asks for; None if there is only the stock encoding of the input.

    Args:
        cfg: the configuration.
        sides: the stacks by name, encoder and decoder.
    """
    return POSITION_ENCODERS.named(str(cfg.position_encoder))(cfg, sides)
