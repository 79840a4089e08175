"""A layer's step with every integrator, against the equations written out on the layer's own sub-layers."""

import copy
from functools import partial

import pytest
import torch
from fairseq.models.transformer import TransformerConfig

from ode_transformer.config import to_transformer_config
from ode_transformer.models.transformer import SplitTransformerConfig
from ode_transformer.modules.layers import Context, DecoderLayer, EncoderLayer
from ode_transformer.numerics.integrators import INTEGRATORS, RK4
from tests.helpers import rk_step

EULER = {"integrator": "euler", "decoder_integrator": "euler"}
UNSPLIT = ("parallel", "substeps")  # which is refused: sub-layers that are taken together have no sub-steps
ONE_STEP = [name for name, method in INTEGRATORS.items() if method.weights]


def config(**more) -> TransformerConfig:
    sizes = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in {"embed_dim": 16, "ffn_embed_dim": 24, "attention_heads": 2, "normalize_before": True}.items()
    }
    values = {**sizes, "dropout": 0.0, "integrator": "heun", "activation_fn": "tanh", **more}
    return to_transformer_config(SplitTransformerConfig(**values), SplitTransformerConfig)


def layer(dtype=torch.float64, cls=EncoderLayer, **more):
    torch.manual_seed(0)
    built = cls(config(**more))
    for p in built.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return built.to(dtype).eval()


def field(sub_layers, y, together=False):
    """f(y) = layer(y) - y of a pre-norm layer; or the sum of what its sub-layers add to y itself."""
    total = 0
    for f, h in sub_layers.values():
        total = total + h * f(y if together else y + total)
    return total


def sub_layers(built, mask=None, source=None, future=None):
    """{name: (Sub(LN(.)), fraction)} of a pre-norm layer, from its modules, not from its code."""
    attentions = {"self_attn": 1.0} | ({} if source is None else {"encoder_attn": 1.0})
    fractions = attentions | {"fc1": 1.0}
    if hasattr(built, "macaron_fc1"):
        fractions = {"macaron_fc1": 0.5} | attentions | {"fc1": 0.5}
    if hasattr(built, "macaron_attn"):
        fractions = {"macaron_attn": 0.5, "fc1": 1.0} | attentions | {"self_attn": 0.5}

    def sub(name, y):
        if name == "encoder_attn":
            return built.encoder_attn(built.encoder_attn_layer_norm(y), source, source)[0]
        if name.endswith("attn"):
            y = getattr(built, f"{name}_layer_norm")(y)
            return getattr(built, name)(y, y, y, key_padding_mask=mask, attn_mask=future)[0]
        if name == "macaron_fc1":
            return built.macaron_fc2(built.activation_fn(built.macaron_fc1(built.macaron_layer_norm(y))))
        y = built.activation_fn(built.fc1(built.final_layer_norm(y)))
        return built.fc2(built.activation_fn(built.fc_hidden(y)) if hasattr(built, "fc_hidden") else y)

    return {name: (partial(sub, name), fraction) for name, fraction in fractions.items()}


