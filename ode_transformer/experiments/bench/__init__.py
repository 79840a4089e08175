"""``ode-transformer bench``: speed and memory of several systems in one run, and the ratios between them.

``quick`` runs a few small contests without a record; ``suite`` runs the contests in ``suite.py``; ``training`` and
``decoding`` compare one architecture with the stock Transformer of its shape; ``lengths`` measures encoders against
sentence length; ``serving`` compares exported models with fairseq's generator; ``preparation`` prepares generated text;
``table`` renders the records of contests.
"""

import argparse
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ... import machine, processors
from ...errors import OdeTransformerError
from ...files import read_json
from .. import recipes
from ..arguments import at_least
from ..runs import processes, records
from . import contest, gpu, lengths, preparation, profile, shapes, suite
from .contest import STOCK, Setting, System

MULTI30K = recipes.ROOT / "data-bin" / "multi30k-own.en-de"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer bench``."""
    parser.set_defaults(device="cpu")  # of what has no such option
    kinds = parser.add_subparsers(dest="what", required=True)

    def add(
        name: str, go: Callable[[argparse.Namespace], int], help_: str, usage: str = "%(prog)s [options]"
    ) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=help_, description=help_, usage=usage)
        kind.set_defaults(go=go)
        return kind

    def add_device(kind: argparse.ArgumentParser) -> None:
        kind.add_argument(
            "--device", choices=["cpu", "cuda"], default="cpu", help="where to measure (default: %(default)s)"
        )

    def add_profile(kind: argparse.ArgumentParser) -> None:
        kind.add_argument(
            "--profile",
            action="store_true",
            help="instead of measuring, say where the time of a turn goes and how much of it is arithmetic (CPU)",
        )

    kind = add("quick", _quick, "a few tiny systems: two to three minutes on a CPU, no record")
    kind.add_argument(
        "--data",
        metavar="DIR",
        help="also take batches from this folder of binarized data (default: Multi30k, if prepared)",
    )

    kind = add("suite", _suite, "run contests, and write one record per contest", "%(prog)s [CONTEST...] [options]")
    kind.add_argument(
        "contests",
        nargs="*",
        metavar="CONTEST",
        help=f"of {', '.join(suite.SUITE)} (default: all but those that begin with quick)",
    )
    add_device(kind)
    kind.add_argument("--missing", action="store_true", help="only those contests that have no record yet")
    kind.add_argument(
        "--precision", choices=recipes.PRECISIONS, default="fp32", help="of the arithmetic (default: %(default)s)"
    )
    kind.add_argument("--rounds", type=at_least(1), help="timed rounds (default: the contest's)")
    kind.add_argument("--no-memory", dest="memory", action="store_false", help="do not measure memory")
    add_profile(kind)
    kind.add_argument(
        "--directory",
        type=Path,
        default=recipes.ROOT / "results" / "bench",
        metavar="DIR",
        help="where the records go (default: results/bench of the clone)",
    )

    usage = "%(prog)s --output FILE [options]"
    kind = add("gpu", gpu.run, "training on a GPU: eager, compiled and with CUDA graphs, beside stock fairseq", usage)
    add_device(kind)
    kind.set_defaults(device="cuda")
    kind.add_argument("--data", metavar="DIR", help="also train on batches of this folder of binarized data")
    kind.add_argument(
        "--minutes", type=float, default=4, metavar="N", help="begin no round after (default: %(default)s)"
    )
    kind.add_argument("--output", required=True, metavar="FILE", help="JSON file for the results")

    kind = add("shapes", _shapes, "how many shapes the batches of binarized text have, for CUDA graphs")
    kind.add_argument("data", metavar="DIR", help="a folder of binarized data")
    kind.add_argument("--subset", default="train", help="the part of the data (default: %(default)s)")
    kind.add_argument("--langs", nargs=2, required=True, metavar="LANG", help="source and target language")
    kind.add_argument(
        "--max-tokens",
        type=at_least(1),
        nargs="+",
        default=[4096, 16384],
        metavar="N",
        help="tokens of a batch (default: 4096 16384)",
    )

    kind = add("table", _table, "render records as tables", "%(prog)s RECORD...")
    kind.add_argument("records", nargs="+", metavar="RECORD", help="the JSON file of a contest")

    kind = add("lengths", _lengths, "a training step of encoders against sentence length")
    add_device(kind)
    kind.add_argument(
        "--lengths", type=at_least(1), nargs="+", default=[512, 1024, 2048, 4096, 8192, 16384], metavar="N",
        help="tokens of a sentence (default: 512 1024 2048 4096 8192 16384)",
    )  # fmt: skip
    kind.add_argument("--width", type=at_least(1), default=256, help="channels (default: %(default)s)")
    kind.add_argument("--heads", type=at_least(1), default=8, help="attention heads (default: %(default)s)")
    kind.add_argument("--depth", type=at_least(1), default=6, help="layers (default: %(default)s)")
    kind.add_argument(
        "--rounds", type=at_least(1), default=3, help="timed steps of every system (default: %(default)s)"
    )
    kind.add_argument(
        "--materialised-up-to", type=int, default=4096, metavar="N",
        help="longest sentence for the systems that hold attention matrices (default: %(default)s)",
    )  # fmt: skip
    kind.add_argument(
        "--dtype", choices=list(lengths.DTYPES), default="fp32", help="of the arithmetic (default: %(default)s)"
    )
    kind.add_argument("--output", help="JSON file for the results")

    kind = add("preparation", _preparation, "the preparation of generated parallel text, step by step")
    kind.add_argument(
        "--pairs", type=at_least(preparation.FEWEST), nargs="+", default=[10_000, 100_000], metavar="N",
        help="sizes of the text; the largest two are extrapolated from (default: 10000 100000)",
    )  # fmt: skip
    kind.add_argument(
        "--workers", type=at_least(1), default=processors.usable(), metavar="N",
        help="processes (default: one per processor)",
    )  # fmt: skip
    kind.add_argument("--output", help="JSON file for the results; the text is in a folder beside it for a while")

    usage = "%(prog)s [--arch ARCH... | --model PATH...] [options] [-- model flags of fairseq-train]"
    kind = add("serving", _serving, "translation by fairseq, CTranslate2 and ONNX", usage)
    which = kind.add_mutually_exclusive_group()
    which.add_argument(
        "--arch", nargs="+", metavar="ARCH",
        help="untrained architectures, on random sentences; quote an architecture together with its flags "
        "(default: stock, Macaron, ode_residual without history, RK2 learnable and FLOATER, tiny and base)",
    )  # fmt: skip
    which.add_argument("--model", nargs="+", help="checkpoints or folders of runs, on a test set, with BLEU")
    kind.add_argument(
        "--data", metavar="DIR", help="for --model: the folder of its binarized data (default: as in run.json)"
    )
    kind.add_argument("--subset", default="test", help="for --model: which set to translate (default: %(default)s)")
    for option, least, default, help_ in (
        ("sentences", 1, None, "use the first N sentences (default: 64 with --arch, all with --model)"),
        ("tokens", 1, 24, "with --arch: longest sentence (default: %(default)s)"),
        ("shortest", 1, 8, "with --arch: shortest sentence (default: %(default)s)"),
        ("symbols", 5, 10_000, "with --arch: vocabulary size, of which four are special (default: %(default)s)"),
        ("batch", 1, 64, "sentences of a batch (default: %(default)s)"),
        ("beam", 1, 4, "beam size (default: %(default)s)"),
        ("rounds", 1, 3, "timed rounds (default: %(default)s)"),
    ):
        kind.add_argument(f"--{option}", type=at_least(least), default=default, metavar="N", help=help_)
    kind.add_argument("--lenpen", type=float, default=1.0, help="length penalty (default: %(default)s)")
    kind.add_argument("--output", help="write the results there, as JSON")

    for name, help_ in (
        ("training", "compare a training step of an architecture with the stock Transformer of its shape"),
        ("decoding", "compare the beam search of an architecture with the stock Transformer of its shape"),
    ):
        kind = add(name, _compare, help_, "%(prog)s --arch ARCH [options] [-- model flags of fairseq-train]")
        add_device(kind)
        kind.add_argument("--arch", required=True, help="one of our architectures")
        for field, least, help_ in (
            ("sentences", 1, "sentences per batch"),
            ("tokens", 1, "tokens of the longest sentence"),
            ("shortest", 0, "tokens of the shortest sentence; 0 for those of the longest"),
            ("symbols", 5, "vocabulary size, of which four are special"),
            ("beam", 1, "beam size in decoding"),
            ("rounds", 1, "timed rounds"),
        ):
            default, help_ = getattr(Setting, field), f"{help_} (default: %(default)s)"
            kind.add_argument(f"--{field}", type=at_least(least), default=default, metavar="N", help=help_)
        kind.add_argument(
            "--precision", choices=recipes.PRECISIONS, default="fp32", help="of the arithmetic (default: %(default)s)"
        )
        kind.add_argument("--no-memory", dest="memory", action="store_false", help="do not measure memory")
        add_profile(kind)
        kind.add_argument("--output", help="write the results there, as JSON")
        kind.set_defaults(data="")
        if name == "training":
            kind.add_argument(
                "--data",
                metavar="DIR",
                help="take the batches from this folder of binarized data instead of random ones",
            )


def _arithmetic() -> dict[str, str]:
    """The library of PyTorch's matrix products, and the widest instructions that its other kernels use here."""
    shown = torch.__config__.show()
    named = re.search(r"(?:Intel\(R\) oneAPI Math Kernel|OpenBLAS|Accelerate)[^\n]*?Version [\d.]+", shown)
    built = re.search(r"BLAS_INFO=(\w+)", shown)
    return {
        "blas": named[0] if named else built[1] if built else "?",
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def _record(what: str, measured: dict[str, Any]) -> dict[str, Any]:
    hardware = {**machine.hardware(), "threads": torch.get_num_threads(), **_arithmetic()}
    return {"what": what, "hardware": hardware, "versions": machine.versions(), **measured}


def _write(args: argparse.Namespace, record: dict[str, Any]) -> None:
    if args.output:
        records.write(Path(args.output), record)


def _check_shortest(args: argparse.Namespace) -> None:
    if args.shortest > args.tokens:
        raise OdeTransformerError(f"--shortest {args.shortest}: must be at most --tokens, {args.tokens}")


def _check(setting: Setting) -> None:
    """Refuse precisions that cannot be measured.

    Raises:
        OdeTransformerError: names the precision.
    """
    if setting.precision == "amp" and setting.what == "decoding":
        raise OdeTransformerError("--precision amp: is for training; decoding has fp32, fp16, bf16")
    if setting.device == "cpu" and setting.precision in ("fp16", "amp"):
        raise OdeTransformerError(f"--precision {setting.precision}: needs --device cuda")


def _measure(systems: dict[str, System], setting: Setting, memory: bool) -> dict[str, Any]:
    _check(setting)
    tokens = sum(sample["ntokens"] for sample in contest.samples(next(iter(systems.values())), setting)[1])
    return _record(setting.what, {"tokens": tokens, **contest.measure(systems, setting, memory)})


def _profile(systems: dict[str, System], setting: Setting) -> dict[str, Any]:
    _check(setting)
    if setting.device != "cpu":
        raise OdeTransformerError(f"--profile: is for a CPU, cannot be combined with --device {setting.device}")
    return _record("profile", {"setting": asdict(setting), "systems": profile.measure(systems, setting)})


def _quick(args: argparse.Namespace) -> int:
    data = args.data or (str(MULTI30K) if MULTI30K.is_dir() else "")
    if args.data and not Path(data).is_dir():
        raise OdeTransformerError(f"--data {data}: no such folder")
    if not data:
        print(f"no batches of data: {MULTI30K} is not there, and --data names no other")
    for name, of in (("quick", ""), *([("quick", data)] if data else []), ("quick-decoding", "")):
        measured = _measure(suite.SUITE[name].systems(), replace(suite.setting(name), data=of), memory=False)
        print(suite.table(name, measured), end="\n\n", flush=True)
    return 0


def _suite(args: argparse.Namespace) -> int:
    names = args.contests or suite.in_order(args.device)
    if unknown := [name for name in names if name not in suite.SUITE]:
        raise OdeTransformerError(f"{unknown[0]}: must be one of {', '.join(suite.SUITE)}")
    for name in names:
        setting = suite.setting(name, args.device, args.precision)
        if args.precision == "amp" and setting.what == "decoding" and not args.contests:
            continue
        if args.precision != "fp32" and suite.SUITE[name].of_precisions and not args.contests:
            continue  # held with fp32
        suffix = "" if (args.device, args.precision) == ("cpu", "fp32") else f".{args.device}-{args.precision}"
        output = args.directory / f"{name}{'.profile' * args.profile}{suffix}.json"
        if args.missing and output.exists():
            continue
        setting = replace(setting, rounds=args.rounds or setting.rounds)
        memory = args.memory and setting.what == "training"
        systems = suite.SUITE[name].systems()
        record = _profile(systems, setting) if args.profile else _measure(systems, setting, memory)
        records.write(output, record)
        print(profile.table(record) if args.profile else suite.table(name, record), end="\n\n", flush=True)
    return 0


def _serving(args: argparse.Namespace) -> int:
    from ..serving.export import Search
    from ..serving.export.trained import open_trained
    from ..serving.trained_translator import find
    from . import serving

    if not args.model:
        _check_shortest(args)
    setting = {name: getattr(args, name) for name in ("batch", "beam", "lenpen", "rounds")}
    systems, count, subset = {}, args.sentences, args.subset if args.model else ""
    architectures = {words: words for words in args.arch} if args.arch else serving.SYSTEMS
    if args.data and not args.model:
        raise OdeTransformerError(f"--data {args.data}: has no meaning without --model; untrained models have no data")
    for name in args.model or architectures:
        processes.say(f"== {name}")
        if not args.model:
            count = args.sentences or 64
            trained, references, raw = serving.untrained(architectures[name], args.flags, args.symbols), None, None
            sources = serving.random_sources(trained, count, args.tokens, args.shortest)
            search = Search(args.beam, args.lenpen, max_len_b=args.tokens, min_len=args.tokens)
        else:
            trained = open_trained(name, args.data)
            sources, references = serving.test_set(trained, find(name, args.data).data, args.subset)
            count = min(args.sentences or len(sources), len(sources))
            sources, references = sources[:count], references[:count]
            search = Search(args.beam, args.lenpen)
            raw = partial(serving.of_raw_text, name, args.data, args.subset, search, args.batch)
        systems[name] = serving.measure(trained, sources, search, args.batch, args.rounds, references, raw)
        record = _record("serving", {"setting": {**setting, "sentences": count, "subset": subset}, "systems": systems})
        _write(args, record)  # as far as it goes: exporting ten models takes long
    print(serving.table(record))
    return 0


def rendered(name: str, record: dict[str, Any]) -> str:
    """A record as Markdown, except one of ``bench lengths``; ``name`` is that of its contest."""
    from . import serving

    own = {
        "gpu": gpu.table,
        "shapes": shapes.table,
        "preparation": preparation.table,
        "profile": profile.table,
        "serving": serving.table,
    }.get(record["what"])
    return own(record) if own else suite.table(name, record)


def _table(args: argparse.Namespace) -> int:
    for path in map(Path, args.records):
        try:
            record = read_json(path)
            if record["what"] == "lengths":
                raise OdeTransformerError(f"{path}: is from `bench lengths`, which has no table; `plot costs` draws it")
            print(rendered(path.name.split(".")[0], record), end="\n\n")
        except OdeTransformerError:
            raise
        except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise OdeTransformerError(
                f"{path}: not a record of the benchmark ({type(error).__name__}: {error})"
            ) from error
    return 0


def _lengths(args: argparse.Namespace) -> int:
    if args.width % 2:  # of TransEvolve
        raise OdeTransformerError(f"--width {args.width}: must be even")
    if args.width % args.heads:
        raise OdeTransformerError(f"--heads {args.heads}: must divide --width, {args.width}")
    _write(args, _record("lengths", lengths.measure(args)))
    return 0


def _preparation(args: argparse.Namespace) -> int:
    for measured in preparation.measure(args):
        record = _record("preparation", measured)
        _write(args, record)  # as far as it goes: millions of pairs take long
    print(preparation.table(record))
    return 0


def _shapes(args: argparse.Namespace) -> int:
    found = [
        {"text": args.subset, "max_tokens": n, **shapes.count(args.data, args.subset, args.langs, n)}
        for n in args.max_tokens
    ]
    print(shapes.table({"rows": found}))
    return 0


def _compare(args: argparse.Namespace) -> int:
    """``training`` and ``decoding``."""
    _check_shortest(args)
    fields = ("sentences", "tokens", "shortest", "symbols", "beam", "rounds", "device", "precision", "data")
    setting = Setting(args.what, **{name: getattr(args, name) for name in fields})
    flags = tuple(args.flags)
    ours, stock = System(args.arch, flags), contest.stock_like(args.arch, flags)
    systems = {"stock": stock, args.arch: ours}
    if args.what == "training":
        systems[f"{args.arch}, stock criterion"] = replace(ours, criterion=STOCK)
    record = _profile(systems, setting) if args.profile else _measure(systems, setting, args.memory)
    print(profile.table(record) if args.profile else suite.table("-", record))
    _write(args, record)
    return 0


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer bench``; the exit status."""
    if args.flags and not (args.what in ("training", "decoding") or (args.what == "serving" and not args.model)):
        raise OdeTransformerError(
            f"-- {' '.join(args.flags)}: flags of models go with training, decoding and serving, without --model"
        )
    if args.device == "cuda" and not torch.cuda.is_available():
        raise OdeTransformerError("--device cuda: needs a GPU")
    return args.go(args)
