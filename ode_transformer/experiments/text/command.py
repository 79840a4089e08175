"""``ode-transformer text``, ``corpus`` and ``documents``: their arguments."""

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..arguments import at_least, new_folder
from . import binarised, checksums, corpus, documents, manifest, pairs
from .describe import describe
from .lines import TextError
from .pipeline import MODELS, Pipeline
from .preparation import COUNTED, STARTS, Preparation, parts_of, prepare_monolingual
from .segmentation import OWN
from .tokenisation import LOWERCASE, Tokeniser


def add_tokeniser(add: Callable[..., Any]) -> None:
    """Add the flags that are fields of a ``Tokeniser``."""
    add("--straight-quotes", action="store_true", help="replace right single quotes by apostrophes")
    add("--lowercase", choices=LOWERCASE, default="no", help="lower-case before all other steps, or after them")
    add("--normalize", "--normalise", dest="normalise", action="store_true", help="normalize punctuation")
    add("--printable", action="store_true", help="replace control characters by spaces")
    add("--aggressive", action="store_true", help="split words at hyphens, as tokenizer.perl -a does")
    add("--old-full-stop", action="store_true", help="treat the end of a line as earlier versions of Moses do")
    add("--plain", action="store_true", help="split nothing off words, and make spaces single")


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a ``Tokeniser``, except its language."""
    return {field.name: getattr(args, field.name) for field in fields(Tokeniser) if field.name != "lang"}


def tokeniser_of(flags: str) -> dict[str, Any]:
    """Return the fields of a ``Tokeniser`` from its flags in one string."""
    parser = argparse.ArgumentParser(prog="--tokenise", add_help=False)
    add_tokeniser(parser.add_argument)
    return _options(parser.parse_args(shlex.split(flags)))


def as_mapping(values: Sequence[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` arguments as a dictionary.

    Raises:
        TextError: one has no ``=``.
    """
    if wrong := [value for value in values if "=" not in value]:
        raise TextError(f"{wrong[0]}: must be two words with = between them; see --help")
    return dict(value.split("=", 1) for value in values)


def _paths(values: Sequence[str]) -> dict[str, Path]:
    return {key: Path(value) for key, value in as_mapping(values).items()}


def _check_new(out: Path) -> None:
    if out.exists():
        raise TextError(f"{out}: is there already, perhaps of other text or options; remove it, or take another folder")


def _prepare(args: argparse.Namespace) -> None:
    """Prepare a parallel corpus: from text in OUT.text, or from --add, to binarized data in OUT."""
    _check_new(args.out)
    given = {f.name: getattr(args, f.name) for f in fields(Preparation) if hasattr(args, f.name)}
    given |= {name: tuple(given[name]) for name in ("langs", "splits")}
    if args.start == "raw" and args.tokenise is None:
        given["tokenise"] = tokeniser_of("")
    given |= {"limits": pairs.Limits(args.max_tokens, args.ratio), "beside": _paths(args.beside)}
    Preparation(**given).run()


def _describe(args: argparse.Namespace) -> None:
    """Write the manifest of data that fairseq-preprocess made, so that models trained on them translate raw text."""
    print(f"{describe(args.dir, args.langs, _options(args))}: {Pipeline.of(args.dir)}")


def _verify(args: argparse.Namespace) -> None:
    """Compare files, plain or .gz, with a list of SHA-256 sums, and copy them, unpacked, with --output-dir."""
    checksums.verify(args.dir, as_mapping(args.names), args.checksums, warn=args.warn, output=args.output_dir)


def _settings(args: argparse.Namespace) -> None:
    """Succeed if the file holds these settings, write them if there is no file, and otherwise name the differences."""
    check = manifest.check_settings if args.required else manifest.keep_settings
    check(args.file, as_mapping(args.settings))


def _setting(args: argparse.Namespace) -> None:
    """Print what the file of finished data says of a setting, an empty line if nothing."""
    print(manifest.setting(args.file, args.name))


