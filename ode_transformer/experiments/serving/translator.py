"""Translation of raw text, by any backend.

Text is tokenized, segmented and detokenized according to the manifest of the model's data, and searched with the flags
of the recipe, so that the raw text of a test set yields the detokenized output of the recipe's own decoding.

This module imports neither torch nor fairseq: exported models translate on machines that have neither.
"""

import copy
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ...errors import OdeTransformerError, counted
from ..text.binarised import warn_of_unknown
from ..text.pipeline import Pipeline
from ..text.tokenisation import is_unspaced
from .backend import Backend, Found, LayerStates, Search, as_arguments

SHOWN = 5  # sentences named in a warning
BATCH_SIZE, MAX_TOKENS = 128, 12_000
LONGEST = 20_000  # characters of a sentence; longer text could take hours to segment
ENDS = (frozenset(".!?\u3002\uff01\uff1f"), frozenset(",;:\u3001\uff0c\uff1b\uff1a"))
"""The punctuation marks that end a sentence, and those that end a clause."""
NO_WORDS = ("<s>", "</s>")  # symbols that a model may generate, and that fairseq does not print


@dataclass(frozen=True)
class Hypothesis:
    """A translation: ``text``, detokenized; ``score``, as fairseq prints it (base 2, by length); and ``units``."""

    text: str
    score: float
    units: str


class Piece(NamedTuple):
    """A sentence, or a part of one that is too long: the indices of sentence and part, and the subwords."""

    sentence: int
    at: int
    units: list[str]


