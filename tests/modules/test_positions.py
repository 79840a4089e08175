"""Position encoders: indices, one solution a pass, caches that are never stale, intervals, real positions, kernels."""

import copy
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from ode_transformer.modules import positions
from ode_transformer.modules.positions import BiasPositions, BlockPositions
from ode_transformer.modules.token_positions import GivenPositions, TokenIndices
from tests.helpers import Ends, Kernels, batch, configure, model, small, task

EVERYWHERE = slice(0, 5)


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

    def count(self, grid):
        counts.append(len(grid))
        return stock(self, grid)

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
def test_index(rows, expected):
    index = TokenIndices().index(torch.tensor(rows, dtype=torch.bool), EVERYWHERE)
    if expected is None:
        assert index is EVERYWHERE
    else:
        assert index.t().tolist() == expected


@pytest.mark.parametrize("variant", ["floater_tiny", "rnn-scalar-1", "sinusoidal-blocks", "learned-blocks"])
def test_left_and_right_padding_are_one(variant):
    m = small(variant)
    left, lengths, prev = batch(sizes=(5, 2, 6))
    right = torch.stack([row.roll(-int((row == 1).sum())) for row in left])
    assert not torch.equal(left, right)
    real = prev != 1
    torch.testing.assert_close(m(left, lengths, prev)[0][real], m(right, lengths, prev)[0][real], atol=1e-5, rtol=0)


def test_sentences_of_any_length():
    m = model("floater_tiny", {"share-all-embeddings": True, "max-source-positions": 3000}).eval()
    src, lengths, prev = batch(sizes=(2000,))
    with torch.no_grad():
        alone = m(src, lengths, prev[:, :4])[0]
    assert alone.isfinite().all()


def test_step_by_step_far_out():
    m = small("floater_tiny")
    src, lengths, prev = batch(sizes=(300,))
    with torch.no_grad():
        encoder_out = m.encoder(src, lengths)
        at_once = m.decoder(prev, encoder_out)[0]
        state = {}
        for t in range(300):
            step = m.decoder(prev[:, : t + 1], encoder_out, incremental_state=state)[0]
    torch.testing.assert_close(step[:, -1], at_once[:, -1], atol=1e-5, rtol=0)


# The solution


def test_the_solver_is_the_one_that_was_asked_for():
    (solver,) = small("floater-adjoint", **{"flow-step": 0.5}).position_encoder.solvers.values()
    assert (solver.method, solver.gradient, solver.step) == ("midpoint", "adjoint", 0.5)


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


@pytest.mark.parametrize("variant", ["floater_tiny", "attention-twice-floater", "rk2-learnable-floater"])
def test_every_attention_is_moved(variant):
    """Each by itself: with biases of the others alone, a model computes something else."""
    m = small(variant)
    expected = logits(m)
    method = {"encoder": "source_places", "decoder": "target_places"}
    stock = {side: getattr(BiasPositions, name) for side, name in method.items()}
    attentions = {("encoder", "self_attn"), ("decoder", "self_attn"), ("decoder", "encoder_attn")}
    if "twice" in variant:
        attentions |= {("encoder", "macaron_attn"), ("decoder", "macaron_attn")}
    names = set()
    for side, attention in attentions:
        with pytest.MonkeyPatch.context() as patch:

            def without(self, *given, side=side, attention=attention):
                places = stock[side](self, *given)
                names.update((side, name) for place in places for name in place.biases)
                return [
                    replace(place, biases={k: v for k, v in place.biases.items() if k != attention}) for place in places
                ]

            patch.setattr(BiasPositions, method[side], without)
            assert (logits(m) - expected).abs().max() > 1e-6, (side, attention)
    assert names == attentions


def test_one_solution_a_pass_in_training(m, solved):
    loss_of(m.train()).backward()
    assert solved == [7]  # the longer side's length, both sides and all layers


def test_one_solution_for_a_decoder_by_itself(m, solved):
    """As long as the longer side, the source."""
    src, lengths, prev = batch()
    encoder_out = m.train().encoder(src, lengths)
    solved.clear()
    m.decoder(prev, encoder_out)
    assert solved == [src.size(1)] and src.size(1) > prev.size(1)


