"""Pictures: what positions look like to a model (FLOATER, Figure 3)."""

import argparse
import logging
from pathlib import Path

import torch
from torch import Tensor, nn

from .checkpoints import CheckpointError
from .modules.positions import BiasPositions
from .standalone import open_model

FORMATS = (".png", ".svg", ".pdf")


@torch.no_grad()
def position_vectors(model: nn.Module, length: int) -> dict[str, Tensor]:
    """What a model tells its layers of positions 0 to ``length`` - 1, by name: (N, C) each.

    ``encoder.input`` is what is added to embeddings; ``encoder.0.self_attn.q`` the moving bias of a projection;
    ``encoder.1.input`` what is added to a further block's input.

    Raises:
        ValueError: a length beyond a learned table's.
    """
    tokens = torch.full((1, length), 4)
    found = {}
    for side in ("encoder", "decoder"):
        stack = getattr(model, side)
        if stack.embed_positions is not None:
            if length > (longest := stack.embed_positions.max_positions):
                raise ValueError(f"--length {length}: must be at most {longest}, what the {side} has learned")
            found[f"{side}.input"] = stack.embed_positions(tokens)[0]
    encoder = getattr(model, "position_encoder", None)
    if isinstance(encoder, BiasPositions):
        found |= encoder.biases(length)
    elif encoder is not None:
        padding = torch.zeros_like(tokens, dtype=torch.bool)
        sides = {"encoder": encoder.encoder(tokens, padding), "decoder": encoder.decoder(tokens, padding, None, None)}
        found |= {
            f"{side}.{layer}.input": place.addition[:, 0]
            for side, places in sides.items()
            for layer, place in enumerate(places)
            if place.addition is not None
        }
    return found


def positions(paths: list[str], of: str | None, length: int, output: str | Path) -> None:
    """Draw position x dimension as colours, a panel a checkpoint, each on its own symmetric scale.

    Args:
        paths: checkpoints.
        of: which vectors, a name of ``position_vectors``; None: the encoder's first queries where a flow or a
            recurrent network moves them, else what is added to the encoder's embeddings.
        length: positions.
        output: the file; its suffix is the format.

    Raises:
        CheckpointError: a checkpoint that cannot be used, or has no vectors of that name.
        ValueError: a length below 2 or an unknown format.
    """
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq has turned on everybody's
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    output = Path(output)
    if length < 2:
        raise ValueError(f"--length {length}: must be 2 or more")
    if output.suffix not in FORMATS:
        raise ValueError(f"--output {output}: must end in one of {', '.join(FORMATS)}")
    panels = []
    for path in paths:
        found = position_vectors(open_model(path), length)
        name = of or next((n for n in ("encoder.0.self_attn.q", "encoder.input") if n in found), None)
        if name not in found:
            there = ", ".join(found) or "none, it has no positions"
            raise CheckpointError(f"{path}: --of {of}: must be one of {there}")
        panels.append((Path(path), name, found[name].float()))
    size = (5 * len(panels) + 1, 4.5)
    figure, axes = pyplot.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    for axis, (path, name, vectors) in zip(axes[0], panels, strict=True):
        if name.count(".") == 3:  # a bias: how it moves from where it starts is what tells positions apart
            vectors, name = vectors - vectors[:1], f"{name}: b(t) - b(0)"
        scale = float(vectors.abs().max()) or 1.0
        image = axis.imshow(vectors, aspect="auto", cmap="PuOr", vmin=-scale, vmax=scale, interpolation="nearest")
        figure.colorbar(image, ax=axis, shrink=0.8)
        axis.set_title(f"{path.parent.name}/{path.name}\n{name}", fontsize=9)
        axis.set_xlabel("dimension")
    axes[0][0].set_ylabel("position")
    partial = output.with_name(f".{output.name}.part{output.suffix}")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(partial, dpi=150)
    pyplot.close(figure)
    partial.replace(output)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer plot``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    drawn = kinds.add_parser("positions", help="what positions look like to a model, position x dimension as colours")
    drawn.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="a panel each")
    drawn.add_argument("--output", required=True, help=f"the file to write, {', '.join(FORMATS)}")
    drawn.add_argument("--length", type=int, default=100, help="positions (default: %(default)s)")
    drawn.add_argument(
        "--of", metavar="NAME",
        help="such as encoder.input, encoder.0.self_attn.q or decoder.2.encoder_attn.k (default: the encoder's first "
        "queries where they move, else its input)",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Draw."""
    try:
        positions(args.checkpoints, args.of, args.length, args.output)
    except CheckpointError:
        raise
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
    print(args.output)
    return 0
