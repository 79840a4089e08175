"""PCformer: a Runge-Kutta predictor with learned weights of its stages, and a corrector over all layers before.

Li et al. 2024, "Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning"
(NeurIPS 2024, arXiv 2411.03042), by the authors of the ODE Transformer. We had the released code but not the text of
the paper. With f(y) = layer(y) - y, encoder layer l + 1 reads x_l, where x_0 = z_0 is the embedding, and computes::

    P       = x_l + sum_j a (1 - a)^(n - j) F_j        F_j the stages of a Runge-Kutta step from x_l
    z'      = LN'_l(P)
    c       = sum_{k <= l} W[l + 1, k] z_k + W[l + 1, l + 1] z'
    z_{l+1} = LN_l(c + f(c))
    x_{l+1} = sum_{k <= l + 1} W_c[l + 1, k] z_k

In terms of this package's options, the predictor is any Runge-Kutta ``--integrator``, its stages are weighted by
``--coefficients ema`` (one number for the stack; with ``--gate-sharing per-layer`` one per layer; ``ema-channels`` has
one per channel), and the corrector is ``--encoder-history corrector``. ``--rk-norm`` adds norms, which the layers
share: the predictor is then N_0(x_l) + sum_j a (1 - a)^(n - j) N_j(F_j), and all stages but the first start from
N_0(x_l). The decoder takes Euler steps and has the learnable dense history. Relative positions are in the encoder only.

Where the released code differs:

- F in the stages is the layer with its residual: ``--ode-residual released``. The corrector is the same in both forms.
- It does not run: ``weight_c`` is commented out but read, and the default of one stage raises an error.
- Gates (``enc_learnable_type gated``) weight two stages; with four stages the code falls back to the classical weights.
  With three it has one number a for the stack, whatever the options about weights are; gates ignore ``alpha_type`` and
  ``layer_wise``. Here such a checkpoint is loaded as the model that the code computes.
- Its third-order method is Kutta's; with norms it uses the normalized first stage in the third, which is refused here.
- Post-norm discards the correction, and is refused here. The code's drop path, whose probability is 0, is not
  implemented here.

With a = 1/2, RK2 has the weights (1/4, 1/2), which do not sum to 1, in the released code and here; a is learned.

The released names load checkpoints with the released layout, by the options that these store.
"""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.models import register_model

from ..config import option, plain, register_architectures, register_former
from ..errors import OdeTransformerError
from .ode import OdeConfig, OdeModel, ReleasedHistoriesConfig, pop_history, refuse_ours
from .transformer import size

_CORRECTOR = "rk_predicotor_multistep_corrector"


@dataclass
class ReleasedPCformerConfig(ReleasedHistoriesConfig):
    """The options that a checkpoint of the released code stores, by its names."""

    enc_calculate_num: int = option(2, "released code: stages of the predictor, 2, 3 or 4")
    enc_learnable_type: str = option("ema", "released code: ema, gated, or RK, the classical weights")
    alpha_type: str = option("scalar", "released code: scalar, or vector (one number per channel)")
    layer_wise: bool = option(False, "released code: whether each layer has its own alpha")
    encoder_history_type: str = option(_CORRECTOR, "released code: the corrector, under that name")
    decoder_history_type: Optional[str] = option("learnable_dense", "released code: --decoder-history")
    max_relative_length: int = option(-1, "released code: --max-relative-length, below 1 without relative positions")
    k_only: bool = option(False, "released code: relative positions of keys only")


_PREDICTORS = {2: "heun", 3: "kutta3", 4: "rk4"}
_WEIGHTS = ("ema", "gated", "RK")
_AVERAGES = {"scalar": "ema", "vector": "ema-channels"}


