"""``ode-transformer lab``: measured orders of convergence, and the error of a step inside a trained model.

The problem is y' = F(y) + G(y) in three dimensions, with F(y) = c A asinh(y), G(y) = c B asinh(y), c = sqrt(1 + y^2) by
components. It is nonlinear, A and B do not commute, and with y = sinh(z) it reads z' = (A + B) z, so that the solution
and the flows of F and G alone are known: sinh(exp(t (A + B)) asinh(y)), and so on.

A method of order p has a local error of O(h^(p + 1)) after one step of size h, and a global error of O(h^p) at t = 1.
The measured exponents are slopes of the logarithm of the error against that of h, in double precision. A method that
reads earlier states starts from two exact ones. Momentum solves another problem, the second-order equation
y'' + c y' = nu A y, where without a norm nu times its velocity is h y', and its damping is 1 - c h. Methods without an
order are listed with the reason.

FLOATER's flow is solved on a grid, whose error grows with the weights of the flow: :func:`flow_errors` measures how far
a grid of larger steps is from that of the released code, in the biases and in the gradients.

In a trained model the solution is unknown. What can be measured is how far a layer's step of size 1 is from two steps
of size 1/2: for a method of order p, that is the error of the step up to a factor of 1 - 2^-p (Richardson).
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import machine
from ..checkpoints import CheckpointError
from ..checkpoints.standalone import check_dictionaries, inputs_of, named, observed, open_model, read_texts
from ..errors import OdeTransformerError
from ..modules.layers import SplitLayer
from ..modules.positions import BiasPositions
from ..numerics.coefficients import Scalars, SecondOrderGate, weighted_sum
from ..numerics.flow import Flow
from ..numerics.integrators import EULER, HEUN, INTEGRATORS, RK4, Multistep
from ..numerics.momentum import Momentum
from ..numerics.protocol import Field, Integrator, Learned
from ..numerics.splitting import SPLITTINGS, Substep, split_step
from . import markdown
from .arguments import at_least
from .results import plots
from .runs import records

_A = torch.tensor([[0.0, 1.0, 0.3], [-1.0, -0.2, 0.0], [0.1, 0.4, -0.5]], dtype=torch.float64)
_B = torch.tensor([[-0.4, 0.0, 0.8], [0.5, 0.1, -0.6], [0.0, 0.7, 0.2]], dtype=torch.float64)
_START = torch.tensor([0.6, -0.3, 0.4], dtype=torch.float64)

DAMPING = 0.8
"""c in y'' + c y' = nu f(y), which methods with momentum solve."""

NU = 1.7
"""nu of a method that learns it; otherwise nu is 1."""


def _field(matrix: Tensor) -> Field:
    return lambda y, stage=0: (1 + y * y).sqrt() * (matrix @ y.asinh())


def _flow(matrix: Tensor, y: Tensor, t: float) -> Tensor:
    return (torch.linalg.matrix_exp(t * matrix) @ y.asinh()).sinh()


def _solution(t: float) -> Tensor:
    return _flow(_A + _B, _START, t)


def _damped(nu: float, t: float) -> Tensor:
    """y and y' of the solution of y'' + c y' = nu A y that starts at rest: (6,)."""
    one, nothing = torch.eye(3, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64)
    matrix = torch.cat((torch.cat((nothing, one), 1), torch.cat((nu * _A, -DAMPING * one), 1)))
    return torch.linalg.matrix_exp(t * matrix) @ torch.cat((_START, torch.zeros(3, dtype=torch.float64)))


@dataclass(frozen=True)
class Method:
    """A method to measure.

    Args:
        theory: the exponent of its local error in theory.
        step: (the states so far at intervals of h, the newest last; h) -> the next state.
        solution: time -> the solution of the problem.
    """

    theory: int
    step: Callable[[Sequence[Tensor], float], Tensor]
    solution: Callable[[float], Tensor] = _solution


WITHOUT = {
    "momentum with the norm of a velocity": "the norm keeps the speed constant, so that no equation has its solution",
    "the corrector at initialization": "the mean of all states is not close to the newest state",
    "dense connections, denseformer, attention": "they mix states and solve no equation",
}
"""Methods without an order of convergence, and why."""


