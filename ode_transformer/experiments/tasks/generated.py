"""Generated text in the published layouts of SQuAD, RACE and GLUE, for rehearsals and tests, not for results.

A paragraph says where some people live and what they like, and the questions ask about that; an answer is always a word
of the paragraph. The two sentences of a GLUE example agree on a person's home and liking, on one of them, or on none.
"""

import json
import random
from pathlib import Path
from typing import Any

from ...files import write_json, write_lines, write_text
from .glue import GLUE
from .multiple_choice import LETTERS, LEVELS

NAMES = ("Anna", "Boris", "Carla", "David", "Elena", "Farid", "Greta", "Henry", "Irene", "Jakob")
PLACES = ("Lisbon", "Oslo", "Prague", "Vienna", "Dublin", "Athens", "Warsaw", "Zürich")
THINGS = ("tea", "chess", "rain", "jazz", "trains", "bread", "stars", "roses")
NUMBERS = ("0.000", "2.500", "5.000")  # the labels of STS-B, from no to full agreement
LAYOUTS = ("squad-1.1", "squad-2.0", "race", *(f"glue-{name}" for name in GLUE))


def write(layout: str, output_dir: Path, articles: int = 40, seed: int = 1) -> None:
    """Write a generated data set in one of ``LAYOUTS``.

    Args:
        layout: the data set whose layout the files have.
        output_dir: the folder for the files.
        articles: number of training paragraphs (SQuAD), articles per level (RACE) or examples (GLUE); validation and
            test sets have an eighth of it.
        seed: random seed.
    """
    kind, _, name = layout.partition("-")
    {"squad": _write_squad, "race": _write_race, "glue": _write_glue}[kind](output_dir, name, articles, seed)


def _facts(rng: random.Random) -> tuple[str, list[tuple[str, str, str, tuple[str, ...]]]]:
    """Return a paragraph and, for each fact, a question, a sentence with a gap, the answer and all possible answers."""
    sentences, asked = [], []
    for name in rng.sample(NAMES, 4):
        place, thing = rng.choice(PLACES), rng.choice(THINGS)
        sentences.append(f"{name} lives in {place} and likes {thing}.")
        asked.append((f"Where does {name} live?", f"{name} lives in _ .", place, PLACES))
        asked.append((f"What does {name} like?", f"{name} likes _ .", thing, THINGS))
    return " ".join(sentences), asked


def _write_squad(folder: Path, version: str, paragraphs: int, seed: int) -> None:
    """Write ``train-vVERSION.json`` and ``dev-vVERSION.json``; in version 2.0, every third question has no answer."""
    rng = random.Random(seed)
    for split, count in (("train", paragraphs), ("dev", max(1, paragraphs // 8))):
        articles: list[dict[str, Any]] = []
        for i in range(count):
            text, asked = _facts(rng)
            absent = next(name for name in NAMES if name not in text)
            qas = []
            for j, (question, gap, answer, _) in enumerate(asked):
                name = gap.split()[0]
                answers = [{"text": answer, "answer_start": text.index(answer, text.index(name))}]
                if version == "2.0" and j % 3 == 2:
                    question, answers = question.replace(name, absent), []
                qas.append({"id": f"{split}-{i}-{j}", "question": question, "answers": answers})
            articles.append({"title": f"Article {i}", "paragraphs": [{"context": text, "qas": qas}]})
        said = {"1.1": "1.1", "2.0": "v2.0"}[version]
        write_json(folder / f"{split}-v{version}.json", {"version": said, "data": articles})


def _write_race(folder: Path, _: str, articles: int, seed: int) -> None:
    """Write ``RACE/{train,dev,test}/{middle,high}/N.txt``; the questions of ``high`` are sentences with a gap."""
    rng = random.Random(seed)
    for split, count in (("train", articles), ("dev", max(1, articles // 8)), ("test", max(1, articles // 8))):
        for level in LEVELS:
            for i in range(count):
                text, asked = _facts(rng)
                tree: dict[str, Any] = {"article": text.replace(". ", ".\n")}
                tree |= {"questions": [], "options": [], "answers": []}
                for question, gap, answer, others in rng.sample(asked, 3):
                    options = [*rng.sample([other for other in others if other != answer], 3), answer]
                    rng.shuffle(options)
                    tree["questions"].append(gap if level == "high" else question)
                    tree["options"].append(options)
                    tree["answers"].append(LETTERS[options.index(answer)])
                write_text(folder / "RACE" / split / level / f"{i}.txt", json.dumps(tree))


def _write_glue(folder: Path, name: str, examples: int, seed: int) -> None:
    """Write the files of a GLUE task; a task with one input has both sentences in it."""
    rng, task, labels = random.Random(seed), GLUE[name], GLUE[name].labels or NUMBERS
    for split, (inputs, files, label, _, heading) in task.splits.items():
        width = task.width or max(*inputs, label or 0) + 1
        rows = [[f"column {i}" for i in range(width)]] if heading else []
        for i in range(examples if split == "train" else max(3, examples // 8)):
            agree, row = i % 3, ["-"] * width
            places, things = rng.sample(PLACES, 2), rng.sample(THINGS, 2)
            same = rng.sample((0, 1), 2) if agree == 1 else [agree // 2] * 2
            who = rng.choice(NAMES)
            pair = [f"{who} lives in {places[0]} and likes {things[0]}."]
            pair.append(f"{who} lives in {places[1 - same[0]]} and likes {things[1 - same[1]]}.")
            for column, text in zip(inputs, pair if len(inputs) == 2 else [" ".join(pair)], strict=True):
                row[column] = text
            if label is not None:
                row[label] = labels[agree * (len(labels) - 1) // 2]
            rows.append(row)
        write_lines(folder / task.folder / files[0], ("\t".join(row) for row in rows))
