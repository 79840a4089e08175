"""Every recipe is sound and means what its commands say; a broken one is named."""

import ast
import contextlib
import functools
import os
import re
import shlex
from dataclasses import replace

import pytest
import torch
import yaml
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ode_transformer.errors import OdeTransformerError
from ode_transformer.experiments import cli, recipes, records
from ode_transformer.experiments.recipes import RecipeError, Score
from ode_transformer.experiments.runs import command_lines, runner, training
from ode_transformer.experiments.runs.training import TrainingPlace
from ode_transformer.experiments.tasks import TASKS
from ode_transformer.experiments.tasks.task import flags
from ode_transformer.files import write_text
from tests.helpers import ROOT, dictionary, output_of, own_quickstart, parse, raises, refused, without_hydra

MODEL_FLAGS = ("splitting", "ffn-hidden-layers", "position-encoder", "position-blocks", "encoder-ffn-embed-dim")

NAMES = recipes.names()
loaded = functools.cache(recipes.load)


def commands(recipe, name, run_dir="", **place):
    return [step.words for step in runner.steps(recipe, TrainingPlace(**place), run_dir) if step.name == name]


KINDS = {(loaded(name).task, loaded(name).train.arch): name for name in NAMES}
"""A recipe of every architecture of every task; the others differ from it in numbers."""
REST = [pytest.param(name, marks=pytest.mark.full) for name in NAMES if name not in KINDS.values()]


@pytest.mark.parametrize("name", [*KINDS.values(), *REST])
def test_a_recipe_is_what_fairseq_understands(name, monkeypatch):
    recipe = loaded(name)
    steps = runner.steps(recipe, TrainingPlace())
    monkeypatch.chdir(ROOT)
    for step in {step.name: step for step in steps if step.command[0] in command_lines.PARSERS}.values():
        args = command_lines.parsed(step.words)
        if step.name == "train":
            assert args.arch == recipe.train.arch
        elif step.name == "generate":
            assert (args.beam, args.lenpen) == (recipe.generate.beam, recipe.generate.lenpen)
            assert args.gen_subset == step.part and args.required_batch_size_multiple == 1
        else:
            assert args.valid_subset == step.part and (args.max_tokens or args.batch_size)
    assert (ROOT / steps[0].command[0]).is_file()
    kept = recipe.train.flags.get("keep-last-epochs", -1)
    assert not recipe.average.last_epochs or kept == -1 or kept >= recipe.average.last_epochs


@pytest.mark.parametrize("scale", recipes.SCALES)
@pytest.mark.parametrize(
    "name", ["multi30k-short/floater-warm-tiny", "ode/cnndm/rk2", "ptb/rk2-1", "glue/floater-base/floater-cola"]
)
def test_showing_a_recipe_prints_its_commands(name, scale, capsys):
    text = output_of(["recipe", "show", name, "--scale", scale, "--seed", "7"], capsys).out
    assert max(map(len, text.splitlines())) < 160, "wrapped, as far as words and quotes allow"
    shown = text.replace(" \\\n    ", " ").replace("\n#   ", " ").splitlines()
    recipe = recipes.load(name, scale=scale, seed=7)
    devices = (recipe.devices if scale == "full" else None) or 1
    for step in runner.steps(recipe, TrainingPlace(devices=devices, precision=recipe.train.precision)):
        assert step.line() in shown
    for paper in recipe.paper:
        assert any(line.endswith(f"({paper.table}, {paper.row})") for line in shown) == (scale == "full")


@pytest.mark.parametrize("name", [*KINDS.values(), *REST])
def test_a_rehearsal_keeps_the_architecture_and_what_is_done_with_it(name):
    full, small = loaded(name), recipes.load(name, scale="small")
    assert small.train.arch == full.train.arch and small.task == full.task
    if full.data.directory == "data-bin/quickstart.de-en":
        assert small.data == full.data and small.score == full.score and not small.generate.flags["post-process"]
    elif full.task == "translation":  # whatever the segmentation of the recipe's own text
        assert small.data.directory.startswith("data-bin/multi30k-own.") and not small.score.plain
        assert small.generate.flags["post-process"] == "subword_nmt"
    narrow = {f"{side}-{what}" for side in ("encoder", "decoder") for what in ("embed-dim", "ffn-embed-dim")}
    narrow |= {"encoder-attention-heads", "decoder-attention-heads"}
    changed = {k for k, v in small.train.flags.items() if full.train.flags.get(k) != v}
    schedule = {"max-tokens", "max-epoch", "max-update", "warmup-updates", "num-workers", "tokens-per-sample"}
    schedule |= {"save-interval-updates", "keep-interval-updates", "validate-interval-updates"}
    if full.task == "classification":  # on ListOps, whatever the row's own data
        schedule |= {"num-classes", "batch-size"}
    # Text of IMDB, CoLA and generated text stand in for what a model reads; its weights are drawn.
    reading = {"batch-size", "max-positions", "total-num-update", "finetune-from-model"}
    reads = {"glue", "masked_language_modeling", "masked_lm_pairs", "question_answering", "multiple_choice"}
    assert changed <= narrow | schedule | (reading if full.task in reads else set())
    if full.generate:
        assert (small.generate.beam, small.generate.lenpen) == (full.generate.beam, full.generate.lenpen)
    assert (small.train.start is None) == (full.train.start is None)
    if small.train.start:  # positions are weights
        start = recipes.load(small.train.start.recipe, scale="small")
        assert small.train.flags.get("max-positions") == start.train.flags.get("max-positions")


