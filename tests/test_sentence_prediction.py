"""The task whose batches hold sentences of like length: the same examples as fairseq's, with little padding."""

import pytest
from fairseq import tasks
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from ode_transformer.sentence_prediction import NAME, SentencePredictionByLength
from tests.experiments.test_task_metrics import LENGTHS, write_labelled


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    data = write_labelled(tmp_path_factory.mktemp("labelled") / "data")

    def load(kind, **options):
        cfg = SentencePredictionConfig(data=str(data), num_classes=2, regression_target=False, seed=1, **options)
        return kind.setup_task(cfg).load_dataset("test")

    return load


def test_it_is_registered_for_the_command_line():
    assert tasks.TASK_REGISTRY[NAME] is SentencePredictionByLength


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
    """Beyond the longest that is read, lengths are all one, and the order is fairseq's random one."""
    ours = load(SentencePredictionByLength, max_positions=3, shorten_method="truncate")
    theirs = load(SentencePredictionTask, max_positions=3, shorten_method="truncate")
    assert list(ours.ordered_indices()) == list(theirs.ordered_indices())


def test_the_order_of_the_file_is_kept_if_that_is_asked_for(load):
    assert list(load(SentencePredictionByLength, no_shuffle=True).ordered_indices()) == list(range(len(LENGTHS)))
