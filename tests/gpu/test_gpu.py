"""What only a GPU can show; skipped where there is none. `scripts/gpu-suite.sh` runs it."""

import json
import logging
import re
import subprocess

import pytest
import torch
from fairseq import options
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.sequence_generator import SequenceGenerator
from fairseq_cli import train as train_cli

from ode_transformer.config import PRESETS
from ode_transformer.experiments.runs import training
from ode_transformer.numerics.flow import Flow
from ode_transformer.training import losses
from ode_transformer.training.criterion import NAME
from tests import helpers
from tests.helpers import OWN_SIZES, SMALL, VARIANTS, architectures, batch, flags, sample, small, task

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize("variant", sample(VARIANTS))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
def test_the_gpu_computes_what_the_cpu_computes(variant, dtype, tolerance):
    m = small(variant)
    src, lengths, prev = batch()
    reference, _ = m(src, lengths, prev)
    logits, _ = m.cuda().to(dtype)(src.cuda(), lengths.cuda(), prev.cuda())
    real = prev != 1
    torch.testing.assert_close(logits.cpu().float()[real], reference[real], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("variant", sample(VARIANTS))
def test_beam_search_finds_what_it_finds_on_the_cpu(variant):
    torch.manual_seed(0)
    m, (src, lengths, _), found = small(variant), batch(sizes=(4, 6, 5)), []
    for device in ("cpu", "cuda"):
        m.to(device)
        generator = SequenceGenerator([m], task().target_dictionary, beam_size=4, max_len_a=0, max_len_b=8)
        sample = {"net_input": {"src_tokens": src.to(device), "src_lengths": lengths.to(device)}}
        found.append([float(h["score"]) for sentence in generator.generate([m], sample) for h in sentence])
    assert found[1] == pytest.approx(found[0], abs=1e-4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    raw = helpers.write_parallel(tmp_path_factory.mktemp("raw"), splits=(("train", 2000), ("valid", 48), ("test", 48)))
    return helpers.binarise_pairs(raw, raw / "bin")


class Reports(logging.Handler):
    """What fairseq reports of a training, in its process."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        if record.name == "train_inner":
            self.found.append(json.loads(record.getMessage()))


def train_here(words):
    """Train in this process, because fairseq's import takes longer than most trainings."""
    logger, reports = logging.getLogger("fairseq.logging.progress_bar"), Reports()
    logger.addHandler(reports)
    logger.setLevel(logging.INFO)
    try:
        train_cli.main(helpers.configuration(options.get_training_parser(), words))
    finally:
        logger.removeHandler(reports)
        torch.compiler.reset()
    return reports.found


def train(data, save_dir, *more, devices=1, sizes=SMALL, launcher=()):
    """Return fairseq's reports of a training."""
    values = {
        **sizes, "user-dir": "ode_transformer", "arch": "macaron_tiny", "source-lang": "xx", "target-lang": "yy",
        "share-all-embeddings": True, "optimizer": "adam", "lr": 0.003, "criterion": "label_smoothed_cross_entropy",
        "label-smoothing": 0.1, "max-tokens": 2000, "log-format": "json", "log-interval": 10, "no-progress-bar": True,
        "save-dir": save_dir, "max-update": 100, "encoder-embed-dim": 64, "clip-norm": 1.0,
        "distributed-world-size": devices,
    }  # fmt: skip
    words = [str(data), *flags(values), *more]
    if devices == 1 and not launcher:
        return train_here(words)
    words = [*launcher, "fairseq-train", *words]
    done = subprocess.run(words, cwd=helpers.ROOT, env=helpers.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [json.loads(line) for line in re.findall(r"train_inner \| (\{.*\})", done.stdout)]


@pytest.mark.parametrize(
    "mode",
    [
        [],
        ["--fp16"],
        ["--bf16"],
        ["--amp"],
        *([f"--{precision}", "--optimizer", "fused_adam"] for precision in ("fp16", "bf16", "amp")),
        ["--checkpoint-activations"],
        ["--arch", "floater_tiny", "--fp16"],
        ["--arch", "floater_tiny", "--fp16", "--optimizer", "flow_adam", "--fp16-no-flatten-grads"],
        *(["--cuda-graphs", f"--{precision}"] for precision in ("fp16", "bf16", "amp")),
        ["--cuda-graphs", "--arch", "rk4_tiny", "--fp16", "--update-freq", "2", "--criterion", NAME],
        ["--cuda-graphs", "--compile-layers", "--fp16"],
        ["--cuda-graphs", "--checkpoint-activations", "--fp16"],
    ],
    ids=lambda mode: " ".join(mode) or "fp32",
)
def test_training_goes_down_in_every_mode(data, tmp_path, mode, caplog):
    with caplog.at_level(logging.INFO, "ode_transformer.training.graphs"):
        curve = train(data, tmp_path, *mode)
    assert ("--cuda-graphs: recorded" in caplog.text) == ("--cuda-graphs" in mode)
    losses = [float(entry["loss"]) for entry in curve]
    assert losses[-1] < 0.9 * losses[0]
    if "--fp16" in mode:
        assert float(curve[-1]["loss_scale"]) >= 1


@pytest.mark.parametrize("first", [["--cuda-graphs"], []], ids=["with", "without"])
def test_a_training_goes_on_with_and_without_graphs(data, tmp_path, first):
    second = [] if first else ["--cuda-graphs"]
    begun = train(data, tmp_path, "--fp16", *first, "--max-update", "60")
    resumed = train(data, tmp_path, "--fp16", *second)
    assert int(resumed[0]["num_updates"]) > 60
    assert float(resumed[-1]["loss"]) < float(begun[-1]["loss"])


def test_a_large_loss_scale_does_not_slow_amp_down(data, tmp_path):
    """With it an Adam of so large an epsilon hardly moves, if gradients are divided by it twice."""
    same = ("--optimizer", "fused_adam", "--adam-eps", "1e-6")
    plain = train(data, tmp_path / "fp32", *same)
    scaled = train(data, tmp_path / "amp", *same, "--amp", "--fp16-init-scale", str(2**14))
    assert float(scaled[-1]["loss"]) == pytest.approx(float(plain[-1]["loss"]), rel=0.05)


@pytest.mark.parametrize("arch", architectures(FairseqEncoderDecoderModel))
def test_a_hundred_updates_in_fp16_of_every_system(data, tmp_path, arch):
    own = OWN_SIZES.get(PRESETS[arch][0], {})
    sizes = {k: v for k, v in (SMALL | own).items() if v is not None}
    ours = ("--criterion", NAME, "--optimizer", "fused_adam")
    curve = train(data, tmp_path, "--arch", arch, "--fp16", *ours, sizes=sizes)
    assert float(curve[-1]["loss"]) < float(curve[0]["loss"])
    assert float(curve[-1]["loss_scale"]) >= 1


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
def test_the_loss_in_chunks_is_that_of_the_cpu(dtype, tolerance):
    g = torch.Generator().manual_seed(0)
    x, weight = torch.randn(200, 32, generator=g), 0.3 * torch.randn(900, 32, generator=g)
    target = torch.randint(0, 900, (200,), generator=g)
    target[::7] = 1
    found = []
    for device, kind in (("cpu", torch.float32), ("cuda", dtype)):
        inputs = [t.clone().to(device, kind).requires_grad_() for t in (x, weight)]
        loss, nll = losses.projected_cross_entropy(*inputs, target.to(device), 0.1, 1, tokens=22)
        loss.backward()
        found.append([t.float().cpu() for t in (loss.detach(), nll, *(t.grad for t in inputs))])
    torch.testing.assert_close(*found, atol=tolerance, rtol=tolerance)


def test_the_flow_waits_for_nothing():
    """No time of a step, no position is asked of the GPU, forward or backward."""
    flow, initial = Flow(32).cuda(), torch.zeros(3, 32, device="cuda", requires_grad=True)
    flow(initial, 40).sum().backward()  # libraries have to be loaded
    torch.cuda.set_sync_debug_mode("error")
    try:
        flow(initial, 40).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert initial.grad is not None


@pytest.mark.parametrize("layers", [24, 48])
@pytest.mark.parametrize("form", ["paper", "released"])
def test_deep_models_train_in_half_precision(data, tmp_path, form, layers):
    more = ["--fp16", "--arch", "rk2_learnable_tiny", "--ode-residual", form, "--encoder-layers", str(layers)]
    curve = train(data, tmp_path, *more, "--lr", "0.001", "--warmup-updates", "40", "--lr-scheduler", "inverse_sqrt")
    assert float(curve[-1]["loss"]) < float(curve[0]["loss"])
    assert float(curve[-1]["loss_scale"]) >= 1


@pytest.mark.full
def test_torchrun_starts_a_training(data, tmp_path):
    curve = train(data, tmp_path, launcher=training._torchrun(training.TrainingPlace()))
    assert float(curve[-1]["loss"]) < float(curve[0]["loss"])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
@pytest.mark.parametrize("more", [[], ["--fp16", "--cuda-graphs"]], ids=" ".join)
@pytest.mark.parametrize("backend", ["pytorch_ddp", "legacy_ddp"])
def test_two_gpus(data, tmp_path, backend, more):
    curve = train(data, tmp_path, "--ddp-backend", backend, *more, devices=2)
    assert float(curve[-1]["loss"]) < float(curve[0]["loss"])
