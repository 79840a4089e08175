"""Warm start: equal to its source where that can be, refused where it cannot, nothing written then.

From a Transformer, and from RoBERTa: checkpoints of every age; strangers' are refused.
"""

import argparse
import io
import json
from functools import cache

import pytest
import safetensors.torch
import torch
from fairseq import checkpoint_utils
from fairseq.models import build_model
from fairseq.models.roberta import RobertaModel
from omegaconf import OmegaConf

from ode_transformer.checkpoints import CheckpointError, hugging_face, standalone
from ode_transformer.checkpoints.warm_start import warm_start
from ode_transformer.numerics.splitting import SPLITTINGS, Splitting
from tests.helpers import SMALL, batch, configure, output_of, parse, perturbed, raises, task
from tests.helpers import flags as words
from tests.models import test_masked_lm as masked
from tests.models.released import as_written, load, sizes

PRE_NORM = {"encoder-normalize-before": True, "decoder-normalize-before": True}
SIZES = {k: v for k, v in SMALL.items() if "dropout" not in k}
ROBERTA = {"encoder-embed-dim": 16, "encoder-ffn-embed-dim": 24, "encoder-attention-heads": 2, "encoder-layers": 2}
LEARNED = {"encoder-learned-pos": True, "decoder-learned-pos": True}
NO_HISTORY = {"encoder-history": "none", "decoder-history": "none"}


def as_trained(cfg, m):
    """What fairseq's trainer writes of a model after some updates."""
    history = {"num_updates": 70, "criterion_name": "x", "optimizer_name": "FairseqAdam"}
    return {
        "cfg": cfg,
        "args": None,
        "model": m.state_dict(),
        "optimizer_history": [history | {"lr_scheduler_state": {"best": 1.0}}],
        "extra_state": {"train_iterator": {"epoch": 9, "iterations_in_epoch": 3}, "best": 1.0},
        "last_optimizer_state": {"state": {}},
    }


@cache
def _stock(symbols, more):
    cfg = parse("transformer", dict(more))
    m = perturbed(build_model(cfg.model, task(symbols)))
    plain = OmegaConf.to_container(OmegaConf.masked_copy(cfg, [k for k in cfg if k != "model"]), enum_to_str=True)
    torch.save(as_trained({**plain, "model": cfg.model}, m), content := io.BytesIO())
    return m.eval(), content.getvalue()


def stock(path, symbols=50, shared=True, **more):
    """Write a trained checkpoint as stock fairseq does today; its model, which must not be changed."""
    tied = {"share-all-embeddings": True} if shared else {}
    m, content = _stock(symbols, tuple({**tied, **SMALL, **more}.items()))
    path.write_bytes(content)
    return m


def roberta(path, arch="roberta_base", heads=(), **more):
    """A checkpoint of fairseq's own RoBERTa, as its trainer writes it, and its model."""
    cfg = configure(arch, {**ROBERTA, "max-positions": 20, **more})
    m = build_model(cfg, masked.task())
    for name in heads:
        m.register_classification_head(name, 3)
    perturbed(m)
    its_task = {"_name": "masked_lm", "data": "data", "tokens_per_sample": 20}
    torch.save(as_trained({"model": cfg, "task": its_task}, m), path)
    return m.eval()


def pre_norm(path):
    return stock(path, **PRE_NORM)


WRITTEN = {stock: SIZES, pre_norm: SIZES, roberta: ROBERTA}
"""The sizes of what functions write."""


def open_(path, its_task=None):
    """A checkpoint's model, as fairseq's commands load it."""
    (m,), cfg = checkpoint_utils.load_model_ensemble([str(path)], task=its_task or task())
    return m.eval(), cfg


def difference(path, m):
    """The largest difference of a logit of a checkpoint's model and of another."""
    is_roberta = isinstance(m, RobertaModel)
    inputs = (masked.tokens(),) if is_roberta else batch()
    ours, _ = open_(path, masked.task() if is_roberta else None)
    return (ours(*inputs)[0] - m(*inputs)[0])[inputs[-1] != 1].abs().max()


