"""GLUE (Wang et al. 2019): sentences, or pairs of them, by fairseq's ``sentence_prediction``.

A task of GLUE is a row of ``GLUE``, which says where its text is. The metrics are those of the task.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import write_lines
from ..metrics import glue
from ..text import segmentation
from ..text.lines import read_lines
from .classification import classify, outputs
from .task import Task, labelled, predicted, prediction


@dataclass(frozen=True)
class GlueTask:
    """Where a task's text is.

    Args:
        folder: of the published archive.
        inputs: the columns of the sentences, from 0.
        label: the column of the label.
        test: the columns of the sentences in the test set, which has no labels.
        server: what the server calls the file of each test set.
        splits: the files of each split: those of the first alternative that are all there, one after the other.
        columns: how many a line must have; lines with others are left out, as in the preparation of RoBERTa.
        headless: files whose first line is an example.
        labels: of splits where the label is in another column.
        others: of splits where the sentences are in other columns.
        divide: labels are numbers, divided by this.
        held_out: the list of the examples of the development set, by their second and third columns, where it is in one
            file with the training set.
    """

    folder: str
    inputs: tuple[int, ...]
    label: int
    test: tuple[int, ...]
    server: Mapping[str, str]
    splits: Mapping[str, Sequence[tuple[str, ...]]] = field(
        default_factory=lambda: {"train": [("train.tsv",)], "valid": [("dev.tsv",)], "test": [("test.tsv",)]}
    )
    columns: int = 0
    headless: tuple[str, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    divide: float = 0.0
    held_out: str = ""

    def where(self, split: str) -> tuple[tuple[int, ...], int | None]:
        """The columns of the sentences and of the label of a split; a test set has no label."""
        tests = split.startswith("test")
        inputs = self.others.get(split, self.test if tests else self.inputs)
        return inputs, None if tests else self.labels.get(split, self.label)


GLUE = {
    "cola": GlueTask(
        "CoLA", (3,), 1, (1,), {"test": "CoLA"},
        splits={
            "train": [("train.tsv",), ("raw/in_domain_train.tsv",)],  # GLUE's, or the authors' own
            "valid": [("dev.tsv",), ("raw/in_domain_dev.tsv", "raw/out_of_domain_dev.tsv")],
            "test": [("test.tsv",)],
        },
        headless=("train", "valid"),
    ),
    "sst-2": GlueTask(
        "SST-2", (0,), 1, (1,), {"test": "SST-2"},
        splits={"train": [("train_full.tsv",), ("train.tsv",)], "valid": [("dev.tsv",)], "test": [("test.tsv",)]},
    ),
    "mrpc": GlueTask(
        "MRPC", (3, 4), 0, (3, 4), {"test": "MRPC"},
        splits={
            "train": [("train.tsv",), ("msr_paraphrase_train.txt", "mrpc_dev_ids.tsv")],  # GLUE's, or as published
            "valid": [("dev.tsv",), ("msr_paraphrase_train.txt", "mrpc_dev_ids.tsv")],
            "test": [("test.tsv",), ("msr_paraphrase_test.txt",)],
        },
        held_out="mrpc_dev_ids.tsv",
    ),
    "qqp": GlueTask("QQP", (3, 4), 5, (1, 2), {"test": "QQP"}, columns=6),
    "sts-b": GlueTask("STS-B", (7, 8), 9, (7, 8), {"test": "STS-B"}, divide=5.0),
    "mnli": GlueTask(
        "MNLI", (8, 9), 11, (8, 9), {"test": "MNLI-m", "test1": "MNLI-mm", "test2": "AX"},
        splits={
            "train": [("train.tsv",)],
            "valid": [("dev_matched.tsv",)],
            "valid1": [("dev_mismatched.tsv",)],
            "test": [("test_matched.tsv",)],
            "test1": [("test_mismatched.tsv",)],
            "test2": [("AX.tsv",), ("../diagnostic/diagnostic.tsv",)],  # the diagnostic set
        },
        others={"test2": (1, 2)},
        labels={"valid": 15, "valid1": 15},
    ),
    "qnli": GlueTask("QNLI", (1, 2), 3, (1, 2), {"test": "QNLI"}),
    "rte": GlueTask("RTE", (1, 2), 3, (1, 2), {"test": "RTE"}),
}  # fmt: skip


WNLI = 146
"""Examples of the test set of WNLI, GLUE's ninth task, for which papers send the more frequent class."""


def examples(task: GlueTask, folder: Path, split: str) -> Iterator[tuple[list[str], str]]:
    """The sentences of each example of a split and its label, which is empty in a test set.

    Raises:
        OdeTransformerError: none of the split's files is there, or a line has too few columns; names it.
    """
    alternatives = [[folder / name for name in names] for names in task.splits[split]]
    found = next((paths for paths in alternatives if all(path.is_file() for path in paths)), None)
    if found is None:
        names = " or ".join(" and ".join(map(str, paths)) for paths in alternatives)
        raise OdeTransformerError(f"{split}: {names} must be there")
    inputs, label = task.where(split)
    held: set[tuple[str, ...]] | None = None
    if found[-1].name == task.held_out:
        *found, listed = found
        held = {tuple(line.split()) for line in read_lines(listed)}
    for path in found:
        for number, line in enumerate(read_lines(path), 1):
            if number == 1 and split not in task.headless:
                continue
            values = line.rstrip("\r").split("\t")
            if task.columns and label is not None and len(values) != task.columns:
                continue
            if len(values) <= max(*inputs, -1 if label is None else label):
                raise OdeTransformerError(f"{path}: line {number} has {len(values)} columns, too few")
            if held is not None and (tuple(values[1:3]) in held) != (split == "valid"):
                continue
            yield [" ".join(values[i].split()) for i in inputs], "" if label is None else values[label]


