"""The loss in chunks is the loss: values, gradients, padding, precision, and memory that does not grow with tokens."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from ode_transformer.training import losses
from ode_transformer.training.losses import projected_cross_entropy

PAD = 1


def data(count, size, width, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(size, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    return x, weight, torch.randint(0, size, (count,), generator=generator)


def whole(x, weight, target, smoothing):
    """fairseq's, of the whole log-softmax."""
    log_p = torch.log_softmax(x @ weight.t(), dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))
    loss, nll = label_smoothed_nll_loss(log_p, target, smoothing, ignore_index=PAD)
    return loss, nll


@settings(deadline=None, max_examples=50)
@given(
    count=st.integers(1, 40),
    size=st.integers(3, 30),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    tokens=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_the_whole(count, size, smoothing, tokens, seed):
    x, weight, target = data(count, size, 5, seed=seed)
    found, found_nll = projected_cross_entropy(x, weight, target, smoothing, PAD, tokens)
    loss, nll = whole(x, weight, target, smoothing)
    torch.testing.assert_close((found, found_nll), (loss, nll))
    ours, theirs = (torch.autograd.grad(3 * each, (x, weight)) for each in (found, loss))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_as_exact_as_the_whole_in_half_precision(dtype):
    x, weight, target = data(64, 3000, 16, dtype)
    with torch.no_grad():
        x, weight = (t.detach().mul(0.1).requires_grad_() for t in (x, weight))
    exact_in = [t.detach().double().requires_grad_() for t in (x, weight)]
    exact = torch.autograd.grad(whole(*exact_in, target, 0.1)[0], exact_in)
    # As a trainer with a loss scale does, so that nothing underflows in the whole.
    theirs = torch.autograd.grad(128 * whole(x, weight, target, 0.1)[0], (x, weight))
    ours = torch.autograd.grad(128 * projected_cross_entropy(x, weight, target, 0.1, PAD, 512)[0], (x, weight))
    for a, b, c in zip(ours, theirs, exact, strict=True):
        error, other = ((g.double() / 128 - c).norm() / c.norm() for g in (a, b))
        assert a.dtype == dtype and error < 1.2 * other + 1e-4


def test_a_symbol_of_every_sentence_does_not_overflow_in_fp16():
    """With a loss scale of 1 its gradient has to be finite where fp16 can hold it, whatever factors are used within."""
    torch.manual_seed(0)
    x, weight = torch.randn(3000, 8) + 1, 0.1 * torch.randn(50, 8)
    target = torch.full((3000,), 7)
    exact, ours = [
        torch.autograd.grad(projected_cross_entropy(*inputs, target, 0.1, PAD, 512)[0], inputs)
        for inputs in ([t.to(dtype).requires_grad_() for t in (x, weight)] for dtype in (torch.float32, torch.float16))
    ]
    assert exact[1].abs().max() * losses._FP16_SCALE > torch.finfo(torch.float16).max
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=0.01, atol=0.01 * float(b.abs().max()))


class Elsewhere(TorchFunctionMode):
    """Tensors that say that they are on a GPU, as far as Python asks them; they are computed here."""

    GPU = torch.device("meta")  # one that a CPU can name

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function == torch.Tensor.device.__get__:  # a new object each time
            return self.GPU
        kwargs = {name: value for name, value in (kwargs or {}).items() if value is not self.GPU}
        return function(*args, **kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_padding_counts_for_nothing_on_a_gpu_either(dtype):
    """There the rows of padding stay, since their number is unknown, and must leave no trace in value or gradient."""
    x, weight, target = data(30, 40, 8, dtype)
    target[::3] = PAD
    expected = whole(*(t.detach().double() for t in (x, weight)), target, 0.1)
    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    gradients = torch.autograd.grad(whole(*exact, target, 0.1)[0], exact)
    with Elsewhere():
        loss, nll = projected_cross_entropy(x, weight, target, 0.1, PAD, 12)
    ours = torch.autograd.grad(128 * loss, (x, weight))
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.02, "rtol": 0.02}
    torch.testing.assert_close((loss.detach().double(), nll.double()), expected, **tolerance)
    torch.testing.assert_close([found.double() / 128 for found in ours], gradients, **tolerance)
    assert not ours[0][target == PAD].any() and ours[0][target != PAD].any(-1).all()


def test_only_what_is_needed_is_computed():
    """Products as large as that of the scores; the one that is added to the gradient of W is not counted."""
    x, weight, target = data(9, 11, 4)

    def products(*inputs):
        with FlopCounterMode(display=False) as counter:
            _, nll = projected_cross_entropy(*inputs, target, 0.1, PAD, 512)
        assert not nll.requires_grad
        return counter.get_total_flops() // (2 * int((target != PAD).sum()) * 11 * 4)

    assert [products(x, weight), products(x, weight.detach()), products(x.detach(), weight)] == [2, 2, 1]
    with torch.no_grad():
        assert products(x, weight) == 1
