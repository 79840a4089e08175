"""What holds for every architecture and variant: decoding, gradients, padding, causality."""

import copy
import pickle
from contextlib import nullcontext
from functools import cache

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.helpers import VARIANTS, Ends, OnTheDevice, batch, distance, idle, model, perturbed, sample, small, stepwise


@cache
def build(variant):
    """A small model, its parameters away from their initial values, so that none of them is without effect."""
    m = perturbed(small(variant))
    with torch.no_grad():
        for embedding in (m.encoder.embed_tokens, m.decoder.embed_tokens):
            embedding.weight[embedding.padding_idx] = 0
    return m


def ready(variant):
    m = build(variant)
    m.zero_grad()
    return m.eval()


@pytest.fixture(params=sample(VARIANTS))
def m(request):
    """A model of every variant, in evaluation mode."""
    return ready(request.param)


def test_copies_are_the_same_model(m):
    """Deep copies are what an exponential moving average trains beside; whole pickles are what people keep."""
    src, lengths, prev = batch()
    again = pickle.loads(pickle.dumps(copy.deepcopy(m)))
    assert torch.equal(again(src, lengths, prev)[0], m(src, lengths, prev)[0])


def test_no_norm_has_to_copy_its_input(m):
    """A view of (B, T, C) would be copied by every norm, forward and backward, and every sum would be a slow one."""
    copied, hooks = [], []

    def look(name, x):
        if not x.is_contiguous():
            copied.append(name)

    for name, module in m.named_modules():
        if "norm" in name:
            hooks.append(module.register_forward_pre_hook(lambda _, inputs, name=name: look(name, inputs[0])))
    m.train()(*batch())
    for hook in hooks:
        hook.remove()
    assert hooks and not copied


def trains_in_half_precision(m, context, expected, real):
    """Train a step in bfloat16, whose logits have to be near these, and whose gradients finite."""
    with context:
        logits = m.train()(*batch())[0]
        logits.float().log_softmax(-1)[..., 7].sum().backward()
    assert distance(logits[real], expected) < 0.02, "models of these depths have .003 to .01"
    assert logits.dtype == torch.bfloat16
    assert all(p.grad.dtype == p.dtype and p.grad.isfinite().all() for p in m.parameters() if p.grad is not None)


def test_in_mixed_precision(m):
    real = batch()[2] != 1
    trains_in_half_precision(m, torch.autocast("cpu", torch.bfloat16), m(*batch())[0][real], real)


@pytest.mark.parametrize("variant", ["macaron", "floater_tiny", "rk2-learnable-floater"])
def test_a_model_that_is_in_half_precision_as_a_whole(variant):
    m, real = small(variant), batch()[2] != 1
    expected = m(*batch())[0][real]
    torch.testing.assert_close(copy.deepcopy(m).double()(*batch())[0][real].float(), expected, atol=1e-5, rtol=1e-5)
    trains_in_half_precision(m.bfloat16(), nullcontext(), expected, real)


SPANNING = ("leapfrog", "multistep", "dlcl", "sinusoidal", "learned")


def fewest_layers(variant):
    """Operations on the device "meta" are slow: one layer a side, and a second where it does not do as the first."""
    of_encoder = 2 if any(name in str(VARIANTS[variant]) for name in SPANNING) else 1
    return {} if "evolution-depth" in VARIANTS[variant] else {"encoder-layers": of_encoder, "decoder-layers": 1}


ALONE = ["ode_transformer_lm_ptb_2l", "floater_roberta_tiny", "macaron_bert_tiny", "transevolve_small_fullff_2"]


OWN = ["macaron", "heun-heun", "pcformer-rk4-released", "evolution-released"]