def methods() -> dict[str, Method]:
    """Every method by name."""
    f, matrices = _field(_A + _B), {"F": _A, "G": _B}
    fields = {letter: _field(matrix) for letter, matrix in matrices.items()}
    found: dict[str, Method] = {}

    def one_step(name: str, theory: int, step: Callable[[Tensor, float], Tensor]) -> None:
        found[name] = Method(theory, lambda past, h: step(past[-1], h))

    def exact(letter: str, y: Tensor, carried: None, h: float) -> tuple[Tensor, None]:
        return _flow(matrices[letter], y, h), carried

    for name, of_two in SPLITTINGS.items():
        if not of_two.together:  # otherwise there is no splitting error to measure
            substeps = [Substep(exact, letter, fraction) for letter, fraction in of_two]
            one_step(f"{name}, exact sub-flows", int(of_two.order) + 1, partial(_split, substeps))
    for name, solver, exponent, method in (
        ("lie-trotter", "Euler (Transformer)", 2, EULER),
        ("strang", "Euler (Macaron)", 2, EULER),
        ("strang", "Heun (macaron_rk2)", 3, HEUN),
        ("parallel", "Euler", 2, EULER),
        ("parallel", "Heun", 3, HEUN),
        ("parallel", "RK4", 5, RK4),
    ):
        one_step(f"{name}, {solver}", exponent, partial(_split, SPLITTINGS[name].substeps(fields, method.step)))
    for name, method in INTEGRATORS.items():
        if isinstance(method, Momentum):
            nu = NU if method.learns_nu else 1.0
            found[f"{name}, for a damped equation of second order"] = Method(
                2, partial(_momentum, method, nu), partial(_damped, nu)
            )
        elif method.spans_layers:
            found[name] = Method(method.order + 1, partial(_multistep, method, f))
        else:
            one_step(name, method.order + 1, partial(_step, method, f))
    for name, weights, exponent in (
        ("gate 0.3", (0.3, 0.7), 2),
        ("gate 0.5", (0.5, 0.5), 3),
        ("ema of 1/2", (0.25, 0.5), 1),  # the weights do not sum to 1
        ("ema of 1", (0.0, 1.0), 2),
    ):
        scalars = Scalars(torch.tensor(weights, dtype=_A.dtype)).requires_grad_(False)
        one_step(f"heun, {name}", exponent, partial(_step, HEUN, f, learned=Learned(scalars)))
    gate = SecondOrderGate(len(_START)).double().requires_grad_(False)
    gate.gate.weight.copy_(torch.linspace(-2, 2, len(_START)))  # so that g differs from state to state
    one_step("heun, second-order gate", 3, partial(_step, HEUN, f, learned=Learned(gate)))
    for predictor, weights, exponent in (
        ("heun", (0.0, 1.0, 0.0), 2),
        ("euler", _SECOND_ORDER, 2),
        ("heun", _SECOND_ORDER, 3),
        ("rk4", _SECOND_ORDER, 3),
    ):
        of = "the newest state" if weights[1] == 1 else "the mean of prediction and state before"
        found[f"{predictor}, corrected from {of}"] = Method(
            exponent, partial(_corrected, INTEGRATORS[predictor], f, weights)
        )
    return found


_SECOND_ORDER = (0.5, 0.0, 0.5)
"""The weights of the previous state, the newest state and the prediction that make a corrector second-order: the mean
of y_{n-1} and y_{n+1} is y_n + h^2 / 2 y'', and h^2 / 2 y'' is the term that an Euler step lacks."""


def _step(method: Integrator, f: Field, y: Tensor, h: float, **more: Any) -> Tensor:
    return method.step(f, y, None, h, **more)[0]


def _split(substeps: Sequence[Substep], y: Tensor, h: float) -> Tensor:
    return split_step(substeps, y, None, h)[0]


def _multistep(scheme: Multistep, f: Field, past: Sequence[Tensor], h: float) -> Tensor:
    return scheme.step(f, past[-1], (past, [h * f(y, 0) for y in past[:-1]]), h)[0]


def _momentum(method: Momentum, nu: float, past: Sequence[Tensor], h: float) -> Tensor:
    y, speed = past[-1].chunk(2)
    beta = 1 - DAMPING * h
    numbers = SimpleNamespace(numbers=lambda: (beta, beta, h, nu), norm=None)
    y, v = method.step(lambda y, stage: _A @ y, y, h / nu * speed, h, Learned(own=numbers))
    return torch.cat((y, nu / h * v))


