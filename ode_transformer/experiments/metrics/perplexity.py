"""Perplexity: 2 to the power of the mean negative log-likelihood, in bits, of a token of the dictionary.

It is read from the log of ``fairseq-validate --log-format json``.
"""

from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ..text.fairseq_output import entries
from .metric import Metric

SIGNATURE = "of the units of the dictionary, end-of-sentence symbols included; fairseq-validate, two decimals"
MASKED = "of masked units, end-of-sentence symbols included; fairseq-validate, two decimals"
OF_PAIRS = "of masked units, never an end-of-sentence symbol; fairseq-validate, two decimals"


def score(validation_log: str | Path, subset: str = "test") -> dict[str, Any]:
    """Return the ``perplexity`` of a subset, its ``value`` and ``signature``, and ``loss``, in bits.

    The last entry of the subset in the log counts.

    Args:
        validation_log: a log of ``fairseq-validate --log-format json``, for the perplexity.
    """
    text = Path(validation_log).read_text(encoding="utf-8", errors="replace")
    found = [values for _, values in entries(text, subset)]
    if not found:
        raise OdeTransformerError(f"{validation_log}: no entry of subset {subset}; was it cut short?")
    try:
        value, loss = float(found[-1]["ppl"]), float(found[-1]["loss"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise OdeTransformerError(f"{validation_log}: the criterion logs no perplexity of subset {subset}") from error
    alone = MASKED if "'_name': 'masked_lm'" in text else SIGNATURE  # in the configuration, which fairseq logs first
    signature = OF_PAIRS if "next_sentence_loss" in found[-1] else alone
    return {"perplexity": {"value": value, "signature": signature}, "loss": loss}


METRIC = Metric("perplexity", "perplexity")
