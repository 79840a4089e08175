"""BERT's objective, our ``masked_lm_pairs``, scored by perplexity of masked tokens; next-sentence loss is logged."""

from .task import by_perplexity

TASK = by_perplexity("masked_lm_pairs", "masked_lm_pairs")
