"""Tasks of recipes. One file per task has its flags, its steps after averaging, and its metrics."""

from . import (
    classification,
    correction,
    glue,
    language_modeling,
    masked_language_modeling,
    masked_lm_pairs,
    multiple_choice,
    question_answering,
    summarisation,
    translation,
)
from .task import Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        translation.TASK,
        language_modeling.TASK,
        classification.TASK,
        masked_language_modeling.TASK,
        summarisation.TASK,
        correction.TASK,
        masked_lm_pairs.TASK,
        glue.TASK,
        question_answering.TASK,
        multiple_choice.TASK,
    )
}
