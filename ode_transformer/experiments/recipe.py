"""The form of a recipe: dataclasses, and a function that builds them from a mapping and checks every key and type."""

import math
import re
import typing
import unicodedata
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Optional

from ..errors import OdeTransformerError
from ..schema import NAMES

PRECISIONS = ("fp32", "fp16", "bf16", "amp")
SCALES = ("full", "small")
SET = {"set": True}  # of fields that are no keys of a file


class RecipeError(OdeTransformerError):
    """A recipe that cannot be followed; the message names the file, the key, the value and the valid set."""


def is_name(text: str) -> bool:
    """Whether a text is valid in names of files: letters, combining characters, digits, _ and, but first, blanks
    and .,=+-.

    It has at most 200 bytes, which leaves room for extensions.
    """
    base = "".join(c for c in text if unicodedata.category(c)[0] != "M")
    return bool(re.fullmatch(r"\w[\w .,=+-]*", base)) and len(text.encode()) <= 200


@dataclass(frozen=True)
class Data:
    """The folder of binarized data, and the command that prepares them."""

    prepare: str  # run at the top of the repository
    directory: str
    source: str = ""  # the languages of tasks that generate text
    target: str = ""


@dataclass(frozen=True)
class Start:
    """The checkpoint of another recipe from which training starts, with a fresh optimizer and counters at zero."""

    recipe: str  # a name; without a slash, another row of the same file
    checkpoint: str = "checkpoint_best.pt"
    warm_start: bool = True  # converted to this recipe's architecture; false if it has that architecture already
    approximate: bool = False  # converted even if the result is not equal to it
    other_data: bool = False  # trained on other data with the same dictionary, as before fine-tuning


@dataclass(frozen=True)
class Train:
    """``fairseq-train``: the architecture, the size of an update, and flags as fairseq spells them, without dashes."""

    arch: str
    batches: int  # the number of batches in an update: devices times --update-freq
    flags: dict[str, Any] = field(default_factory=dict)
    start: Optional[Start] = None
    precision: str = "fp32"  # the paper's, and the default on GPUs


@dataclass(frozen=True)
class Average:
    """The checkpoints to average; exactly one of the first three."""

    last_epochs: Optional[int] = None
    last_updates: Optional[int] = None
    best: Optional[int] = None
    fewer: bool = False  # average all checkpoints if training left fewer

    @property
    def wanted(self) -> list[tuple[str, int]]:
        """The kinds of checkpoints that are given, each with their number; one kind in a recipe that was checked."""
        found = [(kind, getattr(self, kind)) for kind in ("last_epochs", "last_updates", "best")]
        return [(kind, count) for kind, count in found if count is not None]


@dataclass(frozen=True)
class Generate:
    """``fairseq-generate``: the name of the test set by subset, and options and flags."""

    subsets: dict[str, str]
    beam: int
    lenpen: float
    flags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Validate:
    """The evaluation of tasks without decoding: the name of the test set by subset, and flags of the command."""

    subsets: dict[str, str]
    flags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """How generated text is scored."""

    lowercase: bool = False  # in metrics of untokenized text, such as sacreBLEU
    compound_split: bool = False
    join_hyphens: bool = False  # for text that was tokenized with --aggressive
    plain: bool = False  # for text that was not tokenized
    lead: int = 0  # for summaries: the number of first sentences of the source that are scored as a baseline
    references: int = 0  # for corrections: the number of human corrections per sentence
    edits: list[str] = field(default_factory=list)  # for corrections: the subsets with human edits instead
    metrics: list[str] = field(default_factory=list)  # additional metrics, such as ter or comet


@dataclass(frozen=True)
class Paper:
    """A row of a paper's table, as printed: the scores by test set and metric."""

    table: str
    row: str
    scores: dict[str, dict[str, float]]
    parameters: str = ""
    updates: str = ""


@dataclass(frozen=True)
class SearchSpace:
    """A search space: ``ode-transformer grid`` trains at every point with every seed."""

    values: dict[str, list[Any]]  # by flag of fairseq-train, without dashes
    seeds: list[int] = field(default_factory=list)  # if empty, the recipe's

    @property
    def trainings(self) -> int:
        """The number of trainings of the search."""
        return math.prod(map(len, (*self.values.values(), self.seeds)))


