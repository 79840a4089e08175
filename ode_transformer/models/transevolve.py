"""TransEvolve: attention computed once from a block's input and evolved over depth.

Dutta et al. 2021, "Redesigning the Transformer Architecture with Insights from Multi-particle Dynamical Systems".
A block of depth L computes queries and keys once, from its input X0; then, for l = 1 to L (equation 9) ::

    X <- X + Softmax(A0 + A1 T_l + T_l A2 + A3 (T_l o T_l)) LN(X) Wo
    X <- X + FF_l(LN(X))

and ends with a norm. T_l is a learned Fourier map of depth. In a decoder each layer attends to the target, then to the
source, each with its own initial state. FF is the Transformer's (fullFF), or made of random rotations with learned
singular values (randomFF, equations 10 and 11). ``modules/evolving_attention.py`` explains why no (T, S) matrix is
needed, and ``modules/feed_forward.py`` how the random matrices are computed.

``docs/transevolve.md`` lists where the paper and the released code differ. Parameters that the paper counts but that
have no effect are frozen: W~k of every initial state, which softmax cancels, and the singular values that meet no row
of V.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ..config import FlatTransformerConfig, flag, option, register_architectures
from ..errors import OdeTransformerError
from ..modules import passes
from ..modules.dropout import Dropout
from ..modules.evolving_attention import FORMS, EvolvingAttention, InitialState, State
from ..modules.feed_forward import FEED_FORWARDS, FeedForward
from ..modules.layers import Context
from ..modules.rules import of_all_models, refuse
from ..modules.stacks import PlainDecoder, PlainEncoder
from ..numerics.sinusoids import sinusoids
from .classification import LONGEST, EncoderClassifier
from .transformer import EncoderDecoder, size


@dataclass
class TransEvolveConfig(FlatTransformerConfig):
    """The options of fairseq's Transformer that have a meaning here, and TransEvolve's; defaults as in ``fullff_1``."""

    share_all_embeddings: bool = option(True, "one embedding for source, target and output")
    transevolve_form: ChoiceEnum(list(FORMS)) = option("paper", "the paper's equations, or those of the released code")
    evolution_blocks: int = option(1, "blocks of the encoder and of the decoder; each computes its attention once")
    evolution_depth: int = option(6, "layers per block")
    evolution_feed_forward: ChoiceEnum(list(FEED_FORWARDS)) = option(
        "full", "feed-forward: full, or random (rotations with learned singular values)"
    )


# Stock options that have no effect here, and the values at which they may stay.
_UNUSED = {
    "encoder_layers": 6, "decoder_layers": 6, "attention_dropout": 0.0,
    "encoder_normalize_before": False, "decoder_normalize_before": False, "no_decoder_final_norm": False,
    "encoder_learned_pos": False, "decoder_learned_pos": False,
}  # fmt: skip


def rules(cfg: TransformerConfig) -> Iterator[str]:
    """Yield the broken rules of TransEvolve alone."""
    for name, idle in _UNUSED.items():
        if (x := getattr(cfg, name)) != idle:
            instead = "; use --evolution-blocks and --evolution-depth" * name.endswith("_layers")
            yield f"{flag(name)} {x}: has no meaning in TransEvolve{instead}"
    for name in ("evolution_blocks", "evolution_depth"):
        if (x := getattr(cfg, name)) < 1:
            yield f"{flag(name)} {x}: must be 1 or more"
    widths = {"--encoder-embed-dim": cfg.encoder.embed_dim}
    if cfg.evolution_feed_forward == "random":
        widths |= {f"--{side}-ffn-embed-dim": getattr(cfg, side).ffn_embed_dim for side in ("encoder", "decoder")}
    for name, width in widths.items():
        if width % 2:
            yield f"{name} {width}: must be even, since half of the waves are sines and half cosines"
    if cfg.decoder.embed_dim != cfg.encoder.embed_dim:
        yield f"--decoder-embed-dim {cfg.decoder.embed_dim}: must be the encoder's, {cfg.encoder.embed_dim}"


def prepare(cfg: TransformerConfig, sides: Sequence[str]) -> None:
    """As in ``Configured``."""
    refuse(rules(cfg))
    refuse(of_all_models(cfg, sides))
    cfg.encoder.layers = cfg.decoder.layers = cfg.evolution_blocks  # a block takes the place of a layer


class Block(nn.Module):
    """A block of the encoder or the decoder: initial states once, then ``evolution_depth`` layers, then a norm."""

    def __init__(self, cfg: TransformerConfig, side: str, index: int):
        super().__init__()
        part, depth, form = getattr(cfg, side), cfg.evolution_depth, cfg.transevolve_form
        width, heads = part.embed_dim, part.attention_heads
        attention = [(width, heads, i, depth, form, cfg.dropout) for i in range(depth)]
        self.state = InitialState(width, heads, cfg.dropout)
        self.attention = nn.ModuleList(EvolvingAttention(*arguments) for arguments in attention)
        self.encoder_state = self.encoder_attention = None
        if side == "decoder":
            self.encoder_state = InitialState(width, heads, cfg.dropout)
            self.encoder_attention = nn.ModuleList(EvolvingAttention(*arguments) for arguments in attention)
        seed = ((2 + (side == "decoder")) * cfg.evolution_blocks + index) * depth  # every layer has its own matrices
        self.feed_forward = nn.ModuleList(FeedForward(cfg, side, i, seed + i) for i in range(depth))
        self.layer_norm = nn.LayerNorm(width, eps=1e-3)
        self.form = form
        self.recomputed = cfg.checkpoint_activations

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Pass through the block, (T, B, d) -> (T, B, d); in a decoder it needs the output of an encoder."""
        source, incremental_state = None, context.incremental_state
        state = self.state(x, None, context.padding_mask, incremental_state)
        if self.encoder_state is not None:
            if context.source is None:
                raise OdeTransformerError("TransEvolve's decoder needs the output of an encoder")
            source = self.encoder_state(x, context.source, context.source_padding_mask, incremental_state)
        if self.form == "paper" and x.size(0) > 1:
            state, source = (None if s is None else s.fitted() for s in (state, source))
        recomputed = self.recomputed and incremental_state is None
        for i in range(len(self.feed_forward)):
            x = passes.recompute(recomputed, self._layer, i, x, state, source, incremental_state)
        return self.layer_norm(x)

    def _layer(self, i: int, x: Tensor, state: State, source: State | None, incremental_state: dict | None) -> Tensor:
        """Pass through the layer at depth l = i + 1: attention, in a decoder also to the source, and feed-forward."""
        x = x + self.attention[i](x, state, causal=source is not None, incremental_state=incremental_state)
        if source is not None:
            x = x + self.encoder_attention[i](x, source)
        return x + self.feed_forward[i](x)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Do nothing; fairseq's encoder calls this method of its layers."""


