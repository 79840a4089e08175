"""Common parts of plots: colors, markers, curves."""

import io
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import atomic_file

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


def style(i: int, label: str) -> dict[str, Any]:
    """Return the color, marker and label of line i; 64 lines differ, eight of them without color."""
    escaped = label.replace("$", r"\$")  # which would begin a formula
    return {"color": COLOURS[i % 8], "marker": MARKS[(i + i // 8) % 8], "label": escaped}


def pyplot() -> Any:
    """Import matplotlib's pyplot, with a backend that opens no windows."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq has turned on INFO for all loggers
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, output: str | Path) -> None:
    """Write a figure atomically, and free it."""
    with atomic_file(output, "wb") as file:
        figure.savefig(file, dpi=150, format=Path(output).suffix[1:])
    pyplot().close(figure)


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
    plt, file = pyplot(), io.BytesIO()
    figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    draw_curves(axis, curves, label)
    axis.legend(fontsize=8)
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return file.getvalue()
