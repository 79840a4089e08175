"""What a recipe says of the download, the disk and the time that its run takes, where that is known."""

import json
import re
import subprocess
from dataclasses import replace

import pytest

from ode_transformer import machine
from ode_transformer.experiments import recipes
from ode_transformer.experiments.runs import estimates
from tests.helpers import run_record

HERE = {"processor": "P", "cores": 2, "memory_gib": 9, "gpus": []}


def write(root, name, **training):
    training = {"parameters": 10**6, "curve": [{"num_updates": 500}], "seconds": 900.0, **training}
    record = run_record(devices=1, hardware=HERE, training=training)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))


def test_a_record_tells_what_a_run_takes(tmp_path, monkeypatch):
    recipe = replace(
        recipes.load("multi30k-full/macaron-tiny"), seeds=[]
    )  # 8,000 updates; the checkpoints of ten epochs are kept
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(estimates, "SHARE", tmp_path)
    monkeypatch.setattr(machine, "hardware", lambda: HERE | {"memory_gib": 7})
    assert estimates.lines(recipe) == []
    name = "results/multi30k-full/macaron-tiny.json"
    write(tmp_path, name)
    disk, time = estimates.lines(recipe)
    assert disk.startswith(f"# disk: about {(12 * 12 + 4) * 1e6 / 2**30:.1f} GiB for 12 checkpoints") and name in disk
    assert "about 2,000 updates per hour" in time and f"4.0 hours for 8,000 ({name})" in time and "fp32" in time
    total = estimates.lines(replace(recipe, seeds=[1, 2, 3]))[2]
    assert total.startswith("# total: 3 trainings of up to 8,000 updates, about 0.4 GiB") and "about 12.0 h" in total
    # Of another machine, in part or all of it, the room alone is known; a run of one's own counts first.
    write(tmp_path, name, trained_on=[{"hardware": HERE}, {"hardware": HERE | {"gpus": ["G"]}}])
    assert estimates.lines(recipe) == [disk]
    write(tmp_path, "results/multi30k-full/macaron-tiny.seed-2.json", seconds=1800.0)
    assert "1,000 updates per hour" in estimates.lines(recipe)[1]
    write(tmp_path, "runs/multi30k-full/macaron-tiny/record.json", trained_on=[{"hardware": HERE}])
    assert "(runs/multi30k-full/macaron-tiny/record.json)" in estimates.lines(recipe)[1]
    # What a CPU took beside a GPU is no speed of that.
    monkeypatch.setattr(machine, "hardware", lambda: HERE | {"gpus": ["G"]})
    write(tmp_path, name, trained_on=[{"hardware": HERE | {"gpus": ["G"]}}])
    assert "1 x G" in estimates.lines(recipe)[1]
    record = json.loads((tmp_path / name).read_text()) | {"command": "fairseq-train data --cpu"}
    (tmp_path / name).write_text(json.dumps(record))
    assert len(estimates.lines(recipe)) == 1


def test_checkpoints_are_counted_by_kind(tmp_path, monkeypatch):
    recipe = recipes.load("multi30k-full/macaron-tiny")
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(estimates, "SHARE", tmp_path)
    write(tmp_path, "results/multi30k-full/macaron-tiny.json")
    for flags, count in (
        ({"keep-last-epochs": 5}, 7),
        ({"keep-last-epochs": 5, "keep-best-checkpoints": 3}, 10),
        ({"keep-last-epochs": 5, "save-interval-updates": 10, "keep-interval-updates": 4}, 11),
        ({"no-epoch-checkpoints": True}, 2),
        ({"keep-last-epochs": None}, None),
        ({"keep-best-checkpoints": 3}, None),
        ({"keep-last-epochs": 5, "save-interval-updates": 10}, None),
    ):
        asked = replace(recipe, train=replace(recipe.train, flags=flags))
        shown = "".join(line for line in estimates.lines(asked) if line.startswith("# disk"))
        assert f"for {count} checkpoints" in shown if count else not shown, flags


