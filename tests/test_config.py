"""Options reach the model through the command line, hydra's files and Python; what is wrong is named."""

import argparse
import pickle
from dataclasses import fields

import pytest
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import build_model
from fairseq.models.transformer import TransformerConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf

from ode_transformer import config
from ode_transformer.checkpoints.standalone import model_options, open_state
from ode_transformer.models import floater, macaron, ode, pcformer, transevolve
from ode_transformer.modules.attention import StagedAttention
from tests.helpers import SMALL, arguments, batch, configure, dictionary, model, raises, task


def test_every_stock_flag_is_there():
    stock, ours = argparse.ArgumentParser(), argparse.ArgumentParser()
    gen_parser_from_dataclass(stock, TransformerConfig(), delete_default=True, with_prefix="")
    config.add_flags(ours, macaron.MacaronConfig())
    missing = set(stock._option_string_actions) - set(ours._option_string_actions)
    assert not missing


@pytest.mark.parametrize(
    ("flag", "value", "read"),
    [
        ("encoder-embed-dim", 64, lambda m: m.decoder.layers[0].embed_dim),  # which follows the encoder's
        ("encoder-ffn-embed-dim", 48, lambda m: m.decoder.layers[0].fc1.out_features),
        ("decoder-ffn-embed-dim", 40, lambda m: m.decoder.layers[0].macaron_fc1.out_features),
        ("decoder-attention-heads", 2, lambda m: m.decoder.layers[0].self_attn.num_heads),
        ("dropout", 0.25, lambda m: m.encoder.layers[0].dropout_module.p),
        ("activation-dropout", 0.35, lambda m: m.decoder.layers[0].activation_dropout_module.p),
        ("relu-dropout", 0.35, lambda m: m.decoder.layers[0].activation_dropout_module.p),
        (
            "attention-dropout",
            0.45,
            lambda m: min(x.dropout_module.p for x in m.modules() if isinstance(x, StagedAttention)),
        ),
        ("activation-fn", "gelu", lambda m: m.encoder.layers[0].activation_fn.__name__),
        ("adaptive-softmax-cutoff", "10,20", lambda m: ",".join(map(str, m.decoder.adaptive_softmax.cutoff[:2]))),
        ("decoder-output-dim", 64, lambda m: m.decoder.output_projection.in_features),
        ("layernorm-embedding", True, lambda m: m.encoder.layernorm_embedding is not None),
        ("no-encoder-normalize-before", True, lambda m: m.encoder.layer_norm is None),
    ],
)
def test_a_flag_reaches_the_module(flag, value, read):
    assert read(model("macaron_tiny", {flag: value})) == value


def test_an_embedding_that_both_sides_share_has_the_encoders_width():
    m = model("macaron_tiny", {**SMALL, "decoder-embed-dim": 8, "merge-src-tgt-embed": True})
    assert m.decoder.output_projection.weight is m.encoder.embed_tokens.weight
    assert m(*batch())[0].size(-1) == m.decoder.embed_tokens.num_embeddings


@pytest.mark.parametrize("arch", ["macaron_tiny", "transevolve_fullff_1_tiny"])
def test_a_model_with_an_adaptive_softmax_and_one_embedding_loads_its_own_state(arch):
    """fairseq's decoder looks for the shared embedding in the place of the output."""
    flags = {"share-all-embeddings": True, "adaptive-softmax-cutoff": "10,20"}
    model(arch, flags).load_state_dict(model(arch, flags).state_dict())


def test_the_defaults_are_macaron_base_and_configurations_can_be_pickled():
    resolved = config.resolve(macaron.ARCHITECTURES["macaron_wmt_en_de"], macaron.MacaronConfig)
    assert resolved == {f.name: getattr(macaron.MacaronConfig(), f.name) for f in fields(macaron.MacaronConfig)}
    for config_class in (macaron.MacaronConfig, ode.OdeConfig, transevolve.TransEvolveConfig):
        assert pickle.loads(pickle.dumps(config_class(dropout=0.3))) == config_class(dropout=0.3)


@pytest.mark.parametrize("arch", {model: arch for arch, (model, _, _) in config.PRESETS.items()}.values())
def test_hydra_with_the_name_of_an_architecture_is_told_what_to_say(arch):
    """The name alone would build the base model; what is said instead is what the command line builds."""
    model_name, config_class, _ = config.PRESETS[arch]
    cfg = OmegaConf.create({**vars(config_class()), "_name": arch})
    with pytest.raises(ValueError, match=rf"{arch} is an architecture of the command line") as refused:
        build_model(cfg, task())
    words = str(refused.value).rpartition("Under hydra say ")[2].split()
    said = OmegaConf.from_dotlist([word.removeprefix("+model.") for word in words])
    composed = OmegaConf.merge(OmegaConf.structured(config_class()), said)
    built = OmegaConf.to_container(configure(arch))
    assert OmegaConf.to_container(composed) == built | {"_name": model_name, "arch": None}
    raises(f"{arch} is an architecture of the command line", build_model, OmegaConf.create({"arch": arch}), task())


