"""``ode-transformer run``, which ends in a table where several runs were made."""

import argparse

from ..runs.command import add_run

__all__ = ["add_run", "main"]


def main(args: argparse.Namespace) -> None:
    """Run ``ode-transformer run``."""
    found = args.function(args)
    if len(found) > 1:
        from ..results import tables

        print(tables.sweep([(one.recipe, one.folder) for one in found]))
