"""The options of the models but TransEvolve: a table of them, the rules that they obey, and what they stand for.

A configuration holds names, as users write them. ``check`` refuses values and combinations that have no meaning, each
with the sentence of a rule; ``Options.of`` turns the names of one side into the objects that they stand for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from torch import nn

from ..config import FlatTransformerConfig, option
from ..numerics.coefficients import COEFFICIENTS, Coefficients
from ..numerics.flow import FLOW_METHODS
from ..numerics.integrators import EULER, HEUN, INTEGRATORS, Released, initial_scalars
from ..numerics.momentum import Momentum
from ..numerics.protocol import Integrator
from ..numerics.splitting import SPLITTINGS, Splitting
from .attention import RELATIVE_POSITIONS
from .history import HISTORIES, History, SchemeWeights
from .pcformer import PredictorCorrector
from .positions import FLOW_SHARING, POSITION_BLOCKS, POSITION_ENCODERS
from .rules import Rule, apply, check_stock, flag

ODE_FUNCTIONS = {"both": None, "san": "F", "ffn": "G", "substeps": "FCG"}
"""What is integrated: the increment of the whole layer (None), or the sub-flows with these letters, each by itself."""

ODE_RESIDUALS = ("paper", "released")

GATE_SHARING = ("shared", "per-layer")

# The table of options

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


@dataclass
class SplitTransformerConfig(FlatTransformerConfig):
    """All options of fairseq's Transformer, and those of splitting, integrator, attention, history and positions.

    Each has its default, its help, and the paper or the code that it is from.
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
        "the step of an encoder layer: a Runge-Kutta method (heun is the paper's RK2), polynet, a multistep scheme, or "
        "a method with momentum (nesterov, triple; published with --ode-function substeps)",
        "ODE Transformer, Tables 1 and 7; nesterov, triple: YuriiFormer",
    )
    decoder_integrator: IntegratorName = option("euler", "the step of a decoder layer", "ODE Transformer, Table 5")
    coefficients: CoefficientsName = option(
        "fixed",
        "the weights of the stages: fixed (the method's), ones, scalars (learned), sigmoid (gates g and 1 - g), "
        "two-sigmoids, two-tanh, second-order (a gate among the methods of order 2), ema (a (1 - a)^(n - i) with one "
        "learned a), ema-channels (with one a per channel)",
        "ODE Transformer, Table 10; ema: PCformer; second-order: ours",
    )
    gate_sharing: GateSharingName = option(
        "shared", "learned coefficients: shared by all layers, or per-layer", "PCformer's code"
    )
    ode_function: OdeFunctionName = option(
        "both",
        "what is integrated: both (the increment of the whole layer), san (self-attention) or ffn (feed-forward) by "
        "itself, with Euler steps for the others, or substeps (each sub-layer by itself)",
        "ODE Transformer, Figure 4; substeps: YuriiFormer",
    )
    ode_residual: OdeResidualName = option(
        "paper",
        "F is the increment of what is integrated (paper), or the increment with its residual (released; without a "
        "history the state grows 2 to 3 times per layer). For euler both are the same",
        "ODE Transformer's code",
    )
    relative_positions: RelativePositionsName = option(
        "none",
        "relative positions in self-attention: none, keys, or keys-values",
        "ODE Transformer, appendix B; keys-values: PCformer's code",
    )
    decoder_relative_positions: DecoderRelativePositionsName = option(
        "same",
        "relative positions in the decoder's self-attention (same: those of --relative-positions)",
        "PCformer's code",
    )
    max_relative_length: int = option(
        8, "largest distance that --relative-positions tells apart", "ODE Transformer, appendix B"
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
        0.0,
        "probability of dropping the whole embedding of a token, in source and target, in training",
        "ODE Transformer's code",
    )
    rk_norm: bool = option(
        False,
        "normalize the stages of Runge-Kutta steps before they are added, and the state that they are added to",
        "PCformer's code",
    )
    velocity_embedding: bool = option(
        False, "with momentum: start the velocity as a second embedding of the tokens, not at rest", "YuriiFormer"
    )
    position_encoder: PositionEncoderName = option(
        "none",
        "how every block reads positions: none, sinusoidal or learned (added to its input), floater (biases of "
        "queries, keys and values that follow a flow), rnn-scalar-1 to rnn-vector-2 (a recurrent network in its place)",
        "FLOATER, Tables 2 and 6",
    )
    position_blocks: PositionBlocksName = option(
        "all", "blocks that have --position-encoder: all, or only the input block", "FLOATER, Table 2"
    )
    flow_sharing: FlowSharingName = option(
        "all",
        "one flow for all biases (all), or three, for encoder, decoder and the source of cross-attention (stack, as in "
        "the released code)",
        "FLOATER, equation 10; stack: FLOATER's code",
    )
    flow_method: FlowMethodName = option("rk4", "solver of the flow", "FLOATER, appendix B.1")
    flow_step: float = option(
        4.0,
        "tokens that one step of the flow's solver spans (released code: 0.2); in evaluation it is halved until that "
        "moves no bias by more than 1e-5 of max(1, the largest)",
        "FLOATER's code",
    )
    flow_horizon: int = option(
        0,
        "position up to which the flow is integrated; beyond it biases continue along their tangents, as they would "
        "otherwise grow exponentially (0: the larger of --max-source-positions and --max-target-positions)",
        "ours",
    )
    freeze: Optional[str] = option(
        None,
        "regular expression; parameters whose names contain a match are not trained. '^position_encoder' freezes the "
        "flow, '^(?!position_encoder)' everything else",
        "FLOATER, section 4.2",
    )

    @staticmethod
    def idle_options(values: Mapping[str, Any]) -> set[str]:
        """As in the base class; options that need a missing one count as meaningful."""
        return {name for name, _, of, without in NEEDS if str(values.get(of)) in without}


