"""fairseq's examples in other batches: sentences of like length together; or pairs whose texts have changed places."""

import numpy as np
import pytest
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from ode_transformer.errors import OdeTransformerError
from ode_transformer.training import sentence_prediction
from ode_transformer.training.sentence_prediction import SentencePredictionByLength
from tests.experiments.test_task_metrics import LENGTHS, write_index, write_labelled
from tests.helpers import dictionary


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    data = write_labelled(tmp_path_factory.mktemp("labelled") / "data")

    def load(kind, **options):
        cfg = SentencePredictionConfig(data=str(data), num_classes=2, regression_target=False, seed=1, **options)
        return kind.setup_task(cfg).load_dataset("test")

    return load


def test_sentences_come_by_length_and_are_those_of_fairseqs_task(load):
    ours, theirs = (load(kind) for kind in (SentencePredictionByLength, SentencePredictionTask))
    order = list(ours.ordered_indices())
    assert [LENGTHS[i] for i in order] == sorted(LENGTHS) and sorted(order) == sorted(theirs.ordered_indices())
    for i in order:
        assert ours[i]["net_input.src_tokens"].equal(theirs[i]["net_input.src_tokens"])
        assert ours[i]["target"].equal(theirs[i]["target"])
    batch = ours.collater([ours[i] for i in order[:2]])
    assert batch["net_input"]["src_tokens"].shape == (2, 1 + max(sorted(LENGTHS)[:2]))


def test_cut_sentences_count_as_long_as_what_is_read(load):
    """Beyond the longest that is read, lengths are all one, and the order is fairseq's random one, or the file's."""
    ours = load(SentencePredictionByLength, max_positions=3, shorten_method="truncate")
    theirs = load(SentencePredictionTask, max_positions=3, shorten_method="truncate")
    assert list(ours.ordered_indices()) == list(theirs.ordered_indices())
    assert list(load(SentencePredictionByLength, no_shuffle=True).ordered_indices()) == list(range(len(LENGTHS)))


# Pairs

COUNT, INIT, SEPARATOR = 200, 0, 3


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Binarised pairs whose texts can be told by their first symbol, even and odd, and a regression's labels."""
    folder, random = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    (folder / "label").mkdir()
    for k, part in enumerate(("input0", "input1")):
        (folder / part).mkdir()
        dictionary(44).save(str(folder / part / "dict.txt"))
        for split in ("train", "valid"):
            firsts = (4 + 2 * random.integers(18) + k for _ in range(COUNT))
            write_index(folder / part / split, ([i, *random.integers(4, 40, random.integers(1, 6))] for i in firsts))
    for split in ("train", "valid"):
        (folder / "label" / f"{split}.label").write_text("".join(f"{i}\n" for i in range(COUNT)))
    return folder


def pair_task(data, kind=sentence_prediction.SentencePredictionOfPairs, **options):
    its = {"data": str(data), "num_classes": 1, "regression_target": True, "init_token": INIT, "seed": 1}
    its |= {"separator_token": SEPARATOR, "shorten_method": "truncate", "swap_pairs": True, "train_subset": "train"}
    return kind.setup_task(sentence_prediction.SentencePredictionOfPairsConfig(**its | options))


def texts(dataset):
    return [dataset[i]["net_input.src_tokens"].tolist() for i in range(len(dataset))]


def swapped(row, init=INIT, separator=SEPARATOR):
    """A pair with its texts in the other order: each ends with symbol 2."""
    front, middle = ([] if symbol is None else [symbol] for symbol in (init, separator))
    row = row[len(front) :]
    cut = row.index(2) + 1
    return front + row[cut + len(middle) :] + middle + row[:cut]


@pytest.mark.parametrize(
    ("fronts", "more"),
    [
        ({}, {}),
        ({"separator_token": None}, {"no_shuffle": True, "shorten_method": "none"}),
        ({"init_token": None, "separator_token": None}, {}),
    ],
)
def test_half_of_the_pairs_are_swapped_anew_in_every_epoch(pairs, fronts, more):
    theirs = texts(pair_task(pairs, SentencePredictionTask, **fronts, **more).load_dataset("train"))
    names = {"init_token": "init", "separator_token": "separator"}
    other = [swapped(row, **{names[key]: value for key, value in fronts.items()}) for row in theirs]
    assert all(a != b and len(a) == len(b) for a, b in zip(theirs, other, strict=True))
    dataset, drawn = pair_task(pairs, **fronts, **more).load_dataset("train"), []
    for epoch in (1, 2, 1):
        dataset.set_epoch(epoch)
        ours = texts(dataset)
        drawn.append([row == its for row, its in zip(ours, other, strict=True)])
        assert ours == [(b if swap else a) for a, b, swap in zip(theirs, other, drawn[-1], strict=True)]
        assert [dataset.num_tokens(i) for i in range(COUNT)] == list(map(len, ours))
    assert drawn[0] == drawn[2] != drawn[1]
    assert abs(sum(drawn[0]) - COUNT / 2) < 35  # five standard deviations
    both = sum(a and b for a, b in zip(*drawn[:2], strict=True))
    assert abs(both - COUNT / 4) < 31, "the draws of two epochs have nothing to do with each other"


def test_other_sets_and_labels_and_trainings_without_the_option_are_fairseqs(pairs):
    ours, theirs = pair_task(pairs), pair_task(pairs, SentencePredictionTask)
    assert texts(ours.load_dataset("valid")) == texts(theirs.load_dataset("valid"))
    assert texts(pair_task(pairs, swap_pairs=False).load_dataset("train")) == texts(theirs.load_dataset("train"))
    assert texts(pair_task(pairs, train_subset="valid").load_dataset("valid")) != texts(theirs.load_dataset("valid"))
    dataset = ours.load_dataset("train")
    assert [dataset[i]["target"] for i in range(COUNT)] == [[float(i)] for i in range(COUNT)]


@pytest.mark.parametrize("swap", [True, False])
def test_processes_that_load_batches_begin_anew_where_pairs_are_swapped(pairs, swap):
    """fairseq's live for the whole training, and do not hear of a new epoch."""
    task = pair_task(pairs, swap_pairs=swap)
    task.load_dataset("train")
    first, second = (task.get_batch_iterator(task.datasets["train"], max_sentences=9, epoch=e) for e in (1, 2))
    assert (first is second) != swap


def test_pairs_are_swapped_before_they_are_cut(pairs):
    whole = pair_task(pairs).load_dataset("train")
    cut = pair_task(pairs, max_positions=6).load_dataset("train")
    assert texts(cut) == [row[:6] for row in texts(whole)]
    assert max(map(len, texts(whole))) > 6


def test_single_texts_cannot_be_swapped(tmp_path):
    data = write_labelled(tmp_path / "data")
    with pytest.raises(OdeTransformerError, match=rf"--swap-pairs: {data} has no input1; must hold pairs of texts"):
        pair_task(data, num_classes=2, regression_target=False, train_subset="test").load_dataset("test")
