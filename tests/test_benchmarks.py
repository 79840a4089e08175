"""The benchmark's systems compute what they are said to; its numbers are whole. Timings are no test."""

import argparse
import json

import pytest
import torch

from ode_transformer import benchmarks, cli, paired


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


# An architecture beside the stock Transformer


def sizes(m):
    return (len(m.encoder.layers), m.encoder.embed_tokens.weight.shape, m.encoder.layers[0].fc1.weight.shape,
            m.encoder.layers[0].normalize_before)  # fmt: skip


@pytest.mark.parametrize("arch", ["floater_tiny", "rk2_tiny"])
def test_a_pair_is_of_one_size(arch):
    ours, stock = paired.build_pair(arch, ["--encoder-layers", "3"], 60)
    assert sizes(ours) == sizes(stock)
    assert type(stock).__name__ == "TransformerModel"


def test_sentences_are_padded_as_fairseq_pads():
    batch = paired.sentences(9, 8, 3, 50, "cpu")
    for i, n in enumerate(batch["src_lengths"]):
        assert (batch["src_tokens"][i] == 1).sum() == 8 - n and (batch["src_tokens"][i, : 8 - n] == 1).all()
        assert (batch["target"][i, n:] == 1).all() and (batch["prev_output_tokens"][i, n:] == 1).all()
        assert torch.equal(batch["prev_output_tokens"][i, 1:n], batch["target"][i, : n - 1])


@pytest.mark.parametrize("what", ["training", "decoding"])
def test_pairs_take_turns(tmp_path, what, capsys):
    words = ["bench", what, "--arch", "floater_tiny", "--sentences", "3", "--tokens", "5", "--shortest", "2",
             "--symbols", "30", "--rounds", "3", "--beam", "2", "--output", str(tmp_path / "x.json")]  # fmt: skip
    assert cli.main([*words, "--", "--encoder-layers", "1", "--flow-sharing", "stack"]) == 0
    result = json.loads((tmp_path / "x.json").read_text())
    assert len(result["ours_over_stock"]["all"]) == 3
    low, high = result["ours_over_stock"]["quartiles"]
    assert 0 < low <= result["ours_over_stock"]["median"] <= high
    assert result["flags"] == ["--encoder-layers", "1", "--flow-sharing", "stack"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["seconds"] == result["seconds"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["training"], "needs --arch"),
        (["training", "--arch", "floater_huge"], "floater_huge: must be one of"),
        (["decoding", "--arch", "floater_tiny", "--beam", "0"], "--beam 0"),
        (["training", "--arch", "floater_tiny", "--shortest", "99"], "--shortest"),
    ],
)
def test_bad_pairs_are_named(words, message):
    with pytest.raises(SystemExit, match=message):
        cli.main(["bench", *words])
