"""Exported models compute what the checkpoint does, decode as fairseq does, or are refused by name."""

import copy
import json
import math
import re
import subprocess
import sys
from collections import namedtuple
from dataclasses import fields
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli
from ode_transformer.experiments.serving import command, export
from ode_transformer.experiments.serving.export import Search, open_exported, writing
from ode_transformer.experiments.serving.pytorch import Opened, PyTorch
from tests.helpers import POST_NORM, ROOT, SMALL, VARIANTS, configure, dictionary, perturbed, raises, small, task, typed

DICTIONARY = dictionary(50)

NO_HISTORY = {"encoder-history": "none", "decoder-history": "none"}
STOCK = {"arch": "floater_tiny", "position-encoder": "none"}
PRE_NORM = {"encoder-normalize-before": True, "decoder-normalize-before": True}

# What CTranslate2's layers can be made to compute.
EXACT = {
    "stock": STOCK,
    "stock-pre-norm": {**STOCK, **PRE_NORM},
    "stock-one-side-pre-norm": {**STOCK, "encoder-normalize-before": True}
    | typed("--encoder-learned-pos --layernorm-embedding --activation-fn gelu --no-scale-embedding"),
    "other-widths": {**STOCK, "share-all-embeddings": None} | typed("--decoder-embed-dim 32"),
    "macaron": {},
    "strang-swapped": typed("--splitting strang-swapped"),
    "ode_residual": NO_HISTORY | typed("--arch ode_residual_tiny"),
    "relative-values": NO_HISTORY | typed("--arch ode_residual_tiny --relative-positions keys-values"),
    "relative-alone": NO_HISTORY | POST_NORM | typed("--arch ode_residual_tiny --no-token-positional-embeddings"),
}
# And what it cannot: a word of the reason.
REFUSED = {
    "macaron_tiny": (POST_NORM, "--splitting strang in a post-norm encoder"),
    "ode_residual_tiny": ({}, "has no layer for --encoder-history learnable_dense;"),
    "rk2_tiny": (NO_HISTORY, "has no layer for --integrator heun;"),
    "rk2_scalars_tiny": ({**NO_HISTORY, "integrator": "euler"}, "has no layer for --coefficients scalars;"),
    "other-widths": ({"arch": "macaron_tiny", "share-all-embeddings": None, "decoder-output-dim": 8}, "output-dim 8"),
    "nesterov": ({**NO_HISTORY, "arch": "ode_residual_tiny", "decoder-integrator": "nesterov"}, "-integrator nesterov"),
    "parallel": ({"arch": "macaron_tiny", "splitting": "parallel"}, "has no layer for --splitting parallel;"),
    "rk4_tiny": ({**NO_HISTORY, "integrator": "euler", **POST_NORM}, "relative positions beside others"),
    "floater_tiny": ({}, "--position-encoder floater"),
    "macaron_rk2_tiny": ({"integrator": "euler", "splitting": "lie-trotter", "ffn-hidden-layers": 2}, "--ffn-hidden"),
    "transevolve_fullff_1_tiny": ({"encoder-layers": None, "decoder-layers": None}, "the blocks of TransEvolveModel"),
}