class SinusoidsFromZero(nn.Module):
    """Sines, then cosines, of a token's index from 0 (fairseq counts from 2); padding gets zeros."""

    max_positions = 10**9  # there is no limit

    def __init__(self, embed_dim: int, padding_idx: int):
        super().__init__()
        self.dim, self.padding_idx = embed_dim, padding_idx
        self.register_buffer("dtype_of", torch.empty(0), persistent=False)  # follows the model's precision

    def forward(self, tokens: Tensor, incremental_state: dict | None = None) -> Tensor:
        """(B, T) tokens -> (B, T, C); in incremental decoding (B, 1, C), for the last token."""
        real = tokens.ne(self.padding_idx)
        index = real.cumsum(1) - 1
        if incremental_state is not None:
            real, index = real[:, -1:], index[:, -1:]
        return (sinusoids(index, self.dim) * real.unsqueeze(-1)).type_as(self.dtype_of)


class _Evolving:
    """The changes to fairseq's encoder and decoder: blocks as layers, positions from 0, no dropout of embeddings."""

    def __init__(self, cfg: TransformerConfig, *args: Any, **more: Any):
        self._built = 0
        super().__init__(cfg, *args, **more)
        if self.embed_positions is not None:
            self.embed_positions = SinusoidsFromZero(cfg.encoder.embed_dim, self.padding_idx)
        self.dropout_module = Dropout(0.0, module_name=self.__class__.__name__)  # no dropout of embeddings
        self.compile_layers = cfg.compile_layers
        # The two forms have the same parameters, so the form is stored in checkpoints.
        self._form = FORMS.index(cfg.transevolve_form)
        self.register_buffer("form", torch.tensor([float(self._form)]))

    def _block(self, cfg: TransformerConfig, side: str) -> nn.Module:
        block = Block(cfg, side, self._built)
        self._built += 1
        # Activation checkpointing is done within the block, for each depth.
        return fsdp_wrap(block, min_num_params=cfg.min_params_to_wrap)

    def through(
        self, x: Tensor, tokens: Tensor, context: Context, alignment_layer: int | None = None
    ) -> tuple[list[Tensor], None]:
        """As in ``PlainDecoder``, without weights: fused attention has none to return."""
        states = [x]
        for block in self.layers:
            states.append(passes.run_layer(self, block, states[-1], context))
        return states, None

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        # Not taken from self.form, which has no value on the meta device.
        form = int(state_dict.setdefault(f"{prefix}form", torch.tensor([float(self._form)])))
        if form != self._form:
            theirs, ours = FORMS[form], FORMS[self._form]
            raise OdeTransformerError(f"--transevolve-form {ours}: must be {theirs}, the form of the checkpoint")
        super()._load_from_state_dict(state_dict, prefix, *args)


