"""ODE Transformer: its limits, momentum, what layers share, memory, half precision, and what is refused."""

from dataclasses import fields
from functools import partial

import pytest
import torch
from torch.nn import functional

from ode_transformer.experiments import recipes
from ode_transformer.models.macaron import MacaronConfig
from ode_transformer.modules import dropout
from tests.helpers import SMALL, batch, model, perturbed, saved_bytes, small
from tests.models.test_counts import STOCK_TINY
from tests.modules.test_layers import sub_layers

SHARED = {"share-all-embeddings": True}
PRE_NORM = {"encoder-normalize-before": True, "decoder-normalize-before": True}
PLAIN = {"relative-positions": "none", "encoder-history": "none", "decoder-history": "none"}


def with_fairseqs(norms=PRE_NORM, **more):
    """A model of Euler steps without history and relative positions, and fairseq's Transformer with its weights."""
    common, post_norm = {**SMALL, **SHARED, **more}, {f"no-{flag}": True for flag in PRE_NORM.keys() - norms.keys()}
    ours = perturbed(model("ode_residual_tiny", common | PLAIN | post_norm))
    stock = model("transformer", common | norms | {"decoder-embed-dim": 16, "decoder-ffn-embed-dim": 24})
    stock.load_state_dict(ours.state_dict())
    return ours, stock


def row_with_fairseqs():
    """The stock row of four systems, a splitting that starts from the weights of the fairseq that the papers used."""
    row = recipes.load("aeslc/transformer-tiny").train
    known = {field.name.replace("_", "-") for field in fields(MacaronConfig)}
    ours = model(row.arch, {k: v for k, v in row.flags.items() if k.removeprefix("no-") in known})
    stock = model("transformer", {**SHARED, **STOCK_TINY, "dropout": 0.3})
    stock.load_state_dict(ours.state_dict())
    return ours, stock


DROPPING = {"dropout": 0.3, "activation-dropout": 0.2}
SAME = [partial(with_fairseqs, PRE_NORM, **DROPPING), partial(with_fairseqs, {}, **DROPPING), row_with_fairseqs]


@pytest.mark.parametrize("both", SAME, ids=["pre-norm", "post-norm", "recipe"])
def test_euler_without_history_and_relative_positions_is_fairseqs_transformer(both, monkeypatch):
    """Bit by bit; in training, with the same dropout, up to rounding, and so are the gradients."""
    monkeypatch.setattr(dropout, "dropout", functional.dropout)  # draws as fairseq's does
    outputs, gradients = [], []
    for m in both():
        with torch.no_grad():
            evaluated = m.eval()(*batch())[0]
        torch.manual_seed(3)
        outputs.append((m.train()(*batch())[0], evaluated))
        outputs[-1][0].log_softmax(-1)[..., 7].sum().backward()
        gradients.append({n: p.grad for n, p in m.named_parameters()})
    (trained, evaluated), (expected, exact) = outputs
    assert torch.equal(evaluated, exact)
    torch.testing.assert_close(trained, expected)
    largest = max(g.abs().max() for g in gradients[1].values())
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6 * float(largest))  # sums are taken in another order


def test_an_encoder_hides_the_embeddings_of_padding_as_fairseqs():
    """Their row is zero at the beginning only: the softmax trains it where the output shares the matrix."""
    src, lengths, _ = batch(sizes=(6, 4))
    states = []
    for m in with_fairseqs(PRE_NORM):
        torch.nn.init.ones_(m.encoder.embed_tokens.weight.data[m.encoder.padding_idx])
        states.append(m.eval().encoder(src, lengths)["encoder_out"][0])
    assert src.eq(m.encoder.padding_idx).any() and torch.equal(*states)


