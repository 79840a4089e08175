"""RACE (Lai et al. 2017): questions about articles, each with four options, one of them right; scored by accuracy.

The task is fairseq's ``sentence_ranking``. The published layout is ``RACE/{train,dev,test}/{middle,high}/NAME.txt``,
each file a JSON object with an article, its questions, their options, and the letters of the right options. As in
fairseq's preparation for RoBERTa, each option becomes a text of its own: it fills the gap of the question, ``_``, or is
appended to the question. Line feeds become blanks; double blanks and HTML such as ``<br>`` remain.
"""

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import OdeTransformerError
from ...files import read_json
from ...schema import lacks, one_of
from ..text import subwords
from ..text.lines import lines_of
from .splits import write_splits
from .task import by_predictions

if TYPE_CHECKING:
    from torch import Tensor

NAME = "sentence_ranking"  # fairseq's name of the task and of the criterion
LEVELS = ("middle", "high")
LETTERS = "ABCD"
COLUMNS = ("input0", *(f"input{i}" for i in range(1, len(LETTERS) + 1)), "label")
_LAYOUT = {"article": str, "questions": [str], "options": [[str] * len(LETTERS)], "answers": [one_of(*LETTERS)]}
# The folder and levels of each split; the test set is written whole, and each level of it alone.
SPLITS = {
    "train": ("train", LEVELS),
    "valid": ("dev", LEVELS),
    "test": ("test", LEVELS),
    "test1": ("test", ("middle",)),
    "test2": ("test", ("high",)),
}


class Choice(NamedTuple):
    """An article, a question joined with each of its options, and the index of the right one."""

    article: str
    options: list[str]
    right: int


def read(folder: Path, levels: tuple[str, ...]) -> list[Choice]:
    """Return the questions of some levels of a split, in the numerical order of the files' names.

    Args:
        folder: the folder of the split, such as ``RACE/dev``.
        levels: some of ``LEVELS``.

    Raises:
        OdeTransformerError: a level has no files, or a file cannot be read or has another layout.
    """
    found = []
    for level in levels:
        paths = sorted((folder / level).glob("*.txt"), key=lambda path: (len(path.stem), path.stem))
        if not paths:
            raise OdeTransformerError(f"{folder / level}: no such folder, or no articles in it")
        for path in paths:
            found += _choices(path)
    return found


def _choices(path: Path) -> list[Choice]:
    tree = read_json(path)
    if wrong := lacks(tree, _LAYOUT):
        raise OdeTransformerError(f"{path}: is not of RACE's layout: {wrong}")
    if not len(tree["questions"]) == len(tree["options"]) == len(tree["answers"]):
        raise OdeTransformerError(f"{path}: must have as many options and answers as questions")
    article, found = _line(tree["article"]), []
    for question, options, answer in zip(tree["questions"], tree["options"], tree["answers"], strict=True):
        joined = [question.replace("_", option) if "_" in question else f"{question} {option}" for option in options]
        found.append(Choice(article, [_line(text) for text in joined], LETTERS.index(answer)))
    return found


def _line(text: str) -> str:
    """Return a text on one line, without surrounding blanks."""
    return text.replace("\n", " ").strip()


def write(folder: Path, like: Path, output_dir: Path) -> dict[str, int]:
    """Write articles, ``SPLIT.input0``, options, ``SPLIT.input1`` to ``SPLIT.input4``, and ``SPLIT.label``.

    Return the number of questions by split.

    Args:
        folder: the folder ``RACE``.
        like: the folder of the pretrained model whose subword segmentation and dictionary are used.
        output_dir: the folder for the files.

    Raises:
        OdeTransformerError: as :func:`read`.
        SegmentationError: as :func:`.subwords.segmenter`.
    """
    cut = cache(subwords.segmenter(like))  # an article has several questions
    splits = {name: read(folder / part, levels) for name, (part, levels) in SPLITS.items()}
    rows = {
        name: [(cut(article), *map(cut, options), str(right)) for article, options, right in choices]
        for name, choices in splits.items()
    }
    return write_splits(rows, COLUMNS, output_dir)


def choose(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> list[tuple[str, str]]:
    """Return for each question of a subset the indices of the right and of the chosen option.

    The latter is ``accuracy.UNDEFINED`` where a score is not finite. The data have the texts in ``input0``, the options
    in ``input1`` and so on, and the indices in ``label``. Options and texts are truncated as in training. See
    :class:`.TrainedEncoder` for the arguments.

    Raises:
        CheckpointError: as :class:`.TrainedEncoder` and :meth:`.TrainedEncoder.task`, or the head does not have
            exactly one output.
        OdeTransformerError: as these, or the subset has no labels, or a label that is not the index of an option.
    """
    import torch
    from fairseq.tasks.sentence_ranking import SentenceRankingTask

    from ... import checkpoints
    from ...checkpoints import CheckpointError
    from ...checkpoints.standalone import HEAD
    from ..text.binarised import numbers_of
    from .encoders import TrainedEncoder, best

    options = len([*data.glob("input*")]) - 1
    encoder = TrainedEncoder(checkpoint, data, subset, cpu, HEAD, NAME)
    if (outputs := encoder.head.out_proj.out_features) != 1:
        raise CheckpointError(f"{checkpoint}: has {outputs} classes, must have one score")
    longest = checkpoints.options(encoder.state, "task").get("max_option_length")
    more = {"criterion": NAME, "num_classes": options, "max_option_length": longest, "dataset_impl": None}
    given = SimpleNamespace(**encoder.options, **more, shorten_method="truncate", shorten_data_split_list="")
    task, path = encoder.task(SentenceRankingTask, given), data / "label" / f"{subset}.label"
    names = [str(i) for i in range(options)]
    if not path.is_file():
        raise OdeTransformerError(f"{data}: subset {subset} has no labels; try --subset valid")
    labels = lines_of(path, len(numbers_of(data / "input0" / subset)[1]), f"{data}/input0/{subset}")
    if odd := sorted(set(labels) - set(names)):
        raise OdeTransformerError(f"{path}: {odd[0][:60]!r}: must be one of {', '.join(names)}")

    def forward(batch: dict[str, Any]) -> "Tensor":
        inputs = (batch[f"net_input{i + 1}"]["src_tokens"] for i in range(options))
        return torch.cat([encoder.model(tokens, classification_head_name=HEAD)[0] for tokens in inputs], 1)

    scores = torch.stack(encoder.outputs(task.load_dataset(subset), batch_size, forward))
    return list(zip(labels, best(scores, names), strict=True))


TASK = by_predictions(
    "multiple_choice",
    flags=lambda recipe: ["--task", NAME],
    metrics=lambda recipe: ["accuracy"],
    predict=choose,
)
