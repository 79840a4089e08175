"""ListOps: the grammar, the values, the sets; and training on them."""

import itertools
import json
import subprocess
from collections import Counter

import numpy as np
import pytest
import yaml

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli
from ode_transformer.experiments.tasks import baselines, listops
from tests.helpers import ROOT, environment, output_of, refused

FUNCTIONS = {"MIN": np.min, "MAX": np.max, "MED": lambda v: int(np.median(v)), "SM": lambda v: sum(v) % 10}


def evaluate(symbols):
    """The value of an expression, read from its symbols; and the lengths of its lists, and how deep they are."""
    stack, lengths, deepest = [("MAX", [])], [], 0  # around the expression
    for symbol in symbols:
        if symbol.startswith("["):
            stack.append((symbol[1:], []))
            deepest = max(deepest, len(stack) - 1)
            continue
        if symbol == "]":
            operator, values = stack.pop()
            symbol = FUNCTIONS[operator](values)
            lengths.append(len(values))
        stack[-1][1].append(int(symbol))
    ((_, (value,)),) = stack  # one, and complete
    return value, lengths, deepest


def test_generated_expressions_are_those_of_the_published_grammar():
    published = "[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]"
    assert evaluate(published.split()) == (5, [2, 5, 6], 2)
    rows = list(itertools.islice(listops.generate(3, 50, 90), 100))
    assert all(50 <= len(text.split(" ")) <= 90 for text, _ in rows)
    assert len({text for text, _ in rows}) == 100
    assert {value for _, value in rows} == set("0123456789")
    assert {s for text, _ in rows for s in text.split() if s.startswith("[")} == {f"[{o}" for o in listops.OPERATORS}
    for text, its in [*rows, *itertools.islice(listops.generate(4, 300, 600), 5)]:
        value, lengths, deepest = evaluate(text.split())
        assert value == int(its) and deepest < listops.MAX_DEPTH
        assert 2 <= min(lengths) <= max(lengths) <= listops.MAX_ELEMENTS
    a, b, c = (list(itertools.islice(listops.generate(seed, 20, 60), 5)) for seed in (1, 1, 2))
    assert a == b != c


@pytest.mark.full
def test_from_expressions_to_the_accuracy_of_the_best_model(tmp_path):
    data, sizes = tmp_path / "bin", ["--train", 32, "--valid", 8, "--test", 8, "--shortest", 10, "--longest", 40]
    for more, status, said in ((), 0, ""), ((), 0, "is complete"), (("--seed", 2), 1, "was made with"):
        words = ["data-prep/prepare-listops.sh", "--out", data, *sizes, *more]
        done = subprocess.run(list(map(str, words)), cwd=ROOT, env=environment(), capture_output=True, text=True)
        assert done.returncode == status and said in done.stderr, done.stderr
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
    valid = record["scores"]["listops_valid"]["accuracy"]["value"]
    # fairseq rounds to a decimal
    assert valid == pytest.approx(max(entry["accuracy"] for entry in validation), abs=0.051)
    assert record["averaged"] == ["checkpoint_best.pt"]
    assert record["training"]["trained_parameters"] < record["training"]["parameters"]


def test_expressions_that_cannot_be_are_named(tmp_path, capsys):
    words = ["dataset", "listops", str(tmp_path / "x"), "--shortest", "2", "--longest", "3"]
    refused(words, "--test 2000: there are too few expressions of --shortest 2 to --longest 3", capsys)
    assert not (tmp_path / "x").exists(), "a folder with some of the sets would not be taken again"


def test_a_rule_by_the_first_symbol_shows_what_a_model_has_not_learned(tmp_path, capsys):
    """A model that answers by the outermost operator is found out; it need not answer what is most frequent."""
    words = ["--train", "400", "--valid", "20", "--test", "200", "--shortest", "9"]
    assert "valid: 20 examples\n" in output_of(["dataset", "listops", tmp_path, *words], capsys).err
    read = {name: (tmp_path / name).read_text().splitlines() for name in ("test.input0", "test.label", "train.label")}
    firsts, golds = [line.split()[0] for line in read["test.input0"]], read["test.label"]
    answers = {"[MIN": "0", "[SM": "3", "[MED": "4", "[MAX": "9"}
    taken = ["7" if i == 0 else answers[first] for i, first in enumerate(firsts)]
    (tmp_path / "test.tsv").write_text("".join(f"{a}\t{b}\t0.5\n" for a, b in zip(golds, taken, strict=True)))
    words = ["baseline", "first-symbol", str(tmp_path), "--predictions", str(tmp_path / "test.tsv")]
    assert cli.main([*words, "--output", str(tmp_path / "record.json")]) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    right = sum(gold == answers[first] for first, gold in zip(firsts, golds, strict=True))
    assert record["model"] == {"predictions": "test.tsv", "agreement": 99.5, "rule": 100 * right / 200}
    most = Counter(read["train.label"]).most_common(1)[0][0]
    always = 100 * sum(gold == most for gold in golds) / 200
    assert record["scores"]["test"]["value"] > always + 5 and set(record["scores"]) == {"test", "valid"}
    (tmp_path / "test.tsv").write_text("0\t0\t0.5\n" * 200)
    refused(words, "test.tsv: must be of", capsys)


def test_a_bag_of_symbols_knows_words_but_not_their_order(tmp_path, capsys):
    good, bad = ["a fine film", "what a fine end", "fine"], ["a dull film", "what a dull end", "dull"]
    for split in ("train", "test"):
        (tmp_path / f"{split}.input0").write_text("\n".join([*good, *bad]) + "\n")
        (tmp_path / f"{split}.label").write_text("pos\n" * 3 + "neg\n" * 3)
    assert "test: accuracy 100.00 (6 examples)" in output_of(["baseline", "bag-of-symbols", tmp_path], capsys).out
    assert baselines.bag_of_symbols([*good, *bad], [1] * 3 + [0] * 3, [["end fine a"], ["end a fine"]]) == [[1], [1]]
    said = output_of(["baseline", "bag-of-symbols", tmp_path, "--positions", "1"], capsys).out
    assert "accuracy 66.67" in said, "'a' and 'what' alone say nothing"
    with pytest.raises(OdeTransformerError, match=r"bag-of-symbols cannot be fitted .* at least 2 classes"):
        baselines.bag_of_symbols(good, ["pos"] * 3, [good])
