"""BERT's objective: masked tokens, and whether the second sentence of a pair follows the first.

Devlin et al. 2019, in the form of the released Macaron Net (Lu et al. 2019, appendix B.2). Text is cut into blocks of
whole sentences that never cross a document. Documents are separated by empty lines, as for fairseq's ``masked_lm``, and
the binarized data are the same. Every block that is followed by another in its document is the first half of a pair::

    <s> block </s> other block </s>

Half of the pairs keep the next block; the others exchange theirs among each other, with new draws in every epoch. The
loss of a batch is the mean over masked tokens, plus the mean over pairs of the binary cross-entropy of the model's
single logit. Special symbols are never masked.

It is used with ``--task masked_lm_pairs --criterion masked_lm_pairs`` and a model that has ``--sentence-pairs``.
"""

import math
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import (
    BaseWrapperDataset,
    Dictionary,
    FairseqDataset,
    MaskTokensDataset,
    TokenBlockDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import OdeTransformerError

NAME = "masked_lm_pairs"
_SPECIAL = 3  # special symbols of a pair: <s> and two </s>


class SentencePairs(FairseqDataset):
    """Pairs of blocks, masked; the draws depend on the seed and the epoch alone.

    ``sources`` are the masked blocks, ``targets`` the masked tokens with padding elsewhere, both without special
    symbols; ``documents`` is the document of each block, in order. A block has at most ``longest`` tokens.
    """

    def __init__(
        self,
        sources: FairseqDataset,
        targets: FairseqDataset,
        sizes: np.ndarray,
        documents: np.ndarray,
        longest: int,
        dictionary: Dictionary,
        seed: int,
    ):
        self.sources, self.targets, self.dictionary, self.seed = sources, targets, dictionary, seed
        self.longest, self.block_sizes = longest, np.minimum(sizes, longest)
        self.first = np.flatnonzero(documents[:-1] == documents[1:])
        if not len(self.first):
            raise OdeTransformerError(
                "--task masked_lm_pairs: no document has two blocks; are documents longer than half of "
                "--tokens-per-sample, and separated by empty lines?"
            )
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Draw the pairs and masks of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        self.second = self.first + 1
        exchanged = rng.permutation(len(self.first))[: len(self.first) // 2]
        self.second[exchanged] = self.second[rng.permutation(exchanged)]
        self.sizes = self.block_sizes[self.first] + self.block_sizes[self.second] + _SPECIAL
        for dataset in (self.sources, self.targets):
            dataset.set_epoch(epoch)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False, because the pairs of another epoch have other sizes."""
        return False

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> dict[str, Any]:
        a, b, d = self.first[index], self.second[index], self.dictionary

        def joined(blocks: FairseqDataset, *symbols: int) -> Tensor:
            begin, end = (torch.tensor([symbol]) for symbol in symbols)
            return torch.cat((begin, blocks[a][: self.longest], end, blocks[b][: self.longest], end))

        source, target = joined(self.sources, d.bos(), d.eos()), joined(self.targets, d.pad(), d.pad())
        return {"id": index, "source": source, "target": target, "follows": int(b == a + 1)}

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch: sources and targets (B, T), padded on the right, and ``follows``, (B,)."""
        if not samples:
            return {}
        source, target = (
            data_utils.collate_tokens([s[key] for s in samples], self.dictionary.pad()) for key in ("source", "target")
        )
        return {
            "id": torch.tensor([s["id"] for s in samples]),
            "net_input": {"src_tokens": source, "src_lengths": torch.tensor([len(s["source"]) for s in samples])},
            "target": target,
            "follows": torch.tensor([s["follows"] for s in samples]),
            "nsentences": len(samples),
            "ntokens": sum(len(s["source"]) for s in samples),
        }

    def num_tokens(self, index: int) -> int:
        """Return the number of tokens of a pair."""
        return self.sizes[index]

    size = num_tokens

    def ordered_indices(self) -> np.ndarray:
        """Return all pairs ordered by size, at random within a size, so that pairs of similar size share a batch."""
        return np.lexsort((np.random.permutation(len(self)), self.sizes))


class _Words(BaseWrapperDataset):
    """Blocks without the symbols that end sentences; a block may hold several sentences."""

    def __init__(self, blocks: FairseqDataset, end: int):
        super().__init__(blocks)
        self.end = end

    def __getitem__(self, index: int) -> Tensor:
        block = self.dataset[index]
        return block[block != self.end]


@register_task(NAME, dataclass=MaskedLMConfig)
class MaskedLMPairsTask(MaskedLMTask):
    """fairseq's ``masked_lm`` on pairs of sentences; only the options that ``load_dataset`` reads have an effect."""

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **unused: Any) -> None:
        """Load a split."""
        paths, d = self.cfg.data.split(":"), self.source_dictionary
        path = f"{paths[(epoch - 1) % len(paths)]}/{split}"
        text = data_utils.load_indexed_dataset(path, d, combine=combine)
        if text is None:
            raise FileNotFoundError(f"Dataset not found: {split} ({path})")
        longest = (self.cfg.tokens_per_sample - _SPECIAL) // 2
        blocks = TokenBlockDataset(text, text.sizes, longest, d.pad(), d.eos(), "complete_doc")
        first, _, last = blocks.block_to_dataset_index.T
        # An empty line holds one symbol, the end of a sentence.
        documents = np.cumsum(np.asarray(text.sizes) == 1)[first]
        sizes = np.asarray(blocks.sizes) - (last - first + 1)  # without those ends
        sources, targets = MaskTokensDataset.apply_mask(
            _Words(blocks, d.eos()),
            d,
            pad_idx=d.pad(),
            mask_idx=self.mask_idx,
            seed=self.cfg.seed,
            mask_prob=self.cfg.mask_prob,
            leave_unmasked_prob=self.cfg.leave_unmasked_prob,
            random_token_prob=self.cfg.random_token_prob,
            freq_weighted_replacement=self.cfg.freq_weighted_replacement,
        )
        self.datasets[split] = SentencePairs(sources, targets, sizes, documents, longest, d, self.cfg.seed)


@register_criterion(NAME, dataclass=FairseqDataclass)
class MaskedLMPairsCriterion(FairseqCriterion):
    """The sum of two mean losses, of masked tokens and of next-sentence prediction."""

    def forward(self, model: nn.Module, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Tensor, dict]:
        """Return the loss of a sample, its divisor, and the values to log, as fairseq's criteria do."""
        masked = sample["target"].ne(self.padding_idx)
        logits, more = model(**sample["net_input"], masked_tokens=masked)
        if "next_sentence" not in more:
            raise OdeTransformerError(f"--criterion {NAME}: needs a model with --sentence-pairs")
        targets, follows = sample["target"][masked], sample["follows"]
        symbols = F.cross_entropy(logits.float(), targets, reduction="sum")
        following = F.binary_cross_entropy_with_logits(more["next_sentence"].float(), follows.float(), reduction="sum")
        count, pairs = masked.sum(), len(follows)
        log = {
            "loss": symbols.data + following.data * count / pairs,
            "symbols": symbols.data,
            "following": following.data,
            "ncorrect": ((more["next_sentence"] > 0) == follows.bool()).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": pairs,
            "sample_size": count,
        }
        return symbols + following * count / pairs, count, log

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the loss in bits, the perplexity of masked tokens, and loss and accuracy of next-sentence prediction."""
        total = {key: sum(log[key] for log in logging_outputs) for key in logging_outputs[0]}
        count, pairs = total["sample_size"], total["nsentences"]
        metrics.log_scalar("loss", total["loss"] / count / math.log(2), count, round=3)
        metrics.log_scalar("nll_loss", total["symbols"] / count / math.log(2), count, round=3)
        metrics.log_scalar("next_sentence_loss", total["following"] / pairs / math.log(2), pairs, round=3)
        metrics.log_scalar("next_sentence_accuracy", 100.0 * total["ncorrect"] / pairs, pairs, round=1)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: fairseq may sum the logged values over devices."""
        return True
