"""ListOps: the grammar, the values, the sets; and training on them through the script."""

import itertools
import json
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ode_transformer.experiments import listops
from tests.helpers import ROOT, environment

DIGITS = st.integers(0, 9)


@st.composite
def expressions(draw, depth=3):
    """Nested lists as Python sees them: a digit, or (operator, elements)."""
    if depth == 0 or draw(st.booleans()):
        return draw(DIGITS)
    operator = draw(st.sampled_from(sorted(listops.OPERATORS)))
    return operator, draw(st.lists(expressions(depth=depth - 1), min_size=2, max_size=5))


def spell(tree):
    if isinstance(tree, int):
        return [str(tree)]
    operator, elements = tree
    return [f"[{operator}", *itertools.chain.from_iterable(map(spell, elements)), "]"]


def value(tree):
    if isinstance(tree, int):
        return tree
    operator, elements = tree
    values = [value(e) for e in elements]
    functions = {"MIN": np.min, "MAX": np.max, "MED": lambda v: int(np.median(v)), "SM": lambda v: sum(v) % 10}
    return int(functions[operator](values))


@given(expressions())
def test_the_value_of_an_expression(tree):
    assert listops.evaluate(spell(tree)) == value(tree)


def test_the_published_example():
    text = "[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]"
    assert listops.evaluate(text.split()) == 5


@pytest.mark.parametrize("text", ["", "[MAX", "[MAX ]", "1 2", "[MAX 1 ] ]", "12", "[AVG 1 2 ]", "]"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ValueError, match="expression"):
        listops.evaluate(text.split())


def test_generated_expressions_have_their_length_and_their_value():
    rows = list(itertools.islice(listops.generate(3, 50, 90), 200))
    assert all(50 <= len(symbols) <= 90 for symbols, _ in rows)
    assert all(listops.evaluate(symbols) == value for symbols, value in rows)
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


def test_from_expressions_to_a_curve(data, tmp_path):
    words = ["transevolve_small_randomff_1", "--data", data, "--run-dir", tmp_path, "--cpu"]
    words += ["--updates", 2, "--interval", 1]
    size = ["--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 32, "--encoder-attention-heads", 2]
    done = run("scripts/listops.sh", *words, "--", *size, "--batch-size", 16, "--num-workers", 0)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert [entry["num_updates"] for entry in record["validation"]] == [1, 2]
    assert 0 <= record["validation"][-1]["accuracy"] <= 100
    assert record["parameters"]["trained"] < record["parameters"]["all"]
    assert str(tmp_path) not in record["command"]
    log = (tmp_path / "train.log").read_text()
    again = run("scripts/listops.sh", *words, "--", *size, "--batch-size", 16, "--num-workers", 0)
    assert again.returncode == 0 and (tmp_path / "train.log").read_text() == log, "no update too many"
    (tmp_path / ".trained").unlink()
    again = run("scripts/listops.sh", *words, "--", *size, "--batch-size", 16, "--num-workers", 0)
    assert "has its 2 updates" in again.stderr and (tmp_path / "train.log").read_text() == log
    other = run("scripts/listops.sh", *words, "--", *size, "--batch-size", 8, "--num-workers", 0)
    assert other.returncode == 1 and "holds another run; take another --run-dir" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scripts/listops.sh"], "an ARCH is needed"),
        (["scripts/listops.sh", "a", "--updates", "0"], "--updates 0: must be a positive number"),
        (["data-prep/prepare-listops.sh", "--train", "0"], "--train 0: must be a positive number"),
        (["python", "-m", "ode_transformer", "listops", "x", "--shortest", "9", "--longest", "5"], "--shortest 9"),
    ],
)
def test_bad_input_is_named(words, message):
    done = run(*words)
    assert done.returncode == 1 and message in done.stderr


def test_too_few_expressions_are_named(tmp_path):
    done = run("python", "-m", "ode_transformer", "listops", tmp_path / "x", "--shortest", "2", "--longest", "3")
    assert done.returncode == 1
    assert "--test 2000: there are too few expressions of --shortest 2 to --longest 3 symbols" in done.stderr
