"""Classification of sentences, fairseq's ``sentence_prediction``: accuracy. Recipes say how many classes there are."""

from .task import Task, validation

TASK = Task(
    name="classification",
    section="validate",
    flags=lambda recipe: ["--task", "sentence_prediction"],
    # Without the criterion, fairseq does not know the name of the head.
    evaluation=validation("accuracy", "sentence_prediction", "--criterion", "sentence_prediction"),
    metrics=lambda recipe: ["accuracy"],
)
