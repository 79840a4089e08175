"""Files of strangers, damaged and odd ones: no code runs, no work is without bound, and each ends in one sentence."""

import argparse
import gzip
import random
import re
import shutil
import time

import pytest
import torch
from sacremoses import MosesPunctNormalizer

from ode_transformer import markdown
from ode_transformer.checkpoints import inputs, standalone
from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import recipes, records
from ode_transformer.experiments.metrics import scoring
from ode_transformer.experiments.results import plots, tables
from ode_transformer.experiments.serving.backend import Backend
from ode_transformer.experiments.serving.export import open_exported
from ode_transformer.experiments.serving.translator import Translator
from ode_transformer.experiments.text import lines, moses, pairs, subwords
from ode_transformer.experiments.text.lines import read_all, read_lines
from ode_transformer.experiments.text.pipeline import Pipeline
from ode_transformer.experiments.text.tokenisation import Tokeniser
from ode_transformer.files import read_json, sha256, write_json, write_lines
from tests.helpers import SMALL, configure, model, raises, refused, write_run
from tests.test_warm_start import SIZES, stock, words


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Checkpoints of a stock Transformer, pre-norm, and of one of ours; sentences, a dictionary."""
    folder = tmp_path_factory.mktemp("whole")
    stock(folder / "stock.pt", **{"encoder-normalize-before": True, "decoder-normalize-before": True})
    values = {**SMALL, "share-all-embeddings": True}
    config = configure("floater_tiny", values)
    state = {"cfg": {"model": dict(config)}, "args": None, "model": model("floater_tiny", values).state_dict()}
    torch.save(state, folder / "ours.pt")
    (folder / "text").write_text("s4 s5 s6\ns7\n")
    (folder / "dict.xx.txt").write_text("".join(f"s{i} 1\n" for i in range(46)))
    return folder


def changed(path, to, change):
    state = torch.load(path, weights_only=False)
    change(state)
    torch.save(state, to)
    return to


EVALUATED = ("adaptive_softmax_cutoff", "encoder_xformers_att_config", "decoder_xformers_att_config")
HOSTILE = {
    **{f"{name}-{key}": (name, key, str) for name in ("stock", "ours") for key in EVALUATED},
    # A string within a string: what is read as plain data would be evaluated after.
    **{f"{name}-{key}-twice": (name, key, repr) for name in ("stock", "ours") for key in EVALUATED},
    # What fairseq reads beside the flat options.
    **{f"stock-{key}": ("stock", key, str) for key in ("encoder", "decoder", "xformers_att_config")},
    "fconv": ("fconv", "encoder_layers", str),
    # Called ours, but fairseq builds what ``args`` have as the architecture.
    "forged": ("transformer", "xformers_att_config", str),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_options_that_fairseq_evaluates_run_nothing(tmp_path, whole, kind):
    """Seventeen ways of running code from plain data; `check` stands before fairseq-generate."""
    path, code, marker = hostile(tmp_path, whole, kind)
    raises(f"^{path}: ", standalone.model_options, standalone.load(path), path)
    assert not marker.exists() and len(HOSTILE) == 17
    eval(code if HOSTILE[kind][2] is str else eval(code))
    assert marker.exists(), "the attack itself works"


def hostile(folder, whole, kind):
    """A checkpoint with code in its options, the code, and the file that it would make."""
    name, key, quoted = HOSTILE[kind]
    marker = folder / "executed"
    code = quoted(f"__import__('pathlib').Path({str(marker)!r}).touch()")

    def change(state):
        stored = state["cfg"]["model"]
        if name == "ours":
            stored[key] = code
        elif name == "stock":
            vars(stored)[key] = {"xformers_att_config": code} if key in ("encoder", "decoder") else code
        else:
            called = "rk2_tiny" if kind == "forged" else name
            values = {**vars(stored), "arch": name, "_name": called, key: code}
            state.update(cfg=None, args=argparse.Namespace(**values))

    return changed(whole / f"{'ours' if name == 'ours' else 'stock'}.pt", folder / "hostile.pt", change), code, marker


def test_every_command_opens_checkpoints_through_the_same_door(tmp_path, whole, capsys):
    path, _, marker = hostile(tmp_path, whole, "stock-adaptive_softmax_cutoff")
    sentences = ["--text", str(whole / "text"), "--dictionary", str(whole / "dict.xx.txt")]
    out = str(tmp_path / "x.png")
    for argv in (
        ["plot", "positions", str(path), "--output", out],
        ["plot", "coefficients", str(path), *sentences, "--output", out],
        ["lab", "orders", str(path), *sentences],
        ["check", str(path), "--data", str(whole)],
        ["warm-start", str(path), "--arch", "floater_tiny", "--output", out, "--", *words(SIZES)],
    ):
        refused(argv, f"^error: {path}: ", capsys)
        assert not marker.exists(), argv[0]


def test_a_checkpoint_that_fairseq_would_read_in_place_of_another_is_refused(tmp_path, whole, capsys):
    """fairseq-generate --path a.pt opens a-shard0.pt if that is there."""
    for name in ("a.pt", "a-shard0.pt"):
        shutil.copy(whole / "stock.pt", tmp_path / name)
    refused(["check", str(tmp_path / "a.pt"), "--data", str(whole)], f"^error: {tmp_path}/a-shard0.pt: ", capsys)


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        ("stock", lambda s: s.update(args=argparse.Namespace(arch="fconv")), "architecture 'fconv'"),  # rather than cfg
        ("stock", lambda s: s.update(cfg=None, args="transformer"), "no configuration"),
        ("stock", lambda s: s["cfg"]["model"].__dict__.update(encoder_attention_heads=0), "cannot be built"),
        ("stock", lambda s: s["cfg"]["model"].__dict__.update(encoder_layers=10**9), "encoder_layers is 1000000000"),
        ("stock", lambda s: vars(s["cfg"]["model"]).update(share_all_embeddings="--user-dir=x"), "true or false"),
        ("stock", lambda s: vars(s["cfg"]["model"]).update(encoder_layers_to_keep="${env:HOME}"), "a short string"),
        ("ours", lambda s: s["cfg"]["model"].update(encoder_ffn_embed_dim=10**9), "smaller than the model"),
        ("ours", lambda s: s["cfg"]["model"].update(max_source_positions=10**9), "smaller than the model"),
        ("ours", lambda s: s["cfg"]["model"].update(flow_step=1e-12), "--flow-step 1e-12"),
        ("ours", lambda s: s["cfg"]["model"].update(activation_fn="nonsense"), "cannot be built as floater"),
        ("ours", lambda s: s["model"].update({"encoder.embed_tokens.weight": 5}), "is a int, must be a tensor"),
        (
            "ours",
            lambda s: s["model"].update({"encoder.embed_tokens.weight": torch.zeros(1, 1).expand(10**9, 16)}),
            "encoder.embed_tokens.weight .* has more elements than stored values",
        ),
    ],
)
def test_odd_checkpoints_end_in_a_sentence(tmp_path, whole, source, change, message):
    path = changed(whole / f"{source}.pt", tmp_path / "odd.pt", change)
    raises(rf"^{path}.*{message}", standalone.open_model, path)


@pytest.mark.parametrize(
    ("flags", "longest", "message"),
    [({"batch-size": 0}, 9, "batch_size 0"), ({"batch-size": "x"}, 9, "batch_size 'x'"), ({}, 1, "it: reads 1 units")],
)
def test_no_sentence_is_cut_for_ever(flags, longest, message):
    """A model that reads the end of a sentence only would get its first piece again and again."""
    backend = Backend()
    backend.name, backend.languages, backend.symbols = "it", ("de", "en"), ([], [])
    backend.longest = {"source": longest, "target": 9}
    raises(f"^{message}", Translator, backend, Pipeline(Tokeniser(), "de", "en"), flags)


@pytest.mark.parametrize("kind", ["ctranslate2", "onnx"])
def test_a_damaged_export_ends_in_a_sentence(tmp_path, kind):
    pytest.importorskip({"onnx": "onnxruntime"}.get(kind, kind))
    write_lines(tmp_path / "dict.de.txt", ["a 1"])
    for name in ("model.bin", "encoder.onnx", "decoder.onnx"):
        (tmp_path / name).write_bytes(b"junk" * 9)
    about = {"format": kind, "source_lang": "de", "target_lang": "de", "longest": {"source": 9, "target": 9}}
    write_json(tmp_path / "export.json", about | {"sha256": {}})
    said = f"^{tmp_path}: is damaged, or not of this version; export the model again: "
    raises(said, open_exported, tmp_path)


def test_another_dictionary_of_the_same_size_is_refused(tmp_path, whole, capsys):
    run, data = tmp_path / "run", tmp_path / "data"
    run.mkdir(), data.mkdir()
    (run / "stock.pt").write_bytes((whole / "stock.pt").read_bytes())
    digest = sha256(whole / "dict.xx.txt")
    write_json(run / "run.json", {"dictionaries": {"dict.xx.txt": digest, "dict.yy.txt": digest}})
    first, second, *rest = (whole / "dict.xx.txt").read_text().splitlines(keepends=True)
    (data / "dict.xx.txt").write_text("".join([second, first, *rest]))
    path, output, dictionary = str(run / "stock.pt"), str(tmp_path / "out.pt"), str(data / "dict.xx.txt")
    for argv in (
        ["check", path, "--data", str(data)],
        ["lab", "orders", path, "--text", str(whole / "text"), "--dictionary", dictionary],
        ["warm-start", path, "--arch", "floater_tiny", "--output", output, "--data", str(data), "--", *words(SIZES)],
    ):
        refused(argv, "dict.xx.txt: is not the dictionary that", capsys)
    of_target = sha256(data / "dict.xx.txt")
    write_json(run / "run.json", {"dictionaries": {"dict.xx.txt": digest, "dict.yy.txt": of_target}})
    refused(["check", path, "--data", str(data)], "dict.xx.txt: is not the dictionary that", capsys)


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffein Haus\u2028mit Tür\nzwei\n\ufeffdrei\n".encode())
    assert read_all(path) == list(read_lines(path)) == ["ein Haus\u2028mit Tür", "zwei", "\ufeffdrei"], "at the top"
    (tmp_path / "dict.txt").write_text("ein 1\nHaus 1\nmit 1\nTür 1\nzwei 1\n")
    assert [len(text) for text in inputs.read_texts([(path, tmp_path / "dict.txt")], 9)] == [3]


def test_a_run_json_that_no_run_wrote_is_named(tmp_path):
    for damage, message in (({"places": []}, "it has no places"), ({"parameters": None}, "parameters must be a map")):
        write_run(tmp_path, **damage)
        raises(rf"run\.json: is not what ode-transformer run writes: {message}", records.read_run, tmp_path)
    write_run(tmp_path, dictionaries=[[1, 2]])
    message = r"run\.json: does not say the dictionaries of its training"
    raises(message, standalone.check_dictionaries, tmp_path / "x.pt", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("orders.json", '{"what": "orders", "methods": [], "layers": {}}', "plot orders FILE --output x.png"),
        ("bench.json", '{"what": "gpu", "rounds": [{}]}', "bench table FILE"),
        ("valid.questions.json", "{}", "squad score FOLDER --data FOLDER --output x.json"),
        ("train.csv", '1,"a,b\n' + "x" * 200_000, "dataset agnews FOLDER --output-dir out LIMITS"),
        ("train/neg/1a_9.txt", "", "dataset imdb FOLDER --output-dir out LIMITS"),
    ],
)
def test_odd_files_end_in_a_sentence(tmp_path, name, content, command, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    command = command.replace("LIMITS", "--valid 2 --level characters")
    argv = command.replace("FILE", str(tmp_path / name)).replace("FOLDER", str(tmp_path)).split()
    refused(argv, f"^error: {tmp_path / name.partition('/1')[0]}: ", capsys)
    assert [path.name for path in tmp_path.iterdir()] == [name.partition("/")[0]]


def test_a_terminal_obeys_no_message_and_no_table(tmp_path):
    with pytest.raises(OdeTransformerError, match=r"^\\x1b\[2J \\x07\n\tstays$"):
        raise OdeTransformerError("\x1b[2J \x07\n\tstays")
    assert "\x1b" not in tables.section("\x1b[2J", []) + markdown.table(["a"], [["\x1b[2J"]])


@pytest.mark.parametrize(
    ("codes", "message"),
    [("#version: 9.9\na b\n", "is not a file"), ("a \x1b b\n", r"codes: invalid line 1 in BPE .*: a \\x1b b$")],
)
def test_odd_codes_are_named(tmp_path, capfd, codes, message):
    (tmp_path / "codes").write_text(codes)
    raises(message, subwords.SEGMENTATIONS["subword-nmt"].segment, ["a"], tmp_path / "codes")
    assert capfd.readouterr() == ("", "")


def test_units_and_texts_that_lack_a_part_are_named(tmp_path):
    write_json(tmp_path / "encoder.json", {"a": 1})
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\na b\n")
    raises(r"encoder.json: has no number of '.', a unit of vocab.bpe", subwords.segmenter, tmp_path)
    (tmp_path / "x.json").write_text(r'["\ud83d\ude00"]')
    assert read_json(tmp_path / "x.json") == ["\U0001f600"]
    (tmp_path / "x.json").write_text(r'["\ud83d"]')
    raises("x.json: cannot be read: .*surrogates not allowed", read_json, tmp_path / "x.json")
    (tmp_path / "dict.txt").write_bytes(b"\xe9 1\n")  # about which fairseq raises a plain Exception
    (tmp_path / "text").write_text("a\n")
    raises("dict.txt: Incorrect encoding", inputs.read_texts, [(tmp_path / "text", tmp_path / "dict.txt")], 9)


def test_a_dollar_sign_in_a_name_begins_no_formula(tmp_path):
    path = tmp_path / r"$\frac$.m2"
    path.write_text("S a b\nA 0 1|||R:$\\frac$|||c|||REQUIRED|||-NONE-|||0\n")
    plots.edits([str(path), str(path)], tmp_path / "x.svg")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 2_000 + "]" * 2_000, "(must be a mapping, got list|not YAML: maximum recursion depth)"),
        ("", "must be a mapping, got None"),
        ("a: &a [*a]", "unknown key a"),
        ("a: 1\nb: 2\na: 3", "key a is there twice"),
        (b"a: \xff\xfe", "codec can.t decode byte 0xff"),
        ("a: " + "9" * 5000, "not YAML"),
        ("a: !!python/object/apply:os.system [ls]", "not YAML"),
        ('extends: "a\\0b"', "a text holds a NUL"),
        ("extends: 5", "extends must be a file or a list of files, got 5"),
    ],
)
def test_hostile_recipes_end_in_a_sentence(tmp_path, content, message, fails):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = fails("recipe", "show", path)
    assert said.startswith(f"error: {path}") and len(said) < 1000
    raises(message, recipes.load, str(path))


def test_a_row_of_one_character_is_read_once(tmp_path):
    """A line of 100,000 blanks or full stops took minutes: patterns tried it from each of them to the end."""
    began = time.process_time()
    blanks, stops = " " * 100_000 + "x", "." * 100_000 + "x"
    found = scoring.score([blanks], [f"x{blanks}"], "de", compound_split=True)
    assert found["compound_split"]["ref_len"] == 2
    assert moses.Normalizer("de").normalize(stops).strip() == stops
    (tmp_path / "x.xml").write_text("<seg id" * 20_000 + '\n<seg id="1">a</seg>\n')
    assert list(pairs._text(tmp_path / "x.xml")) == ["a"]
    assert time.process_time() - began < 10


@pytest.mark.parametrize("lang", ["de", "fr", "it"])
def test_full_stops_move_as_sacremoses_moves_them(lang):
    theirs = MosesPunctNormalizer.DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA[1]
    (ours,) = (rule for rule in moses.Normalizer(lang).substitutions if callable(rule[1]))
    random_ = random.Random(0)
    for _ in range(2000):
        line = "".join(random_.choice('..."" <a') for _ in range(random_.randint(1, 12)))
        assert re.sub(*ours, line) == re.sub(*theirs, line), line


def test_a_line_without_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    with gzip.open(tmp_path / "x.gz", "wb") as file:
        file.write(b"a\n" + b"x" * 1001)
    raises(r"x.gz: line 2 has more than 1,000 bytes; is it text?", list, read_lines(tmp_path / "x.gz"))
    (tmp_path / "y").write_bytes(b"x" * 999 + b"\n" + b"y" * 1000)
    assert [len(line) for line in read_lines(tmp_path / "y")] == [999, 1000]
