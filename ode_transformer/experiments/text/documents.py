"""Plain text for masked language models: ``ode-transformer dataset documents``.

A document is a text file in a folder, or the text between empty lines of a file. It is written as sentences, one per
line, followed by an empty line, as fairseq's ``masked_lm`` and our ``masked_lm_pairs`` read documents. One document in
200 is held out for validation, as in Lu et al. 2019 (appendix B.2).
"""

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import OdeTransformerError, counted
from ...files import atomic_file, copy_file
from . import subwords
from .lines import read_lines

# A sentence ends after a full stop and closing quotes, before a capital letter or a digit: as much as a rule can tell.
_END = re.compile(r"(?<=[.!?])([\"')\]]*)\s+(?=[\"'(\[]*[A-Z0-9])")


def documents(path: Path) -> Iterator[list[str]]:
    """Yield the lines of each document in a file, or in the ``.txt`` files below a folder."""
    if path.is_dir():
        found = ([line for line in read_lines(file) if line.strip()] for file in sorted(path.rglob("*.txt")))
    else:
        groups = itertools.groupby(read_lines(path), lambda line: bool(line.strip()))
        found = (list(lines) for is_text, lines in groups if is_text)
    yield from filter(None, found)


def sentences(lines: list[str], split: bool) -> list[str]:
    """Return the sentences of a document, with single spaces as white space: its lines, which HTML's breaks end, too,
    or their parts if lines are to be ``split`` where sentences end."""
    found = (part for line in lines for part in re.split(r"<br\s*/?>", line))
    if split:
        found = (part for line in found for part in _END.sub("\\1\n", line).split("\n"))
    return [text for line in found if (text := " ".join(line.split()))]


def prepare(
    inputs: Sequence[Path],
    output_dir: Path,
    *,
    valid: Sequence[Path] = (),
    held_out: int = 200,
    split_sentences: bool = False,
    like: Path | None = None,
    size: int = 16000,
    workers: int = 2,
) -> None:
    """Write documents as ``train`` and ``valid``, segmented by a subword model that is learned on them or given.

    Args:
        inputs: files of documents with empty lines between them, or folders of ``.txt`` files, one document each.
        output_dir: the folder for ``train``, ``valid`` and the files of the segmentation.
        valid: the validation text, in the same form (default: held out).
        held_out: without --valid, hold out every Nth document for validation.
        split_sentences: put every sentence on a line of its own.
        like: the folder of a pretrained model whose subwords are used, instead of learning new ones.
        size: vocabulary size of the subwords that are learned.
        workers: number of threads for learning the subwords.
    """

    def splits() -> Iterator[tuple[str, list[str]]]:
        """Yield the split and the sentences of each document; each call reads the files anew."""
        for name, paths in (("valid", valid), ("train", inputs)):
            found = (sentences(lines, split_sentences) for path in paths for lines in documents(path))
            for number, document in enumerate(filter(None, found), 1):
                yield name if valid or number % held_out else "valid", document

    for name in ("valid", "train"):
        if not any(split == name for split, _ in splits()):
            advice = "" if valid else f" with --held-out {held_out}: change it, or give --valid"
            raise OdeTransformerError(f"{name}: must have a document, got none{advice}")
    output_dir.mkdir(parents=True, exist_ok=True)
    if like is None:
        lines = (line for name, document in splits() if name == "train" for line in document)
        subwords.learn_sentencepiece(lines, size, workers, output_dir / subwords.OWN[0])
    else:
        for name in subwords.files(like):
            copy_file(like / name, output_dir / name)
    cut = subwords.segmenter(output_dir)
    counts = {name: [0, 0] for name in ("train", "valid")}
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(atomic_file(output_dir / name)) for name in counts}
        for name, document in splits():
            # A line of invisible characters may have no subwords, and an empty line would end the document.
            if kept := list(filter(None, map(cut, document))):
                files[name].writelines(f"{line}\n" for line in (*kept, ""))
                counts[name][0] += 1
                counts[name][1] += len(kept)
    for name, (its_documents, its_sentences) in counts.items():
        print(f"{name}: {counted(its_documents, 'document')}, {counted(its_sentences, 'sentence')}")
