"""Pictures: what is drawn is what the model says; files are whole; bad input is named. Looks are for eyes."""

import json
import re

import pytest
import torch
from fairseq.data import LanguagePairDataset
from fairseq.models import build_model

from ode_transformer.checkpoints import inputs, standalone
from ode_transformer.experiments import cli, records
from ode_transformer.experiments.results import model_plots, plots
from ode_transformer.experiments.results.model_plots import position_vectors
from ode_transformer.files import write_json, write_lines
from tests.helpers import ROOT, SMALL, VARIANTS, batch, configure, dictionary, model, output_of, refused, small, task

LANGUAGE_MODEL = {
    "arch": "ode_transformer_lm_ptb_1l", "task": "language_modeling", "tokens-per-sample": 5, "decoder-embed-dim": 16,
    "decoder-ffn-embed-dim": 24, "decoder-attention-heads": 2, "decoder-integrator": "heun", "decoder-history": "none",
    "coefficients": "sigmoid",
}  # fmt: skip


def write(path, variant="floater_tiny", **values):
    """A checkpoint of a small model of a variant, or of these options, as fairseq writes them."""
    values = values or {"arch": "macaron_tiny", **SMALL, "share-all-embeddings": True, **VARIANTS[variant]}
    arch = values.pop("arch")
    config = configure(arch, {k: v for k, v in values.items() if v is not None})
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
    place = m.position_encoder.places("decoder", tokens, tokens.eq(1), tokens.eq(1))[1]
    torch.testing.assert_close(place.biases["encoder_attn"][1].look_up()[:, 0, 16:] + attention.v_proj.bias, moved)


def test_vectors_of_inputs():
    m = small("learned-blocks")
    found = position_vectors(m, 9)
    assert set(found) == {"encoder.input", "decoder.input", "encoder.1.input", "decoder.1.input"}
    torch.testing.assert_close(found["encoder.1.input"][3], m.position_encoder.learned["encoder"][0].weight[2 + 3])
    assert set(position_vectors(small("macaron"), 9)) == {"encoder.input", "decoder.input"}


def test_a_picture(tmp_path, capsys):
    paths = [write(tmp_path / f"{v}.pt", v) for v in ("floater_tiny", "macaron")]
    output = tmp_path / "pictures" / "positions.svg"
    words = ["plot", "positions", *paths, "--output", output, "--length", "12"]
    assert output_of(words, capsys).out.strip() == str(output)
    drawn = re.findall(r"image/png;base64,\s*([^\"]*)", output.read_text())
    assert len({*drawn}) == 3 and [p.name for p in output.parent.iterdir()] == [output.name], "two, and a scale"


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ({}, ["--of", "encoder.9.self_attn.q"], "--of encoder.9.self_attn.q: must be one of encoder.input, "),
        ({}, ["--output", "x.jpeg"], "x.jpeg: must end in one of .png"),
        (VARIANTS["relative-values"] | {"no-token-positional-embeddings": True}, [], "a.pt: has no position vectors"),
    ],
)
def test_bad_input(tmp_path, model, more, message, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "a.pt", **(SMALL | model if model else {}))
    refused(["plot", "positions", path, "--output", "x.png", *more], message, capsys)
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_a_record_of_something_else_is_not_drawn(tmp_path, capsys):
    path, output = tmp_path / "lengths.json", tmp_path / "x.png"
    write_json(path, {"what": "lengths"})
    refused(["plot", "orders", str(path), "--output", str(output)], f"{path}: is not a record of orders", capsys)


# Training, coefficients


def test_a_picture_of_trainings(tmp_path, monkeypatch):
    """The curve is the finer one of those by updates and by epochs."""
    log = tmp_path / "run" / "train.log"
    entries = {"train": {"epoch": 1, "train_loss": "9", "train_gnorm": "2", "train_num_updates": "5"},
               "valid": {"epoch": 1, "valid_accuracy": "8", "valid_num_updates": "5"}}  # fmt: skip
    lines = [f"2026 | INFO | {kind} | {json.dumps(entry)}" for kind, entry in entries.items()]
    write_lines(log, ["num. shared model params: 7 (num. trained: 7)", *lines])
    assert records.curve_points(plots.training_of(log), "valid_accuracy") == [(5, 8.0)]
    by_both = {"curve": [{"num_updates": 10, "train_ppl": 5.0, "valid_ppl": 6.0}],
               "progress": [{"num_updates": 5, "ppl": 9.0}, {"num_updates": 10, "ppl": 7.0}]}  # fmt: skip
    assert records.curve_points(by_both, "train_ppl") == [(5, 9.0), (10, 7.0)], "what is finer, and not both"
    assert records.curve_points(by_both, "valid_ppl") == [(10, 6.0)]
    output, other = tmp_path / "training.png", ROOT / "results" / "quickstart" / "rk2-tiny.json"
    assert cli.main(["plot", "training", str(log), str(other), "--output", str(output)]) == 0
    assert output.stat().st_size > 5000
    monkeypatch.setattr(plots, "save", lambda figure, output: shown.extend(axis.get_ylabel() for axis in figure.axes))
    shown: list[str] = []
    plots.training([str(log.parent)], output)  # of a run
    assert shown == ["validation accuracy", "gradient norm"], "of a classifier"
    labels = []
    monkeypatch.setattr(plots, "save", lambda figure, _: labels.extend(figure.axes[0].get_legend_handles_labels()[1]))
    (log.parent / "record.json").write_bytes(other.read_bytes())
    plots.training([str(log.parent / "record.json")], output)
    plots.training([str(log.parent)], output)
    assert labels == ["run", "run"]


