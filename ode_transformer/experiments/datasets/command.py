"""The command ``ode-transformer dataset``: the text of a published data set, in the files that are binarised."""

import argparse
import sys
from pathlib import Path

from . import aeslc, agnews, cnndm, gec, imdb, labelled, pairs

LABELLED = {"imdb": imdb, "agnews": agnews}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name, module, step):
        help_ = module.__doc__.split("\n")[0]
        added = sets.add_parser(name, help=help_, description=module.__doc__)
        added.add_argument("--output-dir", type=Path, required=True)
        added.set_defaults(step=step)
        return added.add_argument

    for name, module in LABELLED.items():
        add_to = add(name, module, _labelled)
        add_to("folder", type=Path, help="where it lies")
        add_to("--valid", type=int, required=True, metavar="N", help="training examples held out for validation")
        add_to("--level", choices=labelled.LEVELS, required=True, help="what the symbols are")
        add_to("--size", type=int, default=16000, help="of the subwords' vocabulary (default: %(default)s)")
        add_to("--workers", type=int, default=1, help="threads (default: 1)")
    add_to = add("aeslc", aeslc, lambda args: _report(pairs.write(aeslc.read(args.folder), args.output_dir)))
    add_to("folder", type=Path, help="enron_subject_line")
    add_to = add(
        "cnndm", cnndm, lambda args: _report(pairs.write(cnndm.read(args.folders, args.lists), args.output_dir))
    )
    add_to("folders", type=Path, nargs="+", help="of stories, cnn/stories and dailymail/stories")
    add_to("--lists", type=Path, required=True, help="the folder of all_train.txt, all_val.txt and all_test.txt")
    add_to = add("gec", gec, lambda args: _report(gec.write(args)))
    gec.add_arguments(add_to)


def _labelled(args: argparse.Namespace) -> None:
    splits = LABELLED[args.name].read(args.folder, args.valid)
    labelled.write(splits, args.level, args.size, args.workers, args.output_dir)
    _report({name: len(examples) for name, examples in splits.items()})


def _report(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name}: {count:,} examples", file=sys.stderr)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer dataset``; the exit status."""
    args.step(args)
    return 0
