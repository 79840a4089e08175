"""The command ``ode-transformer score``."""

import argparse
import inspect
from typing import Any

from ..arguments import Once, add_parameters, output_file
from ..text.subwords import JOIN
from .scoring import KINDS, score_file


def add_score(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer score``: those of all functions in ``KINDS``."""
    parser.register("action", None, Once)  # argparse's default action
    several = {"action": "append", "default": None}
    more: dict[str, Any] = {name: {"required": False} for name in KINDS}
    more |= {"reference": several, "references": {"nargs": "+", "default": None}, "metric": several}
    more |= {"remove_bpe": {"nargs": "?", "const": "subword_nmt", "metavar": "|".join(JOIN)}}
    for kind in KINDS.values():
        add_parameters(parser, kind, **more)
        more |= dict.fromkeys(inspect.signature(kind).parameters)  # shared with later kinds
    parser.add_argument("--json", action="store_true", help="print the scores as one JSON object")
    parser.add_argument("--output", type=output_file, metavar="FILE", help="also write the scores to a JSON file")


def main(args: argparse.Namespace) -> None:
    """Run ``ode-transformer score``."""
    read = {name for kind in KINDS.values() for name in inspect.signature(kind).parameters}
    given = {name: value for name, value in vars(args).items() if name in read and value not in (None, False)}
    score_file(output=args.output, as_json=args.json, **given)