# What the options of one side stand for


@dataclass(frozen=True)
class Options:
    """The options of one side, resolved.

    Args:
        side: encoder or decoder.
        name: the integrator's name.
        weighted: whether ``--coefficients`` and ``--ode-residual`` apply to this side.
        pre_norm: whether its layers are pre-norm.
        splitting: the order of attention (F) and feed-forward (G) within a layer.
        ffn_hidden_layers: hidden layers of a feed-forward, 1 or 2.
        integrator: the method of a layer's step.
        integrated_flows: the flows that are integrated, each by itself; None for the increment of the whole layer. With
            Euler's method and its own weights that makes no difference, and each sub-layer takes a step by itself.
        released: whether F is the layer with its residual, as in the released ODE Transformer.
        coefficients: what weights the stages, a name in ``numerics/coefficients.py``.
        gate_sharing: whether all layers share the coefficients: shared, or per-layer.
        history: what stands between the layers, a name in ``modules/history.py``.
        relative_positions: those of self-attention: none, keys, or keys-values.
        max_relative_length: the largest distance that relative positions tell apart.
        rk_norm: whether the stages of a Runge-Kutta step, and the state that they are added to, are normalized.
        velocity_embedding: whether the initial velocity is a token embedding; otherwise the stack starts at rest.
    """

    side: str
    name: str
    weighted: bool
    pre_norm: bool
    splitting: Splitting
    ffn_hidden_layers: int
    integrator: Integrator
    integrated_flows: Optional[str]
    released: bool
    coefficients: str
    gate_sharing: str
    history: str
    relative_positions: str
    max_relative_length: int
    rk_norm: bool
    velocity_embedding: bool

    @classmethod
    def of(cls, cfg: TransformerConfig, side: str) -> "Options":
        """The options of one side, ``encoder`` or ``decoder``.

        Raises:
            ValueError: a name is unknown.
        """
        names = {"encoder": cfg.integrator, "decoder": cfg.decoder_integrator}
        methods = {name: INTEGRATORS.named(of) for name, of in names.items()}
        several = {name: bool(method.weights) and method != EULER for name, method in methods.items()}
        integrator, splitting, history = methods[side], SPLITTINGS.named(cfg.splitting), getattr(cfg, f"{side}_history")
        # As in the released code, an encoder's Euler step is weighted too, unless the decoder has steps to weight.
        weighted = several[side] or (side == "encoder" and integrator == EULER and not several["decoder"])
        coefficients = cfg.coefficients if weighted else "fixed"
        unweighted = integrator == EULER and coefficients in _UNWEIGHTED
        flows = ODE_FUNCTIONS[cfg.ode_function]
        if integrator.spans_layers:
            flows = None
        elif unweighted and not splitting.together and history != "corrector":
            flows = ODE_FUNCTIONS["substeps"]
        relative = cfg.relative_positions
        if side == "decoder" and cfg.decoder_relative_positions != "same":
            relative = cfg.decoder_relative_positions
        return cls(
            side=side,
            name=names[side],
            weighted=weighted,
            pre_norm=getattr(cfg, side).normalize_before,
            splitting=splitting,
            ffn_hidden_layers=cfg.ffn_hidden_layers,
            integrator=integrator,
            integrated_flows=flows,
            # A step of one unweighted stage is the layer itself in both forms.
            released=cfg.ode_residual == "released" and weighted and not unweighted,
            coefficients=coefficients,
            gate_sharing=cfg.gate_sharing,
            history=history,
            relative_positions=relative,
            max_relative_length=cfg.max_relative_length,
            rk_norm=cfg.rk_norm and integrator.takes_norms,
            velocity_embedding=cfg.velocity_embedding and isinstance(integrator, Momentum),
        )

    @property
    def unweighted(self) -> bool:
        """Whether a step is Euler's with its own weight, which is the layer itself."""
        return self.integrator == EULER and self.coefficients in _UNWEIGHTED

    @property
    def given(self) -> str:
        """The integrator as it is given."""
        return f"--{'decoder-' * (self.side == 'decoder')}integrator {self.name}"

    @property
    def fitting(self) -> str:
        """The coefficients that can weight the stages of the integrator."""
        stages = (None, self.integrator.stages)
        return ", ".join(name for name, rule in COEFFICIENTS.items() if rule.stages in stages)

    @property
    def solver(self) -> Integrator:
        """The method in the form that is asked for, and with its corrector."""
        method = Released(self.integrator) if self.released else self.integrator
        return PredictorCorrector(method) if self.history == "corrector" else method

    def build_history(self, depth: int, embed_dim: int, pre_norm: bool) -> History:
        """What the layers of a stack read of earlier outputs, or the weights of a scheme that reads them itself."""
        if self.integrator.spans_layers:
            return SchemeWeights(depth, self.integrator)
        return HISTORIES.named(self.history)(depth, embed_dim, pre_norm)

    def build_coefficients(self, sharing: str, embed_dim: int) -> Optional[Coefficients]:
        """What weights the stages if ``--gate-sharing`` is ``sharing``; None if not, or if the method itself does."""
        if sharing != self.gate_sharing or self.coefficients == "fixed":
            return None
        initial = initial_scalars(self.integrator)
        return COEFFICIENTS[self.coefficients].build(self.integrator.stages, initial, embed_dim)

    def build_norms(self, embed_dim: int) -> Optional[nn.ModuleList]:
        """The norms of the state and of each stage of a Runge-Kutta step, which the layers share; None without them.

        A stage whose weight is fixed at 0 has none.
        """
        if not self.rk_norm:
            return None
        weights = self.integrator.weights if self.coefficients == "fixed" else [1.0] * self.integrator.stages
        return nn.ModuleList(LayerNorm(embed_dim) if weight else nn.Identity() for weight in (1.0, *weights))