def test_solutions_are_as_long_as_a_power_of_two():
    assert [len(TokenIndices().grid(n, spare=True)) for n in (1, 64, 65, 128, 129)] == [64, 64, 128, 128, 256]


def test_one_solution_a_model_in_decoding(m, solved):
    with torch.no_grad():
        for seed in range(3):
            logits(m, seed)
        assert solved == [64]
        logits(m, sizes=(70, 3))
        assert solved == [64, 128]
        logits(m)
    assert solved == [64, 128]


def test_the_solution_is_in_no_checkpoint(m):
    with torch.no_grad():
        logits(m)
    assert [name for name in m.state_dict() if name.startswith("position_encoder")] == [
        f"position_encoder.solvers.all.{kind}{layer}" for layer in (1, 2) for kind in ("weight", "time", "bias")
    ]


@pytest.mark.parametrize("how", ["load", "in place", "optimiser", "cast", "forget"])
def test_the_solution_follows_the_weights(m, how):
    other = small("floater_tiny")
    with torch.no_grad():
        for p in other.parameters():
            p.add_(0.1 * torch.randn_like(p))
        logits(m)
        if how == "load":
            m.load_state_dict(other.state_dict())
        elif how == "in place":
            for p, q in zip(m.parameters(), other.parameters(), strict=True):
                p.copy_(q)
        elif how == "optimiser":  # as fairseq's write, past autograd; training lies between two evaluations
            m.train()
            for p, q in zip(m.parameters(), other.parameters(), strict=True):
                p.data.copy_(q.data)
            m.eval()
        elif how == "cast":
            m.load_state_dict(other.state_dict())
            m.double().float()
        else:
            for p, q in zip(m.parameters(), other.parameters(), strict=True):
                p.data.copy_(q.data)
            m.position_encoder.forget()
        torch.testing.assert_close(logits(m), logits(other), atol=1e-6, rtol=0)


def test_loading_discards_solutions_whatever_the_versions_of_weights():
    """Those of weights that inference mode made, which have no versions, and that of an interval of updates."""
    other = changed_floater()
    with torch.inference_mode():
        built = small("floater_tiny")
        logits(built)
        built.load_state_dict(other.state_dict())
        torch.testing.assert_close(logits(built), logits(other), atol=1e-5, rtol=0)
    held = {mode: small("floater_tiny", **{"flow-update-interval": 3}).train() for mode in ("used", "new")}
    for each in held.values():
        each.set_num_updates(1)
    logits(held["used"])
    for each in held.values():
        each.load_state_dict(other.state_dict())
    assert torch.equal(logits(held["used"]), logits(held["new"]))


def test_the_solution_follows_the_biases_that_it_starts_from(m):
    with torch.no_grad():
        before = logits(m)
        for bias in m.position_encoder.layout.initial("all"):
            bias.add_(1.0)
        after = logits(m)
        m.position_encoder.forget()
        torch.testing.assert_close(logits(m), after, atol=1e-5, rtol=0)
        assert (after - before).abs().max() > 1e-3


def test_a_solution_of_a_pass_without_gradients_in_training_ends_with_the_training(m):
    with torch.no_grad():
        logits(m.train())
        for p in m.parameters():
            p.data.add_(0.1)  # as an optimizer does
        after = logits(m.eval())
        m.position_encoder.forget()
        torch.testing.assert_close(logits(m), after, atol=1e-5, rtol=0)


def test_what_an_interval_holds_outlives_the_updates_of_an_optimizer(solved):
    m = small("floater_tiny", **{"flow-update-interval": 3}).train()
    for update in (1, 2):
        m.set_num_updates(update)
        logits(m)
        with torch.no_grad():
            for p in m.parameters():
                p.add_(0.01)
    assert solved == [64]


