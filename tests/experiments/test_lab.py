"""The laboratory: orders as theory has them, steps inside models that are what a layer computes, bad input."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ode_transformer.experiments import cli
from ode_transformer.experiments.lab import flow, orders, steps
from ode_transformer.files import read_json, write_lines
from ode_transformer.modules.layers import Sublayer
from ode_transformer.numerics.flow import TOLERANCE, Flow
from ode_transformer.numerics.integrators import INTEGRATORS
from tests.experiments.test_plots import LANGUAGE_MODEL, write
from tests.helpers import ROOT, batch, output_of, perturbed, raises, refused, small


@pytest.fixture(scope="module")
def record():
    return orders.measure()


@pytest.mark.parametrize("method", orders.methods())
def test_orders_are_as_in_theory(record, method):
    (row,) = (row for row in record["methods"] if row["method"] == method)
    assert row["local"] == pytest.approx(row["theory"], abs=0.1)
    assert row["global"] == pytest.approx(row["theory"] - 1, abs=0.1)


def test_the_grid_of_a_flow_is_measured(monkeypatch):
    """The error of the biases that a model computes in training, and none where the steps are the same."""
    monkeypatch.setattr(flow, "STEPS", (4.0, flow.RELEASED_STEP))
    torch.manual_seed(1)
    solved, initial = Flow(8).eval(), torch.randn(7, 8)
    coarse, same = flow.errors(solved, initial, 20)
    assert same["error"] == same["relative"] == same["gradient"] == 0
    moved = [Flow(8, step=step) for step in (4.0, flow.RELEASED_STEP)]
    for one in moved:
        one.load_state_dict(solved.state_dict())
    theirs, expected = (one(initial, 20) for one in moved)
    assert coarse["error"] == pytest.approx((theirs - expected).abs().max().item(), abs=1e-6)
    assert coarse["largest"] == pytest.approx((initial + expected).abs().max().item(), abs=1e-6)
    assert coarse["error"] / 4 < coarse["relative"] < coarse["error"], "the largest bias is between 1 and 4"
    assert 0 < coarse["gradient"] < 0.05
    model = small("floater_tiny")
    ((name, (found, rows)),) = flow.flows_of(model, "x").items()
    assert (name, rows.shape) == ("all", (18, 16)) and found is model.position_encoder.solvers["all"]
    raises("x: has no flow; a model with --position-encoder floater has", flow.flows_of, small("macaron"), "x")


@pytest.mark.parametrize("name", ["flow", "flow-255"])
def test_what_is_said_of_the_grid_is_in_the_record(name):
    """docs/floater.md: errors that evaluation removes and rounding in half precision hides, and those of gradients."""
    record = read_json(ROOT / "results" / "lab" / f"{name}.json")
    of = [{row["step"]: row for row in rows} for rows in record["flows"].values()]
    assert [next(step for step, row in rows.items() if row["relative"] <= TOLERANCE) for rows in of] == [4, 4, 2, 1]
    coarse = [rows[Flow(1).step] for rows in of]
    assert all(row["relative"] < torch.finfo(torch.half).eps / 2 and row["gradient"] < 0.005 for row in coarse)


def test_the_record_is_of_the_methods_there_are():
    """Among them every integrator."""
    assert not set(INTEGRATORS) - {name.partition(", for a damped")[0] for name in orders.methods()}
    record = read_json(ROOT / "results" / "lab" / "orders.json")
    assert {row["method"] for row in record["methods"]} == set(orders.methods())
    assert record["without"] == orders.WITHOUT


def net_input():
    return dict(zip(("src_tokens", "src_lengths", "prev_output_tokens"), batch(), strict=True))


@pytest.mark.parametrize(
    "variant", ["macaron", "rk2_tiny", "rk2_learnable_tiny", "rk4_tiny", "macaron_rk2_tiny", "san"]
)
def test_steps_are_those_of_the_layers(variant):
    m = perturbed(small(variant))
    logits = m(**net_input())[0]
    rows = steps.errors(m, net_input())
    assert [row["layer"] for row in rows] == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]
    assert all(row["increment"] > 0 and row["difference"] > 0 for row in rows)
    assert torch.equal(m(**net_input())[0], logits)  # no step size stays behind
    beginning = net_input() | {"prev_output_tokens": net_input()["prev_output_tokens"][:, :1]}
    assert steps.errors(m, beginning) == rows[:2]  # a decoder without a target is not measured


def test_a_linear_layer_has_the_difference_that_theory_has():
    """For y' = a y, a whole step of Heun's method is p(a), two half steps are p(a / 2)^2."""
    m = small("rk2_tiny", **{"encoder-history": "none", "decoder-history": "none", "decoder-integrator": "heun"})
    for stack in (m.encoder, m.decoder):
        for layer in nn.ModuleList.__iter__(stack.layers):
            layer.sublayers = lambda: [Sublayer("G", "linear", (lambda x: 0.3 * x,), nn.Identity(), 1.0)]
    whole, halves = (1 + a + a**2 / 2 for a in (0.3, 0.15))
    for row in steps.errors(m, net_input()):
        assert row["increment"] == pytest.approx(whole - 1, rel=1e-3)
        assert row["difference"] == pytest.approx(abs(halves**2 - whole) / (whole - 1), rel=1e-2)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("macaron-post-norm", "encoder 1 is post-norm"),
        ("released-form", "encoder 1 has the released code's residual"),
        ("ode_multistep_tiny", "encoder 1 belongs to a multistep scheme"),
        ("nesterov", "encoder 1 carries a velocity"),
        ("decoder-midpoint", "decoder 1 normalizes its stages, which removes the step size"),
        ("pcformer_tiny", "encoder 1 is corrected with the states of other layers"),
        ("transevolve_fullff_1_tiny", "encoder 1 is a Block: no layers to measure"),
    ],
)
def test_what_cannot_be_measured_is_named(variant, message):
    raises(message, steps.errors, small(variant), net_input())


def test_the_command(tmp_path, record, monkeypatch, capsys):
    """Decoders are measured where they read text: of a language model, and with a target."""
    monkeypatch.setattr(orders, "measure", lambda: record)
    text, dictionary, output = (str(tmp_path / name) for name in ("text", "dict.txt", "orders.json"))
    write_lines(text, ["s4 s5 s6", "s7", "", "s9 s8 unheard s4"])
    write_lines(dictionary, (f"s{i} 1" for i in range(46)))
    sentences, target = ["--text", text, "--dictionary", dictionary], ["--target", text, dictionary]
    paths = [write(tmp_path / "translates.pt", "decoder-rk2-learnable"), write(tmp_path / "lm.pt", **LANGUAGE_MODEL)]
    paths.append(write(tmp_path / "masked.pt", arch="ode_roberta_tiny"))
    shown, content = output_of(["lab", "orders", *paths, *sentences, "--output", output], capsys).out, read_json(output)
    assert "| rk4 | 5 | 5.0" in shown and "encoder 2" in shown and "These have no order:" in shown
    assert content["methods"] == record["methods"] and list(content["layers"]) == [tmp_path.name, *paths[1:]]
    names = [[row["layer"] for row in rows] for rows in content["layers"].values()]
    encoder = ["encoder 1", "encoder 2"]
    assert names[:2] == [encoder, ["decoder 1"]] and {name[:7] for name in names[2]} == {"encoder"}
    assert (content["text"], content["sentences"]) == (text, 3)
    picture = tmp_path / "orders.svg"
    assert cli.main(["plot", "orders", output, "--output", str(picture)]) == 0
    assert all(f"<!-- {name}" in picture.read_text() for name in ("rk4: ", *content["layers"])), "of what is drawn"
    assert cli.main(["lab", "orders", paths[0], *sentences, *target, "--output", output]) == 0
    content = read_json(output)
    assert [row["layer"] for row in content["layers"][tmp_path.name]] == [*encoder, "decoder 1", "decoder 2"]
    assert content["target"] == text
    refused(["lab", "orders", paths[1], *sentences, *target], "lm.pt: .*--target: must be left out", capsys)


def test_an_order_may_be_a_float():
    assert orders.errors(replace(orders.methods()["rk4"], theory=5.0))["local"] == pytest.approx(5, abs=0.1)
