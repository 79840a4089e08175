"""Sphinx configuration: ``make docs`` builds this folder into build/docs, and every warning is an error."""

import logging
import sys
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import generate  # noqa: E402  beside this file

from ode_transformer.version import __version__  # noqa: E402

project, author = "ode_transformer", "the authors of ode_transformer"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "description"
napoleon_google_docstring, napoleon_numpy_docstring = True, False
html_theme = "furo"
html_math_renderer = "mathml"  # which browsers show by themselves, without a script from elsewhere
html_show_copyright = False
html_title = f"ode_transformer {__version__}"
html_extra_path = ["generated/extra"]
linkcheck_timeout = 20

generate.reference(HERE / "generated")
logging.root.setLevel(logging.WARNING)  # fairseq has set it to INFO, for everybody's loggers


def mathml(block: bool):
    """Return the functions for entering and leaving a formula, which stands in a line or by itself."""

    def visit(translator, node) -> None:
        translator.body.append(tex2mathml(node.astext(), as_block=block))
        raise SkipNode

    return visit, None


def setup(app) -> None:
    """Register what writes formulas as MathML."""
    app.add_html_math_renderer("mathml", inline_renderers=mathml(False), block_renderers=mathml(True))
