"""Several systems in turns: a training step as fairseq's trainer takes it, or beam search.

Every system sees the same random sentences, or the same batches of real data, in a process of its own, and has its turn
in every round while the others wait, so that a slow minute slows all. What is reported of a system is the baseline's
time over its own in the same round, the median over rounds and the quartiles, and the ratio of their peaks of memory.
"""

import contextlib
import ctypes
import itertools
import logging
import multiprocessing
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.models import build_model
from fairseq.modules import MultiheadAttention
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from torch import nn

from ...checkpoints.standalone import task
from ...config import PRESETS
from ...errors import OdeTransformerError
from ...modules.evolving_attention import EvolvingAttention
from ...numerics.splitting import SPLITTINGS
from ...paths import PACKAGE
from ...training import criterion
from ..runs.processes import KEEP_FREED_MEMORY
from ..text.binarised import check_data

STOCK = "label_smoothed_cross_entropy"

_MAX_TOKENS = 4096

_SHAPE = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers", "normalize_before")


@dataclass(frozen=True)
class System:
    """A system in a contest: an architecture with flags of fairseq-train, a criterion and an optimizer.

    ``at`` is the position on the axis of a plot, and ``symbols`` the vocabulary size, if that is the axis.
    ``precision`` is that of the setting unless given. All systems but those that are ``unshared`` share all embeddings.
    """

    arch: str
    flags: tuple[str, ...] = ()
    criterion: str = criterion.NAME
    optimizer: str = "fused_adam"
    at: Optional[int] = None
    symbols: Optional[int] = None
    precision: Optional[str] = None
    unshared: bool = False


@dataclass(frozen=True)
class Setting:
    """How systems are measured: ``what`` is training or decoding; sentences of ``shortest`` to ``tokens`` tokens.

    ``data`` is a folder of binarized data, of which training takes so many ``batches`` a turn in place of random
    sentences.
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


def configure(system: System, setting: Setting) -> Any:
    """The configuration that fairseq-train would use.

    Raises:
        OdeTransformerError: there is no such architecture or flag.
    """
    if system.arch != "transformer" and system.arch not in PRESETS:
        raise OdeTransformerError(f"--arch {system.arch}: must be transformer or one of {', '.join(PRESETS)}")
    words = [setting.data or "-", "--arch", system.arch, *([] if system.unshared else ["--share-all-embeddings"])]
    words += ["--user-dir", str(PACKAGE)]
    words += ["--task", "translation", "--criterion", system.criterion, "--label-smoothing", "0.1"]
    words += ["--optimizer", system.optimizer, "--lr", "1e-4", "--clip-norm", "0", "--max-tokens", str(_MAX_TOKENS)]
    words += system.flags
    words += ["--cpu"] if setting.device == "cpu" else []
    precision = system.precision or setting.precision
    words += [f"--{precision}"] if precision in ("fp16", "amp") else []
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    cfg.common.bf16 = precision == "bf16"  # on the command line it means a TPU to fairseq
    return cfg


def stock_like(arch: str, flags: tuple[str, ...] = ()) -> System:
    """Stock fairseq's Transformer in the shape of an architecture, with its dropouts and norms.

    If a layer has two feed-forwards, the stock one is as wide as both, for equal numbers of parameters.
    """
    built = configure(System(arch, flags), Setting()).model
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
    return System("transformer", tuple(words), STOCK, "adam")


def sentences(count: int, tokens: int, shortest: int, symbols: int) -> dict[str, Any]:
    """A batch of random pairs of ``shortest`` to ``tokens`` tokens, as fairseq collates it: sources are padded on the
    left, targets on the right.
    """
    g = torch.Generator().manual_seed(1)
    lengths = torch.randint(shortest or tokens, tokens + 1, (count,), generator=g)
    lengths[0] = tokens
    source, target = torch.randint(4, symbols, (2, count, tokens), generator=g)
    columns = torch.arange(tokens)
    source[columns < tokens - lengths[:, None]] = 1
    target[columns >= lengths[:, None]] = 1
    source[:, -1] = 2
    prev = target.roll(1, dims=1)
    prev[:, 0] = 2
    prev[columns >= lengths[:, None]] = 1
    net_input = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": prev}
    ids = torch.arange(count)
    return {"id": ids, "nsentences": count, "ntokens": int(lengths.sum()), "net_input": net_input, "target": target}


def samples(system: System, setting: Setting) -> tuple[FairseqTask, list[dict[str, Any]]]:
    """A task, and the samples of a system's turn: random sentences, or batches of the setting's data.

    Raises:
        OdeTransformerError: there is no data for training in the folder.
    """
    if not setting.data:
        size = system.symbols or setting.symbols
        return task(size), [sentences(setting.sentences, setting.tokens, setting.shortest, size)]
    check_data(Path(setting.data), "train")
    try:
        its_task = tasks.setup_task(configure(system, setting).task)
        its_task.load_dataset("train")
        batches = its_task.get_batch_iterator(
            its_task.dataset("train"),
            max_tokens=_MAX_TOKENS,
            max_positions=its_task.max_positions(),
            ignore_invalid_inputs=True,
            required_batch_size_multiple=8,
        ).next_epoch_itr()
    except Exception as error:  # that is what fairseq raises where it finds no languages
        raise OdeTransformerError(f"--data {setting.data}: {error}") from error
    if not (found := list(itertools.islice(batches, setting.batches))):
        raise OdeTransformerError(f"--data {setting.data}: has no training sentences")
    return its_task, found


def prepare(system: System, setting: Setting) -> tuple[nn.Module, Callable[[], Any]]:
    """The model of a system, and the function without arguments that is timed."""
    torch.manual_seed(1)
    cfg, (its_task, found) = configure(system, setting), samples(system, setting)
    model = build_model(cfg.model, its_task)
    if setting.what == "training":
        trainer = Trainer(cfg, its_task, model, its_task.build_criterion(cfg.criterion))
        trainer.cuda_env = None  # otherwise fairseq resets PyTorch's peak memory at the end of a step

        def step() -> None:
            with metrics.aggregate(new_root=True):
                for sample in found:
                    trainer.train_step([sample])

        return model, step
    model.to(setting.device).eval()
    if (precision := system.precision or setting.precision) != "fp32":
        model.to({"fp16": torch.float16, "bf16": torch.bfloat16}[precision])
    model.make_generation_fast_(beamable_mm_beam_size=setting.beam, need_attn=False)
    # As many steps as the source has tokens, because a random model has not learned where to stop.
    generator = SequenceGenerator(
        [model],
        its_task.target_dictionary,
        beam_size=setting.beam,
        max_len_a=1,
        max_len_b=0,
        min_len=setting.tokens,
    )
    net_input = {k: found[0]["net_input"][k].to(setting.device) for k in ("src_tokens", "src_lengths")}
    return model, lambda: generator.generate([model], {"net_input": net_input})


def seconds(run: Callable[[], Any], device: str) -> float:
    """The time of a call, in seconds."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _resident(field: str) -> int:
    """The memory of this process in bytes, now (VmRSS) or at its peak (VmHWM)."""
    (kib,) = re.findall(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) * 1024


