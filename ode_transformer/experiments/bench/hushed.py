"""Importing this module limits logging to warnings, in a process that imports fairseq before any code of ours can,
as :func:`ode_transformer.quiet.tidy` does elsewhere."""

import logging

logging.basicConfig(level=logging.WARNING)
