"""ListOps: the grammar, the values, the sets; and training on them."""

import itertools
import json
import subprocess

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ode_transformer.experiments import cli, listops
from tests.helpers import ROOT, environment, refused

FUNCTIONS = {"MIN": np.min, "MAX": np.max, "MED": lambda v: int(np.median(v)), "SM": lambda v: sum(v) % 10}


@given(st.sampled_from(sorted(listops.OPERATORS)), st.lists(st.integers(0, 9), min_size=1, max_size=10))
def test_the_value_of_a_list(operator, values):
    assert listops.OPERATORS[operator](values) == FUNCTIONS[operator](values)


def evaluate(symbols):
    """The value of an expression, read from its symbols."""
    stack = [("MAX", [])]  # around the expression
    for symbol in symbols:
        if symbol.startswith("["):
            stack.append((symbol[1:], []))
            continue
        if symbol == "]":
            operator, values = stack.pop()
            symbol = FUNCTIONS[operator](values)
        stack[-1][1].append(int(symbol))
    ((_, (value,)),) = stack  # one, and complete
    return value


def test_the_published_example():
    assert evaluate(["[MAX", "4", "3", "[MIN", "2", "3", "]", "1", "0", "[MED", "1", "5", "8", "9", "2", "]", "]"]) == 5


def test_generated_expressions_have_their_length_and_their_value():
    rows = list(itertools.islice(listops.generate(3, 50, 90), 200))
    assert all(50 <= len(symbols) <= 90 for symbols, _ in rows)
    assert all(evaluate(symbols) == value for symbols, value in rows)
    assert len({tuple(symbols) for symbols, _ in rows}) == 200
    assert {value for _, value in rows} == set(range(10))
    assert {s for symbols, _ in rows for s in symbols if s.startswith("[")} == {f"[{o}" for o in listops.OPERATORS}


def depth(symbols):
    level = deepest = 0
    for symbol in symbols:
        level += symbol.startswith("[")
        level -= symbol == "]"
        deepest = max(deepest, level)
    return deepest


def test_lists_are_as_deep_and_as_long_as_published():
    for symbols, _ in itertools.islice(listops.generate(4, 300, 600), 30):
        assert depth(symbols) < listops.MAX_DEPTH
        counts = []
        for symbol in symbols:
            if counts and symbol != "]":
                counts[-1] += 1
            if symbol.startswith("["):
                counts.append(0)
            elif symbol == "]":
                assert 2 <= counts.pop() <= listops.MAX_ELEMENTS


def test_a_seed_gives_the_same_expressions():
    a, b, c = (list(itertools.islice(listops.generate(seed, 20, 60), 5)) for seed in (1, 1, 2))
    assert a == b != c


def run(*words):
    return subprocess.run([str(w) for w in words], cwd=ROOT, env=environment(), capture_output=True, text=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("listops") / "bin"
    sizes = ["--train", 32, "--valid", 8, "--test", 8, "--shortest", 10, "--longest", 40]
    done = run("data-prep/prepare-listops.sh", "--out", out, *sizes)
    assert done.returncode == 0, done.stderr
    again = run("data-prep/prepare-listops.sh", "--out", out, *sizes)
    assert again.returncode == 0 and "is complete" in again.stderr
    other = run("data-prep/prepare-listops.sh", "--out", out, *sizes, "--seed", 2)
    assert other.returncode == 1 and "was made with" in other.stderr
    return out


@pytest.mark.full
def test_from_expressions_to_the_accuracy_of_the_best_model(data, tmp_path):
    size = {"encoder-embed-dim": 16, "encoder-ffn-embed-dim": 32, "encoder-attention-heads": 2, "num-workers": 0}
    length = {"max-update": 4, "validate-interval-updates": 1, "save-interval-updates": 1, "batch-size": 16}
    tree = {
        "extends": str(ROOT / "configs" / "listops.yaml"),
        "data": {"prepare": "true", "directory": str(data)},
        "train": {"flags": size | length},
        "rows": {"randomff-1": {}},
    }
    (tmp_path / "l.yaml").write_text(yaml.safe_dump(tree))
    words = ["run", f"{tmp_path}/l.yaml/randomff-1", "--run-dir", str(tmp_path / "run"), "--seed", "1", "--cpu"]
    assert cli.main(words) == 0
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    validation = record["training"]["validation"]
    assert [entry["num_updates"] for entry in validation] == [1, 2, 3, 4]
    valid, test = (record["scores"][f"listops_{split}"]["accuracy"]["value"] for split in ("valid", "test"))
    # fairseq rounds to a decimal
    assert valid == pytest.approx(max(entry["accuracy"] for entry in validation), abs=0.051) and 0 <= test <= 100
    assert record["averaged"] == ["checkpoint_best.pt"]
    assert record["training"]["trained_parameters"] < record["training"]["parameters"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data-prep/prepare-listops.sh", "--train", "0"], "--train 0: must be a positive number"),
    ],
)
def test_bad_input_is_named(words, message):
    done = run(*words)
    assert done.returncode == 1 and message in done.stderr


def test_expressions_that_cannot_be_are_named(tmp_path, capsys):
    words = ["listops", str(tmp_path / "x"), "--longest"]
    refused(
        [*words, "3", "--shortest", "2"],
        "--test 2000: there are too few expressions of --shortest 2 to --longest 3",
        capsys,
    )
    refused([*words, "5", "--shortest", "9"], "--shortest 9", capsys)