def peak_of(build: Callable[[], Callable[[], Any]], device: str) -> tuple[int, int]:
    """The peak memory of a second run of what ``build`` returns, in bytes: in total, and of the run alone.

    On a CPU this is the growth of the process, which should have done little else; on a GPU, what PyTorch allocates.
    """
    if device == "cuda":
        run = build()
        run()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        peak = torch.cuda.max_memory_allocated()
        return peak, peak - held
    before = _resident("VmRSS")
    run = build()
    run()
    held = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    run()
    # The kernel counts pages in batches, and may show less than it did before.
    peak = max(_resident("VmHWM"), held)
    return peak - before, peak - held


def evaluations(model: nn.Module, sample: dict[str, Any]) -> dict[str, int]:
    """The number of attentions in a forward pass of encoder and decoder: sub-layers times evaluations of each."""
    counts, hooks = {"encoder": 0, "decoder": 0}, []
    for name, module in model.named_modules():
        if isinstance(module, (MultiheadAttention, EvolvingAttention)):
            side = name.split(".")[0]

            def count(*_: Any, side: str = side) -> None:
                counts[side] += 1

            hooks.append(module.register_forward_hook(count))
    device = next(model.parameters()).device
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        model(**{k: v[:1].to(device) for k, v in sample["net_input"].items()})
    for hook in hooks:
        hook.remove()
    return counts


_SMALL = 2**16  # with it glibc returns freed memory at once


def give_freed_memory_back() -> None:
    """Make glibc return freed memory to the system at once, so that the size of the process is what it uses."""
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # names of malloc.h
    for name in (trim_threshold, top_pad, mmap_threshold):
        ctypes.CDLL(None).mallopt(name, _SMALL)


def _serve(connection: Any, function: Callable, threads: int, *args: Any) -> None:
    torch.set_num_threads(threads)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    try:
        function(connection, *args)
    except (ValueError, RuntimeError) as error:
        connection.send(error)
    except Exception as error:
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


