"""The commands that prepare, predict and score single tasks: which functions they call, and what is printed."""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...files import write_json
from ..arguments import call, new_folder, output_file, take_arguments
from ..metrics.glue import LOGGED
from . import baselines, classification, generated, glue, listops, multiple_choice, question_answering, summarisation
from .correction import corpora
from .question_answering import published
from .task import write_predictions
from .translation import write_pairs

BATCH = {"batch_size": {"default": 32}}
SEED = {"seed": {"type": int}}
FILLED = {"output_dir": {"type": Path}}  # which may hold other files


def _show_counts(args: argparse.Namespace, counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name}: {count:,} examples", file=sys.stderr)


def _add_prediction(
    parser: argparse.ArgumentParser, predict: Callable, columns: str, examples: str = "examples", subset: str = "test"
) -> None:
    """Make a parser that of the command which writes ``columns`` of each example of a subset."""
    function = partial(write_predictions, predict, examples=examples)
    output = {"help": f"the file to write, tab-separated: {columns}"}
    take_arguments(parser, function, "checkpoint", subset={"default": subset}, output=output, examples=None)
    call(parser, function)


def add_classify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer classify``."""
    _add_prediction(parser, classification.classify, "class, prediction, probability")


def add_choose_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer choose``."""
    _add_prediction(parser, multiple_choice.choose, "right option, chosen option", "questions")


def add_glue_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer glue``."""
    actions, task = parser.add_subparsers(dest="action", required=True), {"task": {"choices": glue.GLUE}}

    sub = actions.add_parser("prepare", help="write a task's text in the symbols of a pretrained model")
    take_arguments(sub, glue.prepare, "task", "source", **task)
    call(sub, glue.prepare, _show_counts)

    sub = actions.add_parser("validate", help="predict the labels of a development set")
    _add_prediction(sub, glue.validate, "label, prediction", subset="valid")

    sub = actions.add_parser("score", help="score the predictions of a development set")
    take_arguments(sub, glue.write_scores, metrics={"nargs": "+", "choices": LOGGED})
    call(sub, glue.write_scores)

    def show_files(args: argparse.Namespace, written: Mapping[str, Path | None]) -> None:
        for subset, path in written.items():
            print(path or f"{args.data}: has no {subset}, of which no file is written")

    sub = actions.add_parser("predict", help="write the files that GLUE's server takes")
    take_arguments(sub, glue.submit, "checkpoint", **task, **BATCH, **FILLED)
    call(sub, glue.submit, show_files)


def add_squad_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer squad``."""
    actions, subset = parser.add_subparsers(dest="action", required=True), {"subset": {"default": "valid"}}
    for name, function, first, what in (
        ("predict", question_answering.write_answers, "checkpoint", "answer the questions of a data set"),
        ("score", question_answering.write_scores, "folder", "take exact match and F1, as the official scripts do"),
    ):
        sub = actions.add_parser(name, help=what)
        take_arguments(sub, function, first, **subset, **FILLED)
        call(sub, function)


def add_listops_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer listops``."""

    def show(args: argparse.Namespace, sizes: Mapping[str, int]) -> None:
        for split, size in sizes.items():
            print(f"{size} expressions -> {args.folder}/{split}.input0, .label")

    take_arguments(parser, listops.write, "folder", folder={"type": new_folder}, **SEED)
    call(parser, listops.write, show)


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

    take_arguments(parser, baselines.measure, "kind", "folder", kind={"choices": baselines.KINDS})
    parser.add_argument("--output", type=output_file, metavar="FILE", help="file for the record, as JSON")
    call(parser, baselines.measure, show)


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        return sets.add_parser(name, help=what, description=what)

    def write(args: argparse.Namespace, splits: Mapping[str, list[classification.Example]]) -> None:
        written = classification.write(splits, args.output_dir, args.level, args.size, args.workers)
        _show_counts(args, written)

    for name, read_set, what in (
        ("imdb", classification.read_imdb, "IMDB's reviews (Maas et al. 2011)"),
        ("agnews", classification.read_agnews, "AG's news (Zhang et al. 2015)"),
    ):
        sub = add(name, what)
        take_arguments(sub, read_set, "folder")
        take_arguments(sub, classification.write, splits=None, level={"choices": classification.LEVELS})
        call(sub, read_set, write)

    def write_texts(args: argparse.Namespace, splits: Mapping[str, Any]) -> None:
        _show_counts(args, write_pairs(splits, args.output_dir))

    sub = add("aeslc", "AESLC (Zhang and Tetreault 2019): e-mails and their subject lines")
    take_arguments(sub, summarisation.read_aeslc, "folder")
    take_arguments(sub, write_pairs, splits=None)
    call(sub, summarisation.read_aeslc, write_texts)

    sub = add("cnndm", "CNN/DailyMail (See et al. 2017): stories and their highlights")
    take_arguments(sub, summarisation.read_cnndm, "folders", folders={"nargs": "+", "type": Path, "metavar": "DIR"})
    take_arguments(sub, write_pairs, splits=None)
    call(sub, summarisation.read_cnndm, write_texts)

    sub = add("gec", "sentences with errors and without: learners' corpora, or errors made in correct English")
    take_arguments(sub, corpora.write, **SEED)
    call(sub, corpora.write, _show_counts)

    def show_windows(args: argparse.Namespace, counts: Mapping[str, tuple[int, int]]) -> None:
        for split, (questions, windows) in counts.items():
            print(f"{split}: {questions:,} questions, {windows:,} windows", file=sys.stderr)

    sub = add("squad", "SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), in windows that overlap")
    take_arguments(sub, published.write, "train", "valid")
    call(sub, published.write, show_windows)

    sub = add("race", "RACE (Lai et al. 2017): questions about articles, each with four options")
    take_arguments(sub, multiple_choice.write, "folder")
    call(sub, multiple_choice.write, _show_counts)

    sub = add("reading", "generated text in the layouts of SQuAD, RACE and GLUE: for rehearsals, not for results")
    take_arguments(sub, generated.write, "layout", layout={"choices": generated.LAYOUTS}, **SEED)
    call(sub, generated.write)
