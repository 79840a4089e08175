"""Dictionaries and binarized text, identical to the files of fairseq-preprocess."""

import itertools
import math
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np

from ...files import atomic_file, copy_file, sha256, write_lines
from .joining import SPECIAL
from .lines import TextError, read_lines, watched
from .parallel import in_parallel

NUMBERS = {3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32}  # integer types by fairseq's codes
CONTROL = frozenset(SPECIAL[:3])  # symbols that stand for no word
MOST_UNKNOWN = 0.01  # the largest share of unknown units in a text without a warning
INDEX = struct.Struct("<9sQBQ")  # the header of fairseq's index: magic number, version, type code, number of sentences
MAGIC = b"MMIDIDX\0\0"
PART = 2**20  # sentences of an index that are checked at a time


def numbered(names: Sequence[str]) -> dict[str, str]:
    """Return the names of splits by fairseq's names: train, valid, test, test1, ...

    Raises:
        TextError: there are fewer than three splits.
    """
    if len(names) < 3:
        raise TextError(f"--splits {' '.join(names)}: must be training, validation and one test set or more")
    return dict(zip(["train", "valid", *test_names(len(names) - 2)], names, strict=True))


def test_names(count: int) -> list[str]:
    """Return fairseq's names of test sets: test, test1, ..."""
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
    """Write the dictionaries and the binarized data of segmented text, identical to those of fairseq-preprocess.

    Args:
        text, data: the folders of the segmented text and of the binarized data.
        splits: names of the training, validation and test sets, with which the names of files begin.
        langs: source and target language, with which the names of files end.
        joined: one dictionary for both languages.
        dictionaries: existing dictionaries of source and target; by default they are made from the training text.
        symbols: maximum size of a new dictionary; by default unlimited.
        workers: the number of processes.

    Raises:
        TextError: a dictionary or a text cannot be read, or there are fewer than three splits.
    """
    training = [text / f"{splits[0]}.{lang}" for lang in langs]
    for dictionary in dictionaries:
        symbols_of(dictionary)  # a bad one is refused before the work
    for side, lang in enumerate(langs):
        its = data / f"dict.{lang}.txt"
        if dictionaries or (joined and side):
            copy_file(dictionaries[side] if dictionaries else data / f"dict.{langs[0]}.txt", its)
        else:
            write_dictionary(its, training if joined else [training[side]], symbols, workers=workers)
        for split, name in numbered(splits).items():
            binarise_file(text / f"{name}.{lang}", its, data / f"{split}.{'-'.join(langs)}.{lang}", workers)


def binarise_files(texts: Mapping[str, Path], data: Path, dictionary: Path | None = None, workers: int = 1) -> None:
    """Write the dictionary and the binarized text of one language, as fairseq-preprocess --only-source does.

    Args:
        texts: text files by the names of their binarized files, such as train, valid, test, test1.
        data, workers: as for :func:`binarise`.
        dictionary: an existing dictionary; by default a new one is made of the training text.

    Raises:
        TextError: a text cannot be read, or the dictionary is damaged.
    """
    its = data / "dict.txt"
    if dictionary:
        copy_file(dictionary, its)
    else:
        # A model knows classes by their indices alone, which must be the same if the data are prepared again.
        write_dictionary(its, [texts["train"]], alphabetical=data.name == "label", workers=workers)
    for split, file in texts.items():
        binarise_file(file, its, data / split, workers)


def write_dictionary(
    dictionary: Path, texts: Sequence[Path], size: int | None = None, alphabetical: bool = False, workers: int = 1
) -> None:
    """Write the dictionary of texts: the most frequent symbols, padded to a multiple of 8.

    Args:
        dictionary: the file to write.
        texts: the files whose symbols are counted.
        size: the maximum number of symbols before the padding, special ones included; by default unlimited.
        alphabetical: sort the symbols alphabetically, not by count.
        workers: the number of processes.
    """
    counts: Counter[str] = Counter()
    for file in texts:
        for found in in_parallel(_count_symbols, read_lines(file, bar=f"count symbols of {file.name}"), workers):
            counts.update(found)
    rows = sorted((item for item in counts.items() if item[0] not in SPECIAL), key=lambda item: (-item[1], item[0]))
    rows = rows if size is None else rows[: size - len(SPECIAL)]
    rows = sorted(rows) if alphabetical else rows
    known = {symbol for symbol, _ in rows}
    more = ((name, 0) for i in itertools.count() if (name := f"madeupword{i:04d}") not in known)
    rows += itertools.islice(more, -(len(rows) + len(SPECIAL)) % 8)
    write_lines(dictionary, (f"{symbol} {count}" for symbol, count in rows))


def _count_symbols(lines: list[str]) -> Counter[str]:
    return Counter(itertools.chain.from_iterable(map(str.split, lines)))


def binarise_file(text: Path, dictionary: Path, prefix: Path, workers: int = 1) -> None:
    """Write the binarized text of a file, ``PREFIX.bin`` and ``PREFIX.idx``.

    The index of more than 2 GiB of text is right, too; fairseq-preprocess with several workers writes a wrong one.
    """
    code = 8 if len(symbols_of(dictionary)) < 65_500 else 9  # as fairseq chooses the type
    fault = f"lines hold {', '.join(SPECIAL[:3])} as words, which are symbols of the model"
    lines = read_lines(text, bar=f"binarise {text.name}")
    lines = watched(lines, _holds_control, text, fault, "these words are unknown to the model")
    _write_binarised(prefix, code, in_parallel(partial(_numbers_of, dictionary, code), lines, workers))


def _holds_control(line: str) -> bool:
    return "<" in line and not CONTROL.isdisjoint(line.split())


