"""``ode-transformer classify``: the class that a trained encoder predicts for each example of a test set."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OdeTransformerError
from ..files import whole

if TYPE_CHECKING:
    from torch import nn


class ClassifyError(OdeTransformerError):
    """Data that cannot be classified; the message names the file and what is expected."""


def classify(model: "nn.Module", data: Path, subset: str, batch_size: int) -> list[tuple[str, str, float]]:
    """Classify the examples of a subset.

    Args:
        model: a model with its trained head, in evaluation mode, on the device that is to compute.
        data: the folder of data binarized for fairseq's task ``sentence_prediction``: ``input0`` and ``label``.
        subset: the subset, such as ``test``.
        batch_size: examples per batch.

    Returns:
        For each example, in the order of the data, its class, the predicted class, and the probability of the latter.
        Examples that are longer than the model's longest sentence are truncated.

    Raises:
        ClassifyError: there are no such data, their examples are pairs of texts, or their vocabulary size or their
            classes are not the model's.
    """
    import torch
    from fairseq.data import data_utils

    from ..standalone import HEAD

    if (data / "input1").is_dir():
        raise ClassifyError(f"{data}: holds pairs of texts; ode-transformer glue validate scores those")
    symbols, labels = (_dictionary(data / part / "dict.txt") for part in ("input0", "label"))
    symbols.add_symbol("<mask>")  # fairseq's task does so
    embedded = model.encoder.embed_tokens.num_embeddings
    if len(symbols) != embedded:
        raise ClassifyError(f"{data}: its dictionary has {len(symbols)} symbols, must have the model's {embedded}")
    parts = []
    for part, dictionary in (("input0", symbols), ("label", labels)):
        found = data_utils.load_indexed_dataset(str(data / part / subset), dictionary)
        if found is None:
            raise ClassifyError(f"{data}: has no subset {subset}")
        parts.append(found)
    texts, golds = parts
    names = [labels[label[0]] for label in golds]
    classes = [labels[labels.nspecial + i] for i in range(model.classification_heads[HEAD].out_proj.out_features)]
    if unknown := sorted(set(names) - set(classes)):
        raise ClassifyError(f"{data}: class {unknown[0]} of {subset}: must be one of {', '.join(classes)}")
    device, longest = next(model.parameters()).device, model.max_positions()
    order = sorted(range(len(texts)), key=lambda i: texts.sizes[i])  # for little padding
    taken: list[Any] = [None] * len(texts)
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        tokens = data_utils.collate_tokens([texts[i][:longest] for i in batch], symbols.pad()).to(device)
        with torch.inference_mode():
            scores, _ = model(tokens, tokens.ne(symbols.pad()).sum(1), classification_head_name=HEAD)
        for i, (probability, chosen) in zip(batch, zip(*scores.float().softmax(-1).max(-1), strict=True), strict=True):
            taken[i] = (names[i], classes[chosen], float(probability))
    return taken


def _dictionary(path: Path) -> Any:
    from fairseq.data import Dictionary

    try:
        return Dictionary.load(str(path))
    except (OSError, ValueError) as error:
        raise ClassifyError(f"{path}: {error}") from error


def add_prediction_arguments(parser: argparse.ArgumentParser, examples: str, columns: str) -> None:
    """The flags of a command that predicts the examples of a subset.

    Args:
        parser: of the command.
        examples: what they are called.
        columns: what the command writes of each.
    """
    parser.add_argument("checkpoint", help="the checkpoint of the trained model")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of binarized data")
    parser.add_argument("--subset", default="test", help=f"the subset of {examples} (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help=f"{examples} per batch (default: %(default)s)")
    parser.add_argument("--output", required=True, help=f"file to write, tab-separated: {columns}")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer classify``."""
    add_prediction_arguments(parser, "examples", "class, prediction, probability")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer classify``; the exit status."""
    import torch

    from .. import (
        models,  # noqa: F401  registers the architectures
        standalone,
    )

    if args.batch_size < 1:
        raise ClassifyError(f"--batch-size {args.batch_size}: must be 1 or more")
    standalone.check_dictionaries(args.checkpoint, args.data)
    model = standalone.open_classifier(args.checkpoint)
    if torch.cuda.is_available() and not args.cpu:
        model = model.cuda()
    found = classify(model, args.data, args.subset, args.batch_size)
    with whole(args.output) as file:
        file.writelines(f"{gold}\t{taken}\t{probability:.6f}\n" for gold, taken, probability in found)
    print(f"{len(found)} examples -> {args.output}")
    return 0
