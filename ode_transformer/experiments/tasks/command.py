"""The commands that prepare, predict and score single tasks: the arguments of their functions, and what is printed."""

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...files import write_json
from ..arguments import at_least, new_folder, output_file
from ..metrics.glue import LOGGED
from . import baselines, classification, generated, glue, listops, multiple_choice, summarisation
from .correction import corpora
from .question_answering import answers, published
from .task import write_predictions
from .translation import write_pairs

_KINDS = {"N": at_least(1), "SEED": int, "X": float, "DIR": Path, "FILE": Path}


def main(args: argparse.Namespace) -> int:
    """Run a command; the exit status."""
    args.step(args)
    return 0


def _add(parser: argparse.ArgumentParser, name: str, what: str, default: Any = None, **more: Any) -> None:
    """Add an argument to a parser.

    Args:
        parser: of the command.
        name: ``--option METAVAR`` or ``argument METAVAR``; the latter's type is that of ``_KINDS``, text for others.
        what: its help.
        default: its value if it is not given.
        more: further options of ``add_argument``.
    """
    name, _, metavar = name.partition(" ")
    values = {"metavar": metavar} if metavar else {}
    values |= {"type": _KINDS[metavar]} if metavar in _KINDS else {}
    if default is not None:
        what, values["default"] = f"{what} (default: %(default)s)", default
    parser.add_argument(name, help=what, **values | more)


def _call(
    parser: argparse.ArgumentParser,
    function: Callable,
    show: Callable[[argparse.Namespace, Any], None] = lambda args, found: None,
) -> None:
    """Let a command call a function with the arguments that are named as its parameters, and show what it returns."""
    names = inspect.signature(function).parameters
    parser.set_defaults(
        step=lambda args: show(args, function(**{name: value for name, value in vars(args).items() if name in names}))
    )


def _show_counts(args: argparse.Namespace, counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name}: {count:,} examples", file=sys.stderr)


def _add_like(parser: argparse.ArgumentParser) -> None:
    _add(parser, "--like DIR", "segment text as the pretrained model in a folder does", required=True)


def _add_output_dir(parser: argparse.ArgumentParser, what: str, kind: Callable[[str], Path] = new_folder) -> None:
    _add(parser, "--output-dir DIR", what, required=True, type=kind)


def _add_model(parser: argparse.ArgumentParser, examples: str) -> None:
    _add(parser, "checkpoint FILE", "the checkpoint of the trained model")
    _add(parser, "--data DIR", "the folder of binarized data", required=True)
    _add(parser, "--batch-size N", f"{examples} per batch", 32)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def _add_prediction(
    parser: argparse.ArgumentParser, predict: Callable, columns: str, examples: str = "examples", subset: str = "test"
) -> None:
    """Make a parser that of the command which writes ``columns`` of each example of a subset."""

    _add_model(parser, examples)
    _add(parser, "--subset NAME", f"the subset of {examples}", subset)
    _add(parser, "--output FILE", f"file to write, tab-separated: {columns}", required=True, type=output_file)
    _call(parser, partial(write_predictions, predict, examples=examples))


def add_classify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer classify``."""
    _add_prediction(parser, classification.classify, "class, prediction, probability")


def add_choose_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer choose``."""
    _add_prediction(parser, multiple_choice.choose, "right option, chosen option", "questions")


