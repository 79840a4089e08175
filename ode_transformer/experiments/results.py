"""Records of runs: what was run, on what, with which versions, and what came out.

A record is a small JSON file that is written from the files of a finished run: its log, its scores, its data's
manifest. Nothing in it is typed by hand.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import OdeTransformerError
from ..files import sha256, write_json
from ..version import __version__
from . import recipes

FOLDERS = ("ODE_TRANSFORMER_DATA", "RAW_DIR", "MOSES_DIR")  # variables that name one
PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "sentencepiece")


TRAINED_ON = "trained on "  # begins a line of a log


class RecordError(OdeTransformerError):
    """A run without what a record needs; the message names the file and what it lacks."""


def _entries(text: str, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a log has of some kinds; without the kind before each key. An entry that a kill cut short is none."""
    for kind, body in re.findall(rf"\| INFO \| ({'|'.join(kinds)}) \| (\{{[^{{}}\n]*\}})", text):
        yield kind, {k.removeprefix(f"{kind}_"): v for k, v in json.loads(body).items()}


def read_log(path: Path) -> dict[str, Any]:
    """Read a log of ``fairseq-train --log-format json``.

    Returns:
        ``parameters``; ``curve``, a list with an entry an epoch (training and validation loss, perplexity or accuracy,
        gradient norm, words a second, updates, wall seconds since the process began); ``seconds``, the processes'
        wall time in all; ``trained_on``, where they ran, as :func:`where` says, a place once.

    Raises:
        RecordError: it is no such log, or no epoch ended.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    parameters = re.search(r"num\. shared model params: ([\d,]+) \(num\. trained: ([\d,]+)\)", text)
    curve: dict[int, dict[str, Any]] = {}
    seconds = 0.0
    for process in text.split("num. shared model params")[1:]:  # a resumed run counts from zero again
        walls = re.findall(r'"(?:train_)?wall": "([\d.]+)"', process)
        seconds += max(map(float, walls), default=0.0)
    for kind, values in _entries(text, "train", "valid"):
        entry = curve.setdefault(int(values["epoch"]), {"epoch": int(values["epoch"])})
        for key in ("loss", "ppl", "accuracy", "gnorm", "wps", "wall", "num_updates"):
            if key in values and not (kind == "valid" and key in ("wps", "num_updates")):
                name = key if key == "num_updates" else f"{kind}_{key}"
                entry[name] = float(values[key]) if key != "num_updates" else int(values[key])
    curve = {epoch: entry for epoch, entry in curve.items() if "num_updates" in entry}  # others did not end
    if parameters is None or not curve:
        raise RecordError(f"{path}: no log of fairseq-train --log-format json with a finished epoch")
    count, trained = (int(n.replace(",", "")) for n in parameters.groups())
    return {
        "parameters": count,
        "trained_parameters": trained,
        "curve": [curve[epoch] for epoch in sorted(curve)],
        "seconds": seconds,
        "trained_on": [json.loads(place) for place in dict.fromkeys(re.findall(rf"{TRAINED_ON}(\{{.*\}})\n", text))],
    }


def hardware() -> dict[str, Any]:
    """Processor, cores, memory in GiB, and GPUs of this machine."""
    import torch

    model = re.search(r"model name\s*: (.*)", _text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", _text("/proc/meminfo"))
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def versions() -> dict[str, str]:
    """Python, this package (with its commit, ``+`` if the tree differs from it) and what numbers depend on."""

    def git(*command):
        try:
            done = subprocess.run(["git", "-C", recipes.ROOT, *command], capture_output=True, text=True)
        except OSError:  # no git here
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    dirty = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    found = {"python": platform.python_version(), "ode_transformer": __version__}
    if commit := git("rev-parse", "--short", "HEAD"):
        found["commit"] = commit + dirty
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def where() -> dict[str, Any]:
    """``hardware`` and ``versions`` of here and now."""
    return {"hardware": hardware(), "versions": versions()}


def _commands(run_dir: Path) -> list[dict[str, Any]]:
    """What scripts/lib.sh wrote down, beside the training: each once, with the seconds it took when first done."""
    found: dict[str, int] = {}
    for line in _text(run_dir / "commands.log").splitlines():
        seconds, _, command = line.partition(" ")
        if not re.fullmatch(r"\d{1,18}", seconds):
            raise RecordError(f"{run_dir / 'commands.log'}: a line is {line[:80]!r}, must be seconds and a command")
        found.setdefault(command, int(seconds))
    return [{"command": command, "seconds": seconds} for command, seconds in found.items()]


def record(recipe: recipes.Recipe, run_dir: Path) -> dict[str, Any]:
    """Gather the record of a finished run.

    What was run is read from what it left, not from the recipe, which the command line may have overridden.

    Args:
        recipe: what was run.
        run_dir: its folder, with ``train.log``, ``train.command``, ``average.pt`` and ``scores/SUBSET.json``; and
            ``commands.log``, if scripts/reproduce.sh ran all of it.

    Raises:
        RecordError: a score is missing, or a file cannot be read.
        CheckpointError: the averaged checkpoint cannot be read.
    """
    from .. import checkpoints

    scores = {}
    for subset, test_set in recipe.generate.subsets.items():
        path = run_dir / "scores" / f"{subset}.json"
        try:
            scores[test_set] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecordError(f"{path}: no score of subset {subset}: {error}") from error
    manifest = recipes.ROOT / recipe.data.directory / "manifest.json"
    command = _text(run_dir / "train.command").strip()
    if not command:
        raise RecordError(f"{run_dir / 'train.command'}: not there; scripts/train.sh leaves it")
    averaged = checkpoints.load(run_dir / "average.pt")
    common, distributed = (checkpoints.options(averaged, k) for k in ("common", "distributed_training"))
    if missing := sorted({"seed"} - set(common) | {"distributed_world_size"} - set(distributed)):
        raise RecordError(f"{run_dir / 'average.pt'}: does not say the {' and '.join(missing)} of its training")
    precision = next((name for name in recipes.PRECISIONS if common.get(name)), "fp32")
    start = re.search(r"--finetune-from-model (\S+)", command)
    hashes = {"average.pt": sha256(run_dir / "average.pt")}
    if start and (recipes.ROOT / start[1]).is_file():
        hashes["start"] = sha256(recipes.ROOT / start[1])
    # Folders are a machine's own affair.
    folders = {run_dir: recipes.default_run_dir(recipe), recipes.ROOT: "."}
    folders |= {Path(os.environ[name]): f"${name}" for name in FOLDERS if os.environ.get(name)}

    def plain(text: str) -> str:
        for folder, name in folders.items():
            for path in {str(folder.absolute()), str(folder.resolve())}:
                text = re.sub(rf"{re.escape(path)}(?![^/\s])", lambda _, name=name: name, text)
        return text

    return {
        "recipe": recipe.name,
        "scale": recipe.scale,
        "description": recipe.description,
        "seeds": [common["seed"]],
        "precision": precision,
        "devices": distributed["distributed_world_size"],
        "scores": scores,
        "paper": [vars(paper) for paper in recipe.paper],
        "averaged": averaged.get("averaged_from", []),
        "training": read_log(run_dir / "train.log"),
        "command": plain(command),
        "commands": [{**each, "command": plain(each["command"])} for each in _commands(run_dir)],
        "sha256": hashes,
        "data": json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else None,
        **where(),
    }


def rehearsal(names: Sequence[str]) -> dict[str, Any]:
    """What came of rehearsing recipes with ``scripts/rehearse.sh``.

    Returns:
        ``rehearsed``, by recipe: updates, parameters, sentences that were scored, seconds of training; ``missing``, the
        names of those without a record; where.
    """
    rehearsed, missing = {}, []
    for name in names:
        path = recipes.ROOT / recipes.default_run_dir(recipes.load(name, scale="small")) / "record.json"
        if not path.is_file():
            missing.append(name)
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        rehearsed[name] = {
            "updates": found["training"]["curve"][-1]["num_updates"],
            "parameters": found["training"]["parameters"],
            "sentences": sum(score["sentences"] for score in found["scores"].values()),
            "seconds": round(found["training"]["seconds"]),
        }
    return {"rehearsed": rehearsed, "missing": missing, **where()}


def curve(run_dir: Path) -> dict[str, Any]:
    """What training left, without a recipe: its command, its curve, and where it was.

    Returns:
        ``command``; ``parameters``; ``training`` and ``validation``, lists of entries in the order of updates; where;
        of a language model, ``perplexity`` of the splits that ``eval.SPLIT.log`` are of, by fairseq-eval-lm.

    Raises:
        RecordError: there is no log of a training.
    """
    log = read_log(run_dir / "train.log")
    steps: dict[str, dict[int, dict[str, float]]] = {"train_inner": {}, "valid": {}}
    for kind, values in _entries(_text(run_dir / "train.log"), "valid", "train_inner"):
        kept = {k: float(values[k]) for k in ("loss", "accuracy", "ppl", "gnorm", "wall") if k in values}
        steps[kind][int(values["num_updates"])] = {"num_updates": int(values["num_updates"]), **kept}
    command = _text(run_dir / "train.command").strip()
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RecordError(f"{run_dir / 'train.command'}: no command: {error}") from error
    if len(words) > 1:  # folders are a machine's own affair
        words[1] = Path(words[1]).name
        command = shlex.join(words)
    return {
        "command": command.replace(str(run_dir), "RUN").replace(f"{recipes.ROOT}/", ""),
        "parameters": {"all": log["parameters"], "trained": log["trained_parameters"]},
        "seconds": log["seconds"],
        "training": [steps["train_inner"][n] for n in sorted(steps["train_inner"])],
        "validation": [steps["valid"][n] for n in sorted(steps["valid"])],
        **({"perplexity": perplexity} if (perplexity := _perplexities(run_dir)) else {}),
        "trained_on": log["trained_on"],
        **where(),
    }


def _perplexities(run_dir: Path) -> dict[str, float]:
    found = {}
    for path in sorted(run_dir.glob("eval.*.log")):
        printed = re.search(r"Perplexity: ([\d.]+)", _text(path))
        if printed is None:
            raise RecordError(f"{path}: no perplexity of fairseq-eval-lm in it")
        found[path.name.split(".")[1]] = float(printed[1])
    return found


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer record``."""
    parser.add_argument("recipe")
    recipes.add_variant(parser)
    parser.add_argument("--run-dir", help="the run's folder (default: runs/<recipe>)")
    parser.add_argument("--output", required=True, help="the JSON file to write")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer record``; the exit status."""
    recipe = recipes.load(args.recipe, scale=args.scale, seed=args.seed)
    run_dir = Path(args.run_dir or recipes.ROOT / recipes.default_run_dir(recipe))
    write(Path(args.output), record(recipe, run_dir))
    return 0


def add_rehearsal_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer rehearsal``."""
    parser.add_argument("recipe", nargs="+")
    parser.add_argument("--output", required=True, help="the JSON file to write")