@contextlib.contextmanager
def process(function: Callable, *args: Any) -> Iterator[Any]:
    """A context with a new process that runs ``function(connection, *args)``; its value is our end of it."""
    context = multiprocessing.get_context("forkserver")
    # Imported once, without any threads yet; the first keeps the import of fairseq quiet.
    context.set_forkserver_preload(["ode_transformer.experiments.bench.hushed", __name__])
    os.environ |= KEEP_FREED_MEMORY  # read when the server starts
    ours, theirs = context.Pipe()
    worker = context.Process(target=_serve, args=(theirs, function, torch.get_num_threads(), *args), daemon=True)
    worker.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        worker.join(10)
        worker.kill()


def answer(connection: Any, name: str, message: Any = None) -> Any:
    """The answer of a system's process, after sending it the message if there is one."""
    try:
        if message is not None:
            connection.send(message)
        found = connection.recv()
    except (EOFError, OSError) as error:
        raise OdeTransformerError(f"{name}: its process has died; is there enough memory for all at once?") from error
    if isinstance(found, Exception):
        raise OdeTransformerError(f"{name}: {found}")
    return found


def _take_turns(connection: Any, system: System, setting: Setting) -> None:
    model, run = prepare(system, setting)
    parameters = sum(p.numel() for p in model.parameters())
    connection.send({"parameters": parameters, "evaluations": evaluations(model, samples(system, setting)[1][0])})
    with contextlib.suppress(EOFError):  # until the other side has enough
        while True:
            connection.recv()
            connection.send(seconds(run, setting.device))


def _send_peak(connection: Any, system: System, setting: Setting) -> None:
    give_freed_memory_back()
    connection.send(peak_of(lambda: prepare(system, setting)[1], setting.device))


def speed(baseline: Sequence[float], own: Sequence[float]) -> dict[str, Any]:
    """A system's speed against the baseline's, from the seconds of both in the same rounds.

    Returns:
        The baseline's seconds divided by its own: ``median``, lower and upper ``quartiles``, and ``all``, sorted.
    """
    ratios = sorted(theirs / its for theirs, its in zip(baseline, own, strict=True))
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return {
        "median": round(statistics.median(ratios), 4),
        "quartiles": [round(quartiles[0], 4), round(quartiles[2], 4)],
        "all": [round(ratio, 4) for ratio in ratios],
    }


def median_and_quartiles(speed: dict[str, Any]) -> str:
    """A speed as the tables print it, such as ``1.02 [0.98, 1.10]``."""
    low, high = speed["quartiles"]
    return f"{speed['median']:.2f} [{low:.2f}, {high:.2f}]"


def measure(systems: dict[str, System], setting: Setting, memory: bool = True) -> dict[str, Any]:
    """Measure the time and memory of systems, the first of which is the baseline.

    Returns:
        The measurements, for a record: ``setting``, ``baseline``, and for each of ``systems`` its median ``seconds``,
        ``peak_mib`` (model, optimizer and step) and ``step_mib`` (the step's part of it), ``speed`` (:func:`speed`),
        ``parameters`` and ``evaluations``.
    """
    about: dict[str, dict[str, Any]] = {}
    times: dict[str, list[float]] = {name: [] for name in systems}
    with contextlib.ExitStack() as stack:
        workers = {}
        for name, system in systems.items():
            workers[name] = stack.enter_context(process(_take_turns, system, setting))
            given = {k: v for k, v in asdict(system).items() if v not in (None, False)}
            about[name] = given | answer(workers[name], name)
        for round_ in range(-3, setting.rounds):  # three rounds for warming up, because memory grows over several steps
            for name in list(workers)[:: -1 if round_ % 2 else 1]:
                elapsed = answer(workers[name], name, "your turn")
                if round_ >= 0:
                    times[name].append(elapsed)
    baseline = next(iter(systems))
    for name, system in systems.items():
        about[name]["seconds"] = round(statistics.median(times[name]), 4)
        about[name]["speed"] = speed(times[baseline], times[name])
        if memory:
            with process(_send_peak, system, setting) as worker:
                peaks = answer(worker, name)
            mib = [max(round(peak / 2**20, 1), 0.1) for peak in peaks]
            about[name] |= dict(zip(("peak_mib", "step_mib"), mib, strict=True))
    about_data = {"data": Path(setting.data).name}  # not where a user keeps it
    return {"setting": asdict(setting) | about_data, "baseline": baseline, "systems": about}
