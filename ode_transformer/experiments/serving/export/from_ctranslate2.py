"""Translate with an exported folder of CTranslate2.

On a CPU, the sentences of a batch are divided among workers of one thread each, which share the weights. CTranslate2's
other way, several threads per operation, brings little: a step of beam search has so little to compute that the threads
mostly wait for each other. For a tiny model two of them were no faster than one.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import ctranslate2

from ....processors import usable
from . import ExportError, Hypothesis, Search, check_length

RENAMED = {"<pad>": "<blank>", "<blank>": "<pad>"}
"""Symbols of a dictionary by their names in CTranslate2, whose padding is ``<blank>``, which may be a word here."""


def renamed(symbols: Sequence[str]) -> list[str]:
    """Symbols under their names in CTranslate2, or back again."""
    return [RENAMED.get(symbol, symbol) for symbol in symbols]


class CTranslate2Translator:
    """Translates with CTranslate2, whose beam search normalizes scores as fairseq's does.

    Args:
        folder: the exported folder.
        description: its ``export.json``.
        threads: the number of workers on a CPU; 0 for one per processor.
        device: ``cpu``, ``cuda`` or ``cuda:N``; a GPU if there is one if None.
    """

    def __init__(self, folder: Path, description: dict[str, Any], threads: int = 0, device: Optional[str] = "cpu"):
        self.threads = threads or usable()
        chosen = device or ("cuda" if ctranslate2.get_cuda_device_count() else "cpu")
        try:
            self.longest = description["longest"]
            self.model = self._open(folder, chosen)
            if device is None and chosen != "cpu":
                self._try(folder)
        except Exception as error:  # damaged files raise errors of many kinds
            raise ExportError(f"{folder}: is damaged, or not of this version: {error}") from error
        self.device = self.model.device

    def _open(self, folder: Path, device: str) -> ctranslate2.Translator:
        kind, _, index = device.partition(":")
        workers = self.threads if kind == "cpu" else 1
        return ctranslate2.Translator(
            str(folder), kind, device_index=int(index or 0), inter_threads=workers, intra_threads=1
        )

    def _try(self, folder: Path) -> None:
        """Take the CPU where there is a GPU, but not the libraries that CTranslate2 looks for with the first batch."""
        try:
            self.model.translate_batch([["."]], beam_size=1, max_decoding_length=1)
        except RuntimeError as error:
            print(
                f"warning: {folder}: translating on the CPU, because the GPU cannot be used: {error}", file=sys.stderr
            )
            self.model = self._open(folder, "cpu")

    def translate(self, sentences: Sequence[Sequence[str]], search: Search) -> list[list[Hypothesis]]:
        """As in ``Translator``.

        Raises:
            ExportError: a sentence is longer than the model can read.
        """
        longest = max((len(sentence) + 1 for sentence in sentences), default=0)
        check_length(longest, self.longest["source"])
        results = self.model.translate_batch(
            [renamed(sentence) for sentence in sentences],
            max_batch_size=math.ceil(len(sentences) / self.model.num_translators),
            beam_size=search.beam,
            num_hypotheses=search.nbest,
            length_penalty=search.lenpen,
            max_input_length=0,
            min_decoding_length=search.min_len,
            max_decoding_length=search.most(longest, self.longest["target"]),
            return_scores=True,
        )
        return [
            [Hypothesis(renamed(tokens), score) for tokens, score in zip(result.hypotheses, result.scores, strict=True)]
            for result in results
        ]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """As in ``Translator``."""
        results = self.model.score_batch(
            list(map(renamed, sources)),
            list(map(renamed, targets)),
            max_batch_size=math.ceil(len(sources) / self.model.num_translators),
            max_input_length=0,
        )
        return [result.log_probs for result in results]


def open_folder(
    folder: Path, description: dict[str, Any], threads: int, device: Optional[str]
) -> CTranslate2Translator:
    """Open an exported folder."""
    if (device or "cpu") != "cpu" and not ctranslate2.get_cuda_device_count():
        raise ExportError(f"device {device}: CTranslate2 finds no GPU")
    return CTranslate2Translator(folder, description, threads, device)
