"""``ode-transformer classify``: the class that a trained encoder predicts for each example of a test set.

``glue`` and ``choose``, which predict classes too, share its flags, its reading of data and its writing of predictions.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import OdeTransformerError
from ...files import write_lines
from ..arguments import at_least
from ..metrics import accuracy
from ..text.binarised import check_data, count_sentences
from ..text.lines import read_lines

if TYPE_CHECKING:
    from torch import Tensor


class Outputs(NamedTuple):
    """The outputs of a model on a set of examples.

    Args:
        scores: (examples, classes); one column for a regression model.
        targets: (examples,), indices of classes or the numbers to predict; None for a set without labels.
        classes: their names; empty for a regression model.
    """

    scores: "Tensor"
    targets: "Tensor | None"
    classes: Sequence[str]

    def pairs(self) -> list[tuple[str, str]]:
        """The class of each example, and the predicted one: ``accuracy.UNDEFINED`` where a score is not a number."""
        taken, finite = self.scores.argmax(-1).tolist(), self.scores.isfinite().all(-1).tolist()
        return [
            (self.classes[gold], self.classes[one] if found else accuracy.UNDEFINED)
            for gold, one, found in zip(self.targets.tolist(), taken, finite, strict=True)
        ]


def outputs(
    checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool, regression: bool, what: str
) -> Outputs:
    """The outputs of a trained model on a set, in the order of its examples.

    Examples that are longer than the model accepts are truncated, as in training.

    Args:
        checkpoint: of the model.
        data: the folder of data binarized for fairseq's task ``sentence_prediction``.
        subset: the set.
        batch_size: examples per batch.
        cpu: do not use a GPU.
        regression: whether the labels are numbers.
        what: the option or folder that says so, for messages.

    Raises:
        CheckpointError: the checkpoint cannot be opened, has no classification head, or has one for other labels; or
            the dictionaries of the data cannot be read.
        OdeTransformerError: no such set in the data, or it has other symbols or classes than the model.
    """
    import torch
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    from ... import models  # noqa: F401  registers the architectures
    from ...checkpoints import CheckpointError
    from ...checkpoints.standalone import HEAD, check_symbols, named, open_with_head, pair_form
    from ...training.sentence_prediction import NAME, OF_PAIRS

    state, model = open_with_head(checkpoint, data, cpu, "sentence_prediction")
    count = model.classification_heads[HEAD].out_proj.out_features
    if (count == 1) != regression:
        raise CheckpointError(f"{checkpoint}: has {count} classes; {what} needs another model")
    cfg = SentencePredictionConfig(
        data=str(data), num_classes=count, **pair_form(state, checkpoint, "sentence_prediction", NAME, OF_PAIRS),
        no_shuffle=True, shorten_method="truncate", max_positions=model.max_positions(),
        regression_target=regression, classification_head_name=HEAD, seed=1,
    )  # fmt: skip
    with named(f"{data}: its dictionaries cannot be read"):
        task = SentencePredictionTask.setup_task(cfg)
    check_symbols(data, task.source_dictionary, model)
    if not (data / "input0" / f"{subset}.idx").is_file():
        raise OdeTransformerError(f"{data}: has no subset {subset}")
    labels, begin = task.label_dictionary.symbols, task.label_dictionary.nspecial
    names = [] if regression else labels[begin : len(labels) - 1][:count]  # the last is <mask>, which fairseq adds
    if not regression and len(names) < count:
        raise CheckpointError(f"{checkpoint}: has {count} classes, {data / 'label' / 'dict.txt'} {len(names)}")
    check_data(data, subset)
    if regression:
        check_numbers(data / "label" / f"{subset}.label", data / "input0" / subset)
    dataset, device = task.load_dataset(subset), next(model.parameters()).device
    order = sorted(range(len(dataset)), key=dataset.num_tokens)  # for little padding
    scores, targets = [], []
    for first in range(0, len(order), batch_size):
        batch = dataset.collater([dataset[i] for i in order[first : first + batch_size]])
        with torch.inference_mode():
            found, _ = model(batch["net_input"]["src_tokens"].to(device), classification_head_name=HEAD)
        scores.append(found.float().cpu())
        if "target" in batch:
            targets.append(batch["target"].view(-1))
    place = torch.tensor(order).argsort()
    golds = torch.cat(targets)[place] if targets else None
    if names and golds is not None and (odd := [gold for gold in golds.tolist() if not 0 <= gold < count]):
        raise OdeTransformerError(
            f"{data}: class {labels[begin + odd[0]]} of {subset}: must be one of {', '.join(names)}"
        )
    return Outputs(torch.cat(scores)[place], golds, names)


def check_numbers(path: Path, prefix: Path) -> None:
    """Check that a file of numbers to predict, if there is one, has one for each sentence of binarized text."""
    if not path.exists():
        return
    lines, count = list(read_lines(path)), count_sentences(prefix)
    if len(lines) != count:
        raise OdeTransformerError(f"{path}: has {len(lines)} lines, must be one for each of {count} sentences")
    for number, line in enumerate(lines, 1):
        with suppress(ValueError):
            if math.isfinite(float(line)):
                continue
        raise OdeTransformerError(f"{path}: line {number}: must be a number, got {line[:60]!r}")


def classify(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> list[tuple[str, str, str]]:
    """Classify the examples of a subset.

    Args:
        checkpoint, data, subset, batch_size, cpu: as those of :func:`outputs`.

    Returns:
        For each example, in the order of the data, its class, the predicted class, and the probability of the latter;
        where a score is not a number, ``accuracy.UNDEFINED`` and ``nan``.

    Raises:
        CheckpointError: as :func:`outputs`.
        OdeTransformerError: as :func:`outputs`, or the examples have no classes.
    """
    found = outputs(checkpoint, data, subset, batch_size, cpu, False, str(data))
    if found.targets is None:
        raise OdeTransformerError(f"{data}: subset {subset} has no labels")
    probabilities = found.scores.softmax(-1).amax(-1).tolist()
    return [(*pair, f"{one:.6f}") for pair, one in zip(found.pairs(), probabilities, strict=True)]


def add_model_arguments(parser: argparse.ArgumentParser, examples: str = "examples") -> None:
    """The flags of a command that reads binarized data with a trained model; ``examples`` is what they are called."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="the checkpoint of the trained model")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of binarized data")
    parser.add_argument(
        "--batch-size", metavar="N", type=at_least(1), default=32, help=f"{examples} per batch (default: %(default)s)"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def add_prediction_arguments(
    parser: argparse.ArgumentParser, columns: str, examples: str = "examples", subset: str = "test"
) -> None:
    """The flags of a command that predicts the examples of a subset.

    Args:
        parser: of the command.
        columns: what the command writes of each example.
        examples: what they are called.
        subset: the subset by default.
    """
    add_model_arguments(parser, examples)
    parser.add_argument(
        "--subset", metavar="NAME", default=subset, help=f"the subset of {examples} (default: %(default)s)"
    )
    parser.add_argument("--output", metavar="FILE", required=True, help=f"file to write, tab-separated: {columns}")


def write_predictions(
    args: argparse.Namespace,
    predict: Callable[[Path, Path, str, int, bool], Sequence[Sequence[str]]],
    examples: str = "examples",
) -> int:
    """Run a command with the flags of :func:`add_prediction_arguments`; the exit status.

    Args:
        args: the flags.
        predict: (checkpoint, folder of data, subset, examples per batch, no GPU) -> the columns of each example.
        examples: what they are called.
    """
    found = predict(args.checkpoint, args.data, args.subset, args.batch_size, args.cpu)
    write_lines(args.output, map("\t".join, found))
    print(f"{len(found)} {examples} -> {args.output}")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer classify``."""
    add_prediction_arguments(parser, "class, prediction, probability")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer classify``; the exit status."""
    return write_predictions(args, classify)
