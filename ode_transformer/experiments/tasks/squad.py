"""SQuAD: the command ``ode-transformer squad``, which answers questions with a trained model, and scores the answers.

``squad predict`` runs a model with a span head over all windows of all questions. As usual since BERT, candidates of a
question are spans from one of the best first tokens to one of the best last tokens of a window, at most ``--longest``
symbols, whose first token has more text around it in this window than in any other; their score is the sum of both
logits. The no-answer score of a question is the least sum of the logits of ``<s>`` in its windows, less the best
candidate's score. An answer is the text of the paragraph from the first character to the last.
"""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import OdeTransformerError
from ...files import read_json, write_json
from ..arguments import at_least
from ..metrics import squad as metric
from ..schema import lacks
from ..text.binarised import check_data

PARTS = ("predictions", "no_answer", "nbest")
_QUESTIONS = {
    "version": lambda version: "" if version in ("1.1", "2.0") else "must be 1.1 or 2.0",
    "paragraphs": [{"text": str, "offsets": [[int, int]]}],
    "questions": [{"id": str, "paragraph": int, "answers": [str]}],
    "windows": [[int, int]],
}
_NONE = 1e6  # the no-answer score where there is no candidate, nearly


class Candidate(NamedTuple):
    """A span of a paragraph, symbols first to last, and its score."""

    score: float
    first: int
    last: int


def questions(data: Path, subset: str) -> dict[str, Any]:
    """What ``data-prep/prepare-squad.sh`` says of the questions of a subset.

    Raises:
        OdeTransformerError: it has not made these data, or not this subset.
    """
    path = data / f"{subset}.questions.json"
    tree = read_json(path)
    wrong = lacks(tree, _QUESTIONS)
    if not wrong:
        names = [one["id"] for one in tree["questions"]]
        if not names or len(set(names)) < len(names):
            wrong = "questions must be there, each once"
        elif tree["version"] == "1.1" and not all(one["answers"] for one in tree["questions"]):
            wrong = "questions of version 1.1 must have answers"
        elif not all(0 <= one["paragraph"] < len(tree["paragraphs"]) for one in tree["questions"]):
            wrong = "questions must be about one of its paragraphs"
        elif not all(0 <= question < len(names) and begin >= 0 for question, begin in tree["windows"]):
            wrong = "windows must be of one of its questions, and begin in its paragraph"
    if wrong:
        raise OdeTransformerError(f"{path}: is not what prepare-squad.sh writes: {wrong}")
    return tree


def most_context(spans: list[tuple[int, int]], symbol: int) -> int:
    """Which of the windows [begin, end) has the most text around a symbol, on the shorter side; the first of equals
    unless another is longer."""

    def room(window: int) -> float:
        begin, end = spans[window]
        inside = begin <= symbol < end
        return min(symbol - begin, end - 1 - symbol) + 0.01 * (end - begin) if inside else -math.inf

    return max(range(len(spans)), key=room)


def candidates(
    first: list[float],
    last: list[float],
    begin: int,
    spans: list[tuple[int, int]],
    window: int,
    best: int,
    longest: int,
) -> list[Candidate]:
    """The spans of a window.

    Args:
        first, last: the logits of the window's symbols.
        begin: the symbol of the paragraph that the window begins with.
        spans: all windows of the question; ``window`` is this one.
        best: how many of the best first and last symbols are combined.
        longest: symbols of a span.
    """
    firsts, lasts = (sorted(range(len(x)), key=lambda i: -x[i])[:best] for x in (first, last))
    firsts = [i for i in firsts if most_context(spans, begin + i) == window]
    return [Candidate(first[i] + last[j], begin + i, begin + j) for i in firsts for j in lasts if i <= j < i + longest]


