"""Plugins: methods that are registered outside this package, and work in all of it."""

import contextlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ode_transformer import config, machine, plugins
from ode_transformer.experiments import cli, runs
from ode_transformer.experiments.bench import turns
from ode_transformer.experiments.runs import command_lines
from ode_transformer.files import write_text
from ode_transformer.models.ode import OdeConfig
from tests.helpers import ROOT, SMALL, environment, raises, write_parallel

PLUGIN = Path(__file__).parent / "my_methods"

# In a process that has not imported the models: commands, then the bundle that they end with.
COMMANDS = """
import json, sys
import ode_transformer
from ode_transformer.experiments import cli, runs

*commands, bundle, plugin = json.loads(sys.argv[1])
assert not any(map(cli.main, commands))
print("again", *ode_transformer.load(bundle, user_dir=plugin, device="cpu").translate(["a b c"], beam=1), sep="|")
from ode_transformer.numerics.integrators import INTEGRATORS
print("order", INTEGRATORS["ssp3"].order)
"""


@pytest.mark.full
def test_an_integrator_goes_from_a_recipe_to_a_bundle(tmp_path, fails):
    """What docs/extending.md shows. No file loads the plugin that it was made with: in this process, nothing does."""
    raw = write_parallel(tmp_path / "raw")
    shutil.copytree(PLUGIN, tmp_path / "my_methods")
    words = ["prepare", "--train", raw / "train", "--langs", "xx", "yy", "--out", tmp_path / "mine"]
    words += ["--tokeniser", "none", "--bpe", "none", "--valid", raw / "valid", "--test", raw / "test"]
    assert cli.main(list(map(str, words))) == 0
    flags = {**SMALL, "max-epoch": 1, "max-tokens": 200, "num-workers": 0}
    recipe = {"train": {"arch": "ssp3_tiny", "flags": flags}, "average": {"last_epochs": 1}}
    recipe["generate"] = {"beam": 1, "flags": {"max-len-a": 0, "max-len-b": 3}}
    recipe["score"] = {"metrics": ["length_ratio"]}
    tree = {"extends": "mine.yaml", "user_dir": "my_methods", "rows": {"ssp3": recipe}}
    (tmp_path / "methods.yaml").write_text(yaml.safe_dump(tree))
    name, run, bundle = f"{tmp_path}/methods.yaml/ssp3", str(tmp_path / "run"), str(tmp_path / "bundle")
    (tmp_path / "new.xx").write_text("a b c\n")

    said = fails("recipe", "check", f"{tmp_path}/methods.yaml")
    assert "needs the plugin my_methods: give --user-dir" in said
    commands = [
        ["run", name, "--run-dir", run, "--cpu"],
        ["table", f"{tmp_path}/methods.yaml", "--results", run],
        ["translate", run, str(tmp_path / "new.xx"), "--cpu", "--beam", "1", "-o", str(tmp_path / "new.yy")],
        ["bundle", run, "-o", bundle],
    ]
    words = [sys.executable, "-c", COMMANDS, json.dumps([*commands, bundle, str(tmp_path / "my_methods")])]
    env = {**environment(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    translated = (tmp_path / "new.yy").read_text()
    assert done.stdout.endswith(f"again|{translated}order 3\n")
    described = plugins.name_and_hash(PLUGIN)
    for path in ("run.json", "record.json"):
        found = json.loads((tmp_path / "run" / path).read_text())
        assert found["plugin"] == described and found["model"]["integrator"] == "ssp3"
    (scores,) = found["scores"].values()
    endless = scores["endless"]["sentences"]
    assert f"| ssp3 | 0.00 | {endless} | {scores['length_ratio']['value']:.2f} |" in done.stdout
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert "trained with the plugin `my_methods`" in card
    assert "translate --user-dir my_methods FOLDER" in card and 'load("FOLDER", user_dir="my_methods")' in card

    for model in (run, f"{run}/average.pt", bundle):
        error = fails("translate", model, tmp_path / "new.xx", "--cpu")
        assert "needs the plugin my_methods: give --user-dir, its folder" in error, model
    error = fails("--user-dir", tmp_path / "my_methods", "translate", bundle)
    assert "must be added before ode_transformer.models is imported" in error


def write_package(folder: Path, code: str = "") -> Path:
    write_text(folder / "__init__.py", code)
    return folder


def test_every_command_loads_the_plugin_that_it_is_given(tmp_path, monkeypatch, capsys):
    folder = write_package(tmp_path / "some_plugin", "import ode_transformer.models\nANSWER = 42\nprint('hello')\n")
    monkeypatch.chdir(tmp_path)
    for words in (["--user-dir", "some_plugin", "path"], ["path", f"--user-dir={folder}"]):
        assert cli.main(words) == 0
    assert sys.modules.pop("some_plugin").ANSWER == 42
    assert plugins.current() == "" and capsys.readouterr() == (f"{plugins.PACKAGE}\n" * 2, "hello\n")


def test_an_installed_plugin_may_be_named_too(tmp_path, monkeypatch):
    folder = write_package(tmp_path / "installed_plugin")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("installed_plugin")
    plugins.load(folder)
    assert not plugins.missing(str(folder))


@pytest.mark.full
def test_processes_of_benchmarks_load_the_plugin(tmp_path):
    code = "import os, pathlib\npathlib.Path(__file__).with_name(f'{os.getpid()}.pid').touch()\n"
    code += "import multiprocessing\nfrom ode_transformer.numerics.integrators import EULER, INTEGRATORS\n"
    code += "if multiprocessing.parent_process():\n    INTEGRATORS['new'] = EULER  # before the models\n"
    folder = write_package(tmp_path / "counted_plugin", code)
    with plugins.using(folder), contextlib.closing(turns.Process("rk2")) as process:
        process(print)
        assert len(list(folder.glob("*.pid"))) == 2


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("absent", None, "must be the folder of a package, but holds no __init__.py"),
        ("random", "", "has the name of a module of Python that is in use; rename the folder"),
        ("yaml", "", "cannot be loaded: .* is not globally unique. Please rename the directory"),
        ("plugin-1.2", "", "cannot be loaded: No module named 'plugin-1'"),
        ("needs_more", "import no_such_module\n", "cannot be loaded: No module named 'no_such_module'"),
    ],
)
def test_what_is_no_plugin_is_named(tmp_path, fails, name, code, message):
    if code is not None:
        write_package(tmp_path / name, code)
    assert re.search(f"--user-dir {tmp_path}/{name}: {message}", fails("--user-dir", tmp_path / name, "path"))