# Spec sections 4.1 and 4.6, as printed: of each table the rows that the paper ran itself.
NUMBERS = {
    "Wu et al. 2021, Good for Misconceived Reasons": "41.02 41.02",
    "Macaron Net, Table 1": "35.4",
    "Macaron Net, Table 1, base": "28.9",
    "Macaron Net, Table 1, big": "30.2",
    "Macaron Net, Table 3": "28.6 28.3 30.2",
    "ODE Transformer, Table 1, English-German": """
        27.89/26.8 28.67/27.5 28.89/27.7 29.03/27.9  29.43/28.3 29.85/28.7 30.29/29.2 29.80/28.8
        29.21/28.1 30.11/29.0 30.53/29.4 30.39/29.3  29.91/28.9 30.58/29.4 30.77/29.6 30.55/29.4""",
    "ODE Transformer, Table 1, English-French": """
        41.05/39.1 42.08/40.1 42.31/40.3 42.56/40.6  42.67/40.6 43.04/41.1 43.48/41.5 43.28/41.3
        42.89/40.9 43.34/41.3 43.59/41.6 43.55/41.6  43.22/41.2 43.88/42.0 44.11/42.2 43.81/41.9""",
    "ODE Transformer, Table 2": "33.49 34.94 35.28",
    "ODE Transformer, Table 3": "28.24 27.84",
    "ODE Transformer, Table 7": "28.07 28.17 27.78 28.15 28.67 28.77 28.86 29.03",
    "ODE Transformer, Table 10, 6 layers": "28.51 28.67 28.77 28.80 28.74 28.86 28.45",
    "ODE Transformer, Table 10, 24 layers": "29.60 29.85 30.01 30.13 30.06 30.29 29.47",
    "PCformer, abstract, English-German": "30.95",
    "PCformer, abstract, English-French": "44.27",
    "TransEvolve, Table 2": "22.5/23.1 24.2/23.8 25.3/25.8 26.2/27.2  32.6 33.4 38.0 39.5",
    "FLOATER, Table 2, English-German, base": "28.6 28.2 26.9  28.3 27.9 27.8",
    "FLOATER, Table 2, English-German, large": "29.2 28.4 28.3  29.1 28.4 28.5",
    "FLOATER, Table 2, English-French, base": "41.6 40.6 40.9  41.1 40.4 40.9",
    "FLOATER, Table 2, English-French, large": "42.7 42.0 42.0  42.4 41.8 42.4",
    "FLOATER, Table 6": "28.57 27.99 28.16" + 2 * " 27.99",  # of one layer with vector input there are two readings
    "ODE Transformer, Table 5, one layer": "142.33 131.80 132.67 128.48 126.89",
    "ODE Transformer, Table 5, two layers": "136.07 123.12 123.90 121.02 119.46",
    "ODE Transformer, Tables 4 and 9, CNN/DailyMail": "40.47/17.73/37.29 41.58/18.57/38.41 41.83/18.84/38.68",
    "ODE Transformer, Table 4, CoNLL-2014": "67.97/32.17/55.61 68.21/35.30/57.49 66.20/38.13/57.71",
    "TransEvolve, Table 3, AGnews": "88.8 90.6 90.8 91.1 90.5",
    "TransEvolve, Table 3, IMDB": "81.3 87.3 87.5 86.8 87.6",
    "TransEvolve, Table 4, ListOps": "36.4 43.2 39.1 42.2 37.8",
    "TransEvolve, Table 4, charIMDB": "64.3 65.3 66.1 65.7 65.6",
    # Spec section 4.4: RoBERTa, then FLOATER, a row here for each of eight tasks.
    "FLOATER, Table 3, base": "63.6 94.8 88.2 91.9 91.2 87.6 92.8 78.7 63.4 95.1 89.0 91.7 91.5 87.7 93.1 80.5",
    "FLOATER, Table 3, large": "68.0 96.4 90.9 92.2 92.4 90.2 94.7 86.6 69.0 96.7 91.4 92.2 92.5 90.4 94.8 87.0",
    # Exact match and F1; accuracy of all, of middle and of high schools.
    "FLOATER, Table 5, SQuAD 1.1": "88.9/94.6 88.9/94.6",
    "FLOATER, Table 5, SQuAD 2.0": "86.5/89.4 86.6/89.5",
    "FLOATER, Table 4": "82.8/86.5/81.3 83.3/87.1/81.7",
}