def symbols_of(dictionary: Path) -> list[str]:
    """Return the symbols of a fairseq dictionary, ``dict.LANGUAGE.txt``, in the order of their indices.

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
    """Return word indices by word; cached by the file's digest."""
    return {symbol: n for n, symbol in enumerate(symbols_of(dictionary)) if symbol not in CONTROL}


def _numbers_of(dictionary: Path, code: int, lines: list[str]) -> tuple[bytes, np.ndarray]:
    """Return the word indices of lines, each line ended by ``</s>``, and the number of indices of each line.

    ``</s>`` and the like are unknown words within a line: they would end the sentence, or be taken for padding.
    """
    numbers = _numbers(dictionary, sha256(dictionary))
    unknown, end = numbers["<unk>"], SPECIAL.index("</s>")
    sentences = [[numbers.get(word, unknown) for word in line.split()] + [end] for line in lines]
    found = list(itertools.chain.from_iterable(sentences))
    return np.array(found, NUMBERS[code]).tobytes(), np.array([len(sentence) for sentence in sentences], np.int32)


def _write_binarised(prefix: Path, code: int, chunks: Iterable[tuple[bytes, np.ndarray]]) -> None:
    """Write ``PREFIX.bin``, and ``PREFIX.idx``: the sizes of all sentences, then their byte offsets."""
    parts = []
    with atomic_file(f"{prefix}.bin", "wb") as data:
        for numbers, sizes in chunks:
            data.write(numbers)
            parts.append(sizes)
    with atomic_file(f"{prefix}.idx", "wb") as index:
        index.write(INDEX.pack(MAGIC, 1, code, sum(map(len, parts))))
        for sizes in parts:
            index.write(sizes)
        for offsets in _offsets(parts, code):
            index.write(offsets)


def _offsets(parts: Iterable[np.ndarray], code: int) -> Iterator[np.ndarray]:
    """Yield the byte offsets of sentences in parts: all at once would take several times the memory."""
    begin = 0
    for sizes in parts:
        yield (begin + sizes.cumsum(dtype=np.int64) - sizes) * np.dtype(NUMBERS[code]).itemsize
        begin += int(sizes.sum(dtype=np.int64))


def check_data(folder: Path, subset: str = "") -> None:
    """Check that the files of binarized data are intact and belong together, because fairseq trusts them.

    Args:
        folder: the output of ``fairseq-preprocess``, or a folder of such folders: ``input0`` and so on, ``label``.
        subset: the only subset to check; by default all are.

    Raises:
        TextError: a file is empty or damaged, or does not belong to the others; the message names it.
    """
    counts: dict[tuple[str, ...], tuple[int, Path]] = {}
    for index in sorted(path for pattern in ("*.idx", "input*/*.idx", "label/*.idx") for path in folder.glob(pattern)):
        split, *languages = index.stem.split(".")
        if subset not in ("", split):
            continue
        part = folder / "input0" if index.parent.name.startswith("input") else index.parent  # fairseq reads one for all
        symbols = math.inf  # the dictionary is unknown
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
    """Return an iterator over the lines of binarized text ``PREFIX.bin``.

    Raises:
        TextError: as in :func:`symbols_of` and :func:`numbers_of`, or the dictionary has too few symbols.
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
    """Return the indices in binarized text ``PREFIX.bin``, and the size of each sentence, its end included.

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
    """Return the numbers of unknown and of all symbols in binarized text, without the ends of sentences.

    Args:
        prefix: the path without its ending, such as ``data-bin/x/train.en-fr.fr``.
        lines: the number of lines of the text, if it is known.

    Raises:
        TextError: as in :func:`numbers_of`, or the number of sentences is not ``lines``.
    """
    numbers, sizes = numbers_of(prefix)
    if lines not in (None, len(sizes)):
        raise TextError(f"{prefix}.idx: has {len(sizes)} sentences, must have those of the text, {lines}")
    parts = (numbers[i : i + 2**24] for i in range(0, len(numbers), 2**24))
    found = sum(int(np.count_nonzero(part == SPECIAL.index("<unk>"))) for part in parts)
    return found, len(numbers) - len(sizes)


def warn_of_unknown(name: str | Path, count: int, total: int) -> None:
    """Warn if too many subword units of a text are unknown, ``count`` of ``total``."""
    if count > MOST_UNKNOWN * total:
        print(
            f"warning: {name}: {count:,} of {total:,} subword units ({count / total:.1%}) are unknown to the model's "
            "dictionary; is it in the language of the training text, and prepared like it?",
            file=sys.stderr,
        )


def _read_index(prefix: Path) -> tuple[int, np.ndarray]:
    """Return the type code and the sizes of sentences in ``PREFIX.idx``."""
    index = Path(f"{prefix}.idx")
    try:
        with index.open("rb") as file:
            head = file.read(INDEX.size)
            if not head.startswith(MAGIC):
                raise TextError(f"{index}: is not an index of fairseq's --dataset-impl mmap, its default")
            _, version, code, count = INDEX.unpack(head.ljust(INDEX.size))
            if version != 1 or code not in NUMBERS or index.stat().st_size != INDEX.size + 12 * count:
                raise TextError(f"{index}: is cut off or damaged; binarize the text again")
            sizes = np.fromfile(file, np.int32, count)
            parts = [sizes[i : i + PART] for i in range(0, count, PART)]
            for part, offsets in zip(parts, _offsets(parts, code), strict=True):
                if (part < 1).any() or (np.fromfile(file, np.int64, len(part)) != offsets).any():
                    raise TextError(f"{index}: is cut off or damaged; binarize the text again")
            return code, sizes
    except OSError as error:
        raise TextError(f"{index}: {error.strerror}") from error
