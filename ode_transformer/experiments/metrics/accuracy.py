"""Accuracy: the percentage of examples whose class is the predicted one."""

from collections.abc import Mapping
from typing import Any

SIGNATURE = "percent; fairseq-validate, one decimal"


def take(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The score from what ``fairseq-validate --log-format json`` logs of a subset.

    Raises:
        KeyError: the criterion logs none.
    """
    return {"value": float(entry["accuracy"]), "signature": SIGNATURE}
