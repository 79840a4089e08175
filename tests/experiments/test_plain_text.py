"""Plain text as documents, and the segmentation that a pretrained model brings."""

import pytest

from ode_transformer.experiments import cli
from ode_transformer.experiments.text import documents, subwords
from ode_transformer.files import write_text
from tests.helpers import own_subwords, raises, refused, write_gpt2
from tests.models.test_masked_lm import write

WORDS = ["good", "bad", "film", "plot", "dull", "great"]
TEXT = [f"The {a} {b} was {c}." for a in WORDS for b in WORDS for c in WORDS]


@pytest.fixture(scope="module")
def like(tmp_path_factory):
    """What cuts text, learned on some, and its dictionary."""
    return own_subwords(tmp_path_factory.mktemp("like"), TEXT, 60)


def test_documents_of_files_and_folders(tmp_path):
    write(tmp_path / "a", x_txt=["One.  Two! three", "Four"], y_txt=["", " "], z_txt=["<br />Five.<br/>Six?"])
    (tmp_path / "b").write_text("A b.\nC d.\n\n\nE f.\n")
    assert list(documents.documents(tmp_path / "a")) == [["One.  Two! three", "Four"], ["<br />Five.<br/>Six?"]]
    assert list(documents.documents(tmp_path / "b")) == [["A b.", "C d."], ["E f."]]
    lines = ['He said "No." Then left. i.e. not', "At 3.5 p.m. It <br />ended"]
    assert documents.sentences(lines, True) == ['He said "No."', "Then left. i.e. not", "At 3.5 p.m.", "It", "ended"]
    assert documents.sentences(lines, False) == ['He said "No." Then left. i.e. not', "At 3.5 p.m. It", "ended"]


def test_a_line_of_invisible_characters_does_not_end_a_document(tmp_path):
    documents_ = [[TEXT[i], "\u200b", TEXT[i + 1], ""] for i in range(0, 40, 2)]
    (tmp_path / "text").write_text("".join(f"{line}\n" for document in documents_ for line in document))
    words = ["dataset", "documents", str(tmp_path / "text"), "--held-out", "5", "--size", "60"]
    assert cli.main([*words, "--output-dir", str(tmp_path / "x")]) == 0
    assert (tmp_path / "x" / "train").read_text().splitlines().count("") == 16
    assert (tmp_path / "x" / "valid").read_text().splitlines().count("") == 4
    assert cli.main([*words, "--valid", str(tmp_path / "text"), "--output-dir", str(tmp_path / "y")]) == 0
    for split in ("train", "valid"):  # nothing else is held out
        assert (tmp_path / "y" / split).read_text().splitlines().count("") == 20


def test_text_is_cut_as_a_pretrained_model_says(tmp_path, like, capsys):
    lines = [line for i in range(20) for line in (*TEXT[3 * i : 3 * i + 3], "")]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    words = ["dataset", "documents", str(tmp_path / "text"), "--held-out", "5"]
    assert cli.main([*words, "--like", str(like), "--output-dir", str(tmp_path / "out")]) == 0
    cut = subwords.segmenter(like)
    train_lines = (tmp_path / "out" / "train").read_text().splitlines()
    assert train_lines[:4] == [*map(cut, TEXT[:3]), ""] and train_lines.count("") == 16
    assert (tmp_path / "out" / "valid").read_text().splitlines()[0] == cut(TEXT[12])
    model = "sentencepiece.model"  # with which data of this text are made that others are cut like
    assert (tmp_path / "out" / model).read_bytes() == (like / model).read_bytes()
    assert cli.main([*words, "--size", "60", "--output-dir", str(tmp_path / "own")]) == 0
    assert subwords.files(tmp_path / "own") == subwords.OWN
    assert subwords.segmenter(tmp_path / "own")("GOOD") == subwords.segmenter(tmp_path / "own")("good")
    (tmp_path / "utf-16").write_bytes("Eine Zeile.\n\nEine andere.\n".encode("utf-16-le"))
    for text, more, message in (
        ("utf-16", [], "line 1 holds a NUL, must be UTF-8 text; perhaps it is UTF-16"),
        ("text", ["--held-out", "5", "--like", str(tmp_path)], "must hold sentencepiece.model, or"),
        ("text", [], "valid: must have a document, got none with --held-out 200: change it, or give --valid"),
    ):
        words = ["dataset", "documents", str(tmp_path / text), *more, "--output-dir", str(tmp_path / "x")]
        refused(words, message, capsys)


def test_the_bpe_of_gpt2(tmp_path):
    symbols = write_gpt2(tmp_path, "l o")
    assert subwords.files(tmp_path) == subwords.GPT2
    assert subwords.segmenter(tmp_path)("low").split() == [str(symbols.index("lo")), str(symbols.index("w"))]
    for damaged in ("{", "[]", '{"a": []}'):
        (tmp_path / "encoder.json").write_text(damaged)
        raises(r"vocab\.bpe cannot be read: ", subwords.segmenter, tmp_path)
    write_text(tmp_path / "own" / subwords.OWN[0], "x")
    raises(r"sentencepiece\.model: is not a SentencePiece model", subwords.segmenter, tmp_path / "own")
