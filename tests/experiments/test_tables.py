"""Tables set the right numbers beside each other, and say what was not run; comparisons find what differs."""

import csv
import math
import re
from dataclasses import replace

import pytest

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.metrics import scoring
from ode_transformer.experiments.results import comparisons, significance, tables
from ode_transformer.experiments.results.files import read_records
from ode_transformer.experiments.text.fairseq_output import read_generate_output
from ode_transformer.files import read_json, write_json, write_lines, write_text
from tests.helpers import ROOT, output_of, own_quickstart, raises, refused, sentences, write_translated


@pytest.fixture()
def folder(tmp_path):
    """Two seeds of one system, one of another; the second differs by a point."""
    folder = tmp_path / "results"
    for name in ("transformer-tiny", "rk2-tiny"):
        record = read_json(ROOT / "results" / "multi30k-short" / f"{name}.json")
        write_json(folder / "multi30k-short" / f"{name}.json", record)
    record["seeds"] = [2]
    for score in record["scores"].values():
        score["tokenised"]["bleu"] += 1
    write_json(folder / "multi30k-short" / "rk2-tiny.seed-2.json", record)
    return folder


COUNT = 200  # sentences of the runs that are compared


def tables_of(group, folder):
    return tables.tables(group, read_records(folder), comparisons.read(folder))


def row(found, label):
    return next(row for rows in found.values() for row in rows if row.label == label)


def again(folder, name, other, **changes):
    """Write a record of multi30k-short under another path below the folder, with changes."""
    write_json(folder / other, read_json(folder / "multi30k-short" / f"{name}.json") | changes)


def scores_of(folder):
    """The scores of rk2-tiny on a test set."""
    return read_json(folder / "multi30k-short" / "rk2-tiny.json")["scores"]["test_2016_flickr"]


def test_measured_numbers_are_means_over_seeds(folder):
    found = tables_of("multi30k-short", folder)
    bleu = scores_of(folder)["tokenised"]["bleu"]
    at = "test_2016_flickr", "tokenised"
    assert row(found, "rk2-tiny").cells[at].text() == f"{bleu + 0.5:.2f} ± 0.71"
    assert "±" not in row(found, "transformer-tiny").cells[at].text() and row(found, "rk4-tiny").cells[at].text() == ""
    assert row(found, "rk2-tiny").numbers("updates") == "1,000" and row(found, "rk4-tiny").numbers("updates") == ""


def test_the_papers_rows_are_all_there(folder, capsys):
    """Also those it took from others, and those nobody ran."""
    shown = output_of(["table", "macaron/wmt14-en-de", "multi30k-full", "ptb", "--results", folder], capsys).out
    for words in ("Universal Transformer | 28.9", "Macaron Net | 30.2", "Transformer-tiny, text only | 41.02"):
        assert words in shown
    assert "355M" in shown and "measured" not in shown
    assert shown.count("| RK2, released form | ") == 2


def test_a_table_for_programs(folder, capsys):
    shown = output_of(["table", "multi30k-short", "--csv", "--results", folder], capsys).out
    lines = list(csv.DictReader(shown.splitlines()))
    assert len(lines) == len(recipes.group("multi30k-short")["rows"]) * 3 * 3  # test sets and metrics
    of = {(line["row"], line["test_set"], line["metric"]): line for line in lines}
    line = of["rk2-tiny", "test_2017_flickr", "tokenised"]
    assert line["seeds"] == "2" and float(line["deviation"]) == pytest.approx(2**-0.5, abs=1e-4)
    assert {x["measured"] for x in lines if x["row"] == "rk4-tiny"} == {""}
    assert all("version:" in x["signature"] for x in lines if x["metric"] == "sacrebleu" and x["measured"])
    words = ["table", "multi30k-short", "multi30k-full", "--csv", "--results", folder]
    assert output_of(words, capsys).out.count("group,table") == 1


