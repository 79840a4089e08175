"""Transformers as numerical solutions of ordinary differential equations: a fairseq plugin, and experiments with it.

``ode_transformer`` itself is what fairseq loads: numerics, modules, models, the criterion and the optimizers.
``ode_transformer.experiments`` works with models: recipes, text, scores, records, tables, figures.

Importing this package imports neither PyTorch nor fairseq. ``import ode_transformer.models`` registers the
architectures with fairseq, and so does ``--user-dir``, because fairseq imports the folder ``models/`` of a plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import plugins
from .version import __version__

if TYPE_CHECKING:
    from .experiments.serving.translator import Translator

__all__ = ["__version__", "load"]


def load(path: Any, *more: Any, data: Any = None, device: Any = None, user_dir: Any = None) -> "Translator":
    """Return a trained model that translates text: ``load("runs/mine/macaron-tiny").translate(["Guten Morgen."])``.

    Args:
        path: the folder of a run, a checkpoint, a bundle, or an exported model.
        more: further models, for an ensemble; exported models cannot be in one.
        data: the folder of binarized data, with the dictionaries; by default that of the run, or
            the checkpoint's own folder.
        device: ``cpu``, ``cuda`` or ``cuda:1`` and so on; by default a GPU if there is one.
        user_dir: the folder of the plugin that the model was trained with; it is imported, and so runs its code.

    Raises:
        OdeTransformerError: a file is missing, has changed or belongs to another model; the message names it.
    """
    from .quiet import tidy

    with tidy():
        if user_dir is not None:
            plugins.load(user_dir)
        opening = import_module(f"{__name__}.experiments.serving.opening")
        return opening.load(path, *more, data=data, device=device)


class _Folders(list):
    """The package's ``__path__``, which fairseq uses to check whether the plugin has been imported.

    In a process that has imported ``ode_transformer`` already, ``fairseq.utils.import_user_module`` evaluates
    ``user_dir in ode_transformer.__path__``, and takes True to mean that the architectures are registered. This class
    registers them at that point. Python's import system only iterates over the folders.
    """

    def __contains__(self, folder: object) -> bool:
        import_module(f"{__name__}.models")
        return super().__contains__(folder)


__path__ = _Folders(__path__)
