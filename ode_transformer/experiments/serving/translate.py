"""Translation of files of raw text, line by line."""

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, TextIO

from ...errors import OdeTransformerError
from ..text.lines import decode_lines, read_lines
from .translator import Hypothesis, Translator, check_sentence

BUFFER = 10_000  # lines that are read and sorted by length at a time
STANDARD_INPUT = "-"


def translate_files(
    translator: Translator,
    files: Sequence[str],
    output: TextIO,
    *,
    buffer: Optional[int] = None,
    scores: bool = False,
    as_json: bool = False,
    **search: Any,
) -> None:
    """Translate files, one sentence per line, and write the hypotheses of each.

    All files are checked before translation begins. A stream can be read only once: the lines before an invalid one are
    translated and written before the error is raised.

    Args:
        translator: the model.
        files: files of raw text; ``-`` is standard input.
        output: the file for translations, one per line; with ``nbest`` above 1, after the number of their line.
        buffer: the number of lines to read before translating them; by default 1 at a prompt, elsewhere ``BUFFER``.
        scores: whether to write a score and a tab before each translation.
        as_json: whether to write one JSON object per line of the files, with source, texts and scores.
        search: the other arguments of :meth:`.Translator.hypotheses`.

    Raises:
        OdeTransformerError: a line cannot be read or translated, or the search is invalid.
    """
    from tqdm import tqdm

    if STANDARD_INPUT in files and sys.stdin is None:
        raise OdeTransformerError("standard input is closed; name a file")
    # Standard input and pipes such as /dev/fd/63 can be read only once.
    for line in _numbered([file for file in files if file != STANDARD_INPUT and Path(file).is_file()]):
        check_sentence(line.name, line.text)
    prompt = list(files) == [STANDARD_INPUT] and sys.stdin.isatty()
    if prompt:
        print(f"{translator!r}\none sentence per line; Ctrl-D ends", file=sys.stderr)
    numbered = (search.get("nbest") or 1) > 1
    lines = _numbered(files)
    while True:
        chunk, error = _chunk(lines, buffer or (1 if prompt else BUFFER))
        names, sentences = [line.name for line in chunk], [line.text for line in chunk]
        with tqdm(total=len(chunk), unit=" lines", disable=prompt or None, file=sys.stderr, leave=False) as bar:
            found = translator.hypotheses(sentences, names=names, progress=bar.update, **search)
        for line, hypotheses in zip(chunk, found, strict=True):
            for row in [_json(line, hypotheses)] if as_json else _rows(line, hypotheses, numbered, scores):
                print(row, file=output)
        output.flush()
        if error:
            raise error
        if not chunk:
            return


class Line(NamedTuple):
    """A line of a file, or of standard input, without its line ending."""

    file: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """The name of the line in messages."""
        return f"{'standard input' if self.file == STANDARD_INPUT else self.file}, line {self.number}"


def _chunk(lines: Iterator[Line], count: int) -> tuple[list[Line], Optional[OdeTransformerError]]:
    """Return the next valid lines, ``count`` at most, and the error of the line after them, or None."""
    found: list[Line] = []
    try:
        for line in itertools.islice(lines, count):
            check_sentence(line.name, line.text)
            found.append(line)
    except OdeTransformerError as error:
        return found, error
    return found, None


def _numbered(files: Sequence[str]) -> Iterator[Line]:
    for file in files:
        lines = decode_lines(sys.stdin.buffer, "standard input") if file == STANDARD_INPUT else read_lines(Path(file))
        for number, text in enumerate(lines, 1):
            yield Line(file, number, text.removesuffix("\r"))


def _json(line: Line, hypotheses: Sequence[Hypothesis]) -> str:
    found = [{"text": h.text, "score": h.score} for h in hypotheses]
    about = {"file": line.file, "line": line.number, "source": line.text}
    return json.dumps({**about, "translations": found}, ensure_ascii=False)


def _rows(line: Line, hypotheses: Sequence[Hypothesis], numbered: bool, scores: bool) -> Iterator[str]:
    for hypothesis in hypotheses:
        before = [str(line.number)] * numbered + [f"{hypothesis.score:.4f}"] * scores
        yield "\t".join([*before, hypothesis.text])
