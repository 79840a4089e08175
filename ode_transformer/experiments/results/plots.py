"""Plots of records and logs: training curves (ODE Transformer, Figures 5 and 6), edits by type (Figure 7), and orders
of convergence.

Each function that draws writes ``output``, whose suffix is the format. Plots of the parameters of models are in
:mod:`.model_plots`, which needs torch and fairseq.
"""

import io
import logging
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import visible
from ...files import atomic_file, read_json, written_by
from .. import records
from ..records import logs

# Okabe and Ito's colors, which the color-blind can tell apart, and markers for prints without color.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKS = "os^Dv<>P"

# The labels of training curves; all but accuracy have a logarithmic scale.
CURVES = {
    "valid_ppl": "validation perplexity",
    "train_ppl": "training perplexity",
    "valid_accuracy": "validation accuracy",
    "train_gnorm": "gradient norm",
}

TYPES = 15  # of edits, at most, in a plot


def style(i: int, label: str) -> dict[str, Any]:
    """Return the color, marker and label of line i; 64 lines differ, eight of them without color."""
    return {"color": COLOURS[i % 8], "marker": MARKS[(i + i // 8) % 8], "label": plain(label)}


def plain(text: str) -> str:
    """Return a text as matplotlib draws it unchanged, without formulas and control characters."""
    return visible(text).replace("$", r"\$")


def panels(width: float, height: float, count: int = 1) -> tuple[Any, Any]:
    """Return a figure of panels side by side, and their axes; the size is that of the whole in inches."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq has turned on INFO for all loggers
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def save(figure: Any, output: str | Path) -> None:
    """Write a figure atomically."""
    with atomic_file(output, "wb") as file:
        figure.savefig(file, dpi=150, format=Path(output).suffix[1:])


def draw_curves(axis: Any, curves: Mapping[str, Sequence[tuple[int, float]]], label: str) -> None:
    """Draw values against updates.

    ``curves`` are the points of each line, (updates, value), by its label, and ``label`` is one of ``CURVES``. Values
    that are not finite, such as those of a training that diverged, are left out.
    """
    curves = {name: [point for point in points if math.isfinite(point[1])] for name, points in curves.items()}
    for i, (name, points) in enumerate(curves.items()):
        if points:
            axis.plot(*zip(*points, strict=True), markersize=3, **style(i, name))
    if label != CURVES["valid_accuracy"]:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        values = [value for points in curves.values() for _, value in points]
        axis.yaxis.set_minor_formatter("{x:g}" if values and max(values) < 10 * min(values) else "")
    axis.set(xlabel="updates", ylabel=label)
    axis.grid(alpha=0.3)


def curve_picture(curves: Mapping[str, Sequence[tuple[int, float]]], label: str) -> bytes:
    """Return a reproducible SVG of curves, drawn by :func:`draw_curves`."""
    from matplotlib import rc_context

    file, (figure, (axis,)) = io.BytesIO(), panels(6.4, 4.6)
    draw_curves(axis, curves, label)
    axis.legend(fontsize=8)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def training_of(path: Path) -> dict[str, Any]:
    """Return the curves of a record, a log or a run's folder, in the form of a record's ``training``."""
    if path.is_dir():
        path /= "train.log"
    if path.suffix == ".json":
        return records.read_record(path)["training"]
    log = logs.read_log(path)
    return {"curve": log["curve"], "progress": log["training"], "validation": log["validation"]}


def training(files: Sequence[str], output: str | Path) -> None:
    """Draw perplexity or accuracy and the gradient norm against updates, one line per file.

    Files are logs of ``fairseq-train --log-format json``, records of runs, or the folders of runs.
    """
    curves = {}
    for path in map(Path, files):
        its = training_of(path)
        found = {key: records.curve_points(its, key) for key in CURVES}
        if not any(found.values()):
            raise records.RecordError(f"{path}: no curve of a training in it")
        its_own = path.suffix == ".json" and path.name != "record.json"  # which each run's folder has
        name = path.stem if its_own else (path if path.is_dir() else path.parent).resolve().name or path.stem
        curves[name if name not in curves else str(path)] = found
    drawn = {key: label for key, label in CURVES.items() if any(found[key] for found in curves.values())}
    figure, axes = panels(5 * len(drawn), 4.5, len(drawn))
    for axis, (key, label) in zip(axes, drawn.items(), strict=True):
        draw_curves(axis, {name: found[key] for name, found in curves.items()}, label)
    axes[0].legend(fontsize=8)
    save(figure, output)


def orders(file: str | Path, output: str | Path) -> None:
    """Draw a record of ``ode-transformer lab orders``: local errors against the step size, one line per method, and
    errors by layer, one line per model."""
    record = read_json(file)
    if not isinstance(record, dict) or record.get("what") != "orders":
        raise records.RecordError(f"{file}: is not a record of orders")
    with written_by("ode-transformer lab orders", file):
        save(_orders(record), output)


def _orders(record: Mapping[str, Any]) -> Any:
    """Return the figure of :func:`orders`."""
    from matplotlib import ticker

    methods, layers = record["methods"], record["layers"]
    figure, (axis, *more) = panels(8 * (1 + bool(layers)), 6, 1 + bool(layers))
    for row in sorted(methods, key=lambda row: -row["local_errors"][-1]):  # in the order of the ends of the lines
        order, label = row["theory"] - 1, plain(f"{row['method']}: {row['local']:.2f}")
        look = {"color": COLOURS[order % len(COLOURS)], "marker": MARKS[order % len(MARKS)], "alpha": 0.8}
        axis.plot(row["sizes"], row["local_errors"], label=label, **look)
    axis.set_xscale("log", base=2)
    axis.invert_xaxis()
    axis.set_xticks(methods[0]["sizes"], [f"1/{round(1 / size)}" for size in methods[0]["sizes"]])
    axis.set(xlabel="size h of the step", ylabel="error of one step, O(h to the power of the number after the name)")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7)
    for axis in more:
        for i, (name, found) in enumerate(layers.items()):
            axis.plot(range(1, len(found) + 1), [row["difference"] for row in found], **style(i, name))
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        axis.set(xlabel="layer", ylabel="distance of two half steps from a whole one, relative to the step")
        axis.legend(fontsize=8)
    for axis in figure.axes:
        axis.set_yscale("log")
        axis.minorticks_off()
    for axis in more:
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.PercentFormatter(1))
    return figure


def edits(files: Sequence[str], output: str | Path) -> None:
    """Draw the numbers of edits by type in M2 files (ODE Transformer, Figure 7), one color per file.

    The human edits come first; their ``TYPES`` most frequent types are drawn. Labels are paths, relative to the common
    folder.
    """
    from ..metrics.m2 import types

    found = [types(Path(path)) for path in files]
    names = [name for name, _ in found[0].most_common(TYPES)]
    figure, (axis,) = panels(2 + 0.5 * len(names), 4)
    width, absolute = 0.8 / len(found), list(map(os.path.abspath, files))
    home = os.path.commonpath(map(os.path.dirname, absolute))
    for i, (path, counts) in enumerate(zip(absolute, found, strict=True)):
        places = [place + (i - (len(found) - 1) / 2) * width for place in range(len(names))]
        label = plain(os.path.relpath(path, home))
        axis.bar(places, [counts[name] for name in names], width, label=label, color=COLOURS[i % 8])
    axis.set_xticks(range(len(names)), list(map(plain, names)), rotation=45, ha="right")
    axis.set_ylabel("edits")
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=8)
    save(figure, output)
