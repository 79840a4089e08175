"""Dropout from sixteen bits an element: probability, scale, gradients, seeds."""

import pytest
import torch

from ode_transformer.modules.dropout import Dropout, dropout
from tests.helpers import small


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_kept_is_scaled_and_as_much_as_should_be(p, dtype):
    torch.manual_seed(0)
    x = torch.ones(1001, 1003, dtype=dtype)
    y = dropout(x, p)
    scale = torch.tensor(1 / (1 - p), dtype=torch.float64)
    assert y.dtype == dtype
    torch.testing.assert_close(y[y != 0].double(), scale.expand((y != 0).sum()), rtol=0.02, atol=0)
    share = (y != 0).double().mean()
    assert abs(share - (1 - p)) < 5 * (p * (1 - p) / x.numel()) ** 0.5 + 2**-17
    # By rows and by columns too, and neighbors are independent.
    kept = (y != 0).double()
    for dim in (0, 1):
        assert kept.mean(dim).std() < 1.2 * (p * (1 - p) / x.size(dim)) ** 0.5 + 1e-9
    together = (kept[:, 1:] * kept[:, :-1]).mean()
    assert abs(together - (1 - p) ** 2) < 0.003


def test_what_is_kept_is_scaled_by_the_rounded_probability():
    """7 of 65,536 are kept, where it was asked for 6.55."""
    kept = dropout(torch.ones(1000, 1000, dtype=torch.float64), 0.9999)
    assert kept.unique().tolist() == [0.0, 65536 / 7]


def test_gradients_pass_where_values_do():
    x = torch.randn(7, 5, 3, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    torch.testing.assert_close(y, x * x.grad)
    assert 0 < (x.grad == 0).sum() < x.numel()


def test_it_follows_the_seed_and_draws_anew():
    x = torch.ones(100, 100)
    torch.manual_seed(1)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(1)
    assert torch.equal(dropout(x, 0.5), first) and not torch.equal(first, second)


def test_the_ends_and_nothing():
    x = torch.randn(3, 4)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 1.0), torch.zeros_like(x))
    assert dropout(x[:0], 0.5).shape == (0, 4)
    retained = Dropout(0.5).eval()
    assert torch.equal(retained(x), x)
    retained.apply_during_inference = True  # as fairseq-generate --retain-dropout sets it
    assert not torch.equal(retained(x), x)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("TransformerEncoder", {"encoder"}),
        ("TransformerDecoderLayerBase", {"decoder.layers.0"}),
        ("MultiheadAttention", {f"{path}.0.{name}" for path, name in (
            ("encoder.layers", "self_attn"), ("encoder.layers", "macaron_attn"), ("decoder.layers", "self_attn"),
            ("decoder.layers", "macaron_attn"), ("decoder.layers", "encoder_attn"))}),
    ],
)  # fmt: skip
def test_dropout_is_retained_in_decoding_by_fairseqs_names(name, kept):
    m = small("macaron", **{"splitting": "strang-swapped", "encoder-layers": 1, "decoder-layers": 1}).eval()
    m.make_generation_fast_(retain_dropout=True, retain_dropout_modules=[name])
    found = {path for path, module in m.named_modules() if getattr(module, "apply_during_inference", False)}
    suffixes = (".dropout_module", ".activation_dropout_module")
    assert {path.removesuffix(suffixes[1]).removesuffix(suffixes[0]) for path in found} == kept
