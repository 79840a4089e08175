"""Benchmarks of speed and memory: of training and decoding, also on a GPU, and of encoders against sentence length.

``turns`` runs systems in turns, and ``systems`` builds and measures them.
``gpu_suite`` runs everything that needs a GPU. The other files have one kind of measurement each, with its table.
"""
