"""The contests of the benchmark, and the thresholds of systems.

A contest is a baseline, systems that are compared with it, and a setting. Systems use our criterion, in some contests
also the stock criterion. The baseline is stock fairseq or one of our systems.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Optional

from ... import markdown
from ...models import transevolve
from .. import recipes
from ..tasks.task import flags
from .systems import STOCK, Contestant, Setting, stock_like
from .turns import describe_hardware, median_and_quartiles


class Bar(NamedTuple):
    """Thresholds relative to the baseline: the minimum speed, and the maximum memory, including model and optimizer."""

    speed: Optional[float] = None
    memory: Optional[float] = None


@dataclass(frozen=True)
class Contest:
    """A contest.

    ``systems`` returns the systems by name, the baseline first. It is a function because the shape of a stock system is
    computed from another architecture.
    """

    systems: Callable[[], dict[str, Contestant]]
    setting: Setting
    bars: dict[str, Bar] = field(default_factory=dict)


def _stock(like: str) -> dict[str, Contestant]:
    """Return the stock Transformer in the shape of an architecture, with its own criterion and with ours."""
    stock = stock_like(like)
    return {"stock": stock, "stock, our criterion": replace(stock, criterion=Contestant.criterion)}


def _ours(*archs: str) -> dict[str, Contestant]:
    """Return architectures with our criterion."""
    return {arch: Contestant(arch) for arch in archs}


def _both(*archs: str) -> dict[str, Contestant]:
    """Return architectures, each with our criterion and with the stock one."""
    found = {}
    for arch in archs:
        found |= {arch: Contestant(arch), f"{arch}, stock criterion": Contestant(arch, criterion=STOCK)}
    return found


def _depths() -> dict[str, Contestant]:
    return {
        f"{arch} {depth}": Contestant(arch, ("--encoder-layers", str(depth), "--decoder-layers", "2"), at=depth)
        for arch in ("macaron_tiny", "ode_residual_tiny", "rk2_tiny", "rk4_tiny")
        for depth in (2, 4, 8, 16)
    }


def _vocabularies() -> dict[str, Contestant]:
    stock = stock_like("floater_tiny")
    return {
        f"{name} {symbols}": replace(stock, criterion=criterion, at=symbols, symbols=symbols)
        for name, criterion in (("stock criterion", STOCK), ("in chunks", Contestant.criterion))
        for symbols in (5_000, 10_000, 20_000, 40_000)
    }


def _rows(*names: str) -> dict[str, Contestant]:
    """Return rows of ``multi30k-short``, with the flags that the group does not share."""
    group = "multi30k-short"
    shared, found = recipes.group(group)["train"]["flags"], {}
    for name in names:
        train = recipes.load(f"{group}/{name}-tiny").train
        own = {flag: value for flag, value in train.flags.items() if shared.get(flag) != value}
        found[name] = Contestant(train.arch, tuple(flags(own)), unshared=not train.flags["share-all-embeddings"])
    return found


_TINY = Setting(sentences=256, tokens=16, shortest=8, symbols=9_712, rounds=7)
_BASE = Setting(sentences=48, tokens=32, shortest=16, symbols=34_040, rounds=3)
_TINY_DECODING = Setting("decoding", sentences=64, tokens=16, shortest=8, symbols=9_712, rounds=7)
_BASE_DECODING = Setting("decoding", sentences=8, tokens=32, shortest=16, symbols=34_040, rounds=7)

_TRANSEVOLVE = tuple(arch for arch in transevolve.ARCHITECTURES if arch.endswith("_tiny"))
# With four layers, as the other tiny systems have, instead of six.
_FOUR_LAYERS = {"transevolve_fullff_1_tiny 4-4": Contestant("transevolve_fullff_1_tiny", ("--evolution-depth", "4"))}

_DROPOUT_AS_STOCK = Contestant("rk2_tiny", ("--attention-dropout", "0", "--activation-dropout", "0"))
_RECOMPUTING = {f"{arch}, recomputing": Contestant(arch, ("--checkpoint-activations",)) for arch in ("rk2", "rk4")}

SUITE = {
    "tiny": Contest(
        lambda: {
            **_stock("floater_tiny"),
            "transformer": Contestant("floater_tiny", ("--position-encoder", "none")),  # post-norm, with our layers
            "rk2_tiny, dropout as stock": _DROPOUT_AS_STOCK,
            **_both("macaron_tiny", "floater_tiny", "rk2_tiny", "rk4_tiny"),
        },
        _TINY,
        {
            **dict.fromkeys(("stock, our criterion", "rk2_tiny"), Bar(1.0)),
            **dict.fromkeys(("transformer", "macaron_tiny", "floater_tiny"), Bar(1.2)),
        },
    ),
    "tiny-transevolve": Contest(
        lambda: _stock("floater_tiny") | _FOUR_LAYERS | _both(*_TRANSEVOLVE),
        _TINY,
        dict.fromkeys(_FOUR_LAYERS, Bar(1.0)),
    ),
    "base-macaron": Contest(
        lambda: _stock("macaron_wmt_en_de") | _both("macaron_wmt_en_de"),
        _BASE,
        {
            "stock, our criterion": Bar(1.0),
            "macaron_wmt_en_de": Bar(1.05),
            "macaron_wmt_en_de, stock criterion": Bar(0.97),
        },
    ),
    "base-deep": Contest(
        lambda: {
            "stock 12-6": stock_like("rk2", ("--encoder-layers", "12")),
            "rk2 6-6": Contestant("rk2"),
            "rk2 6-6, stock criterion": Contestant("rk2", criterion=STOCK),
        },
        _BASE,
        {"rk2 6-6": Bar(0.95, 0.95)},
    ),
    "base-recomputing": Contest(
        lambda: _ours("ode_residual", "rk2", "rk4") | _RECOMPUTING,
        _BASE,
        dict.fromkeys(_RECOMPUTING, Bar(memory=1.0)),
    ),
    "base-transevolve": Contest(
        lambda: _stock("transevolve_fullff_2") | _both("transevolve_fullff_2", "transevolve_fullff_1"),
        _BASE,
        {"transevolve_fullff_2": Bar(1.05)},
    ),
    "base-floater": Contest(
        lambda: _stock("floater_base") | _both("floater_base"),
        _BASE,
        {"floater_base, stock criterion": Bar(1 / 1.05)},
    ),
    "decoding-tiny": Contest(
        lambda: {
            "stock": stock_like("floater_tiny"),
            **_ours("floater_tiny", "macaron_tiny", "ode_residual_tiny", "rk2_tiny", "rk2_learnable_tiny", "rk4_tiny"),
            **_ours("macaron_rk2_tiny", *_TRANSEVOLVE),
            **_FOUR_LAYERS,
        },
        _TINY_DECODING,
        dict.fromkeys(_FOUR_LAYERS, Bar(0.9)),
    ),
    "decoding-base": Contest(
        lambda: _ours("ode_residual", "rk2", "rk4"),
        _BASE_DECODING,
        {"rk2": Bar(0.93), "rk4": Bar(0.80)},
    ),
    "decoding-base-floater": Contest(
        lambda: {"stock": stock_like("floater_base")} | _ours("floater_base"),
        _BASE_DECODING,
        {"floater_base": Bar(1 / 1.01)},
    ),
    "base-ode": Contest(lambda: _stock("ode_residual") | _ours("rk4") | _both("ode_residual", "rk2"), _BASE),
    # What came after the four papers: the systems with the baseline's dense connections of layers, or PCformer's
    # corrector; then all others. Together they do not fit into a desktop's memory.
    "tiny-beyond": Contest(
        lambda: _rows(
            *("ode-residual", "rk2", "rk2-learnable", "rk2-second-order", "residual-8", "residual-12", "residual-16"),
            *("residual-20", "rk2-ema", "pcformer", "pcformer-rk4", "pcformer-released", "parallel"),
        ),
        _TINY,
    ),
    "tiny-beyond-plain": Contest(
        lambda: _rows(
            *("ode-residual", "residual-plain", "nesterov", "nesterov-embedding", "residual-unshared", "strang-plain"),
            *("nesterov-strang", "denseformer", "attention-history"),
        ),
        _TINY,
    ),
    "depth": Contest(_depths, replace(_TINY, rounds=3)),
    "vocabulary": Contest(_vocabularies, replace(_TINY, rounds=3)),
}
"""The contests by name; contests with thresholds come first, in case time is short."""

QUICK = {
    "tiny": ("stock", "stock, our criterion", "floater_tiny", "macaron_tiny", "rk2_tiny"),
    "decoding-tiny": ("stock", "floater_tiny", "macaron_tiny", "rk2_tiny", *_FOUR_LAYERS),
}
"""The systems of contests that are the most informative within a few minutes."""


def _verdict(bar: Bar, speed: Mapping[str, Any], memory: Optional[float]) -> str:
    words = []
    if bar.speed is not None:
        met = "met" if speed["median"] >= bar.speed else "missed"
        if met == "missed" and speed["quartiles"][1] >= bar.speed:
            met = "missed, within the quartiles"
        words.append(f"speed {bar.speed:.2f} {met}")
    if bar.memory is not None and memory is not None:
        words.append(f"memory {bar.memory:.2f} {'met' if memory <= bar.memory else 'missed'}")
    return ", ".join(words)


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
    """Return a contest's record as Markdown.

    The speed "by arithmetic alone" assumes a time proportional to the operations of the matrix products.
    """
    setting, systems = record["setting"], record["systems"]
    baseline = systems[record["baseline"]]
    decoding, bars = setting["what"] == "decoding", SUITE[name].bars if name in SUITE else {}
    amount = setting["sentences"] if decoding else record["tokens"]
    head = ["system", "parameters", "evaluations", "sentences/s" if decoding else "tokens/s"]
    counted = ["by arithmetic alone"] if "operations" in baseline else []
    head += [f"speed / {record['baseline']}", *counted, "memory, MiB", "of it a step's", "threshold"]
    rows = []
    for system, found in systems.items():
        rate = amount / found["seconds"]
        ratios = {key: found[key] / baseline[key] for key in ("peak_mib", "step_mib") if key in found}
        memory = (f"{found[key]:,.0f} ({ratios[key]:.2f})" if key in ratios else "" for key in ("peak_mib", "step_mib"))
        cells = [
            system,
            f"{found['parameters']:,}",
            " + ".join(str(n) for n in found["evaluations"].values()),
            f"{rate:,.{0 if rate >= 100 else 1}f}",
            "1" if found is baseline else median_and_quartiles(found["speed"]),
            *(f"{baseline['operations'] / found['operations']:.2f}" for _ in counted),
            *memory,
            _verdict(bars.get(system, Bar()), found["speed"], ratios.get("peak_mib")),
        ]
        rows.append(cells)
    return f"**{name}**: {setting['what']}; {described(record)}\n\n{markdown.table(head, rows)}"
