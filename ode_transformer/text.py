"""Text work of the data preparation: checks, tokenisation, cleaning, SentencePiece, and the manifest.

Runs as a program by its path (``python ode_transformer/text.py --help``), so that the scripts in ``data-prep`` work
from a fresh clone and pay no start-up time for torch and fairseq, which it does not import. Every sub-command writes
the file it is told to and nothing else.
"""

import argparse
import bisect
import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("fairseq-fixed", "sacremoses", "subword-nmt", "sentencepiece")
SHOWN = 5  # line numbers named in a message


class TextError(ValueError):
    """Text that cannot be used; the message names the file, the line or count, and what is expected."""


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file. Line feeds end them and nothing else, so that all tools count alike.

    Raises:
        TextError: no such file, or not UTF-8; names the line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TextError(f"{path}: {error.strerror}") from error
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TextError(f"{path}: line {line} is not UTF-8 (byte {data[error.start]:#04x}: {error.reason})") from error
    if lines[-1] == "":
        lines.pop()
    return lines


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, each ended by a line feed."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def read_pair(prefix: Path, langs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both sides of parallel text, ``PREFIX.LANG``.

    Raises:
        TextError: a file is missing, empty or not UTF-8, or the numbers of lines differ; names both files.
    """
    paths = [Path(f"{prefix}.{lang}") for lang in langs]
    source, target = (read_lines(path) for path in paths)
    if len(source) != len(target):
        raise TextError(f"{paths[0]} has {len(source)} lines, {paths[1]} has {len(target)}: must be parallel")
    if not source:
        raise TextError(f"{paths[0]} and {paths[1]} are empty")
    return source, target


def odd_pairs(source: Sequence[str], target: Sequence[str], max_tokens: int) -> dict[str, list[int]]:
    """Numbers, from 1, of lines with an ``empty`` side and of lines that are ``too_long`` on a side."""
    found: dict[str, list[int]] = {"empty": [], "too_long": []}
    for number, sides in enumerate(zip(source, target, strict=True), 1):
        sizes = [len(side.split()) for side in sides]
        if not min(sizes):
            found["empty"].append(number)
        elif max(sizes) > max_tokens:
            found["too_long"].append(number)
    return found


def tokenise(lines: Iterable[str], lang: str, *, lowercase: bool) -> Iterator[str]:
    """Lower-case if wanted, normalise punctuation and tokenise, as Moses does, with ``&apos;`` and its like.

    The order, lower case first, is that of the Multi30k literature; it gives its tokens.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if lang not in known:  # sacremoses would take English rules
        raise TextError(f"language {lang}: must be one of {', '.join(known)}")
    normaliser, tokeniser = MosesPunctNormalizer(lang), MosesTokenizer(lang)
    for line in lines:
        line = normaliser.normalize(line.lower() if lowercase else line)
        yield tokeniser.tokenize(line, return_str=True)


def sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check(args: argparse.Namespace) -> None:
    """Check that splits are there, parallel and UTF-8; with --max-tokens, report empty and over-long lines."""
    for split in args.splits:
        pair = read_pair(args.dir / split, args.langs)
        if args.max_tokens is None:
            continue
        for lang, lines in zip(args.langs, pair, strict=True):
            # fairseq reads a carriage return as the end of a line, so the sides would no longer be parallel.
            if returns := [n for n, line in enumerate(lines, 1) if "\r" in line]:
                raise TextError(f"{args.dir / split}.{lang}: carriage returns, first in line {returns[0]}")
        _report(args.dir / split, args.langs, odd_pairs(*pair, args.max_tokens), args.max_tokens, "kept")


def _report(prefix: Path, langs: Sequence[str], odd: dict[str, list[int]], max_tokens: int, fate: str) -> None:
    reasons = {"empty": "with an empty side", "too_long": f"with more than {max_tokens} tokens on a side"}
    for key, numbers in odd.items():
        if numbers:
            shown = ", ".join(map(str, numbers[:SHOWN])) + (", ..." if len(numbers) > SHOWN else "")
            files = f"{prefix}.{{{','.join(langs)}}}"
            print(f"warning: {files}: {len(numbers)} pairs {reasons[key]} (lines {shown}): {fate}", file=sys.stderr)


def _tokenise(args: argparse.Namespace) -> None:
    """Normalise, tokenise and perhaps lower-case the files of a folder into another."""
    from tqdm import tqdm

    args.output_dir.mkdir(parents=True, exist_ok=True)
    for name in (f"{split}.{lang}" for split in args.splits for lang in args.langs):
        shown = tqdm(read_lines(args.dir / name), desc=name, unit=" lines", disable=None, file=sys.stderr)
        lang = name.rpartition(".")[2]
        write_lines(args.output_dir / name, tokenise(shown, lang, lowercase=args.lowercase))