def test_what_an_interval_holds_is_solved_again_in_another_precision():
    m = small("floater_tiny", **{"flow-update-interval": 3}).train()
    m.set_num_updates(1)
    logits(m)
    after = logits(m.double())
    m.position_encoder.forget()
    torch.testing.assert_close(logits(m), after, atol=1e-12, rtol=0)


def changed_floater():
    other = small("floater_tiny")
    with torch.no_grad():
        for p in other.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return other


@pytest.mark.parametrize("how", ["checkpoint-activations", "offload-activations"])
def test_activations_that_are_computed_again_have_the_same_gradients(how):
    again, once = small("floater_tiny", **{how: True}).train(), small("floater_tiny").train()
    once.load_state_dict(again.state_dict())
    for each in (again, once):
        logits(each).log_softmax(-1)[..., 7].sum().backward()
    for (name, a), b in zip(again.named_parameters(), once.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad), name


def test_gradients_in_evaluation_mode_are_not_those_of_a_cache(m):
    with torch.no_grad():
        logits(m)
    loss_of(m.eval()).backward()
    assert m.position_encoder.solvers["all"].weight1.grad.norm() > 0


def test_training_in_evaluation_mode_with_a_fused_optimizer_leaves_no_old_solution(m):
    """Which changes weights without a change of their versions."""
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.1, fused=True)
    with torch.no_grad():
        before = logits(m.eval())
    loss_of(m).backward()
    optimizer.step()
    other = small("floater_tiny")
    other.load_state_dict(m.state_dict())
    with torch.no_grad():
        assert torch.equal(logits(m), logits(other)) and not torch.equal(logits(m), before)


def test_threads_do_not_share_a_pass(m, solved):
    """Each solves for itself, and leaves nothing behind."""
    inside, done = threading.Barrier(2), threading.Barrier(2)

    def translate():
        with m.position_encoder.one_pass(5):
            inside.wait(10)
        done.wait(10)

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(translate) for _ in range(2)]:
            each.result()
    assert solved == [5, 5]
    m.position_encoder.target_places(torch.full((1, 5), 4), torch.zeros(1, 5, dtype=torch.bool), None, None)
    assert solved == [5, 5, 5]


def test_half_precision_ends_with_an_error_before_attention_does(m):
    """A score is the product of two biases, so that it overflows long before they do."""
    with torch.no_grad():
        m.position_encoder.solvers["all"].weight1.mul_(20)
        m.half().eval()
        with pytest.raises(ValueError, match=r"attention in torch\.float16 from position \d+ on.*float32") as refused:
            tokens = torch.full((1, 200), 4)
            m.position_encoder.source_places(tokens, tokens.eq(1))
        longest = int(re.search(r"position (\d+)", str(refused.value))[1]) - 1
        assert m.position_encoder.reach(200) == longest + 1 and m.position_encoder.reach(longest) == longest
        tokens = torch.full((1, longest + 1), 4)
        assert m(tokens, torch.tensor([longest + 1]), tokens)[0].isfinite().all()
        biases = m.float().position_encoder.biases(longest + 2)
        assert max(b.abs().max() for b in biases.values()) < 65504, "which alone would be no reason to stop"


def test_the_reach_is_where_a_score_of_two_biases_leaves_the_range(m):
    with torch.no_grad():
        m.position_encoder.solvers["all"].weight1.mul_(20)
        reach = m.half().eval().position_encoder.reach(200)
        moved = [b - b[0] for b in m.float().position_encoder.biases(200).values()]
        scores = torch.stack([b.unflatten(1, (2, 8)).square().sum(-1).amax(1) / 8**0.5 for b in moved]).amax(0)
    assert reach == int((scores < 65504).sum()) < 200


def test_the_reach_is_that_of_every_flow():
    for name in ("encoder", "decoder", "source"):
        m = small("floater_tiny", **{"flow-sharing": "stack"})
        with torch.no_grad():
            m.position_encoder.solvers[name].weight1.mul_(20)
        assert m.half().position_encoder.reach(200) < 200, name


