"""Translation: ``fairseq-generate`` translates every test set, and the output is scored."""

from collections.abc import Sequence
from pathlib import Path

from .. import recipes
from .task import OURS, Step, Task, flags


def task_flags(recipe: "recipes.Recipe") -> list[str]:
    """The flags of fairseq's task, which other tasks from text to text use too."""
    return ["--task", "translation", "--source-lang", recipe.data.source, "--target-lang", recipe.data.target]


def generation(recipe: "recipes.Recipe", run_dir: str, where: Sequence[str]) -> list[Step]:
    """A step per subset that decodes it."""
    model = f"{run_dir}/average.pt"
    data = [recipe.data.directory, "--user-dir", "ode_transformer", *task_flags(recipe)]
    found = []
    for subset in recipe.subsets:
        command = [
            *("fairseq-generate", *data, "--gen-subset", subset),
            *("--beam", str(recipe.generate.beam), "--lenpen", str(recipe.generate.lenpen)),
            # With its default of 8, fairseq leaves out up to seven sentences at the end (fairseq issue 5036).
            *("--required-batch-size-multiple", "1", *flags(recipe.generate.flags)),
            *("--path", model, "--results-path", f"{run_dir}/generate.part"),
        ]
        its_where = [*where, "--log-format", "simple", "--log-interval", "1"]  # of progress, for the log
        output = translations(run_dir, subset)
        moves = [(f"{run_dir}/generate.part/generate-{subset}.txt", output)]  # fairseq writes as it goes
        log = f"{run_dir}/generate.log"
        found.append(Step("generate", command, [model], [output], subset, its_where, log=log, moves=moves))
    return found


def scoring(recipe: "recipes.Recipe", run_dir: str, subset: str, words: Sequence[str]) -> Step:
    """The step that scores a subset, as words of ``ode-transformer score`` say."""
    output = f"{run_dir}/scores/{subset}.json"
    command = [*OURS, "score", *words, "--output", output]
    return Step("score", command, [translations(run_dir, subset)], [output], subset)


def _evaluation(recipe: "recipes.Recipe", run_dir: str, where: Sequence[str]) -> list[Step]:
    found = generation(recipe, run_dir, where)
    for subset in recipe.subsets:
        words = [
            *("--generate-output", translations(run_dir, subset), "--data", recipe.data.directory, "--subset", subset),
            *("--target-lang", recipe.data.target),
            *(["--lowercase"] if recipe.score.lowercase else []),
            *(["--compound-split"] if recipe.score.compound_split else []),
            *(["--join-hyphens"] if recipe.score.join_hyphens else []),
            *(["--plain"] if recipe.score.plain else []),
        ]
        found.append(scoring(recipe, run_dir, subset, words))
    return found


def translations(run_dir: str, subset: str) -> str:
    """The file that ``fairseq-generate`` leaves of a subset."""
    return f"{run_dir}/generate/generate-{subset}.txt"


def generated(recipe: "recipes.Recipe", folder: Path, subset: str) -> list[str]:
    """The best hypotheses of a subset, in words."""
    from ..metrics.translations import read_generate_output  # which takes longer to import than the rest

    return read_generate_output(translations(str(folder), subset)).hypotheses


def plain_text(recipe: "recipes.Recipe", lines: Sequence[str]) -> list[str]:
    """Lines of the target language as the recipe's sacreBLEU has them: detokenized, unless they are plain text."""
    from ..metrics.translations import detokenise

    return list(lines) if recipe.score.plain else detokenise(lines, recipe.data.target)


def _metrics(recipe: "recipes.Recipe") -> list[str]:
    if recipe.score.plain:
        return ["sacrebleu"]
    return ["compound_split" if recipe.score.compound_split else "tokenised", "sacrebleu"]


def _outputs(recipe: "recipes.Recipe", folder: Path, subset: str) -> list[str]:
    return plain_text(recipe, generated(recipe, folder, subset))


TASK = Task("translation", "generate", task_flags, _evaluation, _metrics, _outputs)