def _clean(args: argparse.Namespace) -> None:
    """Copy the files of a folder into another; of --drop-from, without pairs that are empty or too long on a side."""
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for split in args.splits:
        pair = read_pair(args.dir / split, args.langs)
        odd = odd_pairs(*pair, args.max_tokens)
        drop = split == args.drop_from
        _report(args.dir / split, args.langs, odd, args.max_tokens, "dropped" if drop else "kept")
        dropped = {number for numbers in odd.values() for number in numbers} if drop else set()
        if len(dropped) == len(pair[0]):
            raise TextError(f"{args.dir / split}: no pair is left after cleaning")
        for lang, lines in zip(args.langs, pair, strict=True):
            kept = (line for number, line in enumerate(lines, 1) if number not in dropped)
            write_lines(args.output_dir / f"{split}.{lang}", kept)


def _short_to_long(args: argparse.Namespace) -> None:
    """Split training text by its source's length: short pairs to train on, longer ones as test sets, a bin each."""
    bins: list[int] = args.bins
    if sorted(set(bins)) != bins or not 1 < args.limit <= bins[0]:
        raise TextError(
            f"--limit {args.limit} --bins {bins}: bins must increase, from --limit or above, and --limit be 2 up"
        )
    train, valid = args.splits
    parts: dict[str, list[tuple[str, str]]] = {name: [] for name in ("train", "valid", *_bin_names(bins))}
    for source, target in zip(*read_pair(args.dir / train, args.langs), strict=True):
        length = len(source.split())
        if length < args.limit:
            parts["train"].append((source, target))
        elif length >= bins[0]:
            parts[_bin_names(bins)[bisect.bisect(bins, length) - 1]].append((source, target))
    pairs = zip(*read_pair(args.dir / valid, args.langs), strict=True)
    parts["valid"] = [pair for pair in pairs if len(pair[0].split()) < args.limit]
    for name, found in parts.items():
        if not found:
            raise TextError(f"--limit {args.limit} --bins {bins}: no pairs for {name}")
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for name, found in parts.items():
        for lang, lines in zip(args.langs, zip(*found, strict=True), strict=True):
            write_lines(args.output_dir / f"{name}.{lang}", lines)
        print(f"{name}: {len(found)} pairs", file=sys.stderr)


def _bin_names(bins: Sequence[int]) -> list[str]:
    """As fairseq numbers test sets."""
    return ["test", *(f"test{i}" for i in range(1, len(bins)))]


def _learn_sentencepiece(args: argparse.Namespace) -> None:
    """Learn a SentencePiece BPE model on tokenised text."""
    import sentencepiece

    # The text is normalised and tokenised already: "identity" keeps the words what they are for the scores.
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(map(str, args.input)),
        model_prefix=str(args.output),
        vocab_size=args.vocab_size,
        hard_vocab_limit=False,
        model_type="bpe",
        character_coverage=1.0,
        normalization_rule_name="identity",
        minloglevel=1,
    )
    Path(f"{args.output}.model").replace(args.output)
    Path(f"{args.output}.vocab").unlink()


