"""COMET (Rei et al. 2020), by the optional package ``unbabel-comet``, with a model on this machine.

``COMET_MODEL`` is the path of the model's checkpoint, such as ``wmt22-comet-da/checkpoints/model.ckpt``, from a trusted
source: loading it may run code in it. Nothing is downloaded; Hugging Face's cache must hold the tokenizer and the
configuration of the model's encoder.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import sha256
from .metric import Examples, Metric


def model_path() -> Path:
    """Return the path of the model's checkpoint."""
    given = os.environ.get("COMET_MODEL", "")
    if not Path(given).is_file():
        raise OdeTransformerError(f"COMET_MODEL={given}: must be the checkpoint of a COMET model, a file")
    return Path(given)


@cache
def _model(path: Path) -> Any:
    try:
        from comet import load_from_checkpoint
    except ImportError as error:
        raise OdeTransformerError(
            "COMET needs the package unbabel-comet, and that NumPy 1: install the extra comet into another environment"
        ) from error
    return load_from_checkpoint(str(path), local_files_only=True)


def statistics(outputs: Sequence[str], examples: Examples) -> list[tuple[float, int]]:
    """Return the score of each translation, and 1; the mean of several references, as the model reads one at a time."""
    import torch

    model = _model(model_path())
    by_reference = []
    for references in examples.references:
        rows = zip(examples.sources, outputs, references, strict=True)
        read = [{"src": source, "mt": output, "ref": reference} for source, output, reference in rows]
        found = model.predict(read, batch_size=16, gpus=int(torch.cuda.is_available()), progress_bar=False)
        by_reference.append(found.scores)
    return [(sum(scores) / len(scores), 1) for scores in zip(*by_reference, strict=True)]


def signature(outputs: Sequence[str], examples: Examples) -> str:
    """Return the signature of the score: the package's version, and the model."""
    import importlib.metadata

    path = model_path()
    name = path.parent.parent.name if path.parent.name == "checkpoints" else path.stem
    return f"unbabel-comet {importlib.metadata.version('unbabel-comet')}, {name}, SHA-256 {sha256(path)[:8]}"


METRIC = Metric("comet", "COMET", needs=("references", "sources"), statistics=statistics, signature=signature)
