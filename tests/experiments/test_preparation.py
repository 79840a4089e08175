"""The benchmark of preparation: its text, its steps, its record. Timings are no test."""

import itertools
import json
import re
import sys
from types import SimpleNamespace

import pytest

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli
from ode_transformer.experiments.bench import preparation
from ode_transformer.experiments.runs import prepare

STEPS = ["begin", "gather", "divide", "tokenise", "clean", "learn-subword-nmt", "apply-subword-nmt", "binarise"]


def test_every_step_is_measured_at_every_size(tmp_path, monkeypatch, capsys):
    done = []

    def in_process(words):
        assert words[:3] == [sys.executable, "-c", preparation.STEP]
        prepare.run_step(words[3], words[4:])
        done.append(words[3])
        return {"seconds": 2.0, "cpu_seconds": 1.0, "peak_mib": 10.0 * len(done)}

    monkeypatch.setattr(preparation, "run", in_process)
    monkeypatch.setattr(preparation, "MERGES", 60)
    words = ["bench", "preparation", "--pairs", "200", "100", "--workers", "1", "--output", str(tmp_path / "x.json")]
    assert cli.main(words) == 0
    record = json.loads((tmp_path / "x.json").read_text())
    assert done == [*STEPS, *STEPS] and [size["pairs"] for size in record["sizes"]] == [100, 200]
    assert list(record["sizes"][1]["steps"]) == STEPS
    assert record["sizes"][1]["steps"]["gather"]["lines_per_cpu_second"] == 400
    assert record["sizes"][1]["disk_bytes"] > 4 * record["sizes"][1]["raw_bytes"]
    assert record["setting"] == {"workers": 1, "merges": 60} and record["hardware"]["processor"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    said = capsys.readouterr().out
    assert said.count(f"{tmp_path / 'x.json'}\n") == 2  # written after each size, and not once more
    assert said.count("\n| ") == len(STEPS) + 1
    assert "| gather | 2 | 1 | 400 | 20 | 100 | 375 |" in said  # 4,500,000 pairs at 200 per second


def test_generated_text_grows_in_words(monkeypatch):
    monkeypatch.setattr(preparation, "BLOCK", 100)
    found = list(preparation.draw(2_000))
    assert found == list(preparation.draw(2_000)) and found != list(preparation.draw(2_000, seed=2))
    for side in (0, 1):
        assert all(re.fullmatch(r'["(]?\w.*[.?!]', pair[side]) for pair in found)
        half, whole = (len({word for pair in found[:n] for word in pair[side].split()}) for n in (1_000, 2_000))
        assert 1.3 * half < whole < 2 * half
    assert len(list(itertools.islice(preparation.draw(10**12), 3))) == 3  # it is a stream


@pytest.mark.full
def test_memory_of_all_processes_is_seen():
    """The child of the process holds what is looked for."""
    child = "import time; held = bytearray(b'x') * (80 << 20); time.sleep(1)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    found = preparation.run([sys.executable, "-c", code, "name"])
    assert 80 < found["peak_mib"] < 400 and found["cpu_seconds"] > 0


@pytest.mark.full
def test_a_step_that_fails_is_named():
    with pytest.raises(OdeTransformerError, match="step clean: ended with status 3"):
        preparation.run([sys.executable, "-c", "import sys; sys.exit(3)", "clean"])


def test_what_cannot_be_measured_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(preparation.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30))
    assert cli.main(["bench", "preparation", "--pairs", "100000000", "--output", str(tmp_path / "x.json")]) == 1
    assert "error: --pairs 100000000: needs more than is free" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_extrapolation():
    """In proportion to lines; for learning, and for memory, by the growth between two sizes."""
    sizes = [
        {"pairs": n, "steps": {name: {"cpu_seconds": c, "peak_mib": m} for name in ("clean", preparation.LEARNING)}}
        for n, c, m in ((100, 2.0, 50.0), (400, 4.0, 100.0))
    ]
    found = [preparation.extrapolated(name, sizes, "cpu_seconds", 1_600) for name in ("clean", preparation.LEARNING)]
    assert found == pytest.approx([16, 8])
    assert preparation.extrapolated("clean", sizes, "peak_mib", 1_600) == pytest.approx(200)
    assert preparation.extrapolated("clean", sizes[1:], "cpu_seconds", 800) == pytest.approx(8)
    assert preparation.extrapolated(preparation.LEARNING, sizes[1:], "cpu_seconds", 800) is None
