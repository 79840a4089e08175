"""The preparation of a corpus, from raw text to binarized data.

Every step writes its text to a folder, so that a preparation that was interrupted can be resumed. The folder of the
data appears when it is complete; its manifest describes all steps.
"""

import itertools
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import counted
from ...files import atomic_folder, copy_file, sha256, write_json, write_lines
from ...version import installed_versions
from .binarised import binarise, binarise_files, numbered, unknown, warn_of_unknown
from .lines import TextError, count_lines, read_lines, watched
from .manifest import NEEDED, VERSION, hashes_in, read_mapping, text_beside
from .pairs import Limits, clean, first_words, gather, hold_out, names_of
from .parallel import in_parallel
from .subwords import JOIN, MARK, MODEL_FILES, SEGMENTATIONS
from .tokenisation import Tokeniser

PACKAGES = ("fairseq-fixed", "sacremoses", "subword-nmt", "sentencepiece")
STARTS = ("raw", "tok", "bpe")
COUNTED = ("tokens", "units")
BEFORE_UNITS = ("counted", "max_tokens", "ratio", "every", "words", "segmentation", "size", "test_units")
"""The fields of a preparation of which text that is segmented already, ``--start bpe``, takes no notice."""
SIZES = ((50_000, 4_000), (1_000_000, 10_000), (float("inf"), 32_000))
"""The maximum number of training pairs, and the number of BPE merges or vocabulary size of SentencePiece for them."""


def once(folder: Path, make: Callable[[Path], Any]) -> None:
    """Make a folder unless it exists; ``make`` fills another one, which takes its name when it is complete."""
    if not folder.exists():
        with atomic_folder(folder) as part:
            make(part)


def prepare_examples(
    out: Path, folder: Path, dictionary: Path | None = None, copy_labels: bool = False, workers: int = 1
) -> None:
    """Binarize examples in one language as fairseq-preprocess --only-source does, with classes in alphabetical order.

    Args:
        out: the folder of the data, which appears when it is complete; DIR.text/settings.json has its settings.
        folder: the folder of the examples: SPLIT, or SPLIT.input0 and so on, SPLIT.label; its other files are copied.
        dictionary: an existing dictionary, for all parts but labels (default: made from the training text).
        copy_labels: copy labels as text, as for regression, instead of binarizing them.
        workers: the number of processes.
    """
    check_new(out)
    settings = text_beside(out) / "settings.json"
    parts: dict[str, dict[str, Path]] = {}
    others = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        if re.fullmatch(r"((train|valid|test)\d*)(\.(input\d+|label))?", path.name):
            parts.setdefault(path.suffix[1:], {})[path.stem] = path
        else:
            others.append(path)
    if not parts:
        raise TextError(f"{folder}: holds no parts of examples, such as train or train.input0")
    for part, texts in parts.items():
        if "train" not in texts and not (copy_labels if part == "label" else dictionary):
            raise TextError(f"{folder / 'train'}{part and '.'}{part}: no such file, whose symbols make the dictionary")
    with atomic_folder(out) as data:
        for part, texts in parts.items():
            if part == "label" and copy_labels:
                for split, file in texts.items():
                    copy_file(file, data / part / f"{split}.label")
            else:
                binarise_files(texts, data / part, None if part == "label" else dictionary, workers)
        for path in others:
            copy_file(path, data / path.name)
        if settings.exists():
            copy_file(settings, data / "manifest.json")


def check_new(out: Path) -> None:
    """Check that a folder of data does not exist."""
    if out.exists():
        raise TextError(f"{out}: already exists, perhaps of other text or options; remove it, or choose another folder")


