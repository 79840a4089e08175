"""Warm start: a checkpoint of one of our architectures that continues a stock Transformer or RoBERTa of fairseq.

FLOATER's training begins with one (paper, section 3.3 and appendices B.2 and B.3). Every tensor of the stock model is
copied to the new model; what the stock model lacks is set so that nothing changes, where the mathematics allows it::

    FLOATER                       dynamics of zero (their last layer)
    Runge-Kutta, scalars          weights (1, 0, ...), relative positions of zero, no history
    DenseFormer                   weights of the identity, relative positions of zero
    Macaron                       FFN_a = 0, W2 and b2 of FFN_b doubled, so that half a step of it is the whole FFN

Both models are then run on the same sentences, and a result that differs is refused unless ``--approximate`` is given:

    gates                         near (1, 0), but ``second-order`` at random; a moving average stays at a = 1/2
    learned history               each layer reads only the one before it, normalized
"""

import argparse
import difflib
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import options as fairseq_options
from fairseq.checkpoint_utils import _upgrade_state_dict
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from fairseq.models import MODEL_REGISTRY
from omegaconf import OmegaConf
from torch import nn

from .. import checkpoints
from ..config import PRESETS, FlatTransformerConfig, add_flags, flag, resolve
from ..models.masked_lm import MaskedLanguageModel
from ..modules.history import LearnableDense
from ..numerics.coefficients import Gates, Scalars
from ..numerics.flow import Flow
from ..numerics.splitting import SPLITTINGS
from . import CheckpointError, standalone
from .standalone import STOCK, Stock, errors_about

_SHAPE = ("embed_dim", "attention_heads", "layers", "ffn_embed_dim")
_OPEN = 5.0  # of a gate before its activation: a sigmoid of 0.993
EQUAL = 1e-5  # of logits, computed in double precision


@dataclass(frozen=True)
class Report:
    """The outcome of a warm start: (name, shape, outcome) of every tensor, the source's unused tensors, the largest
    difference of logits from the source's, and the flags for training.
    """

    tensors: list[tuple[str, tuple[int, ...], str]]
    unused: list[str]
    difference: float
    flags: list[str]

    @property
    def details(self) -> str:
        """A line for every tensor."""
        lines = [f"{what:>10}  {name}  {tuple(shape)}" for name, shape, what in self.tensors]
        return "\n".join(lines + [f"{'unused':>10}  {name}" for name in self.unused])

    def __str__(self) -> str:
        kinds = Counter(what for _, _, what in self.tensors)
        kinds["unused"] = len(self.unused)
        lines = [f"tensors: {'; '.join(f'{count} {what}' for what, count in kinds.items())}"]
        lines.append(f"largest difference of a logit from the source's, on random sentences: {self.difference:.1e}")
        if self.flags:
            lines.append(f"fairseq-train needs: {shlex.join(self.flags)}")
        return "\n".join(lines)


def warm_start(
    source: str | Path,
    output: str | Path,
    arch: str,
    flags: Sequence[str] = (),
    *,
    approximate: bool = False,
    data: str | Path | None = None,
) -> Report:
    """Write a checkpoint of ``arch`` that computes what a checkpoint of a stock Transformer or RoBERTa computes.

    The optimizer and the counters start from zero. The architecture's sizes have to be the checkpoint's; other options
    of the stock Transformer (norms, sharing of embeddings, dropout) are taken from it unless ``flags`` say otherwise.

    Of ``flags``, as for fairseq-train, those of the model take effect. ``data``, the first of several folders separated
    by colons, must have the checkpoint's vocabulary sizes. A model that does not equal its source is refused unless
    ``approximate`` is set; nothing is written then.
    """
    if Path(output).resolve() == Path(source).resolve():
        raise CheckpointError(f"--output {output}: must not be the checkpoint itself")
    state = standalone.load(source)
    model, options = standalone.model_options(state, source)
    if model not in STOCK:
        raise CheckpointError(f"{source}: is {model}; must be {' or '.join(stock.what for stock in STOCK.values())}")
    stock, options = STOCK[model], standalone.stock_options(model, options)
    sizes = standalone.dictionary_sizes(state, source)
    if data is not None:
        _check_dictionaries(Path(str(data).split(":")[0]), state, sizes, source)
    with torch.random.fork_rng(devices=[]):
        task_, before = standalone.task(*sizes), standalone.open_state(state, source)
        model_name, values = _target(arch, flags, stock, options, source)
        torch.manual_seed(1)
        with errors_about(f"{source} cannot become {arch}"):
            after = MODEL_REGISTRY[model_name].build_model(PRESETS[arch][1](**values), task_)
    outcomes = _transfer(before, after, source, arch, values)
    with errors_about(f"{source} cannot become {arch}"):
        difference = _difference(before, after, sizes)
    if not difference <= EQUAL and not approximate:  # NaN counts as different
        others = [f"{flag(k)} {values[k]}, of the checkpoint {its}" for k, its in options.items() if values[k] != its]
        raise CheckpointError(
            f"{source} cannot become {arch} exactly with these options: {'; '.join([*others, 'logits differ by'])} "
            f"{difference:.1e}. docs/warm-start.md says what can; --approximate writes it nevertheless"
        )
    checkpoints.save(_state(state, model_name, values, after, source), output)
    left_out = r"(.*_float_tensor|classification_heads\..*)"
    unused = [name for name in state["model"] if re.fullmatch(left_out, name)]
    tensors = [(name, tuple(tensor.shape), outcomes[name]) for name, tensor in after.state_dict().items()]
    return Report(tensors, unused, difference, needed(arch, values))


