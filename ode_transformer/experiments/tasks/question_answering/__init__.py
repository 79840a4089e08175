"""SQuAD: questions answered by spans of paragraphs, by our ``span_prediction``, scored by exact match and F1.

A model with a span head runs over all windows of all questions. As in BERT, the candidates of a question are spans of a
window from one of the best first tokens to one of the best last tokens, of at most ``--longest`` tokens, whose first
token has the most context in this window (:func:`most_context`); the score of a candidate is the sum of both logits.
The no-answer score of a question is the lowest sum of the logits of ``<s>`` in its windows, minus the score of the best
candidate. An answer is the text of the paragraph from the first to the last character of the span.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .... import paths
from ....errors import OdeTransformerError
from ....files import read_json, write_json
from ....schema import at_least_one, lacks
from ...metrics import Examples, squad
from ..task import PREDICTION, Recipe, Step, Task, step_of_ours

PARTS = ("predictions", "no_answer", "nbest")
_QUESTIONS = {
    "version": lambda version: "" if version in ("1.1", "2.0") else "must be 1.1 or 2.0",
    "paragraphs": [{"text": str, "offsets": [[int, int]]}],
    "questions": [{"id": str, "paragraph": int, "answers": [str]}],
    "windows": [[int, int]],
}
_NONE = 1e6  # added to the no-answer score of a question without candidates


class Candidate(NamedTuple):
    """A span of a paragraph, from symbol ``first`` to symbol ``last``, and its score."""

    score: float
    first: int
    last: int


def questions(data: Path, subset: str) -> dict[str, Any]:
    """Return the content of ``SUBSET.questions.json``, which ``data-prep/prepare-squad.sh`` writes.

    Raises:
        OdeTransformerError: the file cannot be read or has another form.
    """
    path = data / f"{subset}.questions.json"
    tree = read_json(path)
    if wrong := lacks(tree, _QUESTIONS) or _astray(tree):
        raise OdeTransformerError(f"{path}: is not what prepare-squad.sh writes: {wrong}")
    return tree


def _astray(tree: Mapping[str, Any]) -> str:
    """Describe a reference to a question or paragraph that does not exist; empty if there is none."""
    named = [(i, "questions") for i, _ in tree["windows"]] + [(q["paragraph"], "paragraphs") for q in tree["questions"]]
    wrong = (f"there are no {what}[{i}]" for i, what in named if not 0 <= i < len(tree[what]))
    return next(wrong, "")


def most_context(spans: list[tuple[int, int]], symbol: int) -> int:
    """Return the index of the window [begin, end) in which a symbol has the most context; the first in a tie.

    The context is the number of symbols on the shorter side, plus 1% of the length of the window, as in BERT.
    """

    def room(window: int) -> float:
        begin, end = spans[window]
        inside = begin <= symbol < end
        return min(symbol - begin, end - 1 - symbol) + 0.01 * (end - begin) if inside else -math.inf

    return max(range(len(spans)), key=room)


def candidates(
    logits: Sequence[Sequence[float]], spans: list[tuple[int, int]], window: int, best: int, longest: int
) -> list[Candidate]:
    """Return the candidates of a window.

    Args:
        logits: for each symbol of the window, the logits of being the first and the last of the answer.
        spans: all windows of the question, as [begin, end).
        window: the index of this window.
        best: the number of first and of last symbols to combine.
        longest: the maximum length of a candidate in symbols.
    """
    begin, first, last = spans[window][0], [x for x, _ in logits], [x for _, x in logits]
    firsts, lasts = (sorted(range(len(x)), key=lambda i: -x[i])[:best] for x in (first, last))
    firsts = [i for i in firsts if most_context(spans, begin + i) == window]
    return [Candidate(first[i] + last[j], begin + i, begin + j) for i in firsts for j in lasts if i <= j < i + longest]


def answers(
    text: str, offsets: list[list[int]], found: list[Candidate], null: float, best: int
) -> tuple[list[dict[str, Any]], float]:
    """Return the distinct answers to a question, best first, and its no-answer score.

    Args:
        text: the paragraph.
        offsets: the characters [begin, end) of each symbol of the paragraph.
        found: the candidates of all windows.
        null: the lowest sum of the logits of ``<s>``.
        best: the maximum number of answers.
    """
    listed: dict[str, dict[str, Any]] = {}
    for score, first, last in sorted(found, key=lambda one: (-one.score, one.first, one.last)):
        if len(listed) == best:
            break
        start, end = offsets[first][0], offsets[last][1]
        answer = text[start:end].strip()
        if answer and answer not in listed:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            listed[answer] = {"text": answer, "start": start, "score": score}
    top = max((one["score"] for one in listed.values()), default=-_NONE)
    return list(listed.values()), null - top


def predict(
    checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool, best: int = 20, longest: int = 30
) -> dict[str, dict[str, Any]]:
    """Answer the questions of a subset.

    Returns:
        For each of ``PARTS`` a value by the id of the question: in ``predictions`` the best answer, in ``no_answer``
        the no-answer score, in ``nbest`` the best answers, each with its ``text``, the character where it starts
        (``start``) and its ``score``.

    Raises:
        CheckpointError: as :class:`.TrainedEncoder` and :meth:`.TrainedEncoder.task`, or the model was trained
            without an init token.
        OdeTransformerError: as these and :func:`questions`, or the windows are not those of the questions, or a logit
            is not finite.
    """
    import torch

    from ....checkpoints import CheckpointError
    from ....training.span_prediction import NAME, SpanPredictionConfig, SpanPredictionTask
    from ..encoders import SPANS, TrainedEncoder

    tree = questions(data, subset)
    encoder = TrainedEncoder(checkpoint, data, subset, cpu, SPANS, [NAME], ["input0", "input1"])
    if encoder.options["init_token"] is None:
        raise CheckpointError(f"{checkpoint}: has no init_token, the symbol that stands for no answer")
    dataset = encoder.examples(encoder.task(SpanPredictionTask, SpanPredictionConfig(**encoder.options)))
    sizes = [int(dataset.size(i)) - begin - 1 for i, begin in enumerate(dataset.defn["begin"].labels)]
    spans: list[list[tuple[int, int]]] = [[] for _ in tree["questions"]]
    numbers = []  # the index of each window among those of its question
    if len(sizes) != len(tree["windows"]):
        raise OdeTransformerError(f"{data}: {subset} has {len(sizes)} windows, its questions {len(tree['windows'])}")
    for (question, begin), size in zip(tree["windows"], sizes, strict=True):
        symbols = len(tree["paragraphs"][tree["questions"][question]["paragraph"]]["offsets"])
        if begin + size > symbols:
            raise OdeTransformerError(f"{data}: a window of {subset} ends behind its paragraph, of {symbols} symbols")
        numbers.append(len(spans[question]))
        spans[question].append((begin, begin + size))
    found: list[list[Candidate]] = [[] for _ in tree["questions"]]
    null = [math.inf] * len(tree["questions"])
    for i, logits in encoder.outputs(
        dataset, batch_size, lambda batch: encoder.model(batch["net_input"]["src_tokens"], spans=True)[0]
    ):
        question, _ = tree["windows"][i]
        end = dataset.size(i) - 1  # of the window, before the symbol that ends the sample
        row = torch.cat((logits[:1], logits[end - sizes[i] : end]))
        if not row.isfinite().all():
            name = tree["questions"][question]["id"]
            raise OdeTransformerError(f"{checkpoint}: its logits of question {name} are not numbers")
        null[question] = min(null[question], row[0].sum().item())
        found[question] += candidates(row[1:].tolist(), spans[question], numbers[i], best, longest)
    result: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for one, its, score in zip(tree["questions"], found, null, strict=True):
        paragraph = tree["paragraphs"][one["paragraph"]]
        listed, no_answer = answers(paragraph["text"], paragraph["offsets"], its, score, best)
        result["predictions"][one["id"]] = listed[0]["text"] if listed else ""
        result["no_answer"][one["id"]] = no_answer
        result["nbest"][one["id"]] = listed
    return result


def write_answers(
    checkpoint: str | Path,
    data: str | Path,
    subset: str,
    output_dir: str | Path,
    batch_size: int = 32,
    cpu: bool = False,
    best: int = 20,
    longest: int = 30,
    threshold: float | None = None,
) -> None:
    """Write the results of :func:`predict`, one file for each of ``PARTS``, and print the number of questions.

    Args:
        checkpoint: the checkpoint of the trained model.
        data: the folder of binarized data.
        subset: the subset of the data.
        output_dir: the folder for predictions.json, no_answer.json and nbest.json.
        batch_size: windows per batch.
        cpu: do not use a GPU.
        best: number of start and of end positions to combine per window, and of answers to keep per question.
        longest: maximum length of an answer in symbols.
        threshold: give no answer where the no-answer score exceeds X; SQuAD 2.0 only (default: always answer).

    Raises:
        CheckpointError, OdeTransformerError: as :func:`predict`, or there is a threshold for SQuAD 1.1.
    """
    if threshold is not None and questions(Path(data), subset)["version"] == "1.1":
        raise OdeTransformerError(
            f"--threshold {threshold}: {data} is SQuAD 1.1, whose questions all have answers; leave it out"
        )
    found = predict(Path(checkpoint), Path(data), subset, batch_size, cpu, best, longest)
    if threshold is not None:
        left = {name: "" for name, score in found["no_answer"].items() if score > threshold}
        found["predictions"] |= left
    for part in reversed(PARTS):  # predictions.json, by which the step counts as done, is written last
        write_json(Path(output_dir) / f"{part}.json", found[part])
    print(f"{len(found['predictions'])} questions -> {output_dir}")


def golds(tree: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the gold answers by the id of the question."""
    return {one["id"]: one["answers"] for one in tree["questions"]}


def read_answers(folder: Path) -> tuple[dict[str, str], dict[str, float] | None]:
    """Return the predictions and no-answer scores in a folder of ``squad predict``; None for scores that are missing.

    Raises:
        OdeTransformerError: there are no predictions, or a file is not a mapping of texts or numbers.
    """

    def read(part: str, form: Any) -> dict[str, Any]:
        if wrong := lacks(tree := read_json(folder / f"{part}.json"), {str: form}):
            raise OdeTransformerError(f"{folder / part}.json: {wrong}")
        return tree

    # Scores are sorted, so that NaN, the only value that does not equal itself, is refused.
    number = lambda value: "" if type(value) in (int, float) and value == value else "must be a number"  # noqa: E731
    return read("predictions", str), read("no_answer", number) if (folder / "no_answer.json").exists() else None


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
    options={
        **PREDICTION,
        **dict.fromkeys(("best", "longest"), (..., at_least_one)),
        "threshold": (..., float),
    },
)
