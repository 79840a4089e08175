"""The README's first command, at full length: a system that is learnt."""

import json
import subprocess

import pytest

from tests.helpers import ROOT, environment


@pytest.mark.slow
def test_the_quickstart_reaches_its_bleu(tmp_path):
    env = environment()
    env.pop("OMP_NUM_THREADS")
    done = subprocess.run(["scripts/quickstart.sh", "--run-dir", tmp_path], cwd=ROOT, env=env, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["scores"]["generated"]["sentences"] == 500
    assert record["scores"]["generated"]["tokenised"]["bleu"] >= 90
    assert done.stdout.count("\nsource ") == done.stdout.count("\nours ") == 10
