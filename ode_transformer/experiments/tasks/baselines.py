"""Baselines of classification tasks: a rule by the first symbol, or a linear model.

- ``first-symbol``: the most frequent class of the training examples with the same first symbol; in a ListOps
  expression, that is the outermost operator. The rule is also fitted to a model's own predictions, to measure how many
  of them it reproduces and how accurate it is.
- ``bag-of-symbols``: scikit-learn's logistic regression on tf-idf frequencies of symbols, regardless of their order.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from ... import machine
from ...errors import OdeTransformerError, counted
from ...files import write_json
from ..metrics import labels
from ..text.lines import lines_of, read_all

SPLITS = ("test", "valid")  # scored if they exist


def first_symbol(texts: Sequence[str], classes: Sequence[str], tests: Sequence[Sequence[str]]) -> list[list[str]]:
    """Fit the rule to training texts and their classes, and return its predictions for each test set.

    The prediction for an unseen first symbol is the most frequent class.
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
    """As :func:`first_symbol`, for the linear model, with scikit-learn's default regularization."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(analyzer=str.split), LogisticRegression(max_iter=1000))
    try:
        model.fit(texts, classes)
    except ValueError as error:
        raise OdeTransformerError(f"bag-of-symbols cannot be fitted to the training examples: {error}") from error
    return [model.predict(test).tolist() for test in tests]


KINDS = {"first-symbol": first_symbol, "bag-of-symbols": bag_of_symbols}


def measure(
    kind: str, folder: Path, positions: int | None = None, predictions: Path | None = None, output: Path | None = None
) -> None:
    """Fit a baseline, score it, and print the accuracies.

    The record has in ``scores`` the accuracies by split; with ``predictions``, in ``model`` the percentage of them that
    their own first-symbol rule reproduces (``agreement``) and the rule's accuracy (``rule``).

    Args:
        kind: the most frequent class by the first symbol, or a linear model of the bag of symbols.
        folder: the folder of the files SPLIT.input0 and SPLIT.label, of train, test and perhaps valid.
        positions: read only the first N symbols of each example (default: all).
        predictions: a model's predictions for the test set, to measure how often its first-symbol rule gives the same.
        output: JSON file for the record.
    """
    tests = [name for name in SPLITS if (folder / f"{name}.label").is_file()]
    if not tests or (predictions and "test" not in tests):
        raise OdeTransformerError(f"{folder}: must hold test.label, or without --predictions valid.label")
    texts, classes = {}, {}
    for name in ("train", *tests):
        texts[name] = [" ".join(line.split()[:positions]) for line in read_all(folder / f"{name}.input0")]
        classes[name] = lines_of(folder / f"{name}.label", len(texts[name]), f"{folder}/{name}.input0")
    predicted = KINDS[kind](texts["train"], classes["train"], [texts[name] for name in tests])
    scores = {name: labels.entry(classes[name], taken) for name, taken in zip(tests, predicted, strict=True)}
    record = {"what": "baseline", "kind": kind, "data": folder.name, "positions": positions}
    record |= {"scores": scores, "versions": machine.versions()}
    for name, found in scores.items():
        print(f"{name}: accuracy {found['value']:.2f} ({counted(found['examples'], 'example')})")
    if predictions:
        golds, theirs = labels.read(predictions)
        if golds != classes["test"]:
            raise OdeTransformerError(f"--predictions {predictions}: must be of {folder}/test.input0")
        (rule,) = first_symbol(texts["test"], theirs, [texts["test"]])
        same, alone = labels.entry(theirs, rule)["value"], labels.entry(golds, rule)["value"]
        record["model"] = {"predictions": predictions.name, "agreement": same, "rule": alone}
        said = f"its most frequent prediction by first symbol: {same:.2f} percent of its predictions"
        print(f"{said}, accuracy {alone:.2f}")
    if output:
        write_json(output, record)
        print(output)