def test_every_row_of_the_papers_has_a_recipe():
    found = {}
    for name in NAMES:
        for paper in loaded(name).paper:
            numbers = sorted(value for scores in paper.scores.values() for value in scores.values())
            # A row that is run in two forms has the same numbers in both.
            row = (name.rpartition("/")[0], paper.row)
            assert found.setdefault(paper.table, {}).setdefault(row, numbers) == numbers, paper
    assert {table: sorted(rows.values()) for table, rows in found.items()} == {
        table: sorted(sorted(map(float, row.split("/"))) for row in rows.split()) for table, rows in NUMBERS.items()
    }
    assert len(recipes.quoted("ode/wmt14-en-de")) == 12


# Spec sections 3.1 to 3.4, and our choice (6.4) where those have a gap: peak learning rate, warm-up, Adam's second
# beta, tokens an update; dropout, of attention, of activations; weight decay, how long; beam, length penalty, what is
# averaged, and whether compounds are split for the score.
PROTOCOLS = """
macaron/iwslt14-de-en/macaron        0.0015   8000  0.98  4096   0.3 0.1 0.1 0.0001 epoch  50     5 1.0 best    1  -
macaron/wmt14-en-de/macaron-base     0.0015   8000  0.98  32768  0.1 0.1 0.1 0.0    update 100000 4 0.6 best    1  yes
macaron/wmt14-en-de/macaron-big      0.003    8000  0.98  262144 0.3 0.1 0.1 0.0    update 24000  4 0.6 best    1  yes
ode/wmt14-en-de/rk2                  0.002    16000 0.997 65536  0.1 0.1 0.1 0.0    update 50000  4 0.6 epochs  5  yes
ode/wmt14-en-de/rk4-big              0.002    16000 0.997 65536  0.3 0.1 0.1 0.0    update 100000 4 0.6 epochs  5  yes
ode/wmt14-en-de/rk4-big-12           0.002    16000 0.997 65536  0.3 0.1 0.1 0.0    update 100000 4 0.6 epochs  5  yes
ode/wmt14-en-fr/rk2-24               0.002    16000 0.997 262144 0.1 0.1 0.1 0.0    update 100000 4 0.6 epochs  5  -
ode/wmt14-en-fr/rk2-big              0.002    16000 0.997 262144 0.1 0.1 0.1 0.0    update 100000 4 0.6 epochs  5  -
ode/cnndm/rk4                        0.002    8000  0.997 131072 0.1 0.1 0.1 0.0    update 50000  4 2.0 epochs  5  -
ode/conll14/rk2                      0.0015   4000  0.997 65536  0.1 0.1 0.1 0.0    update 15000  6 0.6 epochs  5  -
ode/wmt16-en-ro/rk2-learnable-big    0.002    8000  0.997 32768  0.3 0.1 0.1 0.0    update 17000  5 1.3 epochs  5  -
transevolve/wmt14-en-de/fullff-1     0.000524 16000 0.98  32768  0.1 0.0 0.0 0.0    update 100000 4 0.6 updates 10 yes
transevolve/wmt14-en-fr/randomff-2   0.000524 16000 0.98  32768  0.1 0.0 0.0 0.0    update 100000 4 0.6 updates 10 -
floater/wmt14-en-de/transformer-base 0.0007   4000  0.98  32000  0.1 0.0 0.0 0.0    epoch  30     4 0.6 updates 5  yes
floater/wmt14-en-de/floater-base     0.00035  4000  0.98  32000  0.1 0.0 0.0 0.0    epoch  10     4 0.6 updates 5  yes
floater/wmt14-en-de/floater-big      0.00035  4000  0.98  32000  0.3 0.1 0.0 0.0    epoch  10     4 0.6 updates 5  yes
floater/wmt14-en-fr/floater-big      0.00035  4000  0.98  32000  0.1 0.1 0.0 0.0    epoch  1      4 0.6 updates 5  -
"""


@pytest.mark.parametrize("row", PROTOCOLS.strip().splitlines(), ids=lambda row: row.split()[0])
def test_a_recipe_has_its_papers_protocol(row, monkeypatch):
    monkeypatch.chdir(ROOT)
    name, *expected = row.split()
    recipe = recipes.load(name)
    (words,) = commands(recipe, "train")
    args = options.parse_args_and_arch(options.get_training_parser(), words[1:])
    model = without_hydra(args)
    ((average, checkpoints),) = recipe.average.wanted
    lengths = {"update": args.max_update, "epoch": args.max_epoch}
    ((kind, length),) = ((kind, length) for kind, length in lengths.items() if length)
    found = [*args.lr, args.warmup_updates, ast.literal_eval(args.adam_betas)[1], args.max_tokens * args.update_freq[0]]
    found += [model.dropout, model.attention_dropout, model.activation_dropout, args.weight_decay]
    found += [kind, length, recipe.generate.beam, recipe.generate.lenpen]
    found += [average.removeprefix("last_"), checkpoints, "yes" if recipe.score.compound_split else "-"]
    assert list(map(str, found)) == expected
    assert recipe.generate.flags["post-process"] == "subword_nmt"
    assert args.label_smoothing == 0.1 and args.lr_scheduler == "inverse_sqrt"