def test_so_does_mixed_precision(m):
    tokens, flow = torch.full((1, 200), 4), m.position_encoder
    with torch.no_grad():
        flow.solvers["all"].weight1.mul_(20)
        flow.eval().source_places(tokens, tokens.eq(1))
        with (
            torch.autocast("cpu", torch.float16),
            pytest.raises(ValueError, match=r"attention in torch\.float16 from position \d+ on"),
        ):
            flow.source_places(tokens, tokens.eq(1))


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_side_without_layers_has_no_places(kind, side):
    assert logits(small("macaron", **{"position-encoder": kind, f"{side}-layers": 0})).isfinite().all()


def test_a_model_without_layers_has_no_biases_to_move():
    with pytest.raises(ValueError, match="--position-encoder: must be none in a model without layers"):
        small("floater_tiny", **{"encoder-layers": 0, "decoder-layers": 0})


@pytest.mark.parametrize("arch", ["floater_input_tiny", "floater_roberta_tiny", "floater_tiny"])
def test_without_its_flow_an_architecture_drops_what_it_says_of_it(arch):
    cfg = configure(arch, {"position-encoder": "none"})
    assert [str(getattr(cfg, name)) for name in ("flow_method", "flow_step", "position_blocks")] == [
        "rk4",
        "4.0",
        "all",
    ]


def test_after_inference_mode(m):
    with torch.inference_mode():
        before = logits(m).clone()
    loss_of(m.train()).backward()
    with torch.no_grad():
        torch.testing.assert_close(logits(m.eval()), before)


def test_one_solution_in_a_validation(m, solved):
    """fairseq calls eval() before every batch."""
    with torch.no_grad():
        for seed in range(3):
            m.eval()
            logits(m, seed)
    assert solved == [64]


def test_built_in_inference_mode():
    with torch.inference_mode():
        m = small("floater_tiny")
        torch.testing.assert_close(logits(m), logits(m))


@pytest.mark.parametrize("sharing", ["all", "stack"])
def test_flows(sharing):
    """Shared by all, or three as released; the queries of cross-attention go with the decoder's."""
    m = small("floater_tiny", **{"flow-sharing": sharing})
    expected = {"all": {"all"}, "stack": {"encoder", "decoder", "source"}}[sharing]
    assert set(m.position_encoder.solvers) == expected
    rows = {name: sum(map(len, pieces)) for name, pieces in m.position_encoder.layout.pieces.items()}
    assert rows == ({"all": 18} if sharing == "all" else {"encoder": 6, "decoder": 8, "source": 4})


# Updates of the flow


def test_interval(solved):
    """As fairseq trains: train() and parts of a batch in every update, evaluations in between.

    Between its updates the flow's gradients are zero, not missing, and what was solved is held.
    """
    m = small("floater_tiny", **{"flow-update-interval": 3})
    flow = list(m.position_encoder.solvers.parameters())
    norms, tables = [], []
    for update in range(7):
        m.set_num_updates(update)
        m.zero_grad()
        for part in range(2):
            m.train()
            loss_of(m, part).backward()
        norms.append(float(sum(p.grad.norm() for p in flow)))
        held = m.position_encoder.indices.solutions.get(True)
        tables.append(held and held.tables["all"][0])
        for p in flow:
            p.data.add_(0.01)  # as an optimizer does
        if update in (1, 4):
            for _ in range(2):
                m.eval()
                with torch.no_grad():
                    logits(m)
    assert [n > 0 for n in norms] == [True, False, False, True, False, False, True]
    # Both parts at 0; what is held in 1 and 2; both evaluations after 1; the same from 3 on.
    assert solved == [7, 7, 64, 64, 7, 7, 64, 64, 7, 7]
    assert tables[1] is tables[2] and tables[4] is tables[5] and not torch.equal(tables[1], tables[4])
    with torch.no_grad():
        assert torch.equal(logits(m.eval()), logits(copy.deepcopy(m)))


