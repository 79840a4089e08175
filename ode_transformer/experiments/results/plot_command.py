"""``ode-transformer plot``: plots of records, logs and models."""

import argparse
import inspect
from importlib import import_module

from ..arguments import add_text_arguments, at_least, output_file, texts_of
from .pictures import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer plot``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    drawn = kinds.add_parser("positions", help="heat map of a model's position vectors, position by dimension")
    drawn.add_argument("files", nargs="+", metavar="CHECKPOINT", help="one panel per checkpoint")
    drawn.add_argument(
        "--length", metavar="N", type=at_least(2), default=100, help="number of positions (default: %(default)s)"
    )
    drawn.add_argument(
        "--of", metavar="NAME",
        help="which vectors: encoder.input, encoder.0.self_attn.q, decoder.2.encoder_attn.k and the like (default: the "
        "queries of the first block if they depend on the position, else the input; of the encoder if there is one)",
    )  # fmt: skip
    drawn = kinds.add_parser("training", help="perplexity and gradient norm against updates")
    drawn.add_argument(
        "files", nargs="+", metavar="LOG", help="a log of fairseq-train --log-format json, or a run's record"
    )
    drawn = kinds.add_parser("coefficients", help="weights of the stages of each layer, from learned coefficients")
    drawn.add_argument("files", nargs="+", metavar="CHECKPOINT", help="one panel per checkpoint")
    add_text_arguments(drawn)
    drawn.add_argument("--record", type=output_file, metavar="FILE", help="JSON file for the numbers")
    drawn = kinds.add_parser("costs", help="time and memory against sentence length, depth or vocabulary size")
    drawn.add_argument("files", nargs="+", metavar="RECORD", help="records of `ode-transformer bench`, one row each")
    drawn = kinds.add_parser(
        "orders", help="local errors against the step size, and errors of the steps of trained models"
    )
    drawn.add_argument("file", metavar="RECORD", help="a record of `ode-transformer lab orders`")
    drawn = kinds.add_parser("confusion", help="the confusion matrix of a classifier")
    drawn.add_argument("file", metavar="RECORD", help="the record of a classification run")
    drawn.add_argument("--of", metavar="TEST", help="test set (default: the record's first)")
    drawn = kinds.add_parser("edits", help="corrections by type, of annotators and systems")
    drawn.add_argument("files", nargs="+", metavar="M2", help="M2 files: the human edits, then one file per system")
    help_ = f"picture to write: {', '.join(FORMATS)}"
    for drawn in kinds.choices.values():
        drawn.add_argument("--output", type=output_file, metavar="FILE", required=True, help=help_)


def main(args: argparse.Namespace) -> None:
    """Run ``ode-transformer plot``."""
    of_models = args.kind in ("positions", "coefficients")  # which need torch and fairseq
    draw = getattr(import_module(".model_plots" if of_models else ".plots", __package__), args.kind)
    if args.kind == "coefficients":
        args.read = texts_of(args)
    draw(**{name: getattr(args, name) for name in inspect.signature(draw).parameters})
    print(args.output)