def _binarise(args: argparse.Namespace) -> None:
    """Make the folder OUT of text of one language, the same files as fairseq-preprocess --only-source makes."""
    _check_new(args.out)
    if bool(args.folder) == bool(args.texts):
        raise TextError("either SPLIT=FILE or --folder DIR is needed")
    parts = parts_of(args.folder) if args.folder else {"": _paths(args.texts)}
    if not parts:
        raise TextError(f"--folder {args.folder}: holds no parts of examples, SPLIT.input0 and so on, SPLIT.label")
    options = {"dictionary": args.dictionary, "copy_labels": args.copy_labels, "beside": _paths(args.beside)}
    if args.folder and (model := args.folder / OWN[0]).exists():
        options["beside"][model.name] = model
    prepare_monolingual(args.out, parts, **options, workers=args.workers)


def _unbinarise(args: argparse.Namespace) -> None:
    """Turn binarized text, DIR/SPLIT.SOURCE-TARGET.LANGUAGE, back into text with its dictionaries."""
    binarised.unbinarise(args.dir, args.output_dir, args.splits, args.langs)


def _short_to_long(args: argparse.Namespace) -> None:
    """Divide training text by source length: short pairs for training, longer ones for test sets, one per bin."""
    pairs.short_to_long(args.dir, args.text_dir, args.output_dir, args.langs, args.limit, args.bins)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer text``."""
    commands = parser.add_subparsers(dest="what", required=True)
    count = {"type": at_least(1), "metavar": "N"}
    file, folder = {"type": Path, "metavar": "FILE"}, {"type": Path, "metavar": "DIR"}
    workers = {**count, "default": 1, "help": "processes (default: 1)"}

    def add_langs(add: Callable[..., Any]) -> None:
        names = ("SOURCE", "TARGET")
        add("--langs", nargs=2, metavar=names, required=True, help="what the names of files end in, such as de en")

    def command(run: Callable[[argparse.Namespace], None], name: str) -> Callable[..., Any]:
        found = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        found.set_defaults(step=run)
        return found.add_argument

    add = command(_describe, "describe")
    add("dir", **folder, help="a folder with dict.LANGUAGE.txt, and codes or sentencepiece.model")
    add_langs(add)
    add_tokeniser(add)

    add = command(_prepare, "prepare")
    add("out", type=Path, metavar="OUT", help="the folder of the data; the text goes to OUT.text beside it")
    add_langs(add)
    add("--splits", nargs="+", required=True, metavar="SPLIT", help="training, validation, test sets")
    add("--name", required=True, metavar="NAME", help="the name of the corpus")
    add("--source", required=True, metavar="TEXT", help="where the text came from, in words")
    add("--add", nargs=3, action="append", default=[], metavar=("SPLIT", "FILE", "FILE"), dest="files",
        help="a split, and two files whose pairs go to it; may be repeated")  # fmt: skip
    add("--romanian", choices=pairs.ROMANIAN, default="raw",
        help="Romanian: raw, with commas for cedillas, or without diacritics")  # fmt: skip
    add("--start", choices=STARTS, default="raw", help="the folder in OUT.text that is there (default: raw)")
    add("--tokenise", metavar="FLAGS", type=tokeniser_of, help="flags of describe, as one argument")
    add("--tokenise-train", metavar="FLAGS", type=tokeniser_of, help="others for the training text")
    add("--language", default="", metavar="LANG", help="the language of all files, if their endings are not languages")
    add("--counted", choices=COUNTED, default="tokens", help="what limits count (default: tokens)")
    add("--max-tokens", **count, default=250, help="leave out training pairs with longer sides (default: 250)")
    add("--ratio", type=at_least(1, float), metavar="R", help="leave out those with a side more than this many times "
        "as long as the other")  # fmt: skip
    add("--every", type=at_least(2), default=0, metavar="N", help="hold out every Nth pair for validation")
    add("--words", **count, default=0, help="take the first N words of sources alone")
    add("--segmentation", choices=MODELS, default="subword-nmt", help="default: subword-nmt")
    add("--size", **count, help="merges of BPE, or vocabulary size of SentencePiece (default: by the size of the text)")
    add("--test-units", **count, default=0, help="binarize the first N units of the targets of test sets alone")
    add("--separate-dictionaries", action="store_false", dest="joined", help="one dictionary per language")
    add("--dictionaries", type=Path, nargs=2, default=[], metavar="FILE", help="existing ones")
    add("--symbols", type=at_least(5), metavar="N", help="the most symbols of a dictionary (default: all)")
    add("--beside", nargs="*", default=[], metavar="NAME=FILE", help="further files for OUT")
    add("--workers", **workers)

    add = command(_verify, "verify")
    add("dir", **folder, help="the folder of the files")
    add("names", nargs="+", metavar="FILE=NAME", help="a copy, and the name in the list; the file is called like it")
    add("--checksums", **file, required=True, help="the list, as sha256sum writes it")
    add("--warn", action="store_true", help="warn of other files, and accept them")
    add("--output-dir", **folder, help="the folder for copies, named FILE")

    add = command(_settings, "settings")
    add("file", **file, help="settings.json of a text, or manifest.json of finished data")
    add("settings", nargs="+", metavar="KEY=VALUE", help="all that the data depend on")
    add("--required", action="store_true", help="the file must be there")
    add = command(_setting, "setting")
    add("file", **file, help="manifest.json of finished data")
    add("name", metavar="KEY", help="the setting's key")

    add = command(_binarise, "binarise")
    add("out", type=Path, metavar="OUT", help="the folder of the data; OUT.text/settings.json has their settings")
    add("texts", nargs="*", metavar="SPLIT=FILE", help="a file, and its name in the data: train, valid, test, test1")
    add("--folder", **folder, help="instead, the folder of the parts of examples, SPLIT.input0 and so on, SPLIT.label")
    add("--copy-labels", action="store_true", help="leave labels as text")
    add("--dictionary", **file, help="an existing one, instead of that of train")
    add("--beside", nargs="*", default=[], metavar="NAME=FILE", help="further files for OUT")
    add("--workers", **workers)

    add = command(_unbinarise, "unbinarise")
    add("dir", **folder, help="the folder of binarized data")
    add_langs(add)
    add("--splits", nargs="+", required=True, metavar="SPLIT", help="such as train valid")
    add("--output-dir", **folder, required=True, help="the folder for the text")

    add = command(_short_to_long, "short-to-long")
    add("dir", **folder, help="prepared data")
    add("--text-dir", **folder, required=True, help="their text")
    add_langs(add)
    add("--limit", type=int, required=True, metavar="N", help="train on sources with fewer subword units")
    add("--bins", type=int, nargs="+", required=True, metavar="N", help="the shortest length of each bin")
    add("--output-dir", **folder, required=True, help="the folder for the divided text")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer text``; the exit status."""
    args.step(args)
    return 0


