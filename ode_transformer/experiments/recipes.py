"""Recipes: a YAML file that says how a number is made, and the plain commands it stands for.

A recipe names data, training, averaging, decoding, scoring and the numbers that the paper prints. A file holds one, or
with ``rows`` one a row, as a table of a paper does: each row is what the file says and, key by key, what the row says
besides. ``extends``, in a file or a row, names one or more files to start from (relative to the file); what is said
later wins. Files whose name begins with an underscore are such beginnings and no recipes. ``quoted`` lists rows of the
paper's tables that it took from others.

A recipe is code, like a Makefile: ``data.prepare`` is a command, flags name files to read and folders to write, and
``scripts/reproduce.sh`` runs them all. Read a stranger's before you run it; to list, check or show one runs nothing.

Imports neither torch nor fairseq.
"""

import argparse
import re
import shlex
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Optional

from ..errors import OdeTransformerError
from . import plain_yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
STEPS = ("prepare", "start", "train", "average", "generate", "score")
PRECISIONS = ("fp32", "fp16", "bf16", "amp")
SCALES = ("full", "small")
METRICS = ("tokenised", "compound_split", "sacrebleu")
MOST_BATCHES = 100_000  # of an update
LONGEST_CHAIN = 8  # of recipes that start from each other, and of files that extend each other
MOST_FILES = 1000  # that a recipe is read from


class RecipeError(OdeTransformerError):
    """A recipe that cannot be followed; the message names the file, the key, the value and the valid set."""


@dataclass(frozen=True)
class Data:
    """Where the binarised data lie and what makes them."""

    prepare: str  # the command, from the top of the repository
    directory: str
    source: str
    target: str


@dataclass(frozen=True)
class Start:
    """The checkpoint of another recipe that training begins from, with optimiser and counters anew."""

    recipe: str  # a name; without a slash, another row of the same file
    checkpoint: str = "checkpoint_best.pt"
    warm_start: bool = True  # turned into this recipe's architecture; or it is of that one already
    approximate: bool = False  # although the result will not equal it


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
    """Which checkpoints are averaged; exactly one of the three."""

    last_epochs: Optional[int] = None
    last_updates: Optional[int] = None
    best: Optional[int] = None


@dataclass(frozen=True)
class Generate:
    """``fairseq-generate``: subsets with the test set each of them is, and flags."""

    subsets: dict[str, str]
    beam: int
    lenpen: float
    flags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """How the score is taken."""

    lowercase: bool = False  # of sacreBLEU
    compound_split: bool = False
    join_hyphens: bool = False  # of text that was tokenised with --aggressive


@dataclass(frozen=True)
class Paper:
    """A row of a paper's table, as printed; a name of ``METRICS`` and BLEU for each test set."""

    table: str
    row: str
    scores: dict[str, dict[str, float]]
    parameters: str = ""
    updates: str = ""


@dataclass(frozen=True)
class Recipe:
    """How a number is made."""

    name: str
    description: str
    data: Data
    train: Train
    average: Average
    generate: Generate
    score: Score = Score()
    paper: list[Paper] = field(default_factory=list)
    hardware: str = ""  # what the paper used
    note: str = ""  # what the paper leaves open and what we chose
    scale: str = "full"
    seed: Optional[int] = None  # instead of the flags'


def groups() -> dict[str, dict]:
    """The files of recipes by name, e.g. ``multi30k-short``, with what they hold."""
    paths = sorted(p for p in CONFIGS.rglob("*.yaml") if not p.name.startswith("_"))
    return {p.relative_to(CONFIGS).with_suffix("").as_posix(): _read(p) for p in paths}


def names() -> list[str]:
    """The names of all recipes, e.g. ``multi30k-short/macaron-tiny``."""
    found = groups().items()
    return [f"{group}/{row}" if row else group for group, tree in found for row in tree.get("rows", [""])]


def quoted(group: str) -> list[Paper]:
    """The rows of a group that the paper took from others."""
    rows = _read(CONFIGS / f"{group}.yaml").get("quoted", [])
    return _build(list[Paper], rows, f"{group}.yaml", "quoted")


