"""Comparing files with the published ones by their SHA-256 sums."""

import argparse
import gzip
import hashlib
import shutil
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from ...files import regular, sha256, whole
from .lines import SHOWN, TextError, read_lines, unpacked


def verify(args: argparse.Namespace) -> None:
    """Compare files with a list of SHA-256 sums; a difference is an error, or with --warn a warning."""
    _compare(args, [(args.dir / file, name, sha256(args.dir / file)) for file, name in as_mapping(args.names).items()])


def _compare(args: argparse.Namespace, found: Sequence[tuple[Path, str, str]]) -> None:
    known = {name: digest for digest, _, name in (line.partition("  ") for line in read_lines(args.checksums))}
    if unknown := [name for _, name, _ in found if name not in known]:
        raise TextError(f"{args.checksums}: no checksum of {unknown[0]}")
    differ = [
        f"{path} has SHA-256 {digest}, the published {name} {known[name]}"
        for path, name, digest in found
        if digest != known[name]
    ]
    if differ and not args.warn:
        raise TextError("; ".join(differ) + ": must be the published file; move it away to retry")
    if differ:
        print(f"warning: {len(differ)} of {len(found)} files are not the published ones:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in differ[:SHOWN]), file=sys.stderr)


def copy(args: argparse.Namespace) -> None:
    """Copy files, plain or .gz, if they are the published ones; existing copies must have the same content."""
    sources = {}
    for file, name in as_mapping(args.names).items():
        plain = args.dir / Path(name).name
        zipped = plain.with_name(f"{plain.name}.gz")
        sources[file] = next((path for path in (plain, zipped) if path.exists()), None)
        if sources[file] is None:
            raise TextError(f"{plain}: no such file, nor {zipped}")
    digests = {file: _digest(source) for file, source in sources.items()}
    _compare(args, [(sources[file], name, digests[file]) for file, name in as_mapping(args.names).items()])
    for file, source in sources.items():
        target = args.output_dir / file
        if not target.exists():
            with source.open("rb") as stored, whole(target, "wb") as write:
                shutil.copyfileobj(unpacked(source, stored), write)
        elif sha256(target) != digests[file]:
            raise TextError(f"{source} is not what it was: it differs from {target}, its copy; take another --out")


def _digest(path: Path) -> str:
    try:
        with regular(path).open("rb") as stored:
            return hashlib.file_digest(unpacked(path, stored), "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TextError(f"{path}: cut off or damaged") from error


def as_mapping(values: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` arguments as a dictionary.

    Raises:
        TextError: one has no ``=``.
    """
    if wrong := [value for value in values if "=" not in value]:
        raise TextError(f"{wrong[0]}: must be two words with = between them; see --help")
    return dict(value.split("=", 1) for value in values)
