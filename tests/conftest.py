"""Models of these sizes lose by a second thread: OpenMP's waiting costs more than the work."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture
def fresh_compiler():
    """Nothing compiled before this test, nor left by it."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()
