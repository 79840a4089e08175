"""Sentence pairs: joining corpora, cleaning them, and dividing them into splits."""

import bisect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ...errors import counted
from ...files import copy_file, write_lines
from .binarised import test_names
from .lines import PERHAPS, Faults, TextError, pair_writer, parallel, read_lines, read_pair
from .manifest import read_mapping, text_beside

# Romanian's s and t have commas below; older text has cedillas, which look the same.
COMMAS = str.maketrans("\u015e\u015f\u0162\u0163", "\u0218\u0219\u021a\u021b")
DIACRITICS = str.maketrans("\u0218\u0219\u021a\u021b\u0102\u0103\u00c2\u00e2\u00ce\u00ee", "SsTtAaAaIi")
NOT_TEXT = "pair with bytes that are not UTF-8, or with a NUL"
MOST_NOT_TEXT = 0.1  # share of the training pairs of a file; more mean that the file has another encoding
ROMANIAN = ("raw", "normalised", "stripped")


@dataclass(frozen=True)
class Limits:
    """The limits of cleaning, as in Moses' ``clean-corpus-n.perl``, which drops pairs that are empty, too long on a
    side, or whose sides differ too much in length."""

    max_tokens: int
    ratio: float | None = None  # of the longer side to the other

    def fault(self, pair: tuple[str, str]) -> str | None:
        """Return the fault of a pair, as :class:`.lines.Faults` counts it, or None."""
        longer, shorter = sorted((len(side.split()) for side in pair), reverse=True)
        if not shorter:
            return "pair with an empty side"
        if longer > self.max_tokens:
            return f"pair with more than {counted(self.max_tokens, 'token')} on a side"
        if self.ratio is not None and longer / shorter > self.ratio:
            return f"pair with a side more than {self.ratio:g} times as long as the other"
        return None


def names_of(splits: Iterable[str], langs: Sequence[str]) -> list[str]:
    """Return the names of the files of some splits, such as ``train.de``."""
    return [f"{split}.{lang}" for split in splits for lang in langs]


def gather(
    files: Sequence[tuple[str, str | Path, str | Path]], output: Path, langs: Sequence[str], kind: str = "raw"
) -> None:
    """Join files of corpora into SPLIT.LANGUAGE; reads text, .gz, segments of .sgm and .xml, and TED's train.tags.

    Lines may end in a carriage return, which is removed. Training pairs that are not UTF-8, or hold a NUL, are dropped
    with a warning. More than one in ten of two files, or one of another split, is an error.

    Args:
        files: for each pair of files, its split, the source file and the target file.
        output, langs: the folder for the text; source and target language.
        kind: the treatment of Romanian, one of ``ROMANIAN``.
    """
    for split in dict.fromkeys(split for split, _, _ in files):
        with pair_writer(output / split, langs) as write:
            for source, target in ((Path(one), Path(other)) for name, one, other in files if name == split):
                count, faults = 0, Faults()
                errors = "surrogateescape" if split == "train" else "strict"
                texts = _text(source, errors, bar=f"gather {source.name}"), _text(target, errors)
                for number, pair in enumerate(parallel(source, texts[0], target, texts[1]), 1):
                    if not all(map(_is_text, pair)):
                        faults.add(NOT_TEXT, number)
                        continue
                    count += 1
                    both = zip((line.removesuffix("\r") for line in pair), langs, strict=True)
                    write([romanian(line, kind) if lang == "ro" else line for line, lang in both])
                print(f"{split}: {counted(count, 'pair')} of {source.name}", file=sys.stderr)
                faults.report(f"{source}, {target}", f"dropped; {PERHAPS}")
                if number - count > MOST_NOT_TEXT * number:
                    raise TextError(
                        f"{source}, {target}: must be UTF-8 without NUL in nine of ten pairs; in "
                        f"{number - count:,} of {number:,} they are not; {PERHAPS}"
                    )


def romanian(line: str, kind: str) -> str:
    """Return Romanian text ``raw``, ``normalised`` (commas for cedillas), or ``stripped`` (without diacritics)."""
    if kind == "raw":
        return line
    line = line.translate(COMMAS)
    return line.translate(DIACRITICS) if kind == "stripped" else line


def _is_text(line: str) -> bool:
    """Whether a line that was read with surrogates holds none, and no NUL."""
    return "\0" not in line and (line.isascii() or not re.search("[\ud800-\udfff]", line))


