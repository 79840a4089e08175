"""Recipes: YAML files that say how a number is made.

A recipe names its task, data, training, averaging, evaluation and the numbers that the paper prints. A file holds one
recipe or, with ``rows``, one per row, as a table of a paper does: each row is what the file says and, key by key, what
the row says besides. ``extends``, in a file or a row, names one or more files to start from, relative to the file or
among this package's recipes; what is said later wins, and replaces a mapping of ``ALTERNATIVES`` as a whole. Files
whose name begins with an underscore are only extended by others and are not recipes. ``small`` gives the settings of
the recipe's rehearsal, in addition to those of all rehearsals of its task. ``quoted`` lists rows of the paper's tables
that it took from others. ``user_dir`` is the folder of a plugin, relative to the file or to the top of the repository.
``search`` is the space from which the settings of a row were chosen.

The schema is the dataclasses below; :mod:`.runner` makes the steps of a recipe.

A recipe is code, like a Makefile: ``data.prepare`` is a command, flags name files to read and folders to write, and
``scripts/reproduce.sh`` runs them all. Read a stranger's before you run it. Listing and checking recipes runs
nothing; showing one runs nothing but a script of ours with ``--dry-run``, which says what it would download.

Imports neither torch nor fairseq.
"""

import argparse
import difflib
import math
import os
import re
import shlex
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Optional

from ... import plugins
from ...errors import OdeTransformerError
from ...paths import ROOT, SHARE
from . import plain_yaml

CONFIGS = SHARE / "configs"
PRECISIONS = ("fp32", "fp16", "bf16", "amp")
SCALES = ("full", "small")
MOST_BATCHES = 100_000  # of an update
LONGEST_CHAIN = 8  # of recipes that start from each other, and of files that extend each other
MOST_FILES = 1000  # that a recipe is read from
OWN_FLAGS = {
    "update-freq": "train.batches and --devices",
    "distributed-world-size": "--devices",
    "save-dir": "--run-dir",
}
"""Flags of ``fairseq-train`` that a run sets itself, and what sets their values."""
ALTERNATIVES = ("average",)  # mappings of which one key is said, so that another cannot be added to it


class RecipeError(OdeTransformerError):
    """A recipe that cannot be followed; the message names the file, the key, the value and the valid set."""


@dataclass(frozen=True)
class Data:
    """Where the binarized data are and what makes them."""

    prepare: str  # the command, from the top of the repository
    directory: str
    source: str = ""  # languages, of translation
    target: str = ""


@dataclass(frozen=True)
class Start:
    """The checkpoint of another recipe from which training starts, with a fresh optimizer and counters at zero."""

    recipe: str  # a name; without a slash, another row of the same file
    checkpoint: str = "checkpoint_best.pt"
    warm_start: bool = True  # turned into this recipe's architecture; or it is of that one already
    approximate: bool = False  # although the result will not equal it
    other_data: bool = False  # it was trained on other data of the same dictionary, as before fine-tuning


@dataclass(frozen=True)
class Train:
    """``fairseq-train``: the architecture, the size of an update, and flags as fairseq spells them, without dashes."""

    arch: str
    batches: int  # of max-tokens in an update: devices times --update-freq
    flags: dict[str, Any] = field(default_factory=dict)
    start: Optional[Start] = None
    precision: str = "fp32"  # in which the paper trained: the default on GPUs


@dataclass(frozen=True)
class Average:
    """Which checkpoints are averaged; exactly one of the first three."""

    last_epochs: Optional[int] = None
    last_updates: Optional[int] = None
    best: Optional[int] = None
    fewer: bool = False  # average those that are there, if training left fewer

    @property
    def wanted(self) -> list[tuple[str, int]]:
        """The kinds of checkpoints that are named, and how many of each: one, in a recipe that was checked."""
        found = [(kind, getattr(self, kind)) for kind in ("last_epochs", "last_updates", "best")]
        return [(kind, count) for kind, count in found if count is not None]


