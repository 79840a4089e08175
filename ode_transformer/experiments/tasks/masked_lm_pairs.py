"""BERT's objective, our ``masked_lm_pairs``, scored by perplexity of masked tokens; next-sentence loss is logged."""

from .task import Task, validation

TASK = Task(
    name="masked_lm_pairs",
    section="validate",
    flags=lambda recipe: ["--task", "masked_lm_pairs"],
    evaluation=validation("masked_lm_pairs"),
    metrics=lambda recipe: ["perplexity"],
)
