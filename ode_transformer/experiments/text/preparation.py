"""The preparation of a corpus, from raw text to binarized data.

Every step writes its text to a folder, so that a preparation that was interrupted can be resumed. The folder of the
data appears when it is complete; its manifest describes all steps.
"""

import itertools
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...files import atomic_folder, copy_file
from .binarised import binarise, binarise_files, numbered, symbols_of
from .joining import SEGMENTATIONS
from .lines import Faults, TextError, count_lines, read_lines
from .manifest import keep_references, read_mapping, write_manifest
from .pairs import Limits, clean, first_words, gather, hold_out, names_of
from .parallel import process_files
from .subwords import learn, segmented
from .tokenisation import Tokeniser, options

STARTS = ("raw", "tok", "bpe")
COUNTED = ("tokens", "units")
DEFAULT_LIMITS = Limits(250)
SIZES = ((50_000, 4_000), (1_000_000, 10_000), (float("inf"), 32_000))
"""The maximum number of training pairs, and the number of BPE merges or vocabulary size of SentencePiece for them."""


def once(folder: Path, make: Callable[[Path], Any]) -> None:
    """Make a folder unless it exists; ``make`` fills another one, which takes its name when it is complete."""
    if not folder.exists():
        with atomic_folder(folder) as part:
            make(part)