def _corrected(predictor: Integrator, f: Field, weights: Sequence[float], past: Sequence[Tensor], h: float) -> Tensor:
    """The corrector without its norms: an Euler step from a mixture of the last two states and the prediction."""
    c = weighted_sum(weights, [*past[-2:], _step(predictor, f, past[-1], h)])
    return _step(EULER, f, c, h)


def slope(sizes: list[float], errors: list[float]) -> float:
    """The least-squares slope of log error against log size."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def orders() -> list[dict[str, Any]]:
    """The local and global errors of every method at steps of 1/8 to 1/64, and their slopes."""
    steps, rows = [8, 16, 32, 64], []
    for name, method in methods().items():
        local, total = [], []
        for n in steps:
            past = [method.solution(-1 / n), method.solution(0.0)]
            local.append(float((method.step(past, 1 / n) - method.solution(1 / n)).norm()))
            for _ in range(n):
                past.append(method.step(past, 1 / n))
            total.append(float((past[-1] - method.solution(1.0)).norm()))
        sizes = [1 / n for n in steps]
        rows.append(
            {
                "method": name,
                "theory": method.theory,
                "local": round(slope(sizes, local), 3),
                "global": round(slope(sizes, total), 3),
                "sizes": sizes,
                "local_errors": local,
                "global_errors": total,
            }
        )
    return rows


# Layers of trained models


FLOW_STEPS = (4.0, 2.0, 1.0, 0.5)
"""The steps of a flow, in tokens, that are measured; the first is the default of ``--flow-step``."""

RELEASED_STEP = 0.2
"""The step of FLOATER's released code."""


def flow_errors(flow: Flow, initial: Tensor, positions: int) -> list[dict[str, float]]:
    """How far the solutions of a flow with larger steps are from that with the released code's step.

    Args:
        flow: the flow, whose method is kept.
        initial: b(0), (R, C).
        positions: how many of the positions 0, 1, 2, ... are looked at.

    Returns:
        for each of ``FLOW_STEPS`` the ``step``; the largest ``error`` of a bias, the same ``relative`` to max(1, the
        largest bias at its position), and the ``largest`` bias itself; and ``gradient``, the relative error of the
        gradient of the flow's weights, of a sum of the biases with random weights.
    """
    generator = torch.Generator().manual_seed(1)
    weights, initial = torch.randn(positions, *initial.shape, generator=generator), initial.detach().float()

    def solved(step: float) -> tuple[Tensor, Tensor]:
        moved, gradient = [], 0.0
        for rows, its in zip(initial.split(6), weights.split(6, 1), strict=True):  # within memory
            b = flow.solved(rows, positions, step)
            found = torch.autograd.grad((its * b).sum(), list(flow.parameters()))
            gradient = gradient + torch.cat([g.flatten() for g in found])
            moved.append(b.detach())
        return torch.cat(moved, 1), gradient

    expected, expected_gradient = solved(RELEASED_STEP)
    largest = (initial + expected).abs().amax((1, 2))
    found = []
    for step in FLOW_STEPS:
        moved, gradient = solved(step)
        error = (moved - expected).abs().amax((1, 2))
        errors = {
            "error": error.max(),
            "relative": (error / largest.clamp(min=1)).max(),
            "largest": largest.max(),
            "gradient": (gradient - expected_gradient).norm() / expected_gradient.norm(),
        }
        found.append({"step": step, **{name: float(value) for name, value in errors.items()}})
    return found


def flows_of(model: nn.Module, path: str | Path) -> dict[str, tuple[Flow, Tensor]]:
    """The flows of a FLOATER by name, each with its b(0) (R, C).

    Raises:
        CheckpointError: the model has none.
    """
    found = {}
    for encoder in model.modules():
        if isinstance(encoder, BiasPositions):
            for name, solver in encoder.solvers.items():
                if isinstance(solver, Flow):
                    found[name] = solver, torch.stack(list(encoder.layout.initial(name)))
    if not found:
        raise CheckpointError(f"{path}: has no flow; a model with --position-encoder floater has")
    return found


