"""Position encoders: indices, one solution a pass, caches that are never stale, kernels."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ode_transformer.modules import positions
from ode_transformer.modules.positions import BiasPositions, token_positions
from tests.helpers import SMALL, batch, configure, model, perturbed, raises, small, stepwise


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
    src, lengths, prev = batch(sizes=(1100,))  # beyond fairseq's table of positions, which grows
    m, longer = small("floater_tiny"), small("floater_tiny", **{"max-source-positions": 3000})
    assert m(src, lengths, prev[:, :4])[0].isfinite().all()
    assert torch.equal(m.encoder.embed_positions(src), longer.encoder.embed_positions(src))


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
    torch.testing.assert_close(*reversed(found), atol=1e-6, rtol=1e-6)


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


@pytest.mark.parametrize("blocks", ["all", "input"])
def test_every_projection_is_moved(blocks):
    m = small("attention-twice-floater", **{"position-blocks": blocks})
    layers, attentions = range(2 if blocks == "all" else 1), ("macaron_attn", "self_attn", "encoder_attn")
    expected = {f"{side}.{i}.{name}.{x}" for side in ("encoder", "decoder") for i in layers for name in attentions
                for x in "qkv" if (side, name) != ("encoder", "encoder_attn")}  # fmt: skip
    assert m.position_encoder.biases(3).keys() == expected


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


def write(m):
    """Weights that change past autograd, as an optimizer of fairseq's writes them."""
    for p in m.parameters():
        p.data.add_(0.1 * torch.randn_like(p))


def train_in_evaluation_mode(m):
    """With an optimizer that changes weights without a change of their versions."""
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.1, fused=True)
    with torch.enable_grad():
        loss_of(m).backward()
    optimizer.step()


CHANGES = {
    "loaded": lambda m: m.load_state_dict(perturbed(small("floater_tiny")).state_dict()),
    "other tensors": lambda m: vector_to_parameters(parameters_to_vector(m.parameters()) + 0.1, m.parameters()),
    "biases that it starts from": lambda m: [bias.add_(1.0) for bias in m.position_encoder.initial("all")],
    "training": lambda m: (write(m.train()), m.eval()),
    "training in evaluation mode": train_in_evaluation_mode,
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


@pytest.mark.parametrize("name", ["encoder", "decoder", "source"])
def test_the_reach_is_that_of_every_flow(name):
    """Biases of 10 i at position i have scores of 8 (10 i)^2 / sqrt(8) in heads of 8, which fp16 holds up to 15."""
    m = small("floater_tiny", **{"flow-sharing": "stack"})
    flow = m.position_encoder.solvers[name]
    with torch.no_grad():
        flow.weight2.zero_(), flow.time2.zero_(), flow.bias2.fill_(1000.0)
    assert m.half().position_encoder.reach(40) == 16


@pytest.mark.parametrize("arch", ["floater_input_tiny", "floater_roberta_tiny", "floater_tiny"])
def test_without_its_flow_an_architecture_drops_what_it_says_of_it(arch):
    cfg = configure(arch, {"position-encoder": "none"})
    assert (cfg.flow_method, cfg.flow_step, cfg.position_blocks) == ("rk4", 4, "all")


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


def test_two_widths_have_a_flow_each():
    widths = {"decoder-embed-dim": 8, "decoder-output-dim": 8, "share-all-embeddings": None}
    raises(r"--flow-sharing all: needs one width .*; choose stack", small, "floater_tiny", **widths)
    assert logits(small("floater_tiny", **widths, **{"flow-sharing": "stack"})).isfinite().all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"flow-horizon": 30}, 30), ({"max-source-positions": 3000}, 3000), ({"max-target-positions": 3000}, 3000)],
)
def test_the_flow_ends_at_the_horizon_of_the_options(options, expected):
    assert small("floater_tiny", **options).position_encoder.solvers["all"].horizon == expected


@pytest.mark.parametrize("variant", ["rk2_tiny", "sinusoidal-blocks", "learned-blocks"])
def test_the_states_of_a_stack_are_the_inputs_of_its_layers_and_the_output_of_the_last(variant):
    m, read = perturbed(small(variant)), []
    for layer in m.encoder.layers:
        layer.register_forward_hook(lambda _, inputs, output: read.append(inputs[0]))
    states = m.encoder(*batch()[:2], return_all_hiddens=True)["encoder_states"]
    assert len(states) == len(read) + 1 and all(map(torch.equal, states, read))
