"""Text for translation, from files of corpora to binarized data and back.

:class:`.preparation.Preparation` is the pipeline, which ``ode-transformer prepare`` and the scripts in ``data-prep``
run; the other files hold its steps. Nothing here imports torch or fairseq. A step writes only the files that it is told
to write.
"""
