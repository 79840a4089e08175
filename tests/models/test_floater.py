"""FLOATER: the released code's checkpoint, equality with the Transformer, other families with a flow."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from ode_transformer.models.floater import RELEASED, ReleasedFloaterModel
from tests.helpers import SMALL, batch, model, small
from tests.models.released import assert_logits, load, sizes

SHARED = {"share-all-embeddings": True}


# The released code


def test_our_grid_computes_the_same():
    assert {ARCH_MODEL_REGISTRY[name] for name in RELEASED} == {ReleasedFloaterModel}
    fixture = load("floater")
    m = model("floater_base", {**SHARED, **sizes(fixture), "flow-sharing": "stack"}).eval()
    m.load_state_dict(dict(fixture["model"]))
    assert_logits(m, fixture)


# The Transformer is a special case


@pytest.mark.parametrize("blocks", ["all", "input"])
@pytest.mark.parametrize("norm", [{}, {"encoder-normalize-before": True, "decoder-normalize-before": True}])
def test_without_dynamics_it_is_the_transformer(norm, blocks):
    """Its own parameters are the Transformer's; the encoder is bitwise equal, cross-attention up to rounding."""
    sizes_of_decoder = {"decoder-embed-dim": 16, "decoder-ffn-embed-dim": 24}
    stock = model("transformer", {**SHARED, **SMALL, **norm, **sizes_of_decoder}).eval()
    floater = small("floater_tiny", **norm, **{"position-blocks": blocks})
    missing, unexpected = torch.nn.Module.load_state_dict(floater, stock.state_dict(), strict=False)
    assert not unexpected
    assert all(name.startswith("position_encoder.") for name in missing)
    src, lengths, prev = batch()
    assert (floater(src, lengths, prev)[0] - stock(src, lengths, prev)[0]).abs().max() > 1e-5
    with torch.no_grad():
        flow = floater.position_encoder.solvers["all"]
        flow.weight2.zero_(), flow.time2.zero_(), flow.bias2.zero_()
    real = (src != 1).t()
    states = [m.encoder(src, lengths)["encoder_out"][0][real] for m in (stock, floater)]
    assert torch.equal(*states)
    torch.testing.assert_close(floater(src, lengths, prev)[0], stock(src, lengths, prev)[0], atol=1e-6, rtol=0)


def test_only_the_input_block_is_told():
    m = small("floater_input_tiny")
    src, _, _ = batch()
    places = m.position_encoder.places("encoder", src, src.eq(1))
    assert [bool(place.biases) for place in places] == [True, False]