def load(name: str, *, scale: str = "full", seed: Optional[int] = None, _before: tuple[str, ...] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        name: its name below ``CONFIGS``, or the path of a YAML file, ``FILE.yaml`` or ``FILE.yaml/ROW``.
        scale: ``full``, or ``small``, a rehearsal: the row's own layers, narrow, on Multi30k, for few updates.
        seed: another than the recipe's.

    Raises:
        RecipeError: no such recipe, an unknown or missing key, a value of the wrong type, a contradiction.
    """
    if scale not in SCALES:
        raise RecipeError(f"--scale {scale}: must be one of {', '.join(SCALES)}")
    path, title, row = _find(name)
    tree = _read(path)
    rows = tree.pop("rows", {"": {}})
    tree.pop("quoted", None)
    if row not in rows:
        raise RecipeError(f"{path}: no row {row!r}; there are: {', '.join(rows)}")
    sayings = [part["description"] for part in (rows[row], tree) if "description" in part]
    said = {"description": ": ".join(sayings)} if sayings and all(isinstance(text, str) for text in sayings) else {}
    tree = _merge(tree, rows[row] | said)
    if scale == "small":
        tree = _small(tree)
    recipe = _build(Recipe, {"name": title, **tree, "scale": scale, "seed": seed}, str(path), "")
    if recipe.train.start and "/" not in recipe.train.start.recipe:
        start = replace(recipe.train.start, recipe=f"{name.rpartition('/')[0]}/{recipe.train.start.recipe}")
        recipe = replace(recipe, train=replace(recipe.train, start=start))
    _check(recipe, str(path), (*_before, name))
    return recipe


def _find(name: str) -> tuple[Path, str, str]:
    """The file of a recipe, the recipe's name, and its row of the file, or an empty string."""
    stem, suffix, row = name.partition(".yaml")
    if suffix:
        path, row = Path(stem + suffix).resolve(), row.strip("/")
        stem = path.relative_to(CONFIGS).with_suffix("").as_posix() if path.is_relative_to(CONFIGS) else path.stem
        if path.is_file() and not path.name.startswith("_"):
            return path, f"{stem}/{row}" if row else stem, row
    group, _, last = name.rpartition("/")
    if "\0" in name or {"", ".", ".."} & set(name.split("/")):
        raise RecipeError(f"recipe {name!r}: must be a name below {CONFIGS.name}/ or a file that ends in .yaml")
    for path, row in ((CONFIGS / f"{name}.yaml", ""), (CONFIGS / f"{group}.yaml", last)):
        if path.is_file() and not path.name.startswith("_"):
            return path, name, row
    there = ", ".join(names()) or f"none in {CONFIGS}, recipes need a clone of the repository"
    raise RecipeError(f"no recipe {name!r}; there are: {there}")


def _check(recipe: Recipe, path: str, before: tuple[str, ...]) -> None:
    files = {"name": recipe.name.split("/"), "generate.subsets": recipe.generate.subsets}
    files |= {"train.start.checkpoint": [recipe.train.start.checkpoint]} if recipe.train.start else {}
    for key, found in files.items():  # files are called after them
        for part in found:
            if not isinstance(part, str) or not re.fullmatch(r"\w[\w .,=+-]*", part):
                raise RecipeError(f"{path}: {key} {part!r}: must be letters, digits and .,=+-_, and no folders")
    try:
        shlex.split(recipe.data.prepare)
    except ValueError as error:
        raise RecipeError(f"{path}: data.prepare {recipe.data.prepare!r}: no command: {error}") from error
    chosen = [k for k in ("last_epochs", "last_updates", "best") if getattr(recipe.average, k) is not None]
    if len(chosen) != 1 or getattr(recipe.average, chosen[0]) < 1:
        raise RecipeError(f"{path}: average needs one of last_epochs, last_updates, best, at least 1; got {chosen}")
    if recipe.train.precision not in PRECISIONS:
        raise RecipeError(f"{path}: train.precision {recipe.train.precision!r}: must be one of {', '.join(PRECISIONS)}")
    if not 1 <= recipe.train.batches <= MOST_BATCHES:
        raise RecipeError(
            f"{path}: train.batches must be at least 1 and at most {MOST_BATCHES}, got {recipe.train.batches}"
        )
    if recipe.score.compound_split and recipe.data.target != "de":
        raise RecipeError(f"{path}: score.compound_split is for German targets, got target {recipe.data.target!r}")
    start = recipe.train.start
    if start and start.recipe in before:
        raise RecipeError(f"{path}: train.start: {' -> '.join((*before, start.recipe))}, without a beginning")
    if len(before) > LONGEST_CHAIN:
        raise RecipeError(f"{path}: train.start: a chain of more than {LONGEST_CHAIN} recipes, {' -> '.join(before)}")
    if start and load(start.recipe, scale=recipe.scale, seed=recipe.seed, _before=before).data != recipe.data:
        raise RecipeError(f"{path}: train.start.recipe {start.recipe!r} has other data")
    for paper in recipe.paper if recipe.scale == "full" else []:
        for test_set, scores in paper.scores.items():
            if test_set not in recipe.generate.subsets.values():
                raise RecipeError(
                    f"{path}: paper.scores {test_set!r}: none of {list(recipe.generate.subsets.values())}"
                )
            if unknown := [metric for metric in scores if metric not in METRICS]:
                raise RecipeError(f"{path}: paper.scores {unknown[0]!r}: must be one of {', '.join(METRICS)}")


def _small(tree: dict) -> dict:
    """The rehearsal of a recipe, as ``_small.yaml`` describes it."""
    small = _read(CONFIGS / "_small.yaml")
    data = tree.get("data", {})
    if not isinstance(data, dict):
        raise RecipeError(f"data must be a mapping, got {data!r}")
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
        merged = _merge(merged, _read((path.parent / base).resolve(), (*seen, path), files))
    return _merge(merged, {key: value for key, value in tree.items() if key != "extends"})


def _merge(old: Mapping, new: Mapping) -> dict:
    both = {k: _merge(old[k], v) if isinstance(v, dict) and isinstance(old.get(k), dict) else v for k, v in new.items()}
    return {**old, **both}


def _build(type_: Any, value: Any, path: str, key: str) -> Any:
    """Make ``type_`` of what YAML holds, checking every key and type on the way."""
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
    if expected is dict and isinstance(value, dict) and options[1] is not Any:
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
    """Where a recipe's run goes if nobody says otherwise, from the top of the repository."""
    scale = "" if recipe.scale == "full" else f"{recipe.scale}/"
    return f"runs/{scale}{recipe.name}" + (f".seed-{recipe.seed}" if recipe.seed is not None else "")


def _variant(recipe: Recipe) -> list[str]:
    """The options of the scripts that say which run of a recipe is meant."""
    scale = ["--scale", recipe.scale] if recipe.scale != "full" else []
    return scale + (["--seed", str(recipe.seed)] if recipe.seed is not None else [])


def _flags(values: Mapping[str, Any]) -> list[str]:
    out = []
    for key, value in values.items():
        if value is True:
            out.append(f"--{key}")
        elif value is not False and value is not None:
            out += [f"--{key}", str(value)]
    return out


def commands(
    recipe: Recipe, step: str, *, run_dir: str = "", devices: int = 1, precision: str = "fp32"
) -> list[list[str]]:
    """The plain commands of one step, to be run from the top of the repository.

    Args:
        recipe: what to do.
        step: one of ``STEPS``.
        run_dir: where checkpoints, translations and scores go; by default ``default_run_dir``.
        devices: the number of devices that train together; the update frequency follows from it.
        precision: one of ``PRECISIONS``.

    Raises:
        RecipeError: unknown step or precision; a number of devices that does not divide the recipe's.
    """
    run_dir = run_dir or default_run_dir(recipe)
    average = f"{run_dir}/average.pt"
    if step not in STEPS:
        raise RecipeError(f"step {step!r}: must be one of {', '.join(STEPS)}")
    if step == "prepare":
        return [shlex.split(recipe.data.prepare)]
    if step == "start":
        return _start_commands(recipe, run_dir)
    if step == "train":
        return [_train_command(recipe, run_dir, devices, precision)]
    if step == "average":
        ((key, count),) = [(k, v) for k, v in vars(recipe.average).items() if v is not None]
        which = [f"--{key.replace('_', '-')}", str(count)]
        return [["python", "-m", "ode_transformer", "average", run_dir, *which, "--output", average]]
    if step == "generate":
        return [
            [
                *("fairseq-generate", *_data(recipe), "--gen-subset", subset, "--path", average),
                *("--beam", str(recipe.generate.beam), "--lenpen", str(recipe.generate.lenpen)),
                # With its default of 8, fairseq leaves out up to seven sentences at the end (fairseq issue 5036).
                *("--required-batch-size-multiple", "1"),
                *_flags(recipe.generate.flags),
                *("--results-path", f"{run_dir}/generate"),
            ]
            for subset in recipe.generate.subsets
        ]
    return [
        [
            *("scripts/score.sh", "--generate-output", f"{run_dir}/generate/generate-{subset}.txt"),
            *("--target-lang", recipe.data.target),
            *(["--lowercase"] if recipe.score.lowercase else []),
            *(["--compound-split"] if recipe.score.compound_split else []),
            *(["--join-hyphens"] if recipe.score.join_hyphens else []),
            *_reference("--ref", recipe, "tok", subset),
            *_reference("--reference", recipe, "raw", subset),
        ]
        for subset in recipe.generate.subsets
    ]


def _start_commands(recipe: Recipe, run_dir: str) -> list[list[str]]:
    start = recipe.train.start
    if start is None:
        return []
    train = ["scripts/train.sh", start.recipe, *_variant(recipe)]
    if not start.warm_start:
        return [train]
    source, output = _start_files(recipe, run_dir)
    warm_start = ["python", "-m", "ode_transformer", "warm-start", source, "--arch", recipe.train.arch]
    warm_start += ["--approximate"] if start.approximate else []
    flags = _flags(recipe.train.flags)
    return [train, [*warm_start, "--output", output, "--data", recipe.data.directory, "--", *flags]]


def _start_files(recipe: Recipe, run_dir: str) -> tuple[str, str]:
    """The checkpoint of the other recipe, and the one that training begins from."""
    start = recipe.train.start
    other = load(start.recipe, scale=recipe.scale, seed=recipe.seed)
    source = f"{default_run_dir(other)}/{start.checkpoint}"
    return source, f"{run_dir}/start.pt" if start.warm_start else source


def _train_command(recipe: Recipe, run_dir: str, devices: int, precision: str) -> list[str]:
    if precision not in PRECISIONS:
        raise RecipeError(f"precision {precision!r}: must be one of {', '.join(PRECISIONS)}")
    if devices not in divisors(recipe):
        raise RecipeError(
            f"{recipe.name}: {devices} devices do not divide the {recipe.train.batches} batches of an update; "
            f"take one of {divisors(recipe)}"
        )
    if precision == "bf16" and recipe.train.arch.startswith("transformer"):
        raise RecipeError(f"bf16: with --arch {recipe.train.arch} fairseq takes it for a TPU; take fp16 or amp")
    return [
        *("fairseq-train", *_data(recipe), "--arch", recipe.train.arch),
        *_flags({**recipe.train.flags, **({} if recipe.seed is None else {"seed": recipe.seed})}),
        *(["--finetune-from-model", _start_files(recipe, run_dir)[1]] if recipe.train.start else []),
        *("--distributed-world-size", str(devices), "--update-freq", str(recipe.train.batches // devices)),
        *("--save-dir", run_dir),
        # Batches anew for each epoch: else they depend on the epoch that the process began with, and a run that was
        # stopped learns from others than one that was not.
        *("--update-epoch-batch-itr", "True"),
        *("--log-format", "json", "--log-interval", "50", "--no-progress-bar"),
        *([f"--{precision}"] if precision != "fp32" else []),
    ]


def _data(recipe: Recipe) -> list[str]:
    data = recipe.data
    languages = ["--source-lang", data.source, "--target-lang", data.target]
    return [data.directory, "--user-dir", "ode_transformer", "--task", "translation", *languages]


def _reference(option: str, recipe: Recipe, kind: str, subset: str) -> list[str]:
    # Left beside the binarised data by its preparation: fairseq's own references have <<unk>> for unknown words.
    path = f"{recipe.data.directory}/{kind}/{subset}.{recipe.data.target}"
    return [option, path] if (ROOT / path).is_file() else []


def show(recipe: Recipe, **options: Any) -> str:
    """The recipe as a person reads it: what it is, the paper's number, and the commands of every step."""
    lines = [f"# {recipe.name}: {recipe.description}"]
    if recipe.scale == "small":
        lines.append(
            "# A rehearsal on little text, of the same architecture and depth but narrow: no result of the paper."
        )
    else:
        lines += _about(recipe)
    for step in STEPS:
        if found := commands(recipe, step, **options):
            lines += [f"\n# {step}", *map(shlex.join, found)]
    return "\n".join(lines)


def _about(recipe: Recipe) -> list[str]:
    """The paper's numbers and hardware, the size of an update, and what we chose."""
    lines = []
    for paper in recipe.paper:
        scores = [f"{bleu} {metric} on {t}" for t, found in paper.scores.items() for metric, bleu in found.items()]
        details = [
            paper.parameters and f"{paper.parameters} parameters",
            paper.updates and f"trained for {paper.updates}",
        ]
        lines.append(f"# paper: {', '.join(filter(None, [*scores, *details]))} ({paper.table}, {paper.row})")
    if recipe.hardware:
        lines.append(f"# hardware: {recipe.hardware}")
    if tokens := recipe.train.flags.get("max-tokens"):
        lines.append(f"# an update: {recipe.train.batches} batches of up to {tokens:,} tokens")
    return lines + [f"# note: {line}" for line in recipe.note.splitlines()]


def add_variant(parser: argparse.ArgumentParser) -> None:
    """The flags that say which run of a recipe is meant."""
    parser.add_argument("--scale", type=str.lower, choices=SCALES, default="full", help="small: a rehearsal")
    parser.add_argument("--seed", type=int, help="another than the recipe's")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer recipe``."""
    actions = parser.add_subparsers(dest="action", required=True)
    listed = actions.add_parser("list", help="print the names of all recipes")
    listed.add_argument("--paper", action="store_true", help="of those that reproduce a row of a paper")
    actions.add_parser("check", help="read every recipe; the exit status says whether all are sound")
    shown = actions.add_parser("show", help="print what a recipe is and the commands of its steps")
    shown.add_argument("name")
    command = actions.add_parser("command", help="print the commands of one step, one a line")
    command.add_argument("name")
    command.add_argument("step", choices=STEPS)
    devices = actions.add_parser("devices", help="print how many of N devices a recipe can use")
    devices.add_argument("name")
    devices.add_argument("available", type=int, metavar="N")
    run_dir = actions.add_parser("run-dir", help="print where a recipe's run goes by default")
    run_dir.add_argument("name")
    for sub in (shown, command, devices, run_dir):
        add_variant(sub)
    for sub in (shown, command):
        sub.add_argument("--run-dir", default="", help="where the run's files go (default: runs/<recipe>)")
        sub.add_argument("--devices", type=int, default=1, help="devices that train together (default: 1)")
        sub.add_argument("--precision", choices=PRECISIONS, default="fp32")


def _print(recipe: Recipe, args: argparse.Namespace) -> None:
    if args.action == "devices":
        print(max(n for n in divisors(recipe) if n <= max(args.available, 1)))
    elif args.action == "run-dir":
        print(default_run_dir(recipe))
    else:
        options = {"run_dir": args.run_dir, "devices": args.devices, "precision": args.precision}
        if args.action == "show":
            print(show(recipe, **options))
        else:
            print("\n".join(map(shlex.join, commands(recipe, args.step, **options))))


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer recipe``; the exit status."""
    if args.action == "list":
        print("\n".join(name for name in names() if not args.paper or load(name).paper))
    elif args.action == "check":
        for name in names():
            print(load(name).name)
    else:
        _print(load(args.name, scale=args.scale, seed=args.seed), args)
    return 0
