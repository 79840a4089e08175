"""Configuration: one flat dataclass per family, and a table of its named architectures.

fairseq reads a model's options in three ways: command line (``--arch``), hydra, and a checkpoint's stored
configuration. A *flat* dataclass is the one form that reaches the model through all three and is stored as a
plain dict, which loads with ``weights_only=True``. It is derived from fairseq's nested ``TransformerConfig``, so
that every stock flag stays.
"""

import argparse
import ast
import contextlib
import importlib.util
import inspect
import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, make_dataclass
from enum import Enum
from functools import partial
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model_architecture
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from .errors import OdeTransformerError

# fairseq declares the first two as lists but splits them as strings, and interpolates the others from a nested config.
_TYPES = {
    "encoder_layers_to_keep": (Optional[str], None),
    "decoder_layers_to_keep": (Optional[str], None),
    "decoder_input_dim": (Optional[int], None),
    "decoder_output_dim": (Optional[int], None),
}


def _flat_fields() -> Iterable[tuple[str, type, Field]]:
    """Yield the fields of ``TransformerConfig``, flattened: ``encoder.layers`` becomes ``encoder_layers``."""
    config = TransformerConfig()
    for outer in fields(config):
        value = getattr(config, outer.name)
        nested = [(outer, config)]
        if is_dataclass(value):
            nested = [(inner, value) for inner in fields(value)]
        for inner, owner in nested:
            if inner.name == "_name":
                continue
            name = inner.name if owner is config else f"{outer.name}_{inner.name}"
            type_, default = _TYPES.get(name, (inner.type, getattr(owner, inner.name)))
            metadata = {"help": name.replace("_", " "), **inner.metadata}
            if alias := metadata.pop("alias", None):  # fairseq's own parser does not read this key
                metadata["argparse_alias"] = alias
            yield name, type_, field(default=default, metadata=metadata)


_StockFields = make_dataclass(
    "_StockFields", _flat_fields(), bases=(FairseqDataclass,), namespace={"__module__": __name__}
)


def option(default: Any, help: str, source: str = "") -> Any:
    """Return a configuration field with the flag's help and its source, a paper or released code."""
    return field(default=default, metadata={"help": help, "source": source})


@dataclass
class FlatTransformerConfig(_StockFields):
    """The options and defaults of fairseq's Transformer, flattened, and options of execution; families extend it.

    A subclass overrides a default by annotation and value alone; the help is inherited. Fields are ``Optional[str]``
    and not ``str | None``, which fairseq's parser does not know.
    """

    arch: Optional[str] = option(None, "architecture named on the command line; set by fairseq")
    compile_layers: bool = option(
        False, "compile the layers with torch.compile for training, which takes minutes at the beginning"
    )
    cuda_graphs: bool = option(
        False, "run training passes as CUDA graphs, one for each of a few shapes to which batches are padded"
    )

    def __init_subclass__(cls, **more: Any):
        super().__init_subclass__(**more)
        for name in inspect.get_annotations(cls):
            inherited, default = cls.__dataclass_fields__.get(name), cls.__dict__[name]
            if inherited is not None and not isinstance(default, Field):
                setattr(cls, name, field(default=default, metadata=inherited.metadata))

    @staticmethod
    def idle_options(values: Mapping[str, Any]) -> set[str]:
        """Return the options that have no effect with the given values of others, whatever their own values are."""
        return set()


def add_flags(parser: argparse._ActionsContainer, config: FairseqDataclass) -> None:
    """Add a flag for every field, without defaults: those come from the architecture, then from the dataclass.

    Every switch gets an opposite, so that a flag can turn off what an architecture turns on:
    ``--no-encoder-normalize-before``, or ``--decoder-final-norm`` for ``--no-decoder-final-norm``.
    """
    for f in fields(config):
        if f.type is bool:
            on, off, more = flag(f.name), flag(f.name, False), {"dest": f.name, "default": argparse.SUPPRESS}
            parser.add_argument(on, action="store_true", help=f.metadata.get("help"), **more)
            parser.add_argument(off, action="store_false", help=f"turns off {on}", **more)
    # This skips the flags that exist already.
    gen_parser_from_dataclass(parser, config, delete_default=True)


def flag(field: str, on: bool = True) -> str:
    """Return the flag of a field; for a switch, the one that turns it on or off."""
    words = field.split("_")
    if not on:
        words = words[1:] if words[0] == "no" else ["no", *words]
    return "--" + "-".join(words)


PRESETS: dict[str, tuple[str, type, Mapping[str, Any]]] = {}
"""The model, configuration class and preset fields of our architectures by name; some names are not listed here."""


def register_architectures(
    model: str, config_class: type, architectures: Mapping[str, Mapping[str, Any]], listed: bool = True
) -> None:
    """Register a table of presets, by name, as architectures (``--arch``) of a registered model.

    Names that only checkpoints have, of released code or of earlier versions, are not ``listed`` in ``PRESETS``.
    """
    # On the command line, fairseq takes the model's own name for an architecture, too: that of the defaults.
    ARCH_CONFIG_REGISTRY[model] = partial(_apply_preset, model, config_class, model, {})
    for name, preset in architectures.items():
        if unknown := sorted({*preset} - {f.name for f in fields(config_class)}):
            raise OdeTransformerError(f"--arch {name}: {config_class.__name__} has no field {', '.join(unknown)}")
        register_model_architecture(model, name)(partial(_apply_preset, model, config_class, name, preset))
        if listed:
            PRESETS[name] = (model, config_class, preset)


