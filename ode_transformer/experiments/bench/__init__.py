"""Speed and memory: of systems in training and decoding, of translators, of encoders against sentence length, and what
a GPU can show.

``turns`` runs systems in turns, ``systems`` says what is measured of them, ``suite`` which contests there are with
which thresholds. ``gpu_suite`` does all that needs a GPU. The other files have one kind of measurement each, with its
table.
"""
