"""Scores of files, side by side and labeled, so that they cannot be confused, for ``ode-transformer score``.

There is a function for each kind of file. Its parameters are options of the command, described where they come first.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from ... import markdown
from ...errors import OdeTransformerError, counted
from ...files import write_json
from ..arguments import nearest
from ..text.detokenisation import detokenise
from ..text.fairseq_output import check_text, read_generate_output
from ..text.lines import lines_of, read_all
from ..text.subwords import joined_words
from ..text.tokenisation import languages
from . import METRICS, Examples, Metric, errant, gleu, labels, m2, perplexity, resampling, rouge
from .bleu import multi_bleu, split_compounds


def score(
    hyp_tok: Sequence[str],
    ref_tok: Sequence[str],
    target_lang: str,
    *,
    raw_refs: Sequence[Sequence[str]] = (),
    sources: Sequence[str] = (),
    lowercase: bool = False,
    compound_split: bool = False,
    plain: bool = False,
    metrics: Sequence[str] = (),
) -> dict[str, Any]:
    """Score translations, one string per sentence, without subword units; options are those of :func:`translations`.

    Hypotheses and references are tokenized with Moses' rules and, without ``raw_refs``, detokenized for metrics of raw
    text; with ``plain`` they are raw text.

    Returns:
        ``tokenised`` and ``compound_split``, each perhaps None, and ``sacrebleu``, ``chrf`` and the further metrics:
        the entries of a record; ``reference`` (``raw`` or ``detokenised``), ``sentences``, ``target_lang``,
        ``lowercase``, and ``endless``, with the number of ``sentences`` of :func:`is_endless`.
    """
    if compound_split and (plain or target_lang != "de"):
        raise OdeTransformerError("--compound-split: goes with --target-lang de alone, and not with --plain")
    hyp_raw = hyp_tok if plain else detokenise(hyp_tok, target_lang)
    reference = "raw" if raw_refs or plain else "detokenised"
    raw_refs = raw_refs or [ref_tok if plain else detokenise(ref_tok, target_lang)]
    examples = Examples(raw_refs, sources, lang=target_lang, lowercase=lowercase)
    return {
        "target_lang": target_lang,
        "sentences": len(hyp_tok),
        "lowercase": lowercase,
        "tokenised": None if plain else multi_bleu(hyp_tok, ref_tok),
        "compound_split": multi_bleu(*map(split_compounds, (hyp_tok, ref_tok))) if compound_split else None,
        "reference": reference,
        **compute_metrics(("sacrebleu", "chrf", *metrics), hyp_raw, examples),
        "endless": {
            "sentences": sum(map(is_endless, hyp_raw, (max(refs, key=len) for refs in zip(*raw_refs, strict=True))))
        },
    }


def is_endless(translation: str, reference: str) -> bool:
    """Whether a translation goes on without end: it has 200 characters or more and is twice as long as its reference.

    A decoder that repeats itself stops at its limit, in fairseq 200 units unless ``--max-len-a`` and ``--max-len-b``
    say otherwise, and each unit has a character or more.
    """
    return len(translation) >= max(200, 2 * len(reference))


def compute_metrics(metrics: Sequence[str], outputs: Sequence[str], examples: Examples) -> dict[str, dict[str, Any]]:
    """Return the entries of metrics in a record, by name."""
    found = {}
    for name in metrics:
        if name not in METRICS:
            raise unknown_metric(name, [metric.name for metric in METRICS.values() if metric.fits(examples)])
        found[METRICS[name].entry or name] = METRICS[name].compute(outputs, examples)
    return found


def unknown_metric(name: str, known: Sequence[str]) -> OdeTransformerError:
    """Return the error about a metric that is not there; ``known`` are those that could be meant."""
    said = nearest(name, known, few=40)
    return OdeTransformerError(f"--metric {name}: {said}; one of a plugin needs --user-dir, the plugin's folder")


def references_in(data: str | Path, subset: str, lang: str) -> dict[str, str]:
    """Return the reference files that a preparation left beside binarized data, by kind: ``tok`` (tokenized), ``raw``.

    fairseq's own references have ``<<unk>>`` in place of words that the dictionary lacks. Some preparations leave one
    kind only, or none.
    """
    files = {kind: Path(data, kind, f"{subset}.{lang}") for kind in ("tok", "raw")}
    return {kind: str(path) for kind, path in files.items() if path.is_file()}


def translations(
    generate_output: str | Path | None = None,
    hyp: str | Path | None = None,
    ref: str | Path | None = None,
    target_lang: str | None = None,
    reference: Sequence[Path] = (),
    source: str | Path | None = None,
    data: str | Path | None = None,
    subset: str | None = None,
    lowercase: bool = False,
    compound_split: bool = False,
    join_hyphens: bool = False,
    plain: bool = False,
    remove_bpe: str | None = None,
    metric: Sequence[str] = (),
) -> dict[str, Any]:
    """Score a file of translations.

    Args:
        generate_output: translations, as ``fairseq-generate`` prints them.
        hyp: translations, one per line, instead of --generate-output; tokenized, unless --plain is given.
        ref: references, tokenized as the translations are; they override those in --generate-output.
        target_lang: target language of translations, such as de.
        reference: raw references, for sacreBLEU and chrF; may be repeated (default: --ref, detokenized).
        source: the source sentences: untokenized for --metric comet; of --summaries or --corrections.
        data: the folder of binarized data, whose raw and tokenized references of --subset are taken if it has them.
        subset: the subset of --data or of --validation-log (default: test).
        lowercase: ignore case in sacreBLEU and chrF.
        compound_split: also compute BLEU after compound splitting; German only.
        join_hyphens: join ``a @-@ b`` to ``a-b``, for text from tokenizer.perl -a.
        plain: translations and --ref are not tokenized: no tokenized BLEU, and any target language.
        remove_bpe: how to join subword units; subword_nmt without a value (default: there must be none).
        metric: a further metric, such as ter or one of a plugin, of --predictions one in place of accuracy; may be
            repeated.
    """
    if bool(generate_output) == bool(hyp):
        raise OdeTransformerError("either --generate-output FILE or --hyp FILE is needed, not both")
    if not target_lang or not (plain or target_lang in languages()):
        known = ", ".join(sorted(languages()))
        raise OdeTransformerError(f"--target-lang must be one of {known}, or any with --plain; got {target_lang}")
    read, name = generate_output or hyp, f"{subset or 'test'}.{target_lang}"
    beside = references_in(data, subset or "test", target_lang) if data else {}
    if data and not beside:  # as of a recipe whose own preparation leaves none
        said = f"has neither tok/{name} nor raw/{name}; those of fairseq's output or --ref are taken"
        print(f"warning: --data {data}: {said}", file=sys.stderr)
    # What fairseq printed is as the data are; plain text is scored against plain text.
    tokenised = ref or beside.get("raw" if plain and hyp else "tok")
    hyps, refs, _ = read_generate_output(generate_output) if generate_output else (read_all(hyp), None, None)
    if hyp:
        check_text(hyps, hyp)
    if tokenised:
        refs = lines_of(tokenised, len(hyps), read)
    if refs is None:
        kind = "plain" if plain else "the tokenized"
        raise OdeTransformerError(f"{read}: has no references; give {kind} ones as --ref FILE")
    own = None if plain and ref else beside.get("raw")  # a plain --ref takes the place of the data's raw references
    raw = [lines_of(path, len(hyps), read) for path in reference or filter(None, [own])]
    hyps = joined_words(hyps, read, remove_bpe)
    if ref or not tokenised:  # those beside the data are words, as its preparation knows
        refs = joined_words(refs, tokenised or read, remove_bpe)
    if join_hyphens:
        hyps, refs = ([line.replace(" @-@ ", "-") for line in lines] for lines in (hyps, refs))
    if unknown := sum("<<unk>>" in line for line in refs):
        said = f"<<unk>> in {unknown} of {counted(len(refs), 'tokenized reference')}, as fairseq writes it with"
        print(f"warning: {said} its dictionary; give the original ones as --ref FILE", file=sys.stderr)
    if raw and not lowercase and "".join(hyps).islower() and not "".join(raw[0]).islower():
        print("warning: the translations hold no capital letter, the raw references do: --lowercase?", file=sys.stderr)
    sources = lines_of(source, len(hyps), read) if source else ()
    how = {"lowercase": lowercase, "compound_split": compound_split, "plain": plain, "metrics": metric}
    return score(hyps, refs, target_lang, raw_refs=raw, sources=sources, **how)


def summaries(
    summaries: str | Path,
    ref: str | Path | None = None,
    source: str | Path | None = None,
    lead: int | None = None,
    remove_bpe: str | None = None,
    metric: Sequence[str] = (),
) -> dict[str, Any]:
    """Score a file of summaries by ROUGE.

    Args:
        summaries: summaries, as ``fairseq-generate`` prints them; needs --ref.
        lead: also score the first N sentences of each text in --source, as a baseline.
    """
    if not ref or (lead and not source):
        raise OdeTransformerError("--summaries FILE needs --ref FILE, and --lead N needs --source FILE")
    texts = joined_words(read_generate_output(summaries).hypotheses, summaries, remove_bpe)
    sources = lines_of(source, len(texts), summaries) if source else ()
    examples = Examples([lines_of(ref, len(texts), summaries)], sources)
    result = {"sentences": len(texts), "rouge": rouge.entry(texts, examples)}
    if lead:
        label = "first sentence" if lead == 1 else f"first {lead} sentences"
        first = [rouge.lead(one, lead) for one in sources]
        result["source"] = {"label": label, "rouge": rouge.entry(first, examples)}
    return result | compute_metrics(metric, texts, examples)


def corrections(
    corrections: str | Path,
    source: str | Path | None = None,
    references: Sequence[Path] = (),
    edits: str | Path | None = None,
    own_edits: str | Path | None = None,
    remove_bpe: str | None = None,
    metric: Sequence[str] = (),
) -> dict[str, Any]:
    """Score a file of corrections and, as ``source``, the uncorrected sentences.

    Each F0.5 whose program is not installed is left out, with a message.

    Args:
        corrections: corrected sentences, as ``fairseq-generate`` prints them; needs --source.
        references: human corrections, a file per annotator, for GLEU.
        edits: human edits, an M2 file, for M2's and ERRANT's F0.5.
        own_edits: NAME.m2, to which ERRANT's edits of the corrections go; the human ones go to NAME.gold.m2.
    """
    if not source or bool(references) == bool(edits) or (own_edits and not edits):
        raise OdeTransformerError(
            "--corrections FILE needs --source FILE, and either --references FILE... or --edits FILE; --own-edits goes "
            "with the latter"
        )
    if own_edits and Path(edits).resolve() in {path.resolve() for path in errant.files(own_edits)}:
        raise OdeTransformerError(f"--own-edits {own_edits}: would replace --edits {edits}; give another name")
    if edits and not Path(edits).is_file():
        raise OdeTransformerError(f"--edits {edits}: no such file")
    texts = joined_words(read_generate_output(corrections).hypotheses, corrections, remove_bpe)
    sources, *others = (lines_of(path, len(texts), corrections) for path in (source, *references))
    examples = Examples(others, sources, edits=str(edits or ""))
    result: dict[str, Any] = {"sentences": len(texts)}
    result["changed"] = sum(a.split() != b.split() for a, b in zip(sources, texts, strict=True))
    result["source"] = {"label": "uncorrected"}
    for scores, lines, kept in ((result, texts, own_edits), (result["source"], sources, None)):
        if references:
            scores["gleu"] = gleu.entry(lines, examples)
            continue
        if m2.scorer():
            scores["m2"] = m2.entry(lines, examples)
        if errant.installed():
            scores["errant"] = errant.entry(lines, examples, kept)
    if edits and "m2" not in result:
        print("the M2 score is left out: M2SCORER is not set", file=sys.stderr)
    if edits and "errant" not in result:
        print(f"ERRANT's score is left out: {errant.PROGRAMS[0]} and others are not installed", file=sys.stderr)
    known = [METRICS[name] for name in metric if name in METRICS]
    unfit = [one.name for one in known if one.alone and not one.fits(examples)]
    for name in unfit:  # one test set may have edits and another references
        print(f"{METRICS[name].label} is left out: it needs {METRICS[name].needed}", file=sys.stderr)
    return result | compute_metrics([name for name in metric if name not in unfit], texts, examples)


def predictions(predictions: str | Path, metric: Sequence[str] = ()) -> dict[str, Any]:
    """Score a file of predicted labels, by default by accuracy.

    Args:
        predictions: labels and predicted labels, as ``ode-transformer predict`` writes them.
    """
    golds, predicted = labels.read(predictions)
    if not metric and any(re.fullmatch(r"-?\d+\.\d+", gold) for gold in golds):
        raise OdeTransformerError(f"{predictions}: its labels are numbers; give --metric pearson or --metric spearman")
    return score_labels(golds, predicted, metric or ["accuracy"])


def score_labels(golds: Sequence[str], predicted: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the number of ``sentences``, and the entries of metrics of predicted labels, each with its 95 percent
    ``interval`` and the description of that, ``bootstrap``."""
    examples = Examples(labels=golds)
    found = compute_metrics(metrics, predicted, examples)
    for its in (METRICS[name] for name in metrics if METRICS[name].statistics):
        drawn = resampling.bootstrap(its.statistics_of_each(predicted, examples), its.score)
        found[its.entry or its.name] |= {"interval": resampling.interval(drawn), "bootstrap": resampling.INTERVAL}
    return {**found, "sentences": len(golds)}


