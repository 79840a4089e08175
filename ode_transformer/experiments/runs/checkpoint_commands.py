"""Functions of the commands that average, check and warm-start the checkpoints of runs, or prepare a resumption.

torch and fairseq are imported by the functions that need them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from ...errors import OdeTransformerError


def average(
    folder: str | Path,
    output: str | Path,
    *,
    last_epochs: Optional[int] = None,
    last_updates: Optional[int] = None,
    best: Optional[int] = None,
    fewer: bool = False,
) -> None:
    """Average the newest or the best checkpoints of a training, and print which.

    Args:
        folder: the folder that fairseq-train calls ``--save-dir``.
        output: the file to write.
        last_epochs: average the N newest checkpoints of epochs, ``checkpointE.pt``.
        last_updates: average the N newest checkpoints of updates, ``checkpoint_E_U.pt``.
        best: average the N best checkpoints that ``--keep-best-checkpoints`` has kept; 1 is ``checkpoint_best.pt``.
        fewer: if there are fewer than N, average those that are there.
    """
    from ... import checkpoints

    given = {"last-epochs": last_epochs, "last-updates": last_updates, "best": best}
    ((kind, count),) = [(kind, count) for kind, count in given.items() if count is not None]
    paths = checkpoints.select(folder, kind, count, fewer=fewer)
    places = [Path(output).parent.resolve() / Path(output).name, Path(output).resolve()]  # that of a link, and its end
    if any(p.name.startswith("checkpoint") and p.parent == Path(folder).resolve() for p in places):
        raise OdeTransformerError(f"--output {output}: would pass for a checkpoint of the training; take average.pt")
    print(f"averaging {', '.join(p.name for p in paths)} -> {output}")
    checkpoints.average(paths, output)


def resume(folder: str | Path) -> None:
    """Prepare a training folder for resuming, and print how many updates were done.

    Args:
        folder: the folder that fairseq-train calls ``--save-dir``.
    """
    if not Path(folder).is_dir():
        raise OdeTransformerError(f"{folder}: no such folder")
    from ... import checkpoints

    print(checkpoints.resume_point(folder))


def check(paths: Sequence[str | Path], data: str | Path) -> None:
    """Check that checkpoints are intact, of a known architecture, and match the dictionaries of a data folder.

    Args:
        paths: the checkpoints to check.
        data: the folder of binarized data.
    """
    if not Path(data).is_dir():
        raise OdeTransformerError(f"--data {data}: no such folder")
    from ... import checkpoints
    from ...checkpoints import standalone

    for path in map(Path, paths):
        if (shard := path.with_name(f"{path.name[:-3]}-shard0.pt")).exists():
            raise OdeTransformerError(f"{shard}: fairseq would read it in place of {path}; move it elsewhere")
        standalone.model_options(checkpoints.load(path), path)
        if not standalone.check_dictionaries(path, data):
            print(f"{path}: no run.json beside it names its dictionaries, so they are not compared", file=sys.stderr)


def warm_start(
    checkpoint: str | Path,
    output: str | Path,
    arch: str,
    flags: Sequence[str] = (),
    *,
    data: Optional[str | Path] = None,
    approximate: bool = False,
    verbose: bool = False,
) -> None:
    """Turn a Transformer's checkpoint into one of our architectures, and print what became of it.

    Args:
        checkpoint: the checkpoint of stock fairseq's Transformer or RoBERTa, of any version, or ``model.safetensors``.
        output: the file to write, for ``--finetune-from-model``.
        arch: an architecture of this package, of the checkpoint's size.
        flags: of fairseq-train, besides.
        data: the folder of binarized data, to check that its dictionaries have the checkpoint's sizes.
        approximate: write the model even if it cannot equal its source exactly.
        verbose: print for every tensor whether it was copied, is new or is left out.
    """
    from ...checkpoints import warm_start as of_transformers

    report = of_transformers.warm_start(checkpoint, output, arch, flags, approximate=approximate, data=data)
    if verbose:
        print(report.details)
    print(report)
    if not report.difference <= of_transformers.EQUAL:
        print("not equal to its source", file=sys.stderr)
