"""Summarization with fairseq's task ``translation``, scored by ROUGE, beside the ROUGE of the texts' first sentences.

Beside the binarized data lie the references of a test set as they were published, ``raw/SUBSET.target``, whose
sentences may have tabs between them, and the tokenized texts, ``tok/SUBSET.source``. The published sets are AESLC and
CNN/DailyMail.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

from ... import paths
from ...errors import OdeTransformerError
from ...files import read_text
from ..metrics import Examples
from ..text.lines import read_all
from .task import Recipe, Step, Task
from .translation import Pair, decoding, generated, scoring, task_flags, translations

SUBJECT = "@subject"
HIGHLIGHT = "@highlight"
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def read_aeslc(folder: Path) -> dict[str, Iterator[Pair]]:
    """Return AESLC (Zhang and Tetreault 2019) by split: e-mails of Enron and their subject lines, 14,436 to train on.

    The published layout is ``enron_subject_line/{train,dev,test}/NAME.subject``: the body, a sentence per line, then a
    line ``@subject`` and the subject. Behind it ``dev`` and ``test`` have three annotators' subjects, which nothing
    here reads.

    Args:
        folder: the folder ``enron_subject_line``.

    An ``OdeTransformerError`` names, while they are read, a folder that is missing or empty, or a file that is no
    e-mail with its subject.
    """
    return {name: _emails(folder / part) for name, part in (("train", "train"), ("valid", "dev"), ("test", "test"))}


def _emails(folder: Path) -> Iterator[Pair]:
    files = sorted(folder.glob("*.subject"))
    if not files:
        raise OdeTransformerError(f"{folder}: no such folder, or no e-mail NAME.subject in it")
    for path in files:
        lines = read_text(path).split("\n")
        if SUBJECT not in lines:
            raise OdeTransformerError(f"{path}: must have a line {SUBJECT} behind the body")
        end = lines.index(SUBJECT)
        subject = next((line for line in lines[end + 1 :] if line.strip()), "")
        pair = Pair(*(" ".join(text.split()) for text in (" ".join(lines[:end]), subject)))
        if not all(pair) or pair.target.startswith("@ann"):
            raise OdeTransformerError(f"{path}: must have a body and a subject")
        yield pair


def read_cnndm(folders: Sequence[Path], lists: Path) -> dict[str, Iterator[Pair]]:
    """Return CNN/DailyMail by split: stories and their highlights, not anonymized, as See et al. (2017) made them.

    The published parts are the stories, ``{cnn,dailymail}/stories/HASH.story``, and lists of addresses by split,
    ``all_{train,val,test}.txt``. HASH is the SHA-1 of an address. In a story every highlight stands behind a line
    ``@highlight``; all other lines are the article. A line that ends in no punctuation is given a full stop.

    Args:
        folders: the folders of stories, ``cnn/stories`` and ``dailymail/stories``.
        lists: the folder of ``all_train.txt``, ``all_val.txt`` and ``all_test.txt``.

    Raises:
        OdeTransformerError: while they are read: a list or a story is missing, empty or not UTF-8.
    """
    parts = (("train", "train"), ("valid", "val"), ("test", "test"))
    return {name: _stories(folders, lists / f"all_{part}.txt") for name, part in parts}


def _stories(folders: Sequence[Path], addresses: Path) -> Iterator[Pair]:
    known = read_text(addresses).split()
    if not known:
        raise OdeTransformerError(f"{addresses}: holds no addresses")
    for address in known:
        name = f"{hashlib.sha1(address.encode()).hexdigest()}.story"
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            raise OdeTransformerError(f"{name}, the story of {address}: not in {' or '.join(map(str, folders))}")
        yield _story(read_text(path))


def _story(text: str) -> Pair:
    """Return the article of a story, which ends at the first highlight, and the highlights with tabs between them."""
    article, highlights, behind = [], [], False
    for line in filter(None, (" ".join(line.split()) for line in text.split("\n"))):
        if line.startswith(HIGHLIGHT):
            behind = True
            continue
        (highlights if behind else article).append(line if line.endswith(ENDS) else f"{line} .")
    return Pair(" ".join(article), "\t".join(highlights))


def _scoring(recipe: Recipe, run_dir: str, subset: str) -> Step:
    options = {"summaries": translations(run_dir, subset), "ref": _references(recipe, subset)}
    if recipe.score.lead:
        options |= {"source": f"{recipe.data.directory}/tok/{subset}.source", "lead": recipe.score.lead}
    return scoring(recipe, run_dir, subset, options)


def _references(recipe: Recipe, subset: str) -> str:
    return f"{recipe.data.directory}/raw/{subset}.target"


def _examples(
    recipe: Recipe, summaries: Sequence[str], subset: str, folder: Optional[Path]
) -> tuple[Sequence[str], Examples]:
    source = paths.ROOT / recipe.data.directory / "tok" / f"{subset}.source"
    references = read_all(paths.ROOT / _references(recipe, subset))
    return summaries, Examples([references], read_all(source) if source.is_file() else ())


TASK = Task(
    name="summarisation",
    flags=task_flags,
    evaluate=decoding,
    score=_scoring,
    metrics=lambda recipe: ["rouge1", "rouge2", "rougeL"],
    outputs=generated,
    examples=_examples,
)