def _text(path: Path, errors: str = "strict", bar: str = "") -> Iterator[str]:
    """Return the sentences of a file, without markup; arguments and errors are those of :func:`read_lines`."""
    lines = read_lines(path, errors, bar)
    if path.name.removesuffix(".gz").endswith((".sgm", ".xml")):
        return (found[1].strip() for line in lines if (found := re.search(r"<seg id[^<>]*>(.*?)(</seg>|$)", line)))
    if path.name.startswith("train.tags."):
        kept = (
            line for line in lines if not re.search(r"<(url|talkid|keywords|speaker|reviewer|translator|/?doc)\b", line)
        )
        return (re.sub("</?(title|description)>", "", line) for line in kept)
    return lines


def clean(
    folder: Path, output: Path, splits: Sequence[str], langs: Sequence[str], limits: Limits, drop: Sequence[str]
) -> None:
    """Copy text to another folder; from the splits ``drop``, drop pairs that are empty, too long or too uneven."""
    for split in splits:
        faults, kept = Faults(), 0
        with pair_writer(output / split, langs) as write:
            for number, pair in enumerate(read_pair(folder / split, langs, f"clean {split}"), 1):
                if fault := limits.fault(pair):
                    faults.add(fault, number)
                if fault is None or split not in drop:
                    kept += 1
                    write(pair)
            faults.report(f"{folder / split}.{{{','.join(langs)}}}", "dropped" if split in drop else "kept")
            if not kept:
                raise TextError(f"{folder / split}: cleaning leaves no pair; raise its limits, such as --max-tokens")


def hold_out(
    folder: Path, output: Path, splits: Sequence[str], langs: Sequence[str], every: int, valid: str = "valid"
) -> None:
    """Divide training text: every Nth pair for validation, the others for training; other splits are copied."""
    for name in names_of(splits, langs):
        copy_file(folder / name, output / name)
    with pair_writer(output / "train", langs) as train, pair_writer(output / valid, langs) as held:
        for number, pair in enumerate(read_pair(folder / "train", langs, "hold-out train"), 1):
            write = train if number % every else held
            write(pair)


def first_words(folder: Path, output: Path, names: Iterable[str], most: int, lang: str = "") -> None:
    """Copy files, with lines of language ``lang``, or of all languages, cut to the first ``most`` words or units."""
    for name in names:
        cut = most if lang in ("", name.rpartition(".")[2]) else None
        write_lines(output / name, (" ".join(line.split(" ")[:cut]) for line in read_lines(folder / name)))


def short_to_long(prepared: Path, output_dir: Path, langs: Sequence[str], limit: int, bins: Sequence[int]) -> None:
    """Divide the training text of prepared data by source length: short pairs for training, longer ones for test sets.

    Args:
        prepared: the folder of binarized data, whose manifest names the splits; their text is beside it.
        output_dir: the folder for the divided text.
        langs: source and target language, with which the names of files end.
        limit: train on source sentences of fewer than N subword units.
        bins: minimum source length of each test set, in subword units.
    """
    given = f"--limit {limit} --bins {' '.join(map(str, bins))}"
    if sorted(set(bins)) != list(bins) or not 1 < limit <= bins[0]:
        raise TextError(f"{given}: --limit must be 2 or more, bins must increase from --limit on")
    names = test_names(len(bins))
    counts = dict.fromkeys(("train", "valid", *names), 0)
    splits = read_mapping(prepared / "manifest.json").get("splits")
    if not splits:
        raise TextError(f"{prepared}: must be of parallel text, whose manifest names its splits")
    with ExitStack() as stack:
        write = {name: stack.enter_context(pair_writer(output_dir / name, langs)) for name in counts}
        for split in ("train", "valid"):
            for pair in read_pair(text_beside(prepared) / "bpe" / splits[split], langs):
                length = len(pair[0].split())
                if length < limit:
                    name = split
                elif split == "train" and length >= bins[0]:
                    name = names[bisect.bisect(bins, length) - 1]
                else:
                    continue
                counts[name] += 1
                write[name](pair)
        for name, count in counts.items():
            if not count:
                raise TextError(f"{given}: no pairs for {name}")
            print(f"{name}: {counted(count, 'pair')}", file=sys.stderr)
