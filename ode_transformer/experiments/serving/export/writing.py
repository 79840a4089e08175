"""Export of models, with a comparison of the exported model and the checkpoint.

The log-probabilities of random targets given random sources are compared, for sentences of several lengths in one batch
and one by one. In single precision they may differ by at most ``TOLERANCE``, or nothing is kept. A quantized model is
compared so before it is quantized; after that, a difference is refused only if it is not finite.
"""

import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Optional

import torch

from .... import machine
from ....errors import OdeTransformerError
from ....files import atomic_folder, sha256, write_json
from ..backend import Backend, Search, as_arguments
from ..pytorch import PyTorch
from . import DESCRIPTION, FORMATS, load_module

TOLERANCE = 1e-4
LENGTHS = ((1, 9), (5, 3), (12, 20), (30, 1), (7, 7))
"""The lengths of the sources and targets that are compared, without the end of sentence."""


def write(
    model: PyTorch, format: str, output: str | Path, quantization: Optional[str] = None, files: Sequence[Path] = (),
    search: Mapping[str, Any] = {},
) -> dict[str, Any]:  # fmt: skip
    """Write a model that is on the CPU to a new folder, with ``files`` such as its dictionaries and its flags of
    ``fairseq-generate``, and return the content of its ``export.json``."""
    output, writer = Path(output), load_module("to", format)
    if os.path.lexists(output):
        raise OdeTransformerError(f"-o {output}: already exists; an export takes a new folder")
    for side, longest in model.finite.items():
        if longest < model.longest[side]:
            units = f"a {side} can have at most {longest} subword units, its end included"
            print(f"{units}; beyond that, the position biases overflow", file=sys.stderr)
    batch_size = as_arguments(search).get("batch_size")
    description = {
        "format": format,
        "quantization": quantization,
        "model": model.name,
        "source_lang": model.languages[0],
        "target_lang": model.languages[1],
        "longest": model.finite,
        "search": Search.of(search).given() | ({} if batch_size is None else {"batch_size": batch_size}),
        "versions": machine.versions() | {name: version(name) for name in FORMATS[format]},
    }
    with atomic_folder(output) as part:
        for file in files:
            shutil.copyfile(file, part / file.name)
        reader = load_module("from", format).Reader
        writer.write(model, part)
        description["check"] = compare(model, reader(part, description, 0, "cpu"), TOLERANCE)
        if quantization:
            writer.quantize(model, part)
            description["check"] = compare(model, reader(part, description, 0, "cpu"), math.inf)
        description["sha256"] = {path.name: sha256(path) for path in sorted(part.iterdir())}
        write_json(part / DESCRIPTION, description)
    return description


def random_sentences(symbols: Sequence[str], lengths: Sequence[int], seed: int) -> list[list[str]]:
    """Return random sentences of these lengths, of the symbols of a vocabulary but its four special ones."""
    generator = torch.Generator().manual_seed(seed)
    return [[symbols[i] for i in torch.randint(4, len(symbols), (n,), generator=generator)] for n in lengths]


def compare(model: PyTorch, exported: Backend, tolerance: float) -> dict[str, Any]:
    """Return the ``largest`` and the ``mean`` difference of log-probabilities from the checkpoint's, of ``symbols``.

    Raises:
        OdeTransformerError: a difference exceeds the tolerance, or is not finite.
    """
    longest = max(min(model.finite.values()) - 1, 1)
    lengths = [[min(n, longest) for n in side] for side in zip(*LENGTHS, strict=True)]
    both = [random_sentences(model.symbols[side], lengths[side], seed=side) for side in (0, 1)]
    expected = [x for row in model.score(*both) for x in row]
    together = [x for row in exported.score(*both) for x in row]
    alone = [x for pair in zip(*both, strict=True) for x in exported.score(*([side] for side in pair))[0]]
    differences = [abs(x - y) for found in (together, alone) for x, y in zip(found, expected, strict=True)]
    largest = max(differences, key=lambda x: math.inf if math.isnan(x) else x)  # max alone skips a NaN
    if not largest <= tolerance or not math.isfinite(largest):
        raise OdeTransformerError(
            f"{model.name}: the exported model's log-probabilities differ from the checkpoint's by {largest:.3g}, "
            f"must differ by {tolerance:g} at most; nothing was kept"
        )
    return {"symbols": len(expected), "largest": largest, "mean": sum(differences) / len(differences)}
