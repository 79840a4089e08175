"""Finding the parts of a model: of a run, a checkpoint or a bundle.

Imports torch where a checkpoint or a bundle needs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from ...paths import ROOT
from .. import records
from ..recipes import SECTIONS
from ..text.joining import MODEL_FILES
from .export import is_exported


@dataclass(frozen=True)
class Origin:
    """The places of a model's parts.

    Args:
        model: the checkpoint, or the folder of the bundle.
        data: the folder of the dictionaries, the subword model and the manifest.
        search: the model's flags of ``fairseq-generate``.
        run: the folder of the run, if there is one.
    """

    model: Path
    data: Path
    search: dict[str, Any] = field(default_factory=dict)
    run: Optional[Path] = None

    def state(self) -> dict[str, Any]:
        """Return the state of the checkpoint, or of the bundle, which :func:`find` compared with its hashes.

        Raises:
            CheckpointError: it cannot be read.
        """
        from ...checkpoints import standalone

        return standalone.load(self.model, checked=True)

    def dictionaries(self, languages: Sequence[str]) -> list[Path]:
        """Return the dictionaries of the languages.

        Raises:
            OdeTransformerError: one is not there.
        """
        files = [self.data / f"dict.{language}.txt" for language in languages]
        for file in files:
            if not file.is_file():
                raise OdeTransformerError(f"{file}: no such file; name the folder of the dictionaries with --data")
        return files

    def files(self, languages: Sequence[str]) -> list[Path]:
        """Return all files that translating takes besides the model, of those that are there."""
        others = [self.data / name for name in (*MODEL_FILES, "manifest.json")]
        return [*dict.fromkeys(self.dictionaries(languages)), *(file for file in others if file.is_file())]


def located(path: str | Path) -> Path:
    """Return where a model is: one that is not here is looked for in the clone of the repository, where ``run`` puts
    what has no folder of its own."""
    path = Path(path)
    return ROOT / path if not path.exists() and (ROOT / path).exists() else path


def find(model: str | Path, data: str | Path | None = None) -> Origin:
    """Return where a model's parts are.

    Args:
        model: the folder of a run, a checkpoint, or the folder of a bundle. A path that does not exist is looked for in
            the clone of the repository, where ``run`` puts its folders by default.
        data: the folder of binarized data, if the data are neither where the run had them nor beside the checkpoint.

    Raises:
        OdeTransformerError: something is missing, or the dictionaries are not those of the training; the message names
            it.
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
    run = records.read_run(folder)
    if run is not None and SECTIONS.get(run["task"]) == "validate":
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
