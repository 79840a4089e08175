"""``ode-transformer bundle``: a trained model with everything that translating needs, in one folder."""

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import yaml

from ...files import read_json, sha256
from ...version import __version__
from .. import markdown
from ..metrics import METRICS
from ..runs import records
from ..text.pipeline import MODELS
from . import translate

if TYPE_CHECKING:
    from .trained_translator import Origin, TrainedTranslator

CARD = """\
---
{about}---

# {title}

{langs} translation, made with `ode_transformer` {version}.

```
{model}
```

## Use

`ode_transformer` is installed from a clone of its repository, as its README says.

```bash
ode-transformer translate FOLDER FILE
```

```python
import ode_transformer

model = ode_transformer.load("FOLDER")
model.translate(["..."])
```

## Data

{data}

## Search

{search}

## Scores

{scores}

The files of this folder and their SHA-256 are in `bundle.json`; one that is missing or changed is refused. The weights
are {weights}, in `model.safetensors`.
"""


RECORD = (
    *("recipe", "task", "scale", "description", "seeds", "precision", "flags", "devices", "scores", "paper"),
    *("averaged", "training", "sha256", "hardware", "versions"),
)
"""The fields of a record that a bundle keeps; the commands, which name folders of one machine, are left out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer bundle``."""
    translate.add_model_arguments(parser, "the folder of a run, or a checkpoint")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write; it must not exist")
    parser.add_argument("--fp16", action="store_true", help="store weights in half precision, at half the size")
    parser.add_argument(
        "--license", metavar="NAME", help="of the weights, for the card: the Hugging Face Hub's name, such as cc-by-4.0"
    )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer bundle``; the exit status."""
    make(args.model, args.output, data=args.data, half=args.fp16, license=args.license)
    print(args.output)
    return 0


def make(
    model: str | Path,
    output: str | Path,
    *,
    data: str | Path | None = None,
    half: bool = False,
    license: Optional[str] = None,
) -> None:
    """Write a bundle of a run or checkpoint, completely or not at all.

    Args:
        model: the folder of a run, or a checkpoint.
        output: the folder to write.
        data: the folder of binarized data, if the data are neither where the run had them nor beside the checkpoint.
        half: store the weights in fp16.
        license: the license of the weights, which the card names.

    Raises:
        OdeTransformerError: something is missing or belongs to another model, or the bundle cannot be written.
    """
    from ...checkpoints import bundles
    from .trained_translator import TrainedTranslator, find

    if os.path.lexists(output):
        raise bundles.BundleError(f"{output}: is there already")
    origin = find(model, data)
    if bundles.is_bundle(origin.model):
        raise bundles.BundleError(f"{model}: is a bundle already")
    translator = TrainedTranslator([origin], "cpu")  # checks that the bundle will translate
    (opened,), pipeline = translator.opened, translator.pipeline
    state = origin.state()["model"]
    langs = (pipeline.tokeniser.lang, pipeline.target)
    names = [*(f"dict.{lang}.txt" for lang in langs), "manifest.json"]
    if pipeline.model is not None:
        names.append(MODELS[pipeline.segmentation])
    record = _record(origin)
    texts = {bundles.CARD: _card(translator, record, half, license)}
    if record is not None:
        texts["record.json"] = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    bundles.write(
        output,
        opened.name,
        opened.options,
        state,
        generate=origin.search,
        files={name: origin.data / name for name in names},
        texts=texts,
        half=half,
    )


def _record(origin: "Origin") -> Optional[dict[str, Any]]:
    """The record of the run, if it is about this checkpoint."""
    path = origin.run and origin.run / "record.json"
    if not path or not path.is_file():
        return None
    record = records.read_record(path)
    if record.get("sha256", {}).get("average.pt") != sha256(origin.model):
        return None
    return {key: record[key] for key in RECORD}


def _card(translator: "TrainedTranslator", record: Optional[dict[str, Any]], half: bool, license: Optional[str]) -> str:
    (opened,), pipeline = translator.opened, translator.pipeline
    manifest = read_json(translator.origins[0].data / "manifest.json")
    train = manifest.get("counts", {}).get("train", {}).get("lines")
    data = f"Set `{manifest.get('set')}`" + (f", {train:,} pairs to train on" if train else "") + f": {pipeline}."
    search = ", ".join(f"{name} {value}" for name, value in translator.search.items())
    title = record["recipe"] if record else f"{opened.name}, {pipeline.tokeniser.lang} to {pipeline.target}"
    return CARD.format(
        about=_front_matter(title, [pipeline.tokeniser.lang, pipeline.target], record, license),
        title=title,
        langs=f"{pipeline.tokeniser.lang} to {pipeline.target}",
        version=__version__,
        model=opened,
        data=data,
        search=f"By default, {search}.",
        scores=_scores(record, half) if record else "There is no record of scores.",
        weights="fp16" if half else "fp32",
    )


HUB_METRICS = {"tokenised": "bleu", "sacrebleu": "sacrebleu", "chrf": "chrf"}
"""The names that the Hugging Face Hub has for metrics of translations."""


def _front_matter(title: str, langs: list[str], record: Optional[dict[str, Any]], license: Optional[str]) -> str:
    """What the Hugging Face Hub reads of a card, as YAML."""
    about = {"language": langs, "license": license, "pipeline_tag": "translation", "tags": ["translation", "fairseq"]}
    task = {"type": "translation", "name": f"Translation {'-'.join(langs)}"}
    results = [
        {"task": task, "dataset": {"type": test_set, "name": test_set}, "metrics": metrics}
        for test_set, scores in (record["scores"] if record else {}).items()
        if (metrics := _metrics(scores))
    ]
    if results:
        about["model-index"] = [{"name": title, "results": results}]
    given = {key: value for key, value in about.items() if value is not None}
    return yaml.dump(given, Dumper=_WithoutAnchors, sort_keys=False, allow_unicode=True)


def _metrics(scores: dict[str, Any]) -> list[dict[str, Any]]:
    """The scores of a test set that the Hub knows."""
    return [
        {
            "type": kind,
            "value": round(value, 2),
            "name": f"{METRICS[name].label} {METRICS[name].recorded_signature(scores)}".rstrip(),
        }
        for name, kind in HUB_METRICS.items()
        if (value := METRICS[name].value(scores)) is not None
    ]


class _WithoutAnchors(yaml.SafeDumper):
    """Writes a value that occurs twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whatever it is."""
        return True


def _scores(record: dict[str, Any], half: bool) -> str:
    rows = [
        (test_set, metric.label, f"{value:.2f}", f"`{metric.recorded_signature(scores) or '-'}`")
        for test_set, scores in record["scores"].items()
        for metric in METRICS.values()
        if (value := metric.value(scores)) is not None
    ]
    seeds, weights = " and ".join(map(str, record["seeds"])), "; these are scores of its fp32 weights" if half else ""
    flags = f", with {shlex.join(record['flags'])}" if record["flags"] else ""
    kind = "One training" if record["scale"] == "full" else "A rehearsal (`--scale small`)"
    trained = f"{kind}, with seed {seeds}, in {record['precision']}{flags}{weights}."
    return f"{trained}\n\n{markdown.table(('test set', 'metric', 'value', 'signature'), rows)}"
