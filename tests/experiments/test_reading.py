"""SQuAD, RACE and generated text of GLUE: from miniatures of the published layouts to samples, answers and scores."""

import itertools
import json
import random
import re
import shutil

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.logging import metrics

from ode_transformer.checkpoints.standalone import open_model
from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.metrics import METRICS
from ode_transformer.experiments.metrics import squad as metric
from ode_transformer.experiments.tasks import TASKS
from ode_transformer.experiments.tasks import multiple_choice as race
from ode_transformer.experiments.tasks import question_answering as squad
from ode_transformer.experiments.tasks.encoders import predictions
from ode_transformer.experiments.tasks.question_answering import published as squad_data
from ode_transformer.experiments.tasks.task import OURS
from ode_transformer.experiments.text import subwords
from ode_transformer.files import write_json
from ode_transformer.training.span_prediction import SpanPredictionConfig, SpanPredictionCriterion, SpanPredictionTask
from tests.helpers import output_of, own_subwords, raises, refused, write_gpt2
from tests.models.test_masked_lm import train


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Generated files in the layouts of SQuAD 1.1 and 2.0 and of RACE."""
    folder = tmp_path_factory.mktemp("published")
    for like in ("squad-1.1", "squad-2.0", "race"):
        assert cli.main(["dataset", "reading", like, "--articles", "8", "--output-dir", str(folder / like)]) == 0
        shutil.copytree(folder / like, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory, published):
    """What cuts text into subwords of its own, and its dictionary."""
    _, paragraphs = squad_data.read(published / "train-v1.1.json")
    texts = [paragraph["context"] for paragraph in paragraphs]
    texts += [question["question"] for paragraph in paragraphs for question in paragraph["qas"]]
    return own_subwords(tmp_path_factory.mktemp("own"), texts, 120)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    write_gpt2(folder, "l i", "v e", "li ve", "Ġ live")
    return folder


# SQuAD: files


def test_files_are_read_and_what_is_wrong_with_one_is_named(tmp_path, published):
    version, paragraphs = squad_data.read(published / "train-v2.0.json")
    assert version == "2.0" and len(paragraphs) == 8
    for paragraph in paragraphs:
        assert [bool(one["answers"]) for one in paragraph["qas"]] == [True, True, False] * 2 + [True, True]
        for answer in (answer for question in paragraph["qas"] for answer in question["answers"]):
            assert paragraph["context"].startswith(answer["text"], answer["answer_start"])

    def changed(change):
        tree = json.loads((published / "train-v1.1.json").read_text())
        change(tree, tree["data"][0]["paragraphs"][0]["qas"])
        (tmp_path / "x.json").write_text(json.dumps(tree))
        return squad_data.read(tmp_path / "x.json")

    def moved(by):
        return lambda tree, qas: qas[0]["answers"][0].update(answer_start=qas[0]["answers"][0]["answer_start"] + by)

    right = squad_data.read(published / "train-v1.1.json")
    assert changed(moved(2)) == changed(moved(-1)) == right  # off by a character or two
    for by in (3, -3):
        raises("x.json: question train-0-0: answer .* is not at character", changed, moved(by))
    raises("version must be one of 1.1, 2.0, v2.0", changed, lambda tree, qas: tree.update(version="3"))
    raises(r"x.json: .*qas\[0\].answers is missing", changed, lambda tree, qas: qas[0].pop("answers"))


TEXT = "Ünïcode “quotes” — they live\nhere.  We live; 20€ or ½ of it, 東京 too… naïve"


@pytest.mark.parametrize("kind", ["own", "gpt2"])
def test_symbols_know_their_characters(kind, request):
    """Symbols cover the text in order, and a span of them is the answer, be it of letters that have several bytes."""
    cut = squad_data.offset_segmenter(request.getfixturevalue(kind))
    symbols = cut(TEXT)
    assert [symbol for symbol, *_ in symbols] == subwords.segmenter(request.getfixturevalue(kind))(TEXT).split()
    assert symbols[0][1] == 0 and symbols[-1][2] == len(TEXT)
    for (_, begin, end), (_, after, _) in itertools.pairwise(symbols):
        assert begin <= after <= end or TEXT[end:after].isspace()
    for answer in ("Ünïcode", "quotes", "live", "here", "20€", "½ of it", "東京 too", "naïve"):
        start = TEXT.index(answer)
        first, last = squad_data.span(symbols, {"answer_start": start, "text": answer})
        found = TEXT[symbols[first][1] : symbols[last][2]]
        assert answer in found and len(found.strip()) <= len(answer) + 2


@pytest.mark.parametrize(("length", "room", "stride"), [(1, 5, 2), (5, 5, 2), (6, 5, 2), (23, 7, 3), (24, 6, 6)])
def test_windows_cover_a_paragraph(length, room, stride):
    starts = squad_data.starts(length, room, stride)
    covered = {i for start in starts for i in range(start, min(start + room, length))}
    assert covered == set(range(length)) and starts == [i * stride for i in range(len(starts))]
    assert len(starts) == 1 or starts[-2] + room < length  # none too many


def binarised(symbols, like):
    words = ["text", "binarise", str(data := symbols.with_name("data")), str(symbols)]
    assert cli.main([*words, "--copy-labels", "--dictionary", str(like / "dict.txt")]) == 0
    return data


@pytest.fixture(scope="module")
def data(published, own, tmp_path_factory):
    """SQuAD 2.0's layout, with several windows for each question, as data-prep/prepare-squad.sh makes it."""
    folder = tmp_path_factory.mktemp("squad")
    files = [str(published / f"{split}-v2.0.json") for split in ("train", "dev")]
    words = ["dataset", "squad", *files, "--like", str(own), "--output-dir", str(folder / "symbols")]
    assert cli.main([*words, "--max-symbols", "48", "--stride", "16", "--longest-question", "20"]) == 0
    return binarised(folder / "symbols", own)


