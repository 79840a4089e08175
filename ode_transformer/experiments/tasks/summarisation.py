"""Summarization with fairseq's task ``translation``, scored by ROUGE; the first sentences of the texts are a baseline.

The folder of binarized data also holds the published references of a test set, ``raw/SUBSET.target``, whose sentences
may be separated by tabs, and the tokenized texts, ``tok/SUBSET.source``. The published data sets are AESLC and
CNN/DailyMail.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import read_text
from .task import Recipe
from .translation import Pair, by_decoding, reads_source, translations

SUBJECT = "@subject"
HIGHLIGHT = "@highlight"
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def read_aeslc(folder: Path) -> dict[str, Iterator[Pair]]:
    """Return AESLC (Zhang and Tetreault 2019) by split: Enron's e-mails and their subject lines, 14,436 for training.

    The published layout is ``enron_subject_line/{train,dev,test}/NAME.subject``: the body, one sentence per line, then
    a line ``@subject`` and the subject. In ``dev`` and ``test``, the subjects of three annotators follow, which are not
    read.

    Args:
        folder: the folder ``enron_subject_line``.
    """
    return {name: _emails(folder / part) for name, part in (("train", "train"), ("valid", "dev"), ("test", "test"))}


def _emails(folder: Path) -> Iterator[Pair]:
    files = sorted(folder.glob("*.subject"))
    if not files:
        raise OdeTransformerError(f"{folder}: no such folder, or no e-mail NAME.subject in it")
    for path in files:
        body, _, rest = read_text(path).partition(f"\n{SUBJECT}\n")
        pair = Pair(" ".join(body.split()), " ".join(rest.strip().partition("\n")[0].split()))
        if not all(pair):
            raise OdeTransformerError(f"{path}: must have a body, a line {SUBJECT} and a subject")
        yield pair


def read_cnndm(folders: Sequence[Path], lists: Path) -> dict[str, Iterator[Pair]]:
    """Return CNN/DailyMail by split: stories and their highlights, not anonymized, as See et al. (2017) prepared them.

    The published files are the stories, ``{cnn,dailymail}/stories/HASH.story``, and lists of addresses by split,
    ``all_{train,val,test}.txt``. HASH is the SHA-1 of an address. In a story, the article is followed by the
    highlights, each after a line ``@highlight``. A full stop is added to a line that ends without punctuation.

    Args:
        folders: the folders of stories, ``cnn/stories`` and ``dailymail/stories``.
        lists: the folder of ``all_train.txt``, ``all_val.txt`` and ``all_test.txt``.
    """
    parts = (("train", "train"), ("valid", "val"), ("test", "test"))
    return {name: _stories(folders, lists / f"all_{part}.txt") for name, part in parts}


def _stories(folders: Sequence[Path], addresses: Path) -> Iterator[Pair]:
    for address in read_text(addresses).split():
        name = f"{hashlib.sha1(address.encode()).hexdigest()}.story"
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            raise OdeTransformerError(f"{name}, the story of {address}: not in {' or '.join(map(str, folders))}")
        yield _story(read_text(path))


def _story(text: str) -> Pair:
    """Return the article of a story, which ends at the first highlight, and the highlights, separated by tabs."""
    article, highlights, behind = [], [], False
    for line in filter(None, (" ".join(line.split()) for line in text.split("\n"))):
        if line.startswith(HIGHLIGHT):
            behind = True
            continue
        (highlights if behind else article).append(line if line.endswith(ENDS) else f"{line} .")
    return Pair(" ".join(article), "\t".join(highlights))


def _options(recipe: Recipe, run_dir: str, subset: str) -> dict[str, Any]:
    options = {"summaries": translations(run_dir, subset), "ref": f"{recipe.data.directory}/raw/{subset}.target"}
    if recipe.score.lead or reads_source(recipe):
        options |= {"source": f"{recipe.data.directory}/tok/{subset}.source", "lead": recipe.score.lead or None}
    return options


TASK = by_decoding("summarisation", _options, lambda recipe: ["rouge1", "rouge2", "rougeL"])
