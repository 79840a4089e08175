"""The runner: a whole recipe on a tiny task, going on after a stop, what it refuses; and the scripts that call it."""

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import yaml
from fairseq.dataclass.configs import CheckpointConfig, DatasetConfig, OptimizationConfig
from omegaconf import OmegaConf

from ode_transformer import checkpoints, paths, processors
from ode_transformer.experiments import cli, recipes, records
from ode_transformer.experiments.bench import gpu_suite
from ode_transformer.experiments.records import RunError
from ode_transformer.experiments.runs import processes, runner, training
from ode_transformer.experiments.runs.training import TrainingPlace
from ode_transformer.experiments.tasks import task
from ode_transformer.files import sha256, write_text
from tests.experiments.test_own_text import in_process
from tests.helpers import ROOT, SMALL, ask, binarise_pairs, environment, output_of, raises, write_parallel


def run(*words) -> int:
    return cli.main(["run", *map(str, words)])


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A recipe of two epochs on a tiny task, as a file outside the repository."""
    home = tmp_path_factory.mktemp("recipe")
    raw = write_parallel(home / "raw")
    for path in raw.glob("*.yy"):
        path.rename(path.with_suffix(".en"))
    data = binarise_pairs(raw, home / "bin", "en")
    tree = {
        "description": "a tiny task",
        "data": {"prepare": "true", "directory": str(data), "source": "xx", "target": "en"},
        "train": {
            "arch": "macaron_tiny", "batches": 2,
            "flags": {**SMALL, "share-all-embeddings": True, "optimizer": "adam", "lr": 0.01, "max-tokens": 200,
                      "max-epoch": 2, "clip-norm": 1.0, "criterion": "label_smoothed_cross_entropy",
                      "num-workers": 0},
        },
        "average": {"last_epochs": 2},
        # A worker that outlived generation in this process would keep the run's folder locked.
        "generate": {"subsets": {"test": "tiny"}, "beam": 2, "lenpen": 1.0, "flags": {"num-workers": 0}},
    }  # fmt: skip
    path = home / "tiny.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def changed(recipe, folder, change):
    tree = yaml.safe_load(recipe.read_text())
    change(tree)
    write_text(folder / "tiny.yaml", yaml.safe_dump(tree))
    return folder / "tiny.yaml"


@pytest.fixture(scope="module")
def finished(recipe):
    """The recipe run for real, once; a process for fairseq-generate would be another like that of fairseq-train."""
    real = processes.launch

    def launch(words, *more):
        return (in_process if words[0] == "fairseq-generate" else real)(words, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "launch", launch)
        assert run(recipe, "--run-dir", recipe.parent / "run", "--cpu") == 0
    return recipe.parent / "run"


@pytest.fixture()
def programs(finished, monkeypatch):
    """In place of programs: what they were called with; training and generation leave what the real ones left."""
    called = []

    def launch(words, environment, log, lock):
        called.append((list(words), environment))
        if words[0] == "fairseq-train":
            folder = recipes.ROOT / words[words.index("--save-dir") + 1]
            for path in finished.glob("checkpoint*.pt"):
                shutil.copyfile(path, folder / path.name)
            with open(log, "a") as file:
                file.write((finished / "train.log").read_text())
        elif words[0] == "fairseq-generate":
            folder = Path(words[len(words) - words[::-1].index("--results-path")])
            shutil.copytree(finished / "generate", recipes.ROOT / folder, dirs_exist_ok=True)
        return 0

    monkeypatch.setattr(processes, "launch", launch)
    return called


def names(called):
    return [words[0] for words, _ in called]


def test_a_recipe_from_data_to_record(finished, recipe):
    record = json.loads((finished / "record.json").read_text())
    assert record["scores"]["tiny"]["sentences"] == 12
    assert record["averaged"] == ["checkpoint1.pt", "checkpoint2.pt"]
    assert [entry["epoch"] for entry in record["training"]["curve"]] == [1, 2]
    assert record["training"]["curve"][-1]["valid_loss"] > 0
    assert "--update-freq 2" in record["command"]
    assert (record["precision"], record["devices"], record["seeds"]) == ("fp32", 1, [1])
    assert record["versions"]["fairseq-fixed"] == "0.12.3.1"
    assert record["hardware"]["cores"] >= 1
    assert [place["versions"] for place in record["training"]["trained_on"]] == [record["versions"]]
    commands = [each["command"] for each in record["commands"]]
    for words in ("true", "ode_transformer average", "fairseq-generate", "ode_transformer score"):
        assert any(words in command for command in commands), words
    assert not any("fairseq-train" in command for command in commands), "whose time is in its log"
    assert str(ROOT) not in " ".join(commands) and any("runs/tiny/average.pt" in command for command in commands)
    assert record["sha256"] == {"average.pt": sha256(finished / "average.pt")}
    model = checkpoints.load(finished / "average.pt")["model"]
    assert record["model"]["encoder_embed_dim"] == 16 and record["model"]["splitting"] == "strang"
    shared = {t.untyped_storage().data_ptr(): t.numel() for n, t in model.items() if not n.endswith("_float_tensor")}
    assert 0 < record["training"]["parameters"] <= sum(shared.values())
    content = records.read_run(finished)
    assert (content["recipe"], content["task"], content["seed"]) == ("tiny", "translation", 1)
    sums = {name: sha256(recipe.parent / "bin" / name) for name in ("dict.en.txt", "dict.xx.txt")}
    assert content["dictionaries"] == sums
    assert "--save-dir" not in content["command"] and "--cpu" in content["places"][0]["where"]


def test_a_finished_recipe_is_not_run_again(finished, recipe, programs, monkeypatch):
    files = [finished / name for name in ("checkpoint_last.pt", "average.pt", "record.json")]
    before = [path.stat().st_mtime_ns for path in files]
    for place in (["--cpu"], ["--devices", "1"], ["--cpu", "--", "--distributed-port", "20001"]):
        assert run(recipe, "--run-dir", finished, *place) == 0
    for module in (training, task, paths):
        monkeypatch.setattr(module, "USER_DIR", "/another/environment/ode_transformer")
    assert run(recipe, "--run-dir", finished, "--cpu") == 0
    content = json.loads((finished / "run.json").read_text())
    content["command"] += ["--ddp-backend", "legacy_ddp"]  # which an earlier version did not count as of the place
    held = (finished / "run.json").read_text()
    (finished / "run.json").write_text(json.dumps(content))
    assert run(recipe, "--run-dir", finished, "--cpu") == 0
    (finished / "run.json").write_text(held)
    assert not programs and before == [path.stat().st_mtime_ns for path in files]


def test_steps_are_done_anew_from_the_one_that_is_named_and_no_further(finished, recipe, programs, tmp_path):
    """And those with another command than before."""
    folder = shutil.copytree(finished, tmp_path / "run")
    before = (folder / "record.json").stat().st_mtime_ns
    assert run(recipe, "--run-dir", folder, "--cpu", "--from", "average", "--until", "generate") == 0
    assert names(programs) == ["fairseq-generate"]
    assert (folder / "record.json").stat().st_mtime_ns == before
    assert run(recipe, "--run-dir", folder, "--cpu") == 0  # what stands behind them is out of date
    assert names(programs) == ["fairseq-generate"] and (folder / "record.json").stat().st_mtime_ns > before
    wider = changed(recipe, tmp_path / "wider", lambda tree: tree["generate"].update(beam=3))
    assert run(wider, "--run-dir", folder, "--cpu") == 0 and names(programs) == 2 * ["fairseq-generate"]


def test_what_was_made_of_another_test_set_is_made_anew(finished, recipe, programs, tmp_path):
    folder, data = shutil.copytree(finished, tmp_path / "run"), tmp_path / "bin"
    moved = changed(recipe, tmp_path, lambda tree: tree["data"].update(directory=str(data)))
    shutil.copytree(recipe.parent / "bin", data)
    words = (moved, "--run-dir", folder, "--cpu", "--trained")
    assert run(*words) == 0
    programs.clear()
    assert run(*words) == 0 and not programs
    path = next(data.rglob("test.*bin"))
    symbols = np.frombuffer(path.read_bytes(), np.uint16).copy()
    first = np.flatnonzero(symbols > 4)[0]
    symbols[first] -= 1  # another word
    path.write_bytes(symbols.tobytes())
    assert run(*words) == 0 and names(programs) == ["fairseq-generate"]


def test_generating_with_an_ensemble(finished, recipe, programs, tmp_path, fails):
    two = f"{finished}/checkpoint1.pt:{finished}/checkpoint2.pt"
    words = ["generate", str(recipe), "--run-dir", str(finished), "--output", str(tmp_path / "two")]
    (tmp_path / "two.part").mkdir()  # the user's own
    assert cli.main([*words, "--checkpoint", two, "--cpu", "--", "--nbest", "1"]) == 0
    ((words_, _),) = programs
    assert words_[len(words_) - words_[::-1].index("--path")] == two and words_[-2:] == ["--nbest", "1"]
    assert "--cpu" in words_
    assert "H-0" in (tmp_path / "two" / "generate-test.txt").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"two", "two.part"}
    assert "already exists" in fails(*words)
    assert "no file /absent.pt" in fails(*words[:-1], tmp_path / "x", "--checkpoint", "/absent.pt")
    said = fails("generate", "ptb/rk2-1", "--output", tmp_path / "x")
    assert "ptb/rk2-1: is of task language_modeling, and has nothing to translate" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_without_a_gpu_the_cpu_is_taken_loudly_and_fp16_refused(recipe, programs, tmp_path, capsys, fails):
    assert run(recipe, "--run-dir", tmp_path / "run", "--until", "train") == 0
    said = capsys.readouterr().err
    assert "NO GPU IS HERE" in said
    ((words, variables),) = [call for call in programs if call[0][0] == "fairseq-train"]
    assert "--cpu" in words
    assert variables.items() >= processors.KEEP_FREED_MEMORY.items()
    half = changed(recipe, tmp_path / "half", lambda tree: tree["train"].update(precision="fp16"))
    for words in ([half], [recipe, "--amp"]):
        assert "no GPU is here; give --cpu" in fails("run", *words, "--run-dir", tmp_path / "half-run")
    assert run(half, "--run-dir", tmp_path / "half-run", "--cpu", "--until", "train") == 0
    assert records.read_run(tmp_path / "half-run")["precision"] == "fp32"


def set_job(monkeypatch, variables):
    """Let the variables of a job be these alone."""
    for name in ("NNODES", "NODE_RANK", *(f"SLURM_{x}" for x in ("STEP_ID", "NNODES", "NTASKS", "PROCID"))):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "devices", "nodes", "rank", "alone"),
    [
        ({}, 4, 1, 0, True),
        ({"NNODES": "2", "NODE_RANK": "1"}, 8, 2, 1, False),
        ({"NODE_RANK": "1"}, 4, 1, 0, True),  # of a platform that numbers independent machines
        ({"SLURM_NNODES": "2", "SLURM_NTASKS": "2"}, 4, 1, 0, True),  # not started by srun
        # By srun: one task per node, which trains on all its GPUs, or one per GPU.
        ({"SLURM_STEP_ID": "0", "SLURM_NNODES": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, 8, 2, 1, False),
        ({"SLURM_STEP_ID": "0", "SLURM_NNODES": "2", "SLURM_NTASKS": "8", "SLURM_PROCID": "5"}, 8, 2, 5, False),
        ({"SLURM_STEP_ID": "0", "SLURM_NNODES": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "3"}, 4, 1, 3, False),
    ],
)
def test_a_job_says_where_it_runs(variables, devices, nodes, rank, alone, monkeypatch):
    set_job(monkeypatch, variables)
    monkeypatch.setattr(training, "gpu_count", lambda: 4)
    place = training.place_here(recipes.load("ode/wmt14-en-de/rk2"))
    assert (place.devices, place.nodes, place.rank, place.alone) == (devices, nodes, rank, alone)


def test_a_run_with_other_options_is_not_mixed_with_this_one(finished, recipe, programs, fails):
    for words, differ in (
        (["--bf16"], "with no --bf16 in place of --bf16"),
        (["--seed", "9"], "with no --seed in place of --seed 9"),
        (["--", "--clip-norm", "0.5"], "with --clip-norm 1.0 in place of --clip-norm 0.5"),
    ):
        said = f"holds another run, {differ}; {records.ANOTHER}. It was made by:\nfairseq-train"
        assert said in fails("run", recipe, "--run-dir", finished, "--cpu", *words)
    start = {"recipe": "quickstart/macaron-tiny", "warm_start": False, "other_data": True}
    started = changed(recipe, recipe.parent / "started", lambda t: t["train"].update(start=start))
    began = "began from no checkpoint, not from runs/quickstart/macaron-tiny/checkpoint_best.pt, as train.start says"
    assert began in fails("run", started, "--run-dir", finished, "--cpu")
    assert not programs


def test_in_the_folder_of_another_recipe_nothing_is_done(finished, recipe, programs, tmp_path, fails):
    folder, other = shutil.copytree(finished, tmp_path / "run"), shutil.copy(recipe, tmp_path / "other.yaml")
    before = {path: sha256(path) for path in folder.rglob("*") if path.is_file()}
    for words in ([], ["--from", "average", "--until", "average"]):
        assert "holds a run of tiny, not of other" in fails("run", other, "--run-dir", folder, "--cpu", *words)
    assert not programs and before == {path: sha256(path) for path in folder.rglob("*") if path.is_file()}


def test_checkpoints_of_another_run_are_never_averaged_with_those_of_this(finished, recipe, programs, tmp_path, fails):
    """Their last one may be gone: of the others fairseq would delete, and we average, the wrong ones."""
    folder = shutil.copytree(finished, tmp_path / "run")
    for name in ("checkpoint_last.pt", "steps.json"):
        (folder / name).unlink()
    words = (recipe, "--run-dir", folder, "--cpu", "--", "--lr", "0.02")
    assert "holds another run" in fails("run", *words)
    (folder / "run.json").unlink()
    for path in [None, *folder.glob("checkpoint*.pt")]:
        if path:
            path.unlink()
        assert "holds another run, without run.json" in fails("run", *words)
    (folder / "train.log").unlink()
    assert run(*words) == 0
    assert "0.02" in records.read_run(folder)["command"]
    assert (folder / "train.log").read_text() == (finished / "train.log").read_text(), "of the new run alone"


def test_a_run_that_was_stopped_goes_on(finished, recipe, programs, tmp_path, monkeypatch, capsys):
    """Killed while fairseq wrote its last checkpoint, which is a copy that is not written whole or not at all."""
    updates = checkpoints.resume_point(finished)
    words = (recipe, "--run-dir", tmp_path, "--cpu", "--until", "train")
    words += ("--", "--max-update", updates, "--max-epoch", 9)
    assert run(*words) == 0 and names(programs) == ["true", "fairseq-train"]
    assert run(*words) == 0 and "is trained" in capsys.readouterr().err

    (tmp_path / "steps.json").unlink()
    assert run(*words) == 0 and f"has its {updates} updates" in capsys.readouterr().err, "no update too many"
    assert "fairseq-train" not in names(programs[2:])

    (tmp_path / "steps.json").unlink()
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:1000])
    assert run(*words) == 0
    assert (tmp_path / "checkpoint_last.pt.damaged").exists() and checkpoints.resume_point(tmp_path) == updates

    (tmp_path / "steps.json").unlink()  # a longer one goes on in the same log, and says where it was
    for path in ("checkpoint_last.pt", "checkpoint2.pt", "checkpoint_best.pt"):
        shutil.copyfile(finished / "checkpoint1.pt", tmp_path / path)
    divided = []
    monkeypatch.setattr(checkpoints, "divide_anew", lambda *its: divided.append(its))
    (tmp_path / "run.json").write_text(json.dumps(records.read_run(tmp_path) | {"devices": 4}))
    assert run(*words) == 0 and "train, resumed after 1 update\n" in capsys.readouterr().err
    assert divided == [(last, 1)]
    assert (tmp_path / "train.log").read_text() == 2 * (finished / "train.log").read_text()
    assert len(records.read_run(tmp_path)["places"]) == 2


def test_of_several_processes_the_first_writes(recipe, programs, tmp_path, monkeypatch):
    """As Slurm starts them, a task per GPU: all train, and none waits for another."""
    monkeypatch.setenv("SLURM_NTASKS", "2")
    words = (recipe, "--run-dir", tmp_path, "--until", "train", "--dry-run")
    monkeypatch.setenv("SLURM_PROCID", "1")
    assert run(*words) == 0
    place = TrainingPlace(devices=2, rank=1, alone=False)
    runner.Run(recipes.load(str(recipe)), place, str(tmp_path), last="train").go()
    assert names(programs) == ["fairseq-train"] and not (tmp_path / "steps.json").exists()
    assert not (tmp_path / "run.json").exists() and not (tmp_path / ".lock").exists()
    with pytest.raises(RunError, match="several tasks of one job can only train: give them --until train"):
        runner.Run(recipes.load(str(recipe)), place, str(tmp_path)).go()


def test_what_cannot_be_averaged_is_said_before_training(recipe, programs, tmp_path, capsys, fails):
    words = (recipe, "--run-dir", tmp_path / "run", "--cpu", "--until")
    said = "average.last_epochs 2: training would keep fewer of these checkpoints; change --keep-last-epochs"
    assert f"error: {said}" in fails("run", *words, "average", "--", "--keep-last-epochs", 1)
    assert not programs, "the data are not prepared, either"
    assert run(*words, "train", "--", "--keep-last-epochs", 1) == 0
    assert f"warning: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("average", "flags", "found"),
    [
        ({"last_epochs": 2, "fewer": True}, {"keep_last_epochs": 1}, ""),
        ({"last_epochs": 1}, {"no_epoch_checkpoints": True}, "change --no-epoch-checkpoints"),
        ({"last_updates": 1}, {}, "change --save-interval-updates"),
        ({"last_updates": 2}, {"save_interval_updates": 1, "keep_interval_updates": 1}, "--keep-interval-updates"),
        ({"best": 2}, {}, "change --keep-best-checkpoints"),
        ({"best": 1}, {}, ""),
        ({"best": 1}, {"no_save": True}, "change --no-save"),
        ({"last_updates": 1}, {"save_interval_updates": 1, "no_last_checkpoints": True}, "--no-last-checkpoints"),
        ({"last_epochs": 3}, {"max_epoch": 2}, "change --max-epoch"),
        ({"last_epochs": 3, "fewer": True}, {"max_epoch": 2}, ""),
        ({"last_epochs": 3}, {"save_interval": 2, "max_epoch": 5}, "or --save-interval"),
        ({"last_updates": 5}, {"save_interval_updates": 1000, "max_update": 3000}, "change --max-update"),
        ({"last_updates": 3}, {"save_interval_updates": 1000, "max_update": 3000}, ""),
        ({"best": 1}, {"disable_validation": True}, "change --disable-validation"),
    ],
)
def test_what_flags_leave_for_the_average(recipe, tmp_path, average, flags, found):
    averaging = recipes.load(str(changed(recipe, tmp_path / "x", lambda tree: tree.update(average=average))))
    one = runner.Run(averaging, TrainingPlace(cpu=True), str(tmp_path))
    sections = {"checkpoint": CheckpointConfig(), "optimization": OptimizationConfig(), "dataset": DatasetConfig()}
    config = OmegaConf.create({name: vars(its) | flags for name, its in sections.items()})
    with pytest.raises(RunError, match=found) if found else contextlib.nullcontext():
        one.check_average(config)


def test_a_training_that_ended_early_is_averaged_in_the_end(recipe, programs, tmp_path, capsys):
    """Its patience left two of three checkpoints: the user is told so, and nothing is lost."""

    def average(**values):
        path = changed(recipe, tmp_path / "x", lambda tree: tree.update(average=values))
        words = ("--run-dir", tmp_path / "run", "--cpu", "--until", "average", "--", "--max-epoch", 9, "--patience", 1)
        return run(path, *words), capsys.readouterr().err

    status, said = average(last_epochs=3)
    assert status == 1 and names(programs).count("fairseq-train") == 1
    assert "has 2 of that kind (checkpoint1.pt, checkpoint2.pt); --fewer, in a recipe average.fewer, takes" in said
    assert average(last_epochs=3, fewer=True)[0] == 0 and average(last_epochs=2)[0] == 0
    averaged = checkpoints.load(tmp_path / "run" / "average.pt")["averaged_from"]
    assert averaged == ["checkpoint1.pt", "checkpoint2.pt"] and names(programs).count("fairseq-train") == 1


def test_a_lock_outlives_the_runner_that_was_killed(tmp_path):
    """Its training goes on, writes its own log, and keeps the folder; whoever comes second waits."""
    code = """
