"""The benchmark's systems compute what they are said to; its numbers are whole. Timings are no test."""

import contextlib
import itertools
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli
from ode_transformer.experiments.bench import command, gpu, lengths, systems, turns
from ode_transformer.experiments.bench.systems import STOCK, Contestant, Setting
from ode_transformer.files import read_json
from ode_transformer.training.graphs import TrainingGraphs
from tests.helpers import USER_DIR, Kernels, binarise_pairs, raises, refused, without_hydra, write_parallel

TINY = Setting(sentences=3, tokens=5, shortest=2, symbols=60, rounds=3)
DECODING = replace(TINY, what="decoding", beam=2)


def test_attention_with_its_matrix_is_the_same_function():
    """Forward and backward; a matrix takes no fused kernel."""
    found, x = [], torch.randn(9, 2, 32)
    built = [lengths.build_system(name, 32, 4, 3) for name in ("materialised", "fused")]
    built[1][0].load_state_dict(built[0][0].state_dict())
    for module, run in built:
        with Kernels() as kernels:
            y = run(x)
            y.square().mean().backward()
        found.append((bool(kernels.names), y, [p.grad for p in module.parameters()]))
    assert [fused for fused, *_ in found] == [False, True]
    torch.testing.assert_close(found[0][1:], found[1][1:], atol=1e-5, rtol=1e-5)


def test_a_contest_has_the_threads_of_a_training(monkeypatch):
    """In a container with a quota, which PyTorch ignores."""
    taken = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(turns.processors, "threads", lambda: {"OMP_NUM_THREADS": "3"})
    monkeypatch.setattr(turns.torch, "set_num_threads", taken.append)
    command.main(SimpleNamespace(flags=[], what="table", go=lambda args: 0))
    assert taken == [3]


# Systems


@pytest.fixture
def quick(monkeypatch):
    """Configurations have what systems read of them alone; hydra needs half a second for one."""

    def quickly(args):
        criterion, common = SimpleNamespace(_name=args.criterion), SimpleNamespace(user_dir=args.user_dir)
        return SimpleNamespace(model=without_hydra(args), criterion=criterion, common=common)

    monkeypatch.setattr(systems, "convert_namespace_to_omegaconf", quickly)


@pytest.mark.parametrize(("arch", "flags", "feed_forwards"), [
    ("rk2_tiny", ("--encoder-layers", "3"), 1), ("macaron_tiny", (), 2),
])  # fmt: skip
def test_the_stock_system_has_the_size_of_ours(quick, arch, flags, feed_forwards):
    """Beside two feed-forwards it has one as wide as both."""
    both = Contestant(arch, flags), systems.stock_like(arch, flags)
    ours, stock = (systems.prepare(one, DECODING)[0] for one in both)
    assert type(stock).__name__ == "TransformerModel" and len(ours.encoder.layers) == len(stock.encoder.layers)
    assert ours.encoder.embed_tokens.weight.shape == stock.encoder.embed_tokens.weight.shape
    layers = [m.encoder.layers[0] for m in (ours, stock)]
    assert layers[0].normalize_before == layers[1].normalize_before
    assert layers[1].fc1.out_features == feed_forwards * layers[0].fc1.out_features
    configured = [systems.configure(one, TINY) for one in both]
    assert Path(configured[0].common.user_dir).samefile(USER_DIR)
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        assert getattr(configured[0].model, name) == getattr(configured[1].model, name)


def test_batches_of_data_take_the_place_of_random_sentences(tmp_path):
    raw = write_parallel(tmp_path / "raw", splits=[("train", 304), ("valid", 1), ("test", 1)])
    setting = replace(TINY, data=str(binarise_pairs(raw, tmp_path / "bin")), batches=9)
    _, found = systems.samples(Contestant("macaron_tiny"), setting)
    lines = [line.split() for line in (raw / "train.yy").read_text().splitlines()]
    assert sum(sample["ntokens"] for sample in found) == sum(len(line) + 1 for line in lines)
    model, step = systems.prepare(Contestant("macaron_tiny"), setting)
    assert len(model.encoder.embed_tokens.weight) == 4 + len({symbol for line in lines for symbol in line}) + 2
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    step()
    assert not [name for name, p in model.named_parameters() if torch.equal(p, before[name])], "a step trains"
    assert setting.noted()["data"] == "bin"


def test_every_system_decodes_as_many_steps(quick):
    """As many as sentences have tokens: a model without training would end its sentences anywhere."""
    for arch in ("transformer", "rk2_tiny"):
        _, run = systems.prepare(Contestant(arch), DECODING)
        assert {len(h["tokens"]) for sentence in run() for h in sentence} == {TINY.tokens + 1}