def test_gradients_in_evaluation_mode_leave_what_an_interval_holds(solved):
    m = small("floater_tiny", **{"flow-update-interval": 5}).train()
    m.set_num_updates(1)
    logits(m)
    m.set_num_updates(5)
    loss_of(m.eval()).backward()
    m.set_num_updates(6)
    logits(m.train())
    assert solved == [64, 7]


def test_longer_sentences_within_an_interval(solved):
    m = small("floater_tiny", **{"flow-update-interval": 5}).train()
    m.set_num_updates(1)
    m(*batch(sizes=(3, 3)))
    m(*batch(sizes=(70, 3)))
    m(*batch(sizes=(3, 3)))
    assert solved == [64, 128]


def test_resuming_within_an_interval(solved):
    m = small("floater_tiny", **{"flow-update-interval": 5}).train()
    m.set_num_updates(7)
    loss_of(m).backward()
    assert solved == [64]
    assert all(not p.grad.any() for p in m.position_encoder.solvers.parameters())


def test_parts_of_a_batch_are_one_update(solved):
    m = small("floater_tiny", **{"flow-update-interval": 2}).train()
    m.set_num_updates(2)
    for seed in range(2):
        loss_of(m, seed).backward()
    assert len(solved) == 2
    assert m.position_encoder.solvers["all"].weight2.grad.norm() > 0


# Real positions (paper, appendix C)


def test_positions_of_ones_own(m):
    """Indices given by hand change nothing; others do, and only there."""
    src, lengths, prev = batch(sizes=(6, 6))
    stock = m(src, lengths, prev)[0]
    with m.position_encoder.at(source=torch.arange(7.0), target=torch.arange(6.0).expand(2, -1)):
        torch.testing.assert_close(m(src, lengths, prev)[0], stock, atol=1e-6, rtol=0)
    times = torch.stack((torch.arange(7.0), torch.tensor([0.0, 0.5, 40.0, 41.0, 90.25, 200.0, 500.0])))
    with m.position_encoder.at(source=times):
        moved = m(src, lengths, prev)[0]
        encoder_out, state = m.encoder(src, lengths), {}
        steps = [m.decoder(prev[:, : t + 1], encoder_out, incremental_state=state)[0] for t in range(6)]
    torch.testing.assert_close(moved[0], stock[0], atol=1e-6, rtol=0)
    assert (moved[1] - stock[1]).abs().max() > 1e-4
    torch.testing.assert_close(torch.cat(steps, 1), moved, atol=1e-5, rtol=0)
    torch.testing.assert_close(m(src, lengths, prev)[0], stock)  # the end of the block is the end of it


def test_positions_of_ones_own_in_a_beam(m, solved):
    """A row for each sentence serves all of its hypotheses; one solution a side."""
    src, lengths, _ = batch(sizes=(6, 6))
    times = torch.stack((torch.arange(7.0), torch.arange(7.0) * 40))
    sample = {"net_input": {"src_tokens": src, "src_lengths": lengths}}
    hypotheses = []
    for cached in (True, False):
        generator = SequenceGenerator([m], task().target_dictionary, beam_size=3, max_len_a=0, max_len_b=6)
        generator.model.has_incremental = cached
        with m.position_encoder.at(source=times), torch.no_grad():
            hypotheses.append([h["tokens"].tolist() for hs in generator.generate([m], sample) for h in hs])
    assert hypotheses[0] == hypotheses[1]
    assert solved.count(13) <= 2  # 7 positions and 6 others


def test_positions_of_ones_own_are_solved_once_per_pass_of_a_training(m, solved):
    """As indices are: encoder and decoder share the solution of each grid, and its gradients."""
    src, lengths, prev = batch(sizes=(6, 6))
    m.train()
    with m.position_encoder.at(source=torch.arange(7.0) * 3):
        m(src, lengths, prev)[0].sum().backward()
        assert sorted(solved) == [6, 7]  # the indices of the target, and the grid of the source
        with m.position_encoder.at(target=torch.arange(9.0) * 5):
            m(src, lengths, prev)
    assert sorted(solved[2:]) == [7, 9]