_UNWEIGHTED = ("fixed", "ones")


# The rules

_NO_BIASES = ("none", "sinusoidal", "learned")
_NO_FLOW = tuple(name for name in POSITION_ENCODERS if name != "floater")

NEEDS = (
    ("gate_sharing", "shared", "coefficients", _UNWEIGHTED),
    ("position_blocks", "all", "position_encoder", ("none",)),
    ("flow_sharing", "all", "position_encoder", _NO_BIASES),
    ("flow_method", "rk4", "position_encoder", _NO_FLOW),
    ("flow_step", 4.0, "position_encoder", _NO_FLOW),
    ("flow_horizon", 0, "position_encoder", _NO_FLOW),
)
"""An option, its idle value, another option, and values of that one with which the first must be idle."""

MODEL_RULES = (
    *(
        Rule(
            f"{flag(name)} {{cfg.{name}}}: has no meaning with {flag(of)} {{cfg.{of}}}",
            lambda cfg, name=name, idle=idle, of=of, without=without: (
                getattr(cfg, name) != idle and getattr(cfg, of) in without
            ),
        )
        for name, idle, of, without in NEEDS
    ),
    Rule(
        "--position-encoder sinusoidal: contradicts --encoder-learned-pos or --decoder-learned-pos",
        lambda cfg: cfg.position_encoder == "sinusoidal" and (cfg.encoder.learned_pos or cfg.decoder.learned_pos),
    ),
    Rule(
        "--position-encoder {cfg.position_encoder}: has no meaning with --no-token-positional-embeddings",
        lambda cfg: cfg.position_encoder in ("sinusoidal", "learned") and cfg.no_token_positional_embeddings,
    ),
    Rule(
        "--word-dropout {cfg.word_dropout}: must be 0 with --velocity-embedding, which would reveal the word",
        lambda cfg: cfg.velocity_embedding and cfg.word_dropout > 0,
    ),
)
"""What holds between options of the whole model."""

