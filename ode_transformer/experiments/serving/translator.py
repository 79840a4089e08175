"""Translation of raw text, by any backend.

Text is tokenized, segmented and detokenized according to the manifest of the model's data, and searched with the flags
of the recipe, so that the raw text of a test set yields the detokenized output of the recipe's own decoding.

This module imports neither torch nor fairseq: exported models translate on machines that have neither.
"""

import copy
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ...errors import OdeTransformerError
from ..text.binarised import warn_of_unknown
from ..text.pipeline import Pipeline
from .backend import Backend, Found, LayerStates, Search, as_arguments

SHOWN = 5  # sentences named in a warning
BATCH_SIZE, MAX_TOKENS = 128, 12_000
LONGEST = 20_000  # characters of a sentence; longer text could take hours to segment
NO_WORDS = ("<s>", "</s>")  # symbols that a model may generate, and that fairseq does not print


@dataclass(frozen=True)
class Hypothesis:
    """A translation: ``text``, detokenized; ``score``, as fairseq prints it (base 2, by length); and ``units``."""

    text: str
    score: float
    units: str


class Translator:
    """A model that translates raw text, by the search and the batch size among its ``flags`` of ``fairseq-generate``.

    Raises:
        OdeTransformerError: the languages of the pipeline are not the model's, or a flag has a value that is invalid or
            that the backend does not support.
    """

    def __init__(self, backend: Backend, pipeline: Pipeline, flags: Mapping[str, Any]):
        self.backend, self.pipeline = backend, pipeline
        languages = pipeline.tokeniser.lang, pipeline.target
        if backend.languages != languages:
            raise OdeTransformerError(
                f"{backend.name}: translates {' to '.join(backend.languages)}, but its data were prepared for "
                f"{' to '.join(languages)}"
            )
        self.known = frozenset(backend.symbols[0]) - {"<unk>"}
        self.search = Search.of(flags)
        backend.check(self.search)
        self.batch_size = as_arguments(flags).get("batch_size", BATCH_SIZE)
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise OdeTransformerError(f"batch_size {self.batch_size!r}: must be a positive whole number")

    def __repr__(self) -> str:
        lines = [*self.backend.about, self.pipeline, f"search: {self.search}", f"on {self.backend.device}"]
        return "\n  ".join([f"Translator({self.backend.name})", *map(str, lines)])

    def half(self) -> None:
        """Translate in fp16 from now on.

        Raises:
            OdeTransformerError: the model is on a CPU, or exported.
        """
        self.backend.half()

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "Translator":
        """Return a translator with the same weights and other ``INTEGRATORS``; None keeps a side's own.

        Raises:
            OdeTransformerError: an integrator is unknown or does not fit the weights, or the model is exported.
        """
        found = copy.copy(self)
        found.backend = self.backend.with_integrator(encoder, decoder)
        return found

    def layer_states(self, sentence: str) -> LayerStates:
        """Return the inputs of the layers for a sentence and its best translation, of the first model of an ensemble.

        Raises:
            OdeTransformerError: as in :meth:`translate`; or the sentence is empty or longer than the model can read, or
                the model is exported.
        """
        check_sentence("the sentence", sentence)
        source = self.pipeline.units([sentence])[0].split()
        longest = self.backend.longest["source"]
        if not 0 < len(source) < longest:
            raise OdeTransformerError(f"the sentence has {len(source):,} units, must have 1 to {longest - 1:,}")
        ((best, *_),) = self.hypotheses([sentence])
        return self.backend.layer_states(source, best.units.split())

    def translate(self, sentences: Iterable[str], **search: Any) -> list[str]:
        """Return the best translation of each sentence, in order.

        Args:
            sentences: raw text; the translation of an empty sentence is empty.
            search: options of ``fairseq-generate``, such as ``beam=4, lenpen=0.6``; by default the recipe's.

        Raises:
            OdeTransformerError: a sentence has more than ``LONGEST`` characters or is not text, or an option is unknown
                or invalid.
        """
        return [best.text for best, *_ in self.hypotheses(sentences, **search)]

    def hypotheses(
        self,
        sentences: Iterable[str],
        *,
        names: Optional[Sequence[str]] = None,
        progress: Callable[[int], Any] = lambda n: None,
        **search: Any,
    ) -> list[list[Hypothesis]]:
        """Return the ``nbest`` best translations of each sentence, best first; those of an empty sentence are empty.

        Args:
            sentences: raw text.
            names: the names of the sentences in messages.
            progress: a function that is called with the number of sentences translated since the last call.
            search: as in :meth:`translate`.

        Raises:
            OdeTransformerError: as in :meth:`translate`.
        """
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            what = "one string" if isinstance(sentences, str) else type(sentences).__name__
            raise OdeTransformerError(f"translate takes a list of sentences, got {what}")
        sentences = list(sentences)
        chosen = self.search.but(**search)
        names = names or [f"sentence {i + 1}" for i in range(len(sentences))]
        for name, sentence in zip(names, sentences, strict=True):
            check_sentence(name, sentence)
        read = [units.split() for units in self.pipeline.units(sentences)]
        unknown = sum(unit not in self.known for units in read for unit in units)
        warn_of_unknown("the text", unknown, sum(map(len, read)))
        most = self.backend.longest["source"] - 1  # without the end of sentence
        _warn_of(
            [names[i] for i, units in enumerate(read) if len(units) > most],
            f"sentences were cut off at {most:,} units, the longest that the model takes",
        )
        read = [units[:most] for units in read]
        found = [[Hypothesis("", 0.0, "")] * chosen.nbest for _ in read]
        cut = []
        for batch in self._batches(read):
            sources = [read[i] for i in batch]
            most = chosen.most(max(map(len, sources)) + 1, self.backend.longest["target"])
            for i, best in zip(batch, self.backend.translate(sources, chosen), strict=True):
                found[i] = self._detokenized(best)
                if len(best[0][0]) >= most:
                    cut.append(i)
            progress(len(batch))
        _warn_of(
            [names[i] for i in sorted(cut)],
            "translations were cut off at the limit of --max-len-a, --max-len-b and the model's positions",
        )
        progress(sum(not units for units in read))
        return found

    def _batches(self, read: Sequence[list[str]]) -> Iterator[list[int]]:
        """Yield the indices of sentences of similar length; the batch that needs the most memory comes first."""
        order = sorted((i for i, units in enumerate(read) if units), key=lambda i: -len(read[i]))
        while order:
            count = min(self.batch_size, max(1, MAX_TOKENS // (len(read[order[0]]) + 1)))
            yield order[:count]
            order = order[count:]

    def _detokenized(self, best: Sequence[Found]) -> list[Hypothesis]:
        units = [" ".join(unit for unit in symbols if unit not in NO_WORDS) for symbols, _ in best]
        scores = [score / math.log(2) for _, score in best]
        return [Hypothesis(*each) for each in zip(self.pipeline.plain_text(units), scores, units, strict=True)]


def _warn_of(names: Sequence[str], what: str) -> None:
    if names:
        shown = "; ".join(names[:SHOWN]) + ("; ..." if len(names) > SHOWN else "")
        print(f"warning: {len(names)} {what} ({shown})", file=sys.stderr)


def check_sentence(name: str, sentence: str) -> None:
    """Check that a sentence can be translated.

    Raises:
        OdeTransformerError: the sentence is not a string, has a NUL, or has more than ``LONGEST`` characters.
    """
    if not isinstance(sentence, str):
        raise OdeTransformerError(f"{name}: must be text, got {type(sentence).__name__}")
    if len(sentence) > LONGEST:
        raise OdeTransformerError(
            f"{name}: has {len(sentence):,} characters, must have {LONGEST:,} at most; put one sentence per line"
        )
    if "\0" in sentence:
        raise OdeTransformerError(f"{name}: holds a NUL, must be text")
