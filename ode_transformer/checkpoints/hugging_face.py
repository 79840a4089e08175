"""RoBERTa in the layout of Hugging Face's library: ``model.safetensors`` with ``config.json`` beside it.

It is the same model under other names, with the same numbers for the symbols, so a table of names turns it into the
checkpoint that fairseq would have written. Such a file contains no code.
"""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from ..schema import checked_json, one_of
from . import CheckpointError, load_tensors

_TOP = {
    "roberta.embeddings.word_embeddings.weight": "sentence_encoder.embed_tokens.weight",
    "roberta.embeddings.position_embeddings.weight": "sentence_encoder.embed_positions.weight",
    "roberta.embeddings.LayerNorm": "sentence_encoder.layernorm_embedding",
    "lm_head.dense": "lm_head.dense",
    "lm_head.layer_norm": "lm_head.layer_norm",
    "lm_head.decoder.bias": "lm_head.bias",  # some files name the one bias twice
    "lm_head.bias": "lm_head.bias",
    "lm_head.decoder.weight": "lm_head.weight",
    "roberta.embeddings.token_type_embeddings.weight": "token_type",
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
_LEFT_OUT = r"roberta\.pooler\.|roberta\.embeddings\.position_ids$"
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

_FORM = {  # settings that are not options here, and the only value of each that is read
    "model_type": one_of("roberta"),
    "pad_token_id": (..., one_of(1)),
    "layer_norm_eps": one_of(1e-5),
    "position_embedding_type": (..., one_of("absolute")),
    "is_decoder": (..., one_of(False)),
}


def load(path: str | Path) -> dict[str, Any]:
    """Load a RoBERTa, with ``config.json`` beside it, as the state of a fairseq checkpoint in single precision.

    The options are as they stand in the file; opening the state checks them as those of any checkpoint.

    Raises:
        CheckpointError: a file is missing or damaged, or is of another model.
    """
    path = Path(path)
    config = checked_json(path.with_name("config.json"), _FORM, "is of another model", CheckpointError)
    tensors = load_tensors(path)
    options: dict[str, Any] = {ours: config[theirs] for theirs, ours in _OPTIONS.items() if theirs in config}
    options["untie_weights_roberta"] = config.get("tie_word_embeddings") is False
    model = {_renamed(path, name): tensor.float() for name, tensor in tensors.items() if not re.match(_LEFT_OUT, name)}
    positions, kinds = "encoder.sentence_encoder.embed_positions.weight", model.pop("encoder.token_type", None)
    if kinds is not None and positions in model:  # RoBERTa has one type of token, whose embedding is added everywhere
        if kinds.shape != (wanted := (1, *model[positions].shape[1:])):
            raise CheckpointError(f"{path}: token_type_embeddings are of shape {tuple(kinds.shape)}, must be {wanted}")
        model[positions] = model[positions] + kinds
    if not options["untie_weights_roberta"]:
        tied = model.get("encoder.sentence_encoder.embed_tokens.weight")
        own = model.setdefault("encoder.lm_head.weight", tied)
        if tied is None or not torch.equal(own, tied):
            raise CheckpointError(
                f"{path}: lm_head.decoder.weight must be the embeddings unless tie_word_embeddings is false"
            )
    args = Namespace(arch="roberta", task="masked_lm", criterion="masked_lm", data="", **options)
    return {"model": model, "args": args, "cfg": None}


def _renamed(path: Path, name: str) -> str:
    if name in _TOP:
        return f"encoder.{_TOP[name]}"
    stem, _, part = name.rpartition(".")
    if stem in _TOP:
        return f"encoder.{_TOP[stem]}.{part}"
    layer = re.fullmatch(r"roberta\.encoder\.layer\.(\d{1,4})\.(.+)", stem)
    if layer is None or layer[2] not in _LAYER:
        raise CheckpointError(f"{path}: {name[:200]} is not a tensor of a RoBERTa with a head for masked symbols")
    return f"encoder.sentence_encoder.layers.{layer[1]}.{_LAYER[layer[2]]}.{part}"
