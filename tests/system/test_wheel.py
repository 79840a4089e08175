"""The package as a wheel installs it: in an empty folder, without the clone, everything that a user does works."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml

from tests.helpers import ROOT, environment

SOURCES = ("ode_transformer", "configs", "data-prep", "scripts", "setup.py", "pyproject.toml", "README.md", "LICENSE")
SMALL = {
    **{f"{side}-{name}": 16 for side in ("encoder", "decoder") for name in ("embed-dim", "ffn-embed-dim")},
    **{"encoder-layers": 1, "decoder-layers": 1, "max-epoch": 1},
}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What is installed, a folder to work in, and a function that runs a command there."""
    source, site, work = (tmp_path_factory.mktemp(name) for name in ("source", "site", "work"))
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(source / "dist"), str(source)]
    subprocess.run([*pip, *build], check=True)
    (built,) = (source / "dist").glob("*.whl")
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(built)], check=True)
    shutil.rmtree(source)

    def run(*words, **variables):
        env = {**environment(), "PYTHONPATH": str(site), **variables}
        done = subprocess.run(list(map(str, words)), cwd=work, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ours = (sys.executable, "-m", "ode_transformer")
    share = site / "ode_transformer" / "_share"
    return SimpleNamespace(site=site, share=share, work=work, run=run, ours=lambda *words: run(*ours, *words))


def test_recipes_and_scripts_are_part_of_it(wheel):
    assert wheel.ours("path").strip() == str(wheel.site / "ode_transformer")
    places = {"ode_transformer": wheel.site, **dict.fromkeys(("configs", "data-prep", "scripts"), wheel.share)}
    for name, place in places.items():
        files = [path.relative_to(ROOT) for path in (ROOT / name).rglob("*.*") if path.suffix != ".pyc"]
        assert files and all((place / path).exists() for path in files)
    assert "quickstart/macaron-tiny  " in wheel.ours("recipe", "list", "quickstart")
    shown = wheel.ours("recipe", "show", "quickstart/macaron-tiny")
    assert f"\n{wheel.share}/data-prep/prepare-quickstart.sh\n" in shown
    assert "| Macaron Net | 35.4 |" in wheel.ours("table", "macaron/iwslt14-de-en"), "where no results are"


@pytest.mark.full
def test_from_nothing_to_a_translation_in_the_current_folder(wheel):
    """A recipe of one's own starts from one of ours; its data and its run lie beside it, and own text does."""
    rows = {
        "short": {
            "train": {"arch": "macaron_tiny", "flags": SMALL},
            "average": {"last_epochs": 1},
            "generate": {"beam": 1, "flags": {"max-len-a": 0, "max-len-b": 2}},
        }
    }
    (wheel.work / "mine.yaml").write_text(yaml.safe_dump({"extends": "quickstart.yaml", "rows": rows}))
    wheel.ours("run", "mine.yaml/short", "--cpu")
    assert (wheel.work / "runs" / "mine" / "short" / "record.json").is_file()
    text = wheel.work / "data-bin" / "quickstart.de-en.text" / "bpe"
    wheel.ours("prepare", "--train", text / "valid", "--langs", "de", "en", "--out", "data-bin/own", "--size", 300)
    assert "own/transformer-tiny\n" in wheel.ours("recipe", "check", "data-bin/own.yaml")
    wheel.ours("run", "data-bin/own.yaml/macaron-tiny", "--until", "average", "--cpu", "--", *FLAGS, "--max-epoch", 5)
    (wheel.work / "new.de").write_text("Der Hund schläft.\n")
    assert wheel.ours("translate", "runs/own/macaron-tiny", "new.de", "--cpu").count("\n") == 1
    assert sorted(path.name for path in wheel.work.iterdir()) == ["data-bin", "mine.yaml", "new.de", "runs"]


def test_corpora_are_prepared_from_raw_text(wheel, tmp_path):
    for split, lines in (("train", 42_068), ("valid", 3_370), ("test", 3_761)):
        (tmp_path / f"ptb.{split}.txt").write_text(lines * "a b\n")
    wheel.run(wheel.share / "data-prep" / "prepare-ptb.sh", "--workers", 1, RAW_DIR=str(tmp_path))
    assert (wheel.work / "data-bin" / "ptb" / "dict.txt").is_file()
