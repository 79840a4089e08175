"""Orders of convergence, measured on problems whose solutions are known.

The problem is y' = F(y) + G(y) in three dimensions, with F(y) = s A asinh(y), G(y) = s B asinh(y), s = sqrt(1 + y^2),
where products with s are taken by component. It is nonlinear, A and B do not commute, and with y = sinh(z) it reads
z' = (A + B) z, so that its solution sinh(exp(t (A + B)) asinh(y)) and the flows of F and G alone are known.

A method of order p has a local error of O(h^(p + 1)) after one step of size h, and a global error of O(h^p) at t = 1.
The measured exponents are slopes of log error against log h, in double precision. A method that reads earlier states
starts from as many exact ones as its order, at least two. Methods with momentum solve y'' + c y' = nu A y instead:
without a norm, nu times the velocity is h y', and beta is 1 - c h. Methods without an order are listed with the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import markdown
from ...numerics.coefficients import Scalars, SecondOrderGate, weighted_sum
from ...numerics.integrators import EULER, HEUN, INTEGRATORS, RK4, Multistep
from ...numerics.momentum import Momentum
from ...numerics.protocol import Field, Integrator, Learned
from ...numerics.splitting import SPLITTINGS, Substep, split_step

_A = torch.tensor([[0.0, 1.0, 0.3], [-1.0, -0.2, 0.0], [0.1, 0.4, -0.5]], dtype=torch.float64)
_B = torch.tensor([[-0.4, 0.0, 0.8], [0.5, 0.1, -0.6], [0.0, 0.7, 0.2]], dtype=torch.float64)
_START = torch.tensor([0.6, -0.3, 0.4], dtype=torch.float64)

DAMPING, NU = 0.8, 1.7
"""c in y'' + c y' = nu f(y), which methods with momentum solve, and nu for those that learn it; for others it is 1."""


def _field(matrix: Tensor) -> Field:
    return lambda y, stage=0: (1 + y * y).sqrt() * (matrix @ y.asinh())


def _flow(matrix: Tensor, y: Tensor, t: float) -> Tensor:
    return (torch.linalg.matrix_exp(t * matrix) @ y.asinh()).sinh()


def _solution(t: float) -> Tensor:
    return _flow(_A + _B, _START, t)


def _damped(nu: float, t: float) -> Tensor:
    """Return y and y' of the solution of y'' + c y' = nu A y that starts at rest, (6,)."""
    one, nothing = torch.eye(3, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64)
    matrix = torch.cat((torch.cat((nothing, one), 1), torch.cat((nu * _A, -DAMPING * one), 1)))
    return torch.linalg.matrix_exp(t * matrix) @ torch.cat((_START, torch.zeros(3, dtype=torch.float64)))


@dataclass(frozen=True)
class Method:
    """A method to measure."""

    theory: float  # the exponent of the local error
    step: Callable[[Sequence[Tensor], float], Tensor]  # the states so far at intervals of h, and h -> the next state
    solution: Callable[[float], Tensor] = _solution  # time -> the exact solution of the problem


WITHOUT = {
    "momentum with the norm of a velocity": "the norm keeps the speed constant, so that no equation has its solution",
    "the corrector at initialization": "the mean of all states is not close to the newest state",
    "dense connections, denseformer, attention": "they mix states and solve no equation",
}
"""Methods without an order of convergence, and why."""


_SECOND_ORDER = (0.5, 0.0, 0.5)
"""The weights of the previous state, the newest state and the prediction that make a corrector second-order: the mean
of y_{n-1} and y_{n+1} is y_n + h^2 / 2 y'', and h^2 / 2 y'' is the term that an Euler step lacks."""


