"""``ode-transformer text``: the steps of data preparation, such as checks, tokenization, cleaning and the manifest.

The scripts in ``data-prep`` call it. It imports neither torch nor fairseq. Every sub-command writes only the files that
it is told to write.
"""

import argparse
import bisect
import codecs
import gzip
import hashlib
import importlib
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import threading
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, TextIO
from unicodedata import category

import numpy as np

from ..errors import OdeTransformerError
from ..files import sha256, whole, write_json, write_lines
from . import segmentation

PACKAGES = ("fairseq-fixed", "sacremoses", "subword-nmt", "sentencepiece")
SHOWN = 5  # line numbers named in a message
CHUNK = 10_000  # lines that a process works on at a time
NUMBERS = {3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32}  # by fairseq's codes of the types
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # symbols of every dictionary, which its file leaves out
INDEX = struct.Struct("<9sQBQ")  # the head of fairseq's index: magic, version, code of NUMBERS, number of sentences
MAGIC = b"MMIDIDX\0\0"
KNOWN_WORDS = 1_000_000  # words whose segmentation a process remembers
VERSION = "3"  # the version of the prepared text; data of another version are refused


class TextError(OdeTransformerError):
    """Text that cannot be used; the message names the file, the line or count, and what is expected."""


def read_lines(path: Path, errors: str = "strict", bar: str = "") -> Iterator[str]:
    """The lines of a UTF-8 file, plain or ``.gz``. Only line feeds end a line, so that all tools count alike.

    Args:
        path: the file.
        errors: ``surrogateescape`` also reads lines that are not UTF-8, with surrogates for the invalid bytes.
        bar: the name of a progress bar on a terminal, which shows how much of the file is left; empty for none.

    Raises:
        TextError: there is no such file, or it is truncated, damaged or not UTF-8; the message names the line.
    """
    try:
        with path.open("rb") as stored:
            lines = decode_lines(_unpacked(path, stored), path, errors)
            yield from _with_bar(lines, stored, bar) if bar else lines
    except OSError as error:
        raise TextError(f"{path}: {error.strerror or error}") from error


def _unpacked(path: Path, stored: IO[bytes]) -> IO[bytes]:
    return gzip.open(stored) if path.suffix == ".gz" else stored


def _with_bar(lines: Iterable[str], stored: IO[bytes], name: str) -> Iterator[str]:
    """Show how much of a file has been read; its bytes say so without a pass that counts its lines."""
    from tqdm import tqdm

    if not stored.seekable():  # a pipe
        yield from lines
        return
    size = os.fstat(stored.fileno()).st_size
    with tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None, file=sys.stderr) as shown:
        for number, line in enumerate(lines):
            yield line
            if number % CHUNK == 0:
                shown.update(stored.tell() - shown.n)
        shown.update(stored.tell() - shown.n)


def decode_lines(file: Iterable[bytes], name: str | Path, errors: str = "strict") -> Iterator[str]:
    """As :func:`read_lines`, for a file that is open already, such as standard input; ``name`` is for messages."""
    number = 0
    try:
        for line in file:
            number += 1
            if number == 1:  # a byte order mark would become part of the first word
                line = line.removeprefix(codecs.BOM_UTF8)
            yield line.decode("utf-8", errors).removesuffix("\n")
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x}: {error.reason}"
        raise TextError(f"{name}: line {number} is not UTF-8 ({found})") from error
    except (EOFError, zlib.error) as error:
        raise TextError(f"{name}: cut off or damaged after line {number}") from error


def count_lines(path: Path) -> int:
    """The number of lines of a file; raises the errors of :func:`read_lines`."""
    return sum(1 for _ in read_lines(path))