def dataset(data, split="valid", **more):
    cfg = SpanPredictionConfig(data=str(data), separator_token=2, max_positions=48, no_shuffle=True, seed=1)
    for key, value in more.items():
        setattr(cfg, key, value)
    return SpanPredictionTask.setup_task(cfg).load_dataset(split)


def test_samples_hold_the_question_and_a_window_and_where_the_answer_is(data):
    tree = squad.questions(data, "valid")
    windows = dataset(data)
    symbols = Dictionary.load(str(data / "input0" / "dict.txt"))
    assert len(windows) == len(tree["windows"]) >= 2 * len(tree["questions"])
    whole = set()
    for i, (question, start) in enumerate(tree["windows"]):
        sample = windows[i]
        source = sample["net_input.src_tokens"].tolist()
        assert len(source) == windows.size(i) <= 48
        ends = [at for at, symbol in enumerate(source) if symbol == symbols.eos()]
        assert source[0] == symbols.bos() and len(ends) == 3 and ends[1] == ends[0] + 1 == sample["begin"] - 1
        assert ends[2] == len(source) - 1
        its = tree["questions"][question]
        if sample["first"] == 0:
            assert sample["last"] == 0
            continue
        whole.add(question)
        paragraph = tree["paragraphs"][its["paragraph"]]
        first, last = (sample[key] - sample["begin"] + start for key in ("first", "last"))
        text = paragraph["text"][paragraph["offsets"][first][0] : paragraph["offsets"][last][1]]
        assert text.strip(" .") == its["answers"][0]
    # Windows overlap, so that each answer is in one of them.
    assert whole == {i for i, question in enumerate(tree["questions"]) if question["answers"]}
    bert = dataset(data, separator_token=None)[0]  # one end in between
    here, there = (sample["net_input.src_tokens"].tolist() for sample in (bert, windows[0]))
    assert here == [symbol for at, symbol in enumerate(there) if at != bert["begin"]]


def test_samples_that_do_not_fit_are_named(data, tmp_path, published, own):
    raises("--max-positions 47: a sample of valid has 48 symbols", dataset, data, max_positions=47)
    with pytest.raises(FileNotFoundError, match="other"):
        dataset(data, "other")
    folder = shutil.copytree(data, tmp_path / "data")
    (folder / "valid.spans").write_text("1 2\n")
    raises("valid.spans: must have as many lines as", dataset, folder)
    files = published / "train-v1.1.json", published / "dev-v1.1.json"
    raises("--stride 25: must be at most 24, the room that", squad_data.write, *files, own, tmp_path / "x", 48, 25, 20)


