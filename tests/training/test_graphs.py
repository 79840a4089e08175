"""CUDA graphs of training passes, as far as a CPU can show them: shapes, padding, losses, gradients, bookkeeping.

In place of a CUDA graph there is one that carries out again the operations of a recording. What only a GPU can show is
in ``tests/gpu``.
"""

import copy
import weakref
from contextlib import nullcontext
from typing import ClassVar
from unittest.mock import MagicMock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as _dispatch_modes
from torch.utils._pytree import tree_leaves

from ode_transformer.errors import OdeTransformerError
from ode_transformer.modules import dropout, passes, positions
from ode_transformer.training import graphs
from tests import helpers
from tests.helpers import VARIANTS, batch, sample, small
from tests.models.test_language_model import language_model

WAITS = ("aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::lift_fresh")


class Graph(TorchDispatchMode):
    """In place of a CUDA graph: the operations of a recording, which a replay carries out again in the same memory.

    As on a GPU, a recording must not wait for the device, what it has computed is void, and all graphs share memory: a
    replay overwrites what others have left there, except for the graph before it, whose backward pass it may be.
    """

    recorded: ClassVar[list["Graph"]] = []
    capture_stream = MagicMock()

    def __init__(self):
        super().__init__()
        self.calls, self.memory = [], []
        self.recorded.append(self)

    def pool(self):
        return self.recorded

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function.name() not in WAITS, "a recording waits for the device, or for memory of the host"
        found = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, found))
        given = {place(t) for t in tensors((args, kwargs))}
        self.memory += [t for t in tensors(found) if place(t) not in given]
        return found

    def __exit__(self, *error):
        super().__exit__(*error)
        self.overwrite()

    def overwrite(self):
        for t in self.memory:
            t.data.fill_(float("nan") if t.is_floating_point() else 0)  # through .data, which autograd does not count

    @torch.no_grad()
    def replay(self):
        number = self.recorded.index(self)
        for graph in self.recorded[: max(number - 1, 0)] + self.recorded[number:]:
            graph.overwrite()
        for function, args, kwargs, found in self.calls:
            for into, again in zip(tensors(found), tensors(function(*args, **kwargs)), strict=True):
                if place(into) != place(again):
                    into.data.copy_(again.view_as(into))  # squeeze_ may have come later


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def place(tensor):
    return tensor.untyped_storage().data_ptr()


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch):
    monkeypatch.setattr(graphs.TrainingGraphs, "_is_on_gpu", lambda self, tokens: True)
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, pool, capture_error_mode: graph)
    monkeypatch.setattr(Graph, "recorded", [])
    monkeypatch.setattr(graphs, "_WARM_UPS", 1)  # a CPU has nothing to load
    monkeypatch.setattr(positions, "can_ask", lambda x: False)  # as on a GPU


def model(variant="macaron", **more):
    torch.manual_seed(0)
    return small(variant, **{"cuda-graphs": True, **more}).train()


def passed(m, src, lengths, prev):
    """The features of a pass, whose loss ignores padding and adds to the gradients."""
    x, _ = m(src_tokens=src, src_lengths=lengths, prev_output_tokens=prev, features_only=True)
    (x[prev != 1] ** 2).sum().backward()
    return x.detach()


def step(m, *inputs):
    """The features of a pass, and its gradients."""
    m.zero_grad()
    return passed(m, *inputs), {name: p.grad for name, p in m.named_parameters()}


def recorded(*arguments, **more):
    """A model that has recorded the shape of a batch, and the batch."""
    m, inputs = model(*arguments, **more), batch(sizes=(4, 6, 5))
    for _ in range(2):
        step(m, *inputs)
    return m, inputs


