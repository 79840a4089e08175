"""Bundles: a trained model with everything that translating needs, in one folder that can be moved anywhere.

A bundle holds the weights (``model.safetensors``), the configuration of the model and of the search (``config.json``),
the dictionaries and any subword model, the manifest of the data, the record of the scores if there is one, a model card
(``README.md``), and ``bundle.json`` with the SHA-256 of every other file but the card. It holds no code. Whoever hands
it on may add files for people, such as a license.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import atomic_file, atomic_folder, check_hashes, sha256, write_json, write_text
from ..schema import checked_json, one_of
from . import CheckpointError, load_tensors, storage_key

INDEX = "bundle.json"
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"
_READ = re.compile(r"codes|dict\..*|sentencepiece\..*|.*\.(json|pt|safetensors)")
"""Files that are read if they are present. Others, such as a license, are for people."""

FORMAT = 1
"""The version of the format of bundles; other versions are refused."""

_INDEX_FORM = {"format": one_of(FORMAT), "sha256": {WEIGHTS: str, CONFIG: str, str: str}}
_CONFIG_FORM = {"model": str, "options": dict, "tied": {str: str}, "generate": dict, "plugin": (..., str)}
_FAULT = "is damaged, or not of this version"


def is_bundle(path: str | Path) -> bool:
    """Whether a folder is a bundle, intact or not."""
    return (Path(path) / INDEX).is_file()


def check(path: str | Path) -> None:
    """Compare every file of a bundle with its SHA-256."""
    folder = Path(path)
    files = checked_json(folder / INDEX, _INDEX_FORM, _FAULT, CheckpointError)["sha256"]
    # The operating system's files begin with a dot.
    there = {file.name for file in folder.iterdir() if not file.name.startswith(".")}
    if unknown := sorted(name for name in there - set(files) - {INDEX, CARD} if _READ.fullmatch(name)):
        raise CheckpointError(f"{folder / unknown[0]}: is not a file of the bundle, must be named in {INDEX}")
    check_hashes(folder, files, "make or copy the bundle again")


def config(path: str | Path) -> dict[str, Any]:
    """Return the configuration of a bundle: ``model``, its ``options``, the ``tied`` tensors, and ``generate``."""
    return checked_json(Path(path) / CONFIG, _CONFIG_FORM, _FAULT, CheckpointError)


def load(path: str | Path) -> dict[str, Any]:
    """Load the state of a bundle after :func:`check`, in the form of :func:`.checkpoints.load`, weights in fp32."""
    check(path)
    found, tensors = config(path), load_tensors(Path(path) / WEIGHTS)
    tensors = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
    for name, of in found["tied"].items():
        if of not in tensors:
            raise CheckpointError(f"{Path(path) / CONFIG}: {name} is tied to {of!r}, which {WEIGHTS} does not hold")
        tensors[name] = tensors[of]
    model = {**found["options"], "_name": found["model"]}
    return {"model": tensors, "args": None, "cfg": {"model": model, "common": {"user_dir": found.get("plugin")}}}


def write(
    path: str | Path,
    model: str,
    options: Mapping[str, Any],
    state: Mapping[str, Tensor],
    *,
    generate: Mapping[str, Any],
    plugin: str = "",
    files: Mapping[str, Path],
    texts: Mapping[str, str],
    half: bool = False,
) -> None:
    """Write a bundle to a new folder, completely or not at all.

    ``options`` of the registered ``model`` are plain values; ``generate`` are the model's flags of
    ``fairseq-generate``. ``files`` to copy and ``texts`` to write are by their names in the bundle.
    """
    from safetensors.torch import save

    path, tensors, tied, first = Path(path), {}, {}, {}
    for name, tensor in state.items():
        of = first.setdefault(storage_key(tensor), name)
        if of != name and tensor.numel():
            tied[name] = of
            continue
        if tensor.is_floating_point():  # that of a training in fp16 is half already
            tensor = tensor.half() if half else tensor.float()
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{path}: {name} has values that are not finite{' in fp16' * half}")
        # A copy, because safetensors refuses tensors that share memory.
        tensors[name] = tensor.clone(memory_format=torch.contiguous_format)
    settings = {"model": model, "options": dict(options), "tied": tied, "generate": dict(generate)}
    settings |= {"plugin": plugin} if plugin else {}
    with atomic_folder(path) as part:
        with atomic_file(part / WEIGHTS, "wb") as file:
            file.write(save(tensors))
        write_json(part / CONFIG, settings)
        for name, source in files.items():
            shutil.copyfile(source, part / name)
        for name, text in texts.items():
            write_text(part / name, text)
        # The model card is for people, who may write more into it.
        hashes = {file.name: sha256(file) for file in sorted(part.iterdir()) if file.name != CARD}
        write_json(part / INDEX, {"format": FORMAT, "sha256": hashes})
