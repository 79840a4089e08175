"""Position encoders: indices, one solution a pass, caches that are never stale, kernels."""

import copy
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from ode_transformer.modules import positions
from ode_transformer.modules.positions import Biases, BiasPositions, token_positions
from tests.helpers import SMALL, Kernels, batch, configure, model, perturbed, small, stepwise


def logits(m, seed=0, **more):
    return m(*batch(seed=seed, **more))[0]


@pytest.fixture
def m():
    torch.manual_seed(0)
    return small("floater_tiny")


@pytest.fixture
def solved(monkeypatch):
    """The numbers of positions that were solved for, as they come."""
    counts, stock = [], BiasPositions._solve

    def count(self, length):
        counts.append(length)
        return stock(self, length)

    monkeypatch.setattr(BiasPositions, "_solve", count)
    return counts


def loss_of(m, seed=0):
    return logits(m, seed).log_softmax(-1)[..., 7].sum()


# Where the tokens are


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0, 0, 0, 0, 0]], None),
        ([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], None),  # padding on the right shifts nothing
        ([[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]),
        ([[1, 0, 0, 1, 1]], [[0, 0, 1, 1, 1]]),
    ],
)
def test_token_positions(rows, expected, monkeypatch):
    """Their columns where the host may ask, and where no padding comes before a token; else a number for each."""
    padding, columns = torch.tensor(rows, dtype=torch.bool), slice(1, 5)
    found = token_positions(padding, columns)
    if expected is None:
        assert found is columns
    else:
        assert found.t().tolist() == [row[1:] for row in expected]
    monkeypatch.setattr(positions, "can_ask", lambda _: False)
    real = ~padding[:, 1:]
    expected = expected or [list(range(5))] * len(rows)
    assert torch.equal(token_positions(padding, columns).t()[real], torch.tensor(expected)[:, 1:][real])


@torch.no_grad()
def test_sentences_of_any_length():
    src, lengths, prev = batch(sizes=(1100,))  # beyond fairseq's table of positions
    assert small("floater_tiny", **{"max-source-positions": 3000})(src, lengths, prev[:, :4])[0].isfinite().all()