def add_glue_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer glue``."""
    actions = parser.add_subparsers(dest="action", required=True)

    sub = actions.add_parser("prepare", help="write a task's text in the symbols of a pretrained model")
    _add(sub, "task", "the task", choices=glue.GLUE)
    _add(sub, "source DIR", "the folder of the published archives: CoLA, SST-2 and so on in it")
    _add_like(sub)
    _add_output_dir(sub, "where SPLIT.input0, SPLIT.label and others go")
    _call(sub, glue.prepare, _show_counts)

    sub = actions.add_parser("validate", help="predict the labels of a development set")
    _add_prediction(sub, glue.validate, "label, prediction", subset="valid")

    sub = actions.add_parser("score", help="score the predictions of a development set")
    _add(sub, "--predictions FILE", "output of glue validate", required=True)
    _add(sub, "--metrics", "the metrics to take", nargs="+", choices=LOGGED, required=True)
    _add(sub, "--output FILE", "the JSON file to write", required=True, type=output_file)
    _call(sub, glue.write_scores)

    def show_files(args: argparse.Namespace, written: Mapping[str, Path | None]) -> None:
        for subset, path in written.items():
            print(path or f"{args.data}: has no {subset}, of which no file is written")

    sub = actions.add_parser("predict", help="write the files that GLUE's server takes")
    _add(sub, "--task", "the task of the data", choices=glue.GLUE, required=True)
    _add_output_dir(sub, "where TASK.tsv goes", Path)
    _add_model(sub, "examples")
    _call(sub, glue.submit, show_files)

    sub = actions.add_parser("wnli", help="write the server's file of WNLI, the more frequent class, as papers do")
    _add_output_dir(sub, "where WNLI.tsv goes", Path)
    _call(sub, glue.submit_wnli, lambda args, path: print(path))


def add_squad_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer squad``."""
    actions = parser.add_subparsers(dest="action", required=True)

    sub = actions.add_parser("predict", help="answer the questions of a data set")
    _add_model(sub, "windows")
    _add(sub, "--subset NAME", "the subset of questions", "valid")
    _add(sub, "--best N", "start and end positions tried per window, and answers kept per question", 20)
    _add(sub, "--longest N", "symbols of an answer", 30)
    _add(sub, "--threshold X", "leave answers empty whose no-answer score is above X, as for the server of SQuAD 2.0")
    _add_output_dir(sub, "where predictions.json and others go", Path)
    _call(sub, answers.write_answers)

    sub = actions.add_parser("score", help="take exact match and F1, as the official scripts do")
    _add(sub, "folder DIR", "a folder with predictions.json, and no_answer.json for SQuAD 2.0")
    _add(sub, "--data DIR", "the folder of binarized data", required=True)
    _add(sub, "--subset NAME", "the subset of questions", "valid")
    _add(sub, "--output FILE", "the JSON file to write", required=True, type=output_file)
    _call(sub, answers.write_scores)


