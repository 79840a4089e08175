"""``ode-transformer train-from``: train one of our architectures from a trained Transformer of stock fairseq.

It is a warm start followed by training. FLOATER's paper trains in this way (section 3.3 and appendix B.2): from the
Transformer's best checkpoint, ten more epochs at half the peak learning rate, and the average of the last five
checkpoints.
"""

import argparse
import contextlib
from pathlib import Path
from typing import Any

from ..files import read_json, sha256, write_json
from . import command_lines, processes, recipes, runner
from .recipes import RecipeError
from .tasks.task import OURS, Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer train-from``; flags of fairseq-train follow after ``--``."""
    parser.usage = "%(prog)s CHECKPOINT DATA --save-dir DIR [--arch ARCH] [--dry-run] -- flags of fairseq-train"
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a checkpoint of stock fairseq's Transformer, old or new; the paper takes the best on the validation set",
    )
    parser.add_argument(
        "data", metavar="DATA", help="the binarized data that it was trained with; several folders separated by colons"
    )
    parser.add_argument(
        "--save-dir", metavar="DIR", required=True, help="folder for checkpoints; its start.pt equals the Transformer"
    )
    parser.add_argument(
        "--arch", metavar="ARCH", default="floater_base", help="one of our architectures (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run nothing")
    parser.epilog = (
        "The flags name criterion, optimizer, batch and schedule. The options that the model needs besides --arch "
        "(shared embeddings, activation, dropout and so on) are taken from CHECKPOINT; the flags override them. "
        "To resume a training that was stopped from its last checkpoint, give the command again; to train for longer, "
        "give it with a larger --max-epoch or --max-update."
    )


def _differing(path: Path, this: dict[str, Any]) -> list[str]:
    """How this training differs from the one that ``path`` describes, as sentences without their beginning."""
    trained = read_json(path, RecipeError)
    if not isinstance(trained, dict):
        raise RecipeError(f"{path}: must be a mapping")
    differing = [key for key, value in this.items() if trained.get(key) != value]
    if not differing:
        return []
    flags = command_lines.differing(trained["flags"], this["flags"]) if isinstance(trained.get("flags"), list) else ""
    return [f"{', '.join(differing)} differ", *[flags] * bool(flags)]


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer train-from``; the exit status."""
    checkpoint, folder = Path(args.checkpoint).absolute(), Path(args.save_dir).absolute()
    if not checkpoint.is_file():
        raise RecipeError(f"{args.checkpoint}: no such file")
    runner.check_folder(folder)
    data = ":".join(str(Path(part).absolute()) for part in args.data.split(":"))
    start = folder / "start.pt"
    warm_start = Step(
        "start",
        [
            *(*OURS, "warm-start", str(checkpoint), "--arch", args.arch),
            *("--data", data, "--output", str(start), "--", *args.flags),
        ],
        outputs=[str(start)],
    )
    train = ["fairseq-train", data, "--user-dir", "ode_transformer", "--arch", args.arch]
    train += ["--log-format", "json", "--log-interval", "50", "--no-progress-bar"]
    log = f"{folder}/train.log"
    where = ["--finetune-from-model", str(start), "--save-dir", str(folder)]
    environment = processes.KEEP_FREED_MEMORY if "--cpu" in args.flags else {}
    if args.dry_run:
        print(warm_start.line())
        print(Step("train", [*train, *args.flags], where=where, environment=environment, log=log).line())
        print("# and the model flags that the first command prints")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(recipes.ROOT), processes.terminable(), processes.alone_in(folder) as lock:
        command_lines.parsed([*train, *args.flags])  # before the warm start
        from .. import checkpoints
        from ..warm_start import needed

        # The start is made again until training has done updates, since the flags may have changed.
        this = {
            "checkpoint": sha256(checkpoint),
            "dictionaries": [sha256(path) for part in data.split(":") for path in sorted(Path(part).glob("dict*.txt"))],
            "arch": args.arch,
            "flags": runner.same_training(args.flags, of_any_length=True),
        }
        if any(folder.glob("checkpoint*.pt")):
            if not (folder / "start.json").is_file():
                raise RecipeError(
                    f"--save-dir {args.save_dir}: holds a training that train-from did not begin; take another folder"
                )
            if differing := _differing(folder / "start.json", this):
                raise RecipeError(
                    f"--save-dir {args.save_dir}: holds another training: {', '.join(differing)}; take another folder"
                )
        if checkpoints.resume_point(folder) == 0:
            runner.execute(warm_start, lock)
            write_json(folder / "start.json", this)
        flags = needed(args.arch, checkpoints.load(start)["cfg"]["model"])
        command = [*train, *flags, *args.flags]
        step = Step("train", command, [str(start)], where=where, environment=environment, log=log)
        runner.execute(runner.on_free_cores(step) if "--cpu" in args.flags else step, lock)
    return 0