@pytest.fixture
def data():
    torch.manual_seed(1)
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = True
    return torch.randn(5, 3, 16, dtype=torch.float64), mask


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(
    ("splitting", "relative", "hidden"),
    [("lie-trotter", "none", 2), ("lie-trotter", "keys", 1), ("strang", "keys", 1), ("parallel", "none", 1)],
)
@pytest.mark.parametrize("name", ONE_STEP)
def test_a_layer_integrates_its_increment(name, splitting, relative, hidden, released, data):
    """A parallel layer's is attention(y) + FFN(y), both of y; an Euler step is the same in the released form."""
    y, mask = data
    its = {"relative_positions": relative, "ffn_hidden_layers": hidden}
    built = layer(integrator=name, splitting=splitting, ode_residual="released" if released else "paper", **its)

    def f(x):
        return (x if released and name != "euler" else 0) + field(sub_layers(built, mask), x, splitting == "parallel")

    expected = y + f(y) + f(f(y)) if name == "polynet" else rk_step(f, y, INTEGRATORS[name])
    torch.testing.assert_close(built(y, Context(mask))[0], expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(
    ("coefficients", "stages"),
    [("scalars", 1)]
    + [(name, 2) for name in ("fixed", "ones", "scalars", "sigmoid", "two-sigmoids", "two-tanh", "ema")],
)
def test_a_layer_weights_its_stages(coefficients, stages, released, data):
    """In the released form F is the layer with its residual; Euler's step has one stage."""
    y, mask = data
    its = {"integrator": ("euler", "heun")[stages - 1], "ode_residual": "released" if released else "paper"}
    built = layer(coefficients=coefficients, gate_sharing="per-layer", **its)
    subs = sub_layers(built, mask)
    f1 = released * y + field(subs, y)
    f2 = released * (y + f1) + field(subs, y + f1)
    expected = y + ((f1 + f2) / 2 if coefficients == "fixed" else built.coefficients([f1, f2][:stages]))
    torch.testing.assert_close(built(y, Context(mask))[0], expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(
    ("splitting", "function", "integrated"),
    [
        ("lie-trotter", "san", (True, False)),
        ("lie-trotter", "ffn", (False, True)),
        ("lie-trotter", "substeps", (True, True)),
        ("strang", "substeps", (True, True, True)),
        ("strang", "san", (False, True, False)),
    ],
)
def test_parts_of_a_layer_are_integrated_by_themselves(splitting, function, integrated, released, data):
    """In the released form, of a sub-layer that takes half a step, F is y + f(y) / 2."""
    y, mask = data
    residual = "released" if released else "paper"
    built = layer(integrator="rk4", splitting=splitting, ode_function=function, ode_residual=residual)
    expected = y
    for (f, h), integrate in zip(sub_layers(built, mask).values(), integrated, strict=True):
        if integrate and released:
            expected = rk_step(lambda x, f=f, h=h: x + h * f(x), expected, RK4)
        elif integrate:
            expected = rk_step(f, expected, RK4, h)
        else:
            expected = expected + h * f(expected)
    torch.testing.assert_close(built(y, Context(mask))[0], expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize(("integrator", "order"), [("euler", 2), ("heun", 3)])
def test_macaron_with_heuns_sub_steps_is_of_third_order_locally(integrator, order, data):
    """With one shared FFN, against dy/dt = F(y) + G(y) solved with steps too small to matter."""
    built = layer(splitting="strang", ode_function="substeps", integrator=integrator)
    built.macaron_fc1, built.macaron_fc2, built.macaron_layer_norm = built.fc1, built.fc2, built.final_layer_norm
    y, mask = data
    (ffn, _), (attention, _), _ = sub_layers(built, mask).values()
    errors = []
    for step in (0.2, 0.1, 0.05, 0.025):
        exact = y
        for _ in range(16):
            exact = rk_step(lambda x: ffn(x) + attention(x), exact, RK4, step / 16)
        # The layer with its fields scaled by the step: its outputs are linear in the last linear maps.
        scaled = copy.deepcopy(built)
        with torch.no_grad():
            for linear in {scaled.self_attn.out_proj, scaled.fc2}:
                linear.weight.mul_(step)
                linear.bias.mul_(step)
        errors.append((scaled(y, Context(mask))[0] - exact).norm().item())
    slopes = torch.tensor(errors).log2()
    assert abs((slopes[:-1] - slopes[1:]).mean().item() - order) < 0.2, errors


def test_the_increment_keeps_bits_that_a_difference_loses():
    """In half precision y + f(y) - y is a multiple of y's last bit; the increment is not."""
    built = layer(torch.bfloat16, integrator="leapfrog")
    y = 64 * torch.randn(5, 3, 16).bfloat16()

    def increment(y):
        _, (_, increments), _ = built(y, Context())
        return increments[0]

    exact = built.float() and increment(y.float())
    built.bfloat16()
    summed = (increment(y) - exact).norm()
    assert summed < 0.5 * (built(y, Context())[0] - y - exact).norm()


@pytest.mark.parametrize("name", ["heun", "rk4"])
def test_a_decoder_layer_projects_the_source_once_a_step(name):
    built = layer(torch.float32, DecoderLayer, decoder_integrator=name)
    calls, project = [], built.encoder_attn._project
    built.encoder_attn._project = lambda *given: calls.append(given) or project(*given)
    built(torch.randn(4, 2, 16), Context(source=torch.randn(6, 2, 16)))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("splitting", "function", "name"),
    [
        *((splitting, "both", name) for splitting in ("lie-trotter", "parallel") for name in ("euler", "rk4")),
        ("strang-swapped", "both", "euler"),
        ("strang-swapped", "substeps", "heun"),
    ],
)
def test_a_decoder_layer_integrates_its_increment(splitting, function, name):
    """In a parallel layer all read the same state, cross-attention too; of two attentions it follows the second."""
    built = layer(cls=DecoderLayer, splitting=splitting, ode_function=function, **EULER | {"decoder_integrator": name})
    y, source = torch.randn(4, 2, 16, dtype=torch.float64), torch.randn(6, 2, 16, dtype=torch.float64)
    subs, method = sub_layers(built, source=source), INTEGRATORS[name]
    ours, _, weights = built(y, Context(source=source))
    pieces = subs.values() if function == "substeps" else [(lambda x: field(subs, x, splitting == "parallel"), 1.0)]
    for f, h in pieces:
        y = rk_step(f, y, method, h)
    # Not closer: fairseq's attention with a cache takes its softmax in single precision.
    torch.testing.assert_close(ours, y, atol=1e-6, rtol=1e-6)
    assert weights.shape == (2, 4, 6)


@pytest.mark.parametrize(
    ("splitting", "function"),
    [(s, f) for s in ("lie-trotter", "strang", "parallel") for f in ("both", "substeps") if (s, f) != UNSPLIT],
)
@pytest.mark.parametrize("name", ["nesterov", "triple"])
def test_a_layer_with_momentum(name, function, splitting, data):
    """Of the whole layer's increment, or of each sub-layer's; a fraction of the step is one of the field."""
    y, mask = data
    built = layer(integrator=name, splitting=splitting, ode_function=function)
    subs = sub_layers(built, mask)
    if function == "both":
        pieces = {"layer": lambda x: field(subs, x, splitting == "parallel")}
    else:
        pieces = {n: lambda x, f=f, h=h: h * f(x) for n, (f, h) in subs.items()}
    assert set(built.velocities) == set(pieces)
    x, v = y, 0.5 * y.flip(0)
    ours = built(y, Context(mask), v)[:2]
    for n, f in pieces.items():
        learned = built.velocities[n]
        beta, mu = learned.raw[:2].sigmoid()
        gamma = torch.nn.functional.softplus(learned.raw[2])
        v = learned.norm(beta * v + gamma * f(x + mu * v))
        x = x + (v if name == "nesterov" else learned.nu * v)
    torch.testing.assert_close(ours, (x, v), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("cls", [EncoderLayer, DecoderLayer])
def test_a_post_norm_macaron_is_equations_17_to_19(cls, data):
    """A norm is of the sum."""
    y, source, future = data[0], torch.randn(7, 3, 16, dtype=torch.float64), torch.full((5, 5), float("-inf")).triu(1)
    its = {} if cls is EncoderLayer else {"source": source, "future": future}
    built = layer(cls=cls, **EULER, splitting="strang", encoder_normalize_before=False, decoder_normalize_before=False)
    ours, plain = built(y, Context(source=its.get("source"), attn_mask=its.get("future")))[0], copy.deepcopy(built)
    norms = {name: norm for name, norm in built.named_children() if name.endswith("norm")}
    for name in norms:
        setattr(plain, name, torch.nn.Identity())
    for name, (f, h) in sub_layers(plain, **its).items():
        norm = {"fc1": "final_layer_norm", "macaron_fc1": "macaron_layer_norm"}.get(name, f"{name}_layer_norm")
        y = norms[norm](y + h * f(y))
    torch.testing.assert_close(ours, y)


def test_initial_values_are_those_of_the_papers_code():
    for name, p in EncoderLayer(config(splitting="strang", relative_positions="keys-values")).named_parameters():
        if name.endswith("bias"):
            assert not p.any(), name
        if ("fc" in name and name.endswith("weight")) or "relative_position" in name:
            bound = (6 / sum(p.shape)) ** 0.5  # Xavier
            assert 0.9 * bound < p.abs().max() <= bound, name
        if "q_proj.weight" in name:
            bound = (6 / (16 + 3 * 16)) ** 0.5  # Xavier of the fused projection
            assert 0.9 * bound < p.abs().max() <= bound


def test_modules_that_are_replaced_and_copied_are_those_that_run(data):
    """Quantisation puts others in their places; averages of weights are trained beside a copy."""
    x, mask = data
    built = layer(**EULER, splitting="strang")
    copied = copy.deepcopy(built)
    for name in ("self_attn_layer_norm", "macaron_fc1", "fc1"):
        setattr(copied, name, torch.nn.Sequential(getattr(copied, name)))
    assert torch.equal(copied(x, Context(mask))[0], built(x, Context(mask))[0])
    with torch.no_grad():
        copied.fc1[0].weight.zero_()
    assert not torch.equal(copied(x, Context(mask))[0], built(x, Context(mask))[0])


def test_a_decoder_layer_without_a_source_has_self_attention_and_feed_forward():
    built, alone = DecoderLayer(config(**EULER)).eval(), DecoderLayer(config(**EULER), no_encoder_attn=True).eval()
    alone.load_state_dict({k: v for k, v in built.state_dict().items() if not k.startswith("encoder_attn")})
    x = torch.randn(5, 3, 16)
    (y, _, weights), (expected, _, _) = (each(x, Context()) for each in (built, alone))
    assert torch.equal(y, expected) and weights is None


@pytest.mark.parametrize(
    ("splitting", "hidden", "within"),
    [("lie-trotter", 1, 1), ("lie-trotter", 2, 2), ("strang", 1, 2), ("strang-swapped", 1, 1)],
)
@pytest.mark.parametrize("cls", [EncoderLayer, DecoderLayer])
def test_every_sublayer_drops_its_output_and_every_hidden_layer_too(cls, splitting, hidden, within):
    built, calls, x = cls(config(**EULER, splitting=splitting, ffn_hidden_layers=hidden)), [], torch.randn(5, 3, 16)
    for name in ("dropout_module", "activation_dropout_module"):
        getattr(built, name).register_forward_hook(lambda *_, name=name: calls.append(name))
    built(x, Context() if cls is EncoderLayer else Context(source=x))
    assert calls.count("dropout_module") == len(built.sublayers())
    assert calls.count("activation_dropout_module") == within


@pytest.mark.parametrize("name", ["heun", "rk4", "polynet"])
def test_gradients_of_a_step_and_without_a_field_the_identity(name, data):
    built, y = layer(integrator=name), data[0][:2, :1].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: built(y, Context())[0], (y,))
    for p in (*built.self_attn.out_proj.parameters(), *built.fc2.parameters()):
        torch.nn.init.zeros_(p)
    assert torch.equal(built(y, Context())[0], y)
