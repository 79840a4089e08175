"""SQuAD: questions answered by spans of paragraphs, by our ``span_prediction``, scored by exact match and F1.

A model with a span head runs over all windows of all questions. As in BERT, the candidates of a question are spans of a
window from one of the ``BEST`` first tokens to one of the ``BEST`` last tokens, of at most ``LONGEST`` tokens, whose
first token has the most context in this window (:func:`most_context`); the score of a candidate is the sum of both
logits. The no-answer score of a question is the lowest sum of the logits of ``<s>`` in its windows, minus the score of
the best candidate. An answer is the text of the paragraph from the first to the last character of the span.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .... import paths
from ....errors import OdeTransformerError, counted
from ....files import write_json, written_by
from ....schema import checked_json, count, one_of
from ...metrics import Examples, squad
from ..task import PREDICTION, Recipe, Step, Task, step_of_ours

BEST = 20  # first and last symbols of a window that are combined
LONGEST = 30  # symbols of an answer
WRITER = "data-prep/prepare-squad.sh"
_QUESTIONS = {
    "version": one_of("1.1", "2.0"),
    "paragraphs": [{"text": str, "offsets": list}],
    "questions": [{"id": str, "paragraph": count, "answers": [str]}],
    "windows": [[count, count]],
}
_NONE = 1e6  # added to the no-answer score of a question without candidates


class Window(NamedTuple):
    """A window [begin, end) of the symbols of a paragraph, and a model's logits."""

    begin: int
    end: int
    null: float  # the sum of both logits of ``<s>``
    first: Sequence[float]  # for each symbol, the logit of being the first of the answer
    last: Sequence[float]


def questions(data: Path, subset: str) -> dict[str, Any]:
    """Return the content of ``SUBSET.questions.json``, which ``data-prep/prepare-squad.sh`` writes.

    It has ``version``; ``paragraphs``, each with ``text`` and ``offsets``, the characters [begin, end) of its symbols;
    ``questions``, each with ``id``, the index of its ``paragraph`` and ``answers``; and ``windows``, the index of the
    question and the first symbol of each.
    """
    path = data / f"{subset}.questions.json"
    tree = checked_json(path, _QUESTIONS, f"is not what {WRITER} writes")
    if not tree["questions"]:
        raise OdeTransformerError(f"{path}: has no questions")
    return tree


def most_context(windows: Sequence[Window], symbol: int) -> int:
    """Return the index of the window in which a symbol has the most context; the first in a tie.

    The context is the number of symbols on the shorter side, plus 1% of the length of the window, as in BERT.
    """

    def room(index: int) -> float:
        begin, end, *_ = windows[index]
        inside = begin <= symbol < end
        return min(symbol - begin, end - 1 - symbol) + 0.01 * (end - begin) if inside else -math.inf

    return max(range(len(windows)), key=room)


def candidates(windows: Sequence[Window], index: int) -> list[tuple[float, int, int]]:
    """Return the candidates of one of a question's windows: score, first and last symbol of each."""
    begin, _, _, first, last = windows[index]
    firsts, lasts = (sorted(range(len(x)), key=lambda i: -x[i])[:BEST] for x in (first, last))
    firsts = [i for i in firsts if most_context(windows, begin + i) == index]
    return [(first[i] + last[j], begin + i, begin + j) for i in firsts for j in lasts if i <= j < i + LONGEST]


def answer(paragraph: Mapping[str, Any], windows: Sequence[Window]) -> tuple[str, float]:
    """Return the best answer to a question, empty if there is none, and its no-answer score, from all its windows."""
    text, offsets = paragraph["text"], paragraph["offsets"]
    null = min((window.null for window in windows), default=math.inf)
    found = [one for index in range(len(windows)) for one in candidates(windows, index)]
    for score, first, last in sorted(found, key=lambda one: (-one[0], *one[1:])):
        if said := text[offsets[first][0] : offsets[last][1]].strip():
            return said, null - score
    return "", null + _NONE