def _apply_preset(model: str, config_class: type, name: str, preset: Mapping[str, Any], config: Any) -> None:
    """Set the fields of a named architecture that the user has not set.

    fairseq calls this with the command line's ``Namespace``, and again when it builds the model, with every field
    filled in. Under hydra only the second call happens, too late to tell the user's values from defaults: refused.
    """
    if not isinstance(config, argparse.Namespace):
        if {getattr(config, key, None) for key in ("_name", "arch")} != {name}:  # the command line sets both
            raise OdeTransformerError(
                f"{name} is an architecture of the command line (--arch {name}), which hydra would "
                f"build with the defaults of model '{model}'. Under hydra say "
                + " ".join(under_hydra(model, config_class, preset))
            )
        return

    if getattr(config, "bf16", False) and importlib.util.find_spec("torch_xla") is None:
        config.tpu = False  # fairseq infers a TPU from --bf16 on the command line
    given = vars(config)
    # The user's options can make fields of the preset meaningless: --position-encoder none, those of the flow.
    idle = config_class.idle_options({**preset, **given})
    for key, value in preset.items():
        if key not in idle:
            given.setdefault(key, value)
    _follow_encoder(given)


def _follow_encoder(given: dict[str, Any]) -> None:
    """Default the decoder's sizes to the encoder's, as fairseq's Transformer does."""
    for key in ("embed_dim", "ffn_embed_dim"):
        if f"encoder_{key}" in given:
            given.setdefault(f"decoder_{key}", given[f"encoder_{key}"])


def resolve(preset: Mapping[str, Any], config_class: type) -> dict[str, Any]:
    """Return all fields of a configuration with the values of a preset, as a plain dict."""
    given = dict(preset)
    _follow_encoder(given)
    return as_dict(config_class.from_namespace(argparse.Namespace(**given)))


def under_hydra(model: str, config_class: type, preset: Mapping[str, Any]) -> list[str]:
    """Return the words for an architecture in ``fairseq-hydra-train``: its model, and the fields that it changes."""
    defaults, values = as_dict(config_class()), resolve(preset, config_class)
    changed = {"_name": model} | {key: values[key] for key in defaults if values[key] != defaults[key]}
    return [f"+model.{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in changed.items()]


GONE = {"flow_update_interval", "flow_gradient", "evolution_seed"}
"""Options of earlier versions that checkpoints may store and that do not affect a trained model."""


def as_dict(config: Any) -> dict[str, Any]:
    """Return the fields of a configuration, a dataclass or an OmegaConf object, as a dict without ``GONE``."""
    if OmegaConf.is_config(config):
        found = OmegaConf.to_container(config, resolve=True, enum_to_str=True)
        return {name: value for name, value in found.items() if name not in GONE}
    return {f.name: getattr(config, f.name) for f in fields(config)}


EVALUATED = {
    "adaptive_softmax_cutoff": (list, tuple),
    "encoder_xformers_att_config": dict,
    "decoder_xformers_att_config": dict,
}
"""The types of the options that fairseq passes to ``eval`` if they are strings; untrusted checkpoints may set them."""


def literal(key: str, value: Any) -> Any:
    """Return the value of an option in ``EVALUATED``, parsed as a literal if it is a string.

    Another type is refused, because a string within a string would be evaluated, too.
    """
    found = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            found = ast.literal_eval(value)
    if found is not None and not isinstance(found, EVALUATED[key]):
        raise OdeTransformerError(f"{key} must be a plain list or dictionary, got {value!r}")
    return found


def activation_dropout(values: Mapping[str, Any], default: float = 0.0) -> float:
    """Return the dropout after the activation: ``activation_dropout`` or, where that is not set, ``relu_dropout``.

    Hydra, Python code and old checkpoints may use the latter, its old name; on the command line, the old name sets the
    new one. As in fairseq, the default of the new name counts as not set.
    """
    old, new = values.get("relu_dropout"), values.get("activation_dropout")
    return old if old and new in (None, 0, default) else new or 0.0


def to_transformer_config(config: Any, config_class: type) -> TransformerConfig:
    """Convert a flat configuration, a dataclass or an OmegaConf object, to the nested one of fairseq's Transformer.

    The family's own fields become plain attributes of the result.
    """
    values = as_dict(config)
    values.pop("_name", None)
    known = {f.name: f for f in fields(config_class) if f.name != "_name"}
    if unknown := sorted(set(values) - set(known)):
        if "max_positions" in unknown:
            raise OdeTransformerError(
                f"{config_class.__name__} has no field max_positions, which --task sentence_prediction sets: that task "
                "needs an encoder alone, such as floater_roberta_base"
            )
        raise OdeTransformerError(f"{config_class.__name__} has no field {unknown}; it has: {sorted(known)}")
    # Fields that an older checkpoint lacks take their defaults. A field without a value is an error, because a legacy
    # model under hydra finds None there, and silently builds something else.
    values = {name: values.get(name, f.default) for name, f in known.items()}
    missing = [name for name, f in known.items() if values[name] is None and type(None) not in typing.get_args(f.type)]
    if missing:
        raise OdeTransformerError(f"{config_class.__name__} needs a value for {missing}, got none")
    for name, f in known.items():
        if isinstance(f.type, type) and issubclass(f.type, Enum):
            choices = [str(choice.value) for choice in f.type]
            if str(values[name]) not in choices:
                raise OdeTransformerError(f"{name} {values[name]!r}: must be one of {', '.join(choices)}")
            values[name] = str(values[name])
    # An embedding that both sides share has the encoder's width.
    shared = values["share_all_embeddings"] or values["merge_src_tgt_embed"]
    for key in ("decoder_input_dim", "decoder_output_dim"):
        if values[key] is None:
            values[key] = values["encoder_embed_dim" if shared else "decoder_embed_dim"]
    values["activation_dropout"] = activation_dropout(values, known["activation_dropout"].default)
    values |= {key: literal(key, values[key]) for key in EVALUATED}
    return TransformerConfig.from_namespace(argparse.Namespace(**values))
