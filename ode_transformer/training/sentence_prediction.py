"""fairseq's ``sentence_prediction`` with other batches, or with pairs of texts whose order is drawn.

``--task sentence_prediction_by_length``: fairseq's own task draws the sentences of a batch regardless of length and
pads all to the longest. With IMDB's reviews, cut at 512 subwords, almost half of the computation is on padding. Here
sentences of similar length share a batch, as in translation, and the order of the batches is drawn again in each epoch.

``--task sentence_prediction_of_pairs --swap-pairs``: in training, the texts of a pair change places with probability
1/2, anew in every epoch, as Macaron Net's released fine-tuning does on tasks for which the order has no meaning.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fairseq.data import (
    BaseWrapperDataset,
    ConcatSentencesDataset,
    FairseqDataset,
    NestedDictionaryDataset,
    PrependTokenDataset,
    SortDataset,
)
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import II
from torch import Tensor

from ..config import option
from ..errors import OdeTransformerError

NAME = "sentence_prediction_by_length"
OF_PAIRS = "sentence_prediction_of_pairs"


@register_task(NAME, dataclass=SentencePredictionConfig)
class SentencePredictionByLength(SentencePredictionTask):
    """fairseq's task with sentences batched by length; ``--no-shuffle`` keeps the order of the file."""

    def load_dataset(self, split: str, combine: bool = False, **kwargs) -> SortDataset:
        """Load a split, e.g. ``train``, with its sentences ordered by length, and at random within a length."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if not self.cfg.no_shuffle:
            (lengths,) = dataset.sizes
            dataset.sort_order = [*dataset.sort_order, lengths]  # the last key is the first to decide
        return dataset


class _Swapped(BaseWrapperDataset):
    """One text of every pair; the other one where the texts are swapped.

    Two of these data sets, with the texts in either order and the same seed, swap the same pairs in the same epoch,
    also after a training was resumed. Sizes are those of the texts in their own order: the sum of both is right.
    """

    def __init__(self, dataset: FairseqDataset, other: FairseqDataset, seed: int):
        super().__init__(dataset)
        self.other, self.seed = other, seed
        self.set_epoch(1)

    def __getitem__(self, index: int) -> Tensor:
        return (self.other if self.swapped[index] else self.dataset)[index]

    def set_epoch(self, epoch: int) -> None:
        """Draw the pairs of an epoch whose texts are swapped."""
        super().set_epoch(epoch)
        self.swapped = np.random.default_rng((self.seed, epoch)).random(len(self)) < 0.5


@dataclass
class SentencePredictionOfPairsConfig(SentencePredictionConfig):
    """The options of fairseq's task, and ``--swap-pairs``."""

    swap_pairs: bool = option(False, "in training, swap the texts of a pair with probability 1/2, anew in every epoch")
    train_subset: str = II("dataset.train_subset")


@register_task(OF_PAIRS, dataclass=SentencePredictionOfPairsConfig)
class SentencePredictionOfPairs(SentencePredictionTask):
    """fairseq's task; with ``--swap-pairs``, the order of the texts of the training set's pairs is drawn.

    The tokens in front of the texts, ``--init-token`` and ``--separator-token``, stay in place. Pairs are truncated
    after the swap.
    """

    def load_dataset(self, split: str, combine: bool = False, **kwargs) -> FairseqDataset:
        """Load a split."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if not (self.cfg.swap_pairs and split == self.cfg.train_subset):
            return dataset
        if not (Path(self.cfg.data) / "input1").is_dir():
            raise OdeTransformerError(f"--swap-pairs: {self.cfg.data} has no input1; must hold pairs of texts")
        pairs = dataset
        while not isinstance(pairs, ConcatSentencesDataset):
            nested = isinstance(pairs, NestedDictionaryDataset)
            pairs = pairs.defn["net_input.src_tokens"] if nested else pairs.dataset
        fronts = [text.token if isinstance(text, PrependTokenDataset) else None for text in pairs.datasets]
        first, second = (
            text if front is None else text.dataset for text, front in zip(pairs.datasets, fronts, strict=True)
        )
        texts = (_Swapped(first, second, self.cfg.seed), _Swapped(second, first, self.cfg.seed))
        pairs.datasets = [PrependTokenDataset(text, front) for text, front in zip(texts, fronts, strict=True)]
        return dataset

    def can_reuse_epoch_itr(self, dataset: FairseqDataset) -> bool:
        """As in fairseq, but not where pairs are swapped: processes that load batches keep the first epoch's draws."""
        swaps = self.cfg.swap_pairs and dataset is self.datasets.get(self.cfg.train_subset)
        return not swaps and super().can_reuse_epoch_itr(dataset)
