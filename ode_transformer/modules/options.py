"""The options of an encoder or a decoder, and which of them can be combined.

A configuration holds names, as users write them. ``Options.of`` turns the names of one side into the objects that they
stand for, and refuses combinations that have no meaning.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from torch import nn

from ..config import plain
from ..errors import OdeTransformerError
from ..numerics.coefficients import COEFFICIENTS, Coefficients, check_coefficients
from ..numerics.integrators import EULER, HEUN, INTEGRATORS, Released, initial_scalars
from ..numerics.protocol import Integrator
from ..numerics.splitting import SPLITTINGS, Splitting
from .history import HISTORIES, History, SchemeWeights
from .momentum import check_velocity_embedding, takes_velocity
from .pcformer import PredictorCorrector
from .positions import POSITION_ENCODERS

logger = logging.getLogger(__name__)

ODE_FUNCTIONS = {"both": None, "san": "F", "ffn": "G", "substeps": "FCG"}
"""What is integrated: the increment of the whole layer (None), or the sub-flows with these letters, each by itself."""

ODE_RESIDUALS = ("paper", "released")

GATE_SHARING = ("shared", "per-layer")


@dataclass(frozen=True)
class Options:
    """The options of one side, resolved and checked.

    Args:
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
            OdeTransformerError: the options cannot be combined.
        """
        name = str(getattr(cfg, _INTEGRATOR[side]))
        integrator, coefficients = INTEGRATORS.named(name), str(cfg.coefficients)
        takes_coefficients, history = _takes_coefficients(cfg, side), str(getattr(cfg, f"{side}_history"))
        if not takes_coefficients:
            coefficients = "fixed"  # there are no stages to weight: --coefficients concerns the other side
        splitting, flows = SPLITTINGS.named(str(cfg.splitting)), ODE_FUNCTIONS[str(cfg.ode_function)]
        unweighted = integrator == EULER and coefficients in ("fixed", "ones")
        if integrator.spans_layers:
            flows = None
        elif unweighted and not splitting.together and history != "corrector":
            flows = ODE_FUNCTIONS["substeps"]
        options = cls(
            splitting=splitting,
            ffn_hidden_layers=cfg.ffn_hidden_layers,
            integrator=integrator,
            integrated_flows=flows,
            # A step of one unweighted stage is the layer itself in both forms.
            released=str(cfg.ode_residual) == "released" and takes_coefficients and not unweighted,
            coefficients=coefficients,
            gate_sharing=str(cfg.gate_sharing),
            history=history,
            relative_positions=relative_positions(cfg)[side],
            max_relative_length=cfg.max_relative_length,
            rk_norm=cfg.rk_norm and integrator.takes_norms,
            velocity_embedding=cfg.velocity_embedding and takes_velocity(name),
        )
        options._check_layer(cfg, side, name)
        options._check_stack(cfg, side, name)
        return options

    def _check_layer(self, cfg: TransformerConfig, side: str, integrator: str) -> None:
        flows, function = self.splitting.flows, str(cfg.ode_function)
        if max(map(flows.count, "FG")) > 2:  # possible in a splitting that a plugin adds
            raise OdeTransformerError(f"splitting {cfg.splitting!r}: a layer has at most two of each sub-layer")
        if self.ffn_hidden_layers not in (1, 2):
            raise OdeTransformerError(f"--ffn-hidden-layers {self.ffn_hidden_layers}: must be 1 or 2")
        if self.ffn_hidden_layers == 2 and self.splitting.feed_forwards == 2:
            raise OdeTransformerError(
                f"--ffn-hidden-layers 2 needs a splitting with one feed-forward, got {cfg.splitting}"
            )
        if not getattr(cfg, side).normalize_before:
            self._check_post_norm(cfg, side, integrator)
        if self.splitting.together and function != "both":
            raise OdeTransformerError(
                f"--ode-function {function}: must be both with --splitting {cfg.splitting}, which takes the sub-layers "
                "together"
            )
        if self.integrator == EULER and self.coefficients not in ("fixed", "ones", "scalars"):
            raise OdeTransformerError(
                f"--coefficients {self.coefficients}: must be fixed, ones or scalars with {_flag(_INTEGRATOR[side])} "
                "euler, whose step has one stage"
            )
        try:
            check_coefficients(self.coefficients, self.integrator.stages)
        except ValueError as error:
            raise OdeTransformerError(f"{side} with the integrator {integrator}: {error}") from error
        if self.relative_positions != "none":
            self._check_relative_positions(cfg, side)
        if self.coefficients == "second-order" and (self.integrator != HEUN or self.released):
            raise OdeTransformerError(
                f"--coefficients second-order: needs the integrator heun, got {integrator}, and --ode-residual paper: "
                "its gate selects a method of order 2 for the layer's increment"
            )
        if self.coefficients == "second-order" and self.rk_norm:
            raise OdeTransformerError(
                "--coefficients second-order: cannot be combined with --rk-norm, with which no weights give order 2"
            )

    def _check_relative_positions(self, cfg: TransformerConfig, side: str) -> None:
        if self.max_relative_length < 1:
            raise OdeTransformerError(f"--max-relative-length {self.max_relative_length}: must be 1 or more")

    def _check_post_norm(self, cfg: TransformerConfig, side: str, integrator: str) -> None:
        instead = f"{side}, which normalizes sums with residuals; or make it pre-norm, --{side}-normalize-before"
        if self.integrator != EULER or self.coefficients not in ("fixed", "ones"):
            raise OdeTransformerError(
                f"{_flag(_INTEGRATOR[side])} {integrator} and --coefficients {self.coefficients}: must be euler and "
                f"fixed or ones in a post-norm {instead}"
            )
        if self.splitting.together:
            raise OdeTransformerError(
                f"--splitting {cfg.splitting}: must not take the sub-layers together in a post-norm {instead}"
            )

    def _check_stack(self, cfg: TransformerConfig, side: str, integrator: str) -> None:
        multistep, part = self.integrator.spans_layers, getattr(cfg, side)
        if multistep and self.history != "none":
            raise OdeTransformerError(
                f"--{side}-history {self.history}: must be none with the integrator {integrator}, which already "
                "combines earlier layers"
            )
        if not multistep and self.history == "none":
            return
        if self.history == "corrector":
            if not part.normalize_before:
                raise OdeTransformerError(
                    f"--{side}-history corrector: needs a pre-norm {side}, --{side}-normalize-before: the norm of a "
                    "post-norm layer would undo the correction"
                )
            if str(cfg.ode_function) != "both":
                raise OdeTransformerError(
                    f"--ode-function {cfg.ode_function}: must be both with --{side}-history corrector, which corrects "
                    "whole layers"
                )
            if takes_velocity(integrator):
                raise OdeTransformerError(
                    f"--{side}-history corrector: cannot be combined with {_flag(_INTEGRATOR[side])} {integrator}, "
                    "whose velocity it does not correct"
                )

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


def relative_positions(cfg: TransformerConfig) -> dict[str, str]:
    """The relative positions of each side."""
    both, decoder = str(cfg.relative_positions), str(cfg.decoder_relative_positions)
    return {"encoder": both, "decoder": both if decoder == "same" else decoder}


_INTEGRATOR = {"encoder": "integrator", "decoder": "decoder_integrator"}
"""The option that names the integrator of a side."""


def _takes_coefficients(cfg: TransformerConfig, side: str) -> bool:
    """Whether ``--coefficients`` and ``--ode-residual`` apply to a side.

    They concern steps with several stages. As in the released code, they also apply to an encoder's Euler step, unless
    the decoder has such steps.
    """
    methods = {name: INTEGRATORS.named(str(getattr(cfg, field))) for name, field in _INTEGRATOR.items()}
    several = {name: bool(m.weights) and m != EULER for name, m in methods.items()}
    return several[side] or (side == "encoder" and methods[side] == EULER and not several["decoder"])


def _check_takes_coefficients(cfg: TransformerConfig, sides: Sequence[str] = ("encoder", "decoder")) -> None:
    """Refuse options about the weights of stages if they apply to none of these sides.

    Raises:
        OdeTransformerError: there is such an option.
    """
    names = {_INTEGRATOR[side]: str(getattr(cfg, _INTEGRATOR[side])) for side in sides}
    if any(_takes_coefficients(cfg, side) for side in sides):
        return
    given = " and ".join(f"{_flag(field)} {name}" for field, name in names.items())
    for field, only in (("coefficients", "fixed"), ("ode_residual", "paper")):
        if field == "ode_residual" and set(names.values()) == {"euler"}:
            continue  # a plain step of Euler's is the same in both forms
        if (value := str(getattr(cfg, field))) != only:
            raise OdeTransformerError(f"{_flag(field)} {value}: must be {only} with {given}")


def _takes_function(cfg: TransformerConfig, side: str) -> bool:
    """Whether ``--ode-function`` makes a difference on a side: multistep schemes take the increments of whole layers,
    and Euler steps of fixed weight are taken by each sub-layer in any case.
    """
    integrator = INTEGRATORS.named(str(getattr(cfg, _INTEGRATOR[side])))
    fixed = str(cfg.coefficients) in ("fixed", "ones") or not _takes_coefficients(cfg, side)
    return not (integrator == EULER and fixed) and not integrator.spans_layers


# An option, its idle values, another option, and values of that one: with one of these, the first option must have an
# idle value.
_NO_BIASES = ("none", "sinusoidal", "learned")
_NO_FLOW = tuple(name for name in POSITION_ENCODERS if name != "floater")
_NEEDS = (
    ("gate_sharing", ("shared",), "coefficients", ("fixed", "ones")),
    ("position_blocks", ("all",), "position_encoder", ("none",)),
    ("flow_sharing", ("all",), "position_encoder", _NO_BIASES),
    ("flow_method", ("rk4",), "position_encoder", _NO_FLOW),
    ("flow_step", (4.0,), "position_encoder", _NO_FLOW),
    ("flow_horizon", (0,), "position_encoder", _NO_FLOW),
)


def idle_options(values: Mapping[str, Any]) -> set[str]:
    """The options that have no meaning with the given values of other options, whatever their own values are.

    Args:
        values: the values by the names of the options; options that need a missing one count as meaningful.
    """
    return {name for name, _, of, without in _NEEDS if str(values.get(of)) in without}


def check_model(cfg: TransformerConfig) -> None:
    """Refuse options of a whole model that have no meaning with its other options.

    Raises:
        OdeTransformerError: there is such an option.
    """
    if cfg.max_relative_length not in (8, -1) and set(relative_positions(cfg).values()) == {"none"}:
        raise OdeTransformerError(
            f"--max-relative-length {cfg.max_relative_length}: has no meaning with --relative-positions none"
        )
    for name, idle, of, without in _NEEDS:
        if (value := getattr(cfg, name)) not in idle and str(getattr(cfg, of)) in without:
            raise OdeTransformerError(f"{_flag(name)} {value}: has no meaning with {_flag(of)} {getattr(cfg, of)}")
    _check_takes_coefficients(cfg)
    integrators = [INTEGRATORS.named(str(getattr(cfg, field))) for field in _INTEGRATOR.values()]
    if cfg.rk_norm and not any(method.takes_norms for method in integrators):
        raise OdeTransformerError(
            "--rk-norm: has no meaning without a Runge-Kutta method of several stages as --integrator or "
            "--decoder-integrator"
        )
    if str(cfg.ode_function) != "both" and not any(_takes_function(cfg, side) for side in _INTEGRATOR):
        given = " and ".join(f"{_flag(field)} {getattr(cfg, field)}" for field in _INTEGRATOR.values())
        # Not refused, because architectures have it, whose integrator is exchanged.
        logger.warning(f"--ode-function {cfg.ode_function}: has no meaning with {given}")
    if cfg.velocity_embedding:
        check_velocity_embedding(cfg)
    positions = str(cfg.position_encoder)
    if positions == "sinusoidal" and (cfg.encoder.learned_pos or cfg.decoder.learned_pos):
        raise OdeTransformerError(
            "--position-encoder sinusoidal: contradicts --encoder-learned-pos or --decoder-learned-pos"
        )
    if positions in ("sinusoidal", "learned") and cfg.no_token_positional_embeddings:
        raise OdeTransformerError(
            f"--position-encoder {positions}: has no meaning with --no-token-positional-embeddings"
        )
    if not 0 <= cfg.word_dropout < 1:
        raise OdeTransformerError(f"--word-dropout {cfg.word_dropout}: must be a probability, 0 or more and below 1")
    check_stock(cfg)


_ABSENT = {
    "adaptive_input": False,
    "tie_adaptive_weights": False,
    "tie_adaptive_proj": False,
    "base_layers": 0,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
    "cross_self_attention": False,
    "no_cross_attention": False,
    "quant_noise_pq": 0,
    "quant_noise_scalar": 0,
    "offload_activations": False,
    # fairseq would attend with another pattern in training than in decoding.
    "encoder_xformers_att_config": None,
    "decoder_xformers_att_config": None,
}
"""Options of fairseq's that our models do not have, with the value that turns each off."""

_DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "adaptive_softmax_dropout", "pooler_dropout")


def check_stock(cfg: TransformerConfig) -> None:
    """Refuse values of fairseq's options with which a model of any family cannot be built, or would learn nothing.

    Raises:
        OdeTransformerError: there is such a value.
    """
    for name in _DROPOUTS:
        if not 0 <= (value := getattr(cfg, name, 0.0)) <= 1:  # only masked language models have pooler_dropout
            raise OdeTransformerError(f"{_flag(name)} {value}: must be a probability, from 0 to 1")
    sizes = [f"{side}_{size}" for side in _INTEGRATOR for size in ("embed_dim", "ffn_embed_dim", "attention_heads")]
    for name in (*sizes, "max_source_positions", "max_target_positions"):
        if (value := getattr(cfg, name)) < 1:
            raise OdeTransformerError(f"{_flag(name)} {value}: must be 1 or more")
    for name, off in _ABSENT.items():
        if (value := getattr(cfg, name)) != off:
            raise OdeTransformerError(f"{_flag(name)} {value}: is an option of fairseq's that our models do not have")


_OWN_OPTION = {
    "decoder": {
        "decoder_integrator": "integrator",
        "decoder_history": "encoder_history",
        "decoder_relative_positions": "relative_positions",
    },
    "encoder": {"integrator": "decoder_integrator", "encoder_history": "decoder_history"},
}
"""By the side that a model lacks: the options of that side that are refused, each with the one to use instead."""

