"""The encoder-decoder that all families build on: fairseq's Transformer with our layers.

A family is a configuration with its own defaults and a table of named architectures. Macaron Net, the ODE Transformer
and FLOATER share every option below; TransEvolve has blocks of another kind, and its own options.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from ..config import FlatTransformerConfig, HasFlags, option, to_transformer_config
from ..errors import OdeTransformerError
from ..modules.attention import RELATIVE_POSITIONS
from ..modules.graphs import TrainingGraphs
from ..modules.history import HISTORIES
from ..modules.options import GATE_SHARING, ODE_FUNCTIONS, ODE_RESIDUALS, check_alone, check_model, idle_options
from ..modules.positions import FLOW_SHARING, POSITION_BLOCKS, POSITION_ENCODERS, build_position_encoder
from ..modules.stacks import Decoder, Encoder, PlainDecoder, PlainEncoder, SplitStack
from ..numerics.coefficients import COEFFICIENTS
from ..numerics.flow import FLOW_METHODS
from ..numerics.integrators import INTEGRATORS
from ..numerics.splitting import SPLITTINGS

# Enumerations of the values that an option can have, for the fields of configurations.
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


def size(embed_dim: int, ffn_embed_dim: int, heads: int, layers: int = 6, **more: Any) -> dict[str, Any]:
    """The fields of a size. The decoder has the encoder's number of layers and its widths."""
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
    """A row of a table of architectures: a system in a size.

    Args:
        system: the options in which the system differs from its family's defaults.
        fields: the size. The feed-forward dimension is that of the layer; two feed-forward networks halve it.
    """
    if SPLITTINGS.named(system.get("splitting", "lie-trotter")).feed_forwards == 2:
        fields = {**fields, "encoder_ffn_embed_dim": fields["encoder_ffn_embed_dim"] // 2}
    return {**fields, **system}


@dataclass
class SplitTransformerConfig(FlatTransformerConfig):
    """All options of fairseq's Transformer, and those of splitting, integrator, attention and history."""

    idle_options = staticmethod(idle_options)

    splitting: SplittingName = option(
        "lie-trotter",
        "how attention and feed-forward take turns: lie-trotter (the Transformer), strang (Macaron Net), "
        "strang-swapped (half attention, FFN, half attention), parallel (both read the same state)",
    )
    ffn_hidden_layers: int = option(1, "hidden layers of an FFN, without a residual between them: 1 or 2")
    integrator: IntegratorName = option(
        "euler",
        "the step of an encoder layer: a Runge-Kutta method (heun is the paper's RK2), polynet, a multistep scheme, or "
        "a method with momentum (nesterov, triple; published with --ode-function substeps)",
    )
    decoder_integrator: IntegratorName = option("euler", "the step of a decoder layer")
    coefficients: CoefficientsName = option(
        "fixed",
        "the weights of the stages: fixed (the method's), ones, scalars (learned), sigmoid (gates g and 1 - g), "
        "two-sigmoids, two-tanh, second-order (a gate among the methods of order 2), ema (a (1 - a)^(n - i) with one "
        "learned a), ema-channels (with one a per channel)",
    )
    gate_sharing: GateSharingName = option("shared", "learned coefficients: shared by all layers, or per-layer")
    ode_function: OdeFunctionName = option(
        "both",
        "what is integrated: both (the increment of the whole layer), san (self-attention) or ffn (feed-forward) by "
        "itself, with Euler steps for the others, or substeps (each sub-layer by itself)",
    )
    ode_residual: OdeResidualName = option(
        "paper",
        "F is the increment of what is integrated (paper), or the increment with its residual (released; without a "
        "history the state grows 2 to 3 times per layer). For euler both are the same",
    )
    relative_positions: RelativePositionsName = option(
        "none", "relative positions in self-attention: none, keys, or keys-values"
    )
    decoder_relative_positions: DecoderRelativePositionsName = option(
        "same", "relative positions in the decoder's self-attention (same: those of --relative-positions)"
    )
    max_relative_length: int = option(8, "largest distance that --relative-positions tells apart")
    encoder_history: HistoryName = option(
        "none",
        "how encoder layers read the outputs of all earlier layers: dense or learnable_dense (normalized), "
        "denseformer (learned weights that start as the Transformer), attention (softmax over layers), corrector "
        "(PCformer's: each layer is evaluated once more, at a mixture of its step and all earlier states)",
    )
    decoder_history: HistoryName = option("none", "how decoder layers read the outputs of all earlier layers")
    word_dropout: float = option(
        0.0, "probability of dropping the whole embedding of a token, in source and target, in training"
    )
    rk_norm: bool = option(
        False, "normalize the stages of Runge-Kutta steps before they are added, and the state that they are added to"
    )
    velocity_embedding: bool = option(
        False, "with momentum: start the velocity as a second embedding of the tokens, not at rest"
    )
    position_encoder: PositionEncoderName = option(
        "none",
        "how every block reads positions: none, sinusoidal or learned (added to its input), floater (biases of "
        "queries, keys and values that follow a flow), rnn-scalar-1 to rnn-vector-2 (a recurrent network in its place)",
    )
    position_blocks: PositionBlocksName = option(
        "all", "blocks that have --position-encoder: all, or only the input block"
    )
    flow_sharing: FlowSharingName = option(
        "all",
        "one flow for all biases (all), or three, for encoder, decoder and the source of cross-attention (stack, as in "
        "the released code)",
    )
    flow_method: FlowMethodName = option("rk4", "solver of the flow")
    flow_step: float = option(
        4.0,
        "tokens that one step of the flow's solver spans (released code: 0.2); in evaluation it is halved until that "
        "moves no bias by more than 1e-5 of max(1, the largest)",
    )
    flow_horizon: int = option(
        0,
        "position up to which the flow is integrated; beyond it biases continue along their tangents, as they would "
        "otherwise grow exponentially (0: the larger of --max-source-positions and --max-target-positions)",
    )
    freeze: Optional[str] = option(
        None,
        "regular expression; parameters whose names contain a match are not trained. '^position_encoder' freezes the "
        "flow, '^(?!position_encoder)' everything else",
    )


def nested(flat: Any, config_class: type, alone: Optional[str] = None) -> TransformerConfig:
    """The nested configuration that fairseq's Transformer is built from.

    Args:
        flat: the flat configuration, or fairseq's or hydra's version of it.
        config_class: its class.
        alone: the only side of the model, ``encoder`` or ``decoder``; None if it has both.

    Raises:
        OdeTransformerError: a field is unknown or missing, its value is invalid, it cannot be combined with another, or
            it chooses a method for a side that is not there.
    """
    cfg = to_transformer_config(flat, config_class)
    for name, side in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        if side.layers < 0:
            raise OdeTransformerError(f"--{name}-layers {side.layers}: must be 0 or more")
    if str(cfg.position_encoder) == "learned":
        cfg.encoder.learned_pos = cfg.decoder.learned_pos = True
    check_model(cfg)
    if alone:
        check_alone(cfg, alone, flat, config_class)
    return cfg


def add_positions_and_freeze(model: nn.Module, cfg: TransformerConfig, sides: Mapping[str, SplitStack]) -> None:
    """Give a model its position encoder, which its stacks refer to, and turn off gradients as ``--freeze`` asks.

    Args:
        model: without a position encoder.
        cfg: its configuration.
        sides: its stacks by name, encoder and decoder.
    """
    model.position_encoder = build_position_encoder(cfg, sides)
    for stack in sides.values():
        stack.tell_positions(model.position_encoder)
    freeze(model, cfg.freeze)


def build_graphs(cfg: TransformerConfig, decoder: nn.Module) -> Optional[TrainingGraphs]:
    """The recorded training passes of a model with this decoder, if they are asked for.

    Raises:
        OdeTransformerError: the options cannot be combined with CUDA graphs.
    """
    if not cfg.cuda_graphs:
        return None
    refused = {
        "checkpoint-activations": cfg.checkpoint_activations,
    }
    for flag, given in refused.items():
        if given:
            raise OdeTransformerError(f"--cuda-graphs: cannot be combined with --{flag}")
    return TrainingGraphs(decoder.dictionary.pad(), decoder.dictionary.eos())


def freeze(model: nn.Module, pattern: Optional[str]) -> None:
    """Turn off gradients for the parameters whose names contain a match of a regular expression.

    Raises:
        OdeTransformerError: the pattern is not a regular expression, or matches no name.
    """
    if pattern is None:
        return
    try:
        found = [p for name, p in model.named_parameters() if re.search(pattern, name)]
    except re.error as error:
        raise OdeTransformerError(f"--freeze {pattern!r}: must be a regular expression: {error}") from error
    if not found:
        names = [name for name, _ in model.named_parameters()]
        raise OdeTransformerError(
            f"--freeze {pattern!r}: must match the name of a parameter, such as {names[0]} or {names[-1]}"
        )
    for p in found:
        p.requires_grad_(False)


class EncoderDecoder(HasFlags, TransformerModelBase):
    """fairseq's encoder-decoder, whose training passes can be recorded."""

    def __init__(self, args: Any, encoder: PlainEncoder, decoder: PlainDecoder):
        super().__init__(args, encoder, decoder)
        self.graphs = build_graphs(self.cfg, decoder)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor], prev_output_tokens: Tensor, **more: Any
    ) -> tuple[Tensor, dict]:
        """As in fairseq's Transformer.

        Args:
            src_tokens: (B, S).
            src_lengths: (B,).
            prev_output_tokens: (B, T).
            more: further arguments of fairseq's Transformer.

        Returns:
            Scores (B, T, vocabulary size), and the decoder's dictionary.
        """
        tokens = {"src_tokens": src_tokens, "prev_output_tokens": prev_output_tokens}
        if self.graphs is None:
            return self._pass(**tokens, **more)
        return self.graphs(self, self._pass, tokens, **more)

    def _pass(self, src_tokens: Tensor, prev_output_tokens: Tensor, **more: Any) -> tuple[Tensor, dict]:
        return super().forward(src_tokens, None, prev_output_tokens, **more)  # our encoders count the padding

    def set_beam_size(self, beam_size: int) -> None:
        """Set the number of hypotheses per sentence; fairseq's generator calls this if there are several."""
        self.decoder.set_beam_size(beam_size)