@dataclass(frozen=True)
class Generate:
    """``fairseq-generate``: the subsets, each with the name of its test set, and flags."""

    subsets: dict[str, str]
    beam: int
    lenpen: float
    flags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Validate:
    """The evaluation of tasks without decoding: the subsets, each with the name of its test set, and flags of the
    command."""

    subsets: dict[str, str]
    flags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """How generated text is scored."""

    lowercase: bool = False  # of sacreBLEU
    compound_split: bool = False
    join_hyphens: bool = False  # for text that was tokenized with --aggressive
    plain: bool = False  # for text that was not tokenized
    lead: int = 0  # of summaries: so many first sentences of the source are scored beside them
    references: int = 0  # of corrections: how many people corrected a sentence
    edits: list[str] = field(default_factory=list)  # of corrections: subsets that have people's edits instead
    metrics: list[str] = field(default_factory=list)  # further ones, such as ter or comet


@dataclass(frozen=True)
class Paper:
    """A row of a paper's table, as printed: for each test set the value of a metric by the metric's name."""

    table: str
    row: str
    scores: dict[str, dict[str, float]]
    parameters: str = ""
    updates: str = ""


@dataclass(frozen=True)
class Search:
    """A search space: ``ode-transformer grid`` trains at every point with every seed."""

    values: dict[str, list[Any]]  # of flags of fairseq-train, without dashes
    seeds: list[int] = field(default_factory=list)  # if there are none, the recipe's

    @property
    def trainings(self) -> int:
        """How many trainings the search takes."""
        return math.prod(map(len, (*self.values.values(), self.seeds)))


@dataclass(frozen=True)
class Recipe:
    """How a number is made."""

    name: str
    description: str
    data: Data
    train: Train
    average: Average
    task: str = "translation"
    generate: Optional[Generate] = None  # of translation
    validate: Optional[Validate] = None  # of all other tasks
    score: Score = Score()
    paper: list[Paper] = field(default_factory=list)
    hardware: str = ""  # what the paper used
    devices: Optional[int] = None  # on how many GPUs the paper trained, where they fit the batches of an update
    note: str = ""  # what the paper leaves open and what we chose
    seeds: list[int] = field(
        default_factory=list
    )  # of a run without --seeds; if empty, it is one run with the seed of the flags
    search: Optional[Search] = None  # from which the settings of train were chosen
    given: str = ""  # the argument that loads it: its name, or the path of a file elsewhere
    user_dir: str = ""  # the folder of a plugin, from the top of the repository
    added_to: str = ""  # what a row of a file elsewhere has from a row of its name in a file that this one extends
    scale: str = "full"
    seed: Optional[int] = None  # of this run, instead of the flags'

    @property
    def subsets(self) -> dict[str, str]:
        """What is evaluated: the test set that each subset of the data is."""
        return (self.generate or self.validate).subsets

    @property
    def own_seed(self) -> int:
        """The default seed of training."""
        return self.train.flags.get("seed", 1)

    @property
    def trained_seed(self) -> int:
        """The seed of this run."""
        return self.own_seed if self.seed is None else self.seed

    @property
    def start_seed(self) -> Optional[int]:
        """The seed of the run that this one starts from: its own, or None, one pretraining for all of its seeds."""
        return None if self.train.start is not None and self.train.start.other_data else self.seed


def groups() -> list[str]:
    """The names of the files of recipes, e.g. ``multi30k-short``."""
    paths = sorted(p for p in CONFIGS.rglob("*.yaml") if not p.name.startswith("_"))
    return [p.relative_to(CONFIGS).with_suffix("").as_posix() for p in paths]


def group(name: str) -> dict[str, Any]:
    """What a file of recipes holds, with what it extends: one of ``groups``, or ``FILE.yaml``."""
    return _read(Path(name).resolve() if name.endswith(".yaml") else CONFIGS / f"{name}.yaml")


