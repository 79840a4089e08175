"""Speed and memory, measured: several systems in one run, and the ratios between them.

``lengths``: a training step (forward and backward) of an encoder against sentence length, of

- ``evolving``: TransEvolve's encoder, attention evolved from one initial state on the fused kernel;
- ``fused``: a Transformer's encoder of the same width, heads and depth, PyTorch's fused attention;
- ``materialised``: the same with the matrix of all pairs, what the paper compared itself with;
- ``equation-9``: TransEvolve's encoder with A0 to A3 held as matrices, as equation 9 and the released code have it.

``training`` and ``decoding``: an architecture beside stock fairseq's Transformer of its size (``paired.py``).

Times are medians of rounds in which every system has its turn, so that a slow minute slows all. Memory is the peak of
a process of its own for each system and length (the growth of resident memory over a short step; on a GPU what PyTorch
allocated).
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn
from torch.nn import functional as F

from . import paired, results
from .config import to_transformer_config
from .families.transevolve import Block, TransEvolveConfig
from .families.transformer import SplitTransformerConfig
from .modules.evolving_attention import EvolvingAttention, time_signal
from .modules.layers import EncoderLayer

SYSTEMS = ("evolving", "fused", "materialised", "equation-9")
# They hold matrices of all pairs, layers times heads of them for the backward pass.
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
QUADRATIC = ("materialised", "equation-9")


def _config(cls: type, width: int, heads: int, **more: Any) -> TransformerConfig:
    sizes = {"encoder_embed_dim": width, "encoder_ffn_embed_dim": 4 * width, "encoder_attention_heads": heads}
    return to_transformer_config(cls(**sizes, decoder_embed_dim=width, dropout=0.0, **more), cls)


class Equation9(EvolvingAttention):
    """Attention at a depth of a block with its matrices held, as the released code computes the paper's equation."""

    def forward(self, values: Tensor, state: Any, **_: Any) -> Tensor:
        """As of ``EvolvingAttention``, from A0, A1, A2 and A3 of the block; no mask."""
        a0, a1, a2, a3 = state
        v = self.layer_norm(values).unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3)  # (B, m, S, d/m)
        t = time_signal(self.time_weights, self.depth_index, self.depth, self.form)
        scores = a0 + (a1 @ t)[..., :, None] + (a2 @ t)[..., None, :] + (t @ a3 @ t)[:, None, None]
        x = scores.softmax(-1) @ v
        return self.dropout_module(self.out(x.permute(2, 0, 1, 3).flatten(2)))


class Equation9Block(Block):
    """A block that computes A0 to A3 from its input and evolves them over depth."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__(cfg, "encoder", 0)
        for attention in self.attention:
            attention.__class__ = Equation9

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, d) -> (T, B, d)."""
        state, heads = self.state(x), self.state.heads
        time_query, time_key = (w.unflatten(0, (heads, -1)) for w in (state.time_query, self.state.time_key))
        a0 = state.queries @ state.keys.transpose(2, 3) * (x.size(-1) / heads) ** -0.5
        a1 = torch.einsum("bhte,hej->bhtj", state.queries, time_key)
        a2 = torch.einsum("bhse,hej->bhsj", state.keys, time_query)
        a3 = torch.einsum("hej,hek->hjk", time_query, time_key)
        for attention, feed_forward in zip(self.attention, self.feed_forward, strict=True):
            x = x + attention(x, (a0, a1, a2, a3))
            x = x + feed_forward(x)
        return self.layer_norm(x)


def _materialised(q: Tensor, k: Tensor, v: Tensor, *_: Any, scale: Optional[float] = None, **__: Any) -> Tensor:
    scale = q.size(-1) ** -0.5 if scale is None else scale
    return (q * scale @ k.transpose(-2, -1)).softmax(-1) @ v


def build(system: str, width: int, heads: int, depth: int) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """A system of ``lengths``: its module, and the function (T, B, C) -> (T, B, C) that is timed."""
    if system == "evolving":
        block = Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth), "encoder", 0)
        return block, block
    if system == "equation-9":
        block = Equation9Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth))
        return block, block
    cfg = _config(SplitTransformerConfig, width, heads, encoder_normalize_before=True)
    layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(depth))

    def run(x: Tensor) -> Tensor:
        fused = F.scaled_dot_product_attention
        try:
            if system == "materialised":
                F.scaled_dot_product_attention = _materialised
            for layer in layers:
                x = layer(x, None)
        finally:
            F.scaled_dot_product_attention = fused
        return x

    return layers, run


def _step(module: nn.Module, run: Callable[[Tensor], Tensor], length: int, args: argparse.Namespace) -> float:
    """Seconds of a training step of one sentence."""
    device = args.device
    x = torch.randn(length, 1, args.width, device=device, dtype=DTYPES[args.dtype], requires_grad=True)
    module.zero_grad()
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run(x).mean().backward()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _resident(field: str) -> int:
    """Bytes of this process's memory, now (VmRSS) or at its peak (VmHWM)."""
    (kib,) = re.findall(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) * 1024


