"""The benchmark's systems compute what they are said to; its numbers are whole. Timings are no test."""

import argparse
import json
import re
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq_cli import preprocess

from ode_transformer.experiments import bench, cli, recipes
from ode_transformer.experiments.bench import contest, lengths, profile, suite
from ode_transformer.experiments.bench.contest import STOCK, Setting, System
from ode_transformer.models import ode
from ode_transformer.numerics.losses import projected_cross_entropy
from tests.helpers import ROOT, USER_DIR, Kernels, refused, without_hydra, write_parallel


def test_equation_9_with_its_matrices_is_the_same_function():
    matrices, _ = lengths.build_system("equation-9", 32, 4, 3)
    evolving, run = lengths.build_system("evolving", 32, 4, 3)
    evolving.load_state_dict(matrices.state_dict())
    x = torch.randn(9, 2, 32)
    torch.testing.assert_close(run(x), matrices(x), atol=1e-5, rtol=1e-5)


def test_materialised_attention_is_the_same_function():
    layers, fused = lengths.build_system("fused", 32, 4, 3)
    others, materialised = lengths.build_system("materialised", 32, 4, 3)
    others.load_state_dict(layers.state_dict())
    x = torch.randn(9, 2, 32)
    with Kernels() as kernels:
        expected = materialised(x)
        expected.square().mean().backward()
    assert not kernels.names and kernels.calls["_safe_softmax"] == kernels.calls["_softmax_backward_data"] == 3
    with Kernels() as kernels:
        found = fused(x)
        found.square().mean().backward()
    assert kernels.names
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for one, other in zip(layers.parameters(), others.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.full
def test_every_system_is_there_at_every_length(tmp_path, capsys):
    words = ["bench", "lengths", "--lengths", "16", "32", "--width", "16", "--heads", "2", "--depth", "2"]
    assert cli.main([*words, "--rounds", "1", "--materialised-up-to", "16", "--output", str(tmp_path / "x.json")]) == 0
    result = json.loads((tmp_path / "x.json").read_text())
    assert [row["length"] for row in result["rows"]] == [16, 32]
    assert set(result["rows"][0]["seconds"]) == set(lengths.SYSTEMS)
    assert set(result["rows"][1]["peak_mib"]) == {"evolving", "fused"}
    assert sum(line.startswith("{") for line in capsys.readouterr().out.splitlines()) == 2


def test_memory_is_seen():
    """A step of many more positions needs more memory than a short one."""
    args = argparse.Namespace(width=64, heads=2, depth=2, device="cpu", dtype="fp32")
    short, long = (lengths.peak("evolving", length, args) for length in (100, 4000))
    assert long > short + 4000 * 64 * 4


# Contests


def sizes(m):
    return (len(m.encoder.layers), m.encoder.embed_tokens.weight.shape, m.encoder.layers[0].fc1.weight.shape,
            m.encoder.layers[0].normalize_before)  # fmt: skip


TINY = Setting(sentences=3, tokens=5, shortest=2, symbols=60, rounds=3)


@pytest.mark.parametrize("arch", ["floater_tiny", "rk2_tiny"])
def test_the_stock_system_has_the_size_of_ours(arch):
    flags = ("--encoder-layers", "3")
    ours, _ = contest.prepare(System(arch, flags), TINY)
    stock, _ = contest.prepare(contest.stock_like(arch, flags), TINY)
    assert sizes(ours) == sizes(stock)
    cfg = contest.configure(System(arch), TINY)
    assert Path(cfg.common.user_dir).samefile(USER_DIR)
    configured = [cfg.model, contest.configure(contest.stock_like(arch), TINY).model]
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        assert getattr(configured[0], name) == getattr(configured[1], name)
    assert type(stock).__name__ == "TransformerModel"


def test_beside_two_feed_forwards_stock_has_one_as_wide_as_both():
    ours, stock = (contest.prepare(s, TINY)[0] for s in (System("macaron_tiny"), contest.stock_like("macaron_tiny")))
    counts = [sum(p.numel() for p in m.parameters()) for m in (ours, stock)]
    assert stock.encoder.layers[0].fc1.out_features == 2 * ours.encoder.layers[0].fc1.out_features
    assert counts[0] == pytest.approx(counts[1], rel=0.01)


def test_beside_transevolve_stock_has_as_many_layers_as_its_blocks_together():
    flags = ("--evolution-blocks", "2", "--evolution-depth", "2")
    stock = contest.configure(contest.stock_like("transevolve_fullff_2_tiny", flags), TINY).model
    assert stock.encoder_layers == stock.decoder_layers == 4


def test_sentences_are_padded_as_fairseq_pads():
    sample = contest.sentences(9, 8, 3, 50)
    net_input, target = sample["net_input"], sample["target"]
    assert sample["ntokens"] == (target != 1).sum()
    for i, n in enumerate(net_input["src_lengths"]):
        assert (net_input["src_tokens"][i] == 1).sum() == 8 - n and (net_input["src_tokens"][i, : 8 - n] == 1).all()
        assert (target[i, n:] == 1).all() and (net_input["prev_output_tokens"][i, n:] == 1).all()
        assert torch.equal(net_input["prev_output_tokens"][i, 1:n], target[i, : n - 1])


def test_batches_of_data_take_the_place_of_random_sentences(tmp_path):
    raw = write_parallel(tmp_path / "raw", splits=[("train", 304)])
    words = ["-s", "xx", "-t", "yy", "--joined-dictionary", "--trainpref", f"{raw}/train"]
    preprocess.main(options.get_preprocessing_parser().parse_args([*words, "--destdir", str(tmp_path / "bin")]))
    setting = replace(TINY, data=str(tmp_path / "bin"), batches=9)
    _, found = contest.samples(System("macaron_tiny"), setting)
    lines = [line.split() for line in (raw / "train.yy").read_text().splitlines()]
    assert sum(sample["ntokens"] for sample in found) == sum(len(line) + 1 for line in lines)
    model, step = contest.prepare(System("macaron_tiny"), setting)
    assert len(model.encoder.embed_tokens.weight) == 4 + len({symbol for line in lines for symbol in line}) + 2
    before = model.encoder.embed_tokens.weight.clone()
    step()
    assert not torch.equal(model.encoder.embed_tokens.weight, before)


def test_a_training_step_trains():
    model, step = contest.prepare(System("macaron_tiny"), TINY)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    step()
    changed = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert len(changed) == len(before)


@pytest.mark.parametrize(
    ("arch", "encoder", "decoder"),
    [("macaron_tiny", 4, 8), ("rk2_tiny", 8, 8), ("rk4_tiny", 16, 8), ("transevolve_fullff_2_tiny", 6, 12)],
)
def test_evaluations_are_counted(arch, encoder, decoder):
    model, _ = contest.prepare(System(arch), TINY)
    found = contest.evaluations(model, contest.sentences(3, 5, 2, 60))
    assert found == {"encoder": encoder, "decoder": decoder}


@pytest.mark.parametrize("what", ["training", pytest.param("decoding", marks=pytest.mark.full)])
def test_systems_take_turns(tmp_path, what, capsys):
    words = ["bench", what, "--arch", "floater_tiny", "--sentences", "3", "--tokens", "5", "--shortest", "2",
             "--symbols", "30", "--rounds", "3", "--beam", "2", "--output", str(tmp_path / "x.json")]  # fmt: skip
    assert cli.main([*words, "--", "--encoder-layers", "1", "--flow-sharing", "stack"]) == 0
    record = json.loads((tmp_path / "x.json").read_text())
    names = ["stock", "floater_tiny"] + (["floater_tiny, stock criterion"] if what == "training" else [])
    assert list(record["systems"]) == names and record["baseline"] == "stock"
    for name, found in record["systems"].items():
        assert len(found["speed"]["all"]) == 3
        low, high = found["speed"]["quartiles"]
        assert 0 < low <= found["speed"]["median"] <= high
        assert found["peak_mib"] > found["step_mib"] >= 0
        assert (found["criterion"] == STOCK) == (name in ("stock", "floater_tiny, stock criterion"))
        assert found["optimizer"] == ("adam" if name == "stock" else "fused_adam")
    assert record["systems"]["floater_tiny"]["flags"] == ["--encoder-layers", "1", "--flow-sharing", "stack"]
    assert record["systems"]["stock"]["speed"]["median"] == 1
    shown = capsys.readouterr().out
    assert all(f"| {name} |" in shown for name in names)


def test_operations_are_those_of_the_shapes():
    """The criterion in chunks among them, which adds products in place, and fused attention."""
    x, w = torch.randn(6, 4), torch.randn(4, 5, requires_grad=True)
    assert profile.operations(lambda: (x @ w).sum().backward()) == 2 * (2 * 6 * 4 * 5)
    total = torch.zeros(6, 5)
    assert profile.operations(lambda: total.addmm_(x, w.detach())) == 2 * 6 * 4 * 5
    hidden, weight, target = torch.randn(7, 4), torch.randn(9, 4), torch.arange(7)
    for each in (hidden, weight):
        each.requires_grad_()
    chunked = profile.operations(lambda: projected_cross_entropy(hidden, weight, target, 0.1, 0, 512)[0].backward())
    # One of the seven tokens is padding. The score of the target is a product by itself.
    assert chunked == 3 * (2 * 6 * 4 * 9) + 2 * 6 * 4


@pytest.mark.parametrize(
    ("name", "ancestors", "expected"),
    [
        ("aten::addmm_", ["aten::linear"], "matrix products"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", [], "matrix products"),
        ("aten::native_layer_norm_backward", [], "norms"),
        ("aten::mul", [], "other operators"),
        ("aten::mul", ["Optimizer.step#Adam.step"], "optimizer"),
        ("autograd::engine::evaluate_function: MmBackward0", [], "Python and autograd"),
    ],
)
def test_events_of_the_profiler_have_their_group(name, ancestors, expected):
    assert profile.group(name, ancestors) == expected


@pytest.mark.full
def test_a_profile_has_all_groups(tmp_path, capsys):
    words = ["bench", "training", "--arch", "rk2_tiny", "--sentences", "3", "--tokens", "5", "--symbols", "60"]
    assert cli.main([*words, "--profile", "--output", str(tmp_path / "x.json")]) == 0
    record = json.loads((tmp_path / "x.json").read_text())
    stock, rk2, _ = record["systems"].values()
    assert rk2["operations"] > stock["operations"] > 0
    assert all(part >= 0 for found in (stock, rk2) for part in found["seconds"].values())
    assert all(set(found["seconds"]) == set(profile.COLUMNS) for found in (stock, rk2))
    assert f"| rk2_tiny | {rk2['operations'] / 1e9:.1f} |" in capsys.readouterr().out


@pytest.fixture
def clock(monkeypatch):
    """Nothing runs: stock takes two seconds a turn, others one; its step 2 MiB, theirs 1, and models twice that."""

    @contextmanager
    def process(target, system, *_):
        yield target, system

    def answer(worker, name, *turn):
        target, system = worker
        stock = 2 if system.arch == "transformer" else 1
        if turn:
            return float(stock)
        return (3 * stock * 2**20, stock * 2**20) if "peak" in target.__name__ else {}

    monkeypatch.setattr(contest, "process", process)
    monkeypatch.setattr(contest, "answer", answer)


def test_speed_is_the_baselines_time_over_its_own(clock):
    systems = {"stock": System("transformer"), "ours": System("macaron_tiny")}
    found = contest.measure(systems, TINY)["systems"]
    assert found["ours"]["speed"] == {"median": 2, "quartiles": [2, 2], "all": [2, 2, 2]}
    assert found["stock"]["seconds"] == 2 and found["ours"]["seconds"] == 1
    assert (found["stock"]["peak_mib"], found["stock"]["step_mib"], found["ours"]["step_mib"]) == (6, 2, 1)


def test_and_so_against_length(monkeypatch):
    monkeypatch.setattr(lengths, "_step", lambda module, run, length, args: 1.0 if run is evolving else 2.0)
    monkeypatch.setattr(lengths, "peak", lambda *_: 2**20)
    built = {name: lengths.build_system(name, 16, 2, 1) for name in lengths.SYSTEMS}
    evolving = built["evolving"][1]
    monkeypatch.setattr(lengths, "build_system", lambda name, *_: built[name])
    args = argparse.Namespace(
        width=16, heads=2, depth=1, device="cpu", dtype="fp32", lengths=[8], rounds=2, materialised_up_to=8
    )
    (row,) = lengths.measure(args)["rows"]
    assert set(row["speed_of_evolving_over"].values()) == {2}


def test_every_system_decodes_as_many_steps():
    """As many as sentences have tokens: a model without training would end its sentences anywhere."""
    for arch in ("transformer", "rk2_tiny"):
        _, run = contest.prepare(System(arch), replace(TINY, what="decoding", beam=2))
        hypotheses = run()
        assert {len(h["tokens"]) for sentence in hypotheses for h in sentence} == {TINY.tokens + 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["training", "--arch", "floater_huge"], "floater_huge: must be transformer or one of"),
        (["training", "--arch", "floater_tiny", "--shortest", "99"], "--shortest 99: must be at most --tokens, 32"),
        (["training", "--arch", "floater_tiny", "--precision", "fp16"], "--precision fp16: needs --device cuda"),
        (
            ["decoding", "--arch", "rk4_tiny", "--", "--coefficients", "sigmoid"],
            "rk4_tiny: encoder with the integrator rk4",
        ),
        (
            ["suite", "tiny", "--", "--dropout", "0"],
            "-- --dropout 0: flags of models go with training, ",
        ),
        (["quick", "--data", "nowhere"], "--data nowhere: no such folder"),
        (["training", "--arch", "floater_tiny", "--data", "nowhere"], "--data nowhere: "),
        (["suite", "huge"], "huge: must be one of quick, "),
        (["table", "nowhere.json"], "nowhere.json: cannot be read"),
        (["lengths", "--heads", "3"], "--heads 3: must divide --width, 256"),
        (["lengths", "--width", "9", "--heads", "3"], "--width 9: must be even"),
    ],
)
def test_bad_contests_are_named(words, message, capsys):
    refused(["bench", *words], message, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["training", "--shortest", "-1"], "argument --shortest: -1: must be a whole number, 0 or more"),
        (["decoding", "--symbols", "4"], "argument --symbols: 4: must be a whole number, 5 or more"),
        (["preparation", "--pairs", "9"], "argument --pairs: 9: must be a whole number, 100 or more"),
    ],
)
def test_numbers_that_are_too_small_are_named(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", *words])
    assert ended.value.code == 2 and message in capsys.readouterr().err


# The suite


def quickly(args):
    """What the suite reads of ``convert_namespace_to_omegaconf(args)``; it has a hundred systems."""
    return SimpleNamespace(
        model=without_hydra(args), criterion=SimpleNamespace(_name=args.criterion), common=SimpleNamespace()
    )


@cache
def contests():
    """The systems of all contests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "convert_namespace_to_omegaconf", quickly)
        return {name: entry.systems() for name, entry in suite.SUITE.items()}


@pytest.mark.parametrize("name", suite.SUITE)
def test_every_contest_can_be_held(name, monkeypatch):
    """Its systems have configurations, its bars systems, and it measures what its baseline does too."""
    monkeypatch.setattr(contest, "convert_namespace_to_omegaconf", quickly)
    entry, systems = suite.SUITE[name], contests()[name]
    for system in systems.values():
        cfg = contest.configure(system, entry.setting)
        assert cfg.model.arch == system.arch and cfg.criterion._name == system.criterion
    for device in ("cpu", "cuda"):
        assert set(suite.bars(name, device)) <= set(systems)
    assert len(systems) > 1 and entry.of_precisions == all(system.precision for system in systems.values())


def test_quick_holds_the_quick_contests(monkeypatch, tmp_path, capsys):
    """On data if there are any; it measures speed alone, and writes nothing."""
    held = []

    def measured(systems, setting, memory):
        held.append((len(systems), setting, memory))
        return {}

    monkeypatch.setattr(contest, "convert_namespace_to_omegaconf", quickly)
    monkeypatch.setattr(bench, "_measure", measured)
    monkeypatch.setattr(suite, "table", lambda name, record: f"table of {name}")
    monkeypatch.setattr(bench, "MULTI30K", tmp_path / "nothing")
    assert cli.main(["bench", "quick"]) == 0
    assert "no batches of data" in (shown := capsys.readouterr().out)
    assert [line for line in shown.splitlines() if line.startswith("table")] == [
        "table of quick",
        "table of quick-decoding",
    ]
    assert all(count > 3 and not setting.data and not memory for count, setting, memory in held)
    held.clear()
    assert cli.main(["bench", "quick", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split("\n\n")[:-1] == [
        "table of quick",
        "table of quick",
        "table of quick-decoding",
    ]
    assert [setting.data for _, setting, _ in held] == ["", str(tmp_path), ""]
    assert not list(tmp_path.iterdir())


def test_what_a_row_has_of_its_own_is_in_its_contest(monkeypatch):
    """If the value is another than the one that the rows share."""
    shared = recipes.group("multi30k-short")["train"]["flags"]
    assert all("--clip-norm" not in system.flags for system in contests()["tiny-beyond"].values())
    changed = {"train": {"flags": shared | {"clip-norm": 9.0}}}
    monkeypatch.setattr(recipes, "group", lambda name: changed)
    for system in suite.SUITE["tiny-beyond"].systems().values():
        assert system.flags[system.flags.index("--clip-norm") + 1] == str(shared["clip-norm"])


def test_contests_with_bars_come_first():
    names = suite.in_order("cpu")
    assert set(names) == set(suite.SUITE) - set(suite.QUICK)
    barred = [bool(suite.bars(name, "cpu")) for name in names]
    assert barred == sorted(barred, reverse=True) and any(barred)


def test_no_architecture_is_a_mere_product_of_system_and_depth():
    """Beyond the usual depths there is what a recipe trains."""
    used = {recipes.load(name).train.arch for name in recipes.names() if name.startswith("ode/")}
    deep = [
        name + suffix for suffix, size in ode.SIZES.items() for name in size.systems if re.search("deep|_l", suffix)
    ]
    assert deep and set(deep) <= used


def test_a_bar_is_met_or_missed(tmp_path, capsys):
    speed = {"median": 0.9, "quartiles": [0.8, 0.96], "all": [0.9]}
    about = {"parameters": 7, "evaluations": {"encoder": 2, "decoder": 2}, "seconds": 2.0}
    even = {"median": 1.0, "quartiles": [1.0, 1.0], "all": [1.0]}
    systems = {
        "stock 12-6": about | {"speed": even, "peak_mib": 100.0, "step_mib": 50.0},
        "rk2 6-6": about | {"speed": speed, "peak_mib": 90.0, "step_mib": 60.0},
    }
    measured = {"tokens": 100, "setting": asdict(Setting()), "baseline": "stock 12-6", "systems": systems}
    record = bench._record("training", measured)
    (tmp_path / "base-deep.json").write_text(json.dumps(record))
    assert cli.main(["bench", "table", str(tmp_path / "base-deep.json")]) == 0
    shown = capsys.readouterr().out
    assert all(record["hardware"][part] in shown for part in ("processor", "blas", "capability"))
    assert (
        "0.90 [0.80, 0.96] | 90 (0.90) | 60 (1.20) | speed 0.95 missed, within the quartiles, memory 0.95 met" in shown
    )


def test_contests_between_precisions_are_held_once(tmp_path, monkeypatch):
    """The suite in another precision leaves them out; their tables name no precision for all."""
    held = []
    monkeypatch.setattr(bench, "_measure", lambda systems, setting, memory: held.append(setting) or {})
    monkeypatch.setattr(suite, "table", lambda name, record: name)
    monkeypatch.setattr(contest, "convert_namespace_to_omegaconf", quickly)
    assert cli.main(["bench", "suite", "--precision", "bf16", "--directory", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert "tiny.cpu-bf16.json" in names and not any(name.startswith("tiny-bf16") for name in names)
    assert {setting.precision for setting in held} == {"bf16"}
    monkeypatch.undo()
    record = json.loads((ROOT / "results/bench/amd-epyc/tiny-bf16.json").read_text())
    assert "symbols, 7 rounds" in suite.table("tiny-bf16", record)
