"""Models without their data: the one place where a checkpoint becomes a model.

The options stored in a checkpoint are untrusted. Stock fairseq evaluates some of them as Python, so that they never
reach it as they are: an architecture of ours is built from its own fields, a stock Transformer through the same flat
configuration, each option a plain value within bounds that the file's own size sets; everything else is refused.
"""

import argparse
import re
import typing
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY, FairseqLanguageModel
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig, QuantNoiseConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from .. import checkpoints, plugins
from ..config import EVALUATED, GONE, FlatTransformerConfig, activation_dropout, literal
from ..files import read_json, sha256
from ..models.classification import EncoderClassifier
from ..models.floater import FloaterModel
from ..models.masked_lm import MaskedLanguageModel, MaskedLanguageModelConfig
from ..models.transformer import SplitTransformerConfig, SplitTransformerModel
from ..schema import lacks
from . import CheckpointError, bundles, hugging_face


class Stock(NamedTuple):
    """A model of fairseq's own that can be opened."""

    what: str  # for messages
    model: type  # the model of ours that it is built as
    fixed: dict[str, Any]  # options that make the two equal
    family: type  # the models that a warm start can turn it into
    sides: tuple[str, ...] = ("encoder", "decoder")


STOCK = {
    "transformer": Stock(
        "a Transformer of stock fairseq", FloaterModel, {"position_encoder": "none"}, SplitTransformerModel
    ),
    "roberta": Stock("a RoBERTa of stock fairseq", MaskedLanguageModel, {}, MaskedLanguageModel, ("encoder",)),
}
"""The models of fairseq's own that can be opened, by the name that it registers them as."""

_READERS = ("encoder.sentence_encoder", "decoder.sentence_encoder")  # of RoBERTa; the latter in its first years
_OF_ROBERTA = {f.name for f in fields(MaskedLanguageModelConfig)} - {f.name for f in fields(SplitTransformerConfig)}
_ROBERTAS_OWN = (
    *("activation_fn", "encoder_learned_pos", "encoder_normalize_before", "layernorm_embedding", "no_scale_embedding"),
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
)

# Of a stock Transformer, fairseq-generate also reads, and evaluates, nested options and those without a side's prefix.
_PARTS = (EncDecBaseConfig, DecoderConfig, QuantNoiseConfig)
_NESTED = {"encoder", "decoder", "quant_noise", *(f.name for part in _PARTS for f in fields(part))} - {"_name"}

# Options that matter in training alone, which our models do not have, and their values in evaluation.
_OF_TRAINING = {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "offload_activations": False}

# Solvers of earlier versions. In evaluation a flow is solved to 1e-5 by whichever solver there is.
_FORMER_FLOW_METHODS = ("heun3", "heun2", "euler")

_ALLOWANCE = 2**28  # elements that a model may have besides those in its file, such as tables of sinusoids


def task(source: int, target: int | None = None) -> TranslationTask:
    """Return a translation task with dictionaries of these sizes, special symbols included; equal sizes share one."""

    def dictionary(symbols: int) -> Dictionary:
        d = Dictionary()
        for i in range(symbols - len(d)):
            d.add_symbol(f"symbol{i}")
        return d

    first = dictionary(source)
    second = first if target in (None, source) else dictionary(target)
    return TranslationTask(TranslationConfig(source_lang="source", target_lang="target"), first, second)


def _rows(state: dict[str, Any], name: str, path: str | Path) -> int:
    """Return the number of rows of a matrix of a checkpoint, such as the number of symbols."""
    if name not in state["model"]:
        raise CheckpointError(f"{path}: has no {name}")
    shape = state["model"][name].shape
    if len(shape) != 2 or not all(shape):
        raise CheckpointError(f"{path}: {name} is of shape {tuple(shape)}, must have rows and columns")
    return shape[0]


def dictionary_sizes(state: dict[str, Any], path: str | Path) -> tuple[int, int]:
    """Return the sizes of a checkpoint's source and target dictionaries; a masked language model's own twice."""
    for reader in _READERS:
        if (name := f"{reader}.embed_tokens.weight") in state["model"]:
            rows = _rows(state, name, path)
            return rows, rows
    names = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if missing := [name for name in names if name not in state["model"]]:
        raise CheckpointError(f"{path}: holds no encoder-decoder: it has no {', '.join(missing)}")
    source, target = (_rows(state, name, path) for name in names)
    return source, target


@contextmanager
def errors_about(what: str) -> Iterator[None]:
    """Turn any error, such as options of an untrusted checkpoint cause, into a ``CheckpointError`` about ``what``."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, (ArithmeticError, LookupError, TypeError, AttributeError)):
            message = f"{type(error).__name__}: {message}"
        raise CheckpointError(f"{what}: {message if len(message) < 600 else f'{message[:600]} ...'}") from error


def model_options(state: dict[str, Any], path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the registered name of a model of ours, or one of ``STOCK``, and the options of its flat configuration.

    Other architectures are refused, and so is an option that is not a plain value of a size that the file accounts for.
    """
    with _plugin_named(state, path):
        return _model_options(state, path)


