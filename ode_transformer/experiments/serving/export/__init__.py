"""Trained models exported to CTranslate2 or ONNX, and the backend that opens them.

An exported folder holds the model in the files of its format, the dictionaries, the subword model of the data if there
is one, and ``export.json``, which describes the model, its checkpoint, and the differences of its log-probabilities
from the checkpoint's. Opening the folder and translating need neither PyTorch nor fairseq.
"""

import re
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

from ....errors import OdeTransformerError, install_command
from ....files import check_hashes
from ....processors import usable
from ....schema import at_least_one, checked_json, must_be, one_of
from ...text.binarised import symbols_of
from ..backend import Backend, Search

__all__ = ["DESCRIPTION", "FORMATS", "Search", "is_exported", "open_exported"]

DESCRIPTION = "export.json"


FORMATS = {"ctranslate2": ("ctranslate2",), "onnx": ("onnx", "onnxruntime", "onnxscript", "onnx_ir")}
"""The libraries that each format needs, and the extra of its name installs.

The module ``to_FORMAT`` has functions ``write(model, folder)`` and ``quantize(model, folder)``; ``from_FORMAT`` has a
``Reader``, a subclass of ``Exported``.
"""

QUANTIZATIONS = ("int8",)

_LANGUAGE = must_be(lambda name: isinstance(name, str) and re.fullmatch(r"[\w-]+", name), "a language")  # no path

_FORM = {
    "format": one_of(*FORMATS),
    "source_lang": _LANGUAGE,
    "target_lang": _LANGUAGE,
    "longest": {"source": at_least_one, "target": at_least_one},
    "quantization": (..., None, str),
    "model": (..., str),
    "search": (..., dict),
    "sha256": {str: str},
}


class Exported(Backend):
    """An exported model.

    ``description`` is the content of its ``export.json``; ``threads`` and ``device`` are as in :func:`open_exported`.
    """

    options = ("beam", "lenpen", "nbest", "max_len_a", "max_len_b", "min_len")

    def __init__(self, folder: Path, description: dict[str, Any], threads: int, device: Optional[str]):
        self.name, self.folder, self.description, self.threads = str(folder), folder, description, threads or usable()
        self.longest = description["longest"]
        self.languages = description["source_lang"], description["target_lang"]
        self.about = [
            f"{description['format']}, {description.get('quantization') or 'fp32'}, of {description.get('model')}"
        ]
        try:
            self._open(device)
            self.translate([["."]], Search(beam=1, max_len_b=1))  # graphs with other inputs than ours fail only here
        except OdeTransformerError:
            raise
        except Exception as error:  # damaged files raise errors of many kinds
            raise OdeTransformerError(
                f"{folder}: is damaged, or not of this version; export the model again: {error}"
            ) from error

    def _open(self, device: Optional[str]) -> None:
        """Open the files of the format; ``device`` is as in :func:`open_exported`."""
        raise NotImplementedError

    @cached_property
    def symbols(self) -> tuple[list[str], list[str]]:
        """As in :class:`.Backend`."""
        source, target = (symbols_of(self.folder / f"dict.{language}.txt") for language in self.languages)
        return source, target


def load_module(which: str, format: str) -> Any:
    """Import the module that writes a format, ``to``, or reads it, ``from``."""
    try:
        return import_module(f".{which}_{format}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in FORMATS[format]:
            raise
        raise OdeTransformerError(
            f"--format {format}: {error.name} is not installed; {install_command(format)}"
        ) from error


def is_exported(folder: str | Path) -> bool:
    """Whether a folder was written by ``ode-transformer export``, be it damaged or not."""
    return (Path(folder) / DESCRIPTION).is_file()


def open_exported(folder: str | Path, threads: int = 0, device: Optional[str] = "cpu") -> Exported:
    """Open the folder of an exported model, unless a file is missing or has changed.

    Args:
        folder: the folder that ``ode-transformer export`` wrote.
        threads: the number of parts of a batch that are translated in parallel on a CPU; 0 for one per processor.
        device: ``cpu``, ``cuda`` or ``cuda:N``; None for a GPU if the library can use one, else the CPU.
    """
    folder = Path(folder)
    description = checked_json(folder / DESCRIPTION, _FORM, "is damaged, or not of this version")
    # A damaged model could crash this process.
    check_hashes(folder, description["sha256"], "export the model again")
    return load_module("from", description["format"]).Reader(folder, description, threads, device)