def add_listops_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer listops``."""

    def show(args: argparse.Namespace, sizes: Mapping[str, int]) -> None:
        for split, size in sizes.items():
            print(f"{size} expressions -> {args.folder}/{split}.input0, .label")

    _add(parser, "folder DIR", "folder for train, valid and test, with .input0 and .label", type=new_folder)
    _add(parser, "--train N", "training expressions", 96000)
    _add(parser, "--valid N", "validation expressions", 2000)
    _add(parser, "--test N", "test expressions", 2000)
    _add(parser, "--shortest N", "least symbols", 500)
    _add(parser, "--longest N", "most symbols", 2000)
    _add(parser, "--seed SEED", "seed of the generator", 1)
    _call(parser, listops.write, show)


def add_baseline_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer baseline``."""

    def show(args: argparse.Namespace, record: Mapping[str, Any]) -> None:
        for name, found in record["scores"].items():
            print(f"{name}: accuracy {found['value']:.2f} ({found['examples']} examples)")
        if found := record.get("model"):
            same = f"its most frequent prediction by first symbol: {found['agreement']:.2f} percent of its predictions"
            print(f"{same}, accuracy {found['rule']:.2f}")
        if args.output:
            write_json(args.output, record)
            print(args.output)

    _add(parser, "kind", "a rule by the first symbol, or a linear model on all of them", choices=baselines.KINDS)
    _add(parser, "folder DIR", "with train, test and perhaps valid, as .input0 and .label")
    _add(parser, "--positions N", "symbols of an example that are read (default: all)")
    _add(parser, "--predictions FILE", "of a model for the test set: how far is it a rule by the first symbol?")
    _add(parser, "--output FILE", "file for the record, as JSON", type=output_file)
    _call(parser, baselines.measure, show)


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        added = sets.add_parser(name, help=what, description=what)
        _add_output_dir(added, "the folder for the prepared text")
        return added

    def write(args: argparse.Namespace, splits: Mapping[str, list[classification.Example]]) -> None:
        counts = classification.write(splits, args.level, args.size, args.workers, args.output_dir)
        _show_counts(args, counts)

    for name, read_set, what in (
        ("imdb", classification.read_imdb, "IMDB's reviews (Maas et al. 2011)"),
        ("agnews", classification.read_agnews, "AG's news (Zhang et al. 2015)"),
    ):
        sub = add(name, what)
        _add(sub, "folder DIR", "the folder of the published files")
        _add(sub, "--valid N", "training examples held out for validation", required=True)
        _add(sub, "--level", "split text into subwords or characters", choices=classification.LEVELS, required=True)
        _add(sub, "--size N", "vocabulary size of the subwords", 16000)
        _add(sub, "--workers N", "threads", 1)
        _call(sub, read_set, write)

    def write_texts(args: argparse.Namespace, splits: Mapping[str, Any]) -> None:
        _show_counts(args, write_pairs(splits, args.output_dir))

    sub = add("aeslc", "AESLC (Zhang and Tetreault 2019): e-mails and their subject lines")
    _add(sub, "folder DIR", "enron_subject_line")
    _call(sub, summarisation.read_aeslc, write_texts)

    sub = add("cnndm", "CNN/DailyMail (See et al. 2017): stories and their highlights")
    _add(sub, "folders DIR", "of stories, cnn/stories and dailymail/stories", nargs="+")
    _add(sub, "--lists DIR", "the folder of all_train.txt, all_val.txt and all_test.txt", required=True)
    _call(sub, summarisation.read_cnndm, write_texts)

    sub = add("gec", "sentences with errors and without: learners' corpora, or errors made in correct English")
    _add(sub, "--m2 DIR", "a folder of M2 files to train on; or")
    _add(sub, "--clean FILE", "correct English to make errors in, one sentence per line")
    _add(sub, "--sentences N", "with --clean: use the first N sentences (default: all)")
    _add(sub, "--seed SEED", "seed of the generated errors", 1)
    _add(sub, "--rate X", "probability of an error at a word", 0.3)
    _add(sub, "--jfleg DIR", "with dev and test", required=True)
    _add(sub, "--conll14 FILE", "official-2014.combined.m2", required=True)
    _call(sub, corpora.write, _show_counts)

    def show_windows(args: argparse.Namespace, counts: Mapping[str, tuple[int, int]]) -> None:
        for split, (questions, windows) in counts.items():
            print(f"{split}: {questions:,} questions, {windows:,} windows", file=sys.stderr)

    sub = add("squad", "SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), in windows that overlap")
    _add(sub, "train FILE", "train-v1.1.json or train-v2.0.json")
    _add(sub, "valid FILE", "dev-v1.1.json or dev-v2.0.json")
    _add(sub, "--max-symbols N", "symbols of a sample", 512)
    _add(sub, "--stride N", "symbols from the beginning of a window to that of the next", 128)
    _add(sub, "--longest-question N", "symbols of a question; what is more is cut off", 64)
    _add_like(sub)
    _call(sub, published.write, show_windows)

    sub = add("race", "RACE (Lai et al. 2017): questions about articles, each with four options")
    _add(sub, "folder DIR", "RACE")
    _add_like(sub)
    _call(sub, multiple_choice.write, _show_counts)

    sub = add("reading", "generated text in the layouts of SQuAD, RACE and GLUE: for rehearsals, not for results")
    _add(sub, "layout", "whose layout", choices=generated.LAYOUTS)
    _add(sub, "--articles N", "paragraphs, articles or GLUE's examples to train on", 40)
    _add(sub, "--seed SEED", "seed of the draws", 1)
    _call(sub, generated.write, lambda args, _: None)
