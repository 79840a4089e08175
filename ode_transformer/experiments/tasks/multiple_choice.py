"""RACE: which of several texts is right, by fairseq's ``sentence_ranking``; accuracy."""

from .glue import validated
from .task import Task

NAME = "sentence_ranking"  # of fairseq's task and of its criterion

TASK = Task(
    name="multiple_choice",
    section="validate",
    flags=lambda recipe: ["--task", NAME],
    evaluation=validated(NAME, lambda recipe: ["accuracy"]),
    metrics=lambda recipe: ["accuracy"],
)