def needed(arch: str, values: Mapping[str, Any]) -> list[str]:
    """Return the flags that fairseq-train needs besides ``--arch`` for a model with these options, dropout included."""
    model, config_class, preset = PRESETS[arch]
    usual = resolve(preset, config_class)
    alone = issubclass(MODEL_REGISTRY[model], MaskedLanguageModel)  # without a decoder; --max-positions is its length
    flags = []
    for name, value in values.items():
        if alone and re.match("decoder_|max_(source|target)_positions", name):
            continue
        if name in ("arch", "_name") or value is None or value == usual[name] or str(value) == str(usual[name]):
            continue
        if name in ("decoder_input_dim", "decoder_output_dim") and value == values["decoder_embed_dim"]:
            continue
        flags.append(flag(name, value) if isinstance(value, bool) else f"{flag(name)}={value}")
    return flags


def _check_dictionaries(data: Path, state: dict, sizes: tuple[int, int], source: Any) -> None:
    """Refuse data with other dictionaries than those of the checkpoint."""
    standalone.check_dictionaries(source, data)
    trained = checkpoints.options(state, "task")
    languages = [trained.get("source_lang"), trained.get("target_lang")]
    if not all(languages):  # trained without -s and -t: fairseq takes what the data are called, and so it does here
        languages = infer_language_pair(str(data))
    wanted = {data / f"dict.{language or '*'}.txt": size for language, size in zip(languages, sizes, strict=True)}
    for path in (data / "input0" / "dict.txt", data / "dict.txt"):
        if path.is_file():  # of one text: the task adds <mask>
            wanted = {path: sizes[0] - 1}
    for path, size in wanted.items():
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file; {source} needs a dictionary of that name")
        if (found := len(Dictionary.load(str(path)))) != size:
            raise CheckpointError(f"{path}: has {found} symbols, {source} was trained with {size}")


def _target(arch: str, flags: Sequence[str], stock: Stock, options: dict, source: Any) -> tuple[str, dict[str, Any]]:
    """Return the registered model of an architecture, and the value of every option."""
    if arch not in PRESETS:
        near = difflib.get_close_matches(arch, PRESETS, 3)
        more = f"; the nearest are {', '.join(near)}" if near else ""
        raise CheckpointError(f"--arch {arch}: is none of this package's {len(PRESETS)} architectures{more}")
    model_name, config_class, preset = PRESETS[arch]
    if not issubclass(MODEL_REGISTRY[model_name], stock.family):
        raise CheckpointError(f"--arch {arch}: has no place for the tensors of {source}, {stock.what}")
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, exit_on_error=False, allow_abbrev=False)
    add_flags(parser, config_class())
    try:
        given, unknown = parser.parse_known_args(list(flags))
    except argparse.ArgumentError as error:
        raise CheckpointError(f"{error}") from error
    if unknown:  # These may be flags of training; let fairseq decide.
        try:
            fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), ["-", "--arch", arch, *flags])
        except SystemExit as error:
            raise CheckpointError(f"fairseq-train --arch {arch} does not take {' '.join(unknown)}") from error
    explicit = {k: v for k, v in vars(given).items() if v is not None}
    values = resolve(dict(preset) | explicit, config_class)
    names = [f"{side}_{size}" for side in stock.sides for size in _SHAPE]
    sizes = {name: options.get(name, getattr(FlatTransformerConfig(), name)) for name in names}
    if misfits := {name: theirs for name, theirs in sizes.items() if values[name] != theirs}:
        fitting = " ".join(f"{flag(name)} {theirs}" for name, theirs in misfits.items())
        raise CheckpointError(
            f"--arch {arch}: must have the sizes of {source}; take an architecture of that size, or add -- {fitting}"
        )
    values |= {**{k: v for k, v in options.items() if k not in explicit}, "arch": arch}
    values.pop("_name", None)
    return model_name, values


