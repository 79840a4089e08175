"""``ode-transformer translate`` and :func:`ode_transformer.load`: raw text in, raw text out.

Imports torch and fairseq where a model needs them, which an exported one does not.
"""

import argparse
import contextlib
import itertools
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TextIO

from ...errors import OdeTransformerError
from ...files import whole
from ..arguments import at_least
from ..text.lines import decode_lines, read_lines
from .export import is_exported
from .translator import Hypothesis, Translator, check_sentence, located

if TYPE_CHECKING:
    import torch

BUFFER = 10_000  # lines that are sorted by their lengths at a time
STANDARD_INPUT = "-"


def load(
    path: str | Path,
    *more: str | Path,
    data: str | Path | None = None,
    device: "str | torch.device | None" = None,
) -> Translator:
    """As :func:`ode_transformer.load`."""
    models = (path, *more)
    if exported := [one for one in models if is_exported(located(one))]:
        from .export.translator import ExportedTranslator

        if more:
            raise OdeTransformerError(f"{exported[0]}: is an exported model, of which there are no ensembles")
        if data is not None:
            raise OdeTransformerError(f"--data {data}: {path} is an exported model, which holds what it needs")
        return ExportedTranslator(located(path), device and str(device))

    from ...checkpoints import bundles
    from .trained_translator import TrainedTranslator, find

    bundled = [bundles.is_bundle(located(one)) for one in models]
    # Data are of what is no bundle; where there are bundles alone, they are refused.
    origins = [find(one, None if is_ and not all(bundled) else data) for one, is_ in zip(models, bundled, strict=True)]
    return TrainedTranslator(origins, device)


# The command.


