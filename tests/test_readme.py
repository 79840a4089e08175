"""What the README says is there, and its commands are ones that exist."""

import re

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY

from ode_transformer.experiments import cli, recipes
from ode_transformer.models import floater, ode
from ode_transformer.modules.attention import RELATIVE_POSITIONS
from ode_transformer.modules.history import HISTORIES
from ode_transformer.modules.options import ODE_FUNCTIONS, ODE_RESIDUALS
from ode_transformer.modules.positions import FLOW_SHARING, POSITION_BLOCKS, POSITION_ENCODERS
from ode_transformer.numerics.coefficients import COEFFICIENTS
from ode_transformer.numerics.flow import FLOW_GRADIENTS, FLOW_METHODS
from ode_transformer.numerics.integrators import INTEGRATORS
from tests.helpers import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_files_are_there():
    paths = re.findall(r"`((?:scripts|data-prep|ode_transformer|configs|results)/[\w./-]*)`", README)
    assert len(paths) > 8
    missing = [p for p in paths if not (ROOT / p).exists()]
    assert not missing


def test_architectures_are_registered():
    names = set(re.findall(r"`((?:macaron|rk[24]|ode|transevolve|transformer|floater)_[a-z_0-9]+|rk[24])`", README))
    assert len(names) > 15
    assert not [n for n in names if n not in ARCH_MODEL_REGISTRY]


def test_systems_and_choices_are_all_named():
    assert not [name for name in floater.ARCHITECTURES if f"`{name}`" not in README]
    assert not [name for name in ode.SYSTEMS if f"`{name}`" not in README]
    assert not [suffix for suffix in ode.SIZES if suffix and f"`{suffix}`" not in README]
    for choices in (INTEGRATORS, COEFFICIENTS, ODE_FUNCTIONS, ODE_RESIDUALS, HISTORIES, RELATIVE_POSITIONS,
                    POSITION_ENCODERS, POSITION_BLOCKS, FLOW_SHARING, FLOW_METHODS, FLOW_GRADIENTS):  # fmt: skip
        assert not [choice for choice in choices if f"`{choice}`" not in README]


def test_recipes_are_there():
    names = set(re.findall(r"(?:quickstart|short-to-long|multi30k-\w+)/[\w-]+", README))
    assert names and names <= set(recipes.names())


def test_no_placeholder_is_left():
    assert not re.findall(r"\b(?:RESULTS|CONTROL|TODO|TBD)\b", README)


def test_make_targets_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for target in map("".join, re.findall(r"^make (\w+)|`make (\w+)`", README, re.M)):
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0 and f"usage: ode-transformer {command}" in capsys.readouterr().out


def test_commands_are_there():
    assert set(re.findall(r"(?:`|^)ode-transformer ([a-z-]+)", README, re.M)) <= set(cli.COMMANDS)


def test_ci_calls_the_readmes_test_command():
    assert "make test" in README
    assert re.search(r"^make test$", (ROOT / ".ci" / "run").read_text(), re.M)