def test_with_positions_of_ones_own_only_what_is_read_is_solved(m, solved):
    """And only that can be too large."""
    src, lengths, prev = batch(sizes=(40,))
    at = torch.arange(src.size(1)) / 10
    with m.position_encoder.at(source=at):
        m.train()(src, lengths, prev[:, :3])
        assert sorted(solved) == [3, len(at)]
        with torch.no_grad():
            m.position_encoder.solvers["all"].weight1.mul_(60)
            reach = m.half().eval().position_encoder.reach(200)
            assert 4 < reach < src.size(1)
            assert m(src, lengths, prev[:, :3])[0].isfinite().all()


def test_a_search_may_enter_positions_anew_for_each_step(m):
    """Its cache knows which sentence a hypothesis belongs to."""
    src, lengths, prev = batch(sizes=(4, 4))
    rows = torch.arange(2).repeat_interleave(2)
    source, target = (torch.arange(9.0) * torch.tensor([[1.0], [30.0]]) for _ in range(2))
    steps = []
    with torch.no_grad():
        for anew in (False, True):
            state, context = {}, m.position_encoder.at(source=source[:, : src.size(1)], target=target)
            with context:
                out = m.encoder.reorder_encoder_out(m.encoder(src, lengths), rows)
                m.decoder(prev[rows, :1], out, incremental_state=state)
                left = torch.tensor([2, 3])  # the first sentence has ended
                m.decoder.reorder_incremental_state_scripting(state, left)
                out = m.encoder.reorder_encoder_out(out, left)
                if not anew:
                    steps.append(m.decoder(prev[[1, 1], :2], out, incremental_state=state)[0])
            if anew:
                with m.position_encoder.at(source=source[:, : src.size(1)], target=target):
                    steps.append(m.decoder(prev[[1, 1], :2], out, incremental_state=state)[0])
    assert torch.equal(*steps)


@pytest.mark.parametrize("beam", [2, 3])
def test_positions_of_ones_own_follow_sentences_that_leave_a_beam(m, beam):
    """Each of three sentences as by itself, though they end one after the other."""
    src, lengths, _ = batch(sizes=(6, 6, 6))
    source = torch.stack([torch.arange(7.0) * scale for scale in (1, 40, 9)])
    target = torch.stack([torch.arange(12.0) * scale for scale in (30, 1, 70)])
    dictionary = task().target_dictionary

    def search(rows, first=0):
        ends = Ends(dictionary)
        ends.first = first
        generator = SequenceGenerator([m], dictionary, beam, max_len_a=0, max_len_b=8, search_strategy=ends)
        sample = {"net_input": {"src_tokens": src[rows], "src_lengths": lengths[rows]}}
        with m.position_encoder.at(source=source[rows], target=target[rows]), torch.no_grad():
            return [[h["tokens"].tolist() for h in hs] for hs in generator.generate([m], sample)]

    assert search([0, 1, 2]) == [search([i], i)[0] for i in range(3)]


def test_explicit_positions_follow_the_interval_of_updates():
    m = small("floater_tiny", **{"flow-update-interval": 2})
    m.train()
    columns, gradients = torch.arange(4.0), []
    for update in range(3):
        m.set_num_updates(update)
        m.zero_grad()
        src, lengths, prev = batch(sizes=(3, 3))
        with m.position_encoder.at(source=columns, target=columns[: prev.size(1)] * 2):
            m(src, lengths, prev)[0].sum().backward()
        gradients.append(float(sum(p.grad.norm() for p in m.position_encoder.solvers.parameters())))
    assert gradients[1] == 0 and gradients[0] > 0 and gradients[2] > 0


def test_explicit_positions_end_with_an_error_before_attention_does(m):
    src, lengths, prev = batch(sizes=(6, 6))
    with torch.no_grad():
        m.position_encoder.solvers["all"].weight1.mul_(40)
        with (
            m.position_encoder.at(source=torch.arange(7.0) * torch.tensor([[1.0], [1500.0]])),
            pytest.raises(ValueError, match=r"from position \d+ on\. Set --flow-horizon to the length of .* sentence$"),
        ):
            m(src, lengths, prev)


