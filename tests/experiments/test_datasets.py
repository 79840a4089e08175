"""Published data sets are read from miniatures of their real layouts, and what is wrong with one is named."""

import hashlib
import itertools
import random
import shutil
from collections import Counter

import pytest

from ode_transformer.experiments import cli
from ode_transformer.experiments.metrics import m2
from ode_transformer.experiments.tasks import classification, summarisation
from ode_transformer.experiments.tasks.correction import corpora, errors
from ode_transformer.files import write_text
from tests.cli.data_scripts import lines
from tests.helpers import output_of, raises


def sizes(splits):
    return {name: len(examples) for name, examples in splits.items()}


def write_reviews(folder, train=6, aside=0):
    """IMDB's layout, training reviews of each class, of which the last ``aside`` are in ``val``, and four to test."""
    parts = {"train": range(train - aside), "val": range(train - aside, train), "test": range(4)}
    for label, (part, numbers) in itertools.product(classification.SENTIMENTS, parts.items()):
        for i in numbers:
            name = f"{i}_{9 if label == 'pos' else 2}.txt"
            write_text(folder / part / label / name, f"A {label} film,<br /><br />number {i}\u2026")
    return folder


def test_imdb_is_the_same_whatever_a_copy_has_put_aside(tmp_path):
    found = classification.read_imdb(write_reviews(tmp_path / "a"), 4)
    assert found == classification.read_imdb(write_reviews(tmp_path / "b", aside=2), 4)
    assert sizes(found) == {"train": 8, "valid": 4, "test": 8}
    assert found["train"][0] == ("A neg film, number 0\u2026", "neg")
    # The highest numbers are held out, and no review is on both sides.
    assert [text.split()[-1][0] for text, _ in found["valid"]] == ["4", "5", "4", "5"]
    assert not {*found["train"]} & {*found["valid"]}


def test_what_is_wrong_with_imdb_is_named(tmp_path):
    raises("--valid 12: must be 2 or more, and fewer than", classification.read_imdb, write_reviews(tmp_path), 12)
    shutil.rmtree(tmp_path / "test" / "pos")
    raises("test/pos: no such folder, or no reviews", classification.read_imdb, tmp_path, 2)


def test_agnews(tmp_path):
    rows = [f'"{i % 4 + 1}","Title, {i}","He said ""no"".\\Then {i}"' for i in range(12)]
    for name, part in (("train", rows), ("test", rows[:3])):
        (tmp_path / f"{name}.csv").write_text("".join(f"{row}\n" for row in part), encoding="utf-8")
    found = classification.read_agnews(tmp_path, 3)
    assert sizes(found) == {"train": 9, "valid": 3, "test": 3}
    assert found["train"][0] == ('Title, 0 He said "no". Then 0', "world")
    assert [text[7:9].strip() for text, _ in found["valid"]] == ["3", "7", "11"]
    raises("--valid 7: must be at most half of the 12", classification.read_agnews, tmp_path, 7)
    # A copy with a byte order mark, a row of titles and blank rows
    text = (tmp_path / "train.csv").read_text(encoding="utf-8")
    (tmp_path / "train.csv").write_text(f"\ufeffClass Index,Title,Description\n\n{text}\n", encoding="utf-8")
    assert classification.read_agnews(tmp_path, 3) == found
    (tmp_path / "test.csv").write_text('"5","x","y"\n')
    raises(r"test\.csv: each row must be a class of 1, 2, 3, 4", classification.read_agnews, tmp_path, 3)
    (tmp_path / "test.csv").write_bytes(b'"1","caf\xe9","y"\n')
    raises(r"test\.csv: line 1 is not UTF-8", classification.read_agnews, tmp_path, 3)


def test_labelled_text_as_symbols(tmp_path):
    """From the folder to files; subwords give the text back in lower case, characters as it was."""
    write_reviews(tmp_path / "aclImdb")
    words, firsts = ["dataset", "imdb", str(tmp_path / "aclImdb"), "--valid", "4", "--size", "40"], []
    for level in classification.LEVELS:
        out = tmp_path / level
        assert cli.main([*words, "--level", level, "--output-dir", str(out)]) == 0
        assert lines(out / "test.label") == ["neg"] * 4 + ["pos"] * 4
        firsts.append(lines(out / "test.input0")[0])
    units, characters = (text.replace(" ", "").replace(classification.BLANK, " ").strip() for text in firsts)
    assert characters == "A neg film, number 0\u2026" and all(len(symbol) == 1 for symbol in firsts[1].split())
    assert units == "a neg film, number 0..."  # NFKC


def email(body, subject, more=""):
    return f"{body}\n\n@subject\n{subject}{more}"


def test_aeslc(tmp_path):
    texts = {"a": email("Hello.", "Hi there"), "b": email("Dear all,\nplease  come.", "Lunch", "\n\n@ann0\nfood\n")}
    for part, (name, text) in itertools.product(("train", "dev", "test"), texts.items()):
        write_text(tmp_path / part / f"{name}.subject", text)
    found = {name: list(pairs) for name, pairs in summarisation.read_aeslc(tmp_path).items()}
    assert found["test"] == [("Hello.", "Hi there"), ("Dear all, please come.", "Lunch")]
    (tmp_path / "dev" / "a.subject").write_text("Hello.")
    raises(r"a\.subject: must have a body, a line @subject", list, summarisation.read_aeslc(tmp_path)["valid"])
    raises("no such folder, or no e-mail", list, summarisation.read_aeslc(tmp_path / "none")["test"])


