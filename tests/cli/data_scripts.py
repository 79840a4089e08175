"""What the tests of data-prep/ share: text, archives in the published layouts, and the scripts on nothing but these."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.helpers import ROOT, ask

WHO = {
    "en": ["A man", "A woman", "Two children's friends", "The old dog"],
    "de": ["Ein Mann", "Eine Frau", "Die Freunde zweier Kinder", "Der alte Hund"],
    "fr": ["Un homme", "Une femme", "L'ami de deux enfants", "Le vieux chien"],
}
DOES = {
    "en": ["sits in the park.", 'reads "a book", slowly.', "runs across the street!", "wears a T-shirt."],
    "de": ["sitzt im Park.", "liest langsam „ein Buch“.", "läuft über die Straße!", "trägt ein T-Shirt."],
    "fr": ["est assis dans le parc.", "lit « un livre ».", "traverse la rue !", "porte un t-shirt."],
}


def sentences(lang: str, count: int) -> list[str]:
    """Parallel sentences; the same of every language for the same count."""
    return [f"{WHO[lang][i % 4]} {DOES[lang][i * 3 // 4 % 4]}" for i in range(count)]


def joined(found: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in found).encode()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def times(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


def members(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tar(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, {".tar": "w", ".xz": "w:xz"}.get(path.suffix, "w:gz")) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


SETTINGS = {"ARCHIVES_SHA256", "CLEAN", "IMDB_DIR", "ODE_TRANSFORMER_DATA", "RAW_DIR", "ROBERTA_DIR"}
SETTINGS |= {"TEXT_INPUT", "WIKITEXT_DIR"}


def clean(**more) -> dict[str, str]:
    """An environment that says nothing of the text; no test is to reach the network, and no archive is the real one."""
    kept = {k: v for k, v in os.environ.items() if k not in SETTINGS and not k.startswith("URL_")}
    scripts = "".join(path.read_text() for path in (ROOT / "data-prep").glob("*.sh"))
    # The archive of Scaling NMT has no address: one that is named is taken for a wish for it.
    nowhere = dict.fromkeys(re.findall(r"\bURL_(?!SCALING_NMT)\w+", scripts), "file:///nonexistent")
    nowhere["ARCHIVES_SHA256"] = str(ROOT / "tests" / "__init__.py")  # an empty list of sums
    more = {k: str(v) for k, v in more.items()}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "PATH": path, "VIRTUAL_ENV": sys.prefix, "OMP_NUM_THREADS": "1", **nowhere, **more}


def command(script: str, *arguments, **variables) -> list:
    """A script of data-prep/ on nothing but what is given here."""
    words = [ROOT / "data-prep" / f"prepare-{script}.sh", *arguments]
    return ["env", *(f"{k}={v}" for k, v in variables.items()), *words] if variables else words


def run(words: list) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, words)), env=clean(), cwd=ROOT, capture_output=True, text=True, timeout=300)


def twice(out: Path, once: list, *others: list, answers: Path) -> list[subprocess.CompletedProcess]:
    """The answer of a script that makes data in a folder, and what other commands answer after it.

    Called again, it does nothing, and needs no lock.
    """
    kept = answers / "kept"
    kept.mkdir(parents=True)
    # The text beside the data, too; and a lock that cannot be had.
    keep = ["bash", "-c", 'cp -a "$1"* "$0"; rm -f "$1.lock"; mkdir "$1.lock"', kept, out]
    done, _, again, _, *others = ask(answers, [once, keep, once, ["rmdir", f"{out}.lock"], *others], clean())
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "manifest.json").read_text()) and not Path(f"{out}.part").exists()
    assert again.returncode == 0 and "is complete" in again.stderr
    assert not re.search(r"^\+ ", again.stderr, re.MULTILINE)
    for place in kept.iterdir():
        assert times(out.with_name(place.name)) == times(place)
    return [done, *others]


def numbers(out: Path, counts: dict[str, int]) -> dict[str, int]:
    """How many examples each split of binarised data has, by the index of its source."""
    prefix = "input0/{}" if (out / "input0").is_dir() else "{}.source-target.source"
    heads = {split: (out / f"{prefix.format(split)}.idx").read_bytes()[18:26] for split in counts}
    return {split: int.from_bytes(head, "little") for split, head in heads.items()}


def refusals(asked: dict[str, list], out: Path, answers: Path) -> None:
    """Check that commands, by what each says, end with status 1 and leave no data; one shell asks them all."""
    commands = [its if "--out" in its else [*its, "--out", out / str(i)] for i, its in enumerate(asked.values())]
    for message, done in zip(asked, ask(answers, commands, clean()), strict=True):
        assert done.returncode == 1 and message in done.stderr, (message, done.stderr)
    assert not out.exists() or not [path for path in out.iterdir() if path.name.isdecimal()]
