"""What the tests share: tasks without data, models by name, tiny data, fairseq's commands in this process."""

import argparse
import contextlib
import io
import os
import random
import re
import shlex
import string
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils, models, options
from fairseq.data import Dictionary
from fairseq.data.encoders import gpt2_bpe_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.search import BeamSearch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli import train as train_cli
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import ode_transformer.models  # noqa: F401  registers the architectures
from ode_transformer import config
from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli, records
from ode_transformer.experiments.recipe import Recipe
from ode_transformer.experiments.text import subwords
from ode_transformer.experiments.text.binarised import binarise, binarise_files
from ode_transformer.files import write_json, write_lines, write_text
from ode_transformer.numerics.protocol import Learned

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = Path(__file__).resolve().parent / "fixtures"
USER_DIR = str(ROOT / "ode_transformer")

# Sizes for tests. Architectures that differ in these fields alone are one to the tests.
SMALL = {
    "encoder-embed-dim": 16,
    "encoder-ffn-embed-dim": 24,
    "encoder-attention-heads": 2,
    "decoder-attention-heads": 2,
    "encoder-layers": 2,
    "decoder-layers": 2,
    "dropout": 0.0,
    "attention-dropout": 0.0,
    "activation-dropout": 0.0,
}
# Blocks take the place of layers.
EVOLUTION = {"encoder-layers": None, "decoder-layers": None, "evolution-depth": 2}
SIZES = {name.replace("-", "_") for name in SMALL | EVOLUTION}
SIZES |= {f"decoder_{name}" for name in ("embed_dim", "ffn_embed_dim", "input_dim", "output_dim")}
OWN_SIZES = {"transevolve": EVOLUTION}
POST_NORM = {"no-encoder-normalize-before": True, "no-decoder-normalize-before": True}


def architectures(kind: type) -> list[str]:
    """Our named architectures whose model is of a kind: of those that differ by size alone one, a tiny one if any."""
    found = {}
    for arch, (name, _, preset) in sorted(config.PRESETS.items(), key=lambda row: not row[0].endswith("_tiny")):
        if issubclass(models.MODEL_REGISTRY[name], kind):
            found.setdefault((name, frozenset(row for row in preset.items() if row[0] not in SIZES)), arch)
    return list(found.values())


def typed(words: str) -> dict[str, Any]:
    """Options as they are typed: ``--rk-norm --splitting strang`` is ``{"rk-norm": True, "splitting": "strang"}``."""
    pairs = (word.partition(" ") for word in " ".join(words.split()).removeprefix("--").split(" --"))
    return {flag: value or True for flag, _, value in pairs}


