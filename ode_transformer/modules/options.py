"""The options of all models but TransEvolve, and the objects that they stand for.

A configuration holds names, as users write them; ``Options`` turns the names of one side into objects. Combinations
that are refused are in ``rules.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from torch import nn

from ..config import FlatTransformerConfig, option
from ..numerics.coefficients import COEFFICIENTS, Coefficients
from ..numerics.flow import FLOW_METHODS
from ..numerics.integrators import EULER, HEUN, INTEGRATORS, ButcherTableau, Released
from ..numerics.momentum import Momentum
from ..numerics.protocol import Integrator
from ..numerics.splitting import SPLITTINGS
from .attention import RELATIVE_POSITIONS
from .history import HISTORIES, History, PredictorCorrector, SchemeWeights
from .positions import FLOW_SHARING, POSITION_BLOCKS, POSITION_ENCODERS

ODE_FUNCTIONS = {"both": None, "san": "F", "ffn": "G", "substeps": "FCG"}
"""The functions that are integrated: the increment of the whole layer (None), or each sub-flow with these letters."""

ODE_RESIDUALS = ("paper", "released")

# The choices that families or several options share; the others stand in the table.
SplittingName = ChoiceEnum(SPLITTINGS.choices())
IntegratorName = ChoiceEnum(INTEGRATORS.choices())
RelativePositionsName = ChoiceEnum(list(RELATIVE_POSITIONS))
HistoryName = ChoiceEnum(HISTORIES.choices())
PositionEncoderName = ChoiceEnum(POSITION_ENCODERS.choices())
FlowSharingName = ChoiceEnum(list(FLOW_SHARING))

UNWEIGHTED = ("fixed", "ones")
"""The coefficients with which an Euler step is the layer itself."""

# A plugin's encoder may have a flow.
_NO_FLOW = ("none", "sinusoidal", "learned", *(name for name in POSITION_ENCODERS if name.startswith("rnn-")))

NEEDS = (
    ("gate_sharing", "shared", "coefficients", UNWEIGHTED),
    ("no_token_positional_embeddings", False, "position_encoder", ("sinusoidal", "learned")),
    ("position_blocks", "all", "position_encoder", ("none",)),
    ("flow_sharing", "all", "position_encoder", ("none", "sinusoidal", "learned")),
    ("flow_method", "rk4", "position_encoder", _NO_FLOW),
    ("flow_step", 4.0, "position_encoder", _NO_FLOW),
    ("flow_horizon", 0, "position_encoder", _NO_FLOW),
)
"""An option, its idle value, another option, and values of that one with which the first must be idle."""


@dataclass
class SplitTransformerConfig(FlatTransformerConfig):
    """All options of fairseq's Transformer, and those of splitting, integrator, attention, history and positions.

    Each of the latter has its default, its help, and its source, a paper or code.
    """

    splitting: SplittingName = option(
        "lie-trotter",
        "how attention and feed-forward take turns: lie-trotter (the Transformer), strang (Macaron Net), "
        "strang-swapped (half attention, FFN, half attention), parallel (both read the same state)",
        "Macaron Net, equations 12 to 19, Table 3; parallel: GPT-J",
    )
    ffn_hidden_layers: int = option(
        1, "hidden layers of an FFN, without a residual between them: 1 or 2", "Macaron Net, Table 3"
    )
    integrator: IntegratorName = option(
        "euler",
        "the step of an encoder layer: a Runge-Kutta method (heun is the paper's RK2, euler-4 four Euler steps of a "
        "quarter), polynet, a multistep scheme, or a method with momentum (nesterov, triple; published with "
        "--ode-function substeps)",
        "ODE Transformer, Tables 1 and 7; nesterov, triple: YuriiFormer; euler-4: ours",
    )
    decoder_integrator: IntegratorName = option("euler", "the step of a decoder layer", "ODE Transformer, Table 5")
    coefficients: ChoiceEnum(COEFFICIENTS.choices()) = option(
        "fixed",
        "the weights of the stages: fixed (the method's), ones, scalars (learned), sigmoid (gates g and 1 - g), "
        "two-sigmoids, two-tanh, second-order (a gate among the methods of order 2), ema (a (1 - a)^(n - i) with one "
        "learned a), ema-channels (with one a per channel)",
        "ODE Transformer, Table 10; ema: PCformer; second-order: ours",
    )
    gate_sharing: ChoiceEnum(["shared", "per-layer"]) = option(
        "shared", "learned coefficients: shared by all layers, or per-layer", "PCformer's code"
    )
    ode_function: ChoiceEnum(list(ODE_FUNCTIONS)) = option(
        "both",
        "what is integrated: both (the increment of the whole layer), san (self-attention) or ffn (feed-forward) by "
        "itself, with Euler steps for the others, or substeps (each sub-layer by itself)",
        "ODE Transformer, Figure 4; substeps: YuriiFormer",
    )
    ode_residual: ChoiceEnum(list(ODE_RESIDUALS)) = option(
        "paper",
        "F is the increment of what is integrated (paper), or the increment with its residual (released; without a "
        "history the state grows by a factor of 2 to 3 per layer, with coefficients of 1 by 4 to 8). For euler both "
        "are the same, unless the coefficients are learned",
        "ODE Transformer's code",
    )
    relative_positions: RelativePositionsName = option(
        "none",
        "relative positions in self-attention: none, keys, or keys-values",
        "ODE Transformer, appendix B; keys-values: PCformer's code",
    )
    decoder_relative_positions: ChoiceEnum(["same", *RELATIVE_POSITIONS]) = option(
        "same",
        "relative positions in the decoder's self-attention (same: those of --relative-positions)",
        "PCformer's code",
    )
    max_relative_length: int = option(
        8, "largest distance that relative positions distinguish", "ODE Transformer's code"
    )
    encoder_history: HistoryName = option(
        "none",
        "how encoder layers read the outputs of all earlier layers: residual, dense or learnable_dense (normalized), "
        "denseformer (learned weights that start as the Transformer), attention (softmax over layers), corrector "
        "(PCformer's: each layer is evaluated once more, at a mixture of its step and all earlier states)",
        "ODE Transformer, appendix B; denseformer: DenseFormer; attention: Attention Residuals; corrector: PCformer",
    )
    decoder_history: HistoryName = option(
        "none", "how decoder layers read the outputs of all earlier layers", "as --encoder-history"
    )
    word_dropout: float = option(
        0.0, "probability of dropping a whole token in training, in source and target", "ODE Transformer's code"
    )
    rk_norm: bool = option(
        False,
        "normalize the stages of Runge-Kutta steps before they are added, and the state that they are added to",
        "PCformer's code",
    )
    velocity_embedding: bool = option(
        False,
        "start the velocity of nesterov and triple as a second embedding of the tokens, not at rest",
        "YuriiFormer",
    )
    position_encoder: PositionEncoderName = option(
        "none",
        "how every block reads positions: none, sinusoidal or learned (added to its input), floater (biases of "
        "queries, keys and values that follow a flow), rnn-scalar-1 to rnn-vector-2 (a recurrent network in its place)",
        "FLOATER, Tables 2 and 6",
    )
    position_blocks: ChoiceEnum(list(POSITION_BLOCKS)) = option(
        "all", "blocks to which --position-encoder applies: all, or only the input block", "FLOATER, Table 2"
    )
    flow_sharing: FlowSharingName = option(
        "all",
        "one flow for all biases (all), or three, for encoder, decoder and the source of cross-attention (stack, as in "
        "the released code)",
        "FLOATER, equation 10; stack: FLOATER's code",
    )
    flow_method: ChoiceEnum(list(FLOW_METHODS)) = option("rk4", "solver of the flow", "FLOATER, appendix B.1")
    flow_step: float = option(
        4.0,
        "step of the flow's solver in tokens (released code: 0.2); in evaluation it is halved until halving changes no "
        "bias by more than 1e-5 of max(1, the largest bias), but not below 0.125",
        "FLOATER's code",
    )
    flow_horizon: int = option(
        0,
        "position up to which the flow is integrated; beyond it biases continue along their tangents, because the flow "
        "grows exponentially (0: the larger of --max-source-positions and --max-target-positions; in encoders "
        "--max-positions)",
        "ours",
    )
    freeze: Optional[str] = option(
        None,
        "regular expression; parameters whose names contain a match are not trained. '^position_encoder' freezes the "
        "flow, '^(?!position_encoder)' everything else",
        "FLOATER, section 4.4",
    )

    @staticmethod
    def idle_options(values: Mapping[str, Any]) -> set[str]:
        """As in the base class; an option counts as meaningful if ``values`` lacks the one that it needs."""
        return {name for name, _, of, without in NEEDS if str(values.get(of)) in without}


def _has_weights(method: Integrator) -> bool:
    """Whether coefficients can weight the stages of a method other than Euler's, which has one stage."""
    return bool(method.weights) and method != EULER


