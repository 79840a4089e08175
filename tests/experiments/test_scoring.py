"""Scores: equal to multi-bleu.perl (by an oracle of our own), compound splitting, labels, inputs, errors."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ode_transformer.experiments.metrics import bleu, perplexity, scoring
from ode_transformer.experiments.text.detokenisation import detokenise
from ode_transformer.experiments.text.fairseq_output import read_generate_output
from tests.helpers import output_of, raises, refused

# All that Python takes for a blank and multi-bleu.perl, which reads bytes, does not.
OTHER_BLANKS = "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"


def oracle(hyps: list[bytes], refs: list[bytes]) -> str:
    """What multi-bleu.perl prints, from clipped counts of n-grams over bytes."""
    correct, total, hyp_len, ref_len = [0] * 4, [0] * 4, 0, 0
    for hyp, ref in zip(hyps, refs, strict=True):
        h, r = hyp.split(), ref.split()  # bytes.split knows the ASCII blanks only
        hyp_len, ref_len = hyp_len + len(h), ref_len + len(r)
        for n in range(4):
            a, b = (Counter(tuple(x[i : i + n + 1]) for i in range(len(x) - n)) for x in (h, r))
            correct[n] += sum(min(count, b[gram]) for gram, count in a.items())
            total[n] += sum(a.values())
    p = [c / t if t else 0.0 for c, t in zip(correct, total, strict=True)]
    bp = 1.0 if hyp_len >= ref_len else math.exp(1 - ref_len / hyp_len) if hyp_len else 0.0
    bleu = bp * math.exp(sum(map(math.log, p)) / 4) if all(p) else 0.0
    shown = "/".join(f"{100 * x:.1f}" for x in p)
    return f"BLEU = {100 * bleu:.2f}, {shown} (BP={bp:.3f}, ratio={hyp_len / ref_len:.3f}, {hyp_len=}, {ref_len=})"


words = st.sampled_from(["a", "b", "c", "ä", "日", "Haus", ".", "-", *(f"x{c}y" for c in OTHER_BLANKS), *OTHER_BLANKS])
blanks = st.sampled_from([" ", " ", " ", "  ", "\t", "\f", "\v", "\r"])
lines = st.lists(st.tuples(words, blanks), max_size=12).map(lambda pairs: "".join(w + b for w, b in pairs))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(lines, lines), min_size=1, max_size=6))
def test_tokenised_bleu_is_that_of_multi_bleu(pairs):
    hyps, refs = map(list, zip(*pairs, strict=True))
    refs[0] += " a"  # of no reference words that program says only 0
    assert bleu.multi_bleu(hyps, refs)["line"] == oracle(*([x.encode() for x in side] for side in (hyps, refs)))


@pytest.mark.parametrize(
    ("hyp", "ref", "line"),
    [  # printed by the real program
        (*["a b c d e"] * 2, "BLEU = 100.00, 100.0/100.0/100.0/100.0 (BP=1.000, ratio=1.000, hyp_len=5, ref_len=5)"),
        ("a\xa0b", "a b", "BLEU = 0.00, 0.0/0.0/0.0/0.0 (BP=0.368, ratio=0.500, hyp_len=1, ref_len=2)"),
    ],
)
def test_printed_line(hyp, ref, line):
    assert bleu.multi_bleu([hyp], [ref])["line"] == line == oracle([hyp.encode()], [ref.encode()])
    # U+100000 in the text must not be taken for the no-break space of another token.
    found = bleu.multi_bleu(["a\U00100000b"], ["a\xa0b c"])
    assert (found["precisions"][0], found["hyp_len"], found["ref_len"]) == (0, 1, 2)


def test_compound_splitting():
    split = bleu.split_compounds
    assert split(["ein T-Shirt - rot"]) == ["ein T ##AT##-##AT## Shirt - rot"]
    assert split(["a-b-c"]) == ["a ##AT##-##AT## b-c"]  # a match ends where the next could begin, as in the original
    assert split(["aa-bb-cc"]) == ["aa ##AT##-##AT## bb ##AT##-##AT## cc"]
    assert split(["a-ü-b"]) == ["a ##AT##-##AT## ü ##AT##-##AT## b"]  # ü is two bytes
    assert split(["-a b- \xa0-c"]) == ["-a b- \xa0 ##AT##-##AT## c"]
    plain = scoring.score(["ein T-Hemd ist rot"], ["ein T-Shirt ist rot"], "de", compound_split=True)
    assert plain["tokenised"]["ref_len"] == 4 and plain["compound_split"]["ref_len"] == 6
    assert plain["tokenised"]["bleu"] == 0 < plain["compound_split"]["precisions"][1]


def test_detokenised_scores_and_their_reference():
    hyp = ["er sagt &quot; ja &quot; , und geht &apos;s gut @-@ nein ##AT##-##AT## doch ."]
    raw = ['Er sagt "ja", und geht\'s gut-nein-doch.']
    assert detokenise([hyp[0]], "de")[0] == 'er sagt "ja", und geht\'s gut-nein-doch.'
    cased = scoring.score(hyp, hyp, "de", raw_refs=[raw])
    lower = scoring.score(hyp, hyp, "de", raw_refs=[raw], lowercase=True)
    without = scoring.score(hyp, hyp, "de")
    assert cased["sacrebleu"]["bleu"] < lower["sacrebleu"]["bleu"] == pytest.approx(100)
    assert lower["chrf"]["score"] == without["chrf"]["score"] == pytest.approx(100)
    assert "case:mixed" in cased["sacrebleu"]["signature"] and "case:lc" in lower["chrf"]["signature"]
    assert {"case:lc", "tok:13a"} <= set(lower["sacrebleu"]["signature"].split("|"))
    assert "the tokenized reference, detokenized" in scoring.report(without)
    assert "the raw references" in scoring.report(cased)


def test_transevolves_own_score():
    """Plain text, lower-cased, split at blanks alone, smoothed: a number of its own."""
    smoothed = scoring.score(["a b c x e"], ["a b c d e"], "en", metrics=["transevolve"])
    precisions = [4 / 5, 2 / 4, 1 / 3, 1 / (2 * 2)]  # none of the two 4-grams is right
    assert smoothed["transevolve"]["bleu"] == pytest.approx(100 * math.prod(precisions) ** 0.25)
    assert smoothed["tokenised"]["bleu"] == 0
    found = scoring.score(["Das Haus , gut ."], ["das haus , gut ."], "de", metrics=["transevolve"])["transevolve"]
    assert (found["bleu"], found["hyp_len"]) == (0, 3), "three words, since commas are parts of them in plain text"
    assert {"case:lc", "tok:none", "smooth:exp"} <= set(found["signature"].split("|"))


def test_the_scores_of_a_validation(tmp_path, capsys):
    log, output = tmp_path / "test.log", tmp_path / "scores" / "test.json"
    head = "2026-01-01 00:00:00 | INFO | test | "
    log.write_text(head + json.dumps({"test_loss": "6.1", "test_ppl": "68.59"}) + "\n")
    words = ["score", "--validation-log", str(log)]
    assert "68.59" in output_of([*words, "--output", output], capsys).out
    assert json.loads(output.read_text())["perplexity"]["value"] == 68.59
    raises("no entry of subset valid", perplexity.score, log, "valid")
    entries = ({"test_loss": loss, "test_ppl": ppl} for loss, ppl in (("6.1", "68.59"), ("5.0", "32.00")))
    log.write_text("".join(f"{head}{json.dumps(entry)}\n" for entry in entries))
    found = perplexity.score(log, "test")
    assert (found["perplexity"]["value"], found["loss"]) == (32.0, 5.0), "of an evaluation repeated"


# --- Files and the command

END = "Generate test with beam=5: BLEU4 = 1.0\n"


def generated(order=(2, 0, 1), hyps=("ein hund .", "", "zwei katzen"), refs=("ein hund .", "", "drei katzen")) -> str:
    """An output of fairseq-generate: sorted by length, two hypotheses a sentence."""
    text = "2024-01-01 00:00:00 | INFO | fairseq_cli.generate | loading\n"
    for i in order:
        text += f"S-{i}\tsource {i}\nT-{i}\t{refs[i]}\nH-{i}\t-0.5\t{hyps[i]}\nD-{i}\t-0.5\t{hyps[i]}\nP-{i}\t-0.1\n"
        text += f"H-{i}\t-0.9\tworse\nD-{i}\t-0.9\tworse\nP-{i}\t-0.1\n"
    return text + END


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return str(path)


def test_generate_output_is_reordered(tmp_path):
    """Sources are all there or none, since scoring does not need them; references may be missing."""
    hyps, refs, sources = read_generate_output(write(tmp_path / "o", generated()))
    assert sources == ["source 0", "source 1", "source 2"]
    assert hyps == ["ein hund .", "", "zwei katzen"] and refs == ["ein hund .", "", "drei katzen"]
    text = "".join(line for line in generated().splitlines(True) if line[:2] in ("S-", "H-"))
    assert read_generate_output(write(tmp_path / "o", text))[:2] == (hyps, None)
    for text in (generated().replace("S-1\tsource 1\n", ""), generated().replace("S-", "X-")):
        assert read_generate_output(write(tmp_path / "o", text)) == (hyps, refs, None)
    surplus = generated().replace(END, "S-3\tone more\n" + END)
    assert len(read_generate_output(write(tmp_path / "o", surplus)).sources) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (generated(order=(2, 0)), "of 3 sentences, these are missing: H-1; .*--required-batch-size-multiple 1"),
        ("H-0\t0\ta\nH-1000000000000\t0\ta\n", "of 1,000,000,000,001 .*: H-1, H-2, .* and 999999999994 more"),
        (generated().replace(END, ""), "'Generate ... with beam=...', is missing"),
        (generated() + generated(), "S-2 occurs twice"),
        (generated() + "\udcff", "is not UTF-8"),  # the byte 0xff
    ],
)
def test_generate_output_that_is_not_whole(tmp_path, text, message):
    (tmp_path / "o").write_bytes(text.encode("utf-8", "surrogateescape"))
    raises(message, read_generate_output, tmp_path / "o")


def test_command_prints_all_scores(tmp_path, capsys):
    raw = write(tmp_path / "raw.de", "Ein Hund.\n\nDrei Katzen\n")
    words = ["score", "--generate-output", write(tmp_path / "o", generated()), "--target-lang", "de"]
    shown = output_of([*words, "--reference", raw, "--lowercase", "--compound-split"], capsys).out
    assert "tokenized BLEU (multi-bleu)  BLEU = 0.00, 80.0/66.7/100.0/0.0 (BP=1.000" in shown
    assert "ref_len=5" in shown and "after compound splitting" in shown
    assert "case:lc" in shown and "the raw references" in shown and "3, target language de" in shown


def test_words_split_at_hyphens_are_joined_again(tmp_path, capsys):
    hyp, ref = write(tmp_path / "h", "a @-@ b c d @-@ e\n"), write(tmp_path / "r", "a-b c d-e\n")
    words = ["score", "--hyp", hyp, "--ref", ref, "--target-lang", "de", "--json", "--join-hyphens"]
    assert json.loads(output_of(words, capsys).out)["tokenised"]["precisions"][0] == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hyp", "{h}", "--ref", "{h}", "--plain", "--compound-split"], "--compound-split: goes with"),
        (["--generate-output", "g", "--references", "raw.de"], "--references: is not read with --generate-output"),
        (["--metric", "f1"], "the file to score is missing: one of --generate-output, --hyp, --validation-log"),
        (["--hyp", "{h}", "--generate-output", "g"], "either --generate-output FILE or --hyp FILE is needed"),
        (["--hyp", "{h}"], "h: has no references; give the tokenized ones as --ref FILE"),
        (["--hyp", "{h}", "--ref", "{two}"], "two has 2 lines, must have 1, one per sentence of .*h"),
        (["--hyp", "{units}", "--ref", "{h}"], "units: subword units, not words, in 1 of 1 line; .*--remove-bpe"),
        (["--hyp", "{h}", "--ref", "{h}", "--remove-bpe", "bpe"], "--remove-bpe bpe: must be one of"),
        (["--hyp", "{empty}", "--ref", "{empty}"], "empty: the file is empty"),
        (["--hyp", "{grep}", "--ref", "{h}"], "grep: is of an output of fairseq-generate, .*by --generate-output"),
        (["--hyp", "{h}", "--ref", "{h}", "--target-lang", "xx"], "must be one of .*de.*, or any with --plain; got xx"),
        (["--hyp", "{h}", "--ref", "{h}", "--target-lang", "en", "--compound-split"], "--target-lang de alone"),
        (["--hyp", "{h}", "--ref", "{h}", "--ref", "{two}"], "--ref: must be given once, is given twice"),
    ],
)
def test_command_errors(tmp_path, capsys, arguments, message):
    texts = {"h": "a b\n", "two": "a\nb\n", "empty": "", "units": "a@@ b\n", "grep": "H-0\t-1\ta b\n"}
    for name, text in texts.items():
        write(tmp_path / name, text)
    names = {path.name: str(path) for path in tmp_path.iterdir()}
    lang = ["--target-lang", "de"] * ("--target-lang" not in arguments)
    refused(["score", *(word.format(**names) for word in arguments), *lang], message, capsys)


def test_references_beside_binarised_data_win_over_those_with_unknown_words(tmp_path, capsys):
    """As far as they are there; a file that is given wins over them."""
    output, data = write(tmp_path / "o", generated(refs=("ein <<unk>> .", "", "drei katzen"))), tmp_path / "data"
    command = ["score", "--generate-output", output, "--data", str(data), "--target-lang", "de", "--json"]

    def found(*more):
        result = json.loads(output_of([*command, *more], capsys).out)
        return result["tokenised"]["precisions"][0], result["reference"]

    said = output_of(command, capsys).err
    assert "data: has neither tok/test.de nor raw/test.de" in said
    assert "<<unk>> in 1 of 3 tokenized references" in said
    for kind, text in (("tok", "ein hund .\n\nzwei katzen\n"), ("raw", "Ein Hund.\n\nZwei Katzen\n")):
        write(data / kind / "test1.de", text)
    assert found("--subset", "test1") == (100, "raw")
    assert found("--subset", "test1", "--ref", write(tmp_path / "r", "ein hund .\n\neine katze\n")) == (60, "raw")
    command[1:3] = ["--hyp", write(tmp_path / "h", "ein hund .\n\nzwei katzen\n")]
    assert found("--subset", "test1") == (100, "raw")


def test_plain_text_has_no_tokenized_score_and_lower_case_beside_a_cased_reference_is_noticed(tmp_path, capsys, fails):
    hyp, raw = write(tmp_path / "h", "ein haus\n"), write(tmp_path / "raw", "Ein Haus\n")
    words = ["score", "--hyp", hyp, "--ref", hyp, "--reference", raw, "--target-lang", "de"]
    assert "--lowercase?" in output_of(words, capsys).err
    assert not output_of([*words, "--lowercase"], capsys).err
    assert json.loads(output_of([*words, "--plain", "--json"], capsys).out)["tokenised"] is None
    write(tmp_path / "data" / "tok" / "test.de", "ein haus &apos;s\n")
    words[3:7] = "--data", str(tmp_path / "data"), "--plain", "--json"
    assert "has no references; give plain ones" in fails(*words)
    write(tmp_path / "data" / "raw" / "test.de", "ein haus\n")
    assert json.loads(output_of(words, capsys).out)["sacrebleu"]["precisions"][:2] == [100, 100]
    other = ["--ref", write(tmp_path / "other", "zwei katzen\n")]
    assert json.loads(output_of([*words, *other], capsys).out)["sacrebleu"]["precisions"][0] < 100
    for lang in ("zh", "zh_CN", "zho_Hans"):
        found = scoring.score(["\u732b\u5403\u9c7c\u3002"], ["\u732b\u5403\u8089\u3002"], lang, plain=True)["sacrebleu"]
        assert found["hyp_len"] == 4 and "tok:zh" in found["signature"], "by characters"


def test_marks_are_removed_from_what_is_segmented_alone(tmp_path, capsys):
    """One mark of SentencePiece in a text of words does not cost it its blanks."""
    refs = [f"das ist der satz {i}" for i in range(9)] + ["ein \u2581 allein"]
    hyps = [f"\u2581das \u2581is t \u2581der \u2581satz \u2581{i}" for i in range(9)] + ["\u2581ein \u2581all ein"]
    hyp, ref = write(tmp_path / "h", "\n".join(hyps)), write(tmp_path / "r", "\n".join(refs))
    words = ["score", "--hyp", hyp, "--ref", ref, "--target-lang", "de", "--json", "--remove-bpe", "sentencepiece"]
    shown = output_of(words, capsys)
    assert json.loads(shown.out)["tokenised"]["precisions"][0] == 100
    assert f"{ref}: \u2581 in 1 of 10 lines, taken for words" in shown.err


def test_every_reference_that_is_given_is_read(tmp_path, capsys):
    """Several raw ones count together."""
    hyp = write(tmp_path / "h", "the cat sat on the mat\nit is here now\n")
    refs = [write(tmp_path / "a", "the cat sat on the mat\nnone of this\n")]
    refs.append(write(tmp_path / "b", "none of this\nit is here now\n"))
    words = ["score", "--hyp", hyp, "--ref", hyp, "--target-lang", "en", "--json", "--metric", "transevolve"]
    for both in (refs, refs[::-1]):
        found = json.loads(output_of([*words, "--reference", both[0], "--reference", both[1]], capsys).out)
        assert found["sacrebleu"]["bleu"] == pytest.approx(100) == found["chrf"]["score"]
        assert found["transevolve"]["bleu"] == pytest.approx(100) and "nrefs:2" in found["sacrebleu"]["signature"]