_POST_NORM = (
    "post-norm {o.side}, which normalizes sums with residuals; or make it pre-norm, --{o.side}-normalize-before"
)

SIDE_RULES = (
    Rule(
        "--splitting {cfg.splitting}: must have at most two of each sub-layer",  # a plugin can add others
        lambda cfg, o: max(map(o.splitting.flows.count, "FG")) > 2,
    ),
    Rule(
        "--ffn-hidden-layers 2: needs a splitting with one feed-forward, got {cfg.splitting}",
        lambda cfg, o: o.ffn_hidden_layers == 2 and o.splitting.feed_forwards == 2,
    ),
    Rule(
        "{o.given} and --coefficients {o.coefficients}: must be euler and fixed or ones in a " + _POST_NORM,
        lambda cfg, o: not o.pre_norm and not o.unweighted,
    ),
    Rule(
        "--splitting {cfg.splitting}: must not take the sub-layers together in a " + _POST_NORM,
        lambda cfg, o: not o.pre_norm and o.splitting.together,
    ),
    Rule(
        "--ode-function {cfg.ode_function}: must be both with --splitting {cfg.splitting}, which takes the sub-layers "
        "together",
        lambda cfg, o: o.splitting.together and cfg.ode_function != "both",
    ),
    Rule(
        "--coefficients {o.coefficients}: must be fixed, ones or scalars with {o.given}, whose step has one stage",
        lambda cfg, o: o.integrator == EULER and o.coefficients not in (*_UNWEIGHTED, "scalars"),
    ),
    Rule(
        "--coefficients {o.coefficients}: must be one of {o.fitting} with {o.given}, which has {o.integrator.stages} "
        "stages; or take a method of two stages, such as heun",
        lambda cfg, o: COEFFICIENTS[o.coefficients].stages not in (None, o.integrator.stages),
    ),
    Rule(
        "--coefficients second-order: needs the integrator heun, got {o.name}, and --ode-residual paper: its gate "
        "selects a method of order 2 for the layer's increment",
        lambda cfg, o: o.coefficients == "second-order" and (o.integrator != HEUN or o.released),
    ),
    Rule(
        "--coefficients second-order: cannot be combined with --rk-norm, with which no weights give order 2",
        lambda cfg, o: o.coefficients == "second-order" and o.rk_norm,
    ),
    Rule(
        "--max-relative-length {cfg.max_relative_length}: must be 1 or more",
        lambda cfg, o: o.relative_positions != "none" and o.max_relative_length < 1,
    ),
    Rule(
        "--{o.side}-history {o.history}: must be none with {o.given}, which already combines earlier layers",
        lambda cfg, o: o.integrator.spans_layers and o.history != "none",
    ),
    Rule(
        "--{o.side}-history corrector: needs a pre-norm {o.side}, --{o.side}-normalize-before: the norm of a post-norm "
        "layer would undo the correction",
        lambda cfg, o: o.history == "corrector" and not o.pre_norm,
    ),
    Rule(
        "--ode-function {cfg.ode_function}: must be both with --{o.side}-history corrector, which corrects whole "
        "layers",
        lambda cfg, o: o.history == "corrector" and cfg.ode_function != "both",
    ),
    Rule(
        "--{o.side}-history corrector: cannot be combined with {o.given}, whose velocity it does not correct",
        lambda cfg, o: o.history == "corrector" and isinstance(o.integrator, Momentum),
    ),
)
"""What holds within each side."""


