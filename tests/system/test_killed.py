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


def write_recipe(folder):
    """A Macaron Net on the generated corpus, with dropout, for four short epochs; its data is its own."""
    folder.mkdir()
    flags = {"dropout": 0.1, "max-epoch": 4, "keep-last-epochs": 3, "max-tokens": 3000}
    flags |= {f"{s}-{what}": 32 for s in ("encoder", "decoder") for what in ("embed-dim", "ffn-embed-dim")}
    row = {"train": {"arch": "macaron_tiny", "flags": flags | {"encoder-layers": 2, "decoder-layers": 2}}}
    row |= {"average": {"last_epochs": 3}, "generate": {"beam": 2, "flags": {"max-len-a": 1.2, "max-len-b": 5}}}
    data = {"prepare": f"data-prep/prepare-quickstart.sh --out {folder}/data", "directory": f"{folder}/data"}
    tree = {"extends": f"{ROOT}/configs/quickstart.yaml", "data": data, "rows": {"short": row}}
    (folder / "killed.yaml").write_text(yaml.safe_dump(tree))


def start(folder):
    words = ["scripts/reproduce.sh", f"{folder}/killed.yaml/short", "--run-dir", str(folder / "run"), "--cpu"]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            words, cwd=ROOT, env=environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def whole(folder):
    """Nothing that others read is there in part; fairseq's own copies of a checkpoint may be, until the next start."""
    if (folder / "data").exists():
        names = {path.name for path in (folder / "data").iterdir()}
        assert {"manifest.json", "dict.de.txt", "test.de-en.en.bin"} <= names
    run = folder / "run"
    for path in [*run.glob("*.json"), *run.glob("scores/*.json")]:
        if path.exists():
            json.loads(path.read_text())
    if (run / "average.pt").exists():
        checkpoints.load(run / "average.pt")
    stamps = json.loads((run / "steps.json").read_text()) if (run / "steps.json").exists() else {}
    for path in run.glob("generate/*.txt") if "generate test" in stamps else []:
        assert "Generate test with beam=2" in path.read_text()


@pytest.mark.slow
def test_twenty_kills_change_nothing(tmp_path):
    """At random moments of every step; now and then the script alone, whose children go on."""
    write_recipe(tmp_path / "once")
    began = time.time()
    assert start(tmp_path / "once").wait(timeout=900) == 0, (tmp_path / "once" / "log").read_text()
    seconds = time.time() - began
    rng = random.Random(0)
    killed, folders = 0, []
    while killed < KILLS:
        if not folders or (folders[-1] / "run" / "record.json").exists():  # finished in spite of it: once more
            folders.append(tmp_path / f"often-{len(folders)}")
            write_recipe(folders[-1])
        process = start(folders[-1])
        try:
            process.wait(timeout=rng.uniform(0.02, 0.4) * seconds)
        except subprocess.TimeoutExpired:
            killed += 1
        if process.poll() is None:
            (os.kill if rng.random() < 0.25 else os.killpg)(process.pid, signal.SIGKILL)
        process.wait()
        whole(folders[-1])
    once = json.loads((tmp_path / "once" / "run" / "record.json").read_text())
    for folder in folders:
        assert start(folder).wait(timeout=900) == 0, (folder / "log").read_text()
        often = json.loads((folder / "run" / "record.json").read_text())
        assert once["scores"] == often["scores"] and once["averaged"] == often["averaged"]
        weights = [checkpoints.load(f / "run" / "average.pt")["model"] for f in (tmp_path / "once", folder)]
        assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])
        assert {e["num_updates"]: e["valid_loss"] for e in once["training"]["curve"]} == {
            e["num_updates"]: e["valid_loss"] for e in often["training"]["curve"]
        }
