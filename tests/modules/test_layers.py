"""The layers of Euler steps against the equations written out."""

import copy

import pytest
import torch

from ode_transformer.modules.layers import Context, DecoderLayer, EncoderLayer
from tests.modules import test_ode_layers


def config(splitting="lie-trotter", pre_norm=True, hidden=1, **more):
    norms = {f"{side}_normalize_before": pre_norm for side in ("encoder", "decoder")}
    values = {"splitting": splitting, "ffn_hidden_layers": hidden, **norms, **more}
    return test_ode_layers.config(integrator="euler", activation_fn="relu", **values)


def perturb(module):
    """Norms and biases away from their initial values, so that no term hides."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn_like(p))


@pytest.fixture
def data():
    torch.manual_seed(0)
    x, enc = torch.randn(5, 3, 16), torch.randn(7, 3, 16)
    x_mask, enc_mask = torch.zeros(3, 5, dtype=torch.bool), torch.zeros(3, 7, dtype=torch.bool)
    x_mask[1, 4:] = enc_mask[2, 5:] = True
    future = torch.triu(torch.full((5, 5), float("-inf")), 1)
    return x, enc, x_mask, enc_mask, future


@pytest.mark.parametrize("pre_norm", [True, False])
def test_macaron_is_equations_17_to_19(data, pre_norm):
    x, enc, x_mask, enc_mask, future = data
    encoder, decoder = EncoderLayer(config("strang", pre_norm)), DecoderLayer(config("strang", pre_norm))
    for layer in (encoder, decoder):
        perturb(layer)

        def sub(f, norm, y, h):
            return y + h * f(norm(y)) if pre_norm else norm(y + h * f(y))

        def first(z, layer=layer):
            return layer.macaron_fc2(torch.relu(layer.macaron_fc1(z)))

        def last(z, layer=layer):
            return layer.fc2(torch.relu(layer.fc1(z)))

        def attention(z, layer=layer):
            mask, padding = (None, x_mask) if layer is encoder else (future, None)
            return layer.self_attn(z, z, z, key_padding_mask=padding, attn_mask=mask)[0]

        def cross(z, layer=layer):
            return layer.encoder_attn(z, enc, enc, key_padding_mask=enc_mask, static_kv=True)[0]

        y = sub(first, layer.macaron_layer_norm, x, 0.5)
        y = sub(attention, layer.self_attn_layer_norm, y, 1)
        if layer is decoder:
            y = sub(cross, layer.encoder_attn_layer_norm, y, 1)
        y = sub(last, layer.final_layer_norm, y, 0.5)
        if layer is encoder:
            ours = layer(x, Context(x_mask))[0]
        else:
            ours, _, _ = layer(x, Context(source=enc, source_padding_mask=enc_mask, attn_mask=future))
        torch.testing.assert_close(ours, y)


def test_two_hidden_layers_without_residual(data):
    x, _, mask, _, _ = data
    layer = EncoderLayer(config(hidden=2))
    perturb(layer)
    y = layer.self_attn_layer_norm(x)
    y = x + layer.self_attn(y, y, y, key_padding_mask=mask)[0]
    z = torch.relu(layer.fc_hidden(torch.relu(layer.fc1(layer.final_layer_norm(y)))))
    torch.testing.assert_close(layer(x, Context(mask))[0], y + layer.fc2(z))


def test_initial_values_are_those_of_the_papers_code():
    layer = EncoderLayer(config("strang"))
    for name, p in layer.named_parameters():
        if name.endswith("bias"):
            assert not p.any(), name
        if "fc" in name and name.endswith("weight"):
            bound = (6 / sum(p.shape)) ** 0.5  # Xavier
            assert 0.9 * bound < p.abs().max() <= bound, name
        if "q_proj.weight" in name:
            bound = (6 / (16 + 3 * 16)) ** 0.5  # Xavier of the fused projection
            assert 0.9 * bound < p.abs().max() <= bound


def test_modules_that_are_replaced_and_copied_are_those_that_run(data):
    """Quantisation puts others in their places; averages of weights are trained beside a copy."""
    x, _, mask, _, _ = data
    layer = EncoderLayer(config("strang"))
    copied = copy.deepcopy(layer)
    for name in ("self_attn_layer_norm", "macaron_fc1", "fc1"):
        setattr(copied, name, torch.nn.Sequential(getattr(copied, name)))
    assert torch.equal(copied(x, Context(mask))[0], layer(x, Context(mask))[0])
    with torch.no_grad():
        copied.fc1[0].weight.zero_()
    assert not torch.equal(copied(x, Context(mask))[0], layer(x, Context(mask))[0])


def test_a_decoder_layer_without_a_source_has_self_attention_and_feed_forward(data):
    x, _, _, _, future = data
    layer, alone = DecoderLayer(config("strang")).eval(), DecoderLayer(config("strang"), no_encoder_attn=True).eval()
    alone.load_state_dict({k: v for k, v in layer.state_dict().items() if not k.startswith("encoder_attn")})
    (y, _, weights), (expected, _, _) = (each(x, Context(attn_mask=future)) for each in (layer, alone))
    assert torch.equal(y, expected) and weights is None


@pytest.mark.parametrize(
    ("splitting", "hidden", "within"),
    [("lie-trotter", 1, 1), ("lie-trotter", 2, 2), ("strang", 1, 2), ("strang-swapped", 1, 1)],
)
@pytest.mark.parametrize("cls", [EncoderLayer, DecoderLayer])
def test_every_sublayer_drops_its_output_and_every_hidden_layer_too(cls, splitting, hidden, within):
    layer, calls, x = cls(config(splitting, hidden=hidden)), [], torch.randn(5, 3, 16)
    for name in ("dropout_module", "activation_dropout_module"):
        getattr(layer, name).register_forward_hook(lambda *_, name=name: calls.append(name))
    layer(x, Context() if cls is EncoderLayer else Context(source=x))
    assert calls.count("dropout_module") == len(layer.sublayers())
    assert calls.count("activation_dropout_module") == within
