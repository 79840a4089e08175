"""``ode-transformer choose``: the option that a trained encoder chooses for each question of a test set, as RACE's."""

import argparse
from itertools import count, takewhile
from pathlib import Path

from ...errors import OdeTransformerError
from ...files import read_text
from ..text.binarised import check_data
from .classify import Outputs, add_prediction_arguments, write_predictions


def choose(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> list[tuple[str, str]]:
    """Choose an option for every question of a subset.

    Args:
        checkpoint: of a model that was trained with fairseq's task ``sentence_ranking``.
        data: the folder of data binarized for it: ``input0``, the texts; ``input1`` and so on, the options; ``label``.
        subset: the subset, such as ``test``.
        batch_size: questions per batch.
        cpu: do not use a GPU.

    Returns:
        for each question, in the order of the data, the numbers of the right and of the chosen option, from 0; the
        latter is ``accuracy.UNDEFINED`` where a score is not a number. Options and texts are cut as in training.

    Raises:
        CheckpointError: the checkpoint cannot be opened, is of another task, or has no head with one output; or the
            dictionaries of the data cannot be read.
        OdeTransformerError: no such set in the data, or it has no labels or other symbols than the model.
    """
    import torch
    from fairseq.data import data_utils
    from fairseq.tasks.sentence_ranking import SentenceRankingTask

    from ... import checkpoints
    from ...checkpoints import CheckpointError
    from ...checkpoints.standalone import HEAD, check_symbols, named, open_with_head, pair_form
    from .multiple_choice import NAME

    state, model = open_with_head(checkpoint, data, cpu, NAME)
    if (classes := model.classification_heads[HEAD].out_proj.out_features) != 1:
        raise CheckpointError(f"{checkpoint}: has {classes} classes, must have one score")
    longest = checkpoints.options(state, "task").get("max_option_length")
    if longest is not None and not (type(longest) is int and longest > 0):
        raise CheckpointError(f"{checkpoint}: its option max_option_length is {longest!r}, must be a positive number")
    options = sum(1 for _ in takewhile(lambda i: (data / f"input{i}").is_dir(), count(1)))
    cfg = argparse.Namespace(
        data=str(data), criterion=NAME, num_classes=options, **pair_form(state, checkpoint, NAME), no_shuffle=True,
        shorten_method="truncate", shorten_data_split_list="", max_option_length=longest, dataset_impl=None,
        max_positions=model.max_positions(), seed=1,
    )  # fmt: skip
    with named(f"{data}: its dictionaries cannot be read"):
        task = SentenceRankingTask.setup_task(cfg)
    check_symbols(data, task.source_dictionary, model)
    check_data(data, subset)
    parts = [data_utils.load_indexed_dataset(str(data / f"input{i}" / subset), None) for i in range(options + 1)]
    if options < 2 or None in parts:
        raise OdeTransformerError(f"{data}: has no subset {subset} of questions with options")
    if not (data / "label" / f"{subset}.label").is_file():
        raise OdeTransformerError(f"{data}: subset {subset} has no labels")
    labels = read_text(data / "label" / f"{subset}.label").split()
    if len(labels) != len(parts[0]) or not set(labels) <= set(map(str, range(options))):
        raise OdeTransformerError(
            f"{data}: label/{subset}.label must hold a number from 0 to {options - 1} for each of the "
            f"{len(parts[0])} questions"
        )
    dataset, device = task.load_dataset(subset), next(model.parameters()).device
    scores, rights = [], []
    for first in range(0, len(dataset), batch_size):
        batch = dataset.collater([dataset[i] for i in range(first, min(first + batch_size, len(dataset)))])
        inputs = [batch[f"net_input{i + 1}"]["src_tokens"].to(device) for i in range(options)]
        with torch.inference_mode():
            scores.append(torch.cat([model(tokens, classification_head_name=HEAD)[0] for tokens in inputs], dim=1))
        rights.append(batch["target"].view(-1))
    return Outputs(torch.cat(scores), torch.cat(rights), [str(i) for i in range(options)]).pairs()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer choose``."""
    add_prediction_arguments(parser, "right option, chosen option", "questions")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer choose``; the exit status."""
    return write_predictions(args, choose, "questions")
