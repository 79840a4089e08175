"""Masked language modeling, fairseq's ``masked_lm``, scored by the perplexity of the masked tokens."""

from .task import by_perplexity

TASK = by_perplexity("masked_language_modeling", "masked_lm")
