"""Sentences per second of translators: runs, bundles and exported models, on the same raw text.

In every round, all translators take turns with the same number of threads, batch size and search.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Optional

import torch
from sacrebleu.metrics import BLEU

from ... import markdown
from ...errors import OdeTransformerError
from ..serving.opening import load
from ..text.lines import read_lines
from .turns import back_and_forth, median_and_quartiles, seconds, speed


def measure(
    models: Sequence[str],
    text: Path,
    reference: Optional[Path] = None,
    *,
    batch: int = 64,
    beam: Optional[int] = None,
    rounds: int = 3,
    lenpen: Optional[float] = None,
) -> dict[str, Any]:
    """Return the record of translators on a CPU; its ``systems`` are by the first model, and then by model.

    Args:
        models: runs, checkpoints, bundles or exported models.
        text: raw text, one sentence per line.
        reference: reference translations of --text, to print BLEU.
        batch: sentences per batch.
        beam: beam size (default: the recipe's).
        rounds: timed rounds, after one of warm-up.
        lenpen: length penalty (default: the recipe's).
    """
    sentences, references = (path and list(read_lines(path)) for path in (text, reference))
    if not sentences:
        raise OdeTransformerError("--text: has no sentences")
    if references is not None and len(references) != len(sentences):
        raise OdeTransformerError(f"--reference: has {len(references)} lines, must have the {len(sentences)} of --text")
    threads = torch.get_num_threads()
    translators = {model: load(model, device="cpu") for model in models}
    torch.set_num_threads(threads)  # CTranslate2's workers of one thread have set OpenMP's number of threads
    times: dict[str, list[float]] = {model: [] for model in models}
    translations: dict[str, list[str]] = {}

    def run(model: str) -> None:
        translations[model] = translators[model].translate(sentences, beam=beam, lenpen=lenpen)

    for model, translator in translators.items():
        translator.batch_size = batch
        run(model)
    for model in back_and_forth(translators, rounds):
        times[model].append(seconds(partial(run, model), "cpu"))
    first, found = models[0], {}
    for model, elapsed in times.items():
        found[model] = {
            "sentences_per_second": round(len(sentences) / statistics.median(elapsed), 2),
            "speed": speed(times[first], elapsed),
            "same": sum(a == b for a, b in zip(translations[model], translations[first], strict=True)),
        }
        if references is not None:
            bleu = BLEU(trg_lang=translators[model].pipeline.target)
            found[model]["sacrebleu"] = round(bleu.corpus_score(translations[model], [references]).score, 2)
    setting = {"sentences": len(sentences), "batch": batch, "rounds": rounds, "beam": beam, "lenpen": lenpen}
    return {"setting": {k: v for k, v in setting.items() if v is not None}, "systems": {first: found}}


def table(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown; in records of earlier versions, each model's baseline is fairseq's generator."""
    setting, hardware = record["setting"], record["hardware"]
    beam = f"beam {setting['beam']}, " if "beam" in setting else ""
    title = (
        f"**serving**: {setting['sentences']} sentences, batches of {setting['batch']}, {beam}"
        f"{setting['rounds']} rounds in turns, {hardware['threads']} CPU threads ({hardware['processor']})"
    )
    rows, baseline, kind = [], "", "tokenized BLEU"
    for model, engines in record["systems"].items():
        baseline = next(iter(engines))
        for name, found in engines.items():
            if "refused" in found:
                rows.append((model, name, found["refused"], "", "", ""))
                continue
            same, sentences = (
                found.get("same", found.get("same_as_fairseq")),
                found.get("sentences", setting["sentences"]),
            )
            bleu = found.get("sacrebleu", found.get("bleu"))
            kind = "sacreBLEU" if "sacrebleu" in found else kind
            cells = (
                f"{found['sentences_per_second']:.1f}",
                "1" if name == baseline else median_and_quartiles(found["speed"]),
                f"{same} of {sentences}",
                "" if bleu is None else f"{bleu:.2f}",
            )
            rows.append((model, name, *cells))
    head = ("model", "engine", "sentences/s", f"speed / {baseline}", f"same as {baseline}", kind)
    return f"{title}\n\n{markdown.table(head, rows)}"