def names(files: Sequence[str] = ()) -> list[str]:
    """The names of all recipes, e.g. ``multi30k-short/macaron-tiny``, or of those in files elsewhere, as ``load`` takes
    them.

    Raises:
        RecipeError: a file cannot be read.
    """
    found = {name: group(name).get("rows", [""]) for name in files or groups()}
    return [f"{name}/{row}" if row else name for name, rows in found.items() for row in rows]


def listed(prefix: str = "", *, paper: bool = False) -> dict[str, str]:
    """The names of all recipes that begin with ``prefix``, and their descriptions.

    Args:
        prefix: the beginning of a name, such as ``ode/wmt14-en-de``.
        paper: only those that reproduce a row of a paper.

    Raises:
        RecipeError: no name begins like this.
    """
    found = {}
    for name in groups():
        tree = group(name)
        for row, own in tree.get("rows", {"": {}}).items():
            title = f"{name}/{row}" if row else name
            if title.startswith(prefix) and (not paper or own.get("paper") or tree.get("paper")):
                found[title] = _described(own, tree)
    if not found:
        near = difflib.get_close_matches(prefix, groups(), 5, 0.4)
        raise RecipeError(f"no recipe begins with {prefix!r}; there are {', '.join(near or groups())}")
    return found


def _described(row: Mapping, tree: Mapping) -> str:
    """The description of a row and that of its file; empty if one is not a string, which another check names."""
    parts = [part["description"] for part in (row, tree) if "description" in part]
    return ": ".join(parts) if all(isinstance(part, str) for part in parts) else ""


def quoted(name: str) -> list[Paper]:
    """The rows of a group that the paper took from others."""
    return _build(list[Paper], group(name).get("quoted", []), name, "quoted")


