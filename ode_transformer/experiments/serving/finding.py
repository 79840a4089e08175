"""The parts of a model, found from its run, checkpoint or bundle.

This module imports torch only where a checkpoint or a bundle needs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from ...paths import ROOT
from .. import records
from ..tasks import TASKS
from ..text.joining import MODEL_FILES
from .export import is_exported


@dataclass(frozen=True)
class Origin:
    """The locations of the parts of a model.

    Args:
        model: the checkpoint, or the folder of the bundle.
        data: the folder of the dictionaries, the subword model and the manifest.
        search: the model's flags of ``fairseq-generate``.
        run: the folder of the run; None for a bundle or a checkpoint outside a run.
    """

    model: Path
    data: Path
    search: dict[str, Any] = field(default_factory=dict)
    run: Optional[Path] = None

    def dictionaries(self, languages: Sequence[str]) -> list[Path]:
        """Return the files of the dictionaries of some languages.

        Raises:
            OdeTransformerError: a file does not exist.
        """
        files = [self.data / f"dict.{language}.txt" for language in languages]
        for file in files:
            if not file.is_file():
                raise OdeTransformerError(f"{file}: no such file; name the folder of the dictionaries with --data")
        return files

    def files(self, languages: Sequence[str]) -> list[Path]:
        """Return the files that translation needs beside the model: dictionaries, and any subword model or manifest."""
        others = [self.data / name for name in (*MODEL_FILES, "manifest.json")]
        return [*dict.fromkeys(self.dictionaries(languages)), *(file for file in others if file.is_file())]


def located(path: str | Path) -> Path:
    """Return the path of a model; a path that does not exist is looked up in the clone of the repository, the default
    place of runs."""
    path = Path(path)
    return ROOT / path if not path.exists() and (ROOT / path).exists() else path


def find_model(model: str | Path, data: str | Path | None = None) -> Origin:
    """Find the parts of a model.

    Args:
        model: the folder of a run, a checkpoint, or the folder of a bundle, as for :func:`located`.
        data: the folder of binarized data; by default that of the run, or the checkpoint's own folder.

    Raises:
        OdeTransformerError: a file is missing, or the dictionaries are not those of the training.
    """
    from ...checkpoints import bundles, standalone

    path = located(model)
    if is_exported(path):
        raise OdeTransformerError(f"{model}: is an exported model already; must be a run, a checkpoint or a bundle")
    if bundles.is_bundle(path):
        if data is not None:
            raise OdeTransformerError(f"--data {data}: must not be given with {model}, a bundle, which holds its data")
        bundles.check(path)
        return Origin(path, path, bundles.config(path)["generate"])
    if not path.exists():
        raise OdeTransformerError(f"{model}: no such file or folder; must be a run, a checkpoint or a bundle")
    folder = path if path.is_dir() else path.parent
    if bundles.is_bundle(folder):
        raise OdeTransformerError(f"{model}: is a file of a bundle; name its folder, {folder}")
    run = records.read_run(folder)
    if run is not None and run["task"] in TASKS and TASKS[run["task"]].section == "validate":
        raise OdeTransformerError(f"{model}: is of a run of the task {run['task']}, whose models write no text")
    if path.is_dir():
        if run is None:
            raise OdeTransformerError(
                f"{model}: must be a run or a bundle, but holds neither run.json nor {bundles.INDEX}"
            )
        path = folder / "average.pt"
        if not path.is_file():
            there = ", ".join(sorted(p.name for p in folder.glob("*.pt"))) or "no checkpoints"
            raise OdeTransformerError(
                f"{path}: no such file, because the run is not finished; name one of its checkpoints ({there})"
            )
    if data is None and run is not None:
        if not run.get("data"):
            raise OdeTransformerError(f"{folder / 'run.json'}: does not say where its data are; name them with --data")
        data = ROOT / run["data"]
    data = Path(folder if data is None else data)
    if not data.is_dir():
        raise OdeTransformerError(f"{data}: no such folder; name the folder of the data of {path} with --data")
    standalone.check_dictionaries(path, data)
    return Origin(path, data, (run or {}).get("generate") or {}, folder if run else None)
