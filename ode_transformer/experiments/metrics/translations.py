"""``ode-transformer score``: scores of translations, side by side and labeled, so that they cannot be confused.

The scores are tokenized BLEU, the same after compound splitting, sacreBLEU, TransEvolve's BLEU and chrF; see
:mod:`.bleu` and :mod:`.chrf`. This file prepares the texts that are scored.

Imports neither torch nor fairseq.
"""

import argparse
import itertools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import OdeTransformerError
from ...files import write_json
from ..arguments import Once
from ..text.detokenisation import detokenise
from ..text.joining import JOIN, words
from ..text.lines import lines_of, read_all
from ..text.tokenisation import languages
from . import accuracy, chrf, corrections, perplexity, rouge
from .bleu import detokenised_bleu, multi_bleu, split_compounds, transevolve_bleu

COMPOUND_LANGUAGES = ("de",)
# The other kinds of scores, by the option that names their input.
OTHERS = {"validation_log": perplexity, "predictions": accuracy, "summaries": rouge, "corrections": corrections}
# What each kind reads besides --json and --output.
READ = {
    "generate_output": (
        *("generate_output", "hyp", "ref", "target_lang", "reference", "data", "subset"),
        *("lowercase", "compound_split", "join_hyphens", "plain", "remove_bpe"),
    ),
    "validation_log": ("validation_log", "subset"),
    "predictions": ("predictions",),
    "summaries": ("summaries", "ref", "source", "lead", "remove_bpe"),
    "corrections": ("corrections", "references", "source", "edits", "own_edits", "remove_bpe"),
}
SHOWN = 5  # sentences named in a message
_ID = r"\d{1,18}"  # the number of a sentence