# Turns


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), OdeTransformerError("a reason")])
def test_a_step_that_fails_is_told_and_leaves_no_file(error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, step = systems.prepare(Contestant("macaron_tiny"), TINY)
    monkeypatch.setattr(model, "forward", mock.Mock(side_effect=error))
    with pytest.raises(type(error), match=str(error)):
        step()
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_systems_take_turns(tmp_path, capsys):
    words = ["bench", "training", "--arch", "floater_tiny", "--sentences", "3", "--tokens", "5", "--shortest", "2",
             "--symbols", "30", "--rounds", "3", "--output", str(tmp_path / "x.json")]  # fmt: skip
    assert cli.main([*words, "--", "--encoder-layers", "1", "--flow-sharing", "stack"]) == 0
    record = read_json(tmp_path / "x.json")
    names = ["stock", "floater_tiny", "stock, our criterion", "floater_tiny, stock criterion"]
    assert list(record["systems"]) == names and record["baseline"] == "stock"
    for name, found in record["systems"].items():
        assert len(found["speed"]["all"]) == 3
        low, high = found["speed"]["quartiles"]
        assert 0 < low <= found["speed"]["median"] <= high
        assert found["peak_mib"] > found["step_mib"] > 0
        assert (found["criterion"] == STOCK) == (name in ("stock", "floater_tiny, stock criterion"))
        assert found["optimizer"] == ("adam" if "floater" not in name else "fused_adam")
    assert record["systems"]["floater_tiny"]["flags"] == ["--encoder-layers", "1", "--flow-sharing", "stack"]
    assert record["systems"]["stock"]["speed"]["median"] == 1
    shown = capsys.readouterr().out
    assert all(f"| {name} |" in shown for name in names)


def test_speed_is_the_baselines_time_over_its_own(monkeypatch):
    times = {"stock": [2.0, 4.0, 6.0], "ours": [1.0, 4.0, 2.0]}
    monkeypatch.setattr(systems, "in_turns", lambda builds, *_: ({name: {} for name in builds}, times))
    monkeypatch.setattr(systems, "peak", lambda name, *_: (6.0, 2.0) if name == "stock" else (3.0, 1.0))
    found = systems.measure({"stock": Contestant("transformer"), "ours": Contestant("macaron_tiny")}, TINY)["systems"]
    assert found["ours"]["speed"] == {"median": 2, "quartiles": [1.5, 2.5], "all": [1, 2, 3]}
    assert found["stock"]["seconds"] == 4 and found["ours"]["seconds"] == 2
    assert (found["stock"]["peak_mib"], found["stock"]["step_mib"], found["ours"]["step_mib"]) == (6, 2, 1)


def test_what_a_failed_system_held_is_free_when_its_error_is_told(monkeypatch):
    """Also what the frames of the error held, so that there is memory for the others."""
    held, told = [], []

    def keep(kept):
        kept.model = torch.nn.Identity()
        held.append(weakref.ref(kept.model))

    def fail(kept):
        model = kept.model  # noqa: F841
        raise ValueError("out of memory")

    monkeypatch.setattr(turns.logging, "disable", lambda level: None)
    calls = mock.Mock(side_effect=[(keep, ()), (fail, ()), EOFError])
    connection = SimpleNamespace(recv=calls, send=lambda answer: told.append((answer[1], held[0]() is None)))
    turns._serve(connection, 1, user_dir="")
    assert told == [("", False), ("ValueError: out of memory", True)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["training", "--arch", "floater_huge"], "floater_huge: must be transformer or one of"),
        (["training", "--arch", "floater_tiny", "--shortest", "99"], "--shortest 99: must be at most --tokens, 32"),
        (["training", "--arch", "floater_tiny", "--data", "nowhere"], "--data nowhere: "),
    ],
)
def test_bad_contests_are_named(quick, words, message, capsys):
    refused(["bench", *words], message, capsys)


# On a GPU


def test_rounds_are_of_every_mode_and_their_titles_say_what_is_measured(quick):
    rounds = gpu.rounds("data-bin/mine")
    titles = ["4,570 tokens, fp16", "batches of 4,096 tokens, fp16", "18,381 tokens, bf16", "decoding, beam 4, fp16"]
    assert list(dict.fromkeys(one.title for one in rounds)) == titles
    assert {one.mode for one in rounds if one.title == titles[0]} == set(gpu.MODES)
    assert len({(one.title, one.mode) for one in rounds}) == len(rounds), "by which the record keeps them"
    assert titles[1] not in {one.title for one in gpu.rounds()}
    assert {one.title for one in gpu.rehearsal()} == {"55 tokens, fp32", "decoding, beam 4, fp32"}
    assert {one.setting.device for one in gpu.rehearsal()} == {"cpu"}
    assert gpu.in_mode(Contestant("rk2"), "layers, graphs").flags == ("--compile-layers", "--cuda-graphs")
    assert gpu.in_mode(Contestant("transformer"), "graphs").flags == ()


