"""GLUE (Wang et al. 2019): classification of sentences or pairs of them by fairseq's ``sentence_prediction``.

``glue.yaml`` locates the text of each task; its metrics follow from the recipe's flags.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from ...errors import OdeTransformerError, counted
from ...files import write_lines
from ..text import subwords
from ..text.lines import read_lines, write_splits
from .encoders import outputs
from .task import Recipe, by_predictions


class Split(NamedTuple):
    """The files and columns of a split."""

    inputs: Sequence[int]  # the columns of the sentences, from 0
    files: Sequence[str]  # alternatives of one or several files; the first that is complete is read
    label: int | None = None  # the column of the label; None for a test set
    server: str = ""  # the name of a test set's file for GLUE's server, without ``.tsv``
    heading: bool = True  # whether the first line of each file is a header


class GlueTask(NamedTuple):
    """The files, columns and labels of a task."""

    folder: str  # in the published data
    splits: Mapping[str, Split]  # by fairseq's names
    width: int = 0  # columns of a labeled line, or 0 for any; fairseq's preparation also leaves out other lines
    labels: Sequence[str] = ("0", "1")  # the classes; none where labels are numbers
    divide: float = 0.0  # the divisor of numerical labels


HELD_OUT = "mrpc_dev_ids.tsv"  # GLUE's list of MRPC's development set, by the second and third columns of its lines
_TABLE = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
GLUE = {
    name: GlueTask(**about | {"splits": {split: Split(**its) for split, its in about["splits"].items()}})
    for name, about in _TABLE.items()
}


def examples(task: GlueTask, folder: Path, split: str) -> Iterator[list[str]]:
    """Yield each example of a split: its sentences and, except in a test set, its label. A test set may be missing."""
    its = task.splits[split]
    columns = [*its.inputs, *([] if its.label is None else [its.label])]
    alternatives = [[folder / name for name in names.split()] for names in its.files]
    found = next((paths for paths in alternatives if all(path.is_file() for path in paths)), None)
    if found is None:
        if its.label is None:
            return
        names = " or ".join(" and ".join(map(str, paths)) for paths in alternatives)
        raise OdeTransformerError(f"{split}: {names} must be there")
    held: set[tuple[str, ...]] | None = None
    if found[-1].name == HELD_OUT:
        *found, listed = found
        held = {tuple(line.split()) for line in read_lines(listed)}
    for path in found:
        for number, line in enumerate(read_lines(path), 1):
            values = line.rstrip("\r").split("\t")
            broken = task.width and its.label is not None and len(values) != task.width
            if broken or (number == 1 and its.heading):
                continue
            if len(values) <= max(columns):
                raise OdeTransformerError(f"{path}: line {number} has {counted(len(values), 'column')}, too few")
            if its.label is not None and task.labels and (label := values[its.label].strip()) not in task.labels:
                known = " or ".join(task.labels)
                raise OdeTransformerError(f"{path}: line {number} has the label {label[:40]!r}, must be {known}")
            if held is None or (tuple(values[1:3]) in held) == (split == "valid"):
                yield [values[i].strip() for i in columns]  # double blanks stay, as in fairseq's preparation


def prepare(task: str, source: Path, like: Path, output_dir: Path) -> dict[str, int]:
    """Write a task's segmented text, ``SPLIT.input0`` and ``SPLIT.input1``, and its labels, ``SPLIT.label``.

    Return the number of examples by split; missing test sets are left out.

    Args:
        task: the GLUE task.
        source: the folder of the published data, which contains CoLA, SST-2 and so on.
        like: the folder of the pretrained model whose subword segmentation and dictionary are used.
        output_dir: the folder for the files SPLIT.input0, SPLIT.label and so on.
    """
    about, cut, counts = GLUE[task], subwords.segmenter(like), {}
    for split, its in about.splits.items():
        texts = len(its.inputs)
        rows = [[*map(cut, row[:texts]), *row[texts:]] for row in examples(about, source / about.folder, split)]
        if about.divide and its.label is not None:
            try:
                rows = [[*pair, f"{float(label) / about.divide:g}"] for *pair, label in rows]
            except ValueError as error:
                raise OdeTransformerError(
                    f"{source / about.folder}: {split}: {error}; labels must be numbers"
                ) from error
        if rows:  # a test set may be missing
            names = [f"input{i}" for i in range(texts)] + ["label"] * (its.label is not None)
            counts |= write_splits({split: rows}, names, output_dir)
    return counts


def submit(checkpoint: Path, data: Path, task: str, batch_size: int, cpu: bool, output_dir: Path) -> list[Path]:
    """Write the submission file of each test set, and return their paths; MNLI's additional ones may be missing.

    A file is a header, then the index and prediction of each example.

    Args:
        checkpoint: the checkpoint of the trained model.
        data: the folder of binarized data.
        task: the GLUE task of the data.
        batch_size: examples per batch.
        cpu: do not use a GPU.
        output_dir: the folder for the files of the server, such as CoLA.tsv.
    """
    about, written = GLUE[task], []
    for subset, split in about.splits.items():
        if split.label is not None or not (subset == "test" or (data / "input0" / f"{subset}.idx").is_file()):
            continue
        found = outputs(checkpoint, data, subset, batch_size, cpu)
        if set(found.classes) != set(about.labels):
            needed, has = (", ".join(labels) or "numbers" for labels in (about.labels, found.classes))
            raise OdeTransformerError(
                f"--task {task}: {data} is of another task: its labels must be {needed}, are {has}"
            )
        taken = found.taken()
        if about.divide:
            taken = [f"{score:.6f}" for score in (found.scores[:, 0] * about.divide).clamp(0, about.divide).tolist()]
        written.append(output_dir / f"{split.server}.tsv")
        write_lines(written[-1], ["index\tprediction", *(f"{i}\t{one}" for i, one in enumerate(taken))])
    return written


_REPORTED = {
    "report-mcc": ["matthews"],
    "report-acc-and-f1": ["accuracy", "f1"],
    "report-pearson-and-spearman": ["pearson", "spearman"],
}


def _flags(recipe: Recipe) -> list[str]:
    """Name fairseq's own task, unless the recipe swaps the sentences of pairs."""
    return ["--task", "sentence_prediction_of_pairs" if recipe.train.flags.get("swap-pairs") else "sentence_prediction"]


def _metrics(recipe: Recipe) -> list[str]:
    reported = [metrics for flag, metrics in _REPORTED.items() if recipe.train.flags.get(flag)]
    return reported[0] if reported else ["accuracy"]


TASK = by_predictions("glue", _flags, _metrics)