def add_model_arguments(parser: argparse.ArgumentParser, kinds: str) -> None:
    """The arguments that say which model is meant; ``kinds`` says what it may be."""
    parser.add_argument("model", metavar="MODEL", help=kinds)
    parser.add_argument(
        "--data", metavar="DIR", help="the binarized data of MODEL (default: where its run had them, or beside it)"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer translate``."""
    add_model_arguments(parser, "the folder of a run, a checkpoint, a bundle, or an exported model")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="raw text, one sentence per line; - is standard input (default: -)"
    )
    parser.add_argument(
        "--with", dest="more", action="append", default=[], metavar="MODEL", help="a further model, for an ensemble"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write when all is translated")
    parser.add_argument("--beam", type=int, metavar="N", help="beam size (default: the recipe's, or 5)")
    parser.add_argument(
        "--lenpen",
        type=float,
        metavar="P",
        help="length penalty; below 1 favors short translations (default: the recipe's, or 1)",
    )
    parser.add_argument(
        "--max-len-a",
        type=float,
        metavar="A",
        help="a translation has at most A S + B subword units, where S is the length of the longest sentence of its "
        "batch (default: the recipe's, or 0)",
    )
    parser.add_argument("--max-len-b", type=int, metavar="B", help="see --max-len-a (default: the recipe's, or 200)")
    parser.add_argument("--nbest", type=int, default=1, metavar="N", help="translations per sentence (default: 1)")
    parser.add_argument(
        "--prefix", default="", metavar="TEXT", help="whole words with which every translation begins, raw text"
    )
    parser.add_argument(
        "--sampling",
        action="store_true",
        default=None,
        help="draw every unit at random instead of searching for the best; as many samples as --nbest",
    )
    parser.add_argument("--sampling-topk", type=at_least(1), metavar="N", help="draw among the N likeliest units")
    parser.add_argument("--sampling-topp", type=float, metavar="P", help="draw among the likeliest of probability P")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of --sampling (default: another every time)")
    parser.add_argument(
        "--scores", action="store_true", help="print a score in base 2 and a tab before each translation"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line, with source, texts and scores")
    parser.add_argument(
        "--batch-size", type=at_least(1), metavar="N", help="sentences per batch (default: the recipe's)"
    )
    parser.add_argument(
        "--buffer",
        type=at_least(1),
        metavar="N",
        help=f"lines to read before translating them (default: {BUFFER:,}; 1 at a prompt)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument("--fp16", action="store_true", help="on a GPU, translate in fp16")
    parser.epilog = "With --nbest above 1, the number of its line in its file and a tab precede each translation."


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer translate``; the exit status."""
    try:
        _translate(args)
    except KeyboardInterrupt:  # the usual end at a prompt
        return 128 + signal.SIGINT
    return 0


SAMPLING = ("sampling_topk", "sampling_topp", "seed")  # options that have no meaning without --sampling


def _translate(args: argparse.Namespace) -> None:
    files = args.files or [STANDARD_INPUT]
    for file in files:
        if file != STANDARD_INPUT and not Path(file).exists():
            raise OdeTransformerError(f"{file}: no such file")
    for name in SAMPLING:
        if getattr(args, name) is not None and not args.sampling:
            raise OdeTransformerError(
                f"--{name.replace('_', '-')} {getattr(args, name)}: has no meaning without --sampling"
            )
    if args.output and Path(args.output).is_dir():
        raise OdeTransformerError(f"--output {args.output}: is a folder, must be a file")
    with whole(args.output) if args.output else contextlib.nullcontext(sys.stdout) as output:
        _translate_to(output, files, args)


def _translate_to(output: TextIO, files: Sequence[str], args: argparse.Namespace) -> None:
    translator = load(args.model, *args.more, data=args.data, device="cpu" if args.cpu else None)
    if args.fp16:
        translator.half()
    if translator.pipeline.by_moses:
        print("the data of the model were tokenized by Moses; sacremoses, here, makes almost the same", file=sys.stderr)
    translator.batch_size = args.batch_size or translator.batch_size
    if STANDARD_INPUT in files and sys.stdin is None:
        raise OdeTransformerError("standard input is closed; name a file")
    prompt = files == [STANDARD_INPUT] and sys.stdin.isatty()
    if prompt:
        print(f"{translator!r}\none sentence per line; Ctrl-D ends", file=sys.stderr)
    lines = _numbered(files)
    buffer = args.buffer or (1 if prompt else BUFFER)
    search = {name: getattr(args, name) for name in ("beam", "lenpen", "max_len_a", "max_len_b", "nbest")}
    if args.sampling:
        search |= {name: getattr(args, name) for name in ("sampling", "sampling_topk", "sampling_topp")}
        search["beam"] = args.beam or args.nbest  # of more samples the best would be taken, which is another search
        if args.seed is not None and "sampling" in translator.flags:
            import torch

            torch.manual_seed(args.seed)
    while True:
        chunk, error = _chunk(lines, buffer)
        names, sentences = [line.name for line in chunk], [line.text for line in chunk]
        with _progress(len(chunk), quiet=prompt) as progress:
            found = translator.hypotheses(sentences, prefix=args.prefix, names=names, progress=progress, **search)
        for line, hypotheses in zip(chunk, found, strict=True):
            _print(output, args, line, hypotheses)
        output.flush()
        if error:
            raise error
        if not chunk:
            return


class Line(NamedTuple):
    """A line of a file, or of standard input, without its line ending."""

    file: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{'standard input' if self.file == STANDARD_INPUT else self.file}, line {self.number}"


def _chunk(lines: Iterator[Line], count: int) -> tuple[list[Line], Optional[OdeTransformerError]]:
    """The next lines that can be translated, and the error of the line after them, if there is one."""
    found: list[Line] = []
    try:
        for line in itertools.islice(lines, count):
            check_sentence(line.name, line.text)
            found.append(line)
    except OdeTransformerError as error:
        return found, error
    return found, None


@contextlib.contextmanager
def _progress(count: int, quiet: bool) -> Iterator[Callable[[int], Any]]:
    from tqdm import tqdm

    with tqdm(total=count, unit=" lines", disable=quiet or None, file=sys.stderr, leave=False) as bar:
        yield bar.update


def _numbered(files: Sequence[str]) -> Iterator[Line]:
    for file in files:
        lines = decode_lines(sys.stdin.buffer, "standard input") if file == STANDARD_INPUT else read_lines(Path(file))
        for number, text in enumerate(lines, 1):
            yield Line(file, number, text.removesuffix("\r"))


def _print(output: TextIO, args: argparse.Namespace, line: Line, hypotheses: Sequence[Hypothesis]) -> None:
    if args.json:
        found = [{"text": h.text, "score": h.score} for h in hypotheses]
        about = {"file": line.file, "line": line.number, "source": line.text}
        print(json.dumps({**about, "translations": found}, ensure_ascii=False), file=output)
        return
    for hypothesis in hypotheses:
        before = [str(line.number)] * (args.nbest > 1) + [f"{hypothesis.score:.4f}"] * args.scores
        print("\t".join([*before, hypothesis.text]), file=output)
