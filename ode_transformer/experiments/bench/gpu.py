"""Training and decoding on a GPU, in eager mode, with compiled layers and with CUDA graphs, beside stock fairseq.

Every system has a process of its own. In each round the systems warm up at the same time, or a few at a time where
memory is short, and then they are timed in turns, each alone while the others wait. Stock fairseq, in eager mode, takes
part in every round, alone and with our criterion and optimizer; speeds are ratios to the former in its fastest round.
The record is written after every round.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional

import torch
from torch.profiler import ProfilerActivity, profile

from ... import files, machine, markdown
from ...errors import OdeTransformerError
from ...training.graphs import TrainingGraphs
from .systems import MAX_TOKENS, Contestant, Setting, prepare, random_batch, stock_like
from .turns import Process, back_and_forth, forget, seconds

ARCHITECTURES = (
    "macaron_wmt_en_de",
    "ode_residual",
    "rk2",
    "rk2_learnable",
    "rk4",
    "floater_base",
    "transevolve_fullff_2",
)

MODES = {
    "eager": (),
    "layers": ("--compile-layers",),
    "graphs": ("--cuda-graphs",),
    "layers, graphs": ("--compile-layers", "--cuda-graphs"),
}

_TO_MEASURE = 60
"""The seconds that one call of a system that is ready may take, also after the end."""

_TO_COMPILE = 90
"""The seconds without which no round with compiled layers begins."""

_TURNS = 3
"""How often each system is timed in a round."""

_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")


class Round(NamedTuple):
    """A round in one of ``MODES``, with ``at_once`` systems in memory together, beside stock fairseq."""

    setting: Setting
    mode: str
    profiled: bool = False  # a step
    at_once: int = len(ARCHITECTURES) + 1

    @property
    def title(self) -> str:
        """The setting in words."""
        it = self.setting
        if it.what == "decoding":
            return f"decoding, beam {it.beam}, {it.precision}"
        if it.data:
            return f"batches of {MAX_TOKENS:,} tokens, {it.precision}"
        return f"{random_batch(it)['ntokens']:,} tokens, {it.precision}"


def rounds(data: str = "") -> list[Round]:
    """Return the rounds, the most informative first; a folder of binarized data adds rounds on real batches."""
    usual = Setting(sentences=192, tokens=32, shortest=16, symbols=34_040, device="cuda", precision="fp16")
    large = replace(usual, sentences=768, precision="bf16")
    settings = [usual, *([replace(usual, data=data, batches=16)] if data else [])]
    decoding = replace(usual, what="decoding", sentences=64, tokens=24, shortest=12)
    # All systems with large batches, beside trainings, would not fit into the memory of one GPU.
    return [
        *(Round(its, "graphs", its is usual) for its in settings),
        Round(large, "graphs", at_once=2),
        *(Round(its, "eager", its is usual) for its in settings),
        Round(large, "eager", at_once=2),
        Round(decoding, "eager"),
        # What follows is compiled, which takes minutes.
        *(Round(its, "layers, graphs", its is usual) for its in settings),
        Round(large, "layers, graphs", at_once=2),
        Round(usual, "layers", profiled=True),
    ]


def rehearsal() -> list[Round]:
    """Return rounds with small batches for a CPU, which runs the mode of graphs eagerly."""
    small = Setting(sentences=8, tokens=8, shortest=4, symbols=500)
    return [Round(small, "eager"), Round(small, "graphs"), Round(replace(small, what="decoding"), "eager")]


def in_mode(system: Contestant, mode: str) -> Contestant:
    """Return a system with the flags of a mode; stock fairseq stays in eager mode."""
    return system if system.arch == "transformer" else replace(system, flags=(*system.flags, *MODES[mode]))


def _warm_up(kept: SimpleNamespace, system: Contestant, setting: Setting) -> dict[str, float]:
    torch.set_num_threads(1)
    start = time.perf_counter()
    kept.times, (kept.model, kept.run) = [], prepare(system, setting)
    for _ in range(3 if setting.data else 6):
        kept.run()
    if setting.device == "cuda":
        torch.cuda.synchronize()
    return {"warm_up_seconds": round(time.perf_counter() - start, 1)}


def _time(kept: SimpleNamespace, setting: Setting) -> dict[str, float]:
    """Return the milliseconds of a step, of several that follow each other as in training: the median of all turns."""
    steps = setting.batches if setting.data else 1
    again = max(1, 6 // steps) if setting.device == "cuda" else 1

    def back_to_back() -> None:
        for _ in range(again):
            kept.run()

    kept.times.append(1000 * seconds(back_to_back, setting.device) / (again * steps))
    return {"milliseconds": round(statistics.median(kept.times), 2)}


def _finish(kept: SimpleNamespace, setting: Setting, profiled: bool) -> dict[str, Any]:
    """Return the memory of a step on a GPU, its launches and kernels if profiled, and the recording of graphs.

    The system's model is freed.
    """
    found = {}
    if setting.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        kept.run()
        found["peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
        found["reserved_mib"] = round(torch.cuda.max_memory_reserved() / 2**20)  # includes the memory of graphs
        found |= _launches(kept.run) if profiled else {}
    if isinstance(graphs := getattr(kept.model, "graphs", None), TrainingGraphs):
        seen, recorded = len(graphs.seen), len(graphs.recorded)
        if recorded < seen:
            raise OdeTransformerError(f"eager passes were timed, too: {recorded} of {seen} shapes were recorded")
        found |= {"shapes": seen, "recorded": recorded, "recording_seconds": round(graphs.seconds, 1)}
    del graphs  # which hold the model
    forget(kept)
    return found


def _launches(run: Any) -> dict[str, Any]:
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    events, on_gpu = profiler.events(), torch.autograd.DeviceType.CUDA
    microseconds = sum(event.self_device_time_total for event in events if event.device_type == on_gpu)
    launches = sum(event.name.startswith(_LAUNCHES) for event in events)
    return {"launches": launches, "kernels_milliseconds": round(microseconds / 1000, 2)}


def measure(
    output: Path,
    seconds_left: Callable[[], float],
    data: str = "",
    device: str = "cuda",
    alone: Callable[[], AbstractContextManager] = contextlib.nullcontext,
) -> dict[str, Any]:
    """Return the record of architectures beside stock fairseq in the shape of the first; on a CPU, of a rehearsal.

    The record is written after every round in which a system was measured. One that is there already is continued: in
    the end rounds in which some system was not measured are repeated, and replaced if that measures as many or more.

    Args:
        output: JSON file for the record.
        seconds_left: a function that returns the remaining time; when it is over, the round that has begun ends without
            the systems that are not ready.
        data: folder of binarized data, whose batches are measured as well (default: random ones only).
        device: where to measure.
        alone: a function whose context makes everything else on the GPU wait while systems are timed.
    """
    rehearsed = device == "cpu"
    archs, each = (("macaron_tiny", "rk2_tiny"), rehearsal()) if rehearsed else (ARCHITECTURES, rounds(data))
    stock = stock_like(archs[0])
    ours = replace(stock, criterion=Contestant.criterion, optimizer=Contestant.optimizer)
    systems = {"stock": stock, "stock, our criterion and Adam": ours, **{arch: Contestant(arch) for arch in archs}}
    where = "CPU (a rehearsal)" if rehearsed else torch.cuda.get_device_name()
    about: dict[str, Any] = {"what": "gpu", "device": where, "torch": torch.__version__, "commit": machine.commit()}
    record = files.read_json(output) if output.is_file() else {**about, "rounds": []}
    if not isinstance(record, dict) or any(record.get(key) != value for key, value in about.items()):
        raise OdeTransformerError(
            f"{output}: is not a record of this device and version; remove it, or name another file"
        )
    held = {(one["title"], one["mode"]): one for one in record["rounds"]}
    each = [one for one in each if _measured(held.get((one.title, one.mode))) < len(systems)]
    each.sort(key=lambda one: (one.title, one.mode) in held)  # a system that always fails must not keep others waiting
    with contextlib.ExitStack() as stack:
        processes = {
            name: stack.enter_context(contextlib.closing(Process(name, anew=True))) for name in systems if each
        }
        for one in each:
            if seconds_left() <= _TO_COMPILE * ("layers" in one.mode):
                continue
            found = _round(one, systems, processes, seconds_left, alone)
            for name in found:  # anew, because an error of CUDA would stay with its process
                if "error" in found[name] and seconds_left() > 0:
                    processes[name].close()
                    processes[name] = stack.enter_context(contextlib.closing(Process(name, anew=True)))
            new = {"title": one.title, "mode": one.mode, "setting": one.setting.noted(), "systems": found}
            if _measured(new) >= max(1, _measured(held.get((one.title, one.mode)))):
                held[one.title, one.mode] = new
                record["rounds"] = list(held.values())
                files.write_json(output, record)
            print(f"== {one.title}; {one.mode}")
            for name, of_system in found.items():
                print(name, of_system, flush=True)
    return record


def _measured(one: Optional[Mapping[str, Any]]) -> int:
    """Return the number of systems that a round measured; 0 without a round."""
    return sum("error" not in its for its in one["systems"].values()) if one else 0


def _round(
    one: Round,
    systems: Mapping[str, Contestant],
    processes: Mapping[str, Process],
    seconds_left: Callable[[], float],
    alone: Callable[[], AbstractContextManager],
) -> dict[str, dict[str, Any]]:
    """Return the measurements of a round by system."""
    found: dict[str, dict[str, Any]] = {}

    def ask(name: str, function: Callable, *args: Any) -> None:
        if "error" not in found[name]:
            processes[name].begin(function, *args)
            ends = time.monotonic() + _TO_MEASURE  # one that hangs must not keep everything else waiting
            answer = _answer(processes[name], lambda: min(ends - time.monotonic(), seconds_left() + _TO_MEASURE))
            found[name] = answer if "error" in answer else found[name] | answer

    names = [name for name in processes if name != "stock"]
    for few in (names[i : i + one.at_once] for i in range(0, len(names), one.at_once)):
        if found and seconds_left() <= 0:
            break
        timed = ["stock", *few]
        new = [name for name in timed if name not in found]
        for name in new:
            processes[name].begin(_warm_up, in_mode(systems[name], one.mode), one.setting)
        found |= {name: _answer(processes[name], seconds_left) for name in new}
        with alone():
            for name in back_and_forth(timed, _TURNS):
                ask(name, _time, one.setting)
            for name in few:
                ask(name, _finish, one.setting, one.profiled)
    with alone():
        ask("stock", _finish, one.setting, one.profiled)
    return found


def _answer(process: Process, seconds_left: Callable[[], float]) -> dict[str, Any]:
    try:
        return process.answer(seconds_left)
    except OdeTransformerError as error:
        return {"error": str(error)}


def of_stock(record: Mapping[str, Any], title: str) -> float:
    """Return stock fairseq's milliseconds in the fastest round of a setting, 0 if none measured it."""
    found = (one["systems"].get("stock", {}) for one in record["rounds"] if one["title"] == title)
    return min((its["milliseconds"] for its in found if "milliseconds" in its), default=0)


def table(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown: one table per setting, one row per system.

    A cell has the milliseconds of a step, and the speed: stock fairseq's time divided by its own. The cells listed
    under ``disturbed`` in the record are blank.
    """
    parts, disturbed = [], {tuple(each) for each in record.get("disturbed", ())}
    for title in dict.fromkeys(one["title"] for one in record["rounds"]):
        of_mode = {one["mode"]: one["systems"] for one in record["rounds"] if one["title"] == title}
        rows, stock = {name: [name] for systems in of_mode.values() for name in systems}, of_stock(record, title)
        for name, cells in rows.items():
            for mode, systems in of_mode.items():
                own = systems.get(name, {}).get("milliseconds")
                measured = own and stock and (title, mode, name) not in disturbed
                cells.append(f"{own:.1f} ms ({stock / own:.2f})" if measured else "")
        parts.append(f"**{title}**\n\n{markdown.table(('system', *of_mode), rows.values())}")
    return "\n\n".join(parts)
