"""What people do with a fairseq model, through fairseq's own commands, on a tiny task."""

import contextlib
import io
import json
import logging
import re
import shutil
import socket
import subprocess
import sys

import pytest
import torch
from fairseq import options
from fairseq_cli import generate as generate_cli
from fairseq_cli import hydra_train as hydra_cli
from fairseq_cli import interactive as interactive_cli
from fairseq_cli import train as train_cli
from fairseq_cli import validate as validate_cli
from torch.multiprocessing.spawn import ProcessRaisedException

from ode_transformer import checkpoints
from ode_transformer.config import PRESETS, under_hydra
from ode_transformer.errors import OdeTransformerError, print_sentence
from ode_transformer.models.macaron import MacaronModel
from tests import helpers
from tests.helpers import ROOT, SMALL, USER_DIR, configuration, environment, flags, write_parallel

TRAINING = {
    "task": "translation", "source-lang": "xx", "target-lang": "yy", "optimizer": "adam", "lr": 0.01,
    "criterion": "label_smoothed_cross_entropy", "label-smoothing": 0.1, "max-tokens": 200, "log-format": "json",
    "log-interval": 1, "no-progress-bar": True, "cpu": True, "share-all-embeddings": True, "seed": 3,
    "user-dir": USER_DIR, "num-workers": 0,
}  # fmt: skip