def _create(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def read_pair(prefix: Path, langs: Sequence[str], bar: str = "") -> Iterator[tuple[str, str]]:
    """The pairs of parallel text, ``PREFIX.LANG``; with a progress bar if ``bar``, as in :func:`read_lines`.

    Raises:
        TextError: a file is missing, empty or not UTF-8, or the numbers of lines differ; the message names both files.
    """
    source, target = (Path(f"{prefix}.{lang}") for lang in langs)
    yield from _parallel(source, read_lines(source, bar=bar), target, read_lines(target))


def _parallel(source: Path, lines: Iterator[str], target: Path, others: Iterator[str]) -> Iterator[tuple[str, str]]:
    number = 0
    for number, (line, other) in enumerate(itertools.zip_longest(lines, others), 1):
        if line is None or other is None:
            more = number + sum(1 for _ in (others if line is None else lines))
            sizes = (number - 1, more) if line is None else (more, number - 1)
            raise TextError(f"{source} has {sizes[0]} lines, {target} has {sizes[1]}: must be parallel")
        yield line, other
    if not number:
        raise TextError(f"{source} and {target} are empty")


@dataclass(frozen=True)
class Limits:
    """The limits of cleaning, as in Moses' ``clean-corpus-n.perl``, which drops pairs that are empty, too long on a
    side, or whose sides differ too much in length."""

    max_tokens: int
    ratio: float | None = None

    def fault(self, pair: tuple[str, str]) -> str | None:
        """What is wrong with a pair, as the end of a sentence that begins with "pairs", or None."""
        longer, shorter = sorted((len(side.split()) for side in pair), reverse=True)
        if not shorter:
            return "with an empty side"
        if longer > self.max_tokens:
            return f"with more than {self.max_tokens} tokens on a side"
        if self.ratio is not None and longer / shorter > self.ratio:
            return f"with a side more than {self.ratio:g} times as long as the other"
        return None


QUOTES = str.maketrans("\u2019", "'")
# Romanian's s and t have commas below; older text has cedillas, which look the same.
COMMAS = str.maketrans("\u015e\u015f\u0162\u0163", "\u0218\u0219\u021a\u021b")
DIACRITICS = str.maketrans("\u0218\u0219\u021a\u021b\u0102\u0103\u00c2\u00e2\u00ce\u00ee", "SsTtAaAaIi")
LOWERCASE = ("no", "first", "last")
ROMANIAN = ("raw", "normalised", "stripped")


def romanian(line: str, kind: str) -> str:
    """Romanian as it is (``raw``), with commas for cedillas (``normalised``), or without diacritics (``stripped``)."""
    if kind == "raw":
        return line
    line = line.translate(COMMAS)
    return line.translate(DIACRITICS) if kind == "stripped" else line


@dataclass(frozen=True)
class Tokeniser:
    """The steps of tokenization, in this order.

    Args:
        lang: the language.
        straight_quotes: replace right single quotes by apostrophes.
        lowercase: ``first``, as in the Multi30k literature; ``last``, as fairseq does for IWSLT14; or ``no``.
        normalise: normalize punctuation with Moses' rules.
        printable: replace control characters by spaces, as Moses' ``remove-non-printing-char.perl`` does.
        aggressive: split ``a-b`` into ``a @-@ b``.
        old_full_stop: leave the full stop of an abbreviation at the end of a line, as earlier versions of Moses do.
        plain: split nothing off words, and only replace white space by single spaces; for text in any language.
    """

    lang: str
    straight_quotes: bool = False
    lowercase: str = "no"
    normalise: bool = False
    printable: bool = False
    aggressive: bool = False
    old_full_stop: bool = False
    plain: bool = False

    def _before(self, line: str) -> str:
        """The first steps, which need no library."""
        line = line.translate(QUOTES) if self.straight_quotes else line
        return line.lower() if self.lowercase == "first" else line

    def tokenise(self, lines: Iterable[str]) -> Iterator[str]:
        """Tokenize with sacremoses, or make spaces single; raises the errors of :meth:`sacremoses`."""
        if not self.plain:
            return self.sacremoses(lines)
        found = (" ".join(self._before(line).split()) for line in lines)
        return (line.lower() for line in found) if self.lowercase == "last" else found

    def sacremoses(self, lines: Iterable[str]) -> Iterator[str]:
        """Tokenize with sacremoses and the rules of Moses that it lacks (:mod:`.moses`).

        Raises:
            TextError: sacremoses does not know the language.
        """
        from .moses import LANGUAGES, Normalizer, Tokenizer

        if self.lang not in LANGUAGES:
            raise TextError(f"language {self.lang}: must be one of {', '.join(sorted(LANGUAGES))}")
        normaliser, tokeniser = Normalizer(self.lang), Tokenizer(self.lang, old_full_stop=self.old_full_stop)
        for line in lines:
            line = self._before(line)
            line = normaliser.normalize(line) if self.normalise else line
            if self.printable and not line.isprintable():
                line = "".join(" " if category(c).startswith("C") else c for c in line)
            line = tokeniser.tokenize(line, aggressive_dash_splits=self.aggressive, return_str=True)
            yield line.lower() if self.lowercase == "last" else line

    def moses(self, lines: Iterable[str], scripts: Path) -> list[str]:
        """Tokenize with Moses' own programs, from its folder ``scripts``.

        Raises:
            TextError: a program failed; or ``old_full_stop`` or ``plain`` is set, for which Moses has no option.
        """
        for option in ("old_full_stop", "plain"):
            if getattr(self, option):
                raise TextError(f"--{option.replace('_', '-')}: cannot be combined with --moses")
        tools = scripts / "tokenizer"
        programs: list[list[Any]] = []
        if self.normalise:
            programs.append([tools / "normalize-punctuation.perl", "-l", self.lang])
        if self.printable:
            programs.append([tools / "remove-non-printing-char.perl"])
        programs.append([tools / "tokenizer.perl", "-q", "-l", self.lang, *(["-a"] if self.aggressive else [])])
        if self.lowercase == "last":
            programs.append([tools / "lowercase.perl"])
        return _filter([self._before(line) for line in lines], programs)


def _filter(lines: list[str], programs: Sequence[Sequence[Any]]) -> list[str]:
    """Send lines through Perl programs, one after the other."""
    for program in programs:
        words = ["perl", *map(str, program)]
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(words, input=text.encode(), capture_output=True)  # bytes: line feeds alone end lines
        found = done.stdout.decode(errors="replace").split("\n")[:-1]
        if done.returncode or len(found) != len(lines):
            sizes = f"{len(lines)} lines in, {len(found)} out, status {done.returncode}"
            raise TextError(f"{shlex.join(words)}: {sizes}: {done.stderr.decode(errors='replace').strip()}")
        lines = found
    return lines


def _gather(args: argparse.Namespace) -> None:
    """Join files of corpora into SPLIT.LANGUAGE; reads text, .gz, segments of .sgm and .xml, and TED's train.tags.

    Training pairs that are not UTF-8 are dropped and reported; in other splits they are an error.
    """
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for split in dict.fromkeys(split for split, _, _ in args.add):
        outputs = [args.output_dir / f"{split}.{lang}" for lang in args.langs]
        with ExitStack() as stack:
            files = [stack.enter_context(_create(path)) for path in outputs]
            for source, target in ([Path(f) for f in files] for name, *files in args.add if name == split):
                count, faults = 0, Faults()
                errors = "surrogateescape" if split == "train" else "strict"
                texts = _text(source, errors, bar=f"gather {source.name}"), _text(target, errors)
                for number, pair in enumerate(_parallel(source, texts[0], target, texts[1]), 1):
                    if not all(map(_is_utf8, pair)):
                        faults.add("that are not UTF-8", number)
                        continue
                    count += 1
                    for file, line, lang in zip(files, pair, args.langs, strict=True):
                        file.write(f"{romanian(line, args.romanian) if lang == 'ro' else line}\n")
                print(f"{split}: {count:,} pairs of {source.name}", file=sys.stderr)
                faults.report(f"{source}, {target}", "dropped")


def _is_utf8(line: str) -> bool:
    """Whether a line was read without surrogates."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(path: Path, errors: str = "strict", bar: str = "") -> Iterator[str]:
    """The sentences of a file, without markup; arguments and errors as for :func:`read_lines`."""
    lines = read_lines(path, errors, bar)
    if path.suffix in (".sgm", ".xml"):
        return (found[1].strip() for line in lines if (found := re.search(r"<seg id[^>]*>(.*?)(</seg>|$)", line)))
    if path.name.startswith("train.tags."):
        kept = (line for line in lines if not re.search("<(url|talkid|keywords)>", line))
        return (re.sub("</?(title|description)>", "", line) for line in kept)
    return lines


def _check(args: argparse.Namespace) -> None:
    """Check that splits are parallel and UTF-8; with --max-tokens also for carriage returns, empty and long lines."""
    for split in args.splits:
        faults = Faults()
        for number, pair in enumerate(read_pair(args.dir / split, args.langs, f"check {split}"), 1):
            if args.max_tokens is None:
                continue
            for lang, line in zip(args.langs, pair, strict=True):
                # fairseq reads a carriage return as the end of a line, so the sides would no longer be parallel.
                if "\r" in line:
                    raise TextError(f"{args.dir / split}.{lang}: carriage returns, first in line {number}")
            if fault := Limits(args.max_tokens).fault(pair):
                faults.add(fault, number)
        faults.report(_files(args.dir / split, args.langs), "kept")


def _files(prefix: Path, langs: Sequence[str]) -> str:
    return f"{prefix}.{{{','.join(langs)}}}"


class Faults:
    """How many pairs have which fault, and the first of their line numbers, whatever the size of the text."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, list[int]] = {}

    def add(self, fault: str, number: int) -> None:
        """Count a pair; ``fault`` is the end of a sentence that begins with "pairs"."""
        self.counts[fault] += 1
        if self.counts[fault] <= SHOWN:
            self.first.setdefault(fault, []).append(number)

    def report(self, files: str, fate: str) -> None:
        """Warn of the faults, and say what became of the pairs."""
        for fault, count in self.counts.items():
            shown = ", ".join(map(str, self.first[fault])) + (", ..." if count > SHOWN else "")
            print(f"warning: {files}: {count} pairs {fault} (lines {shown}): {fate}", file=sys.stderr)


def _tokenise(args: argparse.Namespace) -> None:
    """Tokenize the files of a folder into another folder."""
    options = _tokeniser_options(args)
    _process(args, lambda lang: partial(_tokenise_chunk, Tokeniser(args.language or lang, **options), args.moses))


def _tokeniser_options(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of a ``Tokeniser``, except its language."""
    return {field.name: getattr(args, field.name) for field in fields(Tokeniser) if field.name != "lang"}


def _add_tokeniser(add_to: Callable[..., Any]) -> None:
    """The flags that are fields of a ``Tokeniser``."""
    add_to("--straight-quotes", action="store_true", help="replace right single quotes by apostrophes")
    add_to("--lowercase", choices=LOWERCASE, default="no", help="lower-case before all other steps, or after them")
    add_to("--normalise", action="store_true", help="normalize punctuation")
    add_to("--printable", action="store_true", help="replace control characters by spaces")
    add_to("--aggressive", action="store_true", help="split words at hyphens, as tokenizer.perl -a does")
    add_to("--old-full-stop", action="store_true", help="treat the end of a line as earlier versions of Moses do")
    add_to("--plain", action="store_true", help="split nothing off words, and make spaces single")


def _tokeniser_of(flags: str) -> dict[str, Any]:
    """The fields of a ``Tokeniser`` from flags of ``text tokenise`` in one string."""
    parser = argparse.ArgumentParser(prog="--tokenise", add_help=False)
    _add_tokeniser(parser.add_argument)
    return _tokeniser_options(parser.parse_args(shlex.split(flags)))


def _process(args: argparse.Namespace, work: Callable[[str], Callable[[list[str]], list[str]]]) -> None:
    """Process the lines of a folder's files in parallel, and write them to another folder. Existing files are kept.

    Args:
        args: ``dir``, ``output_dir``, ``splits``, ``langs`` and ``workers``.
        work: language -> the function from lines to lines.

    Raises:
        TextError: the number of lines changed; the message names the file and the first of the lines.
    """
    for name in (f"{split}.{lang}" for split in args.splits for lang in args.langs):
        source, target = args.dir / name, args.output_dir / name
        if target.exists():
            continue
        sizes: deque[int] = deque()  # of the chunks that are being worked on
        chunks = _noting_sizes(_chunks(read_lines(source, bar=f"{args.what} {name}")), sizes)
        first = 1
        with whole(target) as file:
            for chunk in _in_parallel(work(name.rpartition(".")[2]), chunks, args.workers):
                if len(chunk) != (size := sizes.popleft()):
                    raise TextError(f"{source}: {size} lines from line {first} on became {len(chunk)}")
                first += size
                file.writelines(f"{line}\n" for line in chunk)


def _noting_sizes(chunks: Iterable[list[str]], sizes: deque[int]) -> Iterator[list[str]]:
    for chunk in chunks:
        sizes.append(len(chunk))
        yield chunk


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    return iter(lambda: list(itertools.islice(lines, CHUNK)), [])


def _end_with_parent() -> None:
    """End a worker when its parent is killed; otherwise it would hold the parent's lock forever."""

    def wait():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _in_parallel(work: Callable[[Any], Any], chunks: Iterable[Any], workers: int) -> Iterator[Any]:
    """The results of ``work`` for each chunk, in order; few more chunks than processes are held at a time.

    No process is started for a single chunk, as a validation set usually is.

    Raises:
        TextError: a process was killed.
    """
    chunks = iter(chunks)
    first = list(itertools.islice(chunks, 2))
    chunks = itertools.chain(first, chunks)
    if workers == 1 or len(first) < 2:
        yield from map(work, chunks)
        return
    waiting: deque[Future] = deque()
    try:
        with ProcessPoolExecutor(workers, initializer=_end_with_parent) as pool:
            for chunk in chunks:
                waiting.append(pool.submit(work, chunk))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise TextError("a process was killed, perhaps for lack of memory; use fewer --workers") from error


def _tokenise_chunk(tokeniser: Tokeniser, moses: Path | None, lines: list[str]) -> list[str]:
    return tokeniser.moses(lines, moses) if moses else list(tokeniser.tokenise(lines))


def _clean(args: argparse.Namespace) -> None:
    """Copy the files of a folder to another; of --drop-from, without pairs that are empty, too long or too uneven."""
    args.output_dir.mkdir(parents=True, exist_ok=True)
    limits = Limits(args.max_tokens, args.ratio)
    for split in args.splits:
        drop = split in args.drop_from
        faults = Faults()
        kept = 0
        with ExitStack() as stack:
            files = [stack.enter_context(_create(args.output_dir / f"{split}.{lang}")) for lang in args.langs]
            for number, pair in enumerate(read_pair(args.dir / split, args.langs, f"clean {split}"), 1):
                if fault := limits.fault(pair):
                    faults.add(fault, number)
                if fault is None or not drop:
                    kept += 1
                    for file, line in zip(files, pair, strict=True):
                        file.write(f"{line}\n")
        faults.report(_files(args.dir / split, args.langs), "dropped" if drop else "kept")
        if not kept:
            raise TextError(f"{args.dir / split}: no pair is left after cleaning")


def _hold_out(args: argparse.Namespace) -> None:
    """Split the training text of a folder into another: every Nth pair for validation, the others for training."""
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for lang in args.langs:
        for split in args.splits:
            shutil.copyfile(args.dir / f"{split}.{lang}", args.output_dir / f"{split}.{lang}")
        with ExitStack() as stack:
            train, valid = (
                stack.enter_context(_create(args.output_dir / f"{name}.{lang}")) for name in ("train", "valid")
            )
            for number, line in enumerate(read_lines(args.dir / f"train.{lang}", bar=f"hold-out train.{lang}"), 1):
                (train if number % args.every else valid).write(f"{line}\n")
            if number < args.every:
                raise TextError(f"{args.dir}/train.{lang}: {number} lines, --every {args.every} holds out none")


def _short_to_long(args: argparse.Namespace) -> None:
    """Split training text by source length: short pairs for training, longer ones for test sets, one per bin."""
    bins: list[int] = args.bins
    if sorted(set(bins)) != bins or not 1 < args.limit <= bins[0]:
        raise TextError(
            f"--limit {args.limit} --bins {bins}: --limit must be 2 or more, bins must increase from --limit on"
        )
    names = _test_names(len(bins))
    counts = dict.fromkeys(("train", "valid", *names), 0)
    args.output_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = {
            name: [stack.enter_context(_create(args.output_dir / f"{name}.{lang}")) for lang in args.langs]
            for name in counts
        }
        splits = read_json(args.dir / "manifest.json")["splits"]
        text = args.text_dir / "bpe" if (args.text_dir / "bpe").is_dir() else args.text_dir
        for split in ("train", "valid"):
            for pair in read_pair(text / splits[split], args.langs):
                length = len(pair[0].split())
                if length < args.limit:
                    name = split
                elif split == "train" and length >= bins[0]:
                    name = names[bisect.bisect(bins, length) - 1]
                else:
                    continue
                counts[name] += 1
                for file, line in zip(files[name], pair, strict=True):
                    file.write(f"{line}\n")
    for name, count in counts.items():
        if not count:
            raise TextError(f"--limit {args.limit} --bins {bins}: no pairs for {name}")
        print(f"{name}: {count} pairs", file=sys.stderr)


def _learn_sentencepiece(args: argparse.Namespace) -> None:
    """Learn a SentencePiece BPE model on tokenized text; every character is a unit if there is room for all."""

    def learn(coverage: float) -> None:
        lines = itertools.chain.from_iterable(map(read_lines, args.input))
        # The text is normalized and tokenized already; "identity" leaves its words unchanged for the scores.
        segmentation.learn(lines, args.size, args.workers, args.output, "identity", coverage)

    try:
        learn(1.0)
    except segmentation.SegmentationError as error:
        if "required_chars" not in str(error):
            raise
        # SentencePiece's advice for writing systems of thousands of characters, such as the Chinese.
        print(f"{error}; leaving out the rarest .05% of the text's characters", file=sys.stderr)
        learn(0.9995)


def _apply_sentencepiece(args: argparse.Namespace) -> None:
    """Segment the files of a folder with a SentencePiece model into another folder."""
    _process(args, lambda lang: partial(_sentencepieces, args.model))


def _sentencepieces(model: Path, lines: list[str]) -> list[str]:
    return [" ".join(pieces) for pieces in _sentencepiece(model, sha256(model)).encode(lines, out_type=str)]


@cache
def _sentencepiece(model: Path, digest: str) -> Any:
    """The model in a file, cached while the file is the same."""
    import sentencepiece

    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        raise TextError(f"{model}: is not a SentencePiece model: {error}") from error


def _learn_bpe(args: argparse.Namespace) -> None:
    """Learn joint BPE with subword-nmt from the word counts of files."""
    from tqdm import tqdm

    library = importlib.import_module("subword_nmt.learn_bpe")
    library.tqdm = partial(tqdm, disable=None)  # no bar unless standard error is a terminal
    words: Counter[str] = Counter()
    for path in args.input:
        chunks = _chunks(read_lines(path, bar=f"count words of {path.name}"))
        for found in _in_parallel(_count_words, chunks, args.workers):
            words.update(found)
    with whole(args.output) as file:
        library.learn_bpe(_taken(words), file, args.size, is_dict=True)


def _taken(words: Counter[str]) -> Iterator[str]:
    """Take every word with its count, so that subword-nmt's copy of them replaces ours; their order has no effect."""
    while words:
        word, count = words.popitem()
        yield f"{word} {count}"


def _count_words(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.strip("\r ").split(" ") if word)


def _apply_bpe(args: argparse.Namespace) -> None:
    """Segment the files of a folder with BPE into another folder."""
    _process(args, lambda lang: partial(_units, args.model))


def _units(codes: Path, lines: list[str]) -> list[str]:
    bpe = _bpe(codes, sha256(codes))
    if len(bpe.cache) > KNOWN_WORDS:
        bpe.cache.clear()
    return [bpe.process_line(line) for line in lines]


@cache
def _bpe(codes: Path, digest: str) -> Any:
    """The codes in a file, cached while the file is the same."""
    from subword_nmt.apply_bpe import BPE

    try:
        with codes.open(encoding="utf-8") as file:
            return BPE(file)
    except (ValueError, SystemExit) as error:  # subword-nmt prints the line that it cannot read, and ends
        raise TextError(f"{codes}: is not a file of subword-nmt codes") from error


def segmented(lines: list[str], segmentation: str, model: Path | None) -> list[str]:
    """Words -> subword units, by ``subword-nmt`` or ``sentencepiece`` and its model; ``none`` leaves them unchanged."""
    if segmentation == "none":
        return lines
    return {"subword-nmt": _units, "sentencepiece": _sentencepieces}[segmentation](model, lines)


def _verify(args: argparse.Namespace) -> None:
    """Compare files with a list of SHA-256 sums; a difference is an error, or with --warn a warning."""
    _compare(args, [(args.dir / file, name, sha256(args.dir / file)) for file, name in _pairs(args.names).items()])


def _compare(args: argparse.Namespace, found: Sequence[tuple[Path, str, str]]) -> None:
    known = {name: digest for digest, _, name in (line.partition("  ") for line in read_lines(args.checksums))}
    if unknown := [name for _, name, _ in found if name not in known]:
        raise TextError(f"{args.checksums}: no checksum of {unknown[0]}")
    differ = [
        f"{path} has SHA-256 {digest}, the published {name} {known[name]}"
        for path, name, digest in found
        if digest != known[name]
    ]
    if differ and not args.warn:
        raise TextError("; ".join(differ) + ": must be the published file; move it away to retry")
    if differ:
        print(f"warning: {len(differ)} of {len(found)} files are not the published ones:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in differ[:SHOWN]), file=sys.stderr)


def _copy(args: argparse.Namespace) -> None:
    """Copy files, plain or .gz, if they are the published ones; existing copies must have the same content."""
    sources = {}
    for file, name in _pairs(args.names).items():
        plain = args.dir / Path(name).name
        zipped = plain.with_name(f"{plain.name}.gz")
        sources[file] = next((path for path in (plain, zipped) if path.exists()), None)
        if sources[file] is None:
            raise TextError(f"{plain}: no such file, nor {zipped}")
    digests = {file: _digest(source) for file, source in sources.items()}
    _compare(args, [(sources[file], name, digests[file]) for file, name in _pairs(args.names).items()])
    for file, source in sources.items():
        target = args.output_dir / file
        if not target.exists():
            with source.open("rb") as stored, whole(target, "wb") as write:
                shutil.copyfileobj(_unpacked(source, stored), write)
        elif sha256(target) != digests[file]:
            raise TextError(f"{source} is not what it was: it differs from {target}, its copy; take another --out")


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as stored:
            return hashlib.file_digest(_unpacked(path, stored), "sha256").hexdigest()
    except (EOFError, zlib.error) as error:
        raise TextError(f"{path}: cut off or damaged") from error


def _pairs(values: Sequence[str]) -> dict[str, str]:
    return dict(value.split("=", 1) for value in values)


def _with_version(settings: Sequence[str]) -> dict[str, str]:
    return {"text_version": VERSION, **_pairs(settings)}


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file of a preparation.

    Raises:
        TextError: it is damaged.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise TextError(f"{path}: is damaged; remove its folder and prepare the data again: {error}") from error


def _settings(args: argparse.Namespace) -> None:
    """Succeed if the file holds these settings, write them if there is no file, and otherwise name the differences."""
    if args.file.exists() or args.required:
        check_settings(args.file, _pairs(args.settings))
    else:
        write_json(args.file, _with_version(args.settings))


def _setting(args: argparse.Namespace) -> None:
    """Print what the file of finished data says of a setting, an empty line if nothing."""
    print(_held(args.file).get(args.name, ""))


def _held(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise TextError(f"{file.parent} was not made, or not finished, by this script; take another --out")
    held = read_json(file)
    return held.get("settings", held)


def check_settings(file: Path, settings: dict[str, str]) -> None:
    """Compare settings with those in a ``settings.json`` or ``manifest.json``.

    Raises:
        TextError: there is no such file, or settings differ; the message names them.
    """
    wanted, held = {"text_version": VERSION, **settings}, _held(file)
    differ = [
        f"{k} {held.get(k)} there, {wanted.get(k)} now" for k in {**held, **wanted} if held.get(k) != wanted.get(k)
    ]
    if differ:
        raise TextError(
            f"{file.parent} was made with other settings ({'; '.join(differ)}); take another --out, or remove it "
            "(in a folder DIR.text, everything but download)"
        )


def _numbered(names: Sequence[str]) -> dict[str, str]:
    """The sets by fairseq's names: train, valid, test, test1, ..."""
    if len(names) < 3:
        raise TextError(f"--splits {' '.join(names)}: must be training, validation and one test set or more")
    return dict(zip(["train", "valid", *_test_names(len(names) - 2)], names, strict=True))


def _test_names(count: int) -> list[str]:
    return ["test", *(f"test{i}" for i in range(1, count))]


def _references(args: argparse.Namespace) -> None:
    """Copy what decoding and scoring need to binarized data: the BPE model, and the test sets, raw and tokenized."""
    text, data, (source, target) = args.text_dir, args.data_dir, args.langs
    for name in ("codes", "sentencepiece.model", "archives.sha256"):
        if (text / name).exists():
            shutil.copyfile(text / name, data / name)
    for folder in ("raw", "tok"):
        (data / folder).mkdir(exist_ok=True)
    for name, split in list(_numbered(args.splits).items())[2:]:
        count = count_lines(text / "bpe" / f"{split}.{target}")
        # References as words, because fairseq's have <<unk>> for words that its dictionary lacks.
        words = text / "tok" / f"{split}.{target}"
        if words.exists():
            shutil.copyfile(words, data / "tok" / f"{name}.{target}")
        else:
            units = read_lines(text / "bpe" / f"{split}.{target}")
            write_lines(data / "tok" / f"{name}.{target}", (re.sub("@@( |$)", "", line) for line in units))
        for lang in (source, target):
            raw = text / "raw" / f"{split}.{lang}"
            if not raw.parent.exists():
                continue
            if not raw.exists():
                print(f"no raw text of {raw.name}: scores will use the detokenized text", file=sys.stderr)
            elif count_lines(raw) != count:
                print(f"{raw} has another number of lines than the segmented text: left out", file=sys.stderr)
            else:
                shutil.copyfile(raw, data / "raw" / f"{name}.{lang}")


def _binarise(args: argparse.Namespace) -> None:
    """Write dictionaries and binarized text, the same files as fairseq-preprocess, with all processes."""
    data, files = args.data_dir, {lang: args.text_dir / f"{args.splits[0]}.{lang}" for lang in args.langs}
    splits = _numbered(args.splits)
    if args.dictionaries and (args.joined_dictionary or args.symbols is not None):
        raise TextError("--dictionaries: cannot be combined with --joined-dictionary and --symbols, which make others")
    if args.symbols is not None and args.symbols <= len(SPECIAL):
        raise TextError(f"--symbols {args.symbols}: must be {len(SPECIAL) + 1} or more")
    for lang in args.langs:
        if (data / f"dict.{lang}.txt").exists():
            raise TextError(f"--data-dir {data}: holds dict.{lang}.txt already; take another folder")
    data.mkdir(parents=True, exist_ok=True)
    for side, lang in enumerate(args.langs):
        dictionary = data / f"dict.{lang}.txt"
        if args.dictionaries:
            shutil.copyfile(args.dictionaries[side], dictionary)
        elif side and args.joined_dictionary:
            shutil.copyfile(data / f"dict.{args.langs[0]}.txt", dictionary)
        else:
            counts: Counter[str] = Counter()
            for file in files.values() if args.joined_dictionary else [files[lang]]:
                chunks = _chunks(read_lines(file, bar=f"count symbols of {file.name}"))
                for found in _in_parallel(_count_symbols, chunks, args.workers):
                    counts.update(found)
            write_lines(dictionary, _dictionary(counts, args.symbols))
        for split, name in splits.items():
            source = args.text_dir / f"{name}.{lang}"
            chunks = _chunks(read_lines(source, bar=f"binarise {source.name}"))
            prefix, code = data / f"{split}.{'-'.join(args.langs)}.{lang}", _code(len(_symbols(dictionary)))
            _write_binarised(prefix, code, _in_parallel(partial(_numbers_of, dictionary, code), chunks, args.workers))


def _count_symbols(lines: list[str]) -> Counter[str]:
    return Counter(itertools.chain.from_iterable(map(str.split, lines)))


def _dictionary(counts: Counter[str], size: int | None) -> list[str]:
    """The lines of a dictionary: symbols from the most frequent on, and as many more as make a multiple of 8.

    Args:
        counts: of the text's symbols.
        size: the most symbols, with the special ones; None for all.
    """
    rows = sorted((item for item in counts.items() if item[0] not in SPECIAL), key=lambda item: (-item[1], item[0]))
    rows = rows if size is None else rows[: size - len(SPECIAL)]
    known = {symbol for symbol, _ in rows}
    more = ((name, 0) for i in itertools.count() if (name := f"madeupword{i:04d}") not in known)
    rows += itertools.islice(more, -(len(rows) + len(SPECIAL)) % 8)
    return [f"{symbol} {count}" for symbol, count in rows]


def _symbols(dictionary: Path) -> list[str]:
    return [*SPECIAL, *(line.rstrip().rpartition(" ")[0] for line in read_lines(dictionary))]


def _code(size: int) -> int:
    """The code of the type that fairseq takes for the numbers of a dictionary of some size."""
    return 8 if size < 65_500 else 9


@cache
def _numbers(dictionary: Path, digest: str) -> dict[str, int]:
    """The numbers of symbols by the dictionary in a file, cached while the file is the same."""
    return {symbol: number for number, symbol in enumerate(_symbols(dictionary))}


def _numbers_of(dictionary: Path, code: int, lines: list[str]) -> tuple[bytes, np.ndarray]:
    """Lines -> the numbers of their symbols, each line ended by ``</s>``, and how many numbers each line has."""
    numbers = _numbers(dictionary, sha256(dictionary))
    unknown = numbers["<unk>"]
    sentences = [f"{line} </s>".split() for line in lines]
    found = [numbers.get(symbol, unknown) for sentence in sentences for symbol in sentence]
    return np.array(found, NUMBERS[code]).tobytes(), np.array([len(sentence) for sentence in sentences], np.int32)


def _write_binarised(prefix: Path, code: int, chunks: Iterable[tuple[bytes, np.ndarray]]) -> None:
    """Write ``PREFIX.bin``, and ``PREFIX.idx``: the sizes of all sentences, then the bytes at which they begin."""
    sizes = []
    with whole(f"{prefix}.bin", "wb") as data, whole(f"{prefix}.idx", "wb") as index:
        index.write(bytes(INDEX.size))
        for numbers, its_sizes in chunks:
            data.write(numbers)
            index.write(its_sizes.tobytes())
            sizes.append(its_sizes)
        begin = 0
        for its_sizes in sizes:  # all of them at once would take three times the memory
            ends = begin + its_sizes.cumsum(dtype=np.int64)
            index.write(((ends - its_sizes) * np.dtype(NUMBERS[code]).itemsize).tobytes())
            begin = ends[-1]
        index.seek(0)
        index.write(INDEX.pack(MAGIC, 1, code, sum(map(len, sizes))))


def _unbinarise(args: argparse.Namespace) -> None:
    """Turn binarized text, DIR/SPLIT.SOURCE-TARGET.LANGUAGE, back into text with its dictionaries."""
    for lang in args.langs:
        symbols = np.array(_symbols(args.dir / f"dict.{lang}.txt"), object)
        for split in args.splits:
            prefix = args.dir / f"{split}.{'-'.join(args.langs)}.{lang}"
            code, sizes = _read_index(prefix)
            numbers = np.fromfile(f"{prefix}.bin", NUMBERS[code])
            sentences = np.split(numbers, sizes.cumsum(dtype=np.int64)[:-1])
            with whole(args.output_dir / f"{split}.{lang}") as file:
                file.writelines(" ".join(symbols[sentence[:-1]]) + "\n" for sentence in sentences)  # the last is </s>


def _lines_and_digest(path: Path) -> tuple[int, str]:
    """The number of lines of a file and its SHA-256, in one pass."""
    count, digest, last = 0, hashlib.sha256(), b"\n"
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n"), digest.hexdigest()


def manifest(args: argparse.Namespace) -> dict[str, Any]:
    """The manifest of a folder of binarized data: its content, and how it was made.

    Raises:
        TextError: the text is not parallel, or is empty; or the errors of :func:`count_tokens`.
    """
    splits = _numbered(args.splits)
    data: Path = args.data_dir
    counts, segmented = {}, {}
    for split, name in splits.items():
        files = [args.text_dir / f"{name}.{lang}" for lang in args.langs]
        (lines, digest), (others, other_digest) = map(_lines_and_digest, files)
        if lines != others:
            raise TextError(f"{files[0]} has {lines} lines, {files[1]} has {others}: must be parallel")
        if not lines:
            raise TextError(f"{files[0]} and {files[1]} are empty")
        segmented |= {f"segmented/{files[0].name}": digest, f"segmented/{files[1].name}": other_digest}
        prefix = data / f"{split}.{'-'.join(args.langs)}"
        tokens = {lang: count_tokens(Path(f"{prefix}.{lang}"), lines) for lang in args.langs}
        counts[split] = {"lines": lines, "tokens": tokens}
    settings = _with_version(args.settings)
    # The four special symbols are not in the file.
    symbols = {lang: count_lines(data / f"dict.{lang}.txt") + 4 for lang in args.langs}
    versions = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    patterns = ("dict.*.txt", "codes", "sentencepiece.model", "raw/*", "tok/*", "archives.sha256")
    kept = [path for pattern in patterns for path in data.glob(pattern)]
    return {
        "set": args.set,
        "source_lang": args.langs[0],
        "target_lang": args.langs[1],
        "source": args.source,
        "splits": splits,
        "counts": counts,  # tokens are subword units
        "symbols": symbols,
        "settings": settings,
        # How the model's input is tokenized; null if unknown.
        "tokenise": None if args.tokenise is None else _tokeniser_of(args.tokenise),
        "sha256": {
            **{path.relative_to(data).as_posix(): sha256(path) for path in sorted(kept)},
            **segmented,
        },
        "versions": versions,
    }


def count_tokens(prefix: Path, lines: int) -> int:
    """The number of symbols of binarized text ``PREFIX.bin``, ends of sentences excepted, by its index ``PREFIX.idx``.

    Args:
        prefix: the path without its ending, such as ``data-bin/x/train.en-fr.fr``.
        lines: the number of lines of the text.

    Raises:
        TextError: a file is missing or truncated, or holds another number of sentences.
    """
    code, sizes = _read_index(prefix)
    if len(sizes) != lines:
        raise TextError(f"{prefix}.idx: has {len(sizes)} sentences, must have those of the text, {lines}")
    size, symbols = Path(f"{prefix}.bin").stat().st_size, int(sizes.sum(dtype=np.int64))
    if size != symbols * np.dtype(NUMBERS[code]).itemsize:
        raise TextError(f"{prefix}.bin: has {size} bytes, which do not fit {symbols} symbols")
    return symbols - lines


def _read_index(prefix: Path) -> tuple[int, np.ndarray]:
    """The index of binarized text: the code of the type of its numbers, and the number of symbols of each sentence."""
    index = Path(f"{prefix}.idx")
    try:
        with index.open("rb") as file:
            head = file.read(INDEX.size)
            if not head.startswith(MAGIC):
                raise TextError(f"{index}: is not an index of fairseq")
            if len(head) < INDEX.size:
                raise TextError(f"{index}: is cut off")
            *_, code, count = INDEX.unpack(head)
            if index.stat().st_size != INDEX.size + 12 * count:
                raise TextError(f"{index}: is cut off")
            if code not in NUMBERS:
                raise TextError(f"{index}: type {code} of numbers: must be one of {[*NUMBERS]}")
            return code, np.fromfile(file, np.int32, count)
    except OSError as error:
        raise TextError(f"{index}: {error.strerror}") from error


def _manifest(args: argparse.Namespace) -> None:
    """Check binarized data, write the manifest of their folder, and print its numbers."""
    found = manifest(args)
    write_json(args.data_dir / "manifest.json", found)
    for split, name in found["splits"].items():
        tokens = ", ".join(f"{lang} {count:,}" for lang, count in found["counts"][split]["tokens"].items())
        print(f"{split:<6} {name:<18} {found['counts'][split]['lines']:>7,} pairs   subword units: {tokens}")
    print(f"vocabulary, with the 4 special symbols: {', '.join(f'{k} {v:,}' for k, v in found['symbols'].items())}")


def _intact(args: argparse.Namespace) -> None:
    """Check that the dictionaries and codes of binarized data are those that its manifest names."""
    read_manifest(args.dir)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of binarized data.

    Raises:
        TextError: there is no manifest, or the dictionaries and codes beside it are not those that it names.
        OSError: one of these files cannot be read.
    """
    held = read_json(folder / "manifest.json")
    held.setdefault("sha256", {})  # generated data have none; their settings describe them
    if not isinstance(held["sha256"], dict):
        raise TextError(f"{folder / 'manifest.json'}: is not a manifest: its sha256 must be a mapping")
    for name, digest in held["sha256"].items():
        if re.fullmatch(r"dict\.[\w-]+\.txt|codes|sentencepiece\.model", name) and sha256(folder / name) != digest:
            raise TextError(f"{folder / name} has changed since the data were binarized: prepare them again")
    return held


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer text``."""
    commands = parser.add_subparsers(dest="what", required=True)

    def add(name, run):
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(step=run)
        return command.add_argument

    def add_files(add_to):
        add_to("dir", type=Path, help="the folder of files SPLIT.LANGUAGE")
        add_to("--splits", nargs="+", required=True)
        add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)

    def add_output(add_to):
        add_to("--workers", type=int, default=1, help="processes (default: 1)")
        add_to("--output-dir", type=Path, required=True)

    add_to = add("gather", _gather)
    add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    add_to("--add", nargs=3, action="append", metavar=("SPLIT", "FILE", "FILE"), required=True, help="may be repeated")
    add_to(
        "--romanian",
        choices=ROMANIAN,
        default="raw",
        help="Romanian: raw, with commas for cedillas, or without diacritics",
    )
    add_to("--output-dir", type=Path, required=True)
    add_to = add("check", _check)
    add_files(add_to)
    add_to("--max-tokens", type=int)
    add_to = add("tokenise", _tokenise)
    add_files(add_to)
    add_to("--language", metavar="LANG", help="the language of all files, if their endings are not languages")
    _add_tokeniser(add_to)
    add_to("--moses", type=Path, metavar="DIR", help="Moses' folder scripts (default: sacremoses, without Perl)")
    add_output(add_to)
    add_to = add("clean", _clean)
    add_files(add_to)
    add_to("--drop-from", nargs="+", required=True, metavar="SPLIT")
    add_to("--max-tokens", type=int, required=True)
    add_to("--ratio", type=float, help="the most that a side may be longer than the other")
    add_to("--output-dir", type=Path, required=True)
    add_to = add("hold-out", _hold_out)
    add_to("dir", type=Path, help="the folder of train.LANGUAGE")
    add_to("--splits", nargs="*", default=[], help="further splits to copy")
    add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    add_to("--every", type=int, required=True, metavar="N")
    add_to("--output-dir", type=Path, required=True)
    add_to = add("short-to-long", _short_to_long)
    add_to("dir", type=Path, help="prepared data")
    add_to("--text-dir", type=Path, required=True, help="their text")
    add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    add_to("--limit", type=int, required=True, metavar="N", help="train on sources with fewer subword units")
    add_to("--bins", type=int, nargs="+", required=True, metavar="N", help="the shortest length of each bin")
    add_to("--output-dir", type=Path, required=True)
    for name, learn, apply in (
        ("subword-nmt", _learn_bpe, _apply_bpe),
        ("sentencepiece", _learn_sentencepiece, _apply_sentencepiece),
    ):
        add_to = add(f"learn-{name}", learn)
        add_to("--input", type=Path, nargs="+", required=True)
        add_to("--size", type=int, required=True, help="merges of BPE, or vocabulary size of SentencePiece")
        add_to("--workers", type=int, default=1, help="processes (default: 1)")
        add_to("--output", type=Path, required=True)
        add_to = add(f"apply-{name}", apply)
        add_files(add_to)
        add_to("--model", type=Path, required=True, help="the file that was learned")
        add_output(add_to)
    for name, step in (("verify", _verify), ("copy", _copy)):
        add_to = add(name, step)
        add_to("dir", type=Path)
        add_to("names", nargs="+", metavar="FILE=NAME", help="a file of the folder, and its name in the list")
        add_to("--checksums", type=Path, required=True)
        add_to("--warn", action="store_true", help="warn of other files, and accept them")
    add_to("--output-dir", type=Path, required=True, help="the folder for copies, named FILE")
    add_to = add("unbinarise", _unbinarise)
    add_files(add_to)
    add_to("--output-dir", type=Path, required=True)
    add_to = add("settings", _settings)
    add_to("file", type=Path)
    add_to("settings", nargs="+", metavar="KEY=VALUE")
    add_to("--required", action="store_true", help="the file must be there")
    add_to = add("setting", _setting)
    add_to("file", type=Path)
    add_to("name")
    add_to = add("intact", _intact)
    add_to("dir", type=Path)
    for name, step in (("binarise", _binarise), ("references", _references), ("manifest", _manifest)):
        add_to = add(name, step)
        add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)
        add_to("--splits", nargs="+", required=True, help="splits of the text: training, validation, test sets")
        add_to("--text-dir", type=Path, required=True)
        add_to("--data-dir", type=Path, required=True)
        if step is _binarise:
            add_to("--joined-dictionary", action="store_true", help="one dictionary for both languages")
            add_to("--dictionaries", type=Path, nargs=2, metavar="FILE", help="existing ones, instead of the text's")
            add_to("--symbols", type=int, metavar="N", help="the most symbols of a dictionary (default: all)")
            add_to("--workers", type=int, default=1, help="processes (default: 1)")
    add_to("--set", required=True)
    add_to("--source", required=True, help="where the text came from, in words")
    add_to("--settings", nargs="+", required=True, metavar="KEY=VALUE")
    add_to("--tokenise", metavar="FLAGS", help="the flags that the test sets were tokenized with, as one argument")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer text``; the exit status."""
    if getattr(args, "workers", 1) < 1:
        raise TextError(f"--workers {args.workers}: must be 1 or more")
    try:
        args.step(args)
    except OSError as error:
        raise TextError(str(error)) from error
    return 0
