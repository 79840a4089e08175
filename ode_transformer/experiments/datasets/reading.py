"""Generated questions in the published layouts of SQuAD and RACE: for rehearsals and tests, not for results.

A paragraph says where some people live and what they like; its questions ask for that. An answer is always a word of
the paragraph, so that a small model can learn to find it.
"""

import json
import random
from pathlib import Path
from typing import Any

from ...files import write_json, write_text
from .race import LETTERS, LEVELS

NAMES = ("Anna", "Boris", "Carla", "David", "Elena", "Farid", "Greta", "Henry", "Irene", "Jakob")
PLACES = ("Lisbon", "Oslo", "Prague", "Vienna", "Dublin", "Athens", "Warsaw", "Zürich")
THINGS = ("tea", "chess", "rain", "jazz", "trains", "bread", "stars", "roses")


def _facts(rng: random.Random) -> tuple[str, list[tuple[str, str, str, tuple[str, ...]]]]:
    """A paragraph; and per person and fact the question, its form with a gap, the answer, and what it is one of."""
    sentences, asked = [], []
    for name in rng.sample(NAMES, 4):
        place, thing = rng.choice(PLACES), rng.choice(THINGS)
        sentences.append(f"{name} lives in {place} and likes {thing}.")
        asked.append((f"Where does {name} live?", f"{name} lives in _ .", place, PLACES))
        asked.append((f"What does {name} like?", f"{name} likes _ .", thing, THINGS))
    return " ".join(sentences), asked


def write_squad(folder: Path, version: str, paragraphs: int, seed: int) -> None:
    """Write ``train-vVERSION.json`` and ``dev-vVERSION.json``; in version 2.0 every third question has no answer.

    Args:
        folder: where they go.
        version: ``1.1`` or ``2.0``.
        paragraphs: to train on; an eighth of that to validate with.
        seed: of the draws.
    """
    rng = random.Random(seed)
    for split, count in (("train", paragraphs), ("dev", max(1, paragraphs // 8))):
        articles: list[dict[str, Any]] = []
        for i in range(count):
            text, asked = _facts(rng)
            absent = next(name for name in NAMES if name not in text)
            qas = []
            for j, (question, gap, answer, _) in enumerate(asked):
                item: dict[str, Any] = {"id": f"{split}-{i}-{j}", "question": question}
                start = text.index(answer, text.index(gap.split()[0]))
                item["answers"] = [{"text": answer, "answer_start": start}]
                if version == "2.0":
                    item["is_impossible"] = j % 3 == 2
                    if item["is_impossible"]:
                        item |= {"question": question.replace(gap.split()[0], absent), "answers": []}
                qas.append(item)
            articles.append({"title": f"Article {i}", "paragraphs": [{"context": text, "qas": qas}]})
        said = {"1.1": "1.1", "2.0": "v2.0"}[version]
        write_json(folder / f"{split}-v{version}.json", {"version": said, "data": articles})


def write_race(folder: Path, articles: int, seed: int) -> None:
    """Write ``RACE/{train,dev,test}/{middle,high}/N.txt``; a question has a gap or none.

    Args:
        folder: where ``RACE`` goes.
        articles: of a level to train on; an eighth of that to validate and to test with.
        seed: of the draws.
    """
    rng = random.Random(seed)
    for split, count in (("train", articles), ("dev", max(1, articles // 8)), ("test", max(1, articles // 8))):
        for level in LEVELS:
            for i in range(count):
                text, asked = _facts(rng)
                tree: dict[str, Any] = {"article": text.replace(". ", ".\n"), "id": f"{level}{i}.txt"}
                tree |= {"questions": [], "options": [], "answers": []}
                for question, gap, answer, others in rng.sample(asked, 3):
                    options = [*rng.sample([other for other in others if other != answer], 3), answer]
                    rng.shuffle(options)
                    tree["questions"].append(gap if level == "high" else question)
                    tree["options"].append(options)
                    tree["answers"].append(LETTERS[options.index(answer)])
                write_text(folder / "RACE" / split / level / f"{i}.txt", json.dumps(tree))
