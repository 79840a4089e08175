"""What the README and the pages in docs/ say is there, and their commands, flags, links and tables are right."""

import argparse
import functools
import importlib.util
import re
from dataclasses import fields

import pytest
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

from ode_transformer.config import PRESETS, FlatTransformerConfig, flag
from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.tasks import TASKS
from ode_transformer.models import floater, ode
from ode_transformer.modules.attention import RELATIVE_POSITIONS
from ode_transformer.modules.history import HISTORIES
from ode_transformer.modules.options import ODE_FUNCTIONS, ODE_RESIDUALS
from ode_transformer.modules.positions import FLOW_SHARING, POSITION_BLOCKS, POSITION_ENCODERS
from ode_transformer.numerics.coefficients import COEFFICIENTS
from ode_transformer.numerics.flow import FLOW_METHODS
from ode_transformer.numerics.integrators import INTEGRATORS, ButcherTableau
from ode_transformer.numerics.splitting import SPLITTINGS
from tests.experiments.test_arguments import actions
from tests.helpers import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
HISTORY = "changelog.md"  # which names what is gone, too
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name != HISTORY
}
TEXT = "\n".join(PAGES.values())
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

# Flags of pip, git, make, Slurm, torchrun, nbconvert and of fairseq's other programs.
OTHERS = {
    *("--no-build-isolation", "--no-deps", "--nodes", "--gpus-per-node", "--to", "--execute"),
    *("--joined-dictionary", "--srcdict", "--tgtdict", "--num-batch-buckets", "--sentence-bleu", "--sacrebleu"),
    "--inplace",
}


@functools.cache
def generated():
    """docs/generate.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def slug(heading: str) -> str:
    """The anchor of a heading, as forges and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize(
    ("pattern", "is_there", "least"),
    [
        (
            r"`((?:scripts|data-prep|ode_transformer|configs|results|docs|tests)/[\w./-]*)`",
            lambda path: (ROOT / path).exists(),
            50,
        ),
        (
            r"`((?:macaron|rk[24]|ode|transevolve|transformer|floater)_[a-z_0-9]+|rk[24])`",
            lambda name: name in ARCH_MODEL_REGISTRY,
            30,
        ),
        (r"(?:`|^|\s)ode-transformer ([a-z][a-z-]+)", lambda command: command in cli.COMMANDS, 12),
        (r"(?:`|^)make ([\w-]+)", lambda target: re.search(rf"^{target}:", MAKEFILE, re.M), 4),
    ],
    ids=["files", "architectures", "commands", "targets"],
)
def test_what_pages_name_is_there(pattern, is_there, least):
    names = set(re.findall(pattern, TEXT, re.M))
    assert len(names) > least and not [name for name in names if not is_there(name)]


def test_links_lead_somewhere():
    anchors = {
        path: {slug(heading) for heading in re.findall(r"^#+ (.*)", text, re.M)}
        for path, text in (*PAGES.items(), (ROOT / "docs" / HISTORY, ""))
    }
    broken = []
    for path, text in PAGES.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            found = (path.parent / file).resolve() if file else path
            if target.startswith(("https://", "generated/")):
                continue
            if not found.exists() or (anchor and anchor not in anchors[found]):
                broken.append(f"{path.name}: {target}")
    assert not broken


def test_systems_and_choices_are_all_named():
    tables = (
        floater.ARCHITECTURES, ode.SYSTEMS, filter(None, ode.SIZES), INTEGRATORS, SPLITTINGS, COEFFICIENTS,
        ODE_FUNCTIONS, ODE_RESIDUALS, HISTORIES, RELATIVE_POSITIONS, POSITION_ENCODERS, POSITION_BLOCKS, FLOW_SHARING,
        FLOW_METHODS, TASKS,
    )  # fmt: skip
    assert not [name for names in tables for name in names if f"`{name}`" not in TEXT]
    page = (ROOT / "docs" / "data.md").read_text()
    assert not [path.name for path in ROOT.glob("data-prep/prepare-*.sh") if f"`data-prep/{path.name}`" not in page]


