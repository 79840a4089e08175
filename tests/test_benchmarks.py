"""The benchmark's systems compute what they are said to; its numbers are whole. Timings are no test."""

import argparse
import json

import pytest
import torch

from ode_transformer import benchmarks, cli


def test_equation_9_with_its_matrices_is_the_same_function():
    matrices, _ = benchmarks.build("equation-9", 32, 4, 3)
    evolving, run = benchmarks.build("evolving", 32, 4, 3)
    evolving.load_state_dict(matrices.state_dict())
    x = torch.randn(9, 2, 32)
    torch.testing.assert_close(run(x), matrices(x), atol=1e-5, rtol=1e-5)


def test_materialised_attention_is_the_same_function():
    layers, fused = benchmarks.build("fused", 32, 4, 3)
    others, materialised = benchmarks.build("materialised", 32, 4, 3)
    others.load_state_dict(layers.state_dict())
    x = torch.randn(9, 2, 32)
    torch.testing.assert_close(materialised(x), fused(x), atol=1e-5, rtol=1e-5)


def test_every_system_is_there_at_every_length(tmp_path, capsys):
    words = ["bench", "lengths", "--lengths", "16", "32", "--width", "16", "--heads", "2", "--depth", "2"]
    assert cli.main([*words, "--rounds", "1", "--materialised-up-to", "16", "--output", str(tmp_path / "x.json")]) == 0
    result = json.loads((tmp_path / "x.json").read_text())
    assert [row["length"] for row in result["rows"]] == [16, 32]
    assert set(result["rows"][0]["seconds"]) == set(benchmarks.SYSTEMS)
    assert set(result["rows"][1]["peak_mib"]) == {"evolving", "fused"}
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_memory_is_seen():
    """A step of many more positions needs more memory than a short one."""
    args = argparse.Namespace(width=64, heads=2, depth=2, device="cpu", dtype="fp32")
    short, long = (benchmarks._in_a_process_of_its_own(args, "evolving", length) for length in (100, 4000))
    assert long > short + 4000 * 64 * 4


@pytest.mark.parametrize("option", ["--width", "--rounds", "--lengths"])
def test_numbers_below_1_are_named(option):
    with pytest.raises(SystemExit, match=f"{option} 0: must be 1 or more"):
        cli.main(["bench", "lengths", option, "0"])