def test_sizes_are_few_and_near():
    for least in (2, 8):
        sizes = [graphs.padded_size(n, least) for n in range(1, 2049)]
        assert all(s >= n and s % least == 0 for n, s in enumerate(sizes, 1))
        assert all(s <= max(least * -(-n // least), 1.125 * n) for n, s in enumerate(sizes, 1))
        assert sizes == sorted(sizes)
        assert len(set(sizes)) <= 8 * 11
        assert [graphs.padded_size(s, least) for s in sizes] == sizes
    assert [graphs.padded_shape(n, 7) for n in (1, 3, 5, 9)] == [(1, 8), (4, 8), (8, 8), (16, 8)]


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (True, [[1, 1, 5, 6, 2], [1, 1, 1, 7, 2], [1, 1, 1, 1, 2]]),
        (False, [[5, 6, 2, 1, 1], [1, 7, 2, 1, 1], [2, 1, 1, 1, 1]]),
    ],
)
def test_padding_goes_to_one_side_and_new_sentences_are_empty(left, expected):
    tokens = torch.tensor([[5, 6, 2], [1, 7, 2]])
    for place, filled in ((torch.full((3, 5), 9), expected), (torch.full((2, 3), 9), tokens.tolist())):
        graphs.fill(place, tokens, pad=1, eos=2, left=left)
        assert place.tolist() == filled


@pytest.mark.parametrize("variant", sample(VARIANTS))
def test_a_padded_pass_has_the_features_and_gradients_of_the_batch_itself(variant):
    shallow = {} if "evolution-depth" in VARIANTS[variant] else {"decoder-layers": 1}  # operations are slow here
    m, inputs = model(variant, **shallow), batch(sizes=(4, 6, 5))
    expected, gradients = step(m, *inputs)  # in eager mode, since the shape comes for the first time
    assert not m.graphs.recorded
    step(m, *batch(sizes=(6, 4, 3), seed=1))  # recorded with other tokens
    found, own = step(m, *inputs)
    assert len(m.graphs.recorded) == 1
    real = inputs[2] != 1
    torch.testing.assert_close(found[real], expected[real], atol=2e-5, rtol=2e-5)
    for name, gradient in gradients.items():
        if gradient is None or own[name] is None:
            assert gradient is own[name] or not torch.any(gradient if own[name] is None else own[name])
        else:
            torch.testing.assert_close(own[name], gradient, atol=1e-4, rtol=1e-3, msg=name)


HEAD = {"classification_head_name": "h", "features_only": True}


@pytest.mark.parametrize(
    ("arch", "asked"),
    [
        ("ode_transformer_lm_ptb_2l", {"src_lengths": None, "features_only": True}),
        ("macaron_bert_tiny", {}),
        ("floater_roberta_tiny", HEAD),
        ("transevolve_small", HEAD),
        ("transformer_small", HEAD),
    ],
)
def test_a_stack_alone_is_recorded_without_its_heads(arch, asked):
    """How many tokens are masked differs between batches."""
    torch.manual_seed(0)
    values = dict.fromkeys(("dropout", "attention-dropout", "activation-dropout"), 0.0) | {"cuda-graphs": True}
    if "_lm_" in arch:
        m = language_model(arch, **values).train()
    else:
        shallow = {} if "evolve" in arch else {"encoder-layers": 1}
        m = helpers.model(arch, values | shallow).train()
        m.register_classification_head("h", num_classes=3)

    def scored(seed):
        m.zero_grad()
        tokens = batch(sizes=(4, 6, 5), seed=seed)[2]  # padded on the right
        masked = {} if asked else {"masked_tokens": tokens % 3 == 0}
        scores, more = m(tokens, **asked, **masked)
        scores = scores[tokens != 1] if "_lm_" in arch else scores
        (scores.square().sum() + more.get("next_sentence", torch.zeros(1)).square().sum()).backward()
        return [scores.detach(), *(p.grad for p in m.parameters() if p.grad is not None)]

    expected, _, found = scored(0), scored(1), scored(0)
    assert len(m.graphs.recorded) == 1 and m.graphs.passes == 4 and len(found) > 10
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_a_pass_with_other_arguments_than_numbers_is_in_eager_mode():
    m, (src, lengths, prev) = recorded()
    for _ in range(2):
        m(src_tokens=src, src_lengths=lengths, prev_output_tokens=prev, alignment_heads=torch.tensor(1))
    assert m.graphs.passes == 2 and len(m.graphs.seen) == 1


def test_a_pass_with_other_numbers_is_another_recording():
    m, (src, lengths, prev) = recorded()  # of features
    eager, replayed = (m(src_tokens=src, src_lengths=lengths, prev_output_tokens=prev)[0] for _ in range(2))
    assert len(m.graphs.recorded) == 2
    torch.testing.assert_close(replayed[prev != 1], eager[prev != 1], atol=2e-5, rtol=2e-5)


def test_gradients_add_up_over_several_batches_and_outlive_the_next_pass():
    (m, inputs), others = recorded(), batch(sizes=(9, 3, 2, 4))
    step(m, *others)
    single = [step(m, *one)[1] for one in (inputs, others)]
    m.zero_grad(set_to_none=True)
    for one in (inputs, others):
        passed(m, *one)
    for name, p in m.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(p.grad, single[0][name] + single[1][name])


def test_a_backward_pass_after_another_pass_is_refused():
    m, (src, lengths, prev) = model(), batch(sizes=(4, 6, 5))
    step(m, src, lengths, prev)
    more = {"src_lengths": lengths, "prev_output_tokens": prev, "features_only": True}
    outputs = [m(src_tokens=src, **more)[0] for _ in range(2)]
    helpers.raises("several passes", outputs[0].sum().backward)
    outputs[1].sum().backward(retain_graph=True)
    helpers.raises("several passes", outputs[1].sum().backward)


def test_an_output_outlives_the_next_pass_and_all_shapes_share_its_memory():
    m, batches = model(), [batch(sizes=sizes) for sizes in ((9, 3, 2, 4), (4, 6, 5))]
    kept = []
    for inputs in batches * 3:
        kept.append((step(m, *inputs)[0], inputs[2] != 1))
    for (found, real), (expected, _) in zip(kept[4:], kept[:2], strict=True):
        torch.testing.assert_close(found[real], expected[real], atol=2e-5, rtol=2e-5)
    assert len({one.output.data_ptr() for one in m.graphs.recorded.values()}) == 1
    torch.cuda.Stream.assert_not_called()  # a library would keep memory for every further stream


def test_what_a_replay_does_not_return_is_named():
    m, (src, lengths, prev) = model(), batch(sizes=(4, 6, 5))
    more = {"src_lengths": lengths, "prev_output_tokens": prev}
    m(src_tokens=src, **more)[1]["inner_states"]
    with pytest.raises(OdeTransformerError, match="no 'inner_states'"):
        m(src_tokens=src, **more)[1]["inner_states"]


def test_rare_shapes_stay_eager_and_the_number_of_recordings_is_bounded(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_SHAPES", 1)
    m = model()
    for sizes in ((4, 6, 5), (9, 3, 2), (9, 3, 2), (4, 6, 5), (4, 6, 5)):
        step(m, *batch(sizes=sizes))
    assert len(m.graphs.seen) == 2 and len(m.graphs.recorded) == 1


def test_a_shape_for_which_memory_does_not_suffice_stays_eager(monkeypatch):
    """What was recorded before makes room for it, since all recordings share one pool of memory."""
    (m, _), inputs, held = recorded(), batch(sizes=(5, 8, 6, 2, 3)), []

    class Memory:
        """What a recording has allocated."""

    def fails(*_):
        memory = Memory()
        held.append(weakref.ref(memory))
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(graphs, "RecordedPass", fails)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(len(m.graphs.recorded)))
    note, forward = (lambda: held.append("free") if held and held[0]() is None else None), m.encoder.forward
    m.encoder.forward = lambda *args, **more: (note(), forward(*args, **more))[1]
    first, *others = (step(m, *inputs)[0] for _ in range(4))
    assert all(torch.equal(first, other) for other in others)
    assert held[1:] == [0] + ["free"] * 3, "it is tried once, and its memory is free for the pass itself"
    assert m.graphs.waited == 5


def test_memory_that_does_not_suffice_to_end_a_recording_is_an_error(monkeypatch):
    after = RuntimeError("operation failed due to a previous error during capture")
    after.__context__ = torch.cuda.OutOfMemoryError("CUDA out of memory.")
    monkeypatch.setattr(graphs, "RecordedPass", MagicMock(side_effect=after))
    m, inputs = model(), batch(sizes=(4, 6, 5))
    step(m, *inputs)
    helpers.raises("--cuda-graphs: memory did not suffice", step, m, *inputs)


def test_hooks_are_called(caplog):
    """fairseq looks for the module whose output is not finite by hooks."""
    m, inputs = model(), batch(sizes=(4, 6, 5))
    for _ in range(2):
        step(m, *inputs)
    called = []
    hook = m.encoder.layers[0].register_forward_hook(lambda *_: called.append(1))
    step(m, *inputs)
    hook.remove()
    step(m, *inputs)
    assert called == [1] and m.graphs.passes == 4
    assert caplog.text.count("modules have hooks, which a replay would not call") == 1


def test_evaluation_and_passes_without_gradients_are_not_recorded():
    m, inputs = model(), batch(sizes=(4, 6, 5))
    for _ in range(3):
        with torch.no_grad():
            m(*inputs)
        m.eval()(*inputs)
        m.train()
    assert not m.graphs.seen


def test_parameters_that_move_are_recorded_anew():
    m, inputs = recorded()
    found = [next(iter(m.graphs.recorded.values()))]
    encoder = m.encoder.embed_positions
    for change in (
        m.double,
        lambda: m.decoder.requires_grad_(False),
        lambda: setattr(encoder, "weights", encoder.weights.clone()),  # as when a longer sentence comes
    ):
        change()
        step(m, *inputs)
        found.append(next(iter(m.graphs.recorded.values())))
    assert len(set(map(id, found))) == 4


@pytest.mark.parametrize("more", [{}, {"checkpoint-activations": True}], ids=["", "recomputed"])
def test_a_recorded_pass_has_parameters_of_its_own_in_the_same_memory(more):
    """DistributedDataParallel keeps the nodes of the model's own on a stream that a recording must not touch."""
    m, _ = recorded(**more)
    own = {p.data_ptr(): p for p in m.parameters()}
    assert all(own[p.data_ptr()] is p for p in m.parameters())
    read = [t for graph in Graph.recorded for call in graph.calls for t in tensors(call) if t.data_ptr() in own]
    assert {t.data_ptr() for t in read} == own.keys()
    assert not any(t is own[t.data_ptr()] for t in read)


@pytest.mark.parametrize("variant", ["macaron", "rk4_tiny", "floater_tiny", "transevolve_fullff_2_tiny"])
def test_recomputed_activations_have_the_dropout_of_the_forward_pass(variant, monkeypatch):
    monkeypatch.setattr(passes, "_is_recording", lambda: any(isinstance(m, Graph) for m in _dispatch_modes()))
    monkeypatch.setattr(dropout, "dropout", lambda x, p: torch.native_dropout(x, p, True)[0])  # as on a GPU
    values = {"dropout": 0.3} | ({} if "evolve" in variant else {"attention-dropout": 0.2})
    found, products = [], []
    for more in ({}, {"checkpoint-activations": True}):
        Graph.recorded.clear()
        m, inputs = recorded(variant, **values, **more)
        torch.manual_seed(3)
        x, gradients = step(m, *inputs)
        found.append([x[inputs[2] != 1], *(g for g in gradients.values() if g is not None)])
        backward = Graph.recorded[1].calls
        products.append(sum("mm" in call[0].name() for call in backward))
        assert not any("dropout" in call[0].name() and "backward" not in call[0].name() for call in backward)
    torch.testing.assert_close(found[1], found[0])
    assert products[1] > products[0], "nothing was computed again"


def test_a_backward_pass_is_recorded_outside_of_autocast(monkeypatch):
    """As it runs in training: what is in single precision stays in it."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    asked = []

    class Asks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            asked.append(torch.is_autocast_enabled("cuda"))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            asked.append(torch.is_autocast_enabled("cuda"))
            return gradient

    p = torch.nn.Parameter(torch.ones(2))
    torch.set_autocast_enabled("cuda", True)
    try:
        graphs.RecordedPass(lambda x: Asks.apply(p * x), [torch.ones(2)], [p], [p.clone()], torch.empty_like, None)
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert asked == 2 * [True, False]


def test_a_copy_of_a_model_has_no_recordings_and_a_checkpoint_no_trace():
    m, _ = recorded()
    assert not copy.deepcopy(m).graphs.recorded
    assert m.state_dict().keys() == small("macaron").state_dict().keys()
