"""Importing this module limits logging to warnings, in a process that imports fairseq before it calls any code of ours;
elsewhere :func:`ode_transformer.quiet.tidy` does that."""

import logging

logging.basicConfig(level=logging.WARNING)
