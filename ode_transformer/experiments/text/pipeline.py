"""The way from raw text to the subword units of a model, and back, as the manifest of the model's data describes it.

Imports neither torch nor fairseq.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...files import sha256
from .detokenisation import detokenise
from .joining import MARK, SEGMENTATIONS
from .lines import TextError
from .manifest import read_manifest
from .subwords import segmented
from .tokenisation import Tokeniser


@dataclass(frozen=True)
class Pipeline:
    """The way from raw text to subword units, and back."""

    tokeniser: Tokeniser  # of the source language
    target: str  # the target language
    segmentation: str = "none"  # one of SEGMENTATIONS
    model: Path | None = None  # the file that the segmentation learned

    @classmethod
    def of(cls, folder: Path) -> "Pipeline":
        """Return the pipeline of a folder of binarized data, or of a bundle."""
        path = folder / "manifest.json"
        if not path.is_file():
            raise TextError(
                f"{path}: no such file; it describes how the data of the model were prepared, and is in their folder "
                "(--data). For data that fairseq-preprocess made, `ode-transformer text describe` writes it"
            )
        manifest = read_manifest(folder)
        options = manifest.get("tokenise")
        if options is None:
            raise TextError(
                f"{path}: does not say how text was tokenized: the data were prepared elsewhere, or by an older "
                "version of this package"
            )
        try:
            tokeniser, target = Tokeniser(manifest["source_lang"], **options), manifest["target_lang"]
        except (KeyError, TypeError) as error:
            raise TextError(f"{path}: is not of this version: {error}") from error
        found = (name for name, its in SEGMENTATIONS.items() if its.model in manifest["sha256"])
        segmentation = next(found, "none")
        file = SEGMENTATIONS[segmentation].model
        return cls(tokeniser, target, segmentation, folder / file if file else None)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A value that is equal for equal pipelines, wherever their files are."""
        return self.tokeniser, self.target, self.segmentation, self.model and sha256(self.model)

    def units(self, lines: Sequence[str]) -> list[str]:
        """Return the subword units of raw sentences, separated by single spaces."""
        return segmented(self.tokeniser.tokenise(lines), self.segmentation, self.model)

    def plain_text(self, lines: Sequence[str]) -> list[str]:
        """Return detokenized text for subword units separated by spaces."""
        words = [SEGMENTATIONS[self.segmentation].join(line) for line in lines]
        return words if self.tokeniser.plain else detokenise(words, self.target)

    def ends_word(self, units: Sequence[str], i: int) -> bool:
        """Whether unit ``i`` ends a word."""
        if self.segmentation == "sentencepiece":
            return i + 1 == len(units) or units[i + 1].startswith(MARK)
        return self.segmentation == "none" or not units[i].endswith("@@")

    def __str__(self) -> str:
        made = "as it is" if self.tokeniser.plain else "tokenized with Moses' rules"
        case = "" if self.tokeniser.lowercase == "no" else ", lower-cased"
        return f"{self.tokeniser.lang} to {self.target}, text {made}{case}, units by {self.segmentation}"
