"""A trained model with its dictionaries, and where they are found."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from torch import Tensor, nn

from .... import checkpoints, models  # noqa: F401  registers the architectures
from ....checkpoints import bundles, standalone
from ....files import regular
from ...text.manifest import MODEL_FILES, read_manifest
from ..trained_translator import find
from . import ExportError

SEGMENTATION = (*MODEL_FILES, "manifest.json")
"""The files beside binarized data that describe how text becomes subword units, and the reverse."""


@dataclass(frozen=True)
class Trained:
    """A trained encoder-decoder and what it takes to use it.

    Args:
        name: where it comes from, for messages and records.
        model: in evaluation mode, on the CPU, in single precision.
        languages: of the source and of the target.
        dictionaries: of the source and of the target.
        files: the files to copy beside an exported model: the dictionaries, and those of ``SEGMENTATION`` that exist.
        search: the model's own flags of ``fairseq-generate``.
    """

    name: str
    model: nn.Module
    languages: tuple[str, str]
    dictionaries: tuple[Dictionary, Dictionary]
    files: tuple[Path, ...]
    search: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def longest(self) -> dict[str, int]:
        """The lengths of the longest source and target, with the end of the sentence.

        FLOATER's biases grow with the position. If attention overflows before the last position of the configuration,
        sentences end there.

        Raises:
            ExportError: it overflows with a single subword unit and the end of the sentence.
        """
        sides = {"source": self.model.encoder.max_positions(), "target": self.model.decoder.max_positions()}
        if (encoder := getattr(self.model, "position_encoder", None)) is None:
            return sides
        reach = encoder.reach(max(sides.values()))
        if reach < 2:
            raise ExportError(
                f"{self.name}: its position biases are too large for attention from position {reach} on, so that it "
                "can translate no sentence"
            )
        return {side: min(length, reach) for side, length in sides.items()}

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


def padded(rows: Sequence[Sequence[int]], padding: int, left: bool = False) -> Tensor:
    """Rows of different lengths as a tensor (B, T), with padding on their right or left."""
    return collate_tokens(list(map(torch.tensor, rows)), padding, left_pad=left)


def open_trained(path: str | Path, data: Optional[str | Path] = None) -> Trained:
    """Open a model that was trained for translation.

    Args:
        path: a checkpoint, a bundle, or the folder of a run, which stands for its average of checkpoints; as for
            :func:`.trained_translator.find`.
        data: the folder of its dictionaries, if they are neither where the run had them nor beside the checkpoint.

    Raises:
        OdeTransformerError: the checkpoint cannot be found or opened, or there are no dictionaries, or they are not
            those of its training.
    """
    origin = find(path, data)
    state, folder = origin.state(), origin.data
    model = standalone.open_state(state, origin.model).float().eval()
    if bundles.is_bundle(origin.model):
        languages = _languages(read_manifest(folder), folder / "manifest.json")
    else:
        languages = _languages(checkpoints.options(state, "task"), origin.model)
    paths = [folder / f"dict.{language}.txt" for language in languages]
    try:
        dictionaries = [Dictionary.load(str(regular(path))) for path in paths]
    except (OSError, ValueError, RuntimeError) as error:
        raise ExportError(
            f"{folder}: no dictionaries of {' and '.join(languages)}: {error}; --data names their folder"
        ) from error
    sizes = standalone.symbols(state, origin.model)
    for dictionary, file, size in zip(dictionaries, paths, sizes, strict=True):
        if len(dictionary) != size:
            raise ExportError(f"{file}: has {len(dictionary)} symbols, must have the {size} of {origin.model}")
    files = [*paths, *(folder / name for name in SEGMENTATION if (folder / name).is_file())]
    return Trained(str(path), model, languages, tuple(dictionaries), tuple(dict.fromkeys(files)), origin.search)


def _languages(options: dict[str, Any], where: Path) -> tuple[str, str]:
    found = tuple(options.get(name) for name in ("source_lang", "target_lang"))
    if not all(isinstance(name, str) and re.fullmatch(r"[\w-]+", name) for name in found):
        raise ExportError(f"{where}: must name a source and a target language, as the task translation does")
    return found
