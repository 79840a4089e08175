"""A training on a CPU begins with as many threads as there are free cores, or with the user's number."""

import os
import time

import pytest

from ode_transformer import processors


@pytest.fixture
def machine(monkeypatch):
    """A machine of as many processors as shares are given, each of them idle for its share of a second."""

    def make(*idle, quota="max 100000", siblings=()):
        ticks = [0]

        def text(path):
            if path.endswith("thread_siblings_list"):
                processor = path.split("/")[5].removeprefix("cpu")
                return next((f"{','.join(core)}\n" for core in siblings if processor in core), "")
            if path != "/proc/stat":
                return quota
            shares = [(round(ticks[0] * share), round(ticks[0] * (1 - share))) for share in idle]
            lines = [f"cpu{i} {1000 + busy} 0 0 {500 + free} 7 0 0 0 {busy} 0" for i, (free, busy) in enumerate(shares)]
            return "\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *lines, "intr 7", ""])

        monkeypatch.setattr(processors, "text", text)
        monkeypatch.setattr(time, "sleep", lambda _: ticks.__setitem__(0, ticks[0] + 100))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(len(idle))), raising=False)

    return make


CORES = [("0", "4"), ("1", "5"), ("2", "6"), ("3", "7")]


@pytest.mark.parametrize(
    ("idle", "siblings", "free", "count"),
    [
        ([0.95, 0.97], (), 2, 2),
        ([0.5, 0.5], (), 1, 2),
        ([0.7, 0.9], (), 1, 2),
        ([0, 0], (), 1, 2),
        ([1] * 6 + [0.05] * 2, (), 6, 8),
        # A core is as free as the busiest of its processors: a busier machine gets fewer threads than an idle one.
        ([1] * 8, CORES, 4, 4),
        ([0] + [1] * 7, CORES, 3, 4),
        ([0, 1, 1, 1, 0, 1, 1, 1], CORES, 3, 4),
    ],
)
def test_what_is_free(machine, idle, siblings, free, count):
    machine(*idle, siblings=siblings)
    assert processors.free() == (free, count)
    variables, told = processors.threads({})
    assert variables == ({} if free == count else {"OMP_NUM_THREADS": str(free)})
    assert "OMP_NUM_THREADS" in told and f"{count} cores" in told


def test_a_containers_quota_is_a_bound_and_the_users_number_stays(machine):
    machine(1, 1, 1, 1, quota="250000 100000")
    assert processors.threads({})[0]["OMP_NUM_THREADS"] == "2"
    variables, told = processors.threads({"OMP_NUM_THREADS": "5"})
    assert not variables and "OMP_NUM_THREADS says, 5" in told


def test_processors_that_do_not_tell_leave_the_number_to_pytorch(machine, monkeypatch):
    """Counters that stand still, or that are of other processors, are no load; without Linux there are none."""
    machine(1, 0, 1, 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3})
    assert (processors.allowed(), processors.free()) == (2, (1, 2)), "processors of others do not count"
    machine(1, 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 6})
    variables, told = processors.threads({})
    assert variables == {} and "no count of free cores" in told
    machine(0, 0)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert processors.free() is None
    monkeypatch.setattr(processors, "text", lambda path: "")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processors.free() is None


def test_the_largest_cache_is_the_last_level(monkeypatch):
    """As Linux writes them; without its files the size is unknown."""
    sizes = {0: "32K\n", 1: "48K\n", 2: "1024K\n", 3: "36M\n", 4: "?"}
    monkeypatch.setattr(processors, "text", lambda path: sizes.get(int(path.split("/index")[1][0]), ""))
    assert processors.cache() == 36 * 2**20
    monkeypatch.setattr(processors, "text", lambda path: "")
    assert processors.cache() == 0
