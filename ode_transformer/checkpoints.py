"""Checkpoints: loaded without running their code, averaged one at a time, written whole or not at all."""

import argparse
import contextlib
import pickle
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.logging import meters
from torch import Tensor

from .errors import OdeTransformerError
from .files import whole

# Checkpoints of stock fairseq's architectures hold an argparse.Namespace, and those of before 0.10 the trainer's
# meters, by their name of then. torch's weights-only loading refuses both until they are allowed. Neither has code that
# loading runs. Here rather than in a scope of ours, because fairseq does the loading in fairseq-generate, in resuming
# and in --finetune-from-model.
_METERS = (meters.AverageMeter, meters.StopwatchMeter, meters.TimeMeter)
torch.serialization.add_safe_globals([argparse.Namespace, *((m, f"fairseq.meters.{m.__name__}") for m in _METERS)])

# What an averaged checkpoint does not carry on: it is for decoding, or to start from with a fresh optimiser.
_DROPPED = ("model", "criterion", "last_optimizer_state")


class CheckpointError(OdeTransformerError):
    """A checkpoint that cannot be used; the message names the file and the reason."""


def load(path: str | Path) -> dict[str, Any]:
    """Load a fairseq checkpoint on the CPU without running code from it.

    Tensors are mapped from the file, so that only those that are used come into memory.

    Raises:
        CheckpointError: no such file, truncated or not a checkpoint, or a pickle with more than plain data.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # damaged bytes end in errors of every kind, EOFError to IndexError
        if isinstance(error, pickle.UnpicklingError) and (match := re.search(r"GLOBAL (\S+)", str(error))):
            reason = (
                f"refused, it holds more than tensors and plain data: it would import {match[1]}. Saved anew by who "
                "trusts it, 'model' and 'args' or 'cfg' alone, it can be loaded"
            )
        else:
            first = str(error).split("\n")[0]
            reason = f"not a readable checkpoint, truncated or damaged? ({type(error).__name__}: {first})"
        raise CheckpointError(f"{path}: {reason}") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise CheckpointError(f"{path}: not a fairseq checkpoint, it has no 'model'")
    return state


def save(state: dict[str, Any], path: str | Path) -> None:
    """Write a checkpoint beside its place, then rename: an old file survives whatever goes wrong.

    Raises:
        CheckpointError: it could not be written, for instance on a full disk.
    """
    try:
        with whole(path, "wb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be written: {error}") from error


def select(
    directory: str | Path,
    *,
    last_epochs: Optional[int] = None,
    last_updates: Optional[int] = None,
    best: Optional[int] = None,
) -> list[Path]:
    """The checkpoints that fairseq-train left in a folder, oldest (or worst) first.

    Args:
        directory: the ``--save-dir``.
        last_epochs: this many of ``checkpointN.pt``, the newest.
        last_updates: this many of ``checkpoint_E_U.pt``, the newest.
        best: this many of ``checkpoint.best_*.pt`` (``--keep-best-checkpoints``); 1 is ``checkpoint_best.pt``.

    Raises:
        CheckpointError: not exactly one of the three is given, or there are too few.
    """
    given = {"last-epochs": last_epochs, "last-updates": last_updates, "best": best}
    chosen = [(k, n) for k, n in given.items() if n is not None]
    if len(chosen) != 1:
        raise CheckpointError(f"one of {', '.join(given)} is needed, got {dict(chosen) or 'none'}")
    ((kind, count),) = chosen
    if count < 1:
        raise CheckpointError(f"--{kind} {count}: must be at least 1")
    pattern = {
        "last-epochs": r"checkpoint(\d+)\.pt",
        "last-updates": r"checkpoint_\d+_(\d+)\.pt",
        "best": r"checkpoint_best\.pt()" if count == 1 else r"checkpoint\.best_.+?_(-?\d+\.\d{3})\d*\.pt",
    }[kind]
    found = [(m[1], p) for p in Path(directory).glob("*.pt") if (m := re.fullmatch(pattern, p.name))]
    found.sort(key=lambda pair: float(pair[0] or 0))
    paths = [path for _, path in found]
    if len(paths) < count:
        names = ", ".join(sorted(p.name for p in Path(directory).glob("*.pt"))) or "no checkpoints"
        raise CheckpointError(f"--{kind} {count}: {directory} has {len(paths)} of that kind ({names})")
    if kind == "best" and count > 1 and not _maximised(paths[0]):
        paths.reverse()
    return paths[-count:]


def _maximised(path: Path) -> bool:
    state = load(path)
    if state.get("cfg"):
        return bool(state["cfg"]["checkpoint"]["maximize_best_checkpoint_metric"])
    return bool(getattr(state.get("args"), "maximize_best_checkpoint_metric", False))


def resume_point(directory: str | Path, mend: bool = True) -> int:
    """Make a training folder fit to go on from, and say how many updates it has behind it.

    fairseq writes ``checkpoint_last.pt`` as a copy, which a kill can cut short; every later start would fail on it.
    Such a file is moved aside, and of the whole checkpoints there the one with most updates takes its place.

    Args:
        directory: of checkpoints.
        mend: change what is there; else say only how many updates there would be.

    Returns:
        the updates done, 0 if there is nothing to go on from.
    """
    last = Path(directory) / "checkpoint_last.pt"
    if not last.exists():
        return 0
    with contextlib.suppress(CheckpointError):
        return _updates(load(last))
    done, newest = 0, None
    for path in last.parent.glob("checkpoint*.pt"):
        if not re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_best|\.best_.+)\.pt", path.name):
            continue
        try:
            updates = _updates(load(path))
        except CheckpointError:
            continue
        if updates > done:
            done, newest = updates, path
    if not mend:
        return done
    damaged = last.with_name("checkpoint_last.pt.damaged")
    if newest is None:
        last.replace(damaged)
    else:  # never without a last checkpoint, should another kill come
        with contextlib.suppress(OSError):
            shutil.copyfile(last, damaged)
        save(load(newest), last)
    return done


def _updates(state: dict[str, Any]) -> int:
    return int(state["optimizer_history"][-1]["num_updates"])


def average(paths: Sequence[str | Path], output: str | Path) -> None:
    """Average the parameters of checkpoints, holding one of them at a time besides the sum.

    Floating-point tensors are summed in double precision and stored in their own; others, and everything besides the
    model, are those of the last checkpoint, without the optimiser's state and without an exponential moving average
    (``--store-ema``), which is not what is averaged. Tied parameters stay tied.

    Raises:
        CheckpointError: none given, one cannot be read, they do not match, or the result cannot be written.
    """
    if not paths:
        raise CheckpointError("no checkpoints to average")
    state = load(paths[-1])
    tied: dict[tuple, str] = {}
    alias = {name: tied.setdefault(_identity(t), name) for name, t in state["model"].items()}
    total = {name: t.double() for name, t in state["model"].items() if alias[name] == name and t.is_floating_point()}
    for path in paths[:-1]:
        model = load(path)["model"]
        _check_match(model, path, state["model"], paths[-1])
        for name, sum_ in total.items():
            sum_ += model[name]
    mean = {
        name: (total[name] / len(paths)).to(state["model"][name].dtype) if name in total else state["model"][name]
        for name in tied.values()
    }
    averaged = {k: v for k, v in state.items() if k not in _DROPPED}
    averaged["extra_state"] = {k: v for k, v in state.get("extra_state", {}).items() if not k.startswith("ema")}
    averaged["model"] = {name: mean[alias[name]] for name in state["model"]}
    averaged["averaged_from"] = [Path(path).name for path in paths]
    save(averaged, output)


def _identity(t: Tensor) -> tuple:
    return t.untyped_storage().data_ptr(), t.storage_offset(), tuple(t.shape), t.stride()


def _check_match(model: dict[str, Tensor], path: Any, other: dict[str, Tensor], other_path: Any) -> None:
    names = sorted(set(model) ^ set(other))
    if names:
        raise CheckpointError(
            f"{path} and {other_path} are of different architectures: "
            f"{len(names)} tensors are in one of them only, e.g. {', '.join(names[:4])}"
        )
    for name, tensor in model.items():
        if tensor.shape != other[name].shape:
            raise CheckpointError(
                f"{path} and {other_path} do not match: {name} is {tuple(tensor.shape)} in the first, "
                f"{tuple(other[name].shape)} in the second"
            )