import sys
from pathlib import Path
from ode_transformer.experiments.runs import processes
folder = Path(sys.argv[1])
with processes.alone_in(folder) as lock:
    words = ["sh", "-c", "echo begun; sleep 2; echo ended"]
    processes.launch(words, processes.environment({}), folder / "train.log", lock)
"""
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=ROOT, env=environment())
    log = tmp_path / "train.log"
    while not log.exists() or "begun" not in log.read_text():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open(tmp_path / ".lock", "a") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with processes.alone_in(tmp_path):
        assert log.read_text() == "begun\nended\n"


def test_a_program_that_fails_and_what_a_step_needs_are_named(tmp_path, capsys):
    step = runner.Step("train", ["sh", "-c", "echo why; exit 3"], log=str(tmp_path / "train.log"))
    raises(r"train: sh failed with status 3; what it said is in .*train\.log", runner.execute, step)
    assert "why" in capsys.readouterr().err
    with pytest.raises(RunError, match="generate test: needs absent, which does not exist"):
        runner.execute(runner.Step("generate", ["true"], part="test", inputs=["absent"]))


def test_data_that_changed_since_is_refused(recipe, programs, tmp_path, fails):
    """The dictionary that a run was trained with, and the one that the data were binarized with."""
    data = shutil.copytree(recipe.parent / "bin", tmp_path / "bin")
    other = changed(recipe, tmp_path / "x", lambda tree: tree["data"].update(directory=str(data)))
    sums = {name: sha256(data / name) for name in ("dict.xx.txt", "dict.en.txt")}
    (data / "manifest.json").write_text(json.dumps({"sha256": {**sums, "segmented/train.en": "0"}}))
    words = (other, "--run-dir", tmp_path / "run", "--cpu", "--until", "train")
    assert run(*words) == 0
    lines = (data / "dict.en.txt").read_text().splitlines(keepends=True)
    (data / "dict.en.txt").write_text("".join([lines[1], lines[0], *lines[2:]]))
    assert "dict.en.txt has changed since the data were binarized" in fails("run", *words)
    (data / "manifest.json").unlink()
    assert "was trained with other dictionaries than" in fails("run", *words)
    (data / "dict.en.txt").write_text("".join(lines))
    (tmp_path / "run" / "steps.json").unlink()  # as if it had been stopped
    numbers = np.memmap(next(data.glob("train.*.bin")), np.uint16, "r+")
    numbers[0] = 5 if numbers[0] == 4 else 4
    numbers.flush()
    assert "was trained with other training text than" in fails("run", *words)


def test_a_record_is_of_the_data_that_the_run_was_trained_with(finished, recipe, tmp_path, fails):
    folder = shutil.copytree(finished, tmp_path / "run")
    held = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**held, "dictionaries": {"dict.en.txt": "0"}}))
    words = ["record", str(recipe), "--run-dir", str(folder), "--output", str(tmp_path / "record.json")]
    assert "was trained with other dictionaries" in fails(*words)
    assert not (tmp_path / "record.json").exists()
    # A run that went on with two GPUs, on the same machine, and that was validated within an epoch.
    again = {**held["places"][0], "where": ["--distributed-world-size", "2"]}
    (folder / "run.json").write_text(json.dumps({**held, "places": [*held["places"], again]}))
    entry = {"epoch": 1, "valid_loss": "1.5", "valid_num_updates": "99"}
    with (folder / "train.log").open("a") as log:
        log.write(f"2026-01-01 00:00:00 | INFO | valid | {json.dumps(entry)}\n")
    assert cli.main(words) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    training = record["training"]
    assert training["validation"][-1] == {"num_updates": 99, "loss": 1.5} and "progress" in training
    assert len(training["trained_on"]) == 1 and record["command"].endswith(" --distributed-world-size 2")


def test_a_training_elsewhere_is_gone_on_from(recipe, programs, tmp_path, fails):
    """As a Slurm job does: training on many machines, with flags of its own, the rest on one."""
    words = (recipe, "--run-dir", tmp_path / "run", "--cpu")
    assert "holds no finished training" in fails("run", *words, "--trained")
    assert run(*words, "--until", "train", "--", "--lr", "0.02") == 0
    assert run(*words, "--trained") == 0
    assert "--lr 0.02" in json.loads((tmp_path / "run" / "record.json").read_text())["command"]


def test_several_seeds_end_in_a_table(recipe, programs, tmp_path, monkeypatch, capsys, fails):
    monkeypatch.setattr(recipes, "default_run_dir", lambda r: f"{tmp_path}/{r.train.arch}.{r.seed}")
    prepared = {"prepare": "python -m ode_transformer prepare "}  # so that raw text can be translated
    two = changed(recipe, tmp_path / "x", lambda t: t.update(seeds=[4, 5]) or t["data"].update(prepared))
    other = changed(two, tmp_path / "y", lambda t: t["train"].update(arch="macaron_rk2_tiny"))
    shutil.move(other, tmp_path / "y" / "other.yaml")
    assert run(two, tmp_path / "y" / "other.yaml", "--cpu") == 0
    seeds = [words[words.index("--seed") + 1] for words, _ in programs if words[0] == "fairseq-train"]
    assert seeds == ["4", "5", "4", "5"]
    assert names(programs).count("python") == 1, "their data are prepared once"
    shown, headings = capsys.readouterr()
    assert all(f"== {name}, seed {seed}: train" in headings for name in ("tiny", "other") for seed in (4, 5))
    folders = [f"{tmp_path}/{arch}.{seed}" for arch in ("macaron_tiny", "macaron_rk2_tiny") for seed in (4, 5)]
    assert headings.endswith("".join(f"next: ode-transformer translate {one} FILE\n" for one in folders))
    words = ("run", two, "--cpu", "--seed", 4, "--dry-run", "--")  # in a folder with a training, too
    assert "--dropot: is unknown; the nearest" in fails(*words, "--dropot", "1")
    assert "holds another run" in fails(*words, "--dropout", "0.5")
    (line,) = [line for line in shown.splitlines() if line.startswith("| tiny |")]
    assert "± 0.00" in line and "| 2 |" in line
    assert "other against tiny, seed 4, tiny: p = 1.0000, adjusted 1.0000 (two-sided p, by approximate" in shown
    assert "--run-dir and --record" in fails("run", two, "--run-dir", tmp_path / "z")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_preparation_that_fails_is_tried_once(jobs, recipe, tmp_path, monkeypatch, fails):
    """It may take an hour. Runs that share it fail with its error."""
    monkeypatch.setattr(recipes, "default_run_dir", lambda r: f"{tmp_path}/{r.seed}")
    tried = []
    monkeypatch.setattr(processes, "launch", lambda words, *_: tried.append(words) or 3)
    said = fails("run", recipe, "--seeds", 4, 5, "--cpu", "--jobs", jobs)
    assert tried == [["true"]] and "2 of 2 runs failed:" in said
    assert all(f"{tmp_path}/{seed}: prepare: true failed with status 3" in said for seed in (4, 5))


def test_a_defect_in_one_run_does_not_keep_the_others_from_being_done(recipe, tmp_path, monkeypatch, fails):
    """As in a user's metric."""
    monkeypatch.setattr(recipes, "default_run_dir", lambda r: f"{tmp_path}/{r.seed}")
    monkeypatch.setattr(runner.Run, "go", mock.Mock(side_effect=KeyError("x")))
    assert "2 of 2 runs failed" in fails("run", recipe, "--seeds", 4, 5, "--cpu")