def test_the_old_layout(tmp_path):
    """fairseq 0.6: in_proj_weight, layer_norms.N, a Namespace; its own logits are the fixture's."""
    fixture = load("stock_old_layout_postnorm")
    old = as_written(fixture | {"args": fixture["args"] | {"relu_dropout": 0.2}})
    torch.save(old, tmp_path / "old.pt")
    report = warm_start(tmp_path / "old.pt", tmp_path / "out.pt", "floater_base", words(sizes(fixture)))
    assert report.unused == [f"{side}.embed_positions._float_tensor" for side in ("encoder", "decoder")]
    m, cfg = open_(tmp_path / "out.pt")
    prev = fixture["prev_output_tokens"]
    logits = m(fixture["src_tokens"], fixture["src_lengths"], prev)[0]
    torch.testing.assert_close(logits[prev != 1], fixture["logits"][prev != 1], atol=1e-5, rtol=0)
    assert cfg.model["_name"] == "floater" and "--activation-dropout=0.2" in report.flags


def test_the_old_layout_before_norms_keeps_its_last_norm(tmp_path):
    """Version 2 and a trained norm at the end: stock fairseq silently drops it."""
    m = pre_norm(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    old = {k: v for k, v in state["model"].items() if "output_projection" not in k}
    for side in ("encoder", "decoder"):
        old[f"{side}.version"] = torch.tensor([2.0])
        for name in [n for n in old if n.startswith(side) and n.endswith("q_proj.weight")]:
            stem = name.removesuffix("q_proj.weight")
            for part in ("weight", "bias"):
                old[f"{stem}in_proj_{part}"] = torch.cat([old.pop(f"{stem}{x}_proj.{part}") for x in "qkv"])
    torch.save({**state, "model": old}, tmp_path / "old.pt")
    warm_start(tmp_path / "old.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES))
    assert difference(tmp_path / "out.pt", m) < 1e-6


@pytest.mark.parametrize(
    ("arch", "more", "of_source"),
    [
        ("floater_tiny", {}, {}),
        ("floater_tiny", {}, {"shared": False, **PRE_NORM}),
        ("floater_tiny", {}, {"max-source-positions": 8, "max-target-positions": 8, **LEARNED}),
        ("floater_input_tiny", {}, {"shared": False}),
        ("rk2_scalars_tiny", {**NO_HISTORY, "position-encoder": "floater"}, PRE_NORM),
        ("ode_residual_tiny", NO_HISTORY, PRE_NORM),
        ("ode_dlcl_tiny", {"decoder-history": "none"}, PRE_NORM),
        ("ode_residual_tiny", {"encoder-history": "denseformer", "decoder-history": "denseformer"}, {}),
        ("macaron_tiny", {"encoder-ffn-embed-dim": 24, "position-encoder": "floater"}, PRE_NORM),
    ],
)
def test_it_computes_what_its_transformer_computes(tmp_path, arch, more, of_source):
    m = stock(tmp_path / "stock.pt", **of_source)
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(SIZES | more))
    assert report.difference < 1e-6
    assert difference(tmp_path / "out.pt", m) < 5e-6  # in single precision


def test_the_last_feed_forward_stands_for_both(tmp_path, monkeypatch):
    """Whatever its part of the step; a plugin may have other splittings."""
    monkeypatch.setitem(SPLITTINGS.data, "strang", Splitting("GFG", (0.25, 1.0, 0.75)))
    pre_norm(tmp_path / "stock.pt")
    flags = words(SIZES | {"encoder-ffn-embed-dim": 24})
    assert warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "macaron_tiny", flags).difference < 1e-6