PRECISION = {"macaron/": "fp32", "ode/": "fp16", "transevolve/": "fp32", "floater/": "fp32", "glue/": "fp16"}
PRECISION |= {"squad/": "fp16", "race/": "fp16"}


def test_a_row_says_in_which_precision_the_paper_trained():
    """Spec sections 3.1 and 3.2; TransEvolve and FLOATER do not say, the instructions that it follows for GLUE do."""
    for name in NAMES:
        family = next((family for family in PRECISION if name.startswith(family)), None)
        assert loaded(name).train.precision == PRECISION.get(family, "fp32"), name


def test_decoding_of_summaries_is_that_of_appendix_c():
    """Spec section 3.2: 55 to 140 units, no trigram twice; LEAD-3 beside it. CoNLL-2014 with word dropout, Table 8."""
    recipe = recipes.load("ode/cnndm/rk2")
    wanted = {"min-len": 55, "max-len-b": 140, "no-repeat-ngram-size": 3, "truncate-source": True}
    assert wanted.items() <= recipe.generate.flags.items() and recipe.score.lead == 3
    (words,) = commands(recipe, "score")
    assert {"data-bin/cnndm/raw/test.target", "data-bin/cnndm/tok/test.source"} <= {*words}, "highlights stay apart"
    assert recipes.load("ode/conll14/rk2").train.flags["word-dropout"] == 0.2
    (words,) = commands(replace(recipe, score=Score(metrics=["comet"])), "score")
    assert "data-bin/cnndm/tok/test.source" in words and "--lead" not in words


@pytest.mark.parametrize("group", ["imdb", "imdb-characters", "agnews", "listops"])
def test_classification_is_transevolves_protocol(group):
    """Spec section 3.3: a peak of .5 d^-1/2 8000^-1/2 after 8,000 updates; five seeds, the best by validation."""
    for row in ("transformer", "randomff-1", "randomff-2", "fullff-1", "fullff-2"):
        recipe = loaded(f"{group}/{row}")
        flags = recipe.train.flags
        assert flags["warmup-updates"] == 8000 < flags["max-update"] and recipe.seeds == [1, 2, 3, 4, 5]
        assert flags["lr"] == pytest.approx(0.5 * 256**-0.5 * 8000**-0.5, rel=2e-3)
        assert recipe.average.best == 1 and flags["best-checkpoint-metric"] == "accuracy"
        # All systems of a table are trained alike.
        assert replace(loaded(f"{group}/transformer").train, arch=recipe.train.arch) == recipe.train


def test_lists_begin_with_a_prefix_and_say_what_recipes_are(capsys):
    assert cli.main(["recipe", "list", "ode/wmt14-en-de/rk4-"]) == 0
    found = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(found) == [name for name in NAMES if name.startswith("ode/wmt14-en-de/rk4-")]
    assert all(text == recipes.load(name).description for name, text in found.items())
    papers = [line.split()[0] for line in output_of(["recipe", "list", "--paper"], capsys).out.splitlines()]
    assert papers == [name for name in NAMES if loaded(name).paper]
    refused(["recipe", "list", "ode/wmt41"], "no recipe begins with .*; the nearest are .*ode/wmt14-en-de, ", capsys)


def test_files_of_ones_own_are_checked_row_by_row(tmp_path, capsys):
    own = own_quickstart(tmp_path / "x.yaml")
    assert "x/macaron-tiny" in output_of(["recipe", "check", own], capsys).out.splitlines()
    (tmp_path / "y.yaml").write_text("extends: macaron/iwslt14-de-en.yaml\ngenerate: {subsets: {test: mine}}\n")
    assert recipes.load(f"{tmp_path}/y.yaml/macaron").paper == [] == recipes.quoted(f"{tmp_path}/y.yaml")
    assert cli.main(["recipe", "check", f"{own}/macaron-tiny", "quickstart/rk2-tiny"]) == 0
    assert capsys.readouterr().out.splitlines() == ["x/macaron-tiny", "quickstart/rk2-tiny"]
    own.write_text(own.read_text().replace("    max-tokens: 1500\n", "    max-tokens: x\n"))
    refused(["recipe", "check", str(own)], r"train\.flags\.max-tokens 'x'", capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["train"].update(arch="rk2_learnabel"), r"^fairseq-train .* rk2_learnabel: .* rk2_learnable, "),
        (lambda t: t["train"]["flags"].update({"max-updates": 9, "dropot": 0.1}),
         r"--dropot: is unknown; the nearest are .*; --max-updates: is unknown; the nearest are --max-u"),
        (lambda t: t["generate"].update(flags={"max-len-c": 1}), r"fairseq-generate .* --max-len-c: is .* --max-len-a"),
        (lambda t: t["train"]["flags"].pop("optimizer"), r"fairseq-train needs --optimizer, such as fused_adam"),
        (lambda t: t["train"]["flags"].pop("max-tokens"), r"needs the size of a batch: --max-tokens or --batch-size"),
    ],
)  # fmt: skip
def test_flags_that_a_program_does_not_know_are_named_with_the_nearest(change, message, tmp_path):
    tree = sound()
    change(tree)
    steps = runner.steps(load(tmp_path, tree), TrainingPlace())
    with pytest.raises(OdeTransformerError, match=message) as raised:
        command_lines.check(steps)
    assert len(str(raised.value)) < 300
    command_lines.check(runner.steps(load(tmp_path, sound()), TrainingPlace()))


