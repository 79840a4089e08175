"""ODE Transformer: a layer is a Runge-Kutta step of its own increment.

Li et al. 2022, "ODE Transformer: An Ordinary Differential Equation-Inspired Model for Sequence Generation". With
f(y) = layer(y) - y, the increment of a pre-norm layer of attention and feed-forward, an encoder layer takes the step::

    Euler (residual)   y' = y + f(y)                                                        (1)
    RK2                y' = y + 1/2 (F1 + F2),  F1 = f(y),  F2 = f(y + F1)                  (12 to 14)
    RK2, gamma = 1     y' = y + F1 + F2                                                     (23)
    RK2, learnable     y' = y + g F1 + (1 - g) F2,  g = sigmoid([F1; F2] W + b)             (25, 26)
    RK4                y' = y + 1/6 (F1 + 2 F2 + 2 F3 + F4)                                 (15 to 19)
    Leapfrog           y' = y_{t-1} + 2 f(y)                                                (Table 7, from here on)
    Multistep          y' = k y + (1 - k) y_{t-1} + f(y)
    DLCL               y' = y_0 + sum_l W_l f_l(y_l)
    PolyNet            y' = y + f(y) + f(f(y))

The decoder takes Euler steps. All systems, the residual baseline included, have relative positions of keys (m = 8) and
the learnable dense history of encoder and decoder layers (appendix B). Where the scheme itself combines earlier encoder
layers (leapfrog, multistep, DLCL), only the decoder has that history. ``docs/ode.md`` lists where the paper and the
released code disagree.

``rk2_second_order`` and ``macaron_rk2`` are ours; the latter has no history and no relative positions, so that the
integrator is its only difference from Macaron Net. ``pcformer`` is from the same authors' next paper.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from fairseq.models import register_model

from ..config import as_dict, flag, option, register_architectures
from ..errors import OdeTransformerError
from ..modules.options import HistoryName, RelativePositionsName, SplitTransformerConfig
from .transformer import SplitTransformerModel, row, size


@dataclass
class OdeConfig(SplitTransformerConfig):
    """The options that all families have. The defaults are those of ``ode_residual``, the baseline in the paper."""

    encoder_normalize_before: bool = True
    decoder_normalize_before: bool = True
    attention_dropout: float = 0.1
    activation_dropout: float = 0.1
    relative_positions: RelativePositionsName = "keys"
    encoder_history: HistoryName = "learnable_dense"
    decoder_history: HistoryName = "learnable_dense"


@register_model("ode", dataclass=OdeConfig)
class OdeModel(SplitTransformerModel):
    """ODE Transformer (``--arch rk2_learnable`` and others)."""

    config_class = OdeConfig

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Rename the parameters of the released ODE Transformer and PCformer."""
        for theirs, ours in _RELEASED_NAMES.items():
            for key in [key for key in state_dict if key.startswith(theirs)]:
                state_dict[ours + key.removeprefix(theirs)] = state_dict.pop(key)
        alpha = state_dict.pop("encoder.alpha", None)
        if alpha is not None:
            weights = {"encoder": alpha}
            if self.encoder.layers[0].coefficients is not None:  # one row per layer
                weights = {f"encoder.layers.{i}": row for i, row in enumerate(alpha)}
            own = self.state_dict()
            for owner, weight in weights.items():
                key = f"{owner}.coefficients.weight"
                fits = key in own and own[key].numel() == weight.numel()
                state_dict[key] = weight.view_as(own[key]) if fits else weight
        super().upgrade_state_dict_named(state_dict, name)


_RELEASED_NAMES = {
    "encoder.gate_linear.": "encoder.coefficients.gate.",
    "encoder.history.rouge_predictions_norm.": "encoder.history.prediction_norms.",
    "encoder.residual_norm.": "encoder.stage_norms.0.",
    **{f"encoder.RK_norm.{i}.": f"encoder.stage_norms.{i + 1}." for i in range(4)},
}
"""How parameter names begin in the released code, and ours for them."""


