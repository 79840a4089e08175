"""Models without their data: the one place where a checkpoint becomes a model, and tasks without words.

A checkpoint's stored options are a stranger's. Stock fairseq evaluates some of them as Python, so that they never
reach it as they are: an architecture of ours is built from its own fields, a stock Transformer through the same flat
configuration, each option a plain value within bounds that the file's own size sets; everything else is refused.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor, nn

from . import bundles, checkpoints
from .checkpoints import CheckpointError
from .config import EVALUATED, FlatTransformerConfig, literal
from .files import sha256
from .models.floater import FloaterConfig, FloaterModel

STOCK = "transformer"
"""The model that fairseq registers its own Transformer as."""

_LEAST = 2**28  # elements that a model may have besides those of its file: tables of sinusoids, say


def task(source: int, target: Optional[int] = None) -> TranslationTask:
    """A translation task with dictionaries of these sizes, special symbols included; one for both if they are equal."""

    def dictionary(symbols: int) -> Dictionary:
        d = Dictionary()
        for i in range(symbols - len(d)):
            d.add_symbol(f"symbol{i}")
        return d

    first = dictionary(source)
    second = first if target in (None, source) else dictionary(target)
    return TranslationTask(TranslationConfig(source_lang="source", target_lang="target"), first, second)


def symbols(state: dict[str, Any], path: str | Path) -> tuple[int, int]:
    """Symbols of the source's and of the target's dictionary of a checkpoint.

    Raises:
        CheckpointError: it is not of an encoder-decoder with embeddings.
    """
    names = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if missing := [name for name in names if name not in state["model"]]:
        raise CheckpointError(f"{path}: holds no encoder-decoder: it has no {', '.join(missing)}")
    source, target = (len(state["model"][name]) for name in names)
    return source, target


@contextmanager
def named(what: str) -> Iterator[None]:
    """Turn errors of any kind, which options of a stranger's checkpoint may cause, into one that says where."""
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
    """Which model a checkpoint is of, and its options as plain values.

    Returns:
        the registered name of a model of ours, or ``STOCK``; and the options that its flat configuration has.

    Raises:
        CheckpointError: it holds no configuration of its model, is of an architecture that is neither ours nor the
            stock Transformer, or has an option that is no plain value of a size that the file can account for.
    """
    stored = checkpoints.options(state, "model")
    if not stored:
        raise CheckpointError(f"{path}: holds no configuration of its model")
    name = stored.get("_name") or stored.get("arch")
    model = ARCH_MODEL_NAME_REGISTRY.get(name, name) if isinstance(name, str) else None
    ours = getattr(MODEL_REGISTRY.get(model), "__module__", "").startswith(f"{__package__}.")
    if not ours and model != STOCK:
        raise CheckpointError(
            f"{path}: is of architecture {_short(name)}; must be one of ours or a Transformer of stock fairseq"
        )
    known = {f.name for f in fields(MODEL_DATACLASS_REGISTRY[model] if ours else FlatTransformerConfig)} - {"_name"}
    if ours and not state.get("args") and (unknown := sorted(set(stored) - known - {"_name"})):
        raise CheckpointError(f"{path}: its model {model} has unknown options: {', '.join(unknown)[:200]}")
    options = {name: value for name, value in stored.items() if name in known}
    most = len(state["model"])  # a layer has a tensor at least; what is too wide, open_state finds
    for name, value in options.items():
        plain = value is None or isinstance(value, (bool, int, float, str)) or name in EVALUATED
        if not plain or (isinstance(value, str) and len(value) > 1000):
            raise CheckpointError(f"{path}: its option {name} is {_short(value)}, must be a plain value")
        if isinstance(value, (int, float)) and re.search("(layers|blocks|depth)$", name) and not value <= most:
            raise CheckpointError(f"{path}: its option {name} is {value}, more than its {most} tensors")
    with named(str(path)):
        options |= {name: literal(name, options[name]) for name in EVALUATED if name in options}
    # What was read from a file of embeddings is in the checkpoint.
    return model, options | {k: None for k in ("encoder_embed_path", "decoder_embed_path") if k in known}


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else f"a {type(value).__name__}"
    return text if len(text) < 100 else f"{text[:100]}..."


def _elements(tensors: Any) -> int:
    return sum(tensor.numel() for tensor in tensors)


