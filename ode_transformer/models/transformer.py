"""The encoder-decoder that all families build on: fairseq's Transformer around our layers.

A family is a configuration with defaults of its own and a table of named architectures. Macaron Net and the ODE
Transformer share every option below; TransEvolve has blocks of another kind, and options of its own.
"""

import argparse
import re
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from ..config import FlatTransformerConfig, add_flags, option, to_transformer_config
from ..errors import OdeTransformerError
from ..modules.attention import RELATIVE_POSITIONS
from ..modules.history import HISTORIES
from ..modules.options import GATE_SHARING, ODE_FUNCTIONS, ODE_RESIDUALS, check_model
from ..modules.positions import FLOW_SHARING, POSITION_BLOCKS, POSITION_ENCODERS, build_position_encoder
from ..modules.stacks import Decoder, Encoder
from ..numerics.coefficients import COEFFICIENTS
from ..numerics.flow import FLOW_GRADIENTS, FLOW_METHODS
from ..numerics.integrators import INTEGRATORS
from ..numerics.splitting import SPLITTINGS

# Enumerations of the names that an option may have, for fields of configurations.
SplittingName = ChoiceEnum(SPLITTINGS.choices())
IntegratorName = ChoiceEnum(INTEGRATORS.choices())
CoefficientsName = ChoiceEnum(COEFFICIENTS.choices())
GateSharingName = ChoiceEnum(list(GATE_SHARING))
OdeFunctionName = ChoiceEnum(list(ODE_FUNCTIONS))
OdeResidualName = ChoiceEnum(list(ODE_RESIDUALS))
RelativePositionsName = ChoiceEnum(list(RELATIVE_POSITIONS))
DecoderRelativePositionsName = ChoiceEnum(["same", *RELATIVE_POSITIONS])
HistoryName = ChoiceEnum(HISTORIES.choices())
PositionEncoderName = ChoiceEnum(POSITION_ENCODERS.choices())
PositionBlocksName = ChoiceEnum(list(POSITION_BLOCKS))
FlowSharingName = ChoiceEnum(list(FLOW_SHARING))
FlowMethodName = ChoiceEnum(list(FLOW_METHODS))
FlowGradientName = ChoiceEnum(list(FLOW_GRADIENTS))


def size(embed_dim: int, ffn_embed_dim: int, heads: int, layers: int = 6, **more: Any) -> dict[str, Any]:
    """A row of a table of architectures: as many layers in encoder and decoder, whose widths follow the encoder's."""
    return {
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": ffn_embed_dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_layers": layers,
        "decoder_layers": layers,
        **more,
    }


@dataclass
class SplitTransformerConfig(FlatTransformerConfig):
    """All options of fairseq's Transformer, and those of splitting, integrator, attention and history."""

    splitting: SplittingName = option(
        "lie-trotter",
        "how attention and feed-forward take turns: lie-trotter (the Transformer), strang (Macaron), "
        "strang-swapped (half attention, FFN, half attention), parallel (both from one state)",
    )
    ffn_hidden_layers: int = option(1, "hidden layers of an FFN, without residual between them: 1 or 2")
    integrator: IntegratorName = option(
        "euler",
        "how an encoder layer steps: Runge-Kutta (heun is the paper's RK2), polynet, a multistep scheme, or with "
        "momentum (nesterov, triple; as published with --ode-function substeps)",
    )
    decoder_integrator: IntegratorName = option("euler", "how a decoder layer steps")
    coefficients: CoefficientsName = option(
        "fixed",
        "how stages are weighed: fixed (by the method), ones, scalars (learned), sigmoid (g and 1 - g), two-sigmoids, "
        "two-tanh, second-order (a gate among the methods of order 2), ema (a (1 - a)^(n - i), one learned a), "
        "ema-channels (one per channel)",
    )
    gate_sharing: GateSharingName = option("shared", "learned coefficients: one set, or one a layer")
    ode_function: OdeFunctionName = option(
        "both",
        "what is integrated: both (the whole layer's increment), san or ffn (those sub-layers alone, the others take "
        "Euler steps), substeps (each sub-layer by itself)",
    )
    ode_residual: OdeResidualName = option(
        "paper",
        "F is the increment of what is integrated (paper), or that with its residual (released; without a history it "
        "grows 2.5 to 3 times a layer). For euler they are one",
    )
    relative_positions: RelativePositionsName = option(
        "none", "relative positions in self-attention: none, keys, or keys-values"
    )
    decoder_relative_positions: DecoderRelativePositionsName = option(
        "same", "relative positions in the decoder's self-attention; same: those of --relative-positions"
    )
    max_relative_length: int = option(8, "of --relative-positions: distance from which on all are one")
    encoder_history: HistoryName = option(
        "none",
        "how encoder layers read those before them: residual, dense or learnable_dense (normalised), denseformer "
        "(learned weights that start as the Transformer), attention (softmax over layers), corrector (PCformer's: each "
        "layer is evaluated once more, from a mixture of its step and those before)",
    )
    decoder_history: HistoryName = option("none", "how decoder layers read those before them")
    word_dropout: float = option(
        0.0, "probability of dropping a word's whole embedding, source and target, in training"
    )
    rk_norm: bool = option(
        False, "normalise the stages of Runge-Kutta steps where they are added, and the state that they are added to"
    )
    velocity_embedding: bool = option(
        False, "with momentum: the velocity starts as an embedding of its own; else at rest"
    )
    position_encoder: PositionEncoderName = option(
        "none",
        "what tells the blocks about positions: none, sinusoidal or learned (added to their inputs), floater (a flow "
        "of biases of queries, keys and values), rnn-scalar-1 to rnn-vector-2 (a recurrent network in its place)",
    )
    position_blocks: PositionBlocksName = option("all", "which blocks --position-encoder tells")
    flow_sharing: FlowSharingName = option(
        "all", "one flow for all biases, or three, for encoder, decoder and cross-attention's source (stack, released)"
    )
    flow_method: FlowMethodName = option("rk4", "solver of the flow")
    flow_step: float = option(4.0, "tokens that a step of the flow's solver spans (released: 0.2)")
    flow_horizon: int = option(
        0,
        "position up to which the flow is integrated; beyond it biases go on along their tangents, where integration "
        "would let them grow exponentially (0: the larger of --max-source-positions and --max-target-positions)",
    )
    flow_gradient: FlowGradientName = option(
        "direct", "gradients through the flow's solver: direct back-propagation, or adjoint (less memory, more time)"
    )
    flow_update_interval: int = option(
        1,
        "updates from one solution of the flow, and gradient of its dynamics, to the next; with --optimizer flow_adam, "
        "for others move the flow by their momentum in between",
    )
    freeze: Optional[str] = option(
        None,
        "regular expression: parameters in whose names it is found are not trained. '^position_encoder' freezes the "
        "flow, '^(?!position_encoder)' everything else",
    )


