"""What a run of the tests may cost: threads and minutes. And a fixture that several files share."""

import contextlib
import os
import sys
import time
from collections import Counter

# Models of these sizes lose by a second thread: OpenMP's waiting costs more than the work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

# absl, which rouge-score imports, keeps the stderr of its first import and closes it when logging is configured anew,
# unless that is the real one: it would close what pytest captures.
with contextlib.suppress(ImportError), contextlib.redirect_stderr(sys.__stderr__):
    import absl.logging  # noqa: F401

LEFT = Counter()
"""Tests of each file that were skipped when the time was over."""

BEGIN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, metavar="N", help="after N minutes skip what is left, and say what it is")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - BEGIN > 60 * minutes:
        LEFT[item.nodeid.partition("::")[0]] += 1
        pytest.skip("the time is over")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Under pytest-xdist its workers count, and report when they end."""
    LEFT.update(getattr(node, "workeroutput", {}).get("left", {}))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = dict(LEFT)


def pytest_terminal_summary(terminalreporter):
    if LEFT:
        terminalreporter.write_line(f"not run, for the time is over: {LEFT.total()} tests", yellow=True)
        for file, left in LEFT.items():
            terminalreporter.write_line(f"{left:6}  {file}", yellow=True)


@pytest.fixture
def fresh_compiler():
    """Nothing compiled before this test, nor left by it."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()
