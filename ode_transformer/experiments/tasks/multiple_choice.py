"""RACE: which of several texts is right, by fairseq's ``sentence_ranking``; accuracy."""

from .task import Task, validation

NAME = "sentence_ranking"  # of fairseq's task and of its criterion

TASK = Task(
    name="multiple_choice",
    section="validate",
    flags=lambda recipe: ["--task", NAME],
    # Without the criterion, fairseq does not know the name of the head.
    evaluation=validation("accuracy", NAME, "--criterion", NAME),
    metrics=lambda recipe: ["accuracy"],
)
