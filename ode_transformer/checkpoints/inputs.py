"""Prepared text as the inputs of trained models, outside of training."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from torch import Tensor, nn

from ..errors import OdeTransformerError
from . import CheckpointError
from .standalone import errors_about


def read_texts(files: Sequence[tuple[str | Path, str | Path]], count: int) -> list[list[Tensor]]:
    """Return the first lines of parallel texts as indices of symbols (T,), the end of the sentence last, for each text.

    ``files`` are each text and its dictionary. Lines that are blank in one of the texts are left out.
    """
    texts = []
    for path, dictionary in files:
        with errors_about(str(path)), open(path, encoding="utf-8-sig", newline="\n") as file:
            lines = [line.removesuffix("\n") for line in itertools.islice(file, count)]
        with errors_about(str(dictionary)):
            symbols = Dictionary.load(str(dictionary))
        texts.append([symbols.encode_line(line, add_if_not_exist=False).long() for line in lines])
    names, lengths = ", ".join(str(path) for path, _ in files), [len(text) for text in texts]
    if len(set(lengths)) > 1:
        raise CheckpointError(f"{names}: have {', '.join(map(str, lengths))} lines, must be parallel")
    rows = [row for row in zip(*texts, strict=True) if all(len(sentence) > 1 for sentence in row)]
    if not rows:
        raise CheckpointError(f"{names}: holds no sentences")
    return [list(text) for text in zip(*rows, strict=True)]


def what_was_read(files: Sequence[tuple[str | Path, str | Path]], texts: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return entries of a record: the files ``text`` and perhaps ``target``, and the number of ``sentences`` read."""
    return {**dict(zip(("text", "target"), (text for text, _ in files), strict=False)), "sentences": len(texts[0])}


def stacks(model: nn.Module) -> dict[str, nn.Module]:
    """Return the encoder and the decoder of a model by name; a language model has one of them."""
    found = {side: getattr(model, side) for side in ("encoder", "decoder") if hasattr(model, side)}
    return {side: getattr(stack, "sentence_encoder", stack) for side, stack in found.items()}  # inside RoBERTa's


def inputs_of(model: nn.Module, texts: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
    """Return the inputs of a model for sentences, as in training.

    An encoder-decoder reads the source, and in its decoder the target or, without one, only the beginning of a
    sentence. A language model reads the text in blocks of ``--tokens-per-sample``, as with fairseq's
    ``--sample-break-mode none``. A masked language model reads sentence by sentence, with nothing masked. ``texts`` are
    the source and perhaps the target, from :func:`read_texts`; the result are ``src_tokens`` (B, S) and, for an
    encoder-decoder, ``src_lengths`` (B,) and ``prev_output_tokens`` (B, T).
    """
    (source, *target), found = texts, stacks(model)
    symbols = next(iter(found.values())).dictionary
    pad, eos = symbols.pad(), symbols.eos()
    if target and len(found) == 1:
        raise OdeTransformerError("--target: must be left out, a language model reads --text alone")
    if "encoder" not in found:
        text = torch.cat((torch.tensor([eos]), *source))[:-1]
        return {"src_tokens": collate_tokens(text.split(model.decoder.cfg.tokens_per_sample), pad)}
    if "decoder" not in found:
        beginning = torch.tensor([symbols.bos()])
        return {"src_tokens": collate_tokens([torch.cat((beginning, sentence)) for sentence in source], pad)}
    tokens = collate_tokens(source, pad, left_pad=True)
    before = torch.full((len(source), 1), eos)
    if target:
        before = collate_tokens(target[0], pad, eos, move_eos_to_beginning=True)
    return {"src_tokens": tokens, "src_lengths": tokens.ne(pad).sum(1), "prev_output_tokens": before}


def observed(model: nn.Module, net_input: dict[str, Tensor]) -> dict[str, tuple[nn.Module, Tensor]]:
    """Return the stacks of a model that read text, by name, each with a mask of its tokens (T, B), false at padding.

    A decoder that is given only the beginning of a sentence is left out.
    """
    source = net_input["src_tokens"]
    tokens = {"encoder": source, "decoder": net_input.get("prev_output_tokens", source)}
    return {
        side: (stack, tokens[side].ne(stack.padding_idx).t())
        for side, stack in stacks(model).items()
        if tokens[side].size(1) > 1
    }
