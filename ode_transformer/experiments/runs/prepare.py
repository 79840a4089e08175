"""``ode-transformer prepare``: turn the user's parallel text into binarized data, and a recipe for ``run``.

The steps are those of ``ode-transformer text``, which the scripts in ``data-prep`` call for published corpora. The text
goes to OUT.text step by step, so that a preparation that was stopped can be resumed; OUT appears when it is complete.
Its manifest describes all steps, and ``ode-transformer translate`` treats raw text in the same way.
"""

import argparse
import contextlib
import hashlib
import heapq
import itertools
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import yaml

from ... import processors
from ...errors import OdeTransformerError
from ...files import sha256, write_json, write_text
from ..arguments import at_least
from ..metrics import METRICS, Examples
from ..metrics.bleu import check_language
from ..recipes import plain_yaml
from ..tasks.task import OURS
from ..text.lines import Faults, TextError, count_lines, read_lines, read_pair, whole_pair, write_pair
from ..text.manifest import check_settings, read_mapping, versioned
from ..text.pairs import Limits
from ..text.pipeline import MODELS, Pipeline
from ..text.tokenisation import is_unspaced, languages
from . import folder_of
from .processes import alone_in, say

TOKENISERS = ("sacremoses", "none")
SIZES = ((50_000, 4_000), (1_000_000, 10_000), (float("inf"), 32_000))
"""(pairs of training text, merges of BPE or vocabulary size of SentencePiece for at most so many)."""

HELD_OUT = 2_000  # the most pairs of a validation or test set that is held out
PART = 20  # at most one pair in so many is held out
LONGEST = 1_023  # units of a sentence; the end of the sentence takes the last of fairseq's 1,024 positions
CEILING = 99  # sacreBLEU of references that were prepared and made text again, below which a warning says so
NAME = r"\w[\w .=+-]*"  # the name of a folder, for recipes and for fairseq


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer prepare``."""
    add = parser.add_argument
    add("--train", nargs="+", required=True, metavar="PREFIX", help="training text, PREFIX.LANG or PREFIX.LANG.gz")
    add("--valid", metavar="PREFIX", help="validation text (default: pairs of the training text)")
    add("--test", nargs="+", default=[], metavar="PREFIX", help="test sets (default: pairs of the training text)")
    add("--langs", nargs=2, required=True, metavar=("SOURCE", "TARGET"), help="the endings of the files, such as de en")
    add("--out", required=True, metavar="DIR", help="the folder for the data; the text goes to DIR.text beside it")
    add("--recipe", metavar="FILE", help="the recipe to write unless it exists (default: DIR.yaml)")
    add("--hold-out", type=at_least(1), metavar="N", help="pairs of each set that is not given (default: "
        f"1 in {PART}, at most {HELD_OUT:,})")  # fmt: skip
    add("--tokeniser", choices=TOKENISERS, default="sacremoses", help="tokenizer; none is for any language, "
        "with --bpe sentencepiece (default: sacremoses)")  # fmt: skip
    add("--normalise", action="store_true", help="normalize punctuation before tokenization")
    add("--lowercase", action="store_true", help="lower-case the text (default: keep it as it is)")
    add("--bpe", choices=MODELS, help="how words are segmented (default: subword-nmt; sentencepiece without a "
        "tokenizer)")  # fmt: skip
    add("--size", type=at_least(1), metavar="N", help="merges of BPE, or vocabulary size of SentencePiece (default: "
        + ", ".join(f"{size:,}" for _, size in SIZES) + ", by the size of the text)")  # fmt: skip
    add("--separate-dictionaries", action="store_true", help="one dictionary per language (default: one for both)")
    add("--max-tokens", type=at_least(1), default=250, metavar="N", help="drop training pairs with more words on a "
        "side (without a tokenizer, subword units; default: 250)")  # fmt: skip
    add("--max-ratio", type=float, metavar="R", help="drop training pairs with a side more than R times as long as the "
        "other")  # fmt: skip
    add("--workers", type=at_least(1), metavar="N", help="processes (default: one per processor)")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer prepare``; the exit status."""
    preparation = Preparation(args)
    text, folders = preparation.text, [path for path in preparation.out.parents if not path.exists()]
    begun = text.exists()
    preparation.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(preparation.out, f"{preparation.out}.lock"):  # as the scripts of data-prep
            preparation.go()
    except OdeTransformerError:
        if not begun and not (text / "raw").exists():  # which messages of later steps name
            shutil.rmtree(text, ignore_errors=True)
        for folder in folders:
            with contextlib.suppress(OSError):  # something is in it
                folder.rmdir()
        raise
    return 0


