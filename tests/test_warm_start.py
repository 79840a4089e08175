"""Warm start: equal to its source where that can be, refused where it cannot, nothing written then."""

import io
from functools import cache

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import build_model
from omegaconf import OmegaConf

from ode_transformer.checkpoints import CheckpointError
from ode_transformer.checkpoints.warm_start import warm_start
from ode_transformer.experiments import cli
from tests.helpers import SMALL, as_trained, batch, configure, parse, perturbed, task
from tests.helpers import flags as words
from tests.models.released import as_written, load, sizes

PRE_NORM = {"encoder-normalize-before": True, "decoder-normalize-before": True}
SIZES = {k: v for k, v in SMALL.items() if "dropout" not in k}
NO_HISTORY = ["--encoder-history", "none", "--decoder-history", "none"]


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


def open_(path, symbols=50):
    """A checkpoint's model, as fairseq's commands load it."""
    (m,), cfg = checkpoint_utils.load_model_ensemble([str(path)], task=task(symbols))
    return m.eval(), cfg


def difference(path, m):
    """The largest difference of a logit of a checkpoint's model and of another."""
    src, lengths, prev = batch()
    ours, _ = open_(path)
    return (ours(src, lengths, prev)[0] - m(src, lengths, prev)[0])[prev != 1].abs().max()


@pytest.mark.parametrize("norm", [{}, PRE_NORM], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("arch", ["floater_tiny", "floater_input_tiny"])
def test_floater_is_its_transformer(tmp_path, arch, shared, norm):
    m = stock(tmp_path / "stock.pt", shared=shared, **norm)
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(SIZES))
    assert report.difference < 1e-6
    assert difference(tmp_path / "out.pt", m) == 0


def test_the_old_layout(tmp_path):
    """fairseq 0.6: in_proj_weight, layer_norms.N, a Namespace; its own logits are the fixture's."""
    fixture = load("stock_old_layout_postnorm")
    torch.save(as_written(fixture), tmp_path / "old.pt")
    report = warm_start(tmp_path / "old.pt", tmp_path / "out.pt", "floater_base", words(sizes(fixture)))
    assert report.unused == [f"{side}.embed_positions._float_tensor" for side in ("encoder", "decoder")]
    m, cfg = open_(tmp_path / "out.pt")
    prev = fixture["prev_output_tokens"]
    logits = m(fixture["src_tokens"], fixture["src_lengths"], prev)[0]
    torch.testing.assert_close(logits[prev != 1], fixture["logits"][prev != 1], atol=1e-5, rtol=0)
    assert cfg.model["_name"] == "floater"


def test_the_old_layout_before_norms_keeps_its_last_norm(tmp_path):
    """Version 2 and a trained norm at the end: stock fairseq silently drops it."""
    m = stock(tmp_path / "stock.pt", **PRE_NORM)
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
    ("arch", "more", "norm"),
    [
        ("rk2_scalars_tiny", [*NO_HISTORY, "--position-encoder", "floater"], PRE_NORM),
        ("ode_residual_tiny", NO_HISTORY, PRE_NORM),
        ("ode_dlcl_tiny", ["--decoder-history", "none"], PRE_NORM),
        ("ode_residual_tiny", ["--encoder-history", "denseformer", "--decoder-history", "denseformer"], {}),
        ("macaron_tiny", ["--encoder-ffn-embed-dim", "24", "--position-encoder", "floater"], PRE_NORM),
    ],
)
def test_other_families_where_they_can_be_equal(tmp_path, arch, more, norm):
    m = stock(tmp_path / "stock.pt", **norm)
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, [*words(SIZES), *more])
    assert report.difference < 1e-6
    assert difference(tmp_path / "out.pt", m) < 5e-6  # in single precision


