"""Raw text in, raw text out: what all models that translate have in common, whatever computes them.

Text is tokenized, segmented and detokenized as the manifest of the model's data says, and searched with the flags of
the recipe, so that a test set's raw text gives the sentences that the recipe's own decoding gives, detokenized.

Imports neither torch nor fairseq: exported models translate on machines that have neither.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from .. import recipes
from ..text.binarised import symbols_of, warn_of_unknown
from ..text.pipeline import Pipeline
from ..text.tokenisation import is_unspaced

KINDS = {bool: ("a switch", (bool,)), int: ("a whole number", (int,)), float: ("a number", (int, float))}
"""The values that a flag takes, by its type: their name in messages, and their types."""

MOST_HYPOTHESES = 1_000  # per sentence
SHOWN = 5  # lines named in a warning
BATCH_SIZE, MAX_TOKENS = 128, 12_000
LONGEST = 20_000  # characters of a line; a longer one is not a sentence, and could take hours to segment
ENDS = (frozenset(".!?\u3002\uff01\uff1f"), frozenset(",;:\u3001\uff0c\uff1b\uff1a"))
"""Units that end a sentence, and those that end a clause."""
Found = tuple[list[tuple[str, float]], bool]
"""Translations of a sentence, units and score each, the best first; and whether the best was cut where it must end."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation: text to read, its score as fairseq prints it (base 2, by length), and its units."""

    text: str
    score: float
    units: str


def located(path: str | Path) -> Path:
    """Where a model is: one that is not here is looked for in the clone of the repository, where ``run`` puts what has
    no folder of its own."""
    path = Path(path)
    return recipes.ROOT / path if not path.exists() and (recipes.ROOT / path).exists() else path


