"""The contest on a GPU: training steps in eager mode, with compiled layers and with CUDA graphs, beside stock fairseq.

Every system has a process of its own, in which it is trained in one mode after the other. In each round all systems
warm up side by side, and then each is timed alone while the others wait; stock fairseq, in eager mode, takes part in
every round, and speeds are ratios to it in the same round. What is measured is on disk after every round.
"""

import argparse
import gc
import json
import logging
import multiprocessing
import os
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Optional

import torch
from torch.profiler import ProfilerActivity, profile

from ... import files, machine
from .. import markdown
from .contest import Setting, System, prepare, stock_like

SYSTEMS = ("macaron_wmt_en_de", "ode_residual", "rk2", "rk2_learnable", "rk4", "floater_base", "transevolve_fullff_2")

MODES = {
    "eager": (),
    "layers": ("--compile-layers",),
    "graphs": ("--cuda-graphs",),
    "layers, graphs": ("--compile-layers", "--cuda-graphs"),
}

_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")


@dataclass(frozen=True)
class Round:
    """What all systems are measured in at the same time: a setting by its title, a mode, and whether to profile."""

    title: str
    setting: Setting
    mode: str
    profiled: bool


def rounds(data: str, cpu: bool) -> list[Round]:
    """The rounds, the most informative first.

    Args:
        data: a folder of binarized data, for rounds on real batches; none if it is empty.
        cpu: rehearse on a CPU, with small batches.
    """
    if cpu:
        usual = large = Setting(sentences=8, tokens=8, shortest=4, symbols=500)
        real = replace(usual, data=data, batches=2)
    else:
        usual = Setting(sentences=192, tokens=32, shortest=16, symbols=34_040, device="cuda", precision="fp16")
        large = replace(usual, sentences=768, precision="bf16")
        real = replace(usual, data=data, batches=16)
    settings = {"4,570 tokens, fp16": usual, "18,381 tokens, bf16": large}
    settings |= {"batches of 4,096 tokens, fp16": real} if data else {}
    order = [(mode, title) for title in settings for mode in ("eager", "graphs")]
    order += [("layers, graphs", title) for title in settings] + [("layers", next(iter(settings)))]
    settings["decoding, beam 4, fp16"] = replace(usual, what="decoding", sentences=64, tokens=24, shortest=12)
    order.insert(2 * len(settings) - 2, ("eager", list(settings)[-1]))
    return [Round(t, settings[t], mode, settings[t] is usual and not cpu) for mode, t in order[: 2 if cpu else None]]


def _mode(system: System, mode: str) -> System:
    # Stock fairseq has one mode; it is measured again in every round, because the host's speed varies.
    return system if system.arch == "transformer" else replace(system, flags=(*system.flags, *MODES[mode]))


