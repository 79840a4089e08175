"""Loading of runs, checkpoints, bundles and exported models.

This module imports torch and fairseq only for models that need them, which exported models do not.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import OdeTransformerError
from ..text.pipeline import Pipeline
from .export import is_exported, open_exported
from .finding import Origin, find_model, located
from .translator import Translator

if TYPE_CHECKING:
    import torch


def load(
    path: str | Path,
    *more: str | Path,
    data: str | Path | None = None,
    device: "str | torch.device | None" = None,
) -> Translator:
    """As :func:`ode_transformer.load`."""
    models = (path, *more)
    if exported := [one for one in models if is_exported(located(one))]:
        if more:
            raise OdeTransformerError(f"{exported[0]}: is an exported model, of which there are no ensembles")
        if data is not None:
            raise OdeTransformerError(f"--data {data}: {path} is an exported model, which holds what it needs")
        threads = os.environ.get("OMP_NUM_THREADS", "")
        backend = open_exported(located(path), int(threads) if threads.isdecimal() else 0, device and str(device))
        return Translator(backend, Pipeline.of(located(path)), backend.description.get("search", {}))

    from ...checkpoints.bundles import is_bundle

    bundled = [is_bundle(located(one)) for one in models]
    # Bundles hold their data: --data is for the other models, and is refused where all are bundles.
    origins = [
        find_model(one, None if is_ and not all(bundled) else data) for one, is_ in zip(models, bundled, strict=True)
    ]
    return open_origins(origins, device)


def open_origins(origins: Sequence[Origin], device: "str | torch.device | None" = None) -> Translator:
    """Open a model, or an ensemble, from the parts that :func:`find_model` found.

    Args:
        origins: the parts of each model.
        device: ``cpu``, ``cuda``, ...; by default a GPU if there is one.

    Raises:
        OdeTransformerError: as :func:`.pytorch.open_models`, or the text pipeline is unknown or differs between models.
    """
    from .pytorch import open_models

    pipelines = [Pipeline.of(origin.data) for origin in origins]
    backend = open_models(origins, device)
    for origin, pipeline in zip(origins, pipelines, strict=True):
        if pipeline.identity != pipelines[0].identity:
            raise OdeTransformerError(
                f"{origin.model}: its text must be prepared like that of {origins[0].model}, for an ensemble"
            )
    return Translator(backend, pipelines[0], origins[0].search)