def test_gates_and_histories_begin_near_eulers_step(tmp_path):
    source = pre_norm(tmp_path / "stock.pt")
    for arch, closed in (("rk2_learnable_tiny", []), ("rk2_two_sigmoids_tiny", [0]), ("rk2_two_tanh_tiny", [0])):
        report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(SIZES), approximate=True)
        assert report.difference > 1e-5 and difference(tmp_path / "out.pt", source) > 1e-6
        m, _ = open_(tmp_path / "out.pt")
        gates, stages = m.encoder.coefficients, torch.randn(2, 5, 3, 16)
        expected = torch.tensor([1.0, *closed]).expand(5, 3, -1)
        torch.testing.assert_close(gates.gates(list(stages)), expected, atol=0.01, rtol=0)
        for side in (m.encoder, m.decoder):
            assert torch.equal(side.history.weight, torch.eye(3))


def test_gates_without_histories_begin_near_their_source(tmp_path):
    """A normalized history changes the size of a state: with it, the start is far away."""
    pre_norm(tmp_path / "stock.pt")
    paths = tmp_path / "stock.pt", tmp_path / "out.pt", "rk2_learnable_tiny"
    near, far = (warm_start(*paths, words(SIZES | more), approximate=True) for more in (NO_HISTORY, {}))
    assert near.difference < 0.05 and far.difference > 0.5
    second = warm_start(*paths[:2], "rk2_second_order_tiny", words(SIZES | NO_HISTORY), approximate=True)
    assert second.difference > near.difference, "this gate cannot make the step Euler's"


def test_the_source_is_not_overwritten_and_flags_for_training_are_said(tmp_path):
    pre_norm(tmp_path / "stock.pt")
    before = (tmp_path / "stock.pt").read_bytes()
    with pytest.raises(CheckpointError, match="must not be the checkpoint itself"):
        warm_start(tmp_path / "stock.pt", tmp_path / "." / "stock.pt", "floater_tiny", words(SIZES))
    assert (tmp_path / "stock.pt").read_bytes() == before
    flags = [*words(SIZES), "--lr", "0.1", "--optimizer", "adam"]  # those of training are let through
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", flags)
    assert not [flag for flag in report.flags if "lr" in flag or "adam" in flag]
    assert {"--share-all-embeddings", "--encoder-normalize-before", "--decoder-normalize-before"} <= set(report.flags)
    assert dict(_pairs(report.flags))["dropout"] == "0.0"  # where floater_tiny has another
    built = build_model(configure("floater_tiny", {"user-dir": "ode_transformer"} | dict(_pairs(report.flags))), task())
    built.load_state_dict(torch.load(tmp_path / "out.pt", weights_only=True)["model"])


def _pairs(flags):
    for flag in flags:  # each is one word, so that no value can pass for a flag
        name, equals, value = flag.removeprefix("--").partition("=")
        yield name, value if equals else True


def test_every_tensor_is_reported(tmp_path, capsys):
    m = pre_norm(tmp_path / "stock.pt")
    arguments = ["warm-start", str(tmp_path / "stock.pt"), "--output", str(tmp_path / "o.pt"), "--arch"]
    said = output_of([*arguments, "rk2_tiny", "--approximate", "--", *words(SIZES)], capsys).err
    assert said == "not equal to its source\n"
    out = output_of([*arguments, "floater_tiny", "--verbose", "--", *words(SIZES)], capsys).out
    copied = [line.split()[1] for line in out.splitlines() if line.startswith("    copied")]
    assert {name for name, _ in m.named_parameters()} <= set(copied)
    assert "new, zero  position_encoder.solvers.all.weight2  (16, 16)" in out
    assert f"tensors: {len(m.state_dict())} copied; 3 new; 3 new, zero; 0 unused" in out