def test_what_tells_runs_of_a_recipe_apart_is_in_their_rows_labels(folder):
    """Precision, flags of the user, or the file of the record; of the latter the one in the fewest folders is first."""
    again(folder, "transformer-tiny", "multi30k-short/transformer-tiny.fp16.json", precision="fp16")
    again(folder, "transformer-tiny", "again/record.json")
    again(folder, "rk2-tiny", "gpu/multi30k-short/rk2-tiny.json")  # though its folder comes first by name
    again(folder, "rk2-tiny.seed-2", "multi30k-short/dropout.json", flags=["--dropout", "0.5"])
    (rows,) = tables_of("multi30k-short", folder).values()
    assert [(r.label, len(r.records)) for r in rows if r.records] == [
        ("transformer-tiny", 1),
        ("transformer-tiny, fp16", 1),
        ("transformer-tiny, in multi30k-short/transformer-tiny.json", 1),
        ("rk2-tiny", 2),
        ("rk2-tiny, in gpu/multi30k-short/rk2-tiny.json", 1),
        ("rk2-tiny, --dropout 0.5", 1),
    ]


def test_a_table_of_recipes_of_ones_own(folder, tmp_path, capsys):
    scores = {"generated": scores_of(folder)}
    again(folder, "rk2-tiny", tmp_path / "runs" / "record.json", recipe="own/rk2-tiny", scores=scores)
    words = ["table", str(own_quickstart(tmp_path / "own.yaml")), "--measured", "--results"]
    shown = output_of([*words, tmp_path / "runs"], capsys).out
    assert "| rk2-tiny | " in shown and "generated, sacreBLEU" in shown
    shown = output_of([*words, folder], capsys)  # of other recipes
    assert not shown.out and f"own.yaml is measured in {folder}; rehearsals do not count" in shown.err


def test_other_files_below_the_folder_are_left_alone(folder, tmp_path, capsys):
    found = read_records(folder)
    (folder / "list.json").write_text("[1]")
    write_text(folder / ".venv" / "x.json", "{")
    (folder / "translated.json").write_text('{"file": "-"}\n{"file": "-"}\n')  # as translate --json writes
    assert read_records(folder) == found
    assert f"left out: {folder / 'translated.json'}: cannot be read" in capsys.readouterr().err
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "runs").symlink_to(folder)  # as on another disk
    (folder / "again").symlink_to(folder)  # which never ends
    assert read_records(tmp_path / "linked").keys() == found.keys()


def test_means_say_which_seeds_have_no_number(folder, capsys):
    """That of a model that diverged makes the mean none; one that lacks a test set is left out."""
    scores = read_json(folder / "multi30k-short" / "rk2-tiny.seed-2.json")["scores"]
    scores["test_2016_flickr"]["tokenised"]["bleu"] = math.nan
    del scores["test_2017_flickr"]
    again(folder, "rk2-tiny.seed-2", "multi30k-short/rk2-tiny.seed-2.json", scores=scores)
    cells = row(tables_of("multi30k-short", folder), "rk2-tiny").cells
    assert cells["test_2016_flickr", "tokenised"].text() == "nan ± nan"
    assert cells["test_2017_flickr", "sacrebleu"].text().endswith("(1 of 2 seeds)")
    assert (tables.mean([3], 1, 0), tables.mean([1, 2], 2, 0)) == ("3", "1.5 ± 0.7"), "a mean of counts is not whole"
    assert "seeds" not in cells["test_2016_flickr", "sacrebleu"].text()
    assert ",nan,nan,2," in output_of(["table", "multi30k-short", "--csv", "--results", folder], capsys).out


@pytest.mark.parametrize(("scale", "ending"), [("small", ", rehearsal"), ("full", "")])
def test_a_rehearsal_does_not_stand_beside_the_papers_number(folder, tmp_path, scale, ending):
    again(folder, "rk2-tiny", tmp_path / "record.json", scale=scale, seeds=[1])
    shown = tables.sweep([(replace(recipes.load("ode/wmt14-en-de/rk2"), seed=1), tmp_path)])
    assert f"| ode/wmt14-en-de/rk2{ending} |" in shown and ("28.67" in shown) == (scale == "full"), shown


