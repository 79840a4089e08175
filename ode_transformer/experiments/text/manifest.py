"""Descriptions of prepared text and binarized data: their settings, and the manifest."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import read_json, sha256, write_json
from ...schema import count, lacks
from .lines import TextError
from .subwords import MODEL_FILES

NEEDED = ("dict.*.txt", *MODEL_FILES)  # the files of binarized data that translation needs
VERSION = "3"  # the version of the prepared text; data of another version are refused


def text_beside(data: Path) -> Path:
    """Return the folder of the text that data are made of."""
    return data.with_name(f"{data.name}.text")


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file of a preparation."""
    held = read_json(path, TextError)
    if not isinstance(held, dict):
        raise TextError(f"{path}: must be a mapping; remove its folder and prepare the data again")
    return held


def held_settings(file: Path) -> dict[str, str]:
    """Return the settings in a ``settings.json`` or ``manifest.json``."""
    held = read_mapping(file) if file.exists() else {}
    settings = held.get("settings", held)
    if not settings or lacks(settings, {str: str}):
        raise TextError(
            f"{file.parent} was not made, or not finished, by this command; choose another --out, or remove "
            "it if none of its files is yours"
        )
    return settings


def check_settings(file: Path, settings: Mapping[str, str] | Iterable[Sequence[str]], required: bool = False) -> None:
    """Compare settings with those in a file and name the differences; write the file if there is none.

    It is also written if nothing was made with settings that differ.

    Args:
        file: settings.json of text, or manifest.json of finished data.
        settings: the settings on which the data depend; that of a file is its SHA-256.
        required: fail if there is no file.
    """
    wanted = {"text_version": VERSION, **dict(settings)}
    held = held_settings(file) if required or file.exists() else {}
    different = [name for name in {**held, **wanted} if held.get(name) != wanted.get(name)]
    made = {path.name for path in file.parent.glob("[!.]*")} - {"settings.json", "download"}
    if different and not (held and made):
        write_json(file, wanted)
    elif different:
        shown = (_difference(name, held.get(name), wanted.get(name)) for name in different)
        data = file.parent.with_name(file.parent.name.removesuffix(".text"))
        raise TextError(
            f"{file.parent} was made with other settings ({'; '.join(shown)}); choose another --out, or remove {data} "
            f"and {text_beside(data)} (all but its folder download, if there is one), and the recipe if `prepare` "
            "wrote one"
        )


def _difference(name: str, *values: str | None) -> str:
    """Return how a setting differs, for a message; of files only that they do."""
    if any(re.fullmatch("[0-9a-f]{64}", value or "") for value in values):
        words = name.split()  # its split, number and language, or another name
        return f"{'.'.join(dict.fromkeys((words[0], words[-1])))}: another file than then"
    was, is_ = ("not given" if value in ("", "None", None) else value for value in values)
    return f"{name}: {was} then, {is_} now"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of binarized data.

    Raises:
        TextError: there is none, it has another form, or a dictionary or subword model beside it is missing or changed.
    """
    held = read_mapping(folder / "manifest.json")
    held.setdefault("sha256", {})  # generated data have none; their settings describe them
    langs = dict.fromkeys(("source_lang", "target_lang"), (..., str))
    if wrong := lacks(held, {"sha256": {str: str}, "counts": (..., {str: {"lines": (..., count)}}), **langs}):
        raise TextError(f"{folder / 'manifest.json'}: is not a manifest: its {wrong}")
    for name, digest in held["sha256"].items():
        needed = name in MODEL_FILES or re.fullmatch(r"dict\.[\w-]+\.txt", name)
        if needed and not (folder / name).exists():
            raise TextError(f"{folder / name}: is missing, must be the file that manifest.json names")
        if needed and sha256(folder / name) != digest:
            raise TextError(f"{folder / name} has changed since the data were binarized: prepare them again")
    return held


def hashes_in(data: Path, *patterns: str) -> dict[str, str]:
    """Return the SHA-256 of the files of a folder that match a pattern, by their relative paths."""
    found = sorted(path for pattern in patterns for path in data.glob(pattern) if path.is_file())
    return {path.relative_to(data).as_posix(): sha256(path) for path in found}
