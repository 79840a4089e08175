"""The command lines that write data sets, predict, and score answers: the functions they call, and what they print."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...files import write_json
from ..arguments import add_function, add_parameters, at_least, new_folder, output_file
from ..text import corpus, documents
from . import baselines, classification, generated, glue, listops, multiple_choice, question_answering, summarisation
from .correction import corpora
from .question_answering import published
from .splits import write_splits
from .task import write_predictions
from .translation import Pair

SEED = {"seed": {"type": int}}
FILLED = {"output_dir": {"type": Path}}  # the folder may hold other files


def _show_counts(args: argparse.Namespace, counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name}: {count:,} examples", file=sys.stderr)


def predicted(checkpoint: Path, data: Path, subset: str, batch_size: int, cpu: bool) -> Sequence[Sequence[str]]:
    """Return the chosen options if the data have more than two texts per example, otherwise classes or numbers."""
    predict = multiple_choice.choose if (data / "input2").is_dir() else classification.classify
    return predict(checkpoint, data, subset, batch_size, cpu)


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer predict``."""
    add_function(parser, partial(write_predictions, predicted), "checkpoint", subset={"default": "test"})


def add_glue(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer glue``."""

    def show(args: argparse.Namespace, written: Mapping[str, Path | None]) -> None:
        for subset, path in written.items():
            print(path or f"{args.data}: has no {subset}, of which no file is written")

    task = {"task": {"choices": glue.GLUE}}
    add_function(parser, glue.submit, "checkpoint", show=show, **task, batch_size={"default": 32}, **FILLED)


def add_squad(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer squad``."""
    actions, more = parser.add_subparsers(dest="action", required=True), {"subset": {"default": "valid"}, **FILLED}
    sub = actions.add_parser("predict", help="answer the questions of a data set")
    add_function(sub, question_answering.write_answers, "checkpoint", **more)
    sub = actions.add_parser("score", help="compute exact match and F1, as the official scripts do")
    add_function(sub, question_answering.write_scores, "folder", **more)


def add_baseline(parser: argparse.ArgumentParser) -> None:
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

    add_function(parser, baselines.measure, "kind", "folder", show=show, kind={"choices": baselines.KINDS})
    parser.add_argument("--output", type=output_file, metavar="FILE", help="JSON file for the record")


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        return sets.add_parser(name, help=what, description=what)

    def write_labelled(args: argparse.Namespace, splits: Mapping[str, list[classification.Example]]) -> None:
        written = classification.write(splits, args.output_dir, args.level, args.size, args.workers)
        _show_counts(args, written)

    def write_texts(args: argparse.Namespace, splits: Mapping[str, Any]) -> None:
        _show_counts(args, write_splits(splits, Pair._fields, args.output_dir))

    def show_windows(args: argparse.Namespace, counts: Mapping[str, tuple[int, int]]) -> None:
        for split, (questions, windows) in counts.items():
            print(f"{split}: {questions:,} questions, {windows:,} windows", file=sys.stderr)

    for name, read_set, what in (
        ("imdb", classification.read_imdb, "IMDB reviews (Maas et al. 2011)"),
        ("agnews", classification.read_agnews, "AG's News (Zhang et al. 2015)"),
    ):
        add_function(sub := add(name, what), read_set, "folder", show=write_labelled)
        add_parameters(sub, classification.write, splits=None, level={"choices": classification.LEVELS})

    sub = add("aeslc", "AESLC (Zhang and Tetreault 2019): e-mails and their subject lines")
    add_function(sub, summarisation.read_aeslc, "folder", show=write_texts)
    add_parameters(sub, write_splits, splits=None, columns=None)
    sub = add("cnndm", "CNN/DailyMail (See et al. 2017): stories and their highlights")
    folders = {"nargs": "+", "type": Path, "metavar": "DIR"}
    add_function(sub, summarisation.read_cnndm, "folders", show=write_texts, folders=folders)
    add_parameters(sub, write_splits, splits=None, columns=None)
    sub = add("gec", "grammatical errors: learners' corpora, or errors generated in correct English")
    add_function(sub, corpora.write, show=_show_counts, **SEED)
    sub = add("squad", "SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), in overlapping windows")
    add_function(sub, published.write, "train", "valid", show=show_windows)
    sub = add("race", "RACE (Lai et al. 2017): questions about articles, each with four options")
    add_function(sub, multiple_choice.write, "folder", show=_show_counts)
    sub, names = add("glue", "GLUE (Wang et al. 2019): sentences, or pairs of them"), {"task": {"choices": glue.GLUE}}
    add_function(sub, glue.prepare, "task", "source", show=_show_counts, **names)
    sub, texts = add("documents", "plain text in segments of documents, for masked language models"), {"nargs": "+"}
    more = {"inputs": texts | {"metavar": "INPUT"}, "valid": texts | {"metavar": "INPUT", "default": []}}
    add_function(sub, documents.prepare, "inputs", **more, held_out={"type": at_least(2)}, size={"type": int})
    sub, new = add("corpus", "the generated German-English corpus"), {"type": new_folder, "metavar": "DIRECTORY"}
    more = {"directory": new, "seed": {"type": at_least(0)}}
    add_function(sub, corpus.write, "directory", show=lambda args, paths: print(*paths, sep="\n"), **more)
    sub = add("listops", "ListOps (Nangia and Bowman 2018), generated: nested operations on digits, and their values")
    add_function(sub, listops.write, "folder", show=_show_counts, folder={"type": new_folder}, **SEED)
    sub = add("reading", "generated text in the layouts of SQuAD, RACE and GLUE: for rehearsals, not for results")
    add_function(sub, generated.write, "layout", layout={"choices": generated.LAYOUTS}, **SEED)
