"""Trained models for serving with CTranslate2 or ONNX: what an exported folder is, and how it is opened.

An exported folder holds the model in the files of its format, the dictionaries, the subword model of the data if it is
known, and ``export.json``, which describes the model, its checkpoint, and how far its log-probabilities are from the
checkpoint's. Opening it and translating need neither PyTorch nor fairseq.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

from ....errors import OdeTransformerError, install
from ....files import read_json, sha256
from ....processors import usable
from ....schema import lacks, one_of
from ...text.binarised import symbols_of
from ..backend import Backend, Found, Search

__all__ = ["DESCRIPTION", "FORMATS", "ExportError", "Search", "describe", "is_exported", "open_exported"]

DESCRIPTION = "export.json"


class ExportError(OdeTransformerError):
    """A model that cannot be exported, or an exported model that cannot be used; the message gives the reason."""


FORMATS = {"ctranslate2": ("ctranslate2",), "onnx": ("onnx", "onnxruntime", "onnxscript", "onnx_ir")}
"""The formats, each with the libraries that the extra of its name installs. ``to_FORMAT`` writes it, with functions
``write(model, folder)`` and ``quantize(model, folder)``; ``from_FORMAT`` has a ``Reader``, a kind of ``Exported``."""

QUANTIZATIONS = ("int8",)


def _positions(value: Any) -> str:
    """Return what a number of positions lacks: there must be room for a subword unit and the end."""
    return "" if type(value) is int and 2 <= value < 2**31 else "must be a whole number, 2 or more"


_FORM = {
    "format": one_of(*FORMATS),
    "source_lang": str,
    "target_lang": str,
    "longest": {"source": _positions, "target": _positions},
    "quantization": (..., None, str),
    "model": (..., str),
    "search": (..., dict),
    "sha256": {str: str},
}


class Exported(Backend):
    """An exported folder once it is open.

    Args:
        folder: the folder.
        description: the content of its ``export.json``.
        threads, device: as those of :func:`open_exported`.
    """

    options = ("beam", "lenpen", "nbest", "max_len_a", "max_len_b", "min_len")

    def __init__(self, folder: Path, description: dict[str, Any], threads: int, device: Optional[str]):
        self.name, self.folder, self.description, self.threads = str(folder), folder, description, threads or usable()
        self.longest = description["longest"]
        self.languages = description["source_lang"], description["target_lang"]
        self.about = [
            f"{description['format']}, {description.get('quantization') or 'fp32'}, of {description.get('model')}"
        ]
        self._check_device(device or "cpu")
        try:
            self._open(device)
        except Exception as error:  # damaged files raise errors of many kinds
            raise ExportError(f"{folder}: is damaged, or not of this version: {error}") from error

    def _check_device(self, device: str) -> None:
        """Refuse a device that the library cannot use."""
        raise NotImplementedError

    def _open(self, device: Optional[str]) -> None:
        """Open the files of the format."""
        raise NotImplementedError

    @cached_property
    def symbols(self) -> tuple[list[str], list[str]]:
        """As in :class:`.Backend`."""
        source, target = (symbols_of(self.folder / f"dict.{language}.txt") for language in self.languages)
        return source, target

    def translate(
        self, sentences: Sequence[Sequence[str]], search: Search, prefixes: Sequence[Sequence[str]] = ()
    ) -> list[list[Found]]:
        """As in :class:`.Backend`, without prefixes."""
        if any(prefixes):
            raise ExportError(f"{self.name}: is an exported model, whose search takes no prefix")
        return super().translate(sentences, search)


def load_module(which: str, format: str) -> Any:
    """The module that writes or reads a format.

    Args:
        which: ``to`` or ``from``.
        format: one of ``FORMATS``.

    Raises:
        ExportError: the library of the format is not installed.
    """
    try:
        return import_module(f".{which}_{format}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in FORMATS[format]:
            raise
        raise ExportError(f"--format {format}: {error.name} is not installed; {install(format)}") from error


def is_exported(folder: str | Path) -> bool:
    """Whether ``ode-transformer export`` wrote a folder, whole or not."""
    return (Path(folder) / DESCRIPTION).is_file()


def describe(folder: str | Path) -> dict[str, Any]:
    """Return what ``export.json`` in an exported folder says.

    Raises:
        ExportError: it is no such folder.
    """
    path = Path(folder) / DESCRIPTION
    description = read_json(path, ExportError)
    if wrong := lacks(description, _FORM):
        raise ExportError(f"{path}: is damaged, or not of this version: {wrong}")
    return description


def open_exported(folder: str | Path, threads: int = 0, device: Optional[str] = "cpu") -> Exported:
    """Open what ``ode-transformer export`` wrote.

    Args:
        folder: the folder.
        threads: how many parts of a batch are translated at the same time on a CPU; 0 for one per processor.
        device: ``cpu`` or ``cuda``, of several ``cuda:1`` and so on; a GPU if the library can use one if None.

    Raises:
        ExportError: it is no such folder, something in it is missing or has changed, the library is not installed, or
            it cannot use the device.
    """
    if device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ExportError(f"device {device}: must be cpu or cuda")
    folder, description = Path(folder), describe(folder)
    for name, digest in description["sha256"].items():  # a damaged model could end this process
        if Path(name).name != name or not (folder / name).is_file():
            raise ExportError(f"{folder / name}: is missing from its folder; export the model again")
        if sha256(folder / name) != digest:
            raise ExportError(f"{folder / name}: has changed since the model was exported; export it again")
    return load_module("from", description["format"]).Reader(folder, description, threads, device)
