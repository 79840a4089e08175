"""``ode-transformer bench``: its arguments, records and tables."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from ... import machine
from ...errors import OdeTransformerError
from ...files import read_json, write_json
from ...paths import ROOT
from .. import recipes
from ..arguments import at_least, output_file
from ..text.lines import read_lines
from . import gpu, lengths, serving, suite, systems
from .systems import STOCK, Setting, System, stock_like


def record_of(what: str, measured: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a measurement, which says what it was made on: with the library of PyTorch's matrix products, and
    the widest instructions that its other kernels use here.
    """
    shown = torch.__config__.show()
    named = re.search(r"(?:Intel\(R\) oneAPI Math Kernel|OpenBLAS|Accelerate)[^\n]*?Version [\d.]+", shown)
    built = re.search(r"BLAS_INFO=(\w+)", shown)
    hardware = {
        **machine.hardware(),
        "threads": torch.get_num_threads(),
        "blas": named[0] if named else built[1] if built else "?",
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    return {"what": what, "hardware": hardware, "versions": machine.versions(), **measured}


def contest(of: Mapping[str, System], setting: Setting, memory: bool = True) -> dict[str, Any]:
    """The record of systems in training or decoding."""
    return record_of(setting.what, systems.measure(of, setting, memory))


def rendered(name: str, record: Mapping[str, Any]) -> str:
    """A record as Markdown; ``name`` is that of its contest.

    Raises:
        OdeTransformerError: such a record has no table.
    """
    what = record["what"]
    if what in ("training", "decoding"):
        return suite.table(name, record)
    if kind := {"gpu": gpu, "lengths": lengths, "serving": serving}.get(what):
        return kind.table(record)
    raise OdeTransformerError(f"{name}: is a record of {what}, which has no table")


def _show(name: str, record: Mapping[str, Any], output: str | Path | None = None) -> None:
    if output:
        write_json(output, record)
        print(output)
    print(rendered(name, record), end="\n\n", flush=True)


# The commands.


def _quick(args: argparse.Namespace) -> None:
    for name, chosen in suite.QUICK.items():
        every, setting = suite.SUITE[name].systems(), replace(suite.SUITE[name].setting, rounds=3)
        _show(name, contest({system: every[system] for system in chosen}, setting, memory=False))


def _suite(args: argparse.Namespace) -> None:
    if unknown := [name for name in args.contests if name not in suite.SUITE]:
        raise OdeTransformerError(f"{unknown[0]}: must be one of {', '.join(suite.SUITE)}")
    for name in args.contests or suite.SUITE:
        setting = suite.SUITE[name].setting
        precision = "" if args.precision == "fp32" else f".cpu-{args.precision}"
        output = args.directory / f"{name}{precision}.json"
        if output.exists():
            print(f"{output}: is there already; remove it to repeat the contest")
            continue
        setting = replace(setting, precision=args.precision, rounds=args.rounds or setting.rounds)
        memory = args.memory and setting.what == "training"
        _show(name, contest(suite.SUITE[name].systems(), setting, memory), output)


def _compare(args: argparse.Namespace) -> None:
    """``training`` and ``decoding``."""
    given = {field.name: vars(args)[field.name] for field in fields(Setting) if field.name in vars(args)}
    setting = Setting(**given)
    ours, stock = System(args.arch, tuple(args.flags)), stock_like(args.arch, tuple(args.flags))
    compared = {"stock": stock, args.arch: ours}
    if args.what == "training":
        compared[f"{args.arch}, stock criterion"] = replace(ours, criterion=STOCK)
    _show("-", contest(compared, setting, args.memory), args.output)


def _lengths(args: argparse.Namespace) -> None:
    record = record_of("lengths", lengths.measure(args.lengths, args.rounds, args.device))
    _show("lengths", record, args.output)


def _serving(args: argparse.Namespace) -> None:
    text, reference = (path and list(read_lines(Path(path))) for path in (args.text, args.reference))
    options = {name: getattr(args, name) for name in ("batch", "rounds", "beam", "lenpen")}
    _show("serving", record_of("serving", serving.measure(args.models, text, reference, **options)), args.output)


def _gpu(args: argparse.Namespace) -> int:
    rehearsed = args.device == "cpu"
    archs, rounds = gpu.ARCHITECTURES, gpu.rounds(args.data)
    if rehearsed:
        archs, rounds = ("macaron_tiny", "rk2_tiny"), gpu.rehearsal()
    record = gpu.measure(archs, rounds, Path(args.output), args.minutes)
    print(gpu.table(record))
    return 0 if record["rounds"] else 1


def _table(args: argparse.Namespace) -> None:
    for path in map(Path, args.records):
        try:
            _show(path.name.split(".")[0], read_json(path))
        except OdeTransformerError:
            raise
        except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise OdeTransformerError(
                f"{path}: not a record of the benchmark ({type(error).__name__}: {error})"
            ) from error


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer bench``; the exit status."""
    if args.flags and args.what not in ("training", "decoding"):
        raise OdeTransformerError(f"-- {' '.join(args.flags)}: flags of models go with training and decoding")
    if getattr(args, "device", "cpu") == "cuda" and not torch.cuda.is_available():
        raise OdeTransformerError("--device cuda: needs a GPU")
    return args.go(args) or 0


# Their arguments.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer bench``."""
    kinds = parser.add_subparsers(dest="what", required=True)

    def add(name: str, go: Callable, help_: str, usage: str = "[options]", **device: str) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=help_, description=help_, usage=f"%(prog)s {usage}")
        kind.set_defaults(go=go)
        for default in device.values():
            help_ = "where to measure (default: %(default)s)"
            kind.add_argument("--device", choices=["cpu", "cuda"], default=default, help=help_)
        return kind

    def output(kind: argparse.ArgumentParser, **required: bool) -> None:
        kind.add_argument("--output", type=output_file, metavar="FILE", help="JSON file for the record", **required)

    def of_contests(kind: argparse.ArgumentParser, precisions: Sequence[str]) -> None:
        help_ = "precision of the arithmetic (default: %(default)s)"
        kind.add_argument("--precision", choices=precisions, default="fp32", help=help_)
        kind.add_argument("--no-memory", dest="memory", action="store_false", help="do not measure memory")

    add("quick", _quick, "measure a few tiny systems in two to three minutes on a CPU, without a record")

    kind = add("suite", _suite, "run contests on a CPU, and write a record of each", "[CONTEST...] [options]")
    help_ = f"one of {', '.join(suite.SUITE)} (default: all); a contest that has a record is skipped"
    kind.add_argument("contests", nargs="*", metavar="CONTEST", help=help_)
    of_contests(kind, ["fp32", "bf16"])
    kind.add_argument("--rounds", type=at_least(1), metavar="N", help="timed rounds (default: the contest's)")
    where = ROOT / "results" / "bench"
    help_ = "folder for the records (default: results/bench of the clone)"
    kind.add_argument("--directory", type=Path, default=where, metavar="DIR", help=help_)

    for name, step in (("training", "training step"), ("decoding", "beam search")):
        help_ = f"compare the {step} of an architecture with that of the stock Transformer of its shape"
        usage = "--arch ARCH [options] [-- model flags of fairseq-train]"
        kind = add(name, _compare, help_, usage, device="cpu")
        kind.add_argument("--arch", required=True, metavar="ARCH", help="one of our architectures")
        _numbers(
            kind,
            ("sentences", 1, Setting, "sentences per batch"),
            ("tokens", 1, Setting, "tokens of the longest sentence"),
            ("shortest", 0, Setting, "tokens of the shortest sentence, or 0: all are as long as the longest"),
            ("symbols", 5, Setting, "vocabulary size, including four special symbols"),
            *([("beam", 1, Setting, "beam size")] if name == "decoding" else []),
            ("rounds", 1, Setting, "timed rounds"),
        )
        of_contests(kind, recipes.PRECISIONS)
        output(kind)
        if name == "training":
            help_ = "folder of binarized data, for real batches instead of random ones"
            kind.add_argument("--data", default="", metavar="DIR", help=help_)

    kind = add("lengths", _lengths, "measure training steps of encoders against sentence length", device="cpu")
    lengths_, help_ = [512, 1024, 2048, 4096, 8192, 16384], "tokens per sentence (default: 512 1024 ... 16384)"
    kind.add_argument("--lengths", type=at_least(1), nargs="+", default=lengths_, metavar="N", help=help_)
    _numbers(kind, ("rounds", 1, 3, "timed rounds"))
    output(kind)

    help_ = "compare speed, translations and BLEU of trained models on raw text, on a CPU; the first is the baseline"
    kind = add("serving", _serving, help_, "MODEL... --text FILE [options]")
    help_ = "a run, a checkpoint, a bundle or an exported model"
    kind.add_argument("models", nargs="+", metavar="MODEL", help=help_)
    kind.add_argument("--text", required=True, metavar="FILE", help="raw text, one sentence per line")
    kind.add_argument("--reference", metavar="FILE", help="its translations, to print BLEU")
    _numbers(
        kind,
        ("batch", 1, 64, "sentences per batch"),
        ("beam", 1, None, "beam size (default: the recipe's)"),
        ("rounds", 1, 3, "timed rounds"),
    )
    kind.add_argument("--lenpen", type=float, metavar="P", help="length penalty (default: the recipe's)")
    output(kind)

    help_ = "compare training in eager mode, with compiled layers and with CUDA graphs with stock fairseq"
    kind = add("gpu", _gpu, help_, "--output FILE [options]", device="cuda")
    help_ = "folder of binarized data, to train on its batches as well"
    kind.add_argument("--data", default="", metavar="DIR", help=help_)
    help_ = "begin no round after N minutes (default: %(default)s)"
    kind.add_argument("--minutes", type=at_least(0, float), default=4, metavar="N", help=help_)
    output(kind, required=True)

    kind = add("table", _table, "print records as tables", "RECORD...")
    kind.add_argument("records", nargs="+", metavar="RECORD", help="a JSON file that `bench` wrote")


def _numbers(kind: argparse.ArgumentParser, *options: tuple[str, int, Any, str]) -> None:
    """Add whole numbers: their names, least values, defaults (those of a class if it is one) and helps."""
    for name, least, default, help_ in options:
        default = getattr(default, name) if isinstance(default, type) else default
        shown = "" if default is None else " (default: %(default)s)"
        kind.add_argument(f"--{name}", type=at_least(least), default=default, metavar="N", help=help_ + shown)