def test_what_the_source_scores_is_a_row_of_tables_and_reports(folder, tmp_path, capsys):
    """Here the sentences as they are beside corrections; once, for all systems."""
    gleu = {"gleu": 55.0, "signature": "of gleu"}
    scores = {
        "conll14": {"source": {"label": "uncorrected"}},
        "jfleg_test": {"gleu": gleu, "source": {"label": "uncorrected", "gleu": gleu | {"gleu": 40.5}}},
    }
    for name in ("gec-generated/transformer-tiny", "gec-generated/rk2-tiny"):
        again(folder, "rk2-tiny", f"{name}.json", recipe=name, scores=scores, seeds=[1])
    words = ["table", "gec-generated", "--results", folder]
    shown = output_of(words, capsys).out.splitlines()
    assert "| uncorrected | 40.50 |  |  |  |" in shown and shown.count("GLEU: `of gleu`") == 1
    lines = csv.DictReader(output_of([*words, "--csv"], capsys).out.splitlines())
    (line,) = (x for x in lines if (x["row"], x["test_set"], x["metric"]) == ("uncorrected", "jfleg_test", "gleu"))
    assert (line["measured"], line["seeds"], line["signature"]) == ("40.5000", "", "of gleu")
    assert cli.main(["report", str(folder), "--output", str(tmp_path / "x.html")]) == 0
    page = (tmp_path / "x.html").read_text()
    assert page.count("<td>uncorrected</td>") == 1 and "40.50" in page


# Comparisons


@pytest.fixture()
def runs(elsewhere):
    """Runs of three systems on one test set: a baseline, one as good, one better."""
    for name, errors, seed in (("transformer", 0.3, 1), ("rk2", 0.3, 5), ("rk4", 0.1, 3)):
        recipe = recipes.load(f"quickstart/{name}-tiny")
        write_translated(elsewhere / "runs" / recipe.name, recipe, errors, seed, sentences(COUNT))
    return elsewhere


def load(*names):
    return [significance.system(recipes.load(f"quickstart/{name}-tiny")) for name in names]


def test_folders_of_runs_are_compared_and_intervals_are_printed(runs, capsys):
    folders = [str(runs / f"runs/quickstart/{name}-tiny") for name in ("transformer", "rk4")]
    shown = output_of(["compare", *folders, "--samples", "100", "--metric", "chrf"], capsys).out
    (line,) = (line for line in shown.splitlines() if line.startswith(f"| {folders[1]} | "))
    value, low, high, difference, *_ = map(float, re.findall(r"[-+]?\d+\.\d+", line.replace(folders[1], "")))
    assert low < value < high and difference > 10 and "chrF2" in shown and "nrefs:1|case:mixed|eff:yes" in shown
    raises("elsewhere: must hold a run", significance.of_folder, str(runs / "elsewhere"))
    refused(["compare", *folders, "--seed", "2"], "transformer-tiny: is the folder of a run", capsys)


@pytest.mark.parametrize(("kind", "shown"), [("detokenised", 99.0), ("raw", None)])
def test_a_recorded_value_is_shown_where_it_is_of_the_references_that_are_read(runs, kind, shown):
    """Here without data, with the references that fairseq printed."""
    baseline, system = load("transformer", "rk4")
    hyps, refs, _ = read_generate_output(system.folder / "generate/generate-test.txt")
    scores = scoring.score(hyps, refs, "en")
    recorded = scores | {"reference": kind, "sacrebleu": scores["sacrebleu"] | {"bleu": 99.0}}
    write_json(system.folder / "scores/test.json", recorded)
    found = significance.compare(baseline, [system], samples=10)["test_sets"]["generated"]
    assert found[system.recipe.name]["bleu"] == pytest.approx(shown or scores["sacrebleu"]["bleu"])


def test_what_is_compared_are_the_scores(runs):
    """Raw references where they are, and no case where the recipe takes none."""
    raw = [line.capitalize() + "." for line in sentences(COUNT)]
    data = runs / "data-bin/quickstart.de-en"
    write_lines(data / "raw/test.en", raw)
    write_lines(data / "tok/test.en", ["x"] * len(raw))
    for lowercase in (False, True):
        score = recipes.Score(lowercase=lowercase)
        systems = [system._replace(recipe=replace(system.recipe, score=score)) for system in load("transformer", "rk2")]
        found = significance.compare(systems[0], systems[1:], "bootstrap", 10)["test_sets"]["generated"]
        for name in found:
            hyps, refs, _ = read_generate_output(runs / f"runs/{name}/generate/generate-test.txt")
            expected = scoring.score(hyps, refs, "en", raw_refs=[raw], lowercase=lowercase)["sacrebleu"]["bleu"]
            assert found[name]["bleu"] == pytest.approx(expected)


