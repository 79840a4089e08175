"""The commands that prepare, predict and score single tasks: what they are given, and what they print."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...files import write_json, write_lines
from ..arguments import at_least
from ..metrics.glue import LOGGED, read, score
from . import baselines, classification, generated, glue, listops, multiple_choice, question_answering, summarisation
from .correction import corpora
from .question_answering import answers, published
from .translation import write_pairs


def main(args: argparse.Namespace) -> int:
    """Run a command; the exit status."""
    args.step(args)
    return 0


def _report(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name}: {count:,} examples", file=sys.stderr)


# Options that several commands have


def _add_output_dir(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--output-dir", metavar="DIR", type=Path, required=True, help=what)


def _add_like(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--like", type=Path, required=True, metavar="DIR", help="segment text as the pretrained model in a folder does"
    )


def _add_counts(parser: argparse.ArgumentParser, **counts: tuple[int, str]) -> None:
    """Add options whose values are 1 or more: their names, defaults and what they count."""
    for name, (default, what) in counts.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar="N", type=at_least(1), default=default,
            help=f"{what} (default: %(default)s)",
        )  # fmt: skip


def _add_model(parser: argparse.ArgumentParser, examples: str) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="the checkpoint of the trained model")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of binarized data")
    _add_counts(parser, batch_size=(32, f"{examples} per batch"))
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def _add_subset(parser: argparse.ArgumentParser, examples: str, subset: str) -> None:
    parser.add_argument(
        "--subset", metavar="NAME", default=subset, help=f"the subset of {examples} (default: %(default)s)"
    )


Predict = Callable[[Path, Path, str, int, bool], Sequence[Sequence[str]]]
"""(checkpoint, folder of data, subset, examples per batch, no GPU) -> the columns of each example."""


def _add_prediction(
    parser: argparse.ArgumentParser, columns: str, predict: Predict, examples: str = "examples", subset: str = "test"
) -> None:
    """Make the parser that of a command which writes ``columns`` of each example of a subset."""

    def step(args: argparse.Namespace) -> None:
        found = predict(args.checkpoint, args.data, args.subset, args.batch_size, args.cpu)
        write_lines(args.output, map("\t".join, found))
        print(f"{len(found)} {examples} -> {args.output}")

    _add_model(parser, examples)
    _add_subset(parser, examples, subset)
    parser.add_argument("--output", metavar="FILE", required=True, help=f"file to write, tab-separated: {columns}")
    parser.set_defaults(step=step)


def add_classify_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer classify``."""
    _add_prediction(parser, "class, prediction, probability", classification.classify)


def add_choose_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer choose``."""
    _add_prediction(parser, "right option, chosen option", multiple_choice.choose, "questions")


def add_glue_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer glue``."""
    actions = parser.add_subparsers(dest="action", required=True)

    sub = actions.add_parser("prepare", help="write a task's text in the symbols of a pretrained model")
    sub.add_argument("task", choices=glue.GLUE, help="the task")
    sub.add_argument(
        "source", metavar="DIR", type=Path, help="the folder of the published archives: CoLA, SST-2 and so on in it"
    )
    _add_like(sub)
    _add_output_dir(sub, "where SPLIT.input0, SPLIT.label and others go")

    def prepare(args: argparse.Namespace) -> None:
        for split, count in glue.prepare(args.task, args.source, args.like, args.output_dir).items():
            print(f"{split}: {count} examples")

    sub.set_defaults(step=prepare)

    sub = actions.add_parser("validate", help="predict the labels of a development set")
    _add_prediction(sub, "label, prediction", glue.validate, subset="valid")

    sub = actions.add_parser("score", help="score the predictions of a development set")
    sub.add_argument("--predictions", required=True, metavar="FILE", help="output of glue validate")
    sub.add_argument("--metrics", nargs="+", choices=LOGGED, required=True, help="the metrics to take")
    sub.add_argument("--output", metavar="FILE", required=True, help="the JSON file to write")

    def take(args: argparse.Namespace) -> None:
        scores = score(*read(args.predictions), args.metrics)
        write_json(args.output, scores)
        for metric in args.metrics:
            low, high = scores[metric]["interval"]
            print(f"{metric:<10}{scores[metric]['value']:.2f}  [{low:.2f}, {high:.2f}]")

    sub.set_defaults(step=take)

    sub = actions.add_parser("predict", help="write the files that GLUE's server takes")
    sub.add_argument("--task", choices=glue.GLUE, required=True, help="the task of the data")
    _add_output_dir(sub, "where TASK.tsv goes")
    _add_model(sub, "examples")

    def submit(args: argparse.Namespace) -> None:
        for subset, path in glue.submit(
            args.checkpoint, args.data, args.task, args.batch_size, args.cpu, args.output_dir
        ).items():
            print(path or f"{args.data}: has no {subset}, of which no file is written")

    sub.set_defaults(step=submit)

    sub = actions.add_parser("wnli", help="write the server's file of WNLI, the more frequent class, as papers do")
    _add_output_dir(sub, "where WNLI.tsv goes")
    sub.set_defaults(step=lambda args: print(glue.submit_wnli(args.output_dir)))