@pytest.fixture
def contest(quick, monkeypatch, tmp_path):
    """A contest in which nothing is measured; what happened in it; and which systems fail, or are late."""
    happened, wrong = [], {}

    class Process:
        def __init__(self, name, anew):
            self.name, self.kept = name, SimpleNamespace(times=[])

        def begin(self, function, *args):
            self.asked = function

        def answer(self, seconds_left):
            if wrong.get(self.name) in ("fails", "is late"):
                raise OdeTransformerError(f"{self.name}: out of memory")
            if self.asked is gpu._time:
                happened.append(self.name)
                if wrong.get(self.name) == "fails late" and happened.count(self.name) == 2:
                    raise OdeTransformerError(f"{self.name}: out of memory")
                return gpu._time(self.kept, TINY)
            return {"warm_up_seconds": 1.0} if self.asked is gpu._warm_up else {}

        def close(self):
            pass

    @contextlib.contextmanager
    def alone():
        happened.append("alone")
        yield
        happened.append("together")

    times = itertools.cycle((0.009, *[1] * 6, 0.004, 0.005, *[1] * 3))  # of stock, whose turns are first and last
    monkeypatch.setattr(gpu, "seconds", lambda *_: next(times))
    monkeypatch.setattr(gpu, "Process", Process)

    def held(name):
        return gpu.measure(tmp_path / name, lambda: 1, device="cpu", alone=alone)

    return held, happened, wrong


def test_systems_take_turns_alone_and_a_record_that_is_whole_is_kept(contest, tmp_path, monkeypatch):
    held, happened, _ = contest
    record = held("x.json")
    turn = ["stock", "stock, our criterion and Adam", "macaron_tiny", "rk2_tiny"]
    assert happened == 3 * ["alone", *turn, *turn[::-1], *turn, "together", "alone", "together"]
    assert read_json(tmp_path / "x.json") == record == held("x.json") and len(happened) == 3 * 16
    assert "| stock | 5.0 ms (1.00) |" in gpu.table(record), "the median of three turns"
    (tmp_path / "z.json").write_text("{}")
    raises("not a record of this device and version", held, "z.json")
    happened.clear()
    monkeypatch.setattr(gpu, "rehearsal", lambda: [gpu.Round(TINY, "graphs", at_once=1)])
    held("few.json")
    few = (["alone", "stock", x, x, "stock", "stock", x, "together"] for x in turn[1:])
    assert happened == [*itertools.chain(*few), "alone", "together"], "few systems are in memory at the same time"


def test_eager_passes_are_not_taken_for_graphs():
    graphs = TrainingGraphs(pad=1, eos=2)
    graphs.seen.update({1: 2, 2: 2})
    graphs.recorded[1], graphs.seconds = None, 3.0
    kept = SimpleNamespace(model=SimpleNamespace(graphs=graphs))
    raises("1 of 2 shapes were recorded", gpu._finish, kept, TINY, False)
    graphs.recorded[2] = None
    assert gpu._finish(kept, TINY, False) == {"shapes": 2, "recorded": 2, "recording_seconds": 3.0}
    kept = SimpleNamespace(model=SimpleNamespace(graphs=lambda model, run, tokens: run(**tokens)))
    assert gpu._finish(kept, TINY, False) == {}, "a model in eager mode has none"


def test_a_system_that_fails_or_is_late_is_noted_and_begun_anew(contest, tmp_path):
    """They are measured another time, by the same command."""
    held, happened, wrong = contest
    wrong.update(macaron_tiny="fails", rk2_tiny="is late")
    record = held("x.json")
    assert [len(one["systems"]) for one in record["rounds"]] == [4, 4, 4]
    assert record["rounds"][1]["systems"]["macaron_tiny"] == {"error": "macaron_tiny: out of memory"}
    assert "| rk2_tiny |  |  |" in gpu.table(record) and not {"macaron_tiny", "rk2_tiny"} & {*happened}
    without_stock = {**record["rounds"][0], "systems": {"rk2_tiny": {"milliseconds": 5.0}}}
    assert "| rk2_tiny |  |" in gpu.table({"rounds": [without_stock]}), "there is no speed"
    happened.clear()
    wrong["macaron_tiny"] = "fails late"
    late = held("late.json")["rounds"][0]["systems"]["macaron_tiny"]
    assert late == {"error": "macaron_tiny: out of memory"}
    del wrong["macaron_tiny"]
    assert [gpu._measured(one) for one in held("x.json")["rounds"]] == [3, 3, 3]
    wrong.clear()
    assert [gpu._measured(one) for one in held("x.json")["rounds"]] == [4, 4, 4]
    wrong.update(dict.fromkeys(record["rounds"][0]["systems"], "is late"))
    assert not held("y.json")["rounds"] and not (tmp_path / "y.json").exists(), "so that it is held another time"
