"""Evolving attention against equation 9 with all four matrices materialised, its kernels and its memory."""

import math

import pytest
import torch

from ode_transformer.modules.evolving_attention import EvolvingAttention, InitialState
from tests.helpers import Kernels, distance

D, M, L, B, T, S = 16, 4, 3, 2, 6, 5
MASKS = ("none", "padding", "causal", "causal-padding", "cross", "cross-padding")
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def fourier(w, index, form):
    """T_l, written out entry by entry."""
    d = len(w)
    values = []
    for function in (math.sin, math.cos):
        for j in range(d // 2):
            paper = (j + 1) * (index + 1) / (d * L / (2 * math.pi))
            values.append(function(paper if form == "paper" else j * index * math.pi / 64))
    return w * torch.tensor(values, dtype=w.dtype)


def oracle(initial, attention, x, source, q, k, index, form, hidden):
    """Equation 9: softmax(A0 + A1 T + T A2 + A3 (T o T)) V Wo, matrices and all, from q and k as projected."""
    d, width, e = D, 2 * D, 2 * D // M
    t = fourier(attention.time_weights, index, form)
    q, k = (z.permute(0, 2, 1, 3).flatten(2) for z in (q, k))  # (B, T, D)
    if form == "paper":
        # Everything split in heads of e = D/m; A0 alone is scaled.
        heads = lambda z: z.unflatten(-1, (M, e))  # noqa: E731
        tq, tk = heads(initial.time_query @ t), heads(initial.time_key @ t)
        a0 = torch.einsum("bthe,bshe->bhts", heads(q), heads(k)) / math.sqrt(d / M)
        a1 = torch.einsum("bthe,he->bht", heads(q), tk)[..., None]
        a2 = torch.einsum("he,bshe->bhs", tq, heads(k))[:, :, None]
        a3 = torch.einsum("he,he->h", tq, tk)[None, :, None, None]
    else:
        # Heads of the time projections against whole keys and queries; the diagonal of A3.
        wq, wk, t = (z.reshape(width, M, d // M) for z in (initial.time_query, initial.time_key, t.expand(width, d)))
        t = t[0]
        a0 = torch.einsum("bthe,bshe->bhts", q.unflatten(-1, (M, e)), k.unflatten(-1, (M, e))) / math.sqrt(e)
        a1 = torch.einsum("btD,Dhj,hj->bht", q, wk, t)[..., None]
        a2 = torch.einsum("Dhj,hj,bsD->bhs", wq, t, k)[:, :, None]
        a3 = torch.einsum("Dhj,Dhj,hj->h", wq, wk, t * t)[None, :, None, None]
    p = (a0 + a1 + a2 + a3).masked_fill(hidden, float("-inf")).softmax(-1)
    v = attention.layer_norm(source).unflatten(-1, (M, d // M)).permute(1, 2, 0, 3)
    return attention.out((p @ v).permute(2, 0, 1, 3).flatten(2))


def setting(form, mask, dtype, index=1, dropout=0.0):
    torch.manual_seed(0)
    initial, attention = InitialState(D, M, dropout).to(dtype), EvolvingAttention(D, M, index, L, form, 0.0).to(dtype)
    for p in (*initial.parameters(), *attention.parameters()):
        torch.nn.init.normal_(p, std=0.3)
    x = torch.randn(T, B, D, dtype=dtype)
    source = torch.randn(S, B, D, dtype=dtype) if "cross" in mask else x
    keys = len(source)
    padding = None
    hidden = torch.zeros(B, 1, T, keys, dtype=torch.bool)
    if "padding" in mask:
        padding = torch.zeros(B, keys, dtype=torch.bool)
        padding[1, keys - 2 :] = True
        hidden = hidden | padding[:, None, None]
    if "causal" in mask:
        hidden = hidden | torch.ones(T, T, dtype=torch.bool).triu(1)
    return initial, attention, x, source, padding, hidden


def as_in_a_block(state, form):
    """The state as a block hands it to its layers."""
    return state.fitted() if form == "paper" else state


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("form", ["paper", "released"])
def test_a_layer_is_equation_9(form, mask, dtype, tolerance, index, training):
    """Forward and gradients; in training with the same dropout of queries and keys."""
    initial, attention, x, source, padding, hidden = setting(form, mask, dtype, index, dropout=0.3)
    initial.train(training)
    initial.time_key.requires_grad_()
    x.requires_grad_()
    state = initial(x, source if "cross" in mask else None, padding)
    results = []
    for ours in (True, False):
        for module in (initial, attention):
            module.zero_grad()
        x.grad = None
        if ours:
            y = attention(source, as_in_a_block(state, form), causal="causal" in mask)
        else:
            y = oracle(initial, attention, x, source, state.queries, state.keys, index, form, hidden)
        (y * torch.linspace(-1, 1, y.numel(), dtype=dtype).view_as(y)).sum().backward(retain_graph=True)
        parameters = [*initial.named_parameters(), *attention.named_parameters()]
        gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in parameters}
        results.append((y, x.grad.clone(), gradients))
    (ours, dx, gradients), (theirs, dx_, expected) = results
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(dx, dx_, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(gradients, expected, atol=tolerance, rtol=tolerance)
    # What softmax cancels: in the oracle it is there, and its gradient is rounding.
    assert gradients["time_key"].abs().max() == 0
    assert expected["time_key"].abs().max() < 10 * tolerance


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("form", ["paper", "released"])
def test_the_fused_kernel_runs_forwards_and_backwards(form, mask):
    initial, attention, x, source, padding, _ = setting(form, mask, torch.float32)
    with Kernels() as kernels:
        state = as_in_a_block(initial(x, source if "cross" in mask else None, padding), form)
        attention(source, state, causal="causal" in mask).sum().backward()
    assert kernels.names == {
        "_scaled_dot_product_flash_attention_for_cpu.default",
        "_scaled_dot_product_flash_attention_for_cpu_backward.default",
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.01), (torch.float16, 0.001)])
@pytest.mark.parametrize("mask", ["padding", "causal-padding"])
@pytest.mark.parametrize("form", ["paper", "released"])
def test_padding_is_unseen_in_half_precision(form, mask, dtype, tolerance):
    initial, attention, x, _, padding, _ = setting(form, mask, torch.float32)
    expected = attention(x, initial(x, None, padding), causal="causal" in mask)
    initial, attention = initial.to(dtype), attention.to(dtype)
    y = attention(x.to(dtype), initial(x.to(dtype), None, padding), causal="causal" in mask)
    assert distance(y, expected) < tolerance
    changed = x.clone()
    changed[-2:, 1] = 9
    z = attention(changed.to(dtype), initial(changed.to(dtype), None, padding), causal="causal" in mask)
    assert torch.equal(z[:-2], y[:-2])


@pytest.mark.parametrize("form", ["paper", "released"])
def test_a_step_of_decoding_in_half_precision_sees_all_keys(form):
    initial, attention, x, *_ = setting(form, "causal", torch.bfloat16)
    at_once, cache = attention(x, initial(x), causal=True), {}
    steps = [attention(y, initial(y, None, None, cache), True, cache) for y in x.split(1)]
    assert distance(torch.cat(steps), at_once) < 0.01


@pytest.mark.parametrize("form", ["paper", "released"])
def test_a_cache_follows_hypotheses_with_its_padding(form):
    initial, attention, x, *_ = setting(form, "causal", torch.float64)
    padding, order, cache = torch.zeros(B, T, dtype=torch.bool), torch.tensor([1, 0]), {}
    padding[1, :2] = True  # on the left
    at_once = attention(x, initial(x, None, padding), causal=True)
    for i in range(T):
        if i == 4:
            for module in (initial, attention):
                module.reorder_incremental_state(cache, order)
            x, padding, at_once = x[:, order], padding[order], at_once[:, order]
        now = slice(i, i + 1)
        step = attention(x[now], initial(x[now], None, padding[:, now], cache), True, cache)
        real = ~padding[:, i]
        torch.testing.assert_close(step[0, real], at_once[i, real])
