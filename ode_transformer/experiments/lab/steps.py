"""The error of a layer's step in a trained model.

The exact solution is unknown, but the distance of a step of size 1 from two steps of size 1/2 can be measured: for a
method of order p, it is the error of the step times 1 - 2^-p (Richardson).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...checkpoints import CheckpointError
from ...checkpoints.inputs import inputs_of, observed
from ...checkpoints.standalone import check_dictionaries, errors_about, open_model
from ...modules.layers import SplitLayer


def layers_of(stack: nn.Module, side: str, path: str | Path) -> dict[str, SplitLayer]:
    """Return the layers of a stack by name, such as ``encoder 1``; refuse those whose step cannot be halved."""
    found = {f"{side} {i + 1}": layer for i, layer in enumerate(stack.layers)}
    for name, layer in found.items():
        if not isinstance(layer, SplitLayer):
            raise CheckpointError(f"{path}: its {name} is a {type(layer).__name__}: no layers to measure")
        for trouble, there in (
            ("is post-norm, which is not a step of an equation", not layer.normalize_before),
            ("has the released code's residual, which has no step size", layer.options.released),
            ("belongs to a multistep scheme", layer.options.integrator.spans_layers),
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
    """Return the relative size of each layer's step and its relative distance from two half steps.

    The norm of the increment is divided by that of the state, the norm of the ``difference`` from two half steps by
    that of the increment. Norms are root mean squares over channels and tokens, padding excepted.
    """
    rows: list[dict[str, Any]] = []

    def hook(layer: SplitLayer, args: tuple, result: tuple, name: str, real: Tensor) -> None:
        if len(args) > 3:
            return  # one of the half steps below
        (x, context, carried), (y, after, *_) = args, result
        if after is not None:
            said = "carries a velocity or another state, which a half step would misread"
            raise CheckpointError(f"{path}: its {name} {said}: no layers to measure")
        two, *_ = layer(layer(x, context, carried, 0.5)[0], context, carried, 0.5)
        state, step, difference = (float(z[real].double().pow(2).mean().sqrt()) for z in (x, y - x, two - y))
        rows.append({"layer": name, "increment": round(step / state, 5), "difference": round(difference / step, 5)})

    with ExitStack() as hooks:
        for side, (stack, real) in observed(model, net_input).items():
            for name, layer in layers_of(stack, side, path).items():
                hooks.enter_context(layer.register_forward_hook(partial(hook, name=name, real=real)))
        model.eval()(**net_input)
    return rows


def measure(checkpoints: Sequence[str], texts: Sequence[Sequence[Tensor]], dictionaries: Sequence[str]) -> dict:
    """Return the :func:`errors` of checkpoints by the name of the folder, or by path if folders share a name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in checkpoints:
        name = Path(path).parent.name
        for dictionary in dictionaries:
            check_dictionaries(path, dictionary)
        with errors_about(f"{path}: cannot read the sentences"):
            model = open_model(path)
            found[name if name and name not in found else path] = errors(model, inputs_of(model, texts), path)
    return found