def _apply_sentencepiece(args: argparse.Namespace) -> None:
    """Segment the files of a folder with a SentencePiece model into another."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(args.model))
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for name in (f"{split}.{lang}" for split in args.splits for lang in args.langs):
        pieces = model.encode(read_lines(args.dir / name), out_type=str)
        write_lines(args.output_dir / name, (" ".join(line) for line in pieces))


def _verify(args: argparse.Namespace) -> None:
    """Compare files with a list of SHA-256 sums; a difference is an error, or with --warn a warning."""
    known = {name: digest for digest, _, name in (line.partition("  ") for line in read_lines(args.checksums))}
    differ = []
    for file, name in _pairs(args.names).items():
        if name not in known:
            raise TextError(f"{args.checksums}: no checksum of {name}")
        found = sha256(args.dir / file)
        if found != known[name]:
            differ.append(f"{args.dir / file} has SHA-256 {found}, the published {name} {known[name]}")
    if differ and not args.warn:
        raise TextError("\n".join(differ))
    if differ:
        print(f"warning: {len(differ)} of {len(args.names)} files are not the published ones:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in differ[:SHOWN]), file=sys.stderr)


def _pairs(values: Sequence[str]) -> dict[str, str]:
    return dict(value.split("=", 1) for value in values)


def _settings(args: argparse.Namespace) -> None:
    """Succeed if the file holds these settings; write them if it is absent; name what differs otherwise."""
    wanted = _pairs(args.settings)
    if not args.file.exists():
        if args.required:
            raise TextError(f"{args.file.parent} was not made, or not finished, by this script; take another --out")
        args.file.parent.mkdir(parents=True, exist_ok=True)
        args.file.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
        return
    held = json.loads(args.file.read_text(encoding="utf-8"))
    held = held.get("settings", held)
    differ = [
        f"{k} {held.get(k)} there, {wanted.get(k)} now" for k in {**held, **wanted} if held.get(k) != wanted.get(k)
    ]
    if differ:
        raise TextError(
            f"{args.file.parent} was made with other settings ({'; '.join(differ)}); take another --out or remove it"
        )


def manifest(args: argparse.Namespace) -> dict[str, Any]:
    """What a folder of binarised data holds and how it was made."""
    splits = _pairs(args.splits)
    data: Path = args.data_dir
    counts = {}
    for split, name in splits.items():
        pair = read_pair(args.text_dir / name, args.langs)
        tokens = {lang: sum(len(line.split()) for line in lines) for lang, lines in zip(args.langs, pair, strict=True)}
        counts[split] = {"lines": len(pair[0]), "tokens": tokens}
    settings = _pairs(args.settings)
    # The four special symbols are not in the file.
    symbols = {lang: len(read_lines(data / f"dict.{lang}.txt")) + 4 for lang in args.langs}
    versions = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    segmented = [f"{name}.{lang}" for name in splits.values() for lang in args.langs]
    patterns = ("dict.*.txt", "codes", "sentencepiece.model", "raw/*", "tok/*")
    kept = [path for pattern in patterns for path in data.glob(pattern)]
    return {
        "set": args.set,
        "source_lang": args.langs[0],
        "target_lang": args.langs[1],
        "source": args.source,
        "splits": splits,
        "counts": counts,  # tokens are subword units
        "symbols": symbols,
        "settings": settings,
        "sha256": {
            **{path.relative_to(data).as_posix(): sha256(path) for path in sorted(kept)},
            **{f"segmented/{file}": sha256(args.text_dir / file) for file in segmented},
        },
        "versions": versions,
    }


def _manifest(args: argparse.Namespace) -> None:
    """Write the manifest of a folder of binarised data and print its numbers."""
    found = manifest(args)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (args.data_dir / "manifest.json").write_text(text + "\n", encoding="utf-8")
    for split, name in found["splits"].items():
        tokens = ", ".join(f"{lang} {count:,}" for lang, count in found["counts"][split]["tokens"].items())
        print(f"{split:<6} {name:<18} {found['counts'][split]['lines']:>7,} pairs   subword units: {tokens}")
    print(f"symbols, with the 4 special ones: {', '.join(f'{k} {v:,}' for k, v in found['symbols'].items())}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="text", description=__doc__.split("\n", 1)[0])
    commands = top.add_subparsers(dest="command", required=True)

    def add(name, run):
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        return command.add_argument

    def add_files(add_to):
        add_to("dir", type=Path, help="the folder of files SPLIT.LANGUAGE")
        add_to("--splits", nargs="+", required=True)
        add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)

    add_to = add("check", _check)
    add_files(add_to)
    add_to("--max-tokens", type=int)
    add_to = add("tokenise", _tokenise)
    add_files(add_to)
    add_to("--lowercase", action="store_true")
    add_to("--output-dir", type=Path, required=True)
    add_to = add("clean", _clean)
    add_files(add_to)
    add_to("--drop-from", required=True, metavar="SPLIT")
    add_to("--max-tokens", type=int, required=True)
    add_to("--output-dir", type=Path, required=True)
    add_to = add("short-to-long", _short_to_long)
    add_to("dir", type=Path, help="the folder of files SPLIT.LANGUAGE")
    add_to("--splits", nargs=2, metavar=("TRAIN", "VALID"), required=True)
    add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    add_to("--limit", type=int, required=True, metavar="N", help="train on sources of fewer symbols")
    add_to("--bins", type=int, nargs="+", required=True, metavar="N", help="where each bin of longer ones begins")
    add_to("--output-dir", type=Path, required=True)
    add_to = add("learn-sentencepiece", _learn_sentencepiece)
    add_to("--input", type=Path, nargs="+", required=True)
    add_to("--vocab-size", type=int, required=True)
    add_to("--output", type=Path, required=True)
    add_to = add("apply-sentencepiece", _apply_sentencepiece)
    add_files(add_to)
    add_to("--model", type=Path, required=True)
    add_to("--output-dir", type=Path, required=True)
    add_to = add("verify", _verify)
    add_to("dir", type=Path)
    add_to("names", nargs="+", metavar="FILE=NAME", help="a file of the folder, and what the list calls it")
    add_to("--checksums", type=Path, required=True)
    add_to("--warn", action="store_true")
    add_to = add("settings", _settings)
    add_to("file", type=Path)
    add_to("settings", nargs="+", metavar="KEY=VALUE")
    add_to("--required", action="store_true", help="the file must be there")
    add_to = add("manifest", _manifest)
    add_to("--set", required=True)
    add_to("--source", required=True, help="where the text came from, in words")
    add_to("--langs", nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    add_to("--splits", nargs="+", required=True, metavar="SPLIT=NAME")
    add_to("--text-dir", type=Path, required=True)
    add_to("--data-dir", type=Path, required=True)
    add_to("--settings", nargs="+", required=True, metavar="KEY=VALUE")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; the exit status is 0, or 1 after a named error."""
    args = parser().parse_args(argv)
    try:
        args.run(args)
    except TextError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
