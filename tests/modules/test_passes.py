"""Compiled layers: one graph each, the results of eager mode, and no trace of them outside of training."""

import copy

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from ode_transformer.modules import passes
from tests.helpers import batch, raises, small


@pytest.fixture
def backend(request, monkeypatch, fresh_compiler):
    """Traces of layers, of the backward pass too ("aot_eager"), without the code that a compiler would make of them."""
    found = CompileCounterWithBackend(request.param)
    traced = torch.compile(passes._call, dynamic=True, backend=found, fullgraph=True)
    monkeypatch.setattr(passes, "_compiled", lambda: traced)
    with torch._dynamo.config.patch(recompile_limit=64):
        yield found


def compiled_and_eager(variant, **more):
    """The same model twice, of which the first compiles its layers."""
    torch.manual_seed(0)
    m = small(variant, **{"compile-layers": True, **more}).train()
    eager = copy.deepcopy(m)
    eager.encoder.compile_layers = eager.decoder.compile_layers = False
    return m, eager


def step(m, src, lengths, prev):
    m.zero_grad()
    x, _ = m(src_tokens=src, src_lengths=lengths, prev_output_tokens=prev, features_only=True, alignment_layer=-1)
    (x[prev != 1] ** 2).sum().backward()
    return [x[prev != 1], *(p.grad for p in m.parameters() if p.grad is not None)]


FAMILIES = ("macaron", "rk2_learnable_tiny", "ode_residual_tiny", "rk4_tiny", "floater_tiny", "decoder-multistep",
            "transevolve_fullff_2_tiny", "parallel")  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "backend"),
    [("macaron", "eager"), *(pytest.param(v, "aot_eager", marks=pytest.mark.full) for v in FAMILIES)],
    indirect=["backend"],
)
def test_compiled_layers_are_whole_graphs_with_the_results_of_eager_mode(variant, backend):
    m, eager = compiled_and_eager(variant)
    for sizes in ((4, 6, 5), (9, 3, 2, 4)):
        found, expected = (step(each, *batch(sizes=sizes)) for each in (m, eager))
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-4)
    traces = backend.frame_count
    assert traces
    step(m, *batch(sizes=(5, 8, 6, 2, 3)))
    m.eval()(*batch(sizes=(4, 6, 5)))
    assert backend.frame_count <= traces + 2, "layers and sizes share their code"
    assert m.state_dict().keys() == small(variant).state_dict().keys()


@pytest.mark.parametrize("backend", ["eager"], indirect=True)
def test_blocks_share_their_code(backend):
    src, lengths, _ = batch()
    small("transevolve_fullff_2_tiny", **{"compile-layers": True}).train().encoder(src, lengths)
    assert backend.frame_count == 1


@pytest.mark.parametrize("backend", ["eager"], indirect=True)
def test_decoder_layers_of_several_stages_share_their_code(backend):
    more = {"compile-layers": True, "decoder-integrator": "heun", "decoder-layers": 3}
    m, (src, lengths, prev) = small("rk2_tiny", **more).train(), batch()
    out, before = m.encoder(src, lengths), backend.frame_count
    m.decoder(prev, out, alignment_layer=-1)  # no layer has to return weights
    assert backend.frame_count == before + 1


@pytest.mark.parametrize("backend", ["eager"], indirect=True)
def test_compiled_layers_may_be_recomputed(backend):
    m, eager = compiled_and_eager("macaron", **{"checkpoint-activations": True})
    torch.testing.assert_close(step(m, *batch()), step(eager, *batch()), atol=2e-5, rtol=2e-4)
    assert all("tag_activation_checkpoint" in str(graph.graph) for graph in backend.graphs) and backend.graphs


def test_a_compiler_that_is_missing_is_named():
    passes._compiled.cache_clear()  # which an earlier pass has filled
    m = small("macaron", **{"compile-layers": True}).train()
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        raises(r"--compile-layers: needs a C\+\+ compiler", m, *batch())
