"""The backend of models exported to CTranslate2.

On a CPU, the sentences of a batch are divided among workers of one thread each, which share the weights. CTranslate2's
alternative, several threads per operation, brings little: a step of beam search has so little to compute that the
threads mostly wait for each other. For a tiny model, two of them were no faster than one.
"""

import math
import sys
from collections.abc import Sequence
from typing import Optional

import ctranslate2

from ....errors import OdeTransformerError
from ..backend import Found, Search
from . import Exported

RENAMED = {"<pad>": "<blank>", "<blank>": "<pad>"}
"""CTranslate2 names the padding symbol ``<blank>``, which may be a word of a dictionary here: the two are swapped."""


def renamed(symbols: Sequence[str]) -> list[str]:
    """Return symbols with their names in CTranslate2, or back again."""
    return [RENAMED.get(symbol, symbol) for symbol in symbols]


class Reader(Exported):
    """A model in CTranslate2, whose beam search normalizes scores like fairseq's."""

    def _open(self, device: Optional[str]) -> None:
        there = ctranslate2.get_cuda_device_count()
        if device not in (None, "cpu") and not there:
            raise OdeTransformerError(f"device {device}: CTranslate2 finds no GPU")
        kind = device or ("cuda" if there else "cpu")
        try:
            self.model = self._translator(kind)
            if kind != "cpu":  # CTranslate2 loads its GPU libraries with the first batch
                self.model.translate_batch([["."]], beam_size=1, max_decoding_length=1)
        except (RuntimeError, ValueError) as error:
            if kind == "cpu":
                raise
            if device:
                raise OdeTransformerError(f"device {device}: cannot run {self.name}: {error}") from error
            print(f"warning: {self.name}: translating on the CPU, without the GPU: {error}", file=sys.stderr)
            self.model = self._translator("cpu")
        self.device = self.model.device

    def _translator(self, device: str) -> ctranslate2.Translator:
        kind, _, index = device.partition(":")
        workers = self.threads if kind == "cpu" else 1
        return ctranslate2.Translator(
            self.name, kind, device_index=int(index or 0), inter_threads=workers, intra_threads=1
        )

    def _batch(self, sentences: Sequence[Sequence[str]]) -> int:
        return math.ceil(len(sentences) / self.model.num_translators)

    def _translate(self, sentences: Sequence[Sequence[str]], search: Search, most: int) -> list[list[Found]]:
        results = self.model.translate_batch(
            [renamed(sentence) for sentence in sentences],
            max_batch_size=self._batch(sentences),
            beam_size=search.beam,
            num_hypotheses=search.nbest,
            length_penalty=search.lenpen,
            max_input_length=0,
            min_decoding_length=search.min_len,
            max_decoding_length=most,
            return_scores=True,
        )
        return [list(zip(map(renamed, result.hypotheses), result.scores, strict=True)) for result in results]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """As in :class:`.Backend`."""
        results = self.model.score_batch(
            list(map(renamed, sources)),
            list(map(renamed, targets)),
            max_batch_size=self._batch(sources),
            max_input_length=0,
        )
        return [result.log_probs for result in results]
