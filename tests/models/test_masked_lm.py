"""Masked language models: RoBERTa where they are one, what options do, and fairseq's tasks."""

import math
import random

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from fairseq.models import build_model
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from torch import nn
from torch.nn import functional as F

from ode_transformer.experiments.text.preparation import prepare_examples
from ode_transformer.files import write_lines
from ode_transformer.models.masked_lm import ARCHITECTURES
from ode_transformer.training.next_sentence import MaskedLMPairsCriterion, MaskedLMPairsTask
from tests import helpers
from tests.helpers import configure, dictionary, idle, perturbed, raises
from tests.helpers import task as translation
from tests.models.test_counts import NO_FLOW

SMALL = {
    "encoder-embed-dim": 16, "encoder-ffn-embed-dim": 24, "encoder-attention-heads": 2, "encoder-layers": 2,
    "max-positions": 20, "dropout": 0.0, "attention-dropout": 0.0,
}  # fmt: skip
PRETRAINING = {"task": "masked_lm", "criterion": "masked_lm", "tokens-per-sample": 20, "max-positions": None}
VARIANTS = {
    **{name: {"arch": name} for name in ARCHITECTURES if name.endswith("_tiny")},
    "rk4-gate-free": {"arch": "ode_roberta_tiny", "integrator": "rk4", "coefficients": "scalars"},
    "gate-and-history": {"arch": "ode_roberta_tiny", "coefficients": "sigmoid", "encoder-history": "learnable_dense"},
    "learned-blocks": {**NO_FLOW, "position-encoder": "learned"},
    "sinusoidal-blocks": {**NO_FLOW, "position-encoder": "sinusoidal", "no-encoder-learned-pos": True},
    "untied": {"untie-weights-roberta": True},
}


def task(symbols=50):
    return MaskedLMTask(MaskedLMConfig(tokens_per_sample=20), dictionary(symbols - 1))


def built(symbols=50, arch="floater_roberta_tiny", **values):
    return build_model(configure(arch, {**SMALL, **values}), task(symbols)).eval()


def tokens(sizes=(12, 7, 1)):
    x = torch.randint(4, 50, (len(sizes), max(sizes) + 2), generator=torch.Generator().manual_seed(1))
    for row, size in zip(x, sizes, strict=True):
        row[0], row[size + 1], row[size + 2 :] = 0, 2, 1
    return x


@pytest.fixture(params=VARIANTS)
def m(request):
    return perturbed(built(**VARIANTS[request.param])).eval()


@pytest.mark.parametrize("stock", ["roberta_base", "roberta_prenorm"])
def test_without_a_method_of_ours_it_is_roberta(stock):
    norms = {"encoder-normalize-before": True, "no-layernorm-embedding": True} if "prenorm" in stock else {}
    theirs = perturbed(build_model(configure(stock, SMALL), task()).eval())
    theirs.register_classification_head("h", 3)
    ours = built(**NO_FLOW, **norms)
    ours.register_classification_head("h", 3)
    ours.load_state_dict(theirs.state_dict())
    x = tokens()
    assert torch.equal(ours(x)[0][x != 1], theirs(x)[0][x != 1])
    scores = [each.eval()(x, classification_head_name="h")[0] for each in (ours, theirs)]
    assert torch.equal(*scores) and scores[0].shape == (3, 3)


def test_padding_does_not_matter(m):
    x = tokens()
    together = m(x)[0]
    for row, size in enumerate((12, 7, 1)):
        alone = m(x[row : row + 1, : size + 2])[0]
        torch.testing.assert_close(together[row, : size + 2], alone[0], atol=1e-5, rtol=0)


def test_every_parameter_gets_a_gradient(m):
    x = tokens()
    m.train()
    logits, more = m(x)
    (logits.log_softmax(-1)[..., 7][x != 1].sum() + more.get("next_sentence", torch.zeros(1)).sum()).backward()
    assert not idle(m)


def test_only_masked_symbols_are_projected():
    m, x, projected = built(), tokens(), []
    m.encoder.lm_head.dense.register_forward_hook(lambda _, inputs, out: projected.append(len(inputs[0])))
    torch.testing.assert_close(m(x, masked_tokens=x > 25)[0], m(x)[0][x > 25])
    assert projected[0] == (x > 25).sum()


def test_the_flow_and_the_first_weights_are_drawn_as_elsewhere():
    m = built(**{"encoder-embed-dim": 64})
    assert (m.cfg.flow_method, m.cfg.flow_step) == ("midpoint", 1.0)  # appendix B.1
    assert m.encoder.sentence_encoder.layers[0].fc1.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert m.encoder.sentence_encoder.embed_tokens.weight[1].abs().max() == 0
    assert m.position_encoder.solvers["all"].weight2.std().item() == pytest.approx((2 / 129) ** 0.5, rel=0.1)
    m = built(**{"encoder-embed-dim": 64, "position-encoder": "learned"})
    for table in (m.encoder.sentence_encoder.embed_positions, *m.position_encoder.learned["encoder"]):
        assert table.weight.std().item() == pytest.approx(0.02, rel=0.15)