class Translator:
    """A model that translates raw text.

    Args:
        backend: the model.
        pipeline: the pipeline from raw text to subwords, and back.
        flags: the model's flags of ``fairseq-generate``; of those, the search and the batch size are used.
    """

    def __init__(self, backend: Backend, pipeline: Pipeline, flags: Mapping[str, Any]):
        self.backend, self.pipeline = backend, pipeline
        languages = pipeline.source, pipeline.target
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
            raise OdeTransformerError(f"batch_size {self.batch_size!r}: must be a whole number, 1 or more")
        if (least := min(backend.longest.values())) < 2:
            raise OdeTransformerError(
                f"{backend.name}: reads {least} units, must read 2: one, and the end of a sentence"
            )

    def __repr__(self) -> str:
        lines = [*self.backend.about, self.pipeline, f"search: {self.search}", f"on {self.backend.device}"]
        return "\n  ".join([f"Translator({self.backend.name})", *map(str, lines)])

    def half(self) -> None:
        """Translate in fp16 from now on, on a GPU."""
        self.backend.half()

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "Translator":
        """Return a translator with the same weights and other integrators.

        Args:
            encoder: a name in ``INTEGRATORS``; None keeps the encoder's.
            decoder: likewise for the decoder.
        """
        found = copy.copy(self)
        found.backend = self.backend.with_integrator(encoder, decoder)
        return found

    def layer_states(self, sentence: str) -> LayerStates:
        """Return the inputs of the layers for a sentence and its best translation, of the first model of an ensemble.

        The sentence must not be empty, nor longer than the model can read.
        """
        check_sentence("the sentence", sentence)
        source = self.pipeline.units([sentence])[0].split()
        longest = self.backend.finite["source"]
        if not 0 < len(source) < longest:
            raise OdeTransformerError(f"the sentence has {len(source):,} units, must have 1 to {longest - 1:,}")
        ((best, *_),) = self.hypotheses([sentence])
        return self.backend.layer_states(source, best.units.split())

    def translate(self, sentences: Iterable[str], **search: Any) -> list[str]:
        """Return the best translation of each sentence, in order.

        Args:
            sentences: raw text; the translation of an empty sentence is empty.
            search: options of ``fairseq-generate``, such as ``beam=4, lenpen=0.6``; by default the recipe's.
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
            progress: a function that is called with the number of pieces of sentences, or of empty sentences, that
                were translated since the last call.
            search: as in :meth:`translate`.
        """
        if isinstance(sentences, str):
            raise OdeTransformerError("translate takes a list of sentences, got one string")
        sentences = list(sentences)
        if search.get("sampling") and search.get("beam") is None:
            # With a wider beam than nbest, the best of more samples would have another distribution.
            search["beam"] = search.get("nbest") or self.search.nbest
        chosen = self.search.but(**search)
        names = names or [f"sentence {i + 1}" for i in range(len(sentences))]
        for name, sentence in zip(names, sentences, strict=True):
            check_sentence(name, sentence)
        read = [units.split() for units in self.pipeline.units(sentences)]
        unknown = sum(unit not in self.known for units in read for unit in units)
        warn_of_unknown("the text", unknown, sum(map(len, read)))
        pieces = [
            Piece(i, at, piece)
            for i, units in enumerate(read)
            for at, piece in enumerate(self._pieces(units, names[i]))
        ]
        found: list[dict[int, list[Hypothesis]]] = [{} for _ in sentences]
        cut = set()
        for batch in self._batches(pieces):
            units = [piece.units for piece in batch]
            most = chosen.most(max(map(len, units)) + 1, self.backend.finite["target"])
            for piece, best in zip(batch, self.backend.translate(units, chosen), strict=True):
                found[piece.sentence][piece.at] = self._hypotheses(best)
                if len(best[0][0]) >= most:
                    cut.add(piece.sentence)
            progress(len(batch))
        if cut:
            shown = "; ".join(names[i] for i in sorted(cut)[:SHOWN]) + ("; ..." if len(cut) > SHOWN else "")
            print(
                f"warning: --max-len-a, --max-len-b or the model's positions cut off "
                f"{counted(len(cut), 'translation')} ({shown})",
                file=sys.stderr,
            )
        progress(sum(not its for its in found))
        nothing = [Hypothesis("", 0.0, "")] * chosen.nbest
        return [self._join([its[at] for at in sorted(its)]) if its else nothing for its in found]

    def _pieces(self, units: list[str], name: str) -> list[list[str]]:
        """Split a sentence that is longer than the model can read, at best where a sentence ends, else a clause, else a
        word."""
        most = self.backend.finite["source"] - 1  # without the end of sentence
        if most < 1:
            raise OdeTransformerError(
                f"{self.backend.name}: its attention overflows at the first positions; it diverged in training, or "
                "overflows in fp16 and can be used without --fp16"
            )
        found = []
        rest = units
        while len(rest) > most:
            second_half = range(most // 2, most)
            chosen = [[i for i in second_half if self._ends(rest, i, marks)] for marks in ENDS]
            ends = [i for i in second_half if self.pipeline.ends_word(rest, i)]
            at = next((places[-1] for places in (*chosen, ends) if places), most - 1)
            found.append(rest[: at + 1])
            rest = rest[at + 1 :]
        if found:
            print(
                f"warning: {name}: has {len(units):,} units, the model takes {most:,}: translated in {len(found) + 1} "
                "pieces",
                file=sys.stderr,
            )
        return [*found, rest] if rest else found

    def _ends(self, units: list[str], i: int, marks: Collection[str]) -> bool:
        """Whether subword i is one of the marks and ends a word, as full-width marks do in text without spaces."""
        mark = units[i].removesuffix("@@").strip("\u2581")
        return mark in marks and (mark >= "\u3000" or self.pipeline.ends_word(units, i))

    def _batches(self, pieces: list[Piece]) -> Iterator[list[Piece]]:
        """Yield batches of pieces of similar length. That which needs the most memory comes first."""
        pieces = sorted(pieces, key=lambda piece: -len(piece.units))
        while pieces:
            count = min(self.batch_size, max(1, MAX_TOKENS // (len(pieces[0].units) + 1)))
            yield pieces[:count]
            pieces = pieces[count:]

    def _hypotheses(self, best: Sequence[Found]) -> list[Hypothesis]:
        units = [" ".join(unit for unit in its if unit not in NO_WORDS) for its, _ in best]
        scores = [score / math.log(2) for _, score in best]
        return [Hypothesis(*each) for each in zip(self.pipeline.plain_text(units), scores, units, strict=True)]

    def _join(self, parts: list[list[Hypothesis]]) -> list[Hypothesis]:
        """Join the hypotheses of the pieces of a sentence: the best of all pieces, the second best, and so on."""
        space = "" if is_unspaced(self.pipeline.target) else " "
        return [
            Hypothesis(
                space.join(h.text for h in one), sum(h.score for h in one) / len(one), " ".join(h.units for h in one)
            )
            for one in zip(*parts, strict=False)
        ]


def check_sentence(name: str, sentence: str) -> None:
    """Check that a sentence is text of ``LONGEST`` characters at most."""
    if not isinstance(sentence, str):
        raise OdeTransformerError(f"{name}: must be text, got {type(sentence).__name__}")
    if len(sentence) > LONGEST:
        raise OdeTransformerError(
            f"{name}: has {len(sentence):,} characters, must have {LONGEST:,} at most; put one sentence per line"
        )