def test_every_row_with_stages_is_there_in_both_forms():
    """Spec section 6.5: the published numbers very likely come from the released form.

    Weight sharing is not among them: its official program applies the layer twice, as the paper does.
    """
    for name in NAMES:
        recipe = loaded(name)
        staged = recipe.train.arch.startswith(("rk2", "rk4", "pcformer"))
        if not (name.startswith("ode/") and staged and recipe.paper) or name.endswith("-released"):
            continue
        released = loaded(f"{name}-released")
        flags = {**recipe.train.flags, "ode-residual": "released"}
        names = {key: getattr(released, key) for key in ("name", "given", "description")}
        assert released == replace(recipe, **names, train=replace(recipe.train, flags=flags))


def test_translations_are_scored_as_the_recipe_says():
    recipe = recipes.load("macaron/wmt14-en-de/macaron-base")
    (words,) = commands(recipe, "score")
    assert "--target-lang de --compound-split --join-hyphens --remove-bpe none" in shlex.join(words)
    (words,) = commands(replace(recipe, score=recipes.Score(lowercase=True)), "score")
    assert "--lowercase" in words and "--compound-split" not in words


def test_the_update_frequency_follows_from_the_devices():
    recipe = recipes.load("multi30k-full/macaron-tiny")

    def numbers(devices):
        (words,) = commands(recipe, "train", devices=devices)
        return [int(words[words.index(flag) + 1]) for flag in ("--distributed-world-size", "--update-freq")]

    assert (numbers(1), numbers(2)) == ([1, 2], [2, 1])
    raises(r"3 devices.*\[1, 2\]", numbers, 3)


def sound() -> dict:
    flags = {"optimizer": "adam", "max-tokens": 9, "lr": 0.1, "fp16": True, "amp": False}
    return {
        "description": "x",
        "data": {"prepare": "true", "directory": "d", "source": "en", "target": "de"},
        "train": {"arch": "macaron_tiny", "batches": 1, "flags": flags},
        "average": {"last_epochs": 2},
        "generate": {"subsets": {"test": "t"}, "beam": 4, "lenpen": 1},
    }


def printed(scores):
    """A change that says what the paper prints."""
    return lambda tree: tree.update(paper=[{"table": "T", "row": "r", "scores": scores}])


def validated(**changes):
    """A change to a task without decoding."""
    return lambda tree: tree.update(changes, validate={"subsets": tree.pop("generate")["subsets"]})


def load(tmp_path, tree, **which):
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(tree))
    return recipes.load(str(tmp_path / "r.yaml"), **which)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(trian={}), r"unknown key trian; known: .*train"),
        (lambda t: t.update(seed=5), r"unknown key seed; known: description, .*seeds"),
        (lambda t: t.update(seeds=[1, 1]), r"seeds \[1, 1\]: must be different numbers"),
        (lambda t: t["data"].pop("source"), r"data\.source is missing"),
        (lambda t: t["data"].update(directory="~/bin"), r"data: ~/bin: no shell reads the ~ here"),
        (lambda t: t.update(task="parsing"), r"task 'parsing': must be one of translation, language_modeling"),
        (lambda t: t.update(task="language_modeling"), r"generate is of another task than language_modeling"),
        (lambda t: t.update(devices=3), r"devices 3: must be one of 1$"),
        (lambda t: t["train"]["flags"].update({"update-freq": 4}), r"flags\.update-freq: is set by train\.batches"),
        (lambda t: t["average"].update(best=1), r"average needs one of last_epochs, last_updates, best"),
        (lambda t: t["train"].update(start={"recipe": "a", "checkpoint": "../x.pt"}), r"start\.checkpoint"),
        (lambda t: t["generate"].update(subsets={"../test": "t"}), r"subsets '\.\./test'"),
        (lambda t: t["train"].update(batches=99_999_999_999), r"train\.batches must be from 1 to 100,000"),
        (lambda t: t["train"].update(precision="fp8"), r"train\.precision 'fp8': must be one of fp32"),
        (lambda t: t.update(extends="r.yaml"), r"extends itself"),
        (lambda t: t.update(user_dir="absent"), r"r.yaml: user_dir .absent.: there is no folder /\S+ or /\S+absent$"),
        (lambda t: t.update(user_dir="/absent/x"), r"r.yaml: user_dir ./absent/x.: there is no folder /absent/x$"),
        (lambda t: (t["data"].update(target="fr"), t.update(score={"compound_split": True})), r"German"),
        (lambda t: t.update(search={"values": {"lr": [1.0]}}), r"search: is for the task glue, got translation"),
        (lambda t: t.update(task="correction"), r"score\.references must be at least 1 for test, which .*, got 0$"),
        (validated(task="glue", search={"values": {"lr": [1]}, "seeds": [1, 1]}), r"search\.seeds \[1, 1\]: must be"),
        (validated(task="glue", score={"metrics": ["ter"]}), r"score\.metrics 'ter': must be one of accuracy, matth"),
        (lambda t: t["train"].update(start={"recipe": "quickstart/rk2-tiny"}), r"quickstart/rk2-tiny' uses other data"),
        (printed({"other": {"tokenised": 1.0}}), r"paper\.scores 'other': none of \['t'\]"),
    ],
)
def test_a_broken_recipe_is_named(tmp_path, change, message):
    tree = sound()
    change(tree)
    raises(message, load, tmp_path, tree)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("imdb/transformer", {"flags": {"max-tokens": 9}}, r"'max-tokens': must be one of batch-size, cpu$"),
        ("race/floater", {"flags": {"batch-size": 0}}, r"batch-size must be a whole number, 1 or more$"),
        ("squad/floater-v2", {"flags": {"cpu": True}}, ""),
        ("squad/floater-v2", {"flags": {"threshold": -1}}, r"'threshold': must be one of batch-size, cpu$"),
        ("listops/transformer", {"metrics": ["f1"]}, r"'f1': is of two classes, .*num-classes is 10$"),
        ("imdb/transformer", {"metrics": ["pearson"]}, r"'pearson': is of numbers, which .*regression-target$"),
        ("imdb/transformer", {"metrics": ["f1"]}, ""),
    ],
)
def test_what_an_evaluation_cannot_do_is_refused_before_training(tmp_path, name, change, message):
    group, _, row = name.partition("/")
    section = "validate" if "flags" in change else "score"
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"extends": f"{recipes.CONFIGS}/{group}.yaml", section: change}))
    with pytest.raises(RecipeError, match=f"{section}.*{message}") if message else contextlib.nullcontext():
        steps = runner.steps(recipes.load(f"{tmp_path}/x.yaml/{row}"), TrainingPlace())
        flags = [f"--{flag}" for flag in change.get("flags", ())]
        assert all({*flags} <= {*step.words} for step in steps if step.name == "validate")


