"""Pictures of records and logs: training (ODE Transformer, Figures 5 and 6); scores against depth and size (there,
Figure 3); what systems cost; which classes a classifier takes for which; corrections by type (there, Figure 7).

Those of what is inside a model are in :mod:`.model_plots`, which needs torch and fairseq.
"""

import argparse
import io
import itertools
import logging
import math
import os
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import read_json, whole
from ..arguments import at_least
from ..runs import logs, records
from ..schema import lacks, positive
from .files import variant, variant_label

FORMATS = (".png", ".svg", ".pdf")

# Okabe and Ito's colors, which the color-blind can tell apart, and marks for prints without colors.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKS = "os^Dv<>P"


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


def _check_set(path: str | Path, record: dict[str, Any], of: str | None) -> None:
    if of is not None and of not in record["scores"]:
        raise records.RecordError(f"{path}: --of {of}: must be one of {', '.join(record['scores'])}")


_COSTS = {  # of ``bench``, as far as it is drawn
    "rows": (..., [{"length": positive, "seconds": {str: positive}, "peak_mib": {str: positive}}]),
    "systems": (..., {str: {"at": (..., positive), "seconds": (..., positive), "step_mib": (..., positive)}}),
}


def cost_lines(path: str | Path) -> tuple[str, dict[str, dict[str, list[tuple[float, float]]]]]:
    """The cost against something in a record of ``ode-transformer bench``.

    Returns:
        the name of the axis; and for ``seconds`` and ``MiB`` the points (x, y) of each system, x rising.

    Raises:
        OdeTransformerError: it cannot be read.
        RecordError: it is not a record of that kind.
    """
    record = read_json(path)
    if wrong := lacks(record, _COSTS):
        raise records.RecordError(f"{path}: no record of cost against length, depth or a dictionary's size: {wrong}")
    try:
        lines: dict[str, dict[str, list[tuple[float, float]]]] = {"seconds": {}, "MiB": {}}
        if record["what"] == "lengths":
            for row in sorted(record["rows"], key=lambda row: row["length"]):
                for kind, field in (("seconds", "seconds"), ("MiB", "peak_mib")):
                    for system, value in row[field].items():
                        lines[kind].setdefault(system, []).append((row["length"], value))
            return "tokens of a sentence", lines
        systems = record["systems"].items()
        for name, system in systems:
            label = name.removesuffix(f" {system['at']}")
            lines["seconds"].setdefault(label, []).append((system["at"], system["seconds"]))
            if "step_mib" in system:
                lines["MiB"].setdefault(label, []).append((system["at"], system["step_mib"]))
        sized = any("symbols" in system for _, system in systems)
        axis = "symbols of the dictionary" if sized else "layers of the encoder"
        if not systems:
            raise ValueError("no systems")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise records.RecordError(
            f"{path}: no record of cost against length, depth or a dictionary's size ({type(error).__name__}: {error})"
        ) from error
    return axis, {kind: {label: sorted(points) for label, points in found.items()} for kind, found in lines.items()}


def exponent(points: list[tuple[float, float]]) -> float:
    """The exponent of growth between the last two points."""
    (x0, y0), (x1, y1) = points[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)


def costs(paths: list[str], output: str | Path) -> None:
    """Draw time and memory of a step against sentence length, depth or vocabulary size, one row per record.

    Raises:
        RecordError: a file is not such a record.
        OdeTransformerError: a file cannot be read, or an unknown format.
    """
    pyplot = pyplot_for(output)
    found = [cost_lines(path) for path in paths]
    figure, axes = pyplot.subplots(len(found), 2, figsize=(11, 4 * len(found)), squeeze=False, layout="constrained")
    for row, (name, lines) in zip(axes, found, strict=True):
        for axis, (kind, systems) in zip(row, lines.items(), strict=True):
            for i, (label, points) in enumerate(systems.items()):
                grown = len(points) > 1 and points[-1][0] > points[-2][0]
                growth = f", grows with power {exponent(points):.2f}" if grown else ""
                axis.plot(*zip(*points, strict=True), **style(i, label + growth))
            axis.set_xscale("log", base=2)
            axis.set_yscale("log", base=2)
            axis.yaxis.set_major_formatter(lambda y, _: f"{y:,.3g}" if y < 100 else f"{y:,.0f}")
            ticks = sorted({x for points in systems.values() for x, _ in points})
            axis.set_xticks(ticks, [f"{x:,.0f}" for x in ticks])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            axis.set_xlabel(name)
            axis.set_ylabel({"seconds": "seconds of a training step", "MiB": "memory of a step, MiB"}[kind])
            axis.legend(fontsize=8)
    save(figure, output)


