"""Relative positions against the equations written out, the cache a stage, and what is never materialised."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from ode_transformer.modules.attention import StagedAttention, fused_kernel, merged_mask, relative_distances
from ode_transformer.modules.positions import Biases
from tests.helpers import Kernels, batch, small, stepwise


def relative(m=3, values=False, dropout=0.0, dtype=torch.float64):
    torch.manual_seed(0)
    attention = StagedAttention(16, 4, m, values, self_attention=True, dropout=dropout).to(dtype)
    for p in attention.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return attention.eval()


def oracle(attention, x, padding=None, mask=None, biases=(0, 0, 0)):
    """Shaw et al., equations 3 to 5, with a vector for each pair of positions; biases of queries, keys, values."""
    t, b, c = x.shape
    h, d, m = attention.num_heads, attention.head_dim, attention.max_relative_length
    linears = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = ((p(x) + bias).view(t, b, h, d).permute(1, 2, 0, 3) for p, bias in zip(linears, biases, strict=True))
    positions = torch.arange(t)
    clipped = (positions[None] - positions[:, None]).clamp(-m, m) + m
    a_k = attention.relative_position_keys[clipped]  # (T, T, d)
    scores = (torch.einsum("bhid,bhjd->bhij", q, k) + torch.einsum("bhid,ijd->bhij", q, a_k)) / math.sqrt(d)
    if mask is not None:
        scores = scores + mask
    if padding is not None:
        scores = scores.masked_fill(padding[:, None, None], float("-inf"))
    p = scores.softmax(-1)
    out = torch.einsum("bhij,bhjd->bhid", p, v)
    if attention.relative_position_values is not None:
        out = out + torch.einsum("bhij,ijd->bhid", p, attention.relative_position_values[clipped])
    return attention.out_proj(out.permute(2, 0, 1, 3).reshape(t, b, c)), p.mean(1)


def future(t):
    return torch.triu(torch.full((t, t), float("-inf"), dtype=torch.float64), 1)


@settings(max_examples=40, deadline=None)
@given(t=st.integers(1, 9), m=st.integers(1, 10), values=st.booleans(), causal=st.booleans(), padded=st.booleans())
def test_relative_attention_is_the_papers(t, m, values, causal, padded):
    attention = relative(m, values)
    x = torch.randn(t, 2, 16, dtype=torch.float64)
    padding = None
    if padded:
        padding = torch.zeros(2, t, dtype=torch.bool)
        padding[1, : t // 2] = True
        if causal:  # a row must see something
            padding = padding.flip(1)
    mask = future(t) if causal else None
    results = []
    for f in (
        lambda: attention(x, x, x, key_padding_mask=padding, attn_mask=mask),
        lambda: oracle(attention, x, padding, mask),
    ):
        attention.zero_grad()
        out, weights = f()
        (out * torch.arange(out.numel()).view_as(out)).sum().backward()
        results.append((out, weights, {n: p.grad.clone() for n, p in attention.named_parameters()}))
    torch.testing.assert_close(results[0][:2], results[1][:2])
    torch.testing.assert_close(results[0][2], results[1][2], atol=1e-8, rtol=1e-8)


def test_relative_positions_and_biases_of_positions_add_up():
    attention, x = relative(), torch.randn(5, 2, 16, dtype=torch.float64)
    table, where = torch.randn(8, 3, 16, dtype=torch.float64), slice(3, 8)
    found = attention(x, x, x, biases=[Biases(table, where)])
    rows = table[where].split(1, dim=1)
    torch.testing.assert_close(found, oracle(attention, x, biases=rows))


DROPPING = [
    StagedAttention(16, 4, self_attention=True, dropout=0.5),
    StagedAttention(16, 4, kdim=16, vdim=16, encoder_decoder_attention=True, dropout=0.5),
    *(relative(values=values, dropout=0.5, dtype=torch.float32) for values in (False, True)),
]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("attention", DROPPING)
def test_the_weights_are_dropped_in_training_and_if_asked(attention, need_weights):
    x, attention = torch.randn(6, 2, 16), copy.deepcopy(attention).eval()

    def calls():
        return [attention(x, x, x, need_weights=need_weights)[0] for _ in range(2)]

    assert torch.equal(*calls())
    attention.dropout_module.apply_during_inference = True  # as fairseq-generate --retain-dropout sets it
    assert not torch.equal(*calls())
    attention.train()
    assert not torch.equal(*calls())
    if getattr(attention, "relative_position_values", None) is not None:  # those meet the same weights
        with torch.no_grad():
            attention.v_proj.weight.zero_()
            attention.v_proj.bias.zero_()
        assert not torch.equal(*calls())


@pytest.mark.parametrize("values", [False, True])
def test_no_tensor_holds_a_vector_of_the_width_for_each_pair_and_nothing_is_scattered(values):
    """A GPU would add up what is scattered in half precision, and in another order every time."""
    t, d, m = 40, 64, 4
    attention = StagedAttention(d, 1, m, values, self_attention=True)
    x = torch.randn(t, 1, d, requires_grad=True)
    with Kernels() as kernels:
        attention(x, x, x)[0].sum().backward()
    assert not [name for name in kernels.calls if "scatter" in name or "index_" in name]
    assert kernels.numel <= max(t * t * (2 * m + 1), 3 * d * d) < t * t * d


@pytest.mark.parametrize("attention", [StagedAttention(16, 4, self_attention=True), relative(dtype=torch.float32)])
def test_every_stage_has_its_cache_and_follows_the_beam(attention):
    attention.eval()
    x = torch.randn(2, 6, 3, 16)  # stage, time, batch
    state, rows = {}, torch.arange(3)
    for step in range(6):
        if step == 4:  # twice between two steps
            for order in (torch.tensor([2, 0, 0]), torch.tensor([1, 0, 2])):
                attention.reorder_incremental_state(state, order)
                rows = rows[order]
        for stage in range(2):
            y = x[stage][: step + 1, rows]
            found, _ = attention(new := y[-1:], new, new, incremental_state=state, stage=stage)
            at_once, _ = attention(y, y, y, attn_mask=future(step + 1).float())
            torch.testing.assert_close(found, at_once[-1:])


class Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


CHANGED = {
    "hook": lambda linear: linear.register_forward_hook(lambda m, inputs, y: 2 * y),
    "hook before": lambda linear: linear.register_forward_pre_hook(lambda m, inputs: 2 * inputs[0]),
    "class": lambda linear: setattr(linear, "__class__", Twice),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
def test_a_projection_that_is_changed_is_not_joined_with_the_others(name, changed):
    attention, x = StagedAttention(16, 4, self_attention=True), torch.randn(3, 2, 16)
    before = attention(x, x, x)[0]
    changed(attention.get_submodule(name))
    found = attention(x, x, x)[0]
    with torch.no_grad():  # where nothing is put together
        torch.testing.assert_close(found, attention(x, x, x)[0])
    assert not torch.equal(found, before)


def test_rows_that_are_no_hypotheses_of_a_sentence_keep_their_own():
    """Another search has left its beam size: rows differ, or their padding, or equal rows leave the batch alone."""
    torch.manual_seed(0)
    attention = StagedAttention(16, 4, kdim=16, vdim=16, encoder_decoder_attention=True).eval()
    attention.set_beam_size(2)
    same, query = torch.randn(5, 1, 16).repeat(1, 4, 1), torch.randn(1, 6, 16)
    other, padding, pairs = same.clone(), torch.zeros(4, 5, dtype=torch.bool), torch.randn(5, 3, 16)
    other[0, 3], padding[1, 0] = 0, True
    for keys, mask, leaving, held in (
        (other, None, (), 4),
        (same, padding, (), 4),
        (other[:, :3], padding[:3], (), 3),
        (pairs.repeat_interleave(2, 1), None, ([0, 2, 4, 5], [1, 3]), 2),
        (pairs.repeat_interleave(2, 1), None, ([3, 2, 5, 5],), 2),  # hypotheses of the second and third sentence
    ):
        state, rows = {}, torch.arange(keys.size(1))
        for left in (rows, rows, *map(torch.tensor, leaving)):
            attention.reorder_incremental_state(state, left)
            rows = rows[left]
            its, hidden = keys[:, rows], None if mask is None else mask[rows]
            more = {"key_padding_mask": hidden, "static_kv": True}
            found, _ = attention(query[:, rows], its, its, incremental_state=state, **more)
            torch.testing.assert_close(found, attention(query[:, rows], its, its, **more)[0])
        assert len(attention.cached(state)["keys"]) == held


@pytest.mark.parametrize("variant", ["rk2_tiny", "macaron", "transevolve_fullff_1_tiny"])
def test_targets_that_are_padded_on_the_left(variant):
    """The first queries see padding alone: their weights are no numbers in a softmax. In decoding, too, it is unseen,
    where positions are not fairseq's, which counts it then.
    """
    others = {"attention-dropout": 0.1, "no-token-positional-embeddings": True}
    m = small(variant, **({} if "evolve" in variant else others)).train()
    source, lengths, _ = batch()
    target = torch.tensor([[1, 1, 2, 5], [2, 6, 7, 8], [1, 2, 9, 5]])
    m(source, lengths, target)[0].float().log_softmax(-1)[..., 5].sum().backward()
    assert all(p.grad.isfinite().all() for p in m.parameters() if p.grad is not None)
    m.eval()
    with torch.no_grad():
        alone = m(source[:1], lengths[:1], target[:1, 2:])[0]
        torch.testing.assert_close(m(source, lengths, target)[0][:1, 2:], alone, atol=1e-5, rtol=0)
        steps = stepwise(m.decoder, target, m.encoder(source, lengths))
        torch.testing.assert_close(steps[:1, 2:], alone, atol=1e-5, rtol=0)


def test_the_fused_kernel_is_told_the_dropout(monkeypatch):
    """It never runs with dropout on a CPU; the meta device stands for a GPU."""
    told = []
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda q, k, v, **more: told.append(more["dropout_p"]) or q)
    attention = StagedAttention(16, 4, self_attention=True, dropout=0.3).to("meta")
    x = torch.empty(6, 2, 16, device="meta")
    for training in (True, False):
        attention.train(training)(x, x, x, need_weights=False)
    assert told == [0.3, 0.0]


@pytest.mark.parametrize("far", [None, 2])
@pytest.mark.parametrize("mask", [None, future(7)])
@pytest.mark.parametrize("padded", [False, True])
def test_both_ways_of_attending_are_one(padded, mask, far):
    """A CPU takes the fused kernel without relative positions alone."""
    attention, (q, k, v) = relative(m=2), torch.randn(3, 2, 4, 7, 4, dtype=torch.float64)
    padding = torch.arange(7) >= torch.tensor([[7], [5]]) if padded else None
    distances = None if far is None else relative_distances(7, 7, far, q)
    mask = merged_mask(mask, padding, q.dtype)
    expected, _ = attention._by_two_products(q, k, v, mask, distances)
    torch.testing.assert_close(attention._fused(q, k, v, mask, distances, 0.0), expected)


@pytest.mark.parametrize("mask", [None, torch.ones(7, 7, dtype=torch.bool).tril(), future(7).bfloat16()])
def test_the_fused_kernel_trains_in_single_precision_on_a_cpu(mask):
    """There its backward pass is slow in half precision; inference keeps the model's precision."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 7, 8, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    out = fused_kernel(q, k, v, mask)
    out.sum().backward()
    exact = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), None if mask is None else future(7).float())
    assert out.dtype == q.grad.dtype == torch.bfloat16
    assert torch.equal(out, exact.bfloat16())
    with torch.no_grad():
        torch.testing.assert_close(fused_kernel(q, k, v, mask), out, atol=0.05, rtol=0.05)