TITLES = {
    "tokenised": "tokenized BLEU (multi-bleu)",
    "compound_split": "  after compound splitting",
    "sacrebleu": "sacreBLEU (detokenized)",
    "rouge": "ROUGE",
}
"""Labels of entries for which that of their last metric is not clear enough in a report."""


def report(result: dict[str, Any]) -> str:
    """Return scores as lines to print: those of the outputs, and of the source alone, with signatures."""
    source, rows = result.get("source") or {}, []
    for prefix, scores in (("", result), (f"{source.get('label', '')}: ", source)):
        entries: dict[str, list[Metric]] = {}
        for metric in METRICS.values():
            if metric.name != "endless" and metric.value(scores) is not None:
                entries.setdefault(metric.entry or metric.name, []).append(metric)
        for entry, metrics in entries.items():
            interval = scores[entry].get("interval", ())  # of an entry with one metric
            values = ", ".join(f"{metric.label} = {metric.shown(metric.value(scores))}" for metric in metrics)
            values = f"{values} {metrics[-1].shown_interval(interval)}".rstrip()
            rows.append((prefix + TITLES.get(entry, metrics[-1].label), scores[entry].get("line", values)))
            rows += [("  signature", text) for text in [metrics[-1].recorded_signature(scores)] if text]
    if "reference" in result:
        raw = result["reference"] == "raw"
        rows.append(("  their reference", "the raw references" if raw else "the tokenized reference, detokenized"))
    if "sentences" in result:
        more = f", target language {result['target_lang']}" if "target_lang" in result else ""
        more += f", {result['changed']} of them changed" if "changed" in result else ""
        rows.append(("sentences", f"{result['sentences']}{more}"))
    lines = [f"{label:<29}{value}" for label, value in rows]
    if "report" in (result.get("accuracy") or {}):
        head, by_class = ("class", "precision", "recall", "F1", "examples"), result["accuracy"]["report"].items()
        cells = ((name, *(f"{its[key.lower()]:.2f}" for key in head[1:4]), its["examples"]) for name, its in by_class)
        lines.append(f"\n{markdown.table(head, cells)}")
    return "\n".join(lines)


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "generate_output": translations,
    "hyp": translations,
    "validation_log": perplexity.score,
    "predictions": predictions,
    "summaries": summaries,
    "corrections": corrections,
}
"""The functions that score files, by the option that names the file; their parameters are options."""


def score_file(*, output: Optional[str] = None, as_json: bool = False, **options: Any) -> None:
    """Score a file by the function of ``KINDS`` for the option that names it, whose arguments are the options.

    The scores are printed and perhaps written to ``output``, a JSON file.
    """
    kind = next((one for one in KINDS if one in options), None)
    if kind is None:
        named = ", ".join(f"--{one.replace('_', '-')}" for one in KINDS)
        raise OdeTransformerError(f"the file to score is missing: one of {named} FILE is needed")
    read = inspect.signature(KINDS[kind]).parameters
    if wrong := [option for option in options if option not in read]:
        raise OdeTransformerError(f"--{wrong[0].replace('_', '-')}: is not read with --{kind.replace('_', '-')}")
    result = KINDS[kind](**options)
    if output:
        write_json(output, result)
    print(json.dumps(result) if as_json else report(result))
