"""The commands that work on checkpoints: ``ode-transformer average``, ``resume``, ``check`` and ``warm-start``."""

import argparse
import re
import sys
from pathlib import Path

from ...errors import OdeTransformerError


def add_average_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer average``."""
    parser.add_argument("directory", metavar="DIR", help="the --save-dir of fairseq-train")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last-epochs", type=int, metavar="N", help="the newest N of checkpointE.pt")
    which.add_argument("--last-updates", type=int, metavar="N", help="the newest N of checkpoint_E_U.pt")
    which.add_argument(
        "--best", type=int, metavar="N", help="the best N of --keep-best-checkpoints; 1 is checkpoint_best.pt"
    )
    parser.add_argument("--fewer", action="store_true", help="average those that are there, if they are fewer than N")
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write")


def average_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer average``; the exit status."""
    from ... import checkpoints

    wanted = {"last_epochs": args.last_epochs, "last_updates": args.last_updates, "best": args.best}
    paths = checkpoints.select(args.directory, **wanted, fewer=args.fewer)
    output = Path(args.output)
    if (
        re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)\.pt", output.name)
        and output.resolve().parent == Path(args.directory).resolve()
    ):
        raise OdeTransformerError(
            f"--output {args.output}: would be taken for a checkpoint of the training; take another name, such as "
            "average.pt"
        )
    print(f"averaging {', '.join(p.name for p in paths)} -> {args.output}")
    checkpoints.average(paths, args.output)
    return 0


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer resume``."""
    parser.add_argument("directory", metavar="DIR", help="the --save-dir of fairseq-train")


def resume_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer resume``; the exit status."""
    if not Path(args.directory).is_dir():
        raise OdeTransformerError(f"{args.directory}: no such folder")
    from ... import checkpoints

    print(checkpoints.resume_point(args.directory))
    return 0


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer check``."""
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="the checkpoints to check")
    parser.add_argument("--data", required=True, metavar="DIR", help="the folder of binarized data")


def check_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer check``; the exit status."""
    if not Path(args.data).is_dir():
        raise OdeTransformerError(f"--data {args.data}: no such folder")
    from ... import checkpoints
    from ...checkpoints import standalone

    for path in args.checkpoints:
        standalone.model_options(checkpoints.load(path), path)
        if not standalone.check_dictionaries(path, args.data):
            print(f"{path}: no run.json beside it names its dictionaries, so they are not compared", file=sys.stderr)
    return 0


def add_warm_start_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer warm-start``; what follows ``--`` are ``flags``."""
    parser.usage = "%(prog)s CHECKPOINT --arch ARCH --output FILE [options] [-- flags of fairseq-train]"
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a checkpoint of a Transformer or RoBERTa of stock fairseq, of any version, or model.safetensors",
    )
    parser.add_argument(
        "--arch", metavar="ARCH", required=True, help="one of our architectures, of the checkpoint's size"
    )
    parser.add_argument(
        "--output", metavar="FILE", required=True, help="the file to write, for --finetune-from-model or --restore-file"
    )
    parser.add_argument(
        "--data", metavar="DIR", help="binarized data; the sizes of its dictionaries have to match the checkpoint"
    )
    parser.add_argument(
        "--dynamics-scale", type=float, default=0.0, metavar="S",
        help="the flow's last layer begins at S times its usual values (default: 0, which changes nothing at first)",
    )  # fmt: skip
    parser.add_argument(
        "--approximate", action="store_true", help="also write a model that cannot equal its source exactly"
    )
    parser.add_argument("--verbose", action="store_true", help="print what became of every tensor")


def warm_start_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer warm-start``; the exit status."""
    from ...checkpoints.warm_start import EQUAL, warm_start

    report = warm_start(
        args.checkpoint,
        args.output,
        args.arch,
        args.flags,
        dynamics_scale=args.dynamics_scale,
        approximate=args.approximate,
        data=args.data,
    )
    if args.verbose:
        print(report.details)
    print(report)
    if not report.difference <= EQUAL:
        print("not equal to its source", file=sys.stderr)
    return 0
