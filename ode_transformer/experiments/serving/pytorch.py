"""The backend of runs, checkpoints and bundles, and of ensembles of them: PyTorch, with fairseq's generator."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor, nn

from ... import checkpoints
from ...checkpoints import CheckpointError, standalone
from ...errors import OdeTransformerError, counted
from ...files import sha256
from ...numerics.integrators import INTEGRATORS
from ..text.manifest import read_manifest
from .backend import Backend, Found, LayerStates, Search

if TYPE_CHECKING:
    from .opening import Origin

_SHOWN = (
    *("splitting", "integrator", "coefficients", "decoder_integrator", "ode_function", "encoder_history"),
    *("decoder_history", "relative_positions", "position_encoder", "ode_residual"),
    *("transevolve_form", "evolution_blocks", "evolution_depth", "evolution_feed_forward"),
)
"""The options that a model's description names, unless they change nothing."""


@dataclass(frozen=True)
class Opened:
    """A model in evaluation mode, with its path, its registered name and the options it was built from."""

    path: str
    model: nn.Module
    name: str
    options: dict[str, Any]

    @classmethod
    def of(cls, state: dict[str, Any], path: str | Path) -> "Opened":
        """Open the state of a checkpoint."""
        model = standalone.open_state(state, path).float().eval()
        for name, weight in model.named_parameters():
            if not weight.isfinite().all():
                raise CheckpointError(f"{path}: {name} has values that are not finite; did it diverge?")
        return cls(str(path), model, *standalone.model_options(state, path))

    def __str__(self) -> str:
        # The model's own options: those that a checkpoint of released code stores stand for others.
        cfg, parts = self.model.cfg, []
        kind = "transformer (fairseq's own)" if self.name in standalone.STOCK else self.name
        parameters = sum(p.numel() for p in self.model.parameters())
        for side in ("encoder", "decoder"):
            its, stack = getattr(cfg, side), getattr(self.model, side)
            what, norm = "layer", ", pre-norm" if its.normalize_before else ", post-norm"
            if self.name == "transevolve":
                what, norm = "block", ""
            parts.append(f"{side} {counted(len(stack.layers), what)} of width {its.embed_dim}{norm}")
        chosen = {name: getattr(cfg, name, None) for name in _SHOWN if self.name not in standalone.STOCK}
        shown = {name: value for name, value in chosen.items() if value not in (None, "none", "both", "paper")}
        how = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
        return f"{kind}, {parameters:,} parameters; {'; '.join(parts)}\n{how}".rstrip()

    def stepping(self, chosen: dict[str, str]) -> "Opened":
        """Return the model with the same weights and other values of ``integrator`` and ``decoder_integrator``."""
        name, options = self.name, self.options
        if name in standalone.STOCK:  # opened in our layers
            name, options = "floater", {**standalone.stock_options(name, options), "position_encoder": "none"}
        if name == "transevolve":
            raise OdeTransformerError(f"{self.path}: must not be a transevolve model, whose blocks have no integrator")
        if name in ("ode_released", "pcformer_released"):
            raise OdeTransformerError(f"{self.path}: must not be of {name}, whose own options choose the integrator")
        weights = {k: v.float().cpu() if v.is_floating_point() else v for k, v in self.model.state_dict().items()}
        state = {"model": weights, "args": None, "cfg": {"model": {**options, **chosen, "_name": name}}}
        try:
            return Opened.of(state, f"{self.path} with {', '.join(f'{k} {v}' for k, v in chosen.items())}")
        except CheckpointError as error:
            sides = tuple("decoder." if option.startswith("decoder") else "encoder." for option in chosen)
            lost = [k for k in weights if k.startswith(sides) and ".coefficients." in k]
            more = f"; the learned weights of its stages would be lost: {', '.join(lost)}" if lost else ""
            raise OdeTransformerError(f"{error}{more}") from error


