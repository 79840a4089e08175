"""Classification of sentences, fairseq's ``sentence_prediction``: accuracy. Recipes say how many classes there are."""

from .task import Task, validation

TASK = Task(
    name="classification",
    section="validate",
    flags=lambda recipe: ["--task", "sentence_prediction"],
    evaluation=validation("accuracy", "sentence_prediction"),
    metrics=lambda recipe: ["accuracy"],
)
