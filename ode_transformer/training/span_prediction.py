"""Answers that are spans of a paragraph (SQuAD): ``--task span_prediction --criterion span_prediction``.

fairseq has neither. A sample is a question and a window of a paragraph, in the form in which the model was trained to
read pairs, RoBERTa's with ``--separator-token 2``::

    <s> question </s> </s> window </s>

The head is one linear layer, which gives every token a logit for the first and one for the last token of the answer.
The loss is the mean of both cross-entropies over all tokens of a sample as in BERT's code (Devlin et al. 2019,
sections 4.2 and 4.3). Where the window does not hold the answer, or there is none, both are ``<s>``.

The data are those of ``data-prep/prepare-squad.sh``: ``input0``, the questions, and ``input1``, the windows, binarized,
a question for every window; and ``SPLIT.spans``, in each line the first and the last symbol of the window's answer,
counted from 0, or -1 twice.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import (
    ConcatSentencesDataset,
    FairseqDataset,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    PrependTokenDataset,
    RawLabelDataset,
    RightPadDataset,
    SortDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import II, MISSING
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import option
from ..errors import OdeTransformerError

NAME = "span_prediction"


@dataclass
class SpanPredictionConfig(FairseqDataclass):
    """The form of a sample, and its maximum length."""

    data: str = option(MISSING, "the folder of binarized data")
    init_token: int = option(0, "the symbol before the question")
    separator_token: Optional[int] = option(
        None, "one more symbol between the question, which has an end, and the window"
    )
    max_positions: int = option(512, "most symbols of a sample")
    no_shuffle: bool = option(False, "samples in the order of the data")
    seed: int = II("common.seed")


@register_task(NAME, dataclass=SpanPredictionConfig)
class SpanPredictionTask(SentencePredictionTask):
    """fairseq's task of fine-tuning, whose labels are the first and the last token of the answer in a window."""

    @classmethod
    def setup_task(cls, cfg: SpanPredictionConfig, **unused: Any) -> "SpanPredictionTask":
        """Return the task with its dictionary, to which ``<mask>`` is added, as in pretraining."""
        return cls(cfg, cls.load_dictionary(str(Path(cfg.data) / "input0" / "dict.txt")), None)

    def load_dataset(self, split: str, combine: bool = False, **unused: Any) -> FairseqDataset:
        """Load a split.

        Batches also hold the indices of tokens: ``first`` and ``last`` of the answers, and ``begin``, the first of the
        windows.
        """
        folder = Path(self.cfg.data)
        paths = [str(folder / part / split) for part in ("input0", "input1")]
        parts = [data_utils.load_indexed_dataset(path, self.dictionary) for path in paths]
        path = folder / f"{split}.spans"
        if None in parts or not path.is_file():
            raise FileNotFoundError(f"Dataset not found: {split} ({folder}): input0, input1 and {path.name}")
        spans, (questions, windows) = np.loadtxt(path, dtype=np.int64, ndmin=2), parts
        if not len(questions) == len(windows) == len(spans):
            raise OdeTransformerError(f"{path}: must have as many lines as {split} has questions and windows")
        source = ConcatSentencesDataset(
            PrependTokenDataset(questions, self.cfg.init_token), PrependTokenDataset(windows, self.cfg.separator_token)
        )
        if (most := source.sizes.max()) > self.cfg.max_positions:
            raise OdeTransformerError(
                f"--max-positions {self.cfg.max_positions}: a sample of {split} has {most} symbols; prepare the data "
                "with a --max-symbols that the model accepts"
            )
        begin = source.sizes - windows.sizes
        first, last = np.where(spans.T < 0, 0, begin + spans.T)
        numbers = {"begin": begin, "first": first, "last": last}
        dataset = NestedDictionaryDataset(
            {
                "id": IdDataset(),
                "net_input": {
                    "src_tokens": RightPadDataset(source, self.dictionary.pad()),
                    "src_lengths": NumelDataset(source),
                },
                **{name: RawLabelDataset(column.tolist()) for name, column in numbers.items()},
                "nsentences": NumSamplesDataset(),
                "ntokens": NumelDataset(source, reduce=True),
            },
            sizes=[source.sizes],
        )
        if not self.cfg.no_shuffle:  # whatever their length, as fairseq's fine-tuning tasks do
            with data_utils.numpy_seed(self.cfg.seed):
                order = np.random.permutation(len(dataset))
            dataset = SortDataset(dataset, np.argsort(order))
        self.datasets[split] = dataset
        return dataset

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        """Return the model with a span head, and without fairseq's head for classes."""
        model = FairseqTask.build_model(self, cfg, from_checkpoint)
        if not hasattr(model, "register_span_head"):
            raise OdeTransformerError(f"--task {NAME}: needs a masked language model, such as floater_roberta_base")
        model.register_span_head()
        return model


@register_criterion(NAME, dataclass=FairseqDataclass)
class SpanPredictionCriterion(FairseqCriterion):
    """The mean of the cross-entropies of the answer's first and last token; logged in bits per sample."""

    def forward(self, model: nn.Module, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the loss of a sample, its divisor, and the values to log, as fairseq's criteria do."""
        logits, _ = model(**sample["net_input"], spans=True)
        padding = sample["net_input"]["src_tokens"].eq(self.padding_idx)
        logits = logits.float().masked_fill(padding.unsqueeze(-1), -math.inf)  # (B, T, 2)
        targets = torch.stack((sample["first"], sample["last"]), 1)  # (B, 2)
        loss = F.cross_entropy(logits, targets, reduction="sum") / 2
        size = len(targets)
        log = {
            "loss": loss.data,
            "ncorrect": (logits.argmax(1) == targets).all(1).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": size,
            "sample_size": size,
        }
        return loss, size, log

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the loss, and the percentage of samples with both ends right."""
        total = {key: sum(log[key] for log in logging_outputs) for key in logging_outputs[0]}
        size = total["sample_size"]
        metrics.log_scalar("loss", total["loss"] / size / math.log(2), size, round=3)
        metrics.log_scalar("accuracy", 100.0 * total["ncorrect"] / size, size, round=1)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: fairseq may sum the logged values over devices."""
        return True
