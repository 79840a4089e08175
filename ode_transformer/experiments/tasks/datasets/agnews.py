"""AG's news (Zhang et al. 2015): titles and descriptions of articles of four classes, 120,000 to train on.

The published layout is ``train.csv`` and ``test.csv``, with the number of the class, the title and the description;
copies may begin with a header row that names these columns.
"""

import csv
from pathlib import Path

from ....errors import OdeTransformerError
from ....files import regular
from .labelled import Example, plain

HEADER = ["Class Index", "Title", "Description"]  # of some copies
LABELS = {"1": "world", "2": "sports", "3": "business", "4": "science"}


def read(folder: Path, held_out: int) -> dict[str, list[Example]]:
    """The articles by split.

    The data set has no validation set: here it is every Nth article of the training set.

    Args:
        folder: of ``train.csv`` and ``test.csv``.
        held_out: about how many training articles are held out for validation.

    Raises:
        OdeTransformerError: a file is missing or has a row that is no article, or no article or more than half of them
            are to be held out.
    """
    train, test = _articles(folder / "train.csv"), _articles(folder / "test.csv")
    if not 1 <= held_out <= len(train) // 2:
        raise OdeTransformerError(f"--valid {held_out}: must be from 1 to half of the {len(train)} training articles")
    every = len(train) // held_out
    return {
        "train": [example for i, example in enumerate(train, 1) if i % every],
        "valid": train[every - 1 :: every],
        "test": test,
    }


def _articles(path: Path) -> list[Example]:
    found = []
    try:
        with regular(path).open(encoding="utf-8-sig", newline="") as file:
            for row in csv.reader(file):
                if not "".join(row).strip() or (row == HEADER and not found):
                    continue
                if len(row) != 3 or row[0] not in LABELS:
                    raise OdeTransformerError(
                        f"{path}: article {len(found) + 1}: must be a class of {', '.join(LABELS)}, a title and a "
                        f"description, got {len(row)} fields that begin with {row[:1]}"
                    )
                # A backslash stands for a line end or a blank.
                found.append(Example(plain(f"{row[1]} {row[2]}".replace("\\", " ")), LABELS[row[0]]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OdeTransformerError(f"{path}: {error}") from error
    if not found:
        raise OdeTransformerError(f"{path}: no articles")
    return found