# What the general properties are tested on: every architecture that translates, found where it registers, and options.
# Those at the end have many options at once, named by the integrators of encoder and decoder: a few of them have every
# value of every option.
DEFAULT = "macaron_tiny"
TYPED = """
attention-twice: --splitting strang-swapped
two-hidden-layers: --splitting lie-trotter --ffn-hidden-layers 2
rk2-ema: --arch rk2_tiny --coefficients ema
released-form: --arch rk2_learnable_tiny --ode-residual released
released-rk4: --arch rk4_tiny --ode-residual released
relative-values: --arch rk2_tiny --relative-positions keys-values --max-relative-length 2
dense: --arch rk2_tiny --encoder-history dense --decoder-history residual
san: --arch rk2_tiny --ode-function san
ffn: --arch rk2_tiny --ode-function ffn
decoder-rk2-learnable: --arch rk2_learnable_tiny --decoder-integrator heun
decoder-attention-twice-rk2: --arch rk2_tiny --decoder-integrator heun --splitting strang-swapped
decoder-midpoint: --arch ode_residual_tiny --decoder-integrator midpoint --rk-norm
decoder-multistep: --arch rk2_tiny --decoder-integrator multistep --decoder-history none
floater-stack: --arch floater_tiny --flow-sharing stack
sinusoidal-blocks: --arch floater_tiny --position-encoder sinusoidal
learned-blocks: --arch floater_tiny --position-encoder learned
rnn-scalar-1: --arch floater_tiny --position-encoder rnn-scalar-1
rnn-scalar-2: --arch floater_tiny --position-encoder rnn-scalar-2
rnn-vector-1: --arch floater_tiny --position-encoder rnn-vector-1
rnn-vector-2: --arch floater_tiny --position-encoder rnn-vector-2
macaron-floater: --position-encoder floater
attention-twice-floater: --splitting strang-swapped --position-encoder floater
rk2-learnable-floater: --arch rk2_learnable_tiny --position-encoder floater
decoder-rk4-floater: --arch rk4_tiny --decoder-integrator rk4 --position-encoder floater
denseformer: --arch rk2_tiny --encoder-history denseformer --decoder-history denseformer
attention-history: --arch rk2_tiny --encoder-history attention --decoder-history attention
nesterov: --arch ode_residual_tiny --integrator nesterov --decoder-integrator nesterov --ode-function substeps
  --velocity-embedding
triple-strang-learned-positions: --splitting strang --integrator triple --decoder-integrator triple
  --ode-function substeps --velocity-embedding --encoder-learned-pos --decoder-learned-pos
momentum-from-rest: --arch ode_residual_tiny --integrator nesterov --decoder-integrator triple --splitting parallel
  --encoder-history denseformer --decoder-history none --decoder-relative-positions keys-values
pcformer-rk4-released: --arch pcformer_tiny --integrator rk4 --coefficients ema-channels --gate-sharing per-layer
  --ode-residual released --rk-norm
pcformer-decoder: --arch pcformer_tiny --decoder-integrator heun --decoder-history corrector --rk-norm
corrector-of-euler-steps: --splitting strang --encoder-history corrector --decoder-history corrector
  --decoder-relative-positions keys
parallel: --splitting parallel
midpoint-leapfrog: --arch rk2_tiny --integrator midpoint --decoder-integrator leapfrog --decoder-history none
  --position-encoder sinusoidal
ralston-multistep: --arch rk2_tiny --integrator ralston --decoder-integrator multistep --encoder-history residual
  --decoder-history none --position-encoder learned
kutta3-dlcl: --arch rk2_tiny --integrator kutta3 --decoder-integrator dlcl --decoder-history none
  --position-encoder floater --no-token-positional-embeddings
leapfrog-midpoint: --arch ode_leapfrog_tiny --decoder-integrator midpoint --decoder-history dense
  --position-encoder rnn-scalar-1
dlcl-kutta3: --arch ode_dlcl_tiny --decoder-integrator kutta3 --position-encoder rnn-vector-1
polynet-polynet: --arch ode_polynet_tiny --decoder-integrator polynet --coefficients scalars --splitting strang
  --position-encoder rnn-vector-2
heun-heun: --arch rk2_two_tanh_tiny --decoder-integrator heun --ode-function substeps --position-encoder floater
  --flow-method midpoint --flow-sharing stack
heun-midpoint: --arch rk2_two_sigmoids_tiny --decoder-integrator midpoint --ode-function san
  --position-encoder floater --position-blocks input
heun-ralston: --arch rk2_unit_tiny --decoder-integrator ralston --ode-function ffn --relative-positions keys-values
  --max-relative-length 2 --position-encoder floater
three-eighths-three-eighths: --arch rk2_tiny --integrator three-eighths --decoder-integrator three-eighths
  --coefficients ema --gate-sharing per-layer --ode-residual released --position-encoder floater
rk4-rk4: --arch rk4_tiny --decoder-integrator rk4 --splitting strang-swapped --relative-positions none
euler-4-euler-4: --arch rk4_tiny --integrator euler-4 --decoder-integrator euler-4
heun-nesterov: --arch rk2_learnable_tiny --decoder-integrator nesterov --ffn-hidden-layers 2
  --encoder-history attention --decoder-history attention
heun-euler: --arch rk2_second_order_tiny --encoder-history dense --decoder-history residual
multistep-euler: --arch ode_multistep_tiny --decoder-history denseformer
"""
VARIANTS = {
    "macaron": {},
    "macaron-post-norm": POST_NORM,
    **{
        arch: {"arch": arch, **OWN_SIZES.get(config.PRESETS[arch][0], {})}
        for arch in architectures(models.FairseqEncoderDecoderModel)
        if arch != DEFAULT
    },
    "evolution-released": EVOLUTION | typed("--arch transevolve_fullff_2_tiny --transevolve-form released"),
    **{name: typed(words) for name, words in re.findall(r"^(\S+): (.*(?:\n  .*)*)", TYPED, re.M)},
}