def layers_of(stack: nn.Module, side: str, path: str | Path) -> dict[str, SplitLayer]:
    """The layers of a stack by name: those of an ``encoder`` are ``encoder 1`` and so on.

    Raises:
        CheckpointError: their step cannot be halved; the message says why.
    """
    found = {f"{side} {i + 1}": layer for i, layer in enumerate(nn.ModuleList.__iter__(stack.layers))}
    for name, layer in found.items():
        if not isinstance(layer, SplitLayer):
            raise CheckpointError(f"{path}: its {name} is a {type(layer).__name__}: no layers to measure")
        corrected = layer.options.history == "corrector"
        for trouble, there in (
            ("is post-norm, which is not a step of an equation", not layer.normalize_before),
            ("has the released code's residual, which has no step size", layer.options.released),
            ("belongs to a multistep scheme", layer.options.integrator.spans_layers),
            ("carries a velocity, which a half step would misread", bool(layer.velocities)),
            ("normalizes its stages, which removes the step size", layer.options.rk_norm),
            ("is corrected with the states of other layers, which have no half steps", corrected),
        ):
            if there:
                raise CheckpointError(f"{path}: its {name} {trouble}: no layers to measure")
    return found


@torch.no_grad()
def step_errors(model: nn.Module, net_input: dict[str, Tensor], path: str | Path = "model") -> list[dict[str, Any]]:
    """The relative size of each layer's step, and its relative distance from two half steps, over real tokens.

    Args:
        model: a model in evaluation mode.
        net_input: its inputs, as :func:`.standalone.inputs_of` makes them; :func:`.standalone.observed` says which
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

    def watch(name: str, real: Tensor) -> Callable:
        def norm(x: Tensor) -> float:
            return float(x[real].double().pow(2).mean().sqrt())

        def hook(layer: SplitLayer, args: tuple, result: tuple) -> None:
            if len(args) > 3:
                return  # our own half steps
            (x, context, carried), (y, *_) = args, result
            two, *_ = layer(layer(x, context, carried, 0.5)[0], context, carried, 0.5)
            state, step, difference = norm(x), norm(y - x), norm(two - y)
            if not (state > 0 and step > 0 and math.isfinite(state + step + difference)):
                raise CheckpointError(
                    f"{path}: its {name} takes a step of norm {step:g} from a state of norm {state:g}: must be finite "
                    "and more than 0 to be measured"
                )
            row = {"increment": step / state, "difference": difference / step}
            rows.append({"layer": name, **{key: round(value, 5) for key, value in row.items()}})

        return hook

    try:
        for side, (stack, real) in observed(model, net_input).items():
            for name, layer in layers_of(stack, side, path).items():
                hooks.append(layer.register_forward_hook(watch(name, real)))
        model.eval()(**net_input)
    finally:
        for hook in hooks:
            hook.remove()
    return rows


def draw(rows: list[dict[str, Any]], layers: dict[str, list[dict[str, Any]]], output: str | Path) -> None:
    """Draw local errors against the step size, one line per method; and errors by layer, one line per model."""
    pyplot = plots.pyplot_for(output)
    figure, axes = pyplot.subplots(1, 1 + bool(layers), figsize=(8 * (1 + bool(layers)), 6), squeeze=False)
    axis = axes[0][0]
    by_error = sorted(rows, key=lambda row: -row["local_errors"][-1])
    for i, row in enumerate(by_error):
        color = plots.COLOURS[row["theory"] - 1]
        axis.plot(row["sizes"], row["local_errors"], color=color, marker=plots.MARKS[row["theory"] - 1], alpha=0.8)
        # The ends of the lines lie on each other, so the names are spread over the height, in the order of the ends.
        place = 1.03, 1 - (i + 0.5) / len(rows)
        text = f"{row['method']}: {row['local']:.2f}"
        axis.text(*place, text, color=color, fontsize=8, va="center", transform=axis.transAxes)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.invert_xaxis()
    axis.set_xticks(rows[0]["sizes"], [f"1/{round(1 / size)}" for size in rows[0]["sizes"]])
    axis.minorticks_off()
    axis.set_xlabel("size h of the step")
    axis.set_ylabel("error of one step, O(h to the power of the number after the name)")
    if layers:
        axis = axes[0][1]
        for i, (name, found) in enumerate(layers.items()):
            x = range(1, len(found) + 1)
            axis.plot(x, [row["difference"] for row in found], **plots.style(i, name))
        axis.set_xticks(range(1, max(map(len, layers.values())) + 1))
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        ticks = [t * 10.0**e for e in range(-6, 1) for t in (1, 2, 5) if low <= t * 10.0**e <= high]
        axis.set_yticks(ticks, [f"{100 * t:g} %" for t in ticks])
        axis.minorticks_off()
        axis.set_xlabel("layer")
        axis.set_ylabel("distance of two half steps from a whole one, relative to the step")
        axis.legend(fontsize=8)
    figure.tight_layout()
    plots.save(figure, output)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer lab``."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    help_ = "measure the order of convergence of every method, and the error of a step inside trained models"
    kind = kinds.add_parser("orders", help=help_, description=help_)
    kind.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help="pre-norm models of this package")
    plots.add_text_arguments(kind, required=False)
    kind.add_argument("--output", metavar="FILE", help="file for the record, as JSON")
    kind.add_argument("--picture", metavar="FILE", help=f"file for the figure, {', '.join(plots.FORMATS)}")
    help_ = "measure how far FLOATER's flow is, with larger steps, from the released code's"
    kind = kinds.add_parser("flow", help=help_, description=f"{help_}: at initialization, and in trained models")
    kind.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help="FLOATER models of this package")
    kind.add_argument(
        "--positions",
        metavar="N",
        type=at_least(1),
        default=255,
        help="as many are looked at (default: the released code's 255)",
    )
    kind.add_argument("--output", metavar="FILE", help="file for the record, as JSON")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer lab``; the exit status."""
    return {"orders": _orders, "flow": _flows}[args.kind](args)


