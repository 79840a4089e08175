"""The segmentation of plain text into the subwords of a masked language model: a folder with its dictionary.

The folder holds either ``sentencepiece.model``, with subwords learned on the pretraining text, or ``encoder.json`` and
``vocab.bpe``, the byte-level BPE of GPT-2 that RoBERTa was trained with; and ``dict.txt``, fairseq's dictionary. A
pretrained model, the text for fine-tuning it, and the folders of binarized data share the same segmentation.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import read_json, read_text, regular, whole
from ...schema import count, lacks

OWN = ("sentencepiece.model",)
GPT2 = ("encoder.json", "vocab.bpe")
LONGEST = 100_000  # bytes of a line; SentencePiece skips longer ones
SAMPLE = 10_000_000  # lines that SentencePiece keeps in memory to learn from


class SegmentationError(OdeTransformerError):
    """A folder without a segmentation, or one that cannot be learned; the message says what is missing."""


def files(folder: Path) -> tuple[str, ...]:
    """The files of the segmentation in a folder.

    Raises:
        SegmentationError: there are no such files.
    """
    for names in (OWN, GPT2):
        if all((folder / name).is_file() for name in names):
            return names
    raise SegmentationError(f"{folder}: must hold {OWN[0]}, or {' and '.join(GPT2)}")


def sentencepiece_model(path: Path) -> Any:
    """The SentencePiece model in a file.

    Raises:
        SegmentationError: it is none.
    """
    import sentencepiece

    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(regular(path)))
    except (OSError, RuntimeError) as error:
        raise SegmentationError(f"{path}: is not a SentencePiece model: {error}") from error


def opened(folder: Path) -> Callable[[str], str]:
    """The function that turns a line into subwords separated by spaces.

    Raises:
        SegmentationError: the folder has no segmentation, or a file of it cannot be used.
    """
    names = files(folder)
    if names == OWN:
        pieces = sentencepiece_model(folder / OWN[0])
        return lambda line: " ".join(pieces.encode(line, out_type=str))
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    _check_gpt2(folder)
    encoder = get_encoder(*(str(folder / name) for name in GPT2))
    return lambda line: " ".join(map(str, encoder.encode(line)))


def _check_gpt2(folder: Path) -> None:
    """Check that the byte-level BPE of GPT-2 in a folder has a number for every symbol that it can make."""
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

    symbols, merges = folder / GPT2[0], folder / GPT2[1]
    numbers = read_json(symbols, SegmentationError)
    if wrong := lacks(numbers, {str: count}):
        raise SegmentationError(f"{symbols}: {wrong}: must be the numbers of symbols")
    needed = list(bytes_to_unicode().values())
    for number, line in enumerate(read_text(merges).split("\n")[1:-1], 2):
        if len(line.split()) != 2:
            raise SegmentationError(f"{merges}: line {number} is {line[:60]!r}, must be two symbols")
        needed.append("".join(line.split()))
    if missing := [symbol for symbol in needed if symbol not in numbers]:
        raise SegmentationError(f"{symbols}: has no number for the symbol {missing[0]!r}")
    if len(set(numbers.values())) < len(numbers):
        raise SegmentationError(f"{symbols}: two symbols have the same number")


def learn(
    lines: Iterable[str],
    size: int,
    workers: int,
    model: Path,
    normalisation: str = "nmt_nfkc_cf",
    coverage: float = 0.9995,
) -> None:
    """Learn BPE with SentencePiece, on at most ``SAMPLE`` lines of a text.

    Args:
        lines: the text.
        size: the largest vocabulary size.
        workers: the number of threads.
        model: the file to write.
        normalisation: SentencePiece's name of a rule. The default also lower-cases, as for the BERT of Macaron Net;
            ``identity`` leaves text as it is.
        coverage: the share of the characters of the text, the rarest left out, that get a unit of their own.

    Raises:
        SegmentationError: SentencePiece cannot learn so many units, as where ``size`` is less than the number of
            characters.
    """
    import sentencepiece

    failures: list[BaseException] = []

    def read() -> Iterator[str]:
        # SentencePiece makes a RuntimeError of its own of whatever the text raises, Ctrl-C included.
        try:
            yield from lines
        except BaseException as error:
            failures.append(error)
            raise

    try:
        with whole(model, "wb") as file:
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
                minloglevel=1,
            )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        raise SegmentationError(f"--size {size}: SentencePiece: {error}") from error
