"""The arguments of ``ode-transformer text``."""

import argparse
import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..arguments import add_function, add_parameters, at_least
from . import binarised, manifest, pairs
from .describe import describe
from .joining import SEGMENTATIONS
from .lines import TextError
from .pipeline import Pipeline
from .preparation import COUNTED, DEFAULT_LIMITS, STARTS, Preparation, parts_of, prepare_monolingual
from .tokenisation import LOWERCASE, Tokeniser


def add_tokeniser(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are fields of a ``Tokeniser``."""
    normalise = {"option": ["--normalize", "--normalise"]}
    add_parameters(parser, Tokeniser, lang=None, lowercase={"choices": LOWERCASE}, normalise=normalise)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a ``Tokeniser``, except its language."""
    return {field.name: getattr(args, field.name) for field in fields(Tokeniser) if field.name != "lang"}


def tokeniser_of(flags: str) -> dict[str, Any]:
    """Return the fields of a ``Tokeniser`` from its flags in one string."""
    parser = argparse.ArgumentParser(prog="--tokenise", add_help=False)
    add_tokeniser(parser)
    return _options(parser.parse_args(shlex.split(flags)))


def as_mapping(values: Sequence[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` arguments as a dictionary.

    Raises:
        TextError: an argument has no ``=``, or a key is given twice.
    """
    if wrong := [value for value in values if "=" not in value]:
        raise TextError(f"{wrong[0]}: must be two words with = between them; see --help")
    found = dict(value.split("=", 1) for value in values)
    if len(found) < len(values):
        raise TextError(f"{' '.join(values)}: each word before = must be given once")
    return found


def _paths(values: Sequence[str]) -> dict[str, Path]:
    return {key: Path(value) for key, value in as_mapping(values).items()}


def _check_new(out: Path) -> None:
    if out.exists():
        raise TextError(f"{out}: already exists, perhaps of other text or options; remove it, or choose another folder")


def _prepare(args: argparse.Namespace) -> None:
    """Prepare a parallel corpus: from text in DIR.text, or given by --add, to binarized data in DIR."""
    _check_new(args.out)
    given = {f.name: getattr(args, f.name) for f in fields(Preparation) if hasattr(args, f.name)}
    given |= {name: tuple(given[name]) for name in ("langs", "splits")}
    if args.start == "raw" and args.tokenise is None:
        given["tokenise"] = tokeniser_of("")
    given |= {"limits": pairs.Limits(args.max_tokens, args.ratio), "beside": _paths(args.beside)}
    preparation = Preparation(**given)
    text = preparation.text
    if args.files and (text / "raw").exists() and not (text / "settings.json").exists():
        raise TextError(f"{text}: was left by an earlier call, of perhaps other files and options; remove it")
    preparation.run()


def _describe(args: argparse.Namespace) -> None:
    """Write the manifest of data that fairseq-preprocess made, so that models trained on them translate raw text."""
    print(f"{describe(args.data, args.langs, _options(args))}: {Pipeline.of(args.data)}")


def _settings(args: argparse.Namespace) -> None:
    """Compare settings with those in a file and name the differences; write the file if there is none."""
    manifest.check_settings(args.file, as_mapping(args.settings), args.required)


def _binarise(args: argparse.Namespace) -> None:
    """Binarize text of one language: the same files as fairseq-preprocess --only-source makes."""
    _check_new(args.out)
    if bool(args.folder) == bool(args.texts):
        raise TextError("either SPLIT=FILE or --folder DIR is needed")
    parts = parts_of(args.folder) if args.folder else {"": _paths(args.texts)}
    if not parts:
        raise TextError(f"--folder {args.folder}: holds no parts of examples, such as train or train.input0")
    texts = [file for files in parts.values() for file in files.values()]
    others = args.folder.iterdir() if args.folder else ()
    beside = {path.name: path for path in others if path.is_file() and path not in texts}
    options = {"dictionary": args.dictionary, "copy_labels": args.copy_labels, "workers": args.workers}
    prepare_monolingual(args.out, parts, beside=beside, **options)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer text``."""
    commands = parser.add_subparsers(dest="what", required=True)
    langs = {"langs": {"nargs": 2, "metavar": ("SOURCE", "TARGET")}}
    splits = {"splits": {"nargs": "+", "metavar": "SPLIT"}}
    beside = {"beside": {"nargs": "*", "type": str, "metavar": "NAME=FILE", "default": []}}

    def command(name: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        found.set_defaults(run=run)
        return found

    add_parameters(sub := command("describe", _describe), describe, "data", tokenise=None, **langs)
    add_tokeniser(sub)

    sub, flags = command("prepare", _prepare), {"metavar": "FLAGS", "type": tokeniser_of}
    add_parameters(
        sub, Preparation, "out", files=None, limits=None, joined=None, every={"type": at_least(2)},
        tokenise=flags | {"help": "how text is tokenized: flags of `text describe`, as one word", "default": None},
        tokenise_train=flags | {"help": "how training text is tokenized, if it differs"}, symbols={"type": at_least(5)},
        romanian={"choices": pairs.ROMANIAN}, start={"choices": STARTS}, counted={"choices": COUNTED},
        segmentation={"choices": SEGMENTATIONS}, dictionaries={"nargs": 2}, **langs, **splits, **beside,
    )  # fmt: skip
    sub.add_argument(
        "--add", nargs=3, action="append", default=[], metavar=("SPLIT", "FILE", "FILE"), dest="files",
        help="add the sentence pairs of two files to a split; may be repeated",
    )  # fmt: skip
    ratio = {"type": at_least(1, float)}
    add_parameters(sub, pairs.Limits, max_tokens={"default": DEFAULT_LIMITS.max_tokens}, ratio=ratio)
    sub.add_argument(
        "--separate-dictionaries",
        action="store_false",
        dest="joined",
        help="one dictionary per language (default: a joined one)",
    )

    sub = command("settings", _settings)
    sub.add_argument("file", type=Path, metavar="FILE", help="settings.json of text, or manifest.json of finished data")
    sub.add_argument("settings", nargs="+", metavar="KEY=VALUE", help="the settings on which the data depend")
    sub.add_argument("--required", action="store_true", help="fail if there is no file")

    add_parameters(sub := command("binarise", _binarise), prepare_monolingual, "out", parts=None, beside=None)
    sub.add_argument("texts", nargs="*", metavar="SPLIT=FILE", help="a text file of a split: train, valid, test, test1")
    sub.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="instead of SPLIT=FILE, a folder of examples: SPLIT, or SPLIT.input0 and so on, SPLIT.label; its other "
        "files are copied",
    )  # fmt: skip

    def calling(name: str, function: Callable[..., None], first: str, **more: Any) -> None:
        about = inspect.getdoc(function).partition("\n\n")[0]
        sub = commands.add_parser(name, help=about, description=about)
        add_function(sub, function, first, **langs, **more, output_dir={"type": Path})

    calling("unbinarise", binarised.unbinarise, "data", **splits)
    bins = {"type": int, "nargs": "+"}
    calling("short-to-long", pairs.short_to_long, "prepared", limit={"type": int}, bins=bins)
