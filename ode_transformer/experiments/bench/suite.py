"""The contests of the benchmark: systems that are compared with a baseline in a setting."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ... import markdown
from .systems import STOCK, Contestant, Setting, stock_like
from .turns import describe_hardware, median_and_quartiles


class Contest(NamedTuple):
    """A contest.

    ``systems`` returns the systems by name, the baseline first. It is a function because the shape of a stock system is
    computed from another architecture.
    """

    setting: Setting
    systems: Callable[[], dict[str, Contestant]]


def beside_stock(setting: Setting, *archs: str, flags: tuple[str, ...] = ()) -> Contest:
    """Return the contest of architectures with stock fairseq's Transformer in the shape of the first.

    In training all have both criteria; the architectures have ``flags`` of fairseq-train.
    """

    def systems() -> dict[str, Contestant]:
        found = {"stock": stock_like(archs[0], flags), **{arch: Contestant(arch, flags) for arch in archs}}
        if setting.what == "training":
            found["stock, our criterion"] = replace(found["stock"], criterion=Contestant.criterion)
            found |= {f"{arch}, stock criterion": replace(found[arch], criterion=STOCK) for arch in archs}
        return found

    return Contest(setting, systems)


def _recomputing() -> dict[str, Contestant]:
    more = ("--checkpoint-activations",)
    found = {arch: Contestant(arch) for arch in ("ode_residual", "rk2", "rk4")}
    return found | {f"{arch}, recomputing": Contestant(arch, more) for arch in ("rk2", "rk4")}


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


_TINY = Setting(sentences=256, tokens=16, shortest=8, symbols=9_712, rounds=7)
_BASE = Setting(sentences=48, tokens=32, shortest=16, symbols=34_040, rounds=3)
_TINY_DECODING = replace(_TINY, what="decoding", sentences=64)
_BASE_DECODING = replace(_BASE, what="decoding", sentences=8, rounds=7)
_TINY_ARCHS = ("floater_tiny", "macaron_tiny", "rk2_tiny", "rk4_tiny", "transevolve_fullff_1_tiny")

SUITE = {
    "tiny": beside_stock(_TINY, *_TINY_ARCHS),
    "base-macaron": beside_stock(_BASE, "macaron_wmt_en_de"),
    "base-ode": beside_stock(_BASE, "ode_residual", "rk2", "rk4"),
    "base-transevolve": beside_stock(_BASE, "transevolve_fullff_2", "transevolve_fullff_1"),
    "base-floater": beside_stock(_BASE, "floater_base"),
    "base-recomputing": Contest(_BASE, _recomputing),
    "decoding-tiny": beside_stock(_TINY_DECODING, *_TINY_ARCHS),
    "decoding-base": beside_stock(_BASE_DECODING, "floater_base", "ode_residual", "rk2", "rk4"),
    "depth": Contest(replace(_TINY, rounds=3), _depths),
    "vocabulary": Contest(replace(_TINY, rounds=3), _vocabularies),
}
"""The contests by name."""

_QUICK_ARCHS = ("floater_tiny", "macaron_tiny", "rk2_tiny")
QUICK = {
    "tiny": ("stock", "stock, our criterion", *_QUICK_ARCHS),
    "decoding-tiny": ("stock", *_QUICK_ARCHS),
}
"""The systems of contests that are the most informative within a few minutes."""


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