# SQuAD: answers and scores


def test_candidates_are_spans_of_the_window_with_the_most_context(monkeypatch):
    first, last = [3, 0, 5, 1, 2, 9], [4, 8, 0, 1, 7, 6]
    windows = [squad.Window(*place, 0.0, first, last) for place in ((0, 6), (4, 10), (8, 10))]
    assert [squad.most_context(windows, i) for i in range(10)] == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]

    def places(index, best, longest):
        monkeypatch.setattr(squad, "BEST", best)
        monkeypatch.setattr(squad, "LONGEST", longest)
        found, begin = squad.candidates(windows, index), windows[index].begin
        assert all(score == first[i - begin] + last[j - begin] for score, i, j in found)
        return {(i, j) for _, i, j in found}

    # Symbol 5 has more text around it in the second window; no span ends before it begins, or has four symbols.
    assert places(0, 6, 3) == {(i, j) for i in range(5) for j in range(i, min(i + 3, 6))}
    assert places(0, 2, 3) == {(2, 4)}  # firsts 5 and 2, lasts 1 and 4
    assert places(1, 6, 1) == {(i, i) for i in range(5, 10)}


def test_an_answer_is_text():
    assert squad.answer({"text": "", "offsets": []}, [squad.Window(0, 0, -1.0, [], [])]) == ("", 1e6 - 1)
    blanks = squad.Window(0, 2, 3.0, [2.0, 1.0], [2.0, 1.0])
    assert squad.answer({"text": "  x", "offsets": [[0, 2], [2, 3]]}, [blanks]) == ("x", 0.0)


@pytest.mark.parametrize(
    ("gold", "answer", "exact", "f1"),
    [
        (["Denver Broncos"], "the Denver Broncos!", 1, 1),
        (["the 1990s", "1990s"], "In the 1990s", 0, 2 * 1 / 3),
        (["an apple a day"], "apple-day", 0, 0),  # a hyphen joins
        (["U.S."], "us", 1, 1),
        (["two words here"], "here two two", 0, 2 / 3),
        ([" Saint   Bernadette\n"], "saint bernadette", 1, 1),
        (["theatre"], "atre", 0, 0),  # an article is a word
    ],
)
def test_answers_are_compared_as_the_official_scripts_do(gold, answer, exact, f1):
    for version in ("1.1", "2.0"):
        for name, expected in (("exact_match", exact), ("f1", f1)):
            assert metric.compare(name, {"q": gold}, {"q": answer}, version) == {"q": pytest.approx(expected)}


def test_no_answer_is_the_empty_one():
    golds = {"a": [], "b": ["the"], "c": ["the", "x"]}  # what is only an article is no answer of 2.0
    assert metric.entry(golds, {"a": "", "b": "", "c": ""}, "2.0")["f1"]["value"] == pytest.approx(200 / 3)
    # What is only an article counts as none in 2.0, and nobody can match it in 1.1's F1.
    for name, score in (("exact_match", 1.0), ("f1", 0.0)):
        assert metric.compare(name, {"b": ["the"]}, {"b": "a"}, "1.1") == {"b": score}
    raises("question c: has no answer", metric.entry, golds, {"a": "", "b": ""}, "2.0")
    raises("question c: has no no-answer score", metric.entry, golds, dict.fromkeys("abc", ""), "2.0", {"a": 1, "b": 2})


def test_the_best_threshold_is_the_best_of_all():
    rng = random.Random(3)
    golds = {str(i): rng.choice([[], ["a b c"], ["d e"], ["f", "g h"]]) for i in range(60)}
    answers = {name: rng.choice(["", "b c", "d", "h", "z", *gold, *gold]) for name, gold in golds.items()}
    no_answer = {name: rng.gauss(1.0 - bool(gold), 1) for name, gold in golds.items()}
    scores = metric.entry(golds, answers, "2.0", no_answer)
    for best_name, name in metric.BEST.items():

        def at(threshold, name=name):
            left = {q: "" if no_answer[q] > threshold else answer for q, answer in answers.items()}
            return sum(metric.compare(name, golds, left, "2.0").values()) / 0.6

        best = max(at(threshold) for threshold in [-99, *no_answer.values()])
        assert scores[best_name]["value"] == pytest.approx(best)
        assert at(scores[best_name]["threshold"]) == pytest.approx(best)
        assert best > at(-99) + 5  # where all are left
        assert scores[name]["value"] == pytest.approx(at(99)) != pytest.approx(best), "of the answers as they are"
    for version, no_answer_ in (("2.0", None), ("1.1", no_answer)):
        answerable = {name: gold or ["x"] for name, gold in golds.items()}
        assert set(metric.entry(answerable, answers, version, no_answer_)) == {"questions", "exact_match", "f1"}
        with pytest.raises(OdeTransformerError, match="best_f1: needs the no-answer scores"):
            metric.question_scores("best_f1", answerable, answers, version, no_answer_)


