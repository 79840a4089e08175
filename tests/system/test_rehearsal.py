"""Rows of the papers, rehearsed whole on a miniature of Multi30k's raw text."""

import json
import shutil
import subprocess
import sys

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
    words = [sys.executable, "-m", "ode_transformer", "run", row, "--scale", "small", "--cpu"]
    done = subprocess.run(words, cwd=clone, env=environment() | more, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((clone / "runs" / "small" / row / "record.json").read_text())
    assert (record["training"]["curve"][-1]["num_updates"], [*record["scores"]]) == (30, ["test_2016_flickr"])
