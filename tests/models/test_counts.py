"""Parameter counts, as counted on the released code or published, and what a method adds to the model without it."""

from functools import cache

import pytest

from ode_transformer.models.ode import SYSTEMS
from tests.helpers import POST_NORM, VARIANTS, count, typed

SHARED = {"share-all-embeddings": True}
STOCK_TINY = typed(
    "--encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-layers 4 --encoder-attention-heads 4 "
    "--decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-layers 4 --decoder-attention-heads 4"
)
STACK = {"flow-sharing": "stack"}
NO_FLOW = {"position-encoder": "none", "flow-method": "rk4", "flow-step": 4.0}
BERT = {"splitting": "lie-trotter", "encoder-ffn-embed-dim": 3072}
GATE = {"decoder-integrator": "heun", "coefficients": "sigmoid"}
OF_LAYER = 4 * (512 * 512 + 512) + (2 * 512 * 2048 + 2048 + 512) + 2 * 2 * 512 + 17 * 512 // 8 + 2 * 512


@pytest.mark.parametrize(
    ("arch", "values", "symbols", "parameters"),
    [
        ("transformer", STOCK_TINY, 9_712, 2_568_192),
        ("macaron_tiny", {}, 9_712, 2_571_776),
        ("macaron_rk2_tiny", {}, 9_712, 2_571_776),
        ("macaron_iwslt_de_en", {}, 10_000, 36_683_776),
        ("macaron_wmt_en_de", {}, 37_000, 63_102_976),
        ("macaron_wmt_en_de_big", {}, 37_000, 214_286_336),
        ("macaron_wmt_en_de_big", {}, 36_000, 213_262_336),  # and the ablations of Table 3
        ("macaron_wmt_en_de_big", VARIANTS["attention-twice"], 36_000, 213_274_624),
        ("macaron_wmt_en_de_big", VARIANTS["two-hidden-layers"], 36_000, 213_225_472),
        ("rk2_learnable", {}, 34_040, 61_595_491),
        ("rk2_learnable_deep", {}, 34_040, 118_376_995),
        ("rk2_learnable_big", {}, 34_040, 211_258_211),
        ("rk2_learnable_big_deep", {}, 34_040, 286_854_491),
        ("rk2_learnable_h256_l28", {}, 34_040, 37_204_987),
        ("rk2_learnable_h256_l18", {}, 34_040, 29_290_907),
        ("transformer", {}, 37_000, 63_082_496),  # FLOATER's Table 6, without its positions
        # RoBERTa, and one flow of this width
        ("floater_roberta_base", NO_FLOW, 50_265, 124_696_665),
        ("floater_roberta_base", {}, 50_265, 124_696_665 + 2 * (768 * 769 + 768)),
        ("floater_roberta_large", {}, 50_265, 355_411_033 + 2 * (1024 * 1025 + 1024)),
        # Macaron's code has 110.79 million, without the norms' parameters and the output's bias; BERT 12 * 3 * 768 less
        ("macaron_bert_base", {}, 32_768, 110_787_073 + (3 * 12 + 1) * 2 * 768 + 32_768),
        ("macaron_bert_base", BERT, 32_768, 110_876_673 - 12 * 3 * 768),
        # two embeddings of 10,000 words; layers of attention, feed-forward, two norms, relative positions and the norm
        # of the history; the gate, and nothing else
        ("ode_transformer_lm_ptb_1l", GATE, 10_000, 2 * 10_000 * 512 + OF_LAYER + 2 * 512 + 1),
        ("ode_transformer_lm_ptb_2l", GATE, 10_000, 2 * 10_000 * 512 + 2 * OF_LAYER + 2 * 512 + 1),
    ],
)
def test_counts(arch, values, symbols, parameters):
    shared = {} if "bert" in arch or "_lm_" in arch else SHARED  # one embedding alone
    assert count(arch, shared | values, symbols) == parameters


HISTORY = 49 + 2 * 512 * 6  # of an encoder of six layers: weights and norms
LEARNED = {
    "rk2_learnable": 1025, "rk2_two_sigmoids": 2050, "rk2_two_tanh": 2050,
    "rk2_second_order": 513, "rk2_scalars": 2,
    "ode_leapfrog": -HISTORY, "ode_multistep": 5 - HISTORY, "ode_dlcl": 36 - HISTORY,
    "pcformer": 1 + HISTORY - 6 * 17 * 64,  # and no relative positions in the decoder
}  # fmt: skip
RECURRENT = {"rnn-scalar-1": 263_168, "rnn-scalar-2": 526_336, "rnn-vector-2": 1_049_600, "sinusoidal": 0}


@cache
def of_plain(arch):
    return count(arch, SHARED, 50)


@pytest.mark.parametrize(
    ("arch", "values", "plain", "added"),
    [
        # a norm and one more bias in each of twelve layers
        ("macaron_iwslt_de_en", POST_NORM, "transformer_iwslt_de_en", 12 * 3 * 512),
        ("macaron_wmt_en_de", POST_NORM, "transformer", 12 * 3 * 512),
        ("macaron_wmt_en_de_big", {}, "transformer_wmt_en_de_big_t2t", 12 * 3 * 1024),
        # histories, a table of relative positions in each self-attention; Macaron's layers have one more FFN
        ("ode_residual_tiny", {}, "macaron_tiny", 2 * (25 + 2 * 128 * 4) + 8 * 17 * 32 - 8 * 3 * 128),
        *((name, {}, "ode_residual", LEARNED.get(name, 0)) for name in SYSTEMS if name != "macaron_rk2"),
        ("rk2_learnable", {"gate-sharing": "per-layer"}, "rk2_learnable", 5 * 1025),
        # FLOATER's Table 6
        *((arch, {}, "transformer", 526_336) for arch in ("floater_base", "floater_input_base")),
        *((arch, STACK, "transformer", 1_579_008) for arch in ("floater_base", "floater_input_base")),
        ("floater_big", STACK, "transformer_wmt_en_de_big", 6_303_744),
        *(("floater_base", {"position-encoder": name}, "transformer", added) for name, added in RECURRENT.items()),
        *((arch, {"position-encoder": "floater"}, arch, 526_336) for arch in ("rk2_learnable", "macaron_wmt_en_de")),
    ],
)
def test_what_a_method_adds(arch, values, plain, added):
    assert count(arch, SHARED | values, 50) == of_plain(plain) + added


def test_a_layer_that_is_applied_twice_has_two_names():
    assert SYSTEMS["ode_weight_sharing"] == SYSTEMS["rk2_unit"] == {**SYSTEMS["rk2"], "coefficients": "ones"}
