"""RACE (Lai et al. 2017): questions about articles, each with four options, one of them right.

The published layout is ``RACE/{train,dev,test}/{middle,high}/NAME.txt``, each file a JSON object with an article, its
questions, their options, and the letters of the right ones. Every option becomes a text of its own, as in fairseq's
preparation of RoBERTa's data: it takes the place of the question's gap, ``_``, or stands behind the question. Line
feeds become blanks; all else of a text remains, double blanks and HTML's ``<br>`` among it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ....errors import OdeTransformerError
from ....files import read_json, write_lines

LEVELS = ("middle", "high")
LETTERS = "ABCD"
# Of every split its folder and levels; the test set whole, and each level alone.
SPLITS = {
    "train": ("train", LEVELS),
    "valid": ("dev", LEVELS),
    "test": ("test", LEVELS),
    "test1": ("test", ("middle",)),
    "test2": ("test", ("high",)),
}


class Choice(NamedTuple):
    """An article, the question with each of its options, and which of them is right, from 0."""

    article: str
    options: list[str]
    right: int


def read(folder: Path, levels: tuple[str, ...]) -> list[Choice]:
    """The questions of some levels of a split, in the order of the files' names.

    Args:
        folder: of the split, such as ``RACE/dev``.
        levels: of ``LEVELS``.

    Raises:
        OdeTransformerError: there are no files, or one cannot be read or is of another layout; names it.
    """
    found = []
    for level in levels:
        paths = sorted((folder / level).glob("*.txt"), key=lambda path: (len(path.stem), path.stem))
        if not paths:
            raise OdeTransformerError(f"{folder / level}: no such folder, or no articles in it")
        for path in paths:
            found += _choices(path)
    return found


def _choices(path: Path) -> list[Choice]:
    tree = read_json(path)
    kinds = {"article": str, "questions": list, "options": list, "answers": list}
    if not isinstance(tree, dict) or not all(isinstance(tree.get(key), kind) for key, kind in kinds.items()):
        raise OdeTransformerError(f"{path}: must have an article and lists of questions, options and answers")
    if not len(tree["questions"]) == len(tree["options"]) == len(tree["answers"]):
        sizes = ", ".join(f"{len(tree[key])} {key}" for key in ("questions", "options", "answers"))
        raise OdeTransformerError(f"{path}: has {sizes}: the numbers must be equal")
    article, found = _line(tree["article"]), []
    for i, (question, options, answer) in enumerate(
        zip(tree["questions"], tree["options"], tree["answers"], strict=True), 1
    ):
        texts = [question, *options] if isinstance(options, list) else []
        if len(texts) != 1 + len(LETTERS) or not all(isinstance(text, str) for text in texts):
            raise OdeTransformerError(f"{path}: question {i} must be a text with {len(LETTERS)} options")
        if not isinstance(answer, str) or len(answer) != 1 or answer not in LETTERS:
            raise OdeTransformerError(
                f"{path}: answer {i} is {str(answer)[:20]!r}, must be one of {', '.join(LETTERS)}"
            )
        joined = [question.replace("_", option) if "_" in question else f"{question} {option}" for option in options]
        found.append(Choice(article, [_line(text) for text in joined], LETTERS.index(answer)))
    return found


def _line(text: str) -> str:
    """A text on one line; what is cut into symbols has no blanks around it."""
    return text.replace("\n", " ").strip()


def write(source: Path, cut: Callable[[str], str], folder: Path) -> dict[str, int]:
    """Write ``input0``, the articles, ``input1`` to ``input4``, the options, and ``label`` of every split.

    Args:
        source: ``RACE``.
        cut: what turns a line into symbols.
        folder: where the files go.

    Returns:
        the number of questions of each split.

    Raises:
        OdeTransformerError: as in :func:`read`.
    """
    splits = {name: read(source / part, levels) for name, (part, levels) in SPLITS.items()}
    for name, choices in splits.items():
        articles = {article: cut(article) for article in {choice.article for choice in choices}}
        write_lines(folder / f"{name}.input0", (articles[choice.article] for choice in choices))
        for i in range(len(LETTERS)):
            write_lines(folder / f"{name}.input{i + 1}", (cut(choice.options[i]) for choice in choices))
        write_lines(folder / f"{name}.label", (str(choice.right) for choice in choices))
    return {name: len(choices) for name, choices in splits.items()}