def test_a_dry_run_prints_what_would_be_run(monkeypatch, capsys):
    """On the devices asked for, with the flags behind --; and so the stage before it, but for those flags."""
    monkeypatch.setattr(records, "read_stamps", lambda folder: {})  # whatever this clone has trained
    monkeypatch.setattr(runner.Run, "begun", False)
    words = ("--cpu", "--fp32", "--seed", "3", "--dry-run", "--", "--max-tokens", "77")
    lines = output_of(["run", "floater/wmt14-en-de/floater-base", *words], capsys).out.splitlines()
    (first,) = (line for line in lines if "ode_transformer run floater/wmt14-en-de/transformer-base --seed 3" in line)
    assert {"--cpu", "--fp32"} <= set(first.split()) and "77" not in first
    (train,) = (line for line in lines if "fairseq-train" in line)
    assert {"--cpu", "77"} <= set(train.split())
    assert "runs/floater/wmt14-en-de/floater-base.seed-3/record.json" in lines[-1]
    words = ["run", "ode/wmt14-en-de/rk2", "--dry-run"]
    shown = output_of([*words, "--devices", 8, "--seed", 1, "--fp32"], capsys).out
    assert "--distributed-world-size 8 --update-freq 2" in shown and "--fp16" not in shown
    monkeypatch.setattr(training, "gpu_count", lambda: 3)  # of which two divide the batches; in the paper's precision
    shown = output_of([*words, "--run-dir", ""], capsys).out
    assert "--distributed-world-size 2 --update-freq 8 --save-dir runs/ode/wmt14-en-de/rk2 " in shown
    assert "--fp16" in shown