def settings(variant: Mapping) -> set[tuple[str, str]]:
    """The options of a variant with their values, but for its sizes."""
    model, config_class, preset = config.PRESETS[variant.get("arch", DEFAULT)]
    values = vars(config_class()) | dict(preset) | {"model": model}
    for flag, value in variant.items():
        name = flag.replace("-", "_")
        if name not in values:  # --no-encoder-normalize-before
            name, value = name.removeprefix("no_"), False
        values[name] = value
    return {(name, str(value)) for name, value in values.items() if name not in SIZES | {"arch", "_name"}}


def covering(variants: Mapping[str, Mapping]) -> list[str]:
    """A few of the variants that have every value of every option that one of them has: always the one of most news."""
    having = {name: settings(variant) for name, variant in variants.items()}
    left, chosen = set().union(*having.values()), []
    while left:
        chosen.append(max(having, key=lambda name: len(having[name] & left)))
        left -= having[chosen[-1]]
    return chosen


def sample(variants: Mapping[str, Mapping]) -> list:
    """Variants to parametrise over: those that cover the others' options always, the others in the full tests."""
    few = covering(variants)
    return [pytest.param(name, marks=() if name in few else pytest.mark.full) for name in variants]


def dictionary(symbols: int) -> Dictionary:
    """A dictionary of so many symbols, the four special ones included."""
    d = Dictionary()
    for i in range(symbols - len(d)):
        d.add_symbol(f"w{i}")
    return d


def task(symbols: int = 50) -> TranslationTask:
    """A translation task without data, with one joined dictionary."""
    d = dictionary(symbols)
    return TranslationTask(TranslationConfig(source_lang="xx", target_lang="yy"), d, d)


def flags(values: dict) -> list[str]:
    """``{"dropout": 0.1, "fp16": True}`` as command-line words."""
    return [word for k, v in values.items() for word in ([f"--{k}"] if v is True else [f"--{k}", str(v)])]


def arguments(arch: str, values: dict | None = None) -> argparse.Namespace:
    """What fairseq-train reads from a command line."""
    words = ["data", "--arch", arch, "--user-dir", USER_DIR, *flags(values or {})]
    return options.parse_args_and_arch(options.get_training_parser(), words)


def parse(arch: str, values: dict | None = None):
    """What fairseq-train makes of a command line, as its configuration; hydra takes half a second."""
    return convert_namespace_to_omegaconf(arguments(arch, values))


def without_hydra(args: argparse.Namespace):
    """``convert_namespace_to_omegaconf(args).model``; a test holds the two equal."""
    config_class = models.MODEL_DATACLASS_REGISTRY.get(models.ARCH_MODEL_NAME_REGISTRY[args.arch])
    if config_class is None:
        args._name = args.arch
        return args
    given = {f.name: getattr(args, f.name) for f in fields(config_class) if getattr(args, f.name, None) is not None}
    return OmegaConf.create({**config.as_dict(config_class(**given)), "_name": args.arch})


def configure(arch: str, values: dict | None = None):
    """``parse(...).model`` in a fraction of its time."""
    return without_hydra(arguments(arch, values))


def model(arch: str, values: dict | None = None, symbols: int = 50):
    """The model that fairseq-train would build from these flags."""
    return models.build_model(configure(arch, values), task(symbols))


