"""The benchmark suite: the contests, and the thresholds that systems have to reach.

A contest is a baseline, systems compared with it, and a setting. ``ode-transformer bench suite`` runs contests and
writes one record per contest; ``ode-transformer bench table`` renders the records. Systems use our criterion, and some
contests have each system with the stock criterion too. The baseline is stock fairseq, unless it is one of our systems.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ...models import transevolve
from .. import markdown, recipes
from ..recipes import plain_yaml
from ..tasks.task import flags
from .contest import STOCK, Setting, System, median_and_quartiles, stock_like


class Bar(NamedTuple):
    """Thresholds relative to the baseline: the least speed, and the most memory, model and optimizer included."""

    speed: Optional[float] = None
    memory: Optional[float] = None


@dataclass(frozen=True)
class Contest:
    """A contest.

    ``systems`` returns the systems by name, the baseline first. It is a function because the shape of a stock system is
    computed from another architecture. ``of_precisions``: each system has a precision of its own.
    """

    title: str
    systems: Callable[[], dict[str, System]]
    setting: Setting
    bars: dict[str, Bar] = field(default_factory=dict)
    of_precisions: bool = False


def _both(*archs: str) -> dict[str, System]:
    """Architectures with our criterion and with the stock one."""
    found = {}
    for arch in archs:
        found |= {arch: System(arch), f"{arch}, stock criterion": System(arch, criterion=STOCK)}
    return found


def _beside_stock(*archs: str, like: str = "", more: Optional[dict[str, System]] = None) -> Callable[[], dict]:
    """Architectures and the stock Transformer in the shape of one of them (the first), all with both criterions."""

    def systems() -> dict[str, System]:
        stock = stock_like(like or archs[0])
        ours = replace(stock, criterion=System.criterion)
        return {"stock": stock, "stock, our criterion": ours, **(more or {}), **_both(*archs)}

    return systems


def _ours(*archs: str) -> Callable[[], dict[str, System]]:
    """Architectures with our criterion only, or in decoding, and the stock Transformer in the shape of the first."""
    return lambda: {"stock": stock_like(archs[0]), **{arch: System(arch) for arch in archs}}


def _deep() -> dict[str, System]:
    stock = stock_like("rk2", ("--encoder-layers", "12"))
    return {"stock 12-6": stock, "rk2 6-6": System("rk2"), "rk2 6-6, stock criterion": System("rk2", criterion=STOCK)}


def _recomputing() -> dict[str, System]:
    again = ("--checkpoint-activations",)
    recomputing = {f"{arch}, recomputing": System(arch, again) for arch in ("rk2", "rk4")}
    return {"ode_residual": System("ode_residual"), "rk2": System("rk2"), "rk4": System("rk4"), **recomputing}


def _depths() -> dict[str, System]:
    archs = ("macaron_tiny", "ode_residual_tiny", "rk2_tiny", "rk4_tiny")
    return {
        f"{arch} {depth}": System(arch, ("--encoder-layers", str(depth), "--decoder-layers", "2"), at=depth)
        for arch in archs
        for depth in (2, 4, 8, 16)
    }


def _vocabularies() -> dict[str, System]:
    stock = stock_like("floater_tiny")
    return {
        f"{name} {symbols}": replace(stock, criterion=criterion, at=symbols, symbols=symbols)
        for name, criterion in (("stock criterion", STOCK), ("in chunks", System.criterion))
        for symbols in (5_000, 10_000, 20_000, 40_000)
    }


_TINY = Setting(sentences=256, tokens=16, shortest=8, symbols=9_712, rounds=7)
_BASE = Setting(sentences=48, tokens=32, shortest=16, symbols=34_040, rounds=3)
_TINY_DECODING = Setting("decoding", sentences=64, tokens=16, shortest=8, symbols=9_712, rounds=7)
_BASE_DECODING = Setting("decoding", sentences=8, tokens=32, shortest=16, symbols=34_040, rounds=7)

_ODE_TINY = ("ode_residual_tiny", "rk2_tiny", "rk2_learnable_tiny", "rk4_tiny", "macaron_rk2_tiny")
_TRANSEVOLVE = tuple(arch for arch in transevolve.ARCHITECTURES if arch.endswith("_tiny"))


def _in_bf16(arch: str) -> Callable[[], dict[str, System]]:
    """An architecture in fp32 and in bf16."""
    return lambda: {f"{arch}, {precision}": System(arch, precision=precision) for precision in ("fp32", "bf16")}


def _beyond(connected: bool) -> dict[str, System]:
    """The baseline, and what came after the four papers with its controls, as ``configs/_beyond.yaml`` has them.

    Args:
        connected: those with the baseline's dense connections of layers, or in their place PCformer's corrector; all
            others otherwise, because one desktop's memory does not hold all of them together.
    """
    group = "multi30k-short"
    shared = recipes.group(group)["train"]["flags"]
    found = {}
    for i, name in enumerate(plain_yaml.read(recipes.CONFIGS / "_beyond.yaml")["rows"]):
        train = recipes.load(f"{group}/{name}").train
        own = {flag: value for flag, value in train.flags.items() if shared.get(flag) != value}
        if i == 0 or connected == ("encoder-history" not in own):
            unshared = not train.flags["share-all-embeddings"]
            found[name.removesuffix("-tiny")] = System(train.arch, tuple(flags(own)), unshared=unshared)
    return found


def _at_equal_layers() -> dict[str, System]:
    """TransEvolve with the four layers that the other tiny systems have; its own six are in ``tiny-transevolve``."""
    return {"transevolve_fullff_1_tiny 4-4": System("transevolve_fullff_1_tiny", ("--evolution-depth", "4"))}


def _quick() -> dict[str, System]:
    stock = stock_like("floater_tiny")
    ours = {"stock, our criterion": replace(stock, criterion=System.criterion)}
    return {"stock": stock, **ours, **_ours("floater_tiny", "macaron_tiny", "rk2_tiny")(), **_at_equal_layers()}


SUITE = {
    "quick": Contest(
        "training, tiny",
        _quick,
        replace(_TINY, rounds=3),
        {
            **dict.fromkeys(("stock, our criterion", "rk2_tiny", *_at_equal_layers()), Bar(1.0)),
            **dict.fromkeys(("macaron_tiny", "floater_tiny"), Bar(1.2)),
        },
    ),
    "quick-decoding": Contest(
        "decoding, tiny, beam 4",
        lambda: _ours("floater_tiny", "macaron_tiny", "rk2_tiny")() | _at_equal_layers(),
        replace(_TINY_DECODING, rounds=3),
        dict.fromkeys(_at_equal_layers(), Bar(0.9)),
    ),
    "tiny": Contest(
        "training, tiny",
        _beside_stock(
            *("macaron_tiny", "floater_tiny", "rk2_tiny", "rk4_tiny"),
            like="floater_tiny",
            # A post-norm Transformer with our layers.
            more={
                "transformer": System("floater_tiny", ("--position-encoder", "none")),
                "rk2_tiny, dropout as stock": System(
                    "rk2_tiny", ("--attention-dropout", "0", "--activation-dropout", "0")
                ),
            },
        ),
        _TINY,
        {
            **dict.fromkeys(("stock, our criterion", "rk2_tiny"), Bar(1.0)),
            **dict.fromkeys(("transformer", "macaron_tiny", "floater_tiny"), Bar(1.2)),
        },
    ),
    "tiny-transevolve": Contest(
        "training, tiny",
        _beside_stock(*_TRANSEVOLVE, like="floater_tiny", more=_at_equal_layers()),
        _TINY,
        dict.fromkeys(_at_equal_layers(), Bar(1.0)),
    ),
    "tiny-beyond": Contest("training, tiny, what came after the four papers", partial(_beyond, True), _TINY),
    "tiny-beyond-plain": Contest(
        "training, tiny, what came after the four papers, without the baseline's connections",
        partial(_beyond, False),
        _TINY,
    ),
    "base-macaron": Contest(
        "training, base",
        _beside_stock("macaron_wmt_en_de"),
        _BASE,
        {
            "stock, our criterion": Bar(1.0),
            "macaron_wmt_en_de": Bar(1.05),
            "macaron_wmt_en_de, stock criterion": Bar(0.97),
        },
    ),
    "base-ode": Contest("training, base", _beside_stock("ode_residual", "rk2", more={"rk4": System("rk4")}), _BASE),
    "base-deep": Contest("training, RK2 6-6 beside a Transformer of 12-6", _deep, _BASE, {"rk2 6-6": Bar(0.95, 0.95)}),
    "base-recomputing": Contest(
        "training, base, activations recomputed",
        _recomputing,
        _BASE,
        {"rk2, recomputing": Bar(memory=1.0), "rk4, recomputing": Bar(memory=1.0)},
    ),
    "base-transevolve": Contest(
        "training, base",
        _beside_stock("transevolve_fullff_2", "transevolve_fullff_1"),
        _BASE,
        {"transevolve_fullff_2": Bar(1.05)},
    ),
    "base-floater": Contest(
        "training, base", _beside_stock("floater_base"), _BASE, {"floater_base, stock criterion": Bar(1 / 1.05)}
    ),
    "decoding-tiny": Contest(
        "decoding, tiny, beam 4",
        lambda: _ours("floater_tiny", "macaron_tiny", *_ODE_TINY, *_TRANSEVOLVE)() | _at_equal_layers(),
        _TINY_DECODING,
        dict.fromkeys(_at_equal_layers(), Bar(0.9)),
    ),
    "decoding-base": Contest(
        "decoding, base, beam 4",
        lambda: {arch: System(arch) for arch in ("ode_residual", "rk2", "rk4")},
        _BASE_DECODING,
        {"rk2": Bar(0.93), "rk4": Bar(0.80)},
    ),
    "decoding-base-floater": Contest(
        "decoding, base, beam 4", _ours("floater_base"), _BASE_DECODING, {"floater_base": Bar(1 / 1.01)}
    ),
    "depth": Contest("training, against the encoder's depth", _depths, replace(_TINY, rounds=3)),
    "vocabulary": Contest("training, against the dictionary's size", _vocabularies, replace(_TINY, rounds=3)),
    "tiny-bf16": Contest("training, tiny, fp32 and bf16", _in_bf16("rk2_tiny"), _TINY, of_precisions=True),
    "base-bf16": Contest("training, base, fp32 and bf16", _in_bf16("rk2"), _BASE, of_precisions=True),
}
"""The contests by name."""

# On a GPU the thresholds for decoding are a little above the speeds of the paper's Table 6, .963 and .848.
_ON_GPU = {"decoding-base": {"rk2": Bar(0.97), "rk4": Bar(0.88)}}

QUICK = ("quick", "quick-decoding")


def setting(name: str, device: str = "cpu", precision: str = "fp32") -> Setting:
    """The setting of a contest on a device: a GPU gets four times the sentences, and more rounds."""
    found = replace(SUITE[name].setting, device=device, precision=precision)
    return replace(found, sentences=4 * found.sentences, rounds=11) if device == "cuda" else found


def bars(name: str, device: str) -> dict[str, Bar]:
    """The thresholds of the systems of a contest on a device."""
    return _ON_GPU.get(name, SUITE[name].bars) if device == "cuda" else SUITE[name].bars


def in_order(device: str) -> list[str]:
    """All contests but the quick ones; those with thresholds come first, in case the time on a device is short."""
    return sorted((name for name in SUITE if name not in QUICK), key=lambda name: not bars(name, device))


def _verdict(bar: Bar, speed: dict[str, Any], memory: Optional[float]) -> str:
    words = []
    if bar.speed is not None:
        met = "met" if speed["median"] >= bar.speed else "missed"
        if met == "missed" and speed["quartiles"][1] >= bar.speed:
            met = "missed, within the quartiles"
        words.append(f"speed {bar.speed:.2f} {met}")
    if bar.memory is not None and memory is not None:
        words.append(f"memory {bar.memory:.2f} {'met' if memory <= bar.memory else 'missed'}")
    return ", ".join(words)


def _processor(hardware: dict[str, Any]) -> str:
    """A record's threads, with the processor, the library of matrix products and the instructions, as far as noted."""
    more = [hardware[key] for key in ("processor", "blas", "capability") if hardware.get(key)]
    threads = hardware["threads"]
    return f"{threads} CPU thread{'s' * (threads > 1)} ({', '.join(more)})"