def test_on_several_nodes_the_first_stage_has_to_be_there(monkeypatch, fails, tmp_path):
    monkeypatch.setenv("NNODES", "2")
    words = ("--devices", "16", "--fp32", "--until", "train", "--run-dir", tmp_path)
    error = fails("run", "floater/wmt14-en-de/floater-base", *words)
    assert "start.pt: no such file; on several nodes, make it first on one, by --until start" in error


@pytest.mark.parametrize(
    ("words", "message", "gpus", "variables"),
    [
        ("--devices 2 --cpu", "must be 1 with --cpu, which trains in one proc", 0, {}),
        ("--devices 2", "--devices 2: this machine has 0 GPUs; must be at most 1", 0, {}),
        ("--until trian", "--until trian: must be one of prepare, train, average", 0, {}),
        ("--cpu --run-dir README.md/x", "README.md/x: Not a directory", 0, {}),
        ("--run-dir a:b", "a:b: a run's folder must hold no colon", 0, {}),
        ("multi30k-full/macaron-tiny --cpu", "would share runs/multi30k-full/macaron-tiny with another run", 0, {}),
        ("--until prepare -- --clip-norm 1", "-- --clip-norm 1: are flags of fairseq-train, and this", 0, {}),
        ("--dry-run --torchrun", "--torchrun: needs GPUs", 0, {}),
        ("--seeds 1 2 --devices 2 --jobs 3", "--jobs 3: needs 3 x 2 GPUs; this machine has 4", 4, {}),
        ("--seeds 1 2 --jobs 2 --torchrun", "--jobs 2: must be 1 in a job of several tasks or nodes, and with", 4, {}),
        ("--dry-run", "NNODES=two: must be a whole number, 1 or more", 4, {"NNODES": "two"}),
        ("--dry-run --devices 1", "1: cannot be divided evenly among 2 nodes", 4, {"NNODES": "2"}),
        ("--dry-run --devices 4 -- --distributed-port 20001", "4: the job has 2 x 4 GPUs, and all", 4, {"NNODES": "2"}),
    ],
)
def test_what_cannot_be_run_is_named(words, message, gpus, variables, monkeypatch, fails):
    monkeypatch.setattr(training, "gpu_count", lambda: gpus)
    set_job(monkeypatch, variables)
    assert message in fails("run", "multi30k-full/macaron-tiny", *words.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--memory-efficient-fp16",), "error: --fp16 with --cpu: fairseq can train in fp16 on a GPU only; take fp32"),
        (("--lr", "0,001"), "error: fairseq-train refuses its flags: "),
        pytest.param(
            ("--ddp-backend", "fully_sharded"),
            "error: --ddp-backend fully_sharded: needs fairscale; ",
            marks=pytest.mark.skipif(importlib.util.find_spec("fairscale") is not None, reason="fairscale is there"),
        ),
        (("--encoder-attention-heads", 3), "error: --encoder-attention-heads 3: must divide the width 16"),
    ],
)
def test_flags_that_cannot_be_trained_with_are_named_before_it(flags, message, recipe, programs, tmp_path, fails):
    error = fails("run", recipe, "--run-dir", tmp_path, "--cpu", "--", *flags)
    assert message in error and "usage: " not in error and "fairseq-train" not in names(programs)
    assert "must divide" in error or not programs, "nor are the data prepared"


