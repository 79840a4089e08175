"""Masked language modelling, fairseq's ``masked_lm``: perplexity of the tokens that were masked."""

from .task import Task, validation

TASK = Task(
    name="masked_language_modeling",
    section="validate",
    flags=lambda recipe: ["--task", "masked_lm"],
    evaluation=validation("perplexity", "masked_lm"),
    metrics=lambda recipe: ["perplexity"],
)
