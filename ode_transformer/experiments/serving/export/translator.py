"""Exported models that translate raw text, as runs and bundles do, without PyTorch's model and without fairseq."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Optional

from ....errors import OdeTransformerError
from ..translator import Found, Translator
from . import Search, describe, open_exported

NO_WORDS = ("<s>", "</s>")  # symbols that a model may find, and that fairseq does not print


class ExportedTranslator(Translator):
    """An exported model, with what makes units of raw text and text of units.

    Args:
        folder: that ``ode-transformer export`` wrote.
        device: ``cpu`` or ``cuda``; by default a GPU if there is one that the format's library can use.

    Raises:
        OdeTransformerError: something in the folder is missing or cannot be used; names it.
    """

    flags: Mapping[str, type] = {f.name: f.type for f in fields(Search)}

    def __init__(self, folder: Path, device: Optional[str] = None):
        self.name = str(folder)
        self.description = describe(folder)
        search = self.description.get("search", {})
        if lacking := sorted(set(search) - set(self.flags) - {"batch_size"}):
            raise OdeTransformerError(
                f"{folder}: its recipe searches with {lacking[0]} {search[lacking[0]]}, which the search of exported "
                "models does not have; translate with its run or bundle"
            )
        super().__init__(folder, search)
        languages = self.pipeline.tokeniser.lang, self.pipeline.target
        exported = self.description.get("source_lang"), self.description.get("target_lang")
        if exported != languages:
            raise OdeTransformerError(
                f"{folder}: translates {' to '.join(map(str, exported))}, but its data were prepared for "
                f"{' to '.join(languages)}"
            )
        threads = os.environ.get("OMP_NUM_THREADS", "")
        self.model = open_exported(folder, int(threads) if threads.isdecimal() else 0, device)
        self.device = self.model.device

    @property
    def longest(self) -> int:
        """As in :class:`.Translator`."""
        return self.model.longest["source"]

    def half(self) -> None:
        """As in :class:`.Translator`."""
        raise OdeTransformerError(f"--fp16: {self.name} is an exported model, whose precision was fixed by the export")

    def _about(self) -> list[str]:
        said = self.description
        return [f"{said['format']}, {said.get('quantization') or 'fp32'}, of {said.get('model')}"]

    def _searching(
        self, values: dict[str, Any], prefix: list[str]
    ) -> Callable[[Sequence[list[str]], Sequence[bool]], list[Found]]:
        if prefix:
            raise OdeTransformerError(f"{self.name}: is an exported model, whose search takes no prefix")
        search = Search(**values)

        def translate(batch: Sequence[list[str]], _: Sequence[bool]) -> list[Found]:
            most = search.most(max(map(len, batch)) + 1, self.model.longest["target"])
            found = []
            for hypotheses in self.model.translate(batch, search):
                units = [" ".join(symbol for symbol in h.tokens if symbol not in NO_WORDS) for h in hypotheses]
                scores = [h.score / math.log(2) for h in hypotheses]
                found.append((list(zip(units, scores, strict=True)), len(hypotheses[0].tokens) >= most))
            return found

        return translate

    def with_integrator(self, *_: Any, **__: Any) -> Translator:
        """Raises an ``OdeTransformerError``: only the layers of runs and bundles can be looked into and changed."""
        raise OdeTransformerError(f"{self.name}: is an exported model, whose layers are fixed; load its run or bundle")

    layer_states = with_integrator