@contextmanager
def _plugin_named(state: dict[str, Any], path: str | Path) -> Iterator[None]:
    """Name in a ``CheckpointError`` the plugin that the checkpoint was trained with, if it is not loaded."""
    try:
        yield
    except CheckpointError as error:
        if name := plugins.missing(checkpoints.options(state, "common").get("user_dir")):
            raise CheckpointError(f"{path}: needs the plugin {name}: give --user-dir, its folder ({error})") from error
        raise


def _architecture(stored: dict[str, Any], path: str | Path) -> tuple[str, bool]:
    """Return the registered name of the model with these options, and whether it is ours; else it is in ``STOCK``."""
    names = [name for name in (stored.get("_name"), stored.get("arch")) if name] or [None]
    models = [ARCH_MODEL_NAME_REGISTRY.get(name, name) if isinstance(name, str) else None for name in names]
    kinds = ", ".join(stock.what for stock in STOCK.values())
    if absent := next((n for n, m in zip(names, models, strict=True) if n and m not in MODEL_REGISTRY), ""):
        said = f"must be one of ours, {kinds}, or of a plugin that is installed or given as --user-dir"
        raise CheckpointError(f"{path}: is of architecture {_short(absent)}; {said}")
    if len(set(models)) > 1:  # fairseq reads one or the other
        raise CheckpointError(f"{path}: is of architectures {_short(names[0])} and {_short(names[1])}; must be of one")
    name, model = names[0], models[0]
    ours = model in MODEL_DATACLASS_REGISTRY and plugins.registered(MODEL_REGISTRY.get(model))
    if not ours and model not in STOCK:
        raise CheckpointError(f"{path}: is of architecture {_short(name)}; must be one of ours, {kinds}")
    return model, ours


def _model_options(state: dict[str, Any], path: str | Path) -> tuple[str, dict[str, Any]]:
    stored = checkpoints.options(state, "model")
    if not stored:
        raise CheckpointError(f"{path}: holds no configuration of its model")
    model, ours = _architecture(stored, path)
    known = {f.name: f.type for f in fields(MODEL_DATACLASS_REGISTRY[model] if ours else FlatTransformerConfig)}
    if model == "roberta":
        known |= {f.name: f.type for f in fields(MaskedLanguageModelConfig) if f.name in _OF_ROBERTA}
        del known["sentence_pairs"]
    del known["_name"]
    if ours and not state.get("args") and (unknown := sorted(set(stored) - {*known, *GONE, "_name"})):
        raise CheckpointError(f"{path}: its model {model} has unknown options: {', '.join(unknown)[:200]}")
    if not ours and (nested := sorted(name for name in _NESTED if stored.get(name) is not None)):
        raise CheckpointError(f"{path}: its model {model} has options that are not read here: {', '.join(nested)}")
    # What was read from a file of embeddings is in the checkpoint, and so are heads, which tasks add.
    idle = {"encoder_embed_path": None, "decoder_embed_path": None, "freeze": None, "load_checkpoint_heads": ours}
    idle = {name: value for name, value in (idle | _OF_TRAINING).items() if name in known}
    options = {name: value for name, value in stored.items() if name in known and name not in idle}
    for name, value in options.items():
        kind = next((kind for kind in typing.get_args(known[name]) if kind is not type(None)), known[name])
        if value is not None and name not in EVALUATED and not _is_of(value, kind):
            must = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "a short string")
            raise CheckpointError(f"{path}: its option {name} is {_short(value)}, must be {must}")
    most = len(state["model"])  # Each layer has at least one tensor; `open_state` checks widths.
    counts = {
        name: x for name, x in options.items() if isinstance(x, int) and re.search("(layers|blocks|depth)$", name)
    }
    counts["layers in all blocks"] = counts.get("evolution_blocks", 0) * counts.get("evolution_depth", 0)
    if wrong := next((name for name, count in counts.items() if count > most), ""):
        raise CheckpointError(f"{path}: its option {wrong} is {counts[wrong]}, more than its {most} tensors")
    with errors_about(str(path)):
        options |= {name: literal(name, options[name]) for name in EVALUATED if name in options}
    for reader in _READERS:  # The length may come from the task, not from the model's options.
        if (name := f"{reader}.embed_positions.weight") in state["model"] and "max_positions" in known:
            options["max_positions"] = _rows(state, name, path) - 2
    if "flow_method" in known and options.get("flow_method") in _FORMER_FLOW_METHODS:
        options["flow_method"] = "rk4"
    return model, options | idle


def _is_of(value: Any, kind: type) -> bool:
    """Whether an option has the type of its field; choices are strings here, and numbers may lack a fraction."""
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (bool, int):
        return type(value) is kind
    return type(value) is str and len(value) <= 1000 and "$" not in value  # with which OmegaConf would look things up


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else f"a {type(value).__name__}"
    return text if len(text) < 100 else f"{text[:100]}..."


