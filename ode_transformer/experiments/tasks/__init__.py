"""The tasks of recipes.

Each task has a file or folder with the readers of its published data sets, its flags, its steps after averaging, its
predictions and its metrics. The three tasks that are scored by perplexity differ only in fairseq's task.

In addition, ``encoders`` runs trained encoders, ``splits`` writes data sets, ``listops`` and ``generated`` generate
them, ``baselines`` has the baselines that a classifier must beat, and ``command`` the command lines.
"""

from . import classification, correction, glue, multiple_choice, question_answering, summarisation, translation
from .task import Task, by_perplexity

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
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
}
