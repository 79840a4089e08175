"""Methods that are registered outside this package, in a process that has not imported it before."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq_cli import preprocess

from ode_transformer import checkpoints, config
from ode_transformer.models.ode import OdeConfig
from tests.helpers import ROOT, environment, flags, write_parallel

PLUGIN = str(Path(__file__).parent / "my_methods")

# fairseq-train, then fairseq-generate; the order of the method is what its tableau promises.
BOTH = """
import sys
from fairseq_cli import generate, train

middle = sys.argv.index("then")
training, generation = sys.argv[1:middle], sys.argv[middle + 1 :]
for command, words in ((train, training), (generate, generation)):
    sys.argv = [command.__name__, *words]
    command.cli_main()
from ode_transformer.numerics.integrators import INTEGRATORS
print("order", INTEGRATORS["ssp3"].order)
"""


def test_a_plugin_trains_and_translates(tmp_path):
    raw = write_parallel(tmp_path / "raw")
    words = ["-s", "xx", "-t", "yy", "--joined-dictionary", "--destdir", str(tmp_path / "bin")]
    words += [word for split in ("train", "valid", "test") for word in (f"--{split}pref", str(raw / split))]
    preprocess.main(options.get_preprocessing_parser().parse_args(words))
    shared = {"user-dir": PLUGIN, "task": "translation", "source-lang": "xx", "target-lang": "yy", "cpu": True,
              "num-workers": 0}  # fmt: skip
    training = flags(
        {
            **shared, "arch": "ssp3_tiny", "encoder-layers": 2, "decoder-layers": 1, "share-all-embeddings": True,
            "optimizer": "adam", "lr": 0.001, "criterion": "chunked_label_smoothed_cross_entropy", "max-tokens": 200,
            "max-update": 3, "save-dir": tmp_path / "run", "no-progress-bar": True,
        }
    )  # fmt: skip
    last = tmp_path / "run" / "checkpoint_last.pt"
    generation = flags({**shared, "path": last, "beam": 2, "max-len-b": 10, "gen-subset": "test",
                                 "required-batch-size-multiple": 1})  # fmt: skip
    data = str(tmp_path / "bin")
    words = [sys.executable, "-c", BOTH, data, *training, "then", data, *generation]
    environment_ = {**environment(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment_, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("H-") == 12 and done.stdout.endswith("order 3\n")
    state = torch.load(last, weights_only=True)
    assert (state["cfg"]["model"]["arch"], state["cfg"]["model"]["integrator"]) == ("ssp3_tiny", "ssp3")
    assert all(tensor.isfinite().all() for tensor in checkpoints.load(last)["model"].values())


def test_an_architecture_whose_name_is_taken_is_refused():
    before = config.PRESETS["rk2_tiny"]
    with pytest.raises(ValueError, match="rk2_tiny"):
        config.register_architectures("ode", OdeConfig, {"rk2_tiny": {"encoder_layers": 1}})
    assert config.PRESETS["rk2_tiny"] == before
