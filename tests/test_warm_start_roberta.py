"""Warm start from RoBERTa: equal to stock fairseq's logits, from checkpoints of every age; strangers' are refused."""

import argparse
import json
from math import prod

import pytest
import safetensors.torch
import torch
from fairseq import checkpoint_utils
from fairseq.models import build_model

from ode_transformer.checkpoints import CheckpointError, hugging_face
from ode_transformer.checkpoints.standalone import load, open_model, open_state
from ode_transformer.checkpoints.warm_start import warm_start
from tests.helpers import as_trained, configure, perturbed
from tests.helpers import flags as words
from tests.models.test_masked_lm import documents, prepare, task, tokens, train

SIZES = {"encoder-embed-dim": 16, "encoder-ffn-embed-dim": 24, "encoder-attention-heads": 2, "encoder-layers": 2}


def stock(path, arch="roberta_base", heads=(), **more):
    """A checkpoint of fairseq's own RoBERTa, as its trainer writes it, and its model."""
    cfg = configure(arch, {**SIZES, "max-positions": 20, **more})
    m = build_model(cfg, task())
    for name in heads:
        m.register_classification_head(name, 3)
    perturbed(m)
    its_task = {"_name": "masked_lm", "data": "data", "tokens_per_sample": 20}
    torch.save(as_trained({"model": cfg, "task": its_task}, m), path)
    return m.eval()


def as_published(path):
    """The layout of the published files: a Namespace, the encoder called decoder, one matrix of q, k and v."""
    state = torch.load(path, weights_only=False)
    options = vars(state["cfg"]["model"])
    kept = ("arch", *(name.replace("-", "_") for name in SIZES), "dropout", "attention_dropout")
    args = {k: options[k] for k in kept if k in options}
    args |= {"task": "masked_lm", "criterion": "masked_lm", "tokens_per_sample": 20, "data": "/data", "max_epoch": 0}
    args |= {"optimizer": "adam", "lr_scheduler": "polynomial_decay", "lr": [0.0006], "save_dir": "x", "fp16": True}
    model = {}
    for name, tensor in state["model"].items():
        name = name.replace("encoder.", "decoder.", 1).replace(".layernorm_embedding.", ".emb_layer_norm.")
        if ".self_attn.q_proj." in name:
            stem, part = name.split("q_proj.")
            ours = stem.replace("decoder.", "encoder.", 1)
            model[f"{stem}in_proj_{part}"] = torch.cat([state["model"][f"{ours}{x}_proj.{part}"] for x in "qkv"])
        elif ".self_attn.k_proj." not in name and ".self_attn.v_proj." not in name and not name.endswith(".version"):
            model[name] = tensor
    state |= {"args": argparse.Namespace(**args), "model": model}
    del state["cfg"]
    torch.save(state, path, _use_new_zipfile_serialization=False)


def opened(path):
    """A checkpoint's model as fairseq's commands load it."""
    (m,), _ = checkpoint_utils.load_model_ensemble([str(path)], task=task())
    return m.eval()


def difference(m, path):
    x = tokens()
    return (opened(path)(x)[0] - m(x)[0])[x != 1].abs().max().item()


EQUAL = {
    "floater": ("floater_roberta_tiny", {}, {}),
    "floater-pre-norm": ("floater_roberta_tiny", {}, {"arch": "roberta_prenorm"}),
    "floater-untied": ("floater_roberta_tiny", {}, {"untie-weights-roberta": True}),
    "ode": ("ode_roberta_tiny", {"integrator": "euler"}, {}),
    "ode-scalars": ("ode_roberta_tiny", {"coefficients": "scalars"}, {"arch": "roberta_prenorm"}),
    "macaron": ("macaron_bert_tiny", {}, {"arch": "roberta_prenorm"}),
    "macaron-floater": ("macaron_bert_tiny", {"position-encoder": "floater"}, {"arch": "roberta_prenorm"}),
}


REST = ("floater", "ode", "ode-scalars", "macaron-floater")
"""What differs little from the others."""


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        *(pytest.param(kind, False, marks=[pytest.mark.full] * (kind in REST)) for kind in EQUAL),
        *((kind, True) for kind, (*_, more) in EQUAL.items() if not more),
    ],
)
def test_what_it_computes_is_what_roberta_computes(tmp_path, kind, published):
    arch, more, kwargs = EQUAL[kind]
    m = stock(tmp_path / "stock.pt", **kwargs)
    if published:
        as_published(tmp_path / "stock.pt")
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(SIZES | more))
    assert report.difference < 1e-6
    assert difference(m, tmp_path / "out.pt") < 1e-6
    changed = torch.load(tmp_path / "out.pt", weights_only=True)["model"]
    assert set(m.state_dict()) <= set(changed)
    assert "--max-positions=20" in report.flags
    assert not any("decoder" in flag or "target-positions" in flag for flag in report.flags)


