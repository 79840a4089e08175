"""Histories and stacks against their equations."""

import copy

import pytest
import torch
from torch import nn

from ode_transformer.modules.history import History, MultistepConnection, Stack
from ode_transformer.numerics.integrators import DLCL, LEAPFROG, LINEAR_MULTISTEP

DEPTH, SIZE = 3, 8


class Layer(nn.Linear):
    """A layer with its residual, or its increment alone."""

    def __init__(self):
        super().__init__(SIZE, SIZE)

    def forward(self, x, increment=False):
        f = torch.tanh(super().forward(x))
        return f if increment else x + f


@pytest.fixture
def layers():
    torch.manual_seed(0)
    return [Layer().double() for _ in range(DEPTH)]


def history(kind, pre_norm=True):
    h = History(kind, DEPTH, SIZE, pre_norm).double()
    for p in h.parameters():
        nn.init.normal_(p)
    return h


def run(stack, x):
    for layer in stack:
        x = layer(x)
    return x


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("kind", ["residual", "dense", "learnable_dense"])
def test_histories_are_their_equations(kind, pre_norm, layers):
    h = history(kind, pre_norm)
    x = torch.randn(5, 2, SIZE, dtype=torch.float64)
    ours = run(Stack(layers, 0.0, h, {}), x)

    z, inputs = [x], []
    for l in range(DEPTH + 1):  # noqa: E741
        if kind == "learnable_dense":
            mixed = sum(h.weight[l, k] * z[k] for k in range(l + 1))
        elif kind == "dense":
            mixed = sum(z) / (l + 1)
        else:
            mixed = inputs[-1] + z[-1] if inputs else x
        if not pre_norm and l > 0:
            mixed = h.layer_norms[l - 1](mixed)
        inputs.append(mixed)
        if l < DEPTH:
            out = layers[l](mixed)
            z.append(h.layer_norms[l](out) if pre_norm else out)
    torch.testing.assert_close(ours, inputs[-1])


def test_a_learnable_history_starts_as_the_mean(layers):
    x = torch.randn(5, 2, SIZE)
    layers = [layer.float() for layer in layers]
    dense, learnable = (
        run(Stack(layers, 0.0, History(k, DEPTH, SIZE, True), {}), x) for k in ("dense", "learnable_dense")
    )
    torch.testing.assert_close(dense, learnable)


def test_the_parameters_of_a_history_are_those_of_the_released_code():
    names = {n: tuple(p.shape) for n, p in History("learnable_dense", DEPTH, SIZE, True).named_parameters()}
    norms = {f"layer_norms.{i}.{part}": (SIZE,) for i in range(DEPTH) for part in ("weight", "bias")}
    assert names == {"weight": (DEPTH + 1, DEPTH + 1), **norms}


def test_the_upper_triangle_has_no_gradient(layers):
    h = History("learnable_dense", DEPTH, SIZE, True).double()
    run(Stack(layers, 0.0, h, {}), torch.randn(5, 2, SIZE, dtype=torch.float64)).pow(3).sum().backward()
    assert torch.equal(h.weight.grad != 0, torch.ones(DEPTH + 1, DEPTH + 1).tril() > 0)


def test_multistep_schemes_over_a_stack(layers):
    x = torch.randn(5, 2, SIZE, dtype=torch.float64)
    f = [lambda y, layer=layer: layer(y, increment=True) for layer in layers]
    y1 = x + f[0](x)
    y2 = x + 2 * f[1](y1)
    torch.testing.assert_close(run(Stack(layers, 0.0, MultistepConnection(LEAPFROG, DEPTH), {}), x), y1 + 2 * f[2](y2))

    connection = MultistepConnection(LINEAR_MULTISTEP, DEPTH).double()
    k = connection.weight.data = torch.tensor([0.8, 1.4], dtype=torch.float64)
    y2 = k[0] * y1 + (1 - k[0]) * x + f[1](y1)
    y3 = k[1] * y2 + (1 - k[1]) * y1 + f[2](y2)
    torch.testing.assert_close(run(Stack(layers, 0.0, connection, {}), x), y3)

    connection = MultistepConnection(DLCL, DEPTH).double()
    w = connection.weight.data = torch.randn(DEPTH, DEPTH, dtype=torch.float64)
    y1 = x + w[0, 0] * f[0](x)
    y2 = x + w[1, 0] * f[0](x) + w[1, 1] * f[1](y1)
    y3 = x + w[2, 0] * f[0](x) + w[2, 1] * f[1](y1) + w[2, 2] * f[2](y2)
    torch.testing.assert_close(run(Stack(layers, 0.0, connection, {}), x), y3)


def test_two_passes_at_once_do_not_disturb_each_other(layers):
    stack = Stack(layers, 0.0, history("learnable_dense"), {})
    x, y = torch.randn(2, 5, 2, SIZE, dtype=torch.float64).unbind()
    alone = run(stack, x), run(stack, y)
    together = [x, y]
    for a, b in zip(stack, stack, strict=True):
        together = [a(together[0]), b(together[1])]
    assert torch.equal(together[0], alone[0]) and torch.equal(together[1], alone[1])


def test_what_follows_the_state_is_passed_on(layers):
    class WithWeights(Layer):
        def forward(self, x, mask, increment=False):
            return super().forward(x, increment), mask, None

    stack = Stack([WithWeights().double() for _ in layers], 0.0, history("dense"), {})
    x = torch.randn(5, 2, SIZE, dtype=torch.float64)
    for i, layer in enumerate(stack):
        x, weights, _ = layer(x, i)
        assert weights == i


def test_a_stack_is_a_list_of_its_layers(layers):
    owner = nn.Module()
    owner.history = history("learnable_dense")
    owner.layers = Stack(layers, 0.0, owner.history, {})
    assert len(owner.layers) == DEPTH and owner.layers[1] is layers[1]
    assert list(owner.layers[1:]) == layers[1:]
    assert {n.split(".")[0] for n, _ in owner.layers.named_parameters()} == {"0", "1", "2"}
    copied = copy.deepcopy(owner)
    assert copied.layers.connection is copied.history is not owner.history
    assert repr(owner.layers) == repr(nn.ModuleList(layers)).replace("ModuleList", "Stack")
    assert next(iter(owner.layers)).in_features == SIZE


def test_no_randomness_is_spent_where_nothing_is_dropped(layers):
    state = torch.get_rng_state()
    list(Stack(layers, 0.0, None, {}))
    assert torch.equal(state, torch.get_rng_state())
    dropping = Stack(layers, 0.5, None, {})
    assert {len(list(dropping)) for _ in range(30)} != {DEPTH}


def test_what_does_not_fit_is_refused(layers):
    with pytest.raises(ValueError, match=r"depth 2.*3 layers"):
        Stack(layers, 0.0, History("dense", 2, SIZE, True), {})
    with pytest.raises(ValueError, match=r"layer drop 0\.1: must be 0"):
        Stack(layers, 0.1, history("dense"), {})
    with pytest.raises(ValueError, match=r"'gru'.*learnable_dense"):
        History("gru", DEPTH, SIZE, True)
