"""What the doctor says, of a machine that has everything and of one that has not."""

from unittest.mock import Mock

from ode_transformer import machine, requirements
from ode_transformer.experiments import cli
from ode_transformer.experiments.cli import doctor


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_what_is_here(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ODE_TRANSFORMER_DATA", str(tmp_path))
    monkeypatch.setenv("M2SCORER", "python2 m2scorer.py")
    monkeypatch.delenv("COMET_MODEL", raising=False)
    monkeypatch.setattr(machine, "commit", lambda: "")
    assert cli.main(["doctor"]) == 0
    found = lines(capsys)
    assert "M2SCORER=python2 m2scorer.py" in found
    assert "COMET_MODEL is not set: scores by COMET need it, the checkpoint of a model" in found
    assert f"ODE_TRANSFORMER_DATA={tmp_path}" in found
    assert any(line.startswith("fairseq-fixed 0.12") for line in found)
    assert any("of free disk" in line for line in found)


def test_a_library_that_is_missing_is_a_problem(monkeypatch, capsys):
    absent = OSError("libcudart.so.13: cannot open shared object file")
    monkeypatch.setattr(requirements, "check_requirements", Mock(side_effect=absent))
    assert cli.main(["doctor"]) == 1
    found = lines(capsys)
    assert f"PROBLEM: {absent}" in found and len(found) > 5


def test_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ODE_TRANSFORMER_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("COMET_MODEL", str(tmp_path))
    absent = Mock(side_effect=ImportError("ode_transformer needs fairseq"))
    monkeypatch.setattr(requirements, "check_requirements", absent)
    monkeypatch.setattr(machine, "commit", lambda: "")
    monkeypatch.setattr(doctor, "OPTIONAL", {"no_such_package": ("nothing", "pip install it")})
    assert cli.main(["doctor"]) == 1
    found = lines(capsys)
    assert "PROBLEM: ode_transformer needs fairseq" in found
    assert f"PROBLEM: ODE_TRANSFORMER_DATA={tmp_path}/none: no such folder" in found
    assert f"PROBLEM: COMET_MODEL={tmp_path}: no such file" in found, "but a folder"
    assert "no_such_package is missing: nothing; pip install it" in found


def test_a_command_without_fairseq_names_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr(cli, "call", Mock(side_effect=ImportError("No module named 'fairseq'")))
    absent = Mock(side_effect=ImportError("fairseq cannot be imported; pip install it"))
    monkeypatch.setattr(requirements, "check_requirements", absent)
    assert cli.main(["average"]) == 1 and "error: fairseq cannot be imported" in capsys.readouterr().err
