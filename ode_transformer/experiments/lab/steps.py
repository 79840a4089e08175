"""The error of a step inside a trained model.

The solution is unknown there. What can be measured is how far a layer's step of size 1 is from two steps of size 1/2:
for a method of order p, that is the error of the step up to a factor of 1 - 2^-p (Richardson).
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...checkpoints import CheckpointError
from ...checkpoints.inputs import inputs_of, observed
from ...checkpoints.standalone import check_dictionaries, named, open_model
from ...modules.layers import SplitLayer


def layers_of(stack: nn.Module, side: str, path: str | Path) -> dict[str, SplitLayer]:
    """The layers of a stack by name: those of an ``encoder`` are ``encoder 1`` and so on.

    Raises:
        CheckpointError: their step cannot be halved; the message says why.
    """
    found = {f"{side} {i + 1}": layer for i, layer in enumerate(nn.ModuleList.__iter__(stack.layers))}
    for name, layer in found.items():
        if not isinstance(layer, SplitLayer):
            raise CheckpointError(f"{path}: its {name} is a {type(layer).__name__}: no layers to measure")
        for trouble, there in (
            ("is post-norm, which is not a step of an equation", not layer.normalize_before),
            ("has the released code's residual, which has no step size", layer.options.released),
            ("belongs to a multistep scheme", layer.options.integrator.spans_layers),
            ("carries a velocity, which a half step would misread", bool(layer.velocities)),
            ("normalizes its stages, which removes the step size", layer.options.rk_norm),
            (
                "is corrected with the states of other layers, which have no half steps",
                layer.options.history == "corrector",
            ),
        ):
            if there:
                raise CheckpointError(f"{path}: its {name} {trouble}: no layers to measure")
    return found


@torch.no_grad()
def errors(model: nn.Module, net_input: dict[str, Tensor], path: str | Path = "model") -> list[dict[str, Any]]:
    """The relative size of each layer's step, and its relative distance from two half steps, over real tokens.

    Args:
        model: a model in evaluation mode.
        net_input: its inputs, as :func:`.inputs.inputs_of` makes them; :func:`.inputs.observed` says which
            stacks are measured.
        path: the name of the model in error messages.

    Returns:
        For each layer its name; ``increment``, the norm of the step's increment divided by that of the state; and
        ``difference``, the norm of the difference divided by that of the increment. Norms are root mean squares over
        tokens and channels.

    Raises:
        CheckpointError: the steps of the layers cannot be halved, or are not finite.
    """
    rows, hooks = [], []

    def hook(layer: SplitLayer, args: tuple, result: tuple, name: str, real: Tensor) -> None:
        if len(args) > 3:
            return  # our own half steps
        (x, context, carried), (y, *_) = args, result
        two, *_ = layer(layer(x, context, carried, 0.5)[0], context, carried, 0.5)
        state, step, difference = (float(z[real].double().pow(2).mean().sqrt()) for z in (x, y - x, two - y))
        if not (state > 0 and step > 0 and math.isfinite(state + step + difference)):
            raise CheckpointError(
                f"{path}: its {name} takes a step of norm {step:g} from a state of norm {state:g}: must be finite and "
                "more than 0 to be measured"
            )
        rows.append({"layer": name, "increment": round(step / state, 5), "difference": round(difference / step, 5)})

    try:
        for side, (stack, real) in observed(model, net_input).items():
            for name, layer in layers_of(stack, side, path).items():
                hooks.append(layer.register_forward_hook(partial(hook, name=name, real=real)))
        model.eval()(**net_input)
    finally:
        for each in hooks:
            each.remove()
    return rows


def measure(checkpoints: Sequence[str], texts: Sequence[Sequence[Tensor]], dictionaries: Sequence[str]) -> dict:
    """The errors of steps inside checkpoints, by their folders, or by their paths where folders have one name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in checkpoints:
        name = Path(path).parent.name
        for dictionary in dictionaries:
            check_dictionaries(path, dictionary)
        with named(f"{path}: cannot read the sentences"):
            model = open_model(path)
            found[name if name and name not in found else path] = errors(model, inputs_of(model, texts), path)
    return found