def trained(model) -> PyTorch:
    """A model opened without a file, which fairseq's generator searches.

    Its parameters are moved from where they begin, so that each has an effect.
    """
    perturbed(model)
    with torch.no_grad():
        for embedding in (model.encoder.embed_tokens, model.decoder.embed_tokens):
            embedding.weight[embedding.padding_idx] = 0
    return PyTorch([Opened("a checkpoint", model.eval(), "", {})], task(), "cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The dictionaries, in a folder."""
    folder = tmp_path_factory.mktemp("dictionaries")
    for language in ("xx", "yy"):
        DICTIONARY.save(str(folder / f"dict.{language}.txt"))
    return sorted(folder.iterdir())


def ends_early(model) -> None:
    """Make the end as probable as other symbols are together, so that hypotheses come to theirs at different steps."""
    with torch.no_grad():
        weight = model.decoder.output_projection.weight
        weight[DICTIONARY.eos()] = 0.4 * weight[5:17].sum(0)


def assert_same(found, expected) -> None:
    """Hypotheses, their order and their scores."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [symbols for symbols, _ in ours] == [symbols for symbols, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-4)


SEARCHES = (Search(4, 0.6, 4, max_len_b=10), Search(3, 1.4, 2, 0.5, 3, min_len=2), Search(1, 1.0, 1, max_len_b=6))


def sources() -> list[list[str]]:
    return writing.random_sentences(DICTIONARY.symbols, (6, 1, 9, 4), seed=3)


# CTranslate2


@pytest.fixture
def ctranslate2():
    return pytest.importorskip("ctranslate2")


@pytest.mark.parametrize("name", EXACT)
def test_ctranslate2_computes_the_same(tmp_path, name, ctranslate2):
    model = trained(small("macaron", **EXACT[name]))
    found = writing.write(model, "ctranslate2", tmp_path / "out")
    assert found["check"]["largest"] < 1e-5 and found["check"]["symbols"] == 45


def test_ctranslate2_searches_as_fairseq(tmp_path, files, ctranslate2):
    """But for a first symbol that must not be the end: CTranslate2 leaves the end out before the softmax."""
    model = trained(small("macaron"))
    ends_early(model.models[0])
    writing.write(model, "ctranslate2", tmp_path / "out", files=files)
    search = Search(4, 0.6, max_len_b=40, min_len=0)
    expected = model.translate(sources(), search)
    for threads in (1, 3):  # the whole batch in one part, and in two
        assert_same(open_exported(tmp_path / "out", threads).translate(sources(), search), expected)


def test_ctranslate2_in_integers_is_near(tmp_path, ctranslate2):
    model = trained(small("macaron"))
    before = {name: p.clone() for name, p in model.models[0].state_dict().items()}
    exact = writing.write(model, "ctranslate2", tmp_path / "fp32")["check"]
    found = writing.write(model, "ctranslate2", tmp_path / "int8", "int8")["check"]
    # Two models with different random weights differ by more than 1 on average; without the instructions for integers
    # that newer processors have, this one differs by .2 from itself.
    assert exact["largest"] < 1e-5 < found["mean"] < 0.5
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("int8", "fp32")]
    assert sizes[0] < sizes[1]
    assert all(torch.equal(p, before[name]) for name, p in model.models[0].state_dict().items())


@pytest.mark.parametrize("name", REFUSED)
def test_what_ctranslate2_has_no_layers_for_is_named(tmp_path, name, ctranslate2):
    flags, reason = REFUSED[name]
    model = trained(small("macaron", **{"arch": name, **flags}))
    with pytest.raises(OdeTransformerError, match=re.escape(reason)) as raised:
        writing.write(model, "ctranslate2", tmp_path / "out")
    assert "--format onnx has" in str(raised.value)
    assert not list(tmp_path.iterdir())


# ONNX: what the graphs compute, by PyTorch; and as ONNX


@pytest.fixture
def to_onnx():
    for library in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(library)
    from ode_transformer.experiments.serving.export import to_onnx

    return to_onnx


# An input or output of a session.
Given = namedtuple("Given", "name shape type", defaults=((), "tensor(float)"))


class Session:
    """What ONNX Runtime does with a graph, done by PyTorch."""

    def __init__(self, graph, caches, traceable):
        self.graph, self.caches, self.traceable = graph, caches, traceable
        self.inputs = [*map(Given, graph.names[0])]

    def get_inputs(self):
        return self.inputs

    def get_outputs(self):
        found = ["values", "symbols"] * ("log_probs" in self.graph.names[1])  # with which write() ends the decoder
        return [Given(name) for name in (*self.graph.names[1], *found)]

    def run_with_ort_values(self, names, given):
        from ode_transformer.experiments.serving.export.from_onnx import _value

        tensors = {name: torch.from_numpy(value.numpy().copy()) for name, value in given.items()}
        inputs = [tensors[n] for n in ("source", "tokens", "order") if n in given]
        if "source" not in given:
            inputs += [[tensors[name] for name in names] for names in (self.caches.of_source, self.caches.growing)]
        with self.traceable():
            out = self.graph(*inputs)
        found = dict(zip(self.graph.names[1], out, strict=True))
        if "count" in tensors:
            found["values"], found["symbols"] = found["log_probs"].topk(int(tensors["count"]))
        return [_value(found[name].numpy()) for name in names]


@pytest.fixture
def by_torch(to_onnx, monkeypatch, files):
    """Open the graphs of a model without ONNX: model -> translator."""
    from ode_transformer.experiments.serving.export import from_onnx

    def build(model):
        exported = copy.deepcopy(model)
        exported.make_generation_fast_(need_attn=False)
        traceable = partial(to_onnx._traceable, exported)
        with traceable():
            graphs, caches = to_onnx.graphs(exported, DICTIONARY, 64)
        sessions = {f"{name}.onnx": Session(graph, caches, traceable) for name, graph in graphs.items()}
        kinds = {torch.float32: "tensor(float)", torch.bool: "tensor(bool)"}
        decoder, growing = sessions["decoder.onnx"], caches.growing
        decoder.inputs = [Given(name) for name in ("tokens", "order", "count", *caches.of_source)]
        for name, x, axis in zip(growing, caches.take(growing), caches.axes(growing), strict=True):
            shape = ["rows", *x.shape[1:]]
            shape[axis] = "length"
            decoder.inputs.append(Given(name, shape, kinds[x.dtype]))
        monkeypatch.setattr(from_onnx, "_session", lambda path: sessions[path.name])
        its = json.loads(described("onnx", longest={"source": 64, "target": 64}))
        # What makes modules traceable is of the process, not of a thread.
        return from_onnx.Reader(files[0].parent, its, 1, "cpu")

    return build


# Of each kind of step, history, position and attention one: of a decoder, whose modules keep something.
FEW = {
    *("macaron", "heun-ralston", "kutta3-dlcl", "midpoint-leapfrog", "nesterov", "corrector-of-euler-steps"),
    *("denseformer", "attention-history", "triple-strang-learned-positions", "leapfrog-midpoint"),
    *("transevolve_randomff_2_tiny", "evolution-released"),
}
LENGTHS = {"max-source-positions": 64, "max-target-positions": 64}


@pytest.mark.parametrize("variant", [v if v in FEW else pytest.param(v, marks=pytest.mark.full) for v in VARIANTS])
def test_the_graphs_compute_and_search_the_same(variant, by_torch):
    """Of every variant: whatever its modules keep goes through the graphs as tensors."""
    model = trained(small(variant, **LENGTHS))
    ends_early(model.models[0])
    translator = by_torch(model.models[0])
    assert writing.compare(model, translator, 1e-5)["symbols"] == 45
    search = SEARCHES[len(variant) % len(SEARCHES)]
    assert_same(translator.translate(sources(), search), model.translate(sources(), search))


def sums(network, dictionary, longest):
    """Graphs of a few operations, in the place of a model's: to trace a layer takes half a minute."""
    from ode_transformer.experiments.serving.export.to_onnx import Graph, _free

    embed = network.encoder.embed_tokens

    def step(tokens, order, of_source, growing):
        grown = torch.cat((growing[0].index_select(0, order.flatten()), embed(tokens.flatten(0, 1)[:, -1:])), 1)
        state = of_source[0].sum(1)[:, None] + grown.sum(1).unflatten(0, tokens.shape[:2])
        return [network.decoder.output_layer(state).log_softmax(-1), grown]

    source, tokens, order = torch.full((3, 6), 5), torch.full((3, 4, 5), 5), torch.arange(12).view(3, 4) % 7
    given, names = (tokens, order, [embed(source)], [torch.zeros(7, 4, 16)]), ["tokens", "order", "read", "grown"]
    axes = (_free(0, 1, 2), _free(0, 1), [_free(0, 1)], [_free(0, 1)])
    return {
        "encoder": Graph(network, lambda source: [embed(source)], (source,), (_free(0, 1),), (["source"], ["read"])),
        "decoder": Graph(network, step, given, axes, (names, ["log_probs", "grown.next"])),
    }, None


SERVES = """
import sys
sys.modules["torch"] = sys.modules["fairseq"] = None  # as if they were not installed
import ode_transformer
print(ode_transformer.load(sys.argv[1]).translate(["w5 w6", "w7"], beam=2, max_len_b=3))
"""


def test_graphs_are_written_as_onnx_and_run_without_pytorch_and_fairseq(tmp_path, files, to_onnx, monkeypatch):
    model = trained(small("macaron"))
    monkeypatch.setattr(to_onnx, "graphs", sums)
    to_onnx.write(model, tmp_path)
    for file in files:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    given = json.loads(described("onnx"))
    reader = export.load_module("from", "onnx").Reader(tmp_path, given, 1, "cpu")
    embed, project = model.models[0].encoder.embed_tokens, model.models[0].decoder.output_layer

    def log_probs(source, target):
        read, written = (torch.tensor([*map(DICTIONARY.index, words), DICTIONARY.eos()]) for words in (source, target))
        found = project(embed(read).sum(0) + embed(written.roll(1)).cumsum(0)).log_softmax(-1).detach()
        return found, found.gather(1, written[:, None]).flatten().tolist()

    targets = writing.random_sentences(DICTIONARY.symbols, (3, 5, 1, 2), seed=4)
    expected = [pytest.approx(log_probs(*pair)[1], abs=1e-5) for pair in zip(sources(), targets, strict=True)]
    assert reader.score(sources(), targets) == expected
    first = log_probs(sources()[0], [])[0][0, 4:].argmax() + 4  # but for the special symbols
    assert reader.translate(sources()[:1], Search(1, max_len_b=1))[0][0][0] == [DICTIONARY[first]]
    raises("of 11 subword units, its end included: must have 9 at", reader.translate, [["w5"] * 10], Search())
    manifest = {"source_lang": "xx", "target_lang": "yy", "tokenise": {"plain": True}, "sha256": {}}
    for name, its in (("manifest.json", manifest), ("export.json", given)):
        (tmp_path / name).write_text(json.dumps(its))
    done = subprocess.run([sys.executable, "-c", SERVES, tmp_path], cwd=ROOT, capture_output=True, text=True)
    words = [" ".join(reader.translate([line], Search(2, max_len_b=3))[0][0][0]) for line in (["w5", "w6"], ["w7"])]
    assert (done.stdout, done.returncode) == (f"{words}\n", 0), done.stderr
    to_onnx.quantize(model, tmp_path)
    near = export.load_module("from", "onnx").Reader(tmp_path, given, 1, "cpu").score(sources(), targets)
    assert near != expected and sum(map(sum, near)) == pytest.approx(sum(sum(e.expected) for e in expected), rel=0.1)


ONNX = ["two-hidden-layers", "macaron", "decoder-rk2-learnable", "decoder-rk4-floater", "transevolve_randomff_1_tiny"]
ONNX += ["denseformer", "attention-history", "pcformer-decoder", "nesterov"]


@pytest.mark.full
@pytest.mark.parametrize("variant", ONNX)
def test_onnx_computes_and_searches_the_same(tmp_path, variant, files, to_onnx):
    few = {"evolution-depth": 1} if "transevolve" in variant else {"encoder-layers": 1, "decoder-layers": 1}
    few |= LENGTHS
    model = trained(small(variant, **few))
    ends_early(model.models[0])
    found = writing.write(model, "onnx", tmp_path / "out", files=files)
    assert found["check"]["largest"] < 1e-5
    assert json.loads((tmp_path / "out" / "export.json").read_text()) == found
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
    translators = [open_exported(tmp_path / "out", threads) for threads in (1, 3)]
    for search in SEARCHES:
        expected = model.translate(sources(), search)
        for translator in translators:
            assert_same(translator.translate(sources(), search), expected)
    to_onnx.quantize(model, tmp_path / "out")
    near = writing.compare(model, export.load_module("from", "onnx").Reader(tmp_path / "out", found, 1, "cpu"), 1.0)
    assert near["largest"] > found["check"]["largest"]


def test_a_model_is_as_long_as_its_attention_is_finite():
    """A flow's biases grow with the position, until attention no longer fits single precision."""
    few = {"max-source-positions": 128, "max-target-positions": 128}
    for variant in ("macaron", "floater_tiny"):
        model = trained(small(variant, **few))
        assert model.finite == model.longest == {"source": 128, "target": 128}
        assert model.translate([["w5"] * 127], Search(1, max_len_b=2))[0], "with its end, the longest"
    shorter = trained(small("macaron", **few | {"max-source-positions": 64}))
    assert PyTorch([*model.opened, *shorter.opened], task(), "cpu").longest == {"source": 64, "target": 128}
    solver = model.models[0].position_encoder.solvers["all"]
    with torch.no_grad():
        solver.weight1.mul_(200)
    del model.finite  # which is looked at once
    reach = model.finite["source"]
    assert 8 < reach < 128 and model.finite["target"] == reach
    assert all(map(math.isfinite, model.score([["w5"] * (reach - 1)], [["w6"]])[0]))
    raises(f"from position {reach} on", model.score, [["w5"] * reach], [["w6"]])
    ((best, _),) = model.translate([["w5"]], Search(1, min_len=reach - 1))[0]
    assert len(best) == reach - 1, "cut off before attention overflows, although 200 units are asked for"
    raises(f"must have {reach} at most", model.translate, [["w5"] * reach], Search())


# The command


def write_checkpoint(path, **task_options):
    """A small model's checkpoint, as fairseq writes it."""
    cfg = configure("macaron_tiny", {**SMALL, "share-all-embeddings": True})
    its_task = {"source_lang": "xx", "target_lang": "yy", **task_options}
    state = {"args": None, "cfg": {"model": dict(cfg), "task": its_task}}
    torch.save(state | {"model": trained(small("macaron")).models[0].state_dict()}, path)
    return path


@pytest.fixture
def saved(tmp_path, files):
    """A checkpoint beside its dictionaries."""
    folder = tmp_path / "saved"
    folder.mkdir()
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "codes").write_text("#version: 0.2\n")
    return write_checkpoint(folder / "model.pt")


