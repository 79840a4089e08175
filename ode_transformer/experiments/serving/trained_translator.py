"""Models that PyTorch computes, and ensembles of them, which translate raw text: runs, checkpoints and bundles."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor, nn

from ... import checkpoints
from ...checkpoints import CheckpointError, bundles, standalone
from ...errors import OdeTransformerError
from ...files import regular, sha256
from ...numerics.integrators import INTEGRATORS
from .. import recipes, runs
from ..text.pipeline import Pipeline
from .export import is_exported
from .translator import Found, Translator, check_sentence, located

_SEARCH = (
    *("beam", "nbest", "max_len_a", "max_len_b", "min_len", "lenpen", "unkpen", "unnormalized", "temperature"),
    *("match_source_len", "no_repeat_ngram_size", "sampling", "sampling_topk", "sampling_topp"),
    *("diverse_beam_groups", "diverse_beam_strength", "diversity_rate"),
)
SEARCH = {f.name: f.type for f in fields(GenerationConfig) if f.name in _SEARCH}
"""The flags of ``fairseq-generate`` that a search can have, those that its generators read, and their types."""


@dataclass(frozen=True)
class LayerStates:
    """The inputs of all layers of a model for a sentence, and the output of the last layer before the final norm.

    Args:
        source: the S units of the sentence, and its end.
        encoder: (L + 1, S + 1, C).
        target: the T units of the translation, and its end; the decoder reads the end first, and the last unit last.
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
        model: the checkpoint, or the folder of the bundle.
        data: the folder of the dictionaries, the subword model and the manifest.
        search: the model's flags of ``fairseq-generate``.
        run: the folder of the run, if there is one.
    """

    model: Path
    data: Path
    search: dict[str, Any] = field(default_factory=dict)
    run: Optional[Path] = None

    def state(self) -> dict[str, Any]:
        """The state of the checkpoint, or of the bundle, which :func:`find` compared with its hashes.

        Raises:
            CheckpointError: it cannot be read.
        """
        return bundles.load(self.model, checked=True) if bundles.is_bundle(self.model) else checkpoints.load(self.model)


def find(model: str | Path, data: str | Path | None = None) -> Origin:
    """Where a model's parts are.

    Args:
        model: the folder of a run, a checkpoint, or the folder of a bundle. A path that does not exist is looked for in
            the clone of the repository, where ``run`` puts its folders by default.
        data: the folder of binarized data, if the data are neither where the run had them nor beside the checkpoint.

    Raises:
        OdeTransformerError: something is missing, or the dictionaries are not those of the training; the message names
            it.
    """
    path = located(model)
    if is_exported(path):
        raise OdeTransformerError(f"{model}: is an exported model already; must be a run, a checkpoint or a bundle")
    if bundles.is_bundle(path):
        if data is not None:
            raise OdeTransformerError(f"--data {data}: must not be given with {model}, a bundle, which holds its data")
        bundles.check(path)
        return Origin(path, path, bundles.config(path)["generate"])
    if not path.exists():
        raise OdeTransformerError(f"{model}: no such file or folder; must be a run, a checkpoint or a bundle")
    folder = path if path.is_dir() else path.parent
    run = runs.read(folder)
    if path.is_dir():
        if run is None:
            raise OdeTransformerError(
                f"{model}: must be a run or a bundle, but holds neither run.json nor {bundles.INDEX}"
            )
        path = folder / "average.pt"
        if not path.is_file():
            there = ", ".join(sorted(p.name for p in folder.glob("*.pt"))) or "no checkpoints"
            raise OdeTransformerError(
                f"{path}: no such file, because the run is not finished; name one of its checkpoints ({there})"
            )
    if data is None and run is not None:
        with standalone.named(f"{folder / 'run.json'}: does not say where its data are"):
            data = recipes.ROOT / run["data"]
    elif data is None:
        data = folder
    if not Path(data).is_dir():
        raise OdeTransformerError(f"{data}: no such folder; name the folder of the data of {path} with --data")
    standalone.check_dictionaries(path, data)
    return Origin(path, Path(data), (run or {}).get("generate") or {}, folder if run else None)


@dataclass
class Opened:
    """A model with its registered name and the options that it was built from."""

    model: nn.Module
    name: str
    options: dict[str, Any]

    @classmethod
    def of(cls, state: dict[str, Any], path: str | Path) -> "Opened":
        """Open the state of a checkpoint.

        Raises:
            CheckpointError: as :func:`.standalone.open_state`, or a weight is not finite.
        """
        model = standalone.open_state(state, path).eval()
        for name, weight in model.named_parameters():
            if not weight.isfinite().all():
                raise checkpoints.CheckpointError(f"{path}: {name} has values that are not finite; did it diverge?")
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


class TrainedTranslator(Translator):
    """A model, or an ensemble of several models, with the way from raw text to subword units and back.

    Args:
        origins: where the parts of each model are.
        device: ``cpu``, ``cuda``, ...; by default a GPU if there is one.

    Raises:
        OdeTransformerError: a model cannot be opened, or cannot be in an ensemble with the first; the message names it.
    """

    flags = SEARCH

    def __init__(self, origins: Sequence[Origin], device: str | torch.device | None = None):
        origin = origins[0]
        super().__init__(origin.data, origin.search)
        self.origins = list(origins)
        langs = (self.pipeline.tokeniser.lang, self.pipeline.target)
        source, target = (_dictionary(origin.data / f"dict.{lang}.txt") for lang in langs)
        for other in origins[1:]:
            pairs = [(origin.data / f"dict.{lang}.txt", other.data / f"dict.{lang}.txt") for lang in langs]
            if differ := [b for a, b in pairs if not b.is_file() or sha256(a) != sha256(b)]:
                raise OdeTransformerError(f"{differ[0]}: must be the dictionary of {origin.model}, for an ensemble")
            if Pipeline.of(other.data).identity != self.pipeline.identity:
                raise OdeTransformerError(
                    f"{other.model}: its text must be prepared like that of {origin.model}, for an ensemble"
                )
        self.task = TranslationTask(TranslationConfig(source_lang=langs[0], target_lang=langs[1]), source, target)
        self.opened = []
        for one in origins:
            state = one.state()
            trained = tuple(checkpoints.options(state, "task").get(name) for name in ("source_lang", "target_lang"))
            if None not in trained and trained != langs:
                raise OdeTransformerError(
                    f"{one.model}: translates {' to '.join(map(str, trained))}, but its data were prepared for "
                    f"{' to '.join(langs)}"
                )
            sizes = standalone.symbols(state, one.model)
            if sizes != (len(source), len(target)):
                raise OdeTransformerError(
                    f"{one.model}: has vocabulary sizes {sizes[0]} and {sizes[1]}, the dictionaries in {origin.data} "
                    f"have {len(source)} and {len(target)}: they belong to another model"
                )
            self.opened.append(Opened.of(state, one.model))
            if min(positions := self.models[-1].max_positions()) < 2:
                raise OdeTransformerError(
                    f"{one.model}: has {positions} positions, must have 2 or more, for one unit and the end"
                )
        self.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def to(self, device: str | torch.device, *, half: bool = False) -> "TrainedTranslator":
        """Move the models to a device, in fp16 with ``half``; returns the translator."""
        self.device = torch.device(device)
        for opened in self.opened:
            opened.model.to(self.device, torch.float16 if half else None)
        return self

    @property
    def models(self) -> list[nn.Module]:
        """The models, in evaluation mode."""
        return [opened.model for opened in self.opened]

    @property
    def name(self) -> str:
        """The models, as messages name them."""
        return ", ".join(str(origin.model) for origin in self.origins)

    @property
    def longest(self) -> int:
        """As in :class:`Translator`."""
        return min(model.max_positions()[0] for model in self.models)

    def half(self) -> None:
        """As in :class:`Translator`."""
        if self.device.type == "cpu":
            raise OdeTransformerError("--fp16: needs a GPU")
        self.to(self.device, half=True)

    def _about(self) -> list[str]:
        return [line for opened in self.opened for line in str(opened).split("\n")]

    def _searching(
        self, values: dict[str, Any], prefix: list[str]
    ) -> Callable[[Sequence[list[str]], Sequence[bool]], list[Found]]:
        source, target = self.task.source_dictionary, self.task.target_dictionary
        config = GenerationConfig(**values)
        generator = self.task.build_generator(self.models, config)
        start = target.encode_line(" ".join(prefix), add_if_not_exist=False, append_eos=False).long()

        def translate(batch: Sequence[list[str]], first: Sequence[bool]) -> list[Found]:
            rows = [source.encode_line(" ".join(units), add_if_not_exist=False).long() for units in batch]
            tokens = collate_tokens(rows, source.pad(), left_pad=True).to(self.device)
            lengths = torch.tensor([len(row) for row in rows], device=self.device)
            sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
            most = int(generator.max_len_a * tokens.size(1) + generator.max_len_b)  # without the end, as in fairseq
            most = min(most, generator.max_len - 1)
            if len(prefix) > most:
                raise OdeTransformerError(
                    f"the prefix has {len(prefix)} units, a translation must have {most} at most (--max-len-a, "
                    "--max-len-b)"
                )
            starts = [start if begins else torch.full_like(start, target.pad()) for begins in first]
            prefixes = torch.stack(starts).to(self.device) if prefix else None  # padding forces nothing
            found = []
            for hypotheses in generator.generate(self.models, sample, prefix_tokens=prefixes):
                best = hypotheses[: config.nbest]
                units = [target.string(h["tokens"].int().cpu(), extra_symbols_to_ignore={generator.eos}) for h in best]
                scores = [float(h["score"]) / math.log(2) for h in best]
                found.append((list(zip(units, scores, strict=True)), len(best[0]["tokens"]) > most))
            return found

        return translate

    # For studies of layers.

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "TrainedTranslator":
        """The same weights in layers with another integrator.

        Args:
            encoder: a name in ``INTEGRATORS``; None keeps the encoder's.
            decoder: likewise for the decoder.

        Raises:
            OdeTransformerError: there is no such method, or the weights do not fit it; the message says what is lost.
        """
        chosen = {"integrator": encoder, "decoder_integrator": decoder}
        chosen = {option: name for option, name in chosen.items() if name is not None}
        for name in chosen.values():
            if name not in INTEGRATORS:
                raise OdeTransformerError(f"integrator {name!r}: must be one of {', '.join(INTEGRATORS)}")
        found = copy.copy(self)
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
            raise OdeTransformerError(
                f"{origin.model}: must not be a transevolve model, whose blocks have no integrator"
            )
        asked = ", ".join(f"{option} {value}" for option, value in chosen.items())
        weights = {k: v.float().cpu() if v.is_floating_point() else v for k, v in one.model.state_dict().items()}
        state = {"model": weights, "args": None, "cfg": {"model": {**options, **chosen, "_name": name}}}
        try:
            return Opened.of(state, f"{origin.model} with {asked}")
        except CheckpointError as error:
            sides = tuple("decoder." if option.startswith("decoder") else "encoder." for option in chosen)
            lost = [k for k in weights if k.startswith(sides) and ".coefficients." in k]
            more = f"; the learned weights of its stages would be lost: {', '.join(lost)}" if lost else ""
            raise OdeTransformerError(f"{error}{more}") from error

    @torch.no_grad()
    def layer_states(self, sentence: str) -> LayerStates:
        """The inputs of the first model's layers, for a sentence and its best translation.

        Raises:
            OdeTransformerError: as in :meth:`translate`; or the sentence is empty or longer than the model takes.
        """
        check_sentence("the sentence", sentence)
        (units,) = self.pipeline.units([sentence])
        if not 0 < len(units.split()) < self.longest:
            raise OdeTransformerError(
                f"the sentence has {len(units.split()):,} units, must have 1 to {self.longest - 1:,}"
            )
        ((best, *_),) = self.hypotheses([sentence])
        source, target = self.task.source_dictionary, self.task.target_dictionary
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


def _dictionary(path: Path) -> Dictionary:
    with standalone.named(str(path)):
        return Dictionary.load(str(regular(path)))