CURVES = {"train_ppl": "training perplexity", "valid_ppl": "validation perplexity", "train_gnorm": "gradient norm"}


def draw_curves(
    axis: Any, curves: Mapping[str, Sequence[tuple[int, float]]], label: str, logarithmic: bool = True
) -> None:
    """Draw values against updates.

    Args:
        axis: the axes to draw in.
        curves: the points of each line, (updates, value), by its label; lines without points are left out, and values
            that are not finite, as those of a training that diverged.
        label: what the values are.
        logarithmic: whether their axis is logarithmic.
    """
    curves = {name: [point for point in points if math.isfinite(point[1])] for name, points in curves.items()}
    for i, (name, points) in enumerate(curves.items()):
        if points:
            axis.plot(*zip(*points, strict=True), markersize=3, **style(i, name))
    if logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        values = [value for points in curves.values() for _, value in points]
        axis.yaxis.set_minor_formatter("{x:g}" if values and max(values) < 10 * min(values) else "")
    axis.set(xlabel="updates", ylabel=label)
    axis.grid(alpha=0.3)


def curve_picture(curves: Mapping[str, Sequence[tuple[int, float]]], label: str, logarithmic: bool) -> bytes:
    """An SVG of curves, as :func:`draw_curves` draws them; the same each time."""
    pyplot, file = without_display(), io.BytesIO()
    figure, axis = pyplot.subplots(figsize=(6.4, 4.6), layout="constrained")
    draw_curves(axis, curves, label, logarithmic)
    axis.legend(fontsize=8)
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return file.getvalue()


def _training(path: Path) -> dict[str, Any]:
    """A training as records of runs have it, from a record or a log."""
    if path.suffix == ".json":
        return records.read_record(path)["training"]
    log = logs.read_log(path)
    return {"curve": log["curve"], "progress": log["training"], "validation": log["validation"]}


def training(paths: list[str], output: str | Path) -> None:
    """Draw training and validation perplexity and the gradient norm against updates, one line per log.

    Args:
        paths: logs of ``fairseq-train --log-format json``, or records of runs.
        output: the file; its suffix is the format.

    Raises:
        RecordError: a file is neither, or has no such curve.
        OdeTransformerError: a record cannot be read, or an unknown format.
    """
    pyplot = pyplot_for(output)
    curves = {}
    for path in map(Path, paths):
        try:
            made = _training(path)
            found = {key: records.curve_points(made, key) for key in CURVES}
            if not any(found.values()):
                raise ValueError("no perplexity")
        except OdeTransformerError:  # it names the file
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise records.RecordError(f"{path}: no curve of a training in it ({error!r})") from error
        name = path.stem if path.suffix == ".json" else path.parent.name or path.stem
        curves[name if name not in curves else str(path)] = found
    figure, axes = pyplot.subplots(1, len(CURVES), figsize=(15, 4.5), layout="constrained")
    for axis, (key, label) in zip(axes, CURVES.items(), strict=True):
        draw_curves(axis, {name: found[key] for name, found in curves.items()}, label)
    axes[0].legend(fontsize=8)
    save(figure, output)


