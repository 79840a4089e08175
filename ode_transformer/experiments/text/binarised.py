"""Dictionaries and binarized text, checked before training: identical to the files of fairseq-preprocess, but for
dictionaries of classes (:func:`binarise_files`) and symbols such as ``</s>`` as words (:func:`binarise_file`).

fairseq and torch are imported where they write; reading, which translation without them needs, takes NumPy alone.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from ...errors import counted
from ...files import copy_file, write_lines
from .lines import TextError, read_lines, watched
from .parallel import in_parallel
from .subwords import SPECIAL

CONTROL = frozenset(SPECIAL[:3])  # symbols that stand for no word
END, UNKNOWN = SPECIAL.index("</s>"), SPECIAL.index("<unk>")
MOST_UNKNOWN = 0.01  # the largest share of unknown units in a text without a warning
NUMBERS = {3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32}  # integer types by fairseq's codes
HEADER = np.dtype([("magic", "S9"), ("version", "<u8"), ("code", "u1"), ("count", "<u8")])  # of fairseq's index


def numbered(names: Sequence[str]) -> dict[str, str]:
    """Return the names of splits, three or more, by fairseq's names: train, valid, test, test1, ..."""
    if len(names) < 3:
        raise TextError(f"--splits {' '.join(names)}: must be training, validation and one test set or more")
    return dict(zip(["train", "valid", *test_names(len(names) - 2)], names, strict=True))


def test_names(count: int) -> list[str]:
    """Return fairseq's names of test sets: test, test1, ..."""
    return ["test", *(f"test{i}" for i in range(1, count))]


def binarise(
    text: Path, data: Path, splits: Sequence[str], langs: Sequence[str], *, joined: bool = False,
    dictionaries: Sequence[Path] = (), symbols: int | None = None, workers: int = 1,
) -> None:  # fmt: skip
    """Write the dictionaries and the binarized data of segmented text, SPLIT.LANGUAGE, identical to those of
    fairseq-preprocess. Dictionaries that are not given are made of the training text, with ``symbols`` at most, and
    ``joined`` for both languages."""
    training = [text / f"{splits[0]}.{lang}" for lang in langs]
    for side, lang in enumerate(langs):
        its = data / f"dict.{lang}.txt"
        if dictionaries or (joined and side):
            copy_file(dictionaries[side] if dictionaries else data / f"dict.{langs[0]}.txt", its)
        else:
            write_dictionary(its, training if joined else [training[side]], symbols, workers=workers)
        for split, name in numbered(splits).items():
            binarise_file(text / f"{name}.{lang}", its, data / f"{split}.{'-'.join(langs)}.{lang}", workers)


def binarise_files(texts: Mapping[str, Path], data: Path, dictionary: Path | None = None, workers: int = 1) -> None:
    """Write the dictionary and the binarized text of one language, as fairseq-preprocess --only-source does, from text
    files by the names of their splits. A dictionary that is not given is made of the training text."""
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
    """Write the dictionary of texts: their most frequent symbols, ``size`` at most with the special ones, padded to a
    multiple of 8. If they are to be ``alphabetical``, all counts are 1."""
    from fairseq.data import Dictionary

    found = Dictionary()
    for file in texts:
        for counts in in_parallel(_count_symbols, read_lines(file, bar=f"count symbols of {file.name}"), workers):
            for symbol, count in counts.items():
                found.add_symbol(symbol, count)
    if alphabetical:
        found.count = [1] * len(found)  # symbols with equal counts are in the order of the alphabet
    found.finalize(nwords=size or -1, padding_factor=8)
    found.save(str(dictionary))


def _count_symbols(lines: list[str]) -> Counter[str]:
    return Counter(chain.from_iterable(map(str.split, lines)))


def binarise_file(text: Path, dictionary: Path, prefix: Path, workers: int = 1) -> None:
    """Write the binarized text of a file, ``PREFIX.bin`` and ``PREFIX.idx``.

    ``</s>`` and the like are unknown words within a line: fairseq-preprocess takes them for its symbols, which end the
    sentence, or are padding.
    """
    import torch
    from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder, best_fitting_int_dtype

    numbers = {symbol: number for number, symbol in enumerate(symbols_of(dictionary)) if symbol not in CONTROL}
    fault = f"line with {', '.join(SPECIAL[:3])} as words, which are symbols of the model"
    lines = read_lines(text, bar=f"binarise {text.name}")
    lines = watched(lines, _holds_control, text, fault, "these words are unknown to the model")
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", best_fitting_int_dtype(len(numbers) + len(CONTROL)))
    for sentences in in_parallel(partial(_numbers_of, numbers), lines, workers):
        for sentence in sentences:
            builder.add_item(torch.tensor(sentence))
    builder.finalize(f"{prefix}.idx")