# SQuAD: training, and the commands


@pytest.fixture(scope="module")
def trained(data):
    """A model of a few updates in RoBERTa's form, from a model without the head."""
    common = {"task": "span_prediction", "criterion": "span_prediction", "separator-token": 2, "max-positions": 48}
    train(data, **common, **{"save-dir": f"{data}.first", "max-update": 2})
    first = torch.load(f"{data}.first/checkpoint_last.pt", weights_only=True)
    for key in ("weight", "bias"):
        del first["model"][f"span_head.{key}"]
    torch.save(first, f"{data}.start.pt")
    more = {"save-dir": f"{data}.run", "max-epoch": 2, "finetune-from-model": f"{data}.start.pt"}
    m, its_task = train(data, **common, **more)
    return m.eval(), its_task, f"{data}.run/checkpoint_last.pt"


def test_the_loss_is_the_mean_of_both_cross_entropies(trained, data):
    m, its_task, _ = trained
    windows = dataset(data)
    sample = windows.collater([windows[i] for i in range(5)])
    tokens = sample["net_input"]["src_tokens"]
    logits, _ = m(tokens, spans=True)
    found, wrong = logits.masked_fill((tokens == 1)[..., None], -99.0).argmax(1), torch.arange(5) > 1
    sample["first"], sample["last"] = found[:, 0], torch.where(wrong, found[:, 1] == 0, found[:, 1])
    loss, size, log = SpanPredictionCriterion(its_task)(m, sample)
    assert log["ncorrect"] == 2, "an answer has two ends"
    with metrics.aggregate() as logged:
        SpanPredictionCriterion.reduce_metrics([log])
    assert logged.get_smoothed_value("accuracy") == 40
    expected = 0.0
    for row, source, first, last in zip(logits, tokens, sample["first"], sample["last"], strict=True):
        real = row[source != 1].log_softmax(0)
        expected -= (real[first, 0] + real[last, 1]) / 2
    torch.testing.assert_close(loss, expected)
    assert size == log["nsentences"] == 5 and m.span_head.weight.shape == (2, 16)


def test_a_trained_model_answers(trained, data, tmp_path, monkeypatch, capsys):
    """The best answer of each question is that of the largest sum of logits, by another way; then scores by command."""
    m, _, checkpoint = trained
    monkeypatch.setattr(squad, "BEST", 400)
    assert torch.equal(open_model(checkpoint).span_head.weight, m.span_head.weight)
    words = ["squad", "predict", checkpoint, "--data", str(data), "--batch-size", "5", "--cpu"]
    assert cli.main([*words, "--output-dir", str(tmp_path / "a")]) == 0
    predictions, no_answer = squad.read_answers(tmp_path / "a")
    tree, windows = squad.questions(data, "valid"), dataset(data)
    for number, question in enumerate(tree["questions"]):
        own = [(i, start) for i, (q, start) in enumerate(tree["windows"]) if q == number]
        ends = (start + int(windows.size(i)) - windows[i]["begin"] - 1 for i, start in own)
        spans = [squad.Window(start, end, 0.0, [], []) for (_, start), end in zip(own, ends, strict=True)]
        best, null = (-99.0, 0, 0), 99.0
        for w, (i, start) in enumerate(own):
            logits = m(windows[i]["net_input.src_tokens"][None], spans=True)[0][0]
            null = min(null, logits[0].sum().item())
            inside = logits[windows[i]["begin"] : -1]
            for a in range(len(inside)):
                if squad.most_context(spans, start + a) != w:
                    continue
                for b in range(a, min(a + 30, len(inside))):
                    best = max(best, ((inside[a, 0] + inside[b, 1]).item(), start + a, start + b))
        paragraph = tree["paragraphs"][question["paragraph"]]
        text = paragraph["text"][paragraph["offsets"][best[1]][0] : paragraph["offsets"][best[2]][1]].strip()
        assert predictions[question["id"]] == text
        assert no_answer[question["id"]] == pytest.approx(null - best[0], abs=1e-4)

    score = ["squad", "score", "--data", str(data), "--output", str(tmp_path / "scores.json")]
    said = output_of([*score, tmp_path / "a"], capsys).out
    assert re.search(r"best_f1 +[\d.]+   \(percent; SQuAD 2.0, 8 questions, best threshold -?\d", said)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores == metric.entry(squad.golds(tree), predictions, "2.0", no_answer)

    # As the server takes it: empty above a threshold.
    where = sorted(no_answer.values())[4]
    assert cli.main([*words, "--threshold", str(where), "--output-dir", str(tmp_path / "b")]) == 0
    left, _ = squad.read_answers(tmp_path / "b")
    assert left == {name: "" if no_answer[name] > where else text for name, text in predictions.items()}
    (tmp_path / "b" / "predictions.json").write_text('{"x": 1}')
    raises("predictions.json: is not what squad predict writes: x must be a text", squad.read_answers, tmp_path / "b")