def encoder_layers(command: str) -> int:
    """The number of encoder layers of the model that a fairseq-train command trains."""
    from ...config import PRESETS, resolve
    from ...models import ode  # noqa: F401  registers them

    words = [part for word in shlex.split(command) for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    given = {word: value for word, value in itertools.pairwise(words) if word.startswith("--")}
    values = resolve(PRESETS[given["--arch"]][2], PRESETS[given["--arch"]][1]) if given["--arch"] in PRESETS else {}
    if "evolution_depth" in values:
        blocks, depth = (given.get(f"--evolution-{k}", values[f"evolution_{k}"]) for k in ("blocks", "depth"))
        return int(blocks) * int(depth)
    return int(given.get("--encoder-layers", values.get("encoder_layers", 6)))  # stock fairseq's has 6


def system_of(recipe: str) -> str:
    """A recipe's row without the size: the system that a line of a picture shows."""
    from ...models.ode import SIZES

    name = recipe.rsplit("/", 1)[-1]
    sizes = sorted((suffix.replace("_", "-") for suffix in (*SIZES, "-base") if suffix), key=len, reverse=True)
    return name.removesuffix(next((suffix for suffix in sizes if name.endswith(suffix)), ""))


def scores(paths: list[str], of: str | None, output: str | Path) -> None:
    """Draw tokenized BLEU of records of runs against the encoder's layers and against parameters.

    A line is a system in one precision and with the same flags of the user's; a point is the mean of its seeds.

    Args:
        paths: records.
        of: the test set; None: the first of the first record.
        output: the file; its suffix is the format.

    Raises:
        RecordError: a file is not a record, or has no such test set.
        OdeTransformerError: a file cannot be read, or an unknown format.
    """
    pyplot = pyplot_for(output)
    points: dict[str, dict[tuple[int, float], dict[tuple[int, ...], float]]] = {}  # by line, sizes and seed
    for path in map(Path, paths):
        record = records.read_record(path)
        _check_set(path, record, of)
        try:
            of = of or next(iter(record["scores"]))
            system, layers = system_of(record["recipe"]), encoder_layers(record["command"])
            label = variant_label(system, variant(record))
            size, bleu = (layers, record["training"]["parameters"] / 1e6), record["scores"][of]["tokenised"]["bleu"]
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            of_set = f" with a score of {of}" if of else ""
            raise records.RecordError(f"{path}: is not the record of a translation run{of_set}") from error
        if record["scale"] != "full":
            raise records.RecordError(f"{path}: is the record of a rehearsal, whose scores say nothing")
        points.setdefault(label, {}).setdefault(size, {})[tuple(record["seeds"])] = bleu
    seeds = sorted({len(values) for sizes in points.values() for values in sizes.values()})
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    fewest, most = seeds[0], seeds[-1]
    mean = "1 seed" if most == 1 else f"mean of {most if fewest == most else f'{fewest} to {most}'} seeds"
    for column, (axis, size_label) in enumerate(
        zip(axes, ("layers of the encoder", "million parameters"), strict=True)
    ):
        for i, (label, sizes) in enumerate(points.items()):
            line = sorted((size[column], statistics.mean(values.values())) for size, values in sizes.items())
            axis.plot(*zip(*line, strict=True), **style(i, label))
        axis.set_xlabel(size_label)
        if column == 0:
            axis.set_xticks(sorted({layers for sizes in points.values() for layers, _ in sizes}))
        axis.set_ylabel(f"tokenized BLEU, {of}, {mean}")
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, output)


def confusion(path: str, of: str | None, output: str | Path) -> None:
    """Draw how many examples of each class a classifier takes for which, of a run's record.

    Args:
        path: the record.
        of: a test set; by default the record's first.
        output: the file to write.

    Raises:
        RecordError: it is not a record of a classifier.
        OdeTransformerError: it cannot be read, or an unknown format.
    """
    import numpy as np

    record = records.read_record(Path(path))
    _check_set(path, record, of)
    try:
        scores = record["scores"]
        found = scores[of or next(iter(scores))]["accuracy"]
        rows, classes = np.array(found["confusion"]), found["classes"]
    except (ValueError, LookupError, TypeError, StopIteration) as error:
        raise records.RecordError(f"{path}: no record of a classifier's {of or 'test set'}") from error
    pyplot = pyplot_for(output)
    size = 2 + 0.6 * len(classes)
    figure, axis = pyplot.subplots(figsize=(size + 1, size), layout="constrained")
    share = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(*rows.shape):
        color = "white" if share[i, j] > 0.5 else "black"
        axis.text(j, i, f"{rows[i, j]:,}", ha="center", va="center", fontsize=8, color=color)
    axis.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
    axis.set_yticks(range(len(classes)), classes)
    axis.set(xlabel="taken for", ylabel="class", title=f"accuracy {found['value']:.1f} %")
    figure.colorbar(image, label="share of the class")
    save(figure, output)


def edits(paths: list[str], most: int, output: str | Path) -> None:
    """Draw how many edits of each type M2 files hold (ODE Transformer, Figure 7), a color for each file.

    Files are named without the folder that they have in common.

    Args:
        paths: M2 files, people's first; its most frequent types are drawn.
        most: types that are drawn.
        output: the file to write.

    Raises:
        OdeTransformerError: a file is no M2 file, the first holds no edit, or there are more files than colors.
    """
    from ..metrics.m2 import types

    if len(paths) > len(COLOURS):
        raise OdeTransformerError(f"{len(paths)} files: at most {len(COLOURS)} can be told apart")
    found = [types(Path(path)) for path in paths]
    names = [name for name, _ in found[0].most_common(most)]
    if not names:
        raise OdeTransformerError(f"{paths[0]}: holds no edit")
    pyplot = pyplot_for(output)
    figure, axis = pyplot.subplots(figsize=(2 + 0.5 * len(names), 4), layout="constrained")
    width, absolute = 0.8 / len(found), list(map(os.path.abspath, paths))
    home = os.path.commonpath(map(os.path.dirname, absolute))
    for i, (path, counts) in enumerate(zip(absolute, found, strict=True)):
        places = [place + (i - (len(found) - 1) / 2) * width for place in range(len(names))]
        axis.bar(places, [counts[name] for name in names], width, label=os.path.relpath(path, home), color=COLOURS[i])
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axis.set_ylabel("edits")
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=8)
    save(figure, output)


