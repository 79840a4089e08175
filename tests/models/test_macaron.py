"""Macaron Net: the released code's checkpoint, decoding, gradients, and stock flags that keep working."""

import pytest
import torch

from tests.helpers import POST_NORM, batch, model, small
from tests.models.released import assert_logits, load, sizes


def released_model(fixture, **more):
    return model(fixture["arch"], {"share-all-embeddings": True, **sizes(fixture), **more}).eval()


@pytest.mark.parametrize(
    ("name", "arch", "options"),
    [
        # a post-norm Transformer of fairseq 0.6, with fused projections and numbered norms
        ("stock_old_layout_postnorm", "transformer_wmt_en_de_macaron", {"splitting": "lie-trotter", **POST_NORM}),
        ("floater", "floater_base", {"flow-sharing": "stack"}),
    ],
)
def test_our_options_give_the_numbers_of_a_checkpoint(name, arch, options):
    fixture = load(name)
    m = released_model(fixture | {"arch": arch}, **options)
    m.load_state_dict(dict(fixture["model"]))
    assert_logits(m, fixture)


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


def test_the_norms_of_a_history_keep_their_names():
    """The released code numbers the norms of a layer as we number those of a history."""
    m = small("macaron", **{"encoder-layers": 3, "encoder-history": "dense"})
    assert "encoder.history.layer_norms.2.weight" in m.state_dict()
    m.load_state_dict(m.state_dict())


@pytest.mark.parametrize("variant", ["macaron", "floater_tiny"])
def test_training_after_inference_mode(variant):
    """What a model keeps of a pass, such as a solution of the flow, is not what it trains with."""
    m = small(variant)
    with torch.inference_mode():
        before = m(*batch())[0].clone()
    m.encoder.train()  # a part alone
    assert not any(module.training for module in m.eval().modules())
    m.train()(*batch())[0].log_softmax(-1)[..., 7].sum().backward()
    assert all(p.grad.isfinite().all() for p in m.parameters())
    with torch.no_grad():
        torch.testing.assert_close(m.eval()(*batch())[0], before)