# The rows of Tables 1, 2, 3, 7 and 10, and systems beyond that paper.
SYSTEMS = {
    "ode_residual": {},
    "rk2": {"integrator": "heun"},
    "rk2_unit": {"integrator": "heun", "coefficients": "ones"},
    "rk2_learnable": {"integrator": "heun", "coefficients": "sigmoid"},
    "rk2_scalars": {"integrator": "heun", "coefficients": "scalars"},
    "rk2_two_sigmoids": {"integrator": "heun", "coefficients": "two-sigmoids"},
    "rk2_two_tanh": {"integrator": "heun", "coefficients": "two-tanh"},
    "rk2_second_order": {"integrator": "heun", "coefficients": "second-order"},
    "rk4": {"integrator": "rk4"},
    "ode_weight_sharing": {"integrator": "heun", "coefficients": "ones"},
    "ode_leapfrog": {"integrator": "leapfrog", "encoder_history": "none"},
    "ode_multistep": {"integrator": "multistep", "encoder_history": "none"},
    "ode_dlcl": {"integrator": "dlcl", "encoder_history": "none"},
    "ode_polynet": {"integrator": "polynet"},
    "pcformer": {
        "integrator": "heun",
        "coefficients": "ema",
        "encoder_history": "corrector",
        "decoder_relative_positions": "none",
    },
    "macaron_rk2": {
        "splitting": "strang",
        "integrator": "heun",
        "ode_function": "substeps",
        "relative_positions": "none",
        "encoder_history": "none",
        "decoder_history": "none",
    },
}


def _size(embed_dim: int, heads: int, encoder_layers: int, dropout: float = 0.1) -> dict:
    return size(embed_dim, 4 * embed_dim, heads, encoder_layers, decoder_layers=6, dropout=dropout)


class Size(NamedTuple):
    """A suffix of architecture names: the fields that it stands for, and the systems that come in this size."""

    fields: dict[str, Any]
    systems: Collection[str] = SYSTEMS


_TABLE_1 = ("ode_residual", "rk2", "rk2_learnable", "rk4")
_TABLE_10 = ("rk2_unit", "rk2_scalars", "rk2_two_sigmoids", "rk2_two_tanh")

# A new system comes in the first two sizes. The other sizes list the systems that a table of the paper, or the
# benchmark, has in them; any other system gets them by flags (--encoder-layers, --encoder-embed-dim and so on).
SIZES = {
    "": Size(_size(512, 8, 6)),
    "_tiny": Size(size(128, 256, 4, 4, dropout=0.3)),
    "_deep": Size(_size(512, 8, 24), (*_TABLE_1, *_TABLE_10, "ode_weight_sharing")),
    "_big": Size(_size(1024, 16, 6, dropout=0.3), (*_TABLE_1, "pcformer")),
    "_big_deep": Size(_size(1024, 16, 12, dropout=0.3), _TABLE_1),
    "_h256_l28": Size(_size(256, 4, 28), ("rk2_learnable",)),
    "_h256_l18": Size(_size(256, 4, 18), ("rk2_learnable",)),
}


ARCHITECTURES, FORMER = {}, {}
for _suffix, (_fields, _systems) in SIZES.items():
    for _name, _system in SYSTEMS.items():
        # Earlier versions had all systems in all sizes, and checkpoints have their names.
        (ARCHITECTURES if _name in _systems else FORMER)[_name + _suffix] = row(_system, _fields)

register_architectures("ode", OdeConfig, ARCHITECTURES)
register_architectures("ode", OdeConfig, FORMER, listed=False)


_INTEGRATION = "released code: integration of a dense history, avg; ignored with other histories"


@dataclass
class ReleasedConfig(OdeConfig):
    """The options in checkpoints of the released ODE Transformer and PCformer, under their names there."""

    enc_calculate_num: int = option(2, "released code: evaluations of an encoder layer: 1, 2 or 4; PCformer 2, 3 or 4")
    encoder_history_type: Optional[str] = option("learnable_dense", "released code: --encoder-history")
    decoder_history_type: Optional[str] = option("learnable_dense", "released code: --decoder-history")
    encoder_integration_type: str = option("avg", _INTEGRATION)
    decoder_integration_type: str = option("avg", _INTEGRATION)
    max_relative_length: int = option(-1, "released code: --max-relative-length, below 1 without relative positions")


