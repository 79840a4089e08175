"""Averaging, selection and safe loading; what cannot be used is named and nothing of the user's is lost."""

import contextlib
import os
import pickle
import weakref
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from ode_transformer import checkpoints
from ode_transformer.checkpoints import CheckpointError
from ode_transformer.experiments import cli
from ode_transformer.files import atomic_file
from tests.helpers import output_of, raises, refused


def write(path, model=None, **more):
    state = {"model": model or {"w": torch.ones(3)}, "cfg": {"model": {"_name": "x"}}, "extra_state": {"epoch": 1}}
    torch.save(state | more, path)
    return path


def at(path, updates, **more):
    """A checkpoint that training can go on from."""
    return write(path, optimizer_history=[{"num_updates": updates}], last_optimizer_state={}, **more)


@pytest.mark.parametrize(
    ("rows", "kind", "kept"),
    [
        # 2048 + 1 is 2048 in fp16; a mean of many needs a wider sum, and keeps what fp16 would round away.
        ([2048.0, 1.0, 1.0, 1.0, 1.0], torch.float16, torch.float32),
        ([1.0, 1.0 + 2.0**-39], torch.float64, torch.float64),
    ],
)
def test_the_mean_keeps_what_the_checkpoints_hold(tmp_path, rows, kind, kept):
    paths = [write(tmp_path / f"{i}.pt", {"w": torch.tensor([r], dtype=kind)}) for i, r in enumerate(rows)]
    checkpoints.average(paths, tmp_path / "average.pt")
    mean = checkpoints.load(tmp_path / "average.pt")["model"]["w"]
    assert mean.dtype is kept and mean == torch.tensor([sum(rows) / len(rows)], dtype=kept)


@pytest.mark.parametrize("view", [lambda w: w[:1], lambda w: w.t()])
def test_views_of_one_tensor_are_averaged_apart(tmp_path, view):
    paths = []
    for i in (1.0, 3.0):
        w = i * torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        paths.append(write(tmp_path / f"{i}.pt", {"w": w, "view": view(w)}))
    checkpoints.average(paths, tmp_path / "average.pt")
    mean = checkpoints.load(tmp_path / "average.pt")["model"]
    assert torch.equal(mean["w"], torch.tensor([[2.0, 4.0], [6.0, 8.0]])) and torch.equal(mean["view"], view(mean["w"]))


def test_what_was_loaded_does_not_change_with_the_file(tmp_path, monkeypatch):
    """Training writes its last and its best checkpoint over the one before."""
    path, real = write(tmp_path / "checkpoint_best.pt"), torch.load
    loaded = checkpoints.load(path)["model"]["w"]
    path.write_bytes(write(tmp_path / "next.pt", {"w": torch.full((3,), 2.0)}).read_bytes())
    assert (loaded == 1).all()
    monkeypatch.setattr(torch, "load", lambda *args, **more: (real(*args, **more), os.utime(path, (0, 0)))[0])
    raises(r"checkpoint_best\.pt: was written to while it was read", checkpoints.load, path)


def test_tied_parameters_stay_tied_and_the_optimiser_stays_behind(tmp_path):
    paths = []
    for i in range(3):
        w = torch.full((100, 10), float(i))
        more = {"extra_state": {"epoch": 3, "ema": {"w": torch.zeros(10_000)}, "ema_fp32_params": {}}}
        more["last_optimizer_state"] = {"state": torch.zeros(10_000)}
        paths.append(write(tmp_path / f"{i}.pt", {"encoder": w, "decoder": w, "steps": torch.tensor(i)}, **more))
    checkpoints.average(paths, tmp_path / "average.pt")
    state = checkpoints.load(tmp_path / "average.pt")
    assert state["model"]["encoder"].data_ptr() == state["model"]["decoder"].data_ptr()
    assert torch.equal(state["model"]["encoder"], torch.ones(100, 10))
    assert state["model"]["steps"] == 2, "a counter is that of the last"
    assert "last_optimizer_state" not in state
    assert state["extra_state"] == {"epoch": 3}
    assert state["averaged_from"] == ["0.pt", "1.pt", "2.pt"]
    assert state["cfg"] == {"model": {"_name": "x"}}
    assert (tmp_path / "average.pt").stat().st_size < 10_000


