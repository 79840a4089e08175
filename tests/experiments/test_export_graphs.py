"""ONNX graphs of strangers, the smallest that are or are not what the runner takes: each ends in one sentence."""

import contextlib
import json
import math
import subprocess
import sys

import pytest

from ode_transformer.experiments.serving.export import ExportError, Search, open_exported
from tests.experiments.test_export import DICTIONARY, described
from tests.helpers import ROOT

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

INT = TensorProto.INT64
V = len(DICTIONARY)


def ids(shape, values):
    return helper.make_tensor("v", INT, shape, values)


def full(value):
    return helper.make_tensor("v", TensorProto.FLOAT, [1], [value])


ENDS = helper.make_tensor("v", TensorProto.FLOAT, [1, 1, V], [0.0 if i == DICTIONARY.eos() else -1.0 for i in range(V)])


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def graph(path, nodes, inputs, outputs):
    """Write a graph; inputs and outputs by name, with type and axes."""
    both = [[helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", *both), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.save(model, path)


def write_graphs(folder, wrong=""):
    """An exported folder with a model that ends every sentence at once, or does wrong."""
    for language in ("xx", "yy"):
        DICTIONARY.save(str(folder / f"dict.{language}.txt"))
    rows = "kept" if wrong != "rows" else "one"
    nodes = [node("Identity", "source", "kept"), node("Constant", "", "one", value=ids([1], [5]))]
    nodes.append(node("Identity", rows, "cache"))
    source = "text" if wrong == "input" else "source"
    nodes[0].input[0] = source
    axes = None if wrong == "rows" else ["B", "S"]
    graph(folder / "encoder.onnx", nodes, [(source, INT, ["B", "S"])], [("cache", INT, axes)])

    best = ENDS if wrong in ("", "symbols") else full({"nan": math.nan, "infinite": math.inf}.get(wrong, 0.0))
    wide = {"width": V + 1, "memory": 2**40}.get(wrong, V)
    nodes = [
        node("Constant", "", "base", value=best),
        node("Shape", "order", "two"),
        node("Constant", "", "wide", value=ids([1], [wide])),
        node("Concat", "two wide", "shape", axis=0),
        node("Expand", "base shape", "log_probs"),
        node("TopK", "log_probs count", "values found", axis=-1),
        node("Constant", "", "much", value=ids([1], [V if wrong == "symbols" else 0])),
        node("Add", "found much", "symbols"),
    ]
    if wrong == "loop":
        body = helper.make_graph(
            [node("Identity", "c", "d")],
            "body",
            [helper.make_tensor_value_info(n, t, []) for n, t in (("i", INT), ("c", TensorProto.BOOL))],
            [helper.make_tensor_value_info("d", TensorProto.BOOL, [])],
        )
        yes = helper.make_tensor("v", TensorProto.BOOL, [], [True])
        nodes += [node("Constant", "", "yes", value=yes), helper.make_node("Loop", ["", "yes"], [], body=body)]
    inputs = [("tokens", INT, ["B", "n", "T"]), ("order", INT, ["B", "n"]), ("count", INT, [1])]
    inputs.append(("cache" if wrong != "unknown" else "other", INT, ["B", "S"]))
    outputs = [("log_probs", TensorProto.FLOAT, None), ("values", TensorProto.FLOAT, None), ("symbols", INT, None)]
    if wrong == "grown":
        outputs.append(("wide.next", INT, None))
        nodes.append(node("Identity", "wide", "wide.next"))
    graph(folder / "decoder.onnx", nodes, inputs, outputs[: 2 if wrong == "output" else 4])
    (folder / "export.json").write_text(described("onnx"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("input", r"encoder.onnx has the inputs \['text'\], must have source"),
        ("output", "decoder.onnx has no output symbols"),
        ("unknown", "decoder.onnx has an input other, which nothing gives"),
        ("grown", r"decoder.onnx has no input wide of numbers for its output wide\.next"),
        ("loop", "decoder.onnx has an operator Loop"),
        ("rows", r"its cache is of shape \[1\], must have a row per sentence"),
        ("width", r"its log_probs are of shape \(2, 1, 51\), must be \(2, 1, "),
        ("nan", "its log-probabilities are not numbers"),
        ("infinite", "its log-probabilities are not numbers"),
        ("symbols", "finds symbols that are not in its dictionary"),
        ("memory", "cannot be computed: "),
        ("", ""),
    ],
)
def test_graphs_of_strangers_end_in_a_sentence(tmp_path, wrong, message):
    write_graphs(tmp_path, wrong)
    refuses = pytest.raises(ExportError, match=message) if wrong else contextlib.nullcontext()
    with refuses:
        translator = open_exported(tmp_path, threads=1)
        if wrong == "width":  # of what only scoring, and the last step of a search, looks at
            translator.score([["w5"], ["w6"]], [["w5"], ["w6"]])
        assert [h[0][0] for h in translator.translate([["w5"], ["w6", "w7"]], Search(2, min_len=0))] == [[], []]


def test_raw_text_is_translated_without_pytorch_and_fairseq(tmp_path):
    write_graphs(tmp_path)
    manifest = {"source_lang": "xx", "target_lang": "yy", "tokenise": {"plain": True}, "sha256": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    code = """
import sys
sys.modules["torch"] = sys.modules["fairseq"] = None  # as if they were not installed
import ode_transformer
translator = ode_transformer.load(sys.argv[1])
print(translator.translate(["w5 w6", ""]), translator.hypotheses(["w7"], beam=2, nbest=2)[0][0].score)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['', ''] ")
