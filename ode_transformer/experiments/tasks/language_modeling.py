"""Language modeling, scored by the perplexity of the next token."""

from .task import Task, validation

TASK = Task(
    name="language_modeling",
    section="validate",
    flags=lambda recipe: ["--task", "language_modeling"],
    evaluation=validation("language_modeling"),
    metrics=lambda recipe: ["perplexity"],
)