def prepare(name: str, source: Path, like: Path, output: Path) -> dict[str, int]:
    """Write a task's text in symbols: ``SPLIT.input0``, ``SPLIT.input1`` and ``SPLIT.label``.

    Args:
        name: a key of ``GLUE``.
        source: the folder of the published archives.
        like: the folder that says how text is cut.
        output: where the files go.

    Returns:
        the number of examples of each split; test sets that are not there are left out.

    Raises:
        OdeTransformerError: a file of the training or validation set is not there, or is no such table.
    """
    task, cut, counts = GLUE[name], segmentation.opened(like), {}
    output.mkdir(parents=True, exist_ok=True)
    for split, alternatives in task.splits.items():
        folder = source / task.folder
        if split.startswith("test") and not any(
            all((folder / file).is_file() for file in names) for names in alternatives
        ):
            continue
        rows = list(examples(task, folder, split))
        for i in range(len(task.inputs)):
            write_lines(output / f"{split}.input{i}", (cut(texts[i]) for texts, _ in rows))
        if not split.startswith("test"):
            labels = [label for _, label in rows]
            if task.divide:
                try:
                    labels = [f"{float(label) / task.divide:g}" for label in labels]
                except ValueError as error:
                    raise OdeTransformerError(f"{folder}: a label of {split} is not a number: {error}") from error
            write_lines(output / f"{split}.label", labels)
        counts[split] = len(rows)
    return counts


def predict(checkpoint: Path, data: Path, name: str, subset: str, batch_size: int, cpu: bool) -> list[str]:
    """Return what GLUE's server takes of a test set: lines of an index and a prediction, with a heading.

    Raises:
        CheckpointError: as :func:`.classification.outputs`.
        OdeTransformerError: likewise; or the data are of another task, or an output is not a number.
    """
    task, found = GLUE[name], outputs(checkpoint, data, subset, batch_size, cpu)
    if bool(found.classes) == bool(task.divide):
        raise OdeTransformerError(
            f"--task {name}: {data} is of another task: its labels must be {'numbers' if task.divide else 'classes'}"
        )
    if not found.scores.isfinite().all():
        raise OdeTransformerError(
            f"{checkpoint}: its outputs on {subset} are not all numbers; the server takes no others"
        )
    if task.divide:
        taken = [f"{score:.6f}" for score in (found.scores[:, 0] * task.divide).clamp(0, task.divide).tolist()]
    else:
        taken = [found.classes[i] for i in found.scores.argmax(-1).tolist()]
    return ["index\tprediction", *(f"{i}\t{one}" for i, one in enumerate(taken))]


def validate(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> list[tuple[str, ...]]:
    """Return the label of each example of a development set and the predicted one.

    The numbers of a regression are those of training, a fifth of STS-B's, and not clamped. Where an output is not a
    number, the predicted label is ``accuracy.UNDEFINED``.

    Raises:
        CheckpointError, OdeTransformerError: as :func:`.classification.classify`.
    """
    return [row[:2] for row in classify(checkpoint, data, subset, batch_size, cpu)]


def submit(checkpoint: Path, data: Path, name: str, batch_size: int, cpu: bool, folder: Path) -> dict[str, Path | None]:
    """Write the server's file of each test set; return its path, or None for a set other than ``test`` without data.

    Raises:
        CheckpointError, OdeTransformerError: as :func:`predict`.
    """
    written: dict[str, Path | None] = {}
    for subset, server in GLUE[name].server.items():
        there = subset == "test" or (data / "input0" / f"{subset}.idx").is_file()
        written[subset] = folder / f"{server}.tsv" if there else None
        if there:
            write_lines(written[subset], predict(checkpoint, data, name, subset, batch_size, cpu))
    return written


def submit_wnli(folder: Path) -> Path:
    """Write the server's file of WNLI, of the more frequent class, and return its path."""
    path = folder / "WNLI.tsv"
    write_lines(path, ["index\tprediction", *(f"{i}\t0" for i in range(WNLI))])
    return path


_REPORTED = {
    "report-mcc": ["matthews"],
    "report-acc-and-f1": ["accuracy", "f1"],
    "report-pearson-and-spearman": ["pearson", "spearman"],
}


def _flags(recipe: Any) -> list[str]:
    """fairseq's own task, unless the recipe swaps the texts of pairs."""
    return ["--task", "sentence_prediction_of_pairs" if recipe.train.flags.get("swap-pairs") else "sentence_prediction"]


def _metrics(recipe: Any) -> list[str]:
    reported = [metrics for flag, metrics in _REPORTED.items() if recipe.train.flags.get(flag)]
    return reported[0] if reported else ["accuracy"]


TASK = Task(
    name="glue",
    section="validate",
    flags=_flags,
    evaluation=prediction(["glue", "validate"], ["glue", "score"], lambda recipe: ["--metrics", *_metrics(recipe)]),
    metrics=_metrics,
    outputs=predicted(glue.read),
    examples=labelled,
)