def test_a_task_of_a_plugin_is_described_once(tmp_path, monkeypatch):
    """By the lines of docs/extending.md. Its recipes are checked as others are, and bring their rehearsals."""
    section = (ROOT / "docs" / "extending.md").read_text().partition("### A task")[2]
    exec(re.search(r"```python\n(.*?)```", section, re.S)[1], {})
    monkeypatch.setitem(TASKS, "topics", TASKS.pop("topics"))  # for this test only
    tree = sound() | {"task": "topics"}
    raises("generate is of another task than topics", load, tmp_path, tree)
    validated(score={"metrics": ["matthews"]})(tree)
    tree["train"]["flags"]["num-classes"] = 2
    *_, validate, score, _ = runner.steps(load(tmp_path, tree), TrainingPlace())
    assert "predict" in validate.words and "--metric accuracy --metric matthews" in score.line()
    with pytest.raises(RecipeError, match=r"task topics has no rehearsal; give the recipe's own settings as small$"):
        load(tmp_path, tree, scale="small")
    small = {"train": {"flags": {"max-update": 30}}}
    assert load(tmp_path, tree | {"small": small}, scale="small").train.flags["max-update"] == 30


@pytest.mark.parametrize("key", ["data", "small"])
def test_what_is_no_mapping_is_named_in_a_rehearsal_too(tmp_path, key):
    raises(rf"{key} must be a mapping, got 5$", load, tmp_path, sound() | {key: 5}, scale="small")


def test_a_path_into_the_recipes_is_the_recipe_of_that_name(monkeypatch):
    raises("must be a name below configs/", recipes.load, "../setup")
    monkeypatch.chdir(ROOT)
    for path in ("configs/quickstart.yaml/macaron-tiny", str(ROOT / "configs/quickstart.yaml/macaron-tiny")):
        assert recipes.load(path) == recipes.load("quickstart/macaron-tiny")


def test_bf16_is_refused_where_fairseq_takes_it_for_a_tpu():
    raises("bf16", commands, recipes.load("multi30k-full/transformer-tiny"), "train", precision="bf16")
    (words,) = commands(recipes.load("imdb/transformer"), "train", precision="bf16")
    assert "--bf16" in words
    ours = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("ode_transformer.")}
    theirs = {arch for arch in ARCH_MODEL_REGISTRY if arch.startswith(("transformer", "roberta"))} - ours
    assert all(map(training.is_of_fairseq, theirs)) and not any(map(training.is_of_fairseq, ours))
    assert {loaded(name).train.arch for name in NAMES} - ours <= theirs
    assert not training.is_of_fairseq("transformer_small"), "which is registered"


