"""chrF2 (Popovic 2015) and TER (Snover et al. 2006) of plain text, by sacreBLEU. Of TER, less is better."""

from typing import TYPE_CHECKING

from .bleu import by_sacrebleu
from .metric import Examples

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric


def _chrf(examples: Examples) -> "SacreMetric":
    from sacrebleu.metrics import CHRF

    return CHRF(lowercase=examples.lowercase)


def _ter(examples: Examples) -> "SacreMetric":
    from sacrebleu.metrics import TER

    return TER()  # ignores case, as it usually is quoted


METRICS = (by_sacrebleu("chrf", "chrF2", "score", _chrf), by_sacrebleu("ter", "TER", "score", _ter))