def _weights(stages: int, kind: str, alpha: str, layer_wise: bool) -> tuple[str, str]:
    """``--coefficients`` and ``--gate-sharing`` for what the released code computes; it ignores some options."""
    if stages == 3:
        return "ema", "shared"
    if kind == "ema":
        return _AVERAGES[alpha], "per-layer" if layer_wise else "shared"
    return "sigmoid" if (kind, stages) == ("gated", 2) else "fixed", "shared"


@register_model("pcformer_released", dataclass=ReleasedPCformerConfig)
class ReleasedPCformerModel(OdeModel):
    """Builds the model that a checkpoint of the released PCformer holds, from the options that it stores."""

    config_class = ReleasedPCformerConfig

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> OdeModel:
        """As in ``SplitTransformerModel``.

        Raises:
            OdeTransformerError: the released code, once repaired, cannot train with the options, or they have no
                counterpart here.
        """
        values = plain(cfg)
        described_by = "--enc-calculate-num, --enc-learnable-type and --alpha-type"
        refuse_ours(values, described_by, "gate_sharing", "decoder_relative_positions")
        stages, kind, alpha = (values.pop(k) for k in ("enc_calculate_num", "enc_learnable_type", "alpha_type"))
        keys_only, layer_wise = values.pop("k_only"), values.pop("layer_wise")
        for name, value, valid in (
            ("enc_calculate_num", stages, _PREDICTORS),
            ("enc_learnable_type", kind, _WEIGHTS),
            ("alpha_type", alpha, _AVERAGES),
        ):
            if value not in valid:
                raise OdeTransformerError(f"{name} {value!r}: must be one of {', '.join(map(str, valid))}")
        if stages == 3 and values["rk_norm"]:
            raise OdeTransformerError(
                "enc_calculate_num 3: must be 2 or 4 with rk_norm, whose released form has no counterpart here"
            )
        coefficients, sharing = _weights(stages, kind, alpha, layer_wise)
        if (coefficients, sharing) == ("ema-channels", "per-layer"):
            raise OdeTransformerError(
                "alpha_type 'vector': must be scalar with layer_wise, because there the released code uses the number "
                "of channel l for all channels of layer l"
            )
        if (history := pop_history(values, "encoder")) != _CORRECTOR:
            raise OdeTransformerError(
                f"encoder_history_type {history!r}: must be {_CORRECTOR!r} in a released PCformer"
            )
        relative = values["max_relative_length"] > 0
        values |= {
            "integrator": _PREDICTORS[stages],
            "coefficients": coefficients,
            "gate_sharing": sharing,
            "ode_residual": "released",
            "encoder_history": "corrector",
            "decoder_history": pop_history(values, "decoder"),
            "relative_positions": ("keys" if keys_only else "keys-values") if relative else "none",
            "decoder_relative_positions": "none",
            "max_relative_length": values["max_relative_length"] if relative else -1,
        }
        return OdeModel.build_model(OdeConfig(**values), task)


_BASE, _BIG = size(512, 2048, 8), size(1024, 4096, 16, dropout=0.3)
_RELATIVE = {"max_relative_length": 8, "k_only": True}

RELEASED = {
    "PCformer_t2t_wmt_en_de": _BASE,
    "PCformer_t2t_wmt_en_de_big": _BIG,
    "relative_PCformer_t2t_wmt_en_de": _BASE | _RELATIVE,
    "relative_PCformer_t2t_wmt_en_de_big": _BIG | _RELATIVE,
}

register_architectures("pcformer_released", ReleasedPCformerConfig, RELEASED, released=True)

# Released names whose sizes are in no released code; checkpoints store them.
FORMER = {"PCformer_t2t_iwslt_de_en": "PCformer_t2t_wmt_en_de with sizes"} | {
    f"relative_PCformer_t2t_{name}": "relative_PCformer_t2t_wmt_en_de with sizes"
    for name in ("iwslt_de_en", "wmt_en_de_small", "wmt_en_de_tiny", "wmt_en_de_big_Gemma")
}

register_former("pcformer_released", FORMER)