def test_scripts_hand_on_their_words_or_name_what_is_wrong(tmp_path):
    """One shell asks them all. Slurm's srun prints what it is asked: the training, and then the rest."""
    (tmp_path / "srun").write_text('#!/bin/sh\necho "srun $*"\n')
    (tmp_path / "srun").chmod(0o755)
    job = ["env", f"PATH={tmp_path}:{environment()['PATH']}", "SLURM_JOB_ID=12", f"SLURM_SUBMIT_DIR={ROOT}"]
    job += ["scripts/slurm/train.sh", "ode/wmt14-en-de/rk2", "--fp16", "--seed", "3", "--", "--max-update", "7"]
    asked = {
        "a recipe is needed first, got --device": ["scripts/train.sh", "--device"],
        "a recipe or a folder is needed": ["scripts/average.sh"],
        "--last-epochs": ["scripts/average.sh", "runs/x", "--output", "y.pt"],
        "--output": ["scripts/generate.sh", "multi30k-full/macaron-tiny", "--", "--beam", "9"],
        "needs --runs and --out": ["scripts/gpu-suite.sh", "--cpu"],
        "to be run with sbatch": ["env", "SLURM_JOB_ID=", "scripts/slurm/train.sh", "ode/wmt14-en-de/rk2"],
    }
    *answers, begun = ask(tmp_path / "answers", [*asked.values(), job], environment())
    for message, done in zip(asked, answers, strict=True):
        assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert begun.returncode == 0 and begun.stdout.splitlines() == [
        "srun --kill-on-bad-exit=1 scripts/train.sh ode/wmt14-en-de/rk2 --fp16 --seed 3 -- --distributed-port 20012 "
        "--max-update 7",
        "srun --nodes=1 --ntasks=1 scripts/reproduce.sh ode/wmt14-en-de/rk2 --fp16 --seed 3 --trained",
    ]


