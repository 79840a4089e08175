"""Tasks of recipes: a file or folder each, with its published sets, its flags, its steps after averaging, what a model
predicts, and its metrics. The three that are scored by perplexity differ in nothing but fairseq's task.

Besides, ``encoders`` runs trained encoders, ``listops`` and ``generated`` make data, ``baselines`` are rules that a
classifier must beat, and ``command`` has the command line of all of them.
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
