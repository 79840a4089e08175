"""RoBERTa in the layout of Hugging Face's library: ``model.safetensors`` with ``config.json`` beside it.

It is the same model under other names, with the same numbers for the symbols, so a table of names turns it into the
checkpoint that fairseq would have written. Such a file contains no code.
"""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import read_json
from ..schema import at_least_one, lacks, must_be, one_of
from . import CheckpointError, load_tensors

_TOP = {
    "roberta.embeddings.word_embeddings.weight": "sentence_encoder.embed_tokens.weight",
    "roberta.embeddings.position_embeddings.weight": "sentence_encoder.embed_positions.weight",
    "roberta.embeddings.LayerNorm": "sentence_encoder.layernorm_embedding",
    "lm_head.dense": "lm_head.dense",
    "lm_head.layer_norm": "lm_head.layer_norm",
    "lm_head.bias": "lm_head.bias",
}
_LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
_LEFT_OUT = r"roberta\.pooler\..*|lm_head\.decoder\.(weight|bias)"
_OPTIONS = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "encoder_embed_dim",
    "intermediate_size": "encoder_ffn_embed_dim",
    "num_attention_heads": "encoder_attention_heads",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "hidden_act": "activation_fn",
}
"""Hugging Face's options, and fairseq's names of them."""

_FORM = {
    **dict.fromkeys(list(_OPTIONS)[:4], (..., at_least_one)),
    **dict.fromkeys(
        list(_OPTIONS)[4:6],
        (..., must_be(lambda p: type(p) in (int, float) and 0 <= p < 1, "a number from 0 to below 1")),
    ),
    "hidden_act": (..., str),
    "tie_word_embeddings": (..., bool),
    # Settings that are not options here, and the only value of each that is read.
    "model_type": (..., one_of("roberta")),
    "pad_token_id": (..., one_of(1)),
    "layer_norm_eps": one_of(1e-5),
    "position_embedding_type": (..., one_of("absolute")),
    "is_decoder": (..., one_of(False)),
    "add_cross_attention": (..., one_of(False)),
}


def load(path: str | Path) -> dict[str, Any]:
    """Load a RoBERTa, with ``config.json`` beside it, as the state of a fairseq checkpoint in single precision.

    Raises:
        CheckpointError: a file is missing or damaged, or is of another model.
    """
    path = Path(path)
    options, tensors = _options(path.with_name("config.json")), load_tensors(path)
    tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith("position_ids")}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise CheckpointError(f"{path}: {name[:200]} is of type {tensor.dtype}: must be of floating-point numbers")
        tensors[name] = tensor.float()
    model = {_renamed(path, name): tensor for name, tensor in tensors.items() if not re.fullmatch(_LEFT_OUT, name)}
    # RoBERTa has one type of token, whose embedding is added at every position.
    kind = model.pop("token_type", None)
    if kind is not None:
        positions = "encoder.sentence_encoder.embed_positions.weight"
        if positions not in model or kind.shape != (1, *model[positions].shape[1:]):
            raise CheckpointError(f"{path}: token_type_embeddings of {tuple(kind.shape)}: must be of one kind of token")
        model[positions] = model[positions] + kind
    embeddings = "encoder.sentence_encoder.embed_tokens.weight"
    if embeddings not in model:
        raise CheckpointError(f"{path}: has no roberta.embeddings.word_embeddings.weight")
    model["encoder.lm_head.weight"] = _head(path, tensors, model[embeddings], options["untie_weights_roberta"])
    bias = tensors.get("lm_head.decoder.bias")
    if bias is not None and not torch.equal(model.setdefault("encoder.lm_head.bias", bias), bias):
        raise CheckpointError(f"{path}: lm_head.bias and lm_head.decoder.bias are not equal, but stand for one bias")
    return {"model": model, "args": None, "cfg": {"model": {"_name": "roberta", **options}, "task": {}}}


def _head(path: Path, tensors: dict[str, Tensor], embeddings: Tensor, untied: bool) -> Tensor:
    """Return the matrix that predicts symbols: the embeddings, or a separate one."""
    own = tensors.get("lm_head.decoder.weight")
    if own is None:
        if untied:
            raise CheckpointError(f"{path}: has no lm_head.decoder.weight, but tie_word_embeddings is false")
        return embeddings
    if not untied and not torch.equal(own, embeddings):
        raise CheckpointError(f"{path}: lm_head.decoder.weight is not the embeddings, but tie_word_embeddings is true")
    return own if untied else embeddings


def _options(path: Path) -> dict[str, Any]:
    config = read_json(path, CheckpointError)
    if isinstance(config, dict):
        config = {"layer_norm_eps": 1e-12, **config}  # Hugging Face's default
    if wrong := lacks(config, _FORM):
        raise CheckpointError(f"{path}: {wrong}")
    options = {ours: config[theirs] for theirs, ours in _OPTIONS.items() if theirs in config}
    return {**options, "untie_weights_roberta": not config.get("tie_word_embeddings", True)}


def _renamed(path: Path, name: str) -> str:
    if name == "roberta.embeddings.token_type_embeddings.weight":
        return "token_type"
    if name in _TOP:
        return f"encoder.{_TOP[name]}"
    stem, _, part = name.rpartition(".")
    if stem in _TOP:
        return f"encoder.{_TOP[stem]}.{part}"
    layer = re.fullmatch(r"roberta\.encoder\.layer\.(\d{1,4})\.(.+)", stem)
    if layer is None or layer[2] not in _LAYER:
        raise CheckpointError(f"{path}: {name[:200]} is not a tensor of a RoBERTa with a head for masked symbols")
    return f"encoder.sentence_encoder.layers.{layer[1]}.{_LAYER[layer[2]]}.{part}"
