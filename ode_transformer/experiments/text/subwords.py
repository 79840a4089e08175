"""Subword units: BPE by subword-nmt or SentencePiece for translation, and those of masked language models.

``SEGMENTATIONS`` has what is known about each way to segment the words of a translation.

The folder of a masked language model holds its dictionary and either ``sentencepiece.model``, with subwords learned on
the pretraining text, or ``encoder.json`` and ``vocab.bpe``, the byte-level BPE of GPT-2 that RoBERTa was trained with.
Folders of text for pretraining hold the same files.
"""

import contextlib
import importlib
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import OdeTransformerError, counted
from ...files import atomic_file, sha256
from .lines import TextError, read_lines
from .parallel import in_parallel

MARK = "\u2581"  # with which SentencePiece marks the beginning of a word
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # symbols of every dictionary that are not in its file
OWN = ("sentencepiece.model",)
GPT2 = ("encoder.json", "vocab.bpe")
LONGEST = 100_000  # bytes of a line; SentencePiece skips longer ones
SAMPLE = 10_000_000  # lines that SentencePiece keeps in memory to learn from
ODD = re.compile("|".join((*SPECIAL, "@@")))  # strings for which units of some words could be mistaken
KNOWN_WORDS = 1_000_000  # words whose segmentation a process remembers


def files(folder: Path) -> tuple[str, ...]:
    """Return the names of the files of the segmentation in a folder; raise ``TextError`` if it has none."""
    for names in (OWN, GPT2):
        if all((folder / name).is_file() for name in names):
            return names
    raise TextError(f"{folder}: must hold {OWN[0]}, or {' and '.join(GPT2)}")


def sentencepiece_model(path: Path) -> Any:
    """Load the SentencePiece model in a file."""
    import sentencepiece

    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise TextError(f"{path}: is not a SentencePiece model: {error}") from error


def segmenter(folder: Path) -> Callable[[str], str]:
    """Return a function that segments a line into subwords separated by spaces, by the files in a folder."""
    if files(folder) == OWN:
        pieces = sentencepiece_model(folder / OWN[0])
        return lambda line: " ".join(pieces.encode(line, out_type=str))
    encoder = gpt2_encoder(folder)
    return lambda line: " ".join(map(str, encoder.encode(line)))


def gpt2_encoder(folder: Path) -> Any:
    """Load the byte-level BPE of GPT-2 in a folder."""
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    try:
        found = get_encoder(*(str(folder / name) for name in GPT2))
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise TextError(f"{folder}: {' and '.join(GPT2)} cannot be read: {error}") from error
    if lacking := {*found.byte_encoder.values(), *map("".join, found.bpe_ranks)} - found.encoder.keys():
        raise TextError(f"{folder / GPT2[0]}: has no number of {min(lacking)!r}, a unit of {GPT2[1]}")
    return found


def _learn_bpe(files: Sequence[Path], size: int, model: Path, workers: int = 1) -> None:
    from tqdm import tqdm

    library = importlib.import_module("subword_nmt.learn_bpe")
    library.tqdm = partial(tqdm, disable=None)  # no bar unless standard error is a terminal
    words: Counter[str] = Counter()
    for path in files:
        lines = read_lines(path, bar=f"count words of {path.name}")
        for found in in_parallel(_count_words, lines, workers):
            words.update(found)
    if max(map(len, words), default=0) < 2:
        raise TextError("--bpe subword-nmt: all words are single characters, which it cannot join; take --bpe none")
    with atomic_file(model) as file:
        library.learn_bpe(_taken(words), file, size, is_dict=True)


def _taken(words: Counter[str]) -> Iterator[str]:
    """Yield and remove every word with its count, since subword-nmt keeps a copy; their order has no effect."""
    while words:
        word, times = words.popitem()
        yield f"{word} {times}"


def _count_words(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.strip("\r ").split(" ") if word)


def _learn_pieces(files: Sequence[Path], size: int, model: Path, workers: int = 1) -> None:
    for coverage in (1.0, 0.9995):  # every character is a unit if there is room for all
        lines = itertools.chain.from_iterable(read_lines(file, bar=f"sample {file.name}") for file in files)
        try:
            # The text is normalized and tokenized already; "identity" leaves its words unchanged for the scores.
            return learn_sentencepiece(lines, size, workers, model, "identity", coverage)
        except TextError as error:
            if coverage < 1 or "required_chars" not in str(error):
                raise
            # SentencePiece's advice for writing systems of thousands of characters, such as the Chinese.
            print(f"{error}; leaving out the rarest .05% of the text's characters", file=sys.stderr)


def learn_sentencepiece(
    lines: Iterable[str], size: int, workers: int, model: Path, normalisation: str = "nmt_nfkc_cf",
    coverage: float = 0.9995,
) -> None:  # fmt: skip
    """Learn BPE with SentencePiece, on at most ``SAMPLE`` lines of a text, and write its model.

    The default rule of normalization also lower-cases, as for the BERT of Macaron Net; ``identity`` leaves text as it
    is. ``coverage`` is the share of the characters of the text, the rarest left out, that get a unit of their own.
    """
    import sentencepiece

    failures: list[BaseException] = []

    def read() -> Iterator[str]:
        # SentencePiece replaces whatever the text raises, Ctrl-C included, by a RuntimeError of its own.
        try:
            yield from lines
        except BaseException as error:
            failures.append(error)
            raise

    try:
        with atomic_file(model, "wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=read(),
                model_writer=file,
                vocab_size=size,
                num_threads=workers,
                hard_vocab_limit=False,
                model_type="bpe",
                character_coverage=coverage,
                normalization_rule_name=normalisation,
                input_sentence_size=SAMPLE,
                shuffle_input_sentence=True,  # a sample with a fixed seed
                max_sentence_length=LONGEST,
                minloglevel=2,  # errors, which are raised anyway
            )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        raise TextError(f"--size {size}: SentencePiece: {error}") from error


