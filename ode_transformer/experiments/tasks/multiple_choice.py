"""RACE (Lai et al. 2017): questions about articles, each with four options, one of them right; scored by accuracy.

The task is fairseq's ``sentence_ranking``. The published layout is ``RACE/{train,dev,test}/{middle,high}/NAME.txt``,
each file a JSON object with an article, its questions, their options, and the letters of the right options. As in
fairseq's preparation for RoBERTa, each option becomes a text of its own: it fills the gap of the question, ``_``, or is
appended to the question. Line feeds become blanks; double blanks and HTML such as ``<br>`` remain.
"""

from functools import cache
from pathlib import Path

from ...errors import OdeTransformerError
from ...files import read_json
from ...schema import lacks, one_of
from ..text import subwords
from ..text.lines import write_splits
from .encoders import RANKING
from .task import by_predictions

LEVELS = ("middle", "high")
LETTERS = "ABCD"
COLUMNS = ("input0", *(f"input{i}" for i in range(1, len(LETTERS) + 1)), "label")
_LAYOUT = {"article": str, "questions": [str], "options": [[str] * len(LETTERS)], "answers": [one_of(*LETTERS)]}
# The folder and levels of each split; the test set is written whole, and each level of it alone.
SPLITS = {
    "train": ("train", LEVELS),
    "valid": ("dev", LEVELS),
    "test": ("test", LEVELS),
    "test1": ("test", ("middle",)),
    "test2": ("test", ("high",)),
}


def read(folder: Path, levels: tuple[str, ...]) -> list[tuple[str, list[str], int]]:
    """Return the questions of some of the ``LEVELS`` of a split, in the numerical order of the files' names.

    Each is its article, the question joined with each of its options, and the index of the right one.
    """
    found = []
    for level in levels:
        paths = sorted((folder / level).glob("*.txt"), key=lambda path: (len(path.stem), path.stem))
        if not paths:
            raise OdeTransformerError(f"{folder / level}: no such folder, or no articles in it")
        for path in paths:
            tree = read_json(path)
            wrong = lacks(tree, _LAYOUT)
            if wrong or len({len(tree[name]) for name in ("questions", "options", "answers")}) > 1:
                raise OdeTransformerError(f"{path}: is not of RACE's layout: {wrong or 'its lists differ in length'}")
            for asked, options, answer in zip(tree["questions"], tree["options"], tree["answers"], strict=True):
                joined = [asked.replace("_", one) if "_" in asked else f"{asked} {one}" for one in options]
                found.append((_line(tree["article"]), list(map(_line, joined)), LETTERS.index(answer)))
    return found


def _line(text: str) -> str:
    """Return a text on one line, without surrounding blanks."""
    return text.replace("\n", " ").strip()


def write(folder: Path, like: Path, output_dir: Path) -> dict[str, int]:
    """Write articles, ``SPLIT.input0``, options, ``SPLIT.input1`` to ``SPLIT.input4``, and ``SPLIT.label``.

    Return the number of questions by split.

    Args:
        folder: the folder ``RACE``.
        like: the folder of the pretrained model whose subword segmentation and dictionary are used.
        output_dir: the folder for the files.
    """
    cut = cache(subwords.segmenter(like))  # an article has several questions
    splits = {name: read(folder / part, levels) for name, (part, levels) in SPLITS.items()}
    rows = {
        name: [(cut(article), *map(cut, options), str(right)) for article, options, right in choices]
        for name, choices in splits.items()
    }
    return write_splits(rows, COLUMNS, output_dir)


TASK = by_predictions("multiple_choice", flags=lambda recipe: ["--task", RANKING], metrics=lambda recipe: ["accuracy"])
