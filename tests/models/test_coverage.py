"""What the general tests are run on is found in the registries: nothing that registers is left out."""

from dataclasses import fields
from enum import Enum

import pytest
from fairseq.dataclass import ChoiceEnum
from fairseq.models import MODEL_REGISTRY, FairseqEncoderDecoderModel, FairseqEncoderModel, FairseqLanguageModel
from omegaconf import OmegaConf

from ode_transformer import config
from ode_transformer.config import FlatTransformerConfig
from ode_transformer.models.macaron import MacaronConfig
from ode_transformer.numerics.integrators import INTEGRATORS
from tests.helpers import DEFAULT, SMALL, VARIANTS, architectures, configure, covering, parse, settings

KINDS = (FairseqEncoderDecoderModel, FairseqLanguageModel, FairseqEncoderModel)
"""Tested in test_every_variant.py, test_language_model.py and test_transevolve.py."""


def without_a_variant(names: list[str]) -> set[tuple[str, str]]:
    """Values of options of ours, of the models of these architectures, that no variant named has."""
    stock = {f.name for f in fields(FlatTransformerConfig)}
    choices = {
        (f.name, str(choice.value))
        for arch in architectures(FairseqEncoderDecoderModel)
        for f in fields(config.PRESETS[arch][1])
        if f.name not in stock and isinstance(f.type, type) and issubclass(f.type, Enum)
        for choice in f.type
    }
    return choices - set().union(*(settings(VARIANTS[name]) for name in names))


def test_every_model_is_of_a_kind_that_is_tested():
    for name, _, _ in config.PRESETS.values():
        assert sum(issubclass(MODEL_REGISTRY[name], kind) for kind in KINDS) == 1, name


@pytest.mark.parametrize("names", [list(VARIANTS), covering(VARIANTS)], ids=["all", "few"])
def test_every_value_of_every_option_has_a_variant(names):
    assert not without_a_variant(names)
    archs = {VARIANTS[name].get("arch", DEFAULT) for name in names}
    translating = architectures(FairseqEncoderDecoderModel)
    assert {config.PRESETS[arch][0] for arch in translating} == {config.PRESETS[arch][0] for arch in archs}
    if len(names) == len(VARIANTS):
        assert archs == set(translating)
    else:
        assert len(names) < len(VARIANTS) / 2


def test_a_family_that_nobody_listed_is_found(monkeypatch):
    monkeypatch.setitem(config.PRESETS, "newcomer_base", ("macaron", MacaronConfig, {"ffn_hidden_layers": 7}))
    monkeypatch.setitem(config.PRESETS, "newcomer_big", ("macaron", MacaronConfig, {"ffn_hidden_layers": 7}))
    monkeypatch.setitem(config.PRESETS, "newcomer_wide", ("macaron", MacaronConfig, {"encoder_embed_dim": 7}))
    found = architectures(FairseqEncoderDecoderModel)
    assert "newcomer_base" in found and not {"newcomer_big", "newcomer_wide"} & set(found)


def test_a_value_that_nobody_listed_is_found(monkeypatch):
    class NewConfig(MacaronConfig):
        pass

    integrator = next(f for f in fields(MacaronConfig) if f.name == "integrator")
    monkeypatch.setattr(integrator, "type", ChoiceEnum([*INTEGRATORS, "newcomer"]))
    assert without_a_variant(list(VARIANTS)) == {("integrator", "newcomer")}


@pytest.mark.parametrize("variant", ["heun-heun", "evolution-released"])
def test_the_models_of_tests_are_configured_as_fairseq_configures_them(variant):
    values = {k: v for k, v in (SMALL | VARIANTS[variant]).items() if v is not None}
    arch = values.pop("arch", DEFAULT)
    assert OmegaConf.to_container(configure(arch, values)) == OmegaConf.to_container(parse(arch, values).model)


def test_and_so_are_those_of_stock_fairseq():
    values = {"encoder-layers": 3, "share-all-embeddings": True}
    assert vars(configure("transformer", values)) == vars(parse("transformer", values).model)