def rehearsal_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer rehearsal``; the exit status is 1 if a recipe was not rehearsed to its end."""
    content = rehearsal(args.recipe)
    write(Path(args.output), content)
    print(f"{len(content['rehearsed'])} of {len(args.recipe)} recipes rehearsed to their end")
    if content["missing"]:
        print(f"error: not rehearsed to their end: {', '.join(content['missing'])}", file=sys.stderr)
    return 1 if content["missing"] else 0


def add_curve_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer curve``."""
    parser.add_argument("run_dir", help="the --save-dir of fairseq-train, with train.log and train.command")
    parser.add_argument("--output", required=True, help="the JSON file to write")


def curve_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer curve``; the exit status."""
    write(Path(args.output), curve(Path(args.run_dir)))
    return 0


def write(output: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, beside first and then under its name, and print where it is.

    Raises:
        RecordError: it cannot be written, for instance on a full disk; an older file is as it was.
    """
    try:
        write_json(output, content)
    except OSError as error:
        raise RecordError(f"{output}: cannot be written: {error.strerror or error}") from error
    print(output)


def add_where_arguments(parser: argparse.ArgumentParser) -> None:
    """``ode-transformer where`` has no arguments."""


def where_main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer where``: a line for the log of a training; the exit status."""
    print(TRAINED_ON + json.dumps(where()))
    return 0