def test_a_training_goes_on_with_its_next_batch_on_more_devices(tmp_path):
    """fairseq counts the batches of one device."""
    place = {"train_iterator": {"epoch": 2, "iterations_in_epoch": 24}}
    trained = {"cfg": {"distributed_training": {"distributed_world_size": 4}}, "extra_state": place}
    path = write(tmp_path / "last.pt", {"w": torch.ones(3)}, **trained)
    for _ in range(2):
        checkpoints.divide_anew(path, 8)
    state = checkpoints.load(path)
    assert state["extra_state"] == {"train_iterator": {"epoch": 2, "iterations_in_epoch": 12}}


BOTH, ONES = r"a\.pt and .*b\.pt", torch.ones(3)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"w": ONES, "fc1.weight": ONES}, {"w": ONES}, rf"{BOTH} are of different architectures.*fc1\.weight"),
        ({"w": torch.ones(4)}, {"w": ONES}, rf"{BOTH} cannot be averaged: w is \(4,\).*\(3,\)"),
        ({"w": ONES.long()}, {"w": ONES}, rf"{BOTH} cannot be averaged: w is \(3,\) torch\.int64 in the first"),
        ({"w": torch.tensor([1])}, {"w": torch.tensor([2])}, rf"{BOTH} cannot be averaged: w is \(1,\) torch\.int64"),
        ({"w": torch.tensor([1.0, torch.nan])}, {"w": torch.ones(2)}, r"a\.pt: .*w has 1 non-finite value"),
        ({"w": ONES}, {"w": ONES / 0}, r"b\.pt: .*w has 3 non-finite values"),
        ({"w": [1.0]}, {"w": ONES}, r"a\.pt: model\['w'\] is a list"),
        ({"w": torch.ones(1).expand(10**9)}, {"w": ONES}, r"a\.pt: .*has more elements than stored values"),
    ],
)
def test_checkpoints_without_a_mean_are_refused_by_name(tmp_path, first, second, message):
    paths = [write(tmp_path / "a.pt", first), write(tmp_path / "b.pt", second)]
    raises(message, checkpoints.average, paths, tmp_path / "average.pt")
    assert not (tmp_path / "average.pt").exists()