def test_a_checkpoint_is_exported(tmp_path, saved, capsys, fails, ctranslate2):
    out = tmp_path / "out"
    words = ["export", str(saved), "--format", "ctranslate2", "-o", str(out)]
    assert cli.main(words) == 0 and "log-probabilities of 45 symbols differ" in capsys.readouterr().out
    assert {"model.bin", "dict.xx.txt", "dict.yy.txt", "codes", "export.json"} <= {p.name for p in out.iterdir()}
    described = json.loads((out / "export.json").read_text())
    assert described["source_lang"] == "xx" and described["versions"]["ctranslate2"]
    assert open_exported(out, threads=1).translate([["w5", "w6"]], Search(2))[0][0][0]
    before = sorted(out.iterdir())
    assert "already exists" in fails(*words) and sorted(out.iterdir()) == before


def test_what_is_another_model_leaves_nothing(tmp_path, saved, monkeypatch, ctranslate2):
    from ode_transformer.experiments.serving.export import to_ctranslate2

    norm = to_ctranslate2._norm

    def wrong(spec, module):
        norm(spec, module)
        spec.gamma = spec.gamma * 1.01

    monkeypatch.setattr(to_ctranslate2, "_norm", wrong)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OdeTransformerError, match=r"log-probabilities differ from the checkpoint's by .*0.0001"):
        command.export(saved, tmp_path / "out", "ctranslate2")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("format", export.FORMATS)