@pytest.mark.parametrize(
    ("write", "arch", "change", "words_"),
    [
        (stock, "floater_tiny", {"encoder-layers": 3, "decoder-embed-dim": 8, "decoder-ffn-embed-dim": 9},
         "sizes of .*stock.pt; .*add -- --encoder-layers 2 --decoder-embed-dim 16 --decoder-ffn-embed-dim 24$"),
        (stock, "floater_huge", {}, "--arch floater_huge: is none of .*; the nearest are floater_"),
        (stock, "floater_tiny", {"flow-step": 0}, "--flow-step 0"),
        (stock, "floater_tiny", {"no-such-flag": 1}, "--no-such-flag"),
        (pre_norm, "rk2_learnable_tiny", NO_HISTORY, "exactly with.*: logits differ by .*--approximate writes it"),
        (stock, "floater_tiny", {"activation-fn": "gelu"}, "--activation-fn gelu, of the checkpoint relu"),
        (roberta, "ode_roberta_tiny", {}, "need a pre-norm encoder"),
        (roberta, "floater_roberta_tiny", {"max-positions": 10}, r"positions.weight is \(22, 16\), must be \(12, 16\)"),
        (roberta, "floater_tiny", {}, "floater_tiny: has no place for the tensors of .*, a RoBERTa of stock fairseq"),
    ],
)  # fmt: skip
def test_what_does_not_fit_or_cannot_be_equal_is_named(tmp_path, write, arch, change, words_):
    write(tmp_path / "stock.pt")
    raises(words_, warm_start, tmp_path / "stock.pt", tmp_path / "out.pt", arch, words({**WRITTEN[write], **change}))
    assert [p.name for p in tmp_path.iterdir()] == ["stock.pt"]


def test_another_dictionary(tmp_path):
    stock(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    state["cfg"]["task"] = {"_name": "translation", "source_lang": "xx", "target_lang": "yy"}
    torch.save(state, tmp_path / "stock.pt")
    data = tmp_path / "data"
    data.mkdir()

    def run():
        return warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES), data=data)

    for language, symbols in (("xx", 46), ("yy", 40)):
        (data / f"dict.{language}.txt").write_text("".join(f"w{i} 1\n" for i in range(symbols)))
    raises(r"dict.yy.txt: has 44 symbols, .* trained with 50", run)
    assert not (tmp_path / "out.pt").exists()
    (data / "dict.yy.txt").unlink()
    raises(r"dict.yy.txt: no such file; .*stock.pt needs a dictionary of that name", run)
    (data / "dict.yy.txt").write_text((data / "dict.xx.txt").read_text())
    run()


def test_it_begins_before_the_first_update_and_what_is_new_is_the_same_each_time(tmp_path):
    stock(tmp_path / "stock.pt")
    states, after = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES))
        states.append(state := torch.load(tmp_path / "out.pt", weights_only=True))
        after.append(torch.get_rng_state())
    assert "last_optimizer_state" not in state
    assert state["optimizer_history"][-1]["num_updates"] == 0
    assert state["extra_state"]["train_iterator"]["epoch"] == 1
    assert state["cfg"]["model"]["position_encoder"] == "floater"
    assert state["warm_started_from"] == "stock.pt"
    assert {tensor.dtype for tensor in state["model"].values()} == {torch.float32}
    torch.testing.assert_close(*(each["model"] for each in states), rtol=0, atol=0)
    for seed, state in zip((1, 2), after, strict=True):
        torch.manual_seed(seed)
        assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers go on as before"


def set_option(name, value):
    return lambda state: vars(state["cfg"]["model"]).update({name: value})


@pytest.mark.parametrize(
    ("write", "change", "words_"),
    [
        (stock, lambda s: s["model"].update({"decoder.extra": torch.zeros(1)}), "decoder.extra"),
        (stock, lambda s: s["model"].pop("encoder.embed_tokens.weight"), "encoder.embed_tokens.weight"),
        (stock, lambda s: s["model"]["encoder.layers.0.fc1.weight"].fill_(float("nan")), "logits differ by nan"),
        (stock, lambda s: s["cfg"].update(model={"_name": "macaron", "arch": "macaron_tiny"}), "be a Transformer of"),
        (roberta, set_option("adaptive_softmax_cutoff", "[__import__('os').mkdir('x')]"), "must be a plain list"),
        (roberta, set_option("pooler_dropout", [1]), "pooler_dropout is a list, must be a number"),
        (roberta, set_option("_name", "xlm_anything"), "architecture 'xlm_anything'; must be one of"),
        (roberta, lambda s: s["model"].pop("encoder.lm_head.bias"), "encoder.lm_head.bias"),
    ],
)
def test_a_strangers_checkpoint_runs_nothing_and_is_named(tmp_path, write, change, words_, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    change(state)
    torch.save(state, tmp_path / "stock.pt")
    arch = "floater_tiny" if write is stock else "floater_roberta_tiny"
    with pytest.raises(CheckpointError, match=words_) as error:
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(WRITTEN[write]))
    assert str(tmp_path / "stock.pt") in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["stock.pt"]


