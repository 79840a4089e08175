"""Files and folders that are written whole or not at all; JSON; hashes."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from .errors import OdeTransformerError


@contextlib.contextmanager
def atomic_file(path: str | Path, mode: str = "w") -> Iterator[IO]:
    """Open a file for writing that takes its name only when it is complete.

    It is written beside its place, flushed to the disk and renamed, so that whatever goes wrong, a kill or a full disk
    included, an older file of that name survives untouched. A symbolic link is followed, and the file keeps its
    permissions. A pipe, a device or ``/dev/stdout`` is opened in place, because a file must not replace it.

    The mode is ``w`` for UTF-8 text with line feeds as they are, or ``wb``. An error names the file, and not the
    temporary one.
    """
    path = Path(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and (not path.is_file() or re.match(r"/dev/(std|fd/)", str(path))):
        with path.open(mode.replace("w", "a"), **text) as file:  # after what it holds; with > the shell has emptied it
            yield file
        return
    with _replacing(path) as temporary, temporary.open(mode, **text) as file:
        if path.exists():
            shutil.copymode(path, temporary)
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Make a folder that takes its name, new or that of an empty folder, only when it is complete.

    It is filled under a unique name beside its place. Its files are not flushed to the disk, unlike one that
    :func:`atomic_file` makes.
    """
    with _replacing(Path(path)) as temporary:
        temporary.mkdir()
        yield temporary


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a unique hidden name beside a path, and rename in the end what was made there; if that fails, remove it."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(target)
    except OSError as error:
        # A full disk has no name, or that of a copied file and its copy.
        if error.errno and (error.filename is None or str(temporary) in f"{error.filename} {error.filename2}"):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)  # unless it has been renamed


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copy the content of a file, whole or not at all."""
    with open(source, "rb") as stored, atomic_file(target, "wb") as file:
        shutil.copyfileobj(stored, file)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OdeTransformerError(f"{path}: {error}") from error


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic_file(path) as file:
        file.write(text)


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file whole or not at all."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines, each ended by a line feed, to a file whole or not at all."""
    with atomic_file(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def read_json(path: str | Path, kind: type[OdeTransformerError] = OdeTransformerError) -> Any:
    """Return the content of a JSON file; an error is of class ``kind``."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        found = json.loads(text)
        if re.search(r"\\u[dD][89a-fA-F]", text):  # halves of a character, which are an error unless they are paired
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except (OSError, ValueError, RecursionError) as error:
        raise kind(f"{path}: cannot be read: {error}") from error


@contextlib.contextmanager
def written_by(writer: str, path: str | Path) -> Iterator[None]:
    """Turn an error that the content of a file causes into one that names the file and the command that writes it."""
    try:
        yield
    except OdeTransformerError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise OdeTransformerError(f"{path}: is not what {writer} writes: {error!r}") from error


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hashes(folder: Path, hashes: Mapping[str, str], remedy: str) -> None:
    """Compare files of a folder with their SHA-256, by their names in it; an error ends with a remedy."""
    for name, digest in hashes.items():
        if Path(name).name != name or not (folder / name).is_file():
            raise OdeTransformerError(f"{folder / name}: is missing, or not a file of its folder; {remedy}")
        if sha256(folder / name) != digest:
            raise OdeTransformerError(f"{folder / name}: has changed since its SHA-256 was noted; {remedy}")
