"""``--task sentence_prediction_by_length``: fairseq's ``sentence_prediction`` with batches of sentences of like length.

fairseq's own task draws the sentences of a batch whatever their length, and all are padded to the longest: of IMDB's
reviews, cut at 512 subwords, almost half of what is computed is padding. Here sentences of like length share a batch,
as in translation; the order of the batches is random, anew in each epoch.
"""

from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

NAME = "sentence_prediction_by_length"


@register_task(NAME, dataclass=SentencePredictionConfig)
class SentencePredictionByLength(SentencePredictionTask):
    """As fairseq's; ``--no-shuffle`` leaves the order of the file."""

    def load_dataset(self, split: str, combine: bool = False, **kwargs) -> SortDataset:
        """Load a split, e.g. ``train``; its sentences are ordered by length, those of one length at random."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if not self.cfg.no_shuffle:
            (lengths,) = dataset.sizes
            dataset.sort_order = [*dataset.sort_order, lengths]  # the last one decides first
        return dataset