def nested(cfg: Any, config_class: type) -> TransformerConfig:
    """What fairseq's Transformer is built from: of the flat configuration, or of what fairseq or hydra made of it.

    Raises:
        ValueError: for a field that is unknown, missing or out of its set, or does not go with another.
    """
    cfg = to_transformer_config(cfg, config_class)
    if str(cfg.position_encoder) == "learned":
        cfg.encoder.learned_pos = cfg.decoder.learned_pos = True
    check_model(cfg)
    return cfg


def freeze(model: nn.Module, pattern: Optional[str]) -> None:
    """Have no gradients for the parameters of a model in whose names a regular expression is found.

    Raises:
        OdeTransformerError: it is no regular expression, or is found in no name.
    """
    if pattern is None:
        return
    try:
        found = [p for name, p in model.named_parameters() if re.search(pattern, name)]
    except re.error as error:
        raise OdeTransformerError(f"--freeze {pattern!r}: is no regular expression: {error}") from error
    if not found:
        names = [name for name, _ in model.named_parameters()]
        raise OdeTransformerError(
            f"--freeze {pattern!r}: is found in the name of no parameter, such as {names[0]} or {names[-1]}"
        )
    for p in found:
        p.requires_grad_(False)


class WordDropoutEmbedding(nn.Embedding):
    """An embedding that leaves each word out, as a vector of zeros, with probability p in training.

    The released code's ``word_dropout`` is the probability of keeping it.
    """

    p = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, C)."""
        x = super().forward(tokens)
        if self.training and self.p > 0:
            x = x * (x.new_empty(tokens.shape).uniform_() >= self.p).unsqueeze(-1)
        return x


class SplitTransformerModel(TransformerModelBase):
    """A Transformer of our layers; a family registers a subclass with its configuration."""

    config_class: type = SplitTransformerConfig

    def __init__(self, args: Any, encoder: Encoder, decoder: Decoder):
        super().__init__(args, encoder, decoder)
        self.position_encoder = build_position_encoder(self.cfg, {"encoder": encoder, "decoder": decoder})
        for stack in (encoder, decoder):
            stack.tell_positions(self.position_encoder)
        freeze(self, self.cfg.freeze)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **more: Any) -> Any:
        """As of fairseq's Transformer: (B, S), (B,) and (B, T) -> (B, T, symbols), and what else there is."""
        if self.position_encoder is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **more)
        with self.position_encoder.one_pass(max(src_tokens.size(1), prev_output_tokens.size(1))):
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **more)

    def set_beam_size(self, beam_size: int) -> None:
        """How many hypotheses a sentence has; fairseq's generator says so where there are several."""
        self.decoder.set_beam_size(beam_size)

    @classmethod
    def add_args(cls, parser: argparse._ActionsContainer) -> None:
        """Add the family's flags and all of the stock Transformer's."""
        add_flags(parser, cls.config_class())

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SplitTransformerModel":
        """Build the model from the family's flat configuration (or what fairseq or hydra made of it).

        Raises:
            ValueError: for a field that is unknown, missing or out of its set, or does not go with another.
        """
        return super().build_model(nested(cfg, cls.config_class), task)

    @classmethod
    def build_embedding(
        cls, cfg: TransformerConfig, dictionary: Any, embed_dim: int, path: Optional[str] = None
    ) -> nn.Embedding:
        embedding = super().build_embedding(cfg, dictionary, embed_dim, path)
        if cfg.word_dropout > 0:
            embedding = WordDropoutEmbedding.from_pretrained(
                embedding.weight, freeze=False, padding_idx=embedding.padding_idx
            )
            embedding.p = cfg.word_dropout
        return embedding

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> Encoder:
        return Encoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> Decoder:
        return Decoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