def test_a_missing_library_is_named_with_its_extra(tmp_path, saved, monkeypatch, format, fails):
    for name in export.FORMATS[format]:
        monkeypatch.setitem(sys.modules, name, None)
    for which in ("to", "from"):
        monkeypatch.delitem(sys.modules, f"{export.__name__}.{which}_{format}", raising=False)
    message = fails("export", saved, "--format", format, "-o", tmp_path / "out")
    assert re.search(rf"--format {format}: .* is not installed; .* pip install .* -e '\.\[{format}\]'", message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: dictionary(49).save(str(saved.with_name("dict.xx.txt"))),
         "has vocabulary sizes 50 and 50, the dictionaries in .* have 49 and 50"),
        (lambda saved: write_checkpoint(saved, source_lang=None), "must name a source and a target language"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_named(tmp_path, saved, change, message, fails, ctranslate2):
    change(saved)
    assert re.search(message, fails("export", saved, "--format", "ctranslate2", "-o", tmp_path / "out"))
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]


def described(format, **values):
    """The least that is a description."""
    least = {"source_lang": "xx", "target_lang": "yy", "longest": {"source": 9, "target": 9}, "sha256": {}}
    return json.dumps({"format": format, **least, **values})


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (None, "export.json: cannot be read"),
        ('{"format": ["onnx"]}', "format must be one of ctranslate2, onnx"),
        (described("onnx", source_lang="../../x"), "source_lang must be a language"),
        (described("onnx", sha256={"x": "0"}), "is missing, or not a file of its folder"),
        (described("onnx", sha256={"export.json": "0"}), "has changed since its SHA-256 was noted"),
    ],
)
def test_folders_that_are_no_exports_are_named(tmp_path, description, message):
    if description is not None:
        (tmp_path / "export.json").write_text(description)
    raises(message, open_exported, tmp_path)