def parts_of(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the files of examples in a folder, ``train`` or ``train.input0`` and so on, by part and split."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if re.fullmatch(r"((train|valid|test)\d*)(\.(input\d+|label))?", path.name):
            found.setdefault(path.suffix[1:], {})[path.stem] = path
    return found


def prepare_monolingual(
    out: Path,
    parts: Mapping[str, Mapping[str, Path]],
    *,
    dictionary: Path | None = None,
    copy_labels: bool = False,
    beside: Mapping[str, Path] = MappingProxyType({}),
    workers: int = 1,
) -> None:
    """Make a folder of binarized data of one language.

    Args:
        out: the folder of the data, which appears when it is complete; DIR.text/settings.json has its settings.
        parts: the text of every split, by the sub-folder for it; that of ``label`` has classes.
        dictionary: an existing dictionary, for all parts but labels (default: made from the training text).
        copy_labels: copy labels as text, as for regression, instead of binarizing them.
        beside: further files to copy, with their names in the folder.
        workers: the number of processes.

    Raises:
        TextError: the dictionary cannot be read, and nothing is written; or as in :func:`.binarise_files`.
    """
    text = out.with_name(f"{out.name}.text")
    if dictionary:
        symbols_of(dictionary)
    with atomic_folder(out) as data:
        for part, texts in parts.items():
            if part == "label" and copy_labels:
                for split, file in texts.items():
                    copy_file(file, data / part / f"{split}.label")
            else:
                # A model knows classes by their indices alone, which must be the same if the data are prepared again.
                labels = part == "label"
                binarise_files(texts, data / part, None if labels else dictionary, workers, alphabetical=labels)
        for name, file in beside.items():
            copy_file(file, data / name)
        if (text / "settings.json").exists():
            copy_file(text / "settings.json", data / "manifest.json")


@dataclass(frozen=True)
class Preparation:
    """The preparation of a corpus: its text, the steps and their settings.

    Args:
        out: the folder for the data; the text after every step is in DIR.text beside it.
        langs: source and target language, with which the names of files end.
        splits: names of the training, validation and test sets, with which the names of files begin.
        name: the name of the corpus.
        source: a description of where the text came from.
        files: split, source file and target file, for all that are joined to ``raw``; empty if the text exists already.
        romanian: treatment of Romanian: raw, normalised (commas for cedillas), or stripped (no diacritics).
        start: the folder in DIR.text that exists already.
        tokenise: options of a ``Tokeniser``; None if they are unknown, with another start.
        tokenise_train: others for the training text.
        language: the language of all files, where their names end in something else.
        counted: the unit of --max-tokens and --ratio: tokens, before subword units are learned, or subword units.
        limits: the limits of training pairs; others are left out.
        every: hold out every Nth training pair for validation (default: there is a validation set).
        words: cut source texts off after N words (default: never).
        segmentation: the subword segmentation.
        size: number of BPE merges, or vocabulary size of SentencePiece (default: by the size of the text).
        test_units: cut targets of test sets off after N subword units in the binarized data (default: never).
        joined: one dictionary for both languages.
        dictionaries: existing dictionaries of source and target (default: made from the training text).
        symbols: maximum size of a dictionary (default: unlimited).
        beside: further files to copy, with their names in the folder of the data.
        workers: the number of processes.

    Raises:
        TextError: there are fewer than three splits, options exclude each other, or a language is unknown.
    """

    out: Path
    langs: tuple[str, str]
    splits: tuple[str, ...]
    name: str
    source: str
    files: Sequence[tuple[str, str | Path, str | Path]] = ()
    romanian: str = "raw"
    start: str = "raw"
    tokenise: Mapping[str, Any] | None = field(default_factory=options)
    tokenise_train: Mapping[str, Any] | None = None
    language: str = ""
    counted: str = "tokens"
    limits: Limits = DEFAULT_LIMITS
    every: int = 0
    words: int = 0
    segmentation: str = "subword-nmt"
    size: int | None = None
    test_units: int = 0
    joined: bool = True
    dictionaries: Sequence[Path] = ()
    symbols: int | None = None
    beside: Mapping[str, Path] = field(default_factory=dict)
    workers: int = 1

    def __post_init__(self):
        """Check the splits and the tokenizer, which translation needs even if the text is tokenized already."""
        numbered(self.splits)
        valid = self.splits[1]
        if odd := {split for split, *_ in self.files} - {*self.splits}:
            raise TextError(f"--add {min(odd)}: must be one of --splits, {', '.join(self.splits)}")
        if self.every and any(split == valid for split, *_ in self.files):
            raise TextError(f"--add {valid}: cannot be combined with --every, which makes the validation set")
        if self.start == "bpe" and (self.every or self.words or self.test_units):
            raise TextError("--start bpe: takes segmented text as it is, excludes --every, --words and --test-units")
        for lang in self.langs if self.tokenise is not None else ():
            Tokeniser(self.language or lang, **self.tokenise).tokenise([])

    @property
    def text(self) -> Path:
        """The folder of the text."""
        return self.out.with_name(f"{self.out.name}.text")

    def run(self) -> None:
        """Do all steps that are not done yet."""
        self.segment()
        self.binarise()

    def segment(self) -> None:
        """Make the segmented text, in steps that have a folder each and are done once."""
        text, langs, names = self.text, self.langs, partial(names_of, langs=self.langs)
        train, valid, *tests = self.splits
        there = (train, *tests) if self.every else self.splits  # before pairs are held out
        if self.files:
            once(text / "raw", lambda part: gather(self.files, part, langs, self.romanian))
        folder = text / self.start
        if self.start == "raw":
            folder = text / "tok"
            for split, lang in itertools.product(there, langs):
                chosen = self.tokenise_train if self.tokenise_train and split == train else self.tokenise
                tokeniser = Tokeniser(self.language or lang, **chosen)
                process_files(
                    "tokenise", text / "raw", folder, names_of([split], [lang]), tokeniser.tokenise, self.workers
                )
        if self.start == "bpe":
            return
        words = self.counted == "tokens"
        if words:
            once(text / "clean", lambda part: clean(folder, part, there, langs, self.limits, [train]))
            folder = text / "clean"
        if self.every:
            once(text / "held", lambda part: hold_out(folder, part, tests, langs, self.every, valid))
            folder = text / "held"
        if self.words:
            once(text / "words", lambda part: first_words(folder, part, names(self.splits), self.words, langs[0]))
            folder = text / "words"
        units = text / ("bpe" if words else "bpe.all")
        if self.segmentation == "none":
            once(units, lambda part: shutil.copytree(folder, part, dirs_exist_ok=True))
        else:
            files, model = [folder / name for name in names([train])], text / SEGMENTATIONS[self.segmentation].model
            size = self.size or next(size for most, size in SIZES if count_lines(files[0]) <= most)
            if not model.exists():
                learn(self.segmentation, files, size, model, self.workers)
            work = partial(segmented, segmentation=self.segmentation, model=model)
            process_files(f"segment by {self.segmentation}", folder, units, names(self.splits), work, self.workers)
        if self.segmentation == "sentencepiece":  # words with subword-nmt's marks are split instead
            for name in names(self.splits):
                faults = Faults("lines")
                for number, line in enumerate(read_lines(folder / name), 1):
                    if "\u2581" in line:
                        faults.add("hold \u2581, with which SentencePiece marks the beginnings of words", number)
                faults.report(folder / name, "kept, but in translations it becomes a blank")
        if not words:
            drop = (train, valid) if self.every else (train,)
            once(text / "bpe", lambda part: clean(units, part, self.splits, langs, self.limits, drop))
        if self.test_units:
            first_words(text / "bpe", text / "bpe", names_of(tests, langs[1:]), self.test_units)

    def binarise(self) -> None:
        """Make the folder of the data from the segmented text."""
        once(self.out, self._binarise)

    def _binarise(self, part: Path) -> None:
        """Write everything that a run reads to one folder."""
        bpe = self.text / "bpe"
        chosen = {"joined": self.joined, "dictionaries": self.dictionaries, "symbols": self.symbols}
        binarise(bpe, part, self.splits, self.langs, **chosen, workers=self.workers)
        keep_references(self.text, part, self.splits, self.langs)
        for name, file in self.beside.items():
            copy_file(file, part / name)
        file = self.text / "settings.json"
        settings = read_mapping(file) if file.exists() else {}
        settings.pop("text_version", None)  # which the manifest adds
        about = {"name": self.name, "source": self.source, "settings": settings}
        about["tokenise"] = None if self.language else self.tokenise
        write_manifest(bpe, part, self.splits, self.langs, **about)
