"""Pairs of sentences with and without errors: learners' corpora (M2 files), or errors generated in correct English.

The test sets of both are JFLEG (Napoles et al. 2017) and CoNLL-2014 (Ng et al. 2014). JFLEG's development set is the
validation set for generated errors.
"""

import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ....errors import OdeTransformerError, counted
from ....files import copy_file, write_lines
from ...metrics.m2 import NO_CORRECTION, Annotated, Edit
from ...metrics.m2 import read as read_m2
from ...text.lines import lines_of, read_all, read_lines, write_splits
from ..translation import Pair
from . import errors

REFERENCES = 4  # of JFLEG
LONGEST = 60  # tokens of a sentence in which errors are generated; longer ones are left out
NUCLE_HELD_OUT = 5448  # pairs (ODE Transformer, Table 8)
# The names of M2 files: of NUCLE, in the data of BEA-2019 and in its releases 3.2 and 2.x; of development or test sets.
NUCLE = re.compile(r"nucle|conll1[34]st-preprocessed", re.IGNORECASE)
TUNES_OR_TESTS = re.compile(r"official-(2014|preprocessed)|\.(dev|test)\.")
ALTERNATIVES = re.compile(r"(?<!\|)\|\|(?!\|)")  # separates alternative corrections of an edit


def uniform(line: str) -> str:
    """Return a tokenized line with single blanks and straight quotation marks, to be the same in all corpora.

    JFLEG's test set alone has the Penn Treebank's quotation marks, and the lines of its development set end with a
    blank.
    """
    return " ".join(errors.straight(line).split())


def corrected(sentence: Annotated) -> list[str]:
    """Return the distinct corrections of a sentence, in the order of the annotators; without one, the sentence."""
    versions = [sentence.edits[annotator] for annotator in sorted(sentence.edits)] or [[]]
    return list(dict.fromkeys(" ".join(_edited(sentence.tokens, edits)) for edits in versions))


def _edited(tokens: list[str], edits: list[Edit]) -> list[str]:
    """Apply an annotator's edits, which do not overlap; insertions at the same place keep their order."""
    out: list[str] = []
    done = 0
    for start, end, kind, text in sorted(edits, key=lambda edit: edit[:2]):
        if kind in NO_CORRECTION:
            continue
        new = [] if text == "-NONE-" else ALTERNATIVES.split(text)[0].split()
        out += tokens[done:start] + new
        done = max(done, end)
    return out + tokens[done:]