def test_what_cannot_answer_is_named(trained, data, tmp_path, capsys):
    _, _, checkpoint = trained
    words = ["squad", "predict", "--output-dir", str(tmp_path / "x")]
    refused([*words, f"{data}.start.pt", "--data", str(data)], "start.pt: has no span_head", capsys)
    refused([*words, checkpoint, "--data", str(tmp_path)], "valid.questions.json: ", capsys)
    old = json.dumps({**squad.questions(data, "valid"), "version": "1.1"})
    (tmp_path / "valid.questions.json").write_text(old, encoding="utf-8")
    refused([*words, checkpoint, "--data", str(tmp_path), "--threshold", "0"], "--threshold 0: must be absent", capsys)
    state = torch.load(checkpoint, weights_only=True)
    state["model"]["span_head.bias"][:] = float("nan")
    torch.save(state, tmp_path / "nan.pt")
    raises("nan.pt: its logits are not all numbers", squad.predict, tmp_path / "nan.pt", data, "valid", 32, True)
    with pytest.raises(OdeTransformerError, match="--task span_prediction: needs a masked language model"):
        train(data, arch="transformer_tiny", task="span_prediction", criterion="span_prediction")


def test_runs_are_compared_by_f1_at_their_best_threshold(data, elsewhere):
    """Six questions with the right answer or a wrong one, two that have none and this no-answer score."""
    recipe = recipes.load("squad/floater-v2", scale="small")
    (elsewhere / recipe.data.directory).parent.mkdir(parents=True)
    (elsewhere / recipe.data.directory).symlink_to(data)
    folder = elsewhere / "run" / "answers" / "valid"
    task, golds = TASKS["question_answering"], squad.golds(squad.questions(data, "valid"))
    its = METRICS[task.metrics(recipe)[-1]]
    for right, others, score, expected in (
        (True, "wrong", 0, 100),
        (False, "wrong", 0, 25),  # all are best left, which the threshold 0 does not say
        (True, "the", -2, 75),  # an article alone is an answer
    ):
        answers = {name: (gold[0] if right else "wrong") if gold else others for name, gold in golds.items()}
        no_answer = {name: -1 if gold else score for name, gold in golds.items()}
        write_json(folder / "predictions.json", answers)
        write_json(folder / "no_answer.json", no_answer)
        outputs, examples = task.examples(recipe, task.outputs(recipe, elsewhere / "run", "valid"), "valid", None)
        assert its.score(its.statistics_of_each(outputs, examples).sum(0)) == expected
        assert examples.questions == ("2.0", golds)
        scores = metric.entry(golds, answers, "2.0", no_answer)
        assert scores["best_f1"]["value"] == expected


# RACE


