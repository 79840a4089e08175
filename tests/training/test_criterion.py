"""The chunked criterion is fairseq's for every kind of model, and refuses what it cannot do by name."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import criterions
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from torch import nn

from ode_transformer.training.criterion import NAME
from ode_transformer.training.losses import projected_cross_entropy
from tests.helpers import Kernels, batch, raises, small, task

OWN = {"share-all-embeddings": None, "no-share-all-embeddings": True}
VARIANTS = ["macaron", "rk2_learnable_tiny", "floater_tiny", "transevolve_fullff_2_tiny"]


def criterion(name: str, **options):
    config = LabelSmoothedCrossEntropyCriterionConfig(**{"label_smoothing": 0.1, "sentence_avg": False} | options)
    return criterions.CRITERION_REGISTRY[name].build_criterion(config, task())


def sample(sizes=(5, 3, 6)) -> dict:
    src, lengths, prev = batch(sizes=sizes)
    target = torch.cat((prev[:, 1:], torch.full((len(prev), 1), 1)), dim=1)
    tokens = int((target != 1).sum())
    net_input = {"src_tokens": src, "src_lengths": lengths, "prev_output_tokens": prev}
    return {"net_input": net_input, "target": target, "ntokens": tokens, "nsentences": len(prev)}


def losses(m, options=None):
    """What each criterion gives: loss, size, log, gradients."""
    for name in (NAME, "label_smoothed_cross_entropy"):
        m.zero_grad()
        loss, size, log = criterion(name, **(options or {}))(m, sample())
        loss.backward()
        yield loss, size, log, {n: p.grad.clone() for n, p in m.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("shared", [True, False], ids=["tied", "own"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_fairseqs(variant, shared):
    m = small(variant, **({} if shared else OWN))
    ours, theirs = losses(m)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-6, atol=0)
    one, other = losses(m, {"ignore_prefix_size": 2, "label_smoothing": 0.3})
    torch.testing.assert_close(one[0], other[0], rtol=1e-6, atol=0)
    assert ours[1] == theirs[1] and ours[2].keys() == theirs[2].keys()
    for key in ours[2]:
        torch.testing.assert_close(torch.as_tensor(ours[2][key]), torch.as_tensor(theirs[2][key]), rtol=1e-6, atol=0)
    torch.testing.assert_close(ours[3], theirs[3], rtol=1e-4, atol=1e-5)


def test_no_score_for_every_symbol_of_every_token(monkeypatch):
    monkeypatch.setattr("ode_transformer.training.criterion._SCORES_ON_CPU", 120 * 2000)
    monkeypatch.setattr("ode_transformer.training.criterion._FEWEST", 1)
    m, many = small("macaron", symbols=2000).train(), sample(sizes=(60,) * 8)
    sizes = {}
    for name in (NAME, "label_smoothed_cross_entropy"):
        with Kernels() as made:
            criterion(name)(m, many)[0].backward()
        sizes[name] = made.numel
    # Four chunks; the last target of each sentence is padding.
    assert sizes == {NAME: 8 * 59 * 2000 / 4, "label_smoothed_cross_entropy": 8 * 60 * 2000}


class Distributed(nn.Module):
    """A model as fairseq wraps it with --find-unused-parameters: what the wrapper lacks is the model's."""

    def __init__(self, m):
        super().__init__()
        self.m, self.module = m, SimpleNamespace(find_unused_parameters=True)

    def forward(self, **inputs):
        return self.m(**inputs)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.m, name)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: small("macaron"), {"report_accuracy": True}, "cannot compute --report-accuracy"),
        (lambda: small("macaron", **OWN, **{"adaptive-softmax-cutoff": "10,20"}), {}, "cannot be .* with --adaptive"),
        (lambda: Distributed(small("macaron", **OWN)), {}, "cannot be combined with --find-unused-parameters unless"),
    ],
)
def test_what_it_cannot_do_is_named(make, options, message):
    raises(f"--criterion {NAME}: {message}", criterion(NAME, **options), make(), sample())


def test_an_embedding_that_is_the_projection_is_used_by_the_model_itself():
    assert criterion(NAME)(Distributed(small("macaron")), sample())[0].isfinite()


def test_in_autocast_the_loss_is_that_of_halves():
    m, its = small("macaron"), sample()
    with torch.autocast("cpu", torch.bfloat16):
        loss, features = criterion(NAME)(m, its)[0], m(**its["net_input"], features_only=True)[0]
    halves = (t.bfloat16() for t in (features.flatten(0, 1), m.decoder.output_projection.weight))
    expected = projected_cross_entropy(*halves, its["target"].flatten(), 0.1, 1, 512)[0]
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("projection", [nn.Linear(16, 50), nn.Sequential(nn.Linear(16, 50, bias=False))])
def test_a_projection_that_is_more_than_a_matrix_is_named(projection):
    m = small("macaron")
    m.decoder.output_projection = projection
    m.forward = None  # fairseq's LSTM would not take the criterion's arguments
    raises("needs a decoder with an output_projection without bias", criterion(NAME), m, sample())
