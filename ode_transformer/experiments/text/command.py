"""The arguments of ``ode-transformer text``."""

import argparse
import inspect
import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..arguments import add_function, add_parameters, at_least
from . import binarised, manifest, pairs
from .describe import describe
from .joining import SEGMENTATIONS
from .lines import TextError
from .pipeline import Pipeline
from .preparation import COUNTED, DEFAULT_LIMITS, STARTS, Preparation, check_new, prepare_examples
from .tokenisation import LOWERCASE, Tokeniser, options


def add_tokeniser(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are fields of a ``Tokeniser``."""
    normalise = {"option": ["--normalize", "--normalise"]}
    add_parameters(parser, Tokeniser, lang=None, lowercase={"choices": LOWERCASE}, normalise=normalise)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a ``Tokeniser``, except its language."""
    return {name: getattr(args, name) for name in options()}


def tokeniser_of(flags: str) -> dict[str, Any]:
    """Return the fields of a ``Tokeniser`` from its flags in one string."""
    parser = argparse.ArgumentParser(prog="--tokenise", add_help=False)
    add_tokeniser(parser)
    return _options(parser.parse_args(shlex.split(flags)))


def key_and_value(text: str) -> list[str]:
    """Return the words of ``KEY=VALUE``; argparse names the option in the error."""
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text}: must be two words with = between them")
    return text.split("=", 1)


def _prepare(args: argparse.Namespace) -> None:
    """Prepare a parallel corpus: from text in DIR.text, or given by --add, to binarized data in DIR."""
    check_new(args.out)
    given = {f.name: getattr(args, f.name) for f in fields(Preparation) if hasattr(args, f.name)}
    given |= {name: tuple(given[name]) for name in ("langs", "splits")}
    if args.start == "raw" and args.tokenise is None:
        given["tokenise"] = options()
    given["limits"] = pairs.Limits(args.max_tokens, args.ratio)
    given["beside"] = {name: Path(file) for name, file in args.beside}
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
    manifest.check_settings(args.file, dict(args.settings), args.required)


def add_text(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer text``."""
    commands = parser.add_subparsers(dest="what", required=True)
    langs = {"langs": {"nargs": 2, "metavar": ("SOURCE", "TARGET")}}
    splits = {"splits": {"nargs": "+", "metavar": "SPLIT"}}
    beside = {"beside": {"nargs": "*", "type": key_and_value, "metavar": "NAME=FILE", "default": []}}

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
    said = "the settings on which the data depend"
    sub.add_argument("settings", nargs="+", type=key_and_value, metavar="KEY=VALUE", help=said)
    sub.add_argument("--required", action="store_true", help="fail if there is no file")

    def calling(name: str, function: Callable[..., None], *first: str, **more: Any) -> None:
        about = inspect.getdoc(function).partition("\n\n")[0]
        sub = commands.add_parser(name, help=about, description=about)
        add_function(sub, function, *first, **langs, **more, output_dir={"type": Path})

    calling("binarise", prepare_examples, "out", "folder", folder={"metavar": "FOLDER"})
    calling("unbinarise", binarised.unbinarise, "data", **splits)
    bins = {"type": int, "nargs": "+"}
    calling("short-to-long", pairs.short_to_long, "prepared", limit={"type": int}, bins=bins)
