"""Sentence classification by fairseq's ``sentence_prediction``, scored by accuracy.

The published data sets are IMDB and AG's news; their text is segmented into subwords or characters.
"""

import csv
import math
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import OdeTransformerError
from ...files import read_text
from ..metrics import accuracy
from ..text import subwords
from ..text.lines import lines_of
from .splits import write_splits
from .task import by_predictions

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = ("subword", "characters")
BLANK = "\u2581"  # SentencePiece's symbol for a blank
SENTIMENTS = ("neg", "pos")
TOPICS = {"1": "world", "2": "sports", "3": "business", "4": "science"}
HEADER = ["Class Index", "Title", "Description"]  # the first row of some copies of AG's news


class Example(NamedTuple):
    """A text on one line, and the name of its class."""

    text: str
    label: str


def read_imdb(folder: Path, valid: int) -> dict[str, list[Example]]:
    """Read IMDB's reviews (Maas et al. 2011) by split: 25,000 each for training and testing, half of them positive.

    The published layout is ``aclImdb/{train,test}/{pos,neg}/NUMBER_RATING.txt``. In copies with a folder
    ``aclImdb/val``, its reviews are returned to the training set. There is no published validation set; here it is the
    training reviews with the highest numbers. Reviews of the same film have neighboring numbers, so that few films are
    in both training and validation set; none is in both training and test set.

    Args:
        folder: the folder ``aclImdb``.
        valid: number of training reviews to hold out for validation, half of each class.

    Raises:
        OdeTransformerError: a folder is missing or empty, a file has another form of name, the number of another or is
            not UTF-8, or ``valid`` is out of range.
    """
    splits: dict[str, list[Example]] = {"train": [], "valid": [], "test": []}
    for label in SENTIMENTS:
        train = _reviews(folder / "train" / label, folder / "val" / label)
        if not 0 < valid // 2 < len(train):
            raise OdeTransformerError(
                f"--valid {valid}: must be from 2 to fewer than the {2 * len(train)} training reviews"
            )
        first = len(train) - valid // 2
        found = {"train": train[:first], "valid": train[first:], "test": _reviews(folder / "test" / label)}
        for split, texts in found.items():
            splits[split] += [Example(text, label) for text in texts]
    return splits


def _reviews(*folders: Path) -> list[str]:
    """Return the reviews in some folders, ordered by number."""
    found: dict[int, str] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.txt")):
        name = re.fullmatch(r"(\d{1,9})_\d{1,2}", path.stem)
        if not name or int(name[1]) in found:
            raise OdeTransformerError(f"{path}: must be called NUMBER_RATING.txt, with a number of its own")
        found[int(name[1])] = _on_one_line(read_text(path))
    if not found:
        raise OdeTransformerError(f"{folders[0]}: no such folder, or no reviews in it")
    return [text for _, text in sorted(found.items())]


def read_agnews(folder: Path, valid: int) -> dict[str, list[Example]]:
    """Read AG's news (Zhang et al. 2015) by split: titles and descriptions of four classes, 120,000 for training.

    The published layout is ``train.csv`` and ``test.csv`` with the columns class number, title and description; some
    copies begin with a header. There is no published validation set; here it is every Nth article of the training set.

    Args:
        folder: the folder of ``train.csv`` and ``test.csv``.
        valid: approximate number of training articles to hold out for validation.

    Raises:
        OdeTransformerError: a file is missing or has a row that is not an article, or ``valid`` is out of range.
    """
    train, test = _articles(folder / "train.csv"), _articles(folder / "test.csv")
    if not 1 <= valid <= len(train) // 2:
        raise OdeTransformerError(f"--valid {valid}: must be from 1 to half of the {len(train)} training articles")
    every = len(train) // valid
    kept = [example for i, example in enumerate(train, 1) if i % every]
    return {"train": kept, "valid": train[every - 1 :: every], "test": test}


