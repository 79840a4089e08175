"""Perplexity: 2 to the power of the mean negative log-likelihood, in bits, of a token of the dictionary.

It is read from the log of ``fairseq-validate --log-format json``.
"""

from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ..text.fairseq_output import entries
from .metric import Metric

SIGNATURE = "of the units of the dictionary, end-of-sentence symbols included; fairseq-validate, two decimals"


def score(path: str | Path, subset: str) -> dict[str, Any]:
    """Return the ``perplexity`` of a subset, its ``value`` and ``signature``, and ``loss``, in bits.

    The last entry of the subset in the log of ``fairseq-validate`` counts.
    """
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    found = [values for _, values in entries(text, subset)]
    if not found:
        raise OdeTransformerError(f"{path}: no entry of subset {subset}; was it cut short?")
    try:
        value, loss = float(found[-1]["ppl"]), float(found[-1]["loss"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise OdeTransformerError(f"{path}: no perplexity of subset {subset}: the criterion does not log it") from error
    return {"perplexity": {"value": value, "signature": SIGNATURE}, "loss": loss}


METRIC = Metric("perplexity", "perplexity")
