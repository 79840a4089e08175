"""Which pairs of sentences a text has: joining corpora, checking, cleaning, and dividing them into splits."""

import argparse
import bisect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ...files import copy_file
from .binarised import test_names
from .lines import PERHAPS, Faults, TextError, keep_apart, parallel, read_lines, read_pair, whole_pair, write_pair
from .manifest import read_mapping

# Romanian's s and t have commas below; older text has cedillas, which look the same.
COMMAS = str.maketrans("\u015e\u015f\u0162\u0163", "\u0218\u0219\u021a\u021b")
DIACRITICS = str.maketrans("\u0218\u0219\u021a\u021b\u0102\u0103\u00c2\u00e2\u00ce\u00ee", "SsTtAaAaIi")
NOT_UTF8 = "that are not UTF-8"
ROMANIAN = ("raw", "normalised", "stripped")


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


def _files(prefix: Path, langs: Sequence[str]) -> str:
    return f"{prefix}.{{{','.join(langs)}}}"


def gather(args: argparse.Namespace) -> None:
    """Join files of corpora into SPLIT.LANGUAGE; reads text, .gz, segments of .sgm and .xml, and TED's train.tags.

    Training pairs that are not UTF-8, or hold a NUL, are dropped and reported; in other splits they are an error.
    """
    splits = dict.fromkeys(split for split, _, _ in args.add)
    keep_apart(args.output_dir, _names(splits, args.langs), [Path(file) for _, *files in args.add for file in files])
    for split in splits:
        with whole_pair(args.output_dir / split, args.langs) as files:
            for source, target in ([Path(f) for f in files] for name, *files in args.add if name == split):
                count, faults = 0, Faults()
                errors = "surrogateescape" if split == "train" else "strict"
                texts = _text(source, errors, bar=f"gather {source.name}"), _text(target, errors)
                for number, pair in enumerate(parallel(source, texts[0], target, texts[1]), 1):
                    if fault := next(filter(None, map(_unusable, pair)), None):
                        if split != "train":
                            raise TextError(f"{source}, {target}: line {number}: must not be text that holds a NUL")
                        faults.add(fault, number)
                        continue
                    count += 1
                    both = zip(pair, args.langs, strict=True)
                    write_pair(files, [romanian(line, args.romanian) if lang == "ro" else line for line, lang in both])
                print(f"{split}: {count:,} pairs of {source.name}", file=sys.stderr)
                hint = f"; {PERHAPS}" if NOT_UTF8 in faults.counts else ""
                faults.report(f"{source}, {target}", f"dropped{hint}")
                if faults.counts and not count:
                    raise TextError(f"{source}, {target}: no pair of text is left")


def _names(splits: Iterable[str], langs: Sequence[str]) -> list[str]:
    return [f"{split}.{lang}" for split in splits for lang in langs]


def romanian(line: str, kind: str) -> str:
    """Romanian as it is (``raw``), with commas for cedillas (``normalised``), or without diacritics (``stripped``)."""
    if kind == "raw":
        return line
    line = line.translate(COMMAS)
    return line.translate(DIACRITICS) if kind == "stripped" else line


def _unusable(line: str) -> str | None:
    """Why a line cannot be used, as the end of a sentence that begins with "pairs"; or None."""
    try:
        line.encode()
    except UnicodeEncodeError:  # it was read with surrogates
        return NOT_UTF8
    return "that hold a NUL" if "\0" in line else None


def _text(path: Path, errors: str = "strict", bar: str = "") -> Iterator[str]:
    """The sentences of a file, without markup; arguments and errors as for :func:`read_lines`."""
    lines = read_lines(path, errors, bar)
    if path.name.removesuffix(".gz").endswith((".sgm", ".xml")):
        return (found[1].strip() for line in lines if (found := re.search(r"<seg id[^<>]*>(.*?)(</seg>|$)", line)))
    if path.name.startswith("train.tags."):
        kept = (line for line in lines if not re.search("<(url|talkid|keywords)>", line))
        return (re.sub("</?(title|description)>", "", line) for line in kept)
    return lines


def check(args: argparse.Namespace) -> None:
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


def clean(args: argparse.Namespace) -> None:
    """Copy the files of a folder to another; of --drop-from, without pairs that are empty, too long or too uneven."""
    names = _names(args.splits, args.langs)
    keep_apart(args.output_dir, names, [args.dir / name for name in names])
    limits = Limits(args.max_tokens, args.ratio)
    for split in args.splits:
        drop = split in args.drop_from
        faults = Faults()
        kept = 0
        with whole_pair(args.output_dir / split, args.langs) as files:
            for number, pair in enumerate(read_pair(args.dir / split, args.langs, f"clean {split}"), 1):
                if fault := limits.fault(pair):
                    faults.add(fault, number)
                if fault is None or not drop:
                    kept += 1
                    write_pair(files, pair)
            faults.report(_files(args.dir / split, args.langs), "dropped" if drop else "kept")
            if not kept:
                raise TextError(f"{args.dir / split}: no pair is left after cleaning")


def hold_out(args: argparse.Namespace) -> None:
    """Split the training text of a folder into another: every Nth pair for validation, the others for training."""
    if args.every < 2:
        raise TextError(f"--every {args.every}: must be 2 or more")
    names = _names(["train", *args.splits], args.langs)
    keep_apart(args.output_dir, [*names, *_names(["valid"], args.langs)], [args.dir / name for name in names])
    for lang in args.langs:
        for split in args.splits:
            name = f"{split}.{lang}"
            copy_file(args.dir / name, args.output_dir / name)
    with (
        whole_pair(args.output_dir / "train", args.langs) as train,
        whole_pair(args.output_dir / "valid", args.langs) as valid,
    ):
        number = 0
        for number, pair in enumerate(read_pair(args.dir / "train", args.langs, "hold-out train"), 1):
            write_pair(train if number % args.every else valid, pair)
        if number < args.every:
            raise TextError(f"{args.dir}/train: {number} pairs, --every {args.every} holds out none")


def short_to_long(args: argparse.Namespace) -> None:
    """Split training text by source length: short pairs for training, longer ones for test sets, one per bin."""
    bins: list[int] = args.bins
    if sorted(set(bins)) != bins or not 1 < args.limit <= bins[0]:
        raise TextError(
            f"--limit {args.limit} --bins {bins}: --limit must be 2 or more, bins must increase from --limit on"
        )
    names = test_names(len(bins))
    counts = dict.fromkeys(("train", "valid", *names), 0)
    path = args.dir / "manifest.json"
    splits = read_mapping(path).get("splits")
    if not isinstance(splits, dict):
        raise TextError(f"{path}: does not name the splits of a text, as the manifest of prepared data does")
    text = args.text_dir / "bpe" if (args.text_dir / "bpe").is_dir() else args.text_dir
    read = [text / name for name in _names([splits["train"], splits["valid"]], args.langs)]
    keep_apart(args.output_dir, _names(counts, args.langs), read)
    with ExitStack() as stack:
        files = {name: stack.enter_context(whole_pair(args.output_dir / name, args.langs)) for name in counts}
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
                write_pair(files[name], pair)
        for name, count in counts.items():
            if not count:
                raise TextError(f"--limit {args.limit} --bins {bins}: no pairs for {name}")
            print(f"{name}: {count} pairs", file=sys.stderr)
