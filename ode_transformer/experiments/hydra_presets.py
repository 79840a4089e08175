"""Presets of the named architectures for ``fairseq-hydra-train``, which has no ``--arch``."""

import argparse
from pathlib import Path

from ..errors import OdeTransformerError
from ..files import write_text


def write(directory: Path) -> list[Path]:
    """Write ``model/NAME.yaml`` for every model and every named architecture.

    Args:
        directory: the folder for fairseq-hydra-train's ``--config-dir``.

    Returns:
        The files.

    Raises:
        OdeTransformerError: one of the files exists and was not written by this function, in which case nothing is
            written.
    """
    from .. import models  # noqa: F401 (fills the table of presets)
    from ..config import GENERATED, hydra_presets

    files = {directory / "model" / f"{name}.yaml": text for name, text in hydra_presets().items()}
    others = [path for path in files if path.exists() and not path.read_bytes().startswith(GENERATED.encode())]
    if others:
        raise OdeTransformerError(
            f"{', '.join(map(str, others))}: not written by `ode-transformer hydra`; move it away, or write the "
            "presets to another folder"
        )
    for path, text in files.items():
        write_text(path, text)
    return list(files)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer hydra``."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder for fairseq-hydra-train's --config-dir")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer hydra``; the exit status."""
    files = write(args.directory)
    print(f"{len(files)} presets written to {files[0].parent}")
    return 0