def once(path: Path, make: Callable[[Path], None], part: Path | None = None) -> None:
    """Make a file or folder unless it exists: ``make`` writes it under another name, and then it is renamed.

    Args:
        path: the file or folder.
        make: writes it.
        part: the other name, by default PATH.part; a folder that exists under it is removed.
    """
    part = part or path.with_name(f"{path.name}.part")
    if not path.exists():
        if part.is_dir():
            shutil.rmtree(part)
        make(part)
        part.replace(path)


def text_step(*words: Any) -> None:
    """A step of ``ode-transformer text``, in this process."""
    from .. import cli

    cli.call(["text", *map(str, words)])


def run_step(name: str, words: Sequence[str]) -> None:
    """Run one of :meth:`Preparation.steps`, after those before it, by the arguments of ``ode-transformer prepare``."""
    Preparation.of(words).steps()[name]()


class Preparation:
    """A preparation as the command line describes it.

    Raises:
        TextError: options cannot be combined, or a file is missing.
    """

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.out = Path(os.path.abspath(args.out))  # without .., which a folder beside the way could break
        self.text = self.out.with_name(f"{self.out.name}.text")
        self.recipe = Path(os.path.abspath(args.recipe)) if args.recipe else self.out.with_name(f"{self.out.name}.yaml")
        self.plain = args.tokeniser == "none"
        self.bpe = args.bpe or ("sentencepiece" if self.plain else "subword-nmt")
        self.given = {"train": args.train, "valid": [args.valid] if args.valid else []}
        self.given |= {f"test{i or ''}": [prefix] for i, prefix in enumerate(args.test)}
        self._check()
        self.workers = args.workers or processors.usable()
        self.splits = ["train", "valid", *(split for split in self.given if split.startswith("test"))]
        if not args.test:
            self.splits.append("test")

    @classmethod
    def of(cls, words: Sequence[str]) -> "Preparation":
        """The preparation that the arguments of ``ode-transformer prepare`` describe."""
        from .. import cli

        return cls(cli.parser("prepare").parse_args(["prepare", *words]))

    def _check(self) -> None:
        args = self.args
        if {",", ":"} & set(str(self.out)):
            raise TextError(f"--out {args.out}: must hold no comma and no colon, at which fairseq splits it")
        for option, name in (f"--out {args.out}", self.out.name), (f"--recipe {args.recipe}", self.recipe.stem):
            if not re.fullmatch(NAME, name):
                raise TextError(f"{option}: its name must be letters, digits, blanks and .=+-_, {name!r} is not")
        if self.recipe.suffix != ".yaml":
            raise TextError(f"--recipe {args.recipe}: must end in .yaml")
        if args.max_ratio is not None and not args.max_ratio >= 1:
            raise TextError(f"--max-ratio {args.max_ratio}: must be 1 or more, the longer side divided by the shorter")
        if args.langs[0] == args.langs[1]:
            raise TextError(
                f"--langs {' '.join(args.langs)}: must be two different languages; rename the files of one side"
            )
        for lang in args.langs:
            if not re.fullmatch(r"[\w-]+", lang):
                raise TextError(f"--langs {lang}: must be letters, digits, - and _")
        if self.plain and args.normalise:
            raise TextError("--normalise: cannot be combined with --tokeniser none, which takes text as it is")
        check_language(args.langs[1])  # before hours of training
        if not self.plain:
            if unknown := [lang for lang in args.langs if lang not in languages()]:
                raise TextError(
                    f"--langs {unknown[0]}: sacremoses does not know it; it knows {', '.join(sorted(languages()))}. "
                    "--tokeniser none is for any language"
                )
            if unspaced := [lang for lang in args.langs if is_unspaced(lang)]:
                raise TextError(
                    f"--langs {unspaced[0]}: is written without spaces, which sacremoses needs; must be prepared with "
                    "--tokeniser none"
                )
        if args.size is not None and self.bpe == "none":
            raise TextError(f"--size {args.size}: cannot be combined with --bpe none, which learns nothing")

    def files(self, prefix: str) -> list[Path]:
        """The two files of a prefix, plain or ``.gz``.

        Raises:
            TextError: one is missing.
        """
        found = []
        for lang in self.args.langs:
            plain, zipped = (Path(f"{prefix}.{lang}{end}") for end in ("", ".gz"))
            if not plain.is_file() and not zipped.is_file():
                raise TextError(f"{plain}: no such file, nor {zipped}; --langs is what the names of files end in")
            found.append(plain if plain.is_file() else zipped)
        return found

    def settings(self) -> dict[str, str]:
        """Everything that the data depend on, except the text itself."""
        args = self.args
        found = {
            "langs": "-".join(args.langs),
            "tokeniser": args.tokeniser,
            "tokenise": self.flags,
            "bpe": self.bpe,
            "size": str(args.size or "default"),
            "dictionaries": "separate" if args.separate_dictionaries else "joined",
            "max_tokens": str(args.max_tokens),
            "max_ratio": str(args.max_ratio),
            "hold_out": str(args.hold_out or "default"),
        }
        return {**found, **{split: " ".join(Path(p).name for p in given) for split, given in self.given.items()}}

    @property
    def flags(self) -> str:
        """Flags of ``ode-transformer text tokenise``."""
        args = self.args
        chosen = {"--plain": self.plain, "--normalise": args.normalise, "--lowercase first": args.lowercase}
        return " ".join(flag for flag, on in chosen.items() if on)

    def go(self) -> None:
        """Do all steps that are not done yet."""
        complete = self.out.exists()
        if complete:
            manifest = self.out / "manifest.json"
            held = read_mapping(manifest).get("settings", {}) if manifest.is_file() else {}
            check_settings(manifest, {**self.settings(), **self.inputs(held)})
            say(f"{self.out} is complete")
        self.check_recipe()  # before hours of work
        if not complete:
            self.make()
        if self.recipe.exists():
            say(f"{self.recipe} is there already, and left as it is")
        else:
            write_text(self.recipe, self.recipe_text())
            say(f"{self.recipe} is a recipe to start from. Next:")
            say(f"ode-transformer run {shlex.quote(folder_of(str(self.recipe)))}/macaron-tiny")

    def check_recipe(self) -> None:
        """Check that an existing recipe makes these data, with any number of processes.

        Raises:
            TextError: it makes other data, or is not a recipe.
        """
        if not self.recipe.exists():
            return
        try:
            prepare = plain_yaml.read(self.recipe)["data"]["prepare"]
        except (plain_yaml.YamlError, TypeError, LookupError) as error:
            raise TextError(f"--recipe {self.recipe}: is there already, and does not say how data are made") from error
        here, there = (re.sub(r" --workers \d+", "", str(command)) for command in (self.command(), prepare))
        if here != there:
            raise TextError(
                f"--recipe {self.recipe}: is there already, and makes other data; take another --recipe, or change "
                f"its data.prepare ({there}) to {here}"
            )

    def inputs(self, held: dict[str, str] | None = None) -> dict[str, str]:
        """The SHA-256 of every input file by its split and language.

        Args:
            held: the settings of finished data, which are used for files that no longer exist.
        """
        found = {}
        for split, prefixes in self.given.items():
            for i, prefix in enumerate(prefixes):
                keys = [f"{split} {i} {lang}" for lang in self.args.langs]
                try:
                    files = self.files(prefix)
                except TextError:
                    if held is None:
                        raise
                    found |= {key: held[key] for key in keys if key in held}
                else:
                    found |= {key: sha256(file) for key, file in zip(keys, files, strict=True)}
        return found

    def make(self) -> None:
        """Make the folder of data from raw text."""
        for step in self.steps().values():
            step()

    def steps(self) -> dict[str, Callable[[], None]]:
        """The steps by name, in their order. Each reads what those before it wrote, and does what is not done yet."""
        work = self.text
        # Without a tokenizer only units can be counted.
        words, units = (work / "tok", work / "units") if self.plain else (work / "clean", work / "bpe")
        clean = {"clean": partial(self.clean, *((units, work / "bpe") if self.plain else (work / "tok", words)))}
        segment = {
            f"learn-{self.bpe}": partial(self.learn, words),
            f"apply-{self.bpe}": partial(self.apply, words, units),
        }
        if self.bpe == "none":
            segment = {"copy": partial(once, units, partial(shutil.copytree, words))}
        return {
            "begin": self.begin,
            "gather": partial(once, work / "given", self.gather),
            "divide": partial(once, work / "raw", self.divide),
            "tokenise": self.tokenise,
            **(segment | clean if self.plain else clean | segment),
            "binarise": self.finish,
        }

    def begin(self) -> None:
        """Resume a preparation with these settings; one with other settings is started again."""
        file, settings = self.text / "settings.json", {**self.settings(), **self.inputs()}
        if self.text.exists() and not file.is_file():
            raise TextError(f"{self.text}: is there already, and no preparation made it; take another --out")
        if file.is_file() and "hold_out" not in read_mapping(file):
            raise TextError(f"{self.text}: belongs to another command that prepares text; take another --out")
        if file.is_file():
            try:
                check_settings(file, settings)
            except TextError:
                say(f"{self.text} belongs to a preparation with other settings or other text, and is started again")
                for path in self.text.iterdir():
                    if path.is_dir():
                        shutil.rmtree(path)
                    elif path != file:  # which says whose the folder is, should this be stopped
                        path.unlink()
            else:
                return
        write_json(file, versioned(settings))

    def check_lengths(self) -> None:
        """Check that no validation or test sentence is too long for models, because fairseq stops at such a sentence.

        Raises:
            TextError: a sentence is too long; the message names it.
        """
        for split in self.splits[1:]:
            for lang in self.args.langs:
                for number, line in enumerate(read_lines(self.text / "bpe" / f"{split}.{lang}"), 1):
                    if (units := len(line.split())) > LONGEST:
                        raise TextError(
                            f"{self.text / 'raw' / split}.{lang}: line {number} has {units:,} units, must have "
                            f"at most {LONGEST:,}, the default limit of models"
                        )

    def gather(self, part: Path) -> None:
        """Join the files of every split, unpacked, in one encoding."""
        added = [
            word for split, given in self.given.items() for p in given for word in ("--add", split, *self.files(p))
        ]
        text_step("gather", "--langs", *self.args.langs, *added, "--output-dir", part)

    def divide(self, part: Path) -> None:
        """Hold validation and test pairs out of the training text if none are given."""
        given, langs = self.text / "given", self.args.langs
        part.mkdir()
        wanted = [split for split in ("valid", "test") if split not in self.given or not self.given[split]]
        held = self.held_out(wanted) if wanted else {}
        for split in self.splits:
            if split != "train" and split not in wanted:
                _write_pairs(part / split, langs, _pairs(given / split, langs))
        for split, pairs in held.items():
            _write_pairs(part / split, langs, (pair for _, pair in pairs))
        numbers = {number for pairs in held.values() for number, _ in pairs}
        sides = [{self.key(pair[side], side) for pairs in held.values() for _, pair in pairs} for side in (0, 1)]
        seen = {split: set(map(self.keys, _pairs(part / split, langs))) for split in self.splits[1:]}
        again: dict[str, set[tuple[str, ...]]] = {split: set() for split in seen}
        sources = {split: {source for source, _ in pairs} for split, pairs in seen.items()}
        left = left_out = 0
        with whole_pair(part / "train", langs) as files:
            for number, pair in enumerate(_pairs(given / "train", langs, "divide train"), 1):
                if number in numbers:
                    continue
                keys = self.keys(pair)
                if any(key in side for key, side in zip(keys, sides, strict=True)):
                    left_out += 1
                    continue
                left += 1
                write_pair(files, pair)
                for split, found in again.items():
                    if keys[0] in sources[split]:
                        found.add(keys)
        if held:
            counts = " and ".join(f"{len(pairs):,} for {split}" for split, pairs in held.items())
            more = f" ({left_out:,} more that share a side with these are left out)" if left_out else ""
            say(f"no --{' and no --'.join(wanted)}, so pairs are held out from the training text: {counts}{more}")
            say(f"{left:,} pairs are left to train on")
        if not left:
            raise TextError(
                f"--train {' '.join(self.args.train)}: no pair is left to train on; take a smaller --hold-out"
            )
        for split, found in again.items():
            if trained := {source for source, _ in found}:
                say(
                    f"warning: {split}: {len(trained):,} of its {len(sources[split]):,} different source sentences are "
                    f"trained on, too, {len(found & seen[split]):,} with the same translation"
                )

    def key(self, sentence: str, side: int) -> str:
        """A key that is equal for sentences of a side that the model reads alike.

        Letter case and punctuation are normalized if the options say so. Tokenization may only move blanks, so that the
        key has none; without it, white space becomes single blanks.
        """
        sentence = sentence.lower() if self.args.lowercase else sentence
        sentence = self.normalisers[side].normalize(sentence) if self.args.normalise else sentence
        return (" " if self.plain else "").join(sentence.split())

    def keys(self, pair: tuple[str, str]) -> tuple[str, ...]:
        """The keys of both sides of a pair."""
        return tuple(self.key(sentence, side) for side, sentence in enumerate(pair))

    @cached_property
    def normalisers(self) -> list[Any]:
        """Moses' normalization of punctuation for each side."""
        from ..text.moses import Normalizer

        return [Normalizer(lang) for lang in self.args.langs]

    def held_out(self, wanted: Sequence[str]) -> dict[str, list[tuple[int, tuple[str, str]]]]:
        """Pairs of the training text for each of the wanted sets, with their line numbers.

        They are the pairs whose sources have the smallest SHA-256, each source once, so that the same text gives the
        same pairs; of a source with several targets the first in the text is taken. None is long enough for
        ``check_lengths`` to refuse it: a sentence has at most as many units as characters, plus one of SentencePiece at
        its beginning.
        """
        path = self.text / "given" / "train"
        limits = None if self.plain else Limits(self.args.max_tokens, self.args.max_ratio)
        most = (self.args.hold_out or HELD_OUT) * len(wanted)  # which of them are taken is known at the end
        total = 0
        least: dict[bytes, tuple[int, tuple[str, str]]] = {}
        for total, pair in enumerate(_pairs(path, self.args.langs, "choose held-out pairs"), 1):
            short = all(sentence.strip() and len(sentence) < LONGEST for sentence in pair)
            if not short or (limits and limits.fault(pair)):
                continue
            least.setdefault(hashlib.sha256(self.key(pair[0], 0).encode()).digest(), (total, pair))
            if len(least) > 4 * most:
                least = dict(heapq.nsmallest(most, least.items()))
        count = self.args.hold_out or min(HELD_OUT, total // PART)
        if not 0 < count * len(wanted) < total:
            raise TextError(
                f"--train {' '.join(self.args.train)}: {total} pairs are too few to hold {count or 'any'} out for "
                f"{' and '.join(wanted)}; give --{' and --'.join(wanted)}, or another --hold-out"
            )
        chosen = [found for _, found in heapq.nsmallest(count * len(wanted), least.items())]
        if len(chosen) < len(wanted):
            raise TextError(
                f"--train {' '.join(self.args.train)}: has no {len(wanted)} pairs that could be held out: they must "
                "differ, and be no longer or more uneven than --max-tokens and --max-ratio allow"
            )
        return {split: sorted(chosen[i :: len(wanted)]) for i, split in enumerate(wanted)}

    def clean(self, folder: Path, output: Path) -> None:
        """Leave out training pairs that are empty, too long or too uneven."""
        args = self.args
        ratio = () if args.max_ratio is None else ("--ratio", args.max_ratio)
        once(output, lambda part: text_step(
            "clean", folder, "--langs", *args.langs, "--splits", *self.splits, "--drop-from", "train",
            "--max-tokens", args.max_tokens, *ratio, "--output-dir", part))  # fmt: skip

    def tokenise(self) -> None:
        """Tokenize all text."""
        text_step("tokenise", self.text / "raw", *self._files(), *shlex.split(self.flags),
                  "--output-dir", self.text / "tok")  # fmt: skip

    def _files(self) -> tuple[Any, ...]:
        return "--langs", *self.args.langs, "--splits", *self.splits, "--workers", self.workers

    def learn(self, folder: Path) -> None:
        """Learn subword units on the training text."""
        trained = [folder / f"train.{lang}" for lang in self.args.langs]
        once(self.text / MODELS[self.bpe], lambda part: text_step(
            f"learn-{self.bpe}", "--input", *trained, "--size", self.size(trained[0]), "--workers", self.workers,
            "--output", part))  # fmt: skip

    def apply(self, folder: Path, output: Path) -> None:
        """Segment all text into subword units."""
        text_step(f"apply-{self.bpe}", folder, *self._files(), "--model", self.text / MODELS[self.bpe],
                  "--output-dir", output)  # fmt: skip
        if self.bpe == "sentencepiece":
            self.warn_of_marks(folder)

    def warn_of_marks(self, folder: Path) -> None:
        """Warn of lines with the mark of SentencePiece's units; subword-nmt's are taken apart."""
        for name in (f"{split}.{lang}" for split in self.splits for lang in self.args.langs):
            faults = Faults("lines")
            for number, line in enumerate(read_lines(folder / name), 1):
                if "\u2581" in line:
                    faults.add("hold \u2581, with which SentencePiece marks the beginnings of words", number)
            faults.report(folder / name, "kept, but in translations it becomes a blank")

    def size(self, trained: Path) -> int:
        """Merges of BPE, or the vocabulary size of SentencePiece."""
        return self.args.size or next(size for most, size in SIZES if count_lines(trained) <= most)

    def finish(self) -> None:
        """Make the folder of data; it appears when it is complete."""
        self.check_lengths()
        once(self.out, self.binarise, self.text / "data.part")  # OUT.part may be the user's

    def binarise(self, part: Path) -> None:
        """Write everything that a run reads to one folder."""
        args, bpe = self.args, self.text / "bpe"
        texts = ("--langs", *args.langs, "--splits", *self.splits, "--data-dir", part)
        joined = () if args.separate_dictionaries else ("--joined-dictionary",)
        text_step("binarise", *texts, "--text-dir", bpe, "--workers", self.workers, *joined)
        text_step("references", *texts, "--text-dir", self.text)
        settings = read_mapping(self.text / "settings.json")
        del settings["text_version"]  # which the manifest has of itself
        text_step("manifest", *texts, "--text-dir", bpe, "--set", self.out.name, "--source", "own text",
                  "--settings", *(f"{k}={v}" for k, v in settings.items()), f"--tokenise={self.flags}")  # fmt: skip
        self.say_ceilings(part)

    def say_ceilings(self, data: Path) -> None:
        """Say what the references of the test sets score, prepared and made text again: no system can score more."""
        target = self.args.langs[1]
        pipeline = Pipeline.of(data)
        for split in self.splits[2:]:
            raw = list(read_lines(data / "raw" / f"{split}.{target}"))
            made = pipeline.plain(list(read_lines(self.text / "bpe" / f"{split}.{target}")))
            raw = [line.lower() for line in raw] if self.args.lowercase else raw
            differ = [each for each in zip(itertools.count(1), raw, made) if each[1].split() != each[2].split()]
            ceiling = METRICS["sacrebleu"].compute(made, Examples([raw], lang=target))["bleu"] if differ else 100.0
            say(f"{split}.{target}: the references themselves, prepared and detokenized, score {ceiling:.1f} sacreBLEU")
            if ceiling < CEILING:
                number, there, here = differ[0]
                at = next((i for i, (a, b) in enumerate(zip(there, here, strict=False)) if a != b), 0)
                shown = slice(max(0, at - 20), at + 20)
                say(
                    f"warning: {split}.{target}: no system can score more than {ceiling:.1f}, since detokenization "
                    f"does not undo tokenization; in line {number}, {there[shown]!r} becomes {here[shown]!r}. "
                    "--tokeniser none loses nothing"
                )

    def test_sets(self) -> dict[str, str]:
        """The name of each subset of the data in scores, after its files."""
        if not self.args.test:
            return {"test": "held-out"}
        names = {s: re.sub(r"[^\w .=+-]", "-", Path(self.given[s][0]).name) for s in self.splits[2:]}
        again = len(set(names.values())) < len(names)
        return {s: f"{s} {name}" if again or not re.fullmatch(NAME, name) else name for s, name in names.items()}

    def command(self) -> str:
        """The command that makes the data again, from the top of the repository."""
        args = self.args
        words = [*OURS, "prepare", "--langs", *args.langs, "--out", folder_of(args.out)]
        for option in ("train", "valid", "test"):
            given = [prefix for split in self.given if split.startswith(option) for prefix in self.given[split]]
            words += [f"--{option}", *map(folder_of, given)] if given else []
        words += ["--tokeniser", args.tokeniser, "--bpe", self.bpe, "--max-tokens", str(args.max_tokens)]
        for option in ("size", "max_ratio", "hold_out", "workers"):
            if (value := getattr(args, option)) is not None:
                words += [f"--{option.replace('_', '-')}", str(value)]
        for option in ("normalise", "lowercase", "separate_dictionaries"):
            words += [f"--{option.replace('_', '-')}"] if getattr(args, option) else []
        return shlex.join([*words, "--recipe", folder_of(str(self.recipe))])

    def recipe_text(self) -> str:
        """The recipe: the systems to start from, with a schedule by the size of the text."""
        counts = read_mapping(self.out / "manifest.json")["counts"]
        source, target = self.args.langs
        per_epoch = max(1, round(counts["train"]["tokens"][target] / 3500))  # batches of 4,096 tokens are never full
        epochs = min(max(round(3000 / per_epoch), 10), 60)
        share = "share-decoder-input-output-embed" if self.args.separate_dictionaries else "share-all-embeddings"
        values = {
            "command": _quoted(self.command()),
            "folder": _quoted(folder_of(str(self.out))),
            "name": shlex.quote(folder_of(str(self.recipe))),
            "sets": _quoted(self.test_sets()),
            "pairs": f"{counts['train']['lines']:,}",
            "langs": f"{source}-{target}",
        }
        return RECIPE.format(
            **values,
            source=_quoted(source),
            target=_quoted(target),
            share=share,
            epochs=epochs,
            warmup=min(4000, max(1, per_epoch * epochs // 4)),
            post_process=self.bpe.replace("-", "_"),
            lowercase=str(self.args.lowercase).lower(),
            plain=str(self.plain).lower(),
        )


RECIPE = """\
# {langs}, {pairs} pairs. Written by `ode-transformer prepare`, and yours: it is not written again while it is there.
# A starting point, not a tuned setting. `ode-transformer run {name}/ROW` takes a row from text to scores.
description: {langs}, own text
data:
  prepare: {command}
  directory: {folder}
  source: {source}
  target: {target}
train:
  batches: 1 # of up to max-tokens tokens in an update
  flags:
    {share}: true
    optimizer: fused_adam
    adam-betas: (0.9, 0.98)
    lr: 0.003
    lr-scheduler: inverse_sqrt
    warmup-updates: {warmup}
    warmup-init-lr: 1.0e-07
    criterion: chunked_label_smoothed_cross_entropy
    label-smoothing: 0.1
    max-tokens: 4096
    max-epoch: {epochs}
    keep-last-epochs: 5
    seed: 1
average: {{last_epochs: 5}}
generate:
  subsets: {sets}
  beam: 5
  lenpen: 1.0
  flags: {{post-process: {post_process}, batch-size: 128, max-len-a: 1.0, max-len-b: 200}}
score:
  lowercase: {lowercase} # whether sacreBLEU and chrF ignore case
  plain: {plain} # whether the text was not tokenized
rows:
  transformer-tiny: {{extends: _transformer-tiny.yaml}}
  macaron-tiny: {{train: {{arch: macaron_tiny}}}}
  ode-residual-tiny: {{train: {{arch: ode_residual_tiny}}}}
  rk2-learnable-tiny: {{train: {{arch: rk2_learnable_tiny}}}}
  rk4-tiny: {{train: {{arch: rk4_tiny}}}}
  floater-tiny: {{train: {{arch: floater_tiny}}}}
  # Of the papers' base size, for hundreds of thousands of pairs and a GPU.
  macaron: {{train: {{arch: macaron_wmt_en_de, batches: 8, flags: {{lr: 0.0007, warmup-updates: 4000}}}}}}
  rk2-learnable: {{train: {{arch: rk2_learnable, batches: 8, flags: {{lr: 0.0007, warmup-updates: 4000}}}}}}
"""


def _pairs(prefix: Path, langs: Sequence[str], bar: str = "") -> Iterator[tuple[str, str]]:
    """The pairs of parallel text, without the carriage returns that end the lines of some systems."""
    for source, target in read_pair(prefix, langs, bar):
        yield source.removesuffix("\r"), target.removesuffix("\r")


def _write_pairs(prefix: Path, langs: Sequence[str], pairs: Iterable[tuple[str, str]]) -> None:
    with whole_pair(prefix, langs) as files:
        for pair in pairs:
            write_pair(files, pair)


def _quoted(value: Any) -> str:
    """A string, or a mapping of strings, as one line of YAML in quotation marks."""
    return yaml.safe_dump(value, default_style='"', default_flow_style=True, width=math.inf, allow_unicode=True).strip()