def expanded(word: str) -> list[str]:
    """What bash makes of the braces in a word."""
    if not (match := re.search(r"\{([^{}]*)\}", word)):
        return [word]
    parts = [word[: match.start()] + part + word[match.end() :] for part in match[1].split(",")]
    return [one for part in parts for one in expanded(part)]


def test_recipes_are_there():
    names = set(recipes.names())
    groups = sorted(recipes.groups(), key=len, reverse=True)
    named = set(re.findall(rf"(?<!/)\b((?:{'|'.join(groups)})/[a-z][\w-]*)(?![\w{{-])", TEXT))
    assert len(named) > 8 and not named - names - set(groups)
    commands = re.findall(r"ode-transformer (?:run|recipe show|compare) ([^`\n#]*)", TEXT)
    words = [word for command in commands for word in re.split(r" \[?--", command)[0].split() if ".yaml" not in word]
    found = {name for word in words if "/" in word and word[:5] != "runs/" for name in expanded(word)}
    assert len(found) > 50 and found <= names


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    """The flags of a parser and of all its sub-commands."""
    return {flag for action in actions(parser) for flag in action.option_strings}


def test_flags_exist():
    """Every flag that a page names is one of our commands, of a script, of a model, or of fairseq's training."""
    known = OTHERS | flags_of(options.get_training_parser()) | flags_of(options.get_generation_parser())
    known |= set().union(*(flags_of(cli.parser(command)) for command in cli.COMMANDS))
    for family in {family for family, _, _ in PRESETS.values()}:
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        MODEL_REGISTRY[family].add_args(parser)
        known |= flags_of(parser)
    for script in (*ROOT.glob("scripts/**/*.sh"), *ROOT.glob("data-prep/*.sh")):
        known |= set(re.findall(r"--[a-z][\w-]*", script.read_text(encoding="utf-8")))
    # of the optimizers, learning rates and criteria, whose flags fairseq adds once they are chosen
    for tree in map(recipes.group, recipes.groups()):
        parts = (tree, *tree.get("rows", {}).values())
        known |= {f"--{flag}" for part in parts for flag in part.get("train", {}).get("flags", {})}
    known |= {"--flow-lr-scale", "--report-accuracy", "--fp16-adam-stats", "--use-old-adam"}
    unknown = {flag for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", TEXT) if flag not in known}
    assert not unknown


def test_tables_are_those_of_the_records():
    """Otherwise `make tables` was not called after records came or went."""
    generate = generated()
    assert {path.name for path in generate.filled()} >= {"README.md", "results.md", "benchmarks.md"}
    for path in generate.filled():
        text = path.read_text(encoding="utf-8")
        assert generate.fill(text) == text, f"{path.name}: call `make tables`"


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_number_of_rehearsed_rows_is_that_of_the_record(page):
    generate = generated()
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = re.sub("<!-- results: .*?<!-- end of results -->", "", text, flags=re.S)
    altered = prose.replace(generate.rehearsals(), "1 of 2")
    assert altered != prose and generate.fill(altered) == prose


def test_the_readme_is_short_and_leads_to_the_map():
    assert README.count("\n") <= 130 and "docs/design.md#map-of-the-code" in README


def test_citation():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.+)"', (ROOT / "ode_transformer" / "version.py").read_text())[1]
    assert f"\nversion: {version}\n" in text and text.count("conference-paper") == 5


def test_the_integrator_of_the_readme_is_of_third_order():
    code = re.search(r"```python\n(from ode_transformer\.numerics.*?)```", README, re.S)[1]
    (tableau,) = re.findall(r"= (ButcherTableau\(.*\))\n", code)
    assert eval(tableau, {"ButcherTableau": ButcherTableau}).order == 3


def test_the_page_of_options_has_all_of_ours():
    stock = {f.name for f in fields(FlatTransformerConfig.__base__)} | {"arch"}
    ours = {flag(f.name) for _, config, _ in PRESETS.values() for f in fields(config) if f.name not in stock}
    page = generated().options()
    assert len(ours) > 30 and not [name for name in ours if f"`{name}`" not in page]