def test_the_options_of_a_search_are_fairseqs():
    theirs = {field.name: (field.type, field.default) for field in fields(GenerationConfig)}
    assert all(theirs[field.name] == (field.type, field.default) for field in fields(Search))
    assert Search.of({"max-len-b": 30, "lenpen": None, "post-process": "x"}) == Search(max_len_b=30)
    assert Search(max_len_b=30).but(beam=2, nbest=None).given() == {"beam": 2, "max_len_b": 30}


def test_a_translation_has_room_for_its_least_length():
    assert Search(max_len_a=0.5, max_len_b=3, min_len=2).most(9, 100) == 7 and Search(max_len_b=300).most(9, 100) == 99
    raises(r"--max-len-b 5, --min-len 9: the longest .* have 5 units", Search(min_len=9, max_len_b=5).most, 4, 100)


@pytest.mark.parametrize(("value", "symbol"), [(np.nan, 4), (0.0, 99), (0.0, -1)])
def test_graphs_that_compute_no_log_probabilities_are_named(value, symbol):
    pytest.importorskip("onnxruntime")
    reader = object.__new__(export.load_module("from", "onnx").Reader)
    reader.name, reader.symbols, reader.growing = "it", ([], ["<s>", "<pad>", "</s>", "<unk>", "a"]), set()
    reader._encode = lambda sources: {}
    reader._step = lambda _, tokens, *more: [np.full((*tokens.shape[:2], 4), x) for x in (value, symbol)]
    raises("it: computes no log-probabilities", reader.search, [[4]], Search(1), 3)


def test_tables_end_with_the_positions_of_the_model(to_onnx):
    network, given = small("floater_tiny", **{"max-source-positions": 70, "max-target-positions": 70}).eval(), []
    places = network.position_encoder.places
    network.position_encoder.places = lambda *args, **more: given.append(more["solution"]) or places(*args, **more)
    with to_onnx._traceable(network):
        to_onnx.graphs(network, DICTIONARY, 70)
    assert {len(table) for solution in given for table in solution} == {70}


def test_a_difference_that_is_no_number_is_refused():
    def model(odd):
        def score(_, targets):
            return [[math.nan if len(target) == odd else -1.0] * (len(target) + 1) for target in targets]

        symbols = (list("abcdefgh"),) * 2
        return SimpleNamespace(name="m", finite={"source": 99, "target": 99}, symbols=symbols, score=score)

    raises("by nan", writing.compare, model(0), model(20), math.inf)
