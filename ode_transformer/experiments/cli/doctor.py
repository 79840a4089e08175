"""``ode-transformer doctor``: the state of an installation, and what unavailable features lack."""

import argparse
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ... import machine
from ...errors import install_command
from ...paths import PACKAGE, ROOT, SHARE

OPTIONAL = {
    "MeCab": ("sacreBLEU of Japanese", "pip install 'sacrebleu[ja]'"),
    "comet": ("scores by COMET", install_command("comet")),
    "ctranslate2": ("export --format ctranslate2", install_command("ctranslate2")),
    "errant": ("scores of grammatical error correction, besides M2SCORER", install_command("errant")),
    "fairscale": ("--ddp-backend fully_sharded", install_command("sharded")),
    "mecab_ko": ("sacreBLEU of Korean", "pip install 'sacrebleu[ko]'"),
    "onnx": ("export --format onnx", install_command("onnx")),
    "onnxruntime": ("export --format onnx, and translating with ONNX models", install_command("onnx")),
    "onnxscript": ("export --format onnx", install_command("onnx")),
    "rouge_score": ("scores of summaries", install_command("rouge")),
    "tensorboardX": ("--tensorboard-logdir of fairseq-train", install_command("logging")),
    "wandb": ("--wandb-project of fairseq-train", install_command("logging")),
}
"""The purpose of optional packages, and how they are installed, by import name."""

VARIABLES = {
    "COMET_MODEL": "scores by COMET",
    "M2SCORER": "scores of grammatical error correction by the official scorer",
}
"""The purpose of environment variables that name a program or a model."""

PROGRAMS = {
    "curl": "downloads of corpora",
    "flock": "the scripts in data-prep",
    "git": "the commit in records",
    "tar": "the scripts in data-prep",
}


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """``ode-transformer doctor`` has no arguments."""


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer path``."""
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", choices=("configs", "data-prep", "scripts"),
        help="print the folder of recipes (configs) or of shell scripts (data-prep, scripts) instead",
    )  # fmt: skip
    parser.set_defaults(run=lambda args: print(SHARE / args.folder if args.folder else PACKAGE))


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer doctor``; the exit status is 1 if it finds a problem."""
    sound = True
    for title, part in (("installed", installed), ("hardware", hardware), ("data", data), ("optional", optional)):
        print(f"{title}:")
        for line in part():
            sound = sound and not line.startswith("PROBLEM")
            print(f"  {line}")
    return 0 if sound else 1


def installed() -> Iterator[str]:
    """Yield a problem with torch or fairseq, if there is one, and the versions of packages."""
    from ...requirements import check_requirements

    try:
        check_requirements()
    except ImportError as error:
        yield f"PROBLEM: {error}"
    for package, version in machine.versions().items():
        yield f"{package} {version}"


def hardware() -> Iterator[str]:
    """Yield the processor, memory, GPUs and free disk space."""
    try:
        found = machine.hardware()
    except ImportError as error:
        yield f"PROBLEM: {error}"
        return
    yield f"{found['cores']} cores, {found['processor']}; {found['memory_gib']} GiB of memory"
    none = "none: `run` trains on the CPU; recipes in a lower precision than fp32 need --cpu"
    yield f"GPUs: {', '.join(found['gpus']) or none}"
    free = shutil.disk_usage(ROOT).free / 2**30
    yield f"disk: {free:.0f} GiB are free in {ROOT}"


def data() -> Iterator[str]:
    """Yield the raw corpora."""
    named = os.environ.get("ODE_TRANSFORMER_DATA")
    if not named:
        yield "ODE_TRANSFORMER_DATA is not set: the scripts in data-prep download what they can"
    elif not Path(named).is_dir():
        yield f"PROBLEM: ODE_TRANSFORMER_DATA={named}: no such folder"
    else:
        found = [path for path in Path(named).iterdir() if path.is_dir() or path.name.endswith(".tar.xz")]
        sets = sorted({path.name.removesuffix(".tar.xz") for path in found})
        yield f"ODE_TRANSFORMER_DATA={named}: {', '.join(sets) or 'holds no set'}"


def optional() -> Iterator[str]:
    """Yield the optional packages, missing programs, and variables, each with the features that need it."""
    for package, (purpose, remedy) in OPTIONAL.items():
        there = importlib.util.find_spec(package) is not None
        yield f"{package} is installed: {purpose}" if there else f"{package} is missing: {purpose}; {remedy}"
    for program, purpose in PROGRAMS.items():
        if shutil.which(program) is None:
            yield f"the program {program} is missing: {purpose}"
    for variable, purpose in VARIABLES.items():
        yield f"{variable} is {'set' if os.environ.get(variable) else 'not set'}: {purpose}"
