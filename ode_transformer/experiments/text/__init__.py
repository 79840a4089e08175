"""Text for translation, from files of corpora to binarized data and back.

:class:`.preparation.Preparation` is the pipeline, which ``ode-transformer prepare`` and the scripts in ``data-prep``
run; the other files hold its steps. Only what writes binarized data, or segments by GPT-2's units, imports torch and
fairseq, when it is called.
"""