def _measure(run: Callable[[], Any], steps: int, cuda: bool, profiled: bool) -> dict[str, Any]:
    """What a run of ``steps`` steps takes: milliseconds a step, memory and, if asked, launches and kernels of a run."""
    wait = torch.cuda.synchronize if cuda else lambda: None
    again = max(1, 6 // steps) if cuda else 1
    times = []
    for _ in range(3 if steps == 1 else 2):
        wait()
        start = time.perf_counter()
        for _ in range(again):  # back to back, as in training
            run()
        wait()
        times.append((time.perf_counter() - start) / (again * steps))
    found = {"milliseconds": round(1000 * statistics.median(times), 2)}
    if not cuda:
        return found
    torch.cuda.reset_peak_memory_stats()
    run()
    found["peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
    found["reserved_mib"] = round(torch.cuda.max_memory_reserved() / 2**20)  # with the memory of graphs
    if not profiled:
        return found
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        wait()
    kernels, launches = Counter(), 0
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels[event.name] += event.self_device_time_total
        launches += event.name.startswith(_LAUNCHES)
    found |= {
        "launches": launches,
        "kernels_milliseconds": round(sum(kernels.values()) / 1000, 2),
        "longest": {name[:120]: round(t / 1000, 3) for name, t in kernels.most_common(16)},
    }
    return found


def _serve(connection: Any, system: System, each: Sequence[Round]) -> None:
    """Take part in the rounds: warm up, say so, wait for the turn, measure, answer."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    torch.set_num_threads(1)
    for one in each:
        cuda = one.setting.device == "cuda"
        try:
            start = time.perf_counter()
            model, run = prepare(_mode(system, one.mode), one.setting)
            steps = one.setting.batches if one.setting.data else 1
            for _ in range(3 if one.setting.data else 6):
                run()
            if cuda:
                torch.cuda.synchronize()
            connection.send({"warm_up_seconds": round(time.perf_counter() - start, 1)})
            connection.recv()
            found = _measure(run, steps, cuda, one.profiled)
            graphs = getattr(model, "graphs", None)
            if graphs is not None:
                found |= {"shapes": len(graphs.seen), "recorded": len(graphs.recorded)}
            connection.send(found)
        except Exception as error:
            connection.send({"error": f"{type(error).__name__}: {error}"[-2000:]})
        model = run = graphs = None
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()


def measure(systems: dict[str, System], each: Sequence[Round], out: Path, seconds: float) -> dict[str, Any]:
    """Measure systems, the first of which is the baseline, and write the record after every round.

    Args:
        systems: by name.
        each: the rounds.
        out: the file of the record.
        seconds: when to stop; a round that has begun ends first, without the systems that are not ready by then.
    """
    end = time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")  # a forked process could not use CUDA
    workers = {}
    for name, system in systems.items():
        ours, theirs = context.Pipe()
        worker = context.Process(target=_serve, args=(theirs, system, each), daemon=True)
        worker.start()
        workers[name] = (worker, ours)
    record: dict[str, Any] = {
        "what": "gpu",
        "device": _device(),
        "torch": torch.__version__,
        "commit": machine.commit(),
    }
    record["rounds"] = []
    for one in each:
        if time.monotonic() > end or not workers:
            break
        found = _warmed_up(workers, end)
        _turns(workers, found, end)
        record["rounds"].append(
            {"title": one.title, "mode": one.mode, "setting": asdict(one.setting), "systems": found}
        )
        files.write_text(out, json.dumps(record, indent=1) + "\n")
        print(_lines(record["rounds"][-1]), flush=True)
    for worker, _ in workers.values():
        worker.kill()
    return record


def _warmed_up(workers: dict[str, Any], end: float) -> dict[str, Any]:
    """What each system says when it has warmed up; one that is not ready in time is given up."""
    found: dict[str, Any] = {}
    for name, (worker, connection) in list(workers.items()):
        found[name] = _answer(connection, end)
        if found[name] is None:
            found[name] = {"error": "was not ready in time"}
            worker.kill()
            del workers[name]
    return found


def _turns(workers: dict[str, Any], found: dict[str, Any], end: float) -> None:
    """Measure one system after the other, and add what they say to ``found``."""
    for name, (_, connection) in workers.items():
        if "error" not in found[name]:
            connection.send("your turn")
            found[name] |= _answer(connection, end + 60) or {"error": "did not end in time"}


def _answer(connection: Any, end: float) -> Optional[dict[str, Any]]:
    try:
        return connection.recv() if connection.poll(max(0.1, end - time.monotonic())) else None
    except (EOFError, OSError):
        return {"error": "its process has died"}


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU (a rehearsal)"


def _lines(one: dict[str, Any]) -> str:
    """A round as text, one line per system."""
    stock = next(iter(one["systems"].values())).get("milliseconds")
    lines = [f"== {one['title']}; {one['mode']}"]
    for name, found in one["systems"].items():
        if "error" in found:
            lines.append(f"{name:22} {found['error'][-300:]}")
            continue
        speed = f"{stock / found['milliseconds']:.2f}" if stock else "?"
        more = " ".join(f"{key} {value}" for key, value in found.items() if key != "longest")
        lines.append(f"{name:22} speed {speed} {more}")
    return "\n".join(lines)


def table(record: dict[str, Any]) -> str:
    """The record as Markdown: one table per setting, one row per system.

    A cell has the milliseconds of a step, and the speed, stock fairseq's time in the same round divided by its own. A
    cell that ``disturbed`` names is left out.
    """
    parts, disturbed = [], {tuple(each) for each in record.get("disturbed", ())}
    for title in dict.fromkeys(one["title"] for one in record["rounds"]):
        of_mode = {one["mode"]: one["systems"] for one in record["rounds"] if one["title"] == title}
        rows = []
        for name in dict.fromkeys(name for systems in of_mode.values() for name in systems):
            cells = []
            for mode, systems in of_mode.items():
                own, stock = systems.get(name, {}), next(iter(systems.values()))
                if "milliseconds" not in own or "milliseconds" not in stock or (title, mode, name) in disturbed:
                    cells.append("")
                    continue
                cells.append(f"{own['milliseconds']:.1f} ms ({stock['milliseconds'] / own['milliseconds']:.2f})")
            rows.append((name, *cells))
        parts.append(f"**{title}**\n\n{markdown.table(('system', *of_mode), rows)}")
    return "\n\n".join(parts)


def launches(record: dict[str, Any]) -> str:
    """What the record says of single steps, as Markdown: kernels, launches and memory, one row per system and mode."""
    rows = []
    for one in record["rounds"]:
        for name, found in one["systems"].items():
            if "launches" in found and (name != "stock" or one["mode"] == "eager"):
                kernels = f"{found['kernels_milliseconds']:.1f} ms"
                if [one["title"], one["mode"], name] in record.get("disturbed", ()):
                    kernels = ""
                memory = f"{found['reserved_mib']:,} MiB"
                rows.append((name, one["mode"], f"{found['launches']:,}", kernels, memory))
    return markdown.table(
        ("system", "mode", "launches", "kernels", "reserved memory"), sorted(rows, key=lambda r: r[0])
    )


def run(args: argparse.Namespace) -> int:
    """Run ``ode-transformer bench gpu``."""
    cpu = args.device == "cpu"
    archs = ["macaron_tiny", "rk2_tiny"] if cpu else SYSTEMS
    systems = {"stock": stock_like(archs[0]), **{arch: System(arch) for arch in archs}}
    record = measure(systems, rounds(args.data or "", cpu), Path(args.output), 60 * args.minutes)
    print(table(record))
    return 0 if record["rounds"] else 1