# From RoBERTa


def as_published(path):
    """The layout of the published files: a Namespace, the encoder called decoder, one matrix of q, k and v."""
    state = torch.load(path, weights_only=False)
    options = vars(state["cfg"]["model"])
    kept = ("arch", *(name.replace("-", "_") for name in ROBERTA), "dropout", "attention_dropout")
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


@pytest.mark.parametrize(
    ("arch", "more", "of_source", "published"),
    [
        ("floater_roberta_tiny", {}, {}, True),
        ("floater_roberta_tiny", {}, {"arch": "roberta_prenorm"}, False),
        ("floater_roberta_tiny", {}, {"untie-weights-roberta": True}, False),
        ("ode_roberta_tiny", {"integrator": "euler"}, {}, True),
        ("ode_roberta_tiny", {"coefficients": "scalars"}, {"arch": "roberta_prenorm"}, False),
        ("macaron_bert_tiny", {"position-encoder": "floater"}, {"arch": "roberta_prenorm"}, False),
    ],
)
def test_it_computes_what_its_roberta_computes(tmp_path, arch, more, of_source, published):
    m = roberta(tmp_path / "stock.pt", **of_source)
    if published:
        as_published(tmp_path / "stock.pt")
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(ROBERTA | more))
    assert report.difference < 1e-6
    assert difference(tmp_path / "out.pt", m) < 1e-6
    changed = torch.load(tmp_path / "out.pt", weights_only=True)["model"]
    assert set(m.state_dict()) <= set(changed)
    assert "--max-positions=20" in report.flags
    assert not any("decoder" in flag or "target-positions" in flag for flag in report.flags)


def test_the_dictionary_of_one_text_lacks_the_mask(tmp_path):
    roberta(tmp_path / "stock.pt")

    def run():
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_roberta_tiny", words(ROBERTA), data=data)

    data = tmp_path / "data"
    for folder in (data, data / "input0"):  # the latter of sentences with labels
        folder.mkdir()
        (folder / "dict.txt").write_text("a 1\n")
        raises(f"{folder.name}/dict.txt: has 5 symbols, .* with 49", run)
        (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(45)))
        run()
        (folder / "dict.txt").unlink()
    raises(r"data/dict\.\*\.txt: no such file; .*stock\.pt needs a dictionary", run)


def test_classification_heads_are_left_out_and_named_and_opened_on_request(tmp_path):
    m, x = roberta(tmp_path / "stock.pt", heads=["mnli"]), masked.tokens()
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_roberta_tiny", words(ROBERTA))
    assert "classification_heads.mnli.out_proj.weight" in report.unused and "unused" in report.details
    ours = standalone.open_state(standalone.load(tmp_path / "stock.pt"), "stock.pt", heads=True).eval()
    expected = m(x, classification_head_name="mnli")[0]
    torch.testing.assert_close(ours(x, classification_head_name="mnli")[0], expected, atol=1e-6, rtol=0)


# The layout of Hugging Face's library


