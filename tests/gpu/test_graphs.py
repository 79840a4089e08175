"""Training passes recorded as CUDA graphs; skipped where there is no GPU."""

import copy

import pytest
import torch

from tests.helpers import VARIANTS, batch, model, sample, small
from tests.models.test_language_model import language_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

PRECISIONS = {
    "fp32": (torch.float32, 1e-4),
    "fp16": (torch.float16, 2e-2),
    "bf16": (torch.bfloat16, 1e-1),
    "amp": (None, 2e-2),
}
COMPILED = ("macaron", "ode_residual_tiny", "rk4_tiny", "floater_tiny", "transevolve_fullff_2_tiny")


def step(m, src, lengths, prev, amp):
    """The features of a pass, and the gradients of a loss that ignores padding."""
    m.zero_grad()
    with torch.autocast("cuda", torch.float16, enabled=amp):
        x, _ = m(src_tokens=src, src_lengths=lengths, prev_output_tokens=prev, features_only=True)
    (x[prev != 1].float() ** 2).mean().backward()
    return x.detach().float().clone(), {name: p.grad.float() for name, p in m.named_parameters() if p.grad is not None}


def check_against_eager_mode(variant, precision, **more):
    """Compare features and gradients, and return the model with further options."""
    dtype, tolerance = PRECISIONS[precision]
    torch.manual_seed(0)
    eager, ours = (small(variant, **its).cuda().to(dtype or torch.float32).train() for its in ({}, more))
    ours.load_state_dict(eager.state_dict())
    # Two shapes, in turns, so that one overwrites the memory of the other; each is recorded when it comes again.
    batches = [
        [t.cuda() for t in batch(sizes=sizes, seed=seed)] for seed in range(3) for sizes in ((4, 6, 5), (9, 3, 2, 4))
    ]
    for src, lengths, prev in batches:
        expected, gradients = step(eager, src, lengths, prev, dtype is None)
        found, own = step(ours, src, lengths, prev, dtype is None)
        real = prev != 1
        torch.testing.assert_close(found[real], expected[real], atol=tolerance, rtol=tolerance)
        norm = torch.stack([g.norm() for g in gradients.values()]).norm()
        for name, gradient in gradients.items():
            apart = (own[name] - gradient).norm() if name in own else gradient.norm()
            assert apart <= 5 * tolerance * (gradient.norm() + 0.02 * norm), name  # some are rounding alone
    return ours


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", sample(VARIANTS))
def test_a_replay_has_the_features_and_gradients_of_eager_mode(variant, precision):
    recorded = check_against_eager_mode(variant, precision, **{"cuda-graphs": True})
    assert len(recorded.graphs.recorded) == 2


def test_a_language_models_replay_has_the_features_and_gradients_of_eager_mode():
    dropouts = dict.fromkeys(("dropout", "attention-dropout", "activation-dropout"), 0.0)
    m, found = language_model(**dropouts, **{"cuda-graphs": True}).cuda().train(), []
    tokens = torch.randint(4, 50, (3, 9), generator=torch.Generator().manual_seed(1)).cuda()
    for _ in range(3):
        m.zero_grad()
        x, _ = m(src_tokens=tokens, src_lengths=None, features_only=True)
        (x**2).mean().backward()
        found.append([x.detach().clone(), *(p.grad for p in m.parameters() if p.grad is not None)])
    assert len(m.graphs.recorded) == 1
    for replayed in found[1:]:
        torch.testing.assert_close(replayed, found[0], atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("arch", ["macaron_bert_tiny", "floater_roberta_tiny", "transevolve_small"])
def test_an_encoder_alone_has_the_scores_and_gradients_of_eager_mode(arch):
    m = model(arch, {"dropout": 0.0, "attention-dropout": 0.0, "cuda-graphs": True})
    m.register_classification_head("h", num_classes=3)
    m.cuda().train()
    tokens, found = batch(sizes=(4, 6, 5))[2].cuda(), []
    for _ in range(3):
        m.zero_grad()
        scores, _ = m(tokens, features_only=True, classification_head_name="h")
        scores.square().sum().backward()
        found.append([scores.detach(), *(p.grad for p in m.parameters() if p.grad is not None)])
    assert len(m.graphs.recorded) == 1
    for replayed in found[1:]:
        torch.testing.assert_close(replayed, found[0], atol=1e-4, rtol=1e-3)


def test_a_model_is_recorded_anew_when_it_has_changed():
    m, inputs = small("macaron", **{"cuda-graphs": True}).cuda().train(), [t.cuda() for t in batch()]
    for change in (lambda: m, m.double, lambda: m.encoder.requires_grad_(False)):
        change()
        expected, gradients = step(copy.deepcopy(m), *inputs, False)  # a copy has no recorded passes
        for _ in range(2):
            found, own = step(m, *inputs, False)
        real = inputs[2] != 1
        torch.testing.assert_close(found[real], expected[real], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(own, gradients, atol=1e-3, rtol=1e-3)
        assert len(m.graphs.recorded) == 1


def test_dropout_draws_anew_in_every_replay():
    m = small("macaron", dropout=0.5, **{"cuda-graphs": True}).cuda().train()
    inputs = [t.cuda() for t in batch()]
    found = [step(m, *inputs, False)[0] for _ in range(4)]
    assert len(m.graphs.recorded) == 1
    assert not torch.equal(found[2], found[3])
    torch.manual_seed(3)
    first = step(m, *inputs, False)[0]
    torch.manual_seed(3)
    assert torch.equal(step(m, *inputs, False)[0], first)


@pytest.mark.parametrize("variant", ["rk4_tiny", "floater_tiny", "transevolve_fullff_2_tiny"])
def test_recomputed_activations_have_the_dropout_of_the_forward_pass(variant):
    inputs, found = [t.cuda() for t in batch()], []
    values = {"dropout": 0.3} | ({} if "evolve" in variant else {"attention-dropout": 0.2})
    for more in ({}, {"checkpoint-activations": True}):
        torch.manual_seed(0)
        m = small(variant, **values, **more, **{"cuda-graphs": True}).cuda().half().train()
        for _ in range(2):
            step(m, *inputs, False)
        torch.manual_seed(3)
        x, gradients = step(m, *inputs, False)
        found.append([x[inputs[2] != 1], *gradients.values()])
        assert len(m.graphs.recorded) == 1
    torch.testing.assert_close(found[1], found[0], atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("more", [{}, {"checkpoint-activations": True}], ids=["", "recomputed"])
def test_a_further_shape_takes_no_memory_of_its_own(more):
    """cuBLAS would keep memory for every further stream on which a shape is recorded."""
    m, held = small("macaron", **{"cuda-graphs": True}, **more).cuda().train(), []
    for length in range(4, 16, 2):
        inputs = [t.cuda() for t in batch(sizes=(length, 3, 2))]
        for _ in range(2):
            step(m, *inputs, False)
        held.append(torch.cuda.memory_allocated())
    assert len(m.graphs.recorded) == len(held)
    assert held[-1] - held[0] < 2**25


@pytest.mark.parametrize("more", [{}, {"cuda-graphs": True}], ids=["eager", "graphs"])
@pytest.mark.parametrize(
    ("variant", "precision"),
    [*((variant, "fp16") for variant in COMPILED), *(("macaron", its) for its in PRECISIONS if its != "fp16")],
)
def test_compiled_layers_have_the_features_and_gradients_of_eager_ones(variant, precision, more, fresh_compiler):
    check_against_eager_mode(variant, precision, **{"compile-layers": True}, **more)
