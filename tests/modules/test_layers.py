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


@pytest.mark.parametrize("cls", [EncoderLayer, DecoderLayer])
def test_a_post_norm_macaron_is_equations_17_to_19(cls, data):
    """A norm is of the sum; those before sub-layers are in test_ode_layers.py, and in the released code's numbers."""
    y, enc, _, _, future = data
    layer, its = cls(config("strang", pre_norm=False)), {} if cls is EncoderLayer else {"source": enc, "future": future}
    perturb(layer)
    context = Context(source=its.get("source"), attn_mask=its.get("future"))
    ours, plain = layer(y, context)[0], copy.deepcopy(layer)
    norms = {name: norm for name, norm in layer.named_children() if name.endswith("norm")}
    for name in norms:
        setattr(plain, name, torch.nn.Identity())
    for name, (f, h) in test_ode_layers.sub_layers(plain, **its).items():
        norm = {"fc1": "final_layer_norm", "macaron_fc1": "macaron_layer_norm"}.get(name, f"{name}_layer_norm")
        y = norms[norm](y + h * f(y))
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
