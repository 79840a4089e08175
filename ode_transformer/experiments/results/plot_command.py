"""``ode-transformer plot``: pictures of records, logs and models."""

import argparse
import inspect
from importlib import import_module

from ..arguments import add_text_arguments, at_least, output_file, texts_of
from .pictures import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer plot``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    drawn = kinds.add_parser("positions", help="what positions look like to a model, position x dimension as colors")
    drawn.add_argument("files", nargs="+", metavar="CHECKPOINT", help="one panel per checkpoint")
    drawn.add_argument("--length", metavar="N", type=at_least(2), default=100, help="positions (default: %(default)s)")
    drawn.add_argument(
        "--of", metavar="NAME",
        help="such as encoder.input, encoder.0.self_attn.q or decoder.2.encoder_attn.k (default: the encoder's first "
        "queries where they move, else its input; without an encoder the decoder's)",
    )  # fmt: skip
    drawn = kinds.add_parser("training", help="perplexity and gradient norm against updates")
    drawn.add_argument(
        "files", nargs="+", metavar="LOG", help="a log of fairseq-train --log-format json, or a run's record"
    )
    drawn = kinds.add_parser("coefficients", help="how learned coefficients weight the stages of each layer")
    drawn.add_argument("files", nargs="+", metavar="CHECKPOINT", help="one panel per checkpoint")
    add_text_arguments(drawn)
    drawn.add_argument("--record", type=output_file, metavar="FILE", help="file for the numbers, as JSON")
    drawn = kinds.add_parser("costs", help="time and memory against sentence length, depth or vocabulary size")
    drawn.add_argument("files", nargs="+", metavar="RECORD", help="records of `ode-transformer bench`, one row each")
    drawn = kinds.add_parser("orders", help="local errors against the step size, and errors inside trained models")
    drawn.add_argument("file", metavar="RECORD", help="of `ode-transformer lab orders`")
    drawn = kinds.add_parser("confusion", help="the confusion matrix of a classifier")
    drawn.add_argument("file", metavar="RECORD", help="of a run of classification")
    drawn.add_argument("--of", metavar="TEST", help="the test set (default: the first of the record)")
    drawn = kinds.add_parser("edits", help="corrections by type: people's and those of systems")
    drawn.add_argument("files", nargs="+", metavar="M2", help="the human edits, then one file per system")
    help_ = f"the file to write, {', '.join(FORMATS)}"
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
