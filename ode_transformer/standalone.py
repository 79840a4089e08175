"""Models without their data: a task of dictionaries that have sizes and no words, and what a checkpoint holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf
from torch import Tensor, nn

from . import checkpoints
from .checkpoints import CheckpointError


def task(source: int, target: Optional[int] = None) -> TranslationTask:
    """A translation task with dictionaries of so many symbols, special ones included; one for both if they agree."""

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
        CheckpointError: it is of no encoder-decoder with embeddings.
    """
    names = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if missing := [name for name in names if name not in state["model"]]:
        raise CheckpointError(f"{path}: is of no encoder-decoder, it has no {', '.join(missing)}")
    source, target = (len(state["model"][name]) for name in names)
    return source, target


@contextmanager
def named(what: str) -> Iterator[None]:
    """Errors of fairseq's and of ours, which options of a stranger's checkpoint may cause, as one that says where."""
    try:
        yield
    except CheckpointError:
        raise
    except (ValueError, RuntimeError, AssertionError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(f"{what}: {error or type(error).__name__}") from error


def open_model(path: str | Path) -> nn.Module:
    """The encoder-decoder of a checkpoint, in evaluation mode.

    Raises:
        CheckpointError: it cannot be read, or holds no encoder-decoder that is known here.
    """
    state = checkpoints.load(path)
    config = (state.get("cfg") or {}).get("model") or state.get("args")
    if config is None:
        raise CheckpointError(f"{path}: holds no configuration of its model")
    if isinstance(config, dict):
        config = OmegaConf.create(config, flags={"allow_objects": True})
    with named(f"{path}: cannot be built"):
        model = build_model(config, task(*symbols(state, path)))
        model.load_state_dict(state["model"])
    return model.eval()


def source_of(path: Path, dictionary: Path, count: int) -> dict[str, Tensor]:
    """What an encoder-decoder is called with to read prepared sentences, one a line: ``src_tokens`` (B, T), padded on
    the left, and the rest; its decoder sees the beginning alone.

    Raises:
        CheckpointError: a file is not there or cannot be read, or holds no sentences.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[:count]
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