def _transfer(before: nn.Module, after: nn.Module, source: Any, arch: str, values: dict) -> dict[str, str]:
    """Fill the new model's tensors from the old one's, the dynamics with zeros; return the outcome for every tensor."""
    old, new = before.state_dict(), after.state_dict()
    outcomes, used, misfits = {}, set(), {}
    flows = {n for n, m in after.named_modules() if isinstance(m, Flow)}
    splitting = SPLITTINGS.named(str(values["splitting"]))
    whole = 1 / [fraction for flow, fraction in splitting if flow == "G"][-1]  # makes the last FFN's part all of it
    with torch.no_grad():
        for name, tensor in new.items():
            theirs, what = old.get(name), "new"
            if theirs is not None and theirs.shape == tensor.shape:
                scaled = whole != 1 and re.search(r"\.fc2\.(weight|bias)$", name)
                tensor.copy_(whole * theirs if scaled else theirs)
                what = ("doubled" if whole == 2 else f"times {whole:g}") if scaled else "copied"
                used.add(name)
            elif name.rpartition(".")[0] in flows:
                if name.endswith(("weight2", "time2", "bias2")):
                    tensor.zero_()
                    what = "new, zero"
            elif re.search(r"\.(macaron_fc2\.(weight|bias)|segments\.weight)$", name) or ".relative_position_" in name:
                tensor.zero_()
                what = "new, zero"
            elif theirs is not None:
                misfits[name] = f"{name} is {tuple(theirs.shape)}, must be {tuple(tensor.shape)}"
            outcomes[name] = what
        _near_euler(after, outcomes)
    problems = [misfits.get(name, f"{name} has no place") for name in old if name not in used]
    if problems:
        more = f"; and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise CheckpointError(f"{source} does not fit {arch}: {'; '.join(problems[:8])}{more}")
    return outcomes


def _near_euler(after: nn.Module, outcomes: dict[str, str]) -> None:
    """Set coefficients and histories as near to the plain step as possible."""
    for name, module in after.named_modules():
        if isinstance(module, Scalars):
            module.weight.copy_(torch.eye(len(module.weight))[0])
            outcomes[f"{name}.weight"] = "new, (1, 0, ...)"
        elif isinstance(module, Gates):
            module.gate.weight.zero_()
            closed = 0.0 if module.activation is torch.tanh else -_OPEN
            module.gate.bias.copy_(torch.tensor([_OPEN, closed])[: len(module.gate.bias)])
            outcomes |= {f"{name}.gate.weight": "new, zero", f"{name}.gate.bias": "new, open"}
        elif isinstance(module, LearnableDense):
            module.weight.copy_(torch.eye(len(module.weight)))
            outcomes[f"{name}.weight"] = "new, identity"


@torch.no_grad()
def _difference(before: nn.Module, after: nn.Module, symbols: tuple[int, int]) -> float:
    """Return the largest difference of two models' logits, in double precision, on random sentences with padding."""
    generator = torch.Generator().manual_seed(1)
    reads = isinstance(before, MaskedLanguageModel)
    longest = before.max_positions()  # of an encoder-decoder, those of each side
    width = min(12, *([longest] if reads else longest))
    lengths = torch.tensor([width, (width + 2) // 2, 1])
    source, target = (torch.randint(4, max(n, 5), (3, width), generator=generator) for n in symbols)
    pad, eos = 1, 2
    for i, n in enumerate(lengths.tolist()):
        source[i, : width - n], source[i, -1], target[i, 0], target[i, n:] = pad, eos, eos, pad
    source, target = source.clamp(max=symbols[0] - 1), target.clamp(max=symbols[1] - 1)
    logits = []
    for model in (before, after):
        model.double().eval()
        logits.append(model(source)[0] if reads else model(source, lengths, target)[0])
        model.float()
    real = (source if reads else target) != pad
    return float((logits[0] - logits[1])[real].abs().max())


def _state(state: dict, model_name: str, values: dict, after: nn.Module, source: Any) -> dict[str, Any]:
    """Return the new checkpoint, before the first update of the first epoch."""
    fresh = {
        "optimizer_history": [{"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
    }
    config = state.get("cfg")
    if not config:
        with errors_about(f"{source}: its args cannot be read"):
            config = _upgrade_state_dict({"args": state["args"], **fresh})["cfg"]
            config = OmegaConf.to_container(config, enum_to_str=True)
    config = {**config, "model": {"_name": model_name, **values}}
    return {"cfg": config, "args": None, "model": after.state_dict(), **fresh, "warm_started_from": Path(source).name}
