"""What the general tests are run on is found in the registries: nothing that registers is left out."""

from dataclasses import fields
from enum import Enum

from fairseq.models import MODEL_REGISTRY, FairseqEncoderDecoderModel, FairseqEncoderModel, FairseqLanguageModel
from omegaconf import OmegaConf

from ode_transformer import config
from ode_transformer.config import FlatTransformerConfig
from tests.helpers import SMALL, VARIANTS, architectures, configure, covering, parse, settings

KINDS = (FairseqEncoderDecoderModel, FairseqLanguageModel, FairseqEncoderModel)
"""Tested in test_every_variant.py, test_language_model.py and test_transevolve.py."""


def test_every_model_is_of_a_kind_that_is_tested():
    for name, _, _ in config.PRESETS.values():
        assert sum(issubclass(MODEL_REGISTRY[name], kind) for kind in KINDS) == 1, name


def test_every_value_of_every_option_has_a_variant():
    """Of options of ours, of all models that translate; among them is every architecture."""
    names, stock = covering(VARIANTS), {f.name for f in fields(FlatTransformerConfig)}
    translating = architectures(FairseqEncoderDecoderModel)
    choices = {("model", config.PRESETS[arch][0]) for arch in translating}
    choices |= {
        (f.name, str(choice.value))
        for arch in translating
        for f in fields(config.PRESETS[arch][1])
        if f.name not in stock and isinstance(f.type, type) and issubclass(f.type, Enum)
        for choice in f.type
    }
    assert not choices - set().union(*(settings(VARIANTS[name]) for name in names)) and len(names) < len(VARIANTS) / 2


def test_the_models_of_tests_are_configured_as_fairseq_configures_them():
    values = SMALL | VARIANTS["heun-heun"]
    arch = values.pop("arch")
    assert OmegaConf.to_container(configure(arch, values)) == OmegaConf.to_container(parse(arch, values).model)
    values = {"encoder-layers": 3, "share-all-embeddings": True}
    assert vars(configure("transformer", values)) == vars(parse("transformer", values).model)