def answers(
    text: str, offsets: list[list[int]], found: list[Candidate], null: float, best: int
) -> tuple[list[dict[str, Any]], float]:
    """The best different answers to a question, best first, and its no-answer score.

    Args:
        text: the paragraph; ``offsets`` are the characters of its symbols.
        found: candidates of all windows.
        null: the least score of no answer.
        best: how many answers to return.
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
        by the name of a question ``predictions``, its best answer; ``no_answer``, its no-answer score; and ``nbest``,
        answers with the characters where they start, and scores.

    Raises:
        CheckpointError: the checkpoint cannot be opened, or has no span head.
        OdeTransformerError: the data are not SQuAD data, or logits are not numbers.
    """
    import torch

    from ... import models  # noqa: F401  registers the architectures
    from ...checkpoints import CheckpointError
    from ...checkpoints.standalone import check_dictionaries, check_symbols, load, open_state, pair_form
    from ...training.span_prediction import NAME, SpanPredictionConfig, SpanPredictionTask

    tree = questions(data, subset)
    check_dictionaries(checkpoint, data)
    state = load(checkpoint)
    model = open_state(state, checkpoint).eval()
    if getattr(model, "span_head", None) is None:
        raise CheckpointError(f"{checkpoint}: has no span head, which --task span_prediction trains")
    form = pair_form(state, checkpoint, NAME)
    if form["init_token"] is None:
        raise CheckpointError(f"{checkpoint}: has no init_token, the symbol that stands for no answer")
    if torch.cuda.is_available() and not cpu:
        model = model.cuda()
    cfg = SpanPredictionConfig(data=str(data), **form, max_positions=model.max_positions(), no_shuffle=True, seed=1)
    task = SpanPredictionTask.setup_task(cfg)
    check_symbols(data, task.dictionary, model)
    check_data(data, subset)
    dataset = task.load_dataset(subset)
    if len(dataset) != len(tree["windows"]):
        raise OdeTransformerError(
            f"{data}: {len(dataset)} windows of {subset}, but {len(tree['windows'])} in questions.json"
        )
    sizes = [int(size) - 1 for size in dataset.windows.sizes]
    for (question, begin), size in zip(tree["windows"], sizes, strict=True):
        symbols = len(tree["paragraphs"][tree["questions"][question]["paragraph"]]["offsets"])
        if begin + size > symbols:
            raise OdeTransformerError(f"{data}: a window of {subset} ends behind its paragraph, of {symbols} symbols")
    spans: list[list[tuple[int, int]]] = [[] for _ in tree["questions"]]
    numbers = []
    for (question, begin), size in zip(tree["windows"], sizes, strict=True):
        numbers.append(len(spans[question]))
        spans[question].append((begin, begin + size))
    found: list[list[Candidate]] = [[] for _ in tree["questions"]]
    null = [math.inf] * len(tree["questions"])
    order, device = sorted(range(len(dataset)), key=dataset.size), next(model.parameters()).device  # little padding
    for at in range(0, len(order), batch_size):
        batch = order[at : at + batch_size]
        sample = dataset.collater([dataset[i] for i in batch])
        with torch.inference_mode():
            logits, _ = model(sample["net_input"]["src_tokens"].to(device), spans=True)
        logits = logits.float().cpu()
        for i, row, begin in zip(batch, logits, sample["begin"].tolist(), strict=True):
            question, start = tree["windows"][i]
            row = torch.cat((row[:1], row[begin : begin + sizes[i]]))
            if not row.isfinite().all():
                name = tree["questions"][question]["id"]
                raise OdeTransformerError(f"{checkpoint}: its logits of question {name} are not numbers")
            null[question] = min(null[question], row[0].sum().item())
            first, last = row[1:].T.tolist()
            found[question] += candidates(first, last, start, spans[question], numbers[i], best, longest)
    result: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for one, its, score in zip(tree["questions"], found, null, strict=True):
        paragraph = tree["paragraphs"][one["paragraph"]]
        listed, no_answer = answers(paragraph["text"], paragraph["offsets"], its, score, best)
        result["predictions"][one["id"]] = listed[0]["text"] if listed else ""
        result["no_answer"][one["id"]] = no_answer
        result["nbest"][one["id"]] = listed
    return result


def golds(tree: Mapping[str, Any]) -> dict[str, list[str]]:
    """The gold answers of every question."""
    return {one["id"]: one["answers"] for one in tree["questions"]}


def read_answers(folder: Path) -> tuple[dict[str, str], dict[str, float] | None]:
    """Predictions and no-answer scores of a folder of ``squad predict``; the latter may be missing.

    Raises:
        OdeTransformerError: there are none, or they are no mapping of texts or numbers.
    """
    found = []
    for part, kinds in (("predictions", (str,)), ("no_answer", (int, float))):
        path = folder / f"{part}.json"
        if part == "no_answer" and not path.exists():
            return found[0], None
        tree = read_json(path)
        # NaN, which has no place in an order, is the one value that does not equal itself.
        if not isinstance(tree, dict) or not all(type(value) in kinds and value == value for value in tree.values()):
            raise OdeTransformerError(f"{path}: must say of every question {'a text' if str in kinds else 'a number'}")
        found.append(tree)
    return found[0], found[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer squad``."""
    actions = parser.add_subparsers(dest="action", required=True)
    sub = actions.add_parser("predict", help="answer the questions of a data set")
    sub.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="the checkpoint of the trained model")
    sub.add_argument(
        "--batch-size", metavar="N", type=at_least(1), default=32, help="windows at a time (default: %(default)s)"
    )
    sub.add_argument(
        "--best",
        type=at_least(1),
        default=20,
        metavar="N",
        help="start and end positions tried per window, and answers kept per question (default: %(default)s)",
    )
    sub.add_argument(
        "--longest", type=at_least(1), default=30, metavar="N", help="symbols of an answer (default: %(default)s)"
    )
    sub.add_argument(
        "--threshold", type=float, metavar="X",
        help="leave answers empty where the no-answer score is above X, as for SQuAD 2.0's server (default: none are)",
    )  # fmt: skip
    sub.add_argument(
        "--output-dir", metavar="DIR", type=Path, required=True, help="where predictions.json and others go"
    )
    sub.add_argument("--cpu", action="store_true", help="do not use a GPU")
    score = actions.add_parser("score", help="take exact match and F1, as the official scripts do")
    score.add_argument(
        "answers", metavar="DIR", type=Path, help="a folder with predictions.json, and no_answer.json for SQuAD 2.0"
    )
    score.add_argument("--output", metavar="FILE", required=True, help="the JSON file to write")
    for each in (sub, score):
        each.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of binarized data")
        each.add_argument(
            "--subset", metavar="NAME", default="valid", help="the subset of questions (default: %(default)s)"
        )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer squad``; the exit status."""
    if args.action == "score":
        tree = questions(args.data, args.subset)
        predictions, no_answer = read_answers(args.answers)
        scores = metric.take(golds(tree), predictions, tree["version"], no_answer)
        write_json(args.output, scores)
        for name in ("exact_match", "f1"):
            print(f"{name:<12}{scores[name]['value']:.2f}   ({scores[name]['signature']})")
        return 0
    found = predict(args.checkpoint, args.data, args.subset, args.batch_size, args.cpu, args.best, args.longest)
    if args.threshold is not None:
        scores = found["no_answer"]
        found["predictions"] |= {name: "" for name, score in scores.items() if score > args.threshold}
    for part in PARTS:
        write_json(args.output_dir / f"{part}.json", found[part])
    print(f"{len(found['predictions'])} questions -> {args.output_dir}")
    return 0
