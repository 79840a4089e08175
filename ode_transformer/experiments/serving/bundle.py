"""``ode-transformer bundle``: a folder with a trained model and everything that translation needs."""

import json
import os
import shlex
from importlib import resources
from pathlib import Path
from typing import Any, Optional

import yaml

from ... import markdown
from ...errors import OdeTransformerError
from ...files import read_json, sha256
from ...version import __version__
from .. import records
from ..metrics import METRICS
from .opening import Origin, find_model, open_origins
from .translator import Translator

RECORD = (
    *("recipe", "task", "scale", "description", "seeds", "precision", "flags", "devices", "scores", "paper"),
    *("averaged", "training", "sha256", "hardware", "versions"),
)
"""The fields of a record that a bundle keeps; commands are left out, because they name folders of one machine."""


def make(
    model: str | Path,
    output: str | Path,
    *,
    data: str | Path | None = None,
    fp16: bool = False,
    license: Optional[str] = None,
) -> None:
    """Write a bundle of a run or checkpoint.

    Args:
        model: the folder of a run, or a checkpoint.
        output: the folder to write, which must not exist.
        data: the folder of the model's binarized data (default: that of its run, or the model's folder).
        fp16: store weights in half precision, at half the size.
        license: the license of the weights, as the Hugging Face Hub names it, such as cc-by-4.0.
    """
    from ... import checkpoints, plugins
    from ...checkpoints import bundles, standalone

    if os.path.lexists(output):  # before the model is opened
        raise OdeTransformerError(f"{output}: already exists; a bundle takes a new folder")
    origin = find_model(model, data)
    if bundles.is_bundle(origin.model):
        raise OdeTransformerError(f"{model}: is a bundle already")
    translator = open_origins([origin], "cpu")  # checks that the bundle will translate
    (opened,), state = translator.backend.opened, standalone.load(origin.model)
    record, plugin = _record(origin), plugins.name_of(checkpoints.options(state, "common").get("user_dir"))
    texts = {bundles.CARD: _card(translator, origin, record, fp16, license, plugin)}
    if record is not None:
        texts["record.json"] = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    bundles.write(
        output,
        opened.name,
        opened.options,
        state["model"],
        generate=origin.search,
        plugin=plugin,
        files={file.name: file for file in origin.files(translator.backend.languages)},
        texts=texts,
        half=fp16,
    )


def _record(origin: Origin) -> Optional[dict[str, Any]]:
    """Return the bundle's part of the run's record, or None if there is none or it is of another checkpoint."""
    path = origin.run and origin.run / "record.json"
    if not path or not path.is_file():
        return None
    record = records.read_record(path)
    if record.get("sha256", {}).get("average.pt") != sha256(origin.model):
        return None
    return {key: record[key] for key in RECORD}


def _card(
    translator: Translator, origin: Origin, record: Optional[dict[str, Any]], half: bool, license: Optional[str],
    plugin: str,
) -> str:  # fmt: skip
    from jinja2 import Template

    (opened,), languages = translator.backend.opened, translator.backend.languages
    about = {"language": list(languages), "license": license, "pipeline_tag": "translation", "tags": ["fairseq"]}
    about = {key: value for key, value in about.items() if value is not None}  # what the Hugging Face Hub reads
    manifest = read_json(origin.data / "manifest.json")
    text = resources.files(__package__).joinpath("card.md.j2").read_text(encoding="utf-8")
    return Template(text, keep_trailing_newline=True).render(
        about=yaml.safe_dump(about, sort_keys=False, allow_unicode=True),
        name=opened.name,
        languages=" to ".join(languages),
        version=__version__,
        model=opened,
        plugin=plugin,
        manifest=manifest,
        pairs=manifest.get("counts", {}).get("train", {}).get("lines"),
        pipeline=translator.pipeline,
        search=translator.search,
        record=record,
        flags=shlex.join(record["flags"]) if record else "",
        scores=_scores(record) if record else "",
        half=half,
    )


def _scores(record: dict[str, Any]) -> str:
    rows = [
        (test_set, metric.label, metric.shown(value), f"`{metric.recorded_signature(scores) or '-'}`")
        for test_set, scores in record["scores"].items()
        for metric in METRICS.values()
        if (value := metric.value(scores)) is not None
    ]
    return markdown.table(("test set", "metric", "value", "signature"), rows)
