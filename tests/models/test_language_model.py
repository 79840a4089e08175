"""The language model: decoding, causality, counts, what is refused; training and evaluation by fairseq's programs."""

import json
import random

import pytest
import torch
import yaml
from fairseq import options
from fairseq.models import FairseqLanguageModel, build_model
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from fairseq_cli import eval_lm as eval_lm_cli

from ode_transformer import checkpoints
from ode_transformer.experiments import cli
from ode_transformer.experiments.text.binarised import binarise_files
from tests import helpers
from tests.helpers import ROOT, USER_DIR, architectures, configure, dictionary, flags, idle, perturbed, raises, typed

TINY = {"decoder-embed-dim": 16, "decoder-ffn-embed-dim": 24, "decoder-attention-heads": 2, "dropout": 0.0}
VARIANTS = {
    **{arch: {"arch": arch} for arch in architectures(FairseqLanguageModel)},
    "rk2-learnable": {"decoder-integrator": "heun", "coefficients": "sigmoid"},
    "released-rk4": {"decoder-integrator": "rk4", "ode-residual": "released"},
    "multistep": {"decoder-integrator": "multistep", "decoder-history": "none"},
    "macaron": {"splitting": "strang", "relative-positions": "none", "decoder-history": "none"},
    "learned-dense-tied": {"decoder-history": "learnable_dense", "share-decoder-input-output-embed": True},
    "attention": {"decoder-history": "attention", "splitting": "parallel"},
    "corrector": typed("--decoder-integrator heun --coefficients ema --decoder-history corrector --rk-norm"),
    "nesterov": typed(
        "--decoder-integrator nesterov --decoder-history none --ode-function substeps --velocity-embedding"
    ),
    "floater": {"position-encoder": "floater"},
    "relative-values": {"relative-positions": "keys-values"},
}


def language_model(arch="ode_transformer_lm_ptb_2l", **values):
    cfg = configure(arch, {"task": "language_modeling", "tokens-per-sample": 32, **values})
    d = dictionary(50)
    return build_model(cfg, LanguageModelingTask(LanguageModelingConfig(tokens_per_sample=32), d, d))


def test_options_mean_what_they_mean_elsewhere_and_samples_are_as_long_as_the_tasks():
    cfg = helpers.parse("ode_transformer_lm", {"task": "language_modeling"})
    assert cfg.model.tokens_per_sample == cfg.task.tokens_per_sample
    for option, length in (("tokens-per-sample", 3000), ("max-target-positions", 4000)):
        assert language_model(**TINY | {option: length}).max_positions() == length
    assert language_model(**TINY).decoder.layer_norm is None
    assert language_model(**TINY, **{"decoder-final-norm": True}).decoder.layer_norm is not None


@pytest.fixture(params=VARIANTS)
def m(request):
    return perturbed(language_model(**TINY | VARIANTS[request.param])).eval()