def test_a_recipe_may_start_from_anothers_checkpoint(monkeypatch):
    """FLOATER: the other recipe is trained, turned into FLOATER with the flags of the training, and trained further."""
    monkeypatch.setattr(records, "read_stamps", lambda folder: {})  # whatever this clone has trained
    warm = recipes.load("multi30k-short/floater-warm-tiny")
    first, start = commands(warm, "start", run_dir="runs/x")
    (train,) = commands(warm, "train", run_dir="runs/x")
    train_first = "python -m ode_transformer run multi30k-short/transformer-tiny --until train"
    assert shlex.join(first) == f"{train_first} --devices 1 --fp32"
    assert start[start.index("warm-start") + 1] == "runs/multi30k-short/transformer-tiny/checkpoint_best.pt"
    assert start[start.index("--output") + 1] == train[train.index("--finetune-from-model") + 1] == "runs/x/start.pt"
    task = ["--task", "translation", "--source-lang", "en", "--target-lang", "de"]
    assert start[start.index("--") + 1 :] == [*task, *flags(warm.train.flags)]
    with pytest.raises(RecipeError, match=r"--finetune-from-model: is set by train\.start"):
        runner.steps(warm, TrainingPlace(flags=("--finetune-from-model", "mine.pt")))
    longer = recipes.load("multi30k-short/transformer-longer-tiny")  # of the same architecture
    assert commands(longer, "start") == [first]
    assert "runs/multi30k-short/transformer-tiny/checkpoint_best.pt" in commands(longer, "train")[0]
    assert commands(recipes.load("quickstart/macaron-tiny"), "start") == []
    started = replace(longer.train, start=replace(longer.train.start, recipe="ode/wmt14-en-de/rk2"))
    (other,) = commands(replace(longer, train=started), "start")
    assert "--fp16" in other, "in the precision of its paper"
    pretrained = commands(recipes.load("race/floater"), "start", devices=16)[0]  # from one of 8 batches per update
    assert "--devices 8" in shlex.join(pretrained)


def test_the_seed_goes_through_the_whole_run(tmp_path):
    """Of the training, of the one that it starts from, and of where files go; without one, it is 1."""
    tree = sound()
    tree["train"]["flags"]["seed"] = None
    assert load(tmp_path, tree).trained_seed == 1
    warm = recipes.load("multi30k-short/floater-warm-tiny", seed=3)
    assert "runs/multi30k-short/transformer-tiny.seed-3/checkpoint_best.pt" in commands(warm, "start")[1]
    (train,) = commands(warm, "train")
    assert train[train.index("--seed") + 1] == "3" and train.count("--seed") == 1
    small = recipes.load("multi30k-short/floater-warm-tiny", scale="small", seed=3)
    assert recipes.default_run_dir(small) == "runs/small/multi30k-short/floater-warm-tiny.seed-3"
    assert "--scale small --seed 3" in shlex.join(commands(small, "start")[0])
    own = recipes.load("multi30k-short/floater-warm-tiny", seed=1)  # said or not, the same run
    assert recipes.default_run_dir(own) == "runs/multi30k-short/floater-warm-tiny"
    # The seed of fine-tuning is not that of the pretraining, of which there is one.
    first, third = (recipes.load("glue/floater-base/floater-cola", seed=seed) for seed in (None, 3))
    assert commands(first, "start", "x") == commands(third, "start", "x")


def test_the_batch_is_shown_as_it_is_on_the_papers_gpus(tmp_path, capsys):
    tree = sound() | {"devices": 4, "seeds": [1, 2, 3], "hardware": "four of them"}
    tree["train"] |= {"batches": 8, "precision": "fp16", "flags": {"max-tokens": 4096, "max-update": 9}}
    load(tmp_path, tree)
    shown = output_of(["recipe", "show", tmp_path / "r.yaml"], capsys).out
    shown = shown.replace(" \\\n    ", " ")
    assert "8 batches of up to 4,096 tokens; on 4 GPUs each takes 2, in fp16" in shown and "# seeds: 1, 2, 3" in shown
    assert "--fp16" in shown and "--distributed-world-size 4 --update-freq 2" in shown


# Files with rows


def rows() -> dict:
    """Two rows of one table; the second starts from the first."""
    return sound() | {
        "description": "a corpus",
        "rows": {
            "one": {"description": "a system"},
            "two": {"extends": "more.yaml", "train": {"flags": {"lr": 0.2}, "start": {"recipe": "one"}}},
        },
    }


