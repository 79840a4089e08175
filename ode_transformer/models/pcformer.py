"""PCformer: a Runge-Kutta predictor with learned weights of its stages, and a corrector over all layers before.

Li et al. 2024, "Predictor-Corrector Enhanced Transformers with Exponential Moving Average Coefficient Learning"
(NeurIPS 2024, arXiv 2411.03042). ``modules/history.py`` has the equations of a layer, and ``docs/beyond.md`` the
options that stand for its parts: ``--arch pcformer`` is a row of ``models/ode.py``. This file loads checkpoints of the
released code, by the options that these store. Besides what that page lists, the code

- weights two stages by gates with ``enc_learnable_type gated``, whatever ``alpha_type`` and ``layer_wise`` are; with
  that option, four stages have the classical weights, and with any options, three have one number a for the stack;
- takes, with norms, the normalized first stage in the third of three, which is refused here.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.models import register_model

from ..config import option, register_architectures
from ..errors import OdeTransformerError
from .ode import ReleasedConfig, ReleasedModel, counterpart
from .transformer import size

_CORRECTOR = "rk_predicotor_multistep_corrector"


@dataclass
class ReleasedPCformerConfig(ReleasedConfig):
    """The options that a checkpoint of the released PCformer stores."""

    encoder_history_type: str = option(_CORRECTOR, "released code: the corrector, under that name")
    enc_learnable_type: str = option("ema", "released code: ema, gated, or RK, the classical weights")
    alpha_type: str = option("scalar", "released code: scalar, or vector (one number per channel)")
    layer_wise: bool = option(False, "released code: whether each layer has its own alpha")
    k_only: bool = option(False, "released code: relative positions of keys only")


def _weights(stages: int, kind: str, average: str, layer_wise: bool) -> tuple[str, str]:
    """Return the ``--coefficients`` and ``--gate-sharing`` that the released code uses; it ignores some options."""
    if stages == 3:
        return "ema", "shared"
    if kind == "ema":
        return average, "per-layer" if layer_wise else "shared"
    return "sigmoid" if (kind, stages) == ("gated", 2) else "fixed", "shared"


@register_model("pcformer_released", dataclass=ReleasedPCformerConfig)
class ReleasedPCformerModel(ReleasedModel):
    """Builds the model of a checkpoint of the released PCformer."""

    config_class = ReleasedPCformerConfig

    @classmethod
    def translated(cls, values: dict[str, Any]) -> dict[str, Any]:
        names = ("enc_calculate_num", "enc_learnable_type", "alpha_type", "layer_wise", "k_only", "max_relative_length")
        stages, kind, alpha, layer_wise, keys_only, relative = map(values.pop, names)
        integrator = counterpart("enc_calculate_num", stages, {2: "heun", 3: "kutta3", 4: "rk4"})
        kind = counterpart("enc_learnable_type", kind, {"ema": "ema", "gated": "gated", "RK": "fixed"})
        average = counterpart("alpha_type", alpha, {"scalar": "ema", "vector": "ema-channels"})
        if stages == 3 and values["rk_norm"]:
            raise OdeTransformerError(
                "enc_calculate_num 3: must be 2 or 4 with rk_norm, whose released form has no counterpart here"
            )
        coefficients, sharing = _weights(stages, kind, average, layer_wise)
        if (coefficients, sharing) == ("ema-channels", "per-layer"):
            raise OdeTransformerError(
                "alpha_type 'vector': must be scalar with layer_wise, because there the released code uses the number "
                "of channel l for all channels of layer l"
            )
        keys = "keys" if keys_only else "keys-values"
        history = counterpart("encoder_history_type", values["encoder_history_type"], {_CORRECTOR: "corrector"})
        return {
            "integrator": integrator,
            "coefficients": coefficients,
            "gate_sharing": sharing,
            "encoder_history": history,
            "relative_positions": keys if relative > 0 else "none",
            "decoder_relative_positions": "none",
            "max_relative_length": relative if relative > 0 else -1,
        }


_BASE, _BIG = size(512, 2048, 8), size(1024, 4096, 16, dropout=0.3)
_RELATIVE = {"max_relative_length": 8, "k_only": True}
_IWSLT = size(512, 1024, 4, dropout=0.3)

RELEASED = {
    "PCformer_t2t_iwslt_de_en": _IWSLT,
    "relative_PCformer_t2t_iwslt_de_en": _IWSLT | _RELATIVE,
    "PCformer_t2t_wmt_en_de": _BASE,
    "PCformer_t2t_wmt_en_de_big": _BIG,
    "relative_PCformer_t2t_wmt_en_de": _BASE | _RELATIVE,
    "relative_PCformer_t2t_wmt_en_de_big": _BIG | _RELATIVE,
    "relative_PCformer_t2t_wmt_en_de_small": size(256, 1024, 4) | _RELATIVE,
    "relative_PCformer_t2t_wmt_en_de_tiny": size(128, 512, 4) | _RELATIVE,
    "relative_PCformer_t2t_wmt_en_de_big_Gemma": size(1536, 6144, 24, dropout=0.3) | _RELATIVE,
}

register_architectures("pcformer_released", ReleasedPCformerConfig, RELEASED, listed=False)