def add_corpus_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer corpus``."""
    parser.add_argument(
        "directory", type=new_folder, metavar="DIRECTORY", help="folder for train.de, train.en ... test.en"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed, 0 or more (default: %(default)s)")
    for name, size in (("train", 9000), ("valid", 500), ("test", 500)):
        text = f"number of {name} sentences, 1 to {corpus.MAX_SENTENCES} (default: %(default)s)"
        parser.add_argument(f"--{name}", type=int, default=size, metavar="N", help=text)


def write_corpus(args: argparse.Namespace) -> int:
    """Run ``ode-transformer corpus``; the exit status."""
    print(*corpus.write(args.directory, args.seed, args.train, args.valid, args.test), sep="\n")
    return 0


def add_documents_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer documents``."""
    add = parser.add_argument
    add("inputs", nargs="+", type=Path, metavar="INPUT", help="a file, or a folder of .txt files")
    add("--valid", nargs="+", type=Path, default=[], metavar="INPUT", help="the text for validation")
    add("--held-out", type=at_least(2), default=200, metavar="N",
        help="without --valid, every Nth document is for validation (default: %(default)s)")  # fmt: skip
    add("--split-sentences", action="store_true", help="split lines that hold several sentences")
    add("--like", type=Path, metavar="DIR", help="segment text as this folder of a pretrained model says")
    add("--size", type=int, default=16000, metavar="N", help="vocabulary size (default: %(default)s)")
    add("--workers", type=at_least(1), default=2, metavar="N", help="threads (default: %(default)s)")
    add(
        "--output-dir",
        metavar="DIR",
        type=new_folder,
        required=True,
        help="folder for train, valid and the subword model",
    )


def write_documents(args: argparse.Namespace) -> int:
    """Run ``ode-transformer documents``; the exit status."""
    names = ("valid", "held_out", "split_sentences", "like", "size", "workers")
    documents.prepare(args.inputs, args.output_dir, **{name: getattr(args, name) for name in names})
    return 0