def measured_on(record: dict[str, Any]) -> tuple[str, str]:
    """What a record was measured on: the sentences; the machine and the version of PyTorch."""
    setting = record["setting"]
    gpus = record["hardware"]["gpus"]
    where = gpus[0] if setting["device"] == "cuda" else _processor(record["hardware"])
    if setting.get("data"):
        read = f"{setting.get('batches', 2)} batches of {Path(setting['data']).name}"
    else:
        lengths = f"{setting['shortest'] or setting['tokens']} to {setting['tokens']} tokens"
        read = f"{setting['sentences']} sentences of {lengths}, {setting['symbols']:,} symbols"
    return read, f"{where}, PyTorch {record['versions']['torch'].split('+')[0]}"


def described(name: str, record: dict[str, Any]) -> str:
    """What a contest was measured on, without its title."""
    setting = record["setting"]
    precision = "" if name in SUITE and SUITE[name].of_precisions else f"{setting['precision']}, "
    read, where = measured_on(record)
    return f"{read}, {precision}{setting['rounds']} rounds in turns, {where}"


def table(name: str, record: dict[str, Any]) -> str:
    """A contest's record as Markdown."""
    setting, systems = record["setting"], record["systems"]
    baseline = systems[record["baseline"]]
    per_second = "sentences/s" if setting["what"] == "decoding" else "tokens/s"
    amount = setting["sentences"] if setting["what"] == "decoding" else record["tokens"]
    title = f"**{name}**: {SUITE[name].title if name in SUITE else setting['what']}; {described(name, record)}"
    head = ["system", "parameters", "evaluations", per_second, f"speed / {record['baseline']}", "memory, MiB"]
    head += ["of it a step's", "threshold"]
    rows = []
    for system, found in systems.items():
        rate = amount / found["seconds"]
        memory = {
            field: (found[field], found[field] / baseline[field]) if field in found else None
            for field in ("peak_mib", "step_mib")
        }
        whole = memory["peak_mib"] and memory["peak_mib"][1]
        bar = bars(name, setting["device"]).get(system, Bar()) if name in SUITE else Bar()
        cells = [
            system,
            f"{found['parameters']:,}",
            " + ".join(str(n) for n in found["evaluations"].values()),
            f"{rate:,.{0 if rate >= 100 else 1}f}",
            "1" if found is baseline else median_and_quartiles(found["speed"]),
            *(f"{cell[0]:,.0f} ({cell[1]:.2f})" if cell else "" for cell in memory.values()),
            _verdict(bar, found["speed"], whole),
        ]
        rows.append(cells)
    return f"{title}\n\n{markdown.table(head, rows)}"