def test_what_is_no_record_tells_nothing(tmp_path, monkeypatch):
    recipe = recipes.load("quickstart/macaron-tiny")
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(estimates, "SHARE", tmp_path)
    for training in ({"seconds": 0}, {"curve": []}, {"seconds": "x"}):
        write(tmp_path, "results/quickstart/macaron-tiny.json", **training)
        assert estimates.lines(recipe) == []
    (tmp_path / "results/quickstart/macaron-tiny.json").write_text("[")
    assert estimates.lines(recipe) == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], []),
        (["known.tgz"], ["# download: about 3 MiB in 1 file"]),
        (
            ["known.tgz", "known.tar", "x.zip"],
            ["# download: about 5 MiB in 2 files; the size of x.zip is unknown"],
        ),
        ([f"{i}.gz" for i in range(6)], ["# download: the size of 6 files is unknown"]),
        (["x.zip", "summed.tgz"], ["# download: the size of x.zip, summed.tgz is unknown"]),
    ],
)
def test_a_download_is_what_the_script_would_fetch(tmp_path, monkeypatch, names, said):
    recipe = replace(recipes.load("ode/wmt14-en-de/rk2"), seeds=[1])
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(estimates, "SHARE", tmp_path)
    script = tmp_path / recipe.data.prepare.split()[0]
    (script.parent / "checksums").mkdir(parents=True)
    script.touch()
    rows = ["# SHA-256, file, bytes", f"00  known.tgz  {3 * 2**20}", f"-  known.tar  {2 * 2**20}", "00  summed.tgz  -"]
    (tmp_path / estimates.ARCHIVES).write_text("\n".join(rows))
    asked = []

    def run(words, **options):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, "".join(f"{name}\n" for name in names), "")

    monkeypatch.setattr(estimates.subprocess, "run", run)
    assert estimates.lines(recipe) == said
    assert asked == [[str(script), "--downloads", *recipe.data.prepare.split()[1:]]]


def test_scripts_that_a_script_calls_are_asked_as_well(tmp_path, monkeypatch):
    """But no programs of others; and nothing is written."""
    for name in ("RAW_DIR", "ODE_TRANSFORMER_DATA", "ROBERTA_DIR"):
        monkeypatch.delenv(name, raising=False)
    mine = tmp_path / "mine.sh"
    mine.write_text("#!/bin/sh\necho mine\n")
    mine.chmod(0o755)
    before = sorted((recipes.ROOT / "data-bin").glob("*"))
    roberta = ["roberta.base.tar.gz", "encoder.json", "vocab.bpe"]
    long = ["data-prep/prepare-short-to-long.sh", str(tmp_path / "x"), "--prepared-by"]
    for words, names in (
        (["data-prep/prepare-glue.sh", "rte", "--like", str(tmp_path / "roberta.base")], [*roberta, "RTE.zip"]),
        ([*long, "data-prep/prepare-iwslt14-de-en.sh"], ["de-en.tgz"]),
        ([*long, str(mine)], []),
        ([*long, f"env BASH_ENV={mine} {recipes.ROOT}/data-prep/prepare-iwslt14-de-en.sh"], []),
    ):
        assert estimates._fetched([*words, "--out", str(tmp_path / "out")]) == names
    assert sorted(tmp_path.iterdir()) == [mine] and sorted((recipes.ROOT / "data-bin").glob("*")) == before
    monkeypatch.setenv("RAW_DIR", str(tmp_path))  # what it lacks is downloaded
    words = ["data-prep/prepare-iwslt14-de-en.sh", "--out", str(tmp_path / "out")]
    assert estimates._fetched(words) == ["de-en.tgz"]
    (tmp_path / "de-en.tgz").touch()
    assert estimates._fetched(words) == []


@pytest.mark.parametrize(
    "prepare",
    [
        "./mine.sh --out x",
        "python -m x",
        "data-prep/../mine.sh",
        "data-prep/none.sh",
        "env BASH_ENV=mine.sh data-prep/prepare.sh",
        "BASH_ENV=mine.sh data-prep/prepare.sh",
    ],
)
def test_nothing_is_run_but_the_scripts_of_the_repository(tmp_path, monkeypatch, prepare):
    """A script of somebody's own may not know --dry-run, and variables may make one of ours run another."""
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(estimates, "SHARE", tmp_path)
    monkeypatch.setattr(estimates.subprocess, "run", None)
    (tmp_path / "data-prep").mkdir()
    for name in ("mine.sh", "data-prep/prepare.sh"):
        (tmp_path / name).touch()
    recipe = recipes.load("quickstart/macaron-tiny")
    assert estimates.lines(replace(recipe, data=replace(recipe.data, prepare=prepare))) == []


def test_the_list_of_archives_has_a_checksum_or_a_size_of_each():
    rows = [line.split("  ") for line in (recipes.ROOT / estimates.ARCHIVES).read_text().splitlines() if line[0] != "#"]
    assert len({file for _, file, _ in rows}) == len(rows) > 10
    for digest, _, size in rows:
        assert (
            re.fullmatch("[0-9a-f]{64}|-", digest) and re.fullmatch("[1-9][0-9]*|-", size) and {digest, size} != {"-"}
        )