class Options:
    """The options of one side, ``encoder`` or ``decoder``, as the objects that they stand for."""

    def __init__(self, cfg: TransformerConfig, side: str):
        of_encoder, of_decoder = INTEGRATORS.named(cfg.integrator), INTEGRATORS.named(cfg.decoder_integrator)
        self.side = side
        if side == "encoder":
            self.integrator, self.given = of_encoder, f"--integrator {cfg.integrator}"
            self.relative_positions: str = cfg.relative_positions
        else:
            self.integrator, self.given = of_decoder, f"--decoder-integrator {cfg.decoder_integrator}"
            own = cfg.decoder_relative_positions
            self.relative_positions = cfg.relative_positions if own == "same" else own
        self.embed_dim: int = getattr(cfg, side).embed_dim
        self.pre_norm: bool = getattr(cfg, side).normalize_before
        self.splitting = SPLITTINGS.named(cfg.splitting)
        self.ffn_hidden_layers: int = cfg.ffn_hidden_layers
        self.history: str = getattr(cfg, f"{side}_history")
        # Whether --coefficients and --ode-residual apply to this side. As in the released code, they apply to an
        # encoder's Euler step too, unless the decoder has steps to weight.
        euler = self.integrator == EULER
        self.weightable = _has_weights(self.integrator) or (
            side == "encoder" and euler and not _has_weights(of_decoder)
        )
        self.coefficients: str = cfg.coefficients if self.weightable else "fixed"
        self.gate_sharing: str = cfg.gate_sharing
        # Whether a step is Euler's with its own weight, which is the layer itself, in the released form as well.
        self.unweighted_euler = euler and self.coefficients in UNWEIGHTED
        self.released = cfg.ode_residual == "released" and self.weightable and not self.unweighted_euler
        # The flows that are integrated, each by itself; None for the increment of the whole layer. For an unweighted
        # Euler step that makes no difference, and each sub-layer takes a step by itself.
        self.integrated_flows = ODE_FUNCTIONS[cfg.ode_function]
        if self.integrator.spans_layers:
            self.integrated_flows = None
        elif self.unweighted_euler and not self.splitting.together and self.history != "corrector":
            self.integrated_flows = ODE_FUNCTIONS["substeps"]
        self.max_relative_length = None if self.relative_positions == "none" else cfg.max_relative_length
        self.rk_norm = cfg.rk_norm and isinstance(self.integrator, ButcherTableau) and self.integrator.stages > 1
        self.velocity_embedding = cfg.velocity_embedding and isinstance(self.integrator, Momentum)

    @property
    def solver(self) -> Integrator:
        """The integrator, in the released form or with a corrector if the options ask for them."""
        method = Released(self.integrator) if self.released else self.integrator
        return PredictorCorrector(method) if self.history == "corrector" else method

    def build_history(self, depth: int) -> History:
        """Return the history of a stack of ``depth`` layers, or the weights of a scheme that reads earlier layers."""
        if self.integrator.spans_layers:
            return SchemeWeights(depth, self.integrator)
        return HISTORIES.named(self.history)(depth, self.embed_dim, self.pre_norm)

    def build_coefficients(self, sharing: str) -> Coefficients | None:
        """Return the coefficients if ``--gate-sharing`` is ``sharing``; None if it is not, or for the method's own."""
        if sharing != self.gate_sharing or self.coefficients == "fixed":
            return None
        # Learned scalars of the paper's RK2 start at 1 (section 3.2), those of others at the method's weights.
        initial = (1.0, 1.0) if self.integrator == HEUN else self.integrator.weights
        return COEFFICIENTS.named(self.coefficients).build(self.integrator.stages, initial, self.embed_dim)

    def build_norms(self) -> nn.ModuleList | None:
        """Return the norms of the state and of each stage of a Runge-Kutta step, for all layers; None without them.

        A stage whose weight is fixed at 0 has none.
        """
        if not self.rk_norm:
            return None
        weights = self.integrator.weights if self.coefficients == "fixed" else [1.0] * self.integrator.stages
        return nn.ModuleList(LayerNorm(self.embed_dim) if weight else nn.Identity() for weight in (1.0, *weights))
