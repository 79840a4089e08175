"""How the package is found: by --user-dir in every form that fairseq knows, by import, and when it cannot work."""

import subprocess
import sys
import types

import pytest

from ode_transformer import requirements
from tests.helpers import ROOT, USER_DIR, environment


def python(code, cwd=ROOT, path=""):
    env = {**environment(), "PYTHONPATH": str(path)}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True)


@pytest.mark.full
@pytest.mark.parametrize(
    ("user_dir", "before"),
    [
        *((form, "") for form in ("ode_transformer", "ode_transformer/", USER_DIR)),
        *((USER_DIR, f"import {name}") for name in ("ode_transformer", "ode_transformer.models")),
    ],
)
def test_by_user_dir_from_a_clone(user_dir, before):
    code = f"""
import argparse
from fairseq import utils
{before}
utils.import_user_module(argparse.Namespace(user_dir={user_dir!r}))
from fairseq.models import ARCH_MODEL_REGISTRY
assert "macaron_tiny" in ARCH_MODEL_REGISTRY
import ode_transformer
print(ode_transformer.__file__)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(USER_DIR)


def test_the_command_line_imports_little_and_prints_nothing(tmp_path):
    """That of the models prints nothing, too, and takes the place of --user-dir: a test of two ranks holds it."""
    code = """
import sys
import ode_transformer, ode_transformer.experiments.cli
assert not {"torch", "fairseq", "numpy"} & set(sys.modules)
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.results import tables
from ode_transformer.experiments.runs import plan, runner
from ode_transformer.experiments.serving import opening, translate
from ode_transformer.experiments.text import command
from ode_transformer.experiments.metrics import scoring
for name in set(cli.COMMANDS) - {"bench", "gpu-suite", "lab"}:
    cli.parser(name)
assert not {"torch", "fairseq", "scipy", "joblib"} & set(sys.modules), "help, scoring and an exported model need none"
"""
    done = python(code, cwd=tmp_path, path=ROOT)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


BROKEN = ValueError("mutable default <class 'fairseq.dataclass.configs.CommonConfig'> for field common")


@pytest.mark.parametrize(
    ("torch", "fairseq", "message"),
    [
        ("1.13.0+cu117", None, r"torch>=2\.6.*1\.13\.0.*pip install 'torch>=2\.6'"),
        ("2.13.0+cpu", BROKEN, r"mutable default.*fairseq-fixed==0\.12\.3\.1"),
        ("2.13.0+cpu", types.SimpleNamespace(__path__=["here"]), r"folder \['here'\], which hides the installed"),
    ],
)
def test_what_is_absent_broken_or_too_old_is_named_with_the_remedy(monkeypatch, torch, fairseq, message):
    def import_module(name):
        if name == "torch":
            return types.SimpleNamespace(__version__=torch)
        if isinstance(fairseq, Exception):
            raise fairseq
        return fairseq

    monkeypatch.setattr(requirements.importlib, "import_module", import_module)
    with pytest.raises(ImportError, match=message):
        requirements.check_requirements()


def test_an_unfit_fairseq_is_named_where_a_model_is_loaded(tmp_path):
    (tmp_path / "fairseq").mkdir()
    (tmp_path / "fairseq" / "__init__.py").write_text("raise ValueError('mutable default')")
    done = python("import ode_transformer.checkpoints", path=f"{tmp_path}:{ROOT}")
    assert "ImportError: fairseq cannot be imported (ValueError: mutable default)" in done.stderr
