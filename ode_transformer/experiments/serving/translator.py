"""Raw text in, raw text out, whatever computes the model.

Text is tokenized, segmented and detokenized as the manifest of the model's data says, and searched with the flags of
the recipe, so that a test set's raw text gives the sentences that the recipe's own decoding gives, detokenized.

Imports neither torch nor fairseq: exported models translate on machines that have neither.
"""

import copy
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ...errors import OdeTransformerError
from ..text.binarised import warn_of_unknown
from ..text.pipeline import Pipeline
from ..text.tokenisation import is_unspaced
from .backend import Backend, LayerStates, Search

SHOWN = 5  # lines named in a warning
BATCH_SIZE, MAX_TOKENS = 128, 12_000
LONGEST = 20_000  # characters of a line; a longer one is not a sentence, and could take hours to segment
ENDS = (frozenset(".!?\u3002\uff01\uff1f"), frozenset(",;:\u3001\uff0c\uff1b\uff1a"))
"""Units that end a sentence, and those that end a clause."""
NO_WORDS = ("<s>", "</s>")  # symbols that a model may find, and that fairseq does not print


@dataclass(frozen=True)
class Hypothesis:
    """A translation: ``text`` to read, its ``score`` as fairseq prints it (base 2, by length), and its ``units``."""

    text: str
    score: float
    units: str


