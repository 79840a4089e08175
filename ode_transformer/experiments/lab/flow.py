"""The error of FLOATER's flow with larger steps than those of the released code, in its biases and gradients.

The error grows with the weights of the flow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ... import machine, markdown
from ...checkpoints import CheckpointError
from ...checkpoints.standalone import open_model
from ...modules.positions import BiasPositions
from ...numerics.flow import Flow

STEPS = (4.0, 2.0, 1.0, 0.5)
"""The measured step sizes in tokens; the first is the default of ``--flow-step``."""

RELEASED_STEP = 0.2
"""The step size of FLOATER's released code, in tokens."""


def errors(flow: Flow, initial: Tensor, positions: int) -> list[dict[str, float]]:
    """Return the errors of a flow's solutions with ``STEPS`` from b(0), (R, C), against that with ``RELEASED_STEP``.

    ``error`` is the largest absolute error of a bias; ``relative``, the largest error relative to max(1, the largest
    bias at its position); and ``gradient``, the relative error of the gradient with respect to the flow's parameters,
    of a randomly weighted sum of the biases.
    """
    generator = torch.Generator().manual_seed(1)
    weights, initial = torch.randn(positions, *initial.shape, generator=generator), initial.detach().float()

    def solved(step: float) -> tuple[Tensor, Tensor]:
        b = flow.solved(initial, positions, step)
        gradients = torch.autograd.grad((weights * b).sum(), list(flow.parameters()))
        return b.detach(), torch.cat([g.flatten() for g in gradients])

    expected, expected_gradient = solved(RELEASED_STEP)
    largest = (initial + expected).abs().amax((1, 2))
    found = []
    for step in STEPS:
        moved, gradient = solved(step)
        error = (moved - expected).abs().amax((1, 2))
        its = {
            "error": error.max(),
            "relative": (error / largest.clamp(min=1)).max(),
            "largest": largest.max(),
            "gradient": (gradient - expected_gradient).norm() / expected_gradient.norm(),
        }
        found.append({"step": step, **{name: float(value) for name, value in its.items()}})
    return found


def flows_of(model: nn.Module, path: str | Path) -> dict[str, tuple[Flow, Tensor]]:
    """Return the flows of a FLOATER model by name, each with its b(0), (R, C)."""
    found = {}
    for encoder in model.modules():
        if isinstance(encoder, BiasPositions):
            for name, solver in encoder.solvers.items():
                if isinstance(solver, Flow):
                    found[name] = solver, torch.stack(list(encoder.initial(name)))
    if not found:
        raise CheckpointError(f"{path}: has no flow; a model with --position-encoder floater has")
    return found


def measure(checkpoints: Sequence[str], positions: int) -> dict[str, Any]:
    """Return the record of ``errors`` of flows: of one at initialization, and of those of trained models."""
    torch.manual_seed(0)
    initial = torch.empty(18, 512).uniform_(-0.0361, 0.0361)  # the initialization of biases of this width
    found = {"width 512, at initialization": (Flow(512), initial)}
    for path in checkpoints:
        for name, flow in flows_of(open_model(path), path).items():
            found[path if name == "all" else f"{path}, {name}"] = flow
    measured = {name: errors(*flow, positions) for name, flow in found.items()}
    return {"what": "flow", "positions": positions, "versions": machine.versions(), "flows": measured}


def table(record: Mapping[str, Any]) -> str:
    """Return the record of the errors of flows as a table."""
    head = ("flow", "tokens per step", "error of a bias", "relative", "largest bias", "error of the gradient, percent")
    kinds = {"step": "g", "error": ".1e", "relative": ".1e", "largest": ".3g"}
    rows = (
        (name, *(format(row[key], kind) for key, kind in kinds.items()), f"{100 * row['gradient']:.2g}")
        for name, steps in record["flows"].items()
        for row in steps
    )
    return f"{markdown.table(head, rows)}\n\nThe first {record['positions']} positions."
