"""``ode-transformer lab``: its arguments and records."""

import argparse
from typing import Any

from ... import machine, markdown
from ...checkpoints.inputs import read_texts, what_was_read
from ...errors import OdeTransformerError
from ...files import write_json
from ..arguments import add_text_arguments, at_least, output_file, texts_of
from . import flow, orders, steps


def add_lab(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer lab``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    help_ = "measure the order of convergence of every method, and the error of the layers' steps in trained models"
    kind = kinds.add_parser("orders", help=help_, description=help_)
    kind.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help="pre-norm models of this package")
    add_text_arguments(kind, required=False)
    kind.add_argument("--output", type=output_file, metavar="FILE", help="JSON file for the record")
    help_ = "measure the error of FLOATER's flow with larger steps than the released code's, untrained and trained"
    kind = kinds.add_parser("flow", help=help_, description=help_)
    kind.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help="FLOATER models of this package")
    help_ = "number of positions (default: 255, as in the released code)"
    kind.add_argument("--positions", metavar="N", type=at_least(2), default=255, help=help_)
    kind.add_argument("--output", type=output_file, metavar="FILE", help="JSON file for the record")


def main(args: argparse.Namespace) -> None:
    """Run ``ode-transformer lab``."""
    if args.kind == "flow":
        record = flow.measure(args.checkpoints, args.positions)
        print(flow.table(record))
    else:
        record = _orders(args)
    if args.output:
        write_json(args.output, record)
        print(args.output)


def _orders(args: argparse.Namespace) -> dict[str, Any]:
    if args.checkpoints and not (args.text and args.dictionary):
        raise OdeTransformerError("checkpoints need --text and --dictionary")
    record = {"what": "orders", "versions": machine.versions(), **orders.measure(), "layers": {}}
    if args.checkpoints:
        files = texts_of(args)
        texts = read_texts(files, args.sentences)
        record["layers"] = steps.measure(args.checkpoints, texts, [dictionary for _, dictionary in files])
        record |= what_was_read(files, texts)
    print(orders.table(record))
    for name, layers in record["layers"].items():
        head = ("layer", "relative size of its step", "relative distance of two half steps from it")
        rows = ((row["layer"], f"{row['increment']:.4f}", f"{row['difference']:.4f}") for row in layers)
        print(f"\n{name}:\n\n{markdown.table(head, rows)}")
    return record