def test_weights_of_stages_are_those_that_the_layers_use():
    net_input = dict(zip(("src_tokens", "src_lengths", "prev_output_tokens"), batch(), strict=True))
    m = small("decoder-rk2-learnable")
    for stack, bias in ((m.encoder, 1.0), (m.decoder, 60.0)):
        torch.nn.init.zeros_(stack.coefficients.gate.weight)
        torch.nn.init.constant_(stack.coefficients.gate.bias, bias)
    g = torch.sigmoid(torch.tensor(1.0)).item()
    found = model_plots.stage_weights(m, net_input)
    expected = [(f"encoder {i}", [g, 1 - g]) for i in (1, 2)] + [(f"decoder {i}", [1, 0]) for i in (1, 2)]
    assert [(row["layer"], row["mean"]) for row in found] == [(name, pytest.approx(mean)) for name, mean in expected]
    assert all(row["deviation"] == pytest.approx([0, 0], abs=1e-6) for row in found)
    net_input["prev_output_tokens"] = net_input["prev_output_tokens"][:, :1]
    assert model_plots.stage_weights(m, net_input) == found[:2]  # a decoder without a target is not observed
    assert model_plots.stage_weights(small("macaron"), net_input) == []
    substeps = model_plots.stage_weights(small("rk2-ema", **{"ode-function": "substeps"}), net_input)
    assert [row["layer"] for row in substeps] == [f"encoder {i}, step {j}" for i in (1, 2) for j in (1, 2)]


@pytest.fixture
def text(tmp_path):
    """Eleven words and ends of sentences, and the words to name them."""
    (tmp_path / "text").write_text("w4 w5 w6\nw7\n\nw1 w2 w3 w9\n")
    dictionary(50).save(str(tmp_path / "dict.txt"))
    return ["--text", str(tmp_path / "text"), "--dictionary", str(tmp_path / "dict.txt")]


def test_the_gate_of_a_language_model_is_the_one_that_it_reads_its_text_with(tmp_path, text, capsys):
    torch.manual_seed(0)
    path, record = write(tmp_path / "lm.pt", **LANGUAGE_MODEL), tmp_path / "x.json"
    state = torch.load(path)
    state["model"]["decoder.coefficients.gate.weight"].mul_(3)
    torch.save(state, path)
    words = ["plot", "coefficients", path, *text, "--output", str(tmp_path / "x.png"), "--record", str(record)]
    assert str(record) in output_of(words, capsys).out
    content = json.loads(record.read_text())
    m, gates = standalone.open_model(path), []
    m.decoder.coefficients.gate.register_forward_hook(lambda *found: gates.append(found[-1].sigmoid().flatten()))
    stream = dictionary(50).encode_line("</s> w4 w5 w6 </s> w7 </s> w1 w2 w3 w9", append_eos=False).long()
    for block in stream.split(LANGUAGE_MODEL["tokens-per-sample"]):
        m(block[None])
    gates = torch.cat(gates)
    (row,) = content["layers"][path]
    mean, deviation = gates.mean().item(), gates.std(correction=0).item()
    assert row["layer"] == "decoder 1" and len(gates) == 11 and deviation > 0.01
    assert row["mean"] == pytest.approx([mean, 1 - mean], abs=1e-5)
    assert row["deviation"] == pytest.approx([deviation, deviation], abs=1e-5)
    assert (content["text"], content["sentences"], "target" in content) == (text[1], 3, False)


def test_models_read_what_they_read_in_training(text):
    """As fairseq's data set of pairs has it; a masked language model reads ``<s>`` first."""
    d = dictionary(50)
    ((source,), (again, target)) = (inputs.read_texts([(text[1], text[3])] * count, 9) for count in (1, 2))
    assert [len(row) for row in source] == [4, 2, 5] and all(map(torch.equal, source, again))
    sizes = [len(row) for row in source]
    translated = [row.flip(0).roll(-1) for row in target]
    pairs = LanguagePairDataset(source, sizes, d, translated, sizes, d, shuffle=False)
    batch = pairs.collater([pairs[i] for i in range(3)])
    found = inputs.inputs_of(small("macaron"), [source, translated])
    assert set(found) == set(batch["net_input"])
    for name, expected in batch["net_input"].items():
        assert torch.equal(found[name][batch["id"]], expected), name
    masked = inputs.inputs_of(model("floater_roberta_tiny"), [source])["src_tokens"]
    assert masked[:, 0].eq(d.bos()).all() and masked.ne(d.pad()).sum(1).tolist() == [5, 3, 6]


def test_pictures_of_coefficients(tmp_path, text, capsys):
    paths = [write(tmp_path / "rk2.pt", "rk2_learnable_tiny"), write(tmp_path / "lm.pt", **LANGUAGE_MODEL)]
    output, record = tmp_path / "x.svg", tmp_path / "x.json"
    words = [*text, "--output", str(output)]
    output_of(["plot", "coefficients", *paths, *words], capsys)
    assert output.read_text().count("<!-- stage 2 -->") == 2, "of what is drawn"
    target = ["--target", text[1], text[3]]
    both = write(tmp_path / "both.pt", "decoder-rk2-learnable")
    output_of(["plot", "coefficients", both, *words, *target, "--record", record], capsys)
    assert json.loads(record.read_text())["layers"][both][-1]["layer"] == "decoder 2"
    macaron = write(tmp_path / "macaron.pt", "macaron")
    message = "macaron.pt: has no learned coefficients in its encoder"
    refused(["plot", "coefficients", macaron, *words], f"{message}; --target has its decoder read, too", capsys)
    refused(["plot", "coefficients", macaron, *words, *target], f"{message} and decoder$", capsys)
    refused(["plot", "coefficients", paths[-1], *words, *target], "lm.pt: .*--target: must be left out", capsys)
