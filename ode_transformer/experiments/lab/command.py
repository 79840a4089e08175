"""``ode-transformer lab``: its arguments, records and figure."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import machine
from ...checkpoints.inputs import read_texts
from ...errors import OdeTransformerError
from .. import markdown
from ..arguments import at_least
from ..results import pictures
from ..runs import records
from . import flow, orders, steps


def draw(record: Mapping[str, Any], output: str | Path) -> None:
    """Draw local errors against the step size, one line per method; and errors by layer, one line per model."""
    pyplot = pictures.pyplot_for(output)
    from matplotlib import ticker

    methods, layers = record["methods"], record["layers"]
    size = (8 * (1 + bool(layers)), 6)
    figure, axes = pyplot.subplots(1, 1 + bool(layers), figsize=size, squeeze=False, layout="constrained")
    axis, *more = axes[0]
    for row in sorted(methods, key=lambda row: -row["local_errors"][-1]):  # as their lines end
        order, label = row["theory"] - 1, f"{row['method']}: {row['local']:.2f}"
        look = {"color": pictures.COLOURS[order], "marker": pictures.MARKS[order], "alpha": 0.8}
        axis.plot(row["sizes"], row["local_errors"], label=label, **look)
    axis.set_xscale("log", base=2)
    axis.invert_xaxis()
    axis.set_xticks(methods[0]["sizes"], [f"1/{round(1 / size)}" for size in methods[0]["sizes"]])
    axis.set_xlabel("size h of the step")
    axis.set_ylabel("error of one step, O(h to the power of the number after the name)")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7)
    for axis in more:
        for i, (name, found) in enumerate(layers.items()):
            axis.plot(range(1, len(found) + 1), [row["difference"] for row in found], **pictures.style(i, name))
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        axis.set_xlabel("layer")
        axis.set_ylabel("distance of two half steps from a whole one, relative to the step")
        axis.legend(fontsize=8)
    for axis in figure.axes:
        axis.set_yscale("log")
        axis.minorticks_off()
    for axis in more:
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.PercentFormatter(1))
    pictures.save(figure, output)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer lab``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    help_ = "measure the order of convergence of every method, and the error of a step inside trained models"
    kind = kinds.add_parser("orders", help=help_, description=help_)
    kind.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help="pre-norm models of this package")
    pictures.add_text_arguments(kind, required=False)
    kind.add_argument("--output", metavar="FILE", help="JSON file for the record")
    kind.add_argument("--picture", metavar="FILE", help=f"file for the figure, {', '.join(pictures.FORMATS)}")
    help_ = "measure the error of FLOATER's flow with larger steps than the released code's, untrained and in models"
    kind = kinds.add_parser("flow", help=help_, description=help_)
    kind.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help="FLOATER models of this package")
    help_ = "number of positions to look at (default: the released code's 255)"
    kind.add_argument("--positions", metavar="N", type=at_least(1), default=255, help=help_)
    kind.add_argument("--output", metavar="FILE", help="JSON file for the record")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer lab``; the exit status."""
    if args.kind == "flow":
        record = flow.measure(args.checkpoints, args.positions)
        print(flow.table(record))
    else:
        record = _orders(args)
    if args.output:
        records.write(Path(args.output), record)
    return 0


def _orders(args: argparse.Namespace) -> dict[str, Any]:
    if args.checkpoints and not (args.text and args.dictionary):
        raise OdeTransformerError("checkpoints need --text and --dictionary")
    given = [name for name in ("text", "dictionary", "target") if getattr(args, name)]
    if given and not args.checkpoints:
        raise OdeTransformerError(f"--{given[0]}: is what models read; a checkpoint must be named, too")
    if args.picture and Path(args.picture).suffix not in pictures.FORMATS:
        raise OdeTransformerError(f"--picture {args.picture}: must end in one of {', '.join(pictures.FORMATS)}")
    record = {"what": "orders", "versions": machine.versions(), **orders.measure(), "layers": {}}
    print(orders.table(record))
    if args.checkpoints:
        files = pictures.texts_of(args)
        texts = read_texts(files, args.sentences)
        record["layers"] = steps.measure(args.checkpoints, texts, [dictionary for _, dictionary in files])
        record |= pictures.what_was_read(files, texts)
    for name, layers in record["layers"].items():
        head = ("layer", "relative size of its step", "relative distance of two half steps from it")
        rows = ((row["layer"], f"{row['increment']:.4f}", f"{row['difference']:.4f}") for row in layers)
        print(f"\n{name}:\n\n{markdown.table(head, rows)}")
    if args.picture:
        draw(record, args.picture)
        print(args.picture)
    return record
