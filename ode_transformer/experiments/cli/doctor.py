"""``ode-transformer doctor``: the state of an installation, and what missing packages are for."""

import argparse
import importlib.util
import os
import shutil
from collections.abc import Iterator

from ... import machine
from ...errors import install_command
from ...paths import PACKAGE, ROOT, SHARE

OPTIONAL = {
    "MeCab": ("sacreBLEU of Japanese", "pip install 'sacrebleu[ja]'"),
    "comet": ("scores by COMET", "it needs NumPy 1: install the extra comet into an environment of its own"),
    "ctranslate2": ("export --format ctranslate2", install_command("ctranslate2")),
    "errant": ("ERRANT's scores of corrections", install_command("errant")),
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
    "ODE_TRANSFORMER_DATA": ("folder", os.path.isdir, "the scripts in data-prep download what they can"),
    "COMET_MODEL": ("file", os.path.isfile, "scores by COMET need it, the checkpoint of a model"),
    "M2SCORER": ("command", bool, "the M2 score of corrections needs it, the command of the official scorer"),
}
"""What a variable names, whether that is there, and what it means that the variable is not set."""


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
    found = list(lines())
    print("\n".join(found))
    return int(any(line.startswith("PROBLEM") for line in found))


def lines() -> Iterator[str]:
    """Yield the versions of packages, the hardware, our variables, and missing packages with their use."""
    from ...requirements import check_requirements

    yield from (f"{package} {version}" for package, version in machine.versions().items())
    try:
        check_requirements()
        found, free = machine.hardware(), shutil.disk_usage(ROOT).free / 2**30
        memory = f"{found['memory_gib']} GiB of memory, {free:.0f} GiB of free disk"
        yield f"{found['cores']} cores, {found['processor']}; {memory}"
        none = "none: `run` trains on the CPU; recipes in a lower precision than fp32 need --cpu"
        yield f"GPUs: {', '.join(found['gpus']) or none}"
    except (ImportError, OSError) as error:  # the latter of a library that is missing
        yield f"PROBLEM: {error}"
    for variable, (what, is_there, unset) in VARIABLES.items():
        value = os.environ.get(variable)
        if value and not is_there(value):
            yield f"PROBLEM: {variable}={value}: no such {what}"
        else:
            yield f"{variable}={value}" if value else f"{variable} is not set: {unset}"
    for package, (purpose, remedy) in OPTIONAL.items():
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:  # of a folder of that name
            yield f"{package} is missing: {purpose}; {remedy}"