def write_stories(folder):
    """Two stories of CNN's, one of the Daily Mail's, in lists as See et al. published them."""
    stories = {"http://cnn/1": "cnn", "http://cnn/2": "cnn", "http://dm/1": "dailymail"}
    for part, (address, kind) in zip(("train", "val", "test"), stories.items(), strict=True):
        path = folder / kind / "stories" / f"{hashlib.sha1(address.encode()).hexdigest()}.story"
        write_text(path, f'(CNN) -- It rained\n\nIt did.\n\n@highlight\n\nRain at {address}\n\n@highlight\n\n"Wet"\n')
        write_text(folder / f"all_{part}.txt", f"{address}\n")
    return [folder / kind / "stories" for kind in ("cnn", "dailymail")]


def test_cnndm_as_see_et_al_made_it(tmp_path):
    folders = write_stories(tmp_path)
    found = {name: list(pairs) for name, pairs in summarisation.read_cnndm(folders, tmp_path).items()}
    assert found["train"] == [("(CNN) -- It rained . It did.", 'Rain at http://cnn/1 .\t"Wet"')]
    assert found["test"][0].target.startswith("Rain at http://dm/1")
    raises("the story of http://dm/1: not in", list, summarisation.read_cnndm(folders[:1], tmp_path)["test"])


M2 = """S This are a test .
A 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0
A 2 2|||Wci|||only|||REQUIRED|||-NONE-|||0
A 4 5|||Mec|||!||.|||REQUIRED|||-NONE-|||0
A 1 2|||SVA|||was|||REQUIRED|||-NONE-|||1

S Fine .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

S Too many the words .
A 2 3|||ArtOrDet||||||REQUIRED|||-NONE-|||0
"""


def test_edits_of_an_m2_file_are_made(tmp_path):
    more = "S Too long .\nA 0 1|||X|||Very|||R|||-|||1\nA 0 1|||X|||So|||R|||-|||0\nA 0 1|||X|||Very|||R|||-|||2\n"
    bars = "S a b\nA 1 2|||X|||||||REQUIRED|||-NONE-|||0\nA 0 1|||X|||c|||d|||REQUIRED|||-NONE-|||0\n"
    unknown = "S Good .\nA 7 9|||UNK|||?|||R|||-|||0\n"
    (tmp_path / "x.m2").write_text(f"{M2}\n{more}{bars}{unknown}")
    assert {" ".join(each.tokens): corpora.corrected(each) for each in m2.read(tmp_path / "x.m2")} == {
        "This are a test .": ["This is only a test !", "This was a test ."],
        "Fine .": ["Fine ."],
        "Too many the words .": ["Too many words ."],
        "Too long .": ["So long .", "Very long ."],
        "a b": ["c|||d |"],
        "Good .": ["Good ."],
    }


def test_what_is_wrong_with_an_m2_file_is_named(tmp_path):
    for text, message in (
        ("S a\nA 0 2|||X|||b|||R|||-|||0\n", "line 2: edit 0 2 of a sentence of 1 token"),
        ("S a\nS b\n", "line 2: must be a line S"),
        ("S a\nA 0 1|||X|||b|||R|||-|||0\nSome\n", "line 3: must be a line S"),
    ):
        (tmp_path / "x.m2").write_text(text)
        raises(rf"x\.m2: {message}", list, m2.read(tmp_path / "x.m2"))


def test_learners_corpora(tmp_path, capsys):
    """Pairs without errors are left out; each correction is a pair; validation is of NUCLE, and is not trained on."""
    for name in ("nucle.m2", "lang8.m2"):
        rows = [f"S {name} {i} are\nA 2 3|||V|||is|||R|||-|||0\n\n" for i in range(6)]
        (tmp_path / name).write_text("".join([*rows, "S fine .\n\n"]))
    with (tmp_path / "lang8.m2").open("a") as file:
        edits = ("1 2|||V|||are|||R|||-|||0", "-1 -1|||noop|||-NONE-|||R|||-|||1", "1 2|||V|||were|||R|||-|||2")
        file.write("\nA ".join(["S We is", *edits]))
    found = corpora.published(tmp_path)
    assert [pair.source for pair in found["valid"]] == [f"nucle.m2 {i} are" for i in (1, 3, 5)]
    assert [target for source, target in found["train"] if source == "We is"] == ["We are", "We were"]
    assert len(found["train"]) == 11 and not set(found["train"]) & set(found["valid"])
    assert "nucle.m2: 7 sentences, 6 corrections\n" in capsys.readouterr().err
    release = (tmp_path / "nucle.m2").rename(tmp_path / "conll14st-preprocessed.m2")
    assert sizes(corpora.published(tmp_path)) == sizes(found)
    for names, message in (
        (["nucle.m2"], r"one M2 file of NUCLE, .* holds conll14st-preprocessed\.m2 and nucle\.m2"),
        (["official-preprocessed.m2"], r"official-preprocessed\.m2 is of a development or test set"),
        (["ABC.train.m2", "C.train.m2"], r"ABC\.\* holds the sentences of A\.\*"),
    ):
        more = [shutil.copyfile(tmp_path / "lang8.m2", tmp_path / name) for name in names]
        raises(message, corpora.published, tmp_path)
        for path in more:
            path.unlink()
    release.unlink()
    raises(r"one M2 file of NUCLE, .* contains nucle, conll14st-.* holds none", corpora.published, tmp_path)


