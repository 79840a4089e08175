"""The files of results: records of runs, and other JSON files in a folder."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from ...files import read_json
from ..records import check_record


def _json_files(folder: Path) -> list[Path]:
    """Return the JSON files in a folder and its subfolders, those in the fewest first, without those of bundles.

    Links are followed, but not to a folder that they are in.
    """
    found = []
    for home, folders, names in os.walk(folder, followlinks=True):
        real = Path(home).resolve()
        folders[:] = [name for name in folders if name[0] != "." and not real.is_relative_to((real / name).resolve())]
        found += [Path(home, name) for name in names if name.endswith(".json") and "bundle.json" not in names]
    return sorted(found, key=lambda path: (len(path.parts), path))


def readable(paths: Iterable[Any], read: Callable[[Any], Any], where: str = "") -> Iterator[tuple[Any, Any]]:
    """Yield each path with what a function reads from it; a path that it refuses is reported on standard error."""
    for path in paths:
        try:
            found = read(path)
        except (OdeTransformerError, OSError) as error:
            print(f"left out{where}: {error}", file=sys.stderr)
            continue
        yield path, found


def read_records(folder: Path) -> dict[str, list[dict]]:
    """Return the records of finished runs in a folder and its subfolders, by recipe; ``path`` of each is its file.

    JSON files that are not records, such as translations, are left out; invalid records are reported on standard error.

    A second record of the same precision, seed and flags, such as that of a run with another ``--run-dir``, becomes a
    variant of its own, named after its file. The first is the one in the fewest subfolders: a record in ``results/gpu``
    comes after that of the same run on a CPU.
    """
    found: dict[str, dict[tuple, dict]] = {}
    if not folder.is_dir():
        raise OdeTransformerError(f"--results {folder}: no such folder")
    files = [path for path in _json_files(folder) if path.name not in ("run.json", "steps.json")]
    for path, record in readable(files, _record):
        if record and record["scale"] == "full":
            runs, record["path"] = found.setdefault(record["recipe"], {}), path
            if (*record["seeds"], *variant(record)) in runs:
                record["file"] = str(path.relative_to(folder))
            runs[*record["seeds"], *variant(record)] = record
    return {name: list(runs.values()) for name, runs in found.items()}


def _record(path: Path) -> Optional[dict]:
    """Return the record in a file, or None if the file is no record, such as one of translations."""
    found = read_json(path)
    return check_record(found, path) if isinstance(found, dict) and "recipe" in found else None


def variant(record: dict[str, Any]) -> tuple[str, ...]:
    """Return the variant of a run of a recipe: the precision, the user's flags, and the file of a second record."""
    return (record["precision"], *record["flags"], *([f"in {record['file']}"] if "file" in record else []))


def variant_label(label: str, variant: tuple[str, ...]) -> str:
    """Return a label followed by a variant: the precision if it is not fp32, and the flags."""
    precision, *flags = variant
    return ", ".join([label, *([precision] if precision != "fp32" else []), *([" ".join(flags)] if flags else [])])