def methods() -> dict[str, Method]:
    """Return all methods by name."""
    f, matrices = _field(_A + _B), {"F": _A, "G": _B}
    fields = {letter: _field(matrix) for letter, matrix in matrices.items()}
    found: dict[str, Method] = {}

    def exact(letter: str, y: Tensor, carried: None, h: float) -> tuple[Tensor, None]:
        return _flow(matrices[letter], y, h), carried

    for name, of_two in SPLITTINGS.items():
        if not of_two.together:  # otherwise there is no splitting error
            substeps = [Substep(exact, letter, fraction) for letter, fraction in of_two]
            found[f"{name}, exact sub-flows"] = Method(int(of_two.order) + 1, partial(_split, substeps))
    for name, solver, exponent, method in (
        ("lie-trotter", "Euler (Transformer)", 2, EULER),
        ("strang", "Euler (Macaron)", 2, EULER),
        ("strang", "Heun (macaron_rk2)", 3, HEUN),
        ("parallel", "Euler", 2, EULER),
        ("parallel", "Heun", 3, HEUN),
        ("parallel", "RK4", 5, RK4),
    ):
        substeps = SPLITTINGS[name].substeps(fields, method.step)
        found[f"{name}, {solver}"] = Method(exponent, partial(_split, substeps))
    for name, method in INTEGRATORS.items():
        if isinstance(method, Momentum):
            nu = NU if method.learns_nu else 1.0
            its = Method(2, partial(_momentum, method, nu), partial(_damped, nu))
            found[f"{name}, for a damped equation of second order"] = its
        elif method.order is not None:  # which a plugin's method may lack
            own = method.learns(len(_START))
            learned = Learned(own=own and own.double().requires_grad_(False))
            step = _multistep if method.spans_layers else partial(_step, learned=learned)
            found[name] = Method(method.order + 1, partial(step, method, f))
    for name, weights, exponent in (
        ("gate 0.3", (0.3, 0.7), 2),
        ("gate 0.5", (0.5, 0.5), 3),
        ("ema of 1/2", (0.25, 0.5), 1),  # the weights do not sum to 1
        ("ema of 1", (0.0, 1.0), 2),
    ):
        scalars = Scalars(torch.tensor(weights, dtype=_A.dtype)).requires_grad_(False)
        found[f"heun, {name}"] = Method(exponent, partial(_step, HEUN, f, learned=Learned(scalars)))
    gate = SecondOrderGate(len(_START)).double().requires_grad_(False)
    gate.gate.weight.copy_(torch.linspace(-2, 2, len(_START)))  # makes g differ from state to state
    found["heun, second-order gate"] = Method(3, partial(_step, HEUN, f, learned=Learned(gate)))
    for predictor, weights, exponent in (
        ("heun", (0.0, 1.0, 0.0), 2),
        ("euler", _SECOND_ORDER, 2),
        ("heun", _SECOND_ORDER, 3),
        ("rk4", _SECOND_ORDER, 3),
    ):
        of = "the newest state" if weights[1] == 1 else "the mean of prediction and state before"
        step = partial(_corrected, INTEGRATORS[predictor], f, weights)
        found[f"{predictor}, corrected from {of}"] = Method(exponent, step)
    return found


def _step(method: Integrator, f: Field, past: Sequence[Tensor], h: float, **more: Any) -> Tensor:
    carried = None
    for y in past:  # from the first again, for what the method carries
        y, carried = method.step(f, y, carried, h, **more)
    return y


def _split(substeps: Sequence[Substep], past: Sequence[Tensor], h: float) -> Tensor:
    return split_step(substeps, past[-1], None, h)[0]


def _multistep(scheme: Multistep, f: Field, past: Sequence[Tensor], h: float) -> Tensor:
    return scheme.step(f, past[-1], (past, [h * f(y, 0) for y in past[:-1]]), h)[0]


def _momentum(method: Momentum, nu: float, past: Sequence[Tensor], h: float) -> Tensor:
    y, speed = past[-1].chunk(2)
    beta = 1 - DAMPING * h
    numbers = SimpleNamespace(numbers=lambda: (beta, beta, h, nu), norm=None)
    y, v = method.step(lambda y, stage: _A @ y, y, h / nu * speed, h, Learned(own=numbers))
    return torch.cat((y, nu / h * v))


def _corrected(predictor: Integrator, f: Field, weights: Sequence[float], past: Sequence[Tensor], h: float) -> Tensor:
    """Take a step of the corrector without norms: an Euler step from a mixture of two states and the prediction."""
    c = weighted_sum(weights, [*past[-2:], _step(predictor, f, past, h)])
    return _step(EULER, f, [c], h)


def errors(method: Method) -> dict[str, Any]:
    """Return the local and global errors of a method with steps of 1/8 to 1/64, and their slopes."""
    steps, local, total = [8, 16, 32, 64], [], []
    for n in steps:
        past = [method.solution(-k / n) for k in reversed(range(max(2, int(method.theory) - 1)))]
        local.append(float((method.step(past, 1 / n) - method.solution(1 / n)).norm()))
        for _ in range(n):
            past.append(method.step(past, 1 / n))
        total.append(float((past[-1] - method.solution(1.0)).norm()))
    sizes = [1 / n for n in steps]
    slopes = np.polyfit(np.log(sizes), np.log(np.array([local, total]).T), 1)[0].round(3).tolist()
    found = {"theory": method.theory, **dict(zip(("local", "global"), slopes, strict=True))}
    return found | {"sizes": sizes, "local_errors": local, "global_errors": total}


def measure() -> dict[str, Any]:
    """Return the record of the errors of all methods, and of the methods without an order."""
    return {"methods": [{"method": name, **errors(method)} for name, method in methods().items()], "without": WITHOUT}


def table(record: Mapping[str, Any]) -> str:
    """Return the record as a table, followed by the methods without an order."""
    rows = ((row["method"], row["theory"], f"{row['local']:.2f}", f"{row['global']:.2f}") for row in record["methods"])
    head = ("scheme", "exponent of the local error, theory", "measured", "of the global error, measured")
    without = "\n".join(f"- {name}: {reason}" for name, reason in record["without"].items())
    return f"{markdown.table(head, rows)}\n\nThese have no order:\n\n{without}"