def test_a_model_that_fairseq_trained(tmp_path):
    """A stock RoBERTa after a few updates of fairseq-train, then FLOATER and Euler steps: the same logits."""
    data = prepare(tmp_path / "data", train=documents(12), valid=documents(4, seed=1))
    m, its_task = train(
        data, arch="roberta_base", task="masked_lm", criterion="masked_lm", **SIZES, **{"tokens-per-sample": 20}
    )
    last = f"{data}.run/checkpoint_last.pt"
    x = its_task.dictionary.encode_line("a b c d e f", add_if_not_exist=False).long()[None]
    for arch, more in (("floater_roberta_tiny", {}), ("ode_roberta_tiny", {"integrator": "euler"})):
        warm_start(last, tmp_path / "out.pt", arch, words(SIZES | more), data=data)
        (ours,), _ = checkpoint_utils.load_model_ensemble([str(tmp_path / "out.pt")], task=its_task)
        torch.testing.assert_close(ours.eval()(x)[0], m.eval()(x)[0], atol=1e-6, rtol=0)
    (data / "dict.txt").write_text("a 1\n")
    with pytest.raises(CheckpointError, match=r"data/dict.txt: has 6 symbols with <mask>, .* was trained with"):
        warm_start(last, tmp_path / "new.pt", "floater_roberta_tiny", words(SIZES), data=data)
    (data / "input0").mkdir()  # as data of sentences with labels are
    (data / "dict.txt").rename(data / "input0" / "dict.txt")
    with pytest.raises(CheckpointError, match=r"input0/dict.txt: has 6 symbols with <mask>, .* was trained with"):
        warm_start(last, tmp_path / "new.pt", "floater_roberta_tiny", words(SIZES), data=data)


def test_classification_heads_are_left_out_and_named_and_opened_on_request(tmp_path):
    m, x = stock(tmp_path / "stock.pt", heads=["mnli"]), tokens()
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_roberta_tiny", words(SIZES))
    assert "classification_heads.mnli.out_proj.weight" in report.unused and "unused" in report.details
    ours = open_state(load(tmp_path / "stock.pt"), "stock.pt", heads=True).eval()
    expected = m(x, classification_head_name="mnli")[0]
    torch.testing.assert_close(ours(x, classification_head_name="mnli")[0], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("arch", "more", "reason"),
    [
        ("ode_roberta_tiny", {}, "must be euler and fixed or ones in a post-norm encoder"),
        ("macaron_bert_tiny", {}, "splitting strang with feed-forward dimension 24, post-norm"),
        ("floater_roberta_tiny", {"position-encoder": "rnn-scalar-1", "flow-method": "rk4", "flow-step": 4.0},
         "--position-encoder rnn-scalar-1"),
        ("floater_roberta_tiny", {"encoder-layers": 3}, "encoder_layers is 3, there 2; take"),
        ("floater_roberta_tiny", {"max-positions": 10}, r"embed_positions.weight is \(22, 16\), must be \(12, 16\)"),
        ("floater_tiny", {}, "floater_tiny: has no place for the tensors of .*, a RoBERTa of stock fairseq"),
    ],
)  # fmt: skip
def test_what_cannot_be_equal_or_does_not_fit_is_refused(tmp_path, arch, more, reason):
    stock(tmp_path / "stock.pt")
    with pytest.raises(CheckpointError, match=reason):
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(SIZES | more))
    assert [p.name for p in tmp_path.iterdir()] == ["stock.pt"]


def set_option(name, value):
    return lambda state: vars(state["cfg"]["model"]).update({name: value})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_option("adaptive_softmax_cutoff", "[__import__('os').mkdir('executed')]"), "cutoff must be a plain list"),
        (set_option("activation_fn", "__import__('os')"), "cannot be built as a RoBERTa.*activation_fn"),
        (set_option("pooler_dropout", [1]), "pooler_dropout is a list, must be a number"),
        (set_option("_name", "xlm_from_somewhere"), "architectures 'xlm_from_somewhere' and 'roberta_base'; must be"),
        (lambda state: state["model"].pop("encoder.lm_head.bias"), "encoder.lm_head.bias"),
    ],
)
def test_a_strangers_checkpoint_runs_nothing_and_is_named(tmp_path, change, reason, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stock(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    change(state)
    torch.save(state, tmp_path / "stock.pt")
    with pytest.raises(CheckpointError, match=reason) as error:
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_roberta_tiny", words(SIZES))
    assert str(tmp_path / "stock.pt") in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["stock.pt"]


# The layout of Hugging Face's library


UNREADABLE = "is not a readable safetensors file"


def as_safetensors(folder, m, dtype=torch.float32, **config):
    """A model of fairseq's as ``model.safetensors`` and ``config.json``."""
    names = {ours: theirs for theirs, ours in hugging_face._TOP.items()}
    layers = {ours: theirs for theirs, ours in hugging_face._LAYER.items()}
    tensors = {"roberta.embeddings.token_type_embeddings.weight": torch.full((1, 16), 0.25)}
    for name, tensor in m.state_dict().items():
        name = name.removeprefix("encoder.")
        if name in ("lm_head.weight", "sentence_encoder.version"):
            continue
        stem, _, part = name.rpartition(".")
        if name.startswith("sentence_encoder.layers."):
            _, _, number, rest = stem.split(".", 3)
            new = f"roberta.encoder.layer.{number}.{layers[rest]}.{part}"
        else:
            new = names.get(name) or f"{names[stem]}.{part}"
        # The embedding of the kind of token is added at every position.
        tensors[new] = tensor - 0.25 if name.endswith("embed_positions.weight") else tensor
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {
        "model_type": "roberta", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 24,
        "num_attention_heads": 2, "hidden_act": "gelu", "pad_token_id": 1, "layer_norm_eps": 1e-5,
        "max_position_embeddings": 22, "architectures": ["RobertaForMaskedLM"], **config,
    }  # fmt: skip
    config = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "model.safetensors"


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.half, 0.02), (torch.bfloat16, 0.1)])
def test_safetensors(tmp_path, dtype, tolerance):
    m = stock(tmp_path / "stock.pt")
    path = as_safetensors(tmp_path, m, dtype)
    report = warm_start(path, tmp_path / "out.pt", "floater_roberta_tiny", words(SIZES))
    assert report.difference < 1e-6
    assert difference(m, tmp_path / "out.pt") < tolerance