def published(folder: Path) -> dict[str, list[Pair]]:
    """Return training and validation pairs of the M2 files in a folder, without unchanged and empty corrections.

    Each distinct correction of a sentence makes a pair. Lang-8 has several for many sentences; the scripts of
    Chollampatt and Ng (2018), which the ODE Transformer borrowed, also use all of them, whereas that of BEA-2019, which
    published the M2 file, uses only the first annotator's. NUCLE, FCE and W&I+LOCNESS have one annotator.

    The validation set is ``NUCLE_HELD_OUT`` equally spaced pairs of NUCLE, or every other pair if NUCLE has fewer than
    twice as many.
    """
    paths = sorted(folder.glob("*.m2"))
    tests, nucle = ([path.name for path in paths if kind.search(path.name)] for kind in (TUNES_OR_TESTS, NUCLE))
    if tests:
        raise OdeTransformerError(f"{folder}: {tests[0]} is of a development or test set, must not be trained on")
    levels = {path.name.partition(".")[0] for path in paths}  # of W&I, whose archive holds its files in both ways
    if "ABC" in levels and levels & {*"ABC"}:
        raise OdeTransformerError(f"{folder}: ABC.* holds the sentences of A.*, B.* and C.*; remove one or the others")
    if len(nucle) != 1:
        raise OdeTransformerError(
            f"{folder}: must hold one M2 file of NUCLE, part of which is held out, and whose name contains nucle, "
            f"conll14st-preprocessed or conll13st-preprocessed; holds {' and '.join(nucle) or 'none'}"
        )
    train, valid = [], []
    for path in paths:
        found = list(read_m2(path))
        made = (Pair(uniform(" ".join(each.tokens)), uniform(text)) for each in found for text in corrected(each))
        wrong = [pair for pair in made if pair.target not in ("", pair.source)]
        print(f"{path.name}: {counted(len(found), 'sentence')}, {counted(len(wrong), 'correction')}", file=sys.stderr)
        if path.name in nucle:
            every = max(len(wrong) // NUCLE_HELD_OUT, 2)
            held_out = range(every - 1, len(wrong), every)[:NUCLE_HELD_OUT]
            valid = [wrong[i] for i in held_out]
            wrong = [pair for i, pair in enumerate(wrong) if i not in held_out]
        train += wrong
    return {"train": train, "valid": valid}


def generated(path: Path, seed: int, rate: float, count: int | None) -> Iterator[Pair]:
    """Yield pairs of a sentence with generated errors and its original; some have none, for a model to leave unchanged.

    The sentences are the first ``count`` lines of the file, or all of them.
    """
    lines = itertools.islice(read_lines(path), count)
    sentences = [tokens for line in lines if 0 < len(tokens := errors.tokenise(line)) <= LONGEST]
    words = Counter(token.lower() for tokens in sentences for token in tokens)
    corrupter = errors.Corrupter(words, seed, rate)
    for tokens in sentences:
        if wrong := corrupter.corrupt(tokens):
            yield Pair(" ".join(wrong), " ".join(tokens))
    made = ", ".join(f"{number:,} of {kind}" for kind, number in sorted(corrupter.made.items()))
    print(f"{path.name}: {counted(len(sentences), 'sentence')}, errors: {made}", file=sys.stderr)


def read_jfleg(folder: Path, split: str) -> tuple[list[str], list[list[str]]]:
    """Return the sentences of JFLEG's split ``dev`` or ``test`` and the corrections by annotator, all uniform."""
    prefix = folder / split / split
    sources = read_all(f"{prefix}.src")
    references = [lines_of(f"{prefix}.ref{i}", len(sources), f"{prefix}.src") for i in range(REFERENCES)]
    return list(map(uniform, sources)), [list(map(uniform, lines)) for lines in references]


def write(
    output_dir: Path,
    jfleg: Path,
    conll14: Path,
    m2: Path | None = None,
    clean: Path | None = None,
    sentences: int | None = None,
    seed: int = 1,
    rate: float = 0.3,
) -> dict[str, int]:
    """Write the pairs of all splits, and the human edits and corrections of the test sets; return the numbers of pairs.

    The splits are ``train``, without sentences of CoNLL-2014 and JFLEG; ``valid``, which is JFLEG's development set for
    generated errors; ``conll14`` with ``conll14.m2``; ``jfleg`` and ``jfleg-dev`` with ``.ref0`` and so on.

    Args:
        output_dir: the folder for the files.
        jfleg: the folder of JFLEG, which contains ``dev`` and ``test``.
        conll14: the file ``official-2014.combined.m2``.
        m2: a folder of M2 files to train on; either this or --clean.
        clean: correct English in which errors are generated, one sentence per line.
        sentences: use the first N sentences of --clean (default: all).
        seed: the seed of the errors.
        rate: the probability of an error at a word, of a misspelling half that.
    """
    if bool(m2) == bool(clean):
        raise OdeTransformerError("one of --m2 DIR and --clean FILE is needed")
    tests = {name: read_jfleg(jfleg, split) for name, split in (("jfleg", "test"), ("jfleg-dev", "dev"))}
    conll = [Pair(" ".join(each.tokens), corrected(each)[0]) for each in read_m2(conll14)]
    held_out = {uniform(pair.source) for pair in conll}.union(*(sources for sources, _ in tests.values()))
    splits: dict[str, Iterable[Pair]] = {"conll14": conll}
    splits |= {name: map(Pair, sources, references[0]) for name, (sources, references) in tests.items()}
    if m2:
        splits |= published(m2)
    else:
        sources, references = tests["jfleg-dev"]
        splits["train"] = generated(clean, seed, rate, sentences)
        splits["valid"] = (Pair(source, lines[i]) for lines in references for i, source in enumerate(sources))
    train = list(splits["train"])
    splits["train"] = [pair for pair in train if pair.source not in held_out]
    dropped = len(train) - len(splits["train"])
    print(f"train: {counted(dropped, 'pair')} left out, whose sentence is in CoNLL-2014 or JFLEG", file=sys.stderr)
    counts = write_splits(splits, Pair._fields, output_dir)
    for name, (_, references) in tests.items():
        for i, lines in enumerate(references):
            write_lines(output_dir / f"{name}.ref{i}", lines)
    copy_file(conll14, output_dir / "conll14.m2")
    return counts