def test_nesterovs_momentum_in_a_whole_encoder():
    """Sub-layer by sub-layer, v = LN_v(beta v + gamma Sub(LN(x + mu v))), x = x + v; v starts as an embedding."""
    m = perturbed(small("nesterov", **{**PLAIN, "dropout": 0.3}), 0.2)
    stack, (src, _, _) = m.encoder, batch(sizes=(6, 6, 6))
    x, v = (4 * embedding(src) for embedding in (stack.embed_tokens, stack.velocity_tokens))  # sqrt(16)
    x, v = (x + stack.embed_positions(src)).transpose(0, 1), v.transpose(0, 1)
    for layer in torch.nn.ModuleList.__iter__(stack.layers):
        for name, (sub, _) in sub_layers(layer).items():
            learned = layer.velocities[name]
            beta, mu = learned.raw[:2].sigmoid()
            v = learned.norm(beta * v + functional.softplus(learned.raw[2]) * sub(x + mu * v))
            x = x + v
    torch.testing.assert_close(stack(src)["encoder_out"][0], stack.layer_norm(x), atol=1e-5, rtol=1e-5)


def test_where_learned_scalars_start():
    """Section 3.2: at 1 for RK2; at the method's own weights for others (ours), Euler's in the encoder alone."""
    assert small("rk2_scalars_tiny").encoder.coefficients.weight.tolist() == [1, 1]
    rk4 = small("rk4_tiny", **{"coefficients": "scalars"})
    torch.testing.assert_close(rk4.encoder.coefficients.weight, torch.tensor([1, 2, 2, 1]) / 6)
    alone = small("ode_residual_tiny", coefficients="scalars")  # as in the released code
    assert alone.encoder.coefficients.weight.tolist() == [1.0] and alone.decoder.coefficients is None


def test_stages_draw_dropout_masks_of_their_own():
    m = small("rk2_tiny", **{"dropout": 0.5}).train()
    masks = []
    m.encoder.layers[0].dropout_module.register_forward_hook(lambda _, x, y: masks.append(y == 0))
    m(*batch())
    assert len(masks) == 4 and not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_word_dropout_drops_whole_words_in_training_with_its_probability(side):
    m = small("rk2_tiny", **{"word-dropout": 0.2, "no-token-positional-embeddings": True}).train()
    stack, tokens = getattr(m, side), torch.full((40, 50), 7)

    def embedded():
        found = stack.forward_embedding(tokens)
        return found[0] if side == "encoder" else found

    x = embedded()
    dropped = (x == 0).all(-1)
    assert 0.15 < dropped.float().mean() < 0.25
    assert torch.equal(x[~dropped][0], stack.embed_scale * stack.embed_tokens.weight[7])
    m.eval()
    assert not (embedded() == 0).all(-1).any()


def test_checkpointed_activations_recompute_the_stages():
    """The encoder then keeps no more for RK4 than for Euler steps."""
    sizes = {"encoder-layers": 4, "dropout": 0.1}
    memory = {}
    for variant in ("ode_residual_tiny", "rk4_tiny"):
        for name, more in (("plain", {}), ("lean", {"checkpoint-activations": True})):
            memory[variant, name] = saved_bytes(small(variant, **sizes, **more).train())
    assert memory["rk4_tiny", "plain"] > 1.5 * memory["ode_residual_tiny", "plain"]
    assert memory["rk4_tiny", "lean"] < 1.1 * memory["ode_residual_tiny", "lean"]
    assert memory["rk4_tiny", "lean"] < 0.5 * memory["rk4_tiny", "plain"]


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


OF_ALL_LAYERS = ("rk2_learnable_tiny", "rk2_second_order_tiny", "rk2_scalars_tiny", "ode_dlcl_tiny", "nesterov")


@pytest.mark.parametrize("variant", [*OF_ALL_LAYERS, "decoder-rk2-learnable", "pcformer-decoder"])
def test_what_layers_share_is_trained_in_parallel_with_recomputed_activations(process_group, variant):
    """PyTorch's DDP takes a parameter's gradient once; fairseq's own checkpointing gives it once per layer."""
    m = small(variant, **{"checkpoint-activations": True}).train()
    parallel = torch.nn.parallel.DistributedDataParallel(m)
    for _ in range(2):
        parallel(*batch())[0].log_softmax(-1)[..., 7].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in m.parameters())


