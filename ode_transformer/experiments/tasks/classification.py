"""Sentence classification by fairseq's ``sentence_prediction``, scored by accuracy.

The published data sets are IMDB and AG's news; their text is segmented into subwords or characters.
"""

import csv
import re
from pathlib import Path

from ...errors import OdeTransformerError
from ...files import read_text
from ..text import subwords
from ..text.lines import read_lines, write_splits
from .task import by_predictions

LEVELS = ("subword", "characters")
BLANK = "\u2581"  # SentencePiece's symbol for a blank
SENTIMENTS = ("neg", "pos")
TOPICS = {"1": "world", "2": "sports", "3": "business", "4": "science"}
HEADER = ["Class Index", "Title", "Description"]  # the first row of some copies of AG's news


Splits = dict[str, list[tuple[str, str]]]
"""By split, texts on one line and the names of their classes."""


def read_imdb(folder: Path, valid: int) -> Splits:
    """Read IMDB's reviews (Maas et al. 2011) by split: 25,000 each for training and testing, half of them positive.

    The published layout is ``aclImdb/{train,test}/{pos,neg}/NUMBER_RATING.txt``. In copies with a folder
    ``aclImdb/val``, its reviews are returned to the training set. There is no published validation set; here it is the
    training reviews with the highest numbers. Reviews of the same film have neighboring numbers, so that few films are
    in both training and validation set; none is in both training and test set.

    Args:
        folder: the folder ``aclImdb``.
        valid: number of training reviews to hold out for validation, half of each class.
    """
    splits: Splits = {"train": [], "valid": [], "test": []}
    for label in SENTIMENTS:
        train = _reviews(folder / "train" / label, folder / "val" / label)
        first = len(train) - valid // 2
        if not 0 < first < len(train):
            raise OdeTransformerError(
                f"--valid {valid}: must be 2 or more, and fewer than the {2 * len(train)} reviews"
            )
        found = {"train": train[:first], "valid": train[first:], "test": _reviews(folder / "test" / label)}
        for split, texts in found.items():
            splits[split] += [(text, label) for text in texts]
    return splits


def _reviews(*folders: Path) -> list[str]:
    """Return the reviews in some folders, ordered by number."""
    files = (path for folder in folders for path in folder.glob("*.txt"))
    paths = [path for path in files if re.match(r"[0-9]+_", path.name)]
    if not paths:
        raise OdeTransformerError(f"{folders[0]}: no such folder, or no reviews NUMBER_RATING.txt in it")
    return [_on_one_line(read_text(path)) for path in sorted(paths, key=lambda path: int(path.name.partition("_")[0]))]


def read_agnews(folder: Path, valid: int) -> Splits:
    """Read AG's news (Zhang et al. 2015) by split: titles and descriptions of four classes, 120,000 for training.

    The published layout is ``train.csv`` and ``test.csv`` with the columns class number, title and description; some
    copies begin with a header. There is no published validation set; here it is every Nth article of the training set.

    Args:
        folder: the folder of ``train.csv`` and ``test.csv``.
        valid: approximate number of training articles to hold out for validation.
    """
    train, test = _articles(folder / "train.csv"), _articles(folder / "test.csv")
    if valid > len(train) // 2:
        raise OdeTransformerError(f"--valid {valid}: must be at most half of the {len(train)} training articles")
    every = len(train) // valid
    kept = [example for i, example in enumerate(train, 1) if i % every]
    return {"train": kept, "valid": train[every - 1 :: every], "test": test}


def _articles(path: Path) -> list[tuple[str, str]]:
    try:
        rows = [row for row in csv.reader(f"{line}\n" for line in read_lines(path)) if row not in ([], HEADER)]
    except csv.Error as error:  # of a quotation mark that is not closed
        raise OdeTransformerError(f"{path}: is not CSV: {error}") from error
    if not rows or not all(len(row) == 3 and row[0] in TOPICS for row in rows):
        raise OdeTransformerError(f"{path}: each row must be a class of {', '.join(TOPICS)}, a title and a description")
    # A backslash stands for a line end or a blank.
    return [(_on_one_line(f"{title} {text}".replace("\\", " ")), TOPICS[topic]) for topic, title, text in rows]


def _on_one_line(text: str) -> str:
    """Replace HTML line breaks and runs of white space by single blanks."""
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def write(splits: Splits, output_dir: Path, level: str, size: int = 16000, workers: int = 1) -> dict[str, int]:
    """Write segmented texts, ``SPLIT.input0``, and labels, ``SPLIT.label``; return the number of examples by split.

    Args:
        splits: ``train``, ``valid`` and ``test``.
        output_dir: the folder for the files, and for the subword model, ``sentencepiece.model``.
        level: the units of the text.
        size: vocabulary size of the subwords, which are learned on ``train``.
        workers: number of threads for learning the subwords.
    """
    if level == "subword":
        texts = (text for text, _ in splits["train"])
        subwords.learn_sentencepiece(texts, size, workers, output_dir / subwords.OWN[0])
        cut = subwords.segmenter(output_dir)
    else:
        cut = lambda text: " ".join(text.replace(" ", BLANK))  # noqa: E731
    units = {name: [(cut(text), label) for text, label in examples] for name, examples in splits.items()}
    return write_splits(units, ("input0", "label"), output_dir)


TASK = by_predictions(
    "classification",
    flags=lambda recipe: ["--task", "sentence_prediction_by_length"],
    metrics=lambda recipe: ["accuracy"],
)
