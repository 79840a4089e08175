"""The command ``ode-transformer dataset``: the text of a published data set, in the files that are binarized."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from ...arguments import at_least
from ...text import segmentation
from ..glue_sets import GLUE
from . import aeslc, agnews, cnndm, gec, imdb, labelled, pairs, race, reading, squad

LABELLED = {"imdb": imdb, "agnews": agnews}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name, module, step):
        help_ = module.__doc__.split("\n")[0]
        added = sets.add_parser(name, help=help_, description=module.__doc__)
        added.add_argument(
            "--output-dir", metavar="DIR", type=Path, required=True, help="the folder for the prepared text"
        )
        added.set_defaults(step=step)
        return added.add_argument

    for name, module in LABELLED.items():
        add_to = add(name, module, _labelled)
        add_to("folder", metavar="DIR", type=Path, help="the folder of the published files")
        add_to("--valid", type=int, required=True, metavar="N", help="training examples held out for validation")
        add_to("--level", choices=labelled.LEVELS, required=True, help="split text into subwords or characters")
        add_to(
            "--size",
            metavar="N",
            type=int,
            default=16000,
            help="vocabulary size of the subwords (default: %(default)s)",
        )
        add_to("--workers", metavar="N", type=at_least(1), default=1, help="threads (default: 1)")
    add_to = add("aeslc", aeslc, lambda args: _report(pairs.write(aeslc.read(args.folder), args.output_dir)))
    add_to("folder", metavar="DIR", type=Path, help="enron_subject_line")
    add_to = add(
        "cnndm", cnndm, lambda args: _report(pairs.write(cnndm.read(args.folders, args.lists), args.output_dir))
    )
    add_to("folders", metavar="DIR", type=Path, nargs="+", help="of stories, cnn/stories and dailymail/stories")
    add_to(
        "--lists",
        metavar="DIR",
        type=Path,
        required=True,
        help="the folder of all_train.txt, all_val.txt and all_test.txt",
    )
    add_to = add("gec", gec, lambda args: _report(gec.write(args)))
    gec.add_arguments(add_to)
    add_to = add("squad", squad, _squad)
    add_to("train", metavar="FILE", type=Path, help="train-v1.1.json or train-v2.0.json")
    add_to("valid", metavar="FILE", type=Path, help="dev-v1.1.json or dev-v2.0.json")
    add_to(
        "--max-symbols", type=at_least(1), default=512, metavar="N", help="symbols of a sample (default: %(default)s)"
    )
    add_to(
        "--stride", type=at_least(1), default=128, metavar="N",
        help="symbols from the beginning of a window to that of the next (default: %(default)s)",
    )  # fmt: skip
    add_to("--longest-question", type=at_least(1), default=64, metavar="N", help="symbols (default: %(default)s)")
    _like(add_to)
    add_to = add("race", race, _race)
    add_to("folder", metavar="DIR", type=Path, help="RACE")
    _like(add_to)
    add_to = add("reading", reading, _reading)
    add_to("like", choices=("squad-1.1", "squad-2.0", "race", *(f"glue-{name}" for name in GLUE)), help="whose layout")
    add_to(
        "--articles", type=at_least(1), default=40, metavar="N",
        help="paragraphs, articles or GLUE's examples to train on (default: %(default)s)",
    )  # fmt: skip
    add_to("--seed", metavar="N", type=int, default=1, help="(default: %(default)s)")


def _like(add_to: Callable) -> None:
    add_to(
        "--like", type=Path, required=True, metavar="DIR", help="segment text as the pretrained model in a folder does"
    )


def _squad(args: argparse.Namespace) -> None:
    files = {"train": args.train, "valid": args.valid}
    sizes = (args.max_symbols, args.stride, args.longest_question)
    for split, (questions, windows) in squad.write(files, args.like, *sizes, args.output_dir).items():
        print(f"{split}: {questions:,} questions, {windows:,} windows", file=sys.stderr)


def _race(args: argparse.Namespace) -> None:
    _report(race.write(args.folder, segmentation.opened(args.like), args.output_dir))


def _reading(args: argparse.Namespace) -> None:
    if args.like == "race":
        reading.write_race(args.output_dir, args.articles, args.seed)
    elif args.like.startswith("glue-"):
        reading.write_glue(args.output_dir, args.like.removeprefix("glue-"), args.articles, args.seed)
    else:
        reading.write_squad(args.output_dir, args.like.removeprefix("squad-"), args.articles, args.seed)


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
