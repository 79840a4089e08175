"""``ode-transformer translate`` and :func:`ode_transformer.load`: raw text in, raw text out.

Text is tokenised, segmented and detokenised as the manifest of the model's data says, and searched with the flags of
the recipe, so that a test set's raw text gives the sentences that the recipe's own decoding gives, detokenised.
"""

import argparse
import contextlib
import io
import itertools
import json
import math
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor, nn

from .. import bundles, standalone
from ..checkpoints import CheckpointError
from ..errors import OdeTransformerError
from ..files import sha256
from ..numerics.integrators import INTEGRATORS
from . import recipes, runs, text
from .pipeline import Pipeline

KINDS = {bool: ("a switch", (bool,)), int: ("a whole number", (int,)), float: ("a number", (int, float))}
"""What values a flag takes, by its type: what messages call them, and their types."""

SEARCH = {f.name: f.type for f in fields(GenerationConfig) if f.type in KINDS and f.name != "score_reference"}
"""Flags of ``fairseq-generate`` that a search may have, numbers and switches, and their types."""


MOST_HYPOTHESES = 1_000  # of a sentence
SHOWN = 5  # lines named in a warning
BUFFER = 10_000  # lines that are sorted by their lengths at a time
BATCH_SIZE, MAX_TOKENS = 128, 12_000
LONGEST = 20_000  # characters of a line; what is longer is no sentence, and segmenting it could take hours
ENDS = (frozenset(".!?\u3002\uff01\uff1f"), frozenset(",;:\u3001\uff0c\uff1b\uff1a"))
"""Units that end a sentence, and those that end a clause."""

INPUT = "standard input"


class TranslationError(OdeTransformerError):
    """Something that cannot be translated, or with; the message names the model, file, line or option."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation: text to read, its score as fairseq prints it (base 2, by length), and its units."""

    text: str
    score: float
    units: str


@dataclass(frozen=True)
class LayerStates:
    """What the layers of a model read for a sentence, and what the last one leaves, before the final norm.

    Args:
        source: S units and the end.
        encoder: (L + 1, S + 1, C).
        target: T units of the translation and the end; the decoder reads the end first, and the last unit last.
        decoder: (L' + 1, T + 1, C').
    """

    source: list[str]
    encoder: Tensor
    target: list[str]
    decoder: Tensor


@dataclass(frozen=True)
class Origin:
    """Where the parts of a model are.

    Args:
        model: its checkpoint, or the folder of its bundle.
        data: the folder of its dictionaries, units and manifest.
        search: flags of ``fairseq-generate`` that are its own.
        run: the folder of its run, if there is one.
    """

    model: Path
    data: Path
    search: dict[str, Any] = field(default_factory=dict)
    run: Optional[Path] = None


def find(model: str | Path, data: str | Path | None = None) -> Origin:
    """Where a model's parts are.

    Args:
        model: the folder of a run, a checkpoint, or the folder of a bundle; one that is not here is looked for in the
            clone of the repository, where ``run`` puts what has no folder of its own.
        data: the folder of binarised data, if it is not where the run had it or the checkpoint is.

    Raises:
        OdeTransformerError: something is not there; names it.
    """
    path = Path(model)
    if not path.exists() and (recipes.ROOT / path).exists():
        path = recipes.ROOT / path
    if bundles.is_bundle(path):
        if data is not None:
            raise TranslationError(f"--data {data}: {model} is a bundle, which holds what it needs")
        bundles.check(path)
        return Origin(path, path, bundles.config(path)["generate"])
    if not path.exists():
        raise TranslationError(f"{model}: no such file or folder; must be a run, a checkpoint or a bundle")
    folder = path if path.is_dir() else path.parent
    run = runs.read(folder)
    if path.is_dir():
        if run is None:
            raise TranslationError(f"{model}: neither a run nor a bundle, it holds no run.json and no {bundles.INDEX}")
        path = folder / "average.pt"
        if not path.is_file():
            there = ", ".join(sorted(p.name for p in folder.glob("*.pt"))) or "no checkpoints"
            raise TranslationError(f"{path}: not there, the run is not finished; name a checkpoint of it ({there})")
    if data is None and run is not None:
        with standalone.named(f"{folder / 'run.json'}: does not say where its data are"):
            data = recipes.ROOT / (run.get("data") or run["command"][1])
    elif data is None:
        data = folder
    if not Path(data).is_dir() or not (Path(data) / "manifest.json").is_file():
        raise TranslationError(f"{data}: holds no manifest.json of the data of {path}; name their folder with --data")
    standalone.check_dictionaries(path, data)
    return Origin(path, Path(data), (run or {}).get("generate") or {}, folder if run else None)


