"""Pictures: what is drawn is what the model says; files are whole; bad input is named. Looks are for eyes."""

import json

import pytest
import torch
from fairseq.models import build_model

from ode_transformer import cli, plots
from ode_transformer.plots import position_vectors
from tests.helpers import SMALL, VARIANTS, parse, small, task


def write(path, variant="floater_tiny"):
    """A checkpoint of a small model of a variant, as fairseq writes them."""
    values = {"arch": "macaron_tiny", **SMALL, "share-all-embeddings": True, **VARIANTS[variant]}
    arch = values.pop("arch")
    config = parse(arch, {k: v for k, v in values.items() if v is not None}).model
    torch.save({"cfg": {"model": dict(config)}, "args": None, "model": build_model(config, task()).state_dict()}, path)
    return str(path)


@pytest.mark.parametrize("variant", ["floater_tiny", "rnn-vector-1", "macaron-floater"])
def test_vectors_are_the_biases(variant):
    m = small(variant)
    found = position_vectors(m, 9)
    attention = m.decoder.layers[1].encoder_attn
    moved = found["decoder.1.encoder_attn.v"]
    assert moved.shape == (9, 16)
    torch.testing.assert_close(moved[0], attention.v_proj.bias)
    assert (moved[8] - moved[0]).abs().max() > 0
    # As the layer is told them.
    tokens = torch.full((1, 9), 4)
    place = m.position_encoder.decoder(tokens, tokens.eq(1), tokens.eq(1), None)[1]
    torch.testing.assert_close(place.biases["encoder_attn"].key_value()[1][:, 0] + attention.v_proj.bias, moved)


def test_vectors_of_inputs():
    m = small("learned-blocks")
    found = position_vectors(m, 9)
    assert set(found) == {"encoder.input", "decoder.input", "encoder.1.input", "decoder.1.input"}
    torch.testing.assert_close(found["encoder.1.input"][3], m.position_encoder.learned["encoder"][0].weight[2 + 3])
    assert set(position_vectors(small("macaron"), 9)) == {"encoder.input", "decoder.input"}


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture(tmp_path, suffix, capsys):
    paths = [write(tmp_path / f"{v}.pt", v) for v in ("floater_tiny", "learned-blocks", "macaron")]
    output = tmp_path / "pictures" / f"positions.{suffix}"
    assert cli.main(["plot", "positions", *paths, "--output", str(output), "--length", "12"]) == 0
    assert output.stat().st_size > 5000
    assert [p.name for p in output.parent.iterdir()] == [output.name]
    assert capsys.readouterr().out.strip() == str(output)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--of", "encoder.9.self_attn.q"], "--of encoder.9.self_attn.q: must be one of encoder.input, "),
        (["--length", "1"], "--length 1"),
        (["--output", "x.jpeg"], "x.jpeg: must end in one of .png"),
    ],
)
def test_bad_input(tmp_path, more, message, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["plot", "positions", write(tmp_path / "a.pt"), "--output", "x.png", *more]
    try:
        assert cli.main(words) == 1
        said = capsys.readouterr().err
    except SystemExit as error:
        said = str(error)
    assert message in said
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_beyond_a_learned_table(tmp_path):
    words = ["plot", "positions", write(tmp_path / "a.pt", "learned-positions"), "--output", str(tmp_path / "x.png")]
    with pytest.raises(SystemExit, match="--length 2000: must be at most 1024"):
        cli.main([*words, "--length", "2000"])


def test_files_that_are_no_models(tmp_path, capsys):
    for state, message in (
        ({"model": {}, "cfg": {"model": {"_name": "floater"}}}, "no encoder-decoder"),
        ({"model": {}}, "no configuration"),
    ):
        torch.save(state, tmp_path / "x.pt")
        assert cli.main(["plot", "positions", str(tmp_path / "x.pt"), "--output", str(tmp_path / "x.png")]) == 1
        assert message in capsys.readouterr().err


# Costs


def record(path, **content):
    path.write_text(json.dumps(content))
    return str(path)


@pytest.fixture
def costs(tmp_path):
    rows = [{"length": n, "seconds": {"a": n**2, "b": n}, "peak_mib": {"a": 3 * n, "b": n}} for n in (8, 16, 32)]
    systems = {f"a {n}": {"at": n, "seconds": 5 * n, "step_mib": 7.0 * n} for n in (4, 2)}
    sized = {f"b {n}": {"at": n, "symbols": n, "seconds": 5 * n} for n in (10, 20)}
    return [
        record(tmp_path / "lengths.json", what="lengths", rows=rows),
        record(tmp_path / "depth.json", what="training", systems=systems),
        record(tmp_path / "vocabulary.json", what="training", systems=sized),
    ]


def test_lines_of_costs_are_the_records(costs):
    axis, lines = plots.cost_lines(costs[0])
    assert axis == "tokens of a sentence" and lines["MiB"]["a"] == [(8, 24), (16, 48), (32, 96)]
    assert plots.exponent(lines["seconds"]["a"]) == pytest.approx(2)
    assert plots.exponent(lines["MiB"]["b"]) == pytest.approx(1)
    axis, lines = plots.cost_lines(costs[1])
    assert axis == "layers of the encoder" and lines["seconds"] == {"a": [(2, 10), (4, 20)]}
    assert lines["MiB"] == {"a": [(2, 14.0), (4, 28.0)]}
    assert plots.cost_lines(costs[2])[0] == "symbols of the dictionary"


def test_a_picture_of_costs(tmp_path, costs):
    output = tmp_path / "costs.svg"
    assert cli.main(["plot", "costs", *costs, "--output", str(output)]) == 0
    assert output.stat().st_size > 5000


@pytest.mark.parametrize(
    "content", [{"what": "lengths"}, {"systems": {}}, {"what": "training", "systems": {"a": {}}}, []]
)
def test_a_record_without_costs_is_named(tmp_path, content, capsys):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    assert cli.main(["plot", "costs", str(path), "--output", str(tmp_path / "x.png")]) == 1
    assert f"{path}: no record of cost" in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()
