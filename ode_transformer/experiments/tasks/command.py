"""The command lines that write data sets, predict, and score answers: the functions they call, and what they print."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import counted
from ..arguments import add_command, add_function, add_parameters, at_least, new_folder
from ..text import corpus, documents
from ..text.lines import write_splits
from . import baselines, classification, generated, glue, listops, multiple_choice, question_answering, summarisation
from .correction import corpora
from .encoders import write_predictions
from .question_answering import published
from .translation import Pair

SEED = {"seed": {"type": int}}
FILLED = {"output_dir": {"type": Path}}  # the folder may hold other files


def _show_counts(args: argparse.Namespace, counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name}: {counted(count, 'example')}", file=sys.stderr)


def _show_paths(args: argparse.Namespace, paths: Iterable[Path]) -> None:
    print(*paths, sep="\n")


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer predict``."""
    add_function(parser, write_predictions, "checkpoint", subset={"default": "test"})


def add_glue(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer glue``."""
    more = {"task": {"choices": glue.GLUE}, "batch_size": {"default": 32}, "show": _show_paths, **FILLED}
    add_function(parser, glue.submit, "checkpoint", **more)


def add_squad(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer squad``."""
    actions, more = parser.add_subparsers(dest="action", required=True), {"subset": {"default": "valid"}, **FILLED}
    about = "answer the questions of a data set"
    add_command(actions, "predict", question_answering.write_answers, "checkpoint", about=about, **more)
    about = "compute exact match and F1, as the official scripts do"
    add_command(actions, "score", question_answering.write_scores, "folder", about=about, **more)


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer baseline``."""
    add_function(parser, baselines.measure, "kind", "folder", kind={"choices": baselines.KINDS})


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name: str, what: str, function: Any, *first: str, show: Any = _show_counts, **more: Any) -> Any:
        return add_command(sets, name, function, *first, about=what, show=show, **more)

    def write_labelled(args: argparse.Namespace, splits: classification.Splits) -> None:
        written = classification.write(splits, args.output_dir, args.level, args.size, args.workers)
        _show_counts(args, written)

    def write_texts(args: argparse.Namespace, splits: Mapping[str, Any]) -> None:
        _show_counts(args, write_splits(splits, Pair._fields, args.output_dir))

    imdb = add("imdb", "IMDB reviews (Maas et al. 2011)", classification.read_imdb, "folder", show=write_labelled)
    what = "AG's News (Zhang et al. 2015)"
    agnews = add("agnews", what, classification.read_agnews, "folder", show=write_labelled)
    for sub in (imdb, agnews):
        add_parameters(sub, classification.write, splits=None, level={"choices": classification.LEVELS})
    what = "AESLC (Zhang and Tetreault 2019): e-mails and their subject lines"
    aeslc = add("aeslc", what, summarisation.read_aeslc, "folder", show=write_texts)
    what, folders = "CNN/DailyMail (See et al. 2017): stories and their highlights", {"nargs": "+", "metavar": "DIR"}
    folders |= {"type": Path}
    cnndm = add("cnndm", what, summarisation.read_cnndm, "folders", show=write_texts, folders=folders)
    for sub in (aeslc, cnndm):
        add_parameters(sub, write_splits, splits=None, columns=None)
    add("gec", "grammatical errors: learners' corpora, or errors generated in correct English", corpora.write, **SEED)
    what = "SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), in overlapping windows"
    add("squad", what, published.write, "train", "valid")
    what = "RACE (Lai et al. 2017): questions about articles, each with four options"
    add("race", what, multiple_choice.write, "folder")
    what = "GLUE (Wang et al. 2019): sentences, or pairs of them"
    add("glue", what, glue.prepare, "task", "source", task={"choices": glue.GLUE})
    what, texts = "plain text in segments of documents, for masked language models", {"nargs": "+", "metavar": "INPUT"}
    more = {"inputs": texts, "valid": texts | {"default": []}, "held_out": {"type": at_least(2)}, "size": {"type": int}}
    add("documents", what, documents.prepare, "inputs", show=lambda *_: None, **more)
    more = {"directory": {"type": new_folder, "metavar": "DIRECTORY"}, "seed": {"type": at_least(0)}}
    add("corpus", "the generated German-English corpus", corpus.write, "directory", show=_show_paths, **more)
    what = "ListOps (Nangia and Bowman 2018), generated: nested operations on digits, and their values"
    add("listops", what, listops.write, "folder", folder={"type": new_folder}, **SEED)
    what = "generated text in the layouts of SQuAD, RACE and GLUE: for rehearsals, not for results"
    add("reading", what, generated.write, "layout", show=lambda *_: None, layout={"choices": generated.LAYOUTS}, **SEED)
