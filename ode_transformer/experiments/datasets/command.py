"""The command ``ode-transformer dataset``: the text of a published data set, in the files that are binarised."""

import argparse
import sys
from pathlib import Path

from . import agnews, imdb, labelled

LABELLED = {"imdb": (imdb.read, "aclImdb"), "agnews": (agnews.read, "train.csv and test.csv")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)
    for name, (reader, layout) in LABELLED.items():
        help_ = (sys.modules[reader.__module__].__doc__ or "").split("\n")[0]
        added = sets.add_parser(name, help=help_, description=help_)
        added.add_argument("folder", type=Path, help=f"the folder {layout}" if name == "imdb" else f"of {layout}")
        added.add_argument("--valid", type=int, required=True, metavar="N", help="examples held out for validation")
        added.add_argument("--level", choices=labelled.LEVELS, required=True, help="what the symbols are")
        added.add_argument("--size", type=int, default=16000, help="of the subwords' vocabulary (default: %(default)s)")
        added.add_argument("--workers", type=int, default=1, help="threads (default: 1)")
        added.add_argument("--output-dir", type=Path, required=True)
        added.set_defaults(step=_labelled)


def _labelled(args: argparse.Namespace) -> None:
    splits = LABELLED[args.name][0](args.folder, args.valid)
    labelled.write(splits, args.level, args.size, args.workers, args.output_dir)
    for name, examples in splits.items():
        print(f"{name}: {len(examples)} examples", file=sys.stderr)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer dataset``; the exit status."""
    args.step(args)
    return 0
