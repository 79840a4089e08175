"""``--task sentence_prediction_by_length``: fairseq's ``sentence_prediction`` with sentences batched by length.

fairseq's own task draws the sentences of a batch regardless of length and pads all to the longest. With IMDB's reviews,
cut at 512 subwords, almost half of the computation is on padding. Here sentences of similar length share a batch, as in
translation, and the order of the batches is drawn again in each epoch.
"""

from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

NAME = "sentence_prediction_by_length"


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