class PyTorch(Backend):
    """A model, or an ensemble of models; ``task`` holds their languages and dictionaries."""

    def __init__(self, opened: Sequence[Opened], task: TranslationTask, device: str | torch.device | None = None):
        self.opened, self.task = list(opened), task
        self.name = ", ".join(one.path for one in opened)
        self.languages = task.cfg.source_lang, task.cfg.target_lang
        self.dictionaries = task.source_dictionary, task.target_dictionary
        self.symbols = self.dictionaries[0].symbols, self.dictionaries[1].symbols
        source, target = map(min, zip(*(model.max_positions() for model in self.models), strict=True))
        self.longest = {"source": source, "target": target}
        try:
            self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            said = str(error).splitlines()[0]
            raise OdeTransformerError(f"device {device!r}: must be cpu, cuda or cuda:N: {said}") from error
        for model in self.models:
            model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
            model.to(self.device)

    @property
    def models(self) -> list[nn.Module]:
        """The models, in evaluation mode."""
        return [one.model for one in self.opened]

    @property
    def about(self) -> list[str]:
        """As in :class:`.Backend`."""
        return [line for one in self.opened for line in str(one).split("\n")]

    def half(self) -> None:
        """As in :class:`.Backend`."""
        if self.device.type == "cpu":
            raise OdeTransformerError("--fp16: needs a GPU")
        for model in self.models:
            model.half()
        self.__dict__.pop("finite", None)  # attention overflows earlier

    @cached_property
    def finite(self) -> dict[str, int]:
        """The maximum lengths of source and target with which the attention of all models is finite.

        FLOATER's biases grow with the position, so that attention may overflow before the model's last position.
        """
        reach = most = max(self.longest.values())
        for model in self.models:
            if (encoder := getattr(model, "position_encoder", None)) is not None:
                reach = min(reach, encoder.reach(most))
        return {side: min(length, reach) for side, length in self.longest.items()}

    def _rows(self, side: int, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Return the indices of sentences, with the end of sentence; ``side`` is 0 for sources and 1 for targets."""
        dictionary = self.dictionaries[side]
        return [torch.tensor([*map(dictionary.index, symbols), dictionary.eos()]) for symbols in sentences]

    def _inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        """Return the inputs of the encoder, padded on the left."""
        rows, pad = self._rows(0, sentences), self.dictionaries[0].pad()
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return {"src_tokens": collate_tokens(rows, pad, left_pad=True).to(self.device), "src_lengths": lengths}

    def _translate(self, sentences: Sequence[Sequence[str]], search: Search, most: int) -> list[list[Found]]:
        target, options = self.dictionaries[1], asdict(search) | {"max_len_a": 0.0, "max_len_b": most}
        try:
            generator = self.task.build_generator(self.models, GenerationConfig(**options))
            found = generator.generate(self.models, {"net_input": self._inputs(sentences)})
        except OdeTransformerError:
            raise
        except (AssertionError, ValueError, RuntimeError) as error:
            if re.fullmatch(r"\d+ < \d+", str(error)):  # no hypothesis has ended at the last position
                raise OdeTransformerError(
                    f"{self.name}: finds no translation, since its log-probabilities are not numbers; it diverged in "
                    "training, or overflows in fp16 and can be used without --fp16"
                ) from error
            # Options that cannot be combined.
            raise OdeTransformerError(f"search with {search}: {str(error) or type(error).__name__}") from error
        return [
            [([target[i] for i in h["tokens"][:-1]], float(h["score"])) for h in hypotheses[: search.nbest]]
            for hypotheses in found
        ]

    @torch.no_grad()
    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """As in :class:`.Backend`, by the first model, in one batch."""
        rows, pad, model = self._rows(1, targets), self.dictionaries[1].pad(), self.models[0]
        previous = collate_tokens([row.roll(1) for row in rows], pad).to(self.device)
        out = model(**self._inputs(sources), prev_output_tokens=previous)
        wanted = collate_tokens(rows, pad).to(self.device)
        log_probs = model.get_normalized_probs(out, log_probs=True).gather(2, wanted[:, :, None])[:, :, 0]
        return [found[: len(row)].tolist() for found, row in zip(log_probs, rows, strict=True)]

    # For studies of layers.

    def with_integrator(self, encoder: Optional[str] = None, decoder: Optional[str] = None) -> "PyTorch":
        """As in :class:`.Backend`."""
        chosen = {"integrator": encoder, "decoder_integrator": decoder}
        chosen = {option: name for option, name in chosen.items() if name is not None}
        for name in chosen.values():
            if name not in INTEGRATORS:
                raise OdeTransformerError(f"integrator {name!r}: must be one of {', '.join(INTEGRATORS)}")
        return PyTorch([one.stepping(chosen) for one in self.opened], self.task, self.device)

    @torch.no_grad()
    def layer_states(self, source: Sequence[str], target: Sequence[str]) -> LayerStates:
        """As in :class:`.Backend`."""
        ((words,), inputs) = self._rows(1, [target]), self._inputs([source])
        model, end = self.models[0], self.dictionaries[1].eos_word
        encoded = model.encoder(**inputs, return_all_hiddens=True)
        _, extra = model.decoder(words.roll(1)[None].to(self.device), encoder_out=encoded, features_only=True)
        return LayerStates(
            source=[self.symbols[0][i] for i in inputs["src_tokens"][0]],
            encoder=torch.stack(encoded["encoder_states"])[:, :, 0].cpu(),
            target=[*target, end],
            decoder=torch.stack(extra["inner_states"])[:, :, 0].cpu(),
        )


def open_models(origins: "Sequence[Origin]", device: str | torch.device | None = None) -> PyTorch:
    """Open a model, or an ensemble with the same dictionaries; by default on a GPU if there is one."""
    opened: list[Opened] = []
    for origin in origins:
        state = standalone.load(origin.model)
        languages = _languages(origin, state)
        files = origin.dictionaries(languages)
        if not opened:
            hashes = list(map(sha256, files))
            names = TranslationConfig(source_lang=languages[0], target_lang=languages[1])
            task = TranslationTask(names, *map(_dictionary, files))
        if other := [file for file, digest in zip(files, hashes, strict=True) if sha256(file) != digest]:
            raise OdeTransformerError(f"{other[0]}: must be the dictionary of {origins[0].model}, for an ensemble")
        sizes, there = standalone.dictionary_sizes(state, origin.model), tuple(map(len, (task.src_dict, task.tgt_dict)))
        if sizes != there:
            raise OdeTransformerError(
                f"{origin.model}: has vocabulary sizes {sizes[0]} and {sizes[1]}, the dictionaries in {origin.data} "
                f"have {there[0]} and {there[1]}: they belong to another model"
            )
        opened.append(Opened.of(state, origin.model))
    return PyTorch(opened, task, device)


def _languages(origin: "Origin", state: dict[str, Any]) -> tuple[str, str]:
    """Return the languages of a checkpoint; those of its data if it has none, as in a bundle."""
    said = checkpoints.options(state, "task")
    if not said.get("source_lang") and (origin.data / "manifest.json").is_file():
        said = read_manifest(origin.data)
    source, target = (said.get(name) for name in ("source_lang", "target_lang"))
    if not all(isinstance(name, str) and re.fullmatch(r"[\w-]+", name) for name in (source, target)):
        raise CheckpointError(f"{origin.model}: must name a source and a target language, as the task translation does")
    return source, target


def _dictionary(path: Path) -> Dictionary:
    with standalone.errors_about(str(path)):
        return Dictionary.load(str(path))