def _flows(args: argparse.Namespace) -> int:
    torch.manual_seed(0)
    initial = torch.empty(18, 512).uniform_(-0.0361, 0.0361)  # as the released code initializes biases of this width
    flows = {"width 512, at initialization": (Flow(512), initial)}
    for path in args.checkpoints:
        for name, found in flows_of(open_model(path), path).items():
            flows[path if name == "all" else f"{path}, {name}"] = found
    measured = {name: flow_errors(*found, args.positions) for name, found in flows.items()}
    print(flow_table(measured))
    if args.output:
        about = {"what": "flow", "positions": args.positions, "versions": machine.versions()}
        records.write(Path(args.output), {**about, "flows": measured})
    return 0


def flow_table(measured: dict[str, list[dict[str, float]]]) -> str:
    """What :func:`flow_errors` found of several flows, as a table."""
    head = ("flow", "tokens per step", "error of a bias", "relative", "largest bias", "error of the gradient, percent")
    kinds = {"step": "g", "error": ".1e", "relative": ".1e", "largest": ".3g"}
    rows = (
        (name, *(format(row[key], kind) for key, kind in kinds.items()), f"{100 * row['gradient']:.2g}")
        for name, steps in measured.items()
        for row in steps
    )
    return markdown.table(head, rows)


def _orders(args: argparse.Namespace) -> int:
    if args.checkpoints and not (args.text and args.dictionary):
        raise OdeTransformerError("checkpoints need --text and --dictionary")
    given = [name for name in ("text", "dictionary", "target") if getattr(args, name)]
    if given and not args.checkpoints:
        raise OdeTransformerError(f"--{given[0]}: is what models read; a checkpoint must be named, too")
    files = plots.texts_of(args)
    if args.picture and Path(args.picture).suffix not in plots.FORMATS:
        raise OdeTransformerError(f"--picture {args.picture}: must end in one of {', '.join(plots.FORMATS)}")
    rows, layers = orders(), {}
    head = ("method", "local error: theory", "measured", "global error")
    cells = ((row["method"], row["theory"], f"{row['local']:.2f}", f"{row['global']:.2f}") for row in rows)
    print(markdown.table(head, cells))
    print("\nwithout an order:")
    for name, reason in WITHOUT.items():
        print(f"  {name}: {reason}")
    if args.checkpoints:
        texts = read_texts(files, args.sentences)
        for path in args.checkpoints:
            name = Path(path).parent.name
            label = name if name and name not in layers else path
            for _, dictionary in files:
                check_dictionaries(path, dictionary)
            with named(f"{path}: cannot read the sentences"):
                model = open_model(path)
                layers[label] = step_errors(model, inputs_of(model, texts), path)
            steps = ((row["layer"], f"{row['increment']:.4f}", f"{row['difference']:.4f}") for row in layers[label])
            print(f"\n{label}:\n")
            head = ("layer", "relative size of its step", "relative distance of two half steps from it")
            print(markdown.table(head, steps))
    if args.output:
        record = {
            "what": "orders",
            "versions": machine.versions(),
            "methods": rows,
            "without": WITHOUT,
            "layers": layers,
        }
        if args.checkpoints:
            record |= plots.what_was_read(files, texts)
        records.write(Path(args.output), record)
    if args.picture:
        draw(rows, layers, args.picture)
        print(args.picture)
    return 0
