"""A trained model with its dictionaries, and where they are found."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ... import bundles, checkpoints, models, standalone  # noqa: F401  registers the architectures
from .. import recipes
from ..text import read_manifest
from . import ExportError, is_exported

SEGMENTATION = ("codes", "sentencepiece.model", "manifest.json")
"""The files beside binarized data that describe how text becomes subword units, and the reverse."""


@dataclass(frozen=True)
class Trained:
    """A trained encoder-decoder and what it takes to use it.

    Args:
        name: where it comes from, for messages and records.
        model: in evaluation mode, on the CPU, in single precision.
        languages: of the source and of the target.
        dictionaries: of the source and of the target.
        files: to copy beside an exported model: dictionaries, and of ``SEGMENTATION`` what is there.
        search: flags of ``fairseq-generate`` that are its own.
    """

    name: str
    model: nn.Module
    languages: tuple[str, str]
    dictionaries: tuple[Dictionary, Dictionary]
    files: tuple[Path, ...]
    search: dict[str, Any] = field(default_factory=dict)

    @property
    def longest(self) -> dict[str, int]:
        """The lengths of the longest source and target, with the end of the sentence."""
        return {"source": self.model.encoder.max_positions(), "target": self.model.decoder.max_positions()}

    @torch.no_grad()
    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """The log-probability of each subword unit of each target, and last that of its end, computed as one batch."""
        source, target = (
            [[dictionary.index(symbol) for symbol in sentence] for sentence in sentences]
            for dictionary, sentences in zip(self.dictionaries, (sources, targets), strict=True)
        )
        end, padding = self.dictionaries[1].eos(), self.dictionaries[1].pad()
        tokens = padded([[*row, end] for row in source], padding, left=True)
        previous = padded([[end, *row] for row in target], padding)
        wanted = padded([[*row, end] for row in target], padding)
        out = self.model(tokens, tokens.ne(padding).sum(1), previous)
        log_probs = self.model.get_normalized_probs(out, log_probs=True).gather(2, wanted[:, :, None])[:, :, 0]
        return [row[: len(symbols) + 1].tolist() for row, symbols in zip(log_probs, target, strict=True)]


def padded(rows: list[list[int]], padding: int, left: bool = False) -> Tensor:
    """Rows of different lengths as a tensor (B, T), with padding on their right or left."""
    tokens = torch.full((len(rows), max(map(len, rows))), padding)
    for place, row in zip(tokens, rows, strict=True):
        place[len(place) - len(row) if left else 0 :][: len(row)] = torch.tensor(row)
    return tokens


def open_trained(path: str | Path, data: Optional[str | Path] = None) -> Trained:
    """Open a model that was trained for translation.

    Args:
        path: a checkpoint, a bundle, or the folder of a run, which stands for its average of checkpoints, or its best
            checkpoint.
        data: the folder of its binarized data. By default, the checkpoint's folder if dictionaries are there, or the
            folder that ``run.json`` in it names.

    Raises:
        CheckpointError: the checkpoint cannot be opened, or the dictionaries are not those of its training.
        ExportError: there is no checkpoint, or there are no dictionaries, or they do not fit each other.
    """
    checkpoint = _checkpoint(Path(path))
    state = standalone.load(checkpoint)
    model = standalone.open_state(state, checkpoint).float().eval()
    folder = data_folder(checkpoint, data)
    if bundles.is_bundle(checkpoint):
        languages = _languages(read_manifest(folder), folder / "manifest.json")
    else:
        standalone.check_dictionaries(checkpoint, folder)
        languages = _languages(checkpoints.options(state, "task"), checkpoint)
    paths = [folder / f"dict.{language}.txt" for language in languages]
    try:
        dictionaries = [Dictionary.load(str(path)) for path in paths]
    except (OSError, ValueError, RuntimeError) as error:
        raise ExportError(f"{folder}: no dictionaries of {' and '.join(languages)}: {error}") from error
    sizes = standalone.symbols(state, checkpoint)
    for dictionary, file, size in zip(dictionaries, paths, sizes, strict=True):
        if len(dictionary) != size:
            raise ExportError(f"{file}: has {len(dictionary)} symbols, must have the {size} of {checkpoint}")
    files = [*paths, *(folder / name for name in SEGMENTATION if (folder / name).is_file())]
    return Trained(str(path), model, languages, tuple(dictionaries), tuple(dict.fromkeys(files)), _search(checkpoint))


def _search(checkpoint: Path) -> dict[str, Any]:
    """The search of the model's recipe, where that is known."""
    if bundles.is_bundle(checkpoint):
        return bundles.config(checkpoint)["generate"]
    run = checkpoint.parent / "run.json"
    with standalone.named(f"{run}: does not say how its recipe searches"):
        found = json.loads(run.read_text(encoding="utf-8")).get("generate") if run.is_file() else None
        return dict(found or {})


def _checkpoint(path: Path) -> Path:
    if is_exported(path):
        raise ExportError(f"{path}: is an exported model already; give its run, checkpoint or bundle")
    if not path.is_dir() or bundles.is_bundle(path):
        return path
    names = ("average.pt", "checkpoint_best.pt")
    found = [path / name for name in names if (path / name).is_file()]
    if not found:
        raise ExportError(f"{path}: has no {' and no '.join(names)}; give a checkpoint")
    return found[0]


def data_folder(path: str | Path, data: Optional[str | Path] = None) -> Path:
    """The folder of a model's binarized data; the arguments are those of :func:`open_trained`.

    Raises:
        ExportError: it is unknown.
    """
    checkpoint = _checkpoint(Path(path))
    if bundles.is_bundle(checkpoint):
        if data is not None:
            raise ExportError(f"--data {data}: must not be given with {path}, a bundle, which holds its data")
        return checkpoint
    if data is not None:
        return Path(data)
    if any(checkpoint.parent.glob("dict.*.txt")):
        return checkpoint.parent
    try:
        run = json.loads((checkpoint.parent / "run.json").read_text(encoding="utf-8"))
        return recipes.ROOT / run["command"][1]  # fairseq-train DATA ...
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ExportError(f"{checkpoint}: no dictionaries and no run.json beside it; give --data") from error


def _languages(options: dict[str, Any], where: Path) -> tuple[str, str]:
    found = tuple(options.get(name) for name in ("source_lang", "target_lang"))
    if not all(isinstance(name, str) and re.fullmatch(r"[\w-]+", name) for name in found):
        raise ExportError(f"{where}: must name a source and a target language, as the task translation does")
    return found