def add_squad_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer squad``."""
    actions = parser.add_subparsers(dest="action", required=True)

    sub = actions.add_parser("predict", help="answer the questions of a data set")
    _add_model(sub, "windows")
    _add_subset(sub, "questions", "valid")
    _add_counts(
        sub,
        best=(20, "start and end positions tried per window, and answers kept per question"),
        longest=(30, "symbols of an answer"),
    )
    sub.add_argument(
        "--threshold", type=float, metavar="X",
        help="leave answers empty where the no-answer score is above X, as for SQuAD 2.0's server (default: none are)",
    )  # fmt: skip
    _add_output_dir(sub, "where predictions.json and others go")

    def predict(args: argparse.Namespace) -> None:
        found = answers.predict(
            args.checkpoint, args.data, args.subset, args.batch_size, args.cpu, args.best, args.longest
        )
        answers.write(found, args.threshold, args.output_dir)
        print(f"{len(found['predictions'])} questions -> {args.output_dir}")

    sub.set_defaults(step=predict)

    sub = actions.add_parser("score", help="take exact match and F1, as the official scripts do")
    sub.add_argument(
        "answers", metavar="DIR", type=Path, help="a folder with predictions.json, and no_answer.json for SQuAD 2.0"
    )
    sub.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of binarized data")
    _add_subset(sub, "questions", "valid")
    sub.add_argument("--output", metavar="FILE", required=True, help="the JSON file to write")

    def take(args: argparse.Namespace) -> None:
        scores = answers.score(args.answers, args.data, args.subset)
        write_json(args.output, scores)
        for name in question_answering.TASK.metrics(None):
            print(f"{name:<12}{scores[name]['value']:.2f}   ({scores[name]['signature']})")

    sub.set_defaults(step=take)


def add_listops_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer listops``."""
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="folder for train, valid and test, with .input0 and .label"
    )
    _add_counts(
        parser,
        train=(96000, "training expressions"),
        valid=(2000, "validation expressions"),
        test=(2000, "test expressions"),
        shortest=(500, "least symbols"),
        longest=(2000, "most symbols"),
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the generator (default: %(default)s)")

    def step(args: argparse.Namespace) -> None:
        sizes = {split: getattr(args, split) for split in ("test", "valid", "train")}
        listops.write(args.directory, sizes, args.shortest, args.longest, args.seed)
        for split, size in sizes.items():
            print(f"{size} expressions -> {args.directory}/{split}.input0, .label")

    parser.set_defaults(step=step)


def add_baseline_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer baseline``."""
    parser.add_argument(
        "kind", choices=baselines.KINDS, help="a rule by the first symbol, or a linear model on all of them"
    )
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="with train, test and perhaps valid, as .input0 and .label"
    )
    parser.add_argument(
        "--positions", metavar="N", type=at_least(1), help="symbols of an example that are read (default: all)"
    )
    parser.add_argument(
        "--predictions", metavar="FILE", type=Path,
        help="of a model for the test set: how far is it a rule by the first symbol?",
    )  # fmt: skip
    parser.add_argument("--output", metavar="FILE", type=Path, help="file for the record, as JSON")

    def step(args: argparse.Namespace) -> None:
        record = baselines.measure(args.kind, args.folder, args.positions, args.predictions)
        for name, found in record["scores"].items():
            print(f"{name}: accuracy {found['value']:.2f} ({found['examples']} examples)")
        if "model" in record:
            print(
                "its most frequent prediction by first symbol: {agreement:.2f} percent of its predictions, "
                "accuracy {rule:.2f}".format(**record["model"])
            )
        if args.output:
            write_json(args.output, record)
            print(args.output)

    parser.set_defaults(step=step)


# Published data sets, as text in the files that are binarized


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer dataset``."""
    sets = parser.add_subparsers(dest="name", required=True)

    def add(name: str, what: str, step: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = sets.add_parser(name, help=what, description=what)
        _add_output_dir(added, "the folder for the prepared text")
        added.set_defaults(step=step)
        return added

    for name, what, reader in (
        ("imdb", "IMDB's reviews (Maas et al. 2011)", classification.read_imdb),
        ("agnews", "AG's news (Zhang et al. 2015)", classification.read_agnews),
    ):

        def labelled(args: argparse.Namespace, reader=reader) -> None:
            splits = reader(args.folder, args.valid)
            _report(classification.write(splits, args.level, args.size, args.workers, args.output_dir))

        sub = add(name, what, labelled)
        sub.add_argument("folder", metavar="DIR", type=Path, help="the folder of the published files")
        sub.add_argument(
            "--valid", type=int, required=True, metavar="N", help="training examples held out for validation"
        )
        sub.add_argument(
            "--level", choices=classification.LEVELS, required=True, help="split text into subwords or characters"
        )
        _add_counts(sub, size=(16000, "vocabulary size of the subwords"), workers=(1, "threads"))

    sub = add(
        "aeslc",
        "AESLC (Zhang and Tetreault 2019): e-mails and their subject lines",
        lambda args: _report(write_pairs(summarisation.read_aeslc(args.folder), args.output_dir)),
    )
    sub.add_argument("folder", metavar="DIR", type=Path, help="enron_subject_line")

    sub = add(
        "cnndm",
        "CNN/DailyMail (See et al. 2017): stories and their highlights",
        lambda args: _report(write_pairs(summarisation.read_cnndm(args.folders, args.lists), args.output_dir)),
    )
    sub.add_argument(
        "folders", metavar="DIR", type=Path, nargs="+", help="of stories, cnn/stories and dailymail/stories"
    )
    sub.add_argument(
        "--lists", metavar="DIR", type=Path, required=True,
        help="the folder of all_train.txt, all_val.txt and all_test.txt",
    )  # fmt: skip

    def gec(args: argparse.Namespace) -> None:
        _report(
            corpora.write(
                args.output_dir, args.jfleg, args.conll14, m2_files=args.m2, clean=args.clean,
                sentences=args.sentences, seed=args.seed, rate=args.rate,
            )
        )  # fmt: skip

    sub = add("gec", "sentences with errors and without: learners' corpora, or errors made in correct English", gec)
    sub.add_argument("--m2", type=Path, metavar="DIR", help="a folder of M2 files to train on; or")
    sub.add_argument(
        "--clean", type=Path, metavar="FILE", help="correct English to make errors in, one sentence per line"
    )
    sub.add_argument(
        "--sentences", type=at_least(1), metavar="N", help="with --clean: use the first N sentences (default: all)"
    )
    sub.add_argument(
        "--seed", metavar="N", type=int, default=1, help="seed of the generated errors (default: %(default)s)"
    )
    sub.add_argument(
        "--rate", metavar="R", type=float, default=0.3, help="probability of an error at a word (default: %(default)s)"
    )
    sub.add_argument("--jfleg", type=Path, required=True, metavar="DIR", help="with dev and test")
    sub.add_argument("--conll14", type=Path, required=True, metavar="FILE", help="official-2014.combined.m2")

    def squad(args: argparse.Namespace) -> None:
        files, sizes = (
            {"train": args.train, "valid": args.valid},
            (args.max_symbols, args.stride, args.longest_question),
        )
        for split, (questions, windows) in published.write(files, args.like, *sizes, args.output_dir).items():
            print(f"{split}: {questions:,} questions, {windows:,} windows", file=sys.stderr)

    sub = add("squad", "SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), in windows that overlap", squad)
    sub.add_argument("train", metavar="FILE", type=Path, help="train-v1.1.json or train-v2.0.json")
    sub.add_argument("valid", metavar="FILE", type=Path, help="dev-v1.1.json or dev-v2.0.json")
    _add_counts(
        sub,
        max_symbols=(512, "symbols of a sample"),
        stride=(128, "symbols from the beginning of a window to that of the next"),
        longest_question=(64, "symbols of a question; what is more is cut off"),
    )
    _add_like(sub)

    sub = add(
        "race",
        "RACE (Lai et al. 2017): questions about articles, each with four options",
        lambda args: _report(multiple_choice.write(args.folder, args.like, args.output_dir)),
    )
    sub.add_argument("folder", metavar="DIR", type=Path, help="RACE")
    _add_like(sub)

    sub = add(
        "reading",
        "generated text in the published layouts of SQuAD, RACE and GLUE: for rehearsals, not for results",
        lambda args: generated.write(args.like, args.output_dir, args.articles, args.seed),
    )
    sub.add_argument("like", choices=generated.LAYOUTS, help="whose layout")
    _add_counts(sub, articles=(40, "paragraphs, articles or GLUE's examples to train on"))
    sub.add_argument("--seed", metavar="N", type=int, default=1, help="seed of the draws (default: %(default)s)")
