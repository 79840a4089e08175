"""RACE: which of several texts is right, by fairseq's ``sentence_ranking``; accuracy."""

from . import glue
from .task import Task, prediction

NAME = "sentence_ranking"  # of fairseq's task and of its criterion

TASK = Task(
    name="multiple_choice",
    section="validate",
    flags=lambda recipe: ["--task", NAME],
    evaluation=prediction(["choose"], ["glue", "score"], lambda recipe: ["--metrics", "accuracy"]),
    metrics=lambda recipe: ["accuracy"],
    outputs=glue.TASK.outputs,
    scored=glue.TASK.scored,
)