def test_a_plugin_that_does_not_import_the_models_cannot_train(tmp_path, monkeypatch):
    folder = write_package(tmp_path / "only_a_metric", "")
    monkeypatch.delitem(sys.modules, f"{plugins.PACKAGE.name}.models", raising=False)
    plugins.load(folder)  # as run does for a recipe that names it
    with pytest.raises(plugins.PluginError, match="must import"):
        command_lines.parsed(["fairseq-train", "data", "--user-dir", str(folder)])


def test_a_plugin_that_changed_is_noticed_and_one_that_moved_is_the_same(tmp_path):
    folder = write_package(tmp_path / "changing", "A = 1\n")
    run = {"plugin": plugins.name_and_hash(folder)}
    assert not runs.plugin_changed(run, str(folder))
    (folder / "__init__.py").write_text("A = 2\n")
    assert runs.plugin_changed(run, str(folder))
    there, here = (["fairseq-train", "d", "--user-dir", f"/{x}/my_methods"] for x in "ab")
    assert not command_lines.differing(there, here)


def test_a_plugin_that_was_mended_is_loaded_and_under_a_second_name_not_again(tmp_path):
    folder, other = write_package(tmp_path / "mended", "import no_such_module\n"), tmp_path / "other_name"
    raises("cannot be loaded", plugins.load, folder)
    (folder / "__init__.py").write_text("ANSWER = 1\n")
    plugins.load(folder)
    other.symlink_to(folder)
    plugins.load(other)
    assert sys.modules.pop("mended").ANSWER == 1 and "other_name" not in sys.modules


def test_what_an_installed_package_registers_is_loaded_with_the_models(tmp_path, monkeypatch):
    write_package(tmp_path / "their_methods", "")
    info = tmp_path / "their_package-1.5.dist-info"
    write_text(info / "METADATA", "Metadata-Version: 2.1\nName: their-package\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nanything = their_methods\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_points", None)
    monkeypatch.setattr(plugins, "_installed", {})
    plugins.load_installed()
    assert sys.modules.pop("their_methods") and plugins.installed() == ["their-package"]
    assert machine.versions()["their-package"] == "1.5"


def test_installed_packages_add_methods_before_one_of_them_imports_the_models(monkeypatch):
    loaded = []

    def point(name, import_):
        return SimpleNamespace(name=name, module=name, dist=None, load=lambda: (import_(), loaded.append(name)))

    points = [point("with_models", plugins.load_installed), point("with_methods", lambda: None)]  # as the models do
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(plugins, "_points", None)
    monkeypatch.setattr(plugins, "_installed", {})
    plugins.load_installed()
    assert loaded == ["with_methods", "with_models"]


def test_an_architecture_whose_name_is_taken_is_refused():
    before = config.PRESETS["rk2_tiny"]
    with pytest.raises(ValueError, match="rk2_tiny"):
        config.register_architectures("ode", OdeConfig, {"rk2_tiny": {"encoder_layers": 1}})
    assert config.PRESETS["rk2_tiny"] == before
