"""Perplexity: 2 to the mean negative log-likelihood, in bits, of a token of the dictionary."""

from collections.abc import Mapping
from typing import Any

SIGNATURE = "of the units of the dictionary, end-of-sentence symbols included; fairseq-validate, two decimals"


def logged(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The score from what ``fairseq-validate --log-format json`` logs of a subset.

    Raises:
        KeyError: the criterion logs none.
    """
    return {"value": float(entry["ppl"]), "signature": SIGNATURE}