def add_text_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The arguments of commands whose models read text, which ``texts_of`` reads."""
    parser.add_argument(
        "--text", metavar="FILE", required=required,
        help="what the models read: prepared sentences, one per line, for an encoder-decoder those of the source",
    )  # fmt: skip
    parser.add_argument(
        "--dictionary", metavar="FILE", required=required, help="its dictionary, such as data-bin/NAME/dict.en.txt"
    )
    parser.add_argument(
        "--target", nargs=2, metavar=("TEXT", "DICTIONARY"),
        help="for encoder-decoders: the translations, prepared, and their dictionary; without them only the encoder is "
        "observed",
    )  # fmt: skip
    parser.add_argument(
        "--sentences",
        metavar="N",
        type=at_least(1),
        default=64,
        help="number of sentences to read (default: %(default)s)",
    )


def texts_of(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The texts that the models read, each with its dictionary."""
    return [(args.text, args.dictionary), *([tuple(args.target)] if args.target else [])]


def what_was_read(files: list[tuple[str, str]], texts: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """For a record: the files of the ``text`` and perhaps of its ``target``, and how many ``sentences`` were read."""
    return {**dict(zip(("text", "target"), (text for text, _ in files), strict=False)), "sentences": len(texts[0])}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer plot``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    drawn = kinds.add_parser("positions", help="what positions look like to a model, position x dimension as colors")
    drawn.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="one panel per checkpoint")
    drawn.add_argument("--length", metavar="N", type=at_least(2), default=100, help="positions (default: %(default)s)")
    drawn.add_argument(
        "--of", metavar="NAME",
        help="such as encoder.input, encoder.0.self_attn.q or decoder.2.encoder_attn.k (default: the encoder's first "
        "queries where they move, else its input; without an encoder the decoder's)",
    )  # fmt: skip
    drawn.set_defaults(draw=_positions)
    drawn = kinds.add_parser("training", help="perplexity and gradient norm against updates")
    drawn.add_argument(
        "logs", nargs="+", metavar="LOG", help="a log of fairseq-train --log-format json, or a run's record"
    )
    drawn.set_defaults(draw=lambda args: training(args.logs, args.output))
    drawn = kinds.add_parser("scores", help="BLEU against layers and parameters")
    drawn.add_argument("records", nargs="+", metavar="RECORD", help="records of runs, such as results/*/*.json")
    drawn.add_argument("--of", metavar="TEST", help="the test set (default: the first of the first record)")
    drawn.set_defaults(draw=lambda args: scores(args.records, args.of, args.output))
    drawn = kinds.add_parser("coefficients", help="how learned coefficients weight the stages of each layer")
    drawn.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="one panel per checkpoint")
    add_text_arguments(drawn)
    drawn.add_argument("--record", metavar="FILE", help="file for the numbers, as JSON")
    drawn.set_defaults(draw=_coefficients)
    drawn = kinds.add_parser("costs", help="time and memory against sentence length, depth or vocabulary size")
    drawn.add_argument("records", nargs="+", metavar="RECORD", help="records of `ode-transformer bench`, one row each")
    drawn.set_defaults(draw=lambda args: costs(args.records, args.output))
    drawn = kinds.add_parser("confusion", help="the confusion matrix of a classifier")
    drawn.add_argument("record", metavar="RECORD", help="of a run of classification")
    drawn.add_argument("--of", metavar="TEST", help="the test set (default: the first of the record)")
    drawn.set_defaults(draw=lambda args: confusion(args.record, args.of, args.output))
    drawn = kinds.add_parser("edits", help="corrections by type: people's and those of systems")
    drawn.add_argument("files", nargs="+", metavar="M2", help="the human edits, then one file per system")
    drawn.add_argument(
        "--types", type=at_least(1), default=15, metavar="N", help="the first file's top N types (default: 15)"
    )
    drawn.set_defaults(draw=lambda args: edits(args.files, args.types, args.output))
    for drawn in kinds.choices.values():
        drawn.add_argument("--output", metavar="FILE", required=True, help=f"the file to write, {', '.join(FORMATS)}")


def _positions(args: argparse.Namespace) -> None:
    from . import model_plots

    model_plots.positions(args.checkpoints, args.of, args.length, args.output)


def _coefficients(args: argparse.Namespace) -> None:
    from . import model_plots

    model_plots.coefficients(args.checkpoints, texts_of(args), args.sentences, args.output, args.record)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer plot``; the exit status."""
    args.draw(args)
    print(args.output)
    return 0