def test_a_row_is_the_file_and_what_the_row_says(tmp_path, monkeypatch):
    (tmp_path / "more.yaml").write_text("train: {arch: rk2_tiny, flags: {lr: 0.3, seed: 5}}\n")
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(rows()))
    one, two = (recipes.load(f"{tmp_path}/r.yaml/{row}") for row in ("one", "two"))
    assert (one.name, one.description, one.train.arch) == ("r/one", "a system: a corpus", "macaron_tiny")
    assert two.description == "a corpus"
    # The file, then what the row extends, then the row.
    assert two.train.arch == "rk2_tiny" and two.train.flags == one.train.flags | {"lr": 0.2, "seed": 5}
    assert two.train.start.recipe == f"{tmp_path}/r.yaml/one"
    raises("row three must be one of one, two", recipes.load, f"{tmp_path}/r.yaml/three")
    child = "extends: r.yaml\naverage: {best: 1}\nrows: {one: {train: {arch: rk4_tiny}}}\n"
    (tmp_path / "child.yaml").write_text(child)
    one = recipes.load(f"{tmp_path}/child.yaml/one")
    assert one.train.arch == "rk4_tiny" and one.average.wanted == [("best", 1)], "an average is replaced as a whole"
    (tmp_path / "z.yaml").write_text("extends: r.yaml\nrows: {z: {train: {start: {recipe: child.yaml/one}}}}\n")
    with contextlib.chdir(ROOT):  # the path is relative to the file
        assert recipes.load(f"{tmp_path}/z.yaml/z").train.start.recipe == f"{tmp_path}/child.yaml/one"
    (tmp_path / "z.yaml").unlink()
    monkeypatch.setattr(recipes.files, "CONFIGS", tmp_path)
    assert recipes.names() == ["child/one", "child/two", "more", "r/one", "r/two"]


@pytest.mark.parametrize("through", ["one", "two"])
def test_a_recipe_cannot_start_from_itself(tmp_path, through):
    tree = rows()
    tree["rows"]["one"]["train"] = {"start": {"recipe": "two"}}
    tree["rows"]["two"]["train"]["start"] = {"recipe": through}
    (tmp_path / "more.yaml").write_text("train: {}\n")
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(tree))
    message = rf"train\.start: \S+/two -> (\S+/{through} -> )?\S+: must not lead back$"
    raises(message, recipes.load, f"{tmp_path}/r.yaml/two")


# Symbols of the papers' vocabularies, source and target; none where a table counts something else.
SYMBOLS = {
    "Macaron Net": (37_000, 37_000),
    "ODE Transformer, Table 2": (13_576, 34_976),
    "ODE Transformer, Table 1, English-French": (44_424, 44_424),
    "ODE Transformer": (34_040, 34_040),
    "TransEvolve": (32_000, 32_000),
}
COUNTED = [n for n in NAMES if not n.endswith("-released") and any(p.parameters for p in loaded(n).paper)]


@pytest.mark.full
@pytest.mark.parametrize("name", COUNTED)
def test_a_row_has_the_parameters_that_the_paper_prints(name):
    """To 1 %, or a million of millions; English-French base of the ODE Transformer cannot be what is printed."""
    recipe = recipes.load(name)
    values = {k: v for k, v in recipe.train.flags.items() if k in MODEL_FLAGS or k.startswith("share-")}
    for paper in recipe.paper:
        sizes = next((v for k, v in SYMBOLS.items() if paper.table.startswith(k)), None)
        if sizes is None or not paper.parameters:
            continue
        with torch.device("meta"):
            source, target = (dictionary(size) for size in sizes)
            task = TranslationTask(TranslationConfig(source_lang="xx", target_lang="yy"), source, target)
            model = build_model(parse(recipe.train.arch, {k: v for k, v in values.items() if v}).model, task)
        count = sum(p.numel() for p in model.parameters()) / 1e6
        printed = float(paper.parameters.removesuffix("M"))
        if (paper.table, paper.parameters) == ("ODE Transformer, Table 1, English-French", "69M"):
            assert 66 < count < 67.5  # where all other figures of the column fit the vocabulary
        else:
            assert abs(count - printed) < max(1, 0.01 * printed), (paper, count)


def test_torchrun_is_told_its_node(monkeypatch):
    monkeypatch.setenv("SLURM_NODEID", "1")
    monkeypatch.delenv("MASTER_PORT", raising=False)
    words = training._torchrun(TrainingPlace(devices=16, nodes=2))
    named = [words[words.index(f"--{name}") + 1] for name in ("nnodes", "node_rank", "nproc_per_node")]
    assert named == ["2", "1", "8"] and words[words.index("--master_port") + 1] == "29500"
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert "20007" in training._torchrun(TrainingPlace(devices=8)), "two on one machine have different ports"


def test_one_machine_of_a_slurm_job_trains_on_as_many_gpus_as_it_is_told(monkeypatch):
    """By Slurm's variables fairseq would take all GPUs of the job, and with a port and without Slurm, one."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    place = TrainingPlace(devices=4, flags=("--distributed-port", "20001"))
    (train,) = (s for s in runner.steps(recipes.load("ode/wmt14-en-de/rk2"), place) if s.name == "train")
    assert train.launcher == ["env", "-u", "SLURM_JOB_ID"] and "--distributed-port" not in train.words


def test_the_folder_of_a_plugin_may_be_named_from_anywhere(tmp_path, monkeypatch):
    """fairseq's parsers look for ``--user-dir`` among the words of the process, from the top of the clone."""
    write_text(tmp_path / "from_anywhere" / "__init__.py", "import ode_transformer.models\n")
    monkeypatch.chdir(tmp_path)
    words = ["run", "quickstart/macaron-tiny", "--cpu", "--dry-run", "--run-dir", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", ["ode-transformer", *words, "--user-dir", "from_anywhere"])
    assert cli.main() == 0