HYDRA = {
    "common.user_dir": USER_DIR, "common.cpu": "true", "task": "translation", "task.source_lang": "xx",
    "task.target_lang": "yy", "optimizer": "adam", "+model.share_all_embeddings": "true",
    "criterion": "cross_entropy", "lr_scheduler": "inverse_sqrt", "lr_scheduler.warmup_updates": 4,
    "optimization.lr": "[0.01]", "optimization.max_update": 2, "dataset.max_tokens": 200, "dataset.num_workers": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    raw = write_parallel(tmp_path_factory.mktemp("raw"))
    return helpers.binarise_pairs(raw, raw / "bin")


def train(data, save_dir, arch="macaron_tiny", **more):
    helpers.train(data, **{**TRAINING, **SMALL, "arch": arch, "save-dir": save_dir, "max-epoch": 2, **more})
    return save_dir


def on_data(data, path, **more):
    """The words of a command that reads the task's data and a checkpoint."""
    values = {"user-dir": USER_DIR, "task": "translation", "source-lang": "xx", "target-lang": "yy", "path": path}
    return [str(data), *flags(values | {"cpu": True, "num-workers": 0, "required-batch-size-multiple": 1} | more)]


BEAM = {"beam": 2, "max-len-b": 10}


def generate(data, path, **more):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        words = on_data(data, path, **BEAM, **more)
        generate_cli.main(configuration(options.get_generation_parser(), words))
    return output.getvalue()


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    return train(data, tmp_path_factory.mktemp("trained"))


def test_generate_validate_and_interactive(data, trained, tmp_path, capsys):
    checkpoint = trained / "checkpoint_last.pt"
    out = generate(data, checkpoint, **{"print-alignment": True})
    assert len(re.findall(r"^A-\d+\t\d+-\d+", out, re.MULTILINE)) == 12
    hypotheses = dict(re.findall(r"^H-(\d+)\t.*\t(.*)", out, re.MULTILINE))

    words = on_data(data, checkpoint, **{"valid-subset": "valid", "max-tokens": 200})
    parsers = [options.get_validation_parser() for _ in range(2)]
    override = options.parse_args_and_arch(parsers[1], words, suppress_defaults=True)
    validate_cli.main(configuration(parsers[0], words), override_args=override)

    sources = re.findall(r"^S-(\d+)\t(.*)", out, re.MULTILINE)[:3]
    typed = tmp_path / "typed"
    typed.write_text("".join(f"{text}\n" for _, text in sources))
    words = on_data(data, checkpoint, **BEAM, input=typed)
    interactive_cli.main(configuration(options.get_interactive_generation_parser(), words))
    answers = re.findall(r"^H-\d+\t.*\t(.*)", capsys.readouterr().out, re.MULTILINE)
    assert answers == [hypotheses[number] for number, _ in sources] and len(hypotheses) == 12


def test_from_pretrained(data, trained):
    hub = MacaronModel.from_pretrained(str(trained), "checkpoint_last.pt", str(data))
    assert isinstance(hub.translate("a b c", beam=1), str)


def test_resuming_equals_not_stopping(data, tmp_path):
    """With batches anew for each epoch; else fairseq makes others in a process that begins in the middle."""
    batches = {"max-tokens": 60, "update-epoch-batch-itr": "True", "dropout": 0.1, "optimizer": "fused_adam"}
    whole = train(data, tmp_path / "whole", **batches)
    for epochs in (1, 2):
        parts = train(data, tmp_path / "parts", **batches, **{"max-epoch": epochs})
    models = [checkpoints.load(d / "checkpoint_last.pt")["model"] for d in (whole, parts)]
    for name, tensor in models[0].items():
        # Softmax cancels a bias of the keys: its gradient is rounding alone, which Adam blows up to full steps.
        if not name.endswith("k_proj.bias"):
            torch.testing.assert_close(models[1][name], tensor, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("program", ["fairseq-train", pytest.param("fairseq-hydra-train", marks=pytest.mark.full)])
def test_what_a_model_refuses_ends_in_a_sentence(data, tmp_path, program):
    """The sentence is on standard error, without a traceback; here TransEvolve with a dictionary per language."""
    folder = shutil.copytree(data, tmp_path / "data")
    with open(folder / "dict.yy.txt", "a") as file:
        file.write("more 1\n")
    values = TRAINING | {"arch": "transevolve_fullff_1_tiny", "share-all-embeddings": None, "save-dir": tmp_path}
    words = [folder, *flags({k: v for k, v in values.items() if v is not None})]
    if program == "fairseq-hydra-train":
        overrides = HYDRA | {"task.data": folder, "hydra.run.dir": tmp_path, "checkpoint.save_dir": tmp_path}
        words = [*under_hydra(*PRESETS[values["arch"]]), *(f"{k}={v}" for k, v in overrides.items())]
    done = subprocess.run([program, *words], cwd=ROOT, env=environment(), text=True, capture_output=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"{program}: error: --share-all-embeddings requires a joined")
    assert "--no-share-all-embeddings" in done.stderr


def test_an_error_that_became_another_ends_in_a_sentence(capsys):
    """fairseq's trainer raises its own of a checkpoint, and PyTorch one of a process per GPU."""
    said = "-- Process 0 terminated:\n  raise\node_transformer.errors.OdeTransformerError: no more\n"
    print_sentence(ProcessRaisedException, ProcessRaisedException(said, 0, 1), None)
    assert capsys.readouterr().err.endswith(": error: no more\n")
    theirs = "Cannot load model parameters from checkpoint x.pt."
    error = Exception(theirs)
    error.__context__ = OdeTransformerError("encoder.history.weight has shape (3, 3)")
    print_sentence(Exception, error, None)
    assert capsys.readouterr().err.endswith(f": error: {theirs} encoder.history.weight has shape (3, 3)\n")


@pytest.fixture
def hydra_train(monkeypatch, tmp_path):
    """fairseq-hydra-train in this process; what it does to logging is undone."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    monkeypatch.chdir(tmp_path)

    def run(*words, **overrides):
        words = [*words, *(f"{k}={v}" for k, v in overrides.items())]
        monkeypatch.setattr(sys, "argv", ["fairseq-hydra-train", *words])
        hydra_cli.cli_main()

    yield run
    root.handlers[:], root.level = before


def test_hydra(data, tmp_path, hydra_train, capsys):
    overrides = HYDRA | {
        "task.data": data, "++model.dropout": 0.05, "++model.gate_sharing": "per-layer",
        "checkpoint.save_dir": tmp_path / "out",
    }  # fmt: skip
    words = under_hydra(*PRESETS["rk2_learnable_tiny"])
    hydra_train(*words, **overrides)
    state = torch.load(tmp_path / "out" / "checkpoint_last.pt", weights_only=True)
    model = state["cfg"]["model"]
    assert (model["dropout"], model["encoder_embed_dim"], str(model["gate_sharing"])) == (0.05, 128, "per-layer")
    assert "encoder.layers.0.coefficients.gate.weight" in state["model"]
    assert "H-0\t" in generate(data, tmp_path / "out" / "checkpoint_last.pt")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        hydra_train(*words, **overrides, **{"+model.encoder_leyers": 2})
    assert "encoder_leyers" in capsys.readouterr().err


RANKS = """
import os, sys
import ode_transformer.models  # in place of --user-dir
from fairseq_cli.train import cli_main

other = os.fork()
sys.argv += ["--distributed-rank", str(int(not other))]
cli_main()
assert not other or os.waitpid(other, 0)[1] == 0
"""
"""Two ranks of one training; they share what is imported, which takes seconds."""


def test_two_processes_learn_as_one_with_twice_the_batches(data, tmp_path, caplog):
    """The one way of data-parallel training that works on a CPU: gloo, one process per rank, legacy_ddp.

    The models come by import alone, which prints nothing.
    """
    updates, both, one = 4, tmp_path / "both", tmp_path / "one"
    values = TRAINING | SMALL | {"arch": "floater_tiny", "max-update": updates, "max-tokens": 50}
    values |= {"optimizer": "fused_adam", "criterion": "chunked_label_smoothed_cross_entropy"}  # as in our recipes
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranked = {"distributed-world-size": 2, "distributed-no-spawn": True, "distributed-backend": "gloo",
              "distributed-init-method": f"tcp://127.0.0.1:{port}", "ddp-backend": "legacy_ddp"}  # fmt: skip
    by_import = {k: v for k, v in (values | ranked | {"save-dir": both}).items() if k != "user-dir"}
    words = [sys.executable, "-c", RANKS, data, *flags(by_import)]
    done = subprocess.run(words, cwd=ROOT, env=environment(), text=True, capture_output=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    together = [float(json.loads(line)["loss"]) for line in re.findall(r"train_inner:(\{.*\})", done.stderr)]

    caplog.set_level(logging.INFO)
    words = [str(data), *flags(values | {"update-freq": 2, "save-dir": one})]
    train_cli.main(configuration(options.get_training_parser(), words))
    alone = [float(json.loads(r.getMessage())["loss"]) for r in caplog.records if r.name == "train_inner"]
    assert len(alone) == updates and together == pytest.approx(alone, rel=1e-3)
    found, expected = (checkpoints.load(folder / "checkpoint_last.pt")["model"] for folder in (both, one))
    for name, tensor in expected.items():
        if not name.endswith("k_proj.bias"):  # without effect, a gradient of rounding
            torch.testing.assert_close(found[name], tensor, rtol=1e-2, atol=1e-3, msg=name)