def count(arch: str, values: dict, symbols: int) -> int:
    """The number of parameters of a model, of which none is made."""
    with torch.device("meta"):
        return sum(p.numel() for p in model(arch, values, symbols).parameters())


def perturbed(m, scale: float = 0.1):
    """The same model, its parameters away from their initial values, so that none of them is without effect."""
    torch.manual_seed(0)
    with torch.no_grad():
        for p in m.parameters():
            p.add_(scale * torch.randn_like(p))
    return m


def small(variant: str, symbols: int = 50, **more):
    """A small model of a variant, in evaluation mode, with shared embeddings unless ``more`` says otherwise."""
    values = {"arch": DEFAULT, **SMALL, "share-all-embeddings": True, **VARIANTS[variant], **more}
    arch = values.pop("arch")
    return model(arch, {k: v for k, v in values.items() if v is not None}, symbols).eval()


def refused(words: Sequence[str], message: str, capsys: pytest.CaptureFixture) -> None:
    """Check that a command of ours ends with an error of one line, of its own or of argparse's, which matches."""
    try:
        assert cli.main(words) == 1
    except SystemExit as usage:
        assert usage.code == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if re.match(r"(ode-transformer.*: )?error: ", line)]
    assert len(errors) == 1 and re.search(message, errors[0]), errors


def raises(message: str, function: Callable, *args: Any, **keywords: Any) -> None:
    """Check that a function refuses these arguments with an error of ours, which matches."""
    with pytest.raises(OdeTransformerError, match=message):
        function(*args, **keywords)


def output_of(words: Sequence, capsys: pytest.CaptureFixture) -> Any:
    """What a command of ours that succeeds has printed, as ``out`` and ``err``."""
    assert cli.main([str(word) for word in words]) == 0
    return capsys.readouterr()


def run_record(**content: Any) -> dict[str, Any]:
    """A record of a run that has nothing to say but this."""
    training = {"curve": [{"epoch": 1, "num_updates": 30}], "seconds": 2.4, "parameters": 9, "trained_parameters": 9}
    empty = dict.fromkeys(("recipe", "task", "description", "command"), "")
    empty |= {"flags": [], "paper": [], "averaged": [], "scores": {}, "hardware": {}, "versions": {}, "devices": 0}
    return {**empty, "scale": "full", "precision": "fp32", "seeds": [1], "training": training, **content}


def write_run(folder: Path, **content: Any) -> None:
    """Write a ``run.json`` that has nothing to say but this."""
    empty = {**dict.fromkeys(("recipe", "given", "task", "data"), ""), "scale": "full", "precision": "fp32", "seed": 1}
    empty |= {"command": [], "flags": [], "start": None, "generate": None, "devices": 1}
    empty |= {"dictionaries": {}, "parameters": {"all": 9, "trained": 9}, "model": {}}
    place = {"where": [], "hardware": {}, "versions": {}}
    write_json(folder / "run.json", {**empty, "places": [place], **content})


def batch(symbols: int = 50, sizes=(5, 3, 6), seed: int = 0, pad: int = 1, eos: int = 2):
    """Sources (left padded), their lengths and previous outputs (right padded), for a model's forward."""
    g = torch.Generator().manual_seed(seed)
    width = max(sizes)
    src = torch.full((len(sizes), width + 1), pad)
    prev = torch.full((len(sizes), width), pad)
    for row, size in enumerate(sizes):
        words = torch.randint(4, symbols, (size,), generator=g)
        src[row, width - size : width] = words
        src[row, width] = eos
        prev[row, 0] = eos
        prev[row, 1:size] = torch.randint(4, symbols, (size - 1,), generator=g)
    return src, torch.tensor([s + 1 for s in sizes]), prev


def rk_step(f, y, method, h=1.0, combine=None):
    """The state after a step of a method, in a field of the state alone."""
    return method.step(lambda x, stage: f(x), y, None, h, Learned(combine))[0]


