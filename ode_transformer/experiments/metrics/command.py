"""``ode-transformer score``."""

import argparse
import inspect

from ..arguments import Once, at_least, output_file
from ..text.joining import JOIN
from .scoring import KINDS, score_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer score``."""
    parser.register("action", None, Once)  # what argparse calls store
    parser.add_argument("--generate-output", metavar="FILE", help="translations: output of fairseq-generate")
    parser.add_argument("--hyp", metavar="FILE", help="tokenized translations, instead of --generate-output")
    parser.add_argument("--summaries", metavar="FILE", help="output of fairseq-generate; with --ref, the references")
    parser.add_argument("--corrections", metavar="FILE", help="output of fairseq-generate; with --source")
    parser.add_argument("--predictions", metavar="FILE", help="output of ode-transformer classify")
    parser.add_argument("--validation-log", metavar="FILE", help="output of fairseq-validate --log-format json")
    parser.add_argument("--ref", metavar="FILE", help="tokenized references; override those in --generate-output")
    parser.add_argument("--target-lang", metavar="LANG", help="target language such as de; needed for translations")
    parser.add_argument(
        "--reference", action="append", metavar="FILE", help="raw references, for sacreBLEU and chrF; may be repeated"
    )
    parser.add_argument(
        "--source", metavar="FILE", help="what was translated, as plain text, for --metric comet; summarized; corrected"
    )
    parser.add_argument(
        "--data", metavar="DIR", help="binarized data; take both references of --subset from it, as far as it has them"
    )
    parser.add_argument("--subset", metavar="NAME", help="with --validation-log or --data: the subset (default: test)")
    parser.add_argument("--lowercase", action="store_true", help="scores of plain text ignore case")
    parser.add_argument("--compound-split", action="store_true", help="add BLEU after compound splitting (de only)")
    parser.add_argument(
        "--join-hyphens", action="store_true", help="join a @-@ b to a-b, for text from tokenizer.perl -a"
    )
    parser.add_argument("--plain", action="store_true", help="the text is not tokenized; for any language")
    parser.add_argument(
        "--remove-bpe",
        nargs="?",
        const="subword_nmt",
        metavar="|".join(JOIN),
        help="join subword units (without a value: subword_nmt; default: there must be none)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="further: ter, transevolve, comet or one of a plugin",
    )
    parser.add_argument("--lead", type=at_least(1), metavar="N", help="score the first N sentences of --source as well")
    parser.add_argument("--references", nargs="+", metavar="FILE", help="corrections by people, for GLEU")
    parser.add_argument("--edits", metavar="FILE", help="edits by people, an M2 file, for M2's F0.5 and ERRANT's")
    parser.add_argument(
        "--own-edits",
        metavar="FILE",
        help="NAME.m2, where ERRANT's edits of the corrections go, for `plot edits`; those of people: NAME.gold.m2",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--output", type=output_file, metavar="FILE", help="also write the JSON object to a file")


def main(args: argparse.Namespace) -> None:
    """Run ``ode-transformer score``."""
    read = {name for kind in KINDS.values() for name in inspect.signature(kind).parameters}
    given = {name: value for name, value in vars(args).items() if name in read and value not in (None, False)}
    score_file(output=args.output, as_json=args.json, **given)
