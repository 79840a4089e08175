"""Models of these sizes lose by a second thread: OpenMP's waiting costs more than the work."""

import multiprocessing.util
import os
import sys
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

# Processes that tests start: the dear part of them, a Python process with fairseq takes seconds to start.
STARTED = Counter()


def count(event: str = "", arguments: tuple = ()) -> None:
    if event in ("", "subprocess.Popen", "os.system", "os.fork") and "PYTEST_CURRENT_TEST" in os.environ:
        STARTED[os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]] += 1


def pytest_addoption(parser):
    help_ = "fail if the tests start more processes than these"
    parser.addoption("--most-processes", type=int, metavar="N", help=help_)


def pytest_configure(config):
    spawn = multiprocessing.util.spawnv_passfds

    def spawn_and_count(*words):
        count()
        return spawn(*words)

    multiprocessing.util.spawnv_passfds = spawn_and_count
    sys.addaudithook(count)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """With pytest-xdist each of its workers counts."""
    STARTED.update(getattr(node, "workeroutput", {}).get("started", {}))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["started"] = dict(STARTED)
        return
    most = session.config.getoption("--most-processes")
    if most is not None and STARTED.total() > most and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    most = config.getoption("--most-processes")
    terminalreporter.write_line(f"processes started: {STARTED.total()}" + (f", at most {most}" if most else ""))
    if most is not None and STARTED.total() > most:
        for test, started in STARTED.most_common():
            terminalreporter.write_line(f"  {started}  {test}", red=True)


@pytest.fixture
def fresh_compiler():
    """Nothing compiled before this test, nor left by it."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()