def test_a_truncated_checkpoint_is_named(tmp_path):
    path = write(tmp_path / "whole.pt", {"w": torch.randn(5000)})
    content = path.read_bytes()
    for size in (0, 1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.pt").write_bytes(content[:size])
        with pytest.raises(checkpoints.DamagedError, match=r"cut\.pt"):
            checkpoints.load(tmp_path / "cut.pt")
    raises("no such file", checkpoints.load, tmp_path / "absent.pt")
    raises("is a folder; name a checkpoint in it", checkpoints.load, tmp_path)
    torch.save({"weights": 1}, tmp_path / "other.pt")
    raises("not a fairseq checkpoint", checkpoints.load, tmp_path / "other.pt")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_would_run_code_is_refused_and_nothing_runs(tmp_path, zipped):
    marker, path = tmp_path / "executed", tmp_path / "evil.pt"
    state = {"model": {"w": torch.ones(1)}, "extra_state": Evil(marker)}
    if zipped:
        torch.save(state, path)
    else:
        path.write_bytes(pickle.dumps({"extra_state": Evil(marker)}, protocol=2))
    with pytest.raises(CheckpointError, match=r"evil\.pt") as error:
        checkpoints.average([path], tmp_path / "average.pt")
    assert "mkdir" in str(error.value) or not zipped
    assert not marker.exists()
    pickle.loads(pickle.dumps(Evil(marker)))
    assert marker.exists(), "the attack itself works"


def test_selection(tmp_path):
    for name in ("checkpoint1", "checkpoint2", "checkpoint10", "checkpoint_2_100", "checkpoint_10_1000",
                 "checkpoint_3_250", "checkpoint_last", "checkpoint_best", "checkpoint.best_loss_3.100",
                 "checkpoint.best_loss_12.000", "checkpoint.best_loss_2.90011"):  # fmt: skip
        write(tmp_path / f"{name}.pt", cfg={"checkpoint": {"maximize_best_checkpoint_metric": False}})

    def names(*which, **more):
        return [p.stem for p in checkpoints.select(tmp_path, *which, **more)]

    assert names("last-epochs", 2) == ["checkpoint2", "checkpoint10"]
    assert names("last-updates", 2) == ["checkpoint_3_250", "checkpoint_10_1000"]
    assert names("best", 1) == ["checkpoint_best"]
    assert names("best", 2) == ["checkpoint.best_loss_3.100", "checkpoint.best_loss_2.90011"]
    write(tmp_path / "checkpoint.best_loss_2.87.pt")  # as fairseq wrote it until 2021
    assert names("best", 2) == ["checkpoint.best_loss_2.90011", "checkpoint.best_loss_2.87"]
    raises(r"--last-epochs 4: .* has 3 .*checkpoint10\.pt\); --fewer", names, "last-epochs", 4)
    assert names("last-epochs", 4, fewer=True) == ["checkpoint1", "checkpoint2", "checkpoint10"]
    (tmp_path / "none").mkdir()
    raises(r"--best 1: .* has 0 of that kind", checkpoints.select, tmp_path / "none", "best", 1, fewer=True)
    for value in ("30.100", "9.500", "31.000"):  # where more is better
        cfg = {"checkpoint": {"maximize_best_checkpoint_metric": True}}
        write(tmp_path / "none" / f"checkpoint.best_bleu_{value}.pt", cfg=cfg)
    best = checkpoints.select(tmp_path / "none", "best", 2)
    assert [p.stem for p in best] == ["checkpoint.best_bleu_30.100", "checkpoint.best_bleu_31.000"]


def test_a_last_checkpoint_that_was_cut_short_is_replaced_by_the_newest_whole_one(tmp_path, monkeypatch):
    assert checkpoints.resume_point(tmp_path) == 0
    for name, updates in (("2", 14), ("_1_70", 70), ("_best", 30), ("_avg", 80), ("_last", 71)):
        at(tmp_path / f"checkpoint{name}.pt", updates)  # an average is not one to go on from
    assert checkpoints.resume_point(tmp_path) == 71
    (tmp_path / "checkpoint_last.pt").write_bytes(b"PK half a file")
    (tmp_path / "checkpoint11.pt").write_bytes(b"and another")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(checkpoints, "copy_file", Mock(side_effect=OSError(28, "No space left on device")))
        checkpoints.resume_point(tmp_path)
    assert (tmp_path / "checkpoint_last.pt").exists(), "without it, fairseq would begin anew"
    assert checkpoints.resume_point(tmp_path) == 70
    assert checkpoints.load(tmp_path / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] == 70
    assert (tmp_path / "checkpoint_last.pt.damaged").read_bytes() == b"PK half a file"
    (tmp_path / "checkpoint_last.pt").unlink()  # a kill before the first copy
    assert checkpoints.resume_point(tmp_path, mend=False) == 70 and not (tmp_path / "checkpoint_last.pt").exists()
    assert checkpoints.resume_point(tmp_path) == 70 and (tmp_path / "checkpoint_last.pt").is_file()
    at(tmp_path / "checkpoint.best_loss_3.100.pt", 75)
    (tmp_path / "checkpoint_last.pt").unlink()
    assert checkpoints.resume_point(tmp_path) == 75
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "checkpoint_last.pt").write_bytes(b"")
    assert checkpoints.resume_point(tmp_path / "other") == 0
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["checkpoint_last.pt.damaged"]


