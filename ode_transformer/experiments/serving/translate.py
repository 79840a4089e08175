"""Translation of files of raw text, line by line."""

import contextlib
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple, Optional, TextIO

from ...errors import OdeTransformerError
from ...files import atomic_file
from ..text.lines import decode_lines, read_lines
from .opening import load
from .translator import Translator, check_sentence

BUFFER = 10_000  # lines that are read and sorted by length at a time
STANDARD_INPUT = "-"


def translate(
    model: str,
    files: Sequence[str] = (),
    *,
    more: Sequence[str] = (),
    data: Optional[Path] = None,
    output: Optional[Path] = None,
    beam: Optional[int] = None,
    lenpen: Optional[float] = None,
    max_len_a: Optional[float] = None,
    max_len_b: Optional[int] = None,
    nbest: int = 1,
    sampling: bool = False,
    sampling_topk: Optional[int] = None,
    sampling_topp: Optional[float] = None,
    seed: Optional[int] = None,
    scores: bool = False,
    json: bool = False,
    batch_size: Optional[int] = None,
    buffer: Optional[int] = None,
    cpu: bool = False,
    fp16: bool = False,
) -> None:
    """Translate raw text.

    Args:
        model: the folder of a run, a checkpoint, a bundle, or an exported model.
        files: raw text, one sentence per line; - is standard input (default: -).
        more: another model for an ensemble; may be repeated.
        data: the folder of the model's binarized data (default: that of its run, or the model's folder).
        output: the file to write, once all is translated (default: print).
        beam: beam size (default: the recipe's, or 5).
        lenpen: length penalty; below 1 favors short translations (default: the recipe's, or 1).
        max_len_a: a translation has at most A S + B subword units, where S is the length of the longest sentence of its
            batch (default: the recipe's, or 0).
        max_len_b: see --max-len-a (default: the recipe's, or 200).
        nbest: translations per sentence; above 1, each follows the number of its line in the file, and a tab.
        sampling: draw --nbest translations at random, unit by unit, instead of searching for the best.
        sampling_topk: draw from the N most probable units.
        sampling_topp: draw from the fewest units of probability P in all.
        seed: seed of --sampling (default: a new one every time).
        scores: print the score (base 2, as fairseq's) and a tab before each translation.
        json: one JSON object per line, with source, texts and scores.
        batch_size: sentences per batch (default: the recipe's, or 128).
        buffer: lines to read and sort by length before translating (default: 10,000; 1 in a terminal).
        cpu: do not use a GPU.
        fp16: on a GPU, translate in fp16.
    """
    for file in files:
        if file != STANDARD_INPUT and not Path(file).exists():
            raise OdeTransformerError(f"{file}: no such file")
    search = {"beam": beam, "lenpen": lenpen, "max_len_a": max_len_a, "max_len_b": max_len_b, "nbest": nbest}
    if sampling:
        search |= {"sampling": True, "sampling_topk": sampling_topk, "sampling_topp": sampling_topp}
    elif (sampling_topk, sampling_topp, seed) != (None, None, None):
        raise OdeTransformerError("--sampling-topk, --sampling-topp, --seed: have no meaning without --sampling")
    with atomic_file(output) if output else contextlib.nullcontext(sys.stdout) as file:
        translator = load(model, *more, data=data, device="cpu" if cpu else None)
        if fp16:
            translator.half()
        translator.batch_size = batch_size or translator.batch_size
        if seed is not None and "sampling" in translator.backend.options:
            import torch

            torch.manual_seed(seed)
        _translate(translator, files or [STANDARD_INPUT], file, buffer, scores, json, search)


def _translate(
    translator: Translator, files: Sequence[str], output: TextIO, buffer: Optional[int], scores: bool, json: bool,
    search: Mapping[str, Any],
) -> None:  # fmt: skip
    """Translate files, all of which are checked before the first line is translated, and streams."""
    from tqdm import tqdm

    # Standard input and pipes such as /dev/fd/63 can be read only once.
    for line in _numbered([file for file in files if file != STANDARD_INPUT and Path(file).is_file()]):
        check_sentence(line.name, line.text)
    prompt = list(files) == [STANDARD_INPUT] and sys.stdin.isatty()
    if prompt:
        print(f"{translator!r}\none sentence per line; Ctrl-D ends", file=sys.stderr)
    lines = _numbered(files)
    while chunk := list(itertools.islice(lines, buffer or (1 if prompt else BUFFER))):
        names, sentences = [line.name for line in chunk], [line.text for line in chunk]
        with tqdm(total=len(chunk), unit=" lines", disable=prompt or None, file=sys.stderr, leave=False) as bar:
            found = translator.hypotheses(sentences, names=names, progress=bar.update, **search)
        for line, best in zip(chunk, found, strict=True):
            if json:
                about = {"file": line.file, "line": line.number, "source": line.text}
                translations = [{"text": h.text, "score": h.score} for h in best]
                print(dumps({**about, "translations": translations}, ensure_ascii=False), file=output)
                continue
            for h in best:
                before = [str(line.number)] * (len(best) > 1) + [f"{h.score:.4f}"] * scores
                print(*before, h.text, sep="\t", file=output)
        output.flush()


class Line(NamedTuple):
    """A line of a file, or of standard input, without its line ending."""

    file: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """The name of the line in messages."""
        return f"{'standard input' if self.file == STANDARD_INPUT else self.file}, line {self.number}"


def _numbered(files: Sequence[str]) -> Iterator[Line]:
    for file in files:
        lines = decode_lines(sys.stdin.buffer, "standard input") if file == STANDARD_INPUT else read_lines(Path(file))
        for number, text in enumerate(lines, 1):
            yield Line(file, number, text.removesuffix("\r"))