def test_explicit_positions_are_of_one_thread_and_of_one_model(m):
    src, lengths, prev = batch(sizes=(6, 6))
    other = copy.deepcopy(m)
    expected = m(src, lengths, prev)[0]
    with m.position_encoder.at(source=torch.arange(7.0) * 3), ThreadPoolExecutor(1) as pool:
        assert not torch.equal(m(src, lengths, prev)[0], expected)
        assert torch.equal(other(src, lengths, prev)[0], expected)
        with other.position_encoder.at(source=torch.arange(7.0) * 2):
            assert set(m.position_encoder._given) == {"source"}
        torch.testing.assert_close(pool.submit(torch.no_grad()(m), src, lengths, prev).result()[0], expected)


def test_positions_within_positions(m):
    src, lengths, prev = batch(sizes=(6, 6))
    encoder = m.position_encoder
    with encoder.at(source=torch.arange(7.0) * 3):
        outer = m(src, lengths, prev)[0]
        with encoder.at(target=torch.arange(6.0) * 5):
            assert set(encoder._given) == {"source", "target"}
        assert torch.equal(m(src, lengths, prev)[0], outer)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (torch.tensor([0.0, 1, 2, 2, 3, 4, 5]), "must increase"),
        (torch.arange(6.0), "do not fit tokens"),
        (torch.arange(50.0), "do not fit tokens"),
        (torch.arange(7.0).expand(3, -1), r"shape \(3, 7\): do not fit tokens of \(2, 7\)"),
        (torch.tensor([[0.0, 1, 2, 3, 4, 5, 6], [0.0, 1, 2, 2, 3, 4, 5]]), "must increase"),
    ],
)
def test_positions_that_do_not_fit(m, source, words):
    with pytest.raises(ValueError, match=words), m.position_encoder.at(source=source):
        m(*batch(sizes=(6, 6)))
    m(*batch(sizes=(6, 6)))


def test_positions_are_kept_to_the_last_digit():
    """Near 1000, where half precision does not tell them apart."""
    positions = torch.tensor([[0.0, 1000.1, 1000.2], [0.1, 1000.1, 1000.3]], dtype=torch.double)
    given = GivenPositions("source", positions)
    assert torch.equal(given.grid(3)[given.rows], positions) and len(given.grid(3)) == 5


def test_more_sentences_than_rows_of_positions(m):
    with (
        pytest.raises(ValueError, match=r"shape \(2, 7\): do not fit tokens of \(3, 7\)"),
        m.position_encoder.at(source=torch.arange(7.0).expand(2, -1)),
    ):
        m(*batch(sizes=(6, 6, 6)))


# Kernels


def test_self_attention_stays_fused(m):
    """With padding, with causality, in training without dropout: no attention matrix is held."""
    for training in (False, True):
        m.train(training)
        with Kernels() as kernels:
            m.encoder(*batch(sizes=(90, 80))[:2])["encoder_out"][0].sum().backward()
        assert any("flash" in name for name in kernels.names), kernels.names


# The others


def test_blocks_are_told_what_the_input_is_told():
    """The sinusoid of the input, at every further block; in its first place it is the Transformer."""
    m = small("sinusoidal-blocks")
    places = m.position_encoder.source_places(batch()[0], batch()[0].eq(1))
    assert places[0].addition is None
    assert torch.equal(places[1].addition, m.encoder.embed_positions(batch()[0]).transpose(0, 1))
    assert not list(m.position_encoder.parameters())
    plain = small("floater_tiny", **{"position-encoder": "sinusoidal", "position-blocks": "input"})
    assert plain.position_encoder is None


def test_tables_of_blocks_are_as_long_as_that_of_the_input():
    m = small("learned-blocks", **{"max-source-positions": 40, "max-target-positions": 20})
    for side in ("encoder", "decoder"):
        for table in m.position_encoder.learned[side]:
            assert table.num_embeddings == getattr(m, side).embed_positions.num_embeddings


