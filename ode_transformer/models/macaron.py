"""Macaron Net: a Transformer layer as a Strang-Marchuk splitting, half FFN - attention - half FFN.

Lu et al. 2019, "Understanding and Improving Transformer From a Multi-Particle Dynamic System Point of View",
equations 17 to 19::

    x1 = x  + 1/2 FFN_a(x)
    x2 = x1 + Attention(x1)            (decoder: then cross-attention, a whole step)
    y  = x2 + 1/2 FFN_b(x2)

FFN_a and FFN_b have separate weights and half the Transformer's feed-forward dimension, so that the number of
parameters is the same up to one norm and one bias per layer (3 C). Each sub-layer acts on LN(x), which the equations
leave out. ``docs/macaron.md`` has the ablations of Table 3, and lists where the paper and the released code disagree.
"""

import re
from dataclasses import dataclass

from fairseq.models import register_model

from ..config import register_architectures
from ..modules.options import SplittingName, SplitTransformerConfig
from .transformer import SplitTransformerModel, size


@dataclass
class MacaronConfig(SplitTransformerConfig):
    """The options that all families have. The defaults are Macaron base; feed-forward dimensions are per FFN."""

    encoder_ffn_embed_dim: int = 1024
    decoder_ffn_embed_dim: int = 1024
    encoder_normalize_before: bool = True
    decoder_normalize_before: bool = True
    attention_dropout: float = 0.1
    activation_dropout: float = 0.1
    splitting: SplittingName = "strang"


@register_model("macaron", dataclass=MacaronConfig)
class MacaronModel(SplitTransformerModel):
    """Macaron Net (``--arch macaron_*``)."""

    config_class = MacaronConfig

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Rename the norms of FFN_a in the released code's encoder; fairseq knows the others."""
        for key in list(state_dict):
            ours = re.sub(r"^(encoder\.layers\.\d+)\.layer_norms\.2\.", r"\1.macaron_layer_norm.", key)
            state_dict[ours] = state_dict.pop(key)
        super().upgrade_state_dict_named(state_dict, name)


# Feed-forward dimensions are those of each FFN. The released script of iwslt_de_en passes --dropout 0.3.
ARCHITECTURES = {
    "macaron_tiny": size(128, 128, 4, layers=4, dropout=0.3),
    "macaron_iwslt_de_en": size(512, 512, 4, dropout=0.3),
    "macaron_wmt_en_de": size(512, 1024, 8),
    "macaron_wmt_en_de_big": size(1024, 2048, 16, dropout=0.3),
}

# The released code's names, so that its checkpoints load wherever fairseq loads one; the first two are post-norm.
_POST_NORM = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
RELEASED = {
    "transformer_iwslt_de_en_macaron": size(512, 512, 4, **_POST_NORM),
    "transformer_wmt_en_de_macaron": size(512, 1024, 8, **_POST_NORM),
    "transformer_iwslt_de_en_macaron_v2": size(512, 512, 4),
    "transformer_wmt_en_de_macaron_v2": size(512, 1024, 8),
    "transformer_wmt_en_de_big_t2t_macaron": size(1024, 2048, 16, dropout=0.3),
}

register_architectures("macaron", MacaronConfig, ARCHITECTURES)
register_architectures("macaron", MacaronConfig, RELEASED, listed=False)