_FOLLOWED = {
    "decoder_embed_dim": "encoder_embed_dim",
    "decoder_input_dim": "encoder_embed_dim",
    "decoder_output_dim": "encoder_embed_dim",
    "decoder_ffn_embed_dim": "encoder_ffn_embed_dim",
}
"""The widths of a decoder that the command line sets to those of the encoder, and the latter."""


def check_alone(cfg: TransformerConfig, side: str, flat: Any, config_class: type) -> None:
    """Check the options of an encoder without a decoder, or of a decoder without an encoder.

    The other side's options that choose a method are refused. fairseq's own options, such as the number of layers, only
    cause a warning, since checkpoints may have been trained with them.

    Args:
        cfg: the configuration.
        side: the side that the model has, ``encoder`` or ``decoder``.
        flat: the flat configuration that ``cfg`` was made of.
        config_class: its class.

    Raises:
        OdeTransformerError: an option that chooses a method has no effect.
    """
    other = "decoder" if side == "encoder" else "encoder"
    absent = "a decoder" if side == "encoder" else "an encoder"
    values, usual = plain(flat), plain(config_class())
    own = {name: ours for name, ours in _OWN_OPTION[other].items() if name in usual}
    for name in (*own, *(name for name in usual if f"{other}_" in name and name not in own)):
        value = values.get(name, usual[name])
        if value == usual[name] or (name in _FOLLOWED and value == values.get(_FOLLOWED[name])):
            continue
        said = f"{_flag(name)} {value}: has no meaning in a model without {absent}"
        if name in own:
            raise OdeTransformerError(f"{said}; use {_flag(own[name])}")
        logger.warning(said)
    meaningless = ["share_all_embeddings", "merge_src_tgt_embed"]
    meaningless += ["adaptive_softmax_cutoff", "cuda_graphs"] * (side == "encoder")
    for name in meaningless:
        if getattr(cfg, name) and not usual[name]:
            raise OdeTransformerError(f"{_flag(name)}: has no meaning in a model without {absent}")
    if "coefficients" in usual:
        _check_takes_coefficients(cfg, [side])


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"
