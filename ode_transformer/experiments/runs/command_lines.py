"""Checks of the flags of a run's steps by the parsers of their programs, before anything runs.

torch and fairseq are imported by the functions that need them.
"""

import argparse
import contextlib
import importlib.util
import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import plugins
from ...errors import OdeTransformerError, install_command
from ...paths import PACKAGE
from .. import recipes
from ..arguments import short_message
from ..tasks.task import Step

if TYPE_CHECKING:
    from omegaconf import DictConfig

PARSERS = {
    "fairseq-train": "get_training_parser",
    "fairseq-generate": "get_generation_parser",
    "fairseq-validate": "get_validation_parser",
}
"""The functions of fairseq that make the parsers of its programs."""


def check(steps: Iterable[Step]) -> None:
    """Check the command lines of steps, the first of each name only, since the others differ in the subset alone."""
    first: dict[str, Step] = {}
    for step in steps:
        first.setdefault(step.name, step)
    with contextlib.chdir(recipes.ROOT):
        for step in first.values():
            if step.command[0] not in PARSERS:
                continue
            args = parsed([*step.command, *step.where])
            if step.command[0] == "fairseq-train" and not args.optimizer:
                raise OdeTransformerError("fairseq-train needs --optimizer, such as fused_adam")
            if step.command[0] == "fairseq-train" and args.max_tokens is None and args.batch_size is None:
                raise OdeTransformerError("fairseq-train needs the size of a batch: --max-tokens or --batch-size")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments that a program of fairseq parses; to be called from the top of the repository."""
    user_dir = words[words.index("--user-dir") + 1] if "--user-dir" in words else ""
    if plugin := plugins.missing(user_dir):
        raise OdeTransformerError(f"{words[0]}: needs the plugin {plugin}: give --user-dir, its folder")
    if plugins.name_of(user_dir) and f"{PACKAGE.name}.models" not in sys.modules:
        raise plugins.PluginError(
            f"--user-dir {user_dir}: must import ode_transformer.models in its last line; {words[0]}, which takes one "
            "--user-dir, would not know our architectures"
        )
    from fairseq import options

    from ... import models  # noqa: F401  registers the architectures

    parser = getattr(options, PARSERS[words[0]])()

    def error(message: str) -> None:
        raise OdeTransformerError(f"{words[0]} refuses its flags: {short_message(message, parser)}")

    parser.error = error  # instead of printing every flag
    try:
        args = options.parse_args_and_arch(parser, list(words[1:]))
    except OdeTransformerError:
        raise
    except (ValueError, SyntaxError) as fault:  # --fp16 with --bf16; --lr 0,001
        raise OdeTransformerError(f"{words[0]} refuses its flags: {fault}") from fault
    for name in ("fp16", "amp"):  # the former fails at the first gradient that overflows, the latter does nothing
        if words[0] == "fairseq-train" and args.cpu and getattr(args, name):
            raise OdeTransformerError(
                f"--{name} with --cpu: fairseq can train in {name} on a GPU only; take fp32 or, unless the "
                "architecture is fairseq's own, bf16"
            )
    sharded = words[0] == "fairseq-train" and args.ddp_backend == "fully_sharded"
    if sharded and importlib.util.find_spec("fairscale") is None:
        raise OdeTransformerError(f"--ddp-backend fully_sharded: needs fairscale; {install_command('sharded')}")
    return args


def configuration(words: Sequence[str]) -> "DictConfig":
    """Return the configuration that flags of ``fairseq-train`` make; to be called from the top of the repository."""
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    read = parsed(["fairseq-train", *words])
    try:
        return convert_namespace_to_omegaconf(read)
    except ValueError as error:
        raise OdeTransformerError(f"fairseq-train refuses its flags: {error}") from error


def flag_values(words: Sequence[str]) -> dict[str, str]:
    """Return the value of each flag of a command line, and the words before the flags under an empty name."""
    found, flag = {"": ""}, ""
    for word in words:
        if word.startswith("--"):
            flag, _, found[flag] = word.partition("=")
        else:
            found[flag] = f"{found[flag]} {word}".strip()
    return found


def portable(words: Sequence[str]) -> list[str]:
    """Return words with names in place of the folders of the package and of a plugin, which differ by environment."""
    return [
        Path(word).name if before == "--user-dir" or Path(word).name == PACKAGE.name else word
        for before, word in itertools.pairwise(["", *words])
    ]


def differing(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Return the flags in which another run's command differs from ours, as a part of a sentence; empty if none do."""

    def said(found: dict[str, str], flag: str) -> str:
        return f"{flag} {found[flag]}".strip() if flag in found else f"no {flag}"

    there, here = (flag_values(portable(words)) for words in (theirs, ours))
    flags = [flag for flag in {**there, **here} if there.get(flag) != here.get(flag)]
    return "; ".join(f"with {said(there, flag)} in place of {said(here, flag)}" for flag in flags)
