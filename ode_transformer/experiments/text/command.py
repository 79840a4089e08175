"""The arguments of ``ode-transformer text``."""

import argparse
import shlex
from dataclasses import fields
from functools import partial

from ..arguments import add_command, add_parameters, at_least
from . import binarised, manifest, pairs
from .pipeline import describe
from .preparation import COUNTED, STARTS, Preparation, prepare_examples
from .subwords import SEGMENTATIONS
from .tokenisation import LOWERCASE, Tokeniser


def add_tokeniser(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are fields of a ``Tokeniser``."""
    normalise = {"option": ["--normalize", "--normalise"]}
    add_parameters(parser, Tokeniser, lowercase={"choices": LOWERCASE}, normalise=normalise)


def tokeniser_of(flags: str) -> Tokeniser:
    """Return the ``Tokeniser`` of flags in one string."""
    parser = argparse.ArgumentParser(prog="--tokenize", add_help=False)
    add_tokeniser(parser)
    return Tokeniser(**vars(parser.parse_args(shlex.split(flags))))


def key_and_value(text: str) -> list[str]:
    """Return the words of ``KEY=VALUE``; argparse names the option in the error."""
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text}: must be two words with = between them")
    return text.split("=", 1)


def add_text(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer text``."""
    add = partial(add_command, parser.add_subparsers(dest="what", required=True))
    langs = {"langs": {"nargs": 2, "metavar": ("SOURCE", "TARGET")}}
    splits = {"splits": {"nargs": "+", "metavar": "SPLIT"}}

    passed = [field.name for field in fields(Tokeniser)]
    shown = {"show": lambda args, said: print(said), "passed": passed, "how": None}
    add_tokeniser(add("describe", describe, "data", **shown, **langs))

    flags = {"metavar": "FLAGS", "type": tokeniser_of}
    added = {"option": ["--add"], "nargs": 3, "action": "append", "default": [], "metavar": ("SPLIT", "FILE", "FILE")}
    add(
        "prepare", Preparation, "out", about="Prepare a parallel corpus, from raw text to binarized data.",
        show=lambda args, made: made.run(), files=added,
        tokenise=flags | {"option": ["--tokenize", "--tokenise"]},
        tokenise_train=flags | {"option": ["--tokenize-train", "--tokenise-train"]},
        every={"type": at_least(2)}, symbols={"type": at_least(5)}, ratio={"type": at_least(1, float)},
        romanian={"choices": pairs.ROMANIAN}, start={"choices": STARTS}, counted={"choices": COUNTED},
        segmentation={"choices": SEGMENTATIONS}, dictionaries={"nargs": 2},
        beside={"nargs": "*", "type": key_and_value, "metavar": "NAME=FILE", "default": []}, **langs, **splits,
    )  # fmt: skip
    settings = {"nargs": "+", "type": key_and_value, "metavar": "KEY=VALUE"}
    add("settings", manifest.check_settings, "file", "settings", settings=settings)
    add("binarize", prepare_examples, "out", "folder", folder={"metavar": "FOLDER"})
    add("unbinarize", binarised.unbinarise, "data", **langs, **splits)
    bins = {"type": int, "nargs": "+"}
    add("short-to-long", pairs.short_to_long, "prepared", limit={"type": int}, bins=bins, **langs)
