"""What a run of the tests may cost: threads, minutes, configurations. And fixtures that several files share."""

import contextlib
import copy
import functools
import os
import signal
import sys
import time

# Models of these sizes lose by a second thread: OpenMP's waiting costs more than the work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

# absl, which rouge-score imports, keeps the stderr of its first import and closes it when logging is configured anew,
# unless that is the real one: it would close what pytest captures.
with contextlib.suppress(ImportError), contextlib.redirect_stderr(sys.__stderr__):
    import absl.logging  # noqa: F401

BEGIN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, metavar="N", help="after N minutes skip what is left, and say what it is")


def pytest_configure(config):
    if config.getoption("--minutes") is not None:  # whoever limits the time interrupts, also where that is ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - BEGIN > 60 * minutes:
        pytest.skip(f"{item.nodeid.partition('::')[0]}: the time is over")  # pytest's summary counts them by reason


def pytest_collection_finish(session):
    """Let hydra, which takes a second for each of fairseq's configurations, do once what is the same in most of them.

    It parses 340 words, and copies all that is registered; a run asks for the same configuration twice.
    """
    if "fairseq.dataclass.utils" not in sys.modules:
        return
    from fairseq.dataclass import utils
    from hydra.core.config_store import ConfigStore
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parse, compose = functools.cache(OverridesParser.create().parse_rule), utils.compose
    OverridesParser.parse_rule = lambda self, text, rule: copy.copy(parse(text, rule))
    ConfigStore.__deepcopy__ = lambda self, memo: self  # what is loaded from it is copied, too
    composed = functools.lru_cache(8)(lambda name, words: compose(name, overrides=list(words), strict=False))
    utils.compose = lambda name, overrides, strict: copy.deepcopy(composed(name, tuple(overrides)))


@pytest.fixture
def fresh_compiler():
    """Nothing compiled before this test, nor left by it."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder that runs and records are looked for in, in place of this repository's."""
    from ode_transformer import paths
    from ode_transformer.experiments import recipes

    for place in (paths, recipes):
        monkeypatch.setattr(place, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def fails(capsys):
    """What a command of ours that ends with status 1 says."""
    from ode_transformer.experiments import cli

    def call(*words) -> str:
        capsys.readouterr()
        assert cli.main(list(map(str, words))) == 1
        return capsys.readouterr().err

    return call
