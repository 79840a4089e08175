"""The scripts: a whole recipe on a tiny task, going on after a stop, and what they say to bad input."""

import json
import shutil
import subprocess

import pytest
import yaml

from ode_transformer import checkpoints
from ode_transformer.experiments import text
from tests.helpers import ROOT, SMALL, environment, write_parallel


def script(*words, **more):
    words = [str(w) for w in words]
    return subprocess.run([f"scripts/{words[0]}", *words[1:]], cwd=ROOT, env=environment() | more,
                          capture_output=True, text=True)  # fmt: skip


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A recipe of two epochs on a tiny task, as a file outside the repository."""
    home = tmp_path_factory.mktemp("recipe")
    raw = write_parallel(home / "raw")
    words = ["fairseq-preprocess", "-s", "xx", "-t", "en", "--joined-dictionary", "--destdir", home / "bin"]
    for path in raw.glob("*.yy"):
        path.rename(path.with_suffix(".en"))
    words += [w for split in ("train", "valid", "test") for w in (f"--{split}pref", raw / split)]
    subprocess.run([str(w) for w in words], check=True, env=environment(), cwd=home, capture_output=True)
    tree = {
        "description": "a tiny task",
        "data": {"prepare": "true", "directory": str(home / "bin"), "source": "xx", "target": "en"},
        "train": {
            "arch": "macaron_tiny", "batches": 2,
            "flags": {**SMALL, "share-all-embeddings": True, "optimizer": "adam", "lr": 0.01, "max-tokens": 200,
                      "max-epoch": 2, "clip-norm": 1.0, "criterion": "label_smoothed_cross_entropy"},
        },
        "average": {"last_epochs": 2},
        "generate": {"subsets": {"test": "tiny"}, "beam": 2, "lenpen": 1.0},
    }  # fmt: skip
    path = home / "tiny.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.fixture(scope="module")
def finished(recipe):
    done = script("reproduce.sh", recipe, "--run-dir", recipe.parent / "run", "--cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    return recipe.parent / "run", done


def test_a_recipe_from_data_to_record(finished):
    run_dir, done = finished
    record = json.loads((run_dir / "record.json").read_text())
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
    for begin in ("true", "python -m ode_transformer average", "fairseq-generate", "scripts/score.sh"):
        assert any(command.startswith(begin) for command in commands), begin
    assert all(each["seconds"] >= 0 for each in record["commands"]) and str(ROOT) not in " ".join(commands)
    assert any("runs/tiny/average.pt" in command for command in commands)
    assert record["sha256"] == {"average.pt": text.sha256(run_dir / "average.pt")}
    for command in ("fairseq-train", "fairseq-generate", "average", "score.sh"):
        assert any(line.startswith("+ ") and command in line for line in (done.stdout + done.stderr).splitlines()), (
            command
        )


def test_a_finished_recipe_is_not_run_again(finished, recipe):
    run_dir, _ = finished
    record = json.loads((run_dir / "record.json").read_text())
    before = (run_dir / "checkpoint_last.pt").stat().st_mtime_ns, (run_dir / "average.pt").stat().st_mtime_ns
    for place in (["--cpu"], [], ["--devices", 1]):  # where it runs is not what it is
        done = script("reproduce.sh", recipe, "--run-dir", run_dir, *place)
        assert done.returncode == 0, done.stderr
        assert "fairseq-train" not in done.stderr
    assert before == ((run_dir / "checkpoint_last.pt").stat().st_mtime_ns, (run_dir / "average.pt").stat().st_mtime_ns)
    assert json.loads((run_dir / "record.json").read_text()) == record


def test_generating_with_an_ensemble(finished, recipe, tmp_path):
    run_dir, _ = finished
    two = f"{run_dir}/checkpoint1.pt:{run_dir}/checkpoint2.pt"
    done = script(
        "generate.sh", recipe, "--run-dir", tmp_path, "--checkpoint", two, "--output", tmp_path / "two", "--", "--cpu"
    )
    assert done.returncode == 0, done.stderr
    assert "H-0" in (tmp_path / "two" / "generate-test.txt").read_text()


def test_averaging_a_folder(finished, tmp_path):
    run_dir, _ = finished
    done = script("average.sh", run_dir, "--last-epochs", 1, "--output", tmp_path / "a.pt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.pt").is_file()


def test_training_on_a_cpu_keeps_its_memory_and_passes_flags_on(recipe):
    done = script("train.sh", recipe, "--cpu", "--bf16", "--dry-run", "--", "--seed", 7)
    assert done.returncode == 0
    *allocator, command = done.stdout.splitlines()
    assert [line.split("=")[0] for line in allocator] == [
        "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"
    ]  # fmt: skip
    words = command.split()
    assert words[0] == "fairseq-train"
    assert {"--bf16", "--cpu", "7"} <= set(words)
    assert words[words.index("--update-freq") + 1] == "2"
    assert words[words.index("--distributed-world-size") + 1] == "1"


def test_a_run_folder_has_one_name_whatever_links_lead_there(tmp_path):
    """Locks and commands are compared by it; runs/ is a link to scratch space on many machines."""
    shutil.copytree(ROOT / "scripts", tmp_path / "clone" / "scripts")
    (tmp_path / "clone" / "ode_transformer").symlink_to(ROOT / "ode_transformer")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "clone" / "runs").symlink_to(tmp_path / "scratch")
    (tmp_path / "link").symlink_to(tmp_path / "clone")
    ask = 'source "$0/scripts/lib.sh"; run_dir_of "$1"; echo "$root"'

    def asked(recipe):
        words = ["bash", "-c", ask, tmp_path / "link", recipe]
        return subprocess.run(words, env=environment(), capture_output=True, text=True)

    folder = tmp_path / "scratch" / "quickstart" / "macaron-tiny"
    assert asked("quickstart/macaron-tiny").stdout.split() == [str(folder), str(tmp_path / "clone")]
    assert asked("nosuch").returncode == 1 and not asked("nosuch").stdout


def test_a_run_with_other_options_is_not_mixed_with_this_one(finished, recipe):
    run_dir, _ = finished
    for words in (["--bf16"], ["--", "--seed", "9"]):
        done = script("reproduce.sh", recipe, "--run-dir", run_dir, "--cpu", *words)
        assert done.returncode != 0
        assert "take another --run-dir" in done.stderr
        done = script("train.sh", recipe, "--run-dir", run_dir, "--cpu", *words)
        assert done.returncode != 0
        assert "take another --run-dir" in done.stderr


def test_checkpoints_of_another_run_are_never_averaged_with_those_of_this(finished, recipe, tmp_path):
    """Their last one may be gone: of the others fairseq would delete, and we average, the wrong ones."""
    run_dir = shutil.copytree(finished[0], tmp_path / "run")
    for name in ("checkpoint_last.pt", ".trained"):
        (run_dir / name).unlink()
    words = ("train.sh", recipe, "--run-dir", run_dir, "--cpu", "--", "--lr", "0.02")
    done = script(*words)
    assert done.returncode == 1 and "holds another run" in done.stderr
    (run_dir / "train.command").unlink()
    done = script(*words)
    assert done.returncode == 1 and "made by:\nother means than these scripts" in done.stderr
    for path in run_dir.glob("checkpoint*.pt"):
        path.unlink()
    assert script(*words).returncode == 0
    assert "--lr 0.02" in (run_dir / "train.command").read_text()
    assert (run_dir / "train.log").read_text().count("num. shared model params") == 1, "of the new run alone"


def test_a_run_that_was_killed_goes_on_and_ends_like_one_that_was_not(recipe, tmp_path):
    """Killed while fairseq wrote its last checkpoint, which is a copy that is not written whole or not at all."""
    options = ("--run-dir", tmp_path, "--cpu", "--", "--max-update", 3, "--max-epoch", 9)
    assert script("train.sh", recipe, *options).returncode == 0
    last = tmp_path / "checkpoint_last.pt"
    whole = checkpoints.load(last)
    before = {p.name for p in tmp_path.glob("*.pt")}
    again = script("train.sh", recipe, *options)
    assert again.returncode == 0 and "is trained" in again.stderr
    (tmp_path / ".trained").unlink()
    for rank in (1, 0):  # all machines stop, the first says that it is done
        again = script("train.sh", recipe, *options, SLURM_PROCID=str(rank))
        assert again.returncode == 0 and "has its 3 updates" in again.stderr, "no update too many"
        assert (tmp_path / ".trained").exists() == (rank == 0)

    (tmp_path / ".trained").unlink()
    last.write_bytes(last.read_bytes()[:1000])
    (tmp_path / "train.log").unlink()
    done = script("train.sh", recipe, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "checkpoint_last.pt.damaged").exists()
    state = checkpoints.load(last)
    assert state["optimizer_history"][-1]["num_updates"] == 3
    assert state["model"].keys() == whole["model"].keys()
    assert {p.name for p in tmp_path.glob("*.pt")} == before


def test_the_quickstarts_data(tmp_path):
    environment_ = environment() | {"PYTHONWARNINGS": "ignore"}
    words = ["data-prep/prepare-quickstart.sh", "--out", str(tmp_path / "data")]
    for _ in range(2):
        done = subprocess.run(words, cwd=ROOT, env=environment_, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["counts"]["test"]["lines"] == 500
    assert "is complete" in done.stderr
    other = subprocess.run([*words, "--seed", "2"], cwd=ROOT, env=environment_, capture_output=True, text=True)
    assert other.returncode != 0 and "other settings" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train.sh",), "a recipe is needed"),
        (("train.sh", "multi30k"), "there are: "),
        (("train.sh", "multi30k-full/macaron-tiny", "--devices", "3", "--dry-run"), "[1, 2]"),
        (("train.sh", "multi30k-full/macaron-tiny", "--devices", "two"), "--devices two"),
        (("train.sh", "multi30k-full/macaron-tiny", "--device"), "unknown option --device"),
        (("train.sh", "a", "b"), "one recipe"),
        (("average.sh", "/absent", "--last-epochs", "3", "--output", "/tmp/x.pt"), "/absent has 0"),
        (("average.sh", "/absent", "--last-epochs", "3"), "--output is needed"),
        (("average.sh", "/absent", "--last-epochs"), "--last-epochs needs a value"),
        (("average.sh", "multi30k-full/macaron-tiny", "--output", "x.pt"), "--output is for a folder"),
        (("average.sh", ".", "--best", "1", "--output", "x", "--run-dir", "y"), "--run-dir is for a recipe"),
        (("train.sh", "multi30k-full/macaron-tiny", "--cpu", "--devices", "2"), "with --cpu one process"),
        (("train.sh", "multi30k-full/transformer-tiny", "--cpu", "--bf16"), "bf16"),
        (("generate.sh", "multi30k-full/macaron-tiny", "--run-dir", "/absent"), "run scripts/average.sh first"),
        (("generate.sh", "multi30k-full/macaron-tiny", "--checkpoint", "/absent.pt"), "--output is needed"),
        (("generate.sh", "multi30k-full/macaron-tiny", "--", "--beam", "9"), "--output is needed"),
        (
            ("generate.sh", "multi30k-full/macaron-tiny", "--checkpoint", "/absent.pt", "--output", "/absent"),
            "no file /absent.pt",
        ),
        (("reproduce.sh", "nothing"), "there are: "),
        (("gpu-suite.sh", "--minutes", "soon"), "--minutes soon"),
        (("gpu-suite.sh", "--precisions", "fp8"), "fp32, fp16, bf16, amp"),
        (("gpu-suite.sh", "--set", "--max-update 1"), "--set needs --runs and --out"),
        (("gpu-suite.sh",), "no GPU is there"),
        (("quickstart.sh", "--seeds", "1"), "unknown option --seeds"),
    ],
)
def test_bad_input_is_named(words, message):
    done = script(*words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_gpu_suite_rehearsed_on_a_cpu(recipe, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(recipe.read_text().replace("max-epoch: 2", "max-epoch: 2\n    lr-scheduler: nothing"))
    options = ("--cpu", "--minutes", 3, "--precisions", "fp32", "--runs", tmp_path / "runs", "--out", tmp_path / "out")
    for _ in range(2):
        done = script("gpu-suite.sh", *options, "--systems", recipe)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all done" in done.stdout
    (record,) = (tmp_path / "out").glob("*.json")
    assert json.loads(record.read_text())["scores"]["tiny"]["sentences"] == 12
    done = script("gpu-suite.sh", *options, "--systems", f"{recipe} {broken}")
    assert done.returncode == 1
    assert f"done: {recipe} fp32" in done.stdout and f"left: {broken} fp32" in done.stdout
    assert f"failed: {broken} fp32" in done.stderr and "lr-scheduler" in done.stderr


def test_the_gpu_suite_says_what_it_would_run():
    done = script("gpu-suite.sh", "--dry-run")
    assert done.returncode == 0, done.stderr
    for system in ("macaron-tiny", "transformer-tiny"):
        assert f"multi30k-full/{system}" in done.stdout
    assert "--fp16" in done.stdout


def test_the_gpu_suite_knows_the_cells_of_table_5():
    done = script(
        "gpu-suite.sh", "--dry-run", "--systems", "ptb/rk2-unit-2.released.seed-3", "--precisions", "fp16 amp"
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("scripts/ptb.sh rk2-unit --layers 2 --seed 3 --form released ")
    assert "results/ptb/rk2-unit-2.released.seed-3.fp16.json --fp16" in line


def test_data_that_changed_since_is_refused(recipe, tmp_path):
    """The dictionary that a run was trained with, and the one that the data was binarised with."""
    home = tmp_path / "home"
    shutil.copytree(recipe.parent / "bin", home / "bin")
    tree = yaml.safe_load(recipe.read_text())
    tree["data"]["directory"] = str(home / "bin")
    (home / "tiny.yaml").write_text(yaml.safe_dump(tree))
    sums = {name: text.sha256(home / "bin" / name) for name in ("dict.xx.txt", "dict.en.txt")}
    (home / "bin" / "manifest.json").write_text(json.dumps({"sha256": {**sums, "segmented/train.en": "0"}}))
    words = ("train.sh", home / "tiny.yaml", "--run-dir", tmp_path / "run", "--cpu", "--", "--max-epoch", "1")
    assert script(*words).returncode == 0
    lines = (home / "bin" / "dict.en.txt").read_text().splitlines(keepends=True)
    (home / "bin" / "dict.en.txt").write_text("".join([lines[1], lines[0], *lines[2:]]))
    done = script(*words)
    assert done.returncode == 1 and "dict.en.txt is not what it was when the data was binarised" in done.stderr
    (home / "bin" / "manifest.json").unlink()
    done = script(*words)
    assert done.returncode == 1 and "was trained with other dictionaries than" in done.stderr


def test_a_training_elsewhere_is_gone_on_from(recipe, tmp_path):
    """As a Slurm job does: scripts/train.sh on many machines, the rest on one."""
    done = script("reproduce.sh", recipe, "--run-dir", tmp_path / "run", "--cpu", "--trained")
    assert done.returncode == 1 and "holds no finished training" in done.stderr
    words = (recipe, "--run-dir", tmp_path / "run", "--cpu")
    assert script("train.sh", *words, "--", "--max-epoch", "2", "--lr", "0.02").returncode == 0
    done = script("reproduce.sh", *words, "--trained")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert "--lr 0.02" in record["command"]


def test_a_dry_run_prints_what_would_be_run():
    """On the devices asked for, with the flags behind --; and so the stage before it, but for those flags."""
    words = ("--cpu", "--fp16", "--seed", "3", "--dry-run", "--", "--max-tokens", "77")
    for name in ("train.sh", "reproduce.sh"):
        done = script(name, "floater/wmt14-en-de/floater-base", *words)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert "scripts/train.sh floater/wmt14-en-de/transformer-base --seed 3" in " ".join(lines)
        (first,) = (line for line in lines if line.startswith("scripts/train.sh"))
        assert {"--cpu", "--fp16"} <= set(first.split()) and "77" not in first
        (train,) = (line for line in lines if line.startswith("fairseq-train"))
        assert {"--cpu", "--fp16", "77"} <= set(train.split())
    assert "runs/floater/wmt14-en-de/floater-base.seed-3/record.json" in lines[-1]
    many = script("reproduce.sh", "ode/wmt14-en-de/rk2", "--devices", 8, "--dry-run").stdout
    assert "--distributed-world-size 8 --update-freq 2" in many


def test_slurm_starts_the_training_and_then_the_rest(tmp_path):
    """With programs of Slurm's names that print what they are asked."""
    (tmp_path / "srun").write_text('#!/bin/sh\necho "srun $*"\n')
    (tmp_path / "srun").chmod(0o755)
    path = f"{tmp_path}:{environment()['PATH']}"
    words = ("slurm/train.sh", "ode/wmt14-en-de/rk2", "--fp16", "--seed", "3", "--", "--max-update", "7")
    done = script(*words, PATH=path, SLURM_JOB_ID="12", SLURM_SUBMIT_DIR=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "srun scripts/train.sh ode/wmt14-en-de/rk2 --fp16 --seed 3 -- --distributed-port 20012 --max-update 7",
        "srun --nodes=1 --ntasks=1 scripts/reproduce.sh ode/wmt14-en-de/rk2 --fp16 --seed 3 --trained",
    ]
    done = script("slurm/train.sh", "ode/wmt14-en-de/rk2", SLURM_JOB_ID="")
    assert done.returncode == 1 and "to be run with sbatch" in done.stderr


