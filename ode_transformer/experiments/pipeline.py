"""What stands between raw text and the units of a model, both ways, as the manifest of the model's data has it.

Imports neither torch nor fairseq.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..files import sha256
from . import text
from .metrics.translations import detokenise, remove_segmentation
from .text import TextError, Tokeniser

MODELS = {"subword-nmt": "codes", "sentencepiece": "sentencepiece.model", "none": None}
"""The file of what a segmentation learned, by the segmentation's name."""


@dataclass(frozen=True)
class Pipeline:
    """The way from raw text to units, and back.

    Args:
        tokeniser: of the source's language.
        target: the other language.
        segmentation: one of ``MODELS``.
        model: the file of what it learned.
    """

    tokeniser: Tokeniser
    target: str
    segmentation: str = "none"
    model: Path | None = None

    @classmethod
    def of(cls, folder: Path) -> "Pipeline":
        """The pipeline of a folder of binarised data, or of a bundle.

        Raises:
            TextError: its manifest is not there or does not say it, or a file beside it is not what it names.
        """
        path = folder / "manifest.json"
        if not path.is_file():
            raise TextError(f"{path}: not there; it says how the model's text was made, and lies beside its data")
        try:
            manifest = text.read_manifest(folder)
        except OSError as error:
            raise TextError(str(error)) from error
        options = manifest.get("tokenise")
        if options is None:
            raise TextError(
                f"{path}: does not say how text was tokenised: the data were not tokenised here, or by an older "
                f"version of this package. A script of data-prep makes its data anew, and the same, where {folder} is "
                "moved away"
            )
        known = {f.name: f.type for f in fields(Tokeniser) if f.name != "lang"}
        source, target = manifest.get("source_lang"), manifest.get("target_lang")
        if not isinstance(options, dict) or not all(re.fullmatch(r"[\w-]+", str(lang)) for lang in (source, target)):
            raise TextError(f"{path}: is no manifest of ode-transformer")
        for name, value in options.items():
            if type(value) is not known.get(name) or (name == "lowercase" and value not in text.LOWERCASE):
                raise TextError(f"{path}: tokenise.{name} {value!r}: is no option of this version's tokeniser")
        found = [name for name, file in MODELS.items() if file in manifest["sha256"]]
        segmentation = found[0] if found else "none"
        model = folder / MODELS[segmentation] if found else None
        return cls(Tokeniser(source, **options), target, segmentation, model)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two equal pipelines have in common, wherever their files lie."""
        return self.tokeniser, self.target, self.segmentation, self.model and sha256(self.model)

    def units(self, lines: Sequence[str]) -> list[str]:
        """The units of raw sentences, with single blanks between them."""
        words = list(self.tokeniser.tokenise(lines))
        return text.segmented(words, self.segmentation, self.model)

    def plain(self, lines: Sequence[str]) -> list[str]:
        """Text to read, of units with blanks between them."""
        if self.segmentation == "sentencepiece":  # whether a piece begins a word or none does
            words = [line.replace(" ", "").replace("\u2581", " ").strip() for line in lines]
        else:
            words = remove_segmentation(lines, self.segmentation.replace("-", "_"))
        return words if self.tokeniser.plain else detokenise(words, self.target)

    def ends_word(self, units: Sequence[str], i: int) -> bool:
        """Whether a word ends with unit i."""
        if self.segmentation == "sentencepiece":
            return i + 1 == len(units) or units[i + 1].startswith("\u2581")
        return not units[i].endswith("@@")

    def __str__(self) -> str:
        made = "as it is" if self.tokeniser.plain else "tokenised as Moses does"
        case = "" if self.tokeniser.lowercase == "no" else ", lower-cased"
        return f"{self.tokeniser.lang} to {self.target}, text {made}{case}, units by {self.segmentation}"