@pytest.mark.parametrize(
    ("arch", "more", "norm", "reason"),
    [
        ("macaron_tiny", ["--encoder-ffn-embed-dim", "12"], PRE_NORM,
         "exactly: --splitting strang with feed-forward dimension 12; logits differ"),
        ("macaron_tiny", ["--encoder-ffn-embed-dim", "24"], {}, "post-norm"),
        ("rk2_learnable_tiny", NO_HISTORY, PRE_NORM, "exactly: --coefficients sigmoid; logits"),
        ("rk2_scalars_tiny", [], PRE_NORM, "--encoder-history learnable_dense"),
        ("rk2_tiny", NO_HISTORY, PRE_NORM, "--integrator heun with --coefficients fixed"),
        ("rk2_scalars_tiny", [*NO_HISTORY, "--ode-residual", "released"], PRE_NORM, "--ode-residual released"),
        ("ode_residual_tiny", [*NO_HISTORY, "--integrator", "nesterov"], PRE_NORM, "--integrator nesterov with"),
        ("ode_residual_tiny", [*NO_HISTORY, "--decoder-integrator", "heun"], PRE_NORM, "decoder-integrator heun with"),
        ("ode_residual_tiny", ["--encoder-history", "none", "--decoder-history", "attention"], PRE_NORM,
         "--decoder-history attention"),
        ("ode_residual_tiny", [*NO_HISTORY, "--splitting", "parallel"], PRE_NORM, "--splitting parallel"),
        ("floater_tiny", ["--position-encoder", "rnn-scalar-2"], {}, "rnn-scalar-2"),
        ("floater_tiny", ["--no-scale-embedding"], {}, "--no-scale-embedding True, of the checkpoint False"),
        ("floater_tiny", ["--activation-fn", "gelu"], {}, "--activation-fn gelu, of the checkpoint relu"),
        ("macaron_tiny", ["--splitting", "lie-trotter", "--encoder-ffn-embed-dim", "24", "--ffn-hidden-layers", "2"],
         PRE_NORM, "--ffn-hidden-layers 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_equal_is_refused(tmp_path, arch, more, norm, reason):
    m = stock(tmp_path / "stock.pt", **norm)
    flags = [*words(SIZES), *more]
    with pytest.raises(CheckpointError, match=reason) as error:
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, flags)
    assert "--approximate" in str(error.value)
    assert not (tmp_path / "out.pt").exists()
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, flags, approximate=True)
    assert report.difference > 1e-5 and difference(tmp_path / "out.pt", m) > 1e-6


def test_gates_and_histories_begin_near_eulers_step(tmp_path):
    stock(tmp_path / "stock.pt", **PRE_NORM)
    for arch, closed in (("rk2_learnable_tiny", []), ("rk2_two_sigmoids_tiny", [0]), ("rk2_two_tanh_tiny", [0])):
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words(SIZES), approximate=True)
        m, _ = open_(tmp_path / "out.pt")
        gates, stages = m.encoder.coefficients, torch.randn(2, 5, 3, 16)
        expected = torch.tensor([1.0, *closed]).expand(5, 3, -1)
        torch.testing.assert_close(gates.gates(list(stages)), expected, atol=0.01, rtol=0)
        for side in (m.encoder, m.decoder):
            assert torch.equal(side.history.weight, torch.eye(3))


def test_the_source_is_not_overwritten(tmp_path):
    stock(tmp_path / "stock.pt")
    before = (tmp_path / "stock.pt").read_bytes()
    with pytest.raises(CheckpointError, match="must not be the checkpoint itself"):
        warm_start(tmp_path / "stock.pt", tmp_path / "." / "stock.pt", "floater_tiny", words(SIZES))
    assert (tmp_path / "stock.pt").read_bytes() == before


def test_flags_for_training_are_said(tmp_path):
    stock(tmp_path / "stock.pt", **PRE_NORM)
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
    m = stock(tmp_path / "stock.pt", **PRE_NORM)
    arguments = ["warm-start", str(tmp_path / "stock.pt"), "--output", str(tmp_path / "o.pt"), "--arch"]
    assert cli.main([*arguments, "rk2_tiny", "--approximate", "--", *words(SIZES)]) == 0
    assert capsys.readouterr().err == "not equal to its source\n"
    assert cli.main([*arguments, "floater_tiny", "--", *words(SIZES)]) == 0
    short, said = capsys.readouterr()
    assert cli.main([*arguments, "floater_tiny", "--verbose", "--", *words(SIZES)]) == 0 and not said
    out = capsys.readouterr().out
    assert out.endswith(short) and short.startswith(f"tensors: {len(m.state_dict())} copied; ")
    copied = [line.split()[1] for line in out.splitlines() if line.startswith("    copied")]
    assert {name for name, _ in m.named_parameters()} <= set(copied)
    assert "new, zero  position_encoder.solvers.all.weight2  (16, 16)" in out
    assert "; 3 new; 3 new, zero; 0 unused" in out
    (needed,) = (line for line in out.splitlines() if line.startswith("fairseq-train needs: "))
    assert "--share-all-embeddings" in needed and "quant" not in needed and "put-dim" not in needed
    assert "largest difference of a logit" in out


def test_it_begins_before_the_first_update(tmp_path):
    stock(tmp_path / "stock.pt")
    warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES))
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    assert "last_optimizer_state" not in state
    assert state["optimizer_history"][-1]["num_updates"] == 0
    assert state["extra_state"]["train_iterator"]["epoch"] == 1
    assert state["cfg"]["model"]["position_encoder"] == "floater"
    assert state["warm_started_from"] == "stock.pt"
    assert {tensor.dtype for tensor in state["model"].values()} == {torch.float32}