def distance(found, expected) -> float:
    """How far a tensor is from another, by their norms; bfloat16 has a relative error of .004, float16 of .0005."""
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def stepwise(decoder, tokens, *encoder_out):
    """What a decoder gives of one token after the other, with its cache."""
    state, steps = {}, range(1, tokens.size(1) + 1)
    return torch.cat([decoder(tokens[:, :t], *encoder_out, incremental_state=state)[0] for t in steps], 1)


def idle(m) -> list[str]:
    """The trained parameters that a backward pass has left without a gradient, or with one of 0 or not finite.

    Softmax cancels a bias of the keys, in every Transformer: its gradient is rounding alone.
    """
    norms = {name: torch.tensor(-1.0) if p.grad is None else p.grad.norm() for name, p in m.named_parameters()}
    trained = {name for name, p in m.named_parameters() if p.requires_grad}
    least = {name: -0.5 if name.endswith("k_proj.bias") else 1e-6 for name in trained}
    return [name for name in trained if not least[name] < norms[name] < float("inf")]


class Ends(BeamSearch):
    """A search in which the first sentence ends in the second step, the next in the third: each leaves the batch."""

    def step(self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
        for row, sentence in enumerate(original_batch_idxs):
            lprobs[row, :, self.eos] += 30.0 * (step == sentence + 1)
        return super().step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)


def saved_bytes(m):
    """Memory that the forward pass keeps for the backward pass, parameters apart."""
    kept, parameters = {}, {p.untyped_storage().data_ptr() for p in m.parameters()}

    def pack(x):
        storage = x.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = (storage.nbytes(), x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        loss = m(*batch(sizes=(12, 12, 12)))[0].sum()
    total = sum(size for size, _ in kept.values())
    loss.backward()
    return total


class Kernels(TorchDispatchMode):
    """Which attention kernels ran, how often every kernel did, and the largest tensor that was made."""

    def __init__(self):
        super().__init__()
        self.names, self.numel, self.calls = set(), 0, Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func.overloadpacket.__name__] += 1
        if "attention" in func.__name__:
            self.names.add(func.__name__)
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return result


class OnTheDevice(TorchDispatchMode):
    """Refuses operations that read or make a tensor on another device than "meta", and counts the others.

    A tensor on that device has no values: an operation that asks for one fails by itself.
    """

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves((args, kwargs, result)):
            assert not isinstance(x, torch.Tensor) or x.device.type == "meta", f"{func} on {x.device}"
        self.operations += 1
        return result


def write_parallel(directory: Path, splits=(("train", 60), ("valid", 12), ("test", 12))) -> Path:
    """Raw text of a tiny task, target is source reversed, as files split.xx and split.yy."""
    rng = random.Random(0)
    for split, count in splits:
        lines = [[rng.choice(string.ascii_lowercase) for _ in range(rng.randint(2, 7))] for _ in range(count)]
        write_lines(directory / f"{split}.xx", map(" ".join, lines))
        write_lines(directory / f"{split}.yy", (" ".join(line[::-1]) for line in lines))
    return directory


def own_quickstart(path: Path, more: str = "") -> Path:
    """The recipes of quickstart, and more lines, as a file of one's own."""
    text = (ROOT / "configs" / "quickstart.yaml").read_text().replace("extends: ", f"extends: {ROOT}/configs/")
    write_text(path, text + more)
    return path


def write_generated(path: Path, hyps: Sequence[str], refs: Sequence[str] | None = None, sources: str = "") -> Path:
    """What fairseq-generate leaves of hypotheses; sources are told by their number alone."""
    rows = [f"S-{i}\t{sources} {i}" for i in range(len(hyps))] if sources else []
    rows += [f"T-{i}\t{ref}\nH-{i}\t-0.1\t{hyp}" for i, (hyp, ref) in enumerate(zip(hyps, refs or hyps, strict=True))]
    write_lines(path, [*rows, "Generate test with beam=5: BLEU4 = 1.0"])
    return path


LETTERS = list("abcdefghijklmnopqrst")