class SplitTransformerModel(EncoderDecoder):
    """A Transformer with our layers; a family registers a subclass with its configuration."""

    config_class = SplitTransformerConfig

    def __init__(self, args: Any, encoder: Encoder, decoder: Decoder):
        super().__init__(args, encoder, decoder)
        add_positions_and_freeze(self, self.cfg, {"encoder": encoder, "decoder": decoder})

    def _pass(
        self, src_tokens: Tensor, prev_output_tokens: Tensor, return_all_hiddens: bool = True, **more: Any
    ) -> tuple[Tensor, dict]:
        solution = None
        if self.position_encoder is not None:
            solution = self.position_encoder.solve(max(src_tokens.size(1), prev_output_tokens.size(1)))
        encoder_out = self.encoder(src_tokens, None, return_all_hiddens, solution=solution)
        return self.decoder(prev_output_tokens, encoder_out, solution=solution, **more)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SplitTransformerModel":
        """Build the model from the family's flat configuration, or from fairseq's or hydra's version of it.

        Raises:
            OdeTransformerError: a field is unknown or missing, its value is invalid, or it cannot be combined with
                another.
        """
        cfg = nested(cfg, cls.config_class)
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> Encoder:
        return Encoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> Decoder:
        return Decoder(cfg, tgt_dict, embed_tokens)
