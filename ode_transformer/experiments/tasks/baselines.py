"""Baselines of classification tasks: a rule by one symbol, or a linear model.

A model that is no better has not learned more of the task than these do:

- ``first-symbol``: the most frequent class of the training examples with the same first symbol. Of a ListOps expression
  that is the outermost operator. A model's own predictions are examined in the same way: how many of them are its most
  frequent one for that symbol, and how accurate that alone would be.
- ``bag-of-symbols``: a logistic regression of scikit-learn on the frequencies of the symbols (tf-idf), whose order
  counts for nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import machine
from ...errors import OdeTransformerError
from ..metrics import accuracy
from ..text.lines import lines_of, read_all

SPLITS = ("test", "valid")  # that are scored, as far as they are there


def first_symbol(texts: Sequence[str], classes: Sequence[str], tests: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the predictions of the rule, for each of several test sets; its fit is to the texts and their classes.

    A first symbol that no text has is given the most frequent class of all.
    """
    by_symbol: defaultdict[str, Counter] = defaultdict(Counter)
    for text, name in zip(texts, classes, strict=True):
        by_symbol[_first(text)][name] += 1
    most = {symbol: counts.most_common(1)[0][0] for symbol, counts in by_symbol.items()}
    other = Counter(classes).most_common(1)[0][0]
    return [[most.get(_first(text), other) for text in test] for test in tests]


def _first(text: str) -> str:
    return next(iter(text.split(maxsplit=1)), "")


def bag_of_symbols(texts: Sequence[str], classes: Sequence[str], tests: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the predictions of the linear model, with scikit-learn's default regularization; otherwise as above."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(analyzer=str.split), LogisticRegression(max_iter=1000))
    model.fit(texts, classes)
    return [model.predict(test).tolist() for test in tests]


KINDS = {"first-symbol": first_symbol, "bag-of-symbols": bag_of_symbols}


def measure(kind: str, folder: Path, positions: int | None = None, predictions: Path | None = None) -> dict[str, Any]:
    """Fit a baseline and score it.

    Args:
        kind: the most frequent class by the first symbol, or a linear model of the bag of symbols.
        folder: the folder of the files SPLIT.input0 and SPLIT.label, of train, test and perhaps valid.
        positions: read only the first N symbols of each example (default: all).
        predictions: a model's predictions for the test set, to measure how often its first-symbol rule gives the same.

    Returns:
        The record: the accuracies by split in ``scores``; and in ``model`` the percentage of the model's predictions
        that are its most frequent one for the first symbol (``agreement``), and the accuracy of that alone (``rule``).

    Raises:
        OdeTransformerError: a file is missing, or is not of the same examples as another.
    """
    names = ["train", *(name for name in SPLITS if (folder / f"{name}.label").is_file())]
    if len(names) == 1 or (predictions and "test" not in names):
        raise OdeTransformerError(f"{folder}: must hold test.label, or without --predictions valid.label")
    texts = {
        name: [" ".join(line.split()[:positions]) for line in read_all(folder / f"{name}.input0")] for name in names
    }
    classes = {name: lines_of(folder / f"{name}.label", len(texts[name]), f"{folder}/{name}.input0") for name in names}
    tests = names[1:]
    predicted = KINDS[kind](texts["train"], classes["train"], [texts[name] for name in tests])
    scores = {name: accuracy.take(classes[name], taken) for name, taken in zip(tests, predicted, strict=True)}
    record = {"what": "baseline", "kind": kind, "data": folder.name, "positions": positions}
    record |= {"scores": scores, "versions": machine.versions()}
    if predictions:
        golds, theirs = accuracy.read(str(predictions))
        if golds != classes["test"]:
            raise OdeTransformerError(f"--predictions {predictions}: must be of {folder}/test.input0")
        (rule,) = first_symbol(texts["test"], theirs, [texts["test"]])
        same, alone = accuracy.take(theirs, rule)["value"], accuracy.take(golds, rule)["value"]
        record["model"] = {"predictions": predictions.name, "agreement": same, "rule": alone}
    return record
