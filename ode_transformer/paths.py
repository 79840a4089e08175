"""Places of the clone of the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The top of the clone, from which commands of recipes are run."""