def _peak(args: argparse.Namespace) -> int:
    """Bytes that one step needs beyond the model and a short step; to be called in a fresh process."""
    module, run = build(args.measure, args.width, args.heads, args.depth)
    module.to(args.device, DTYPES[args.dtype])
    _step(module, run, 32, args)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.max_memory_allocated()
        _step(module, run, args.lengths[0], args)
        return torch.cuda.max_memory_allocated() - before
    # Linux: forget the peak that starting up left behind.
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    _step(module, run, args.lengths[0], args)
    return _resident("VmHWM") - before


def _lengths(args: argparse.Namespace) -> dict:
    torch.manual_seed(0)
    built = {system: build(system, args.width, args.heads, args.depth) for system in SYSTEMS}
    for module, _ in built.values():
        module.to(args.device, DTYPES[args.dtype])
    rows = []
    for length in args.lengths:
        systems = [s for s in SYSTEMS if s not in QUADRATIC or length <= args.materialised_up_to]
        seconds: dict[str, list[float]] = {system: [] for system in systems}
        for round_ in range(args.rounds + 1):
            for system in systems:
                elapsed = _step(*built[system], length, args)
                if round_ > 0:  # the first warms up
                    seconds[system].append(elapsed)
        memory = {system: _in_a_process_of_its_own(args, system, length) for system in systems}
        medians = {system: statistics.median(values) for system, values in seconds.items()}
        row = {
            "length": length,
            "seconds": {system: round(value, 4) for system, value in medians.items()},
            "peak_mib": {system: round(value / 2**20, 1) for system, value in memory.items()},
            "speed_of_evolving_over": {
                s: round(medians[s] / medians["evolving"], 3) for s in systems if s != "evolving"
            },
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return {"rows": rows}


def _in_a_process_of_its_own(args: argparse.Namespace, system: str, length: int) -> int:
    words = [sys.executable, "-m", "ode_transformer.cli", "bench", "lengths", "--measure", system]
    for option in ("width", "heads", "depth", "device", "dtype"):
        words += [f"--{option}", str(getattr(args, option))]
    done = subprocess.run(
        [*words, "--lengths", str(length)], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    return int(done.stdout.split()[-1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer bench``."""
    parser.usage = "%(prog)s {lengths,training,decoding} [options] [-- model flags of fairseq-train]"
    parser.add_argument(
        "what", choices=["lengths", "training", "decoding"],
        help="lengths: a training step of encoders against sentence length; training, decoding: an architecture "
        "beside the stock Transformer of its size",
    )  # fmt: skip
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192, 16384], metavar="N")
    parser.add_argument("--width", type=int, default=256, help="(default: %(default)s)")
    parser.add_argument("--heads", type=int, default=8, help="(default: %(default)s)")
    parser.add_argument("--depth", type=int, default=6, help="layers (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="timed steps of every system (default: %(default)s)")
    parser.add_argument(
        "--materialised-up-to", type=int, default=4096, metavar="N",
        help="longest sentence for the systems that hold matrices of all pairs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=list(DTYPES), default="fp32", help="(default: %(default)s)")
    parser.add_argument("--output", help="write the results there, as JSON")
    parser.add_argument("--measure", choices=SYSTEMS, help=argparse.SUPPRESS)
    paired.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Run a benchmark, print its rows as they come, write them whole."""
    for name in ("width", "heads", "depth", "rounds", "sentences", "tokens", "beam"):
        if getattr(args, name) < 1:
            raise SystemExit(f"error: --{name} {getattr(args, name)}: must be 1 or more")
    if min(args.lengths) < 1:
        raise SystemExit(f"error: --lengths {min(args.lengths)}: must be 1 or more")
    if args.measure:
        print(_peak(args))
        return 0
    if args.what == "lengths":
        setting = {k: getattr(args, k) for k in ("width", "heads", "depth", "rounds", "device", "dtype")}
        measured = {"setting": setting, **_lengths(args)}
    else:
        if not args.arch or args.dtype != "fp32":
            raise SystemExit(f"error: {args.what} needs --arch, and measures --dtype fp32")
        if args.symbols < 5 or args.shortest > args.tokens or args.shortest < 0:
            raise SystemExit("error: --symbols must be 5 or more, --shortest between 1 and --tokens")
        measured = paired.measure(args)
        print(json.dumps(measured), flush=True)
    result = {
        "what": args.what,
        "hardware": {**results.hardware(), "threads": torch.get_num_threads()},
        "versions": results.versions(),
        **measured,
    }
    if args.output:
        output = Path(args.output)
        partial = output.with_name(output.name + ".tmp")
        partial.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        partial.replace(output)
    return 0
