"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries (Lin 2004), by the package ``rouge-score``: F1, in percent.

Words are stemmed (Porter), as the papers configured ROUGE-1.5.5 to do. ROUGE-L is, as the papers print it, a union over
sentences (``rougeLsum``). The sentences of a reference have tabs between them: they are the highlights of
CNN/DailyMail, as for See et al. (2017). Where there are no tabs, as in summaries, a sentence ends at a token of
``ENDS``; See et al. ended those at full stops alone.
"""

import html
import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import OdeTransformerError, install_command
from .metric import Examples, Metric

KINDS = ("rouge1", "rouge2", "rougeLsum")
ENDS = (".", "!", "?")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without Moses' escapes; tokens that close a quotation stay with its sentence."""
    if "\t" in text:
        return html.unescape(text).split("\t")
    found: list[list[str]] = [[]]
    ended = False
    for token in html.unescape(text).split():
        closes = re.fullmatch(r"[.!?'\")\]]+", token)
        if ended and not closes:
            found.append([])
        ended = token in ENDS or bool(ended and closes)
        found[-1].append(token)
    return [" ".join(tokens) for tokens in found if tokens]


def lead(source: str, count: int) -> str:
    """Return the first sentences of a tokenized text."""
    return " ".join(sentences(source)[:count])


def each(summaries: Sequence[str], examples: Examples) -> np.ndarray:
    """Return F1 in percent of every tokenized summary, (summaries, len(KINDS)); references may be tokenized or not."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import DefaultTokenizer
    except ImportError as error:
        raise OdeTransformerError(f"ROUGE needs the package rouge-score; {install_command('rouge')}") from error
    scorer = RougeScorer(list(KINDS), tokenizer=DefaultTokenizer(use_stemmer=True))
    rows = []
    for summary, reference in zip(summaries, examples.references[0], strict=True):
        found = scorer.score(*("\n".join(sentences(text)) for text in (reference, summary)))
        rows.append([100 * found[kind].fmeasure for kind in KINDS])
    return np.array(rows)


def signature(*_: Any) -> str:
    """Return the signature of the scores."""
    version = importlib.metadata.version("rouge-score")
    ends = f"Lsum's sentences end at tabs, else at {' '.join(ENDS)}"
    return f"rouge-score {version}, F1, mean over summaries, Porter stemmer, {ends}"


def entry(summaries: Sequence[str], examples: Examples) -> dict[str, Any]:
    """Return the mean F1 by ``KINDS``, and ``signature``."""
    means = each(summaries, examples).mean(0)
    return {**dict(zip(KINDS, means.tolist(), strict=True)), "signature": signature()}


def _metric(name: str, label: str, kind: str) -> Metric:
    def statistics(outputs: Sequence[str], examples: Examples) -> list[tuple[float, int]]:
        return [(value, 1) for value in each(outputs, examples)[:, KINDS.index(kind)]]

    return Metric(name, label, kind, "rouge", statistics=statistics, signature=signature, whole=entry)


METRICS = (
    _metric("rouge1", "ROUGE-1", "rouge1"),
    _metric("rouge2", "ROUGE-2", "rouge2"),
    _metric("rougeL", "ROUGE-L", "rougeLsum"),
)