def test_the_gpu_suite_reads_recipes_and_says_what_it_would_run(tmp_path, monkeypatch, capsys, fails):
    """Before it measures; paths are from the user's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu_suite, "ROOT", tmp_path)  # without the records of this clone
    monkeypatch.setattr(gpu_suite.Suite, "timed", lambda *_: pytest.fail("something was timed"))
    words = ["gpu-suite", "--systems", "multi30k-full/transformer-tiny"]
    assert "no recipe 'nothing/tiny'" in fails(*words, "nothing/tiny", "--cpu", "--runs", "a", "--out", "b")
    assert not list(tmp_path.iterdir())
    words += ["ptb/rk2-unit-2-released", "--dry-run"]
    lines = output_of(words, capsys).out.splitlines()
    assert len(lines) == 1, "fairseq takes bf16 for a TPU with its own model"
    record, flags = "ptb/rk2-unit-2-released.bf16.json", "--devices 1 --bf16 -- --num-workers 0 --cuda-graphs"
    assert lines[0].endswith(f"results/gpu/{record} {flags}")
    last = output_of([*words, "--runs", "a", "--out", "b"], capsys).out.splitlines()[-1]
    assert last.startswith("python -m ode_transformer run ptb/rk2-unit-2-released --seed 1 --run-dir ")
    assert f" {tmp_path}/a/ptb.rk2-unit-2-released.bf16 " in last
    assert f" {tmp_path}/b/ptb/rk2-unit-2-released.bf16.json " in last


@pytest.mark.full
def test_the_gpu_suite_rehearsed_on_a_cpu(recipe, tmp_path, capsys):
    broken = tmp_path / "broken.yaml"
    broken.write_text(recipe.read_text().replace("max-epoch: 2", "max-epoch: 2\n    lr-scheduler: nothing"))
    words = ["gpu-suite", "--cpu", "--runs", tmp_path / "runs", "--out", tmp_path / "out"]
    words = [*map(str, words), "--systems", str(recipe)]
    for _ in range(2):
        assert "all trainings done" in output_of(words, capsys).out
    contest, record, unfinished = sorted((tmp_path / "out").glob("*.json"))
    assert json.loads(unfinished.read_text()) == {}
    assert json.loads(record.read_text())["scores"]["tiny"]["sentences"] == 12
    assert len(record.with_name(f"{record.stem}.tiny.txt").read_text().splitlines()) == 12
    rounds = json.loads(contest.read_text())["rounds"]
    assert [each["mode"] for each in rounds] == ["eager", "graphs", "eager"]
    assert all(found["milliseconds"] > 0 for each in rounds for found in each["systems"].values())
    assert cli.main([*words, str(broken)]) == 1
    shown = capsys.readouterr()
    assert "done: " in shown.out and "left: " in shown.out
    assert "failed: " in shown.err and "broken" in shown.err


def test_what_has_no_record_is_trained_first(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_suite, "ROOT", tmp_path)
    (tmp_path / "data-bin" / "ptb").mkdir(parents=True)
    for name in ("multi30k-full/macaron-tiny", "ptb/rk2-1"):
        write_text(tmp_path / "results" / f"{name}.bf16.json", "")
    found = gpu_suite.usual()
    ptb, others = ([n for n in found if n.startswith("ptb/") == of_ptb] for of_ptb in (True, False))
    assert ptb[-1] == "ptb/rk2-1" and others[-1] == "multi30k-full/macaron-tiny"
    assert found[:4] == [others[0], ptb[0], others[1], ptb[1]]


def test_the_curves_of_unfinished_trainings_are_kept(tmp_path):
    suite = gpu_suite.Suite(out=tmp_path, runs=tmp_path, systems=["ptb/rk2-1", "ptb/rk4-1"])
    log = tmp_path / "ptb.rk2-1.bf16" / "train.log"
    entry = {"epoch": 1, "train_loss": "5.0", "train_num_updates": "9"}
    write_text(log, f"2026-01-01 00:00:00 | INFO | train | {json.dumps(entry)}\n")
    suite.note_unfinished(suite.waiting())
    found = json.loads((tmp_path / "unfinished.json").read_text())
    assert list(found) == ["ptb/rk2-1, seed 1, bf16"]
    assert found["ptb/rk2-1, seed 1, bf16"]["curve"] == [{"epoch": 1, "num_updates": 9, "train_loss": 5.0}]


def test_checks_that_cannot_be_run_are_told_and_the_contest_is_held(tmp_path, monkeypatch, capsys):
    suite, held = gpu_suite.Suite(out=tmp_path, systems=["ptb/rk2-1"]), []
    monkeypatch.setattr(suite, "check", mock.Mock(side_effect=OSError("no space")))
    monkeypatch.setattr(suite, "contest", lambda: held.append("contest"))
    suite.measure()
    assert held and suite.failed and "OSError: no space" in capsys.readouterr().err
    suite.ends = 0
    suite.measure()
    assert len(held) == 1


def test_checks_that_have_passed_on_a_gpu_are_not_repeated(tmp_path, monkeypatch):
    suite, asked = gpu_suite.Suite(out=tmp_path, systems=["ptb/rk2-1"]), []

    def timed(words, seconds, output):
        asked.append(words)
        first = len(asked) == 1
        found = [("two", "FAILED" if first else "PASSED")]
        found[:0] = [("one[x y]", "PASSED")] * first
        lines = [f"tests/gpu/test_a.py::{name} {status} [ 50%]\n" for name, status in found]
        if not first:  # as pytest's workers write it
            lines = [f"[gw0] [ 50%] {status} tests/gpu/test_a.py::{name} \n" for name, status in found]
        output.write_text("".join(lines))
        return gpu_suite.TIMED_OUT if first else 0

    monkeypatch.setattr(suite, "timed", timed)
    suite.check()
    listed = tmp_path / "gpu-checks.txt"
    assert suite.failed and listed.read_text() == "tests/gpu/test_a.py::one[x y]\n"
    suite.check()
    assert asked[1][asked[1].index("--deselect") + 1] == "tests/gpu/test_a.py::one[x y]"
    assert listed.read_text().splitlines() == ["tests/gpu/test_a.py::one[x y]", "tests/gpu/test_a.py::two"]


def test_checks_whose_time_is_over_tell_what_failed(tmp_path):
    program = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit('why')); time.sleep(60)"
    suite = gpu_suite.Suite(out=tmp_path, systems=["ptb/rk2-1"])
    assert suite.timed([sys.executable, "-c", program], 3, tmp_path / "log") == gpu_suite.TIMED_OUT
    assert (tmp_path / "log").read_text() == "why\n"


def ended(status):
    return mock.Mock(returncode=status, poll=lambda: status)


def test_several_runs_at_a_time_have_gpus_of_their_own(monkeypatch, tmp_path, fails):
    """Four runs on four GPUs, two at a time with two each; one fails, and the others are done."""
    started = []

    def start(words, environment, log):
        started.append((words, environment["CUDA_VISIBLE_DEVICES"]))
        write_text(log, "much\nerror: a reason\n")
        return ended(int("--seed 2" in " ".join(words)))

    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setattr(training, "gpu_count", lambda: 4)
    monkeypatch.setattr(processes, "start", start)
    executed = []
    monkeypatch.setattr(runner, "execute", lambda step, lock: executed.append(step.key) or 0)
    words = ["multi30k-full/macaron-tiny", "--seeds", "1", "2", "3", "4", "--devices", "2", "--until", "train"]
    said = fails("run", *words, "--jobs", "2", "--", "--clip-norm", "1")
    assert said.startswith("4 runs\n") and "1 of 4 runs failed:" in said
    assert "runs/multi30k-full/macaron-tiny.seed-2: a reason\n" in said and said.count("seed-2/run.log") == 2
    assert [gpus for _, gpus in started] == ["4,5", "6,7", "4,5", "6,7"]
    first = started[1][0]
    assert first[3:8] == ["run", "multi30k-full/macaron-tiny", "--seed", "2", "--run-dir"]
    assert first[-8:] == ["--until", "train", "--devices", "2", "--fp32", "--", "--clip-norm", "1"]
    assert executed == ["prepare"], "once for all"
    started.clear()
    words = ["multi30k-full/macaron-tiny", "quickstart/macaron-tiny", "--seed", "1", "--until", "train", "--jobs", "2"]
    assert run(*words) == 0  # the batches of the former divide into two, those of the latter are one
    assert [(words[words.index("--devices") + 1], gpus) for words, gpus in started] == [("2", "4,5"), ("1", "6")]
    started.clear()

    def execute(step, lock):
        if "quickstart" in step.outputs[0]:
            raise RunError("prepare: no text")
        return 0

    monkeypatch.setattr(runner, "execute", execute)
    assert "runs/quickstart/macaron-tiny: prepare: no text" in fails("run", *words)
    assert [gpus for _, gpus in started] == ["4,5"]  # the other run, whose data are there, is done


def test_runs_on_a_cpu_share_the_cores_and_a_run_of_another_is_not_begun(monkeypatch, tmp_path, capsys):
    started = []
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(runner.processors, "usable", lambda: 7)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processes, "start", lambda words, variables, log: started.append(variables) or ended(0))
    other = tmp_path / "runs" / "multi30k-full" / "macaron-tiny.seed-2"
    write_text(other / "checkpoint_last.pt", "")
    monkeypatch.setattr(runner, "execute", lambda step, lock: 0)
    words = ["multi30k-full/macaron-tiny", "--seeds", "1", "2", "3", "--cpu", "--until", "train"]
    assert run(*words, "--jobs", "3") == 1
    assert [path.name for path in other.iterdir()] == ["checkpoint_last.pt"], "not even a stamp of the data"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert run(*words, "--jobs", "3") == 1
    assert [variables["OMP_NUM_THREADS"] for variables in started] == ["2", "2", "5", "5"]
    assert "seed-2 holds another run, without run.json" in capsys.readouterr().err


def test_trainings_wait_while_the_gpu_suite_measures(tmp_path):
    suite = gpu_suite.Suite(out=tmp_path, systems=["ptb/rk2-1"])
    process = suite._begin(["sleep", "60"], {}, tmp_path / "log")
    ended = suite._begin(["true"], {}, tmp_path / "log")
    ended.wait()
    ended.poll = lambda: None  # it ends as the others are stopped

    def happened(process, what):  # waits for that, or until the process ends
        return os.waitid(os.P_PID, process.pid, what | os.WEXITED | os.WNOWAIT).si_code

    try:
        with suite.alone():
            begun = suite._begin(["sleep", "60"], {}, tmp_path / "log")
            assert happened(process, os.WSTOPPED) == happened(begun, os.WSTOPPED) == os.CLD_STOPPED
        assert happened(process, os.WCONTINUED) == happened(begun, os.WCONTINUED) == os.CLD_CONTINUED
    finally:
        for process in suite.begun:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
