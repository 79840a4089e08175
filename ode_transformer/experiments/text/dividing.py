"""Holding validation and test sets out of training text, so that no model is scored on its training data."""

import hashlib
import heapq
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .lines import TextError, pair_writer, read_pair
from .pairs import Limits

HELD_OUT = 2_000  # maximum number of pairs of a held-out validation or test set
PART = 20  # a set has at most one training pair in this many
LONGEST = 1_023  # units of a sentence; the end of the sentence takes the last of fairseq's 1,024 positions

SentencePair = tuple[str, str]


@dataclass(frozen=True)
class Reading:
    """The part of a sentence that the model sees: sentences that the model cannot distinguish have equal keys.

    Args:
        langs: source and target language.
        lowercase: letter case is lost.
        normalise: punctuation is normalized.
        plain: the text is not tokenized, so that blanks distinguish sentences; tokenization may only move them.
    """

    langs: tuple[str, str]
    lowercase: bool = False
    normalise: bool = False
    plain: bool = False

    @cached_property
    def _normalisers(self) -> list[Any]:
        from .moses import Normalizer

        return [Normalizer(lang) for lang in self.langs]

    def key(self, sentence: str, side: int) -> str:
        """Return the key of a sentence of one side."""
        sentence = sentence.lower() if self.lowercase else sentence
        sentence = self._normalisers[side].normalize(sentence) if self.normalise else sentence
        return (" " if self.plain else "").join(sentence.split())


def divide(
    given: Path, output: Path, reading: Reading, splits: Sequence[str], wanted: Sequence[str], count: int | None = None,
    limits: Limits | None = None,
) -> None:  # fmt: skip
    """Write the splits of a corpus; sets that are not given are held out of the training text.

    Training pairs that share a side with a held-out pair are left out. A warning says how many source sentences of a
    given set are in the training text.

    Args:
        given: the folder of the given text.
        output: the folder for all splits.
        reading: the part of a sentence that the model sees.
        splits: train, and all others.
        wanted: the sets that are held out.
        count: pairs of each held-out set; by default one in ``PART``, at most ``HELD_OUT``.
        limits: the limits of held-out pairs.

    Raises:
        TextError: there are too few pairs to hold out or to train on.
    """
    langs = reading.langs
    held = _held_out(given / "train", reading, wanted, count, limits) if wanted else {}
    for split in splits[1:]:
        pairs = (pair for _, pair in held[split]) if split in held else read_pair(given / split, langs)
        with pair_writer(output / split, langs) as write:
            for pair in pairs:
                write(pair)
    numbers = {number for pairs in held.values() for number, _ in pairs}
    sides = [{reading.key(pair[side], side) for pairs in held.values() for _, pair in pairs} for side in (0, 1)]
    sources = {s: {reading.key(source, 0) for source, _ in read_pair(output / s, langs)} for s in splits[1:]}
    trained: dict[str, set[str]] = {split: set() for split in sources}
    left = left_out = 0
    with pair_writer(output / "train", langs) as write:
        for number, pair in enumerate(read_pair(given / "train", langs, "divide train"), 1):
            if number in numbers:
                continue
            keys = [reading.key(pair[side], side) for side in (0, 1)]
            if any(key in side for key, side in zip(keys, sides, strict=True)):
                left_out += 1
                continue
            left += 1
            write(pair)
            for split, its in sources.items():
                if keys[0] in its:
                    trained[split].add(keys[0])
    if held:
        counts = " and ".join(f"{len(pairs):,} for {split}" for split, pairs in held.items())
        more = f" ({left_out:,} more that share a side with these are left out)" if left_out else ""
        _say(f"no --{' and no --'.join(wanted)}, so pairs are held out from the training text: {counts}{more}")
        _say(f"{left:,} pairs are left to train on")
    if not left:
        raise TextError("--train: no pair is left to train on; take a smaller --hold-out")
    for split, found in trained.items():
        if found:
            its = f"{len(found):,} of its {len(sources[split]):,} different source sentences"
            _say(f"warning: {split}: {its} are trained on, too")


def _held_out(
    train: Path, reading: Reading, wanted: Sequence[str], asked: int | None, limits: Limits | None
) -> dict[str, list[tuple[int, SentencePair]]]:
    """Return the training pairs that are held out for each of the wanted sets, with their line numbers.

    Their sources have the smallest SHA-256 in the text, so that the same text gives the same pairs; each source is
    taken once, with its first target. No sentence is too long for a model: it has at most as many units as characters,
    and one more with which SentencePiece begins.
    """
    most = (asked or HELD_OUT) * len(wanted)  # how many are taken is known at the end of the text
    total = 0
    least: dict[bytes, tuple[int, SentencePair]] = {}
    for total, pair in enumerate(read_pair(train, reading.langs, "choose held-out pairs"), 1):
        short = all(sentence.strip() and len(sentence) < LONGEST for sentence in pair)
        if not short or (limits and limits.fault(pair)):
            continue
        least.setdefault(hashlib.sha256(reading.key(pair[0], 0).encode()).digest(), (total, pair))
        if len(least) > 4 * most:
            least = dict(heapq.nsmallest(most, least.items()))
    count = asked or min(HELD_OUT, total // PART)
    if not 0 < count * len(wanted) < total:
        raise TextError(
            f"--train: {total} pairs are too few to hold {count or 'any'} out for {' and '.join(wanted)}; give "
            f"--{' and --'.join(wanted)}, or another --hold-out"
        )
    chosen = [found for _, found in heapq.nsmallest(count * len(wanted), least.items())]
    if len(chosen) < len(wanted):
        raise TextError(
            f"--train: too few of its pairs can be held out for {' and '.join(wanted)}, since they must have fewer "
            f"than {LONGEST:,} characters on a side and keep to --max-tokens and --max-ratio; give "
            f"--{' and --'.join(wanted)}"
        )
    return {split: sorted(chosen[i :: len(wanted)]) for i, split in enumerate(wanted)}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