@torch.no_grad()
def test_step_by_step_far_out():
    m = small("floater_tiny")
    src, lengths, prev = batch(sizes=(70,))  # beyond a length that a solution is kept of
    encoder_out = m.encoder(src, lengths)
    steps, at_once = stepwise(m.decoder, prev, encoder_out), m.decoder(prev, encoder_out)[0]
    torch.testing.assert_close(steps, at_once, atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", ["floater_tiny", "floater-stack", "rk2-learnable-floater"])
def test_rows_that_are_selected_by_a_product_are_those_that_are_looked_up(variant, monkeypatch):
    """As on a GPU, forward and backward."""
    m, found = small(variant).double().train(), []
    for ask in (positions.can_ask, lambda _: False):
        monkeypatch.setattr(positions, "can_ask", ask)
        m.zero_grad()
        real = logits(m)[batch()[2] != 1]
        real.log_softmax(-1)[..., 7].sum().backward()
        found.append([real, *(p.grad.clone() for p in m.position_encoder.parameters())])
    for ours, expected in zip(*reversed(found), strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-6)


# The solution


@pytest.mark.parametrize("arch", ["floater_tiny", "rk2_tiny"])
def test_biases_start_as_released(arch):
    """Xavier's bound for one tensor of all b(0), (kinds, L, C): kinds are 3 in the encoder, 4 in the decoder."""
    m = model(arch, {"position-encoder": "floater"})
    for side, attention, own, memory in (
        (m.encoder, "self_attn", 3, 3),
        (m.decoder, "self_attn", 4, 4),
        (m.decoder, "encoder_attn", 4, 2),
    ):
        for name, kinds in (("q_proj", own), ("k_proj", memory), ("v_proj", memory)):
            bound = (6 / ((4 + kinds) * 128)) ** 0.5
            biases = [layer.get_submodule(f"{attention}.{name}").bias for layer in nn.ModuleList.__iter__(side.layers)]
            assert 0.95 * bound < torch.cat(biases).abs().max() <= bound, (attention, name)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("attention", ["macaron_attn", "self_attn", "encoder_attn"])
def test_every_attention_is_moved(side, attention, monkeypatch):
    """Each by itself: with biases of the others alone, a model computes something else."""
    m, stock, dropped = small("attention-twice-floater"), BiasPositions.places, []
    expected = logits(m)

    def without(self, told, *given, **more):
        places = stock(self, told, *given, **more)
        if told == side:
            dropped.extend(name for place in places for name in place.biases if name == attention)
            places = [replace(one, biases={k: v for k, v in one.biases.items() if k != attention}) for one in places]
        return places

    monkeypatch.setattr(BiasPositions, "places", without)
    moved = (logits(m) - expected).abs().max() > 1e-6
    assert moved == bool(dropped) == ((side, attention) != ("encoder", "encoder_attn"))


def test_one_solution_a_pass_in_training(m, solved):
    """As long as the longer side, for both sides and all layers; and for a decoder by itself."""
    loss_of(m.train()).backward()
    src, lengths, prev = batch()
    encoder_out = m.encoder(src, lengths)
    m.decoder(prev, encoder_out)
    assert solved == [src.size(1)] * 3 == [7] * 3 and src.size(1) > prev.size(1)


def test_one_solution_a_model_in_decoding(m, solved):
    """As long as a power of two, since longer sentences may follow."""
    with torch.no_grad():
        for seed in range(3):
            logits(m.eval(), seed)  # fairseq calls eval() before every batch
        assert solved == [64]
        for length in (64, 65, 128, 129):
            m.position_encoder.solve(length)
        logits(m)
    assert solved == [64, 128, 256]


def write(m, past_autograd=False):
    """Weights that change in place; or as an optimizer of fairseq's writes them."""
    for p in m.parameters():
        (p.data if past_autograd else p).add_(0.1 * torch.randn_like(p))


def train_past_autograd(m, passes=0):
    m.train()
    for _ in range(passes):
        logits(m)
    write(m, past_autograd=True)
    m.eval()


def train_in_evaluation_mode(m):
    """With an optimizer that changes weights without a change of their versions."""
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.1, fused=True)
    with torch.enable_grad():
        loss_of(m).backward()
    optimizer.step()


CHANGES = {
    "loaded": lambda m: m.load_state_dict(perturbed(small("floater_tiny")).state_dict()),
    "loaded and cast": lambda m: (m.load_state_dict(perturbed(small("floater_tiny")).state_dict()), m.double().float()),
    "in place": write,
    "biases that it starts from": lambda m: [bias.add_(1.0) for bias in m.position_encoder.initial("all")],
    "training": train_past_autograd,
    "training after a pass without gradients": lambda m: train_past_autograd(m, passes=1),
    "training in evaluation mode": train_in_evaluation_mode,
    "forgotten": lambda m: (write(m, past_autograd=True), m.position_encoder.forget()),
}


@pytest.mark.parametrize("how", CHANGES)
@torch.no_grad()
def test_the_solution_follows_the_weights(m, how):
    before = logits(m)
    CHANGES[how](m)
    other = small("floater_tiny")
    other.load_state_dict(m.state_dict())
    torch.testing.assert_close(logits(m), logits(other), atol=1e-5, rtol=0)
    assert (logits(m) - before).abs().max() > 1e-3


def test_loading_discards_solutions_whatever_the_versions_of_weights():
    """As of weights that inference mode made, which have no versions."""
    other = perturbed(small("floater_tiny"))
    with torch.inference_mode():
        built = small("floater_tiny")
        logits(built)
        built.load_state_dict(other.state_dict())
        torch.testing.assert_close(logits(built), logits(other), atol=1e-5, rtol=0)


