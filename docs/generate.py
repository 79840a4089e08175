"""What the documentation takes from the code and from the records: run by ``make docs`` and by ``make tables``.

``reference`` writes the pages on architectures, options, the command line and the Python API from the code, and the
report on all records, each time the documentation is built; they are not kept in git. ``fill`` writes tables of results
from the records into README.md and the pages, between markers; these are kept, so that a forge shows them, and a test
compares them with the records.
"""

import argparse
import contextlib
import io
import os
import pkgutil
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

# Pages written from the code.


def reference(folder: Path) -> None:
    """Write the pages that are made from the code into a folder, and the report on the records below ``extra``."""
    from ode_transformer.experiments import report
    from ode_transformer.files import write_text

    pages = {
        "architectures": architectures(),
        "options": options(),
        "command-line": command_line(),
        "api": api(),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # Sphinx reads again what is newer
            write_text(path, text)
    write_text(folder / "extra" / "report.html", report.page(ROOT / "results"))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def architectures() -> str:
    """The page on architectures: every name with its sizes, parameters and what it stands for."""
    from ode_transformer import models  # noqa: F401  registers them
    from ode_transformer.config import PRESETS, resolve

    by_model: dict[str, list[str]] = {}
    for name, (model, _, _) in PRESETS.items():
        by_model.setdefault(model, []).append(name)
    lines = [
        "# Architectures",
        "",
        "This page is generated from the tables of architectures in the code. Every name is a value of `--arch`; every "
        "option of an architecture can be changed by its flag. *Other options* lists the options in which the "
        "architecture differs from the defaults of its model, sizes and dropout apart. An encoder of *6 x 2* layers "
        "has two blocks of depth 6.",
    ]
    for model, names in by_model.items():
        rows = []
        for name in names:
            _, config_class, preset = PRESETS[name]
            values, default = resolve(preset, config_class), config_class()
            others = [
                f"`{k}={values[k]}`"
                for k in values
                if k in preset
                and values[k] != getattr(default, k, None)
                and not re.search("embed_dim|heads|_layers|dropout|^evolution_(blocks|depth)", k)
            ]
            sides = ["encoder"] * (model != "ode_transformer_lm") + ["decoder"] * (not model.endswith("_encoder"))
            size = " ".join(_sizes(values, side) for side in sides[:1])
            rows.append((f"`{name}`", size, _layers(values, sides), f"{values['dropout']:g}", ", ".join(others)))
        lines += ["", f"## Model `{model}`", ""]
        lines.append(table(("architecture", "d / heads / FFN", "layers", "dropout", "other options"), rows))
    return "\n".join(lines) + "\n"


def _sizes(values: dict[str, Any], side: str) -> str:
    return " / ".join(str(values[f"{side}_{k}"]) for k in ("embed_dim", "attention_heads", "ffn_embed_dim"))


def _layers(values: dict[str, Any], sides: Sequence[str]) -> str:
    if "evolution_depth" in values:
        return " + ".join([f"{values['evolution_depth']} x {values['evolution_blocks']}"] * len(sides))
    return " + ".join(str(values[f"{side}_layers"]) for side in sides)


def options() -> str:
    """The page on the options of our models, from the dataclasses that define them."""
    from enum import Enum

    from ode_transformer import models  # noqa: F401
    from ode_transformer.config import FlatTransformerConfig, switch
    from ode_transformer.models.floater import FloaterConfig
    from ode_transformer.models.language_model import LanguageModelConfig
    from ode_transformer.models.macaron import MacaronConfig
    from ode_transformer.models.ode import OdeConfig
    from ode_transformer.models.transevolve import TransEvolveClassifierConfig, TransEvolveConfig
    from ode_transformer.models.transformer import SplitTransformerConfig

    def rows(config: type, base: type) -> list[tuple[str, ...]]:
        """The options that a configuration adds to another, or gives another default."""
        before = {f.name: f for f in fields(base)}
        found = []
        for f in fields(config):
            if f.name in ("_name", "arch") or (f.name in before and f.default == before[f.name].default):
                continue
            choices = ""
            if isinstance(f.type, type) and issubclass(f.type, Enum):
                choices = ", ".join(f"`{choice.value}`" for choice in f.type)
            flag = switch(f.name, True) if f.type is bool else "--" + f.name.replace("_", "-")
            if f.type is bool:
                choices = f"off: `{switch(f.name, False)}`"
            found.append((f"`{flag}`", choices, f"`{f.default}`", f.metadata.get("help", "")))
        return found

    head = ("option", "values", "default", "meaning")
    parts = [
        ("All families but TransEvolve", rows(SplitTransformerConfig, FlatTransformerConfig)),
        ("TransEvolve", rows(TransEvolveConfig, FlatTransformerConfig)),
        ("TransEvolve for classification, in addition", rows(TransEvolveClassifierConfig, TransEvolveConfig)),
        ("Language models: other defaults, and what is new", rows(LanguageModelConfig, SplitTransformerConfig)),
        ("Macaron Net: other defaults", rows(MacaronConfig, SplitTransformerConfig)),
        ("ODE Transformer: other defaults", rows(OdeConfig, SplitTransformerConfig)),
        ("FLOATER: other defaults", rows(FloaterConfig, SplitTransformerConfig)),
    ]
    lines = [
        "# Options of the models",
        "",
        "This page is generated from the dataclasses that define the options. The models know every flag of fairseq's "
        "Transformer besides, such as `--encoder-layers` or `--share-all-embeddings`, and every switch has a twin that "
        "turns it off. [How the parts combine](../combining.md) explains what goes together.",
    ]
    for title, found in parts:
        lines += ["", f"## {title}", "", table(head, found)]
    return "\n".join(lines) + "\n"


def command_line() -> str:
    """The page on the command line: the help of every command."""
    from ode_transformer.experiments import cli

    lines = [
        "# Command line",
        "",
        "This page is generated from the commands' own help. `python -m ode_transformer` is the same as "
        "`ode-transformer`. The shell scripts print their help with `--help`.",
    ]
    for name in cli.COMMANDS:
        lines += ["", f"## ode-transformer {name}", "", "```text", _help([name]).rstrip(), "```"]
        for action in _actions(name):
            lines += ["", f"### ode-transformer {name} {action}", "", "```text", _help([name, action]).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _help(words: Sequence[str]) -> str:
    from ode_transformer.experiments import cli

    said, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # of argparse, whatever the terminal
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            cli.main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return said.getvalue()


def _actions(name: str) -> list[str]:
    """The sub-commands of a command."""
    from ode_transformer.experiments import cli

    top = cli.parser(name)
    (commands,) = (a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    inner = [a for a in commands.choices[name]._actions if isinstance(a, argparse._SubParsersAction)]
    return [choice for action in inner for choice in action.choices]


def api() -> str:
    """The page on the Python API: every module that a program would import, from its docstrings."""
    import ode_transformer
    from ode_transformer import modules, numerics

    lines = [
        "# Python API",
        "",
        "This page is generated from the docstrings. Shapes: T or S positions, B sentences, C channels. "
        "`ode_transformer.numerics` is plain PyTorch and does not import fairseq.",
    ]
    names = ["models", "standalone", "checkpoints", "warm_start", "criterion", "optim", "config", "errors", "files"]
    packages = [(f"ode_transformer.{name}", None) for name in names]
    found = [("ode_transformer.numerics", numerics), ("ode_transformer.modules", modules)]
    modules_ = [f"{name}.{m.name}" for name, package in found for m in pkgutil.iter_modules(package.__path__)]
    families = [f"ode_transformer.models.{m.name}" for m in pkgutil.iter_modules([str(Path(ode_transformer.__file__).parent / "models")])]
    for name in [*modules_, *families, *(name for name, _ in packages if name != "ode_transformer.models")]:
        lines += ["", f"## `{name}`", "", "```{eval-rst}", f".. automodule:: {name}", "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    reference(DOCS / "generated")