# Generated errors


def test_tokens_are_those_of_the_treebank():
    text = "I don't think it's \u201cgood\u201d or ``fine'' at 5 o'clock, e.g. to 1,000 of Mr. Smith's so-called kin..."
    assert " ".join(errors.tokenise(text)) == (
        "I do n't think it 's \" good \" or \" fine \" at 5 o'clock , e.g. to 1,000 of Mr. Smith 's so-called kin ..."
    )
    tokens = errors.tokenise("He/she is on call 24/7 ('either/or').")
    assert " ".join(tokens) == "He/she is on call 24/7 ( ' either/or ' ) ."


@pytest.fixture(scope="module")
def corrupter():
    words = """the walk walks walked walking dog dogs they he she run runs bus buses city cities try tries tried"""
    counts = Counter(dict.fromkeys(words.split(), 5))
    return lambda seed=1, rate=0.5: errors.Corrupter(counts, seed, rate)


@pytest.mark.parametrize(
    ("sentence", "place", "kind", "valid"),
    [
        ("He saw the dog", 2, "article", {"a dog", "an dog", "dog"}),
        ("We go to it", 2, "preposition", {f"{word} it" for word in errors.PREPOSITIONS} | {"it"}),
        ("The dog ran", 1, "number", {"dogs ran"}),
        ("They walk on", 1, "verb", {f"{word} on" for word in ("walks", "walked", "walking")}),
    ],
)
def test_errors_are_of_the_kind_that_a_word_allows(corrupter, sentence, place, kind, valid):
    tokens, maker = sentence.split(), corrupter()
    assert kind in maker._possible(tokens, place)
    for _ in range(30):
        found = getattr(maker, f"_{kind}")(tokens, place) + tokens[place + 1 :]
        assert " ".join(found) in valid and found != tokens[place:]
        (misspelt,) = maker._spelling(["walking"], 0)
        assert abs(len(misspelt) - 7) <= 1 and misspelt[0] == "w" and misspelt != "walking"


def test_a_seed_makes_the_same_errors_everywhere(corrupter):
    """Those of the text that the committed records were trained on."""
    sentences = [errors.tokenise(text) for text in ("They walk the dog to the city.", "He tries the buses.") * 2]
    expected = [
        "Thy walk an dog by city .",
        "He try buses .",
        "Thye walk the dogs to the city .",
        "He tries the buses .",
    ]
    assert [" ".join(found) for found in map(corrupter(seed=3).corrupt, sentences)] == expected
    assert list(map(corrupter(rate=0.0).corrupt, sentences)) == sentences


def test_pairs_of_generated_errors(tmp_path, capsys, fails):
    rng = random.Random(0)
    who, what = ("The dog", "They", "A man", "Their child"), ("walked to the shop.", "has seen a film.", "goes home.")
    (tmp_path / "clean").write_text("Two.\n" + "".join(f"{rng.choice(who)} {rng.choice(what)}\n" for _ in range(40)))
    for split, name in itertools.product(("dev", "test"), ("src", *(f"ref{i}" for i in range(4)))):
        write_text(tmp_path / split / f"{split}.{name}", "``  One  '' . \nTwo .\n")
    (tmp_path / "gold.m2").write_text(M2)
    words = ["dataset", "gec", "--jfleg", str(tmp_path), "--conll14", str(tmp_path / "gold.m2")]
    out = tmp_path / "out"
    said = output_of([*words, "--clean", tmp_path / "clean", "--sentences", "31", "--output-dir", out], capsys).err
    assert "31 sentences, errors: " in said and "train: 1 pair left out, whose sentence is in CoNLL-2014" in said
    sources, targets = lines(out / "train.source"), lines(out / "train.target")
    assert "Two ." not in sources
    assert len(sources) == len(targets) == 30 and 0 < sum(a != b for a, b in zip(sources, targets, strict=True)) < 30
    assert len(lines(out / "valid.source")) == 8 and lines(out / "jfleg.ref3") == ['" One " .', "Two ."]
    assert (out / "conll14.m2").read_text() == M2 and lines(out / "conll14.source")[1] == "Fine ."
    assert "one of --m2 DIR and --clean FILE" in fails(*words, "--output-dir", tmp_path / "x")
    (tmp_path / "test" / "test.ref2").write_text("One .\n")
    raises("has 1 line, must have 2, one per sentence", corpora.read_jfleg, tmp_path, "test")
