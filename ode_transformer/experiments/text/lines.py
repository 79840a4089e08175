"""Reading and writing the lines of one file or of parallel files."""

import codecs
import gzip
import itertools
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from ...errors import OdeTransformerError, counted
from ...files import atomic_file, write_lines

LONGEST = 2**26  # maximum bytes of a line; a compressed file of some kilobytes can hold lines of any length
SHOWN = 5  # line numbers named in a message
PERHAPS = "perhaps it is UTF-16, Latin-1 or Windows-1252; iconv -f WINDOWS-1252 -t UTF-8 converts the last two"
BETWEEN = 10_000  # lines between updates of a progress bar


class TextError(OdeTransformerError):
    """Text that cannot be used; the message names the file, the line or count, and what is expected."""


class Faults:
    """The count and the first line numbers of each fault of lines or pairs, in little memory for any text."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, list[int]] = {}

    def add(self, fault: str, number: int) -> None:
        """Count a line or pair; ``fault`` names one that has it, such as "pair with an empty side"."""
        self.counts[fault] += 1
        if self.counts[fault] <= SHOWN:
            self.first.setdefault(fault, []).append(number)

    def report(self, files: str | Path, fate: str) -> None:
        """Print a warning for each fault; ``fate`` says what became of the lines or pairs."""
        for fault, count in self.counts.items():
            noun, _, rest = fault.partition(" ")
            shown = ", ".join(map(str, self.first[fault])) + (", ..." if count > SHOWN else "")
            at = "line" if count == 1 else "lines"
            print(f"warning: {files}: {counted(count, noun)} {rest} ({at} {shown}): {fate}", file=sys.stderr)


def watched(lines: Iterable[str], has_fault: Callable[[str], bool], file: Path, fault: str, fate: str) -> Iterator[str]:
    """Yield the lines of a file, then warn of those that have a fault; see :class:`Faults`."""
    faults = Faults()
    for number, line in enumerate(lines, 1):
        if has_fault(line):
            faults.add(fault, number)
        yield line
    faults.report(file, fate)


def read_lines(path: Path, errors: str = "strict", bar: str = "") -> Iterator[str]:
    """Yield the lines of a UTF-8 file, plain or ``.gz``. Only line feeds end a line, so that all tools count alike.

    With ``surrogateescape`` for ``errors`` also lines that hold a NUL, or invalid bytes, which become surrogates, are
    read; all else that is no text is a ``TextError``. ``bar`` names a progress bar.
    """
    try:
        with path.open("rb") as stored:
            lines = decode_lines(gzip.GzipFile(fileobj=stored) if path.suffix == ".gz" else stored, path, errors)
            yield from _with_bar(lines, stored, bar) if bar else lines
    except OSError as error:
        raise TextError(f"{path}: {error.strerror or error}") from error


def read_all(path: str | Path) -> list[str]:
    """Return the lines of a UTF-8 file, which must not be empty."""
    lines = list(read_lines(Path(path)))
    if not lines:
        raise OdeTransformerError(f"{path}: the file is empty")
    return lines


def lines_of(path: str | Path, count: int, source: str | Path) -> list[str]:
    """Return the lines of a file as :func:`read_all` does; there must be ``count``, one per sentence of ``source``."""
    found = read_all(path)
    if len(found) != count:
        raise OdeTransformerError(
            f"{path} has {counted(len(found), 'line')}, must have {count}, one per sentence of {source}"
        )
    return found


def _with_bar(lines: Iterable[str], stored: IO[bytes], name: str) -> Iterator[str]:
    """Show progress by the bytes that have been read: counting the lines would take another pass."""
    from tqdm import tqdm

    size = os.fstat(stored.fileno()).st_size
    with tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None, file=sys.stderr) as shown:
        for number, line in enumerate(lines):
            yield line
            if number % BETWEEN == 0:
                shown.update(stored.tell() - shown.n)
        shown.update(stored.tell() - shown.n)


def decode_lines(file: IO[bytes], name: str | Path, errors: str = "strict") -> Iterator[str]:
    """Yield the lines of an open file, such as standard input, as :func:`read_lines` does; ``name`` is for messages."""
    number = 0
    try:
        for line in iter(lambda: file.readline(LONGEST + 1), b""):
            number += 1
            if len(line) > LONGEST:
                raise TextError(f"{name}: line {number} has more than {LONGEST:,} bytes; is it text?")
            if number == 1:
                if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise TextError(f"{name}: is UTF-16, must be UTF-8; iconv -f UTF-16 -t UTF-8 converts it")
                line = line.removeprefix(codecs.BOM_UTF8)  # it would become part of the first word
                if b"\r" in line.rstrip(b"\r\n") and not line.endswith(b"\n"):
                    raise TextError(f"{name}: its lines end in carriage returns alone; tr '\\r' '\\n' converts them")
            if b"\0" in line and errors == "strict":
                raise TextError(f"{name}: line {number} holds a NUL, must be UTF-8 text; {PERHAPS}")
            yield line.decode("utf-8", errors).removesuffix("\n")
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x}: {error.reason}"
        raise TextError(f"{name}: line {number} is not UTF-8 ({found}); {PERHAPS}") from error
    except (EOFError, zlib.error) as error:
        raise TextError(f"{name}: cut off or damaged after line {number}") from error


def count_lines(path: Path) -> int:
    """Return the number of lines of a file; raises the errors of :func:`read_lines`."""
    return sum(1 for _ in read_lines(path))


@contextmanager
def pair_writer(prefix: Path, langs: Sequence[str]) -> Iterator[Callable[[Sequence[str]], None]]:
    """Open parallel text, ``PREFIX.LANG``, by :func:`atomic_file`; yield a function that writes a pair of lines."""
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_file(f"{prefix}.{lang}")) for lang in langs]

        def write(pair: Sequence[str]) -> None:
            for file, line in zip(files, pair, strict=True):
                file.write(f"{line}\n")

        yield write


def read_pair(prefix: Path, langs: Sequence[str], bar: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pairs of parallel text, ``PREFIX.LANG``; ``bar`` is as in :func:`read_lines`."""
    source, target = (Path(f"{prefix}.{lang}") for lang in langs)
    yield from parallel(source, read_lines(source, bar=bar), target, read_lines(target))


def parallel(source: Path, lines: Iterator[str], target: Path, others: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of two texts in pairs, of which there must be one; ``source`` and ``target`` name the texts."""
    number = 0
    for number, (line, other) in enumerate(itertools.zip_longest(lines, others), 1):
        if line is None or other is None:
            more = number + sum(1 for _ in (others if line is None else lines))
            sizes = (number - 1, more) if line is None else (more, number - 1)
            raise TextError(f"{source} has {counted(sizes[0], 'line')}, {target} has {sizes[1]}: must be parallel")
        yield line, other
    if not number:
        raise TextError(f"{source} and {target} are empty")


def write_splits(
    splits: Mapping[str, Iterable[Sequence[str]]], columns: Sequence[str], output_dir: Path
) -> dict[str, int]:
    """Write ``SPLIT.COLUMN`` of all splits and columns; return the number of examples by split.

    Args:
        splits: the examples by split, each with a text for every column.
        columns: the names of the columns, such as ``input0`` and ``label``.
        output_dir: the folder for the files.
    """
    counts = {}
    for name, examples in splits.items():
        rows = list(examples)
        for i, column in enumerate(columns):
            write_lines(output_dir / f"{name}.{column}", (row[i] for row in rows))
        counts[name] = len(rows)
    return counts
