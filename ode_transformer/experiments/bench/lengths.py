"""The time and memory of a training step (forward and backward) of encoders against sentence length.

- ``evolving``: TransEvolve's encoder, whose attention evolves from one initial state, with the fused kernel;
- ``fused``: a Transformer encoder of the same width, heads and depth, with PyTorch's fused attention;
- ``materialised``: the same with the attention matrix in memory, the baseline of the paper;
- ``equation-9``: TransEvolve's encoder with A0 to A3 as matrices in memory, as in equation 9 and the released code.

Times are medians over rounds in which all systems take turns.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ... import markdown
from ...config import to_transformer_config
from ...models.transevolve import Block, TransEvolveConfig
from ...models.transformer import SplitTransformerConfig
from ...modules.evolving_attention import EvolvingAttention
from ...modules.layers import Context, EncoderLayer
from .turns import describe_hardware, in_turns, peak

SYSTEMS = ("evolving", "fused", "materialised", "equation-9")
# They keep (T, T) matrices for the backward pass, one per layer and head.
QUADRATIC = ("materialised", "equation-9")
LONGEST_QUADRATIC = 4096
WIDTH, HEADS, DEPTH = 256, 8, 6


def _config(cls: type, width: int, heads: int, **more: Any) -> TransformerConfig:
    sizes = {"encoder_embed_dim": width, "encoder_ffn_embed_dim": 4 * width, "encoder_attention_heads": heads}
    return to_transformer_config(cls(**sizes, decoder_embed_dim=width, dropout=0.0, **more), cls)


class Equation9(EvolvingAttention):
    """Attention at one depth of a block, with its matrices in memory, as in the released code."""

    def forward(self, values: Tensor, state: Any, **_: Any) -> Tensor:
        """As in ``EvolvingAttention``, without a mask; ``state`` is the block's A0, A1, A2 and A3."""
        a0, a1, a2, a3 = state
        v = self.layer_norm(values).unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3)  # (B, m, S, d/m)
        t = self.time_signal()
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
    """Return the module of one of ``SYSTEMS``, and its timed function, (T, B, C) -> (T, B, C)."""
    if system == "evolving":
        block = Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth), "encoder", 0)
        return block, lambda x: block(x, Context())
    if system == "equation-9":
        block = Equation9Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth))
        return block, block
    cfg = _config(SplitTransformerConfig, width, heads, encoder_normalize_before=True)
    layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(depth))

    def run(x: Tensor) -> Tensor:
        # The backward pass uses the kernel of the forward pass.
        with sdpa_kernel(SDPBackend.MATH) if system == "materialised" else nullcontext():
            for layer in layers:
                x, *_ = layer(x, Context())
        return x

    return layers, run


def build(system: str, length: int, device: str) -> tuple[Callable[[], None], dict[str, Any]]:
    """Build a training step on one sentence (see :data:`.turns.Build`)."""
    torch.manual_seed(0)
    module, run = build_system(system, WIDTH, HEADS, DEPTH)
    module.to(device)
    x = torch.randn(length, 1, WIDTH, device=device, requires_grad=True)

    def step() -> None:
        module.zero_grad()
        x.grad = None
        run(x).mean().backward()

    return step, {}


def measure(
    lengths: Sequence[int] = (512, 1024, 2048, 4096, 8192, 16384), rounds: int = 3, device: str = "cpu"
) -> dict[str, Any]:
    """Measure time and memory of all systems at every length, and print each row at once.

    Args:
        lengths: tokens per sentence (default: 512 1024 ... 16384).
        rounds: timed rounds.
        device: where to measure.
    """
    rows = []
    for length in lengths:
        systems = [s for s in SYSTEMS if s not in QUADRATIC or length <= LONGEST_QUADRATIC]
        builds = {system: partial(build, system, length, device) for system in systems}
        _, times = in_turns(builds, rounds, device, warm_up=1)
        row = {
            "length": length,
            "seconds": {system: round(statistics.median(values), 6) for system, values in times.items()},
            "peak_mib": {system: peak(system, builds[system], device)[1] for system in systems},
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    setting = {"width": WIDTH, "heads": HEADS, "depth": DEPTH, "rounds": rounds, "device": device, "dtype": "fp32"}
    return {"setting": setting, "rows": rows}


def table(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown."""
    rows, compared = [], [*((other, "evolving") for other in (*QUADRATIC, "fused")), QUADRATIC]
    for row in record["rows"]:
        seconds, memory = row["seconds"], row["peak_mib"]
        ratios = [f"{seconds[theirs] / seconds[its]:.2f}" if theirs in seconds else "" for theirs, its in compared]
        sizes = (f"{memory[k]:,.0f}" if k in memory else "" for k in ("evolving", "fused", *QUADRATIC))
        rows.append((f"{row['length']:,}", *ratios, *sizes))
    setting, hardware = record["setting"], record["hardware"]
    title = (
        f"**lengths**: width {setting['width']}, {setting['heads']} heads, {setting['depth']} layers, "
        f"{setting['dtype']}, {setting['rounds']} rounds in turns, {describe_hardware(setting['device'], hardware)}"
    )
    head = ["tokens", "speed / materialized", "/ equation 9", "/ fused", "equation 9 / materialized"]
    return f"{title}\n\n{markdown.table([*head, 'MiB', 'fused', 'materialized', 'equation 9'], rows)}"
