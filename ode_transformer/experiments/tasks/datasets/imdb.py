"""IMDB's reviews (Maas et al. 2011): 25,000 to train on and 25,000 to test, half of each positive.

The published layout is ``aclImdb/{train,test}/{pos,neg}/NUMBER_RATING.txt``. Copies that put some of the training
reviews aside, in ``aclImdb/val``, are read as if they had not.
"""

import re
from pathlib import Path

from ....errors import OdeTransformerError
from ....files import read_text
from .labelled import Example, plain

LABELS = ("neg", "pos")


def read(folder: Path, held_out: int) -> dict[str, list[Example]]:
    """The reviews by split.

    The data set has no validation set: here it is the training reviews of the highest numbers. Reviews of one film have
    neighboring numbers, so that few films are on both sides, as none is in both training and test set.

    Args:
        folder: ``aclImdb``.
        held_out: training reviews for validation, half of each class.

    Raises:
        OdeTransformerError: a folder is missing or empty, a file is not called as published, twice there or not UTF-8;
            or more reviews are to be held out than there are.
    """
    splits: dict[str, list[Example]] = {"train": [], "valid": [], "test": []}
    for label in LABELS:
        train = _reviews(folder / "train" / label)
        if (folder / "val" / label).is_dir():
            aside = _reviews(folder / "val" / label)
            if twice := sorted(train.keys() & aside.keys()):
                raise OdeTransformerError(f"{folder}: review {twice[0]} of {label} is both in train and in val")
            train |= aside
        order = sorted(train)
        if not 0 < held_out // 2 < len(order):
            raise OdeTransformerError(
                f"--valid {held_out}: must be from 2 to fewer than the {2 * len(order)} training reviews"
            )
        first = len(order) - held_out // 2
        splits["train"] += [Example(train[i], label) for i in order[:first]]
        splits["valid"] += [Example(train[i], label) for i in order[first:]]
        test = _reviews(folder / "test" / label)
        splits["test"] += [Example(test[i], label) for i in sorted(test)]
    return splits


def _reviews(folder: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    for path in sorted(folder.glob("*.txt")):
        name = re.fullmatch(r"(\d{1,9})_\d{1,2}", path.stem)
        if not name or int(name[1]) in found:
            raise OdeTransformerError(f"{path}: must be called NUMBER_RATING.txt, with a number of its own")
        found[int(name[1])] = plain(read_text(path))
    if not found:
        raise OdeTransformerError(f"{folder}: no such folder, or no reviews in it")
    return found
