"""How many shapes the batches of a text have, as they are and padded for CUDA graphs, and the share of padding.

A shape is (sentences, source tokens, target tokens). Batches are made as fairseq makes them: sentences sorted by
length, as many as fit into ``--max-tokens``, a multiple of 8.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from fairseq.data import data_utils, indexed_dataset

from ...modules import graphs
from .. import markdown

EPOCHS = 5


def batches(sizes: Sequence[np.ndarray], max_tokens: int, seed: int) -> list[tuple[int, int, int]]:
    """The shapes of one epoch's batches, in the order of training.

    Args:
        sizes: the tokens of every source and of every target, (N,) each.
        max_tokens: the most tokens of a batch, padding included, on the longer side.
        seed: of the order of sentences of one length, and of the batches.
    """
    source, target = sizes
    random = np.random.default_rng(seed)
    order = random.permutation(len(source))
    for each in (target, source):
        order = order[np.argsort(each[order], kind="mergesort")]
    longer = np.maximum(source, target)
    found = data_utils.batch_by_size(
        order, num_tokens_fn=lambda i: longer[i], max_tokens=max_tokens, required_batch_size_multiple=8
    )
    shapes = [(len(batch), int(source[batch].max()), int(target[batch].max())) for batch in found]
    return [shapes[i] for i in random.permutation(len(shapes))]


def count(folder: str, subset: str, languages: Sequence[str], max_tokens: int) -> dict[str, Any]:
    """The numbers of shapes over ``EPOCHS`` epochs, and the shares of padding, of a folder of binarized data."""
    pair = "-".join(languages)
    data = [indexed_dataset.make_dataset(f"{folder}/{subset}.{pair}.{language}", "mmap") for language in languages]
    sizes = [np.array(side.sizes) for side in data]  # which are gone when the data are
    whole = [shape for epoch in range(EPOCHS) for shape in batches(sizes, max_tokens, epoch)]
    tokens = EPOCHS * int(sum(map(np.sum, sizes)))
    training, eager, run = graphs.TrainingGraphs(pad=1, eos=2), 0, []
    for shape in whole:
        padded = graphs.padded_shape(*shape)
        if training.waits(padded):
            eager, run = eager + 1, [*run, shape]
        else:
            training.recorded[padded] = None
            run.append(padded)
    return {
        "batches": len(whole) // EPOCHS,
        "shapes": len(set(whole)),
        "padding": _share(whole, tokens),
        "recorded": len(training.recorded),
        "eager": round(eager / len(whole), 4),
        "padding_recorded": _share(run, tokens),
    }


def _share(shapes: Iterable[tuple[int, int, int]], tokens: int) -> float:
    """The share of positions, of sources and targets together, that hold no token."""
    return round(1 - tokens / sum(sentences * (source + target) for sentences, source, target in shapes), 4)


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    rows = [
        (
            row["text"],
            f"{row['max_tokens']:,}",
            f"{row['batches']:,}",
            row["shapes"],
            f"{100 * row['padding']:.0f} %",
            row["recorded"],
            f"{100 * row['eager']:.0f} %",
            f"{100 * row['padding_recorded']:.0f} %",
        )
        for row in record["rows"]
    ]
    head = ("text", "`--max-tokens`", "batches an epoch", "shapes", "padding", "recorded", "eager", "padding then")
    return markdown.table(head, rows)