@pytest.mark.parametrize(
    ("arch", "change", "words_"),
    [
        (
            "floater_tiny",
            {"encoder-layers": 3, "decoder-embed-dim": 8, "decoder-ffn-embed-dim": 9},
            "sizes of .*stock.pt: encoder_layers is 3, there 2, decoder_embed_dim is 8, there 16, decoder_ffn_embed_"
            "dim is 9, there 24; .*add -- --encoder-layers 2 --decoder-embed-dim 16 --decoder-ffn-embed-dim 24$",
        ),
        ("floater_huge", {}, "--arch floater_huge: must be one of .*floater_base"),
        ("floater_tiny", {"flow-step": 0}, "--flow-step 0"),
        ("floater_tiny", {"no-such-flag": 1}, "--no-such-flag"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, arch, change, words_):
    stock(tmp_path / "stock.pt", **PRE_NORM)
    with pytest.raises(CheckpointError, match=words_):
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", arch, words({**SIZES, **change}))
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

    with pytest.raises(CheckpointError, match="has no dictionary"):
        run()
    for language, symbols in (("xx", 46), ("yy", 40)):
        (data / f"dict.{language}.txt").write_text("".join(f"w{i} 1\n" for i in range(symbols)))
    with pytest.raises(CheckpointError, match=r"dict.yy.txt: has 44 symbols, .* trained with 50"):
        run()
    assert not (tmp_path / "out.pt").exists()
    (data / "dict.yy.txt").rename(data / "dict.zz.txt")
    with pytest.raises(CheckpointError, match=r"has no dict.yy.txt, of a language of .*stock.pt; it has dict.xx.txt"):
        run()
    (data / "dict.yy.txt").write_text((data / "dict.xx.txt").read_text())
    run()


def test_a_model_of_few_positions(tmp_path):
    few = {f"max-{side}-positions": 8 for side in ("source", "target")}
    stock(tmp_path / "stock.pt", **few, **{"encoder-learned-pos": True, "decoder-learned-pos": True})
    assert warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES)).difference < 1e-6


def test_what_is_new_is_the_same_each_time(tmp_path):
    stock(tmp_path / "stock.pt")
    models, after = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES))
        models.append(torch.load(tmp_path / "out.pt")["model"])
        after.append(torch.get_rng_state())
    torch.testing.assert_close(*models, rtol=0, atol=0)
    for seed, state in zip((1, 2), after, strict=True):
        torch.manual_seed(seed)
        assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers go on as before"


@pytest.mark.parametrize(
    ("change", "words_"),
    [
        (lambda s: s["model"].pop("encoder.layers.1.fc1.weight"), "encoder.layers.1.fc1.weight"),
        (lambda s: s["model"].update({"decoder.extra": torch.zeros(1)}), "decoder.extra"),
        (lambda s: s["model"].pop("encoder.embed_tokens.weight"), "encoder.embed_tokens.weight"),
        (lambda s: s["model"]["encoder.layers.0.fc1.weight"].fill_(float("nan")), "are its logits finite"),
        (lambda s: s["cfg"].update(model={"_name": "macaron", "arch": "macaron_tiny"}), "must be a Transformer of"),
        (lambda s: setattr(s["cfg"]["model"], "encoder_attention_heads", 3), "cannot be built as a Transformer of"),
    ],
)
def test_what_is_no_transformer_is_named(tmp_path, change, words_):
    stock(tmp_path / "stock.pt")
    state = torch.load(tmp_path / "stock.pt", weights_only=False)
    change(state)
    torch.save(state, tmp_path / "stock.pt")
    with pytest.raises(CheckpointError, match=words_):
        warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "floater_tiny", words(SIZES))
    assert not (tmp_path / "out.pt").exists()


def test_both_halves_together_are_the_feed_forward_of_the_source(tmp_path):
    m = stock(tmp_path / "stock.pt", **PRE_NORM)
    flags = [*words(SIZES), "--encoder-ffn-embed-dim", "12"]
    report = warm_start(tmp_path / "stock.pt", tmp_path / "out.pt", "macaron_tiny", flags, approximate=True)
    halved = [name for name, _, what in report.tensors if what == "halved"]
    assert sorted(halved) == sorted(name for name, *_ in report.tensors if "fc" in name)
    ours, z = open_(tmp_path / "out.pt")[0], torch.randn(5, 16)
    layers = zip((*ours.encoder.layers, *ours.decoder.layers), (*m.encoder.layers, *m.decoder.layers), strict=True)
    for new, old in layers:
        halves = [fc2(fc1(z).relu()) for fc1, fc2 in ((new.macaron_fc1, new.macaron_fc2), (new.fc1, new.fc2))]
        torch.testing.assert_close(sum(halves) / 2, old.fc2(old.fc1(z).relu()))
        assert torch.equal(new.macaron_layer_norm.weight, old.final_layer_norm.weight)
        assert torch.equal(new.macaron_layer_norm.bias, old.final_layer_norm.bias)
