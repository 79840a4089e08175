"""Benchmarks of speed and memory: of training and decoding, also on a GPU, of translators, and of encoders against
sentence length.

``turns`` runs systems in turns, ``systems`` builds and measures them, and ``suite`` defines contests.
``gpu_suite`` runs everything that needs a GPU. The other files have one kind of measurement each, with its table.
"""
