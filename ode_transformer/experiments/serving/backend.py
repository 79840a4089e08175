"""How translations are searched, and what computes them.

Imports neither torch nor fairseq: exported models translate on machines that have neither.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Optional

from ...errors import OdeTransformerError

if TYPE_CHECKING:
    from torch import Tensor

KINDS = {bool: ("a switch", (bool,)), int: ("a whole number", (int,)), float: ("a number", (int, float))}
"""The values that a flag takes, by its type: their name in messages, and their types."""

MOST_HYPOTHESES = 1_000  # per sentence

Found = tuple[list[str], float]
"""A translation as its symbols, without the end, and its score: the log-probability / length ** lenpen."""


def as_option(name: str) -> str:
    """Return what commands call an option of a search."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class LayerStates:
    """The inputs of all layers of a model for a sentence, and the output of the last layer before the final norm.

    Args:
        source: the S units of the sentence, and its end.
        encoder: (L + 1, S + 1, C).
        target: the T units of the translation, and its end; the decoder reads the end first, and the last unit last.
        decoder: (L' + 1, T + 1, C').
    """

    source: list[str]
    encoder: "Tensor"
    target: list[str]
    decoder: "Tensor"


@dataclass(frozen=True)
class Search:
    """The options of a search, with the names, meanings and defaults of ``fairseq-generate``.

    A translation has from ``min_len`` to max_len_a S + max_len_b subword units, where S is the length of the longest
    source of its batch. The end of a sentence counts in S only.

    Raises:
        OdeTransformerError: an option has a value that it cannot have; names it.
    """

    beam: int = 5
    lenpen: float = 1.0
    nbest: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    min_len: int = 1
    unkpen: float = 0.0
    unnormalized: bool = False
    temperature: float = 1.0
    match_source_len: bool = False
    no_repeat_ngram_size: int = 0
    sampling: bool = False
    sampling_topk: int = -1
    sampling_topp: float = -1.0
    diverse_beam_groups: int = -1
    diverse_beam_strength: float = 0.5
    diversity_rate: float = -1.0

    def __post_init__(self):
        for field in fields(self):
            what, kinds = KINDS[field.type]
            if type(value := getattr(self, field.name)) not in kinds or not abs(value) <= 1e9:
                raise OdeTransformerError(f"{field.name} {value!r}: must be {what}")
        for name, least, most in (("beam", 1, MOST_HYPOTHESES), ("nbest", 1, MOST_HYPOTHESES), ("min_len", 0, 10**9)):
            if not least <= (value := getattr(self, name)) <= most:
                raise OdeTransformerError(f"{as_option(name)} {value}: must be from {least} to {most}")
        if self.sampling_topk < -1:
            raise OdeTransformerError(f"--sampling-topk {self.sampling_topk}: must be 1 or more, or 0 or -1 for all")
        if not (0 <= self.sampling_topp <= 1 or self.sampling_topp == -1):
            raise OdeTransformerError(f"--sampling-topp {self.sampling_topp}: must be from 0 to 1, or -1 for all")
        if self.nbest > self.beam:
            raise OdeTransformerError(f"--nbest {self.nbest}: must be at most --beam, {self.beam}")

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> "Search":
        """Return the search of a recipe's flags of ``fairseq-generate``; flags of other things are left out."""
        given = {name.replace("-", "_"): value for name, value in flags.items() if value is not None}
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})

    def but(self, **options: Any) -> "Search":
        """Return this search with other values of some options; an option that is None keeps its value.

        Raises:
            OdeTransformerError: there is no such option, or it cannot have the value.
        """
        names = [field.name for field in fields(self)]
        if unknown := [name for name in options if name not in names]:
            raise OdeTransformerError(f"{unknown[0]}: is no flag of a search, must be one of {', '.join(names)}")
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    def flag(self, name: str) -> str:
        """Return an option with its value, as commands are given it."""
        value = getattr(self, name)
        return as_option(name) if value is True else f"{as_option(name)} {value}"

    def given(self) -> dict[str, Any]:
        """Return the options that have other values than fairseq's defaults."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}

    def most(self, source: int, longest: int) -> int:
        """Return the length of the longest translation, without its end.

        Args:
            source: the length of the longest source of the batch, with its end.
            longest: the length of the longest target that the model can read, with its end.

        Raises:
            OdeTransformerError: the result is less than ``min_len``.
        """
        most = min(int(self.max_len_a * source + self.max_len_b), longest - 1)
        if most < self.min_len:
            names = [name for name in ("max_len_a", "max_len_b", "min_len") if name in self.given()]
            raise OdeTransformerError(
                f"{', '.join(self.flag(name) for name in names) or 'the model'}: the longest translation would have "
                f"{most} units, must have {self.min_len} at least, as the shortest"
            )
        return most

    def __str__(self) -> str:
        shown = {"beam": self.beam, "lenpen": self.lenpen, **self.given()}
        return ", ".join(f"{name} {value}" for name, value in shown.items())


class Backend:
    """A model that translates and scores. A sentence is a list of symbols of its dictionaries, without its end."""

    name: str
    """The model's file or folder, for messages."""

    about: list[str]
    """Lines that say what the model is."""

    device: Any
    """The device that it computes on."""

    languages: tuple[str, str]
    """Of the source and of the target."""

    symbols: tuple[Sequence[str], Sequence[str]]
    """Of the dictionaries of the source and of the target."""

    longest: dict[str, int]
    """Symbols of the longest ``source`` and of the longest ``target``, the end of the sentence included."""

    options: Collection[str] = [field.name for field in fields(Search)]
    """The options of :class:`Search` that it has; others must have their defaults."""

    def check(self, search: Search) -> None:
        """Refuse a search that it does not have.

        Raises:
            OdeTransformerError: names the option.
        """
        if lacking := [name for name in search.given() if name not in self.options]:
            raise OdeTransformerError(
                f"{self.name}: cannot search with {search.flag(lacking[0])}, only with "
                f"{', '.join(map(as_option, self.options))}; translate with its run or bundle"
            )
        if search.sampling_topk > (size := len(self.symbols[1])):
            raise OdeTransformerError(
                f"--sampling-topk {search.sampling_topk}: must be {size} at most, the size of the target's dictionary"
            )

    def translate(
        self, sentences: Sequence[Sequence[str]], search: Search, prefixes: Sequence[Sequence[str]] = ()
    ) -> list[list[Found]]:
        """Return the ``nbest`` best translations of each sentence of a batch, the best first.

        Args:
            sentences: the sentences.
            search: how they are searched.
            prefixes: for each sentence the symbols with which its translation begins; none by default.

        Raises:
            OdeTransformerError: a sentence is longer than the model can read, or a prefix than a translation may be;
                or the model has no such search.
        """
        self.check(search)
        if not sentences:
            return []
        source, longest = max(map(len, sentences)) + 1, self.longest["source"]
        if source > longest:
            raise OdeTransformerError(
                f"a sentence of {source} subword units, its end included: must have {longest} at most"
            )
        most = search.most(source, self.longest["target"])
        if (length := max(map(len, prefixes), default=0)) > most:
            raise OdeTransformerError(
                f"the prefix has {length} units, a translation must have {most} at most (--max-len-a, --max-len-b)"
            )
        return self._translate(sentences, search, most, prefixes)

    def _translate(
        self, sentences: Sequence[Sequence[str]], search: Search, most: int, prefixes: Sequence[Sequence[str]]
    ) -> list[list[Found]]:
        """As :meth:`translate`; ``most`` is the length of the longest translation, without its end."""
        raise NotImplementedError

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the log-probability of each symbol of each target, and last that of the end of the sentence."""
        raise NotImplementedError

    def half(self) -> None:
        """Translate in fp16 from now on."""
        raise OdeTransformerError(f"--fp16: {self.name} is an exported model, whose precision was fixed by the export")

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "Backend":
        """As :meth:`.Translator.with_integrator`."""
        raise OdeTransformerError(f"{self.name}: is an exported model, whose layers are fixed; load its run or bundle")

    def layer_states(self, source: Sequence[str], target: Sequence[str]) -> LayerStates:
        """As :meth:`.Translator.layer_states`, for the symbols of a sentence and of its translation."""
        return self.with_integrator()
