"""The scripts: a whole recipe on a tiny task, going on after a stop, and what they say to bad input."""

import json
import subprocess

import pytest
import yaml

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
            "arch": "macaron_tiny", "devices": 2,
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
    assert record["versions"]["fairseq-fixed"] == "0.12.3.1"
    assert record["hardware"]["cores"] >= 1
    for command in ("fairseq-train", "fairseq-generate", "average", "score.sh"):
        assert any(line.startswith("+ ") and command in line for line in (done.stdout + done.stderr).splitlines()), (
            command
        )


def test_a_finished_recipe_is_not_run_again(finished, recipe):
    run_dir, _ = finished
    before = (run_dir / "checkpoint_last.pt").stat().st_mtime_ns, (run_dir / "average.pt").stat().st_mtime_ns
    done = script("reproduce.sh", recipe, "--run-dir", run_dir, "--cpu")
    assert done.returncode == 0
    assert "fairseq-train" not in done.stderr
    assert before == ((run_dir / "checkpoint_last.pt").stat().st_mtime_ns, (run_dir / "average.pt").stat().st_mtime_ns)


def test_generating_with_an_ensemble(finished, recipe, tmp_path):
    run_dir, _ = finished
    two = f"{run_dir}/checkpoint1.pt:{run_dir}/checkpoint2.pt"
    done = script("generate.sh", recipe, "--run-dir", tmp_path, "--checkpoint", two, "--", "--cpu")
    assert done.returncode == 0, done.stderr
    assert "H-0" in (tmp_path / "generate" / "generate-test.txt").read_text()


def test_averaging_a_folder(finished, tmp_path):
    run_dir, _ = finished
    done = script("average.sh", run_dir, "--last-epochs", 1, "--output", tmp_path / "a.pt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.pt").is_file()


def test_training_is_dry_and_names_the_fast_allocator_only_on_a_cpu(recipe):
    done = script("train.sh", recipe, "--cpu", "--devices", 1, "--bf16", "--dry-run", "--", "--seed", 7)
    assert done.returncode == 0
    words = done.stdout.split()
    assert words[0] == "fairseq-train"
    assert {"--bf16", "--cpu", "7"} <= set(words)
    assert words[words.index("--update-freq") + 1] == "2"


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
        (("generate.sh", "multi30k-full/macaron-tiny", "--run-dir", "/absent"), "run scripts/average.sh first"),
        (("generate.sh", "multi30k-full/macaron-tiny", "--checkpoint", "/absent.pt"), "no file /absent.pt"),
        (("reproduce.sh", "nothing"), "there are: "),
        (("gpu-suite.sh", "--minutes", "soon"), "--minutes soon"),
        (("gpu-suite.sh", "--precisions", "fp8"), "fp32, fp16, bf16, amp"),
        (("quickstart.sh", "--seeds", "1"), "unknown option --seeds"),
    ],
)
def test_bad_input_is_named(words, message):
    done = script(*words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_gpu_suite_says_what_it_would_run():
    done = script("gpu-suite.sh", "--dry-run")
    assert done.returncode == 0, done.stderr
    for system in ("macaron-tiny", "transformer-tiny"):
        assert f"multi30k-full/{system}" in done.stdout
    assert "--fp16" in done.stdout
