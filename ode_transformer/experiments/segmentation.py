"""The segmentation of plain text into the subwords of a masked language model: a folder with its dictionary.

The folder holds either ``sentencepiece.model``, with subwords learned on the pretraining text, or ``encoder.json`` and
``vocab.bpe``, the byte-level BPE of GPT-2 that RoBERTa was trained with; and ``dict.txt``, fairseq's dictionary. A
pretrained model, the text for fine-tuning it, and the folders of binarized data share the same segmentation.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import OdeTransformerError

OWN = ("sentencepiece.model",)
GPT2 = ("encoder.json", "vocab.bpe")
LONGEST = 100_000  # bytes of a line; SentencePiece skips longer ones


class SegmentationError(OdeTransformerError):
    """A folder without a segmentation; the message names it, and the files that it lacks."""


def files(folder: Path) -> tuple[str, ...]:
    """The files of the segmentation in a folder.

    Raises:
        SegmentationError: there are no such files.
    """
    for names in (OWN, GPT2):
        if all((folder / name).is_file() for name in names):
            return names
    raise SegmentationError(f"{folder}: must hold {OWN[0]}, or {' and '.join(GPT2)}")


def opened(folder: Path) -> Callable[[str], str]:
    """The function that turns a line into subwords separated by spaces.

    Raises:
        SegmentationError: the folder has no segmentation, or a file of it cannot be used.
    """
    names = files(folder)
    try:
        if names == OWN:
            import sentencepiece

            pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / OWN[0]))
            return lambda line: " ".join(pieces.encode(line, out_type=str))
        from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

        encoder = get_encoder(*(str(folder / name) for name in GPT2))
        return lambda line: " ".join(map(str, encoder.encode(line)))
    except (OSError, ValueError, RuntimeError) as error:
        raise SegmentationError(f"{folder}: {', '.join(names)} cannot be used: {error}") from error


def learn(lines: Iterable[str], size: int, workers: int, folder: Path) -> None:
    """Learn subwords of lower-cased text, as for the BERT of Macaron Net, and write ``sentencepiece.model``.

    Args:
        lines: the text.
        size: the largest vocabulary size.
        workers: the number of threads.
        folder: the folder for the model.
    """
    import sentencepiece

    model = folder / OWN[0]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(model.with_suffix("")),
        vocab_size=size,
        num_threads=workers,
        hard_vocab_limit=False,
        model_type="bpe",
        normalization_rule_name="nmt_nfkc_cf",  # this lower-cases
        max_sentence_length=LONGEST,
        minloglevel=1,
    )
    model.with_suffix(".vocab").unlink()
