"""Published data sets of the papers' other tasks, read from the form in which they are published.

Each reader is one file; the command is ``ode-transformer dataset``, which the scripts in ``data-prep`` call. Nothing
here imports torch or fairseq.
"""