def test_layers_that_may_be_dropped_in_training_move_as_others():
    models = []
    for drop in (0.0, 0.9):
        torch.manual_seed(0)
        models.append(small("floater_tiny", **{"encoder-layerdrop": drop, "decoder-layerdrop": drop}))
    torch.testing.assert_close(*map(logits, models), atol=1e-5, rtol=0)


def test_layers_that_are_one_module_have_places_of_their_own():
    """In training as in evaluation."""
    m = small("learned-blocks", **{"encoder-layers": 3})
    m.encoder.layers[1] = m.encoder.layers[2] = m.encoder.layers[0]
    expected = logits(m.eval())
    torch.testing.assert_close(logits(m.train()), expected, atol=1e-5, rtol=0)


def test_learned_tables():
    m = small("learned-blocks")
    assert isinstance(m.position_encoder, BlockPositions)
    names = [name for name, _ in m.named_parameters() if "position" in name]
    assert len(names) == 2 * 2  # the input's, and one for each further block, a side
    plain = small("floater_tiny", **{"position-encoder": "learned", "position-blocks": "input"})
    assert plain.position_encoder is None
    assert plain.encoder.embed_positions.weight.requires_grad


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"flow-update-interval": 0}, "--flow-update-interval 0"),
        ({"flow-step": 0.0}, "--flow-step 0.0"),
        ({"cross-self-attention": True, "no-cross-attention": True}, "--position-encoder floater"),
        ({"position-encoder": "none", "position-blocks": "input"}, "--position-blocks input: has no meaning"),
        ({"position-encoder": "none", "flow-step": 2}, "--flow-step 2.0: has no meaning"),
        ({"position-encoder": "none", "flow-update-interval": 2}, "--flow-update-interval 2: has no meaning"),
        ({"position-encoder": "rnn-scalar-1", "flow-gradient": "adjoint"}, "--flow-gradient adjoint: has no meaning"),
        ({"position-encoder": "learned", "no-token-positional-embeddings": True}, "--position-encoder learned"),
        ({"position-encoder": "sinusoidal", "encoder-learned-pos": True}, "--position-encoder sinusoidal"),
        ({"decoder-embed-dim": 8, "decoder-output-dim": 16}, "--flow-sharing all: needs one width"),
        (
            {
                "position-encoder": "rnn-scalar-1",
                "encoder-embed-dim": 15,
                "encoder-attention-heads": 3,
                "decoder-attention-heads": 3,
            },
            "--position-encoder rnn-scalar-1: width 15: must be even",
        ),
    ],
)
def test_what_does_not_go_together(flags, words):
    more = {"share-all-embeddings": None} if "decoder-embed-dim" in flags else {}
    with pytest.raises(ValueError, match=words):
        small("floater_tiny", **flags, **more)


def test_two_widths_have_a_flow_each():
    m = small("floater_tiny", **{"decoder-embed-dim": 8, "decoder-output-dim": 8, "share-all-embeddings": None,
                                 "flow-sharing": "stack"})  # fmt: skip
    assert logits(m).isfinite().all()


def test_unknown_encoders_are_named(capsys):
    with pytest.raises(SystemExit):
        small("floater_tiny", **{"position-encoder": "rotary"})
    assert "rotary" in capsys.readouterr().err
    assert "rotary" not in positions.POSITION_ENCODERS


def test_explicit_positions_are_solved_again_for_other_weights():
    m, inputs = small("floater_tiny").eval(), batch()
    flow, at = m.position_encoder, torch.arange(inputs[0].size(1)) * 1.5

    @torch.no_grad()
    def logits():
        return m(*inputs)[0]

    with flow.at(source=at):
        first = logits()
        with torch.no_grad():
            for p in flow.solvers.parameters():
                p.add_(0.1)
        second = logits()
        for p in flow.solvers.parameters():
            p.data.add_(0.1)  # as some optimizers do: nothing is to be seen of it
        m.train().eval()
        third = logits()
        assert not torch.equal(first, second) and not torch.equal(second, third)
    with flow.at(source=at):
        assert torch.equal(third, logits())


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
