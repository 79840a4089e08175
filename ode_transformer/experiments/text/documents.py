"""Plain text for masked language models: ``ode-transformer documents``.

A document is a text file in a folder, or the text between empty lines of a file. It is written as sentences, one per
line, followed by an empty line, as fairseq's ``masked_lm`` and our ``masked_lm_pairs`` read documents. One document in
200 is held out for validation, as in Lu et al. 2019 (appendix B.2).
"""

import argparse
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import OdeTransformerError
from ...files import whole
from ..arguments import at_least
from . import segmentation
from .lines import keep_apart, read_lines

# A sentence ends after a full stop and closing quotes, before a capital letter or a digit: as much as a rule can tell.
_END = re.compile(r"(?<=[.!?])([\"')\]]*)\s+(?=[\"'(\[]*[A-Z0-9])")


def documents(path: Path) -> Iterator[list[str]]:
    """The documents of a file, or of the ``.txt`` files below a folder, as their lines.

    Raises:
        OdeTransformerError: there is no such file or folder, or there is no text file in the folder.
        TextError: a file cannot be read.
    """
    if path.is_dir():
        found = sorted(path.rglob("*.txt"))
        if not found:
            raise OdeTransformerError(f"{path}: holds no .txt file")
        for file in found:
            if lines := [line for line in read_lines(file) if line.strip()]:
                yield lines
        return
    if not path.is_file():
        raise OdeTransformerError(f"{path}: no such file or folder")
    lines: list[str] = []
    for line in read_lines(path):
        if line.strip():
            lines.append(line)
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def sentences(lines: list[str], split: bool) -> list[str]:
    """The sentences of a document.

    Args:
        lines: its lines; an HTML line break ends a line too.
        split: whether to split lines at the ends of sentences.

    Returns:
        The sentences, with single spaces in place of white space.
    """
    found = (part for line in lines for part in re.split(r"<br\s*/?>", line))
    if split:
        found = (part for line in found for part in _END.sub("\\1\n", line).split("\n"))
    return [text for line in found if (text := " ".join(line.split()))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer documents``."""
    parser.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="a file, or a folder of .txt files")
    parser.add_argument("--valid", nargs="+", type=Path, default=[], metavar="INPUT", help="the text for validation")
    parser.add_argument(
        "--held-out", type=int, default=200, metavar="N",
        help="without --valid, every Nth document is for validation (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--split-sentences", action="store_true", help="split lines that hold several sentences")
    parser.add_argument(
        "--like", type=Path, metavar="DIR", help="segment text as this folder of a pretrained model says"
    )
    parser.add_argument("--size", type=int, default=16000, metavar="N", help="vocabulary size (default: %(default)s)")
    parser.add_argument("--workers", type=at_least(1), default=2, metavar="N", help="threads (default: %(default)s)")
    parser.add_argument(
        "--output-dir", metavar="DIR", type=Path, required=True, help="folder for train, valid and the subword model"
    )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer documents``; the exit status."""
    if args.held_out < 2:
        raise OdeTransformerError(f"--held-out {args.held_out}: must be 2 or more")
    keep_apart(args.output_dir, ("train", "valid"), [*args.inputs, *args.valid])
    for name in ("valid", "train"):
        if not any(split == name for split, _ in _splits(args)):
            advice = "" if args.valid else f" with --held-out {args.held_out}; lower --held-out, or give --valid"
            raise OdeTransformerError(f"{name}: must have a document, got none{advice}")
    args.output_dir.mkdir(parents=True, exist_ok=True)
    how = args.like or args.output_dir
    if args.like is None:
        lines = (line for name, document in _splits(args) if name == "train" for line in document)
        segmentation.learn(lines, args.size, args.workers, args.output_dir / segmentation.OWN[0])
    cut = segmentation.opened(how)
    counts = {name: [0, 0] for name in ("train", "valid")}
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(whole(args.output_dir / name)) for name in counts}
        for name, document in _splits(args):
            # Of a line of invisible characters nothing may be left, and an empty line would end the document.
            if kept := list(filter(None, map(cut, document))):
                files[name].writelines(f"{line}\n" for line in (*kept, ""))
                counts[name][0] += 1
                counts[name][1] += len(kept)
    for name, (its_documents, its_sentences) in counts.items():
        print(f"{name}: {its_documents} documents, {its_sentences} sentences")
    return 0


def _splits(args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """The sentences of each document, and whether it is to train on or for validation; read anew with each call."""
    for path in args.valid:
        for lines in documents(path):
            if document := sentences(lines, args.split_sentences):
                yield "valid", document
    count = 0
    for path in args.inputs:
        for lines in documents(path):
            if document := sentences(lines, args.split_sentences):
                count += 1
                yield "train" if args.valid or count % args.held_out else "valid", document
