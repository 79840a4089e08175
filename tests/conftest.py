"""What a run of the tests may cost: threads, processes, minutes. And a fixture that several files share."""

import contextlib
import multiprocessing.util
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

STARTED = Counter()
"""Processes that each test started, by the program: a Python process takes seconds to import fairseq."""

LEFT = Counter()
"""Tests of each file that were skipped when the time was over."""

BEGIN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--most-processes", type=int, metavar="N", help="fail if the tests start more processes than N")
    parser.addoption("--minutes", type=float, metavar="N", help="after N minutes skip what is left, and say what it is")


def count(event: str, arguments: tuple) -> None:
    if event in ("spawn", "subprocess.Popen", "os.system", "os.fork") and "PYTEST_CURRENT_TEST" in os.environ:
        test, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")
        program = os.fsdecode(arguments[0]).split(" ")[0] if arguments else event
        STARTED[f"{test}: {os.path.basename(program)}"] += 1


def pytest_configure():
    spawn = multiprocessing.util.spawnv_passfds  # which tells no audit hook

    def spawn_and_count(*words):
        count("spawn", words)
        return spawn(*words)

    multiprocessing.util.spawnv_passfds = spawn_and_count
    sys.addaudithook(count)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - BEGIN > 60 * minutes:
        LEFT[item.nodeid.partition("::")[0]] += 1
        pytest.skip("the time is over")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Under pytest-xdist its workers count, and report when they end."""
    for counter, counted in zip((STARTED, LEFT), getattr(node, "workeroutput", {}).get("counted", ()), strict=False):
        counter.update(counted)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counted"] = [dict(STARTED), dict(LEFT)]
        return
    most = session.config.getoption("--most-processes")
    if most is not None and STARTED.total() > most and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    most = config.getoption("--most-processes")
    terminalreporter.write_line(f"processes started: {STARTED.total()}" + (f", at most {most}" if most else ""))
    if most is not None and STARTED.total() > most:
        for what, started in STARTED.most_common():
            terminalreporter.write_line(f"{started:6}  {what}", red=True)
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
