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
    "comet": ("scores by COMET, whose checkpoint COMET_MODEL names", install_command("comet")),
    "ctranslate2": ("export --format ctranslate2", install_command("ctranslate2")),
    "errant": ("scores of corrections, besides those by the scorer that M2SCORER names", install_command("errant")),
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
    """Yield the versions of packages, the hardware, the folder of raw corpora, and missing packages with their use."""
    from ...requirements import check_requirements

    yield from (f"{package} {version}" for package, version in machine.versions().items())
    try:
        check_requirements()
        found, free = machine.hardware(), shutil.disk_usage(ROOT).free / 2**30
        memory = f"{found['memory_gib']} GiB of memory, {free:.0f} GiB of free disk"
        yield f"{found['cores']} cores, {found['processor']}; {memory}"
        none = "none: `run` trains on the CPU; recipes in a lower precision than fp32 need --cpu"
        yield f"GPUs: {', '.join(found['gpus']) or none}"
    except ImportError as error:
        yield f"PROBLEM: {error}"
    named = os.environ.get("ODE_TRANSFORMER_DATA")
    if named and not os.path.isdir(named):
        yield f"PROBLEM: ODE_TRANSFORMER_DATA={named}: no such folder"
    else:
        unset = "ODE_TRANSFORMER_DATA is not set: the scripts in data-prep download what they can"
        yield f"ODE_TRANSFORMER_DATA={named}" if named else unset
    for package, (purpose, remedy) in OPTIONAL.items():
        if importlib.util.find_spec(package) is None:
            yield f"{package} is missing: {purpose}; {remedy}"
