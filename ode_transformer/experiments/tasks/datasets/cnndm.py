"""CNN/DailyMail, not anonymised: stories and their highlights, as See et al. (2017) made them.

The published parts are the stories, ``{cnn,dailymail}/stories/HASH.story``, and lists of addresses by split,
``all_{train,val,test}.txt``. HASH is the SHA-1 of an address. In a story every highlight stands behind a line
``@highlight``; all other lines are the article. A line that ends in no punctuation is given a full stop.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....errors import OdeTransformerError
from ....files import read_text
from .pairs import Pair

SPLITS = {"train": "train", "valid": "val", "test": "test"}
HIGHLIGHT = "@highlight"
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def read(folders: Sequence[Path], lists: Path) -> dict[str, Iterator[Pair]]:
    """The stories by split: article and highlights, with tabs between these.

    Args:
        folders: of stories, ``cnn/stories`` and ``dailymail/stories``.
        lists: the folder of the three lists.

    Raises:
        OdeTransformerError: while they are read: a list or a story is missing, or is empty or not UTF-8.
    """
    return {name: _stories(folders, lists / f"all_{part}.txt") for name, part in SPLITS.items()}


def _stories(folders: Sequence[Path], addresses: Path) -> Iterator[Pair]:
    known = read_text(addresses).split()
    if not known:
        raise OdeTransformerError(f"{addresses}: holds no addresses")
    for address in known:
        name = f"{hashlib.sha1(address.encode()).hexdigest()}.story"
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            raise OdeTransformerError(f"{name}, the story of {address}: not in {' or '.join(map(str, folders))}")
        yield story(read_text(path))


def story(text: str) -> Pair:
    """The article of a story, which ends at the first highlight, and the highlights with tabs between them."""
    article, highlights, behind = [], [], False
    for line in filter(None, (" ".join(line.split()) for line in text.split("\n"))):
        if line.startswith(HIGHLIGHT):
            behind = True
            continue
        (highlights if behind else article).append(line if line.endswith(ENDS) else f"{line} .")
    return Pair(" ".join(article), "\t".join(highlights))
