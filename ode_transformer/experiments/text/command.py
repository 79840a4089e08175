"""``ode-transformer text``: its arguments."""

import argparse
from pathlib import Path

from ..arguments import at_least
from . import binarised, checksums, manifest, pairs, subwords, tokenisation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer text``."""
    commands = parser.add_subparsers(dest="what", required=True)

    def add(name, run):
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(step=run)
        return command.add_argument

    def add_langs(add_to):
        langs = ("SOURCE", "TARGET")
        add_to("--langs", nargs=2, metavar=langs, required=True, help="what the names of files end in, such as de en")

    def add_files(add_to):
        add_to("dir", metavar="DIR", type=Path, help="the folder of files SPLIT.LANGUAGE")
        add_to(
            "--splits",
            metavar="SPLIT",
            nargs="+",
            required=True,
            help="what the names of files begin with, such as train valid",
        )
        add_langs(add_to)

    def add_workers(add_to):
        add_to("--workers", metavar="N", type=at_least(1), default=1, help="processes (default: 1)")

    def add_output(add_to, older="are replaced"):
        add_to(
            "--output-dir",
            metavar="DIR",
            type=Path,
            required=True,
            help=f"the folder for SPLIT.LANGUAGE; older files {older}",
        )

    def add_output_of_workers(add_to):
        add_workers(add_to)
        add_output(add_to, "stay as they are, whatever the options")

    add_to = add("gather", pairs.gather)
    add_langs(add_to)
    add_to(
        "--add",
        nargs=3,
        action="append",
        metavar=("SPLIT", "FILE", "FILE"),
        required=True,
        help="a split, and the two files whose pairs go to it; may be repeated",
    )
    add_to(
        "--romanian",
        choices=pairs.ROMANIAN,
        default="raw",
        help="Romanian: raw, with commas for cedillas, or without diacritics",
    )
    add_output(add_to)
    add_to = add("check", pairs.check)
    add_files(add_to)
    add_to(
        "--max-tokens",
        type=int,
        metavar="N",
        help="warn of sides with more tokens, and of empty ones (default: no warnings)",
    )
    add_to = add("tokenise", tokenisation.tokenise)
    add_files(add_to)
    add_to("--language", metavar="LANG", help="the language of all files, if their endings are not languages")
    tokenisation.add_tokeniser(add_to)
    add_to("--moses", type=Path, metavar="DIR", help="Moses' folder scripts (default: sacremoses, without Perl)")
    add_output_of_workers(add_to)
    add_to = add("clean", pairs.clean)
    add_files(add_to)
    add_to(
        "--drop-from",
        nargs="+",
        required=True,
        metavar="SPLIT",
        help="the splits whose pairs are dropped; of the others they are reported only",
    )
    add_to("--max-tokens", type=int, required=True, metavar="N", help="the most tokens of a side")
    add_to(
        "--ratio", metavar="R", type=float, help="drop pairs with a side more than this many times as long as the other"
    )
    add_output(add_to)
    add_to = add("hold-out", pairs.hold_out)
    add_to("dir", metavar="DIR", type=Path, help="the folder of train.LANGUAGE")
    add_to("--splits", metavar="SPLIT", nargs="*", default=[], help="further splits to copy")
    add_langs(add_to)
    add_to("--every", type=int, required=True, metavar="N", help="hold out every Nth pair, N being 2 or more")
    add_output(add_to)
    add_to = add("short-to-long", pairs.short_to_long)
    add_to("dir", metavar="DIR", type=Path, help="prepared data")
    add_to("--text-dir", metavar="DIR", type=Path, required=True, help="their text")
    add_langs(add_to)
    add_to("--limit", type=int, required=True, metavar="N", help="train on sources with fewer subword units")
    add_to("--bins", type=int, nargs="+", required=True, metavar="N", help="the shortest length of each bin")
    add_output(add_to)
    for name, learn, apply in (
        ("subword-nmt", subwords.learn_bpe, subwords.apply_bpe),
        ("sentencepiece", subwords.learn_sentencepiece, subwords.apply_sentencepiece),
    ):
        add_to = add(f"learn-{name}", learn)
        add_to("--input", type=Path, nargs="+", required=True, metavar="FILE", help="the training text")
        add_to(
            "--size", metavar="N", type=int, required=True, help="merges of BPE, or vocabulary size of SentencePiece"
        )
        add_workers(add_to)
        add_to("--output", type=Path, required=True, metavar="FILE", help="the file for what is learned")
        add_to = add(f"apply-{name}", apply)
        add_files(add_to)
        add_to("--model", metavar="FILE", type=Path, required=True, help="the file that was learned")
        add_output_of_workers(add_to)
    for name, step in (("verify", checksums.verify), ("copy", checksums.copy)):
        add_to = add(name, step)
        add_to("dir", metavar="DIR", type=Path, help="the folder of the files")
        add_to("names", nargs="+", metavar="FILE=NAME", help="a file of the folder, and its name in the list")
        add_to("--checksums", type=Path, required=True, metavar="FILE", help="the list, as sha256sum writes it")
        add_to("--warn", action="store_true", help="warn of other files, and accept them")
        if step is checksums.copy:
            add_to("--output-dir", metavar="DIR", type=Path, required=True, help="the folder for copies, named FILE")
    add_to = add("binarise-monolingual", binarised.binarise_monolingual)
    add_to("texts", nargs="+", metavar="SPLIT=FILE", help="a file, and its name in the data: train, valid, test, test1")
    add_to("--data-dir", metavar="DIR", type=Path, required=True, help="the folder of binarized data")
    add_to("--dictionary", type=Path, metavar="FILE", help="an existing one, instead of that of train")
    add_workers(add_to)
    add_to = add("unbinarise", binarised.unbinarise)
    add_files(add_to)
    add_output(add_to)
    add_to = add("settings", manifest.settings)
    add_to("file", metavar="FILE", type=Path, help="settings.json of a text, or manifest.json of finished data")
    add_to("settings", nargs="+", metavar="KEY=VALUE", help="all that the data depend on")
    add_to("--required", action="store_true", help="the file must be there")
    add_to = add("setting", manifest.setting)
    add_to("file", metavar="FILE", type=Path, help="manifest.json of finished data")
    add_to("name", metavar="KEY", help="the setting's key")
    add_to = add("describe", manifest.describe)
    add_to("dir", metavar="DIR", type=Path, help="a folder with dict.LANGUAGE.txt, and codes or sentencepiece.model")
    add_langs(add_to)
    tokenisation.add_tokeniser(add_to)
    add_to = add("intact", manifest.intact)
    add_to("dir", metavar="DIR", type=Path, help="the folder of binarized data")
    for name, step, text in (
        ("binarise", binarised.binarise, "the folder of the segmented text"),
        ("references", manifest.references, "the folder of raw, tok and bpe, which hold the text"),
        ("manifest", manifest.write_manifest, "the folder of the segmented text"),
    ):
        add_to = add(name, step)
        add_langs(add_to)
        add_to(
            "--splits",
            metavar="SPLIT",
            nargs="+",
            required=True,
            help="splits of the text: training, validation, test sets",
        )
        add_to("--text-dir", metavar="DIR", type=Path, required=True, help=text)
        add_to("--data-dir", metavar="DIR", type=Path, required=True, help="the folder of binarized data")
        if step is binarised.binarise:
            add_to("--joined-dictionary", action="store_true", help="one dictionary for both languages")
            add_to("--dictionaries", type=Path, nargs=2, metavar="FILE", help="existing ones, instead of the text's")
            add_to("--symbols", type=int, metavar="N", help="the most symbols of a dictionary (default: all)")
            add_workers(add_to)
        if step is manifest.write_manifest:
            add_to("--set", metavar="NAME", required=True, help="the name of the data set")
            add_to("--source", metavar="TEXT", required=True, help="where the text came from, in words")
            add_to("--settings", nargs="+", required=True, metavar="KEY=VALUE", help="all that the data depend on")
            add_to("--tokenise", metavar="FLAGS", help="the flags that test sets were tokenized with, as one argument")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer text``; the exit status."""
    args.step(args)
    return 0