class TransEvolveEncoder(_Evolving, PlainEncoder):
    """fairseq's encoder with TransEvolve's blocks; it can be used without a decoder."""

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return self._block(cfg, "encoder")


class TransEvolveDecoder(_Evolving, PlainDecoder):
    """fairseq's decoder with TransEvolve's blocks."""

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return self._block(cfg, "decoder")

    def buffered_future_mask(self, tensor: Tensor) -> None:
        """Return None: the kernel is always causal, without a mask, which would be a (T, T) matrix."""


@register_model("transevolve", dataclass=TransEvolveConfig)
class TransEvolveModel(EncoderDecoder):
    """TransEvolve for translation (``--arch transevolve_fullff_1`` and others)."""

    config_class, encoder_class, decoder_class = TransEvolveConfig, TransEvolveEncoder, TransEvolveDecoder
    prepare = staticmethod(prepare)


@dataclass
class TransEvolveClassifierConfig(TransEvolveConfig):
    """The options of an encoder."""

    max_positions: int = option(512, LONGEST)


@register_model("transevolve_encoder", dataclass=TransEvolveClassifierConfig)
class TransEvolveClassifier(EncoderClassifier):
    """TransEvolve's encoder with classification heads (``--arch transevolve_small`` and others)."""

    config_class, encoder_class = TransEvolveClassifierConfig, TransEvolveEncoder
    prepare = staticmethod(prepare)


def _row(feed_forward: str, blocks: int, embed_dim: int, heads: int) -> dict[str, Any]:
    return size(
        embed_dim,
        4 * embed_dim,
        heads,
        evolution_feed_forward=feed_forward,
        evolution_blocks=blocks,
        evolution_depth=6 // blocks,
    )


_SYSTEMS = {f"{kind}ff_{blocks}": (kind, blocks) for kind in FEED_FORWARDS for blocks in (1, 2)}

ARCHITECTURES = {f"transevolve_{name}": _row(*system, 512, 8) for name, system in _SYSTEMS.items()} | {
    f"transevolve_{name}_tiny": _row(*system, 128, 4) for name, system in _SYSTEMS.items()
}
# The sizes of the classification experiments; ``transevolve_small`` is the first of them.
CLASSIFIERS = {f"transevolve_small_{name}": _row(*system, 256, 8) for name, system in _SYSTEMS.items()}
CLASSIFIERS = {"transevolve_small": CLASSIFIERS["transevolve_small_fullff_1"]} | CLASSIFIERS

register_architectures("transevolve", TransEvolveConfig, ARCHITECTURES)
register_architectures("transevolve_encoder", TransEvolveClassifierConfig, CLASSIFIERS)