@dataclass
class Opened:
    """A model, and what it was built from: the registered name and the options."""

    model: nn.Module
    name: str
    options: dict[str, Any]

    @classmethod
    def of(cls, state: dict[str, Any], path: str | Path) -> "Opened":
        """Of a checkpoint's state; raises as :func:`.standalone.open_state` does."""
        model = standalone.open_state(state, path).eval()
        model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
        return cls(model, *standalone.model_options(state, path))

    def __str__(self) -> str:
        options, parts = self.options, []
        kind = "transformer (fairseq's own)" if self.name in standalone.STOCK else self.name
        parameters = sum(p.numel() for p in self.model.parameters())
        for side in ("encoder", "decoder"):
            depth, width = len(getattr(self.model, side).layers), options.get(f"{side}_embed_dim")
            norm = "pre-norm" if options.get(f"{side}_normalize_before") else "post-norm"
            parts.append(f"{side} {depth} layer{'s' * (depth != 1)} of width {width}, {norm}")
        lines = [f"{kind}, {parameters:,} parameters; {'; '.join(parts)}"]
        known = {
            "splitting": options.get("splitting", "lie-trotter"),
            "integrator": options.get("integrator", "euler"),
            "coefficients": options.get("coefficients", "fixed"),
            "decoder integrator": options.get("decoder_integrator", "euler"),
            "function": options.get("ode_function", "both"),
            "history": f"{options.get('encoder_history', 'none')} / {options.get('decoder_history', 'none')}",
            "relative positions": options.get("relative_positions", "none"),
            "position encoder": options.get("position_encoder", "none"),
        }
        idle = ("none", "none / none", "both")
        always = ("splitting", "integrator", "coefficients")
        if self.name == "transevolve":
            known = {k.replace("_", " "): v for k, v in options.items() if k.startswith(("evolution", "transevolve"))}
        shown = {name: str(value) for name, value in known.items()}
        lines.append(", ".join(f"{k} {v}" for k, v in shown.items() if k in always or v not in idle))
        return "\n".join(lines)