def test_a_damaged_last_checkpoint_is_replaced_and_no_average_is_made_of_one(tmp_path, capsys, fails):
    for i in (1, 2, 3):
        at(tmp_path / f"checkpoint{i}.pt", 10 * i, model={"w": torch.randn(2**17)})
    content = bytearray((tmp_path / "checkpoint3.pt").read_bytes())
    middle = len(content) // 2  # of the largest tensor
    content[middle : middle + 2**16] = bytes(2**16)  # which is what a disk does
    for name in ("checkpoint3.pt", "checkpoint_last.pt"):
        (tmp_path / name).write_bytes(content)
    assert torch.load(tmp_path / "checkpoint_last.pt")["optimizer_history"], "PyTorch sees nothing"
    assert checkpoints.resume_point(tmp_path, mend=False) == 20
    assert output_of(["resume", tmp_path], capsys).out == "20\n"
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == (tmp_path / "checkpoint2.pt").read_bytes()
    assert (tmp_path / "checkpoint_last.pt.damaged").exists()
    said = fails("average", tmp_path, "--last-epochs", 2, "--output", tmp_path / "a.pt")
    assert "checkpoint3.pt: damaged, the checksum of" in said
    assert not (tmp_path / "a.pt").exists()


def test_a_last_checkpoint_that_is_not_damaged_stays(tmp_path, monkeypatch):
    """One that only cannot be read now, or that is refused, is no reason to train on from an older one."""
    for name, updates in (("checkpoint1.pt", 7), ("checkpoint_last.pt", 14)):
        at(tmp_path / name, updates)
    last = tmp_path / "checkpoint_last.pt"
    whole = last.read_bytes()

    for error in (OSError(5, "Input/output error"), RuntimeError("DefaultCPUAllocator: can't allocate memory")):
        with monkeypatch.context() as patched:
            patched.setattr(checkpoints.torch, "load", Mock(side_effect=error))
            raises(rf"checkpoint_last\.pt: cannot be read: .*{error.args[-1]}", checkpoints.resume_point, tmp_path)
        assert last.read_bytes() == whole
    at(last, 14, more=Path("x"))
    raises(r"checkpoint_last\.pt: refused, it holds more than tensors", checkpoints.resume_point, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint1.pt", "checkpoint_last.pt"]


def test_archives_that_unfold_and_tensors_that_are_not_plain_are_refused(tmp_path):
    plain = write(tmp_path / "plain.pt", {"w": torch.zeros(1000)})
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for member in source.infolist():
            packed.writestr(member.filename, source.read(member))
    raises(r"small\.pt: not a readable checkpoint, its archive is compressed", checkpoints.load, tmp_path / "small.pt")
    for tensor in (torch.eye(3).to_sparse(), torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)):
        raises(r"odd\.pt: w is not a plain tensor", checkpoints.load, write(tmp_path / "odd.pt", {"w": tensor}))


def test_without_the_optimizers_state_training_cannot_go_on(tmp_path):
    """fairseq would begin at update 0, in the middle of the epochs, and say nothing."""
    write(tmp_path / "checkpoint_last.pt", optimizer_history=[])
    raises(r"checkpoint_last\.pt: says no number of updates", checkpoints.resume_point, tmp_path)
    write(tmp_path / "checkpoint_last.pt", optimizer_history=[{"num_updates": "abc"}], last_optimizer_state={})
    raises("says 'abc' updates, must be a whole number", checkpoints.resume_point, tmp_path)
    write(tmp_path / "checkpoint_last.pt", optimizer_history=[{"num_updates": 18}])
    raises("holds no state of the optimizer", checkpoints.resume_point, tmp_path)
    (tmp_path / "checkpoint_last.pt").rename(tmp_path / "checkpoint2.pt")
    (tmp_path / "checkpoint_last.pt").write_bytes(b"PK half a file")
    raises(r"checkpoint2\.pt: holds no state of the optimizer", checkpoints.resume_point, tmp_path)
    assert (tmp_path / "checkpoint_last.pt").exists(), "nothing is moved aside"


