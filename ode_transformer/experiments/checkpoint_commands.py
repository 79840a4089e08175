"""The commands that work on checkpoints: ``ode-transformer average``, ``resume`` and ``check``."""

import argparse
import re
import sys
from pathlib import Path

from .. import checkpoints


def add_average_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer average``."""
    parser.add_argument("directory", help="the --save-dir of fairseq-train")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last-epochs", type=int, metavar="N", help="the newest N of checkpointE.pt")
    which.add_argument("--last-updates", type=int, metavar="N", help="the newest N of checkpoint_E_U.pt")
    which.add_argument(
        "--best", type=int, metavar="N", help="the best N of --keep-best-checkpoints; 1 is checkpoint_best.pt"
    )
    parser.add_argument("--fewer", action="store_true", help="average those that are there, if they are fewer than N")
    parser.add_argument("--output", required=True, help="the file to write")


def average_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer average``; the exit status."""
    wanted = {"last_epochs": args.last_epochs, "last_updates": args.last_updates, "best": args.best}
    paths = checkpoints.select(args.directory, **wanted, fewer=args.fewer)
    output = Path(args.output)
    if (
        re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)\.pt", output.name)
        and output.resolve().parent == Path(args.directory).resolve()
    ):
        raise checkpoints.CheckpointError(
            f"--output {args.output}: would be taken for a checkpoint of the training; take another name, such as "
            "average.pt"
        )
    print(f"averaging {', '.join(p.name for p in paths)} -> {args.output}")
    checkpoints.average(paths, args.output)
    return 0


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer resume``."""
    parser.add_argument("directory", help="the --save-dir of fairseq-train")


def resume_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer resume``; the exit status."""
    if not Path(args.directory).is_dir():
        raise checkpoints.CheckpointError(f"{args.directory}: no such folder")
    print(checkpoints.resume_point(args.directory))
    return 0


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer check``."""
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="the checkpoints to check")
    parser.add_argument("--data", required=True, metavar="DIR", help="the folder of binarized data")


def check_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer check``; the exit status."""
    from .. import standalone

    if not Path(args.data).is_dir():
        raise checkpoints.CheckpointError(f"--data {args.data}: no such folder")
    for path in args.checkpoints:
        standalone.model_options(checkpoints.load(path), path)
        if not standalone.check_dictionaries(path, args.data):
            print(f"{path}: no run.json beside it names its dictionaries, so they are not compared", file=sys.stderr)
    return 0