class Translator:
    """A model that translates raw text.

    Args:
        backend: what computes the model.
        pipeline: the way from raw text to its units, and back.
        flags: the model's own flags of ``fairseq-generate``; those that do not concern the search are left out.

    Raises:
        OdeTransformerError: the text is of other languages than the model, or the model does not have a search option.
    """

    def __init__(self, backend: Backend, pipeline: Pipeline, flags: Mapping[str, Any]):
        self.backend, self.pipeline = backend, pipeline
        languages = pipeline.tokeniser.lang, pipeline.target
        if backend.languages != languages:
            raise OdeTransformerError(
                f"{backend.name}: translates {' to '.join(backend.languages)}, but its data were prepared for "
                f"{' to '.join(languages)}"
            )
        self.known, self.produced = (frozenset(symbols) - {"<unk>"} for symbols in backend.symbols)
        self.search = Search.of(flags)
        backend.check(self.search)
        size = flags.get("batch-size", flags.get("batch_size"))
        self.batch_size = BATCH_SIZE if size is None else size
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise OdeTransformerError(f"batch_size {self.batch_size!r}: must be a positive whole number")

    def __repr__(self) -> str:
        lines = [*self.backend.about, self.pipeline, f"search: {self.search}", f"on {self.backend.device}"]
        return "\n  ".join([f"Translator({self.backend.name})", *map(str, lines)])

    def half(self) -> None:
        """Translate in fp16 from now on.

        Raises:
            OdeTransformerError: the model cannot, as on a CPU.
        """
        self.backend.half()

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "Translator":
        """Return the same weights in layers with another integrator.

        Args:
            encoder: a name in ``INTEGRATORS``; None keeps the encoder's.
            decoder: likewise for the decoder.

        Raises:
            OdeTransformerError: there is no such method, or the weights do not fit it; the message says what is lost.
        """
        found = copy.copy(self)
        found.backend = self.backend.with_integrator(encoder, decoder)
        return found

    def layer_states(self, sentence: str) -> LayerStates:
        """Return the inputs of the layers, of the first model of an ensemble, for a sentence and its best translation.

        Raises:
            OdeTransformerError: as in :meth:`translate`; or the sentence is empty or longer than the model takes.
        """
        check_sentence("the sentence", sentence)
        source = self.pipeline.units([sentence])[0].split()
        longest = self.backend.longest["source"]
        if not 0 < len(source) < longest:
            raise OdeTransformerError(f"the sentence has {len(source):,} units, must have 1 to {longest - 1:,}")
        ((best, *_),) = self.hypotheses([sentence])
        return self.backend.layer_states(source, best.units.split())

    def translate(self, sentences: Iterable[str], *, prefix: str = "", **search: Any) -> list[str]:
        """Return the best translation of each sentence, in order.

        Args:
            sentences: raw text; the translation of an empty sentence is empty.
            prefix: raw text in the target language, of whole words, with which every translation begins.
            search: options of ``fairseq-generate``, such as ``beam=4, lenpen=0.6``; by default the recipe's.

        Raises:
            OdeTransformerError: a sentence has more than ``LONGEST`` characters or is not text, a flag is unknown, or
                the prefix has units that the model does not know or is longer than a translation may be.
        """
        return [best.text for best, *_ in self.hypotheses(sentences, prefix=prefix, **search)]

    def hypotheses(
        self,
        sentences: Iterable[str],
        *,
        prefix: str = "",
        names: Optional[Sequence[str]] = None,
        progress: Callable[[int], Any] = lambda n: None,
        **search: Any,
    ) -> list[list[Hypothesis]]:
        """Return the ``nbest`` best translations of each sentence, best first; those of an empty sentence are empty.

        Args:
            sentences: raw text.
            prefix: as in :meth:`translate`.
            names: the names of the sentences in messages.
            progress: called with the number of pieces of sentences that have been translated since the last call.
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
        begin = self._prefix(prefix)
        pieces = [(i, piece) for i, units in enumerate(read) for piece in self._pieces(units, names[i])]
        begins = [begin if at == 0 or pieces[at - 1][0] != i else [] for at, (i, _) in enumerate(pieces)]
        found: dict[int, list[list[Hypothesis]]] = {i: [] for i in range(len(sentences))}
        searched, cut = self._search([piece for _, piece in pieces], begins, chosen, progress)
        for (i, _), hypotheses in zip(pieces, searched, strict=True):
            found[i].append(hypotheses)
        if cut := sorted({pieces[at][0] for at in cut}):
            shown = "; ".join(names[i] for i in cut[:SHOWN]) + ("; ..." if len(cut) > SHOWN else "")
            print(
                f"warning: {len(cut)} translations were cut off at the limit of --max-len-a, --max-len-b and the "
                f"model's positions ({shown})",
                file=sys.stderr,
            )
        progress(sum(not parts for parts in found.values()))
        return [self._join(found[i]) or [Hypothesis("", 0.0, "")] * chosen.nbest for i in range(len(sentences))]

    def _prefix(self, prefix: str) -> list[str]:
        """The units of a prefix."""
        check_sentence("the prefix", prefix)
        (units,) = self.pipeline.target_units([prefix]) if prefix.strip() else [""]
        if unknown := [unit for unit in units.split() if unit not in self.produced]:
            raise OdeTransformerError(f"prefix {prefix!r}: has {unknown[0]!r}, which the model does not know")
        return units.split()

    def _pieces(self, units: list[str], name: str) -> list[list[str]]:
        """The units of a sentence, split where they are more than the models take: where a sentence ends if one does,
        or a clause, or a word."""
        most = self.backend.longest["source"] - 1  # the end is a symbol
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
        """Whether unit i is one of these marks and ends a word, as marks of full width do in text without blanks."""
        mark = units[i].removesuffix("@@").strip("\u2581")
        return mark in marks and (mark >= "\u3000" or self.pipeline.ends_word(units, i))

    def _search(
        self, pieces: Sequence[list[str]], begins: Sequence[list[str]], search: Search, progress: Callable[[int], Any]
    ) -> tuple[list[list[Hypothesis]], set[int]]:
        """Return the hypotheses of each piece, in the order of the pieces, and which of them were cut.

        Each begins with the units that its piece has in ``begins``. Batches are of like lengths.
        """
        found: list[list[Hypothesis]] = [[] for _ in pieces]
        cut = set()
        for batch in self._batches(pieces, begins):
            sentences, prefixes = ([units[i] for i in batch] for units in (pieces, begins))
            most = search.most(max(map(len, sentences)) + 1, self.backend.longest["target"])
            for i, best in zip(batch, self.backend.translate(sentences, search, prefixes), strict=True):
                units = [" ".join(unit for unit in its if unit not in NO_WORDS) for its, _ in best]
                scores = [score / math.log(2) for _, score in best]
                found[i] = [
                    Hypothesis(*each) for each in zip(self.pipeline.plain_text(units), scores, units, strict=True)
                ]
                if len(best[0][0]) >= most:
                    cut.add(i)
            progress(len(batch))
        return found, cut

    def _batches(self, pieces: Sequence[list[str]], begins: Sequence[list[str]]) -> Iterator[list[int]]:
        for begun in (True, False):  # apart, because fairseq lets pieces without a prefix end at once beside others
            order = [i for i in range(len(pieces)) if bool(begins[i]) is begun]
            order.sort(key=lambda i: -len(pieces[i]))  # what needs most memory comes first
            while order:
                count = min(self.batch_size, max(1, MAX_TOKENS // (len(pieces[order[0]]) + 1)))
                yield order[:count]
                order = order[count:]

    def _join(self, parts: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The hypotheses of a sentence from those of its pieces: the best are joined, the second best, and so on."""
        if len(parts) == 1:
            return parts[0]
        space = "" if is_unspaced(self.pipeline.target) else " "
        return [
            Hypothesis(
                space.join(h.text for h in one), sum(h.score for h in one) / len(one), " ".join(h.units for h in one)
            )
            for one in zip(*parts, strict=False)
        ]


def check_sentence(name: str, sentence: str) -> None:
    """Refuse anything that is not a sentence.

    Raises:
        OdeTransformerError: it is too long, or no text.
    """
    if not isinstance(sentence, str):
        raise OdeTransformerError(f"{name}: must be text, got {type(sentence).__name__}")
    if len(sentence) > LONGEST:
        raise OdeTransformerError(
            f"{name}: has {len(sentence):,} characters, must have {LONGEST:,} at most; put one sentence per line"
        )
    if "\0" in sentence:
        raise OdeTransformerError(f"{name}: holds a NUL, must be text")
