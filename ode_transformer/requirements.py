"""The check of the installed torch and fairseq, at import."""

import importlib

MINIMUM_TORCH = (2, 6)
REMEDY = (
    "install the tested set: pip install torch numpy cython wheel setuptools, then "
    "pip install --no-build-isolation fairseq-fixed==0.12.3.1 (as the Makefile does)"
)


def check_requirements() -> None:
    """Raise ``ImportError`` if the installed torch or fairseq cannot run this package.

    It detects a torch older than 2.6, whose weights-only loading can run code from a checkpoint (CVE-2025-32434); a
    missing or too old fairseq; a *folder* called ``fairseq`` on the path that hides the installed fairseq; and fairseq
    0.12.2 from PyPI, which cannot be imported on Python 3.11 and later.
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
    except ModuleNotFoundError as error:
        raise ImportError(f"ode_transformer needs fairseq: {error}; {REMEDY}") from error
    except Exception as error:
        # fairseq 0.12.2 dies here on Python 3.11+: "mutable default <class ...> for field common".
        raise ImportError(
            f"the installed fairseq cannot be imported ({type(error).__name__}: {error}); {REMEDY}"
        ) from error
    if getattr(fairseq, "__file__", None) is None:
        raise ImportError(
            f"'fairseq' resolves to the folder {list(fairseq.__path__)} rather than to an installed package: "
            "a clone called fairseq/ lies beside the plugin, in the working directory or beside the script, "
            "and hides the installed fairseq. Move it elsewhere or install it with "
            "pip install -e . --config-settings editable_mode=compat"
        )
    if not hasattr(importlib.import_module("fairseq.models.transformer"), "TransformerModelBase"):
        raise ImportError(f"fairseq {fairseq.__version__} is too old; {REMEDY}")
