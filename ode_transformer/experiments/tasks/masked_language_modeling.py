"""Masked language modeling, fairseq's ``masked_lm``, scored by the perplexity of the masked tokens."""

from .task import Task, validation

TASK = Task(
    name="masked_language_modeling",
    section="validate",
    flags=lambda recipe: ["--task", "masked_lm"],
    evaluation=validation("masked_lm"),
    metrics=lambda recipe: ["perplexity"],
)
