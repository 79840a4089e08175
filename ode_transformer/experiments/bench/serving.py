"""Sentences per second of fairseq's generator, of ``ode-transformer translate`` and of exported models, and their BLEU:
one run, the same sentences.

Every engine takes its turn in every round, with the same number of threads, batches and beam, so that a slow minute
slows all of them. A model without training is made to translate into as many symbols as its longest sentence has; a
trained one translates a test set. BLEU is of tokens, subword units joined, against the target of the binarized set.
``translate`` alone begins with raw text, and makes units of it within its time.
"""

import copy
import itertools
import math
import shlex
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import data_utils
from fairseq.models import build_model
from fairseq.sequence_generator import SequenceGenerator

from ...checkpoints.standalone import task
from ...errors import OdeTransformerError
from .. import markdown
from ..metrics.bleu import multi_bleu
from ..serving.export import ExportError, Search, describe, load_module, open_exported
from ..serving.export.command import compare, export, sentences, write_description
from ..serving.export.trained import Trained, padded
from ..serving.trained_translator import TrainedTranslator, find
from ..text.binarised import check_data
from ..text.joining import JOIN
from ..text.lines import read_lines
from .contest import Setting, System, configure, median_and_quartiles, seconds, speed

RAW = "raw"
ENGINES = {
    "fairseq": ("", None),
    "translate": (RAW, None),
    "CTranslate2": ("ctranslate2", None),
    "CTranslate2 int8": ("ctranslate2", "int8"),
    "ONNX": ("onnx", None),
    "ONNX int8": ("onnx", "int8"),
}
"""Name -> format of the export and its quantization; ``RAW`` is of raw text, for models that have it."""

SYSTEMS = {
    f"{name}, {size}": words
    for size, macaron, suffix in (("tiny", "macaron_tiny", "_tiny"), ("base", "macaron_wmt_en_de", ""))
    for name, words in (
        ("stock", f"floater_{size} --position-encoder none"),
        ("Macaron", macaron),
        ("ode_residual without history", f"ode_residual{suffix} --encoder-history none --decoder-history none"),
        ("RK2 learnable", f"rk2_learnable{suffix}"),
        ("FLOATER", f"floater_{size}"),
    )
}
"""Measured by default: architectures with their flags, by their names in tables."""

Record = dict[str, Any]

Translate = Callable[[Sequence[Sequence[str]]], list[list[str]]]
"""Sentences of a batch, as subword units -> their translations."""

OfRows = Callable[[Sequence[int]], list[list[str]]]
"""Numbers of the sentences of a batch -> their translations, as symbols."""


def untrained(words: str, flags: Sequence[str], symbols: int) -> Trained:
    """An untrained model of an architecture, which flags may follow, with more flags."""
    arch, *own = shlex.split(words)
    torch.manual_seed(1)
    its_task = task(symbols)
    model = build_model(configure(System(arch, (*own, *flags)), Setting()).model, its_task).eval()
    dictionaries = its_task.source_dictionary, its_task.target_dictionary
    return Trained(words, model, ("source", "target"), dictionaries, ())


def test_set(trained: Trained, data: Path, subset: str) -> tuple[list[list[str]], list[list[str]]]:
    """The sources and references of a binarized test set, as subword units.

    Raises:
        ExportError: there is no such set.
    """
    pair, sides = "-".join(trained.languages), []
    check_data(data, subset)
    for language, dictionary in zip(trained.languages, trained.dictionaries, strict=True):
        dataset = data_utils.load_indexed_dataset(str(data / f"{subset}.{pair}.{language}"), dictionary)
        if dataset is None:
            raise ExportError(f"{data}: has no binarized {subset} of {pair}")
        sides.append([[dictionary[i] for i in row[:-1]] for row in dataset])
    return sides[0], sides[1]


