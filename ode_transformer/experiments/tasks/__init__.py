"""The tasks of recipes.

Each has a file or folder with the readers of its published data sets, its flags, its steps after averaging and its
metrics. The three that are scored by perplexity differ only in fairseq's task.
"""

from ...numerics.registry import Registry
from . import classification, correction, glue, multiple_choice, question_answering, summarisation, translation
from .task import Task, by_perplexity

_TASKS = (
    translation.TASK,
    by_perplexity("language_modeling", "language_modeling"),
    classification.TASK,
    by_perplexity("masked_language_modeling", "masked_lm"),
    summarisation.TASK,
    correction.TASK,
    by_perplexity("masked_lm_pairs", "masked_lm_pairs"),
    glue.TASK,
    question_answering.TASK,
    multiple_choice.TASK,
)
TASKS: Registry[Task] = Registry("task", {task.name: task for task in _TASKS})