@dataclass
class Preparation:
    """The preparation of a parallel corpus, from raw text to binarized data, in steps that are done once each.

    Args:
        out: the folder for the data; the text after every step is in DIR.text beside it.
        langs: source and target language, with which the names of files end.
        splits: names of the training set, train, and of validation and test sets, with which the names of files begin.
        name: the name of the corpus.
        source: a description of where the text came from.
        files: add the sentence pairs of two files to a split; may be repeated (default: the text exists already).
        romanian: treatment of Romanian: raw, normalised (commas for cedillas), or stripped (no diacritics).
        start: the folder in DIR.text that exists already.
        tokenise: how text is tokenized: flags of `text describe`, as one word (default: no flags; with another start
            than raw, unknown).
        tokenise_train: how training text is tokenized, if it differs.
        language: the language of all files, where their names end in something else.
        counted: the unit of --max-tokens and --ratio: tokens, before subword units are learned, or subword units.
        max_tokens: drop training pairs with a longer side.
        ratio: drop training pairs of which one side is more than X times as long as the other (default: keep them).
        every: hold out every Nth training pair for validation (default: there is a validation set).
        words: cut source texts off after N words (default: never).
        segmentation: the subword segmentation.
        size: number of BPE merges, or vocabulary size of SentencePiece (default: by the size of the text).
        test_units: cut targets of test sets off after N subword units in the binarized data (default: never).
        separate_dictionaries: one dictionary per language (default: a joined one).
        dictionaries: existing dictionaries of source and target (default: made from the training text).
        symbols: maximum size of a dictionary (default: unlimited).
        beside: further files to copy, after their names in the folder of the data.
        workers: the number of processes.
    """

    out: Path
    langs: Sequence[str]
    splits: Sequence[str]
    name: str
    source: str
    files: Sequence[tuple[str, str | Path, str | Path]] = ()
    romanian: str = "raw"
    start: str = "raw"
    tokenise: Tokeniser | None = None
    tokenise_train: Tokeniser | None = None
    language: str = ""
    counted: str = "tokens"
    max_tokens: int = 250
    ratio: float | None = None
    every: int = 0
    words: int = 0
    segmentation: str = "subword-nmt"
    size: int | None = None
    test_units: int = 0
    separate_dictionaries: bool = False
    dictionaries: Sequence[Path] = ()
    symbols: int | None = None
    beside: Sequence[tuple[str, str | Path]] = ()
    workers: int = 1

    def __post_init__(self):
        """Check the splits and the tokenizer, which translation needs even if the text is tokenized already."""
        if self.tokenise is None and self.start == "raw":
            self.tokenise = Tokeniser()
        self.limits = Limits(self.max_tokens, self.ratio)
        numbered(self.splits)
        if self.splits[0] != "train":
            raise TextError(f"--splits {' '.join(self.splits)}: the first must be train, the training set")
        if self.langs[0] == self.langs[1]:
            raise TextError(f"--langs {' '.join(self.langs)}: must be two different languages")
        if odd := {split for split, *_ in self.files} - {*self.splits}:
            raise TextError(f"--add {min(odd)}: must be one of --splits, {', '.join(self.splits)}")
        if self.every and any(split == self.splits[1] for split, *_ in self.files):
            raise TextError(f"--every {self.every}: makes {self.splits[1]}, which --add gives; take one of both")
        for one in fields(self) if self.start == "bpe" else ():
            if one.name in BEFORE_UNITS and getattr(self, one.name) != one.default:
                option = f"--{one.name.replace('_', '-')} {getattr(self, one.name)}"
                raise TextError(
                    f"{option}: --start bpe takes text as it is, cleaned and segmented; leave one of them out"
                )
        for lang in self.langs if self.tokenise is not None else ():
            self.tokenise.tokenise([], self.language or lang)

    @property
    def text(self) -> Path:
        """The folder of the text."""
        return text_beside(self.out)

    def run(self) -> None:
        """Do all steps that are not done yet."""
        check_new(self.out)
        if self.files and (self.text / "raw").exists() and not (self.text / "settings.json").exists():
            raise TextError(f"{self.text}: was left by an earlier call, of perhaps other files and options; remove it")
        self.segment()
        self.binarise()

    def segment(self) -> None:
        """Make the segmented text, in steps that have a folder each and are done once."""
        text, langs = self.text, self.langs
        train, valid, *tests = self.splits
        there = (train, *tests) if self.every else self.splits  # before pairs are held out
        in_tokens = self.counted == "tokens"
        if self.files:
            once(text / "raw", lambda part: gather(self.files, part, langs, self.romanian))
        if self.start == "bpe":
            return
        folder = text / self.start

        def step(name: str, make: Callable[..., None], *more: Any) -> None:
            """Fill a folder from the one of the last step."""
            nonlocal folder
            once(text / name, lambda part: make(folder, part, *more))
            folder = text / name

        if self.start == "raw":
            step("tok", self._tokenise, there)
        if in_tokens:
            step("clean", clean, there, langs, self.limits, [train])
        if self.every:
            step("held", hold_out, tests, langs, self.every, valid)
        if self.words:
            step("words", first_words, names_of(self.splits, langs), self.words, langs[0])
        step("bpe" if in_tokens else "bpe.all", self._segment)
        if not in_tokens:
            step("bpe", clean, self.splits, langs, self.limits, (train, valid) if self.every else (train,))
        if self.test_units:
            first_words(folder, folder, names_of(tests, langs[1:]), self.test_units)

    def _tokenise(self, folder: Path, output: Path, splits: Sequence[str]) -> None:
        """Tokenize the text of some splits."""
        for split, lang in itertools.product(splits, self.langs):
            chosen = self.tokenise_train if self.tokenise_train and split == self.splits[0] else self.tokenise
            name, work = f"{split}.{lang}", partial(chosen.tokenise, lang=self.language or lang)
            self._write(output / name, work, read_lines(folder / name, bar=f"tokenise {name}"))

    def _segment(self, folder: Path, output: Path) -> None:
        """Learn subword units, unless that is done, and segment the text of all splits."""
        if self.segmentation == "none":
            shutil.copytree(folder, output, dirs_exist_ok=True)
            return
        chosen = SEGMENTATIONS[self.segmentation]
        model = self.text / chosen.model
        if not model.exists():
            training = [folder / name for name in names_of(self.splits[:1], self.langs)]
            pairs = 0 if self.size else count_lines(training[0])
            size = self.size or next(size for most, size in SIZES if pairs <= most)
            chosen.learn(training, size, model, self.workers)
        for name in names_of(self.splits, self.langs):
            lines = read_lines(folder / name, bar=f"segment {name}")
            if self.segmentation == "sentencepiece":  # words with subword-nmt's marks are split instead
                fault = f"line with {MARK}, with which SentencePiece marks the beginnings of words"
                fate = "kept, but in translations it becomes a blank"
                lines = watched(lines, lambda line: MARK in line, folder / name, fault, fate)
            self._write(output / name, partial(chosen.segment, model=model), lines)

    def _write(self, file: Path, work: Callable[[list[str]], list[str]], lines: Iterable[str]) -> None:
        """Write the lines that ``work`` makes of lines, by several processes."""
        write_lines(file, itertools.chain.from_iterable(in_parallel(work, lines, self.workers)))

    def binarise(self) -> None:
        """Make the folder of the data from the segmented text."""
        once(self.out, self._binarise)

    def _binarise(self, part: Path) -> None:
        """Write everything that a run reads to one folder."""
        text, langs = self.text, self.langs
        binarise(
            text / "bpe", part, self.splits, langs, joined=not self.separate_dictionaries,
            dictionaries=self.dictionaries, symbols=self.symbols, workers=self.workers,
        )  # fmt: skip
        for name in (*MODEL_FILES, "archives.sha256"):
            if (text / name).exists():
                copy_file(text / name, part / name)
        for name, split in list(numbered(self.splits).items())[2:]:
            # References as words, because fairseq's have <<unk>> for words that its dictionary lacks.
            words, tok = text / "tok" / f"{split}.{langs[1]}", part / "tok" / f"{name}.{langs[1]}"
            if words.exists():
                copy_file(words, tok)
            else:
                lines = read_lines(text / "bpe" / words.name)  # SentencePiece marks their beginnings
                write_lines(tok, (JOIN["sentencepiece" if line[:1] == MARK else "subword_nmt"](line) for line in lines))
            for lang in langs:
                if (raw := text / "raw" / f"{split}.{lang}").exists():
                    copy_file(raw, part / "raw" / f"{name}.{lang}")
                elif raw.parent.exists():
                    print(f"no raw text of {raw.name}: scores will use the detokenized text", file=sys.stderr)
        for name, file in self.beside:
            copy_file(file, part / name)
        self._write_manifest(part)

    def _write_manifest(self, data: Path) -> None:
        """Write the manifest of binarized data, and print the sizes of splits and vocabularies."""
        langs, counts, segmented = self.langs, {}, {}
        for split, its in numbered(self.splits).items():
            files = [self.text / "bpe" / f"{its}.{lang}" for lang in langs]
            segmented |= {f"segmented/{file.name}": sha256(file) for file in files}
            found = {lang: unknown(data / f"{split}.{'-'.join(langs)}.{lang}") for lang in langs}
            of, tokens = ({lang: both[i] for lang, both in found.items()} for i in (0, 1))
            counts[split] = {"lines": count_lines(files[0]), "tokens": tokens, "unknown": of}
            shown = ", ".join(f"{lang} {n:,} ({of[lang] / max(n, 1):.2%} unknown)" for lang, n in tokens.items())
            print(f"{split:<6} {its:<18} {counted(counts[split]['lines'], 'pair'):>13}   subword units: {shown}")
            for lang in langs:
                warn_of_unknown(f"{its}.{lang}", *found[lang])
        # The four special symbols are not in the file.
        symbols = {lang: count_lines(data / f"dict.{lang}.txt") + 4 for lang in langs}
        print(f"vocabulary, with the 4 special symbols: {', '.join(f'{k} {v:,}' for k, v in symbols.items())}")
        settings = self.text / "settings.json"
        manifest = {
            "set": self.name,
            "source_lang": langs[0],
            "target_lang": langs[1],
            "source": self.source,
            "splits": numbered(self.splits),
            "counts": counts,  # tokens are subword units
            "symbols": symbols,
            "settings": (read_mapping(settings) if settings.exists() else {}) | {"text_version": VERSION},
            # How the model's input is tokenized; null if that is unknown.
            "tokenise": asdict(self.tokenise) if self.tokenise and not self.language else None,
            "sha256": hashes_in(data, *NEEDED, "raw/*", "tok/*", "archives.sha256") | segmented,
            "versions": {"python": platform.python_version(), **installed_versions(PACKAGES)},
        }
        write_json(data / "manifest.json", manifest)
