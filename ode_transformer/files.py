"""Files and folders that are written whole or not at all; JSON; hashes."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from .errors import OdeTransformerError


@contextlib.contextmanager
def atomic_file(path: str | Path, mode: str = "w") -> Iterator[IO]:
    """Open a file for writing that takes its name only when it is complete.

    It is written beside its place, flushed to the disk and renamed, so that whatever goes wrong, a kill or a full disk
    included, an older file of that name survives untouched. Folders are made as needed. An existing file keeps its
    mode, and a symbolic link is followed. A pipe or a device is opened in place, because a file must not replace it.

    Args:
        path: the file.
        mode: ``w`` for UTF-8 text with line feeds as they are, ``wb`` for bytes.

    Raises:
        OSError: the file cannot be written; the error names it, and not the temporary file.
    """
    path = Path(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and not path.is_file():
        with _naming(path, path), path.open(mode, **text) as file:
            yield file
        return
    with _replacing(path, Path.touch) as temporary, temporary.open(mode, **text) as file:
        if path.exists():
            os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _naming(path: Path, temporary: Path) -> Iterator[None]:
    """Let errors about the temporary file, and those of a full disk, name the final file."""
    try:
        yield
    except OSError as error:
        full = error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if full or str(error.filename) == str(temporary):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Make a folder that takes its name only when it is complete.

    It is filled under a unique name beside its place, and removed if something goes wrong. Its files are not flushed to
    the disk, unlike one that :func:`atomic_file` makes.

    Args:
        path: the folder, which must be new or empty.

    Raises:
        OSError: the folder cannot be written.
    """
    with _replacing(Path(path), Path.mkdir) as temporary:
        yield temporary


def make_folder(path: Path) -> None:
    """Make a folder and its parents, unless it exists.

    Raises:
        OSError: the folder cannot be made; the error names a file or a dangling link in its way.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        there = next(str(one) for one in (path, *path.parents) if os.path.lexists(one))
        raise OSError(errno.ENOTDIR, "is a file, or a link to a folder that does not exist", there) from error


_BEGINNING = 1  # seconds within which a writer locks the file that it has made


@contextlib.contextmanager
def _replacing(path: Path, make: Callable[[Path], Any]) -> Iterator[Path]:
    """Make a file or folder under a unique hidden name beside a path, whose name it takes in the end.

    If something goes wrong, it is removed. A writer that is killed leaves it without a lock, by which the next writer
    of the path recognizes it.
    """
    target = Path(os.path.realpath(path))
    stem = f".{os.fsdecode(os.fsencode(target.name)[:237])}."  # a name has at most 255 bytes
    temporary = target.with_name(stem + secrets.token_hex(8))
    try:
        with _naming(path, temporary), contextlib.ExitStack() as stack:
            make_folder(target.parent)
            for left in target.parent.iterdir():
                if re.fullmatch(re.escape(stem) + "[0-9a-f]{16}", left.name):
                    with contextlib.suppress(OSError), _locked(left):
                        if time.time() - left.stat().st_mtime > _BEGINNING:
                            _remove(left)
            make(temporary)
            with contextlib.suppress(OSError):  # a file system without locks, where nothing is removed either
                stack.enter_context(_locked(temporary))
            yield temporary
            temporary.replace(target)
    finally:
        _remove(temporary)  # unless it has been renamed


def _remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file or folder; raise ``OSError`` where another process holds one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def regular(path: str | Path) -> Path:
    """Return the path of an input file, which must not be a pipe or a device, since those may block or never end.

    What the caller has opened already, such as a shell's ``<(...)``, is accepted like standard input.

    Raises:
        OdeTransformerError: the path is that of a pipe or a device.
    """
    path = Path(path)
    opened = str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))
    if path.exists() and not (path.is_file() or path.is_dir() or opened):
        raise OdeTransformerError(f"{path}: is a pipe or a device, must be a file")
    return path


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copy the content of a file, whole or not at all."""
    with open(regular(source), "rb") as stored, atomic_file(target, "wb") as file:
        shutil.copyfileobj(stored, file)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        OdeTransformerError: the file cannot be read, or is not UTF-8; the message names it.
    """
    try:
        return regular(path).read_text(encoding="utf-8")
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
    """Return the content of a JSON file.

    Args:
        path: the file.
        kind: the class of the error.

    Raises:
        OdeTransformerError: the file cannot be read, is not JSON, or has lone surrogates, which cannot be written
            again; the message names it.
    """
    try:
        text = regular(path).read_text(encoding="utf-8")
        found = json.loads(text)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
        return found
    except OdeTransformerError as error:
        raise kind(str(error)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise kind(f"{path}: cannot be read: {error}") from error


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hashes(folder: Path, hashes: Mapping[str, str], kind: type[OdeTransformerError], remedy: str) -> None:
    """Compare files of a folder with their SHA-256, by their names in it.

    Raises:
        OdeTransformerError: a file is missing, is named by a path or has changed. It is a ``kind``, and its message
            ends with the remedy.
    """
    for name, digest in hashes.items():
        if Path(name).name != name or not (folder / name).is_file():
            raise kind(f"{folder / name}: is missing, or not a file of its folder; {remedy}")
        if sha256(folder / name) != digest:
            raise kind(f"{folder / name}: has changed since its SHA-256 was noted; {remedy}")