def added(name, shape, begin=None, content=b""):
    """A function that adds a tensor of zeros, or of this content, to a file; or one of what begins there already."""

    def add(data):
        length = int.from_bytes(data[:8], "little")
        header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
        new = b"" if begin is not None else content or bytes(4 * prod(shape))
        offsets = [len(body) if begin is None else begin, len(body) + len(new)]
        text = json.dumps({**header, name: {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
        return len(text).to_bytes(8, "little") + text + body + new

    return add


@pytest.mark.parametrize(
    ("change", "config", "reason"),
    [
        (lambda data: data[: len(data) // 2], {}, UNREADABLE),
        (lambda data: data.replace(b'"F32"', b'"I32"'), {}, "is of type torch.int32: must be of floating-point"),
        (lambda data: data.replace(b"lm_head.bias", b"lm_tail.bias"), {}, "lm_tail.bias is not a tensor of a RoBERTa"),
        (added("lm_head.decoder.bias", [50], 0), {}, UNREADABLE),
        (added("lm_head.decoder.weight", [50, 16]), {}, "is not the embeddings, but tie_word"),
        (added("lm_head.decoder.bias", [50]), {}, "lm_head.decoder.bias are not equal"),
        (bytes, {"tie_word_embeddings": False}, "has no lm_head.decoder.weight, but tie_word"),
        (bytes, {"model_type": "bert"}, "config.json: model_type is 'bert', must be 'roberta'"),
        (bytes, {"is_decoder": True}, "config.json: is_decoder is True, must be False"),
        (bytes, {"layer_norm_eps": None}, "layer_norm_eps is 1e-12 by default, must be 1e-05"),
        (bytes, {"hidden_dropout_prob": 1.5}, "hidden_dropout_prob is 1.5, must be a number from 0"),
        (bytes, {"hidden_act": "__import__('os')"}, "cannot be built as a RoBERTa"),
    ],
)
def test_safetensors_that_are_damaged_or_of_another_model_are_named(tmp_path, change, config, reason):
    path = as_safetensors(tmp_path, stock(tmp_path / "stock.pt"), **config)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CheckpointError, match=reason):
        warm_start(path, tmp_path / "out.pt", "floater_roberta_tiny", words(SIZES))
    assert not (tmp_path / "out.pt").exists()


def test_a_head_of_its_own_is_kept(tmp_path):
    """A model whose symbols are predicted with another matrix than they are embedded by."""
    m = stock(tmp_path / "stock.pt", **{"untie-weights-roberta": True})
    path = as_safetensors(tmp_path, m, tie_word_embeddings=False)
    head = m.encoder.lm_head.weight.detach().numpy().tobytes()
    path.write_bytes(added("lm_head.decoder.weight", [50, 16], content=head)(path.read_bytes()))
    warm_start(path, tmp_path / "out.pt", "floater_roberta_tiny", words(SIZES))
    assert difference(m, tmp_path / "out.pt") < 1e-6


@pytest.mark.parametrize(
    ("name", "shape"),
    [("embed_tokens", (10**12, 0)), ("embed_tokens", ()), ("embed_tokens", (0, 16)), ("embed_positions", (5,))],
)
def test_matrices_without_width_or_rows_are_named(tmp_path, name, shape):
    """Of 10^12 symbols without width, which take no room in the file, a dictionary would be made."""
    stock(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    state["model"][f"encoder.sentence_encoder.{name}.weight"] = torch.zeros(shape)
    torch.save(state, tmp_path / "stock.pt")
    with pytest.raises(CheckpointError, match=rf"{name}.weight is of shape .*, must have rows and columns"):
        open_model(tmp_path / "stock.pt")
