"""Dictionaries and binarized text, the same files as those of fairseq-preprocess."""

import argparse
import itertools
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np

from ...files import copy_file, sha256, whole, write_lines
from .checksums import as_mapping
from .lines import Faults, TextError, read_lines
from .parallel import in_chunks, in_parallel

NUMBERS = {3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32}  # by fairseq's codes of the types
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # symbols of every dictionary, which its file leaves out
CONTROL = frozenset(SPECIAL[:3])  # those that mean no word
MOST_UNKNOWN = 0.01  # the share of unknown units in a text from which on a warning says so
INDEX = struct.Struct("<9sQBQ")  # the head of fairseq's index: magic, version, code of NUMBERS, number of sentences
MAGIC = b"MMIDIDX\0\0"


def numbered(names: Sequence[str]) -> dict[str, str]:
    """The sets by fairseq's names: train, valid, test, test1, ...

    Raises:
        TextError: there are fewer than three.
    """
    if len(names) < 3:
        raise TextError(f"--splits {' '.join(names)}: must be training, validation and one test set or more")
    return dict(zip(["train", "valid", *test_names(len(names) - 2)], names, strict=True))


def test_names(count: int) -> list[str]:
    """fairseq's names of test sets: test, test1, ..."""
    return ["test", *(f"test{i}" for i in range(1, count))]


def binarise(args: argparse.Namespace) -> None:
    """Write dictionaries and binarized text, the same files as fairseq-preprocess, with all processes."""
    data, files = args.data_dir, {lang: args.text_dir / f"{args.splits[0]}.{lang}" for lang in args.langs}
    splits = numbered(args.splits)
    if args.dictionaries and (args.joined_dictionary or args.symbols is not None):
        raise TextError("--dictionaries: cannot be combined with --joined-dictionary and --symbols, which make others")
    if args.symbols is not None and args.symbols <= len(SPECIAL):
        raise TextError(f"--symbols {args.symbols}: must be {len(SPECIAL) + 1} or more")
    for lang in args.langs:
        if (data / f"dict.{lang}.txt").exists():
            raise TextError(f"--data-dir {data}: holds dict.{lang}.txt already; take another folder")
    for dictionary in args.dictionaries or []:
        symbols_of(dictionary)  # a bad one is refused before anything is written
    data.mkdir(parents=True, exist_ok=True)
    for side, lang in enumerate(args.langs):
        dictionary = data / f"dict.{lang}.txt"
        if args.dictionaries:
            copy_file(args.dictionaries[side], dictionary)
        elif side and args.joined_dictionary:
            copy_file(data / f"dict.{args.langs[0]}.txt", dictionary)
        else:
            counted = list(files.values()) if args.joined_dictionary else [files[lang]]
            _write_dictionary(dictionary, counted, args.symbols, args.workers)
        for split, name in splits.items():
            prefix = data / f"{split}.{'-'.join(args.langs)}.{lang}"
            _binarise_file(args.text_dir / f"{name}.{lang}", prefix, dictionary, args.workers)


def binarise_monolingual(args: argparse.Namespace) -> None:
    """Write a dictionary and the binarized text of one language, the same files as fairseq-preprocess --only-source.

    fairseq-preprocess writes a wrong index for more than 2 GiB of text, if several processes share the work.
    """
    dictionary, texts = args.data_dir / "dict.txt", as_mapping(args.texts)
    if dictionary.exists():
        raise TextError(f"--data-dir {args.data_dir}: holds dict.txt already; take another folder")
    if args.dictionary:
        symbols_of(args.dictionary)
        args.data_dir.mkdir(parents=True, exist_ok=True)
        copy_file(args.dictionary, dictionary)
    elif "train" not in texts:
        raise TextError("train=FILE is missing, whose symbols make the dictionary; or give one, --dictionary FILE")
    else:
        args.data_dir.mkdir(parents=True, exist_ok=True)
        _write_dictionary(dictionary, [Path(texts["train"])], None, args.workers)
    for split, file in texts.items():
        _binarise_file(Path(file), args.data_dir / split, dictionary, args.workers)


def _write_dictionary(dictionary: Path, files: Iterable[Path], size: int | None, workers: int) -> None:
    counts: Counter[str] = Counter()
    for file in files:
        chunks = in_chunks(read_lines(file, bar=f"count symbols of {file.name}"))
        for found in in_parallel(_count_symbols, chunks, workers):
            counts.update(found)
    write_lines(dictionary, _dictionary(counts, size))


def _binarise_file(file: Path, prefix: Path, dictionary: Path, workers: int) -> None:
    faults = Faults("lines")
    lines, code = (
        _noting_symbols(read_lines(file, bar=f"binarise {file.name}"), faults),
        _code(len(symbols_of(dictionary))),
    )
    _write_binarised(prefix, code, in_parallel(partial(_numbers_of, dictionary, code), in_chunks(lines), workers))
    faults.report(file, "these words are unknown to the model")


