"""A run that is killed again and again ends where an uninterrupted one does."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
import yaml

from ode_transformer import checkpoints
from tests.helpers import ROOT, environment

KILLS = 20


@pytest.fixture()
def recipe(tmp_path):
    """A Macaron Net on the generated corpus, with dropout, for four short epochs."""
    tree = {
        "extends": str(ROOT / "configs" / "quickstart.yaml"),
        "description": "a short run",
        "rows": {
            "short": {
                "train": {
                    "arch": "macaron_tiny",
                    "flags": {
                        **{"dropout": 0.1, "max-epoch": 4, "keep-last-epochs": 3, "max-tokens": 3000},
                        **{"encoder-layers": 2, "decoder-layers": 2},
                        **{f"{s}-embed-dim": 32 for s in ("encoder", "decoder")},
                        **{f"{s}-ffn-embed-dim": 32 for s in ("encoder", "decoder")},
                    },
                },
                "average": {"last_epochs": 3},
                "generate": {"beam": 2, "flags": {"max-len-a": 1.2, "max-len-b": 5}},
            }
        },
    }
    (tmp_path / "killed.yaml").write_text(yaml.safe_dump(tree))
    return tmp_path / "killed.yaml"


def start(recipe, run_dir):
    words = ["scripts/reproduce.sh", f"{recipe}/short", "--run-dir", str(run_dir), "--cpu"]
    with (run_dir.parent / f"{run_dir.name}.log").open("a") as log:
        return subprocess.Popen(
            words, cwd=ROOT, env=environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def whole(run_dir):
    """Nothing that others read is there in part; fairseq's own copies of a checkpoint may be, until the next start."""
    for path in [run_dir / "record.json", *run_dir.glob("scores/*.json")]:
        if path.exists():
            json.loads(path.read_text())
    if (run_dir / "average.pt").exists():
        checkpoints.load(run_dir / "average.pt")
    for path in run_dir.glob("generate/*.txt"):
        assert "Generate test with beam=2" in path.read_text()


@pytest.mark.slow
def test_twenty_kills_change_nothing(recipe, tmp_path):
    assert start(recipe, tmp_path / "once").wait(timeout=900) == 0, (tmp_path / "once.log").read_text()
    rng = random.Random(0)
    killed = 0
    while killed < KILLS:
        process = start(recipe, tmp_path / "often")
        try:
            # Finished before its time was over? Then what follows is a run that has nothing left to do.
            assert process.wait(timeout=rng.uniform(0.2, 30)) == 0, (tmp_path / "often.log").read_text()
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        killed += 1
        time.sleep(0.1)
        whole(tmp_path / "often")
    assert start(recipe, tmp_path / "often").wait(timeout=900) == 0, (tmp_path / "often.log").read_text()
    once, often = (json.loads((tmp_path / name / "record.json").read_text()) for name in ("once", "often"))
    assert once["scores"] == often["scores"]
    assert once["averaged"] == often["averaged"]
    weights = [checkpoints.load(tmp_path / name / "average.pt")["model"] for name in ("once", "often")]
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])
    curves = [[(e["num_updates"], e["valid_loss"]) for e in r["training"]["curve"]] for r in (once, often)]
    assert curves[0] == curves[1]