@pytest.mark.parametrize("variant", [*OWN, *(one for one in sample(VARIANTS) if one.values[0] not in OWN), *ALONE])
def test_training_asks_the_device_nothing_and_copies_nothing_to_it(variant, monkeypatch):
    """So that the host never waits, and that the pass can be captured as a graph; forward and backward."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which that device does not have
    if variant in VARIANTS:
        m, inputs = small(variant, dropout=0.1, **fewest_layers(variant)), batch()
    else:
        m, inputs = model(variant, {"dropout": 0.1}), batch()[:1]
    m, inputs = m.to("meta").train(), [x.to("meta") for x in inputs]
    with OnTheDevice() as forward:
        output = m(*inputs)[0]
    with OnTheDevice() as backward:
        output.sum().backward()
    assert min(forward.operations, backward.operations) > 100


def test_decoding_step_by_step_equals_decoding_at_once(m):
    """So that a token depends on the earlier ones, and on no later one."""
    src, lengths, prev = batch(sizes=(6, 6, 6))
    encoder_out = m.encoder(src, lengths)
    at_once, _ = m.decoder(prev, encoder_out)
    torch.testing.assert_close(stepwise(m.decoder, prev, encoder_out), at_once, atol=1e-5, rtol=0)
    assert not torch.equal(m.decoder(prev.roll(1), encoder_out)[0], at_once)


RECOMPUTING = ["macaron", "decoder-rk2-learnable", "transevolve_randomff_1_tiny", "floater_tiny", "ode_dlcl_tiny"]
RECOMPUTING += ["pcformer-decoder", "triple-strang-learned-positions", "parallel", "denseformer", "attention-history"]


@pytest.mark.parametrize("variant", RECOMPUTING)
def test_recomputation_changes_no_gradient(variant):
    """Also of what the layers share: gates, histories, multistep weights."""
    plain, lean = small(variant).train(), small(variant, **{"checkpoint-activations": True}).train()
    lean.load_state_dict(plain.state_dict())
    src, lengths, prev = batch()
    for m in (plain, lean):
        m(src, lengths, prev)[0].log_softmax(-1)[..., 7].sum().backward()
        # In decoding nothing is: a second pass would append to the cache again.
        stepwise(m.decoder, prev[:, :2], m.encoder(src, lengths)).log_softmax(-1)[..., 7].sum().backward()
    for (name, p), q in zip(plain.named_parameters(), lean.parameters(), strict=True):
        if p.requires_grad:
            torch.testing.assert_close(q.grad, p.grad, msg=name)


def test_beam_search_with_the_cache_equals_beam_search_without(m):
    src, lengths, _ = batch(sizes=(4, 6, 5))
    sentences = {"net_input": {"src_tokens": src, "src_lengths": lengths}}
    projected = []  # sentences whose source a cross-attention has projected
    hooks = [
        module.register_forward_hook(lambda *args: projected.append(args[1][0].size(1)))
        for name, module in m.named_modules()
        if name.endswith(("encoder_attn.k_proj", "encoder_state.key"))
    ]
    hypotheses, dictionary = [], m.decoder.dictionary
    for cached in (True, False):
        generator = SequenceGenerator([m], dictionary, 4, max_len_a=0, max_len_b=8, search_strategy=Ends(dictionary))
        generator.model.has_incremental = cached
        hypotheses.append(generator.generate([m], copy.deepcopy(sentences)))
        for hook in hooks:
            hook.remove()
    assert set(projected) == {3}  # not twelve
    assert {len(h["tokens"]) for sentence in hypotheses[0] for h in sentence} & {2, 3, 4} == {2, 3, 4}
    for ours, reference in zip(*hypotheses, strict=True):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in reference]
        for what in ("score", "attention"):
            torch.testing.assert_close([h[what] for h in ours], [h[what] for h in reference], atol=1e-5, rtol=0)


def test_every_parameter_gets_a_gradient(m):
    m.train()(*batch())[0].log_softmax(-1)[..., 7].sum().backward()
    assert not idle(m)


def test_padding_does_not_matter(m):
    src, lengths, prev = batch(sizes=(5, 3, 6))
    together, _ = m(src, lengths, prev)
    for row, size in enumerate((5, 3, 6)):
        alone, _ = m(src[row : row + 1, -size - 1 :], lengths[row : row + 1], prev[row : row + 1, :size])
        torch.testing.assert_close(together[row, :size], alone[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "variant", [pytest.param(x, marks=() if x == "macaron" else pytest.mark.full) for x in VARIANTS]
)
def test_encoder_and_decoder_compile_as_one_graph_each(variant, fresh_compiler):
    m, inputs = ready(variant).train(), batch()
    found = []
    for compiled in (False, True):
        m.zero_grad()
        if compiled:
            m = copy.deepcopy(m)  # the models of this file are shared
            for side in (m.encoder, m.decoder):
                side.compile(backend="eager", fullgraph=True)
        logits = m(*inputs)[0][inputs[2] != 1]  # what stands at padding is nobody's
        logits.log_softmax(-1)[..., 7].sum().backward()
        found.append([logits, *(p.grad.clone() for p in m.parameters() if p.grad is not None)])
    torch.testing.assert_close(*reversed(found), atol=1e-4, rtol=1e-4)