def test_an_average_does_not_take_the_name_of_a_checkpoint_that_training_needs(tmp_path, capsys):
    write(tmp_path / "checkpoint_best.pt")
    words = ["average", str(tmp_path), "--best", "1", "--output"]
    before = (tmp_path / "checkpoint_best.pt").read_bytes()
    for name in ("checkpoint_best", "checkpoint_last", "checkpoint7", "checkpoint_1_7", "checkpoint.best_loss_3.100"):
        output = str(tmp_path / f"{name}.pt")
        refused([*words, output], rf"--output .*{name}\.pt: would pass for a checkpoint .* average\.pt", capsys)
    assert (tmp_path / "checkpoint_best.pt").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    (tmp_path / "link.pt").symlink_to(tmp_path / "checkpoint_best.pt")
    refused([*words, str(tmp_path / "link.pt")], r"--output .*link\.pt: would pass for a checkpoint", capsys)
    assert cli.main([*words, str(tmp_path / "elsewhere" / "checkpoint_best.pt")]) == 0
    refused(["resume", str(tmp_path / "none")], r"none: no such folder", capsys)


def test_numpys_numbers_are_read_as_pythons_and_its_arrays_as_such(tmp_path):
    """fairseq leaves the former as the best score of a correlation, the latter among its meters of ``--eval-bleu``."""
    for kind in (np.float64, np.float32, np.float16):
        best = checkpoints.load(write(tmp_path / "m.pt", extra_state={"best": kind(81.25)}))["extra_state"]["best"]
        assert type(best) is float and best == 81.25
    counts = {"a": np.arange(4), "b": np.asfortranarray(np.ones((2, 3), np.float32)), "c": np.array(True)}
    for _ in range(2):  # what is read is saved as if NumPy had made it
        write(tmp_path / "m.pt", extra_state=counts)
        assert b"ode_transformer" not in (tmp_path / "m.pt").read_bytes()
        found = checkpoints.load(tmp_path / "m.pt")["extra_state"]
        for name, array in counts.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
        counts = found


def _of_negative_size():
    class Array(np.ndarray):
        def __reduce__(self):
            make, (_, *rest), (version, _, *state) = np.ones(1).__reduce__()
            return make, (np.ndarray, *rest), (version, (-1, -1), *state)

    return np.ones(1).view(Array)


class _Objects:
    """An array of objects, at addresses that the file names."""

    def __reduce__(self):
        return np.ndarray, ((1,), "O", b"AAAAAAAA")


def test_numpys_own_constructor_is_not_called(tmp_path):
    best = checkpoints.load(write(tmp_path / "m.pt", extra_state={"best": _Objects()}))["extra_state"]["best"]
    assert not len(best) and best.dtype == np.float64


@pytest.mark.parametrize(
    "other",
    [np.complex128(1), np.str_("x"), np.array([1j]), np.array(["x"]), np.array([None]), np.zeros(1, [("a", "f8")]),
     _of_negative_size()],
)  # fmt: skip
def test_other_things_of_numpys_are_refused(tmp_path, other):
    with pytest.raises(CheckpointError, match=r"m\.pt: (refused|not a readable checkpoint)"):
        checkpoints.load(write(tmp_path / "m.pt", extra_state={"best": other}))


def test_one_checkpoint_at_a_time_is_in_memory(tmp_path, monkeypatch):
    paths, loaded, alive, real = [write(tmp_path / f"{i}.pt") for i in range(4)], [], [], checkpoints.load

    def load(path):
        state = real(path)
        loaded.append(weakref.ref(state["model"]["w"]))
        alive.append(sum(one() is not None for one in loaded))
        return state

    monkeypatch.setattr(checkpoints, "load", load)
    checkpoints.average(paths, tmp_path / "average.pt")
    assert alive == [1, 1, 1, 1]


def test_a_full_disk_is_named_and_the_older_average_survives(tmp_path, monkeypatch):
    paths, output = [write(tmp_path / f"{i}.pt") for i in range(2)], tmp_path / "average.pt"
    checkpoints.average(paths, output)
    before = output.read_bytes()

    @contextlib.contextmanager
    def full(*where):
        with atomic_file(*where) as file:

            def some(content, real=file.write):
                if file.tell() > 500:
                    raise OSError(28, "No space left on device")
                return real(content)

            file.write = some
            yield file

    monkeypatch.setattr(checkpoints, "atomic_file", full)
    raises(r"average\.pt: cannot be written: .*No space left", checkpoints.average, paths, output)
    assert output.read_bytes() == before and len(list(tmp_path.iterdir())) == 3