def test_the_same_run_on_other_devices_is_the_same_run(recipe, finished):
    """Another port of a job that is submitted again, another number of devices: the words that do not count."""
    run_dir, _ = finished
    words = ("train.sh", recipe, "--run-dir", run_dir, "--cpu", "--")
    done = script(*words, "--distributed-port", "20001")
    assert done.returncode == 0 and "is trained" in done.stderr
    done = script(*words, "--update-freq", "7")
    assert done.returncode == 0 and "is trained" in done.stderr
    done = script(*words, "--clip-norm", "0.5")
    assert done.returncode == 1 and "holds another run" in done.stderr


def test_two_at_once_take_turns(recipe, tmp_path):
    """The second waits for the first, and finds everything done."""
    words = [f"{ROOT}/scripts/reproduce.sh", str(recipe), "--run-dir", str(tmp_path / "run"), "--cpu"]
    both = [
        subprocess.Popen(words, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("waiting for another process in" in errors for _, errors in said) == 1
    assert sum("begin training epoch 1" in out + errors for out, errors in said) == 1


def test_on_several_nodes_the_first_stage_has_to_be_there():
    done = script("train.sh", "floater/wmt14-en-de/floater-base", "--devices", "16", NNODES="2")
    assert done.returncode == 1
    assert "start.pt: not there; on several nodes it has to be made before" in done.stderr
    assert "scripts/train.sh floater/wmt14-en-de/transformer-base" in done.stderr
