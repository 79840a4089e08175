"""What a recipe says of the disk and the time that its run takes: what a record of this hardware says, or nothing."""

import json
from dataclasses import replace

from ode_transformer.experiments import estimates, recipes, runs

HERE = {"processor": "P", "cores": 2, "memory_gib": 9, "gpus": []}


def write(root, name, **training):
    training = {"parameters": 10**6, "curve": [{"num_updates": 500}], "seconds": 900.0, **training}
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"precision": "fp32", "devices": 1, "hardware": HERE, "training": training}))


def test_a_record_tells_what_a_run_takes(tmp_path, monkeypatch):
    recipe = recipes.load("multi30k-full/macaron-tiny")  # 8,000 updates; the checkpoints of ten epochs are kept
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(runs, "hardware", lambda: HERE | {"memory_gib": 7})
    assert estimates.lines(recipe) == []
    name = "results/multi30k-full/macaron-tiny.json"
    write(tmp_path, name)
    disk, time = estimates.lines(recipe)
    assert disk.startswith(f"# disk: about {(12 * 12 + 4) * 1e6 / 2**30:.1f} GiB for 12 checkpoints") and name in disk
    assert "about 2,000 updates per hour" in time and f"4.0 hours for 8,000 ({name})" in time and "fp32" in time
    # Of another machine, in part or all of it, the room alone is known; a run of one's own counts first.
    write(tmp_path, name, trained_on=[{"hardware": HERE}, {"hardware": HERE | {"gpus": ["G"]}}])
    assert estimates.lines(recipe) == [disk]
    write(tmp_path, "results/multi30k-full/macaron-tiny.seed-2.json", seconds=1800.0)
    assert "1,000 updates per hour" in estimates.lines(recipe)[1]
    write(tmp_path, "runs/multi30k-full/macaron-tiny/record.json", trained_on=[{"hardware": HERE}])
    assert "(runs/multi30k-full/macaron-tiny/record.json)" in estimates.lines(recipe)[1]
    # What a CPU took beside a GPU is no speed of that.
    monkeypatch.setattr(runs, "hardware", lambda: HERE | {"gpus": ["G"]})
    write(tmp_path, name, trained_on=[{"hardware": HERE | {"gpus": ["G"]}}])
    assert "1 x G" in estimates.lines(recipe)[1]
    record = json.loads((tmp_path / name).read_text()) | {"command": "fairseq-train data --cpu"}
    (tmp_path / name).write_text(json.dumps(record))
    assert len(estimates.lines(recipe)) == 1


def test_checkpoints_are_counted_by_kind(tmp_path, monkeypatch):
    recipe = recipes.load("multi30k-full/macaron-tiny")
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
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
    for training in ({"seconds": 0}, {"curve": []}, {"seconds": "x"}):
        write(tmp_path, "results/quickstart/macaron-tiny.json", **training)
        assert estimates.lines(recipe) == []
    (tmp_path / "results/quickstart/macaron-tiny.json").write_text("[")
    assert estimates.lines(recipe) == []
