"""Plots of the parameters of models: position vectors (FLOATER, Figure 3) and the weights of stages."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ... import machine
from ...checkpoints import CheckpointError
from ...checkpoints.inputs import inputs_of, observed, read_texts, stacks, what_was_read
from ...checkpoints.standalone import check_dictionaries, errors_about, open_model
from ...errors import OdeTransformerError
from ...files import write_json
from ...modules.positions import BiasPositions
from ...numerics.coefficients import Coefficients
from .plots import panels, plain, save, style


@torch.no_grad()
def position_vectors(model: nn.Module, length: int) -> dict[str, Tensor]:
    """Return the vectors by which a model represents positions 0 to ``length`` - 1, (length, C) each, by name.

    ``encoder.input`` is added to the embeddings, ``encoder.1.input`` to the input of a further block;
    ``encoder.0.self_attn.q`` is the position-dependent bias of a projection.
    """
    tokens = torch.full((1, length), 4)
    sides, found = stacks(model), {}
    for side, stack in sides.items():
        if stack.embed_positions is not None:
            if length > (longest := stack.embed_positions.max_positions):
                raise OdeTransformerError(f"--length {length}: must be at most {longest}, what the {side} has learned")
            found[f"{side}.input"] = stack.embed_positions(tokens)[0]
    encoder = getattr(model, "position_encoder", None)
    if isinstance(encoder, BiasPositions):
        found |= encoder.biases(length)
    elif encoder is not None:
        padding = torch.zeros_like(tokens, dtype=torch.bool)
        found |= {
            f"{side}.{layer}.input": place.addition[:, 0]
            for side in sides
            for layer, place in enumerate(encoder.places(side, tokens, padding))
            if place.addition is not None
        }
    return found


def positions(files: Sequence[str], of: str | None, length: int, output: str | Path) -> None:
    """Draw a heat map of position vectors, one panel per checkpoint, each with a symmetric color scale of its own.

    ``of`` names the vectors, as :func:`position_vectors` does. By default they are the encoder's first query bias if
    that depends on the position, else the vectors added to its embeddings, or those of the decoder if it is alone.
    """
    drawn = []
    for path in files:
        found = position_vectors(open_model(path), length)
        if bad := [name for name, vectors in found.items() if not vectors.isfinite().all()]:
            raise CheckpointError(f"{path}: {', '.join(bad[:4])} are not finite within {length} positions")
        usual = (f"{side}.{vectors}" for side in ("encoder", "decoder") for vectors in ("0.self_attn.q", "input"))
        if not found:
            raise CheckpointError(f"{path}: has no position vectors to draw")
        name = of or next(name for name in (*usual, *found) if name in found)
        if name not in found:
            raise CheckpointError(f"{path}: --of {of}: must be one of {', '.join(found)}")
        drawn.append((Path(path), name, found[name].float()))
    figure, axes = panels(5 * len(drawn) + 1, 4.5, len(drawn))
    for axis, (path, name, vectors) in zip(axes, drawn, strict=True):
        if name.count(".") == 3:  # a bias, whose change from position 0 distinguishes positions
            vectors, name = vectors - vectors[:1], f"{name}: b(t) - b(0)"
        scale = float(vectors.abs().max()) or 1.0
        image = axis.imshow(vectors, aspect="auto", cmap="PuOr", vmin=-scale, vmax=scale, interpolation="nearest")
        figure.colorbar(image, ax=axis, shrink=0.8)
        axis.set_title(plain(f"{path.parent.name}/{path.name}") + f"\n{name}", fontsize=9)
        axis.set_xlabel("dimension")
    axes[0].set_ylabel("position")
    save(figure, output)


@torch.no_grad()
def stage_weights(model: nn.Module, net_input: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Return the weights that learned coefficients give to the stages of each step.

    The inputs are those of :func:`.inputs.inputs_of`; :func:`.inputs.observed` chooses the stacks. For each step in
    order there are the name of its ``layer``, such as ``decoder 1``, and lists of the ``mean`` and the standard
    ``deviation`` of the weight of each stage over real tokens.
    """
    found, weighted = [], []

    def note(real: Tensor) -> Callable:
        def hook(module: Coefficients, args: tuple, _: Tensor) -> None:
            weights = map(torch.as_tensor, module.weights(*args))  # of which some may be numbers
            weights = (w[real] if w.shape[:2] == real.shape else w.flatten() for w in weights)
            weighted.append([w.double() for w in weights])

        return hook

    def name(layer: str) -> Callable:  # by layer, because layers may share coefficients
        def hook(*_: Any) -> None:
            for i, stages in enumerate(weighted):
                row = {"layer": layer if len(weighted) == 1 else f"{layer}, step {i + 1}"}
                row["mean"] = [float(weights.mean()) for weights in stages]
                row["deviation"] = [float(weights.std(correction=0)) for weights in stages]
                found.append(row)
            weighted.clear()

        return hook

    with ExitStack() as hooks:
        for side, (stack, real) in observed(model, net_input).items():
            for module in stack.modules():
                if isinstance(module, Coefficients) and any(True for _ in module.parameters()):
                    hooks.enter_context(module.register_forward_hook(note(real)))
            for i, layer in enumerate(stack.layers):
                hooks.enter_context(layer.register_forward_hook(name(f"{side} {i + 1}")))
        model.eval()(**net_input)
    return found


def coefficients(
    files: Sequence[str],
    read: Sequence[tuple[str, str]],
    sentences: int,
    output: str | Path,
    record: str | Path | None = None,
) -> None:
    """Draw the weights of the stages of each layer, from learned coefficients, one panel per checkpoint.

    The text that the models read, on which gates depend, is that of :func:`.inputs.read_texts`; ``record`` is a JSON
    file for the numbers.
    """
    texts, layers = read_texts(read, sentences), {}
    for path in files:
        for _, dictionary in read:
            check_dictionaries(path, dictionary)
        with errors_about(f"{path}: cannot read the sentences"):
            model = open_model(path)
            found = stage_weights(model, net_input := inputs_of(model, texts))
        if not all(math.isfinite(value) for row in found for value in (*row["mean"], *row["deviation"])):
            raise CheckpointError(f"{path}: its coefficients are not finite")
        if not found:
            seen = list(observed(model, net_input))
            hint = "; --target has its decoder read, too" * (len(seen) < len(stacks(model)))
            raise CheckpointError(f"{path}: has no learned coefficients in its {' and '.join(seen)}{hint}")
        layers[path] = found
    figure, axes = panels(5.5 * len(layers), 4, len(layers))
    for axis, (path, found) in zip(axes, layers.items(), strict=True):
        for i in range(max(len(row["mean"]) for row in found)):
            points = [(x, row["mean"][i], row["deviation"][i]) for x, row in enumerate(found) if i < len(row["mean"])]
            axis.errorbar(*zip(*points, strict=True), capsize=3, **style(i, f"stage {i + 1}"))
        axis.set_xticks(range(len(found)), [row["layer"] for row in found], rotation=45, ha="right")
        axis.set_ylabel("weight: mean and deviation over tokens")
        axis.set_title(plain(f"{Path(path).parent.name}/{Path(path).name}"), fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    save(figure, output)
    if record:
        content = {"what": "coefficients", "versions": machine.versions(), "layers": layers}
        write_json(record, content | what_was_read(read, texts))
        print(record)
