"""The commands for trained models: ``ode-transformer translate``, ``bundle`` and ``export``."""

import argparse
from pathlib import Path
from typing import Optional

from ...errors import OdeTransformerError
from ..arguments import add_function
from ..text.manifest import read_manifest
from ..text.pipeline import Pipeline
from .export import FORMATS, QUANTIZATIONS, load_module
from .opening import find_model
from .translate import translate
from .translator import Translator


def export(
    model: str, output: str, format: str, *, quantization: Optional[str] = None, data: Optional[Path] = None
) -> None:
    """Export a model, and print how far the exported model is from the checkpoint.

    Args:
        model: the folder of a run, a checkpoint or a bundle.
        output: the folder to write, which must not exist.
        format: the library that will translate.
        quantization: quantize the weights (default: single precision).
        data: the folder of the model's binarized data (default: that of its run, or the model's folder).
    """
    from .export.writing import write
    from .pytorch import open_models

    load_module("to", format)  # before the model is opened
    origin = find_model(model, data)
    if data and origin.data == origin.model:
        raise OdeTransformerError(f"--data {data}: {model} is a bundle, which holds its own data; leave it out")
    opened = open_models([origin], "cpu")
    # Data of segmented text have no pipeline from raw text, which an export does not require.
    if (origin.data / "manifest.json").is_file() and read_manifest(origin.data).get("tokenise") is not None:
        Translator(opened, Pipeline.of(origin.data), origin.search)  # refuses what `translate` would
    check = write(opened, format, output, quantization, origin.files(opened.languages), origin.search)["check"]
    print(
        f"{output}: {format}, {quantization or 'fp32'}; log-probabilities of {check['symbols']} symbols differ from "
        f"the checkpoint's by {check['largest']:.1e} at most, {check['mean']:.1e} in the mean"
    )


_MODEL = {"metavar": "MODEL"}
_FOLDER = {"option": ["-o", "--output"], "type": str, "metavar": "DIR"}


def add_translate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer translate``."""
    add_function(
        parser, translate, "model", "files", model=_MODEL, files={"nargs": "*", "metavar": "FILE"},
        more=_MODEL | {"option": ["--with"], "action": "append", "default": []},
        output={"option": ["-o", "--output"]}, max_len_a={"metavar": "A"}, max_len_b={"type": int, "metavar": "B"},
        lenpen={"metavar": "P"}, sampling_topp={"metavar": "P"}, seed={"type": int},
    )  # fmt: skip


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer bundle``."""
    from .bundle import make

    add_function(parser, make, "model", model=_MODEL, output=_FOLDER, show=lambda args, _: print(args.output))


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer export``."""
    choices = {"format": {"choices": list(FORMATS)}, "quantization": {"choices": QUANTIZATIONS}}
    add_function(parser, export, "model", model=_MODEL, output=_FOLDER, **choices)