def _holds_control(line: str) -> bool:
    return "<" in line and not CONTROL.isdisjoint(line.split())


def _numbers_of(numbers: Mapping[str, int], lines: list[str]) -> list[list[int]]:
    return [[numbers.get(word, UNKNOWN) for word in line.split()] + [END] for line in lines]


def symbols_of(dictionary: Path) -> list[str]:
    """Return the symbols of a fairseq dictionary, ``dict.LANGUAGE.txt``, in the order of their indices."""
    symbols = list(SPECIAL)
    for number, line in enumerate(read_lines(dictionary), 1):
        symbol, _, count = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdecimal():
            raise TextError(f"{dictionary}: line {number} is {line!r}, must be a symbol and its count")
        symbols.append(symbol)
    return symbols


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
        if index.parent.name == "label" and not ((sizes == 2).all() and (numbers[1::2] == END).all()):
            raise TextError(f"{data}: each sentence must be a label and the end of the sentence")
        others, other = counts.setdefault((split, *languages[:1]), (len(sizes), index))
        if len(sizes) != others:
            raise TextError(f"{index}: has {counted(len(sizes), 'sentence')}, {other} has {others}: must be parallel")


def numbers_of(prefix: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices in binarized text ``PREFIX.bin``, and the size of each sentence, its end included."""
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    try:
        (magic, version, code, count), *_ = np.fromfile(index, HEADER, 1).tolist() or [(b"", 0, 0, 0)]
        if magic != b"MMIDIDX":
            raise TextError(f"{index}: is not an index of fairseq's --dataset-impl mmap, its default")
        if version != 1 or code not in NUMBERS or index.stat().st_size != HEADER.itemsize + 12 * count:
            raise TextError(f"{index}: is cut off or damaged; binarize the text again")
        sizes = np.fromfile(index, np.int32, count, offset=HEADER.itemsize)
        offsets = np.fromfile(index, np.int64, count, offset=HEADER.itemsize + sizes.nbytes)
        ends, width = sizes.cumsum(dtype=np.int64), np.dtype(NUMBERS[code]).itemsize
        if (sizes < 1).any() or (offsets != (ends - sizes) * width).any():
            raise TextError(f"{index}: is cut off or damaged; binarize the text again")
        size, symbols = data.stat().st_size, int(ends[-1]) if count else 0
    except OSError as error:
        raise TextError(f"{error.filename}: {error.strerror}") from error
    if size != symbols * width:
        raise TextError(f"{data}: must have {counted(symbols, 'symbol')}, has {counted(size, 'byte')}")
    # Mapped and not read, since training text may be larger than the memory; an empty file cannot be mapped.
    return np.asarray(np.memmap(data, NUMBERS[code], "r")) if count else np.empty(0, int), sizes


def text_of(prefix: Path, dictionary: Path) -> Iterator[str]:
    """Return an iterator over the lines of binarized text ``PREFIX.bin``."""
    symbols = np.array(symbols_of(dictionary), object)
    numbers, sizes = numbers_of(prefix)
    if (highest := numbers.max(initial=0)) >= len(symbols):
        raise TextError(f"{dictionary}: has {len(symbols)} symbols, but {prefix}.bin holds number {highest}")
    ends = sizes.cumsum(dtype=np.int64)
    sentences = (numbers[begin : end - 1] for begin, end in zip(ends - sizes, ends, strict=True))  # the last is </s>
    return (" ".join(symbols[sentence]) for sentence in sentences)


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


def unknown(prefix: Path) -> tuple[int, int]:
    """Return the numbers of unknown and of all symbols in binarized text, without the ends of sentences; ``prefix`` is
    its path without the ending, such as ``data-bin/x/train.en-fr.fr``."""
    numbers, sizes = numbers_of(prefix)
    return int(np.count_nonzero(numbers == UNKNOWN)), len(numbers) - len(sizes)


def warn_of_unknown(name: str | Path, count: int, total: int) -> None:
    """Warn if too many subword units of a text are unknown, ``count`` of ``total``."""
    if count > MOST_UNKNOWN * total:
        print(
            f"warning: {name}: {count:,} of {total:,} subword units ({count / total:.1%}) are unknown to the model's "
            "dictionary; is it in the language of the training text, and prepared like it?",
            file=sys.stderr,
        )
