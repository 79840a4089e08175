"""Translation: ``fairseq-generate`` translates every test set, and its output is scored.

Summarization and correction share the flags, the decoding and the files of pairs.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ... import paths
from ...errors import OdeTransformerError, counted
from ..metrics import METRICS, Examples
from ..metrics.scoring import references_in
from ..text import binarised
from ..text.fairseq_output import read_generate_output
from ..text.lines import read_all
from ..text.manifest import read_mapping
from ..text.subwords import SEGMENTATIONS, segmentation_by
from .task import OF_TEXT, Recipe, Step, Task, flags, further_metrics, scoring_step


class Pair(NamedTuple):
    """A source text and its target, one line each; tabs separate the sentences of a summary where they are known."""

    source: str
    target: str


def task_flags(recipe: Recipe) -> list[str]:
    """Return the flags of fairseq's task ``translation``."""
    return ["--task", "translation", "--source-lang", recipe.data.source, "--target-lang", recipe.data.target]


def decoding_step(recipe: Recipe, run_dir: str, subset: str, where: Sequence[str]) -> Step:
    """Return the step that decodes a subset."""
    model, output = f"{run_dir}/average.pt", translations(run_dir, subset)
    command = [
        *("fairseq-generate", recipe.data.directory, "--user-dir", paths.USER_DIR, *task_flags(recipe)),
        *("--gen-subset", subset, "--beam", str(recipe.generate.beam), "--lenpen", str(recipe.generate.lenpen)),
        # With its default of 8, fairseq leaves out up to seven sentences at the end (fairseq issue 5036).
        *("--required-batch-size-multiple", "1", *flags(recipe.generate.flags)),
        *("--path", model, "--results-path", f"{run_dir}/generate.part"),
    ]
    where = [*where, "--log-format", "simple", "--log-interval", "1"]  # logs progress without a bar
    moves = [(f"{run_dir}/generate.part/generate-{subset}.txt", output)]  # fairseq writes its file piece by piece
    return Step("generate", command, [model], [output], subset, where, log=f"{run_dir}/generate.log", moves=moves)


def post_process(recipe: Recipe) -> str | None:
    """Return how ``fairseq-generate`` joins subwords to words, or None if the recipe does not say."""
    given = recipe.generate.flags
    return given.get("post-process", given.get("remove-bpe"))


def check_units(recipe: Recipe) -> None:
    """Check that the recipe joins the subwords of its data to words, and warn of subsets with many unknown ones."""
    folder = paths.ROOT / recipe.data.directory
    held = read_mapping(folder / "manifest.json").get("sha256", {}) if (folder / "manifest.json").is_file() else {}
    name, found = segmentation_by(held), post_process(recipe)
    if name != "none" and found not in (valid := SEGMENTATIONS[name].post_process):
        raise OdeTransformerError(
            f"{recipe.name}: generate.flags.post-process is {found}, must be {valid[0]}, by which the text of "
            f"{recipe.data.directory} is segmented"
        )
    langs = recipe.data.source, recipe.data.target
    pairs = ("-".join(langs), "-".join(langs[::-1]))  # fairseq accepts both
    for split, pair, lang in itertools.product(("valid", *recipe.subsets), pairs, langs):
        if (folder / f"{split}.{pair}.{lang}.idx").is_file():
            prefix = folder / f"{split}.{pair}.{lang}"
            binarised.warn_of_unknown(prefix, *binarised.unknown(prefix))


def reads_source(recipe: Recipe) -> bool:
    """Whether a metric of the recipe needs the source."""
    return any("sources" in METRICS[name].needs for name in further_metrics(recipe))


def _options(recipe: Recipe, run_dir: str, subset: str) -> dict[str, Any]:
    score, data = recipe.score, recipe.data
    return {
        "generate_output": translations(run_dir, subset),
        "data": data.directory,
        "subset": subset,
        "target_lang": data.target,
        "lowercase": score.lowercase,
        "compound_split": score.compound_split,
        "join_hyphens": score.join_hyphens,
        "plain": score.plain,
        "source": reads_source(recipe) and f"{data.directory}/raw/{subset}.{data.source}",
    }


def translations(run_dir: str, subset: str) -> str:
    """The path of the output of ``fairseq-generate`` for a subset."""
    return f"{run_dir}/generate/generate-{subset}.txt"