def as_safetensors(folder, m, dtype=torch.float32, **config):
    """A model of fairseq's as ``model.safetensors`` and ``config.json``."""
    names = {ours: theirs for theirs, ours in hugging_face._TOP.items()}
    layers = {ours: theirs for theirs, ours in hugging_face._LAYER.items()}
    kind = torch.linspace(-0.25, 0.25, 16)  # a constant would vanish in the first norm
    tensors = {"roberta.embeddings.token_type_embeddings.weight": kind[None]}
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
        tensors[new] = tensor - kind if name.endswith("embed_positions.weight") else tensor
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
    m = roberta(tmp_path / "stock.pt")
    path = as_safetensors(tmp_path, m, dtype, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    report = warm_start(path, tmp_path / "out.pt", "floater_roberta_tiny", words(ROBERTA))
    assert report.difference < 1e-6 and {"--dropout=0.2", "--attention-dropout=0.3"} <= set(report.flags)
    assert difference(tmp_path / "out.pt", m) < tolerance
    _, cfg = checkpoint_utils.load_model_ensemble([str(tmp_path / "out.pt")], task=masked.task())
    assert cfg.task._name == cfg.criterion._name == "masked_lm"  # which fairseq-validate takes from the checkpoint


def added(name, content):
    """A function that adds a tensor to a file."""
    return lambda data: safetensors.torch.save(safetensors.torch.load(data) | {name: content})


@pytest.mark.parametrize(
    ("change", "config", "reason"),
    [
        (lambda data: data[: len(data) // 2], {}, "is not a readable safetensors file"),
        (lambda data: data.replace(b"lm_head.bias", b"lm_tail.bias"), {}, "lm_tail.bias is not a tensor of a RoBERTa"),
        (added("lm_head.decoder.weight", torch.zeros(50, 16)), {}, "must be the embeddings unless tie_word"),
        (added("roberta.embeddings.token_type_embeddings.weight", torch.zeros(1, 4)), {}, r"must be \(1, 16\)"),
        (bytes, {"tie_word_embeddings": False}, "encoder.lm_head.weight"),
        (bytes, {"model_type": "bert"}, "config.json: is of another model: model_type must be roberta"),
        (bytes, {"is_decoder": True}, "config.json: is of another model: is_decoder must be False"),
        (bytes, {"layer_norm_eps": None}, "config.json: is of another model: layer_norm_eps is missing"),
        (bytes, {"hidden_act": "__import__('os')"}, "cannot be built as a RoBERTa"),
    ],
)
def test_safetensors_that_are_damaged_or_of_another_model_are_named(tmp_path, change, config, reason):
    path = as_safetensors(tmp_path, roberta(tmp_path / "stock.pt"), **config)
    path.write_bytes(change(path.read_bytes()))
    raises(reason, warm_start, path, tmp_path / "out.pt", "floater_roberta_tiny", words(ROBERTA))
    assert not (tmp_path / "out.pt").exists()


def test_a_head_of_its_own_is_kept(tmp_path):
    """A model whose symbols are predicted with another matrix than they are embedded by."""
    m = roberta(tmp_path / "stock.pt", **{"untie-weights-roberta": True})
    path = as_safetensors(tmp_path, m, tie_word_embeddings=False)
    path.write_bytes(added("lm_head.decoder.weight", m.encoder.lm_head.weight.detach())(path.read_bytes()))
    warm_start(path, tmp_path / "out.pt", "floater_roberta_tiny", words(ROBERTA))
    assert difference(tmp_path / "out.pt", m) < 1e-6


@pytest.mark.parametrize(
    ("name", "shape"),
    [("embed_tokens", (10**12, 0)), ("embed_tokens", ()), ("embed_tokens", (0, 16)), ("embed_positions", (5,))],
)
def test_matrices_without_width_or_rows_are_named(tmp_path, name, shape):
    """Of 10^12 symbols without width, which take no room in the file, a dictionary would be made."""
    roberta(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    state["model"][f"encoder.sentence_encoder.{name}.weight"] = torch.zeros(shape)
    torch.save(state, tmp_path / "stock.pt")
    raises(rf"{name}.weight is of shape .*, must have rows and columns", standalone.open_model, tmp_path / "stock.pt")