class Translator:
    """A model, or an ensemble of several, with what makes units of raw text and text of units.

    Args:
        origins: of the models.
        device: ``cpu``, ``cuda``, ...; by default a GPU if there is one.

    Raises:
        OdeTransformerError: a model cannot be opened, or those of an ensemble do not go together; names it.
    """

    def __init__(self, origins: Sequence[Origin], device: str | torch.device | None = None):
        origin = origins[0]
        self.origins = list(origins)
        self.pipeline = Pipeline.of(origin.data)
        langs = (self.pipeline.tokeniser.lang, self.pipeline.target)
        source, target = (_dictionary(origin.data / f"dict.{lang}.txt") for lang in langs)
        for other in origins[1:]:
            pairs = [(origin.data / f"dict.{lang}.txt", other.data / f"dict.{lang}.txt") for lang in langs]
            if differ := [b for a, b in pairs if not b.is_file() or sha256(a) != sha256(b)]:
                raise TranslationError(f"{differ[0]}: another dictionary than that of {origin.model}: no ensemble")
            if Pipeline.of(other.data).identity != self.pipeline.identity:
                raise TranslationError(f"{other.model}: its text was made otherwise than that of {origin.model}")
        self.task = TranslationTask(TranslationConfig(source_lang=langs[0], target_lang=langs[1]), source, target)
        self.opened = []
        for one in origins:
            state = standalone.load(one.model)
            sizes = standalone.symbols(state, one.model)
            if sizes != (len(source), len(target)):
                raise TranslationError(
                    f"{one.model}: is of {sizes[0]} and {sizes[1]} symbols, the dictionaries in {origin.data} have "
                    f"{len(source)} and {len(target)}: they are another model's"
                )
            self.opened.append(Opened.of(state, one.model))
            if min(positions := self.models[-1].max_positions()) < 2:
                raise TranslationError(f"{one.model}: reads {positions} symbols, must read 2 at least, one and the end")
        search = {name.replace("-", "_"): value for name, value in origin.search.items() if value is not None}
        self.search = {"beam": 5, "lenpen": 1.0, **{k: v for k, v in search.items() if k in SEARCH}}
        self._config({})
        self.batch_size = search.get("batch_size", BATCH_SIZE)
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise TranslationError(f"batch_size {self.batch_size!r}: must be a positive whole number")
        self.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def to(self, device: str | torch.device, *, half: bool = False) -> "Translator":
        """Move the models to a device, in fp16 with ``half``; returns itself."""
        self.device = torch.device(device)
        for opened in self.opened:
            opened.model.to(self.device, torch.float16 if half else None)
        return self

    @property
    def models(self) -> list[nn.Module]:
        """The models, in evaluation mode."""
        return [opened.model for opened in self.opened]

    def __repr__(self) -> str:
        lines = [line for opened in self.opened for line in str(opened).split("\n")]
        search = ", ".join(f"{name} {value}" for name, value in self.search.items())
        names = ", ".join(str(origin.model) for origin in self.origins)
        body = "\n  ".join([*lines, str(self.pipeline), f"search: {search}", f"on {self.device}"])
        return f"Translator({names})\n  {body}"

    # Translating.

    def translate(self, sentences: Sequence[str], **search: Any) -> list[str]:
        """The best translation of each sentence, in their order.

        Args:
            sentences: raw text; an empty one gives an empty one.
            search: of ``fairseq-generate``, such as ``beam=4, lenpen=0.6``; by default the recipe's.

        Raises:
            TranslationError: a sentence of more than ``LONGEST`` characters, or one that is no text; an unknown name.
        """
        if isinstance(sentences, str):
            raise TranslationError("translate takes a list of sentences, got one string")
        return [best.text for best, *_ in self.hypotheses(sentences, **search)]

    def hypotheses(
        self,
        sentences: Sequence[str],
        *,
        names: Optional[Sequence[str]] = None,
        progress: Callable[[int], Any] = lambda n: None,
        **search: Any,
    ) -> list[list[Hypothesis]]:
        """The best ``nbest`` translations of each sentence, best first; an empty one has one, which is empty.

        Args:
            sentences: raw text.
            names: what messages call them.
            progress: is told the number of sentences that are done.
            search: as of :meth:`translate`.

        Raises:
            TranslationError: as of :meth:`translate`.
        """
        config = self._config(search)
        names = names or [f"sentence {i + 1}" for i in range(len(sentences))]
        for name, sentence in zip(names, sentences, strict=True):
            _check_sentence(name, sentence)
        pieces = [
            (i, piece)
            for i, units in enumerate(self.pipeline.units(sentences))
            for piece in self._pieces(units.split(), names[i])
        ]
        found: dict[int, list[list[Hypothesis]]] = {i: [] for i in range(len(sentences))}
        asked = ", ".join(f"{name} {value}" for name, value in {**self.search, **search}.items() if value is not None)
        try:
            searched, cut = self._search(pieces, config, progress)
        except (AssertionError, ValueError, RuntimeError) as error:  # flags that do not go together
            raise TranslationError(f"search with {asked}: {str(error) or type(error).__name__}") from error
        for i, hypotheses in searched:
            found[i].append(hypotheses)
        if cut:
            shown = "; ".join(names[i] for i in cut[:SHOWN]) + ("; ..." if len(cut) > SHOWN else "")
            print(
                f"warning: {len(cut)} translations are as long as max_len_a, max_len_b and the model's positions let "
                f"them be, and were cut there ({shown})",
                file=sys.stderr,
            )
        progress(sum(not parts for parts in found.values()))
        return [self._join(found[i]) for i in range(len(sentences))]

    def _config(self, search: dict[str, Any]) -> GenerationConfig:
        values = {**self.search, **{name: value for name, value in search.items() if value is not None}}
        for name, value in values.items():
            if name not in SEARCH:
                raise TranslationError(f"{name}: is no flag of a search, must be one of {', '.join(SEARCH)}")
            what, kinds = KINDS[SEARCH[name]]
            if type(value) not in kinds or not abs(value) <= 1e9:
                raise TranslationError(f"{name} {value!r}: must be {what}")
        config = GenerationConfig(**values)
        for name in ("beam", "nbest"):
            if not 1 <= getattr(config, name) <= MOST_HYPOTHESES:
                raise TranslationError(f"--{name} {getattr(config, name)}: must be from 1 to {MOST_HYPOTHESES}")
        if config.nbest > config.beam:
            raise TranslationError(f"--nbest {config.nbest}: must be at most --beam, {config.beam}")
        return config

    def _pieces(self, units: list[str], name: str) -> list[list[str]]:
        """The units of a sentence, split where they are more than the models take: where a sentence ends if one does,
        or a clause, or a word."""
        most = min(model.max_positions()[0] for model in self.models) - 1  # the end is a symbol
        found = []
        rest = units
        while len(rest) > most:
            ends = [i for i in range(most // 2, most) if self.pipeline.ends_word(rest, i)]
            chosen = [[i for i in ends if rest[i].strip("\u2581") in marks] for marks in ENDS]
            at = next((places[-1] for places in (*chosen, ends) if places), most - 1)
            found.append(rest[: at + 1])
            rest = rest[at + 1 :]
        if found:
            print(
                f"warning: {name}: {len(units):,} units, the model takes {most:,}: translated in {len(found) + 1} "
                "pieces",
                file=sys.stderr,
            )
        return [*found, rest] if rest else found

    def _search(
        self, pieces: Sequence[tuple[int, list[str]]], config: GenerationConfig, progress: Callable[[int], Any]
    ) -> tuple[list[tuple[int, list[Hypothesis]]], list[int]]:
        """The hypotheses of each piece, in the order of the pieces, and the sentences whose best one was cut off;
        batches are of like lengths."""
        source, target = self.task.source_dictionary, self.task.target_dictionary
        generator = self.task.build_generator(self.models, config)
        rows = [source.encode_line(" ".join(p), add_if_not_exist=False).long() for _, p in pieces]
        found: list[list[Hypothesis]] = [[] for _ in pieces]
        cut = set()
        for batch in self._batches(rows):
            tokens = collate_tokens([rows[i] for i in batch], source.pad(), left_pad=True).to(self.device)
            lengths = torch.tensor([len(rows[i]) for i in batch], device=self.device)
            sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
            most = int(generator.max_len_a * tokens.size(1) + generator.max_len_b)  # without the end, as in fairseq
            most = min(most, generator.max_len - 1)
            for i, hypotheses in zip(batch, generator.generate(self.models, sample), strict=True):
                best = hypotheses[: config.nbest]
                if len(best[0]["tokens"]) > most:
                    cut.add(pieces[i][0])
                units = [target.string(h["tokens"].int().cpu(), extra_symbols_to_ignore={generator.eos}) for h in best]
                scores = [float(h["score"]) / math.log(2) for h in best]
                texts = self.pipeline.plain(units)
                found[i] = [Hypothesis(*values) for values in zip(texts, scores, units, strict=True)]
            progress(len(batch))
        return [(i, hypotheses) for (i, _), hypotheses in zip(pieces, found, strict=True)], sorted(cut)

    def _batches(self, rows: Sequence[Tensor]) -> Iterator[list[int]]:
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))  # what needs most memory comes first
        while order:
            count = min(self.batch_size, max(1, MAX_TOKENS // len(rows[order[0]])))
            yield order[:count]
            order = order[count:]

    @staticmethod
    def _join(parts: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The hypotheses of a sentence, of those of its pieces: the best with the best, and so on."""
        if not parts:
            return [Hypothesis("", 0.0, "")]
        if len(parts) == 1:
            return parts[0]
        return [
            Hypothesis(
                " ".join(h.text for h in one), sum(h.score for h in one) / len(one), " ".join(h.units for h in one)
            )
            for one in zip(*parts, strict=False)
        ]

    # For those who study layers.

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "Translator":
        """The same weights with layers that step by another method.

        Args:
            encoder: a name of ``INTEGRATORS``; None leaves the encoder's.
            decoder: of the decoder likewise.

        Raises:
            TranslationError: no such method, or one that the weights do not go with; says what would be lost.
        """
        chosen = {"integrator": encoder, "decoder_integrator": decoder}
        chosen = {option: name for option, name in chosen.items() if name is not None}
        for name in chosen.values():
            if name not in INTEGRATORS:
                raise TranslationError(f"integrator {name!r}: must be one of {', '.join(INTEGRATORS)}")
        found = object.__new__(Translator)
        found.__dict__ |= self.__dict__
        found.opened = [
            self._stepping(one, origin, chosen) for one, origin in zip(self.opened, self.origins, strict=True)
        ]
        return found.to(self.device)

    @staticmethod
    def _stepping(one: Opened, origin: Origin, chosen: dict[str, str]) -> Opened:
        name, options = one.name, one.options
        if name in standalone.STOCK:  # in our layers, as it was opened
            name, options = "floater", {**standalone.stock_options(name, options), "position_encoder": "none"}
        if name == "transevolve":
            raise TranslationError(f"{origin.model}: is of transevolve, whose blocks have no integrator")
        asked = ", ".join(f"{option} {value}" for option, value in chosen.items())
        weights = {k: v.float().cpu() if v.is_floating_point() else v for k, v in one.model.state_dict().items()}
        state = {"model": weights, "args": None, "cfg": {"model": {**options, **chosen, "_name": name}}}
        try:
            return Opened.of(state, f"{origin.model} with {asked}")
        except CheckpointError as error:
            sides = tuple("decoder." if option.startswith("decoder") else "encoder." for option in chosen)
            lost = [k for k in weights if k.startswith(sides) and ".coefficients." in k]
            more = f"; what weighs its stages was learned, and would be lost: {', '.join(lost)}" if lost else ""
            raise TranslationError(f"{error}{more}") from error

    @torch.no_grad()
    def layer_states(self, sentence: str) -> LayerStates:
        """What the layers of the first model read, for a sentence and its best translation.

        Raises:
            TranslationError: as of :meth:`translate`; or the sentence is empty.
        """
        ((best, *_),) = self.hypotheses([sentence])
        source, target = self.task.source_dictionary, self.task.target_dictionary
        (units,) = self.pipeline.units([sentence])
        if not units.split():
            raise TranslationError("the sentence is empty: no layer reads anything")
        tokens = source.encode_line(units, add_if_not_exist=False).long()[None].to(self.device)
        words = target.encode_line(best.units, add_if_not_exist=False).long()
        previous = torch.cat([words[-1:], words[:-1]])[None].to(self.device)
        model = self.models[0]
        encoded = model.encoder(tokens, torch.tensor([tokens.size(1)]), return_all_hiddens=True)
        _, extra = model.decoder(previous, encoder_out=encoded, features_only=True)
        end = [target.symbols[target.eos()]]
        return LayerStates(
            source=[source.symbols[i] for i in tokens[0]],
            encoder=torch.stack(encoded["encoder_states"])[:, :, 0].cpu(),
            target=[*best.units.split(), *end],
            decoder=torch.stack(extra["inner_states"])[:, :, 0].cpu(),
        )


def _check_sentence(name: str, sentence: str) -> None:
    if len(sentence) > LONGEST:
        raise TranslationError(
            f"{name}: has {len(sentence):,} characters, must have {LONGEST:,} at most; put every sentence on a line of "
            "its own"
        )
    if "\0" in sentence:
        raise TranslationError(f"{name}: holds a NUL, is no text")


def _dictionary(path: Path) -> Dictionary:
    with standalone.named(str(path)):
        return Dictionary.load(str(path))


def load(
    path: str | Path,
    *more: str | Path,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
) -> Translator:
    """As :func:`ode_transformer.load`."""
    models = (path, *more)
    every = all(map(bundles.is_bundle, models))
    with runs.quiet():  # data are of what is no bundle; where there are bundles alone, they are refused
        origins = [find(one, None if bundles.is_bundle(one) and not every else data) for one in models]
        return Translator(origins, device)


# The command.


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which model is meant."""
    parser.add_argument("model", metavar="MODEL", help="the folder of a run, a checkpoint, or a bundle")
    parser.add_argument(
        "--data", metavar="DIR", help="the binarised data of MODEL (default: where its run had them, or beside it)"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer translate``."""
    add_model_arguments(parser)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="raw text, one sentence per line (default: standard input)"
    )
    parser.add_argument(
        "--with", dest="more", action="append", default=[], metavar="MODEL", help="another model of an ensemble"
    )
    parser.add_argument("--beam", type=int, metavar="N", help="hypotheses of the search (default: the recipe's, or 5)")
    parser.add_argument(
        "--lenpen", type=float, metavar="P", help="below 1 favours short translations (default: the recipe's, or 1)"
    )
    parser.add_argument("--nbest", type=int, default=1, metavar="N", help="translations of a sentence (default: 1)")
    parser.add_argument("--scores", action="store_true", help="before each translation its score, in base 2, and a tab")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, with source, texts and scores")
    parser.add_argument("--batch-size", type=int, metavar="N", help="sentences at a time (default: the recipe's)")
    parser.add_argument(
        "--buffer",
        type=int,
        metavar="N",
        help=f"lines that are read before they are translated (default: {BUFFER:,}; 1 at a prompt)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument("--fp16", action="store_true", help="on a GPU, translate in fp16")
    parser.epilog = "With --nbest above 1, the number of its line and a tab precede each translation."


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer translate``; the exit status."""
    try:
        _translate(args)
    except KeyboardInterrupt:  # the usual end at a prompt
        return 128 + signal.SIGINT
    return 0


def _translate(args: argparse.Namespace) -> None:
    for name in ("batch_size", "buffer"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise TranslationError(f"--{name.replace('_', '-')} {value}: must be a positive number")
    if args.fp16 and (args.cpu or not torch.cuda.is_available()):
        raise TranslationError("--fp16: needs a GPU")
    for file in args.files:
        if not Path(file).exists():
            raise TranslationError(f"{file}: no such file")
    translator = load(args.model, *args.more, data=args.data, device="cpu" if args.cpu else None)
    translator.to(translator.device, half=args.fp16)
    translator.batch_size = args.batch_size or translator.batch_size
    prompt = not args.files and sys.stdin.isatty()
    if prompt:
        print(f"{translator!r}\none sentence per line; Ctrl-D ends", file=sys.stderr)
    lines = _numbered(args.files)
    buffer = args.buffer or (1 if prompt else BUFFER)
    search = {"beam": args.beam, "lenpen": args.lenpen, "nbest": args.nbest}
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as what is read, whatever the locale
    while True:
        chunk, error = _chunk(lines, buffer)
        names, sentences = [name for name, _ in chunk], [sentence for _, sentence in chunk]
        with _progress(len(sentences), quiet=prompt) as progress:
            found = translator.hypotheses(sentences, names=names, progress=progress, **search)
        for name, sentence, hypotheses in zip(names, sentences, found, strict=True):
            _print(args, name, sentence, hypotheses)
        sys.stdout.flush()
        if error:
            raise error
        if not chunk:
            return


def _chunk(lines: Iterator[tuple[str, str]], count: int) -> tuple[list[tuple[str, str]], Optional[OdeTransformerError]]:
    """The next lines that can be translated, and the error of the line after them, if there is one."""
    found = []
    try:
        for name, line in itertools.islice(lines, count):
            _check_sentence(name, line)
            found.append((name, line))
    except OdeTransformerError as error:
        return found, error
    return found, None


@contextlib.contextmanager
def _progress(count: int, quiet: bool) -> Iterator[Callable[[int], Any]]:
    from tqdm import tqdm

    with tqdm(total=count, unit=" lines", disable=quiet or None, file=sys.stderr, leave=False) as bar:
        yield bar.update


def _numbered(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every line of the files, or of standard input, without its line ending, after its name in messages."""
    if not files:
        for number, line in enumerate(text.decode_lines(sys.stdin.buffer, INPUT), 1):
            yield f"{INPUT}, line {number}", line.removesuffix("\r")
    for file in files:
        for number, line in enumerate(text.read_lines(Path(file)), 1):
            yield f"{file}, line {number}", line.removesuffix("\r")


def _print(args: argparse.Namespace, name: str, sentence: str, hypotheses: Sequence[Hypothesis]) -> None:
    number = name.rpartition(" ")[2]
    if args.json:
        found = [{"text": h.text, "score": h.score} for h in hypotheses]
        print(json.dumps({"line": int(number), "source": sentence, "translations": found}, ensure_ascii=False))
        return
    for hypothesis in hypotheses:
        before = [number] * (args.nbest > 1) + [f"{hypothesis.score:.4f}"] * args.scores
        print("\t".join([*before, hypothesis.text]))
