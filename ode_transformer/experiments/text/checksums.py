"""Comparing files with the published ones by their SHA-256 sums."""

import gzip
import hashlib
import shutil
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

from ...files import regular, sha256, whole
from .lines import SHOWN, TextError, read_lines, unpacked


def verify(
    folder: Path, names: Mapping[str, str], checksums: Path, *, warn: bool = False, output_dir: Path | None = None
) -> None:
    """Compare files, plain or ``.gz``, with the published ones, and copy them, unpacked, if a folder is given.

    Args:
        folder: the folder of the files.
        names: for each file, the name of its copy and its name in the list, whose last part is the file's own name.
        checksums: the list, as sha256sum writes it.
        warn: only warn of files whose sum differs.
        output_dir: the folder for copies; existing copies must have the same content.

    Raises:
        TextError: a file is not there, damaged, unknown to the list, another one, or not what was copied.
    """
    known = {name: digest for digest, _, name in (line.partition("  ") for line in read_lines(checksums))}
    found, differ = {}, []
    for file, name in names.items():
        unpacked_file = folder / Path(name).name
        source = unpacked_file if unpacked_file.exists() else unpacked_file.with_name(f"{unpacked_file.name}.gz")
        if not source.exists():
            raise TextError(f"{unpacked_file}: no such file, nor {source}")
        if name not in known:
            raise TextError(f"{checksums}: no checksum of {name}")
        found[file] = source, _digest(source)
        if found[file][1] != known[name]:
            differ.append(f"{source} has SHA-256 {found[file][1]}, the published {name} {known[name]}")
    if differ and not warn:
        raise TextError("; ".join(differ) + ": must be the published file; move it away to retry")
    if differ:
        print(f"warning: {len(differ)} of {len(names)} files are not the published ones:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in differ[:SHOWN]), file=sys.stderr)
    for file, (source, digest) in found.items() if output_dir else ():
        target = output_dir / file
        if not target.exists():
            with source.open("rb") as stored, whole(target, "wb") as write:
                shutil.copyfileobj(unpacked(source, stored), write)
        elif sha256(target) != digest:
            raise TextError(f"{source} is not what it was: it differs from {target}, its copy; choose another --out")


def _digest(path: Path) -> str:
    try:
        with regular(path).open("rb") as stored:
            return hashlib.file_digest(unpacked(path, stored), "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TextError(f"{path}: cut off or damaged") from error
