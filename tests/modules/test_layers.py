"""The layers against fairseq's own and against the equations written out."""

import copy
from dataclasses import fields

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase

from ode_transformer.models.transformer import SplitTransformerConfig
from ode_transformer.modules.layers import Context, DecoderLayer, EncoderLayer


def config(splitting="lie-trotter", pre_norm=True, hidden=1, **more):
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.embed_dim, side.ffn_embed_dim, side.attention_heads = 16, 24, 2
        side.normalize_before = pre_norm
    for field in fields(SplitTransformerConfig):
        if field.name in SplitTransformerConfig.__annotations__:
            setattr(cfg, field.name, field.default)
    cfg.splitting, cfg.ffn_hidden_layers = splitting, hidden
    cfg.dropout = cfg.attention_dropout = cfg.activation_dropout = 0.0
    for key, value in more.items():
        setattr(cfg, key, value)
    return cfg


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
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_lie_trotter_is_fairseqs_encoder_layer(data, pre_norm, dropout):
    x, _, mask, _, _ = data
    cfg = config(pre_norm=pre_norm, dropout=dropout, activation_dropout=dropout)
    ours, stock = EncoderLayer(cfg), TransformerEncoderLayerBase(cfg)
    perturb(stock)
    ours.load_state_dict(stock.state_dict())
    outputs, gradients = [], []
    for layer in (ours, stock):
        torch.manual_seed(1)
        y = layer(x, Context(mask))[0] if layer is ours else layer(x, mask)
        (y * torch.arange(y.numel()).view_as(y)).sum().backward()
        outputs.append(y)
        gradients.append({n: p.grad for n, p in layer.named_parameters()})
    assert torch.equal(*outputs)
    largest = max(g.abs().max() for g in gradients[1].values())
    for n, g in gradients[0].items():  # their sums are taken in another order
        torch.testing.assert_close(g, gradients[1][n], rtol=1e-5, atol=1e-6 * largest, msg=n)


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("need_head_weights", [True, False])
def test_lie_trotter_is_fairseqs_decoder_layer_bit_for_bit(data, pre_norm, need_head_weights):
    x, enc, x_mask, enc_mask, future = data
    cfg = config(pre_norm=pre_norm)
    ours, stock = DecoderLayer(cfg).eval(), TransformerDecoderLayerBase(cfg).eval()
    perturb(stock)
    ours.load_state_dict(stock.state_dict())
    keywords = {"self_attn_mask": future, "self_attn_padding_mask": x_mask, "need_head_weights": need_head_weights}
    y_stock, attn_stock, _ = stock(x, enc, enc_mask, **keywords)
    context = Context(
        x_mask, source=enc, source_padding_mask=enc_mask, attn_mask=future, need_head_weights=need_head_weights
    )
    y, _, attn = ours(x, context)
    assert torch.equal(y, y_stock)
    assert torch.equal(attn, attn_stock)
    assert attn.dim() == (4 if need_head_weights else 3)


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