def _bpe_units(lines: list[str], model: Path) -> list[str]:
    bpe = _loaded(_bpe, model, sha256(model))
    if len(bpe.cache) > KNOWN_WORDS:
        bpe.cache.clear()
    return [
        bpe.process_line(line)
        if not ODD.search(line)
        else " ".join(_unambiguous(bpe.process_line(word)) for word in line.split(" ") if word)
        for line in lines
    ]


def _unambiguous(units: str) -> str:
    """Return the units of a word, the last one split if it equals a special symbol or does not seem to end the word."""
    last = units.rpartition(" ")[2]
    return f"{units[:-1]}@@ {units[-1]}" if last in SPECIAL or last.endswith("@@") else units


def _pieces(lines: list[str], model: Path) -> list[str]:
    rows = _loaded(sentencepiece_model, model, sha256(model)).encode(lines, out_type=str)
    return [" ".join(f"{piece[:-1]} {piece[-1]}" if piece in SPECIAL else piece for piece in row) for row in rows]


@cache
def _loaded(load: Callable[[Path], Any], model: Path, digest: str) -> Any:
    """Load the model in a file; cached by the file's digest."""
    return load(model)


def _bpe(codes: Path) -> Any:
    from subword_nmt.apply_bpe import BPE

    said = io.StringIO()  # subword-nmt prints the line that it cannot read, and ends
    try:
        with codes.open(encoding="utf-8") as file, contextlib.redirect_stderr(said):
            bpe = BPE(file)
            bpe.process_line("ab")  # only this finds a version that subword-nmt does not know
            return bpe
    except (ValueError, NotImplementedError, SystemExit) as error:
        what = said.getvalue().partition("\n")[0].removeprefix("Error: ")
        raise TextError(f"{codes}: is not a file of subword-nmt codes{what and f': {what}'}") from error


def _words(lines: list[str], model: Path) -> list[str]:
    """Return words as they are, but special symbols as unknown words, as in binarized data."""
    return [" ".join("<unk>" if word in SPECIAL else word for word in line.split(" ")) for line in lines]


def _join_subwords(line: str) -> str:
    return f"{line} ".replace("@@ ", "").rstrip(" ")


def _join_pieces(line: str) -> str:
    return line.replace(" ", "").replace(MARK, " ").strip(" ")


class Segmentation(NamedTuple):
    """A way to segment words into units, of which none equals a special symbol, and to join these again."""

    model: str  # the file of the model beside the data; empty if there is none
    # (files of training text, number of BPE merges or SentencePiece's size of the vocabulary, model, workers): write
    # the model of joint units; None if there is none.
    learn: Callable[..., None] | None
    segment: Callable[[list[str], Path], list[str]]  # (lines, model) -> their units, separated by spaces
    join: Callable[[str], str]  # the units of a line -> words
    post_process: tuple[str, ...]  # the values of fairseq's --post-process that join the units, too


SEGMENTATIONS = {
    "subword-nmt": Segmentation("codes", _learn_bpe, _bpe_units, _join_subwords, ("subword_nmt", "@@ ", "@@")),
    "sentencepiece": Segmentation(OWN[0], _learn_pieces, _pieces, _join_pieces, ("sentencepiece",)),
    "none": Segmentation("", None, _words, str, ("none",)),
}
MODEL_FILES = tuple(its.model for its in SEGMENTATIONS.values() if its.model)
JOIN = {its.post_process[0]: its.join for its in SEGMENTATIONS.values()}  # by the value of --remove-bpe


def segmentation_by(names: Container[str]) -> str:
    """Return the segmentation whose model is among the names of files, otherwise ``none``."""
    return next((name for name, its in SEGMENTATIONS.items() if its.model and its.model in names), "none")


def joined_words(lines: Sequence[str], name: str | Path, segmentation: str | None) -> list[str]:
    """Return lines with their subword units joined to words.

    SentencePiece marks the beginning of almost every line. In a text of words the mark occurs by chance, and joining
    would remove all blanks: lines that mostly begin otherwise are unchanged, with a warning. ``segmentation`` is the
    value of ``--remove-bpe``, None if it is not given; ``name`` is the file, for messages.
    """
    if segmentation not in (None, *JOIN):
        raise OdeTransformerError(f"--remove-bpe {segmentation}: must be one of {', '.join(JOIN)}")
    units = sum("@@ " in line or MARK in line for line in lines)
    if units and segmentation is None:
        raise OdeTransformerError(
            f"{name}: subword units, not words, in {units} of {counted(len(lines), 'line')}; give --remove-bpe "
            f"{'|'.join(JOIN)} (none: score them as they are), or in a recipe generate.flags.post-process"
        )
    join = JOIN[segmentation or "none"]
    begin = sum(line.startswith(MARK) for line in lines)
    if segmentation == "sentencepiece" and 2 * begin <= sum(map(bool, lines)):
        join = str
        if units:
            said = f"{MARK} in {units} of {counted(len(lines), 'line')}, taken for words"
            print(f"warning: {name}: {said}", file=sys.stderr)
    return list(map(join, lines))
