"""chrF2 of detokenized text, by sacreBLEU (Popovic 2015)."""

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import CHRF


def take(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False) -> dict[str, Any]:
    """Score detokenized translations against one or more texts of detokenized references, one string per sentence."""
    metric = CHRF(lowercase=lowercase)
    return {
        "score": metric.corpus_score(hypotheses, references).score,
        "signature": str(metric.get_signature()),
    }
