"""Common parts of pictures: formats, colors, marks, curves."""

import io
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import whole

FORMATS = (".png", ".svg", ".pdf")

# Okabe and Ito's colors, which the color-blind can tell apart, and marks for prints without colors.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKS = "os^Dv<>P"

# Of trainings; logarithmic, except for percentages.
CURVES = {
    "valid_ppl": "validation perplexity",
    "train_ppl": "training perplexity",
    "valid_accuracy": "validation accuracy",
    "train_gnorm": "gradient norm",
}


def style(i: int, label: str) -> dict[str, Any]:
    """The color, mark and label of line i; 64 lines differ, and eight also without colors."""
    return {"color": COLOURS[i % 8], "marker": MARKS[(i + i // 8) % 8], "label": label}


def without_display() -> Any:
    """matplotlib's pyplot, which opens no windows."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq has turned on everybody's
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def pyplot_for(output: str | Path) -> Any:
    """pyplot, for a file of a known format."""
    if Path(output).suffix not in FORMATS:
        raise OdeTransformerError(f"--output {output}: must end in one of {', '.join(FORMATS)}")
    return without_display()


def save(figure: Any, output: str | Path) -> None:
    """Write a figure whole or not at all, and free it."""
    from matplotlib import pyplot

    output = Path(output)
    with whole(output, "wb") as file:
        figure.savefig(file, dpi=150, format=output.suffix[1:])
    pyplot.close(figure)


def draw_curves(axis: Any, curves: Mapping[str, Sequence[tuple[int, float]]], label: str) -> None:
    """Draw values against updates.

    Args:
        axis: the axes to draw in.
        curves: the points of each line, (updates, value), by its label; lines without points are left out, and values
            that are not finite, as those of a training that diverged.
        label: what the values are, one of ``CURVES``.
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
    """An SVG of curves, as :func:`draw_curves` draws them; the same each time."""
    pyplot, file = without_display(), io.BytesIO()
    figure, axis = pyplot.subplots(figsize=(6.4, 4.6), layout="constrained")
    draw_curves(axis, curves, label)
    axis.legend(fontsize=8)
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return file.getvalue()