def score(
    hyp_tok: Sequence[str],
    ref_tok: Sequence[str],
    target_lang: str,
    *,
    raw_refs: Sequence[Sequence[str]] = (),
    lowercase: bool = False,
    compound_split: bool = False,
    plain: bool = False,
) -> dict[str, Any]:
    """Score translations.

    Args:
        hyp_tok: the translations, tokenized with Moses' rules and without subword units, one string per sentence.
        ref_tok: the references, tokenized in the same way.
        target_lang: the language of both; one of :func:`.languages`, or any with ``plain``.
        raw_refs: one or more references before tokenization, for sacreBLEU and chrF; by default ``ref_tok`` is
            detokenized.
        lowercase: let sacreBLEU and chrF ignore case. The tokenized scores use tokens as they are.
        compound_split: add the score after compound splitting, for German only.
        plain: translations and references are plain text; nothing is detokenized, and there is no tokenized score.

    Returns:
        ``tokenised`` (None with ``plain``), ``compound_split`` (or None), ``sacrebleu`` (each with ``bleu``,
        ``precisions``, ``bp``, ``ratio``, ``hyp_len``, ``ref_len`` and the printed ``line``), ``transevolve`` likewise,
        ``chrf``, signatures of the last three, ``reference`` (``raw`` or ``detokenised``), ``sentences``,
        ``target_lang``, ``lowercase``, and ``endless``, with the number of ``sentences`` of :func:`is_endless`.

    Raises:
        OdeTransformerError: there are no lines, or their numbers differ; or the language is unknown, or has no compound
            splitting.
    """
    if not plain and target_lang not in languages():
        raise OdeTransformerError(
            f"--target-lang {target_lang}: must be one of {', '.join(sorted(languages()))}, or any with --plain, for "
            "text that is not tokenized"
        )
    if compound_split and target_lang not in COMPOUND_LANGUAGES:
        raise OdeTransformerError(
            f"--compound-split: for German targets only (--target-lang {', '.join(COMPOUND_LANGUAGES)}), "
            f"got --target-lang {target_lang}"
        )
    if not hyp_tok:
        raise OdeTransformerError("the hypothesis is empty")
    for name, lines in (("reference", ref_tok), *(("raw reference", lines) for lines in raw_refs)):
        if len(lines) != len(hyp_tok):
            raise OdeTransformerError(f"the hypothesis has {len(hyp_tok)} lines, the {name} {len(lines)}")

    hyp_raw = hyp_tok if plain else detokenise(hyp_tok, target_lang)
    reference = "raw" if raw_refs else "detokenised"
    raw_refs = raw_refs or [ref_tok if plain else detokenise(ref_tok, target_lang)]
    return {
        "target_lang": target_lang,
        "sentences": len(hyp_tok),
        "lowercase": lowercase,
        "tokenised": None if plain else multi_bleu(hyp_tok, ref_tok),
        "compound_split": multi_bleu(*map(split_compounds, (hyp_tok, ref_tok))) if compound_split else None,
        "reference": reference,
        "sacrebleu": detokenised_bleu(hyp_raw, raw_refs, target_lang, lowercase=lowercase),
        "transevolve": transevolve_bleu(hyp_raw, raw_refs),
        "chrf": chrf.take(hyp_raw, raw_refs, lowercase=lowercase),
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


def references_in(data: str | Path, subset: str, lang: str) -> dict[str, str]:
    """The files of references that a preparation left beside binarized data, by kind: ``tok`` (tokenized), ``raw``.

    fairseq's own references have ``<<unk>>`` in place of words that the dictionary lacks. Some preparations leave one
    kind only, or none.

    Args:
        data: the folder of the binarized data.
        subset: such as ``test``.
        lang: the target language.
    """
    files = {kind: Path(data, kind, f"{subset}.{lang}") for kind in ("tok", "raw")}
    return {kind: str(path) for kind, path in files.items() if path.is_file()}


class Generated(NamedTuple):
    """What an output of fairseq-generate holds, in the order of the test set; None for what it does not hold."""

    hypotheses: list[str]
    references: list[str] | None
    sources: list[str] | None


def read_generate_output(path: str | Path) -> Generated:
    """The sentences in an output of ``fairseq-generate``.

    The first line ``H-id<tab>score<tab>tokens`` of an id counts (the best of ``--nbest``). H, T and S lines hold words
    if ``--post-process`` was given, and subword units otherwise; D lines hold the same or, with ``--tokenizer``, plain
    text. The output of ``fairseq-interactive`` has no T lines.

    Raises:
        OdeTransformerError: there are no H lines, ids are missing or repeated, or the end of the file is missing.
    """
    hyps: dict[int, str] = {}
    refs: dict[int, str] = {}
    sources: dict[int, str] = {}
    ended, translated = False, None
    for line in read_all(path):
        if match := re.match(rf"H-({_ID})\t[^\t]*\t(.*)", line):
            hyps.setdefault(int(match[1]), match[2])
        elif match := re.match(rf"T-({_ID})\t(.*)", line):
            if int(match[1]) in refs:
                raise OdeTransformerError(
                    f"{path}: T-{match[1]} occurs twice; must be a single output of fairseq-generate"
                )
            refs[int(match[1])] = match[2]
        elif match := re.match(rf"S-({_ID})\t(.*)", line):
            sources[int(match[1])] = match[2]
        elif match := re.search(r"\| Translated ([\d,]{1,20}) sentences ", line):
            translated = int(match[1].replace(",", ""))
        ended = ended or re.match(r"(.* )?Generate \S+ with beam=", line) is not None
    if not hyps:
        raise OdeTransformerError(f"{path}: no line H-<id>; is it an output of fairseq-generate without --quiet?")
    expected = range(max({*hyps, *refs, (translated or 1) - 1}) + 1)
    for name, found in (("H", hyps), ("T", refs)):
        missing = len(expected) - len(found)
        if missing and (found or name == "H"):
            # Name the first few; an id from a damaged line may be huge, so not all are listed.
            first = [f"{name}-{i}" for i in itertools.islice((i for i in expected if i not in found), SHOWN)]
            more = f" and {missing - SHOWN} more" if missing > SHOWN else ""
            raise OdeTransformerError(
                f"{path}: of {len(expected)} sentences, {', '.join(first)}{more} are missing; the file is cut "
                # fairseq's default of 8 leaves out a last batch whose size is not a multiple of it.
                "short, or fairseq-generate left sentences out: it needs --required-batch-size-multiple 1, and no "
                "--skip-invalid-size-inputs-valid-test"
            )
    if refs and not ended:
        raise OdeTransformerError(
            f"{path}: the last line, 'Generate ... with beam=...', is missing; the file is cut short"
        )
    return Generated(
        [hyps[i] for i in expected],
        [refs[i] for i in expected] if refs else None,
        [sources[i] for i in expected] if set(expected) <= set(sources) else None,
    )


def report(result: dict[str, Any]) -> str:
    """The result of ``score`` as lines to print."""
    reference = "the raw references" if result["reference"] == "raw" else "the tokenized reference, detokenized"
    rows = [("tokenized BLEU (multi-bleu)", result["tokenised"]["line"])] if result["tokenised"] else []
    if result["compound_split"]:
        rows.append(("  after compound splitting", result["compound_split"]["line"]))
    rows += [
        ("sacreBLEU (detokenized)", result["sacrebleu"]["line"]),
        ("  signature", result["sacrebleu"]["signature"]),
        ("TransEvolve's BLEU", result["transevolve"]["line"]),
        ("  signature", result["transevolve"]["signature"]),
        ("chrF (detokenized)", f"chrF2 = {result['chrf']['score']:.2f}"),
        ("  signature", result["chrf"]["signature"]),
        ("  their reference", reference),
        ("sentences", f"{result['sentences']}, target language {result['target_lang']}"),
    ]
    return "\n".join(f"{label:<29}{value}" for label, value in rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer score``."""
    parser.register("action", None, Once)  # what argparse calls store
    parser.add_argument("--generate-output", metavar="FILE", help="output of fairseq-generate")
    parser.add_argument("--hyp", metavar="FILE", help="tokenized translations, instead of --generate-output")
    parser.add_argument("--ref", metavar="FILE", help="tokenized references; override those in --generate-output")
    parser.add_argument("--target-lang", metavar="LANG", help="target language such as de; needed for translations")
    parser.add_argument(
        "--reference", action="append", metavar="FILE", help="raw references, for sacreBLEU and chrF; may be repeated"
    )
    parser.add_argument(
        "--data", metavar="DIR", help="binarized data; take both references of --subset from it, as far as it has them"
    )
    parser.add_argument("--lowercase", action="store_true", help="sacreBLEU and chrF ignore case")
    parser.add_argument("--compound-split", action="store_true", help="add BLEU after compound splitting (de only)")
    parser.add_argument(
        "--join-hyphens", action="store_true", help="join a @-@ b to a-b, for text from tokenizer.perl -a"
    )
    parser.add_argument("--plain", action="store_true", help="the text is not tokenized; for any language")
    parser.add_argument(
        "--remove-bpe",
        nargs="?",
        const="subword_nmt",
        metavar="|".join(JOIN),
        help="join subword units (without a value: subword_nmt; default: there must be none)",
    )
    for module in OTHERS.values():
        module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--output", metavar="FILE", help="also write the JSON object to a file")


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer score``; the exit status."""
    kind = next((option for option in OTHERS if getattr(args, option)), "generate_output")
    given = "hyp" if kind == "generate_output" and args.hyp else kind
    for option in dict.fromkeys(option for options in READ.values() for option in options):
        value = getattr(args, option)
        if value is not None and value is not False and option not in READ[kind]:
            raise OdeTransformerError(f"--{option.replace('_', '-')}: is not read with --{given.replace('_', '-')}")
    module = OTHERS.get(kind)
    result = module.score_files(args) if module else _score_files(args)
    shown = module.report(result) if module else report(result)
    if args.output:
        write_json(args.output, result)
    print(json.dumps(result) if args.json else shown)
    return 0


def _beside(args: argparse.Namespace) -> dict[str, str]:
    if not Path(args.data).is_dir():
        raise OdeTransformerError(f"--data {args.data}: no such folder")
    subset = args.subset or "test"
    found = references_in(args.data, subset, args.target_lang)
    if not found and args.generate_output and not args.ref:
        name = f"{subset}.{args.target_lang}"
        said = f"has neither tok/{name} nor raw/{name}; the references in fairseq's output are taken"
        print(f"warning: {args.data}: {said}", file=sys.stderr)
    return found


def _score_files(args: argparse.Namespace) -> dict[str, Any]:
    if args.plain and (args.compound_split or args.join_hyphens):
        raise OdeTransformerError("--plain: excludes --compound-split and --join-hyphens, which need tokenized text")
    if bool(args.generate_output) == bool(args.hyp) or (args.hyp and not args.ref and not args.data):
        raise OdeTransformerError("either --generate-output FILE or --hyp FILE --ref FILE is needed")
    if args.subset and not args.data:
        raise OdeTransformerError("--subset: is not read without --data, whose references it names")
    if args.target_lang is None:
        raise OdeTransformerError(
            f"--target-lang is needed: one of {', '.join(sorted(languages()))}, or any with --plain"
        )
    beside = _beside(args) if args.data else {}
    ref = args.ref or beside.get("tok")
    references = args.reference or ([beside["raw"]] if "raw" in beside else [])
    if args.hyp and not ref:
        name = f"tok/{args.subset or 'test'}.{args.target_lang}"
        raise OdeTransformerError(f"--data {args.data}: has no {name}; give the tokenized references as --ref FILE")
    if args.generate_output:
        hyps, refs, _ = read_generate_output(args.generate_output)
    else:
        hyps, refs = read_all(args.hyp), None
    source = args.generate_output or args.hyp
    if ref:
        refs = lines_of(ref, len(hyps), source)
    if refs is None:
        raise OdeTransformerError(
            f"{args.generate_output}: no line T-<id>; give the tokenized references as --ref FILE"
        )
    raw = [lines_of(reference, len(hyps), source) for reference in references]
    hyps = words(hyps, source, args.remove_bpe)
    if args.ref or not ref:  # those beside the data are words, as its preparation knows
        refs = words(refs, ref or source, args.remove_bpe)
    if args.join_hyphens:
        hyps, refs = ([line.replace(" @-@ ", "-") for line in lines] for lines in (hyps, refs))
    if unknown := sum("<<unk>>" in line for line in refs):
        print(
            f"warning: {unknown} of {len(refs)} tokenized references hold <<unk>>, as fairseq writes them with its "
            "dictionary; give the original ones as --ref FILE",
            file=sys.stderr,
        )
    if raw and not args.lowercase and "".join(hyps).islower() and not "".join(raw[0]).islower():
        print("warning: the translations hold no capital letter, the raw references do: --lowercase?", file=sys.stderr)
    return score(
        hyps,
        refs,
        args.target_lang,
        raw_refs=raw,
        lowercase=args.lowercase,
        compound_split=args.compound_split,
        plain=args.plain,
    )
