"""The time and memory of a training step (forward and backward) of encoders against sentence length.

- ``evolving``: TransEvolve's encoder, whose attention evolves from one initial state, with the fused kernel;
- ``fused``: a Transformer encoder of the same width, heads and depth, with PyTorch's fused attention;
- ``materialised``: the same with the attention matrix in memory, the baseline of the paper.
"""

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
from ...modules.layers import Context, EncoderLayer
from .turns import describe_hardware, in_turns, peak

SYSTEMS = ("evolving", "fused", "materialised")
LONGEST = {"materialised": 4096}  # it keeps a (T, T) matrix per layer and head for the backward pass
WIDTH, HEADS, DEPTH = 256, 8, 6


def _config(cls: type, width: int, heads: int, **more: Any) -> TransformerConfig:
    sizes = {"encoder_embed_dim": width, "encoder_ffn_embed_dim": 4 * width, "encoder_attention_heads": heads}
    return to_transformer_config(cls(**sizes, decoder_embed_dim=width, dropout=0.0, **more), cls)


def build_system(system: str, width: int, heads: int, depth: int) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """Return the module of one of ``SYSTEMS``, and its timed function, (T, B, C) -> (T, B, C)."""
    if system == "evolving":
        block = Block(_config(TransEvolveConfig, width, heads, evolution_depth=depth), "encoder", 0)
        return block, lambda x: block(x, Context())
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
    """Return the record of time, in turns, and memory of all systems at every length.

    Args:
        lengths: tokens per sentence (default: 512 1024 ... 16384).
        rounds: timed rounds.
        device: where to measure.
    """
    rows = []
    for length in lengths:
        systems = [system for system in SYSTEMS if length <= LONGEST.get(system, length)]
        builds = {system: partial(build, system, length, device) for system in systems}
        _, times = in_turns(builds, rounds, device, warm_up=1)
        seconds = {system: round(statistics.median(values), 6) for system, values in times.items()}
        memory = {system: peak(system, builds[system], device)[1] for system in systems}
        rows.append({"length": length, "seconds": seconds, "peak_mib": memory})
        print(rows[-1], flush=True)
    setting = {"width": WIDTH, "heads": HEADS, "depth": DEPTH, "rounds": rounds, "device": device, "dtype": "fp32"}
    return {"setting": setting, "rows": rows}


def table(name: str, record: Mapping[str, Any]) -> str:
    """Return a record as Markdown; those of earlier versions have TransEvolve with the matrices of equation 9."""
    there = {system for row in record["rows"] for system in row["seconds"]}
    compared = {  # the title of each ratio of seconds
        "speed / materialized": ("materialised", "evolving"),
        "/ equation 9": ("equation-9", "evolving"),
        "/ fused": ("fused", "evolving"),
        "equation 9 / materialized": ("materialised", "equation-9"),
    }
    compared = {title: pair for title, pair in compared.items() if there >= {*pair}}
    sized = {"evolving": "MiB", "fused": "fused", "materialised": "materialized", "equation-9": "equation 9"}
    sized = {system: title for system, title in sized.items() if system in there}
    rows = []
    for row in record["rows"]:
        seconds, memory = row["seconds"], row["peak_mib"]
        ratios = (f"{seconds[a] / seconds[b]:.2f}" if {a, b} <= {*seconds} else "" for a, b in compared.values())
        rows.append((f"{row['length']:,}", *ratios, *(f"{memory[k]:,.0f}" if k in memory else "" for k in sized)))
    setting, hardware = record["setting"], record["hardware"]
    title = (
        f"**{name}**: width {setting['width']}, {setting['heads']} heads, {setting['depth']} layers, "
        f"{setting['dtype']}, {setting['rounds']} rounds in turns, {describe_hardware(setting['device'], hardware)}"
    )
    return f"{title}\n\n{markdown.table(['tokens', *compared, *sized.values()], rows)}"
