"""The version of this package, and those of others."""

import contextlib
import importlib.metadata
from collections.abc import Iterable

__version__ = "0.2.0"


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
