"""The options of a search, and the interface of models that translate.

This module imports neither torch nor fairseq: exported models translate on machines that have neither.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Optional

from ...errors import OdeTransformerError

if TYPE_CHECKING:
    from torch import Tensor

# The name in messages and the accepted types of a flag's values, by its annotation.
KINDS = {bool: ("a switch", (bool,)), int: ("a whole number", (int,)), float: ("a number", (int, float))}

MOST_HYPOTHESES = 1_000  # per sentence

Found = tuple[list[str], float]
"""A translation, its symbols without the end of sentence, and its score: log-probability / length ** lenpen."""


def as_option(name: str) -> str:
    """Return the command-line name of a search option."""
    return f"--{name.replace('_', '-')}"


def as_arguments(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return flags of ``fairseq-generate`` by the names of arguments, with underscores, without those that are None."""
    return {name.replace("-", "_"): value for name, value in flags.items() if value is not None}


@dataclass(frozen=True)
class LayerStates:
    """The inputs of all layers of a model for a sentence, and the output of the last layer before the final norm."""

    source: list[str]  # the S subwords of the sentence, and the end of sentence
    encoder: "Tensor"  # (L + 1, S + 1, C)
    target: list[str]  # the T subwords of the translation, and the end; the decoder reads the end first, then the T
    decoder: "Tensor"  # (L' + 1, T + 1, C')


@dataclass(frozen=True)
class Search:
    """The options of a search, with the names, meanings and defaults of ``fairseq-generate``.

    A translation has from ``min_len`` to max_len_a S + max_len_b subwords, where S is the length of the longest source
    of its batch. The end of sentence counts in S only.
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
        for name in ("beam", "nbest"):
            if not 1 <= getattr(self, name) <= MOST_HYPOTHESES:
                raise OdeTransformerError(f"{self.flag(name)}: must be from 1 to {MOST_HYPOTHESES}")
        if self.nbest > self.beam:
            raise OdeTransformerError(f"--nbest {self.nbest}: must be at most --beam, {self.beam}")

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> "Search":
        """Return the search that flags of ``fairseq-generate`` describe; flags of anything else are ignored."""
        given = as_arguments(flags)
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})

    def but(self, **options: Any) -> "Search":
        """Return a copy of this search with some options replaced; an option that is None keeps its value."""
        names = [field.name for field in fields(self)]
        if unknown := [name for name in options if name not in names]:
            raise OdeTransformerError(f"{unknown[0]}: is no flag of a search, must be one of {', '.join(names)}")
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    def flag(self, name: str) -> str:
        """Return an option with its value, as on a command line."""
        value = getattr(self, name)
        return as_option(name) if value is True else f"{as_option(name)} {value}"

    def given(self) -> dict[str, Any]:
        """Return the options whose values differ from fairseq's defaults."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}

    def most(self, source: int, longest: int) -> int:
        """Return the maximum length of a translation, without the end of sentence, for the length of the longest source
        of the batch, and of the longest target that the model can read, both with it."""
        most = min(int(self.max_len_a * source + self.max_len_b), longest - 1)
        if most < self.min_len:
            names = ", ".join(map(self.flag, ("max_len_a", "max_len_b", "min_len")))
            raise OdeTransformerError(f"{names}: the longest translation would have {most} units")
        return most

    def __str__(self) -> str:
        shown = {"beam": self.beam, "lenpen": self.lenpen, **self.given()}
        return ", ".join(f"{name} {value}" for name, value in shown.items())


class Backend:
    """A model that translates and scores sentences: lists of symbols, without the end of sentence."""

    name: str  # the file or folder of the model, for messages
    about: list[str]  # the lines of a description of the model
    device: Any
    languages: tuple[str, str]
    symbols: tuple[Sequence[str], Sequence[str]]  # the source and target vocabulary, in the order of their indices
    longest: dict[str, int]  # the maximum lengths of a source and of a target, including the end of sentence
    options: Collection[str] = [field.name for field in fields(Search)]  # of a search; others must have their defaults

    @property
    def finite(self) -> dict[str, int]:
        """The maximum lengths, as in ``longest``, with which attention is finite."""
        return self.longest

    def check(self, search: Search) -> None:
        """Check that the model supports a search."""
        if lacking := [name for name in search.given() if name not in self.options]:
            raise OdeTransformerError(
                f"{self.name}: cannot search with {search.flag(lacking[0])}, only with "
                f"{', '.join(map(as_option, self.options))}; translate with its run or bundle"
            )

    def translate(self, sentences: Sequence[Sequence[str]], search: Search) -> list[list[Found]]:
        """Return the ``nbest`` best translations of each sentence of a batch, the best first."""
        self.check(search)
        if not sentences:
            return []
        source, longest = max(map(len, sentences)) + 1, self.finite["source"]
        if source > longest:
            raise OdeTransformerError(
                f"a sentence of {source} subword units, its end included: must have {longest} at most"
            )
        return self._translate(sentences, search, search.most(source, self.finite["target"]))

    def _translate(self, sentences: Sequence[Sequence[str]], search: Search, most: int) -> list[list[Found]]:
        """Implement :meth:`translate`; ``most`` is the maximum length of a translation, without the end of sentence."""
        raise NotImplementedError

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the log-probabilities of the symbols of each target, and of the end of sentence as the last."""
        raise NotImplementedError

    def half(self) -> None:
        """Translate in fp16 from now on."""
        raise OdeTransformerError(f"--fp16: {self.name} is an exported model, whose precision was fixed by the export")

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "Backend":
        """As :meth:`.Translator.with_integrator`."""
        raise OdeTransformerError(f"{self.name}: is an exported model, whose layers are fixed; load its run or bundle")

    def layer_states(self, source: Sequence[str], target: Sequence[str]) -> LayerStates:
        """As :meth:`.Translator.layer_states`, for the symbols of a sentence and those of its translation."""
        return self.with_integrator()