def stock_options(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of one of ``STOCK`` under their current names."""
    options = {name: value for name, value in options.items() if name != "arch"}
    if model == "roberta":  # whose defaults some of our architectures do not have; years ago they were not stored
        usual = MaskedLanguageModelConfig()
        options = {name: getattr(usual, name) for name in _ROBERTAS_OWN} | options
    if "relu_dropout" in options:
        options["activation_dropout"] = activation_dropout(options)
        del options["relu_dropout"]
    return options


def open_state(state: dict[str, Any], path: str | Path, heads: bool = False) -> nn.Module:
    """Return the encoder-decoder or language model, masked or not, of a loaded checkpoint, in training mode.

    With ``heads``, classifiers and the classification heads of stock models are opened, too. Without it, classifiers
    are refused and the heads of stock models are left out; those of our masked language models are always opened.
    """
    with _plugin_named(state, path):
        name, options = _model_options(state, path)
        stock, kind = STOCK.get(name), MODEL_REGISTRY[name]
        classifier = heads and issubclass(kind, EncoderClassifier)
        if classifier or issubclass(kind, FairseqLanguageModel):
            task_ = task(_rows(state, f"{'encoder' if classifier else 'decoder'}.embed_tokens.weight", path))
        else:
            task_ = task(*dictionary_sizes(state, path))

        def build() -> nn.Module:
            if stock is not None:
                config = stock.model.config_class(**stock.fixed, **stock_options(name, options))
                if heads:
                    config.load_checkpoint_heads = True
                return stock.model.build_model(config, task_)
            built = kind.build_model(
                MODEL_DATACLASS_REGISTRY[name].from_namespace(argparse.Namespace(**options)), task_
            )
            head = f"classification_heads.{HEAD}.out_proj.weight"
            if classifier and head in state["model"]:  # as fairseq's task adds it
                built.register_classification_head(HEAD, _rows(state, head, path))
            return built

        with errors_about(f"{path}: cannot be built as {stock.what if stock else name}"):
            with torch.device("meta"):  # nothing is allocated for what the file does not fit
                outline = build()
            needed = sum(tensor.numel() for tensor in (*outline.parameters(), *outline.buffers()))
            if needed > sum(tensor.numel() for tensor in state["model"].values()) + _ALLOWANCE:
                raise CheckpointError(f"{path}: is much smaller than the model that its options ask for")
            with warnings.catch_warnings():  # that nothing is copied: only names and shapes are compared
                warnings.simplefilter("ignore")
                outline.load_state_dict(dict(state["model"]))
            model = build()
            model.load_state_dict(dict(state["model"]))
        return model


def open_model(path: str | Path) -> nn.Module:
    """Load a model in evaluation mode, by :func:`load` and :func:`open_state`."""
    return open_state(load(path), path).eval()


def load(path: str | Path) -> dict[str, Any]:
    """Load the state of a bundle's folder, of a RoBERTa's ``model.safetensors``, or else of a checkpoint."""
    if bundles.is_bundle(path):
        return bundles.load(path)
    return (hugging_face if Path(path).suffix == ".safetensors" else checkpoints).load(path)


def pair_form(state: dict[str, Any], path: str | Path, *task_names: str) -> dict[str, int | None]:
    """Return the form of the pairs of texts that a model was trained on, with one of these tasks.

    It is ``init_token``, the symbol before the first text, and ``separator_token``, one more between them; each may be
    None.
    """
    trained = checkpoints.options(state, "task")
    name = trained.get("_name") or trained.get("task")
    if name not in task_names:
        raise CheckpointError(f"{path}: was trained with --task {_short(name)}, must be {' or '.join(task_names)}")
    form = {key: trained.get(key) for key in ("init_token", "separator_token")}
    names = [f"{reader}.embed_tokens.weight" for reader in (*_READERS, "encoder")]
    count = _rows(state, next((name for name in names if name in state["model"]), names[-1]), path)
    for key, symbol in form.items():
        if symbol is not None and not (type(symbol) is int and 0 <= symbol < count):
            raise CheckpointError(
                f"{path}: its option {key} is {_short(symbol)}, must be the number of a symbol, or none"
            )
    return form


HEAD = "sentence_classification_head"
"""The head that fairseq's criterion ``sentence_prediction`` trains."""


def check_dictionaries(checkpoint: str | Path, data: str | Path) -> bool:
    """Refuse dictionaries other than those that a checkpoint was trained with; return whether they could be checked.

    Another dictionary of the same size fits, but decodes to garbage. ``ode-transformer run`` notes the dictionaries in
    ``run.json``, beside the checkpoint; without that file nothing is checked. ``data`` is the folder of binarized data,
    or one dictionary.
    """
    data, run = Path(data), Path(checkpoint).parent / "run.json"
    if not run.is_file():
        return False
    held = read_json(run, CheckpointError)
    if wrong := lacks(held, {"dictionaries": {str: str}}):
        raise CheckpointError(f"{run}: does not say the dictionaries of its training: {wrong}")
    trained = held["dictionaries"]
    files = [data / name for name in trained] if data.is_dir() else [data]
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file}: no such file; {checkpoint} was trained with a dictionary of that name")
        digest = sha256(file)
        if digest not in trained.values() or trained.get(file.name, digest) != digest:
            raise CheckpointError(f"{file}: is not the dictionary that {checkpoint} was trained with")
    return True
