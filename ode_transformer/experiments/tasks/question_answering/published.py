"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): questions answered by spans of a paragraph, or unanswerable ones.

The published layout is one JSON file per split. As for BERT, a paragraph that is too long for the model is split into
overlapping windows, each beginning ``stride`` symbols after the previous one, until one reaches the end.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ....errors import OdeTransformerError
from ....files import write_text
from ....schema import checked_json, one_of
from ...text import subwords
from ...text.lines import write_splits

SPECIAL = 4  # special symbols of a sample: <s> question </s> </s> window </s>
VERSIONS = {"1.1": "1.1", "2.0": "2.0", "v2.0": "2.0"}
_QUESTION = {"id": str, "question": str, "answers": [{"text": str, "answer_start": int}]}
_LAYOUT = {"version": one_of(*VERSIONS), "data": [{"paragraphs": [{"context": str, "qas": [_QUESTION]}]}]}

Cut = Callable[[str], list[tuple[str, int, int]]]
"""A function that segments text into subwords, each with its characters [begin, end) in the text."""


def read(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the version, ``1.1`` or ``2.0``, and the paragraphs of a published file, in the file's own layout."""
    tree = checked_json(path, _LAYOUT, "is not of SQuAD's layout")
    paragraphs = [paragraph for article in tree["data"] for paragraph in article["paragraphs"]]
    for text, question in ((paragraph["context"], item) for paragraph in paragraphs for item in paragraph["qas"]):
        for answer in question["answers"]:
            answer["answer_start"] = _place(
                f"{path}: question {question['id']}", text, answer["text"], answer["answer_start"]
            )
    return VERSIONS[tree["version"]], paragraphs


def _place(question: str, paragraph: str, answer: str, start: int) -> int:
    """Return where an answer begins in a paragraph; the stated place may be off by a character or two."""
    places = [place for place in range(max(start - 2, 0), start + 3) if paragraph.startswith(answer, place)]
    if not places:
        raise OdeTransformerError(f"{question}: answer {answer!r} is not at character {start} of its paragraph")
    return min(places, key=lambda place: abs(place - start))


def offset_segmenter(folder: Path) -> Cut:
    """Return a function that segments text like the pretrained model in a folder."""
    names = subwords.files(folder)
    if names == subwords.OWN:
        pieces = subwords.sentencepiece_model(folder / names[0])

        def cut(text: str) -> list[tuple[str, int, int]]:
            found = pieces.encode_as_offset_mapping(text)
            symbols = [re.sub(r"\s", "", piece) or "<unk>" for piece in found["pieces"]]  # fairseq splits at blanks
            return [(piece, *place) for piece, place in zip(symbols, found["offsets"], strict=True)]

        return cut

    encoder = subwords.gpt2_encoder(folder)

    def cut_bytes(text: str) -> list[tuple[str, int, int]]:
        character = [i for i, c in enumerate(text) for _ in c.encode("utf-8")]  # the character of each byte
        found, at = [], 0
        for symbol in encoder.encode(text):
            size = len(encoder.decoder[symbol])  # GPT-2 spells each byte as a character
            found.append((str(symbol), character[at], character[at + size - 1] + 1))
            at += size
        return found

    return cut_bytes


def starts(length: int, room: int, stride: int) -> list[int]:
    """Return the first symbol of each window of a paragraph of ``length`` symbols; a window has at most ``room``."""
    return list(range(0, max(length - room, 0) + stride, stride))


def span(symbols: list[tuple[str, int, int]], answer: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first and the last symbol of an answer, or (-1, -1) if it has none."""
    start, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    inside = [i for i, (_, first, last) in enumerate(symbols) if first < end and last > start]
    return (inside[0], inside[-1]) if inside else (-1, -1)


def write(
    train: Path,
    valid: Path,
    like: Path,
    output_dir: Path,
    max_symbols: int = 512,
    stride: int = 128,
    longest_question: int = 64,
) -> dict[str, int]:
    """Write questions, ``SPLIT.input0``, windows, ``SPLIT.input1``, and ``SPLIT.spans``, the symbols of the answers.

    For ``valid``, also write ``valid.questions.json``, from which answers and scores are computed. Return the number of
    windows by split.

    Args:
        train: ``train-v1.1.json`` or ``train-v2.0.json``.
        valid: ``dev-v1.1.json`` or ``dev-v2.0.json``.
        like: the folder of the pretrained model whose subword segmentation and dictionary are used.
        output_dir: the folder for the files.
        max_symbols: maximum length of a sample, question and window, in symbols.
        stride: number of symbols between the beginnings of successive windows.
        longest_question: maximum length of a question in symbols, at which it is cut off.
    """
    if stride > (room := max_symbols - SPECIAL - longest_question):
        raise OdeTransformerError(f"--stride {stride}: must be at most {room}, the room that is left beside a question")
    cut, counts = offset_segmenter(like), {}
    for split, path in (("train", train), ("valid", valid)):
        version, paragraphs = read(path)
        texts, questions, places, samples = [], [], [], []
        for number, paragraph in enumerate(paragraphs):
            symbols = cut(paragraph["context"])
            texts.append({"text": paragraph["context"], "offsets": [place for _, *place in symbols]})
            for question in paragraph["qas"]:
                words = [symbol for symbol, *_ in cut(question["question"])][:longest_question]
                room = max_symbols - SPECIAL - len(words)
                first, last = span(symbols, question["answers"][0]) if question["answers"] else (-1, -1)
                for start in starts(len(symbols), room, stride):
                    window = [symbol for symbol, *_ in symbols[start : start + room]]
                    whole = start <= first and last < start + len(window)
                    inside = f"{first - start} {last - start}" if whole else "-1 -1"
                    places.append([len(questions), start])
                    samples.append((" ".join(words), " ".join(window), inside))
                answers = [answer["text"] for answer in question["answers"]]
                questions.append({"id": question["id"], "paragraph": number, "answers": answers})
        counts |= write_splits({split: samples}, ("input0", "input1", "spans"), output_dir)
        tree = {"version": version, "paragraphs": texts, "questions": questions, "windows": places}
        if split != "train":
            write_text(output_dir / f"{split}.questions.json", json.dumps(tree, ensure_ascii=False) + "\n")
    return counts