def load(name: str, *, scale: str = "full", seed: Optional[int] = None, _before: tuple[str, ...] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        name: its name below ``CONFIGS``, or the path of a YAML file, ``FILE.yaml`` or ``FILE.yaml/ROW``.
        scale: ``full``, or ``small``, a rehearsal: the row's own layers, narrow, on Multi30k, for few updates.
        seed: a seed other than the recipe's.

    Raises:
        RecipeError: no such recipe, an unknown or missing key, a value of the wrong type, a contradiction.
    """
    if scale not in SCALES:
        raise RecipeError(f"--scale {scale}: must be one of {', '.join(SCALES)}")
    try:
        return _load(name, scale, seed, _before)
    except RecipeError as error:
        if plugin := plugins.missing(user_dir(name)):
            raise RecipeError(f"{error} (it needs the plugin {plugin}: give --user-dir, its folder)") from error
        raise


def user_dir(name: str) -> str:
    """The folder of the plugin that a recipe names, from the top of the repository if it lies there; empty if it names
    none. What the recipe asks for may be the plugin's, so that nothing else is checked.

    Raises:
        RecipeError: no such recipe.
    """
    path, _, row = _find(name)
    tree = _read(path)
    found = {**tree, **tree.get("rows", {}).get(row, {})}.get("user_dir")
    return found if isinstance(found, str) else ""


def _load(name: str, scale: str, seed: Optional[int], _before: tuple[str, ...]) -> Recipe:
    from ..tasks import TASKS

    path, title, row = _find(name)
    tree = _read(path)
    rows = tree.pop("rows", {"": {}})
    tree.pop("quoted", None)
    if row not in rows:
        which = f"no row {row!r}; there are" if row else f"name one of its rows, as {name.rstrip('/')}/ROW"
        raise RecipeError(f"{path}: {which}: {', '.join(rows)}")
    described = _described(rows[row], tree)
    tree = _merge(tree, rows[row] | ({"description": described} if described else {}))
    if tree.get("task", "translation") not in tuple(TASKS):  # by which _small chooses a file
        raise RecipeError(f"{path}: task {tree['task']!r}: must be one of {', '.join(TASKS)}")
    own = tree.pop("small", {})
    if not isinstance(own, dict):
        raise RecipeError(f"{path}: small must be a mapping, got {own!r}")
    if scale == "small":
        tree = _merge(_small(tree, path), own)
    elsewhere = not path.is_relative_to(CONFIGS)
    given = f"{path}/{row}".rstrip("/") if elsewhere else title
    tree["user_dir"] = tree.get("user_dir") or plugins.current()
    tree |= {"given": given, "scale": scale, "seed": seed, "added_to": _added_to(path, row) if elsewhere else ""}
    recipe = _build(Recipe, {"name": title, **tree}, str(path), "")
    if recipe.train.start and "/" not in recipe.train.start.recipe:
        start = replace(recipe.train.start, recipe=f"{given.rpartition('/')[0]}/{recipe.train.start.recipe}")
        recipe = replace(recipe, train=replace(recipe.train, start=start))
    _check(recipe, str(path), (*_before, given))
    return replace(recipe, seed=None) if seed == recipe.own_seed else recipe


def _added_to(path: Path, row: str) -> str:
    """What a row has from the row of that name in a file that its file extends; empty if it has nothing."""
    tree = plain_yaml.read(path)
    if row not in tree.get("rows", {}):
        return ""
    theirs = _extended({"extends": tree.get("extends", [])}, path, (), []).get("rows", {}).get(row, {})
    own = _leaves(_extended(tree["rows"][row], path, (), []))
    rest = {key: value for key, value in _leaves(theirs).items() if key not in own}
    found = [key if isinstance(value, list) else f"{key} {value}" for key, value in rest.items()]
    if not found:
        return ""
    return (
        f"{path}: row {row} is added to the row of that name that the file extends, and has from it {', '.join(found)}"
    )


def _leaves(tree: Mapping, prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by their keys, joined by points."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def is_there(name: str) -> bool:
    """Whether there is a file for a recipe of this name."""
    try:
        _find(name)
    except RecipeError:
        return False
    return True


def _find(name: str) -> tuple[Path, str, str]:
    """The file of a recipe, the recipe's name, and its row of the file, or an empty string."""
    if found := re.fullmatch(r"(.+?\.yaml)(?:/([^/]*)/?)?", name):
        path, row = Path(found[1]).resolve(), found[2] or ""
        stem = path.relative_to(CONFIGS).with_suffix("").as_posix() if path.is_relative_to(CONFIGS) else path.stem
        if path.is_file() and not path.name.startswith("_"):
            return path, f"{stem}/{row}" if row else stem, row
        if not path.is_file():
            raise RecipeError(f"{path}: no such file")
    group, _, last = name.rpartition("/")
    if "\0" in name or {"", ".", ".."} & set(name.split("/")):
        raise RecipeError(f"recipe {name!r}: must be a name below {CONFIGS.name}/ or a file that ends in .yaml")
    for path, row in ((CONFIGS / f"{name}.yaml", ""), (CONFIGS / f"{group}.yaml", last)):
        if path.is_file() and not path.name.startswith("_"):
            return path, name, row
    there = names()
    near = [other for other in there if other.startswith(name)] or difflib.get_close_matches(name, there, 5, 0.4)
    nearest = f"; the nearest are: {', '.join(near)}" if near else ""
    raise RecipeError(
        f"no recipe {name!r} in {CONFIGS.name}/{nearest}. `ode-transformer recipe list` prints all; a recipe of your "
        "own is named by its file, FILE.yaml or FILE.yaml/ROW"
    )


def _check(recipe: Recipe, path: str, before: tuple[str, ...]) -> None:
    _check_evaluation(recipe, path)
    _check_files(recipe, path)
    _check_train(recipe, path)
    _check_average(recipe.average, path)
    _check_score(recipe, path)
    if recipe.search:
        _check_search(recipe, path)
    if recipe.train.start:
        _check_start(recipe, recipe.train.start, path, before)
    if recipe.scale == "full":
        _check_paper(recipe, path)


def _must(path: str, option: str, value: Any, valid: Any) -> None:
    if value not in valid:
        raise RecipeError(f"{path}: {option} {value!r}: must be one of {', '.join(map(str, valid))}")


def _check_files(recipe: Recipe, path: str) -> None:
    """The command that prepares the data, and what files are called after."""
    named = {"name": recipe.name.split("/"), "subsets": [*recipe.subsets, *recipe.subsets.values()]}
    named |= {"train.start.checkpoint": [recipe.train.start.checkpoint]} if recipe.train.start else {}
    for key, found in named.items():
        for part in found:
            if not isinstance(part, str) or not re.fullmatch(r"\w[\w .,=+-]*", part):
                raise RecipeError(f"{path}: {key} {part!r}: must be letters, digits and .,=+-_, and no folders")
    try:
        if not (words := shlex.split(recipe.data.prepare)):
            raise ValueError("it is empty")
    except ValueError as error:
        raise RecipeError(f"{path}: data.prepare {recipe.data.prepare!r}: no command: {error}") from error
    if literal := [word for word in (*words, recipe.data.directory) if word.startswith("~")]:
        raise RecipeError(f"{path}: data: {literal[0]}: no shell reads the ~ here; write the name of the folder out")


def _check_evaluation(recipe: Recipe, path: str) -> None:
    from ..tasks import TASKS

    for section in ("generate", "validate"):
        wanted = section == TASKS[recipe.task].section
        if wanted != (getattr(recipe, section) is not None):
            is_ = "is missing" if wanted else f"is of another task than {recipe.task}"
            raise RecipeError(f"{path}: {section} {is_}")
    if recipe.generate:
        for key in ("source", "target"):
            if not getattr(recipe.data, key):
                raise RecipeError(f"{path}: data.{key} is missing")
    if len(set(recipe.subsets.values())) < len(recipe.subsets):
        raise RecipeError(f"{path}: subsets: must have different names, got {', '.join(recipe.subsets.values())}")


def _check_train(recipe: Recipe, path: str) -> None:
    train = recipe.train
    _must(path, "train.precision", train.precision, PRECISIONS)
    if not 1 <= train.batches <= MOST_BATCHES:
        raise RecipeError(f"{path}: train.batches must be at least 1 and at most {MOST_BATCHES}, got {train.batches}")
    for flag, instead in OWN_FLAGS.items():
        if flag in train.flags:
            raise RecipeError(f"{path}: train.flags.{flag}: is set by {instead}")
    for flag in ("batch-size", "max-tokens", "max-update"):
        if type(value := train.flags.get(flag)) not in (int, type(None)):
            raise RecipeError(f"{path}: train.flags.{flag} {value!r}: must be a whole number, without quotation marks")
    if recipe.devices is not None and recipe.scale == "full":
        _must(path, "devices", recipe.devices, divisors(recipe))


def _check_average(average: Average, path: str) -> None:
    if len(average.wanted) != 1 or average.wanted[0][1] < 1:
        got = ", ".join(f"{kind} {count}" for kind, count in average.wanted) or "none"
        raise RecipeError(f"{path}: average needs one of last_epochs, last_updates, best, at least 1; got {got}")


def _check_score(recipe: Recipe, path: str) -> None:
    from ..metrics import METRICS

    score = recipe.score
    if score.plain and (score.compound_split or score.join_hyphens):
        raise RecipeError(f"{path}: score.plain: excludes compound_split and join_hyphens, which need tokenized text")
    if score.compound_split and recipe.data.target != "de":
        raise RecipeError(f"{path}: score.compound_split is for German targets, got target {recipe.data.target!r}")
    for metric in score.metrics:
        _must(path, "score.metrics", metric, METRICS)


def _check_start(recipe: Recipe, start: Start, path: str, before: tuple[str, ...]) -> None:
    if start.recipe in before:
        circle = " -> ".join((*before, start.recipe))
        raise RecipeError(f"{path}: train.start: recipes must not start from each other in a circle: {circle}")
    if len(before) > LONGEST_CHAIN:
        raise RecipeError(f"{path}: train.start: a chain of more than {LONGEST_CHAIN} recipes, {' -> '.join(before)}")
    other = load(start.recipe, scale=recipe.scale, seed=recipe.start_seed, _before=before)
    if other.data != recipe.data and not start.other_data:
        raise RecipeError(f"{path}: train.start.recipe {start.recipe!r} uses other data")


def _check_paper(recipe: Recipe, path: str) -> None:
    from ..metrics import METRICS

    for paper in recipe.paper:
        for test_set, scores in paper.scores.items():
            if test_set not in recipe.subsets.values():
                raise RecipeError(f"{path}: paper.scores {test_set!r}: none of {list(recipe.subsets.values())}")
            for metric in scores:
                _must(path, "paper.scores", metric, METRICS)


def _check_search(recipe: Recipe, path: str) -> None:
    if recipe.task != "glue":
        raise RecipeError(f"{path}: search: is for the task glue, got {recipe.task}")
    if not recipe.search.values:
        raise RecipeError(f"{path}: search.values: must name one flag or more with its values")
    for flag, values in recipe.search.values.items():
        said = f"{path}: search.values"
        if not re.fullmatch(r"[a-z][a-z0-9-]*", str(flag)):
            raise RecipeError(f"{said} {flag!r}: must be a flag of fairseq-train, without dashes before it")
        if not values or len(set(map(str, values))) < len(values) or {type(v) for v in values} - {int, float, str}:
            raise RecipeError(f"{said}.{flag} {values!r}: must be different numbers or words, at least one")
    if len(set(recipe.search.seeds)) < len(recipe.search.seeds):
        raise RecipeError(f"{path}: search.seeds {recipe.search.seeds!r}: must be different numbers")


def _small(tree: dict, path: Path) -> dict:
    """The rehearsal of a recipe, as the file ``_small-TASK.yaml`` describes it, or ``_small.yaml`` for translation."""
    task = tree.get("task", "translation")
    if task != "translation":
        return _merge(tree, _read(CONFIGS / f"_small-{task}.yaml"))
    small = _read(CONFIGS / "_small.yaml")
    data = tree.get("data", {})
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: data must be a mapping, got {data!r}")
    pair = f"{data.get('source', '')}-{data.get('target', '')}"
    pairs = small.pop("pairs")
    tree = _merge(tree, {"data": pairs.get(pair, pairs["any"])})
    if tree["data"]["target"] != "de":
        tree = _merge(tree, {"score": {"compound_split": False}})
    return _merge(tree, small)


def _read(path: Path, seen: tuple[Path, ...] = (), files: Optional[list[Path]] = None) -> dict:
    files = [] if files is None else files
    files.append(path)
    if path in seen:
        raise RecipeError(f"{path}: extends itself through {' -> '.join(map(str, seen))}")
    if len(seen) > LONGEST_CHAIN or len(files) > MOST_FILES:
        raise RecipeError(f"{path}: too many files extend each other: {' -> '.join(map(str, seen))}")
    try:
        tree = plain_yaml.read(path)
    except plain_yaml.YamlError as error:
        raise RecipeError(str(error)) from error
    if not isinstance(tree, dict):
        raise RecipeError(f"{path}: must be a mapping, got {type(tree).__name__}")
    rows = tree.get("rows", {})
    if not isinstance(rows, dict) or not all(isinstance(k, str) and isinstance(v, dict) for k, v in rows.items()):
        raise RecipeError(f"{path}: rows must be a mapping of mappings")
    for row, values in rows.items():
        tree["rows"][row] = _extended(values, path, seen, files)
    return _extended(tree, path, seen, files)


def _extended(tree: dict, path: Path, seen: tuple[Path, ...], files: list[Path]) -> dict:
    bases = tree.get("extends", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) and "\0" not in base for base in bases):
        raise RecipeError(f"{path}: extends must be a file or a list of files, got {bases!r}")
    merged: dict = {}
    for base in bases:
        candidates = [(folder / base).resolve() for folder in (path.parent, CONFIGS)]
        file = next(filter(os.path.isfile, candidates), None)  # unlike the method, false for names that are too long
        if file is None:
            raise RecipeError(f"{path}: extends {base!r}: there is neither {' nor '.join(map(str, candidates))}")
        merged = _merge(merged, _read(file, (*seen, path), files))
    own = {key: value for key, value in tree.items() if key != "extends"}
    if isinstance(own.get("user_dir"), str):
        beside = (path.parent / own["user_dir"]).resolve()
        folder = beside if beside.is_dir() else (ROOT / own["user_dir"]).resolve()
        own["user_dir"] = str(folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder)
    return _merge(merged, own)


