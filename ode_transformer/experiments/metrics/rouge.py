"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries (Lin 2004), by the package ``rouge-score``: F1, in percent.

Words are stemmed (Porter), as the papers configured ROUGE-1.5.5 to do. ROUGE-L is computed twice: for the summary as
one sequence (``rougeL``), and as the papers print it, as a union over sentences (``rougeLsum``). The sentences of a
reference have tabs between them: they are the highlights of CNN/DailyMail, as for See et al. (2017). Where there are no
tabs, as in summaries, a sentence ends at a token of ``ENDS``; See et al. ended those at full stops alone.
"""

import argparse
import html
import importlib.metadata
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import OdeTransformerError, install
from .. import markdown
from ..arguments import at_least
from ..text.joining import words
from ..text.lines import lines_of

if TYPE_CHECKING:
    import numpy as np

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
ENDS = (".", "!", "?")


def sentences(text: str) -> list[str]:
    """The sentences of a text, without Moses' escapes; what closes a quotation stays with its sentence."""
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
    """The first sentences of a tokenized text."""
    return " ".join(sentences(source)[:count])


def each(summaries: Sequence[str], references: Sequence[str]) -> "np.ndarray":
    """F1 in percent of every summary, (summaries, len(KINDS)).

    Raises:
        OdeTransformerError: ``rouge-score`` is not installed.
    """
    import numpy as np

    try:
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import DefaultTokenizer
    except ImportError as error:
        raise OdeTransformerError(f"ROUGE needs the package rouge-score; in the clone: {install('rouge')}") from error
    scorer = RougeScorer(list(KINDS), tokenizer=DefaultTokenizer(use_stemmer=True))
    rows = []
    for summary, reference in zip(summaries, references, strict=True):
        found = scorer.score(*("\n".join(sentences(text)) for text in (reference, summary)))
        rows.append([100 * found[kind].fmeasure for kind in KINDS])
    return np.array(rows)


def signature() -> str:
    """What the scores have to be quoted with."""
    version = importlib.metadata.version("rouge-score")
    ends = f"Lsum's sentences end at tabs, else at {' '.join(ENDS)}"
    return f"rouge-score {version}, F1, mean over summaries, Porter stemmer, {ends}"


def take(summaries: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Score tokenized summaries, one string per summary, against a reference each, tokenized or not.

    Returns:
        the mean F1 by ``KINDS``, and ``signature``.
    """
    means = each(summaries, references).mean(0)
    return {**dict(zip(KINDS, means.tolist(), strict=True)), "signature": signature()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer score`` for summaries."""
    parser.add_argument("--summaries", metavar="FILE", help="output of fairseq-generate; with --ref, the references")
    parser.add_argument("--source", metavar="FILE", help="what was summarized, for --lead; or corrected")
    parser.add_argument("--lead", type=at_least(1), metavar="N", help="score the first N sentences as well")


def score_files(args: argparse.Namespace) -> dict[str, Any]:
    """The scores that ``ode-transformer score`` is asked for.

    Raises:
        OdeTransformerError: an option is missing, or a file has another number of lines; summaries hold subword units.
    """
    from .translations import read_generate_output

    if not args.ref or (args.lead and not args.source):
        raise OdeTransformerError("--summaries FILE needs --ref FILE, and --lead N needs --source FILE")
    summaries = words(read_generate_output(args.summaries).hypotheses, args.summaries, args.remove_bpe)
    references = lines_of(args.ref, len(summaries), args.summaries)
    result = {"sentences": len(summaries), "rouge": take(summaries, references)}
    if args.lead:
        sources = lines_of(args.source, len(summaries), args.summaries)
        label = "first sentence" if args.lead == 1 else f"first {args.lead} sentences"
        result["source"] = {"label": label, "rouge": take([lead(text, args.lead) for text in sources], references)}
    return result


def report(result: dict[str, Any]) -> str:
    """What :func:`score_files` returned as lines to print."""
    rows = [("the summaries", result["rouge"])]
    if "source" in result:
        rows.append((result["source"]["label"], result["source"]["rouge"]))
    scores = markdown.table(("", *KINDS), ((name, *(f"{values[kind]:.2f}" for kind in KINDS)) for name, values in rows))
    return f"{scores}\n\nsignature: {result['rouge']['signature']}\nsummaries: {result['sentences']}"
