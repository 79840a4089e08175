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
from .pipeline import Pipeline, describe
from .preparation import COUNTED, STARTS, Preparation, prepare_examples
from .subwords import SEGMENTATIONS
from .tokenisation import LOWERCASE, Tokeniser


def add_tokeniser(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are fields of a ``Tokeniser``."""
    normalise = {"option": ["--normalize", "--normalise"]}
    add_parameters(parser, Tokeniser, lowercase={"choices": LOWERCASE}, normalise=normalise)


def _tokeniser(args: argparse.Namespace) -> Tokeniser:
    return Tokeniser(**{field.name: getattr(args, field.name) for field in fields(Tokeniser)})


def tokeniser_of(flags: str) -> Tokeniser:
    """Return the ``Tokeniser`` of flags in one string."""
    parser = argparse.ArgumentParser(prog="--tokenize", add_help=False)
    add_tokeniser(parser)
    return _tokeniser(parser.parse_args(shlex.split(flags)))


def key_and_value(text: str) -> list[str]:
    """Return the words of ``KEY=VALUE``; argparse names the option in the error."""
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text}: must be two words with = between them")
    return text.split("=", 1)


def _describe(args: argparse.Namespace) -> None:
    """Write the manifest of data that fairseq-preprocess made, so that models trained on them translate raw text."""
    print(f"{describe(args.data, args.langs, _tokeniser(args))}: {Pipeline.of(args.data)}")


def _settings(args: argparse.Namespace) -> None:
    """Compare settings with those in a file and name the differences; write the file if there is none."""
    manifest.check_settings(args.file, dict(args.settings), args.required)


def add_text(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer text``."""
    commands = parser.add_subparsers(dest="what", required=True)
    langs = {"langs": {"nargs": 2, "metavar": ("SOURCE", "TARGET")}}
    splits = {"splits": {"nargs": "+", "metavar": "SPLIT"}}

    def command(name: str, run: Callable[..., None]) -> argparse.ArgumentParser:
        about = inspect.getdoc(run).partition("\n\n")[0]
        found = commands.add_parser(name, help=about, description=about)
        found.set_defaults(run=run)
        return found

    add_parameters(sub := command("describe", _describe), describe, "data", tokeniser=None, **langs)
    add_tokeniser(sub)

    flags = {"metavar": "FLAGS", "type": tokeniser_of}
    add = {"option": ["--add"], "nargs": 3, "action": "append", "default": [], "metavar": ("SPLIT", "FILE", "FILE")}
    add_function(
        command("prepare", Preparation.run), Preparation, "out", show=lambda args, made: made.run(), files=add,
        tokenise=flags | {"option": ["--tokenize"]}, tokenise_train=flags | {"option": ["--tokenize-train"]},
        every={"type": at_least(2)}, symbols={"type": at_least(5)},
        ratio={"type": at_least(1, float)}, romanian={"choices": pairs.ROMANIAN}, start={"choices": STARTS},
        counted={"choices": COUNTED}, segmentation={"choices": SEGMENTATIONS}, dictionaries={"nargs": 2},
        beside={"nargs": "*", "type": key_and_value, "metavar": "NAME=FILE", "default": []}, **langs, **splits,
    )  # fmt: skip

    sub = command("settings", _settings)
    sub.add_argument("file", type=Path, metavar="FILE", help="settings.json of text, or manifest.json of finished data")
    said = "the settings on which the data depend"
    sub.add_argument("settings", nargs="+", type=key_and_value, metavar="KEY=VALUE", help=said)
    sub.add_argument("--required", action="store_true", help="fail if there is no file")

    def calling(name: str, function: Callable[..., None], *first: str, **more: Any) -> None:
        add_function(command(name, function), function, *first, **langs, **more, output_dir={"type": Path})

    calling("binarise", prepare_examples, "out", "folder", folder={"metavar": "FOLDER"})
    calling("unbinarise", binarised.unbinarise, "data", **splits)
    bins = {"type": int, "nargs": "+"}
    calling("short-to-long", pairs.short_to_long, "prepared", limit={"type": int}, bins=bins)
