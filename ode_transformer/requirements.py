"""The check of the installed torch and fairseq, at import."""

import importlib

MINIMUM_TORCH = (2, 6)
REMEDY = (
    f"pip uninstall fairseq, if it is there; pip install 'torch>={'.'.join(map(str, MINIMUM_TORCH))}' numpy cython "
    "wheel setuptools; then pip install --no-build-isolation fairseq-fixed==0.12.3.1"
)


def check_requirements() -> None:
    """Raise ``ImportError`` if the installed torch or fairseq cannot run this package.

    A torch older than 2.6 can run code from a checkpoint in spite of weights-only loading (CVE-2025-32434). fairseq
    0.12.2 from PyPI cannot be imported on Python 3.11 and later, and a *folder* called ``fairseq`` on the path, such as
    a clone beside the plugin, hides one that was installed with ``pip install -e``.
    """
    torch = importlib.import_module("torch")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        raise ImportError(
            f"ode_transformer needs torch>={'.'.join(map(str, MINIMUM_TORCH))} "
            f"(earlier ones do not load untrusted checkpoints safely), found {torch.__version__}; {REMEDY}"
        )
    try:
        fairseq = importlib.import_module("fairseq")
    except Exception as error:
        raise ImportError(f"fairseq cannot be imported ({type(error).__name__}: {error}); {REMEDY}") from error
    if getattr(fairseq, "__file__", None) is None:
        raise ImportError(
            f"'fairseq' is the folder {list(fairseq.__path__)}, which hides the installed package: move it elsewhere, "
            "or install it with pip install -e . --config-settings editable_mode=compat"
        )