def by_fairseq(trained: Trained, search: Search) -> Translate:
    """Translate a batch as ``fairseq-generate`` does."""
    model, (source, target) = copy.deepcopy(trained.model), trained.dictionaries
    model.make_generation_fast_(beamable_mm_beam_size=search.beam, need_attn=False)
    generator = SequenceGenerator(
        [model],
        target,
        beam_size=search.beam,
        max_len_a=search.max_len_a,
        max_len_b=search.max_len_b,
        min_len=search.min_len,
        len_penalty=search.lenpen,
    )

    def translate(batch: Sequence[Sequence[str]]) -> list[list[str]]:
        rows = [[*(source.index(symbol) for symbol in sentence), source.eos()] for sentence in batch]
        tokens = padded(rows, source.pad(), left=True)
        lengths = tokens.ne(source.pad()).sum(1)
        found = generator.generate([model], {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})
        return [[target[i] for i in hypotheses[0]["tokens"][:-1]] for hypotheses in found]

    return translate


def of_raw_text(model: str, data: Optional[str], subset: str, search: Search, batch: int) -> OfRows:
    """What ``ode-transformer translate`` does with sentences of a test set, from raw text to units.

    Raises:
        OdeTransformerError: it cannot translate with the model, or there is no raw text of the test set.
    """
    origin = find(model, data)
    translator = TrainedTranslator([origin], "cpu")
    translator.batch_size = batch
    lines = list(read_lines(origin.data / "raw" / f"{subset}.{translator.pipeline.tokeniser.lang}"))
    asked = asdict(search)

    def translate(rows: Sequence[int]) -> list[list[str]]:
        return [best.units.split() for best, *_ in translator.hypotheses([lines[i] for i in rows], **asked)]

    return translate


def engines(
    trained: Trained,
    sources: Sequence[Sequence[str]],
    search: Search,
    folder: Path,
    raw: Optional[Callable[[], OfRows]],
) -> Iterator[tuple[str, Optional[OfRows], Record]]:
    """The name of every engine, its function that translates, and the check of its export; or why there is none."""
    threads, exports = torch.get_num_threads(), {}

    def of_rows(translate: Translate) -> OfRows:
        return lambda rows: translate([sources[i] for i in rows])

    for name, (format, quantisation) in ENGINES.items():
        if not format:
            yield name, of_rows(by_fairseq(trained, search)), {}
            continue
        if format == RAW:
            if raw is not None:
                try:
                    yield name, raw(), {}
                except (OdeTransformerError, OSError) as error:
                    yield name, None, {"refused": str(error)}
            continue
        try:
            if quantisation is None:
                exports[format] = folder / name
                check = export(trained, format, folder / name)["check"]
            else:  # made from the first export, because tracing a model takes minutes
                shutil.copytree(exports[format], folder / name)
                load_module(format, "writer").quantise(trained, folder / name)
                write_description(folder / name, describe(folder / name))
                check = compare(trained, open_exported(folder / name), math.inf)
        except (ExportError, FileNotFoundError) as error:
            yield name, None, {"refused": str(error) if quantisation is None else "as in single precision"}
            continue
        exported = open_exported(folder / name, threads)
        torch.set_num_threads(threads)  # CTranslate2's workers of one thread have set OpenMP's number

        def translate(batch: Sequence[Sequence[str]], exported: Any = exported) -> list[list[str]]:
            return [hypotheses[0].tokens for hypotheses in exported.translate(batch, search)]

        yield name, of_rows(translate), {"check": check}


