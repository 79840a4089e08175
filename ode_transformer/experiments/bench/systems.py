"""Contests: systems that are compared with a baseline in a setting, by training steps of fairseq's trainer or beam
search. All systems read the same random sentences, or the same batches of binarized data.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import options, tasks
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.models import build_model
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from torch import nn

from ... import markdown
from ...checkpoints.standalone import task
from ...config import PRESETS
from ...errors import OdeTransformerError
from ...numerics.splitting import SPLITTINGS
from ...paths import PACKAGE
from ...training import criterion
from ..text.binarised import check_data
from .turns import describe_hardware, in_turns, median_and_quartiles, peak, speed

STOCK = "label_smoothed_cross_entropy"
MAX_TOKENS = 4096  # per batch of data

_SHAPE = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers", "normalize_before")


@dataclass(frozen=True)
class Contestant:
    """A system in a contest: an architecture with flags of fairseq-train, a criterion and an optimizer."""

    arch: str
    flags: tuple[str, ...] = ()
    criterion: str = criterion.NAME
    optimizer: str = "fused_adam"


@dataclass(frozen=True)
class Setting:
    """A way to measure systems.

    Args:
        what: ``training`` or ``decoding``.
        sentences: sentences per batch.
        tokens: tokens of the longest sentence.
        shortest: tokens of the shortest sentence (default: 0, all are as long as the longest).
        symbols: vocabulary size, including four special symbols.
        beam: beam size.
        rounds: timed rounds.
        device: where to measure.
        precision: precision of the arithmetic.
        data: folder of binarized data, for real batches instead of random ones.
        batches: how many of these training takes in a turn.
    """

    what: str = "training"
    sentences: int = 128
    tokens: int = 32
    shortest: int = 0
    symbols: int = 10_000
    beam: int = 4
    rounds: int = 3
    device: str = "cpu"
    precision: str = "fp32"
    data: str = ""
    batches: int = 2

    def __post_init__(self) -> None:
        if self.shortest > self.tokens:
            raise OdeTransformerError(f"--shortest {self.shortest}: must be at most --tokens, {self.tokens}")
        if self.device == "cpu" and self.precision in ("fp16", "amp"):
            raise OdeTransformerError(f"--precision {self.precision}: needs --device cuda")

    def noted(self) -> dict[str, Any]:
        """Return the setting for a record, with the name of the folder of data only."""
        return asdict(self) | {"data": Path(self.data).name}


def configure(system: Contestant, setting: Setting) -> Any:
    """Return the configuration that fairseq-train would use."""
    if system.arch != "transformer" and system.arch not in PRESETS:
        raise OdeTransformerError(f"--arch {system.arch}: must be transformer or one of {', '.join(PRESETS)}")
    words = [setting.data or "-", "--arch", system.arch, "--share-all-embeddings", "--user-dir", str(PACKAGE)]
    words += ["--task", "translation", "--criterion", system.criterion, "--label-smoothing", "0.1"]
    words += ["--optimizer", system.optimizer, "--lr", "1e-4", "--clip-norm", "0", "--max-tokens", str(MAX_TOKENS)]
    words += system.flags
    words += ["--cpu"] if setting.device == "cpu" else []
    words += [f"--{setting.precision}"] if setting.precision in ("fp16", "amp") else []
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    cfg.common.bf16 = setting.precision == "bf16"  # fairseq takes the flag for a TPU
    return cfg


def stock_like(arch: str, flags: tuple[str, ...] = ()) -> Contestant:
    """Return stock fairseq's Transformer in the shape of an architecture, with the same dropouts and norms.

    If a layer has two feed-forwards, the stock feed-forward is as wide as both, for equal numbers of parameters.
    """
    built = configure(Contestant(arch, flags), Setting()).model
    feed_forwards = SPLITTINGS.named(str(getattr(built, "splitting", "lie-trotter"))).feed_forwards
    words = []
    shape = [f"{side}_{part}" for side in ("encoder", "decoder") for part in _SHAPE]
    for name in (*shape, "dropout", "attention_dropout", "activation_dropout"):
        value, flag = getattr(built, name), f"--{name.replace('_', '-')}"
        if name.endswith("ffn_embed_dim"):
            value *= feed_forwards
        if name.endswith("_layers") and hasattr(built, "evolution_depth"):
            value = built.evolution_blocks * built.evolution_depth
        words += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    return Contestant("transformer", tuple(words), STOCK, "adam")


def beside_stock(setting: Setting, archs: Sequence[str], flags: tuple[str, ...] = ()) -> dict[str, Contestant]:
    """Return stock fairseq's Transformer in the shape of the first architecture, the baseline, and the architectures.

    In training all have both criteria; the architectures have ``flags`` of fairseq-train.
    """
    found = {"stock": stock_like(archs[0], flags), **{arch: Contestant(arch, flags) for arch in archs}}
    if setting.what == "training":
        found["stock, our criterion"] = replace(found["stock"], criterion=Contestant.criterion)
        found |= {f"{arch}, stock criterion": replace(found[arch], criterion=STOCK) for arch in archs}
    return found


def random_batch(of: Setting) -> dict[str, Any]:
    """Return a batch of random pairs of the setting's lengths and symbols, collated by fairseq."""
    g = torch.Generator().manual_seed(1)
    lengths = torch.randint(of.shortest or of.tokens, of.tokens + 1, (of.sentences,), generator=g)
    lengths[0] = of.tokens
    source, target = torch.randint(4, of.symbols, (2, of.sentences, of.tokens), generator=g)
    source[:, -1] = 2
    pairs = enumerate(zip(source, target, lengths.tolist(), strict=True))
    rows = [{"id": i, "source": ours[-n:], "target": theirs[:n]} for i, (ours, theirs, n) in pairs]
    return collate(rows, pad_idx=1, eos_idx=2)