@dataclass(frozen=True)
class Recipe:
    """The definition of an experiment."""

    description: str
    data: Data
    train: Train
    average: Average
    task: str = "translation"
    generate: Optional[Generate] = None  # for tasks that generate text
    validate: Optional[Validate] = None  # for other tasks
    score: Score = Score()
    paper: list[Paper] = field(default_factory=list)
    hardware: str = ""  # used by the paper
    devices: Optional[int] = None  # the paper's number of GPUs, if it divides the batches of an update
    note: str = ""  # gaps of the paper, and our choices
    seeds: list[int] = field(default_factory=list)  # without --seeds; if empty or in rehearsals, the seed of the flags
    search: Optional[SearchSpace] = None  # the space from which the settings of train were chosen
    user_dir: str = ""  # the folder of a plugin, relative to the top of the repository
    name: str = field(default="", metadata=SET)
    given: str = field(default="", metadata=SET)  # the argument of load: a name, or the path of a file elsewhere
    scale: str = field(default="full", metadata=SET)
    seed: Optional[int] = field(default=None, metadata=SET)  # of this run, instead of the flags'

    @property
    def subsets(self) -> dict[str, str]:
        """The name of the test set by subset of the data."""
        return (self.generate or self.validate).subsets

    @property
    def own_seed(self) -> int:
        """The seed of the flags, by default 1."""
        seed = self.train.flags.get("seed")
        return 1 if seed is None else seed

    @property
    def trained_seed(self) -> int:
        """The seed of this run."""
        return self.own_seed if self.seed is None else self.seed

    @property
    def start_seed(self) -> Optional[int]:
        """The seed of the run that this one starts from: the same, or None if one pretraining serves all seeds."""
        return None if self.train.start is not None and self.train.start.other_data else self.seed


def build(type_: Any, value: Any, path: str, key: str) -> Any:
    """Build an object of a dataclass, or of the type of a field of one, from the content of a YAML file.

    The path of the file, and the place in it, are for errors: an unknown or missing key, a value of another type.
    """
    if type_ is Any:
        return value
    options = [t for t in typing.get_args(type_) if t is not type(None)]
    if typing.get_origin(type_) is typing.Union:
        return None if value is None else build(options[0], value, path, key)
    if is_dataclass(type_):
        if not isinstance(value, dict):
            raise RecipeError(f"{path}: {key} must be a mapping, got {value!r}")
        known = {f.name: f for f in fields(type_) if f.metadata != SET}
        prefix = f"{key}." if key else ""
        for k in value:
            if k not in known:
                raise RecipeError(f"{path}: unknown key {prefix}{k}; known: {', '.join(known)}")
        for k, f in known.items():
            if k not in value and f.default is MISSING and f.default_factory is MISSING:
                raise RecipeError(f"{path}: {prefix}{k} is missing")
        return type_(**{k: build(known[k].type, v, path, prefix + k) for k, v in value.items()})
    expected = typing.get_origin(type_) or type_
    if expected is dict and isinstance(value, dict):
        return {k: build(options[1], v, path, f"{key}.{k}") for k, v in value.items()}
    if expected is list and isinstance(value, list):
        return [build(options[0], item, path, f"{key}[{i}]") for i, item in enumerate(value)]
    if value is None and expected is list:
        return []
    if expected is float and type(value) is int:
        value = float(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise RecipeError(f"{path}: {key} must be {NAMES[expected]}, got {value!r}")
    return value


def divisors(recipe: Recipe) -> list[int]:
    """Return the numbers of devices that can share the batches of an update evenly."""
    return [n for n in range(1, recipe.train.batches + 1) if recipe.train.batches % n == 0]


def default_run_dir(recipe: Recipe) -> str:
    """Return the default folder of a recipe's run, relative to the top of the repository."""
    scale = "" if recipe.scale == "full" else f"{recipe.scale}/"
    return f"runs/{scale}{recipe.name}" + (f".seed-{recipe.seed}" if recipe.seed is not None else "")
