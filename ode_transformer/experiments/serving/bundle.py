"""``ode-transformer bundle``: a folder with a trained model and everything that translation needs."""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import yaml

from ... import markdown
from ...files import read_json, sha256
from ...version import __version__
from .. import records
from ..metrics import METRICS
from .finding import Origin, find_model
from .opening import open_origins
from .translator import Translator

CARD = """\
---
{about}---

# {title}

{langs} translation, made with `ode_transformer` {version}.

```
{model}
```

## Use

`ode_transformer` is installed from a clone of its repository, as its README says.{needs}

```bash
ode-transformer translate{option} FOLDER FILE
```

```python
import ode_transformer

model = ode_transformer.load("FOLDER"{argument})
model.translate(["..."])
```

## Data

{data}

## Search

By default, {search}.

## Scores

{scores}

The files of this folder and their SHA-256 are in `bundle.json`; one that is missing or changed is refused. The weights
are {weights}, in `model.safetensors`.
"""


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
    half: bool = False,
    license: Optional[str] = None,
) -> None:
    """Write a bundle of a run or checkpoint, atomically.

    Args:
        model: the folder of a run, or a checkpoint.
        output: the folder to write.
        data: the folder of binarized data; by default that of the run, or the checkpoint's own folder.
        half: store the weights in fp16.
        license: the license of the weights, for the model card.

    Raises:
        OdeTransformerError: a file is missing or belongs to another model, or the bundle cannot be written.
    """
    from ... import checkpoints, plugins
    from ...checkpoints import bundles, standalone

    if os.path.lexists(output):
        raise bundles.BundleError(f"{output}: already exists")
    origin = find_model(model, data)
    if bundles.is_bundle(origin.model):
        raise bundles.BundleError(f"{model}: is a bundle already")
    translator = open_origins([origin], "cpu")  # checks that the bundle will translate
    (opened,), state = translator.backend.opened, standalone.load(origin.model, checked=True)
    record, plugin = _record(origin), plugins.name_of(checkpoints.options(state, "common").get("user_dir"))
    texts = {bundles.CARD: _card(translator, origin, record, half, license, plugin)}
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
        half=half,
    )


def _record(origin: "Origin") -> Optional[dict[str, Any]]:
    """Return the bundle's part of the run's record, or None if there is none or it is of another checkpoint."""
    path = origin.run and origin.run / "record.json"
    if not path or not path.is_file():
        return None
    record = records.read_record(path)
    if record.get("sha256", {}).get("average.pt") != sha256(origin.model):
        return None
    return {key: record[key] for key in RECORD}


def _card(
    translator: Translator,
    origin: Origin,
    record: Optional[dict[str, Any]],
    half: bool,
    license: Optional[str],
    plugin: str,
) -> str:
    (opened,), languages = translator.backend.opened, translator.backend.languages
    manifest = read_json(origin.data / "manifest.json")
    train = manifest.get("counts", {}).get("train", {}).get("lines")
    pairs = f", {train:,} pairs to train on" if train else ""
    title = record["recipe"] if record else f"{opened.name}, {' to '.join(languages)}"
    return CARD.format(
        about=_front_matter(title, languages, record, license),
        title=title,
        langs=" to ".join(languages),
        version=__version__,
        model=opened,
        needs=f" The model was trained with the plugin `{plugin}`, which is not in this folder." if plugin else "",
        option=f" --user-dir {plugin}" if plugin else "",
        argument=f', user_dir="{plugin}"' if plugin else "",
        data=f"Set `{manifest.get('set')}`{pairs}: {translator.pipeline}.",
        search=translator.search,
        scores=_scores(record, half) if record else "There is no record of scores.",
        weights="fp16" if half else "fp32",
    )


HUB_METRICS = {"tokenised": "bleu", "sacrebleu": "sacrebleu", "chrf": "chrf"}
"""The Hugging Face Hub's names of translation metrics."""


def _front_matter(title: str, langs: Sequence[str], record: Optional[dict[str, Any]], license: Optional[str]) -> str:
    """Return the metadata of a model card of the Hugging Face Hub, in YAML."""
    about = {
        "language": list(langs),
        "license": license,
        "pipeline_tag": "translation",
        "tags": ["translation", "fairseq"],
    }
    results = [
        {
            "task": {"type": "translation", "name": f"Translation {'-'.join(langs)}"},
            "dataset": {"type": test_set, "name": test_set},
            "metrics": metrics,
        }
        for test_set, scores in (record["scores"] if record else {}).items()
        if (metrics := _metrics(scores))
    ]
    if results:
        about["model-index"] = [{"name": title, "results": results}]
    given = {key: value for key, value in about.items() if value is not None}
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True)


def _metrics(scores: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the scores of a test set by metrics that the Hub knows."""
    return [
        {
            "type": kind,
            "value": round(value, 2),
            "name": f"{METRICS[name].label} {METRICS[name].recorded_signature(scores)}".rstrip(),
        }
        for name, kind in HUB_METRICS.items()
        if (value := METRICS[name].value(scores)) is not None
    ]


def _scores(record: dict[str, Any], half: bool) -> str:
    rows = [
        (test_set, metric.label, metric.shown(value), f"`{metric.recorded_signature(scores) or '-'}`")
        for test_set, scores in record["scores"].items()
        for metric in METRICS.values()
        if (value := metric.value(scores)) is not None
    ]
    seeds, weights = " and ".join(map(str, record["seeds"])), "; these are scores of its fp32 weights" if half else ""
    flags = f", with {shlex.join(record['flags'])}" if record["flags"] else ""
    kind = "One training" if record["scale"] == "full" else "A rehearsal (`--scale small`)"
    trained = f"{kind}, with seed {seeds}, in {record['precision']}{flags}{weights}."
    return f"{trained}\n\n{markdown.table(('test set', 'metric', 'value', 'signature'), rows)}"