def _noting_symbols(lines: Iterable[str], faults: Faults) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if "<" in line and not CONTROL.isdisjoint(line.split()):
            faults.add(f"hold {', '.join(SPECIAL[:3])} as words, which are symbols of the model", number)
        yield line


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


def symbols_of(dictionary: Path) -> list[str]:
    """The symbols of a dictionary of fairseq by their numbers, from a file ``dict.LANGUAGE.txt``.

    Raises:
        TextError: a line is not a symbol and its count.
    """
    symbols = list(SPECIAL)
    for number, line in enumerate(read_lines(dictionary), 1):
        symbol, _, count = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdecimal():
            raise TextError(f"{dictionary}: line {number} is {line!r}, must be a symbol and its count")
        symbols.append(symbol)
    return symbols


def _code(size: int) -> int:
    """The code of the type that fairseq takes for the numbers of a dictionary of some size."""
    return 8 if size < 65_500 else 9


@cache
def _numbers(dictionary: Path, digest: str) -> dict[str, int]:
    """The numbers of words by the dictionary in a file, cached while the file is the same."""
    return {symbol: n for n, symbol in enumerate(symbols_of(dictionary)) if symbol not in CONTROL}


def _numbers_of(dictionary: Path, code: int, lines: list[str]) -> tuple[bytes, np.ndarray]:
    """Lines -> the numbers of their words, each line ended by ``</s>``, and how many numbers each line has.

    ``</s>`` and the like as words of a line are unknown ones: they would end the sentence, or be taken for padding.
    """
    numbers = _numbers(dictionary, sha256(dictionary))
    unknown, end = numbers["<unk>"], SPECIAL.index("</s>")
    sentences = [[numbers.get(word, unknown) for word in line.split()] + [end] for line in lines]
    found = list(itertools.chain.from_iterable(sentences))
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


def unbinarise(args: argparse.Namespace) -> None:
    """Turn binarized text, DIR/SPLIT.SOURCE-TARGET.LANGUAGE, back into text with its dictionaries."""
    for lang in args.langs:
        for split in args.splits:
            prefix = args.dir / f"{split}.{'-'.join(args.langs)}.{lang}"
            write_lines(args.output_dir / f"{split}.{lang}", text_of(prefix, args.dir / f"dict.{lang}.txt"))


def text_of(prefix: Path, dictionary: Path) -> Iterator[str]:
    """The lines of binarized text ``PREFIX.bin``, with its dictionary.

    Raises:
        TextError: as :func:`symbols_of` and :func:`numbers_of`, or the dictionary is another's.
    """
    symbols = np.array(symbols_of(dictionary), object)
    numbers, sizes = numbers_of(prefix)
    if (highest := numbers.max(initial=0)) >= len(symbols):
        raise TextError(
            f"{dictionary}: has {len(symbols)} symbols, special ones included, must be the dictionary of "
            f"{prefix}.bin, which holds number {highest}"
        )
    ends = sizes.cumsum(dtype=np.int64)
    sentences = (numbers[begin : end - 1] for begin, end in zip(ends - sizes, ends, strict=True))  # the last is </s>
    return (" ".join(symbols[sentence]) for sentence in sentences)


def numbers_of(prefix: Path) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of binarized text ``PREFIX.bin``, and how many each sentence has, its end included.

    Raises:
        TextError: a file is missing or truncated.
    """
    code, sizes = _read_index(prefix)
    count_tokens(prefix, len(sizes))  # which sees that no number is missing
    # Mapped and not read, since training text may be larger than the memory; an empty file cannot be mapped.
    return np.asarray(np.memmap(f"{prefix}.bin", NUMBERS[code], "r")) if len(sizes) else np.empty(0, int), sizes


def unknown(prefix: Path) -> tuple[int, int]:
    """How many symbols of binarized text are unknown to its dictionary, and of how many, ends of sentences excepted;
    raises the errors of :func:`numbers_of`."""
    numbers, sizes = numbers_of(prefix)
    parts = (numbers[i : i + 2**24] for i in range(0, len(numbers), 2**24))
    found = sum(int(np.count_nonzero(part == SPECIAL.index("<unk>"))) for part in parts)
    return found, len(numbers) - len(sizes)


def warn_of_unknown(name: str | Path, count: int, total: int) -> None:
    """Warn of text with too large a share of unknown subword units, ``count`` of ``total``."""
    if count > MOST_UNKNOWN * total:
        print(
            f"warning: {name}: {count:,} of {total:,} subword units ({count / total:.1%}) are unknown to the model's "
            "dictionary; is it in the language of the training text, and prepared like it?",
            file=sys.stderr,
        )


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
