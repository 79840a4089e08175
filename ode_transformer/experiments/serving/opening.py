"""Models found from their runs, checkpoints, bundles or exports, and opened.

This module imports torch and fairseq only for models that need them, which exported models do not.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ...errors import OdeTransformerError
from ...paths import ROOT
from .. import records
from ..tasks import TASKS
from ..text.pipeline import Pipeline
from ..text.subwords import MODEL_FILES
from .export import is_exported, open_exported
from .translator import Translator

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Origin:
    """The locations of the parts of a model."""

    model: Path  # the checkpoint, or the folder of the bundle
    data: Path  # the folder of the dictionaries, the subword model and the manifest
    search: dict[str, Any]  # the model's flags of fairseq-generate
    run: Optional[Path] = None  # the folder of the run, if the model is of one

    def dictionaries(self, languages: Sequence[str]) -> list[Path]:
        """Return the files of the dictionaries of some languages."""
        files = [self.data / f"dict.{language}.txt" for language in languages]
        if missing := [file for file in files if not file.is_file()]:
            raise OdeTransformerError(f"{missing[0]}: no such file; name the folder of the dictionaries with --data")
        return files

    def files(self, languages: Sequence[str]) -> list[Path]:
        """Return the files that translation needs beside the model: dictionaries, and any subword model or manifest."""
        others = [self.data / name for name in (*MODEL_FILES, "manifest.json")]
        return [*dict.fromkeys(self.dictionaries(languages)), *(file for file in others if file.is_file())]


def located(path: str | Path) -> Path:
    """Return the path of a model, which may be relative to the clone of the repository, the default place of runs."""
    path = Path(path)
    return ROOT / path if not path.exists() and (ROOT / path).exists() else path


def find_model(model: str | Path, data: str | Path | None = None) -> Origin:
    """Find the parts of a model.

    Args:
        model: the folder of a run, a checkpoint, or the folder of a bundle, as for :func:`located`.
        data: the folder of binarized data of a run or checkpoint; by default the run's, or the checkpoint's own folder.
    """
    path = located(model)
    if is_exported(path):
        raise OdeTransformerError(f"{model}: is an exported model already; must be a run, a checkpoint or a bundle")
    if not path.exists():
        raise OdeTransformerError(f"{model}: no such file or folder; must be a run, a checkpoint or a bundle")
    from ...checkpoints import bundles, standalone

    if bundles.is_bundle(path):
        bundles.check(path)  # as loading does, but before any of its files is read
        return Origin(path, path, bundles.config(path)["generate"])
    folder = path if path.is_dir() else path.parent
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
            raise OdeTransformerError(
                f"{path}: no such file, because the run is not finished; one of its checkpoints may be named instead"
            )
    data = Path(data or (ROOT / run["data"] if run else folder))
    if not data.is_dir():
        raise OdeTransformerError(f"{data}: no such folder; name the folder of the data of {path} with --data")
    standalone.check_dictionaries(path, data)
    return Origin(path, data, (run and run["generate"]) or {}, folder if run else None)


def load(
    path: str | Path, *more: str | Path, data: str | Path | None = None, device: "str | torch.device | None" = None
) -> Translator:
    """As :func:`ode_transformer.load`."""
    models = [located(one) for one in (path, *more)]
    if exported := [one for one in models if is_exported(one)]:
        if more or data:
            raise OdeTransformerError(f"{exported[0]}: is an exported model, which takes no --data and no --with")
        threads = os.environ.get("OMP_NUM_THREADS", "")
        backend = open_exported(models[0], int(threads) if threads.isdecimal() else 0, device and str(device))
        return Translator(backend, Pipeline.of(models[0]), backend.description.get("search", {}))

    from ...checkpoints import bundles

    if data and all(map(bundles.is_bundle, map(located, models))):
        raise OdeTransformerError(f"--data {data}: {models[0]} is a bundle, which holds its own data; leave it out")
    return open_origins([find_model(model, data) for model in models], device)


def open_origins(origins: Sequence[Origin], device: "str | torch.device | None" = None) -> Translator:
    """Open a model, or an ensemble, from its parts; by default on a GPU if there is one."""
    from .pytorch import open_models

    pipelines = [Pipeline.of(origin.data) for origin in origins]
    backend = open_models(origins, device)
    for origin, pipeline in zip(origins, pipelines, strict=True):
        if pipeline.identity != pipelines[0].identity:
            raise OdeTransformerError(
                f"{origin.model}: its text must be prepared like that of {origins[0].model}, for an ensemble"
            )
    return Translator(backend, pipelines[0], origins[0].search)
