"""Whether the run in a folder is of a recipe."""

from pathlib import Path
from typing import Any, Optional

from ..recipes import Recipe, is_there
from . import OtherRunError


def check_recipe(run: dict[str, Any], run_dir: str | Path, recipe: Recipe) -> None:
    """Check that a folder's run is one of this recipe, under its name and of its scale.

    Raises:
        OtherRunError: it is of another one.
    """

    def named(name: str, scale: str) -> str:
        return f"{name} --scale small" if scale == "small" else name

    asked = named(recipe.name, recipe.scale)
    trained = named(run["recipe"], run["scale"])
    if trained != asked:
        raise OtherRunError(
            f"{run_dir} holds a run of {trained}, not of {asked}; name the former, or take another --run-dir"
        )


def check_file(run: dict[str, Any], run_dir: str | Path, recipe: Recipe) -> None:
    """Check that the run in a folder named after a recipe is of that recipe's file, not of one of the same name.

    A file that is no longer where it was may have been moved, and is not taken for another.

    Raises:
        OtherRunError: it is of another file.
    """
    if run["given"] != recipe.given and is_there(run["given"]):
        raise OtherRunError(
            f"{run_dir} holds a run of {run['given']}, not of {recipe.given}, which has the same name; rename a file, "
            "or take another --run-dir"
        )


def decoding(recipe: Recipe) -> Optional[dict[str, Any]]:
    """How a recipe decodes, as flags of ``fairseq-generate``; None for a task that does not translate."""
    return recipe.generate and {**recipe.generate.flags, "beam": recipe.generate.beam, "lenpen": recipe.generate.lenpen}
