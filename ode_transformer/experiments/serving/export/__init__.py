"""Trained models for serving with CTranslate2 or ONNX: the command, and how exported folders are opened.

An exported folder holds the model in the files of its format, the dictionaries, the subword model of the data if it is
known, and ``export.json``, which describes the model, its checkpoint, and how far its log-probabilities are from the
checkpoint's. Opening it and translating need neither PyTorch nor fairseq.
"""

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Optional, Protocol

from ....errors import OdeTransformerError, install
from ....files import read_json, sha256
from ...schema import lacks

DESCRIPTION = "export.json"


class ExportError(OdeTransformerError):
    """A model that cannot be exported, or an exported model that cannot be used; the message gives the reason."""


class Format(NamedTuple):
    """A format: the modules here that write it and read it, the extra of this package that it needs, and its library.

    Args:
        writer: has ``write(trained, folder)`` and ``quantise(trained, folder)``.
        reader: has ``open_folder(folder, description, threads, device)``, which gives a ``Translator``.
        extra: of ``setup.py``.
        libraries: that the extra installs.
    """

    writer: str
    reader: str
    extra: str
    libraries: tuple[str, ...]


FORMATS = {
    "ctranslate2": Format(".to_ctranslate2", ".from_ctranslate2", "ctranslate2", ("ctranslate2",)),
    "onnx": Format(".to_onnx", ".from_onnx", "onnx", ("onnx", "onnxruntime", "onnxscript", "onnx_ir")),
}
QUANTISATIONS = ("int8",)


def _positions(value: Any) -> str:
    """What a number of positions lacks: there must be room for a subword unit and the end."""
    return "" if type(value) is int and 2 <= value < 2**31 else "must be a whole number, 2 or more"


_FORM = {
    "format": lambda value: "" if value in list(FORMATS) else f"must be one of {', '.join(FORMATS)}",
    "source_lang": str,
    "target_lang": str,
    "longest": {"source": _positions, "target": _positions},
    "quantization": (..., None, str),
    "model": (..., str),
    "search": (..., dict),
    "sha256": {str: str},
}


class Hypothesis(NamedTuple):
    """A translation: its subword units without the end of the sentence, and its log-probability / length ** lenpen."""

    tokens: list[str]
    score: float


@dataclass(frozen=True)
class Search:
    """The options of a beam search, with the names and meanings of ``fairseq-generate``.

    A translation has from ``min_len`` to max_len_a S + max_len_b subword units, where S is the length of the longest
    source of its batch. The end of a sentence counts in S only.
    """

    beam: int = 5
    lenpen: float = 1.0
    nbest: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    min_len: int = 1

    def __post_init__(self):
        for name, least, most in (("beam", 1, math.inf), ("nbest", 1, self.beam), ("min_len", 0, math.inf)):
            if not least <= getattr(self, name) <= most:
                limit = f"from {least} to {most}" if most < math.inf else f"{least} or more"
                raise ExportError(f"{name} {getattr(self, name)}: must be {limit}")

    def most(self, source: int, longest: int) -> int:
        """The length of the longest translation, without its end.

        Args:
            source: the length of the longest source of the batch, with its end.
            longest: the length of the longest target that the model can read, with its end.

        Raises:
            ExportError: the result is less than ``min_len``.
        """
        most = min(int(self.max_len_a * source + self.max_len_b), longest - 1)
        if most < self.min_len:
            raise ExportError(f"min_len {self.min_len}: must be {most} at most, the longest translation")
        return most


class Translator(Protocol):
    """What an exported folder is once it is open. A sentence is a list of symbols of the dictionaries.

    ``longest`` is what it was made for: symbols of a ``source`` and of a ``target``, the end of the sentence included;
    ``device`` is where it computes.
    """

    longest: dict[str, int]
    device: str

    def translate(self, sentences: Sequence[Sequence[str]], search: Search) -> list[list[Hypothesis]]:
        """The ``nbest`` best translations of each sentence of a batch, the best first."""

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """The log-probability of each subword unit of each target, and last that of the end of the sentence."""


def check_length(symbols: int, longest: int) -> None:
    """Refuse a source that is longer than the model can read, its end included.

    Raises:
        ExportError: it is longer.
    """
    if symbols > longest:
        raise ExportError(f"a sentence of {symbols} subword units, its end included: must have {longest} at most")


def load_module(format: str, which: str) -> Any:
    """The module that writes or reads a format.

    Args:
        format: one of ``FORMATS``.
        which: ``writer`` or ``reader``.

    Raises:
        ExportError: the library of the format is not installed.
    """
    found = FORMATS[format]
    try:
        return import_module(getattr(found, which), __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in found.libraries:
            raise
        raise ExportError(
            f"--format {format}: {error.name} is not installed; in the clone: {install(found.extra)}"
        ) from error


def is_exported(folder: str | Path) -> bool:
    """Whether ``ode-transformer export`` wrote a folder, whole or not."""
    return (Path(folder) / DESCRIPTION).is_file()


def describe(folder: str | Path) -> dict[str, Any]:
    """What ``export.json`` in an exported folder says.

    Raises:
        ExportError: it is no such folder.
    """
    path = Path(folder) / DESCRIPTION
    description = read_json(path, ExportError)
    if wrong := lacks(description, _FORM):
        raise ExportError(f"{path}: is damaged, or not of this version: {wrong}")
    return description


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of an exported folder but its description, for the latter."""
    return {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != DESCRIPTION}


def open_exported(folder: str | Path, threads: int = 0, device: Optional[str] = "cpu") -> Translator:
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
    description = describe(folder)
    for name, digest in description["sha256"].items():  # a damaged model could end this process
        if Path(name).name != name or not (path := Path(folder) / name).is_file():
            raise ExportError(f"{Path(folder) / name}: is missing from its folder; export the model again")
        if sha256(path) != digest:
            raise ExportError(f"{path}: has changed since the model was exported; export it again")
    return load_module(description["format"], "reader").open_folder(Path(folder), description, threads, device)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer export``."""
    parser.add_argument("model", metavar="MODEL", help="a checkpoint, a bundle, or the folder of a run")
    parser.add_argument("--format", required=True, choices=list(FORMATS), help="the library that will translate")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write; must not exist")
    parser.add_argument(
        "--quantization", choices=QUANTISATIONS, help="quantize the weights (default: single precision)"
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of the binarized data (default: as in run.json)")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer export``; the exit status."""
    load_module(args.format, "writer")  # before minutes of work
    from .command import export
    from .trained import open_trained

    trained = open_trained(args.model, args.data)
    description = export(trained, args.format, args.output, args.quantization)
    check = description["check"]
    print(
        f"{args.output}: {args.format}, {args.quantization or 'fp32'}; log-probabilities of {check['symbols']} symbols "
        f"differ from the checkpoint's by {check['largest']:.1e} at most, {check['mean']:.1e} in the mean"
    )
    for side, positions in zip(("source", "target"), trained.model.max_positions(), strict=True):
        if (longest := trained.longest[side]) < positions:
            print(
                f"a {side} can have at most {longest} subword units, its end included; beyond that, the position "
                "biases overflow"
            )
    return 0