def test_wrong_fields_are_named_and_nothing_in_them_is_evaluated(tmp_path):
    """fairseq would: a file that passes weights-only loading could still run code."""
    code = f"[__import__('pathlib').Path({str(tmp_path / 'executed')!r}).touch()]"
    wrong = {"encoder_leyers": 3, "encoder_layers": None} | dict.fromkeys(config.EVALUATED, code)
    for field, value in wrong.items():
        cfg = OmegaConf.create({**vars(macaron.MacaronConfig()), field: value})
        raises(field, macaron.MacaronModel.build_model, cfg, task())
    assert not (tmp_path / "executed").exists()
    cfg = OmegaConf.create({**vars(macaron.MacaronConfig()), "max_positions": 64})
    raises("that task needs an encoder alone", macaron.MacaronModel.build_model, cfg, task())


def test_a_checkpoint_from_before_a_field_was_there_has_its_default():
    stored = vars(macaron.MacaronConfig(encoder_layers=1, decoder_layers=1))
    cfg = OmegaConf.create({k: v for k, v in stored.items() if k != "ffn_hidden_layers"})
    assert macaron.MacaronModel.build_model(cfg, task()).cfg.ffn_hidden_layers == 1


@pytest.mark.parametrize(
    ("name", "stored", "opened"),
    [
        *((name, "other", None) for name in ("flow_update_interval", "flow_gradient")),
        ("decoder_layerdrop", 0.1, 0), ("offload_activations", True, False), ("flow_method", "heun3", "rk4"),
        ("freeze", r"k_proj\.bias$", None),
    ],
)  # fmt: skip
def test_a_checkpoint_with_an_option_that_is_gone_opens(name, stored, opened):
    cfg = floater.FloaterConfig(encoder_layers=1, decoder_layers=1, encoder_embed_dim=16, decoder_embed_dim=16)
    options = {**config.as_dict(cfg), "_name": "floater", name: stored}
    state = {"cfg": {"model": options}, "model": floater.FloaterModel.build_model(cfg, task()).state_dict()}
    assert model_options(state, "checkpoint.pt")[1].get(name) == opened
    open_state(state, "checkpoint.pt")
    if name in config.GONE:
        build_model(OmegaConf.create(options), task(), from_checkpoint=True)  # as fairseq's commands do


@pytest.mark.parametrize(
    ("name", "config_class"),
    [("macaron_rk2_big", ode.OdeConfig), ("PCformer_t2t_iwslt_de_en", pcformer.ReleasedPCformerConfig)],
)
def test_a_checkpoint_of_an_architecture_that_is_not_listed_opens(name, config_class):
    sizes = {"encoder_layers": 1, "decoder_layers": 1}
    stored = {**config.as_dict(config_class(**sizes)), "_name": name, "arch": name}
    m = build_model(OmegaConf.create(stored), task(), from_checkpoint=True)
    open_state({"cfg": {"model": stored}, "model": m.state_dict()}, "checkpoint.pt")


def test_shared_embeddings_need_one_dictionary():
    two = TranslationTask(TranslationConfig(source_lang="xx", target_lang="yy"), dictionary(50), dictionary(51))
    merged = configure("macaron_tiny", {**SMALL, "merge-src-tgt-embed": True})
    raises("--merge-src-tgt-embed requires a joined", build_model, merged, two)


@pytest.mark.parametrize(
    ("arch", "heads", "dropouts"),
    [
        ("macaron_iwslt_de_en", 4, (0.3, 0.1, 0.1)), ("macaron_wmt_en_de", 8, (0.1, 0.1, 0.1)),
        ("macaron_wmt_en_de_big", 16, (0.3, 0.1, 0.1)), ("rk2", 8, (0.1, 0.1, 0.1)), ("rk2_big", 16, (0.3, 0.1, 0.1)),
        ("rk2_learnable_h256_l28", 4, (0.1, 0.1, 0.1)), ("floater_base", 8, (0.1, 0.0, 0.0)),
        ("floater_big", 16, (0.3, 0.1, 0.0)), ("transevolve_fullff_1", 8, (0.1, 0.0, 0.0)),
        ("transevolve_small", 8, (0.1, 0.0, 0.0)), ("macaron_bert_base", 12, (0.1, 0.1, 0.0)),
        ("floater_roberta_base", 12, (0.1, 0.1, 0.0)), ("floater_roberta_large", 16, (0.1, 0.1, 0.0)),
        ("ode_transformer_lm_ptb_1l", 8, (0.1, 0.1, 0.1)),
    ],
)  # fmt: skip
def test_heads_and_dropouts_are_the_papers(arch, heads, dropouts):
    """Numbers of parameters do not tell them: spec sections 1 and 3, of states, attention and activations."""
    _, config_class, row = config.PRESETS[arch]
    assert {value for key, value in row.items() if key.endswith("_attention_heads")} == {heads}
    values = config.resolve(row, config_class)
    assert tuple(values[name] for name in ("dropout", "attention_dropout", "activation_dropout")) == dropouts


@pytest.mark.parametrize("name", ["macaron", "macaron_tiny", "ode_transformer_lm"])
def test_the_name_of_a_model_is_an_architecture_too(name):
    """Its decoder follows the encoder, and --bf16 is no TPU."""
    args = arguments(name, {"bf16": True, "encoder-embed-dim": 64})
    assert (args.decoder_embed_dim, args.tpu) == (64, False)
