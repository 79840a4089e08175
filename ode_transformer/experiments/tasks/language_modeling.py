"""Language modeling, scored by the perplexity of the next token."""

from .task import by_perplexity

TASK = by_perplexity("language_modeling", "language_modeling")
