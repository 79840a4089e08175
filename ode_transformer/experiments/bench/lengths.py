"""The time and memory of a training step (forward and backward) of encoders against sentence length.

- ``evolving``: TransEvolve's encoder, with attention evolved from one initial state on the fused kernel;
- ``fused``: a Transformer encoder of the same width, heads and depth, with PyTorch's fused attention;
- ``materialised``: the same with the attention matrix in memory, which the paper compares itself with;
- ``equation-9``: TransEvolve's encoder with A0 to A3 as matrices in memory, as in equation 9 and the released code.

Times are medians over rounds in which all systems take turns; memory is measured in a separate process.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...config import to_transformer_config
from ...models.transevolve import Block, TransEvolveConfig
from ...models.transformer import SplitTransformerConfig
from ...modules.evolving_attention import EvolvingAttention, time_signal
from ...modules.layers import Context, EncoderLayer
from .contest import answer, give_freed_memory_back, peak_of, process, seconds

SYSTEMS = ("evolving", "fused", "materialised", "equation-9")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# These hold (T, T) matrices for the backward pass, one per layer and head.
QUADRATIC = ("materialised", "equation-9")


def _config(cls: type, width: int, heads: int, **more: Any) -> TransformerConfig:
    sizes = {"encoder_embed_dim": width, "encoder_ffn_embed_dim": 4 * width, "encoder_attention_heads": heads}
    return to_transformer_config(cls(**sizes, decoder_embed_dim=width, dropout=0.0, **more), cls)


class Equation9(EvolvingAttention):
    """Attention at a depth of a block with its matrices in memory, as the released code computes the equation."""

    def forward(self, values: Tensor, state: Any, **_: Any) -> Tensor:
        """As in ``EvolvingAttention``, from the block's A0, A1, A2 and A3, without a mask."""
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


def build_system(system: str, width: int, heads: int, depth: int) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """A system of ``lengths``: its module, and the function (T, B, C) -> (T, B, C) that is timed."""
    if system == "evolving":
        block = Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth), "encoder", 0)
        return block, lambda x: block(x, Context())
    if system == "equation-9":
        block = Equation9Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth))
        return block, block
    cfg = _config(SplitTransformerConfig, width, heads, encoder_normalize_before=True)
    layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(depth))

    def run(x: Tensor) -> Tensor:
        # The backward pass takes the kernel of the forward pass. On a GPU, MATH computes half precision in fp32.
        with sdpa_kernel(SDPBackend.MATH) if system == "materialised" else nullcontext():
            for layer in layers:
                x, _ = layer(x, Context())
        return x

    return layers, run


def _step(module: nn.Module, run: Callable[[Tensor], Tensor], length: int, args: argparse.Namespace) -> float:
    """The time of a training step on one sentence, in seconds."""
    x = torch.randn(length, 1, args.width, device=args.device, dtype=DTYPES[args.dtype], requires_grad=True)
    module.zero_grad()
    return seconds(lambda: run(x).mean().backward(), args.device)


def _send_peak(connection: Any, system: str, length: int, args: argparse.Namespace) -> None:
    give_freed_memory_back()

    def build() -> Callable[[], Any]:
        module, run = build_system(system, args.width, args.heads, args.depth)
        module.to(args.device, DTYPES[args.dtype])
        lengths = iter((32, length))  # a short step first
        return lambda: _step(module, run, next(lengths), args)

    connection.send(peak_of(build, args.device)[1])


def peak(system: str, length: int, args: argparse.Namespace) -> int:
    """The bytes that one step needs beyond the model."""
    with process(_send_peak, system, length, args) as worker:
        return answer(worker, f"{system} at {length} tokens")


def measure(args: argparse.Namespace) -> dict:
    """Time and memory of all systems at each of ``args.lengths``; rows are printed as they come."""
    torch.manual_seed(0)
    built = {system: build_system(system, args.width, args.heads, args.depth) for system in SYSTEMS}
    for module, _ in built.values():
        module.to(args.device, DTYPES[args.dtype])
    rows = []
    for length in args.lengths:
        systems = [s for s in SYSTEMS if s not in QUADRATIC or length <= args.materialised_up_to]
        times: dict[str, list[float]] = {system: [] for system in systems}
        for round_ in range(args.rounds + 1):
            for system in systems:
                elapsed = _step(*built[system], length, args)
                if round_ > 0:  # the first round is for warming up
                    times[system].append(elapsed)
        memory = {system: peak(system, length, args) for system in systems}
        medians = {system: statistics.median(values) for system, values in times.items()}
        row = {
            "length": length,
            "seconds": {system: round(value, 4) for system, value in medians.items()},
            "peak_mib": {system: max(round(value / 2**20, 1), 0.1) for system, value in memory.items()},
            "speed_of_evolving_over": {
                s: round(medians[s] / medians["evolving"], 3) for s in systems if s != "evolving"
            },
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    setting = {k: getattr(args, k) for k in ("width", "heads", "depth", "rounds", "device", "dtype")}
    return {"setting": setting, "rows": rows}
