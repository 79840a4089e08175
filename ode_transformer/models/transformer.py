"""The encoder-decoder that all families build on: fairseq's Transformer with our layers.

A family is a configuration with its own defaults and a table of named architectures. Macaron Net, the ODE Transformer
and FLOATER share all options (``modules/options.py``); TransEvolve has blocks of another kind, and its own options.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from ..config import add_flags, flag, to_transformer_config
from ..errors import OdeTransformerError
from ..modules.options import SplitTransformerConfig
from ..modules.positions import POSITION_ENCODERS
from ..modules.rules import check_options, of_one_side, refuse
from ..modules.stacks import Decoder, Encoder, SplitStack
from ..numerics.splitting import SPLITTINGS
from ..training.graphs import TrainingGraphs


def size(embed_dim: int, ffn_embed_dim: int, heads: int, layers: int = 6, **more: Any) -> dict[str, Any]:
    """Return the fields of a size. Unless ``more`` says otherwise, the decoder has the encoder's layers and widths."""
    return {
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": ffn_embed_dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_layers": layers,
        "decoder_layers": layers,
        **more,
    }


def row(system: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a system in a size, whose feed-forward dimension is halved if a layer has two networks."""
    if SPLITTINGS.named(system.get("splitting", "lie-trotter")).feed_forwards == 2:
        fields = {**fields, "encoder_ffn_embed_dim": fields["encoder_ffn_embed_dim"] // 2}
    return {**fields, **system}


class Configured:
    """A mixin for fairseq models that are built from a flat configuration, of class ``config_class``."""

    config_class: type

    @classmethod
    def add_args(cls, parser: argparse._ActionsContainer) -> None:
        """Add a flag for every field of the configuration; called by fairseq."""
        add_flags(parser, cls.config_class())

    @classmethod
    def nested_config(cls, flat: Any, alone: str | None = None) -> TransformerConfig:
        """Return the nested configuration that fairseq's Transformer is built from, with its options checked.

        ``flat`` is of class ``config_class``, or fairseq's or hydra's version of that; ``alone`` is the only side of
        the model, None if it has both.
        """
        cfg = to_transformer_config(flat, cls.config_class)
        if alone:
            refuse(of_one_side(cfg, alone, cls.config_class))
        cls.prepare(cfg, (alone,) if alone else ("encoder", "decoder"))
        return cfg

    @staticmethod
    def prepare(cfg: TransformerConfig, sides: Sequence[str]) -> None:
        """Check the options of a model that has these sides, and set those that follow from others."""
        if cfg.position_encoder == "learned":
            cfg.encoder.learned_pos = cfg.decoder.learned_pos = True
        check_options(cfg, sides)


def add_positions_and_freeze(model: nn.Module, cfg: TransformerConfig, **sides: SplitStack) -> None:
    """Give a model with these sides its position encoder, and turn off gradients as ``--freeze`` asks."""
    model.position_encoder = POSITION_ENCODERS.named(cfg.position_encoder)(cfg, sides)
    for stack in sides.values():
        stack.tell_positions(model.position_encoder)
    if (pattern := cfg.freeze) is None:
        return
    named = dict(model.named_parameters(remove_duplicate=False))  # a matrix that is shared by each of its names
    try:
        found = [name for name in named if re.search(pattern, name)]
    except re.error as error:
        raise OdeTransformerError(f"--freeze {pattern!r}: must be a regular expression: {error}") from error
    if not found:
        raise OdeTransformerError(
            f"--freeze {pattern!r}: must match the name of a parameter, such as {min(named)} or {max(named)}"
        )
    for name in found:
        named[name].requires_grad_(False)


def build_graphs(cfg: TransformerConfig, stack: nn.Module) -> Callable[..., tuple[Tensor, Any]]:
    """Return what runs the passes of a model with this stack: with ``--cuda-graphs``, recordings of them."""
    return TrainingGraphs(stack.dictionary.pad(), stack.dictionary.eos()) if cfg.cuda_graphs else _eager


def _eager(model: nn.Module, run: Callable, tokens: dict[str, Tensor], **more: Any) -> tuple[Tensor, Any]:
    return run(**tokens, **more)


class EncoderDecoder(Configured, TransformerModelBase):
    """fairseq's encoder-decoder with stacks of ours, whose training passes can be recorded."""

    encoder_class: type
    decoder_class: type

    def __init__(self, args: Any, encoder: nn.Module, decoder: nn.Module):
        super().__init__(args, encoder, decoder)
        self.graphs = build_graphs(self.cfg, decoder)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "EncoderDecoder":
        """Return the model of a flat configuration, which ``nested_config`` checks."""
        cfg = cls.nested_config(cfg)
        shares = [name for name in ("share_all_embeddings", "merge_src_tgt_embed") if getattr(cfg, name)]
        if shares and task.source_dictionary != task.target_dictionary:
            raise OdeTransformerError(
                f"{flag(shares[0])} requires a joined dictionary (fairseq-preprocess --joined-dictionary), also if "
                f"the architecture implies it; for one per language give {flag(shares[0], False)} "
                "--share-decoder-input-output-embed"
            )
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> nn.Module:
        return cls.encoder_class(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> nn.Module:
        return cls.decoder_class(cfg, tgt_dict, embed_tokens)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None, prev_output_tokens: Tensor, **more: Any
    ) -> tuple[Tensor, dict]:
        """As in fairseq: tokens (B, S) and (B, T) -> scores (B, T, vocabulary size), and the decoder's dictionary."""
        tokens = {"src_tokens": src_tokens, "prev_output_tokens": prev_output_tokens}
        return self.graphs(self, self._pass, tokens, **more)

    def _pass(self, src_tokens: Tensor, prev_output_tokens: Tensor, **more: Any) -> tuple[Tensor, dict]:
        return super().forward(src_tokens, None, prev_output_tokens, **more)  # our encoders count the padding

    def train(self, mode: bool = True) -> "EncoderDecoder":
        """As in ``nn.Module``. fairseq calls it twice per update, mostly in vain, while a GPU waits."""
        return self if all(module.training == mode for module in self.modules()) else super().train(mode)

    def set_beam_size(self, beam_size: int) -> None:
        """Set the number of hypotheses per sentence; fairseq's generator calls this if there are several."""
        self.decoder.set_beam_size(beam_size)


class SplitTransformerModel(EncoderDecoder):
    """A Transformer with our layers; a family registers a subclass with its configuration."""

    config_class, encoder_class, decoder_class = SplitTransformerConfig, Encoder, Decoder

    def __init__(self, args: Any, encoder: Encoder, decoder: Decoder):
        super().__init__(args, encoder, decoder)
        add_positions_and_freeze(self, self.cfg, encoder=encoder, decoder=decoder)

    def _pass(
        self, src_tokens: Tensor, prev_output_tokens: Tensor, return_all_hiddens: bool = True, **more: Any
    ) -> tuple[Tensor, dict]:
        solution = None
        if self.position_encoder is not None:
            solution = self.position_encoder.solve(max(src_tokens.size(1), prev_output_tokens.size(1)))
        encoder_out = self.encoder(src_tokens, None, return_all_hiddens, solution=solution)
        return self.decoder(prev_output_tokens, encoder_out, solution=solution, **more)
