"""Writing a model for serving, and comparing it with the checkpoint.

The comparison is of the log-probabilities of random targets given random sources, for sentences of several lengths in
one batch and each by itself. In single precision they may differ by at most ``TOLERANCE``, or nothing is kept. A
quantized model is first written and compared in single precision, which shows that the graph is right, and then
quantized; its distance from the checkpoint is reported, and only values that are not finite are refused.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.dataclass.configs import GenerationConfig

from .... import machine
from ....files import whole_folder, write_json
from ..trained_translator import SEARCH
from . import DESCRIPTION, FORMATS, ExportError, Translator, hashes, load_module, open_exported
from .trained import Trained

TOLERANCE = 1e-4
LENGTHS = ((1, 9), (5, 3), (12, 20), (30, 1), (7, 7))
"""The lengths of the sources and the targets that are compared, without the ends of sentences."""


def export(trained: Trained, format: str, output: str | Path, quantisation: Optional[str] = None) -> dict[str, Any]:
    """Write a model for serving.

    Args:
        trained: the model.
        format: one of ``FORMATS``.
        output: the folder, which appears when everything in it has been written and compared.
        quantisation: one of ``QUANTISATIONS``; None for single precision.

    Returns:
        The content of ``export.json`` in the folder.

    Raises:
        ExportError: the folder exists, the format's library is not installed or cannot express the model, or the
            exported model differs from the checkpoint.
    """
    output = Path(output)
    writer = load_module(format, "writer")
    if output.exists() or output.is_symlink():
        raise ExportError(f"-o {output}: exists already; an export takes a new folder")
    description = {
        "format": format,
        "quantization": quantisation,
        "model": trained.name,
        "source_lang": trained.languages[0],
        "target_lang": trained.languages[1],
        "longest": trained.longest,
        "search": _search(trained.search),
        "versions": machine.versions() | {name: version(name) for name in FORMATS[format].libraries},
    }
    if hasattr(writer, "OPSET"):
        description["opset"] = writer.OPSET
    try:
        with whole_folder(output) as part:
            for file in trained.files:
                shutil.copyfile(file, part / file.name)
            for step in (writer.write, *([writer.quantise] if quantisation else [])):
                step(trained, part)
                write_description(part, description)
                exact = step is writer.write
                description["check"] = compare(trained, open_exported(part), TOLERANCE if exact else math.inf)
            write_description(part, description)
    except OSError as error:
        raise ExportError(f"-o {output}: cannot be written: {error}") from error
    return description


def write_description(folder: Path, description: dict[str, Any]) -> None:
    """Write the description of an exported folder, with the SHA-256 of the files that are in it now."""
    description["sha256"] = hashes(folder)
    write_json(folder / DESCRIPTION, description)


def _search(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that a recipe searches with, under their names in ``Search``; without those that are fairseq's defaults."""
    named = {name.replace("-", "_"): value for name, value in flags.items() if value is not None}
    return {
        name: value
        for name, value in named.items()
        if name == "batch_size" or (name in SEARCH and value != getattr(GenerationConfig, name))
    }


def sentences(symbols: Sequence[str], lengths: Sequence[int], seed: int) -> list[list[str]]:
    """Random sentences of the symbols of a dictionary, without its special symbols."""
    generator = torch.Generator().manual_seed(seed)
    return [[symbols[i] for i in torch.randint(4, len(symbols), (n,), generator=generator)] for n in lengths]


def compare(trained: Trained, exported: Translator, tolerance: float) -> dict[str, Any]:
    """Compare the log-probabilities of an exported model with the checkpoint's.

    Returns:
        The ``largest`` and the ``mean`` difference, the number of ``symbols`` compared, and the ``tolerance`` if there
        is one.

    Raises:
        ExportError: a difference exceeds the tolerance, or is not finite.
    """
    longest = min(trained.longest.values()) - 1
    lengths = [[min(n, longest) for n in side] for side in zip(*LENGTHS, strict=True)]
    both = [
        sentences(dictionary.symbols, of_side, seed)
        for seed, (dictionary, of_side) in enumerate(zip(trained.dictionaries, lengths, strict=True))
    ]
    expected = [x for row in trained.score(*both) for x in row]
    together = [x for row in exported.score(*both) for x in row]
    alone = [x for pair in zip(*both, strict=True) for x in exported.score(*([side] for side in pair))[0]]
    differences = [abs(x - y) for found in (together, alone) for x, y in zip(found, expected, strict=True)]
    largest = max(differences)
    if not largest <= tolerance or not math.isfinite(largest):
        raise ExportError(
            f"{trained.name}: the exported model's log-probabilities differ from the checkpoint's by {largest:.3g}, "
            f"must differ by {tolerance:g} at most; nothing was kept"
        )
    found = {"symbols": len(expected), "largest": largest, "mean": sum(differences) / len(differences)}
    return found | ({"tolerance": tolerance} if tolerance < math.inf else {})
