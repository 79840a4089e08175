"""Random rotations against equation 10 written out, whole matrices and all."""

import math
from types import SimpleNamespace

import pytest
import torch

from ode_transformer.modules.feed_forward import RandomProjection
from tests.helpers import batch, raises, small

N_IN, N_OUT, L = 6, 24, 3


def whole(size, out, index, form, seed_generator):
    """Equation 10, (size, size), drawn as the module draws it."""
    w = torch.randn(size, size // 2, generator=seed_generator, dtype=torch.float64) * size
    matrix = torch.empty(size, size, dtype=torch.float64)
    for i in range(size):
        for j in range(size // 2):
            if form == "paper":
                angle = w[i, j] * (j + 1) * (index + 1) / (size * L / (2 * math.pi))
                scale = 1 / math.sqrt(size)
            else:
                angle = w[i, j] * j * index * math.pi / size
                scale = 1 / math.sqrt(out)
            matrix[i, j], matrix[i, j + size // 2] = math.sin(angle) * scale, math.cos(angle) * scale
    return matrix


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize(("n_in", "n_out"), [(N_IN, N_OUT), (N_OUT, N_IN)])
@pytest.mark.parametrize("form", ["paper", "released"])
def test_the_low_rank_form_is_exact(form, n_in, n_out, index):
    projection = RandomProjection(n_in, n_out, index, L, form, seed=5)
    torch.nn.init.normal_(projection.bias)
    g = torch.Generator().manual_seed(5)
    u, v = whole(n_in, n_out, index, form, g), whole(n_out, n_out, index, form, g)
    s = torch.zeros(n_in, n_out, dtype=torch.float64)
    s.diagonal().copy_(projection.singular_values.detach())
    h = torch.randn(4, n_in, dtype=torch.float64)
    expected = h @ u @ s @ v + projection.bias
    for form in (projection, projection.folded()):
        torch.testing.assert_close(form(h.float()).double(), expected, atol=1e-5, rtol=1e-5)


def test_generation_has_one_matrix_for_each_random_projection():
    m = small("transevolve_randomff_2_tiny")
    expected = m(*batch())[0]
    m.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace()))
    assert not any(isinstance(module, RandomProjection) for module in m.modules())
    torch.testing.assert_close(m(*batch())[0], expected, atol=1e-5, rtol=0)


def test_alignments_of_a_model_without_weights_of_attention_are_refused():
    m, asked = small("transevolve_randomff_2_tiny"), SimpleNamespace(print_alignment="hard")
    raises("--print-alignment: the model keeps no weights", m.prepare_for_inference_, SimpleNamespace(generation=asked))