def _articles(path: Path) -> list[Example]:
    found: list[Example] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.reader(file):
                if not "".join(row).strip() or (row == HEADER and not found):
                    continue
                if len(row) != 3 or row[0] not in TOPICS:
                    raise OdeTransformerError(
                        f"{path}: article {len(found) + 1}: must be a class of {', '.join(TOPICS)}, a title and a "
                        f"description, got {len(row)} fields that begin with {row[:1]}"
                    )
                # A backslash stands for a line end or a blank.
                found.append(Example(_on_one_line(f"{row[1]} {row[2]}".replace("\\", " ")), TOPICS[row[0]]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OdeTransformerError(f"{path}: {error}") from error
    if not found:
        raise OdeTransformerError(f"{path}: no articles")
    return found


def _on_one_line(text: str) -> str:
    """Replace HTML line breaks and runs of white space by single blanks."""
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def write(
    splits: Mapping[str, Sequence[Example]], output_dir: Path, level: str, size: int = 16000, workers: int = 1
) -> dict[str, int]:
    """Write segmented texts, ``SPLIT.input0``, and labels, ``SPLIT.label``; return the number of examples by split.

    Args:
        splits: ``train``, ``valid`` and ``test``.
        output_dir: the folder for the files, and for the subword model, ``sentencepiece.model``.
        level: the units of the text.
        size: vocabulary size of the subwords, which are learned on ``train``.
        workers: number of threads for learning the subwords.

    Raises:
        OdeTransformerError: a text has no symbols.
        SegmentationError: SentencePiece cannot learn so many subwords.
    """
    if level == "subword":
        texts = (example.text for example in splits["train"])
        subwords.learn_sentencepiece(texts, size, workers, output_dir / subwords.OWN[0])
        cut = subwords.segmenter(output_dir)
    else:
        cut = lambda text: " ".join(text.replace(" ", BLANK))  # noqa: E731
    units = {name: [(cut(text), label) for text, label in examples] for name, examples in splits.items()}
    if empty := [name for name, rows in units.items() if not all(text for text, _ in rows)]:
        raise OdeTransformerError(f"{empty[0]}: a text is empty")
    return write_splits(units, ("input0", "label"), output_dir)


class Outputs(NamedTuple):
    """The outputs of a model on a subset.

    Args:
        scores: (examples, classes); one column for a regression model.
        golds: the class of each example, or the number to predict; None for a subset without labels.
        classes: the names of the classes; empty for a regression model.
    """

    scores: "Tensor"
    golds: list[str] | None
    classes: list[str]


def outputs(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> Outputs:
    """Return the outputs of a trained model on a subset, in the order of its examples.

    Examples that are longer than the model accepts are truncated, as in training. Labels without a dictionary are
    numbers, for regression. A checkpoint does not name its classes: if no ``run.json`` beside it identifies the
    dictionary of its training, a warning names the classes of the data. See :class:`.TrainedEncoder` for the arguments.

    Raises:
        CheckpointError: as :class:`.TrainedEncoder` and :meth:`.TrainedEncoder.task`, or the number of outputs does not
            fit the labels.
        OdeTransformerError: as these, or a label is not a number or a class of the model.
    """
    import torch
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    from ...checkpoints import CheckpointError
    from ...checkpoints.standalone import HEAD
    from ...training.sentence_prediction import NAME, OF_PAIRS
    from .encoders import TrainedEncoder

    encoder = TrainedEncoder(checkpoint, data, subset, cpu, HEAD, "sentence_prediction", NAME, OF_PAIRS)
    count, labels = encoder.head.out_proj.out_features, data / "label"
    numbers = not (labels / "dict.txt").is_file()
    if numbers != (count == 1):
        needed = "one for the numbers" if numbers else "one for each of the classes"
        raise CheckpointError(f"{checkpoint}: has {count} outputs, must have {needed} in {labels}")
    more = {"num_classes": count, "regression_target": numbers, "classification_head_name": HEAD}
    options = SentencePredictionConfig(**encoder.options, **more, shorten_method="truncate")
    task = encoder.task(SentencePredictionTask, options)
    if numbers:
        classes, golds = [], read_numbers(labels / f"{subset}.label", data / "input0" / subset)
    else:
        known = task.label_dictionary
        classes = known.symbols[known.nspecial : len(known) - 1][:count]  # fairseq appends <mask>
        if len(classes) < count:
            raise CheckpointError(f"{checkpoint}: has {count} classes, {labels / 'dict.txt'} {len(classes)}")
        if not encoder.known:
            _warn_of_order(checkpoint, labels / "dict.txt", tuple(classes))
        golds = _read_classes(labels / subset, known.symbols, classes)

    def forward(batch: dict[str, Any]) -> "Tensor":
        return encoder.model(batch["net_input"]["src_tokens"], classification_head_name=HEAD)[0]

    scores = encoder.outputs(task.load_dataset(subset), batch_size, forward)
    return Outputs(torch.stack(scores), golds, classes)


@cache  # warns once, not once per subset
def _warn_of_order(checkpoint: Path, dictionary: Path, classes: tuple[str, ...]) -> None:
    print(
        f"warning: {checkpoint}: no run.json beside it says the order of its classes; its outputs are taken for "
        f"{', '.join(classes)}, as in {dictionary}, which must be that of its training",
        file=sys.stderr,
    )


def _read_classes(prefix: Path, symbols: Sequence[str], classes: Sequence[str]) -> list[str] | None:
    """Return the class of each example of a subset; None if it has no binarized labels."""
    from ..text.binarised import numbers_of

    if not Path(f"{prefix}.idx").is_file():
        return None
    found = [symbols[number] for number in numbers_of(prefix)[0][::2]]  # each label is followed by </s>
    if odd := sorted(set(found) - set(classes)):
        raise OdeTransformerError(
            f"{prefix.parents[1]}: class {odd[0]} of {prefix.name}: must be one of {', '.join(classes)}"
        )
    return found


def read_numbers(path: Path, prefix: Path) -> list[str] | None:
    """Return the number to predict for each example; None if there is no file of labels.

    Args:
        path: the file of labels.
        prefix: the path of the binarized text, without its extension.

    Raises:
        OdeTransformerError: the text has another number of sentences, or a line is not a finite number.
    """
    from ..text.binarised import numbers_of

    if not path.exists():
        return None
    lines = lines_of(path, len(numbers_of(prefix)[1]), str(prefix))
    for number, line in enumerate(lines, 1):
        with suppress(ValueError):
            if math.isfinite(float(line)):
                continue
        raise OdeTransformerError(f"{path}: line {number}: must be a number, got {line[:60]!r}")
    return [f"{float(line):.9g}" for line in lines]


def classify(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> list[tuple[str, ...]]:
    """Return for each example its class, the predicted class, and the probability of the latter.

    For regression, return the number and the predicted number. ``accuracy.UNDEFINED`` replaces a prediction whose
    scores are not finite. See :class:`.TrainedEncoder` for the arguments.

    Raises:
        CheckpointError, OdeTransformerError: as :func:`outputs`, or the subset has no labels.
    """
    from .encoders import best

    found = outputs(checkpoint, data, subset, batch_size, cpu)
    if found.golds is None:
        raise OdeTransformerError(f"{data}: subset {subset} has no labels; try --subset valid")
    if not found.classes:
        values = found.scores[:, 0].tolist()
        taken = [f"{value:.9g}" if math.isfinite(value) else accuracy.UNDEFINED for value in values]
        return list(zip(found.golds, taken, strict=True))
    probabilities = [f"{value:.6f}" for value in found.scores.softmax(-1).amax(-1).tolist()]
    return list(zip(found.golds, best(found.scores, found.classes), probabilities, strict=True))


TASK = by_predictions(
    "classification",
    flags=lambda recipe: ["--task", "sentence_prediction_by_length"],
    metrics=lambda recipe: ["accuracy"],
    predict=classify,
)
