"""Holding validation and test sets out of training text, so that no model is scored on its training data."""

import hashlib
import heapq
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .lines import TextError, pair_writer, read_pair
from .pairs import Limits

HELD_OUT = 2_000  # maximum number of pairs of a held-out validation or test set
PART = 20  # a set has at most one training pair in this many
LONGEST = 1_023  # units of a sentence; the end of the sentence takes the last of fairseq's 1,024 positions

SentencePair = tuple[str, str]


def reader(
    langs: Sequence[str], lowercase: bool = False, normalise: bool = False, plain: bool = False
) -> Callable[[str, int], str]:
    """Return a function that returns the part of a sentence of one side that the model sees: sentences that the model
    cannot distinguish have equal keys. Of ``plain`` text, which is not tokenized, it sees the blanks, too."""
    from .moses import Normalizer

    normalisers = [Normalizer(lang) for lang in langs] if normalise else []

    def key(sentence: str, side: int) -> str:
        sentence = sentence.lower() if lowercase else sentence
        sentence = normalisers[side].normalize(sentence) if normalise else sentence
        return (" " if plain else "").join(sentence.split())

    return key


def divide(
    given: Path, output: Path, langs: Sequence[str], key: Callable[[str, int], str], splits: Sequence[str],
    wanted: Sequence[str], count: int | None = None, limits: Limits | None = None,
) -> None:  # fmt: skip
    """Write the splits of a corpus, train first; those that are ``wanted`` are held out of the given training text.

    Each is of ``count`` pairs, by default one in ``PART`` and at most ``HELD_OUT``, that keep to the ``limits``.
    Training pairs that share a side with a held-out pair, by the ``key`` of :func:`reader`, are left out. A warning
    says how many source sentences of a given set are in the training text.
    """
    held = _held_out(given / "train", langs, key, wanted, count, limits) if wanted else {}
    for split in splits[1:]:
        with pair_writer(output / split, langs) as write:
            for pair in held[split] if split in held else read_pair(given / split, langs):
                write(pair)
    out = [{key(pair[side], side) for pairs in held.values() for pair in pairs} for side in (0, 1)]
    own = {s: {key(source, 0) for source, _ in read_pair(output / s, langs)} for s in splits[1:] if s not in held}
    trained: dict[str, set[str]] = {split: set() for split in own}
    left = left_out = 0
    with pair_writer(output / "train", langs) as write:
        for pair in read_pair(given / "train", langs, "divide train"):
            source, target = key(pair[0], 0), key(pair[1], 1)
            if source in out[0] or target in out[1]:
                left_out += 1
                continue
            left += 1
            write(pair)
            for split, its in own.items():
                if source in its:
                    trained[split].add(source)
    if held:
        counts = " and ".join(f"{len(pairs):,} for {split}" for split, pairs in held.items())
        more = left_out - sum(map(len, held.values()))
        print(
            f"no --{' and no --'.join(wanted)}, so pairs are held out from the training text: {counts}; left out "
            f"since they share a side with these: {more:,}; left to train on: {left:,}",
            file=sys.stderr,
        )
    if not left:
        raise TextError("--train: no pair is left to train on; take a smaller --hold-out")
    for split, found in trained.items():
        if found:
            its = f"{len(found):,} of its {len(own[split]):,} different source sentences"
            print(f"warning: {split}: also in the training text: {its}", file=sys.stderr)


def _held_out(
    train: Path, langs: Sequence[str], key: Callable[[str, int], str], wanted: Sequence[str], asked: int | None,
    limits: Limits | None,
) -> dict[str, list[SentencePair]]:  # fmt: skip
    """Return the training pairs that are held out for each of the wanted sets, in their order in the text.

    Their sources have the smallest SHA-256 in the text, so that the same text gives the same pairs; each source is
    taken once, with its first target. No sentence is too long for a model: it has at most as many units as characters,
    and one more with which SentencePiece begins.
    """
    most = (asked or HELD_OUT) * len(wanted)  # how many are taken is known at the end of the text
    total = 0
    least: dict[bytes, tuple[int, SentencePair]] = {}
    for total, pair in enumerate(read_pair(train, langs, "choose held-out pairs"), 1):
        short = all(sentence.strip() and len(sentence) < LONGEST for sentence in pair)
        if short and not (limits and limits.fault(pair)):
            least.setdefault(hashlib.sha256(key(pair[0], 0).encode()).digest(), (total, pair))
        if len(least) > 4 * most:
            least = dict(heapq.nsmallest(most, least.items()))
    count = asked or min(HELD_OUT, total // PART)
    chosen = [found for _, found in heapq.nsmallest(count * len(wanted), least.items())]
    if not 0 < count * len(wanted) < total or len(chosen) < len(wanted):
        raise TextError(
            f"--train: of its {total} pairs too few can be held out for {' and '.join(wanted)}, {count} each; give "
            f"--{' and --'.join(wanted)}, or another --hold-out. Held-out pairs have fewer than {LONGEST:,} characters "
            "on a side, and keep to --max-tokens and --max-ratio"
        )
    return {split: [pair for _, pair in sorted(chosen[i :: len(wanted)])] for i, split in enumerate(wanted)}