def _merge(old: Mapping, new: Mapping) -> dict:
    def merged(key: str, value: Any) -> Any:
        both = isinstance(value, dict) and isinstance(old.get(key), dict) and key not in ALTERNATIVES
        return _merge(old[key], value) if both else value

    return {**old, **{key: merged(key, value) for key, value in new.items()}}


def _build(type_: Any, value: Any, path: str, key: str) -> Any:
    """Make ``type_`` of what YAML holds, checking every key and type on the way."""
    if type_ is Any:
        return value
    options = [t for t in typing.get_args(type_) if t is not type(None)]
    if typing.get_origin(type_) is typing.Union:
        return None if value is None else _build(options[0], value, path, key)
    if is_dataclass(type_):
        if not isinstance(value, dict):
            raise RecipeError(f"{path}: {key} must be a mapping, got {value!r}")
        known = {f.name: f for f in fields(type_)}
        prefix = f"{key}." if key else ""
        for k in value:
            if k not in known:
                raise RecipeError(f"{path}: unknown key {prefix}{k}; known: {', '.join(known)}")
        for k, f in known.items():
            if k not in value and f.default is MISSING and f.default_factory is MISSING:
                raise RecipeError(f"{path}: {prefix}{k} is missing")
        return type_(**{k: _build(known[k].type, v, path, prefix + k) for k, v in value.items()})
    expected = typing.get_origin(type_) or type_
    if expected is dict and isinstance(value, dict):
        return {k: _build(options[1], v, path, f"{key}.{k}") for k, v in value.items()}
    if expected is list and isinstance(value, list):
        return [_build(options[0], item, path, f"{key}[{i}]") for i, item in enumerate(value)]
    if value is None and expected is list:
        return []
    if expected is float and type(value) is int:
        value = float(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise RecipeError(f"{path}: {key} must be {expected.__name__}, got {value!r}")
    return value


def divisors(recipe: Recipe) -> list[int]:
    """The numbers of devices that the batches of an update can be dealt to evenly."""
    return [n for n in range(1, recipe.train.batches + 1) if recipe.train.batches % n == 0]


def default_run_dir(recipe: Recipe) -> str:
    """The default folder of a recipe's run, from the top of the repository."""
    scale = "" if recipe.scale == "full" else f"{recipe.scale}/"
    return f"runs/{scale}{recipe.name}" + (f".seed-{recipe.seed}" if recipe.seed is not None else "")


def variant(recipe: Recipe) -> list[str]:
    """The options of commands that say which run of a recipe is meant."""
    scale = ["--scale", recipe.scale] if recipe.scale != "full" else []
    seed = variant_seed(recipe)
    return scale + (["--seed", str(seed)] if seed is not None else [])


def variant_seed(recipe: Recipe) -> Optional[int]:
    """The seed that says which run of a recipe is meant; None where no other is."""
    return recipe.own_seed if recipe.seed is None and recipe.seeds else recipe.seed  # one of its several


def add_variant(parser: argparse.ArgumentParser) -> None:
    """The flags that say which run of a recipe is meant."""
    parser.add_argument("--scale", type=str.lower, choices=SCALES, default="full", help="small: a rehearsal")
    parser.add_argument("--seed", metavar="N", type=int, help="seed of training (default: the recipe's)")