def test_gradients_in_evaluation_mode_are_not_those_of_a_cache(m):
    with torch.no_grad():
        logits(m)
    loss_of(m.eval()).backward()
    assert m.position_encoder.solvers["all"].weight1.grad.norm() > 0


def test_half_and_mixed_precision_end_with_an_error_before_attention_does(m):
    """A score is the product of two biases, so that it overflows long before they do."""
    tokens, words = torch.full((1, 40), 4), r"attention in torch\.float16 from position \d+ on.*float32"
    with torch.no_grad():
        m.position_encoder.solvers["all"].weight1.mul_(60)
        m.eval().position_encoder.places("encoder", tokens, tokens.eq(1))
        with torch.autocast("cpu", torch.float16), pytest.raises(ValueError, match=words):
            m.position_encoder.places("encoder", tokens, tokens.eq(1))
        with pytest.raises(ValueError, match=words) as refused:
            m.half().position_encoder.places("encoder", tokens, tokens.eq(1))
        longest = int(re.search(r"position (\d+)", str(refused.value))[1]) - 1
        assert m.position_encoder.reach(40) == longest + 1 and m.position_encoder.reach(longest) == longest
        tokens = torch.full((1, longest + 1), 4)
        assert m(tokens, torch.tensor([longest + 1]), tokens)[0].isfinite().all()
        biases = m.float().position_encoder.biases(longest + 2)
        assert max(b.abs().max() for b in biases.values()) < 65504, "which alone would be no reason to stop"


def test_the_reach_is_where_a_score_of_two_biases_leaves_the_range(m):
    with torch.no_grad():
        m.position_encoder.solvers["all"].weight1.mul_(60)
        reach = m.half().eval().position_encoder.reach(40)
        moved = [b - b[0] for b in m.float().position_encoder.biases(40).values()]
        scores = torch.stack([b.unflatten(1, (2, 8)).square().sum(-1).amax(1) / 8**0.5 for b in moved]).amax(0)
    assert reach == int((scores < 65504).sum()) < 40


@pytest.mark.parametrize("name", ["encoder", "decoder", "source"])
def test_the_reach_is_that_of_every_flow(name):
    m = small("floater_tiny", **{"flow-sharing": "stack"})
    with torch.no_grad():
        m.position_encoder.solvers[name].weight1.mul_(60)
    assert m.half().position_encoder.reach(40) < 40


def test_a_side_without_layers_has_no_places_and_a_model_without_layers_no_biases_to_move():
    for kind in ("sinusoidal", "learned"):
        for side in ("encoder", "decoder"):
            assert logits(small("macaron", **{"position-encoder": kind, f"{side}-layers": 0})).isfinite().all()
    with pytest.raises(ValueError, match="--position-encoder: must be none in a model without layers"):
        small("floater_tiny", **{"encoder-layers": 0, "decoder-layers": 0})


@pytest.mark.parametrize("arch", ["floater_input_tiny", "floater_roberta_tiny", "floater_tiny"])
def test_without_its_flow_an_architecture_drops_what_it_says_of_it(arch):
    cfg = configure(arch, {"position-encoder": "none"})
    assert (cfg.flow_method, cfg.flow_step, cfg.position_blocks) == ("rk4", 4, "all")


# Whole models


@pytest.mark.parametrize("blocks", ["all", "input"])
@pytest.mark.parametrize("norm", [{}, {"encoder-normalize-before": True, "decoder-normalize-before": True}])
def test_without_dynamics_a_model_is_the_transformer(norm, blocks):
    """Its own parameters are the Transformer's; the encoder is bitwise equal, cross-attention up to rounding."""
    sizes_of_decoder = {"decoder-embed-dim": 16, "decoder-ffn-embed-dim": 24}
    stock = model("transformer", {"share-all-embeddings": True, **SMALL, **norm, **sizes_of_decoder}).eval()
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


# Kernels


def test_self_attention_stays_fused(m):
    """With padding, with causality, in training without dropout: no attention matrix is held."""
    for training in (False, True):
        m.train(training)
        with Kernels() as kernels:
            m.encoder(*batch(sizes=(90, 80))[:2])["encoder_out"][0].sum().backward()
        assert any("flash" in name for name in kernels.names), kernels.names


