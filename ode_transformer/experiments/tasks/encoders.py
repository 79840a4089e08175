"""Trained encoders with a head, opened together with the data that they predict on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OdeTransformerError
from ..metrics.accuracy import UNDEFINED

if TYPE_CHECKING:
    from fairseq.data import FairseqDataset
    from fairseq.tasks import FairseqTask
    from torch import Tensor

SPANS = "span_head"


class TrainedEncoder:
    """A trained encoder with a head, and binarized data that it can read.

    Args:
        checkpoint, data, subset: the file of the model, the folder of binarized data, and a subset of them.
        cpu: keep the model on the CPU; otherwise it is on the GPU if there is one.
        head: the name of a classification head, or ``SPANS``.
        tasks: the names of fairseq tasks; the model must have been trained with one of them.

    Raises:
        CheckpointError: the checkpoint cannot be opened, is of another task, has no such head, or was trained with
            other dictionaries.
        OdeTransformerError: the data have no such subset, or a file of it is damaged.
    """

    def __init__(self, checkpoint: Path, data: Path, subset: str, cpu: bool, head: str, *tasks: str):
        import torch

        from ... import models  # noqa: F401  registers the architectures
        from ...checkpoints import CheckpointError, standalone
        from ..text.binarised import check_data

        trained = standalone.check_dictionaries(checkpoint, data)
        if not all((part / f"{subset}.idx").is_file() for part in {data / "input0", *data.glob("input*")}):
            raise OdeTransformerError(f"{data}: has no subset {subset}")
        check_data(data, subset)
        self.data, self.known = data, trained
        self.state = standalone.load(checkpoint)
        model = standalone.open_state(self.state, checkpoint, heads=True).eval()
        heads = {**getattr(model, "classification_heads", {}), SPANS: getattr(model, SPANS, None)}
        if heads.get(head) is None:
            raise CheckpointError(f"{checkpoint}: has no {head}, which --task {tasks[0]} trains")
        self.head = heads[head]
        self.options = {"data": str(data), "max_positions": model.max_positions(), "no_shuffle": True, "seed": 1}
        self.options |= standalone.pair_form(self.state, checkpoint, *tasks)
        self.model = model.cuda() if torch.cuda.is_available() and not cpu else model

    def task(self, kind: type["FairseqTask"], options: Any) -> "FairseqTask":
        """Return fairseq's task with the dictionaries of the data.

        Raises:
            CheckpointError: the dictionaries cannot be read.
            OdeTransformerError: the dictionary and the model have different numbers of symbols.
        """
        from ...checkpoints.standalone import check_symbols, errors_about

        with errors_about(f"{self.data}: its dictionaries cannot be read"):
            task = kind.setup_task(options)
        check_symbols(self.data, task.source_dictionary, self.model)
        return task

    def outputs(
        self, dataset: "FairseqDataset", batch_size: int, forward: Callable[[dict[str, Any]], "Tensor"]
    ) -> list["Tensor"]:
        """Return the model's output for each example; those of similar length share a batch, which saves padding.

        Args:
            dataset: the examples.
            batch_size: examples per batch.
            forward: batch on the model's device -> the outputs, (B, ...).
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


def best(scores: "Tensor", names: Sequence[str]) -> list[str]:
    """Return the name of each example's highest score, or ``UNDEFINED`` if one of its scores is not finite."""
    taken, finite = scores.argmax(-1).tolist(), scores.isfinite().all(-1).tolist()
    return [names[one] if found else UNDEFINED for one, found in zip(taken, finite, strict=True)]