def test_race_is_read_as_roberta_reads_it(tmp_path):
    tree = {"id": "x", "article": "Tom  ran.\nHe <br> fell.\n", "questions": ["Tom _ home.", "Why?"]}
    tree |= {"options": [["ran", "flew", "swam", "slept"], ["a", "b", "c", "d"]], "answers": ["A", "D"]}
    for level in race.LEVELS:
        write_json(tmp_path / level / "7.txt", tree)
    first, second, *_ = race.read(tmp_path, ("middle",))
    article = "Tom  ran. He <br> fell."
    assert first == (article, ["Tom ran home.", "Tom flew home.", "Tom swam home.", "Tom slept home."], 0)
    assert second == (article, ["Why? a", "Why? b", "Why? c", "Why? d"], 3)
    (tmp_path / "high" / "7.txt").write_text(json.dumps(tree | {"answers": ["A", "E"]}))
    raises(r"high/7.txt: .* answers\[1\] must be one of A, B, C, D", race.read, tmp_path, race.LEVELS)
    (tmp_path / "high" / "7.txt").write_text(json.dumps(tree | {"answers": ["A"]}))
    raises("high/7.txt: .* its lists differ in length", race.read, tmp_path, race.LEVELS)
    raises("no such folder, or no articles", race.read, tmp_path / "none", race.LEVELS)


@pytest.fixture(scope="module")
def ranked(published, own, tmp_path_factory):
    """RACE as symbols and as binarised data, as data-prep/prepare-race.sh makes them, and a model of a few updates."""
    folder = tmp_path_factory.mktemp("race")
    symbols = folder / "symbols"
    assert cli.main(["dataset", "race", str(published / "RACE"), "--like", str(own), "--output-dir", str(symbols)]) == 0
    data = binarised(symbols, own)
    values = {"task": "sentence_ranking", "criterion": "sentence_ranking", "num-classes": 4, "init-token": 0}
    values |= {"separator-token": 2, "max-option-length": 20, "max-positions": 60, "shorten-method": "truncate"}
    m, _ = train(data, **values, **{"save-dir": folder / "run"})
    return symbols, data, m.eval(), folder / "run" / "checkpoint_last.pt"


def test_a_model_chooses_the_option_with_the_largest_score(published, own, ranked, tmp_path):
    """By the steps of a recipe, and by hand, of option, end, end, article."""
    _, data, m, checkpoint = ranked
    recipe = recipes.load("race/floater", scale="small")
    steps = TASKS["multiple_choice"].evaluation(recipe, str(tmp_path / "run"), ["--cpu"])
    assert [step.part for step in steps] == ["test", "test1", "test2"] * 2
    chosen, scored = steps[0].words[len(OURS) :], steps[3].words[len(OURS) :]
    chosen[chosen.index("--data") + 1], chosen[chosen.index("--batch-size") + 1] = str(data), "4"
    chosen[chosen.index(f"{tmp_path}/run/average.pt")] = str(checkpoint)
    assert cli.main(chosen) == 0 and cli.main(scored) == 0
    cut, its, expected = subwords.segmenter(own), m.encoder.dictionary, []
    for text, options, right in race.read(published / "RACE" / "test", race.LEVELS):
        article = its.encode_line(cut(text), add_if_not_exist=False).long()
        scores = []
        for option in options:
            tokens = torch.cat((torch.tensor([0]), its.encode_line(cut(option), add_if_not_exist=False).long()))[:20]
            tokens = torch.cat((tokens, torch.tensor([2]), article))[:60]
            scores.append(m(tokens[None], classification_head_name="sentence_classification_head")[0].item())
        expected.append((right, scores.index(max(scores))))
    lines = (tmp_path / "run" / "validate" / "test.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in lines] == [[str(right), str(best)] for right, best in expected]
    score = json.loads((tmp_path / "run" / "scores" / "test.json").read_text())["accuracy"]
    assert score["value"] == pytest.approx(100 * sum(right == best for right, best in expected) / 6)


def test_what_cannot_choose_is_named(ranked, tmp_path):
    _, data, _, checkpoint = ranked
    state = torch.load(checkpoint, weights_only=True)
    for part in ("weight", "bias"):
        name = f"classification_heads.sentence_classification_head.out_proj.{part}"
        state["model"][name] = torch.zeros((2, *state["model"][name].shape[1:]))
    torch.save(state, tmp_path / "changed.pt")
    raises("has 2 outputs, must have one", predictions, tmp_path / "changed.pt", data, "test", 2, True)
