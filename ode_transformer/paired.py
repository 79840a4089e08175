"""An architecture beside stock fairseq's Transformer of the same size: a training step, and decoding, in turns.

Both models are built as fairseq-train builds them, see the same random sentences, and take turns in every round; what
is reported is the ratio of a round's two times, its median and its quartiles.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import options
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from fairseq.optim.adam import Adam
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from .config import PRESETS
from .standalone import task

_SHAPE = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers", "normalize_before")


def build_pair(arch: str, flags: list[str], symbols: int) -> tuple[nn.Module, nn.Module]:
    """An architecture with flags of fairseq-train, and the stock Transformer of its shape, dropouts and norms.

    Raises:
        SystemExit: no such architecture or flag.
    """
    if arch not in PRESETS:
        raise SystemExit(f"error: {arch}: must be one of {', '.join(PRESETS)}")

    def build(arch: str, flags: list[str]) -> tuple[nn.Module, Any]:
        words = ["-", "--arch", arch, "--user-dir", str(Path(__file__).parent), "--share-all-embeddings", *flags]
        config = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
        return build_model(config.model, task(symbols)), config.model

    ours, built = build(arch, flags)
    stock = []
    shape = [f"{side}_{part}" for side in ("encoder", "decoder") for part in _SHAPE]
    for name in (*shape, "dropout", "attention_dropout", "activation_dropout"):
        value = getattr(built, name)
        flag = f"--{name.replace('_', '-')}"
        stock += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    return ours, build("transformer", stock)[0]


def sentences(count: int, tokens: int, shortest: int, symbols: int, device: str) -> dict[str, Tensor]:
    """Random pairs of ``shortest`` to ``tokens`` tokens; sources are padded on the left, targets on the right."""
    g = torch.Generator().manual_seed(1)
    lengths = torch.randint(shortest, tokens + 1, (count,), generator=g)
    lengths[0] = tokens
    source, target = torch.randint(4, symbols, (2, count, tokens), generator=g)
    columns = torch.arange(tokens)
    source[columns < tokens - lengths[:, None]] = 1
    target[columns >= lengths[:, None]] = 1
    source[:, -1] = 2
    prev = target.roll(1, dims=1)
    prev[:, 0] = 2
    prev[columns >= lengths[:, None]] = 1
    batch = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": prev, "target": target}
    return {name: x.to(device) for name, x in batch.items()}


def _training(model: nn.Module, batch: dict[str, Tensor]) -> Callable[[], None]:
    optimizer, updates = Adam(model.parameters(), lr=1e-4), iter(range(10**9))
    model.train()
    net_input = {name: x for name, x in batch.items() if name != "target"}

    def step() -> None:
        if hasattr(model, "set_num_updates"):
            model.set_num_updates(next(updates))
        optimizer.zero_grad()
        logits, _ = model(**net_input)
        log_probabilities = logits.float().log_softmax(-1)
        loss, _ = label_smoothed_nll_loss(log_probabilities, batch["target"][..., None], 0.1, ignore_index=1)
        loss.backward()
        optimizer.step()

    return step


def _decoding(model: nn.Module, batch: dict[str, Tensor], beam: int, symbols: int) -> Callable[[], None]:
    model.eval()
    model.make_generation_fast_(beamable_mm_beam_size=beam, need_attn=False)
    # As many steps as the source has tokens: a random model would not know where to stop.
    generator = SequenceGenerator(
        [model],
        task(symbols).target_dictionary,
        beam_size=beam,
        max_len_a=1,
        max_len_b=0,
        min_len=batch["target"].size(1),
    )
    net_input = {name: batch[name] for name in ("src_tokens", "src_lengths")}
    return lambda: generator.generate([model], {"net_input": net_input})


def _seconds(run: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of both, and their ratio, ours over stock: above 1 ours is slower."""
    torch.manual_seed(1)
    models = dict(zip(("ours", "stock"), build_pair(args.arch, args.flags, args.symbols), strict=True))
    shortest = args.shortest or args.tokens
    batch = sentences(args.sentences, args.tokens, shortest, args.symbols, args.device)
    runs = {}
    for name, model in models.items():
        model.to(args.device)
        if args.what == "training":
            runs[name] = _training(model, batch)
        else:
            runs[name] = _decoding(model, batch, args.beam, args.symbols)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(args.rounds + 1):
        # Who begins takes turns too: what runs second finds the caches as the first left them.
        for name in sorted(runs, reverse=round_ % 2 == 1):
            elapsed = _seconds(runs[name], args.device)
            if round_ > 0:  # the first warms up
                seconds[name].append(elapsed)
    ratios = sorted(ours / stock for ours, stock in zip(seconds["ours"], seconds["stock"], strict=True))
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return {
        "arch": args.arch,
        "flags": args.flags,
        "sentences": args.sentences,
        "tokens": [shortest, args.tokens],
        "symbols": args.symbols,
        **({"beam": args.beam} if args.what == "decoding" else {}),
        "rounds": args.rounds,
        "seconds": {name: round(statistics.median(values), 4) for name, values in seconds.items()},
        "ours_over_stock": {
            "median": round(statistics.median(ratios), 4),
            "quartiles": [round(quartiles[0], 4), round(quartiles[2], 4)],
            "all": [round(ratio, 4) for ratio in ratios],
        },
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``ode-transformer bench training`` and ``decoding`` need beside what all have."""
    group = parser.add_argument_group("training, decoding")
    group.add_argument("--arch", help="one of our architectures")
    group.add_argument("--sentences", type=int, default=128, help="in the batch (default: %(default)s)")
    group.add_argument("--tokens", type=int, default=32, help="of the longest (default: %(default)s)")
    group.add_argument("--shortest", type=int, default=0, help="tokens of the shortest (default: as the longest)")
    group.add_argument("--symbols", type=int, default=10_000, help="of the dictionary (default: %(default)s)")
    group.add_argument("--beam", type=int, default=4, help="(default: %(default)s)")