def test_the_table_of_runs_made_together_survives_what_cannot_be_compared(runs, folder, monkeypatch):
    """After days of training, it is all that is printed."""
    systems = load("transformer", "rk2", "rk4")
    changes = {"scores": {"generated": scores_of(folder)}, "seeds": [1]}
    for system in systems:
        again(folder, "rk2-tiny", system.folder / "record.json", recipe=system.recipe.name, **changes)
    made = [(replace(system.recipe, seed=1), runs / system.folder) for system in systems]
    changes |= {"recipe": systems[1].recipe.name, "seeds": [2]}  # which the first system was not trained with
    again(folder, "rk2-tiny", runs / "second/record.json", **changes)
    made.append((replace(systems[1].recipe, seed=2), runs / "second"))
    compare = significance.compare

    def compared(baseline, others):
        if "rk4" in others[0].recipe.name:
            raise OdeTransformerError("they have other references")
        found = compare(baseline, others, samples=10)
        found["test_sets"]["generated"]["quickstart/rk2-tiny"]["p_value"] = None  # as of a model that diverged
        return found

    monkeypatch.setattr(significance, "compare", compared)
    lines = tables.sweep(made).splitlines()
    of = "against quickstart/transformer-tiny, seed 1"
    how = "two-sided p, by approximate randomization of sacreBLEU"
    assert f"quickstart/rk2-tiny {of}, generated: no p ({how})" in lines
    assert f"quickstart/rk4-tiny {of}: not compared: they have other references" in lines
    assert any(line.startswith("| quickstart/rk4-tiny ") for line in lines) and "seed 2" not in "".join(lines)


def test_a_comparison_marks_the_table(runs, folder, capsys):
    output = folder / comparisons.SIGNIFICANCE / "quickstart.json"
    names = [f"quickstart/{name}-tiny" for name in ("transformer", "rk2", "rk4")]
    assert "baseline" in output_of(["compare", *names, "--samples", "300", "--output", output], capsys).out
    compared, scores = read_json(output)["test_sets"]["generated"], scores_of(folder)

    def write(name, bleu, **changes):
        its = {"generated": {**scores, "sacrebleu": {**scores["sacrebleu"], "bleu": bleu}}}
        path = f"quickstart/{name}{'.fp16' if changes else ''}.json"
        again(folder, "rk2-tiny", path, recipe=f"quickstart/{name}", scores=its, **changes)

    for name in ("transformer-tiny", "rk2-tiny", "rk4-tiny", "macaron-tiny"):
        write(name, compared.get(f"quickstart/{name}", {}).get("bleu", 50.0))
    shown = output_of(["table", "quickstart", "--results", folder], capsys).out
    line = {x.split(" | ")[0].strip("| "): x for x in shown.splitlines() if x.startswith("| ")}
    assert "*" in line["rk4-tiny"] and "*" not in line["rk2-tiny"]
    assert [name for name in line if "†" in line[name]] == ["macaron-tiny"] and "† not compared" in shown
    where = "approximate randomization, seed 1; two-sided p"
    expected = f"sacreBLEU differs from quickstart/transformer-tiny at p < 0.05, adjusted for 2 comparisons ({where})"
    assert expected in shown
    lines = csv.DictReader(output_of(["table", "quickstart", "--csv", "--results", folder], capsys).out.splitlines())
    stars = {x["row"] for x in lines if x["adjusted_p"] and float(x["adjusted_p"]) < 0.05}
    assert "rk4-tiny" in stars and "rk2-tiny" not in stars

    def starred(label, name, bleu, **changes):
        write(name, bleu, **changes)
        return any(cell.differs() for cell in row(tables_of("quickstart", folder), label).cells.values())

    rk4 = compared["quickstart/rk4-tiny"]["bleu"]
    assert not starred("rk4-tiny, fp16", "rk4-tiny", rk4, precision="fp16"), "what was compared was fp32"
    assert starred("rk4-tiny", "rk4-tiny", rk4)
    assert not starred("rk4-tiny", "rk4-tiny", rk4 + 0.5), "and this very run"
    assert starred("rk4-tiny", "rk4-tiny", rk4) and not starred("rk4-tiny", "transformer-tiny", rk4 - 1)
    run = runs / "runs/quickstart/rk4-tiny/run.json"
    write_json(run, read_json(run) | {"precision": "fp16"})
    said = output_of(["compare", *names, "--samples", "300", "--output", output], capsys).out
    assert f"the precisions of training differ: {names[0]} fp32, " in said
    assert read_json(output)["precisions"][names[-1]] == "fp16"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"precisions": 7}, "precisions must be a mapping"),
        ({"metric": 7}, "metric must be a text"),
        ({"test_sets": {"t": {"a": {"bleu": 1, "p_value": 7}}}}, "test_sets.t.a.p_value must be a number from 0 to 1"),
        ({"test_sets": {"t": {"b": {"bleu": 1, "p_value": 0.5}}}}, "KeyError('a')"),
    ],
)
def test_a_damaged_comparison_is_named_and_left_out(folder, capsys, damage, message):
    content = {"baseline": "a", "seed": 1, "metric": "sacrebleu", "test": "randomisation", "signature": ""}
    content |= {"samples": 9, "precisions": {"a": "fp32"}, **damage}
    content.setdefault("test_sets", {"t": {"a": {"bleu": 1, "p_value": None}}})
    write_json(folder / comparisons.SIGNIFICANCE / "quickstart.json", content)
    assert tables_of("quickstart", folder)
    said = f"quickstart.json: is not what ode-transformer compare writes: {message}"
    assert said in capsys.readouterr().err