def tokens(length=9, count=3, symbols=50):
    return torch.randint(4, symbols, (count, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_token_depends_on_the_earlier_ones_alone(m):
    """Decoded step by step as at once; neither padding on the left nor a later token changes it."""
    x = tokens()
    scores = m(x)[0]
    torch.testing.assert_close(helpers.stepwise(m.decoder, x), scores, atol=1e-5, rtol=1e-5)
    padded = torch.cat((torch.ones(3, 2, dtype=torch.long), x), dim=1)
    torch.testing.assert_close(m(padded)[0][:, 2:], scores, atol=1e-5, rtol=1e-5)
    x[:, 5:] = 7
    assert torch.equal(m(x)[0][:, :5], scores[:, :5]) and not torch.equal(m(x)[0][:, 5:], scores[:, 5:])


def test_every_parameter_learns(m):
    m.train()(tokens())[0].log_softmax(-1)[..., 7].sum().backward()
    assert not idle(m)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("lm"), random.Random(0)
    for split, count in (("train", 150), ("valid", 40), ("test", 30)):
        lines = (" ".join(rng.choice("abcdefgh") * 2 for _ in range(rng.randint(3, 9))) for _ in range(count))
        (folder / split).write_text("".join(f"{line}\n" for line in lines))
    binarise_files({split: folder / split for split in ("train", "valid", "test")}, folder / "bin")
    return folder / "bin"


def evaluated(data, path, subset, tokens_per_sample):
    """What fairseq-eval-lm finds of a checkpoint."""
    values = {"user-dir": USER_DIR, "task": "language_modeling", "tokens-per-sample": tokens_per_sample, "path": path,
              "sample-break-mode": "none", "max-tokens": 600, "cpu": True, "num-workers": 0, "gen-subset": subset,
              "required-batch-size-multiple": 1}  # fmt: skip
    parser = options.get_eval_lm_parser("language_modeling")
    return eval_lm_cli.main(helpers.configuration(parser, [str(data), *flags(values)]))


def test_evaluation_has_the_loss_of_training(data, tmp_path):
    values = {"task": "language_modeling", "arch": "ode_transformer_lm_ptb_1l", **TINY, **VARIANTS["rk2-learnable"],
              "optimizer": "fused_adam", "criterion": "chunked_label_smoothed_cross_entropy", "label-smoothing": 0.0,
              "lr": 0.01, "max-epoch": 3, "save-dir": tmp_path, "tokens-per-sample": 32, "sample-break-mode": "none",
              "max-tokens": 600, "batch-size": None}  # fmt: skip
    helpers.train(data, **values)
    states = [checkpoints.load(tmp_path / f"checkpoint{epoch}.pt") for epoch in (1, 3)]
    first, last = (state["extra_state"]["val_loss"] for state in states)
    assert last < first
    found = evaluated(data, tmp_path / "checkpoint3.pt", "valid", 32)
    assert found["loss"] == pytest.approx(last, rel=1e-3)  # three digits are logged
    assert found["perplexity"] == pytest.approx(2**last, rel=1e-2)


@pytest.mark.full
def test_a_recipe_trains_and_its_perplexity_is_that_of_training(data, tmp_path):
    run_dir, row = tmp_path / "run", "rk4-2-released"
    tree = {
        "extends": str(ROOT / "configs" / "ptb-short.yaml"),
        "data": {"prepare": "true", "directory": str(data)},
        "train": {"flags": {"max-tokens": 600, "lr": 0.01, "num-workers": 0}},
        "rows": {row: {"train": {"flags": {"decoder-embed-dim": 16, "decoder-ffn-embed-dim": 16}}}},
    }
    (tmp_path / "lm.yaml").write_text(yaml.safe_dump(tree))
    assert cli.main(["run", f"{tmp_path}/lm.yaml/{row}", "--cpu", "--run-dir", str(run_dir)]) == 0
    record = json.loads((run_dir / "record.json").read_text())
    losses = [entry["valid_loss"] for entry in record["training"]["curve"]]
    assert len(losses) == 3 and losses[-1] < losses[0]
    test, valid = (record["scores"][f"ptb_{split}"]["perplexity"]["value"] for split in ("test", "valid"))
    assert valid == pytest.approx(2 ** min(losses), rel=1e-3)  # three digits are logged
    of_fairseq = evaluated(data, run_dir / "average.pt", "test", 512)
    assert test == pytest.approx(float(of_fairseq["perplexity"]), rel=1e-3) and abs(test - valid) > 2e-3 * valid
    assert record["averaged"] == ["checkpoint_best.pt"]


def test_samples_of_the_task_that_are_longer_than_the_models_are_refused():
    d = dictionary(50)
    its_task = LanguageModelingTask(LanguageModelingConfig(tokens_per_sample=2048), d, d)
    raises(r"tokens_per_sample=2048", build_model, configure("ode_transformer_lm_ptb_1l", TINY), its_task)