class Translator:
    """A model that translates raw text.

    Args:
        data: the folder of its dictionaries, units and manifest.
        search: the model's own flags of ``fairseq-generate``; flags that do not concern the search are left out.

    Raises:
        OdeTransformerError: the manifest or a flag cannot be used; names it.
    """

    flags: Mapping[str, type] = {}
    """The flags that a search may have, numbers and switches, and their types."""

    def __init__(self, data: Path, search: Mapping[str, Any]):
        self.pipeline = Pipeline.of(data)
        langs = self.pipeline.tokeniser.lang, self.pipeline.target
        self.known, self.produced = (frozenset(symbols_of(data / f"dict.{lang}.txt")) - {"<unk>"} for lang in langs)
        given = {name.replace("-", "_"): value for name, value in search.items() if value is not None}
        self.search = {"beam": 5, "lenpen": 1.0, **{k: v for k, v in given.items() if k in self.flags}}
        self._checked({})
        self.batch_size = given.get("batch_size", BATCH_SIZE)
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise OdeTransformerError(f"batch_size {self.batch_size!r}: must be a positive whole number")

    def __repr__(self) -> str:
        search = ", ".join(f"{name} {value}" for name, value in self.search.items())
        body = "\n  ".join([*self._about(), str(self.pipeline), f"search: {search}", f"on {self.device}"])
        return f"Translator({self.name})\n  {body}"

    # What is particular to a kind of models.

    name: str
    """Where the model is, for messages."""

    device: Any
    """Where it computes."""

    @property
    def longest(self) -> int:
        """Units of the longest sentence that the model reads, with its end."""
        raise NotImplementedError

    def half(self) -> None:
        """Translate in fp16 from now on.

        Raises:
            OdeTransformerError: it cannot.
        """
        raise NotImplementedError

    def _about(self) -> list[str]:
        """Lines that say what the model is."""
        raise NotImplementedError

    def _searching(
        self, values: dict[str, Any], prefix: list[str]
    ) -> Callable[[Sequence[list[str]], Sequence[bool]], list[Found]]:
        """What translates a batch of sentences of units, with a search of these flags.

        It also gets which of them begin a line, whose translations begin with the units of the prefix.
        """
        raise NotImplementedError

    # What is common.

    def translate(self, sentences: Sequence[str], *, prefix: str = "", **search: Any) -> list[str]:
        """The best translation of each sentence, in order.

        Args:
            sentences: raw text; the translation of an empty sentence is empty.
            prefix: raw text in the target language, of whole words, with which every translation begins.
            search: flags of ``fairseq-generate``, such as ``beam=4, lenpen=0.6``; by default the recipe's.

        Raises:
            OdeTransformerError: a sentence has more than ``LONGEST`` characters or is not text, a flag is unknown, or
                the prefix has units that the model does not know or is longer than a translation may be.
        """
        if isinstance(sentences, str):
            raise OdeTransformerError("translate takes a list of sentences, got one string")
        return [best.text for best, *_ in self.hypotheses(sentences, prefix=prefix, **search)]

    def hypotheses(
        self,
        sentences: Sequence[str],
        *,
        prefix: str = "",
        names: Optional[Sequence[str]] = None,
        progress: Callable[[int], Any] = lambda n: None,
        **search: Any,
    ) -> list[list[Hypothesis]]:
        """The best ``nbest`` translations of each sentence, best first; an empty sentence has one, which is empty.

        Args:
            sentences: raw text.
            prefix: as in :meth:`translate`.
            names: the names of the sentences in messages.
            progress: called with the number of pieces of sentences that have been translated since the last call.
            search: as in :meth:`translate`.

        Raises:
            OdeTransformerError: as in :meth:`translate`.
        """
        values = self._checked(search)
        names = names or [f"sentence {i + 1}" for i in range(len(sentences))]
        for name, sentence in zip(names, sentences, strict=True):
            check_sentence(name, sentence)
        read = [units.split() for units in self.pipeline.units(sentences)]
        unknown = sum(unit not in self.known for units in read for unit in units)
        warn_of_unknown("the text", unknown, sum(map(len, read)))
        begin = self._prefix(prefix)
        pieces = [(i, piece) for i, units in enumerate(read) for piece in self._pieces(units, names[i])]
        first = [at == 0 or pieces[at - 1][0] != i for at, (i, _) in enumerate(pieces)]
        found: dict[int, list[list[Hypothesis]]] = {i: [] for i in range(len(sentences))}
        asked = ", ".join(f"{name} {value}" for name, value in values.items())
        try:
            searched, cut = self._search([piece for _, piece in pieces], first, begin, values, progress)
        except OdeTransformerError:
            raise
        except (AssertionError, ValueError, RuntimeError) as error:  # flags that cannot be combined
            raise OdeTransformerError(f"search with {asked}: {str(error) or type(error).__name__}") from error
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
        return [self._join(found[i]) for i in range(len(sentences))]

    def _prefix(self, prefix: str) -> list[str]:
        """The units of a prefix."""
        check_sentence("the prefix", prefix)
        (units,) = self.pipeline.target_units([prefix]) if prefix.strip() else [""]
        if unknown := [unit for unit in units.split() if unit not in self.produced]:
            raise OdeTransformerError(f"prefix {prefix!r}: has {unknown[0]!r}, which the model does not know")
        return units.split()

    def _checked(self, search: Mapping[str, Any]) -> dict[str, Any]:
        """The flags of a search, by default the model's own."""
        values = {**self.search, **{name: value for name, value in search.items() if value is not None}}
        for name, value in values.items():
            if name not in self.flags:
                raise OdeTransformerError(f"{name}: is no flag of a search, must be one of {', '.join(self.flags)}")
            what, kinds = KINDS[self.flags[name]]
            if type(value) not in kinds or not abs(value) <= 1e9:
                raise OdeTransformerError(f"{name} {value!r}: must be {what}")
        beam, nbest = values["beam"], values.get("nbest", 1)
        for name, value in (("beam", beam), ("nbest", nbest)):
            if not 1 <= value <= MOST_HYPOTHESES:
                raise OdeTransformerError(f"--{name} {value}: must be from 1 to {MOST_HYPOTHESES}")
        if nbest > beam:
            raise OdeTransformerError(f"--nbest {nbest}: must be at most --beam, {beam}")
        return values

    def _pieces(self, units: list[str], name: str) -> list[list[str]]:
        """The units of a sentence, split where they are more than the models take: where a sentence ends if one does,
        or a clause, or a word."""
        most = self.longest - 1  # the end is a symbol
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
        self,
        pieces: Sequence[list[str]],
        first: Sequence[bool],
        prefix: list[str],
        values: dict[str, Any],
        progress: Callable[[int], Any],
    ) -> tuple[list[list[Hypothesis]], set[int]]:
        """The hypotheses of each piece, in the order of the pieces, and which of them were cut; batches are of like
        lengths."""
        translate = self._searching(values, prefix)
        found: list[list[Hypothesis]] = [[] for _ in pieces]
        cut = set()
        for batch in self._batches(pieces):
            translated = translate([pieces[i] for i in batch], [first[i] for i in batch])
            for i, (best, was_cut) in zip(batch, translated, strict=True):
                units, scores = zip(*best, strict=True)
                texts = self.pipeline.plain(units)
                found[i] = [Hypothesis(*each) for each in zip(texts, scores, units, strict=True)]
                if was_cut:
                    cut.add(i)
            progress(len(batch))
        return found, cut

    def _batches(self, pieces: Sequence[list[str]]) -> Iterator[list[int]]:
        order = sorted(range(len(pieces)), key=lambda i: -len(pieces[i]))  # what needs most memory comes first
        while order:
            count = min(self.batch_size, max(1, MAX_TOKENS // (len(pieces[order[0]]) + 1)))
            yield order[:count]
            order = order[count:]

    def _join(self, parts: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The hypotheses of a sentence from those of its pieces: the best are joined, the second best, and so on."""
        if not parts:
            return [Hypothesis("", 0.0, "")]
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
    if len(sentence) > LONGEST:
        raise OdeTransformerError(
            f"{name}: has {len(sentence):,} characters, must have {LONGEST:,} at most; put one sentence per line"
        )
    if "\0" in sentence:
        raise OdeTransformerError(f"{name}: holds a NUL, must be text")