def best_hypotheses(recipe: Recipe, folder: Path, subset: str) -> list[str]:
    """Return the best hypothesis of each sentence of a subset, with subwords joined."""
    return read_generate_output(translations(str(folder), subset)).hypotheses


def by_decoding(
    name: str,
    options: Callable[[Recipe, str, str], dict[str, Any]],
    metrics: Callable[[Recipe], list[str]],
    examples: Optional[Callable[..., tuple[Sequence[str], Examples]]] = None,
    outputs: Callable[[Recipe, Path, str], list[str]] = best_hypotheses,
    provides: Examples = OF_TEXT,
) -> Task:
    """Return a task whose text ``fairseq-generate`` writes and ``ode-transformer score`` scores.

    ``options`` returns those of :func:`.scoring.score_file` for a recipe, the folder of a run and a subset; what
    scores the file then, in ``scoring.KINDS``, computes the metrics that ``metrics`` names without being asked. Without
    ``examples``, these are in the files of the options ``ref`` or ``references``, ``edits``, and ``source``, by default
    ``tok/SUBSET.source`` of the data.
    """

    def in_files(
        recipe: Recipe, lines: Sequence[str], subset: str, folder: Optional[Path]
    ) -> tuple[Sequence[str], Examples]:
        given = options(recipe, "", subset)
        references = [given["ref"]] if "ref" in given else given.get("references", [])
        source = paths.ROOT / (given.get("source") or f"{recipe.data.directory}/tok/{subset}.source")
        return lines, Examples(
            references=[read_all(paths.ROOT / name) for name in references],
            sources=read_all(source) if source.is_file() else (),
            edits=str(paths.ROOT / given["edits"]) if "edits" in given else "",
        )

    def scores(recipe: Recipe, run_dir: str, subset: str) -> Step:
        # The output of fairseq-generate is joined already, even if its words look like subwords.
        joined = {"remove_bpe": "none"} if post_process(recipe) else {}
        about = {**options(recipe, run_dir, subset), **joined, "metric": tuple(further_metrics(recipe))}
        return scoring_step(run_dir, subset, about)

    examples = examples or in_files
    return Task(name, task_flags, decoding_step, scores, metrics, outputs, examples, "generate", provides=provides)


def plain_text(recipe: Recipe, lines: Sequence[str], lang: str) -> list[str]:
    """Return lines as the recipe's sacreBLEU reads them: detokenized, unless they are plain text."""
    from ..text.detokenisation import detokenise

    return list(lines) if recipe.score.plain else detokenise(lines, lang)


def _metrics(recipe: Recipe) -> list[str]:
    if recipe.score.plain:
        return ["sacrebleu"]
    return ["compound_split" if recipe.score.compound_split else "tokenised", "sacrebleu"]


def _outputs(recipe: Recipe, folder: Path, subset: str) -> list[str]:
    return plain_text(recipe, best_hypotheses(recipe, folder, subset), recipe.data.target)


def _examples(
    recipe: Recipe, lines: Sequence[str], subset: str, folder: Optional[Path]
) -> tuple[Sequence[str], Examples]:
    """As for the score, the references are the raw ones or, without these, the tokenized ones, detokenized."""
    data, target = paths.ROOT / recipe.data.directory, recipe.data.target
    beside, source = references_in(data, subset, target), data / "raw" / f"{subset}.{recipe.data.source}"
    printed = read_generate_output(translations(str(folder), subset)) if folder else None
    if "raw" in beside:
        references = read_all(beside["raw"])
    elif "tok" in beside:
        references = plain_text(recipe, read_all(beside["tok"]), target)
    elif printed is None:
        raise OdeTransformerError(f"{data}: must have the references of {subset}; made by: {recipe.data.prepare}")
    else:
        references = plain_text(recipe, printed.references or [], target)
    if len(references) != len(lines):
        raise OdeTransformerError(
            f"{recipe.name} has {counted(len(lines), 'sentence')} of {subset}, {data} has references of "
            f"{len(references)}"
        )
    if source.is_file():
        sources = read_all(source)
    else:
        sources = plain_text(recipe, (printed and printed.sources) or [], recipe.data.source)
    return lines, Examples([references], sources, lang=target, lowercase=recipe.score.lowercase)


TASK = by_decoding("translation", _options, _metrics, _examples, _outputs)
