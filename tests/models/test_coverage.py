"""What the general tests are run on is found in the registries: nothing that registers is left out."""

from dataclasses import fields
from enum import Enum

import pytest
from fairseq.models import MODEL_REGISTRY, FairseqEncoderDecoderModel, FairseqEncoderModel, FairseqLanguageModel
from omegaconf import OmegaConf

from ode_transformer import config
from ode_transformer.config import FlatTransformerConfig
from tests.helpers import DEFAULT, SMALL, VARIANTS, architectures, configure, covering, parse, settings

KINDS = (FairseqEncoderDecoderModel, FairseqLanguageModel, FairseqEncoderModel)
"""Tested in test_every_variant.py, test_language_model.py and test_transevolve.py."""


def test_every_model_is_of_a_kind_that_is_tested():
    for name, _, _ in config.PRESETS.values():
        assert sum(issubclass(MODEL_REGISTRY[name], kind) for kind in KINDS) == 1, name


@pytest.mark.parametrize("names", [list(VARIANTS), covering(VARIANTS)], ids=["all", "few"])
def test_every_value_of_every_option_has_a_variant(names):
    """Of options of ours, of all models that translate."""
    stock = {f.name for f in fields(FlatTransformerConfig)}
    choices = {
        (f.name, str(choice.value))
        for arch in architectures(FairseqEncoderDecoderModel)
        for f in fields(config.PRESETS[arch][1])
        if f.name not in stock and isinstance(f.type, type) and issubclass(f.type, Enum)
        for choice in f.type
    }
    assert not choices - set().union(*(settings(VARIANTS[name]) for name in names))
    archs = {VARIANTS[name].get("arch", DEFAULT) for name in names}
    translating = architectures(FairseqEncoderDecoderModel)
    assert {config.PRESETS[arch][0] for arch in translating} == {config.PRESETS[arch][0] for arch in archs}
    if len(names) == len(VARIANTS):
        assert archs == set(translating)
    else:
        assert len(names) < len(VARIANTS) / 2


def test_the_models_of_tests_are_configured_as_fairseq_configures_them():
    for variant in ("heun-heun", "evolution-released"):
        values = {k: v for k, v in (SMALL | VARIANTS[variant]).items() if v is not None}
        arch = values.pop("arch", DEFAULT)
        assert OmegaConf.to_container(configure(arch, values)) == OmegaConf.to_container(parse(arch, values).model)
    values = {"encoder-layers": 3, "share-all-embeddings": True}
    assert vars(configure("transformer", values)) == vars(parse("transformer", values).model)