def samples(system: Contestant, setting: Setting) -> tuple[FairseqTask, list[dict[str, Any]]]:
    """Return a task, and the samples of a system's turn: random sentences, or batches of the setting's data."""
    if not setting.data:
        return task(setting.symbols), [random_batch(setting)]
    check_data(Path(setting.data), "train")
    try:
        its_task = tasks.setup_task(configure(system, setting).task)
        its_task.load_dataset("train")
        batches = its_task.get_batch_iterator(
            its_task.dataset("train"),
            max_tokens=MAX_TOKENS,
            max_positions=its_task.max_positions(),
            ignore_invalid_inputs=True,
            required_batch_size_multiple=8,
        ).next_epoch_itr()
    except Exception as error:  # fairseq raises it where it finds no languages
        raise OdeTransformerError(f"--data {setting.data}: {error}") from error
    return its_task, list(itertools.islice(batches, setting.batches))


def prepare(system: Contestant, setting: Setting) -> tuple[nn.Module, Callable[[], Any]]:
    """Return the model of a system, and the function without arguments that is timed."""
    torch.manual_seed(1)
    cfg, (its_task, found) = configure(system, setting), samples(system, setting)
    model = build_model(cfg.model, its_task)
    if setting.what == "training":
        trainer = Trainer(cfg, its_task, model, its_task.build_criterion(cfg.criterion))
        trainer.cuda_env = None  # otherwise fairseq resets PyTorch's peak memory at the end of a step
        trainer.save_checkpoint = lambda *_: None  # at a crash: into the user's folder, or hiding the error

        def step() -> None:
            with metrics.aggregate(new_root=True):
                for sample in found:
                    trainer.train_step([sample], raise_oom=True)  # otherwise fairseq leaves the step out, in no time

        return model, step
    model.to(setting.device).eval()
    model.to({"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[setting.precision])
    model.make_generation_fast_(beamable_mm_beam_size=setting.beam, need_attn=False)
    # As many steps as the longest source has tokens, because a random model has not learned where to stop.
    generator = SequenceGenerator(
        [model], its_task.target_dictionary, beam_size=setting.beam, max_len_a=1, max_len_b=0, min_len=setting.tokens
    )
    net_input = {k: found[0]["net_input"][k].to(setting.device) for k in ("src_tokens", "src_lengths")}
    return model, lambda: generator.generate([model], {"net_input": net_input})


def build(system: Contestant, setting: Setting) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Build a system (see :data:`.turns.Build`), with its number of ``parameters``."""
    model, run = prepare(system, setting)
    return run, {"parameters": sum(p.numel() for p in model.parameters())}


def measure(systems: Mapping[str, Contestant], setting: Setting) -> dict[str, Any]:
    """Return the measurements of systems, the first of which is the baseline, for a record.

    Of each system they have its fields, the facts from :func:`build`, the median ``seconds``, the ``speed``
    (:func:`.turns.speed`), ``peak_mib`` (model, optimizer and step) and ``step_mib`` (the step's part of it).
    """
    baseline, first = next(iter(systems.items()))
    tokens = sum(sample["ntokens"] for sample in samples(first, setting)[1])  # checks the data before a process starts
    builds = {name: partial(build, system, setting) for name, system in systems.items()}
    noted, times = in_turns(builds, setting.rounds, setting.device)
    found = {}
    for name, system in systems.items():
        found[name] = asdict(system) | noted[name]
        found[name] |= {
            "seconds": round(statistics.median(times[name]), 4),
            "speed": speed(times[baseline], times[name]),
        }
        found[name] |= zip(("peak_mib", "step_mib"), peak(name, builds[name], setting.device), strict=True)
    return {"tokens": tokens, "setting": setting.noted(), "baseline": baseline, "systems": found}


def described(record: Mapping[str, Any]) -> str:
    """Describe the setting, the machine and the version of PyTorch of a contest's record."""
    setting = record["setting"]
    if setting.get("data"):
        read = f"{setting.get('batches', 2)} batches of {setting['data']}"
    else:
        lengths = f"{setting['shortest'] or setting['tokens']} to {setting['tokens']} tokens"
        read = f"{setting['sentences']} sentences of {lengths}, {setting['symbols']:,} symbols"
    if setting["what"] == "decoding":
        read += f", beam {setting['beam']}"
    of_each = any(found.get("precision") for found in record["systems"].values())  # in records of earlier versions
    precision = "" if of_each else f"{setting['precision']}, "
    version = record["versions"]["torch"].split("+")[0]
    where = describe_hardware(setting["device"], record["hardware"])
    return f"{read}, {precision}{setting['rounds']} rounds in turns, {where}, PyTorch {version}"


def table(name: str, record: Mapping[str, Any]) -> str:
    """Return a contest's record as Markdown."""
    setting, systems = record["setting"], record["systems"]
    baseline = systems[record["baseline"]]
    decoding = setting["what"] == "decoding"
    amount = setting["sentences"] if decoding else record["tokens"]
    head = ["system", "parameters", "sentences/s" if decoding else "tokens/s"]
    head += [f"speed / {record['baseline']}", "memory, MiB", "of it a step's"]
    rows = []
    for system, found in systems.items():
        rate = amount / found["seconds"]
        memory = (
            f"{found[key]:,.0f} ({found[key] / baseline[key]:.2f})" if key in found else ""
            for key in ("peak_mib", "step_mib")
        )
        cells = [
            system,
            f"{found['parameters']:,}",
            f"{rate:,.{0 if rate >= 100 else 1}f}",
            "1" if found is baseline else median_and_quartiles(found["speed"]),
            *memory,
        ]
        rows.append(cells)
    return f"**{name}**: {setting['what']}; {described(record)}\n\n{markdown.table(head, rows)}"