FP16_MAX = 65504
FORMS = ("paper", "released")
BEYOND = (
    "pcformer_tiny",
    "pcformer-rk4-released",
    "nesterov",
    "momentum-from-rest",
    "denseformer",
    "attention-history",
)
DEEP = [pytest.param(form, 24, 50, marks=pytest.mark.full) for form in (*FORMS, *BEYOND)]
DEEPER = [pytest.param(form, 48, 50, marks=pytest.mark.slow) for form in (*FORMS, *BEYOND)]


@pytest.mark.parametrize(("form", "layers", "updates"), [*((form, 24, 3) for form in FORMS), *DEEP, *DEEPER])
def test_deep_models_stay_finite_in_half_precision(form, layers, updates):
    """Activations at initialization and through updates in bfloat16, within the range of fp16 as well."""
    values = {"encoder-layers": layers, "decoder-layers": 1, "encoder-embed-dim": 32, "encoder-ffn-embed-dim": 64}
    if form == "released":
        values["ode-residual"] = "released"
    torch.manual_seed(0)
    m = small(form if form in BEYOND else "rk2_learnable_tiny", **values).bfloat16().train()
    largest = [0.0]

    def watch(_, inputs, output):
        state = output[0] if isinstance(output, tuple) else output  # beside a velocity
        largest[0] = max(largest[0], state.abs().max().item())

    for layer in torch.nn.ModuleList.__iter__(m.encoder.layers):
        layer.register_forward_hook(watch)
    optimiser = torch.optim.Adam(m.parameters(), lr=2e-3, betas=(0.9, 0.997))
    src, lengths, prev = batch()
    for update in range(updates + 1):
        loss = torch.nn.functional.cross_entropy(m(src, lengths, prev)[0].float().transpose(1, 2), prev, ignore_index=1)
        assert torch.isfinite(loss), f"update {update}"
        optimiser.zero_grad()
        loss.backward()
        assert all(torch.isfinite(p.grad).all() for p in m.parameters()), f"update {update}"
        optimiser.step()
    assert largest[0] < FP16_MAX / 10


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("other", ["multistep", "nesterov", "euler"])
def test_coefficients_and_residual_are_of_the_side_that_weights_stages(side, other):
    """The other side is as it is without them."""
    heun, its = ("integrator", "decoder-integrator")[:: 1 if side == "encoder" else -1]
    values = {heun: "heun", its: other, "encoder-history": "none", "decoder-history": "none"}
    m = small("ode_residual_tiny", **values, **{"coefficients": "ema", "ode-residual": "released"})
    plain = small("ode_residual_tiny", **values)
    assert m.state_dict().keys() - plain.state_dict().keys() == {f"{side}.coefficients.weight"}
    for name in ("encoder", "decoder"):
        options, expected = (vars(next(getattr(x, name).layers.children()).options) for x in (m, plain))
        assert options == expected | ({"coefficients": "ema", "released": True} if name == side else {})


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_initial_velocity_is_dropped_as_the_embedding_is(side):
    v = getattr(small("nesterov", dropout=0.5).train(), side)._velocity(torch.full((40, 50), 7))
    assert 0.45 < (v == 0).float().mean() < 0.55


@pytest.mark.parametrize("flags", [{}, {"layernorm-embedding": True}])
@pytest.mark.parametrize(
    "asked",
    [{}, {"alignment_layer": 0}, {"alignment_layer": 0, "alignment_heads": 1}, {"full_context_alignment": True}],
)
def test_what_is_asked_of_the_decoder_is_stock_fairseqs(flags, asked):
    src, lengths, prev = batch()
    found = [m.eval().decoder(prev, m.encoder(src, lengths), **asked) for m in with_fairseqs(**flags)]
    torch.testing.assert_close(*((x, more["attn"][0]) for x, more in found), rtol=0, atol=0)
