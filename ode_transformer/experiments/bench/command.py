"""``ode-transformer bench``: its arguments, records and tables."""

import argparse
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from ... import machine
from ...errors import OdeTransformerError
from ...files import write_json, written_by
from ...schema import checked_json, one_of
from .. import recipes
from ..arguments import add_function, add_parameters, at_least, output_file
from . import gpu, lengths, systems, turns
from .systems import Setting


def record_of(what: str, measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a measurement, with the hardware, and what PyTorch uses of it on a CPU."""
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    hardware = {
        **machine.hardware(),
        "threads": torch.get_num_threads(),
        "blas": blas[1] if blas else "?",
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    return {"what": what, "hardware": hardware, "versions": machine.versions(), **measured}


TABLES = {
    **dict.fromkeys(("training", "decoding"), systems.table),
    "lengths": lengths.table,
    "gpu": lambda name, record: gpu.table(record),
}
"""The functions that return a record as Markdown, with the name of its contest, by the kind of record."""


def rendered(name: str, record: Mapping[str, Any]) -> str:
    """Return a record as Markdown, with the name of its contest."""
    return TABLES[record["what"]](name, record)


def _show(name: str, record: Mapping[str, Any], output: str | Path | None = None) -> None:
    if output:
        write_json(output, record)
        print(output)
    print(rendered(name, record), end="\n\n", flush=True)


# The commands.


def _compare(args: argparse.Namespace) -> None:
    """Run ``training`` or ``decoding``."""
    setting = Setting(**{field.name: vars(args)[field.name] for field in fields(Setting) if field.name in vars(args)})
    compared = systems.beside_stock(setting, args.arch, tuple(args.flags))
    _show(", ".join(args.arch), record_of(args.what, systems.measure(compared, setting)), args.output)


def _lengths(args: argparse.Namespace) -> None:
    _show("lengths", record_of("lengths", lengths.measure(args.lengths, args.rounds, args.device)), args.output)


def _gpu(args: argparse.Namespace) -> int:
    end = time.monotonic() + 60 * args.minutes
    record = gpu.measure(args.output, lambda: end - time.monotonic(), args.data, args.device)
    print(gpu.table(record))
    return 0 if record["rounds"] else 1


def _table(args: argparse.Namespace) -> None:
    for path in map(Path, args.records):
        record = checked_json(path, {"what": one_of(*TABLES)}, "is not a record of a benchmark that has a table")
        with written_by("ode-transformer bench", path):
            _show(path.name.split(".")[0], record)


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer bench``; return the exit status."""
    if args.flags and args.what not in ("training", "decoding"):
        raise OdeTransformerError(f"-- {' '.join(args.flags)}: flags of models go with training and decoding")
    if getattr(args, "device", "cpu") == "cuda" and not torch.cuda.is_available():
        raise OdeTransformerError("--device cuda: needs a GPU")
    turns.keep_quota()
    return args.go(args) or 0


# Their arguments.


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer bench``."""
    kinds = parser.add_subparsers(dest="what", required=True)
    devices = {"choices": ["cpu", "cuda"]}

    def add(
        name: str, go: Callable, help_: str, usage: str = "[options]", record: bool = False
    ) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=help_, description=help_, usage=f"%(prog)s {usage}")
        kind.set_defaults(go=go)
        if record:
            kind.add_argument("--output", type=output_file, metavar="FILE", help="JSON file for the record")
        return kind

    for name, step, others in (("training", "training step", ["beam"]), ("decoding", "beam search", ["data"])):
        help_ = f"compare the {step} of architectures with that of fairseq's Transformer, in the shape of the first"
        kind = add(name, _compare, help_, "--arch ARCH... [options] [-- model flags of fairseq-train]", True)
        kind.add_argument("--arch", nargs="+", required=True, metavar="ARCH", help="architectures of this package")
        more: dict[str, Any] = {
            "device": devices,
            "precision": {"choices": [one for one in recipes.PRECISIONS if (name, one) != ("decoding", "amp")]},
        }
        more |= {name: {"type": at_least(least)} for name, least in (("shortest", 0), ("symbols", 5))}
        add_parameters(kind, Setting, **more | dict.fromkeys(["what", "batches", *others]))

    help_ = "measure training steps of TransEvolve's encoder at several sentence lengths"
    kind = add("lengths", _lengths, help_, record=True)
    add_parameters(kind, lengths.measure, lengths={"nargs": "+"}, device=devices)

    help_ = "compare training speed with stock fairseq's, in eager mode, with compiled layers and with CUDA graphs"
    kind = add("gpu", _gpu, help_, "--output FILE [options]")
    add_parameters(kind, gpu.measure, device=devices, seconds_left=None, alone=None)
    help_ = "begin no round after N minutes (default: %(default)s)"
    kind.add_argument("--minutes", type=at_least(0, float), default=4, metavar="N", help=help_)

    kind = add("table", _table, "print records as tables", "RECORD...")
    kind.add_argument("records", nargs="+", metavar="RECORD", help="a JSON file that `bench` wrote")


def add_gpu_suite(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer gpu-suite``."""
    from .gpu_suite import Suite

    systems = {"nargs": "+", "metavar": "RECIPE"}
    add_function(parser, Suite, show=lambda args, suite: suite.run(), systems=systems)
    parser.epilog = (
        "--cpu needs --runs and --out, because such a run is a rehearsal. --out gets gpu-checks.txt, contest.json, a "
        "record of every finished training, and the curves of the others in unfinished.json; what is done is not done "
        "again."
    )