class _Sides(NamedTuple):
    """What rules about all sides read as ``o``: their options, and their integrators as they are given."""

    all: Sequence[Options]
    given: str


ALL_SIDES_RULES = (
    Rule(
        "--max-relative-length {cfg.max_relative_length}: has no meaning with --relative-positions none",
        lambda cfg, o: (
            cfg.max_relative_length not in (8, -1) and not any(x.relative_positions != "none" for x in o.all)
        ),
    ),
    Rule(
        "--coefficients {cfg.coefficients}: must be fixed with {o.given}",
        lambda cfg, o: cfg.coefficients != "fixed" and not any(x.weighted for x in o.all),
    ),
    Rule(  # a plain step of Euler's is the same in both forms
        "--ode-residual {cfg.ode_residual}: must be paper with {o.given}",
        lambda cfg, o: (
            cfg.ode_residual != "paper" and not any(x.weighted for x in o.all) and {x.name for x in o.all} != {"euler"}
        ),
    ),
    Rule(
        "--rk-norm: has no meaning without a Runge-Kutta method of several stages as --integrator or "
        "--decoder-integrator",
        lambda cfg, o: cfg.rk_norm and not any(x.integrator.takes_norms for x in o.all),
    ),
    Rule(
        "--velocity-embedding: has no meaning without --integrator or --decoder-integrator "
        + " or ".join(name for name, method in INTEGRATORS.items() if isinstance(method, Momentum)),
        lambda cfg, o: cfg.velocity_embedding and not any(x.velocity_embedding for x in o.all),
    ),
    Rule(  # multistep schemes take the increments of whole layers; architectures have it whose integrator is exchanged
        "--ode-function {cfg.ode_function}: has no meaning with {o.given}",
        lambda cfg, o: cfg.ode_function != "both" and all(x.unweighted or x.integrator.spans_layers for x in o.all),
        warns=True,
    ),
)
"""What needs one of the sides."""


def check(cfg: TransformerConfig, sides: Sequence[str] = ("encoder", "decoder")) -> None:
    """Check the options of a model that has these sides.

    Raises:
        OdeTransformerError: a value is out of its limits, or options cannot be combined.
    """
    check_stock(cfg, sides)
    apply(MODEL_RULES, cfg)
    options = [Options.of(cfg, side) for side in sides]
    apply(ALL_SIDES_RULES, cfg, _Sides(options, " and ".join(o.given for o in options)))
    for o in options:
        apply(SIDE_RULES, cfg, o)