def predict(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> dict[str, tuple[str, float]]:
    """Return the answer to each question of a subset and its no-answer score, by the id of the question."""
    from ....checkpoints import CheckpointError
    from ....training.span_prediction import NAME, SpanPredictionConfig, SpanPredictionTask
    from ..encoders import SPANS, TrainedEncoder

    tree = questions(data, subset)
    encoder = TrainedEncoder(checkpoint, data, subset, cpu, SPANS, NAME)
    dataset = encoder.dataset(SpanPredictionTask, SpanPredictionConfig(**encoder.options))
    found = encoder.outputs(
        dataset, batch_size, lambda batch: encoder.model(batch["net_input"]["src_tokens"], spans=True)[0]
    )
    windows: list[list[Window]] = [[] for _ in tree["questions"]]
    with written_by(WRITER, data / f"{subset}.questions.json"):
        for i, ((question, start), its) in enumerate(zip(tree["windows"], found, strict=True)):
            begin, end = dataset.defn["begin"].labels[i], int(dataset.size(i)) - 1  # of the window in its sample
            logits = its[:end]
            if not logits.isfinite().all():
                raise CheckpointError(f"{checkpoint}: its logits are not all numbers")
            first, last = logits[begin:].T.tolist()
            windows[question].append(Window(start, start + end - begin, logits[0].sum().item(), first, last))
        return {
            one["id"]: answer(tree["paragraphs"][one["paragraph"]], its)
            for one, its in zip(tree["questions"], windows, strict=True)
        }


def write_answers(
    checkpoint: str | Path,
    data: str | Path,
    subset: str,
    output_dir: str | Path,
    batch_size: int = 32,
    cpu: bool = False,
    threshold: float | None = None,
) -> None:
    """Write the answers and no-answer scores of :func:`predict`, and print the number of questions.

    Args:
        checkpoint: the checkpoint of the trained model.
        data: the folder of binarized data.
        subset: the subset of the data.
        output_dir: the folder for predictions.json and no_answer.json.
        batch_size: windows per batch.
        cpu: do not use a GPU.
        threshold: give no answer where the no-answer score exceeds X; SQuAD 2.0 only (default: always answer).
    """
    if threshold is not None and (version := questions(Path(data), subset)["version"]) != "2.0":
        raise OdeTransformerError(
            f"--threshold {threshold:g}: must be absent, since every question of SQuAD {version} has an answer"
        )
    found = predict(Path(checkpoint), Path(data), subset, batch_size, cpu)
    limit = math.inf if threshold is None else threshold
    write_json(Path(output_dir) / "no_answer.json", {name: score for name, (_, score) in found.items()})
    predictions = {name: "" if score > limit else text for name, (text, score) in found.items()}
    write_json(Path(output_dir) / "predictions.json", predictions)  # last: with it, the step counts as done
    print(f"{counted(len(predictions), 'question')} -> {output_dir}")


def golds(tree: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the gold answers by the id of the question."""
    return {one["id"]: one["answers"] for one in tree["questions"]}


def read_answers(folder: Path) -> tuple[dict[str, str], dict[str, float] | None]:
    """Return the predictions and the no-answer scores in a folder of ``squad predict``; the latter may be None."""
    scores, fault = folder / "no_answer.json", "is not what squad predict writes"
    answers = checked_json(folder / "predictions.json", {str: str}, fault)
    return answers, checked_json(scores, {str: float}, fault) if scores.exists() else None


def write_scores(folder: str | Path, data: str | Path, subset: str, output: str | Path) -> None:
    """Score the answers in a folder, write the scores to a JSON file, and print them.

    Args:
        folder: the folder of predictions.json and, for SQuAD 2.0, of no_answer.json.
        data: the folder of binarized data.
        subset: the subset of the data.
        output: the JSON file to write.
    """
    tree = questions(Path(data), subset)
    predictions, no_answer = read_answers(Path(folder))
    scores = squad.entry(golds(tree), predictions, tree["version"], no_answer)
    write_json(output, scores)
    for name in (name for name in scores if name != "questions"):
        threshold = f" {scores[name]['threshold']:.4g}" if name in squad.BEST else ""
        print(f"{name:<12}{scores[name]['value']:.2f}   ({scores[name]['signature']}{threshold})")


def _answering(recipe: Recipe, run_dir: str, subset: str, where: Sequence[str]) -> Step:
    model, folder = f"{run_dir}/average.pt", f"{run_dir}/answers/{subset}"
    about = {"": model, "data": recipe.data.directory, "subset": subset, "output_dir": folder, **recipe.validate.flags}
    files = {"inputs": [model], "outputs": [f"{folder}/predictions.json"], "where": where}
    return step_of_ours("validate", subset, ["squad", "predict"], write_answers, about, **files)


def _scoring(recipe: Recipe, run_dir: str, subset: str) -> Step:
    folder, output = f"{run_dir}/answers/{subset}", f"{run_dir}/scores/{subset}.json"
    about = {"": folder, "data": recipe.data.directory, "subset": subset, "output": output}
    files = {"inputs": [f"{folder}/predictions.json"], "outputs": [output]}
    return step_of_ours("score", subset, ["squad", "score"], write_scores, about, **files)


def _outputs(recipe: Recipe, folder: Path, subset: str) -> list[str]:
    """Return one JSON array per question: its id, the answer, and the no-answer score or null."""
    found, no_answer = read_answers(folder / "answers" / subset)
    return [json.dumps([name, answer, (no_answer or {}).get(name)]) for name, answer in found.items()]


def _examples(
    recipe: Recipe, lines: Sequence[str], subset: str, folder: Optional[Path]
) -> tuple[Sequence[str], Examples]:
    tree = questions(paths.ROOT / recipe.data.directory, subset)
    return lines, Examples(questions=(tree["version"], golds(tree)))


def _metrics(recipe: Recipe) -> list[str]:
    """Return exact match and F1; for version 2.0, also at the best threshold, as papers and comparisons do."""
    second = re.search(r"--version[ =]2\.0", recipe.data.prepare)  # the option of prepare-squad.sh
    return [*squad.BEST.values(), *(squad.BEST if second else ())]


TASK = Task(
    name="question_answering",
    flags=lambda recipe: ["--task", "span_prediction"],
    evaluate=_answering,
    score=_scoring,
    metrics=_metrics,
    outputs=_outputs,
    examples=_examples,
    options=PREDICTION,  # a threshold would spoil the scores at the best one
)