def counterpart(name: str, value: Any, valid: Mapping[Any, str]) -> str:
    """Return our value for the value of an option of the released code, if that can train with it."""
    if value not in valid:
        raise OdeTransformerError(f"{name} {value!r}: must be one of {', '.join(map(str, valid))}")
    return valid[value]


class ReleasedModel(OdeModel):
    """Builds the model of a checkpoint of released code from the options that it stores."""

    @classmethod
    def translated(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Remove the options from ``values`` that only the released code has, and return ours in their place."""
        raise NotImplementedError

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> OdeModel:
        """As in ``OdeModel``; what the released code has options of its own for is chosen by these."""
        values = as_dict(cfg)
        ours = {"ode_residual": "released"} | cls.translated(values)
        for side in ("encoder", "decoder"):
            history, integration = values.pop(f"{side}_history_type"), values.pop(name := f"{side}_integration_type")
            if history == "dense" and integration != "avg":  # the released code reads it for this history alone
                raise OdeTransformerError(
                    f"{name} {integration!r}: must be 'avg' with {side}_history_type 'dense', which is a mean here"
                )
            if f"{side}_history" not in ours:
                valid = {name: name for name in ("none", "residual", "dense", "learnable_dense")}
                ours[f"{side}_history"] = counterpart(f"{side}_history_type", history or "none", valid)
        for name in ours.keys() & values.keys():
            if values[name] != getattr(OdeConfig, name):
                raise OdeTransformerError(f"{flag(name)} {values[name]}: use the released code's option in its place")
        return OdeModel.build_model(OdeConfig(**values | ours), task)


@dataclass
class ReleasedOdeConfig(ReleasedConfig):
    """The options that a checkpoint of the released ODE Transformer stores."""

    rk_type: str = option("learnable", "released code: learnable (the gate), initialization (scalars) or standard")
    use_word_dropout: bool = option(False, "released code: whether words are dropped")
    word_dropout: float = option(0.8, "released code: probability of keeping a word")


@register_model("ode_released", dataclass=ReleasedOdeConfig)
class ReleasedOdeModel(ReleasedModel):
    """Builds the model of a checkpoint of the released ODE Transformer."""

    config_class = ReleasedOdeConfig

    @classmethod
    def translated(cls, values: dict[str, Any]) -> dict[str, Any]:
        names = ("enc_calculate_num", "rk_type", "use_word_dropout", "word_dropout", "max_relative_length")
        stages, kind, drops, kept, relative = map(values.pop, names)
        kinds = {"learnable": "sigmoid", "initialization": "scalars", "standard": "fixed"}
        if stages != 2:
            del kinds["learnable"]  # the gate reads two stages
        return {
            "integrator": counterpart("enc_calculate_num", stages, {1: "euler", 2: "heun", 4: "rk4"}),
            "coefficients": counterpart("rk_type", kind, kinds),
            "relative_positions": "keys" if relative > 0 else "none",
            "max_relative_length": relative if relative > 0 else -1,
            "word_dropout": 1 - kept if drops else 0.0,
        }


# The released code's names, so that its checkpoints load wherever fairseq loads one. The options stored in a checkpoint
# override these.
_IWSLT = _size(512, 4, 6, dropout=0.3) | {"encoder_ffn_embed_dim": 1024}
RELEASED = {
    "ode_transformer_t2t_iwslt_de_en": _IWSLT,
    "ode_relative_transformer_t2t_iwslt_de_en": _IWSLT | {"max_relative_length": 8},
    "ode_transformer_t2t_wmt_en_de": _size(512, 8, 6),
    "ode_relative_transformer_t2t_wmt_en_de": _size(512, 8, 6) | {"max_relative_length": 8},
    "ode_relative_transformer_t2t_wmt_en_de_big": _size(1024, 16, 6, dropout=0.3) | {"max_relative_length": 8},
}

register_architectures("ode_released", ReleasedOdeConfig, RELEASED, listed=False)
