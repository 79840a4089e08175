"""``ode-transformer baseline``: what a classification task yields to a rule by one symbol, or to a linear model.

A model that is no better has not learned more of the task than these do:

- ``first-symbol``: the most frequent class of the training examples with the same first symbol. Of a ListOps expression
  that is the outermost operator. A model's own predictions are examined in the same way: how many of them are its most
  frequent one for that symbol, and how accurate that alone would be.
- ``bag-of-symbols``: a logistic regression of scikit-learn on the frequencies of the symbols (tf-idf), whose order
  counts for nothing.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from ... import machine
from ...errors import OdeTransformerError
from ..arguments import at_least
from ..metrics import accuracy
from ..runs import records
from ..text.lines import read_all

SPLITS = ("test", "valid")  # that are scored, as far as they are there


def first_symbol(texts: Sequence[str], classes: Sequence[str], tests: Sequence[Sequence[str]]) -> list[list[str]]:
    """The predictions of the rule, for each of several test sets; its fit is to the texts and their classes.

    A first symbol that no text has is given the most frequent class of all.
    """
    by_symbol: defaultdict[str, Counter] = defaultdict(Counter)
    for text, name in zip(texts, classes, strict=True):
        by_symbol[text.split(maxsplit=1)[0]][name] += 1
    most = {symbol: counts.most_common(1)[0][0] for symbol, counts in by_symbol.items()}
    other = Counter(classes).most_common(1)[0][0]
    return [[most.get(text.split(maxsplit=1)[0], other) for text in test] for test in tests]


def bag_of_symbols(texts: Sequence[str], classes: Sequence[str], tests: Sequence[Sequence[str]]) -> list[list[str]]:
    """The predictions of the linear model, with scikit-learn's default regularization; otherwise as above."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(analyzer=str.split), LogisticRegression(max_iter=1000))
    model.fit(texts, classes)
    return [model.predict(test).tolist() for test in tests]


KINDS = {"first-symbol": first_symbol, "bag-of-symbols": bag_of_symbols}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer baseline``."""
    parser.add_argument("kind", choices=KINDS, help="a rule by the first symbol, or a linear model on all of them")
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="with train, test and perhaps valid, as .input0 and .label"
    )
    parser.add_argument(
        "--positions", metavar="N", type=at_least(1), help="symbols of an example that are read (default: all)"
    )
    parser.add_argument(
        "--predictions", metavar="FILE", help="of a model for the test set: how far is it a rule by the first symbol?"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="file for the record, as JSON")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer baseline``; the exit status."""
    names = ["train", *(name for name in SPLITS if (args.folder / f"{name}.label").is_file())]
    texts = {
        name: [" ".join(line.split()[: args.positions]) for line in read_all(args.folder / f"{name}.input0")]
        for name in names
    }
    classes = {name: read_all(args.folder / f"{name}.label") for name in names}
    for name in names:
        if len(texts[name]) != len(classes[name]):
            raise OdeTransformerError(
                f"{args.folder}/{name}.label: must have {len(texts[name])} lines, as {name}.input0"
            )
    predicted = KINDS[args.kind](texts["train"], classes["train"], [texts[name] for name in names[1:]])
    predictions = dict(zip(names[1:], predicted, strict=True))
    scores = {name: accuracy.take(classes[name], taken) for name, taken in predictions.items()}
    record = {"what": "baseline", "kind": args.kind, "data": args.folder.name, "positions": args.positions}
    record |= {"scores": scores, "versions": machine.versions()}
    for name, score in scores.items():
        print(f"{name}: accuracy {score['value']:.2f} ({score['examples']} examples)")
    if args.predictions:
        golds, theirs = accuracy.read(args.predictions)
        if golds != classes["test"]:
            raise OdeTransformerError(f"--predictions {args.predictions}: must be of {args.folder}/test.input0")
        (rule,) = first_symbol(texts["test"], theirs, [texts["test"]])
        same, alone = accuracy.take(theirs, rule)["value"], accuracy.take(golds, rule)["value"]
        record["model"] = {"predictions": Path(args.predictions).name, "agreement": same, "rule": alone}
        print(
            f"its most frequent prediction by first symbol: {same:.2f} percent of its predictions, accuracy {alone:.2f}"
        )
    if args.output:
        records.write(args.output, record)
    return 0
