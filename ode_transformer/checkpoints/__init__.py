"""Checkpoints: loaded without running their code, averaged one at a time, written whole or not at all."""

import argparse
import contextlib
import copy
import errno
import pickle
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import OdeTransformerError, counted
from ..files import atomic_file, copy_file
from ..requirements import check_requirements

check_requirements()  # an older torch could run code from a file, and an unfit fairseq cannot be imported

from . import unpickling  # noqa: E402, F401

# What an averaged checkpoint leaves out: it is for decoding, or for training with a fresh optimizer.
_DROPPED = ("model", "criterion", "last_optimizer_state")


class CheckpointError(OdeTransformerError):
    """A checkpoint that cannot be used; the message names the file and the reason."""


class DamagedError(CheckpointError):
    """A checkpoint whose file is truncated or damaged."""


def load(path: str | Path) -> dict[str, Any]:
    """Load a fairseq checkpoint on the CPU without running code from it.

    It is compared with the checksums in it, which PyTorch itself does not verify; files written before PyTorch 1.6 have
    none. The model's tensors are copied into memory; the others, those of the optimizer, are mapped from the file, and
    it must not be written to while they are in use.

    Raises:
        DamagedError: the file is truncated or damaged.
        CheckpointError: it cannot be read, changes meanwhile, or holds anything but tensors and plain data.
    """
    path = Path(path)
    if not path.is_file():
        wrong = "is a folder; name a checkpoint in it, such as average.pt" if path.is_dir() else "no such file"
        raise CheckpointError(f"{path}: {wrong}")
    before = path.stat()
    try:
        mapped = zipfile.is_zipfile(path)
        if mapped:
            _check_archive(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        if mapped and isinstance(state, dict) and isinstance(state.get("model"), dict):
            state["model"] = copy.deepcopy(state["model"])  # tensors that share memory still do
    except CheckpointError:
        raise
    except Exception as error:  # damaged bytes end in errors of every kind, EOFError to IndexError
        if _of_the_system(error):
            raise CheckpointError(f"{path}: cannot be read: {error}") from error
        if isinstance(error, pickle.UnpicklingError) and (match := re.search(r"GLOBAL (\S+)", str(error))):
            raise CheckpointError(
                f"{path}: refused, it holds more than tensors and plain data: it would import {match[1]}. Someone who "
                "trusts the file can load it and save 'model' alone with 'args', or with 'cfg' as a plain dictionary "
                "(OmegaConf.to_container); that file can be loaded"
            ) from error
        # We cut PyTorch's advice to disable the check: it is unsafe for files of others.
        first = str(error).split("\n")[0].partition(" Re-running")[0].partition(" In PyTorch")[0]
        raise DamagedError(
            f"{path}: not a readable checkpoint, truncated or damaged? ({type(error).__name__}: {first})"
        ) from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise CheckpointError(f"{path}: not a fairseq checkpoint, it has no 'model'")
    for name, tensor in state["model"].items():
        _check_tensor(path, name, tensor)
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise CheckpointError(f"{path}: was written to while it was read; try again")
    return state


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """Load the tensors of a ``.safetensors`` file, by their names."""
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:  # of the system, of a damaged head, of a type that PyTorch does not have
        raise CheckpointError(f"{path}: is not a readable safetensors file: {type(error).__name__}: {error}") from error


def _of_the_system(error: Exception) -> bool:
    """Whether the system could not read the file, for lack of memory or permission or because of the disk."""
    if isinstance(error, OSError):
        return error.errno != errno.EINVAL  # raised by seeking to an offset that is damaged
    return isinstance(error, MemoryError) or re.search("allocate memory|unable to mmap", str(error)) is not None


def _check_archive(path: Path) -> None:
    """Compare the content of a zip archive with its checksums."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        # PyTorch compresses nothing, so that a file cannot unfold into more than its own size.
        if any(m.compress_type != zipfile.ZIP_STORED for m in members) or (
            sum(m.file_size for m in members) > path.stat().st_size
        ):
            raise DamagedError(f"{path}: not a readable checkpoint, its archive is compressed")
        if damaged := archive.testzip():
            raise DamagedError(f"{path}: damaged, the checksum of {damaged} in it does not match")


def _check_tensor(path: Path, name: Any, tensor: Any) -> None:
    if not isinstance(name, str) or not isinstance(tensor, Tensor):
        raise CheckpointError(f"{path}: model[{name!r}] is a {type(tensor).__name__}, must be a tensor under a name")
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise CheckpointError(f"{path}: {name} is not a plain tensor (sparse, quantized or without values)")
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{path}: {name} of shape {tuple(tensor.shape)} has more elements than stored values")


def save(state: dict[str, Any], path: str | Path) -> None:
    """Write a checkpoint beside its place, then rename it: an old file survives whatever goes wrong."""
    try:
        with atomic_file(path, "wb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        # Where a write fails, as on a full disk, PyTorch fails once more when it closes the archive.
        cause = error.__context__ if isinstance(error.__context__, OSError) else error
        raise CheckpointError(f"{path}: cannot be written: {cause}") from error


def select(directory: str | Path, kind: str, count: int, *, fewer: bool = False) -> list[Path]:
    """Return ``count`` checkpoints that fairseq-train left in its ``--save-dir``, oldest (or worst) first.

    The kinds are ``last-epochs``, ``checkpointN.pt``; ``last-updates``, ``checkpoint_E_U.pt``; and ``best``, those that
    ``--keep-best-checkpoints`` has kept, where 1 is ``checkpoint_best.pt``. With ``fewer``, a single one suffices.
    """
    if not Path(directory).is_dir():
        raise CheckpointError(f"{directory}: no such folder, must be the --save-dir of fairseq-train")
    pattern = {
        "last-epochs": r"checkpoint(\d+)\.pt",
        "last-updates": r"checkpoint_\d+_(\d+)\.pt",
        "best": r"checkpoint_best\.pt()" if count == 1 else r"checkpoint\.best_.+?_(-?\d+\.\d{2,3})\d*\.pt",
    }[kind]
    found = [(m[1], p) for p in Path(directory).glob("*.pt") if (m := re.fullmatch(pattern, p.name))]
    paths = [path for _, path in sorted(found, key=lambda pair: (float(pair[0] or 0), pair[1].name))]
    if len(paths) < (1 if fewer else count):
        others = sorted(p.name for p in Path(directory).glob("*.pt"))
        names = ", ".join(p.name for p in paths) or f"but {', '.join(others) or 'no checkpoints'}"
        less = "--fewer, in a recipe average.fewer, takes those that are there"
        if not paths:
            less = "train for longer"
            if kind == "last-updates":  # fairseq writes checkpoint_E_U.pt within epochs only
                less += " or, if every one was due at the end of an epoch, average --last-epochs"
        raise CheckpointError(f"--{kind} {count}: {directory} has {len(paths)} of that kind ({names}); {less}")
    if kind == "best" and count > 1:
        maximised = options(load(paths[0]), "checkpoint").get("maximize_best_checkpoint_metric")
        paths = paths if maximised else paths[::-1]
    return paths[-count:]


def options(state: dict[str, Any], section: str) -> dict[str, Any]:
    """Return the options that a checkpoint was trained with, of a section of fairseq's configuration such as ``model``.

    Checkpoints of versions before fairseq 0.10.2 hold all options in one place; where a file has both, that place
    counts, as in fairseq. The result is empty if the file has neither.
    """
    found = state.get("args")
    if found is None and isinstance(config := state.get("cfg"), dict):
        found = config.get(section)
    if isinstance(found, argparse.Namespace):
        found = vars(found)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def resume_point(directory: str | Path, mend: bool = True) -> int:
    """Prepare a training folder for resuming, and return the number of updates that were done.

    fairseq writes ``checkpoint_last.pt`` as a copy, which a kill can truncate; every later start would then fail. Or
    the disk has damaged it, and training would resume from other values. Such a file is kept under another name, and
    the intact checkpoint with the most updates takes its place, as it does if the first copy was not yet made. If there
    is none, training starts anew. Without ``mend``, the folder is left as it is. An intact checkpoint from which
    fairseq cannot resume is an error.
    """
    last = Path(directory) / "checkpoint_last.pt"
    if last.exists():
        with contextlib.suppress(DamagedError):
            return _updates(last)
    done, newest = 0, None
    for path in last.parent.glob("checkpoint*.pt"):
        if re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_best|\.best_.+)\.pt", path.name):
            with contextlib.suppress(DamagedError):
                if (updates := _updates(path)) > done:
                    done, newest = updates, path
    if mend:
        whole = last.with_name("checkpoint_last.pt.whole")
        if newest is not None:  # first, because fairseq begins anew where it finds no last checkpoint
            copy_file(newest, whole)
        if last.exists():
            last.replace(last.with_name("checkpoint_last.pt.damaged"))
        if newest is not None:
            whole.replace(last)
    return done


def _updates(path: Path) -> int:
    """Return the number of updates after which a checkpoint was written, if fairseq can resume from it."""
    state = load(path)
    try:
        updates = state["optimizer_history"][-1]["num_updates"]
    except (KeyError, IndexError, TypeError) as error:
        raise CheckpointError(f"{path}: says no number of updates, so that training cannot go on") from error
    if type(updates) is not int or updates < 0:
        raise CheckpointError(f"{path}: says {updates!r} updates, must be a whole number, 0 or more")
    if updates and state.get("last_optimizer_state") is None:
        raise CheckpointError(
            f"{path}: holds no state of the optimizer, without which fairseq would begin at update 0 again; it was "
            "averaged, or written with --no-save-optimizer-state"
        )
    return updates


def divide_anew(path: Path, devices: int) -> None:
    """Let a training that stopped within an epoch go on with its next batch on another number of devices.

    fairseq counts the batches of one device: it would repeat some, leave some out, or find the epoch too short.
    """
    state = load(path)
    before = options(state, "distributed_training").get("distributed_world_size", devices)
    place = state["extra_state"]["train_iterator"]
    if before != devices and place.get("iterations_in_epoch"):
        place["iterations_in_epoch"] = place["iterations_in_epoch"] * before // devices
        state["cfg"]["distributed_training"]["distributed_world_size"] = devices
        save(state, path)


def average(paths: Sequence[str | Path], output: str | Path) -> None:
    """Average the parameters of checkpoints, holding one of them at a time besides the sum.

    Floating-point tensors are summed in double precision and stored in single precision at least: fp16 would round the
    mean to what the checkpoints themselves can hold. Others have no mean, and have to be equal, unless they are single
    numbers: counters, as in FLOATER's released code, are those of the last checkpoint. Everything else is taken from
    it, too, without the optimizer's state and without an exponential moving average (``--store-ema``), which is not
    averaged. Tied parameters stay tied.
    """
    state = load(paths[-1])
    model = state["model"]
    _check_finite(model, paths[-1])
    keys = {name: storage_key(t) for name, t in model.items() if t.is_floating_point()}
    names = {key: name for name, key in reversed(keys.items())}  # the first of those that are tied
    total = {key: model[name].to(torch.float64, copy=True) for key, name in names.items()}
    state["model"] = model = {name: t.to("meta") if name in keys else t for name, t in model.items()}
    for path in paths[:-1]:
        other = load(path)["model"]
        _check_match(other, path, model, paths[-1])
        _check_finite(other, path)
        for key, sum_ in total.items():
            sum_ += other[names[key]]
        del other  # before the next one is loaded
    mean = {
        key: (sum_ / len(paths)).to(torch.promote_types(model[names[key]].dtype, torch.float32))
        for key, sum_ in total.items()
    }
    averaged = {k: v for k, v in state.items() if k not in _DROPPED}
    extra = state.get("extra_state")
    if isinstance(extra, dict):
        averaged["extra_state"] = {k: v for k, v in extra.items() if not str(k).startswith("ema")}
    averaged["model"] = {name: mean[keys[name]] if name in keys else t for name, t in model.items()}
    averaged["averaged_from"] = [Path(path).name for path in paths]
    save(averaged, output)


def storage_key(t: Tensor) -> tuple:
    """Return a key that tied parameters share: storage, offset, shape and strides."""
    return t.untyped_storage().data_ptr(), t.storage_offset(), tuple(t.shape), t.stride()


def _check_match(model: dict[str, Tensor], path: Any, other: dict[str, Tensor], other_path: Any) -> None:
    names = sorted(set(model) ^ set(other))
    if names:
        raise CheckpointError(
            f"{path} and {other_path} are of different architectures: "
            f"{len(names)} tensors are in one of them only, e.g. {', '.join(names[:4])}"
        )
    for name, tensor in model.items():
        one, two = ((tuple(t.shape), t.is_floating_point()) for t in (tensor, other[name]))
        if one != two or not (one[1] or tensor.dim() == 0 or torch.equal(tensor, other[name])):
            raise CheckpointError(
                f"{path} and {other_path} cannot be averaged: {name} is {one[0]} {tensor.dtype} in the first, {two[0]} "
                f"{other[name].dtype} in the second; only floating-point tensors have a mean, others must be equal"
            )


def _check_finite(model: dict[str, Tensor], path: Any) -> None:
    for name, tensor in model.items():
        if tensor.is_floating_point() and not (finite := torch.isfinite(tensor)).all():
            raise CheckpointError(
                f"{path}: cannot be averaged, {name} has {counted(int((~finite).sum()), 'non-finite value')}"
            )
