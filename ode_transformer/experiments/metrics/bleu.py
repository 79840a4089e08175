"""Metrics of sacreBLEU: chrF2 (Popović 2015), TER (Snover et al. 2006), of which less is better, and BLEU (Papineni
et al. 2002) of four kinds, which cannot be compared with each other.

- ``tokenised``, as in most papers: BLEU of the tokens as they are, equal to Moses' ``multi-bleu.perl``.
- ``compound_split``, as in papers on English-German: the same after replacing ``a-b`` by ``a ##AT##-##AT## b``.
- ``sacrebleu``: BLEU of the detokenized text, with its signature; the kind to compare with other work.
- ``transevolve``: as in TransEvolve's released code, tensor2tensor's BLEU of detokenized text that is lower-cased and
  split at blanks, with exponential smoothing.

The first two are sacreBLEU's BLEU without tokenization and smoothing, and with the white space of ``multi-bleu.perl``:
that program reads bytes, so that only a line feed ends a line and only ASCII blanks end a token, while Python also
splits at U+0085, U+00A0, U+2028, U+3000 and others.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import OdeTransformerError
from ..text.tokenisation import written
from .metric import Examples, Metric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric
    from sacrebleu.metrics.bleu import BLEUScore


def by_sacrebleu(name: str, label: str, key: str, make: Callable[[Examples], "SacreMetric"]) -> Metric:
    """Return a metric of sacreBLEU, by the statistics of sentences that sacreBLEU's own significance tests sum.

    ``make`` returns sacreBLEU's metric for examples, on which the score of given sums must not depend. The entry of
    BLEU in a record has its parts, too.
    """

    def statistics(outputs: Sequence[str], examples: Examples) -> list[list[float]]:
        return make(examples)._extract_corpus_statistics(outputs, examples.references)

    @cache
    def of_any() -> "SacreMetric":
        return make(Examples())

    def score(sums: np.ndarray) -> float:
        return of_any()._compute_score_from_stats(sums.tolist()).score

    def signature(outputs: Sequence[str], examples: Examples) -> str:
        metric = make(examples)
        metric.num_refs = len(examples.references)
        return str(metric.get_signature())

    def parts(outputs: Sequence[str], examples: Examples) -> dict[str, Any]:
        result = make(examples).corpus_score(outputs, examples.references)
        its = _parts(result, result.precisions, result.format(width=2))
        return its | {"signature": signature(outputs, examples)}

    whole = parts if key == "bleu" else None
    return Metric(name, label, key, statistics=statistics, score=score, signature=signature, whole=whole)


def check_language(lang: str) -> None:
    """Check that sacreBLEU can score text in a target language; some languages need further packages."""
    _bleu(Examples(lang=lang))


def _made(kind: str, **options: Any) -> "SacreMetric":
    from sacrebleu import metrics

    return getattr(metrics, kind)(**options)


def _bleu(examples: Examples) -> "SacreMetric":
    lang = written(examples.lang)  # sacreBLEU would split Chinese of another code at spaces
    try:
        return _made("BLEU", lowercase=examples.lowercase, trg_lang=lang)
    except RuntimeError as error:
        raise OdeTransformerError(
            f"target language {examples.lang}: needs another package of sacreBLEU: pip install sacrebleu[{lang}]"
        ) from error


def _transevolve(examples: Examples) -> "SacreMetric":
    return _made("BLEU", lowercase=True, tokenize="none", smooth_method="exp", force=True)


def multi_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return the BLEU of tokens as they are, equal to ``multi-bleu.perl`` in everything that it prints."""
    metric = _made("BLEU", tokenize="none", smooth_method="none", force=True)
    result = metric.corpus_score([*map(_protect_blanks, hypotheses)], [[*map(_protect_blanks, references)]])
    # 100 * (c / t) and not 100 * c / t, because the order of operations can change the last printed digit.
    precisions = [100 * (c / t) if t else 0.0 for c, t in zip(result.counts, result.totals, strict=True)]
    line = (
        f"BLEU = {result.score:.2f}, {'/'.join(f'{p:.1f}' for p in precisions)} (BP={result.bp:.3f}, "
        f"ratio={result.ratio:.3f}, hyp_len={result.sys_len}, ref_len={result.ref_len})"
    )
    return _parts(result, precisions, line)


def _parts(result: "BLEUScore", precisions: list[float], line: str) -> dict[str, Any]:
    return {
        "bleu": result.score,
        "precisions": precisions,
        "bp": result.bp,
        "ratio": result.ratio,
        "hyp_len": result.sys_len,
        "ref_len": result.ref_len,
        "line": line,
    }


def _protect_blanks(line: str) -> str:
    """Replace blanks beyond ASCII, which do not end a token, by their numbers between private-use characters."""
    return re.sub(r"[^\S \t\n\r\f\v]", lambda blank: f"\ue000{ord(blank[0])}\ue001", line)


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Split tokens at hyphens, ``a-b`` to ``a ##AT##-##AT## b``, as the script that papers used does.

    Like that script it works on bytes, which matters for a single letter beyond ASCII between two hyphens.
    """
    split = re.compile(rb"(\S)-(\S)")
    return [split.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode() for line in lines]


METRICS = (
    Metric("tokenised", "tokenized", "bleu"),  # computed by scoring.score, from tokenized text
    Metric("compound_split", "compounds split", "bleu"),
    by_sacrebleu("sacrebleu", "sacreBLEU", "bleu", _bleu),
    by_sacrebleu("transevolve", "TransEvolve's BLEU", "bleu", _transevolve),
    by_sacrebleu("chrf", "chrF2", "score", lambda examples: _made("CHRF", lowercase=examples.lowercase)),
    by_sacrebleu("ter", "TER", "score", lambda examples: _made("TER")),  # ignores case, as usual
)
