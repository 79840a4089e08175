"""Dictionaries and binarized text, the same files as those of fairseq-preprocess."""

import itertools
import math
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np

from ...files import copy_file, regular, sha256, whole, write_lines
from .joining import SPECIAL
from .lines import Faults, TextError, read_lines
from .parallel import in_chunks, in_parallel

NUMBERS = {3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32}  # by fairseq's codes of the types
CONTROL = frozenset(SPECIAL[:3])  # those that mean no word
MOST_UNKNOWN = 0.01  # the share of unknown units in a text from which on a warning says so
INDEX = struct.Struct("<9sQBQ")  # the head of fairseq's index: magic, version, code of NUMBERS, number of sentences
MAGIC = b"MMIDIDX\0\0"
PART = 2**20  # sentences of an index that are compared at a time


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


def binarise(
    text: Path,
    data: Path,
    splits: Sequence[str],
    langs: Sequence[str],
    *,
    joined: bool = False,
    dictionaries: Sequence[Path] = (),
    symbols: int | None = None,
    workers: int = 1,
) -> None:
    """Write dictionaries and binarized text of a folder of segmented text, the same files as fairseq-preprocess.

    Args:
        text, data: the folders of the text and of the binarized data.
        splits: training, validation, test sets, as the names of files begin.
        langs: source and target, as they end.
        joined: one dictionary for both languages.
        dictionaries: existing ones, instead of those of the text; a ``TextError`` names one that cannot be read.
        symbols: the most symbols of a dictionary; all without it.
        workers: the number of processes.
    """
    training = [text / f"{splits[0]}.{lang}" for lang in langs]
    for dictionary in dictionaries:
        symbols_of(dictionary)  # a bad one is refused before the work
    for side, lang in enumerate(langs):
        if joined and side and not dictionaries:
            dictionaries = [data / f"dict.{langs[0]}.txt"] * 2
        binarise_files(
            {f"{split}.{'-'.join(langs)}.{lang}": text / f"{name}.{lang}" for split, name in numbered(splits).items()},
            data,
            dictionaries[side] if dictionaries else None,
            workers,
            name=f"dict.{lang}.txt",
            counted=training if joined else [training[side]],
            symbols=symbols,
        )


def binarise_files(
    texts: Mapping[str, Path],
    data: Path,
    dictionary: Path | None = None,
    workers: int = 1,
    *,
    name: str = "dict.txt",
    counted: Sequence[Path] = (),
    symbols: int | None = None,
    alphabetical: bool = False,
) -> None:
    """Write a dictionary and the binarized text of one language, the same files as fairseq-preprocess --only-source.

    fairseq-preprocess writes a wrong index for more than 2 GiB of text, if several processes share the work.

    Args:
        texts: the files by their names in the data: train, valid, test, test1.
        data, symbols, workers: as for :func:`binarise`.
        dictionary: an existing one; otherwise it is of the text ``counted``, by default the training text.
        name: what the dictionary is called.
        alphabetical: the order of a new dictionary is that of the alphabet, whatever the counts.

    Raises:
        TextError: there is neither a dictionary nor training text.
    """
    its = data / name
    if dictionary:
        copy_file(dictionary, its)
    elif counted or "train" in texts:
        counts: Counter[str] = Counter()
        for file in counted or [texts["train"]]:
            chunks = in_chunks(read_lines(file, bar=f"count symbols of {file.name}"))
            for found in in_parallel(_count_symbols, chunks, workers):
                counts.update(found)
        write_lines(its, _dictionary(counts, symbols, alphabetical))
    else:
        raise TextError("train=FILE is missing, whose symbols make the dictionary; or give one, --dictionary FILE")
    code = 8 if len(symbols_of(its)) < 65_500 else 9  # as fairseq chooses the type
    for split, file in texts.items():
        faults = Faults("lines")
        chunks = in_chunks(_noting_symbols(read_lines(file, bar=f"binarise {file.name}"), faults))
        _write_binarised(data / split, code, in_parallel(partial(_numbers_of, its, code), chunks, workers))
        faults.report(file, "these words are unknown to the model")


def _noting_symbols(lines: Iterable[str], faults: Faults) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if "<" in line and not CONTROL.isdisjoint(line.split()):
            faults.add(f"hold {', '.join(SPECIAL[:3])} as words, which are symbols of the model", number)
        yield line


def _count_symbols(lines: list[str]) -> Counter[str]:
    return Counter(itertools.chain.from_iterable(map(str.split, lines)))


def _dictionary(counts: Counter[str], size: int | None, alphabetical: bool) -> list[str]:
    """The lines of a dictionary: symbols from the most frequent on, and as many more as make a multiple of 8.

    With the special ones there are at most ``size`` symbols before that.
    """
    rows = sorted((item for item in counts.items() if item[0] not in SPECIAL), key=lambda item: (-item[1], item[0]))
    rows = rows if size is None else rows[: size - len(SPECIAL)]
    rows = sorted(rows) if alphabetical else rows
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
    parts = []
    with whole(f"{prefix}.bin", "wb") as data, whole(f"{prefix}.idx", "wb") as index:
        index.write(bytes(INDEX.size))
        for numbers, sizes in chunks:
            data.write(numbers)
            index.write(sizes.tobytes())
            parts.append(sizes)
        for begins in _begins(parts, code):
            index.write(begins.tobytes())
        index.seek(0)
        index.write(INDEX.pack(MAGIC, 1, code, sum(map(len, parts))))


