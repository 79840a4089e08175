"""``ode-transformer prepare``: turn the user's parallel text into binarized data, and a recipe for ``run``.

Validation and test sets are held out of the text before it goes through the pipeline of published corpora,
:class:`..text.preparation.Preparation`. ``ode-transformer translate`` treats raw text as the data's manifest says.
"""

import contextlib
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from ... import processors
from ...files import read_text, sha256, write_text
from ..metrics import METRICS, Examples
from ..metrics.bleu import check_language
from ..recipes import is_name
from ..tasks.task import OURS
from ..text.binarised import test_names
from ..text.dividing import LONGEST, divide, reader
from ..text.lines import TextError, read_lines
from ..text.manifest import check_settings, held_settings, read_mapping, text_beside
from ..text.pairs import Limits, gather
from ..text.pipeline import Pipeline
from ..text.preparation import Preparation, once
from ..text.subwords import SEGMENTATIONS
from ..text.tokenisation import Tokeniser, is_unspaced
from . import folder_of
from .processes import alone_in, say

TOKENISERS = ("sacremoses", "none")
NO_RECIPE = "none"
CEILING = 99  # sacreBLEU of prepared and detokenized references, below which there is a warning


@dataclass
class OwnText:
    """A user's parallel text, to be prepared by ``ode-transformer prepare``.

    Args:
        train: training text: PREFIX.LANG or PREFIX.LANG.gz.
        langs: source and target language, with which the names of files end, such as de en.
        out: folder for the binarized data; the text goes to DIR.text.
        valid: validation text (default: held out of the training text).
        test: test sets (default: held out of the training text).
        recipe: recipe to write, unless it exists, or none (default: DIR.yaml).
        hold_out: pairs to hold out for each set that is not given.
        tokeniser: tokenizer; none takes any language, with --bpe sentencepiece.
        normalise: normalize punctuation before tokenization.
        lowercase: lower-case the text.
        bpe: subword segmentation (default: subword-nmt, or sentencepiece with --tokenizer none).
        size: merges of BPE, or vocabulary size of SentencePiece.
        separate_dictionaries: one dictionary per language (default: a joined one).
        max_tokens: drop training pairs with more tokens on a side; with --tokenizer none, subword units.
        max_ratio: drop training pairs of which one side is more than R times as long as the other (default: keep them).
        workers: processes (default: one per processor).
    """

    train: Sequence[str]
    langs: Sequence[str]
    out: str
    valid: str | None = None
    test: Sequence[str] = ()
    recipe: str | None = None
    hold_out: int | None = None
    tokeniser: str = "sacremoses"
    normalise: bool = False
    lowercase: bool = False
    bpe: str | None = None
    size: int | None = None
    separate_dictionaries: bool = False
    max_tokens: int = 250
    max_ratio: float | None = None
    workers: int | None = None

    def __post_init__(self):
        """Name the files to be made, and check the options."""
        self.data = Path(os.path.abspath(self.out))  # without .., which would depend on further folders
        self.text = text_beside(self.data)
        self.recipe_file = Path(os.path.abspath(self.recipe or f"{self.data}.yaml"))
        self.plain = self.tokeniser == "none"
        self.segmentation = self.bpe or ("sentencepiece" if self.plain else "subword-nmt")
        self.splits = ("train", "valid", *test_names(len(self.test) or 1))
        self.given = {"train": list(self.train), "valid": [self.valid] if self.valid else []}
        self.given |= {split: [prefix] for split, prefix in zip(self.splits[2:], self.test, strict=False)}
        self.limits = Limits(self.max_tokens, self.max_ratio)
        for option, name in (f"--out {self.out}", self.data.name), (f"--recipe {self.recipe}", self.recipe_file.stem):
            if not is_name(name):
                raise TextError(
                    f"{option}: its name must be letters, digits, blanks and .=+-_, begin with a letter, a digit or "
                    f"_, and have at most 200 bytes, got {name!r}"
                )
        if {",", ":"} & set(folder_of(self.data)):
            raise TextError(f"--out {self.out}: must hold no comma and no colon, at which fairseq splits it")
        if self.recipe != NO_RECIPE and self.recipe_file.suffix != ".yaml":
            raise TextError(f"--recipe {self.recipe}: must end in .yaml")
        if self.langs[0] == self.langs[1]:
            raise TextError(f"--langs {' '.join(self.langs)}: must be two different languages")
        if odd := [lang for lang in self.langs if not re.fullmatch(r"[\w-]+", lang)]:
            raise TextError(f"--langs {odd[0]}: must be letters, digits, - and _; rename the files that end in it")
        if self.plain and self.normalise:
            raise TextError("--normalize: cannot be combined with --tokenizer none, which takes text as it is")
        if not self.plain and any(map(is_unspaced, self.langs)):
            raise TextError(
                f"--langs {' '.join(self.langs)}: sacremoses needs spaces between words; take --tokenizer none"
            )
        lowercase = "first" if self.lowercase else "no"
        self.tokenise = Tokeniser(lowercase=lowercase, normalise=self.normalise, plain=self.plain)
        check_language(self.langs[1])  # before hours of training

    def file(self, prefix: str, lang: str) -> Path:
        """Return one of the two files of a prefix, plain or ``.gz``."""
        plain, packed = (Path(f"{prefix}.{lang}{end}") for end in ("", ".gz"))
        if not plain.is_file() and not packed.is_file():
            raise TextError(f"{plain}: no such file, nor {packed}; --langs is what the names of files end in")
        return plain if plain.is_file() else packed

    def files(self) -> list[tuple[str, Path, Path]]:
        """Return the files that are given: their split, and one of each language."""
        return [
            (split, *(self.file(prefix, lang) for lang in self.langs))
            for split, prefixes in self.given.items()
            for prefix in prefixes
        ]

    def settings(self, held: Mapping[str, str] = {}) -> dict[str, str]:
        """Return all that the data depend on, with the SHA-256 of every input file by its split and language; of files
        that no longer exist, those that finished data hold."""
        chosen = {"--plain": self.plain, "--normalise": self.normalise, "--lowercase first": self.lowercase}
        found = {
            "langs": "-".join(self.langs),
            "tokeniser": self.tokeniser,
            "tokenise": " ".join(flag for flag, on in chosen.items() if on),
            "bpe": self.segmentation,
            "size": str(self.size or "default"),
            "dictionaries": "separate" if self.separate_dictionaries else "joined",
            "max_tokens": str(self.max_tokens),
            "max_ratio": str(self.max_ratio),
            "hold_out": str(self.hold_out or "default"),
        }
        for split, prefixes in self.given.items():
            found[split] = " ".join(Path(prefix).name for prefix in prefixes)
            for i, prefix in enumerate(prefixes):
                for lang in self.langs:
                    key = f"{split} {i} {lang}"
                    try:
                        found[key] = sha256(self.file(prefix, lang))
                    except TextError:
                        if key not in held:
                            raise
                        found[key] = held[key]
        return found

    def prepare(self) -> None:
        """Do all steps that are not done yet, and write the recipe unless it exists."""
        if not self.data.exists():
            self.files()  # before a folder is made
        # Complete data may belong to someone who lets others only read them.
        with contextlib.nullcontext() if self.data.exists() else alone_in(self.text):
            if self.data.exists():
                manifest = self.data / "manifest.json"
                check_settings(manifest, self.settings(held_settings(manifest)))
                say(f"{self.data} is complete")
            else:
                self.make()
        if self.recipe == NO_RECIPE:  # as in the command of a recipe, wherever that is now
            return
        if self.recipe_file.exists():
            say(f"{self.recipe_file} already exists, and is left as it is")
        else:
            write_text(self.recipe_file, self.recipe_text())
            say(f"{self.recipe_file} is a recipe to start from. Next:")
            say(f"ode-transformer run {shlex.quote(os.path.relpath(self.recipe_file))}/macaron-tiny")

    def make(self) -> None:
        """Make the data, in steps that are done once each."""
        pipeline = Preparation(
            out=self.data,
            langs=self.langs,
            splits=self.splits,
            name=self.data.name,
            source="own text",
            tokenise=self.tokenise,
            counted="units" if self.plain else "tokens",  # without a tokenizer only units can be counted
            max_tokens=self.max_tokens,
            ratio=self.max_ratio,
            segmentation=self.segmentation,
            size=self.size,
            separate_dictionaries=self.separate_dictionaries,
            workers=self.workers or processors.usable(),
        )
        settings = self.text / "settings.json"
        if any(not path.name.startswith(".") for path in self.text.iterdir()) and not settings.is_file():
            raise TextError(f"{self.text}: already exists, and no preparation made it; choose another --out")
        check_settings(settings, self.settings())
        self._check_recipe()
        once(self.text / "raw", self._divide)
        pipeline.segment()
        self._check_lengths()
        pipeline.binarise()
        self._say_ceilings()

    def _check_recipe(self) -> None:
        """Refuse an existing recipe that makes other data, which a run would find instead of these."""
        if self.recipe != NO_RECIPE and self.recipe_file.exists():
            command, text = _quoted(self.command())[1:-1], read_text(self.recipe_file)
            text = text.replace(" --tokeniser ", " --tokenizer ").replace(" --normalise", " --normalize")  # once
            here, there = (re.sub(r" --workers \d+| --recipe [^\"\n]+", "", said) for said in (command, text))
            if here not in there:
                raise TextError(
                    f"{self.recipe_file}: already exists, and its data.prepare makes other data; remove it, choose "
                    f"another --recipe, or change that to {self.command()}"
                )

    def _divide(self, part: Path) -> None:
        """Join the files of every split, and hold validation and test pairs out of the training text if none are
        given."""
        wanted = [split for split in ("valid", "test") if not self.given.get(split)]
        limits = None if self.plain else self.limits
        key = reader(self.langs, self.lowercase, self.normalise, self.plain)
        with TemporaryDirectory(prefix=".given.", dir=self.text) as given:
            gather(self.files(), Path(given), self.langs)
            divide(Path(given), part, self.langs, key, self.splits, wanted, self.hold_out, limits)

    def _check_lengths(self) -> None:
        """Check that no validation or test sentence is too long for models, because fairseq stops at it."""
        for name in (f"{split}.{lang}" for split in self.splits[1:] for lang in self.langs):
            for number, line in enumerate(read_lines(self.text / "bpe" / name), 1):
                if (units := len(line.split())) > LONGEST:
                    raise TextError(
                        f"{self.text / 'raw' / name}: line {number} has {units:,} units, must have at most "
                        f"{LONGEST:,}, the default limit of models"
                    )

    def _say_ceilings(self) -> None:
        """Print the score of the prepared and detokenized references of the test sets, which no system can exceed."""
        target = self.langs[1]
        pipeline = Pipeline.of(self.data)
        for name in (f"{split}.{target}" for split in self.splits[2:]):
            raw = list(read_lines(self.data / "raw" / name))
            raw = [line.lower() for line in raw] if self.lowercase else raw
            made = pipeline.plain_text(list(read_lines(self.text / "bpe" / name)))
            ceiling = METRICS["sacrebleu"].compute(made, Examples([raw], lang=target))["bleu"]
            say(f"{name}: the references themselves, prepared and detokenized, score {ceiling:.1f} sacreBLEU")
            differ = [pair for pair in zip(raw, made, strict=True) if pair[0].split() != pair[1].split()]
            if ceiling < CEILING and not differ:
                say(f"warning: {name}: no sentence has four words or more, without which BLEU is 0; take chrF")
            elif ceiling < CEILING:
                there, here = differ[0]
                say(
                    f"warning: {name}: no system can score more than {ceiling:.1f}, since the way back to text does "
                    f"not undo the preparation: {there!r} becomes {here!r}. "
                    f"{'--bpe subword-nmt' if self.plain else '--tokenizer none'} loses nothing"
                )

    # The recipe.

    def test_sets(self) -> dict[str, str]:
        """Return the name of each test set in scores, that of its files if it can be, by its subset of the data."""
        names = [Path(prefix).name for prefix in self.test]
        if all(map(is_name, names)) and len({*names, *self.splits}) == len(names) + len(self.splits):
            return dict(zip(self.splits[2:], names or ["held-out"], strict=True))
        return {split: split for split in self.splits[2:]}

    def command(self) -> str:
        """Return the command that makes the data again, from the top of the repository."""
        words = [*OURS, "prepare", "--langs", *self.langs, "--out", folder_of(self.out)]
        for option in ("train", "valid", "test"):
            given = [prefix for split in self.given if split.startswith(option) for prefix in self.given[split]]
            words += [f"--{option}", *map(folder_of, given)] if given else []
        words += ["--tokenizer", self.tokeniser, "--bpe", self.segmentation, "--max-tokens", str(self.max_tokens)]
        for option in ("size", "max_ratio", "hold_out", "workers"):
            if (value := getattr(self, option)) is not None:
                words += [f"--{option.replace('_', '-')}", str(value)]
        chosen = {"--normalize": self.normalise, "--lowercase": self.lowercase}
        chosen["--separate-dictionaries"] = self.separate_dictionaries
        words += [option for option, on in chosen.items() if on]
        return shlex.join([*words, "--recipe", NO_RECIPE])

    def recipe_text(self) -> str:
        """Return the text of the recipe: the systems to start from, with a schedule for the size of the text."""
        from jinja2 import Environment, FileSystemLoader

        counts = read_mapping(self.data / "manifest.json")["counts"]
        per_epoch = max(1, round(counts["train"]["tokens"][self.langs[1]] / 3500))  # batches of 4,096 are never full
        epochs = min(max(round(3000 / per_epoch), 10), 60)
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), keep_trailing_newline=True)
        environment.filters["quoted"] = _quoted
        return environment.get_template("recipe.yaml.j2").render(
            own=self,
            pairs=f"{counts['train']['lines']:,}",
            name=shlex.quote(folder_of(self.recipe_file)),
            folder=folder_of(self.data),
            share="share-decoder-input-output-embed" if self.separate_dictionaries else "share-all-embeddings",
            warmup=min(4000, max(1, per_epoch * epochs // 4)),
            epochs=epochs,
            post_process=SEGMENTATIONS[self.segmentation].post_process[0],
        )


def _quoted(value: Any) -> str:
    """Return a string, or a mapping of strings, as one line of quoted YAML."""
    return yaml.safe_dump(value, default_style='"', default_flow_style=True, width=math.inf, allow_unicode=True).strip()