def test_a_comparison_by_the_metric_of_a_plugin_that_is_not_loaded_is_named(folder, capsys):
    content = read_json(ROOT / "results" / comparisons.SIGNIFICANCE / "deen-mix.json") | {"metric": "my_own"}
    write_json(folder / comparisons.SIGNIFICANCE / "quickstart.json", content)
    assert tables_of("quickstart", folder)
    assert "quickstart.json: metric my_own: is unknown; one of a plugin needs --user-dir" in capsys.readouterr().err


def test_a_comparison_with_another_baseline_or_by_another_test_has_its_own_p():
    its = {"baseline": "g/a", "seed": 1, "metric": "sacrebleu", "samples": 9, "signature": "", "two_sided": True}

    def rows(p, precision, test):
        systems = {"g/a": {"bleu": 1.0, "p_value": None}, "g/b": {"bleu": 2.0, "p_value": p}}
        more = {"precisions": {"g/a": precision, "g/b": "bf16"}, "test": test, "test_sets": {"t": systems}}
        return comparisons.rows(its | more)

    found = [*rows(0.01, "fp32", "randomisation"), *rows(0.9, "bf16", "randomisation"), *rows(0.5, "bf16", "bootstrap")]
    assert [row.adjusted for row in comparisons.adjust(found)] == pytest.approx([0.03, 0.9, 0.75])


def test_stars_are_of_p_values_adjusted_for_all_comparisons_of_a_group(folder):
    """Benjamini and Hochberg (1995), section 3.2: of their fifteen p-values four are significant, of six below .05."""
    p_values = [0.0001, 0.0004, 0.0019, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719]
    p_values += [0.6528, 0.7590, 1.0]
    names = [f"multi30k-short/{name}" for name in ("transformer-tiny", "rk2-tiny")]
    about = {"baseline": names[0], "seed": 1, "metric": "sacrebleu", "test": "randomisation", "signature": ""}
    about |= {"samples": 1000, "precisions": dict.fromkeys(names, "fp32")}

    def write(name, test_sets, **more):
        write_json(folder / "significance" / name, about | {"test_sets": test_sets, **more})

    def compared():
        return row(tables_of("multi30k-short", folder), "rk2-tiny").cells["test_2016_flickr", "sacrebleu"].compared

    scores = {name: read_json(folder / f"{name}.json")["scores"]["test_2016_flickr"]["sacrebleu"] for name in names}
    ours = {name: {"bleu": its["bleu"], "p_value": 0.0095 if "rk2" in name else None} for name, its in scores.items()}
    write("multi30k-short.json", {"test_2016_flickr": ours})
    assert compared().differs()
    p_values.append(None)  # of a training that diverged, which is no comparison
    others = ({names[0]: {"bleu": 1, "p_value": None}, names[1]: {"bleu": 2, "p_value": p}} for p in p_values)
    write("others.json", {f"test {i}": one for i, one in enumerate(others)})
    assert len(family := comparisons.read(folder)) == 16 and sum(one.differs() for one in family) == 4
    assert "adjusted for 15 comparisons" in tables.baseline("multi30k-short", family)
    found = compared()
    assert found.p_value == 0.0095 and found.adjusted == pytest.approx(0.0095 * 15 / 4)
    for p, more, expected in ((0.0095, {}, 0.019), (0.7, {}, 1.0), (0.0095, {"two_sided": True}, 0.0095)):
        ours[names[1]]["p_value"] = p  # sacreBLEU's bootstrap had half of the two-sided one
        write("multi30k-short.json", {"test_2016_flickr": ours}, test="bootstrap", **more)
        assert compared().p_value == expected
    scores = [{"test_2016_flickr": {"sacrebleu": {"bleu": value}}} for value in (found.baseline_value, math.nan, 1.0)]
    first, diverged, other = ({"precision": "fp32", "flags": [], "scores": its} for its in scores)
    row_of = replace(found, value=math.nan)
    assert comparisons.up_to_date([row_of], {names[0]: [first], names[1]: [diverged]}), "a run that diverged is itself"
    assert not comparisons.up_to_date([row_of], {names[0]: [first], names[1]: [other]})


