"""Where the time of a training step or of beam search goes, and how much of it is arithmetic.

PyTorch's profiler says which operators the time of one turn is spent in. The number of floating-point operations in
matrix products is counted separately, from their shapes, and depends only on the model and the batch. The baseline's
number, divided by a system's, is the speed that arithmetic alone would leave to the system.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from .. import markdown
from . import suite
from .contest import Setting, System, answer, prepare, process, seconds

GROUPS = {
    "matrix products": ("mm", "addmm", "addmm_", "bmm", "baddbmm", "_scaled_dot_product"),
    "softmax and loss": ("_softmax", "_log_softmax", "exp", "exp_", "logsumexp", "gather", "scatter"),
    "norms": ("native_layer_norm",),
    "dropout": ("bernoulli_", "random_", "native_dropout"),
}
"""Names of operators without ``aten::``, or the beginnings of names that go on with an underscore."""

OPTIMIZER, ELEMENTWISE, PYTHON = "optimizer", "other operators", "Python and autograd"
COLUMNS = (*GROUPS, ELEMENTWISE, OPTIMIZER, PYTHON)

# Operators of the criterion in chunks and of attention on a CPU that PyTorch's counter does not know. It calls each
# function with the shapes of the operator's arguments.
_MORE = {
    torch.ops.aten.addmm_: lambda _, a, b, **more: 2 * a[0] * a[1] * b[1],
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda query, key, value, *more, **named: sdpa_flop_count(query, key, value)
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, query, key, value, *more, **named: sdpa_backward_flop_count(grad, query, key, value)
    ),
}


def operations(run: Callable[[], Any]) -> int:
    """The floating-point operations of a call in its matrix products, of which a multiply-add is two."""
    with FlopCounterMode(display=False, custom_mapping=_MORE) as counter:
        run()
    return counter.get_total_flops()


def group(name: str, ancestors: Sequence[str]) -> str:
    """The group of an event of PyTorch's profiler.

    Args:
        name: the event's, such as ``aten::mm``.
        ancestors: the names of the events in which it happened.
    """
    if any(each.startswith("Optimizer.step") for each in (name, *ancestors)):
        return OPTIMIZER
    if not name.startswith("aten::"):
        return PYTHON
    operator = name.removeprefix("aten::")
    for found, names in GROUPS.items():
        if operator in names or operator.startswith(tuple(f"{each}_" for each in names)):
            return found
    return ELEMENTWISE


def times(run: Callable[[], Any]) -> dict[str, float]:
    """The seconds of a call by group; they add up to the time of the call under the profiler."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        elapsed = seconds(run, "cpu")
    found: dict[str, float] = defaultdict(float)
    for event in profiled.events():
        ancestors, parent = [], event.cpu_parent
        while parent is not None:
            ancestors.append(parent.name)
            parent = parent.cpu_parent
        found[group(event.name, ancestors)] += event.self_cpu_time_total / 1e6
    found[PYTHON] += elapsed - sum(found.values())
    return {name: round(found[name], 5) for name in COLUMNS}


def _send(connection: Any, system: System, setting: Setting) -> None:
    _, run = prepare(system, setting)
    for _ in range(2):
        run()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler logs its start and its end
    connection.send({"operations": operations(run), "seconds": times(run)})


def measure(systems: dict[str, System], setting: Setting) -> dict[str, Any]:
    """Profile systems one after the other, each in a process of its own; the first is the baseline."""
    found = {}
    for name, system in systems.items():
        with process(_send, system, setting) as worker:
            found[name] = answer(worker, name)
    return found


def table(record: dict[str, Any]) -> str:
    """A record as Markdown."""
    setting, (read, where) = record["setting"], suite.measured_on(record)
    title = f"**profile** of {setting['what']}, in milliseconds; {read}, {setting['precision']}, {where}"
    baseline = next(iter(record["systems"].values()))
    rows = [
        (
            name,
            f"{found['operations'] / 1e9:.1f}",
            f"{baseline['operations'] / found['operations']:.2f}",
            *(f"{1000 * found['seconds'][column]:,.0f}" for column in COLUMNS),
            f"{1000 * sum(found['seconds'].values()):,.0f}",
        )
        for name, found in record["systems"].items()
    ]
    head = ("system", "10^9 operations", "speed by arithmetic alone", *COLUMNS, "all")
    return f"{title}\n\n{markdown.table(head, rows)}"