def test_projections_of_the_same_tokens_look_up_their_biases_together(monkeypatch):
    """As on a GPU: encoder, then self-attention and cross-attention of the decoder; no product copies its factor."""
    monkeypatch.setattr(positions, "can_ask", lambda x: False)
    taken, clones, look_up = [], [], Biases.look_up

    def counted(biases):
        taken.append(biases.table.size(1))
        with Kernels() as kernels:
            found = look_up(biases)
        clones.append(kernels.calls["clone"])
        return found

    monkeypatch.setattr(Biases, "look_up", counted)
    small("floater_tiny").train()(*batch())
    assert taken == [3] * 2 + [3, 1, 2] * 2 and not any(clones)


# The others


def test_blocks_are_told_what_the_input_is_told():
    """The sinusoid of the input, at every further block; in its first place it is the Transformer."""
    m = small("sinusoidal-blocks")
    places = m.position_encoder.places("encoder", batch()[0], batch()[0].eq(1))
    assert places[0].addition is None
    assert torch.equal(places[1].addition, m.encoder.embed_positions(batch()[0]).transpose(0, 1))
    for kind in ("sinusoidal", "learned"):
        plain = small("floater_tiny", **{"position-encoder": kind, "position-blocks": "input"})
        assert plain.position_encoder is None
        assert type(plain.encoder.embed_positions).__name__.startswith(kind.capitalize())


def test_layers_that_are_one_module_have_places_of_their_own():
    """In training as in evaluation."""
    m = small("learned-blocks", **{"encoder-layers": 3})
    m.encoder.layers[1] = m.encoder.layers[2] = m.encoder.layers[0]
    expected = logits(m.eval())
    torch.testing.assert_close(logits(m.train()), expected, atol=1e-5, rtol=0)


TWO_WIDTHS = {"decoder-embed-dim": 8, "decoder-output-dim": 8, "share-all-embeddings": None}


def test_learned_tables():
    m = small("learned-blocks", **{"max-source-positions": 40, "max-target-positions": 20})
    for side in ("encoder", "decoder"):
        (table,) = m.position_encoder.learned[side]  # of each further block
        assert table.num_embeddings == getattr(m, side).embed_positions.num_embeddings


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"flow-step": 0.0}, "--flow-step 0.0"),
        (TWO_WIDTHS, "--flow-sharing all: needs one width .*; choose stack"),
        (
            {"position-encoder": "rnn-scalar-1", "encoder-embed-dim": 15}
            | dict.fromkeys(("encoder-attention-heads", "decoder-attention-heads"), 3),
            "--position-encoder rnn-scalar-1: width 15: must be even",
        ),
    ],
)
def test_what_does_not_go_together(flags, words):
    with pytest.raises(ValueError, match=words):
        small("floater_tiny", **flags)


def test_two_widths_have_a_flow_each():
    assert logits(small("floater_tiny", **TWO_WIDTHS, **{"flow-sharing": "stack"})).isfinite().all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"flow-horizon": 30}, 30), ({"max-source-positions": 3000}, 3000), ({"max-target-positions": 3000}, 3000)],
)
def test_the_flow_ends_at_the_horizon_of_the_options(options, expected):
    assert small("floater_tiny", **options).position_encoder.solvers["all"].horizon == expected


def test_a_projection_that_is_replaced_is_the_one_that_moves():
    m, inputs = small("floater_tiny").eval(), batch()
    attention = m.encoder.layers[0].self_attn
    attention.q_proj = copy.deepcopy(attention.q_proj)
    with torch.no_grad():
        attention.q_proj.bias.add_(1.0)
        found = m.position_encoder.biases(3)["encoder.0.self_attn.q"]
        torch.testing.assert_close(found[0], attention.q_proj.bias)
        assert m(*inputs)[0].isfinite().all()
