"""Importing this module sets logging up for warnings: first thing in a process that imports fairseq before it runs any
code of ours, as :func:`ode_transformer.quiet.tidy` does elsewhere."""

import logging

logging.basicConfig(level=logging.WARNING)