def measure(
    trained: Trained,
    sources: Sequence[Sequence[str]],
    search: Search,
    batch: int,
    rounds: int,
    references: Optional[Sequence[Sequence[str]]] = None,
    raw: Optional[Callable[[], OfRows]] = None,
) -> dict[str, Any]:
    """Time all engines on some sentences.

    Args:
        trained: the model.
        sources: the sentences, as symbols.
        search: of all engines.
        batch: sentences of a batch, which are of similar lengths.
        rounds: that are timed, after one that warms up.
        references: of the sentences, for BLEU.
        raw: makes what translates them from raw text.

    Returns:
        a record of each engine by name: ``sentences_per_second``, ``speed`` against fairseq's (:func:`.contest.speed`),
        the ``check`` of its export, and ``bleu`` where there are references.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    batches = [order[i : i + batch] for i in range(0, len(order), batch)]
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        translators = {}
        with_files = _with_dictionaries(trained, Path(folder))
        for name, translate, about in engines(with_files, sources, search, Path(folder), raw):
            found[name] = about
            if translate is not None:
                translators[name] = translate
        times: dict[str, list[float]] = {name: [] for name in translators}
        translations: dict[str, dict[int, list[str]]] = {name: {} for name in translators}
        for round_ in range(-1, rounds):
            for name in list(translators)[:: -1 if round_ % 2 else 1]:

                def run(name: str = name) -> None:
                    for rows in batches:
                        translations[name].update(zip(rows, translators[name](rows), strict=True))

                elapsed = seconds(run, "cpu")
                if round_ >= 0:
                    times[name].append(elapsed)
    pieces = "sentencepiece.model" in {file.name for file in trained.files}

    def words(symbols: Sequence[str]) -> str:
        return JOIN["sentencepiece" if pieces else "subword_nmt"](" ".join(symbols))

    for name, elapsed in times.items():
        found[name]["sentences"] = len(sources)
        found[name]["sentences_per_second"] = round(len(sources) / statistics.median(elapsed), 2)
        found[name]["speed"] = speed(times["fairseq"], elapsed)
        lines = [words(translations[name][i]) for i in range(len(sources))]
        if references is not None:
            found[name]["bleu"] = round(multi_bleu(lines, [words(reference) for reference in references])["bleu"], 2)
        theirs = (words(translations["fairseq"][i]) for i in range(len(sources)))
        found[name]["same_as_fairseq"] = sum(a == b for a, b in zip(lines, theirs, strict=True))
    return found


def _with_dictionaries(trained: Trained, folder: Path) -> Trained:
    if trained.files:
        return trained
    files = [folder / f"dict.{language}.txt" for language in trained.languages]
    for file, dictionary in zip(files, trained.dictionaries, strict=True):
        dictionary.save(str(file))
    return Trained(trained.name, trained.model, trained.languages, trained.dictionaries, tuple(files))


def random_sources(trained: Trained, count: int, tokens: int, shortest: int) -> list[list[str]]:
    """Random sentences of ``shortest`` to ``tokens`` subword units."""
    lengths = itertools.islice(itertools.cycle(range(shortest, tokens + 1)), count)
    return sentences(trained.dictionaries[0].symbols, list(lengths), seed=1)


def table(record: dict[str, Any]) -> str:
    """A record as Markdown."""
    setting, hardware = record["setting"], record["hardware"]
    of = f" of subset {setting['subset']}" if setting.get("subset") else ""
    title = (
        f"**serving**: {setting['sentences']} sentences{of}, batches of {setting['batch']}, beam {setting['beam']}, "
        f"{setting['rounds']} rounds in turns, {hardware['threads']} CPU threads ({hardware['processor']})"
    )
    rows = []
    for model, of_engines in record["systems"].items():
        for name, found in of_engines.items():
            if "refused" in found:
                rows.append((model, name, found["refused"], "", "", ""))
                continue
            cells = (
                f"{found['sentences_per_second']:.1f}",
                "1" if name == "fairseq" else median_and_quartiles(found["speed"]),
                f"{found['same_as_fairseq']} of {found.get('sentences', setting['sentences'])}",
                f"{found['bleu']:.2f}" if "bleu" in found else "",
            )
            rows.append((model, name, *cells))
    head = ("model", "engine", "sentences/s", "speed / fairseq", "same as fairseq", "tokenized BLEU")
    return f"{title}\n\n{markdown.table(head, rows)}"
