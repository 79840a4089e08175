"""FLOATER: position encoding as a learned flow, in every block of a Transformer.

Liu et al. 2020, "Learning to Encode Position for Transformer with Continuous Dynamical Model". Queries, keys and values
have biases that move with the position, by dynamics learned from data (equation 13)::

    q_i = W_q x_i + b(t_i),    b(t) = b(0) + int_0^t h(tau, b(tau)) dtau,    t_i = i / 100

and likewise k and v, in every attention of every block: in the self-attention of encoder and decoder, and in
cross-attention, where queries follow the target's positions, and keys and values the source's. h is one network for all
(equation 10), and b(0) is the bias of each projection. The sinusoidal encoding of the input stays. With h = 0 this is
the Transformer, which may be trained first (``ode-transformer warm-start``). ``docs/floater.md`` lists where the paper
and the released code disagree.
"""

from dataclasses import dataclass

from fairseq.models import register_model
from torch import Tensor

from ..config import register_architectures
from ..modules.options import FlowSharingName, PositionEncoderName, SplitTransformerConfig
from .transformer import SplitTransformerModel, size


@dataclass
class FloaterConfig(SplitTransformerConfig):
    """The options that all families have; the defaults are FLOATER base."""

    position_encoder: PositionEncoderName = "floater"


@register_model("floater", dataclass=FloaterConfig)
class FloaterModel(SplitTransformerModel):
    """FLOATER (``--arch floater_base`` and others)."""

    config_class = FloaterConfig

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Rename the parameters of the released code, and drop its caches of biases."""
        for key in list(state_dict):
            if (new := _renamed(key, state_dict[key])) is not None:
                del state_dict[key]
                state_dict.update(new)
        super().upgrade_state_dict_named(state_dict, name)


SIZES = {
    "tiny": size(128, 256, 4, layers=4, dropout=0.3),
    "base": size(512, 2048, 8),
    "big": size(1024, 4096, 16, dropout=0.3, attention_dropout=0.1),
}
ARCHITECTURES = {f"floater_{name}": row for name, row in SIZES.items()} | {
    f"floater_input_{name}": row | {"position_blocks": "input"} for name, row in SIZES.items()
}

register_architectures("floater", FloaterConfig, ARCHITECTURES)


@dataclass
class ReleasedFloaterConfig(FloaterConfig):
    """The options of a checkpoint of the released code."""

    flow_sharing: FlowSharingName = "stack"
    flow_step: float = 0.2


@register_model("floater_released", dataclass=ReleasedFloaterConfig)
class ReleasedFloaterModel(FloaterModel):
    """The model that a checkpoint of the released code holds."""

    config_class = ReleasedFloaterConfig


_CACHES = ("cached_bias", "k_updates", "time_dt", "max_seq_len", "update_flow_every")
# Released name -> the (attention, projection) of each row of its first dimension; its second is the layer.
_INITIAL = {
    "encoder.proj_bias": [("self_attn", x) for x in "qkv"],
    "decoder.proj_bias_selfattn": [("encoder_attn", "q"), *(("self_attn", x) for x in "qkv")],
    "decoder.proj_bias_encattn_kv": [("encoder_attn", "k"), ("encoder_attn", "v")],
}
_FLOWS = {
    "encoder.proj_flow": "encoder",
    "decoder.proj_flow_selfattn": "decoder",
    "decoder.proj_flow_encattn_kv": "source",
}


def _renamed(key: str, value: Tensor) -> dict[str, Tensor] | None:
    """Return our names and values for a tensor of the released code; None if they are the same."""
    side, _, rest = key.partition(".")
    if rest.startswith(_CACHES):
        return {}
    if key in _INITIAL:
        return {
            f"{side}.layers.{layer}.{attention}.{x}_proj.bias": bias
            for (attention, x), biases in zip(_INITIAL[key], value, strict=True)
            for layer, bias in enumerate(biases)
        }
    if key.endswith(".in_proj_weights"):
        stem = key.removesuffix("in_proj_weights")
        return {f"{stem}{x}_proj.weight": part for x, part in zip("qkv", value.chunk(3), strict=True)}
    flow, _, part = key.partition(".layers.")
    if flow in _FLOWS:
        number, _, kind = part.partition(".linear.")
        stem, layer = f"position_encoder.solvers.{_FLOWS[flow]}", 1 + int(number) // 2
        if kind == "bias":
            return {f"{stem}.bias{layer}": value}
        return {f"{stem}.weight{layer}": value[:, :-1].clone(), f"{stem}.time{layer}": value[:, -1].clone()}
    return None


# The released code's names, so that its checkpoints load wherever fairseq loads one. The options stored in a checkpoint
# override these.
_T2T = dict.fromkeys(("encoder_normalize_before", "decoder_normalize_before"), True)
_T2T |= dict.fromkeys(("attention_dropout", "activation_dropout"), 0.1)
RELEASED = {
    "flow_transformer_iwslt_de_en": size(512, 1024, 4),
    "flow_transformer_wmt_en_de": size(512, 2048, 8),
    "flow_transformer_vaswani_wmt_en_de_big": size(1024, 4096, 16, dropout=0.3),
    "flow_transformer_vaswani_wmt_en_fr_big": size(1024, 4096, 16),
    "flow_transformer_wmt_en_de_big": size(1024, 4096, 16, dropout=0.3, attention_dropout=0.1),
    "flow_transformer_wmt_en_de_big_t2t": size(1024, 4096, 16, dropout=0.3, **_T2T),
}

register_architectures("floater_released", ReleasedFloaterConfig, RELEASED, listed=False)