def test_sentences_are_told_apart_by_the_first_end():
    """The input is sqrt(C) E(word) + S(sentence) + P; the first state says whether the second sentence follows."""
    m = perturbed(built(arch="macaron_bert_tiny")).eval()
    x = torch.tensor([[0, 5, 6, 2, 7, 8, 2, 1]])
    reader, read = m.encoder.sentence_encoder, []
    reader.layers[0].register_forward_hook(lambda _, inputs, out: read.append(inputs[0][:7, 0]))
    states, more = m(x, features_only=True)
    segments = m.encoder.segments(torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    expected = 4 * reader.embed_tokens(x[0, :7]) + segments + reader.embed_positions(x)[0, :7]
    torch.testing.assert_close(read[0], expected)
    torch.testing.assert_close(more["next_sentence"], m.encoder.next_sentence(states[:, 0]).squeeze(-1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder-embed-path": "vectors"}, "--encoder-embed-path vectors: a masked language model learns its own"),
        ({"freeze": "("}, r"--freeze '\(': must be a regular expression"),
        ({"freeze": "decoder"}, "--freeze 'decoder': must match the name of a parameter, such as encoder"),
    ],
)
def test_options_that_do_not_fit_are_named(values, message):
    raises(message, built, **values)


def test_a_table_of_another_length_is_named():
    m, other = built(), built(**{"max-positions": 12})
    with pytest.raises(ValueError, match="--max-positions 20: must be 12, the number of positions in the checkpoint"):
        m.load_state_dict(other.state_dict())


# fairseq's tasks


def write(folder, **lines):
    for name, rows in lines.items():
        write_lines(folder / name.replace("_", "."), rows)


def documents(count, seed=0):
    """Documents of sentences in which each letter is followed by the next one of the alphabet."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        at = rng.randrange(26)
        for _ in range(6):
            lines.append(" ".join(chr(97 + (at + j) % 26) for j in range(5)))
            at += 5
        lines.append("")
    return lines


def train(data, **values):
    return helpers.train(data, **{"arch": "floater_roberta_tiny", **SMALL, **values})


def prepare(folder, dictionary=None, **lines):
    """Sentences of splits and their labels, written and binarised into a folder."""
    write(raw := folder.with_name(f"{folder.name}.raw"), **lines)
    prepare_examples(folder, raw, dictionary)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("text") / "data", train=documents(12), valid=documents(4, seed=1))


@pytest.fixture(scope="module")
def pretrained(text):
    return train(text, **PRETRAINING, **{"save-dir": f"{text}.pretrained"})[0]


def test_masked_lm_trains_the_flow_alone_at_the_tasks_length(text, pretrained):
    """The paper's first stage: everything but the flow stays as it was."""
    first = pretrained
    assert first.args.max_positions == 20 and first.encoder.sentence_encoder.embed_positions.num_embeddings == 22
    second, _ = train(
        text, **PRETRAINING, **{"freeze": "^(?!position_encoder)", "optimizer": "flow_adam", "flow-lr-scale": 2.0,
                                "finetune-from-model": f"{text}.pretrained/checkpoint_last.pt"},
    )  # fmt: skip
    before, after = first.state_dict(), second.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(name.startswith("position_encoder.") for name in changed)


def test_pretraining_then_classification(text, pretrained, tmp_path):
    """A pretrained model's head for masked symbols stays, its new head learns; a checkpoint's heads come back."""
    lines = [f"{a} {b} {a}" for a, b in zip("abcdefgh" * 3, "hgfedcba" * 3, strict=True)]
    labels = [i % 2 for i in range(24)]
    its = {"train_input0": lines, "train_label": labels, "valid_input0": lines[:6], "valid_label": labels[:6]}
    data = prepare(tmp_path / "data", text / "dict.txt", **its)
    m, _ = train(
        data, task="sentence_prediction", criterion="sentence_prediction",
        **{"num-classes": 2, "init-token": 0, "freeze": "^position_encoder",
           "finetune-from-model": f"{text}.pretrained/checkpoint_last.pt"},
    )  # fmt: skip
    assert m.max_positions() == 20 and list(m.classification_heads) == ["sentence_classification_head"]
    flow = "position_encoder.solvers.all.weight1"
    assert torch.equal(m.state_dict()[flow], pretrained.state_dict()[flow])


# Pairs of sentences


def of_pairs(data, length=20, **more):
    its_task = MaskedLMPairsTask.setup_task(MaskedLMConfig(data=str(data), tokens_per_sample=length, seed=1, **more))
    its_task.load_dataset("train")
    return its_task


@pytest.fixture
def pairs(text):
    its_task = of_pairs(text)
    return its_task, its_task.dataset("train")


def test_half_of_the_pairs_follow_and_none_crosses_a_document(pairs):
    its_task, dataset = pairs
    d = its_task.source_dictionary
    drawn, masks = [], []
    for epoch in (1, 2):
        dataset.set_epoch(epoch)
        masks.append([dataset.targets[i].clone() for i in range(len(dataset.targets))])
        assert sorted(dataset.second) == sorted(dataset.first + 1)  # each block is a second one once
        follows = dataset.second == dataset.first + 1
        assert len(follows) // 2 <= follows.sum() <= len(follows) // 2 + 3
        drawn.append(dataset.second.copy())
        for i in range(len(dataset)):
            sample = dataset[i]
            source = torch.where(sample["target"] == d.pad(), sample["source"], sample["target"])  # unmasked
            a, b = (source == d.eos()).nonzero().flatten().tolist()
            assert source[0] == d.bos() and b == len(source) - 1 == dataset.size(i) - 1
            if sample["follows"]:  # the alphabet goes on
                last, first = (ord(d[int(source[at])]) - 97 for at in (a - 1, a + 1))
                assert first == (last + 1) % 26
    assert not np.array_equal(*drawn)
    assert len(masks[0]) > 8 and not all(map(torch.equal, *masks)), "more than fairseq's cache holds"
    dataset.set_epoch(1)
    assert torch.equal(of_pairs(its_task.cfg.data).dataset("train")[3]["source"], dataset[3]["source"])


def test_blocks_of_several_sentences_have_one_end_each(text):
    """The first end tells the segments apart, and no end is masked."""
    dataset = of_pairs(text, 40).dataset("train")
    samples = [dataset[i] for i in range(len(dataset))]
    assert max(len(sample["source"]) for sample in samples) > 20  # of two sentences and more
    assert all((sample["source"] == 2).sum() == 2 and not (sample["target"] == 2).any() for sample in samples)


def test_words_are_masked_as_the_options_say(text):
    dataset = of_pairs(text, mask_prob=0.5, leave_unmasked_prob=1.0, random_token_prob=0.0).dataset("train")
    samples = [dataset[i] for i in range(len(dataset))]
    source, target = (torch.cat([sample[key] for sample in samples]) for key in ("source", "target"))
    masked = target != 1
    assert torch.equal(source[masked], target[masked]) and 0.4 < masked.sum() / (len(source) - 3 * len(samples)) < 0.6


def test_the_loss_is_the_sum_of_both_means(pairs):
    its_task, dataset = pairs
    m = perturbed(build_model(configure("macaron_bert_tiny", SMALL), its_task)).eval()
    sample = dataset.collater([dataset[i] for i in range(6)])
    criterion = MaskedLMPairsCriterion(its_task)
    loss, size, log = criterion(m, sample)
    with metrics.aggregate() as logged:
        criterion.reduce_metrics([log, log])
    assert logged.get_smoothed_value("ppl") > 1
    assert logged.get_smoothed_value("loss") == pytest.approx((loss / size).item() / math.log(2), abs=1e-3)
    logits, more = m(sample["net_input"]["src_tokens"])
    real = sample["target"] != 1
    expected = F.cross_entropy(logits[real], sample["target"][real])
    expected += nn.BCEWithLogitsLoss()(more["next_sentence"], sample["follows"].float())
    torch.testing.assert_close(loss / size, expected)
    sample["follows"] = more["next_sentence"] > 0
    with metrics.aggregate() as logged:
        criterion.reduce_metrics([criterion(m, sample)[2]])
    assert logged.get_smoothed_value("next_sentence_accuracy") == 100
    raises("needs a model with --sentence-pairs", criterion, built(symbols=len(its_task.source_dictionary)), sample)


def test_macaron_bert_trains_on_pairs(text):
    m, _ = train(
        text, arch="macaron_bert_tiny", task="masked_lm_pairs", criterion="masked_lm_pairs",
        **{"tokens-per-sample": 20, "save-dir": f"{text}.pairs", "max-epoch": 2},
    )  # fmt: skip
    assert m.encoder.next_sentence.weight.isfinite().all() and m.encoder.next_sentence.bias.abs() > 0  # it began at 0


def test_text_without_documents_is_named(tmp_path):
    data = prepare(tmp_path / "data", train=["a b c", ""] * 8, valid=["a b c", ""] * 4)
    raises("no document has two blocks", of_pairs, data)


@pytest.mark.parametrize("arch", ["macaron_tiny", "ode_transformer_lm_ptb_1l", "transformer_small"])
def test_every_family_can_be_frozen_by_name(arch):
    m = build_model(configure(arch, {"freeze": r"self_attn\.q_proj"}), translation())
    frozen = [name for name, p in m.named_parameters() if not p.requires_grad]
    assert frozen and all("self_attn.q_proj" in name for name in frozen)


@pytest.mark.parametrize("pattern", ["^decoder", "^encoder", "output_projection"])
def test_a_shared_matrix_is_frozen_by_each_of_its_names(pattern):
    m = build_model(configure("macaron_tiny", {"freeze": pattern, "share-all-embeddings": True}), translation())
    assert not m.encoder.embed_tokens.weight.requires_grad