def sentences(count: int) -> list[str]:
    """Sentences of twelve words, which are letters."""
    rng = random.Random(0)
    return [" ".join(rng.choices(LETTERS, k=12)) for _ in range(count)]


def write_translated(folder: Path, recipe: Recipe, errors: float, seed: int, refs: Sequence[str], sources="") -> None:
    """Write what a run leaves of its test set: the references, with this share of wrong words."""
    rng = random.Random(seed)
    hyps = [" ".join(rng.choice(LETTERS) if rng.random() < errors else w for w in line.split()) for line in refs]
    write_generated(folder / "generate" / "generate-test.txt", hyps, refs, sources)
    write_run(folder, given=recipe.given, precision="fp32", generate=records.decoding_flags(recipe))


def binarise_pairs(raw: Path, data: Path, target="yy") -> Path:
    """The folder of parallel text of xx and another language, binarised with a joined dictionary."""
    binarise(raw, data, ("train", "valid", "test"), ("xx", target), joined=True)
    return data


def own_subwords(folder: Path, texts: Sequence[str], size: int) -> Path:
    """A folder with what cuts text into subwords, learned on texts, and its dictionary."""
    subwords.learn_sentencepiece(texts, size, 1, folder / subwords.OWN[0])
    (folder / "text").write_text("".join(f"{subwords.segmenter(folder)(text)}\n" for text in texts))
    binarise_files({"train": folder / "text"}, folder)
    return folder


def write_gpt2(folder: Path, *merges: str) -> list[str]:
    """Write the files of GPT-2's BPE with a few merges; its units, in the order of their numbers."""
    units = [*gpt2_bpe_utils.bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in merges)]
    write_json(folder / "encoder.json", {unit: number for number, unit in enumerate(units)})
    write_lines(folder / "vocab.bpe", ["#version: 0.2", *merges])
    return units


def configuration(parser: argparse.ArgumentParser, words: Sequence[str]):
    """What a program of fairseq makes of its words."""
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, list(words)))


def train(data: Path, **values):
    """Train a model on a CPU by fairseq's program, for an epoch; it and its task, from its last checkpoint."""
    defaults = {
        "user-dir": USER_DIR, "optimizer": "adam", "lr": 0.001, "batch-size": 8, "max-epoch": 1, "cpu": True,
        "num-workers": 0, "required-batch-size-multiple": 1, "save-dir": f"{data}.run",
    }  # fmt: skip
    values = {k: v for k, v in (defaults | values).items() if v is not None}
    with contextlib.redirect_stdout(io.StringIO()):
        train_cli.main(configuration(options.get_training_parser(), [str(data), *flags(values)]))
    path = f"{values['save-dir']}/checkpoint_last.pt"
    (m,), _, its_task = checkpoint_utils.load_model_ensemble_and_task([path])
    return m, its_task


class Terminal(io.StringIO):
    def isatty(self):
        return True


def environment() -> dict[str, str]:
    """The environment for a command in a process of its own: this Python's commands first, quiet, one thread."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "VIRTUAL_ENV": sys.prefix, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def ask(folder: Path, commands: Iterable[Sequence], env: Mapping[str, str]) -> list[subprocess.CompletedProcess]:
    """What each command answers, in order; one shell has run them all, in the repository's root."""
    commands = [[str(word) for word in words] for words in commands]
    lines = [f'{shlex.join(c)} >"$0/{i}.out" 2>"$0/{i}.err"; echo $? >"$0/{i}.status"' for i, c in enumerate(commands)]
    folder.mkdir(parents=True, exist_ok=True)
    words = ["bash", "-c", "\n".join(lines), str(folder)]
    subprocess.run(words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, check=True, timeout=300)

    def answer(i, words):
        status, out, err = ((folder / f"{i}.{kind}").read_text(encoding="utf-8") for kind in ("status", "out", "err"))
        return subprocess.CompletedProcess(words, int(status), out, err)

    return [answer(i, words) for i, words in enumerate(commands)]
