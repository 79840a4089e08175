"""From raw pairs to a scored model and a translated sentence, with the commands that a user types."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.helpers import ROOT, environment

DATA = Path(os.environ.get("ODE_TRANSFORMER_DATA", "/nonexistent"))
PAIRS = 8_000
SMALL = "--max-epoch 5 --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 32 " + (
    "--decoder-embed-dim 32 --decoder-ffn-embed-dim 32 --encoder-attention-heads 2 --decoder-attention-heads 2"
)


def command(*words, **more):
    words = ["ode-transformer", *map(str, words)]
    return subprocess.run(words, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=True, **more)


@pytest.mark.slow
def test_three_commands(tmp_path):
    archive = DATA / "deen_mix.tar.xz"
    if not archive.is_file():
        pytest.skip("ODE_TRANSFORMER_DATA holds no deen_mix.tar.xz")
    for lang in ("de", "en"):
        with tarfile.open(archive) as members:
            found = members.extractfile(f"deen_mix/train.{lang}").read().decode().split("\n")
        (tmp_path / f"my.{lang}").write_text("".join(f"{line}\n" for line in found[:-1:31][:PAIRS]), encoding="utf-8")

    command("prepare", "--train", tmp_path / "my", "--langs", "de", "en", "--out", tmp_path / "mine")
    command("run", f"{tmp_path}/mine.yaml/macaron-tiny", "--run-dir", tmp_path / "run", "--cpu", "--", *SMALL.split())
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    scores = record["scores"]["held-out"]
    assert scores["reference"] == "raw" and scores["sentences"] == PAIRS // 20
    assert record["training"]["curve"][-1]["valid_loss"] < record["training"]["curve"][0]["valid_loss"]
    done = command("translate", tmp_path / "run", "--cpu", input="Ein Mann sitzt im Park.\n\nGuten Morgen.\n")
    first, empty, last = done.stdout.split("\n")[:-1]
    assert first and last and not empty
