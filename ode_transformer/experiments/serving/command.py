"""The commands for trained models: ``ode-transformer translate``, ``bundle`` and ``export``."""

import argparse
import contextlib
import signal
import sys
from pathlib import Path
from typing import Optional

from ...errors import OdeTransformerError
from ...files import atomic_file
from ..arguments import at_least, output_file
from .export import FORMATS, QUANTIZATIONS
from .opening import load
from .translate import BUFFER, STANDARD_INPUT, translate_files

SAMPLING = ("sampling_topk", "sampling_topp", "seed")  # options that have no meaning without --sampling


def add_model_arguments(parser: argparse.ArgumentParser, kinds: str) -> None:
    """Add the arguments that choose a model; ``kinds`` is the help of the first."""
    parser.add_argument("model", metavar="MODEL", help=kinds)
    parser.add_argument(
        "--data", metavar="DIR", help="folder of MODEL's binarized data (default: that of its run, or MODEL's folder)"
    )


def add_translate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer translate``."""
    add_model_arguments(parser, "the folder of a run, a checkpoint, a bundle, or an exported model")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="raw text, one sentence per line; - is standard input (default: -)"
    )
    parser.add_argument(
        "--with",
        dest="more",
        action="append",
        default=[],
        metavar="MODEL",
        help="another model for an ensemble; may be repeated",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_file,
        metavar="FILE",
        help="file to write, once all is translated (default: print)",
    )
    parser.add_argument("--beam", type=int, metavar="N", help="beam size (default: the recipe's, or 5)")
    parser.add_argument(
        "--lenpen",
        type=float,
        metavar="P",
        help="length penalty; below 1 favors short translations (default: the recipe's, or 1)",
    )
    parser.add_argument(
        "--max-len-a",
        type=float,
        metavar="A",
        help="a translation has at most A S + B subword units, where S is the length of the longest sentence of its "
        "batch (default: the recipe's, or 0)",
    )
    parser.add_argument("--max-len-b", type=int, metavar="B", help="see --max-len-a (default: the recipe's, or 200)")
    parser.add_argument("--nbest", type=int, default=1, metavar="N", help="translations per sentence (default: 1)")
    parser.add_argument(
        "--prefix", default="", metavar="TEXT", help="raw text of whole words with which every translation begins"
    )
    parser.add_argument(
        "--sampling",
        action="store_true",
        default=None,
        help="draw --nbest translations at random, unit by unit, instead of searching for the best",
    )
    parser.add_argument("--sampling-topk", type=at_least(1), metavar="N", help="draw from the N most probable units")
    parser.add_argument(
        "--sampling-topp", type=float, metavar="P", help="draw from the fewest units of probability P in all"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of --sampling (default: a new one every time)")
    parser.add_argument(
        "--scores", action="store_true", help="print the score (base 2, as fairseq's) and a tab before each translation"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line, with source, texts and scores")
    parser.add_argument(
        "--batch-size", type=at_least(1), metavar="N", help="sentences per batch (default: the recipe's, or 128)"
    )
    parser.add_argument(
        "--buffer",
        type=at_least(1),
        metavar="N",
        help=f"lines to read and sort by length before translating (default: {BUFFER:,}; 1 in a terminal)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument("--fp16", action="store_true", help="on a GPU, translate in fp16")
    parser.epilog = "With --nbest above 1, each translation follows the number of its line in the file, and a tab."


def translate(args: argparse.Namespace) -> Optional[int]:
    """Run ``ode-transformer translate``; return the exit status if it was interrupted, else None."""
    files = args.files or [STANDARD_INPUT]
    for file in files:
        if file != STANDARD_INPUT and not Path(file).exists():
            raise OdeTransformerError(f"{file}: no such file")
    search = {name: getattr(args, name) for name in ("beam", "lenpen", "max_len_a", "max_len_b", "nbest")}
    if args.sampling:
        search |= {name: getattr(args, name) for name in ("sampling", "sampling_topk", "sampling_topp")}
        search["beam"] = args.beam or args.nbest  # the best of more samples has another distribution
    elif given := [name for name in SAMPLING if getattr(args, name) is not None]:
        raise OdeTransformerError(
            f"--{given[0].replace('_', '-')} {getattr(args, given[0])}: has no meaning without --sampling"
        )
    if sys.stdout is None and not args.output:
        raise OdeTransformerError("standard output is closed; name a file with --output")
    forms = {"buffer": args.buffer, "scores": args.scores, "as_json": args.json, "prefix": args.prefix}
    try:
        with atomic_file(args.output) if args.output else contextlib.nullcontext(sys.stdout) as output:
            translator = load(args.model, *args.more, data=args.data, device="cpu" if args.cpu else None)
            if args.fp16:
                translator.half()
            translator.batch_size = args.batch_size or translator.batch_size
            if args.seed is not None and "sampling" in translator.backend.options:
                import torch

                torch.manual_seed(args.seed)
            translate_files(translator, files, output, **forms, **search)
    except KeyboardInterrupt:  # the usual way to leave a prompt
        return 128 + signal.SIGINT
    return None


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer bundle``."""
    add_model_arguments(parser, "the folder of a run or a checkpoint")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write, which must not exist")
    parser.add_argument("--fp16", action="store_true", help="store weights in half precision, at half the size")
    parser.add_argument(
        "--license", metavar="NAME", help="license of the weights, as the Hugging Face Hub names it, such as cc-by-4.0"
    )


def bundle(args: argparse.Namespace) -> None:
    """Run ``ode-transformer bundle``."""
    from . import bundle

    bundle.make(args.model, args.output, data=args.data, half=args.fp16, license=args.license)
    print(args.output)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer export``."""
    add_model_arguments(parser, "the folder of a run, a checkpoint or a bundle")
    parser.add_argument("--format", required=True, choices=list(FORMATS), help="the library that will translate")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write; must not exist")
    parser.add_argument(
        "--quantization", choices=QUANTIZATIONS, help="quantize the weights (default: single precision)"
    )


def export(args: argparse.Namespace) -> None:
    """Run ``ode-transformer export``."""
    from .export.writing import export

    description = export(args.model, args.format, args.output, quantization=args.quantization, data=args.data)
    check = description["check"]
    print(
        f"{args.output}: {args.format}, {args.quantization or 'fp32'}; log-probabilities of {check['symbols']} symbols "
        f"differ from the checkpoint's by {check['largest']:.1e} at most, {check['mean']:.1e} in the mean"
    )