def test_endless_translations_are_counted_and_their_weight_is_measured(runs):
    """A translation that repeats itself up to the limit can decide a comparison: here its sign."""
    baseline, system = load("transformer", "rk2")
    before = significance.compare(baseline, [system], samples=10)["test_sets"]["generated"][system.recipe.name]
    path = baseline.folder / "generate/generate-test.txt"
    path.write_text(path.read_text().replace("H-7\t-0.1\t", "H-7\t-0.1\t" + "a b c d e " * 85))
    found = significance.compare(baseline, [system], samples=10)["test_sets"]["generated"]
    after, ours = found[system.recipe.name], found[baseline.recipe.name]
    assert before["endless"] == 0 and after["endless"] == 1 and "endless" not in ours
    assert before["difference_without"] == pytest.approx(after["difference_without"], abs=0.4)
    assert after["bleu"] - ours["bleu"] > after["difference_without"] + 0.2
    hyps, refs, _ = read_generate_output(path)
    assert scoring.score(hyps, refs, "en")["endless"] == {"sentences": 1}
    assert scoring.is_endless("x" * 200, "y" * 100) and not scoring.is_endless("x" * 199, "y")
    assert not scoring.is_endless("x" * 300, "y" * 151)
    raw = {"raw_refs": [["y"], ["y" * 151]], "plain": True}
    assert scoring.score(["x" * 300], ["y"], "en", **raw)["endless"] == {"sentences": 0}, "nor beside the longest"


def test_systems_of_other_training_data_are_compared_on_the_same_references(runs):
    baseline, system = load("transformer", "rk4")
    data = replace(system.recipe.data, directory="data-bin/other")
    elsewhere = system._replace(recipe=replace(system.recipe, data=data))
    found = significance.compare(baseline, [elsewhere], "bootstrap", 100)["test_sets"]["generated"]
    assert found[system.name]["p_value"] < 0.05
    write_lines(runs / "data-bin/other/raw/test.en", ["other"] * COUNT)
    message = "rk4-tiny: must have the references of quickstart/transformer-tiny for generated"
    raises(message, significance.compare, baseline, [elsewhere])


def test_what_cannot_be_compared_is_named(runs, capsys):
    words = ["compare", "quickstart/transformer-tiny"]
    message = "floater-tiny: must hold a run; ode-transformer run quickstart/floater-tiny makes it"
    refused([*words, "quickstart/floater-tiny"], message, capsys)
    message = "must have the task, metric, target language, test sets and letter case of quickstart/transformer-tiny"
    refused([*words, "multi30k-short/rk2-tiny"], message, capsys)
    baseline, other = load("transformer", "rk2")
    raises("quickstart/transformer-tiny: must be given once", significance.compare, baseline, [baseline])
    path = other.folder / "run.json"
    run = read_json(path)
    write_json(path, run | {"generate": run["generate"] | {"lenpen": 9.0}})
    raises(r"rk2-tiny: was decoded with other settings than quick", significance.compare, baseline, [other])
    write_json(path, run | {"given": "quickstart/rk4-tiny"})
    raises("holds a run of quickstart/rk4-tiny, not of quickstart/rk2", significance.compare, baseline, [other])
