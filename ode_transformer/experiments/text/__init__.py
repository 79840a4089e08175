"""Text for translation, from files of corpora to binarized data: the steps of ``ode-transformer text``.

The scripts in ``data-prep`` and ``ode-transformer prepare`` call the steps. Nothing here imports torch or fairseq. A
step writes only the files that it is told to write. It is a function of the command's arguments, and its
docstring is the command's help.
"""
