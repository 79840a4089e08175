"""Rows of the papers, rehearsed whole on a miniature of Multi30k's raw text: `scripts/rehearse.sh` does the rest."""

import json
import shutil
import subprocess

import pytest

from tests.cli.test_data_prep import write_raw
from tests.helpers import ROOT, environment


@pytest.mark.full
@pytest.mark.parametrize("row", ["ode/wmt16-en-ro/rk2-learnable", "floater/wmt14-en-de/floater-base"])
def test_a_row_of_a_paper_from_raw_text_to_a_record(tmp_path, row):
    """The second is warm-started from a Transformer, which is trained before."""
    clone = tmp_path / "clone"
    for folder in ("scripts", "data-prep", "configs", "ode_transformer"):
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
    more = {"RAW_DIR": str(write_raw(tmp_path / "raw", train=8000)), "PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1"}
    words = [clone / "scripts" / "rehearse.sh", row, "--output", tmp_path / "outcome.json"]
    done = subprocess.run(words, env=environment() | more, capture_output=True, text=True)
    logs = "".join(path.read_text() for path in clone.rglob("rehearsal.log"))
    assert done.returncode == 0, done.stderr + logs
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert not outcome["missing"], logs
    assert (outcome["rehearsed"][row]["updates"], outcome["rehearsed"][row]["scored"]) == (30, ["test_2016_flickr"])
