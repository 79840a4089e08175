"""Macaron Net: the released code's checkpoint, decoding, gradients, and stock flags that keep working."""

from dataclasses import fields

import pytest
import torch
from torch.nn import functional

from ode_transformer.experiments import recipes
from ode_transformer.models.macaron import MacaronConfig
from ode_transformer.modules import dropout
from tests.helpers import POST_NORM, SMALL, batch, model, small
from tests.models.released import assert_logits, load, sizes
from tests.models.test_counts import STOCK_TINY

SHARED = {"share-all-embeddings": True}


# The released code's checkpoint


def released_model(fixture, **more):
    return model(fixture["arch"], SHARED | sizes(fixture) | more).eval()


def test_an_old_transformer_is_the_lie_trotter_splitting():
    """A post-norm Transformer of fairseq 0.6, with fused projections and numbered norms."""
    old = load("stock_old_layout_postnorm")
    old["arch"] = "transformer_wmt_en_de_macaron"
    m = released_model(old, splitting="lie-trotter", **POST_NORM)
    m.load_state_dict(dict(old["model"]))
    assert_logits(m, old)


def test_the_stock_row_of_four_systems_is_fairseqs_transformer(monkeypatch):
    """It is trained as a splitting, from the first weights of the fairseq that the papers used."""
    monkeypatch.setattr(dropout, "dropout", functional.dropout)  # draws as fairseq's does
    row = recipes.load("aeslc/transformer-tiny").train
    known = {field.name.replace("_", "-") for field in fields(MacaronConfig)}
    ours = model(row.arch, {k: v for k, v in row.flags.items() if k.removeprefix("no-") in known})
    stock = model("transformer", {**SHARED, **STOCK_TINY, "dropout": 0.3})
    stock.load_state_dict(ours.state_dict())
    src, lengths, prev = batch()
    logits = []
    for m in (ours, stock):
        torch.manual_seed(1)
        logits.append((m.train()(src, lengths, prev)[0], m.eval()(src, lengths, prev)[0]))
    torch.testing.assert_close(*logits)


def test_a_post_norm_model_refuses_a_pre_norm_checkpoint_and_the_reverse():
    """Stock fairseq silently drops the decoder's final norm, and decodes wrongly."""
    released = load("macaron_prenorm")
    with pytest.raises(RuntimeError, match="layer_norm"):
        released_model(released, **POST_NORM).load_state_dict(dict(released["model"]))
    headless = {k: v for k, v in released["model"].items() if not k.startswith("decoder.layer_norm")}
    m = released_model(released)
    with pytest.raises(RuntimeError, match=r"decoder\.layer_norm"):
        m.load_state_dict(headless | {"decoder.version": torch.tensor([3.0])})
    # fairseq's encoders before version 2 and decoders before version 3 had no such norms.
    old = {k: v for k, v in headless.items() if not k.startswith("encoder.layer_norm")}
    m.load_state_dict(old | {"encoder.version": torch.tensor([1.0]), "decoder.version": torch.tensor([2.0])})
    assert m.encoder.layer_norm is None and m.decoder.layer_norm is None


# Stock flags


def test_the_decoders_first_ffn_takes_the_decoders_inner_size():
    m = small("macaron", **{"decoder-ffn-embed-dim": 40})
    assert m.decoder.layers[0].macaron_fc1.out_features == 40
    assert m.encoder.layers[0].macaron_fc1.out_features == SMALL["encoder-ffn-embed-dim"]


@pytest.mark.parametrize("variant", ["macaron", "floater_tiny"])
def test_training_after_inference_mode(variant):
    """What a model keeps of a pass, such as a solution of the flow, is not what it trains with."""
    m = small(variant)
    with torch.inference_mode():
        before = m(*batch())[0].clone()
    m.train()(*batch())[0].log_softmax(-1)[..., 7].sum().backward()
    assert all(p.grad.isfinite().all() for p in m.parameters())
    with torch.no_grad():
        torch.testing.assert_close(m.eval()(*batch())[0], before)
