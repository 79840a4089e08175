"""The cost of a run: the download of its data, and its disk space and time as a record of the same recipe gives them.

Imports torch only to compare this machine with that of a record.
"""

import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

from ... import machine
from ...paths import SHARE
from .. import recipes
from .records import RecordError, read_record

SAME = ("processor", "cores", "gpus")  # what two machines have in common whose speeds are compared
KEPT: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "keep-last-epochs": lambda flags: bool(flags.get("no-epoch-checkpoints")),
    "keep-interval-updates": lambda flags: not flags.get("save-interval-updates"),
    "keep-best-checkpoints": lambda flags: not isinstance(flags.get("keep-best-checkpoints"), int),
}
"""The flags that bound the checkpoints of a kind, and by which flags there are none of that kind."""

OTHERS = 2  # checkpoints beside them: the best and the last
BYTES = 12  # of a checkpoint per parameter: the weight and Adam's two moments, in single precision
AVERAGED = 4  # likewise of an average, which has weights alone
NAMED = 5  # files of unknown size; more are counted
SCRIPTS, ARCHIVES = "data-prep", "data-prep/checksums/archives.sha256"


def lines(recipe: "recipes.Recipe") -> list[str]:
    """What ``ode-transformer recipe show`` says of the download, the disk and the time that a run takes."""
    found = list(_records(recipe))
    disk, size = _disk(recipe, *found[0]) if found else ("", 0.0)
    time, hours = _speed(recipe, found)
    return [line for line in (_download(recipe), disk, time, _total(recipe, size, hours)) if line]


def _total(recipe: "recipes.Recipe", size: float, hours: float) -> str:
    """What the trainings with all seeds take; empty for a single one. 0 stands for what is unknown."""
    if (seeds := len(recipe.seeds)) < 2:
        return ""
    flags = recipe.train.flags
    lengths = (f" of up to {flags[k]:,} {k[4:]}s" for k in ("max-update", "max-epoch") if flags.get(k))
    parts = [f"{seeds} trainings{next(lengths, '')}"]
    parts += [f"about {seeds * size:.1f} GiB of disk"] * bool(size) + [f"about {seeds * hours:.1f} hours"] * bool(hours)
    return f"# total: {', '.join(parts)}"


def _download(recipe: "recipes.Recipe") -> Optional[str]:
    if not (files := _fetched(shlex.split(recipe.data.prepare))):
        return None
    sizes = _sizes()
    known = [sizes[name] for name in files if name in sizes]
    unknown = [name for name in files if name not in sizes]
    parts = [f"about {sum(known) / 2**20:,.0f} MiB in {len(known)} file{'s' * (len(known) != 1)}"] if known else []
    if unknown:
        which = ", ".join(unknown) if len(unknown) <= NAMED else f"{len(unknown)} files"
        parts.append(f"the size of {which} is unknown")
    return f"# download: {'; '.join(parts)}"


def _fetched(words: Sequence[str]) -> list[str]:
    """The files that a script of ours, and those that it calls, would download here and now; of other commands, which
    may be a stranger's, none.
    """
    try:
        script = (SHARE / words[0]).resolve()
        if script.parent != (SHARE / SCRIPTS).resolve() or not script.is_file():
            return []
        # --downloads comes first, so that no other option takes it for its value.
        command = [str(script), "--downloads", *words[1:]]
        done = subprocess.run(command, cwd=recipes.ROOT, capture_output=True, text=True, timeout=60)
        return done.stdout.splitlines()
    except (OSError, ValueError, subprocess.TimeoutExpired):  # no path, or what bash alone can read
        return []


def _sizes() -> dict[str, int]:
    """The published bytes of archives, of the list that has their checksums."""
    rows = [line.split() for line in (SHARE / ARCHIVES).read_text(encoding="utf-8").splitlines()]
    return {row[1]: int(row[2]) for row in rows if row[0] != "#" and row[2] != "-"}


def _records(recipe: "recipes.Recipe") -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of a recipe, its own run's first: their files from the top of the repository, and what they hold."""
    group, _, row = recipe.name.rpartition("/")
    own = recipes.ROOT / recipes.default_run_dir(recipe) / "record.json"
    others = sorted((recipes.ROOT / "results" / group).glob(f"{row}.*.json"))  # of other seeds and precisions
    for path in (own, recipes.ROOT / "results" / group / f"{row}.json", *others):
        try:
            record = read_record(path)
        except RecordError:  # there is none, or it was made by hand
            continue
        training = record["training"]
        if record["scale"] == recipe.scale and training["seconds"] > 0:
            yield (
                path.relative_to(recipes.ROOT).as_posix(),
                {
                    "updates": max(entry.get("num_updates", 0) for entry in training["curve"]),
                    "seconds": training["seconds"],
                    "parameters": training["parameters"],
                    "places": [place["hardware"] for place in training.get("trained_on", [])] or [record["hardware"]],
                    "cpu": "--cpu" in record["command"].split(),
                    "precision": record["precision"],
                    "devices": record["devices"],
                },
            )


def _disk(recipe: "recipes.Recipe", path: str, about: dict[str, Any]) -> tuple[str, float]:
    """The line on the disk space of a training, and its GiB."""
    flags, count, parameters = recipe.train.flags, OTHERS, about["parameters"]
    for name, none in KEPT.items():
        most = flags.get(name)
        if not none(flags) and (not isinstance(most, int) or most < 1):  # fairseq keeps all
            return "", 0.0
        count += 0 if none(flags) else most
    size = (count * BYTES + AVERAGED) * parameters / 2**30
    return (
        f"# disk: about {size:.1f} GiB for {count} checkpoints and their average, of {parameters:,} parameters "
        f"({path})",
        size,
    )


def _speed(recipe: "recipes.Recipe", found: list[tuple[str, dict[str, Any]]]) -> tuple[str, float]:
    """The line on the time of a training, and its hours."""
    here = machine.hardware() if found else {}
    for path, about in found:
        if not (about["cpu"] and here["gpus"]) and all(
            place[key] == here[key] for place in about["places"] for key in SAME
        ):
            hourly = 3600 * about["updates"] / about["seconds"]
            planned = recipe.train.flags.get("max-update") or about["updates"]
            where = f"{about['devices']} x {here['gpus'][0]}" if here["gpus"] else f"{here['cores']} cores"
            return (
                f"# time: about {hourly:,.0f} updates per hour on hardware like this ({where}, {about['precision']}), "
                f"{planned / hourly:.1f} hours for {planned:,} ({path})",
                planned / hourly,
            )
    return "", 0.0