def stock_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a stock Transformer, under the names of today."""
    options = {name: value for name, value in options.items() if name != "arch"}
    # The old name counts, as in fairseq, where the new one says nothing.
    if (old := options.pop("relu_dropout", 0)) and not options.get("activation_dropout"):
        options["activation_dropout"] = old
    return options


def open_state(state: dict[str, Any], path: str | Path) -> nn.Module:
    """The encoder-decoder that a loaded checkpoint holds, in training mode.

    Raises:
        CheckpointError: as :func:`open_model`.
    """
    model_name, options = model_options(state, path)
    task_ = task(*symbols(state, path))

    def build() -> nn.Module:
        if model_name == STOCK:
            return FloaterModel.build_model(FloaterConfig(position_encoder="none", **stock_options(options)), task_)
        config = MODEL_DATACLASS_REGISTRY[model_name].from_namespace(argparse.Namespace(**options))
        return MODEL_REGISTRY[model_name].build_model(config, task_)

    return _opened(build, state, path, "a Transformer of stock fairseq" if model_name == STOCK else model_name)


def _opened(build: Callable[[], nn.Module], state: dict[str, Any], path: str | Path, kind: str) -> nn.Module:
    with named(f"{path}: cannot be built as {kind}"):
        with torch.device("meta"):  # nothing is allocated for what the file does not fit
            outline = build()
            tensors = [*outline.parameters(), *outline.buffers()]
            if _elements(tensors) > _elements(state["model"].values()) + _LEAST:
                raise CheckpointError(f"{path}: is much smaller than the model that its options ask for")
        outline.load_state_dict(dict(state["model"]))
        model = build()
        model.load_state_dict(dict(state["model"]))
    return model


def open_model(path: str | Path) -> nn.Module:
    """The encoder-decoder of a checkpoint or bundle, in evaluation mode: of ours, or fairseq's own Transformer in our
    layers.

    Raises:
        CheckpointError: it cannot be read, is of another architecture, or does not fit the options that it holds.
    """
    return open_state(load(path), path).eval()


def load(path: str | Path) -> dict[str, Any]:
    """What a checkpoint, or the folder of a bundle, holds; raises as of :func:`.checkpoints.load`."""
    return bundles.load(path) if bundles.is_bundle(path) else checkpoints.load(path)


HEAD = "sentence_classification_head"
"""The head that fairseq's criterion ``sentence_prediction`` trains."""


def open_classifier(path: str | Path) -> nn.Module:
    """The encoder of a checkpoint with its head ``HEAD``, in evaluation mode.

    Raises:
        CheckpointError: it cannot be read, is of no encoder of ours with that head, or does not fit its options.
    """
    state = checkpoints.load(path)
    model_name, options = model_options(state, path)
    names = ("encoder.embed_tokens.weight", f"classification_heads.{HEAD}.out_proj.weight")
    model = MODEL_REGISTRY[model_name]
    if not hasattr(model, "register_classification_head") or not all(name in state["model"] for name in names):
        raise CheckpointError(f"{path}: is of {model_name}, or lacks {' or '.join(names)}: must be of a classifier")
    size, classes = (len(state["model"][name]) for name in names)

    def build() -> nn.Module:
        config = MODEL_DATACLASS_REGISTRY[model_name].from_namespace(argparse.Namespace(**options))
        built = model.build_model(config, task(size))
        built.register_classification_head(HEAD, classes)
        return built

    return _opened(build, state, path, model_name).eval()


def check_dictionaries(checkpoint: str | Path, data: str | Path) -> None:
    """Refuse dictionaries other than those that the run of a checkpoint was trained with.

    Another one of the same size fits, and decodes to garbage. ``ode-transformer run`` notes the dictionaries in
    ``run.json``, in the folder of the run; without it nothing is known, and nothing checked.

    Args:
        checkpoint: in the folder of its run.
        data: the folder of binarised data, or one dictionary.

    Raises:
        CheckpointError: a dictionary is missing or another; names it.
    """
    data, run = Path(data), Path(checkpoint).parent / "run.json"
    if not run.is_file():
        return
    with named(f"{run}: does not say the dictionaries of its training"):
        trained = dict(json.loads(run.read_text(encoding="utf-8"))["dictionaries"])
    files = [data / name for name in trained] if data.is_dir() else [data]
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file}: not there, {checkpoint} was trained with a dictionary of that name")
        digest = sha256(file)
        if digest not in trained.values() or trained.get(file.name, digest) != digest:
            raise CheckpointError(f"{file}: is another dictionary than the one that {checkpoint} was trained with")


def source_of(path: Path, dictionary: Path, count: int) -> dict[str, Tensor]:
    """What an encoder-decoder is called with to read prepared sentences, one per line: ``src_tokens`` (B, T), padded on
    the left, and the rest; its decoder sees the beginning alone.

    Raises:
        CheckpointError: a file is not there or cannot be read, or holds no sentences.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")[:count]
        symbols = Dictionary.load(str(dictionary))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}, {dictionary}: {error}") from error
    rows = [symbols.encode_line(line, add_if_not_exist=False).long() for line in lines if line.strip()]
    if not rows:
        raise CheckpointError(f"{path}: holds no sentences")
    tokens = torch.full((len(rows), max(map(len, rows))), symbols.pad())
    for row, words in zip(tokens, rows, strict=True):
        row[len(row) - len(words) :] = words
    lengths = tokens.ne(symbols.pad()).sum(1)
    beginning = torch.full((len(rows), 1), symbols.eos())
    return {"src_tokens": tokens, "src_lengths": lengths, "prev_output_tokens": beginning}
