"""Joining of subword units to words, for every segmentation.

Imports neither torch nor fairseq.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import OdeTransformerError, counted

MARK = "\u2581"  # with which SentencePiece marks the beginning of a word
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # symbols of every dictionary that are not in its file


def _join_subwords(line: str) -> str:
    return f"{line} ".replace("@@ ", "").rstrip(" ")


def _join_pieces(line: str) -> str:
    return line.replace(" ", "").replace(MARK, " ").strip(" ")


class Segmentation(NamedTuple):
    """A way to segment words: the file of its model beside the data, the function that joins the units of a line to
    words, and the values of fairseq's ``--post-process`` that join them, too.
    """

    model: str
    join: Callable[[str], str]
    post_process: tuple[str, ...]


SEGMENTATIONS = {
    "subword-nmt": Segmentation("codes", _join_subwords, ("subword_nmt", "@@ ", "@@")),
    "sentencepiece": Segmentation("sentencepiece.model", _join_pieces, ("sentencepiece",)),
    "none": Segmentation("", str, ("none",)),
}
MODEL_FILES = tuple(its.model for its in SEGMENTATIONS.values() if its.model)
JOIN = {its.post_process[0]: its.join for its in SEGMENTATIONS.values()}  # by the value of --remove-bpe


def joined_words(lines: Sequence[str], name: str, segmentation: str | None) -> list[str]:
    """Return lines with their subword units joined to words.

    SentencePiece marks the beginning of almost every line. In a text of words the mark occurs by chance, and joining
    would remove all blanks: lines that mostly begin otherwise are unchanged, with a warning. ``segmentation`` is the
    value of ``--remove-bpe``, None if it is not given; ``name`` is the file, for messages.
    """
    if segmentation not in (None, *JOIN):
        raise OdeTransformerError(f"--remove-bpe {segmentation}: must be one of {', '.join(JOIN)}")
    units = sum("@@ " in line or MARK in line for line in lines)
    if units and segmentation is None:
        raise OdeTransformerError(
            f"{name}: subword units, not words, in {units} of {counted(len(lines), 'line')}; give --remove-bpe "
            f"{'|'.join(JOIN)} (none: score them as they are), or in a recipe generate.flags.post-process"
        )
    join = JOIN[segmentation or "none"]
    begin = sum(line.startswith(MARK) for line in lines)
    if segmentation == "sentencepiece" and 2 * begin <= sum(map(bool, lines)):
        join = str
        if units:
            said = f"{MARK} in {units} of {counted(len(lines), 'line')}, taken for words"
            print(f"warning: {name}: {said}", file=sys.stderr)
    return list(map(join, lines))