def _begins(parts: Iterable[np.ndarray], code: int) -> Iterator[np.ndarray]:
    """The bytes at which sentences begin, by parts of their sizes: those of all would take several times the memory."""
    begin = 0
    for sizes in parts:
        yield (begin + sizes.cumsum(dtype=np.int64) - sizes) * np.dtype(NUMBERS[code]).itemsize
        begin += int(sizes.sum(dtype=np.int64))


def check_data(folder: Path, subset: str = "") -> None:
    """Check that binarized data are whole: that indices, numbers and dictionaries belong together.

    Everything is read once, so that fairseq, which trusts it, can open it.

    Args:
        folder: of ``fairseq-preprocess``; or one with such folders of the parts of examples, ``input0`` and others.
        subset: the one set to look at; by default all.

    Raises:
        TextError: a file is damaged, or is not of the same data as another; the message names it.
    """
    counts: dict[tuple[str, ...], tuple[int, Path]] = {}
    for index in sorted(path for pattern in ("*.idx", "input*/*.idx", "label/*.idx") for path in folder.glob(pattern)):
        split, *languages = index.stem.split(".")
        if subset not in ("", split):
            continue
        part = folder / "input0" if index.parent.name.startswith("input") else index.parent  # fairseq reads one for all
        symbols = math.inf  # the dictionary is not known
        if len(languages) in (0, 2):
            symbols = len(symbols_of(part / ".".join(["dict", *languages[1:], "txt"])))
        (numbers, sizes), data = numbers_of(index.with_suffix("")), index.with_suffix(".bin")
        if not len(sizes):
            raise TextError(f"{index}: has no sentences")
        if odd := [int(n) for n in (numbers.min(), numbers.max()) if not 0 <= n < symbols]:
            raise TextError(f"{data}: holds number {odd[0]}, must be below {symbols}, the size of its dictionary")
        if index.parent.name == "label" and not ((sizes == 2).all() and (numbers[1::2] == SPECIAL.index("</s>")).all()):
            raise TextError(f"{data}: each sentence must be a label and the end of the sentence")
        others, other = counts.setdefault((split, *languages[:1]), (len(sizes), index))
        if len(sizes) != others:
            raise TextError(f"{index}: has {len(sizes)} sentences, {other} has {others}: must be parallel")


def unbinarise(data: Path, output_dir: Path, splits: Sequence[str], langs: Sequence[str]) -> None:
    """Turn binarized text, DATA/SPLIT.SOURCE-TARGET.LANGUAGE, back into text with its dictionaries.

    Args:
        data: the folder of binarized data.
        output_dir: the folder for the text.
        splits: names of the subsets, such as train valid.
        langs: source and target language, with which the names of files end.
    """
    for lang in langs:
        for split in splits:
            prefix = data / f"{split}.{'-'.join(langs)}.{lang}"
            write_lines(output_dir / f"{split}.{lang}", text_of(prefix, data / f"dict.{lang}.txt"))


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
    try:
        size, symbols = Path(f"{prefix}.bin").stat().st_size, int(sizes.sum(dtype=np.int64))
    except OSError as error:
        raise TextError(f"{prefix}.bin: {error.strerror}") from error
    if size != symbols * np.dtype(NUMBERS[code]).itemsize:
        raise TextError(f"{prefix}.bin: has {size} bytes, which do not fit {symbols} symbols")
    # Mapped and not read, since training text may be larger than the memory; an empty file cannot be mapped.
    return np.asarray(np.memmap(f"{prefix}.bin", NUMBERS[code], "r")) if len(sizes) else np.empty(0, int), sizes


def unknown(prefix: Path, lines: int | None = None) -> tuple[int, int]:
    """How many symbols of binarized text are unknown to its dictionary, and of how many, ends of sentences excepted.

    Args:
        prefix: the path without its ending, such as ``data-bin/x/train.en-fr.fr``.
        lines: the number of lines of the text, if it is known.

    Raises:
        TextError: as :func:`numbers_of`, or there is another number of sentences.
    """
    numbers, sizes = numbers_of(prefix)
    if lines not in (None, len(sizes)):
        raise TextError(f"{prefix}.idx: has {len(sizes)} sentences, must have those of the text, {lines}")
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


def _read_index(prefix: Path) -> tuple[int, np.ndarray]:
    """The index of binarized text: the code of the type of its numbers, and the number of symbols of each sentence."""
    index = Path(f"{prefix}.idx")
    try:
        with regular(index).open("rb") as file:
            head = file.read(INDEX.size)
            if not head.startswith(MAGIC):
                raise TextError(f"{index}: is not an index of fairseq's --dataset-impl mmap, its default")
            _, version, code, count = INDEX.unpack(head.ljust(INDEX.size))
            if version != 1 or code not in NUMBERS or index.stat().st_size != INDEX.size + 12 * count:
                raise TextError(f"{index}: is cut off or damaged; binarize the text again")
            sizes = np.fromfile(file, np.int32, count)
            parts = [sizes[i : i + PART] for i in range(0, count, PART)]
            for part, begins in zip(parts, _begins(parts, code), strict=True):
                if (part < 1).any() or (np.fromfile(file, np.int64, len(part)) != begins).any():
                    raise TextError(f"{index}: is cut off or damaged; binarize the text again")
            return code, sizes
    except OSError as error:
        raise TextError(f"{index}: {error.strerror}") from error
