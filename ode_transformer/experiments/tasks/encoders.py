"""Trained encoders with a head, opened together with binarized data, and what they predict of these."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import OdeTransformerError, counted
from ...files import write_lines
from ..metrics.labels import UNDEFINED

if TYPE_CHECKING:
    from fairseq.data import FairseqDataset
    from fairseq.tasks import FairseqTask
    from torch import Tensor

SPANS = "span_head"
RANKING = "sentence_ranking"  # fairseq's name of the task and of the criterion


class TrainedEncoder:
    """A trained encoder with a head, on the GPU if there is one, and a subset of binarized data that it can read.

    ``head`` is the name of a classification head, or ``SPANS``; ``tasks`` are names of fairseq tasks, with one of which
    the model must have been trained. What does not fit together is an error.
    """

    def __init__(self, checkpoint: Path, data: Path, subset: str, cpu: bool, head: str, *tasks: str):
        import torch

        from ... import models  # noqa: F401  registers the architectures
        from ...checkpoints import CheckpointError, standalone
        from ..text.binarised import check_data

        self.data, self.subset = data, subset
        self.known = standalone.check_dictionaries(checkpoint, data)
        if not all((part / f"{subset}.idx").is_file() for part in {data / "input0", *data.glob("input*")}):
            raise OdeTransformerError(f"{data}: has no examples input0/{subset}")
        check_data(data, subset)
        self.state = standalone.load(checkpoint)
        model = standalone.open_state(self.state, checkpoint, heads=True).eval()
        heads = {**getattr(model, "classification_heads", {}), SPANS: getattr(model, SPANS, None)}
        if heads.get(head) is None:
            raise CheckpointError(f"{checkpoint}: has no {head}, which --task {tasks[0]} trains")
        self.head = heads[head]
        self.options = {"data": str(data), "max_positions": model.max_positions(), "no_shuffle": True, "seed": 1}
        self.options |= standalone.pair_form(self.state, checkpoint, *tasks)
        self.model = model.cuda() if torch.cuda.is_available() and not cpu else model

    def dataset(self, kind: type["FairseqTask"], options: Any) -> "FairseqDataset":
        """Return the subset as a task of fairseq reads it."""
        from ...checkpoints.inputs import stacks
        from ...checkpoints.standalone import errors_about

        with errors_about(f"{self.data}: cannot be read"):
            task = kind.setup_task(options)
        symbols, known = len(task.source_dictionary), stacks(self.model)["encoder"].embed_tokens.num_embeddings
        if symbols != known:
            raise OdeTransformerError(f"{self.data}: its dictionary has {symbols} symbols, the model {known}")
        with errors_about(f"{self.data}: {self.subset} cannot be read"):
            return task.load_dataset(self.subset)

    def outputs(
        self, dataset: "FairseqDataset", batch_size: int, forward: Callable[[dict[str, Any]], "Tensor"]
    ) -> list["Tensor"]:
        """Return the model's output for each example; those of similar length share a batch, which saves padding.

        ``forward`` turns a batch on the model's device into its outputs, (B, ...).
        """
        import torch
        from fairseq import utils

        device = next(self.model.parameters()).device
        order = sorted(range(len(dataset)), key=dataset.num_tokens)
        found: dict[int, Tensor] = {}
        for first in range(0, len(order), batch_size):
            numbers = order[first : first + batch_size]
            batch = dataset.collater([dataset[i] for i in numbers])
            with torch.inference_mode():
                rows = forward(utils.apply_to_sample(lambda tensor: tensor.to(device), batch)).float().cpu()
            found |= zip(numbers, rows, strict=True)
        return [found[i] for i in range(len(dataset))]


class Outputs(NamedTuple):
    """The outputs of a model on a subset."""

    scores: "Tensor"  # (examples, classes); one column for a model that predicts numbers
    golds: list[str] | None  # the label of each example; None for a subset without labels
    classes: list[str]  # their names, or the indices of the options of each question; empty for numbers

    def taken(self) -> list[str]:
        """Return the predicted label of each example, ``UNDEFINED`` if one of its scores is not finite."""
        if self.classes:
            found = [self.classes[i] for i in self.scores.argmax(-1).tolist()]
        else:
            found = [f"{value:.9g}" for value in self.scores[:, 0].tolist()]
        finite = self.scores.isfinite().all(-1).tolist()
        return [one if right else UNDEFINED for one, right in zip(found, finite, strict=True)]


def outputs(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> Outputs:
    """Return the outputs of a trained model on a subset, in the order of its examples.

    Data with more than two texts per example are questions with options; otherwise labels with a dictionary are
    classes, and labels without one are numbers. Texts are truncated as in training. A checkpoint does not name its
    classes: if no ``run.json`` beside it identifies the dictionary of its training, a warning names the classes of the
    data.
    """
    import torch
    from fairseq.data import Dictionary
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
    from fairseq.tasks.sentence_ranking import SentenceRankingTask

    from ... import checkpoints
    from ...checkpoints.standalone import HEAD, errors_about
    from ...training.sentence_prediction import NAME, OF_PAIRS

    texts, dictionary = len([*data.glob("input*")]), data / "label" / "dict.txt"
    options, numbers = texts - 1 if texts > 2 else 0, not dictionary.is_file()
    tasks = (RANKING,) if options else ("sentence_prediction", NAME, OF_PAIRS)
    encoder = TrainedEncoder(checkpoint, data, subset, cpu, HEAD, *tasks)
    count = encoder.head.out_proj.out_features
    with errors_about(str(dictionary)):
        symbols = Dictionary() if numbers else Dictionary.load(str(dictionary))
    named = [label for label in symbols.symbols[symbols.nspecial :] if not re.fullmatch(r"madeupword\d{4}", label)]
    classes = [str(i) for i in range(options)] or named  # without the symbols that fairseq fills dictionaries up with
    if not (count == 1 if numbers else 1 < count == len(classes)):
        needed = "one" if numbers else f"one for each class of {dictionary}"
        raise checkpoints.CheckpointError(f"{checkpoint}: has {counted(count, 'output')}, must have {needed}")
    if classes and not (options or encoder.known):
        print(
            f"warning: {checkpoint}: no run.json beside it says the order of its classes; its outputs are taken for "
            f"{', '.join(classes)}, as in {dictionary}, which must be that of its training",
            file=sys.stderr,
        )
    form = vars(SentencePredictionConfig(regression_target=numbers, shorten_method="truncate")) | encoder.options
    form |= {"num_classes": options or count, "criterion": RANKING, "dataset_impl": None}
    form["max_option_length"] = checkpoints.options(encoder.state, "task").get("max_option_length")
    dataset = encoder.dataset(SentenceRankingTask if options else SentencePredictionTask, SimpleNamespace(**form))
    labels, golds = dataset.defn.get("target"), None
    if labels is not None and len(labels) != len(dataset):  # fairseq takes an empty file
        raise OdeTransformerError(f"{data}: {subset} has {counted(len(dataset), 'example')}, {len(labels)} labels")
    if labels is not None and classes:
        indices = [int(labels[i]) for i in range(len(dataset))]
        if not {*indices} <= {*range(len(classes))}:
            raise OdeTransformerError(f"{data}: a label of {subset} is not one of {', '.join(classes)}")
        golds = [classes[i] for i in indices]
    elif labels is not None:
        golds = [f"{labels[i][0]:.9g}" for i in range(len(dataset))]

    def forward(batch: dict[str, Any]) -> "Tensor":
        inputs = [batch[f"net_input{i + 1}"] for i in range(options)] or [batch["net_input"]]
        return torch.cat([encoder.model(its["src_tokens"], classification_head_name=HEAD)[0] for its in inputs], 1)

    return Outputs(torch.stack(encoder.outputs(dataset, batch_size, forward)), golds, classes)


def predictions(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> list[tuple[str, ...]]:
    """Return for each example its label, the predicted label and, except for numbers, the latter's probability."""
    found = outputs(checkpoint, data, subset, batch_size, cpu)
    if found.golds is None:
        raise OdeTransformerError(f"{data}: subset {subset} has no labels; try --subset valid")
    columns = [found.golds, found.taken()]
    if found.classes:
        columns.append([f"{value:.6f}" for value in found.scores.softmax(-1).amax(-1).tolist()])
    return list(zip(*columns, strict=True))


def write_predictions(
    checkpoint: str | Path, data: str | Path, subset: str, output: str | Path, batch_size: int = 32, cpu: bool = False
) -> None:
    """Write a model's prediction for each example of a subset, one line each, and print the number of examples.

    Args:
        checkpoint: the checkpoint of the trained model.
        data: the folder of binarized data.
        subset: the subset of the data.
        output: the file to write: label, predicted label and perhaps its probability, separated by tabs.
        batch_size: examples per batch.
        cpu: do not use a GPU.
    """
    found = predictions(Path(checkpoint), Path(data), subset, batch_size, cpu)
    write_lines(output, map("\t".join, found))
    print(f"{counted(len(found), 'example')} -> {output}")
